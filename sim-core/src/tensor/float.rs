//! Floating-point products: elements and their exponents from fragments, sums (`sums`), and D.

use sim_frontend::form::Rounding;
use sim_frontend::matrix::{Element, Layout};
use sim_memory::soft_float;

use super::scratch::{FLOATS, INTEGERS, Lanes32, M, N, Product, RESULTS, Scratch};
use super::sums::{Adder, LEAST, LEAST_HALF, Lanes, OF_ZERO, Others, SPECIAL, Sums, round};
use super::{fragments, scaled};
use crate::lanes::{direction, power};
use crate::registers::LaneRow;

/// A floating-point element from its bits, as a single, which holds all of them.
#[inline(always)]
fn single(ty: Element, bits: u32) -> f32 {
    // Halves with their exponent moved: subnormal ones become subnormal singles, and right again by the factor.
    let half = |h: u32| {
        let infinite = if h & 0x7c00 == 0x7c00 { 0x7f80_0000 | (h & 0x3ff) << 13 } else { 0 };
        let finite = (f32::from_bits((h & 0x7fff) << 13) * f32::from_bits(0x7780_0000)).to_bits();
        f32::from_bits((if infinite != 0 { infinite } else { finite }) | (h & 0x8000) << 16)
    };
    // A magnitude with the exponent of its own bias, the power of two that moves it, and the sign in bit 5.
    let small = |magnitude: u32, factor: u32, sign: u32| {
        f32::from_bits((f32::from_bits(magnitude) * f32::from_bits(factor)).to_bits() | sign << 26)
    };
    match ty {
        Element::F16 => half(bits & 0xffff),
        Element::Bf16 => f32::from_bits(bits << 16),
        Element::Tf32 => f32::from_bits(bits & 0xffff_e000),
        Element::E5m2 => half((bits & 0xff) << 8),
        // Exponents of four bits: as those of halves with a smaller bias; no infinities, one NaN of each sign.
        Element::E4m3 => {
            let finite = f32::from_bits((bits & 0x7f) << 20) * f32::from_bits(0x7b80_0000);
            let magnitude = if bits & 0x7f == 0x7f { f32::NAN } else { finite };
            f32::from_bits(magnitude.to_bits() & 0x7fff_ffff | (bits & 0x80) << 24)
        }
        // Neither infinities nor NaN.
        Element::E3m2 => small((bits & 0x1f) << 21, 0x7d80_0000, bits & 0x20),
        Element::E2m3 => small((bits & 0x1f) << 20, 0x7e80_0000, bits & 0x20),
        Element::E2m1 => small((bits >> 2 & 7) << 22, 0x7e80_0000, bits & 0x20),
        _ => f32::from_bits(bits),
    }
}

/// The least exponent of a type's normal numbers, which its subnormal ones have too.
pub(super) const fn least_exponent(ty: Element) -> i32 {
    match ty {
        Element::F16 | Element::E5m2 => LEAST_HALF,
        Element::E4m3 => -6,
        Element::E3m2 => -2,
        Element::E2m3 | Element::E2m1 => 0,
        _ => LEAST,
    }
}

/// The exponent of an element; of infinities and NaN [`SPECIAL`].
#[inline(always)]
fn exponent(value: f32, least: i32) -> i16 {
    let bits = value.to_bits() & 0x7fff_ffff;
    let own = ((bits >> 23) as i32 - 127).max(least) as i16;
    if bits == 0 { OF_ZERO } else { own }
}

/// Elements of words, `L` rows or columns side by side, and their exponents; whether all are finite.
#[inline(always)]
fn decode<const L: usize>(
    ty: Element,
    words: &[[u32; L]],
    to: &mut [[f32; L]],
    exponents: &mut [[i16; L]],
) -> bool {
    let packed = ty.packed();
    let width = 32 / packed as u32;
    let least = least_exponent(ty);
    let mut special = 0;
    for (words, (to, exponents)) in words.iter().zip(to.chunks_mut(packed).zip(exponents.chunks_mut(packed)))
    {
        for (p, (to, exponents)) in to.iter_mut().zip(exponents).enumerate() {
            for i in 0..L {
                to[i] = single(ty, part(words[i], p as u32 * width, width));
                exponents[i] = exponent(to[i], least);
                special |= i16::from(exponents[i] == SPECIAL);
            }
        }
    }
    special == 0
}

