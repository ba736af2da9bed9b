//! Transformation 1: what the type checker of PTX checks (CS §5.1.3 step 1) [tf-1]: whether a
//! register may stand where it stands.

use sim_memory::vocabulary::{ScalarType, Semantics, StateSpace};

use crate::form::{CmpOp, Form, Rounding};
use crate::isa::Root;

/// Where a register stands, as far as its size may differ from the instruction's type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OperandSize {
    /// Sizes are equal.
    Exact,
    /// The register may be wider (`ld`, `st`, `cvt`: PTX ISA "Operand Size Exceeding
    /// Instruction-Type Size").
    Wider,
}

/// True if a register declared as `declared` may be an operand of type `wanted`: bits go with
/// everything of their size, integers with integers, floats with floats.
pub fn compatible(declared: ScalarType, wanted: ScalarType, place: OperandSize) -> bool {
    if (declared == ScalarType::Pred) != (wanted == ScalarType::Pred) {
        return false;
    }
    let size = match place {
        OperandSize::Exact => declared.bits() == wanted.bits(),
        OperandSize::Wider => declared.bits() >= wanted.bits(),
    };
    let kinds = declared.is_bits()
        || wanted.is_bits()
        || declared.is_float() == wanted.is_float()
        || declared == ScalarType::Pred;
    size && kinds
}

/// The sentence for an operand that does not fit.
pub fn mismatch(name: &str, declared: ScalarType, wanted: ScalarType) -> String {
    format!("`{name}` is a .{} register; this operand must be .{}", declared.name(), wanted.name())
}

/// What the grammar of the table does not say of modifiers that stand together.
///
/// # Errors
/// What is wrong, in a sentence.
pub fn modifiers(form: &Form) -> Result<(), String> {
    let m = &form.mods;
    let space = m.space.filter(|space| *space != StateSpace::Global);
    let hint = m.cache_hint || m.level_hint;
    match form.root {
        Root::Cvt => conversion(form),
        Root::Mov if u32::from(m.vector) * form.ty.bits() > 128 => {
            Err("a vector must not exceed 128 bits".to_string())
        }
        Root::Setp | Root::Set if form.ty.is_signed() || form.ty.is_bits() => match m.cmp {
            Some(CmpOp::Lo | CmpOp::Ls | CmpOp::Hi | CmpOp::Hs) => Err(format!(
                "comparison operators .lo, .ls, .hi and .hs require an unsigned type, not .{}",
                form.ty.name()
            )),
            Some(CmpOp::Eq | CmpOp::Ne) => Ok(()),
            _ if form.ty.is_bits() => {
                Err(format!("bit-size type .{} supports only .eq and .ne", form.ty.name()))
            }
            _ => Ok(()),
        },
        Root::Ld | Root::St | Root::Ldu | Root::Atom | Root::Red => {
            let ordered = matches!(m.semantics, Semantics::Relaxed | Semantics::Acquire | Semantics::Release);
            if ordered && m.scope.is_none() && matches!(form.root, Root::Ld | Root::St) {
                return Err(".relaxed, .acquire and .release require a scope: .cta, .cluster, .gpu or .sys"
                    .to_string());
            }
            let wide = matches!(form.root, Root::Ld | Root::St) && space.is_none() && form.is_of_256_bits();
            if u32::from(m.vector) * form.ty.bits() > 128 && !wide {
                return Err("a vector must not exceed 128 bits".to_string());
            }
            match space {
                Some(space) if hint => {
                    let space = format!("{space:?}").to_lowercase();
                    Err(format!(
                        "cache-hint, prefetch-size and eviction-priority modifiers are allowed only with .global or \
                         generic addressing, not with .{space}"
                    ))
                }
                _ => Ok(()),
            }
        }
        _ => Ok(()),
    }
}

/// Whether a `cvt` rounds where it must and only there (PTX ISA "cvt").
///
/// # Errors
/// What is wrong, in a sentence.
fn conversion(form: &Form) -> Result<(), String> {
    let (dst, src) = (form.dst, form.ty);
    let whole =
        matches!(form.mods.rounding, Some(Rounding::Rni | Rounding::Rzi | Rounding::Rmi | Rounding::Rpi));
    let names = format!("`cvt.{}.{}`", dst.name(), src.name());
    let precision = |ty: ScalarType| match ty {
        ScalarType::Bf16 => 8,
        ScalarType::F16 => 11,
        ScalarType::F32 => 24,
        _ => 53,
    };
    // Of the others the grammar says all.
    let plain = |ty: ScalarType| {
        ty.is_integer()
            || matches!(ty, ScalarType::F16 | ScalarType::Bf16 | ScalarType::F32 | ScalarType::F64)
    };
    if !plain(dst) || !plain(src) || form.mods.pack {
        return Ok(());
    }
    if form.mods.ftz && dst != ScalarType::F32 && src != ScalarType::F32 {
        return Err(format!("{names}: .ftz requires .f32 as source or destination type"));
    }
    if form.mods.sat && dst == src && !dst.is_float() {
        return Err(format!("{names} cannot saturate: the types are equal"));
    }
    match (dst.is_float(), src.is_float(), form.mods.rounding) {
        (false, false, Some(_)) => Err(format!("{names} is exact: it takes no rounding modifier")),
        (false, true, None) => {
            Err(format!("{names} requires an integer rounding modifier (.rni, .rzi, .rmi or .rpi)"))
        }
        (false, true, Some(_)) if !whole => {
            Err(format!("{names} requires an integer rounding modifier (.rni, .rzi, .rmi or .rpi)"))
        }
        (true, false, None) => {
            Err(format!("{names} requires a floating-point rounding modifier (.rn, .rz, .rm or .rp)"))
        }
        (true, false, Some(_)) if whole => {
            Err(format!("{names} requires a floating-point rounding modifier (.rn, .rz, .rm or .rp)"))
        }
        (true, true, rounding) if dst != src => {
            let narrows =
                precision(dst) < precision(src) || (dst, src) == (ScalarType::F16, ScalarType::Bf16);
            match rounding {
                None if narrows => {
                    Err(format!("{names} requires a floating-point rounding modifier (.rn, .rz, .rm or .rp)"))
                }
                Some(_) if whole => Err(format!("{names} cannot round to an integer: its types differ")),
                Some(_) if !narrows => Err(format!("{names} is exact: it takes no rounding modifier")),
                _ => Ok(()),
            }
        }
        (true, true, Some(_)) if !whole => Err(format!("{names} is exact: it takes no rounding modifier")),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ScalarType::*;

    #[test]
    fn tf_1_types_of_registers() {
        let exact = |a, b| compatible(a, b, OperandSize::Exact);
        assert!(exact(B32, F32) && exact(U32, S32) && exact(F64, B64) && exact(Pred, Pred));
        assert!(!exact(F32, S32) && !exact(B64, B32) && !exact(Pred, B32) && !exact(B16, U32));
        assert!(compatible(B32, U8, OperandSize::Wider) && compatible(U64, S16, OperandSize::Wider));
        assert!(!compatible(B16, U32, OperandSize::Wider));
    }
}
