//! Floating-point products, after M. Fasi, N. J. Higham, M. Mikaitis, S. Pranesh and F. A. Khattak, whose models
//! agree with the hardware bit by bit: the products of a group and the sum so far are aligned to the largest
//! exponent among them, truncated below so many fractional bits, added exactly, and rounded once. Products are not
//! normalised before. Everything is worked out in doubles, where all of it is exact: products have 22 bits, sums of
//! aligned terms fewer than 40.

use sim_frontend::form::Rounding;
use sim_frontend::matrix::{Element, Layout};
use sim_memory::soft_float;

use super::scratch::{FLOATS, Lanes32, M, N, Product, RESULTS, Scratch};
use super::{fragments, scaled};
use crate::lanes::{direction, power};
use crate::registers::LaneRow;

/// The exponent that zeros have among others, so that it never is the largest.
const OF_ZERO: i32 = -1000;
/// No exponent of a sum is less.
pub(super) const LEAST: i32 = -126;

/// How sums are rounded.
#[derive(Clone, Copy)]
pub(super) enum Sums {
    /// Toward zero, to this many fractional bits of single precision.
    Single(u32),
    /// To the nearest half.
    Half,
}

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
const fn least_exponent(ty: Element) -> i32 {
    match ty {
        Element::F16 | Element::E5m2 => -14,
        Element::E4m3 => -6,
        Element::E3m2 => -2,
        Element::E2m3 | Element::E2m1 => 0,
        _ => LEAST,
    }
}

/// The exponent of a finite element.
#[inline(always)]
fn exponent(value: f32, least: i32) -> i32 {
    let bits = value.to_bits() & 0x7fff_ffff;
    let own = ((bits >> 23) as i32 - 127).max(least);
    if bits == 0 { OF_ZERO } else { own }
}

/// Elements and exponents of the words of A and B.
#[inline(always)]
fn decode(scratch: &mut Scratch, types: [Element; 2], rows: usize, words: [usize; 2]) {
    let Scratch { a_words, b_words, a, a_exponents, b, b_exponents, .. } = scratch;
    let [of_a, of_b] = types;
    let packed = of_a.packed();
    let width = 32 / packed as u32;
    let least = [least_exponent(of_a), least_exponent(of_b)];
    for row in 0..rows {
        for (w, word) in a_words[row].iter().enumerate().take(words[0]) {
            for p in 0..packed {
                let value = single(of_a, part(*word, p as u32 * width, width));
                a[row][w * packed + p] = value.into();
                a_exponents[row][w * packed + p] = exponent(value, least[0]);
            }
        }
    }
    for (w, word) in b_words.iter().enumerate().take(words[1]) {
        for p in 0..packed {
            let (to, exponents) = (&mut b[w * packed + p], &mut b_exponents[w * packed + p]);
            for n in 0..N {
                let value = single(of_b, part(word[n], p as u32 * width, width));
                to[n] = value.into();
                exponents[n] = exponent(value, least[1]);
            }
        }
    }
}

/// `width` bits of a word.
#[inline(always)]
fn part(word: u32, shift: u32, width: u32) -> u32 {
    let moved = word >> shift;
    if width == 32 { moved } else { moved & ((1 << width) - 1) }
}

/// Adds a group of products to the sums of one row.
#[inline(always)]
fn add_group(
    sums: &mut [f64; N],
    a: &[f64],
    a_exponents: &[i32],
    row_of_b: impl Fn(usize) -> usize,
    (b, b_exponents): (&[[f64; N]; FLOATS[1]], &[[i32; N]; FLOATS[1]]),
    bits: i32,
    rounding: Sums,
) {
    let least = if matches!(rounding, Sums::Half) { -14 } else { LEAST };
    let mut largest = [0; N];
    for n in 0..N {
        let own = (sums[n].to_bits() >> 52 & 0x7ff) as i32 - 1023;
        largest[n] = if own == -1023 { LEAST } else { own.max(least) };
    }
    for (k, ea) in a_exponents.iter().enumerate() {
        let at = row_of_b(k);
        let eb = &b_exponents[at];
        for n in 0..N {
            largest[n] = largest[n].max(ea + eb[n]);
        }
    }
    let mut scale = [0.0; N];
    let mut total = [0.0; N];
    for n in 0..N {
        scale[n] = power(bits - largest[n]);
        total[n] += (sums[n] * scale[n]).trunc();
    }
    for (k, &a) in a.iter().enumerate() {
        let at = row_of_b(k);
        let b = &b[at];
        for n in 0..N {
            total[n] += (a * b[n] * scale[n]).trunc();
        }
    }
    for n in 0..N {
        sums[n] = round(total[n] * power(largest[n] - bits), rounding);
    }
}