/// The same, once for each type, so that loops know it.
#[inline(always)]
fn decode_as<const L: usize>(
    ty: Element,
    words: &[[u32; L]],
    to: &mut [[f32; L]],
    exponents: &mut [[i16; L]],
) -> bool {
    match ty {
        Element::F16 => decode(Element::F16, words, to, exponents),
        Element::Bf16 => decode(Element::Bf16, words, to, exponents),
        Element::Tf32 => decode(Element::Tf32, words, to, exponents),
        Element::E4m3 => decode(Element::E4m3, words, to, exponents),
        Element::E5m2 => decode(Element::E5m2, words, to, exponents),
        _ => decode(ty, words, to, exponents),
    }
}

/// `width` bits of a word.
#[inline(always)]
fn part(word: u32, shift: u32, width: u32) -> u32 {
    let moved = word >> shift;
    if width == 32 { moved } else { moved & ((1 << width) - 1) }
}

/// The bits of a sum in D.
#[inline(always)]
pub(super) fn encode(value: f32, ty: Element) -> u32 {
    if ty != Element::F16 {
        return if value.is_nan() { 0x7fff_ffff } else { value.to_bits() };
    }
    let bits = value.to_bits();
    let (sign, magnitude) = (bits >> 16 & 0x8000, bits & 0x7fff_ffff);
    // A value that a half holds: its exponent moves, or it counts units of the least one, 2^-24, which are those of 0.5.
    let normal = (magnitude.wrapping_sub(112 << 23)) >> 13;
    let small = (value.abs() + 0.5).to_bits() & 0x3ff;
    match () {
        () if value.is_nan() => 0x7fff,
        () if value.is_infinite() => sign | 0x7c00,
        () if value.abs() < power(LEAST_HALF) as f32 => sign | small,
        () => sign | normal,
    }
}

/// How a chip adds products of these types.
pub(super) fn adder(product: &Product<'_>, integers: bool) -> Adder {
    let types = product.op.matrix.types;
    let arithmetic = product.arithmetic;
    let (bits, group, kept) = match types[1] {
        small if small.is_small_float() => {
            (arithmetic.fp8_fraction_bits, arithmetic.groups.fp8, arithmetic.fp8_sum_bits)
        }
        Element::Tf32 => (arithmetic.fraction_bits, arithmetic.groups.tf32, 23),
        _ => (arithmetic.fraction_bits, arithmetic.groups.f16, 23),
    };
    let rounding = if types[0] == Element::F16 { Sums::Half } else { Sums::Single(kept) };
    Adder { bits: bits as i32, group: group.max(1) as usize, rounding, integers }
}

/// Products of tiles of 16 by 8, the rows of A sparse or not.
#[inline(always)]
pub(super) fn tiles(scratch: &mut Scratch, product: &Product<'_>, avx2: bool) {
    let matrix = &product.op.matrix;
    let [a, b, c, e] = product.parts();
    let [of_d, of_a, of_b, of_c] = matrix.types;
    let packed = of_a.packed();
    let (stored, depth) = (matrix.stored_k(), usize::from(matrix.shape.k));
    let Scratch {
        a_words, a: a_values, a_exponents, b_words, b: b_values, b_exponents, finite_a, sums, ..
    } = &mut *scratch;
    if !product.keeps_a {
        fragments::load_a(a_words, M, a);
        let words = &a_words[..stored / packed];
        *finite_a = decode_as(of_a, words, &mut a_values[..stored], &mut a_exponents[..stored]);
    }
    fragments::load_b(b_words, b);
    let words = &b_words[..depth / packed];
    let finite_b = decode_as(of_b, words, &mut b_values[..depth], &mut b_exponents[..depth]);
    fragments::load_c(of_c, c, |row, column, bits| sums[column][row] = single(of_c, bits));
    let factors = matrix.scale.map(|scale| scaled::apply(scratch, scale, product.scales(), [stored, depth]));
    if let Some(metadata) = e.first() {
        fragments::load_places(scratch, matrix, product.op.selector, metadata);
    }
    let adder = adder(product, avx2 && scratch.finite_a && finite_b && factors.is_none());
    if product.by_halves() {
        by_halves(scratch, product, Adder { bits: product.arithmetic.fraction_bits as i32, ..adder }, stored);
    } else {
        let Scratch { a, a_exponents, b, b_exponents, places, sums, .. } = scratch;
        let of_a = Lanes { values: &a[..stored], exponents: &a_exponents[..stored] };
        let mut room = Room::new();
        for (column, sums) in sums.iter_mut().enumerate() {
            let factors = factors.as_ref().map(|factors| &factors[column]);
            let of_b = Others::Column(b, b_exponents, column);
            if matrix.sparse {
                for k in 0..stored {
                    room.gather(k, (b, b_exponents, column), places, k);
                }
                adder.add(sums, of_a, Others::Own(room.lanes(stored)), factors);
            } else {
                adder.add(sums, of_a, of_b, factors);
            }
        }
    }
    let Scratch { sums, results, .. } = scratch;
    fragments::store_d(of_d, results, |row, column| encode(sums[column][row], of_d));
}

