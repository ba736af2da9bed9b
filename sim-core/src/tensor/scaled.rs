//! Products with `.block_scale` (PTX ISA "Block Scaling"), by the models of RTX Blackwell that microsoft/MMA-Sim
//! publishes. Of elements in a byte each the scales move exponents, and sums are those of other products. Of packed
//! `.e2m1` sixteen products are added exactly and scaled; these sums and C are aligned to the largest exponent of scales and
//! C, truncated below so many fractional bits, added exactly, and rounded once toward zero.

use sim_frontend::matrix::{BlockScale, Element, ScaleType};

use super::float::encode;
use super::fragments;
use super::scratch::{Lanes32, M, N, Product, Scratch};
use super::sums::{LEAST, Sums, exponent_of_sum, round};
use crate::lanes::power;

/// Products that are added before they are scaled.
const BLOCK: usize = 16;
/// Most parts of K that have a scale of their own.
const PARTS: usize = 4;
/// Four products have this value in units of the least one: a half times a half.
const UNIT: f64 = 0.25;

/// A scale: significand and exponent, of powers of two 1 and theirs.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Scale {
    significand: f64,
    exponent: i32,
}

impl Scale {
    fn of(ty: ScaleType, bits: u32) -> Self {
        let bits = bits & 0xff;
        match ty {
            ScaleType::Ue8m0 if bits == 0xff => Self { significand: f64::NAN, exponent: LEAST },
            ScaleType::Ue8m0 => Self { significand: 1.0, exponent: bits as i32 - 127 },
            ScaleType::Ue4m3 => {
                let (field, rest) = ((bits >> 3 & 0xf) as i32, f64::from(bits & 7) / 8.0);
                match (field, bits & 7) {
                    (15, 7) => Self { significand: f64::NAN, exponent: LEAST },
                    (0, 0) => Self { significand: 0.0, exponent: LEAST },
                    (0, _) => Self { significand: rest, exponent: -6 },
                    _ => Self { significand: 1.0 + rest, exponent: field - 7 },
                }
            }
        }
    }

    fn value(self) -> f64 {
        self.significand * power(self.exponent)
    }
}

/// The scales of the rows of A, or of the columns of B: those of the byte and thread that are named.
struct Scales {
    a: [[Scale; PARTS]; M],
    b: [[Scale; PARTS]; N],
}

impl Scales {
    /// Thread `4 * g + 2 * thread` has those of row `g` of A, the next one those of row `g + 8`; of B thread
    /// `4 * g + thread` has those of column `g`.
    fn read(scale: BlockScale, sources: &[&Lanes32]) -> Self {
        let none = Scale { significand: 1.0, exponent: 0 };
        let mut out = Self { a: [[none; PARTS]; M], b: [[none; PARTS]; N] };
        let [data_a, byte_a, thread_a, data_b, byte_b, thread_b] = sources else { return out };
        let byte = |data: u32, first: u32, part: usize| {
            Scale::of(scale.ty, data >> (8 * ((first as usize + part) % PARTS)))
        };
        for part in 0..usize::from(scale.parts).min(PARTS) {
            for row in 0..M {
                let lane = row % N * 4 + 2 * (thread_a[0] as usize % 2) + row / N;
                out.a[row][part] = byte(data_a[lane], byte_a[0], part);
            }
            for column in 0..N {
                let lane = column * 4 + thread_b[0] as usize % 4;
                out.b[column][part] = byte(data_b[lane], byte_b[0], part);
            }
        }
        out
    }
}

