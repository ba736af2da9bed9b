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

pub(crate) use scratch::{Lanes32, N, Product, SOURCES, Scratch};

/// Puts the rows of D into the results of `scratch`.
pub(crate) fn multiply(scratch: &mut Scratch, set: InstructionSet, product: &Product<'_>) {
    match set {
        #[cfg(target_arch = "x86_64")]
        InstructionSet::Avx2Fma | InstructionSet::Avx512 => {
            // SAFETY: the set is one that `InstructionSet::available` found on this host, and both sets hold
            // these features.
            #[allow(unsafe_code, reason = "products of tiles are vectors")]
            unsafe {
                multiply_avx2(scratch, product);
            }
        }
        _ => multiply_here(scratch, product, false),
    }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma,f16c,bmi1,bmi2,lzcnt,popcnt")]
#[allow(unsafe_code, reason = "callers must have the features")]
unsafe fn multiply_avx2(scratch: &mut Scratch, product: &Product<'_>) {
    if !avx2::has(product) {
        multiply_here(scratch, product, true);
    } else if !avx2::tiles(scratch, product) {
        // What is kept of A is that of `avx2`.
        multiply_here(scratch, &Product { keeps_a: false, ..*product }, true);
    }
}

#[inline(always)]
fn multiply_here(scratch: &mut Scratch, product: &Product<'_>, avx2: bool) {
    let matrix = &product.op.matrix;
    match matrix.types[1] {
        _ if matrix.is_quad() => float::quads(scratch, product, avx2),
        Element::F64 => float::doubles(product, &mut scratch.results),
        Element::F16 | Element::Bf16 | Element::Tf32 | Element::F32 => {
            float::tiles(scratch, product, avx2);
        }
        Element::E2m1Packed => {
            if let Some(scale) = matrix.scale {
                scaled::tiles(scratch, product, scale);
            }
        }
        small if small.is_small_float() => float::tiles(scratch, product, avx2),
        _ => whole::tiles(scratch, product),
    }
}
