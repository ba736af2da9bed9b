//! Products of integers and of single bits: exact modulo 2^32, or clamped once at the end.

use sim_frontend::matrix::{BitOp, Element};

use super::fragments;
use super::scratch::{INTEGERS, M, N, Product, Scratch};

/// Element `p` of a word.
#[inline(always)]
fn integer(ty: Element, word: u32, p: usize) -> i32 {
    let byte = (word >> (8 * (p % 4))) as u8;
    let nibble = (word >> (4 * (p % 8)) & 0xf) as i32;
    match ty {
        Element::S8 => i32::from(byte.cast_signed()),
        Element::U8 => byte.into(),
        Element::S4 => (nibble ^ 8) - 8,
        _ => nibble,
    }
}

#[inline(always)]
pub(super) fn tiles(scratch: &mut Scratch, product: &Product<'_>) {
    let matrix = &product.op.matrix;
    let [a, b, c, e] = product.parts();
    let [_, of_a, of_b, _] = matrix.types;
    let rows = usize::from(matrix.shape.m).min(M);
    // Rows of A that are not known yet.
    let new_rows = if product.keeps_a { 0 } else { rows };
    if !product.keeps_a {
        fragments::load_a(&mut scratch.a_words, rows, a);
    }
    fragments::load_b(&mut scratch.b_words, b);
    let sums = &mut scratch.whole_sums;
    fragments::load_c(Element::S32, c, |row, column, bits| sums[row][column] = bits.cast_signed());
    let packed = of_a.packed();
    let stored = matrix.stored_k();
    let words = [stored / packed, usize::from(matrix.shape.k) / packed];
    if let Some(op) = matrix.bit_op {
        let Scratch { a_words, b_words, whole_sums, .. } = scratch;
        for row in 0..rows {
            for (w, columns) in b_words.iter().enumerate().take(words[1]) {
                for n in 0..N {
                    let (x, y) = (a_words[w][row], columns[n]);
                    let bits = if op == BitOp::Xor { x ^ y } else { x & y };
                    whole_sums[row][n] = whole_sums[row][n].wrapping_add(bits.count_ones().cast_signed());
                }
            }
        }
    } else {
        if let Some(metadata) = e.first() {
            fragments::load_places(scratch, matrix, product.op.selector, metadata);
        }
        match (of_a, of_b) {
            (Element::S8, Element::S8) => decode(scratch, [Element::S8; 2], new_rows, words),
            (Element::U8, Element::U8) => decode(scratch, [Element::U8; 2], new_rows, words),
            _ => decode(scratch, [of_a, of_b], new_rows, words),
        }
        let Scratch { a_integers, b_integers, places, whole_sums, .. } = scratch;
        for row in 0..rows {
            let mut total = [0i32; N];
            for (k, x) in a_integers[row].iter().enumerate().take(stored) {
                let at = if e.is_empty() { k } else { usize::from(places[row][k]) };
                let columns = &b_integers[at % INTEGERS[1]];
                for n in 0..N {
                    total[n] = total[n].wrapping_add(x.wrapping_mul(columns[n]));
                }
            }
            let sums = &mut whole_sums[row];
            for n in 0..N {
                sums[n] = match matrix.saturate {
                    true => sums[n].saturating_add(total[n]),
                    false => sums[n].wrapping_add(total[n]),
                };
            }
        }
    }
    let Scratch { whole_sums, results, .. } = scratch;
    fragments::store_d(Element::S32, results, |row, column| whole_sums[row][column].cast_unsigned());
}

#[inline(always)]
fn decode(scratch: &mut Scratch, [of_a, of_b]: [Element; 2], rows: usize, words: [usize; 2]) {
    let Scratch { a_words, b_words, a_integers, b_integers, .. } = scratch;
    let packed = of_a.packed();
    for (w, words) in a_words.iter().enumerate().take(words[0]) {
        for (word, to) in words.iter().zip(a_integers.iter_mut()).take(rows) {
            for p in 0..packed {
                to[w * packed + p] = integer(of_a, *word, p);
            }
        }
    }
    for (w, word) in b_words.iter().enumerate().take(words[1]) {
        for p in 0..packed {
            for n in 0..N {
                b_integers[w * packed + p][n] = integer(of_b, word[n], p);
            }
        }
    }
}