/// Moves the exponents of elements of A and B as their scales do, of which there is one for all of K, and gives what
/// products are to be multiplied by, by column and row.
pub(super) fn apply(
    scratch: &mut Scratch,
    scale: BlockScale,
    sources: &[&Lanes32],
    [of_a, of_b]: [usize; 2],
) -> [[f64; M]; N] {
    let scales = Scales::read(scale, sources);
    for exponents in scratch.a_exponents.iter_mut().take(of_a) {
        for (exponent, [scale, ..]) in exponents.iter_mut().zip(&scales.a) {
            *exponent += scale.exponent as i16;
        }
    }
    for exponents in scratch.b_exponents.iter_mut().take(of_b) {
        for (exponent, [scale, ..]) in exponents.iter_mut().zip(&scales.b) {
            *exponent += scale.exponent as i16;
        }
    }
    scales.b.map(|[of_b, ..]| scales.a.map(|[of_a, ..]| of_a.value() * of_b.value()))
}

/// An element of `.e2m1`, in halves.
fn halves(bits: u32) -> i32 {
    let magnitude = [0, 1, 2, 3, 4, 6, 8, 12][(bits & 7) as usize];
    if bits & 8 == 0 { magnitude } else { -magnitude }
}

/// Products of tiles of 16 by 8 whose elements are packed `.e2m1`, the rows of A sparse or not.
pub(super) fn tiles(scratch: &mut Scratch, product: &Product<'_>, scale: BlockScale) {
    let matrix = &product.op.matrix;
    let [a, b, c, e] = product.parts();
    let (stored, k) = (matrix.stored_k(), usize::from(matrix.shape.k));
    fragments::load_a(&mut scratch.a_words, M, a);
    fragments::load_b(&mut scratch.b_words, b);
    let of_c = &mut scratch.sums;
    fragments::load_c(Element::F32, c, |row, column, bits| of_c[column][row] = f32::from_bits(bits));
    if let Some(metadata) = e.first() {
        fragments::load_places(scratch, matrix, product.op.selector, metadata);
    }
    let scales = Scales::read(scale, product.scales());
    let bits = product.arithmetic.fp4_fraction_bits as i32;
    let packed = Element::E2m1Packed.packed();
    let Scratch { a_words, b_words, b_integers, places, sums, .. } = scratch;
    for (at, row) in b_integers.iter_mut().enumerate().take(k) {
        for (n, to) in row.iter_mut().enumerate() {
            *to = halves(b_words[at / packed][n] >> (4 * (at % packed)));
        }
    }
    let blocks = (stored / BLOCK).min(PARTS);
    for row in 0..M {
        let mut dots = [[0; N]; PARTS];
        for at in 0..blocks * BLOCK {
            let x = halves(a_words[at / packed][row] >> (4 * (at % packed)));
            let of_b = if e.is_empty() { at } else { usize::from(places[row][at]) };
            for (dot, y) in dots[at / BLOCK].iter_mut().zip(&b_integers[of_b % k]) {
                *dot += x * y;
            }
        }
        for n in 0..N {
            let mut terms = [(0.0, LEAST); PARTS];
            for (block, term) in terms.iter_mut().enumerate().take(blocks) {
                let part = block * usize::from(scale.parts) / blocks;
                let (x, y) = (scales.a[row][part], scales.b[n][part]);
                let significand = f64::from(dots[block][n]) * UNIT * x.significand * y.significand;
                *term = (significand, x.exponent + y.exponent);
            }
            sums[n][row] = sum(sums[n][row].into(), &terms, bits) as f32;
        }
    }
    let Scratch { sums, results, .. } = scratch;
    fragments::store_d(Element::F32, results, |row, column| encode(sums[column][row], Element::F32));
}

/// C and scaled sums, aligned to the largest exponent.
fn sum(c: f64, terms: &[(f64, i32)], bits: i32) -> f64 {
    let own = exponent_of_sum(c);
    let largest = terms.iter().fold(own, |largest, (_, exponent)| largest.max(*exponent));
    let aligned =
        terms.iter().map(|(significand, exponent)| (significand * power(exponent - largest + bits)).trunc());
    let total = (c * power(bits - largest)).trunc() + aligned.sum::<f64>();
    round(total * power(largest - bits), Sums::Single(23))
}
