//! A workload made of a PTX file: the launch of one kernel with arguments as the command line has them.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use sim_frontend::diagnostic::Diagnostic;
use sim_frontend::load::{Module, target_of};
use sim_frontend::workload::{
    ArgumentKind, BufferSpec, Expr, HostBuffer, Init, KeySpan, LaunchSpec, Number, Schedule, Step,
    Termination, UndefinedValues, Variant, WorkloadSpec,
};
use sim_memory::vocabulary::ScalarType;

use crate::configs;
use crate::request::Program;
use crate::simulate::arguments::{declared, example};

/// The launch of a kernel of a PTX file, as it is written on the command line.
#[derive(Clone, Debug, Default)]
pub struct PtxLaunch {
    /// The file.
    pub file: PathBuf,
    /// The kernel; the only one of the file where nothing is said.
    pub entry: Option<String>,
    /// `X[,Y[,Z]]` blocks.
    pub grid: Option<String>,
    /// `X[,Y[,Z]]` threads.
    pub block: Option<String>,
    /// Arguments, in order.
    pub args: Vec<String>,
    /// Dynamic shared memory in bytes.
    pub dynamic_shared: u32,
}

impl PtxLaunch {
    /// The workload that launches the kernel once.
    ///
    /// # Errors
    /// What is missing, or is no argument.
    pub fn program(&self) -> Result<Program, Vec<Diagnostic>> {
        let (spec, folder) = workload(self)?;
        Ok(Program::Given { spec: Arc::new(spec), folder, args: self.args.clone() })
    }
}

fn workload(launch: &PtxLaunch) -> Result<(WorkloadSpec, PathBuf), Vec<Diagnostic>> {
    let usage = |message: String| vec![Diagnostic::error("usage", message)];
    // The only kernel of a file needs no name.
    let entry = match &launch.entry {
        Some(entry) => Some(entry.clone()),
        None => only_kernel(&launch.file),
    };
    let given = [("--entry", &entry), ("--grid", &launch.grid), ("--block", &launch.block)];
    let missing: Vec<&str> =
        given.iter().filter(|(_, value)| value.is_none()).map(|(name, _)| *name).collect();
    let Some(entry) = entry.clone().filter(|_| missing.is_empty()) else {
        let kernels = kernels(&launch.file)?;
        let message = format!("a .ptx file requires {}", missing.join(", "));
        return Err(vec![Diagnostic::error("usage", message).help(kernels)]);
    };
    let size = |text: &Option<String>, what: &str| -> Result<Vec<Expr>, Vec<Diagnostic>> {
        let text = text.as_deref().ok_or_else(|| usage(format!("a .ptx file requires {what}")))?;
        let parts: Result<Vec<u32>, _> = text.split(',').map(|p| p.trim().parse::<u32>()).collect();
        match parts {
            Ok(parts) if parts.len() <= 3 => Ok(parts.into_iter().map(|n| Expr::Number(n.into())).collect()),
            _ => Err(usage(format!("{what} takes one to three numbers, not `{text}`"))),
        }
    };
    let mut buffers = BTreeMap::new();
    let mut list = Vec::new();
    for (i, text) in launch.args.iter().enumerate() {
        let kind = argument(i, text, &mut buffers).map_err(|reason| {
            vec![Diagnostic::error("usage", format!("--arg {text}: {reason}")).help(ARGUMENTS)]
        })?;
        list.push(kind.into());
    }
    let path = &launch.file;
    let file = path.file_name().map_or_else(String::new, |n| n.to_string_lossy().into_owned());
    let spec = WorkloadSpec {
        schema: 1,
        name: file.clone(),
        description: String::new(),
        schedule: Schedule::Dependent,
        reason: Some("nothing is known of it".into()),
        intended_races: None,
        termination: Termination::default(),
        undefined_values: UndefinedValues::default(),
        params: BTreeMap::new(),
        variants: vec![Variant {
            name: "file".into(),
            file,
            compiler: String::new(),
            // What is not readable is said when the program is loaded.
            target: configs::read(path)
                .ok()
                .and_then(|source| target_of(&source).map(|(word, _)| word.to_string()))
                .unwrap_or_default(),
        }],
        buffers,
        textures: Default::default(),
        surfaces: Default::default(),
        tensor_maps: Default::default(),
        variables: BTreeMap::new(),
        l2: None,
        launches: vec![Step::Launch(LaunchSpec {
            entry,
            grid: size(&launch.grid, "--grid")?,
            block: size(&launch.block, "--block")?,
            dynamic_shared: Some(Expr::Number(launch.dynamic_shared.into())),
            cluster: Vec::new(),
            non_portable_cluster: false,
            stream: 0,
            args: list,
            place: KeySpan::default(),
        })],
        expect: Vec::new(),
        source: None,
    };
    let folder = path
        .parent()
        .filter(|p| !p.as_os_str().is_empty())
        .map_or_else(|| PathBuf::from("."), Path::to_path_buf);
    Ok((spec, folder))
}

