//! Transformation 2: constants become the bits of the type they are used with (CS §5.1.3 step
//! 2) [tf-2] [expr-C]. The parser has evaluated the expressions; here they take their width.

use sim_memory::vocabulary::ScalarType;

use crate::ptx::ast::OperandKind;

/// The bits of a literal as an operand of type `ty`; `None` where it does not fit the type's
/// kind: a floating-point literal for an integer, or an integer for a floating-point type, which
/// only the papers write.
pub fn bits(literal: &OperandKind<'_>, ty: ScalarType, papers: bool) -> Option<u64> {
    use ScalarType as T;
    Some(match (literal, ty) {
        (OperandKind::Int(value), T::F32) if papers => u64::from((value.value() as f32).to_bits()),
        (OperandKind::Int(value), T::F64) if papers => (value.value() as f64).to_bits(),
        (OperandKind::Int(value), _) if !ty.is_float() => value.value() as u64 & mask(ty),
        (OperandKind::Float32(bits), T::F64) => f64::from(f32::from_bits(*bits)).to_bits(),
        (OperandKind::Float32(bits), T::F32 | T::B32) => u64::from(*bits),
        (OperandKind::Float64(bits), T::F32 | T::B32) => u64::from((f64::from_bits(*bits) as f32).to_bits()),
        (OperandKind::Float64(bits), T::F64 | T::B64) => *bits,
        _ => return None,
    })
}

fn mask(ty: ScalarType) -> u64 {
    match ty.bits() {
        0 | 1 => 1,
        bits @ 2..=63 => (1 << bits) - 1,
        _ => u64::MAX,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tf_2_expr_c_literals_take_the_width_of_their_type() {
        let cases = [
            (OperandKind::Int((-1).into()), ScalarType::S32, Some(0xffff_ffff)),
            (OperandKind::Int((-1).into()), ScalarType::U16, Some(0xffff)),
            (OperandKind::Int((5 + 3).into()), ScalarType::B64, Some(8)),
            (OperandKind::Int(2.into()), ScalarType::F32, None),
            (OperandKind::Float32(0x3fc0_0000), ScalarType::U32, None),
            (OperandKind::Float32(0x3fc0_0000), ScalarType::B32, Some(0x3fc0_0000)),
            (OperandKind::Float64(1.5f64.to_bits()), ScalarType::F32, Some(0x3fc0_0000)),
            (OperandKind::Float32(0x3fc0_0000), ScalarType::F64, Some(1.5f64.to_bits())),
            (OperandKind::Float32(0x3fc0_0000), ScalarType::S16, None),
        ];
        for (literal, ty, expected) in cases {
            assert_eq!(bits(&literal, ty, false), expected, "{literal:?} {ty:?}");
        }
        assert_eq!(bits(&OperandKind::Int(2.into()), ScalarType::F32, true), Some(0x4000_0000));
    }
}
