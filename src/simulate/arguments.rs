//! Arguments of kernels: the bytes of a workload's values, as the parameters want them.

use std::collections::BTreeMap;

use sim_core::tensor_map::{ALIGN, TensorMap};
use sim_core::texture::Image;
use sim_frontend::diagnostic::Diagnostic;
use sim_frontend::program::ParamInfo;
use sim_frontend::workload::{ArgumentKind, Expr, Number, Params, evaluate, push_element};
use sim_memory::vocabulary::ScalarType;

use super::buffers::Layout;
use crate::hex;

/// What arguments may name.
pub struct Arguments<'r> {
    /// The buffers.
    pub layouts: &'r BTreeMap<String, Layout>,
    /// Device addresses of the buffers.
    pub addresses: &'r BTreeMap<String, u64>,
    /// Buffers that are stored as arrays.
    pub arrays: &'r BTreeMap<String, Image>,
    /// Handles of textures and surfaces.
    pub handles: &'r BTreeMap<String, u64>,
    /// Tensor maps.
    pub maps: &'r BTreeMap<String, TensorMap>,
    /// Addresses of those that lie in global memory.
    pub map_addresses: &'r BTreeMap<String, u64>,
    /// They are those of a workload's file, not of the command line.
    pub from_file: bool,
}

impl Arguments<'_> {
    /// A value as the workload's file would have it, or the command line where there is no file.
    fn written(&self, ty: &str, value: &str) -> String {
        match self.from_file {
            true => format!("{{{ty}: {value}}}"),
            false => format!("--arg {ty}:{value}"),
        }
    }

    /// The bytes of an argument, as many as the parameter has.
    pub fn argument(
        &self,
        argument: &ArgumentKind,
        param: &ParamInfo,
        params: &Params,
    ) -> Result<Vec<u8>, Diagnostic> {
        let error = |message: String| Diagnostic::error("argument", message);
        let (bytes, given) = match argument {
            ArgumentKind::Pointer { buffer, offset } if self.maps.contains_key(buffer) => {
                match self.map_addresses.get(buffer) {
                    Some(address) if is_address(param) && offset.is_none() => {
                        (address.to_le_bytes().to_vec(), format!("the address of tensor map `{buffer}`"))
                    }
                    _ => {
                        let bytes = self.map(buffer, offset.as_ref()).map_err(error)?;
                        if param.ty.is_none() && !u64::from(param.offset).is_multiple_of(ALIGN) {
                            return Err(error(format!(
                                "a tensor map lies at a multiple of {ALIGN}, parameter `{}` at {}",
                                param.name, param.offset
                            ))
                            .help(
                                "declare it `const __grid_constant__ CUtensorMap`, or `.param .align 64`",
                            ));
                        }
                        (bytes, format!("tensor map `{buffer}`"))
                    }
                }
            }
            ArgumentKind::Pointer { buffer, offset } => {
                let mut bytes = self.pointer(buffer, offset.as_ref(), params).map_err(error)?.to_vec();
                // Pointers of programs with .address_size 32.
                bytes.truncate(param.size.clamp(4, 8) as usize);
                if param.ty.is_some_and(|ty| ty.is_float() || ty.bytes() < 4) {
                    let found = error(format!(
                        "the argument is buffer `{buffer}`, but parameter {}",
                        described(param)
                    ));
                    return Err(found.help(format!("give a value: {}", self.written(named(param), "1"))));
                }
                (bytes, format!("the address of `{buffer}`"))
            }
            ArgumentKind::Scalar { ty, values } => {
                let scalar = ScalarType::named(ty)
                    .ok_or_else(|| error(format!("there is no type `{ty}`")).did_you_mean(ty, TYPES))?;
                if let Some(wanted) = param.ty
                    && !fits(scalar, wanted)
                {
                    let found = error(format!("the argument is .{ty}, but parameter {}", described(param)));
                    return Err(found.help(match wanted {
                        _ if wanted.bytes() == 8 && !wanted.is_float() => {
                            format!(
                                "write {}, or {} for a pointer",
                                self.written(wanted.name(), "…"),
                                if self.from_file {
                                    "the name of a buffer"
                                } else {
                                    "--arg buffer:TYPE:LENGTH"
                                }
                            )
                        }
                        _ => format!("write {}", self.written(wanted.name(), "…")),
                    }));
                }
                let mut bytes = Vec::new();
                self.values(scalar, values, params, &mut bytes).map_err(error)?;
                let given = match values.len() {
                    1 => format!("the .{ty} value"),
                    n => format!("the list of {n} .{ty} values"),
                };
                (bytes, given)
            }
            ArgumentKind::Bytes(digits) => (hex::bytes(digits).map_err(error)?, "the argument".to_string()),
            ArgumentKind::Struct(fields) => {
                let mut layout = Fields::default();
                self.fields(fields, params, &mut layout).map_err(error)?;
                let places = layout.places.join(", ");
                (layout.whole(), format!("the struct ({places})"))
            }
        };
        if bytes.len() == param.size as usize {
            return Ok(bytes);
        }
        let found = error(format!("{given} has {} bytes, but parameter {}", bytes.len(), described(param)));
        Err(match argument {
            ArgumentKind::Struct(_) => found.help("fields are aligned as in C: a scalar to its size"),
            _ => found,
        })
    }

    /// The bytes of a tensor map.
    fn map(&self, name: &str, offset: Option<&Expr>) -> Result<Vec<u8>, String> {
        match (self.maps.get(name), offset) {
            (Some(map), None) => Ok(map.encode().to_vec()),
            (Some(_), Some(_)) => Err(format!("`{name}` is a tensor map; it has no elements to begin at")),
            (None, _) => Err(format!("there is no tensor map `{name}`")),
        }
    }

    fn pointer(&self, buffer: &str, offset: Option<&Expr>, params: &Params) -> Result<[u8; 8], String> {
        if let Some(handle) = self.handles.get(buffer) {
            return match offset {
                None => Ok(handle.to_le_bytes()),
                Some(_) => Err(format!("`{buffer}` is a texture or surface; its handle has no offset")),
            };
        }
        if self.arrays.contains_key(buffer) {
            return Err(format!(
                "`{buffer}` is stored as an array, which kernels do not access by address; pass the texture or surface"
            ));
        }
        let (Some(layout), Some(address)) = (self.layouts.get(buffer), self.addresses.get(buffer)) else {
            let known: Vec<&str> = self.layouts.keys().chain(self.maps.keys()).map(String::as_str).collect();
            return Err(format!("there is no buffer `{buffer}`; available: {}", known.join(", ")));
        };
        let elements = match offset {
            Some(offset) => evaluate(offset, params)?,
            None => Number::ZERO,
        };
        let inside = elements.integer().and_then(|value| usize::try_from(value).ok());
        match inside.filter(|elements| *elements <= layout.len) {
            Some(elements) => Ok((address + elements as u64 * u64::from(layout.ty.bytes())).to_le_bytes()),
            None => Err(format!(
                "`{buffer} + {elements}` is out of range: the buffer has {} elements",
                layout.len
            )),
        }
    }

    fn values(
        &self,
        ty: ScalarType,
        values: &[Expr],
        params: &Params,
        bytes: &mut Vec<u8>,
    ) -> Result<(), String> {
        values.iter().try_for_each(|value| push_element(bytes, ty, evaluate(value, params)?))
    }

    /// Lays fields out as C does.
    fn fields(&self, list: &[ArgumentKind], params: &Params, layout: &mut Fields) -> Result<(), String> {
        for field in list {
            match field {
                ArgumentKind::Pointer { buffer, offset } if self.maps.contains_key(buffer) => {
                    layout.push(ALIGN as usize, &self.map(buffer, offset.as_ref())?, buffer);
                }
                ArgumentKind::Pointer { buffer, offset } => {
                    let bytes = self.pointer(buffer, offset.as_ref(), params)?;
                    layout.push(8, &bytes, buffer);
                }
                ArgumentKind::Scalar { ty, values } => {
                    let scalar = ScalarType::named(ty).ok_or_else(|| format!("there is no type `{ty}`"))?;
                    let mut bytes = Vec::new();
                    self.values(scalar, values, params, &mut bytes)?;
                    layout.push(scalar.bytes() as usize, &bytes, ty);
                }
                ArgumentKind::Bytes(digits) => layout.push(1, &hex::bytes(digits)?, "bytes"),
                ArgumentKind::Struct(inner) => {
                    let mut nested = Fields::default();
                    self.fields(inner, params, &mut nested)?;
                    let align = nested.align;
                    layout.push(align, &nested.whole(), "struct");
                }
            }
        }
        Ok(())
    }
}

