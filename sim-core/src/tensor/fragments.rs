//! How fragments lie over the threads of a warp (PTX ISA "Matrix Fragments for mma.m16n8k16" and the like): thread
//! `4 * g + t` holds of A the words `t` of row `g`, of B those of column `g`, and of D pairs of columns `2 * t`.
//! A word is 32 bits of neighbouring elements along k.

use sim_frontend::matrix::{Element, Matrix};

use super::scratch::{A_WORDS, B_WORDS, Lanes32, M, N, Scratch};
use crate::registers::LaneRow;

/// Words of A: registers alternate between rows `g` and `g + 8`.
#[inline(always)]
pub(super) fn load_a(words: &mut [[u32; M]; A_WORDS], rows: usize, registers: &[&Lanes32]) {
    let halves = (rows / N).max(1);
    for (r, register) in registers.iter().enumerate() {
        let (top, word) = (r % halves * N, r / halves * 4);
        for t in 0..4 {
            for g in 0..N {
                words[word + t][top + g] = register[4 * g + t];
            }
        }
    }
}

/// Words of B.
#[inline(always)]
pub(super) fn load_b(words: &mut [[u32; N]; B_WORDS], registers: &[&Lanes32]) {
    for (words, register) in words.as_chunks_mut::<4>().0.iter_mut().zip(registers) {
        for t in 0..4 {
            for g in 0..N {
                words[t][g] = register[4 * g + t];
            }
        }
    }
}

/// Gives the elements of C, as their registers and lanes hold them: `each(row, column, bits)`.
#[inline(always)]
pub(super) fn load_c(ty: Element, registers: &[&Lanes32], mut each: impl FnMut(usize, usize, u32)) {
    if ty == Element::F16 {
        for (r, register) in registers.iter().enumerate().take(M / N) {
            for t in 0..4 {
                for g in 0..N {
                    let word = register[4 * g + t];
                    each(N * r + g, 2 * t, word & 0xffff);
                    each(N * r + g, 2 * t + 1, word >> 16);
                }
            }
        }
        return;
    }
    for (r, pair) in registers.as_chunks::<2>().0.iter().enumerate().take(M / N) {
        for t in 0..4 {
            for (i, register) in pair.iter().enumerate() {
                for g in 0..N {
                    each(N * r + g, 2 * t + i, register[4 * g + t]);
                }
            }
        }
    }
}

/// The inverse of [`load_c`]: `each(row, column)` has the bits of an element of D. What is no row of D is not used.
#[inline(always)]
pub(super) fn store_d(ty: Element, results: &mut [LaneRow], each: impl Fn(usize, usize) -> u32) {
    if ty == Element::F16 {
        for (r, register) in results.iter_mut().enumerate().take(M / N) {
            for t in 0..4 {
                for g in 0..N {
                    let row = N * r + g;
                    register.0[4 * g + t] = each(row, 2 * t) | each(row, 2 * t + 1) << 16;
                }
            }
        }
        return;
    }
    for (r, pair) in results.as_chunks_mut::<2>().0.iter_mut().enumerate().take(M / N) {
        for t in 0..4 {
            for (i, register) in pair.iter_mut().enumerate() {
                for g in 0..N {
                    register.0[4 * g + t] = each(N * r + g, 2 * t + i);
                }
            }
        }
    }
}

/// Where the elements of a sparse A stand among all (PTX ISA "Sparse matrix storage"): of four elements two are
/// given, of two `.tf32` one, and of four pairs of `.s4` two. Two bits name each.
pub(super) fn load_places(scratch: &mut Scratch, matrix: &Matrix, selector: u8, metadata: &Lanes32) {
    let ty = matrix.types[1];
    // Elements of a chunk that are given, each chunk four bits of metadata.
    let given = match ty {
        Element::Tf32 => 1,
        Element::S4 | Element::U4 | Element::E2m1Packed => 4,
        _ => 2,
    };
    let chunks = matrix.stored_k() / given;
    for row in 0..M {
        for chunk in 0..chunks {
            let (thread, shift) = of_chunk(ty, chunks, selector, row / N, chunk);
            let nibble = (metadata[4 * (row % N) + thread % 4] >> shift & 0xf) as usize;
            for i in 0..given {
                let place = match given {
                    1 => 2 * chunk + (nibble >> 1 & 1),
                    2 => 4 * chunk + (nibble >> (2 * i) & 3),
                    _ => 8 * chunk + 2 * (nibble >> (2 * (i / 2)) & 3) + i % 2,
                };
                scratch.places[row][given * chunk + i] = place as u8;
            }
        }
    }
}

/// The metadata of a chunk of the upper or the lower eight rows, of a matrix that has so many of them in a row: which of four
/// threads has them, and from which bit on.
#[inline(always)]
pub(super) fn of_chunk(
    ty: Element,
    chunks: usize,
    selector: u8,
    lower: usize,
    chunk: usize,
) -> (usize, usize) {
    let selector = usize::from(selector);
    // Halfwords of rows `g` and `g + 8` share a thread where elements have sixteen bits or more; words of them lie
    // in threads of their own otherwise.
    match (ty.bits() >= 16, chunks) {
        (true, 0..=4) => (selector, 16 * lower + 4 * chunk),
        (true, _) => (2 * (selector & 1) + chunk / 4, 16 * lower + 4 * (chunk % 4)),
        (false, 0..=8) => (2 * selector + lower, 4 * chunk),
        (false, _) => (2 * (chunk / 8) + lower, 4 * (chunk % 8)),
    }
}

const _: () = assert!(B_WORDS.is_multiple_of(4));
