//! What a chip says of its tensor cores: how they add, and how long products take.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::matrix::{Element, MatrixShape, MmaOp};
use crate::wgmma::WgmmaOp;

/// Types of a product that have a rate of their own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum TensorType {
    /// Halves, with sums of halves.
    F16,
    /// Halves, with sums in single precision.
    F16F32,
    /// `.bf16`.
    Bf16,
    /// `.tf32`.
    Tf32,
    /// Double precision.
    F64,
    /// `.e4m3`, `.e5m2` and the smaller types of `.kind::f8f6f4` and `.kind::mxf8f6f4`, with sums in single precision.
    Fp8,
    /// The same, with sums of halves.
    Fp8F16,
    /// `.e2m1` with scales, two elements in a byte (`.kind::mxf4`, `.kind::mxf4nvf4`).
    Fp4,
    /// `.s8` and `.u8`.
    Int8,
    /// `.s4` and `.u4`.
    Int4,
    /// Single bits.
    B1,
}

impl TensorType {
    /// All types.
    pub const ALL: [Self; 11] = [
        Self::F16,
        Self::F16F32,
        Self::Bf16,
        Self::Tf32,
        Self::F64,
        Self::Fp8,
        Self::Fp8F16,
        Self::Fp4,
        Self::Int8,
        Self::Int4,
        Self::B1,
    ];

    /// Its name in chip files.
    pub const fn name(self) -> &'static str {
        match self {
            Self::F16 => "f16",
            Self::F16F32 => "f16_f32",
            Self::Bf16 => "bf16",
            Self::Tf32 => "tf32",
            Self::F64 => "f64",
            Self::Fp8 => "fp8",
            Self::Fp8F16 => "fp8_f16",
            Self::Fp4 => "fp4",
            Self::Int8 => "int8",
            Self::Int4 => "int4",
            Self::B1 => "b1",
        }
    }

    /// That of a product.
    pub fn of(types: [Element; 4]) -> Self {
        match (types[1], types[0]) {
            (Element::F16, Element::F16) => Self::F16,
            (Element::F16, _) => Self::F16F32,
            (Element::Bf16, _) => Self::Bf16,
            (Element::Tf32 | Element::F32, _) => Self::Tf32,
            (Element::F64, _) => Self::F64,
            (small, Element::F16) if small.is_small_float() => Self::Fp8F16,
            (Element::E4m3 | Element::E5m2 | Element::E3m2 | Element::E2m3 | Element::E2m1, _) => Self::Fp8,
            (Element::E2m1Packed, _) => Self::Fp4,
            (Element::S8 | Element::U8 | Element::S32, _) => Self::Int8,
            (Element::S4 | Element::U4, _) => Self::Int4,
            (Element::B1, _) => Self::B1,
        }
    }
}

/// Products of floating-point numbers that are added at once, by their type.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TensorGroups {
    /// Of `.f16` and `.bf16`.
    #[schemars(range(min = 1, max = 64))]
    pub f16: u32,
    /// Of `.tf32`.
    #[serde(default = "one")]
    #[schemars(range(min = 1, max = 64))]
    pub tf32: u32,
    /// Of `.e4m3` and `.e5m2`.
    #[serde(default = "one")]
    #[schemars(range(min = 1, max = 64))]
    pub fp8: u32,
}

fn one() -> u32 {
    1
}

/// How tensor cores add products of floating-point numbers. The products of a group and the sum so far are
/// aligned to the largest exponent among them, truncated, added exactly, and rounded once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TensorArithmetic {
    /// Fractional bits that are kept below the largest exponent.
    #[schemars(range(min = 10, max = 25))]
    pub fraction_bits: u32,
    /// The same for `.e4m3` and `.e5m2`.
    #[serde(default = "thirteen")]
    #[schemars(range(min = 10, max = 25))]
    pub fp8_fraction_bits: u32,
    /// Fractional bits of a sum of `.e4m3` or `.e5m2` products in single precision; the others are zero.
    #[serde(default = "thirteen")]
    #[schemars(range(min = 10, max = 23))]
    pub fp8_sum_bits: u32,
    /// `mma` of `.e4m3` and `.e5m2` is what the assembler makes of it: two products of halves, of the elements that are
    /// first and second, and third and fourth of each four along K, one after the other without C, which is added then.
    #[serde(default)]
    pub fp8_by_halves: bool,
    /// `mma.m8n8k4` of halves is what the assembler makes of it: fused multiply-adds in single precision in the order of K,
    /// beginning with zero, and C is added last.
    #[serde(default)]
    pub quads_by_fma: bool,
    /// Fractional bits that are kept of sums of sixteen products of `.e2m1` with their scales, which are exact before.
    #[serde(default = "thirty_five")]
    #[schemars(range(min = 10, max = 40))]
    pub fp4_fraction_bits: u32,
    /// How many products are added at once.
    pub groups: TensorGroups,
}

fn thirteen() -> u32 {
    13
}

fn thirty_five() -> u32 {
    35
}

/// Products by warpgroups.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct WarpgroupSpec {
    /// Dense multiply-adds of a core cycle and unit, by type. A type that is missing is not executed.
    #[schemars(extend("additionalProperties" = {"type": "integer", "minimum": 1, "maximum": 65_536}))]
    pub rates: BTreeMap<TensorType, u32>,
    /// Core cycles from where a product begins to where the next one that is added to the same registers may, at least;
    /// it also takes them to complete.
    #[schemars(range(min = 1, max = 60_000))]
    pub latency: u32,
}

