//! Transformation 1: what the type checker of PTX checks (CS §5.1.3 step 1) [tf-1]: whether a
//! register may stand where it stands.

use sim_memory::vocabulary::ScalarType;

/// Where a register stands, as far as its size may differ from the instruction's type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// Sizes are equal.
    Exact,
    /// The register may be wider (`ld`, `st`, `cvt`: PTX ISA "Operand Size Exceeding
    /// Instruction-Type Size").
    Wider,
}

/// True if a register declared as `declared` may be an operand of type `wanted`: bits go with
/// everything of their size, integers with integers, floats with floats.
pub fn compatible(declared: ScalarType, wanted: ScalarType, place: Place) -> bool {
    if (declared == ScalarType::Pred) != (wanted == ScalarType::Pred) {
        return false;
    }
    let size = match place {
        Place::Exact => declared.bits() == wanted.bits() || wanted.bits() == 8,
        Place::Wider => declared.bits() >= wanted.bits(),
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

#[cfg(test)]
mod tests {
    use super::*;
    use ScalarType::*;

    #[test]
    fn tf_1_types_of_registers() {
        let exact = |a, b| compatible(a, b, Place::Exact);
        assert!(exact(B32, F32) && exact(U32, S32) && exact(F64, B64) && exact(Pred, Pred));
        assert!(!exact(F32, S32) && !exact(B64, B32) && !exact(Pred, B32) && !exact(B16, U32));
        assert!(compatible(B32, U8, Place::Wider) && compatible(U64, S16, Place::Wider));
        assert!(!compatible(B16, U32, Place::Wider));
    }
}
