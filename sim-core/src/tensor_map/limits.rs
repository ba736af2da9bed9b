//! What `cuTensorMapEncodeTiled` and `cuTensorMapEncodeIm2col` refuse (CUDA driver API "Tensor Map Object Management").

use std::fmt;

use super::map::{Atom, DIMENSIONS, TYPES, TensorMap};

/// A part of a map, as workload files name it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Part {
    /// Type of the elements.
    Type,
    /// Address of the tensor.
    Address,
    /// Sizes of the tensor.
    Dims,
    /// Its strides.
    Strides,
    /// Sizes of the box.
    Box,
    /// Strides of elements.
    ElementStrides,
    /// Slices of channels.
    Interleave,
    /// Permutation in shared memory.
    Swizzle,
    /// The chunks that are permuted.
    Atom,
    /// Bytes that L2 fetches.
    Promotion,
    /// What lies beyond the tensor.
    Fill,
    /// Corners of the bounding box, channels and pixels of im2col mode.
    Im2col,
}

impl Part {
    /// The field of `tensormap.replace`, or what else the bytes of a map have.
    fn field(self) -> &'static str {
        match self {
            Self::Type => "elemtype",
            Self::Address => "global_address",
            Self::Dims => "global_dim",
            Self::Strides => "global_stride",
            Self::Box => "box_dim",
            Self::ElementStrides => "element_stride",
            Self::Interleave => "interleave_layout",
            Self::Swizzle => "swizzle_mode",
            Self::Atom => "swizzle_atomicity",
            Self::Promotion => "L2 promotion",
            Self::Fill => "fill_mode",
            Self::Im2col => "im2col",
        }
    }

    /// Its key in workload files.
    pub fn name(self) -> &'static str {
        match self {
            Self::Type => "type",
            Self::Address => "offset",
            Self::Dims => "dims",
            Self::Strides => "strides",
            Self::Box => "box",
            Self::ElementStrides => "element_strides",
            Self::Interleave => "interleave",
            Self::Swizzle => "swizzle",
            Self::Atom => "swizzle_atom",
            Self::Promotion => "l2_promotion",
            Self::Fill => "fill",
            Self::Im2col => "im2col",
        }
    }
}

/// A limit that a map exceeds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wrong {
    /// Which part of the map does.
    pub part: Part,
    /// Why.
    pub reason: String,
}

impl Wrong {
    /// The reason behind the name of the field of `tensormap.replace`.
    pub(super) fn of_field(&self) -> String {
        format!("{}: {}", self.part.field(), self.reason)
    }
}

impl fmt::Display for Wrong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.reason)
    }
}

/// What was found.
struct Found(Vec<Wrong>);

impl Found {
    fn hold(&mut self, part: Part, holds: bool, reason: impl FnOnce() -> String) -> bool {
        if !holds {
            self.0.push(Wrong { part, reason: reason() });
        }
        holds
    }

    /// Every number of a list is within a range.
    fn each(&mut self, part: Part, what: &str, list: &[u32], most: u32) {
        if let Some(number) = list.iter().find(|number| !(1..=most).contains(*number)) {
            self.0.push(Wrong { part, reason: format!("{what} is 1 to {most}, not {number}") });
        }
    }
}