/// The tensor cores of an SM; how many there are is in `sm.units`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TensorSpec {
    /// How products are added.
    pub arithmetic: TensorArithmetic,
    /// Dense multiply-adds of a core cycle and unit, by type. A type that is missing is not executed.
    #[schemars(extend("additionalProperties" = {"type": "integer", "minimum": 1, "maximum": 65_536}))]
    pub rates: BTreeMap<TensorType, u32>,
    /// Core cycles from issue to the first issue that can read the result, by shape and type
    /// (`m16n8k16_f16_f32`), by shape (`m16n8k16`, of sparse products that of the elements that are stored), by type,
    /// and of all others (`default`, which must be there).
    #[schemars(extend("additionalProperties" = {"type": "integer", "minimum": 1, "maximum": 60_000}))]
    pub latencies: BTreeMap<String, u32>,
    /// Products by warpgroups (`wgmma`), where the chip executes them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wgmma: Option<WarpgroupSpec>,
}

/// Type and multiply-adds of a product; of a sparse one, those of the elements that are stored.
pub fn work(op: &MmaOp) -> (TensorType, u32) {
    let matrix = &op.matrix;
    let times = match (matrix.is_quad(), op.half.is_some()) {
        (true, true) => 2,
        (true, false) => 4,
        _ => 1,
    };
    (TensorType::of(matrix.types), times * matrix.stored_shape().multiply_adds())
}

/// The same of a warp's part of a product by its warpgroup.
pub fn warpgroup_work(op: &WgmmaOp) -> (TensorType, u32) {
    (TensorType::of(op.matrix.types), op.matrix.stored_shape().multiply_adds())
}

impl TensorSpec {
    /// Latency and initiation interval of a product in core cycles; none where the chip does not execute it.
    pub fn cost(&self, op: &MmaOp) -> Option<(u32, u32)> {
        let (ty, products) = work(op);
        let rate = (*self.rates.get(&ty)?).max(1);
        let stored = op.matrix.stored_shape();
        let shape = format!("m{}n{}k{}", stored.m, stored.n, stored.k);
        let keys = [format!("{shape}_{}", ty.name()), shape, ty.name().into(), "default".into()];
        let latency = keys.iter().find_map(|key| self.latencies.get(key)).copied().unwrap_or(1);
        Some((latency.max(1), products.div_ceil(rate).max(1)))
    }

    /// The same of a warp's part of a product by its warpgroup.
    pub fn warpgroup_cost(&self, op: &WgmmaOp) -> Option<(u32, u32)> {
        let spec = self.wgmma.as_ref()?;
        let (ty, products) = warpgroup_work(op);
        let rate = (*spec.rates.get(&ty)?).max(1);
        Some((spec.latency.max(1), products.div_ceil(rate).max(1)))
    }

    /// What is wrong with it: key and reason.
    pub(super) fn problems(&self) -> Vec<(String, String)> {
        let mut out = Vec::new();
        let mut wrong = |path: &str, reason: &str| out.push((format!("tensor.{path}"), reason.to_string()));
        let a = &self.arithmetic;
        if [a.fraction_bits, a.fp8_fraction_bits].iter().any(|bits| !(10..=25).contains(bits)) {
            wrong("arithmetic", "fraction bits must be between 10 and 25");
        }
        if !(10..=40).contains(&a.fp4_fraction_bits) {
            wrong("arithmetic", "fraction bits of fp4 must be between 10 and 40");
        }
        if [a.groups.f16, a.groups.tf32, a.groups.fp8].iter().any(|group| !(1..=64).contains(group)) {
            wrong("arithmetic.groups", "groups must be between 1 and 64");
        }
        if self.rates.values().any(|rate| !(1..=65_536).contains(rate)) {
            wrong("rates", "rates must be between 1 and 65536");
        }
        if self.latencies.values().any(|cycles| !(1..=60_000).contains(cycles)) {
            wrong("latencies", "latencies must be between 1 and 60000");
        }
        if let Some(spec) = &self.wgmma {
            if spec.rates.values().any(|rate| !(1..=65_536).contains(rate)) {
                wrong("wgmma.rates", "rates must be between 1 and 65536");
            }
            if !(1..=60_000).contains(&spec.latency) {
                wrong("wgmma.latency", "the latency must be between 1 and 60000");
            }
        }
        if !self.latencies.contains_key("default") {
            wrong("latencies", "the key `default` is missing");
        }
        for key in self.latencies.keys() {
            let (shape, ty) = key.split_once('_').filter(|_| key.starts_with('m')).unwrap_or((key, ""));
            let is_shape = MatrixShape::named(shape).is_some_and(|shape| shape.k > 0);
            let is_type = |name: &str| TensorType::ALL.iter().any(|ty| ty.name() == name);
            if !(key == "default" || is_type(key) || is_shape && (ty.is_empty() || is_type(ty))) {
                wrong(
                    "latencies",
                    &format!("`{key}` is no shape, type, or shape_type, such as m16n8k16_f16"),
                );
            }
        }
        out
    }
}