/// The exponent that a sum in single precision has in hardware.
pub(super) fn exponent_of_sum(value: f64) -> i32 {
    let own = (value.to_bits() >> 52 & 0x7ff) as i32 - 1023;
    own.max(LEAST)
}

/// A sum as the next group takes it.
#[inline(always)]
pub(super) fn round(value: f64, sums: Sums) -> f64 {
    let bits = value.to_bits();
    match sums {
        Sums::Single(kept) => {
            let normal = f64::from_bits(bits & !((1 << (52 - kept)) - 1));
            let unit = power(LEAST - kept as i32);
            let subnormal = (value * power(kept as i32 - LEAST)).trunc() * unit;
            let rounded = if value.abs() < power(LEAST) { subnormal } else { normal };
            // Beyond the largest number there is infinity.
            f64::from(rounded as f32)
        }
        Sums::Half => {
            let even = bits >> 42 & 1;
            let normal = f64::from_bits((bits + (1 << 41) - 1 + even) & !((1 << 42) - 1));
            // Units of 2^-24: those of 1.5 * 2^28.
            let magic = 1.5 * power(28);
            let subnormal = ((value + magic) - magic).copysign(value);
            let rounded = if value.abs() < power(-14) { subnormal } else { normal };
            let infinite = f64::INFINITY.copysign(value);
            if rounded.abs() >= 65536.0 { infinite } else { rounded }
        }
    }
}

/// The bits of a sum in D.
#[inline(always)]
pub(super) fn encode(value: f64, ty: Element) -> u32 {
    if ty != Element::F16 {
        return if value.is_nan() { 0x7fff_ffff } else { (value as f32).to_bits() };
    }
    let bits = (value as f32).to_bits();
    let (sign, magnitude) = (bits >> 16 & 0x8000, bits & 0x7fff_ffff);
    // A value that a half holds: its exponent moves, or it counts units of the least one.
    let normal = (magnitude.wrapping_sub(112 << 23)) >> 13;
    let small = (value.abs() * power(24)) as u32;
    match () {
        () if value.is_nan() => 0x7fff,
        () if value.is_infinite() => sign | 0x7c00,
        () if value.abs() < power(-14) => sign | small,
        () => sign | normal,
    }
}

/// What a chip keeps of these types.
fn facts(product: &Product<'_>) -> (i32, usize, Sums) {
    let types = product.op.matrix.types;
    let arithmetic = product.arithmetic;
    let (bits, group, kept) = match types[1] {
        small if small.is_small_float() => {
            (arithmetic.fp8_fraction_bits, arithmetic.groups.fp8, arithmetic.fp8_sum_bits)
        }
        Element::Tf32 => (arithmetic.fraction_bits, arithmetic.groups.tf32, 23),
        _ => (arithmetic.fraction_bits, arithmetic.groups.f16, 23),
    };
    let sums = if types[0] == Element::F16 { Sums::Half } else { Sums::Single(kept) };
    (bits as i32, group.max(1) as usize, sums)
}

