//! What a chip says of its tensor cores: how they add, and how long products take.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::matrix::{Element, MatrixShape, MmaOp};

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
    /// `.e4m3` and `.e5m2`, with sums in single precision.
    Fp8,
    /// The same, with sums of halves.
    Fp8F16,
    /// `.s8` and `.u8`.
    Int8,
    /// `.s4` and `.u4`.
    Int4,
    /// Single bits.
    B1,
}

impl TensorType {
    /// That of a product.
    pub fn of(types: [Element; 4]) -> Self {
        match (types[1], types[0]) {
            (Element::F16, Element::F16) => Self::F16,
            (Element::F16, _) => Self::F16F32,
            (Element::Bf16, _) => Self::Bf16,
            (Element::Tf32 | Element::F32, _) => Self::Tf32,
            (Element::F64, _) => Self::F64,
            (Element::E4m3 | Element::E5m2, Element::F16) => Self::Fp8F16,
            (Element::E4m3 | Element::E5m2, _) => Self::Fp8,
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
    /// How many products are added at once.
    pub groups: TensorGroups,
}

fn thirteen() -> u32 {
    13
}

/// The latency of some products.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TensorLatency {
    /// Types; none: any.
    #[serde(default)]
    pub types: Vec<TensorType>,
    /// Shapes, as `m16n8k16`; none: any. Of sparse products that of the elements that are stored.
    #[serde(default)]
    pub shapes: Vec<String>,
    /// Core cycles from issue to the first issue that can read the result.
    #[schemars(range(min = 1, max = 60_000))]
    pub cycles: u32,
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
    /// Latencies; the first that fits counts.
    pub latencies: Vec<TensorLatency>,
}

impl TensorSpec {
    /// Latency and initiation interval of a product in core cycles; none where the chip does not execute it.
    pub fn cost(&self, op: &MmaOp) -> Option<(u32, u32)> {
        let matrix = &op.matrix;
        let ty = TensorType::of(matrix.types);
        let rate = (*self.rates.get(&ty)?).max(1);
        let stored = MatrixShape { k: matrix.stored_k() as u16, ..matrix.shape };
        let products = match (matrix.is_quad(), op.half.is_some()) {
            (true, true) => 2 * stored.multiply_adds(),
            (true, false) => 4 * stored.multiply_adds(),
            _ => stored.multiply_adds(),
        };
        let fits = |row: &&TensorLatency| {
            (row.types.is_empty() || row.types.contains(&ty))
                && (row.shapes.is_empty()
                    || row.shapes.iter().any(|shape| MatrixShape::named(shape) == Some(stored)))
        };
        let latency = self.latencies.iter().find(fits).map_or(1, |row| row.cycles);
        Some((latency.max(1), products.div_ceil(rate).max(1)))
    }

    /// What is wrong with it: key and reason.
    pub(super) fn problems(&self) -> Vec<(String, String)> {
        let mut out = Vec::new();
        let mut wrong = |path: &str, reason: &str| out.push((format!("tensor.{path}"), reason.to_string()));
        let a = &self.arithmetic;
        if [a.fraction_bits, a.fp8_fraction_bits].iter().any(|bits| !(10..=25).contains(bits)) {
            wrong("arithmetic", "fraction bits must be between 10 and 25");
        }
        if [a.groups.f16, a.groups.tf32, a.groups.fp8].iter().any(|group| !(1..=64).contains(group)) {
            wrong("arithmetic.groups", "groups must be between 1 and 64");
        }
        if self.rates.values().any(|rate| !(1..=65_536).contains(rate)) {
            wrong("rates", "rates must be between 1 and 65536");
        }
        if !self.latencies.last().is_some_and(|row| row.types.is_empty() && row.shapes.is_empty()) {
            wrong("latencies", "the last row must match everything");
        }
        for shape in self.latencies.iter().flat_map(|row| &row.shapes) {
            if MatrixShape::named(shape).is_none_or(|shape| shape.k == 0) {
                wrong("latencies", &format!("`{shape}` is no shape of a product, such as m16n8k16"));
            }
        }
        out
    }
}