/// Names of types as arguments have them.
const TYPES: [&str; 17] = [
    "b8", "b16", "b32", "b64", "u8", "u16", "u32", "u64", "s8", "s16", "s32", "s64", "f16", "bf16", "f32",
    "f64", "bytes",
];

/// The bytes of a struct so far.
#[derive(Default)]
struct Fields {
    bytes: Vec<u8>,
    align: usize,
    places: Vec<String>,
}

impl Fields {
    fn push(&mut self, align: usize, bytes: &[u8], name: &str) {
        let align = align.max(1);
        self.align = self.align.max(align);
        self.bytes.resize(self.bytes.len().next_multiple_of(align), 0);
        self.places.push(format!("{name} at {}", self.bytes.len()));
        self.bytes.extend_from_slice(bytes);
    }

    /// All of it, padded to its alignment.
    fn whole(mut self) -> Vec<u8> {
        self.bytes.resize(self.bytes.len().next_multiple_of(self.align.max(1)), 0);
        self.bytes
    }
}

/// A value of a type can be an argument for a parameter of another.
fn fits(given: ScalarType, wanted: ScalarType) -> bool {
    let untyped = given.is_bits() || wanted.is_bits();
    given.bits() == wanted.bits() && (untyped || given.is_float() == wanted.is_float())
}