/// The kernel of a PTX file, where it has one only; what is wrong with a file is said later.
fn only_kernel(file: &Path) -> Option<String> {
    let module = Module::build(&configs::read(file).ok()?, false).ok()?;
    let mut entries = module.entries();
    let only = entries.next()?.to_string();
    entries.next().is_none().then_some(only)
}

/// The kernels of a PTX file with what they take, and how the first is run.
fn kernels(file: &Path) -> Result<String, Vec<Diagnostic>> {
    const MOST: usize = 8;
    let source = configs::read(file).map_err(|error| vec![error])?;
    let module = Module::build(&source, false)?;
    let params = |entry: &str| module.params(entry).map_or_else(Vec::new, |(params, _)| params);
    let mut list: Vec<String> =
        module.entries().take(MOST).map(|entry| format!("{entry}({})", declared(&params(entry)))).collect();
    let Some(first) = module.entries().next() else { return Ok("the file has no kernel".into()) };
    let more = module.entries().count() - list.len();
    if more > 0 {
        list.push(format!("and {more} more"));
    }
    let example = example(&params(first));
    Ok(format!(
        "its kernels: {}; for example: --entry {first} --grid 1 --block 32 {example}",
        list.join(", ")
    ))
}

/// What `--arg` takes.
const ARGUMENTS: &str = "an argument is TYPE:VALUE, bytes:DIGITS, argN[+ELEMENTS] (the buffer of an earlier one), or \
                         buffer:TYPE:LENGTH[:zeros|iota|random[:MIN:MAX]|@FILE]; a struct that holds a pointer \
                         needs a workload file, with `{struct: [fields]}` (`warpsim docs reference/workload`)";

/// An argument of the command line, the `i`-th; a new buffer is added to `buffers`.
fn argument(
    i: usize,
    text: &str,
    buffers: &mut BTreeMap<String, BufferSpec>,
) -> Result<ArgumentKind, String> {
    let scalar = |ty: &str| ScalarType::named(ty).ok_or_else(|| format!("there is no type `{ty}`"));
    let Some((first, rest)) = text.split_once(':') else {
        let ArgumentKind::Pointer { buffer, offset } = ArgumentKind::pointer(text) else {
            return Err("this is not an argument".into());
        };
        let known = buffers.contains_key(&buffer);
        return match known {
            true => Ok(ArgumentKind::Pointer { buffer, offset }),
            false => Err(format!("there is no earlier buffer `{buffer}`")),
        };
    };
    if first == "bytes" {
        return Ok(ArgumentKind::Bytes(rest.to_string()));
    }
    if first != "buffer" {
        let value = match scalar(first)? {
            ty if ty.is_float() => float(first, rest)?,
            _ => Expr::Text(rest.to_string()),
        };
        let values = vec![value];
        return Ok(ArgumentKind::Scalar { ty: first.to_string(), values });
    }
    let mut parts = rest.splitn(3, ':');
    let (Some(ty), Some(length)) = (parts.next(), parts.next()) else {
        return Err("a buffer needs a type and a length".into());
    };
    let ty = scalar(ty)?;
    HostBuffer::holds(ty)?;
    let init = match parts.next() {
        None | Some("zeros") => Init::Zeros,
        Some("iota") => Init::Iota,
        Some(how) => match (how.strip_prefix('@'), how.strip_prefix("random")) {
            (Some(file), _) => {
                // Beside the working directory, not beside the program.
                let path = std::path::absolute(file).map_err(|error| format!("{file}: {error}"))?;
                Init::File(path.display().to_string())
            }
            (None, Some(bounds)) => random(i, ty, bounds)?,
            (None, None) => return Err(format!("`{how}` is not zeros, iota, random or @FILE")),
        },
    };
    let name = format!("arg{i}");
    let length = Expr::Text(length.to_string());
    let (length_place, init_place) = (KeySpan::default(), KeySpan::default());
    buffers.insert(name.clone(), BufferSpec { ty, length, init, at: None, length_place, init_place });
    Ok(ArgumentKind::pointer(&name))
}