/// Products of tiles of 16 by 8, the rows of A sparse or not.
#[inline(always)]
pub(super) fn tiles(scratch: &mut Scratch, product: &Product<'_>, results: &mut [LaneRow; RESULTS]) {
    let matrix = &product.op.matrix;
    let [a, b, c, e] = product.parts();
    let [of_d, of_a, of_b, of_c] = matrix.types;
    let rows = usize::from(matrix.shape.m).min(M);
    // Rows of A that are not known yet.
    let new_rows = if product.keeps_a { 0 } else { rows };
    fragments::load_a(scratch, new_rows, a);
    fragments::load_b(scratch, b);
    fragments::load_c(&mut scratch.sums, of_c, c, |bits| f64::from(single(of_c, bits)));
    let packed = of_a.packed();
    let stored = matrix.stored_k();
    let words = [stored / packed, usize::from(matrix.shape.k) / packed];
    // Once for each type, so that loops know it.
    match (of_a, of_b) {
        (Element::F16, _) => decode(scratch, [Element::F16; 2], new_rows, words),
        (Element::Bf16, _) => decode(scratch, [Element::Bf16; 2], new_rows, words),
        (Element::Tf32, _) => decode(scratch, [Element::Tf32; 2], new_rows, words),
        (Element::E4m3, Element::E4m3) => decode(scratch, [Element::E4m3; 2], new_rows, words),
        (Element::E5m2, Element::E5m2) => decode(scratch, [Element::E5m2; 2], new_rows, words),
        _ => decode(scratch, [of_a, of_b], new_rows, words),
    }
    if let Some(scale) = matrix.scale {
        scaled::apply(scratch, scale, product.scales(), [stored, usize::from(matrix.shape.k)]);
    }
    if let Some(metadata) = e.first() {
        fragments::load_places(scratch, matrix, product.op.selector, metadata);
    }
    match e.first() {
        _ if product.by_halves() => by_halves(scratch, product, rows, stored),
        Some(_) => {
            let Scratch { a, a_exponents, b, b_exponents, places, sums, .. } = scratch;
            let (bits, group, rounding) = facts(product);
            for row in 0..rows {
                let places = &places[row];
                for first in (0..stored).step_by(group) {
                    let ks = first..(first + group).min(stored);
                    let at = |k: usize| usize::from(places[first + k]) % FLOATS[1];
                    let of_b = (&*b, &*b_exponents);
                    let of_a = (&a[row][ks.clone()], &a_exponents[row][ks]);
                    add_group(&mut sums[row], of_a.0, of_a.1, at, of_b, bits, rounding);
                }
            }
        }
        None => dense(scratch, product, rows, stored),
    }
    fragments::store_d(&scratch.sums, rows, of_d, results, |value| encode(value, of_d));
}

/// Two products of halves, whose sum is added to C as `add` does it.
fn by_halves(scratch: &mut Scratch, product: &Product<'_>, rows: usize, stored: usize) {
    let matrix = &product.op.matrix;
    let half = matrix.types[0] == Element::F16;
    let (bits, rounding) =
        (product.arithmetic.fraction_bits as i32, if half { Sums::Half } else { Sums::Single(23) });
    let group = product.arithmetic.groups.f16.max(1) as usize;
    let Scratch { a, b, b_exponents, places, sums, .. } = scratch;
    // What is subnormal before is no subnormal half.
    let least = least_exponent(Element::F16);
    for (values, exponents) in b.iter().zip(b_exponents.iter_mut()).take(usize::from(matrix.shape.k)) {
        *exponents = values.map(|value| exponent(value as f32, least));
    }
    for row in 0..rows {
        let mut sum = [0.0; N];
        for pair in 0..2 {
            // Places in A and B of the elements of this product.
            let mut own = [(0, 0); FLOATS[0]];
            let mut count = 0;
            for k in (0..stored).filter(|k| k % 4 / 2 == pair) {
                let of_b = if matrix.sparse { usize::from(places[row][k]) % FLOATS[1] } else { k };
                own[count] = (k, of_b);
                count += 1;
            }
            for own in own[..count].chunks(group) {
                let mut values = [0.0; FLOATS[0]];
                let mut exponents = [0; FLOATS[0]];
                for (i, (k, _)) in own.iter().enumerate() {
                    values[i] = a[row][*k];
                    exponents[i] = exponent(values[i] as f32, least);
                }
                let (values, exponents) = (&values[..own.len()], &exponents[..own.len()]);
                add_group(&mut sum, values, exponents, |i| own[i].1, (b, b_exponents), bits, rounding);
            }
        }
        for (c, sum) in sums[row].iter_mut().zip(sum) {
            *c = match half {
                // Both are halves: the sum is exact, and rounded to the nearest half.
                true => round(*c + sum, Sums::Half),
                false => f64::from(*c as f32 + sum as f32),
            };
        }
    }
}