impl TensorMap {
    /// Everything that is wrong with it, in the order of the parameters.
    pub fn check(&self) -> Vec<Wrong> {
        let mut found = Found(Vec::new());
        let rank = self.sizes.len();
        found.hold(Part::Type, usize::from(self.data_type) < TYPES.len(), || {
            format!("there is no type of elements {}", self.data_type)
        });
        let interleaved = self.interleave != 0;
        let least = if interleaved || self.im2col.is_some() { 3 } else { 1 };
        let has_rank = found.hold(Part::Dims, (least..=DIMENSIONS).contains(&rank), || {
            let which = match (&self.im2col, interleaved) {
                (Some(_), _) => "a tensor in im2col mode",
                (None, true) => "an interleaved tensor",
                (None, false) => "a tensor",
            };
            format!("{which} has {least} to 5 dimensions, not {rank}")
        });
        let of_dimension = [
            (Part::Strides, "strides", self.strides.len() + 1, "one less than dimensions"),
            (Part::ElementStrides, "strides of elements", self.element_strides.len(), "one a dimension"),
        ];
        let mut counted = has_rank;
        for (part, what, count, wanted) in of_dimension {
            counted &= found.hold(part, count == rank, || {
                let given = if part == Part::Strides { count - 1 } else { count };
                format!("a tensor of {rank} dimensions has {wanted} of {what}, not {given}")
            });
        }
        let unit: u64 = if self.interleave == 32 { 32 } else { 16 };
        found.hold(Part::Address, self.address.is_multiple_of(unit), || {
            format!("the address {:#x} of the tensor is no multiple of {unit}", self.address)
        });
        found.each(Part::Dims, "a size of the tensor", &self.sizes, 1 << 31);
        if let Some(stride) =
            self.strides.iter().find(|stride| !stride.is_multiple_of(unit) || **stride >= 1 << 40)
        {
            found.hold(Part::Strides, false, || {
                format!("a stride of {stride} bytes is no multiple of {unit} below 2^40")
            });
        }
        match &self.im2col {
            None => {
                counted &= found.hold(Part::Box, self.box_sizes.len() == rank, || {
                    let given = self.box_sizes.len();
                    format!(
                        "a tensor of {rank} dimensions has one a dimension of sizes of the box, not {given}"
                    )
                });
                found.each(Part::Box, "a size of the box", &self.box_sizes, 256);
            }
            Some(_) => self.check_columns(&mut found),
        }
        found.each(Part::ElementStrides, "a stride of elements", &self.element_strides, 8);
        found.hold(Part::Interleave, matches!(self.interleave, 0 | 16 | 32), || {
            format!("there is no interleave of {} bytes", self.interleave)
        });
        found.hold(Part::Swizzle, matches!(self.swizzle, 0 | 32 | 64 | 128), || {
            format!("there is no swizzle of {} bytes", self.swizzle)
        });
        found.hold(Part::Swizzle, self.interleave != 32 || self.swizzle == 32, || {
            format!("an interleave of 32 bytes needs a swizzle of 32 bytes, not {}", self.swizzle)
        });
        found.hold(Part::Atom, self.atom == Atom::B16 || self.swizzle == 128, || {
            format!(
                "only a swizzle of 128 bytes has other chunks than those of 16, not one of {}",
                self.swizzle
            )
        });
        found.hold(Part::Promotion, matches!(self.promotion, 0 | 64 | 128 | 256), || {
            format!("L2 fetches 64, 128 or 256 bytes, not {}", self.promotion)
        });
        if counted && !interleaved {
            self.check_inner(&mut found);
        }
        found.hold(Part::Fill, !self.nan || self.element().is_float(), || {
            "elements that are no floating-point numbers cannot be NaN".into()
        });
        found.0
    }

    /// The bytes of the innermost dimension.
    fn check_inner(&self, found: &mut Found) {
        let (part, what) = match &self.im2col {
            None => (Part::Box, "the innermost dimension of the box"),
            Some(_) => (Part::Im2col, "a pixel"),
        };
        let inner = u64::from(self.inner()) * u64::from(self.element().bytes());
        found.hold(part, self.im2col.is_some() || inner.is_multiple_of(16), || {
            format!("{what} has {inner} bytes, which is no multiple of 16")
        });
        found.hold(part, self.swizzle == 0 || inner <= self.swizzle.into(), || {
            format!("{what} has {inner} bytes, more than the swizzle's {}", self.swizzle)
        });
    }

    fn check_columns(&self, found: &mut Found) {
        let Some(columns) = &self.im2col else { return };
        let rank = self.sizes.len();
        found.each(Part::Im2col, "the number of channels of a pixel", &[columns.channels], 256);
        found.each(Part::Im2col, "the number of pixels of a column", &[columns.pixels], 1024);
        let Some(axes) = rank.checked_sub(2).filter(|axes| (1..=3).contains(axes)) else { return };
        // Along W there are no others.
        let axes = if columns.along_w.is_some() { 1 } else { axes };
        let most = [32768, 128, 16][axes - 1];
        if columns.along_w.is_some() {
            found.hold(Part::Interleave, self.interleave == 0, || {
                "copies along W of interleaved tensors do not exist".into()
            });
            found.hold(Part::Swizzle, self.swizzle != 0, || "copies along W need a swizzle".into());
            found.hold(Part::Atom, self.atom != Atom::B32Flip8, || {
                "copies along W have no swizzle that flips halves of 16 bytes".into()
            });
        }
        let mut whole = true;
        for corner in [&columns.lower, &columns.upper] {
            whole &= found.hold(Part::Im2col, corner.len() == axes, || {
                let given = corner.len();
                format!("a corner of a tensor of {rank} dimensions has {axes} offsets, not {given}")
            });
            if let Some(at) = corner.iter().find(|at| !(-most..most).contains(*at)) {
                found.hold(Part::Im2col, false, || {
                    format!(
                        "an offset of a corner of {rank} dimensions is {} to {}, not {at}",
                        -most,
                        most - 1
                    )
                });
            }
        }
        if whole {
            let empty = (0..axes).find(|axis| {
                let pixels = i64::from(self.sizes[axis + 1]) + i64::from(columns.upper[*axis])
                    - i64::from(columns.lower[*axis]);
                pixels <= 0
            });
            found.hold(Part::Im2col, empty.is_none(), || {
                "the bounding box between the corners has no pixel".into()
            });
        }
    }
}
