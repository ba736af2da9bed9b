//! Products of matrices whose fragments the threads of a warp hold: what the tensor cores of a chip compute, to
//! the bit. Fragments become tiles (`fragments`), tiles are multiplied (`float`, `sums`, `scaled`, `whole`), and D goes back.

#[cfg(target_arch = "x86_64")]
mod avx2;
mod float;
mod fragments;
#[cfg(target_arch = "x86_64")]
mod integers;
#[cfg(test)]
mod literal_layout;
#[cfg(test)]
mod reference;
mod scaled;
mod scratch;
pub(crate) mod shared_matrix;
mod sums;
#[cfg(test)]
mod tests;
mod whole;

use sim_frontend::matrix::Element;

use crate::instruction_set::InstructionSet;
use crate::registers::LaneRow;

pub(crate) use scratch::{Lanes32, N, Product, RESULTS, SOURCES, Scratch};

/// The rows of D.
pub(crate) fn multiply(
    scratch: &mut Scratch,
    set: InstructionSet,
    product: &Product<'_>,
    results: &mut [LaneRow; RESULTS],
) {
    match set {
        #[cfg(target_arch = "x86_64")]
        InstructionSet::Avx2Fma | InstructionSet::Avx512 => {
            // SAFETY: the set is one that `InstructionSet::available` found on this host, and both sets hold
            // these features.
            #[allow(unsafe_code, reason = "products of tiles are vectors")]
            unsafe {
                multiply_avx2(scratch, product, results);
            }
        }
        _ => multiply_here(scratch, product, results, false),
    }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma,f16c,bmi1,bmi2,lzcnt,popcnt")]
#[allow(unsafe_code, reason = "callers must have the features")]
unsafe fn multiply_avx2(scratch: &mut Scratch, product: &Product<'_>, results: &mut [LaneRow; RESULTS]) {
    if !avx2::has(product) {
        multiply_here(scratch, product, results, true);
    } else if !avx2::tiles(scratch, product, results) {
        // What is kept of A is that of `avx2`.
        multiply_here(scratch, &Product { keeps_a: false, ..*product }, results, true);
    }
}

#[inline(always)]
fn multiply_here(scratch: &mut Scratch, product: &Product<'_>, results: &mut [LaneRow; RESULTS], avx2: bool) {
    let matrix = &product.op.matrix;
    match matrix.types[1] {
        _ if matrix.is_quad() => float::quads(scratch, product, results, avx2),
        Element::F64 => float::doubles(product, results),
        Element::F16 | Element::Bf16 | Element::Tf32 | Element::F32 => {
            float::tiles(scratch, product, results, avx2);
        }
        Element::E2m1Packed => {
            if let Some(scale) = matrix.scale {
                scaled::tiles(scratch, product, scale, results);
            }
        }
        small if small.is_small_float() => float::tiles(scratch, product, results, avx2),
        _ => whole::tiles(scratch, product, results),
    }
}
