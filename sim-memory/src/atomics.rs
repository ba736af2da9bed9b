//! The abstract function `aop` of CS §4.4.3: the value an atomic writes, computed from the old value and the
//! operands. Values are in the low bits of a `u64`.

use crate::soft_float::{BF16, F16, Format, Round};
use crate::vocabulary::{AtomicOp, ScalarType};

/// Canonical NaN of single precision arithmetic (PTX ISA "Floating-Point Instructions").
pub const NAN_F32: u32 = 0x7fff_ffff;
/// Canonical NaN of double precision arithmetic.
pub const NAN_F64: u64 = 0x7fff_ffff_ffff_ffff;

/// The value that `op` writes when the memory holds `old`.
pub fn apply(op: AtomicOp, ty: ScalarType, old: u64, b: u64, c: u64) -> u64 {
    let bits = ty.bits().min(64);
    let mask = u64::MAX >> (64 - bits.max(1));
    let signed = |v: u64| ((v << (64 - bits)) as i64) >> (64 - bits);
    let (old, b, c) = (old & mask, b & mask, c & mask);
    let value = match op {
        AtomicOp::And => old & b,
        AtomicOp::Or => old | b,
        AtomicOp::Xor => old ^ b,
        AtomicOp::Exch => b,
        AtomicOp::Cas => {
            if old == b {
                c
            } else {
                old
            }
        }
        AtomicOp::Inc => {
            if old >= b {
                0
            } else {
                old + 1
            }
        }
        AtomicOp::Dec => {
            if old == 0 || old > b {
                b
            } else {
                old - 1
            }
        }
        AtomicOp::Add => match ty {
            ScalarType::F32 => {
                let sum = f32::from_bits(old as u32) + f32::from_bits(b as u32);
                u64::from(if sum.is_nan() { NAN_F32 } else { sum.to_bits() })
            }
            ScalarType::F64 => {
                let sum = f64::from_bits(old) + f64::from_bits(b);
                if sum.is_nan() { NAN_F64 } else { sum.to_bits() }
            }
            ScalarType::F16 => F16.add(old, b, Round::Nearest),
            ScalarType::Bf16 => BF16.add(old, b, Round::Nearest),
            ScalarType::F16x2 => halves(F16, old, b),
            ScalarType::Bf16x2 => halves(BF16, old, b),
            _ => old.wrapping_add(b),
        },
        AtomicOp::Min if ty.is_signed() => signed(old).min(signed(b)) as u64,
        AtomicOp::Max if ty.is_signed() => signed(old).max(signed(b)) as u64,
        AtomicOp::Min => old.min(b),
        AtomicOp::Max => old.max(b),
    };
    value & mask
}

/// As [`apply`], for global memory: single-precision additions there flush subnormal operands and results to
/// zeros of the same sign (PTX ISA "atom").
pub fn apply_global(op: AtomicOp, ty: ScalarType, old: u64, b: u64, c: u64) -> u64 {
    let flushed = |bits: u64| {
        let value = f32::from_bits(bits as u32);
        if value.is_subnormal() { bits & 0x8000_0000 } else { bits }
    };
    match (op, ty) {
        (AtomicOp::Add, ScalarType::F32) => flushed(apply(op, ty, flushed(old), flushed(b), c)),
        _ => apply(op, ty, old, b, c),
    }
}

/// Adds the low and the high half of a word separately (`.f16x2`, `.bf16x2`).
fn halves(format: Format, a: u64, b: u64) -> u64 {
    let sum = |at: u32| format.add(a >> at & 0xffff, b >> at & 0xffff, Round::Nearest) << at;
    sum(16) | sum(0)
}

#[cfg(test)]
mod tests {
    use super::{AtomicOp, NAN_F32, ScalarType, apply, apply_global};
    use ScalarType::*;

    #[test]
    fn prog_opexp_aop_of_each_operation() {
        let m1 = u64::from(u32::MAX);
        let cases = [
            (AtomicOp::Add, U32, m1, 2, 0, 1),
            (AtomicOp::Add, S32, 5, m1, 0, 4),
            (AtomicOp::Min, S32, 5, m1, 0, m1),
            (AtomicOp::Min, U32, 5, m1, 0, 5),
            (AtomicOp::Max, S64, 3, u64::MAX, 0, 3),
            (AtomicOp::Inc, U32, 7, 7, 0, 0),
            (AtomicOp::Inc, U32, 6, 7, 0, 7),
            (AtomicOp::Dec, U32, 0, 7, 0, 7),
            (AtomicOp::Dec, U32, 9, 7, 0, 7),
            (AtomicOp::Dec, U32, 3, 7, 0, 2),
            (AtomicOp::Cas, B32, 3, 3, 8, 8),
            (AtomicOp::Cas, B32, 4, 3, 8, 4),
            (AtomicOp::Exch, B64, 1, u64::MAX, 0, u64::MAX),
            (AtomicOp::Xor, B32, 0b1100, 0b1010, 0, 0b0110),
            (AtomicOp::Cas, B16, 0xffff, 0xffff, 8, 8),
            // 1 + 2^-11 ties to 1; 65504 + 16 rounds to infinity; 1.5 + 2.5 = 4.
            (AtomicOp::Add, F16, 0x3c00, 0x1000, 0, 0x3c00),
            (AtomicOp::Add, F16x2, 0x7bff_3e00, 0x4c00_4100, 0, 0x7c00_4400),
            (AtomicOp::Add, Bf16x2, 0x3fc0_8000, 0x4020_8000, 0, 0x4080_8000),
        ];
        for (op, ty, old, b, c, expected) in cases {
            assert_eq!(apply(op, ty, old, b, c), expected, "{op:?} {ty:?} {old} {b}");
        }
        let add = |x: f32, y: f32| {
            f32::from_bits(apply(AtomicOp::Add, F32, x.to_bits().into(), y.to_bits().into(), 0) as u32)
        };
        assert_eq!(add(1.5, 2.25), 3.75);
        assert_eq!(add(f32::INFINITY, f32::NEG_INFINITY).to_bits(), NAN_F32);
        // Old value, operand, sum in shared and in global memory.
        for (old, b, shared, global) in [
            (1, 1, 2, 0),
            (0x8000_0001, 0x8000_0000, 0x8000_0001, 0x8000_0000),
            (0x0080_0000, 0x8000_0001, 0x007f_ffff, 0x0080_0000),
            (0x0080_0001, 0x8080_0000, 1, 0),
            (0x8080_0001, 0x0080_0000, 0x8000_0001, 0x8000_0000),
            (0x3f80_0000, 0x3f80_0000, 0x4000_0000, 0x4000_0000),
        ] {
            assert_eq!(apply(AtomicOp::Add, F32, old, b, 0), shared, "{old:#x} {b:#x}");
            assert_eq!(apply_global(AtomicOp::Add, F32, old, b, 0), global, "{old:#x} {b:#x}");
        }
        assert_eq!(apply_global(AtomicOp::Exch, F32, 7, 1, 0), 1);
        assert_eq!(apply_global(AtomicOp::Add, F64, 1, 1, 0), 2);
        assert_eq!(apply_global(AtomicOp::Add, F16, 1, 1, 0), 2);
    }
}