/// A value of a floating-point type; the bits of f32 and f64 are written as in PTX, `0f…` and `0d…`.
fn float(ty: &str, text: &str) -> Result<Expr, String> {
    let (negative, digits) = match text.trim().strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text.trim()),
    };
    let after = |letters: [&str; 2]| letters.iter().find_map(|prefix| digits.strip_prefix(prefix));
    let (prefix, bits, length) = match ty {
        "f32" => ("0f", after(["0f", "0F"]), 8),
        "f64" => ("0d", after(["0d", "0D"]), 16),
        _ => return Ok(Expr::Text(text.to_string())),
    };
    if let Some(digits) = after(["0x", "0X"]) {
        return Err(format!(
            "`0x{digits}` is ambiguous for {ty}; write {prefix}{digits:0>length$} for a bit pattern, or a decimal number"
        ));
    }
    let Some(bits) = bits else { return Ok(Expr::Text(text.to_string())) };
    let parsed =
        u64::from_str_radix(bits, 16).ok().filter(|_| bits.len() == length && !bits.starts_with('+'));
    let value = match (parsed, ty) {
        (Some(bits), "f32") => u32::try_from(bits).ok().map(|bits| f64::from(f32::from_bits(bits))),
        (Some(bits), _) => Some(f64::from_bits(bits)),
        (None, _) => None,
    };
    let value = value.ok_or_else(|| {
        format!("`{text}` is not a literal of {ty}; expected {prefix} and {length} hexadecimal digits")
    })?;
    if value.is_nan() {
        return Err(format!("`{text}` is a NaN, whose bits are not kept; write bytes:DIGITS to keep them"));
    }
    Ok(Expr::Number(Number::from(if negative { -value } else { value })))
}

/// Random contents with bounds `:MIN:MAX`; without them from 0 to 1, or every value of an integer type.
fn random(i: usize, ty: ScalarType, bounds: &str) -> Result<Init, String> {
    let (min, max) = match bounds.strip_prefix(':') {
        Some(bounds) => {
            let (min, max) = bounds.split_once(':').ok_or("random takes both bounds, random:MIN:MAX")?;
            (Number::parse(min)?, Number::parse(max)?)
        }
        None if !bounds.is_empty() => return Err(format!("`random{bounds}` is not random:MIN:MAX")),
        None if ty.is_float() => (Number::Int(0), Number::Int(1)),
        None if ty.is_signed() => {
            (Number::Int(-(1 << (ty.bits() - 1))), Number::Int((1 << (ty.bits() - 1)) - 1))
        }
        None => (Number::Int(0), Number::Int((1 << ty.bits().min(64)) - 1)),
    };
    if min > max || !min.is_finite() || !max.is_finite() {
        return Err(format!("{min} to {max} is not a range: MIN exceeds MAX, or a bound is not finite"));
    }
    // Every argument has a seed of its own.
    Ok(Init::Random { seed: i as u64 + 1, min, max })
}
