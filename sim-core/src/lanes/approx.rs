//! Approximate functions (PTX ISA "sin", "cos", "lg2", "ex2", "tanh", "rsqrt"): computed in double
//! precision by the same code on every host, rounded to the result, so they are within the
//! manual's error bounds with room to spare.

use sim_frontend::form::Form;
use sim_frontend::isa::Root as R;
use sim_frontend::program::Op;
use sim_memory::atomics::NAN_F64;
use sim_memory::vocabulary::ScalarType as T;

use super::bodies::{Variants, lane, un32, un64};
use super::file::LaneFile;
use super::float::{flush32, output};

/// Subnormal doubles become zeros of their sign.
pub(super) fn flush64(x: f64) -> f64 {
    if x.is_subnormal() { f64::copysign(0.0, x) } else { x }
}

/// The upper 32 bits of a double, the lower ones zero; subnormal results are flushed.
pub(super) fn upper_half(x: f64) -> u64 {
    let x = flush64(x);
    if x.is_nan() { NAN_F64 & 0xffff_ffff_0000_0000 } else { x.to_bits() & 0xffff_ffff_0000_0000 }
}

pub(super) fn resolve(form: &Form) -> Option<Variants> {
    let ftz = form.mods.ftz;
    macro_rules! function {
        ($g:expr) => {
            if ftz {
                lane!(|f: &mut LaneFile<'_>, op: &Op, m| un32(f, op, m, |a| {
                    let g: fn(f64) -> f64 = $g;
                    output(g(f64::from(flush32(f32::from_bits(a)))) as f32, true, false)
                }))
            } else {
                lane!(|f: &mut LaneFile<'_>, op: &Op, m| un32(f, op, m, |a| {
                    let g: fn(f64) -> f64 = $g;
                    output(g(f64::from(f32::from_bits(a))) as f32, false, false)
                }))
            }
        };
    }
    match (form.root, form.ty) {
        (R::Sin, _) => function!(libm::sin),
        (R::Cos, _) => function!(libm::cos),
        (R::Lg2, _) => function!(libm::log2),
        (R::Ex2, _) => function!(libm::exp2),
        (R::Tanh, _) => function!(libm::tanh),
        (R::Rsqrt, T::F32) => function!(|x| 1.0 / x.sqrt()),
        (R::Rsqrt, T::F64) if ftz => {
            lane!(|f: &mut LaneFile<'_>, op: &Op, m| un64(f, op, m, |a| upper_half(
                1.0 / flush64(f64::from_bits(a)).sqrt()
            )))
        }
        (R::Rsqrt, T::F64) => lane!(|f: &mut LaneFile<'_>, op: &Op, m| un64(f, op, m, |a| {
            let x = 1.0 / f64::from_bits(a).sqrt();
            if x.is_nan() { NAN_F64 } else { x.to_bits() }
        })),
        _ => None,
    }
}
