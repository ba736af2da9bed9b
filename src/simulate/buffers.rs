//! Buffers: their first contents, by what the workload says.

use sim_core::error::SimError;
use sim_frontend::diagnostic::Diagnostic;
use sim_frontend::workload::{
    BufferSpec, Expr, HostBuffer, Init, KeySpan, Number, SplitMix64, VariableSpec, push_element,
};
use sim_memory::vocabulary::ScalarType;

use super::job::{Job, placed, whole, wrong};
use crate::files;
use crate::hex;
use crate::memory;
use crate::npy;
use crate::reference::{self, Inputs, ReferenceError};
use crate::zstd;

/// Type and length of a buffer.
#[derive(Clone, Copy, Debug)]
pub struct Layout {
    /// Type of an element.
    pub ty: ScalarType,
    /// Number of elements.
    pub len: usize,
}

impl Layout {
    /// Size in bytes.
    pub fn bytes(self) -> usize {
        self.len * self.ty.bytes() as usize
    }
}

/// The first contents of a buffer.
pub fn initial(job: &Job, name: &str) -> Result<HostBuffer, SimError> {
    let Some(spec) = job.spec.buffers.get(name) else {
        return Err(wrong(format!("there is no buffer `{name}`")));
    };
    let source = job.spec.source.as_ref();
    let length = whole(&spec.length, &job.params, &format!("length of `{name}`"))
        .map_err(|error| placed(error, spec.length_place, source))? as usize;
    contents(job, name, spec, length).map_err(|error| placed(error, spec.init_place, source))
}

fn contents(job: &Job, name: &str, spec: &BufferSpec, length: usize) -> Result<HostBuffer, SimError> {
    let ty = spec.ty;
    let bytes = length as u64 * u64::from(ty.bytes());
    let too_large = || {
        let message = format!(
            "`{name}` has {length} elements of .{}, {bytes} bytes; the host has {} bytes left for the run: fewer \
             elements, or a greater --max-memory",
            ty.name(),
            memory::left()
        );
        SimError::Input(vec![Diagnostic::error(memory::TOO_LITTLE, message)])
    };
    if bytes > memory::left() {
        return Err(too_large());
    }
    let mut buffer = HostBuffer::zeros(ty, length).ok_or_else(too_large)?;
    let fill = |bytes: &mut Vec<u8>, value: &mut dyn FnMut(usize) -> Result<Number, String>| {
        bytes.clear();
        (0..length)
            .try_for_each(|i| push_element(bytes, ty, value(i)?).map_err(|reason| format!("[{i}]: {reason}")))
            .map_err(|reason| wrong(format!("`{name}`{reason}")))
    };
    let put = |buffer: &mut HostBuffer, bytes: &[u8]| {
        if bytes.len() > buffer.bytes.len() {
            return Err(wrong(format!(
                "`{name}` has {} bytes, its contents {}",
                buffer.bytes.len(),
                bytes.len()
            )));
        }
        buffer.bytes[..bytes.len()].copy_from_slice(bytes);
        Ok(())
    };
    match &spec.init {
        Init::Zeros => {}
        Init::Iota => fill(&mut buffer.bytes, &mut |i| Ok(Number::from(i as u64)))?,
        Init::Random { seed, min, max } => {
            // Odd multiples of the golden ratio keep streams of neighbouring seeds apart.
            let mut generator = SplitMix64(seed.wrapping_add(job.seed.wrapping_mul(0x9e37_79b9_7f4a_7c15)));
            fill(&mut buffer.bytes, &mut |_| generator.next_value(ty, *min, *max))?;
        }
        Init::Formula { modulo, scale, offset } => {
            let modulo = (*modulo).max(1);
            match (scale.integer(), offset.integer()) {
                (Some(scale), Some(offset)) if !ty.is_float() => fill(&mut buffer.bytes, &mut |i| {
                    let step = i128::from(i as u64 % modulo);
                    let value = step.checked_mul(scale).and_then(|value| value.checked_add(offset));
                    Ok(Number::Int(value.ok_or("the value exceeds 127 bits")?))
                })?,
                _ => {
                    let (scale, offset) = (scale.as_f64(), offset.as_f64());
                    fill(&mut buffer.bytes, &mut |i| {
                        Ok(Number::Real((i as u64 % modulo) as f64 * scale + offset))
                    })?;
                }
            }
        }
        Init::Values(values) => {
            let mut bytes = Vec::new();
            values.iter().try_for_each(|value| push_element(&mut bytes, ty, *value)).map_err(wrong)?;
            put(&mut buffer, &bytes)?;
        }
        Init::Hex(digits) => put(&mut buffer, &hex::bytes(digits).map_err(wrong)?)?,
        Init::File(file) => buffer.bytes = data_file(job, file, name, ty, length)?,
        Init::Reference(function) => {
            // In the order of names, so that none needs itself.
            let made = call(job, function, |other| other < name)?;
            if made.ty != ty {
                return Err(wrong(format!(
                    "`{function}` produces .{} elements, but the element type of `{name}` is .{}",
                    made.ty.name(),
                    ty.name()
                )));
            }
            put(&mut buffer, &made.bytes)?;
        }
    }
    Ok(buffer)
}

