//! Tensor maps of a workload: what its file says of them, over the buffers of the device.

use std::collections::BTreeMap;

use sim_core::error::SimError;
use sim_core::tensor_map::{AlongW, Atom, Im2col, TYPES, TensorMap, Wrong};
use sim_frontend::diagnostic::Diagnostic;
use sim_frontend::workload::{
    AlongW as WideSpec, Expr, KeySpan, SwizzleAtom, TensorFill, TensorMapSpec, evaluate,
};
use sim_memory::vocabulary::ScalarType;

use super::buffers::Layout;
use super::job::{Job, placed, wrong};

/// What is wrong so far with the maps of a file.
struct Reader<'j> {
    job: &'j Job,
    name: &'j str,
    spec: &'j TensorMapSpec,
    errors: Vec<Diagnostic>,
}

impl Reader<'_> {
    fn wrong(&mut self, key: &str, message: impl Into<String>) {
        let error = Diagnostic::error("tensor_map", format!("`{}`: {}", self.name, message.into()));
        self.place(self.spec.place_of(key), error);
    }

    fn place(&mut self, place: KeySpan, error: Diagnostic) {
        let error = placed(SimError::Input(vec![error]), place, self.job.spec.source.as_ref());
        if let SimError::Input(errors) = error {
            self.errors.extend(errors);
        }
    }

    fn number<T: TryFrom<i128> + Default>(&mut self, key: &str, expr: &Expr) -> T {
        let value = evaluate(expr, &self.job.params);
        let found = match &value {
            Ok(value) => value.integer().and_then(|value| T::try_from(value).ok()),
            Err(_) => None,
        };
        match (found, value) {
            (Some(number), _) => return number,
            (None, Ok(value)) => {
                let bits = 8 * size_of::<T>();
                self.wrong(key, format!("{key}: {value} is not an integer from 0 to 2^{bits} - 1"));
            }
            (None, Err(reason)) => self.wrong(key, format!("{key}: {reason}")),
        }
        T::default()
    }

    fn numbers<T: TryFrom<i128> + Default>(&mut self, key: &str, list: &[Expr]) -> Vec<T> {
        list.iter().map(|expr| self.number(key, expr)).collect()
    }

    /// The number of the type of the elements.
    fn data_type(&mut self, buffer: ScalarType) -> u8 {
        let named = self.spec.ty.clone().unwrap_or_else(|| buffer.name().to_string());
        let Some(number) = TYPES.iter().position(|(name, _)| *name == named) else {
            let names: Vec<&str> = TYPES.iter().map(|(name, _)| *name).collect();
            let message = format!("`{}`: tensors have no elements of type `{named}`", self.name);
            let error = Diagnostic::error("tensor_map", message).help(format!("types: {}", names.join(", ")));
            self.place(self.spec.place_of("type"), error);
            return 0;
        };
        number as u8
    }

    fn map(&mut self, layout: Layout, address: u64) -> TensorMap {
        let spec = self.spec;
        let mut map = TensorMap { data_type: self.data_type(layout.ty), ..TensorMap::default() };
        let offset = spec.offset.as_ref().map_or(0, |offset| self.number::<u64>("offset", offset));
        map.address = address.wrapping_add(offset.wrapping_mul(layout.ty.bytes().into()));
        map.sizes = self.numbers("dims", &spec.dims);
        map.interleave = spec.interleave;
        map.strides = match &spec.strides {
            Some(strides) => self.numbers("strides", strides),
            None => packed(&map),
        };
        map.box_sizes = self.numbers("box", &spec.box_sizes);
        map.im2col = spec.im2col.as_ref().map(|columns| Im2col {
            lower: columns.lower.clone(),
            upper: columns.upper.clone(),
            channels: self.number("im2col", &columns.channels),
            pixels: self.number("im2col", &columns.pixels),
            along_w: columns.wide.map(|wide| match wide {
                WideSpec::Column => AlongW::Column,
                WideSpec::By32 => AlongW::By32,
            }),
        });
        map.element_strides = match &spec.element_strides {
            Some(strides) => self.numbers("element_strides", strides),
            None => vec![1; map.sizes.len()],
        };
        (map.swizzle, map.promotion) = (spec.swizzle, spec.l2_promotion);
        map.atom = match spec.swizzle_atom {
            SwizzleAtom::B16 => Atom::B16,
            SwizzleAtom::B32 => Atom::B32,
            SwizzleAtom::B32Flip8 => Atom::B32Flip8,
            SwizzleAtom::B64 => Atom::B64,
        };
        map.nan = spec.fill == TensorFill::Nan;
        if self.errors.is_empty() {
            for Wrong { part, reason } in map.check() {
                self.wrong(part.name(), reason);
            }
        }
        if self.errors.is_empty() {
            self.fits(&map, layout, offset);
        }
        map
    }

    /// The tensor does not go beyond its buffer.
    fn fits(&mut self, map: &TensorMap, layout: Layout, offset: u64) {
        let rows = map.sizes[1..].iter().zip(&map.strides);
        let far = rows.map(|(size, stride)| u128::from(*size - 1) * u128::from(*stride)).sum::<u128>();
        let row = match map.interleave {
            0 => u128::from(map.sizes[0]) * u128::from(map.element().bytes()),
            slice => {
                let last = u128::from(map.slices(map.sizes[0]) - 1);
                last * u128::from(map.slice_stride()) + u128::from(slice)
            }
        };
        let needed = u128::from(offset) * u128::from(layout.ty.bytes()) + far + row;
        let bytes = layout.bytes();
        if needed > bytes as u128 {
            let buffer = &self.spec.buffer;
            self.wrong("dims", format!("the tensor needs {needed} bytes, but buffer `{buffer}` has {bytes}"));
        }
    }
}

/// The strides of a tensor whose elements, or slices of channels, lie one after another.
fn packed(map: &TensorMap) -> Vec<u64> {
    let interleaved = map.interleave != 0;
    let (mut bytes, mut out) = (u64::from(map.element().bytes()), Vec::new());
    let axes = map.sizes.len().saturating_sub(1);
    for (axis, size) in map.sizes.iter().take(axes).enumerate() {
        bytes = match interleaved && axis == 0 {
            true => map.interleave.into(),
            false => bytes.saturating_mul((*size).into()),
        };
        // An image has all slices.
        if interleaved && axis + 1 == axes {
            bytes = bytes.saturating_mul(map.slices(map.sizes[0]).into());
        }
        out.push(bytes);
    }
    out
}

/// The maps of a workload by name.
///
/// # Errors
/// Everything that is wrong with them.
pub fn maps(
    job: &Job,
    buffer: &dyn Fn(&str) -> Option<(Layout, u64)>,
) -> Result<BTreeMap<String, TensorMap>, SimError> {
    let (mut out, mut errors) = (BTreeMap::new(), Vec::new());
    for (name, spec) in &job.spec.tensor_maps {
        if job.images().any(|image| image.buffer == spec.buffer) {
            let message = format!("`{name}`: buffer `{}` has a texture or surface", spec.buffer);
            return Err(placed(wrong(message), spec.place, job.spec.source.as_ref()));
        }
        let Some((layout, address)) = buffer(&spec.buffer) else { continue };
        let mut reader = Reader { job, name, spec, errors: Vec::new() };
        let map = reader.map(layout, address);
        errors.extend(reader.errors);
        out.insert(name.clone(), map);
    }
    if errors.is_empty() { Ok(out) } else { Err(SimError::Input(errors)) }
}