/// A parameter can hold an address.
pub fn is_address(param: &ParamInfo) -> bool {
    param.ty.is_some_and(|ty| ty.bytes() == 8 && !ty.is_float())
}

/// The type of a parameter as an argument would name it.
fn named(param: &ParamInfo) -> &'static str {
    param.ty.map_or("bytes", ScalarType::name)
}

fn described(param: &ParamInfo) -> String {
    match param.ty {
        Some(ty) => format!("`{}` is .{}", param.name, ty.name()),
        None => format!("`{}` has {} bytes", param.name, param.size),
    }
}

/// Parameters with their types.
pub fn declared(params: &[ParamInfo]) -> String {
    let one = |param: &ParamInfo| match param.ty {
        Some(ty) => format!(".{} {}", ty.name(), param.name),
        None => format!("{} bytes {}", param.size, param.name),
    };
    params.iter().map(one).collect::<Vec<_>>().join(", ")
}

/// Arguments that such parameters could have, as options of the command line: what has the size of an address
/// is taken for one.
pub fn example(params: &[ParamInfo]) -> String {
    let one = |param: &ParamInfo| match param.ty {
        Some(ScalarType::U64 | ScalarType::B64) => "--arg buffer:u32:1024".to_string(),
        Some(ty) => format!("--arg {}:1", ty.name()),
        None => format!("--arg bytes:{}", "00".repeat(param.size.min(64) as usize)),
    };
    params.iter().map(one).collect::<Vec<_>>().join(" ")
}

/// What is missing, or how many there are too many.
pub fn arguments_differ(entry: &str, params: &[ParamInfo], given: usize) -> String {
    let takes = match params {
        [] => format!("{entry} takes no arguments"),
        _ => format!("{entry} takes {} arguments ({}), not {given}", params.len(), declared(params)),
    };
    let names = |params: &[ParamInfo]| -> String {
        params.iter().map(|param| format!("`{}`", param.name)).collect::<Vec<_>>().join(", ")
    };
    match params.get(given..) {
        Some(missing @ [_, ..]) => format!("{takes}: there is none for {}", names(missing)),
        _ => format!("{takes}: {} too many", given - params.len()),
    }
}