/// Elements that are taken out of a matrix, a lane for each row.
struct Room {
    values: [[f32; M]; FLOATS[0]],
    exponents: [[i16; M]; FLOATS[0]],
}

impl Room {
    fn new() -> Self {
        Self { values: [[0.0; M]; FLOATS[0]], exponents: [[0; M]; FLOATS[0]] }
    }

    /// As number `i`: what element `k` of each row of a sparse A is multiplied by.
    #[inline(always)]
    fn gather(
        &mut self,
        i: usize,
        (b, exponents, column): (&[[f32; N]; FLOATS[1]], &[[i16; N]; FLOATS[1]], usize),
        places: &[[u8; INTEGERS[0]]; M],
        k: usize,
    ) {
        for row in 0..M {
            let at = usize::from(places[row][k]) % FLOATS[1];
            self.values[i][row] = b[at][column];
            self.exponents[i][row] = exponents[at][column];
        }
    }

    /// The first ones.
    #[inline(always)]
    fn lanes(&self, count: usize) -> Lanes<'_> {
        Lanes { values: &self.values[..count], exponents: &self.exponents[..count] }
    }
}

/// Two products of halves, whose sum is added to C as `add` does it.
#[inline(always)]
fn by_halves(scratch: &mut Scratch, product: &Product<'_>, adder: Adder, stored: usize) {
    let matrix = &product.op.matrix;
    let half = matrix.types[0] == Element::F16;
    let rounding = if half { Sums::Half } else { Sums::Single(23) };
    let adder = Adder { group: product.arithmetic.groups.f16.max(1) as usize, rounding, ..adder };
    let Scratch { a, b, b_exponents, places, sums, .. } = scratch;
    // What is subnormal before is no subnormal half.
    for k in 0..usize::from(matrix.shape.k) {
        for n in 0..N {
            b_exponents[k][n] = exponent(b[k][n], LEAST_HALF);
        }
    }
    let mut total = [[0.0; M]; N];
    let (mut of_a, mut of_b) = (Room::new(), Room::new());
    for pair in 0..2 {
        // The elements of this product.
        let mut own = [0; FLOATS[0]];
        let mut count = 0;
        for k in (0..stored).filter(|k| k % 4 / 2 == pair) {
            own[count] = k;
            of_a.values[count] = a[k];
            for row in 0..M {
                of_a.exponents[count][row] = exponent(a[k][row], LEAST_HALF);
            }
            count += 1;
        }
        for (column, total) in total.iter_mut().enumerate() {
            let all = Others::Column(b, b_exponents, column);
            for (i, k) in own[..count].iter().enumerate() {
                if matrix.sparse {
                    of_b.gather(i, (b, b_exponents, column), places, *k);
                } else {
                    of_b.values[i] = all.values(*k);
                    of_b.exponents[i] = all.exponents(*k);
                }
            }
            adder.add(total, of_a.lanes(count), Others::Own(of_b.lanes(count)), None);
        }
    }
    for (sums, total) in sums.iter_mut().zip(&total) {
        for (c, total) in sums.iter_mut().zip(total) {
            *c = match half {
                // Both are halves: the sum is exact, and rounded to the nearest half.
                true => round(f64::from(*c) + f64::from(*total), Sums::Half) as f32,
                false => *c + total,
            };
        }
    }
}