#[inline(always)]
fn dense(scratch: &mut Scratch, product: &Product<'_>, rows: usize, depth: usize) {
    let Scratch { a, a_exponents, b, b_exponents, sums, .. } = scratch;
    let (bits, group, rounding) = facts(product);
    for first in (0..depth).step_by(group) {
        let ks = first..(first + group).min(depth);
        let at = |k: usize| (first + k) % FLOATS[1];
        for row in 0..rows {
            let of_a = (&a[row][ks.clone()], &a_exponents[row][ks.clone()]);
            let of_b = (&*b, &*b_exponents);
            match rounding {
                // Known to the loops.
                Sums::Single(23) => {
                    add_group(&mut sums[row], of_a.0, of_a.1, at, of_b, bits, Sums::Single(23));
                }
                _ => add_group(&mut sums[row], of_a.0, of_a.1, at, of_b, bits, rounding),
            }
        }
    }
}

/// The four products of `m8n8k4`, each of eight threads: four from `4 * q` on and four from `16 + 4 * q` on.
#[inline(always)]
pub(super) fn quads(scratch: &mut Scratch, product: &Product<'_>, results: &mut [LaneRow; RESULTS]) {
    let matrix = &product.op.matrix;
    let [a, b, c, _] = product.parts();
    let [of_d, .., of_c] = matrix.types;
    let half = product.op.half.map(usize::from);
    let element = |registers: &[Lanes32], lane: usize, i: usize| {
        single(Element::F16, registers[i / 2][lane] >> (16 * (i % 2)) & 0xffff)
    };
    // Row and column of element `i` of a thread's sums.
    let place = |t: usize, high: usize, i: usize, ty: Element| match ty {
        Element::F16 => (t + 4 * high, i),
        _ => ((t & 1) + (i & 2) + 4 * high, (i & 4) + (t & 2) + (i & 1)),
    };
    for q in 0..4 {
        for (high, t) in [(0, 0), (0, 1), (0, 2), (0, 3), (1, 0), (1, 1), (1, 2), (1, 3)] {
            let lane = 16 * high + 4 * q + t;
            for i in 0..4 {
                let value = element(a, lane, i);
                let (row, k) = match matrix.layouts[0] {
                    Layout::Row => (t + 4 * high, i),
                    Layout::Col => (i + 4 * high, t),
                };
                scratch.a[row][k] = value.into();
                scratch.a_exponents[row][k] = exponent(value, -14);
                let value = element(b, lane, i);
                let (column, k) = match matrix.layouts[1] {
                    Layout::Col => (t + 4 * high, i),
                    Layout::Row => (i + 4 * high, t),
                };
                scratch.b[k][column] = value.into();
                scratch.b_exponents[k][column] = exponent(value, -14);
            }
            if of_c == Element::F16 {
                for i in 0..8 {
                    let (row, column) = place(t, high, i, of_c);
                    scratch.sums[row][column] = element(c, lane, i).into();
                }
            } else {
                for (i, register) in c.iter().enumerate() {
                    let (row, column) = place(t, high, i + 4 * half.unwrap_or(0), of_c);
                    scratch.sums[row][column] = f32::from_bits(register[lane]).into();
                }
            }
        }
        if product.arithmetic.quads_by_fma {
            let Scratch { a, b, sums, .. } = &mut *scratch;
            for (row, sums) in a.iter().zip(sums.iter_mut()).take(N) {
                for (n, c) in sums.iter_mut().enumerate() {
                    let chain = |sum: f32, k: usize| (row[k] as f32).mul_add(b[k][n] as f32, sum);
                    let sum = *c as f32 + (0..4).fold(0.0, chain);
                    *c = if of_d == Element::F16 { round(sum.into(), Sums::Half) } else { sum.into() };
                }
            }
        } else {
            dense(scratch, product, N, 4);
        }
        for (high, t) in [(0, 0), (0, 1), (0, 2), (0, 3), (1, 0), (1, 1), (1, 2), (1, 3)] {
            let lane = 16 * high + 4 * q + t;
            let bits = |i: usize| {
                let (row, column) = place(t, high, i, of_d);
                encode(scratch.sums[row][column], of_d)
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
    let double = |registers: &[Lanes32], r: usize, lane: usize| {
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
