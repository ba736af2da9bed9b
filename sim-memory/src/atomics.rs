//! The abstract function `aop` of CS §4.4.3: the value an atomic writes, computed from the old value and the
//! operands. Values are in the low bits of a `u64`.

use crate::soft_float::{BF16, F16, Format, Parts, Round};
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
        AtomicOp::Min | AtomicOp::Max if ty.is_float() => {
            let lesser = op == AtomicOp::Min;
            match ty {
                ScalarType::F16 => extremum(F16, old, b, lesser),
                ScalarType::Bf16 => extremum(BF16, old, b, lesser),
                ScalarType::F16x2 => {
                    each_half(|at| extremum(F16, old >> at & 0xffff, b >> at & 0xffff, lesser))
                }
                ScalarType::Bf16x2 => {
                    each_half(|at| extremum(BF16, old >> at & 0xffff, b >> at & 0xffff, lesser))
                }
                _ => old,
            }
        }
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
    each_half(|at| format.add(a >> at & 0xffff, b >> at & 0xffff, Round::Nearest))
}

/// A word of what `half` gives for the bits from 16 and from 0 on.
fn each_half(half: impl Fn(u32) -> u64) -> u64 {
    half(16) << 16 | half(0)
}

/// The lesser or greater of two values: a NaN loses, and -0 is below +0, as in `min` and `max`.
fn extremum(format: Format, a: u64, b: u64, lesser: bool) -> u64 {
    let sign = 1 << (format.fraction + format.exponent);
    let nan = |bits: u64| format.unpack(bits) == Parts::Nan;
    // The order of the numbers is that of these integers.
    let rank = |bits: u64| if bits & sign != 0 { -((bits & (sign - 1)) as i64) - 1 } else { bits as i64 };
    match (nan(a), nan(b)) {
        (true, true) => format.nan(),
        (true, false) => b,
        (false, true) => a,
        _ if (rank(a) < rank(b)) == lesser => a,
        _ => b,
    }
}

/// [`apply`] for 128 bits, which are only exchanged and compared.
pub fn apply_wide(op: AtomicOp, old: u128, b: u128, c: u128) -> u128 {
    match op {
        AtomicOp::Cas if old != b => old,
        AtomicOp::Cas => c,
        _ => b,
    }
}

#[cfg(test)]
mod tests {
    use super::{AtomicOp, NAN_F32, ScalarType, apply, apply_global, apply_wide};
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
            (AtomicOp::Min, F16, 0x8000, 0x0000, 0, 0x8000),
            (AtomicOp::Max, F16, 0x8000, 0x0000, 0, 0x0000),
            (AtomicOp::Max, F16, 0xc000, 0xbc00, 0, 0xbc00),
            (AtomicOp::Min, Bf16, 0x7fc1, 0xff80, 0, 0xff80),
            (AtomicOp::Min, Bf16, 0x7fc1, 0xffc0, 0, 0x7fff),
            (AtomicOp::Max, F16x2, 0x3c00_7e00, 0x4000_bc00, 0, 0x4000_bc00),
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
        assert_eq!(apply_wide(AtomicOp::Cas, 1 << 90, 1 << 90, 7), 7);
        assert_eq!(apply_wide(AtomicOp::Cas, 1 << 90, 1 << 26, 7), 1 << 90);
        // Only the upper halves differ.
        assert_eq!(apply_wide(AtomicOp::Cas, 1 << 90, 0, 7), 1 << 90);
        assert_eq!(apply_wide(AtomicOp::Exch, 1, 1 << 100, 0), 1 << 100);
        assert_eq!(apply_global(AtomicOp::Exch, F32, 7, 1, 0), 1);
        assert_eq!(apply_global(AtomicOp::Add, F64, 1, 1, 0), 2);
        assert_eq!(apply_global(AtomicOp::Add, F16, 1, 1, 0), 2);
    }
}