/// The four products of `m8n8k4`, each of eight threads: four from `4 * q` on and four from `16 + 4 * q` on.
#[inline(always)]
pub(super) fn quads(scratch: &mut Scratch, product: &Product<'_>, avx2: bool) {
    let matrix = &product.op.matrix;
    let [a, b, c, _] = product.parts();
    let [of_d, .., of_c] = matrix.types;
    let half = product.op.half.map(usize::from);
    let element = |registers: &[&Lanes32], lane: usize, i: usize| {
        single(Element::F16, registers[i / 2][lane] >> (16 * (i % 2)) & 0xffff)
    };
    // Row and column of element `i` of a thread's sums.
    let place = |t: usize, high: usize, i: usize, ty: Element| match ty {
        Element::F16 => (t + 4 * high, i),
        _ => ((t & 1) + (i & 2) + 4 * high, (i & 4) + (t & 2) + (i & 1)),
    };
    for q in 0..4 {
        // Lanes from the eighth on have no rows.
        scratch.a[..4].fill([0.0; M]);
        scratch.a_exponents[..4].fill([OF_ZERO; M]);
        let mut finite = true;
        for (high, t) in [(0, 0), (0, 1), (0, 2), (0, 3), (1, 0), (1, 1), (1, 2), (1, 3)] {
            let lane = 16 * high + 4 * q + t;
            for i in 0..4 {
                let value = element(a, lane, i);
                let (row, k) = match matrix.layouts[0] {
                    Layout::Row => (t + 4 * high, i),
                    Layout::Col => (i + 4 * high, t),
                };
                finite &= value.is_finite();
                scratch.a[k][row] = value;
                scratch.a_exponents[k][row] = exponent(value, LEAST_HALF);
                let value = element(b, lane, i);
                let (column, k) = match matrix.layouts[1] {
                    Layout::Col => (t + 4 * high, i),
                    Layout::Row => (i + 4 * high, t),
                };
                finite &= value.is_finite();
                scratch.b[k][column] = value;
                scratch.b_exponents[k][column] = exponent(value, LEAST_HALF);
            }
            if of_c == Element::F16 {
                for i in 0..8 {
                    let (row, column) = place(t, high, i, of_c);
                    scratch.sums[column][row] = element(c, lane, i);
                }
            } else {
                for (i, register) in c.iter().enumerate() {
                    let (row, column) = place(t, high, i + 4 * half.unwrap_or(0), of_c);
                    scratch.sums[column][row] = f32::from_bits(register[lane]);
                }
            }
        }
        let Scratch { a, a_exponents, b, b_exponents, sums, results, .. } = &mut *scratch;
        let adder = adder(product, avx2 && finite);
        for (column, sums) in sums.iter_mut().enumerate() {
            if !product.arithmetic.quads_by_fma {
                let of_a = Lanes { values: &a[..4], exponents: &a_exponents[..4] };
                adder.add(sums, of_a, Others::Column(b, b_exponents, column), None);
                continue;
            }
            for (row, c) in sums.iter_mut().enumerate().take(N) {
                let sum = *c + (0..4).fold(0.0f32, |sum, k| a[k][row].mul_add(b[k][column], sum));
                *c = if of_d == Element::F16 { round(sum.into(), Sums::Half) as f32 } else { sum };
            }
        }
        for (high, t) in [(0, 0), (0, 1), (0, 2), (0, 3), (1, 0), (1, 1), (1, 2), (1, 3)] {
            let lane = 16 * high + 4 * q + t;
            let bits = |i: usize| {
                let (row, column) = place(t, high, i, of_d);
                encode(sums[column][row], of_d)
            };
            for (r, register) in results.iter_mut().enumerate().take(4) {
                register.0[lane] = match of_d {
                    Element::F16 => bits(2 * r) | bits(2 * r + 1) << 16,
                    _ => bits(r + 4 * half.unwrap_or(0)),
                };
            }
        }
    }
}

/// Products of doubles: for each element a chain of fused multiply-adds in the order of k.
#[inline(always)]
pub(super) fn doubles(product: &Product<'_>, results: &mut [LaneRow; RESULTS]) {
    let matrix = &product.op.matrix;
    let [a, b, c, _] = product.parts();
    let rows = usize::from(matrix.shape.m);
    let halves = (rows / N).max(1);
    let double = |registers: &[&Lanes32], r: usize, lane: usize| {
        u64::from(registers[2 * r][lane]) | u64::from(registers[2 * r + 1][lane]) << 32
    };
    let nearest = matches!(product.rounding, None | Some(Rounding::Rn));
    for r in 0..c.len() / 2 {
        for lane in 0..c[0].len() {
            let (row, column) = (lane / 4 + N * (r / 2), 2 * (lane % 4) + r % 2);
            let mut sum = double(c, r, lane);
            for k in 0..usize::from(matrix.shape.k) {
                let x = double(a, k / 4 * halves + row / N, row % N * 4 + k % 4);
                let y = double(b, k / 4, column * 4 + k % 4);
                sum = if nearest {
                    f64::from_bits(x).mul_add(f64::from_bits(y), f64::from_bits(sum)).to_bits()
                } else {
                    soft_float::F64.fma(x, y, sum, direction(product.rounding))
                };
            }
            if f64::from_bits(sum).is_nan() {
                sum = soft_float::F64.nan();
            }
            results[2 * r].0[lane] = sum as u32;
            results[2 * r + 1].0[lane] = (sum >> 32) as u32;
        }
    }
}
