//! What first contents and tolerances must hold.

use sim_memory::vocabulary::ScalarType;

use super::{HostBuffer, Init, Number, Tolerance};
use crate::diagnostic::Diagnostic;

/// Whether the first contents can be made.
pub(super) fn check_init(ty: ScalarType, init: &Init) -> Result<(), Diagnostic> {
    let error = |message: String| Diagnostic::error("init", message);
    let element = |value: Number| HostBuffer::element(ty, value).map(|_| ()).map_err(error);
    match init {
        Init::Random { min, max, .. } => {
            if !min.is_finite() || !max.is_finite() {
                return Err(error(format!("`min` {min} and `max` {max} must be finite numbers")));
            }
            if min > max {
                let found = error(format!("`min` {min} is greater than `max` {max}"));
                return Err(found.help("exchange the two"));
            }
            element(*min)?;
            element(*max)
        }
        Init::Formula { modulo: 0, .. } => {
            Err(error("`modulo` must be at least 1".into()).help("it is the period of the values"))
        }
        Init::Formula { scale, offset, .. } => {
            if !scale.is_finite() || !offset.is_finite() {
                return Err(error(format!("`scale` {scale} and `offset` {offset} must be finite numbers")));
            }
            if !ty.is_float() && (scale.integer().is_none() || offset.integer().is_none()) {
                let found =
                    error(format!("elements of .{} need integers as `scale` and `offset`", ty.name()));
                return Err(found.help("give the buffer a floating-point type, or write integers"));
            }
            Ok(())
        }
        Init::Values(values) => values.iter().try_for_each(|value| element(*value)),
        _ => Ok(()),
    }
}

/// Whether a tolerance tells results apart.
pub(super) fn check_tolerance(ty: ScalarType, tolerance: Tolerance) -> Result<(), Diagnostic> {
    let error = |message: String| Diagnostic::error("tolerance", message);
    match tolerance {
        Tolerance::Near { abs, rel } => {
            for (name, value) in [("abs", abs), ("rel", rel)] {
                if !(value >= 0.0 && value.is_finite()) {
                    let found =
                        error(format!("`{name}` is {value}: a tolerance must be finite and at least 0"));
                    return Err(found.help("leave `expect` out where nothing is to be checked"));
                }
            }
            Ok(())
        }
        Tolerance::Ulp(_) if !ty.is_float() => {
            let found = error(format!("`ulp` is for floating-point elements, not .{}", ty.name()));
            Err(found.help("write `exact`, or `near` with `abs`"))
        }
        _ => Ok(()),
    }
}