/// The bytes of a file of the workload, decompressed where its name says that they are compressed.
pub fn file_bytes(job: &Job, file: &str) -> Result<Vec<u8>, SimError> {
    let path = job.folder.join(file);
    let shown = path.display();
    // Contents in .npy files have a header besides; `initial` holds them to the buffer's size.
    let bytes = files::read(&path, memory::left() / 2)
        .map_err(|error| wrong(format!("{shown} cannot be read: {}", files::reason(&error))))?;
    match path.extension().is_some_and(|extension| extension == "zst") {
        true => zstd::decompress(&bytes, memory::left() / 2).map_err(|why| wrong(format!("{shown}: {why}"))),
        false => Ok(bytes),
    }
}

/// The first contents of a variable of the program, where the workload says any.
pub fn of_variable(
    job: &Job,
    name: &str,
    spec: &VariableSpec,
    length: usize,
) -> Result<Option<Vec<u8>>, SimError> {
    let Some(init) = spec.init.clone() else { return Ok(None) };
    let bytes = BufferSpec {
        ty: ScalarType::U8,
        length: Expr::Number((length as u64).into()),
        init,
        at: None,
        length_place: KeySpan::default(),
        init_place: spec.init_place,
    };
    let contents = contents(job, name, &bytes, length);
    let contents = contents.map_err(|error| placed(error, spec.init_place, job.spec.source.as_ref()))?;
    Ok(Some(contents.bytes))
}

/// The whole contents of a buffer from a `.npy` file, or from the bytes of any other.
pub fn data_file(
    job: &Job,
    file: &str,
    name: &str,
    ty: ScalarType,
    length: usize,
) -> Result<Vec<u8>, SimError> {
    let path = job.folder.join(file);
    let shown = path.display();
    let bytes = file_bytes(job, file)?;
    let data = match npy::elements(&bytes, ty) {
        Some(found) => found.map_err(|reason| wrong(format!("{shown}: {reason}")))?.to_vec(),
        None => bytes,
    };
    let wanted = length * ty.bytes() as usize;
    if data.len() == wanted {
        return Ok(data);
    }
    let message = format!(
        "{shown} has {} bytes, `{name}` has {wanted}: {length} elements of .{}",
        data.len(),
        ty.name()
    );
    let has = data.len() / (ty.bytes() as usize).max(1);
    let help =
        format!("a file has the whole contents: make the buffer {has} elements long, or the file longer");
    Err(SimError::Input(vec![Diagnostic::error("workload", message).help(help)]))
}

/// Calls a reference that may read the buffers `may` admits.
pub fn call(job: &Job, name: &str, may: impl Fn(&str) -> bool) -> Result<HostBuffer, SimError> {
    let Some(function) = reference::find(name) else {
        let known: Vec<&str> = reference::names().collect();
        return Err(wrong(format!("there is no reference `{name}`; available: {}", known.join(", "))));
    };
    let buffers = |buffer: &str| {
        if !may(buffer) || !job.spec.buffers.contains_key(buffer) {
            return Err(ReferenceError(format!("no buffer `{buffer}`")));
        }
        initial(job, buffer).map_err(|error| ReferenceError(error.to_string()))
    };
    let inputs = Inputs { buffers: &buffers, params: &job.params };
    function(&inputs).map_err(|error| wrong(format!("reference `{name}`: {error}")))
}
