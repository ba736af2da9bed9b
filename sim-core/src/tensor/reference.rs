//! What products of matrices are, written down slowly: elements as exact fractions with the exponents that they
//! have in hardware, fragments element by element after the formulas of the PTX manual. Shares nothing with the code
//! it checks but the names of shapes and types.

use num_bigint::BigInt;
use num_rational::BigRational;
use num_traits::{One, Signed, Zero};
use sim_frontend::chip::TensorArithmetic;
use sim_frontend::form::Rounding;
use sim_frontend::matrix::{BitOp, Element, Layout, MmaOp, ScaleType};
use sim_memory::soft_float::{F16, F32, F64, Round};

/// `2^e`.
pub(super) fn two(e: i64) -> BigRational {
    let power = BigRational::from_integer(BigInt::one() << e.unsigned_abs());
    if e < 0 { power.recip() } else { power }
}

/// A number of a type.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Number {
    Undefined,
    /// True: negative.
    Infinite(bool),
    /// Its value, and its exponent in hardware; none for zero.
    Finite(BigRational, Option<i64>),
}

/// By fraction bits, exponent bits and bias.
fn shape_of(ty: Element) -> (u32, u32, i64) {
    match ty {
        Element::F16 => (10, 5, 15),
        Element::Bf16 => (7, 8, 127),
        Element::E5m2 => (2, 5, 15),
        Element::E4m3 => (3, 4, 7),
        Element::E3m2 => (2, 3, 3),
        Element::E2m3 => (3, 2, 1),
        Element::E2m1 | Element::E2m1Packed => (1, 2, 1),
        _ => (23, 8, 127),
    }
}

pub(super) fn number(ty: Element, bits: u32) -> Number {
    let (fraction, exponent, bias) = shape_of(ty);
    let bits = if ty == Element::Tf32 { bits >> 13 << 13 } else { bits };
    // In its byte it has two bits below.
    let bits = if ty == Element::E2m1 { bits >> 2 } else { bits };
    let negative = bits >> (fraction + exponent) & 1 == 1;
    let field = i64::from(bits >> fraction & ((1 << exponent) - 1));
    let rest = bits & ((1 << fraction) - 1);
    let top = (1 << exponent) - 1;
    if ty == Element::E4m3 && field == top && rest == 7 {
        return Number::Undefined;
    }
    let all_finite =
        matches!(ty, Element::E4m3 | Element::E3m2 | Element::E2m3 | Element::E2m1 | Element::E2m1Packed);
    if !all_finite && field == top {
        return if rest == 0 { Number::Infinite(negative) } else { Number::Undefined };
    }
    let significand = i64::from(rest) + if field == 0 { 0 } else { 1 << fraction };
    let own = field.max(1) - bias;
    let value = BigRational::from_integer(significand.into()) * two(own - i64::from(fraction));
    let exponent = (significand != 0).then_some(own);
    Number::Finite(if negative { -value } else { value }, exponent)
}

/// Largest whole number not above a fraction that is not negative.
fn floor(value: &BigRational) -> BigInt {
    value.floor().to_integer()
}

/// `e` with `2^e <= value < 2^(e + 1)`.
fn exponent_of(value: &BigRational) -> i64 {
    let mut e = value.numer().bits() as i64 - value.denom().bits() as i64;
    while &two(e) > value {
        e -= 1;
    }
    while &two(e + 1) <= value {
        e += 1;
    }
    e
}

/// The bits of a sum in single precision, toward zero, with `kept` fractional bits.
fn to_single(value: &BigRational, kept: u32) -> u32 {
    if value.is_zero() {
        return 0;
    }
    let sign = if value.is_negative() { 1 << 31 } else { 0 };
    let magnitude = value.abs();
    let e = exponent_of(&magnitude).max(-126);
    if e > 127 {
        return sign | 0x7f80_0000;
    }
    let units = floor(&(magnitude * two(i64::from(kept) - e)));
    let units = u32::try_from(units).expect("fits") << (23 - kept);
    let biased = if units < 1 << 23 { 0 } else { (e + 127) as u32 };
    sign | biased << 23 | units & 0x7f_ffff
}

/// The bits of a sum as a half, to the nearest, ties to even.
fn to_half(value: &BigRational) -> u32 {
    if value.is_zero() {
        return 0;
    }
    let sign = if value.is_negative() { 0x8000 } else { 0 };
    let magnitude = value.abs();
    let e = exponent_of(&magnitude).max(-14);
    if e > 15 {
        return sign | 0x7c00;
    }
    let scaled = magnitude * two(10 - e);
    let whole = floor(&scaled);
    let rest = scaled - BigRational::from_integer(whole.clone());
    let half = two(-1);
    let odd = (&whole % 2u32) == BigInt::one();
    let units = u32::try_from(whole).expect("fits") + u32::from(rest > half || rest == half && odd);
    // Units beyond the significand carry into the exponent.
    sign | ((((e + 14) as u32) << 10) + units)
}

/// One group: products and the sum so far.
fn group(pairs: &[(Number, Number)], c: u32, types: [Element; 4], bits: i64, kept: u32) -> u32 {
    let half = types[0] == Element::F16;
    let c = number(if half { Element::F16 } else { Element::F32 }, c);
    let not_a_number = if half { 0x7fff } else { 0x7fff_ffff };
    let infinity = |negative: bool| match (half, negative) {
        (true, false) => 0x7c00,
        (true, true) => 0xfc00,
        (false, false) => 0x7f80_0000,
        (false, true) => 0xff80_0000,
    };
    let mut terms = Vec::new();
    let mut infinite = Vec::new();
    match c {
        Number::Undefined => return not_a_number,
        Number::Infinite(negative) => infinite.push(negative),
        Number::Finite(value, exponent) => terms.push((value, exponent)),
    }
    for pair in pairs {
        match pair {
            (Number::Undefined, _) | (_, Number::Undefined) => return not_a_number,
            (Number::Infinite(x), Number::Infinite(y)) => infinite.push(x != y),
            (Number::Infinite(x), Number::Finite(value, e))
            | (Number::Finite(value, e), Number::Infinite(x)) => {
                if e.is_none() {
                    return not_a_number;
                }
                infinite.push(*x != value.is_negative());
            }
            (Number::Finite(x, ex), Number::Finite(y, ey)) => {
                terms.push((x * y, ex.zip(*ey).map(|(x, y)| x + y)));
            }
        }
    }
    if let Some(&first) = infinite.first() {
        let all = infinite.iter().all(|negative| *negative == first);
        return if all { infinity(first) } else { not_a_number };
    }
    let largest = terms.iter().filter_map(|(_, e)| *e).chain([-126]).max().expect("not empty");
    let unit = two(largest - bits);
    let sum = terms.iter().fold(BigInt::zero(), |sum, (value, _)| {
        let units = floor(&(value.abs() / &unit));
        if value.is_negative() { sum - units } else { sum + units }
    });
    let sum = BigRational::from_integer(sum) * unit;
    if half { to_half(&sum) } else { to_single(&sum, kept) }
}

/// A scale: its significand and its exponent; none of what is not a number.
pub(super) fn scale(ty: ScaleType, byte: u32) -> Option<(BigRational, i64)> {
    if ty == ScaleType::Ue8m0 {
        return (byte != 255).then(|| (BigRational::one(), i64::from(byte) - 127));
    }
    match number(Element::E4m3, byte & 0x7f) {
        Number::Finite(value, None) => Some((value, -126)),
        Number::Finite(value, Some(exponent)) => Some((value / two(exponent), exponent)),
        _ => None,
    }
}

type Scales = Vec<Option<(BigRational, i64)>>;

/// The scales of row `row` of A and of column `column` of B: which thread of a quad has them, and which bytes.
fn scales_of(op: &MmaOp, scales: &[[u32; 32]], row: usize, column: usize) -> (Scales, Scales) {
    let own = op.matrix.scale.expect("it is scaled");
    // Two threads of a quad, the second of which has the lower half of the rows.
    let holder_of_a = 4 * (row % 8) + if scales[2][0] == 0 { row / 8 } else { 2 + row / 8 };
    let holder_of_b = 4 * column + scales[5][0] as usize;
    let bytes = |word: u32, first: u32| -> Scales {
        let list = word.to_le_bytes();
        (0..u32::from(own.parts)).map(|part| scale(own.ty, list[(first + part) as usize].into())).collect()
    };
    (bytes(scales[0][holder_of_a], scales[1][0]), bytes(scales[3][holder_of_b], scales[4][0]))
}

/// Blocks of sixteen products, each added and scaled exactly, with C.
fn blocks(a: &[u32], b: &[u32], c: u32, (of_a, of_b): (Scales, Scales), bits: i64) -> u32 {
    let value = |bits: u32| match number(Element::E2m1Packed, bits) {
        Number::Finite(value, _) => value,
        _ => unreachable!("all are finite"),
    };
    let mut terms = match number(Element::F32, c) {
        Number::Undefined => return 0x7fff_ffff,
        _ if of_a.iter().chain(&of_b).any(Option::is_none) => return 0x7fff_ffff,
        Number::Infinite(negative) => return if negative { 0xff80_0000 } else { 0x7f80_0000 },
        Number::Finite(value, exponent) => vec![(value, exponent.unwrap_or(-126))],
    };
    let count = a.len() / 16;
    for block in 0..count {
        let sum: BigRational = (16 * block..16 * block + 16).map(|k| value(a[k]) * value(b[k])).sum();
        let part = of_a.len() * block / count;
        let ((x, ex), (y, ey)) =
            (of_a[part].clone().expect("a number"), of_b[part].clone().expect("a number"));
        terms.push((sum * x * y * two(ex + ey), ex + ey));
    }
    let largest = terms.iter().map(|(_, e)| *e).max().expect("not empty");
    let unit = two(largest - bits);
    let units = terms.iter().map(|(value, _)| {
        let units = floor(&(value.abs() / &unit));
        if value.is_negative() { -units } else { units }
    });
    to_single(&(BigRational::from_integer(units.sum()) * unit), 23)
}

/// Two products of halves, the elements that are first and second of each four before the others; then C.
fn by_halves(a: &[u32], b: &[u32], c: u32, types: [Element; 4], arithmetic: &TensorArithmetic) -> u32 {
    let half = |ty: Element, bits: u32| match number(ty, bits) {
        Number::Finite(value, Some(_)) => {
            let own = exponent_of(&value.abs()).max(-14);
            Number::Finite(value, Some(own))
        }
        other => other,
    };
    let halves = [types[0], Element::F16, Element::F16, types[0]];
    let mut sum = 0;
    for pair in 0..2 {
        let own: Vec<_> = (0..a.len())
            .filter(|k| k % 4 / 2 == pair)
            .map(|k| (half(types[1], a[k]), half(types[2], b[k])))
            .collect();
        let (bits, size) = (arithmetic.fraction_bits.into(), arithmetic.groups.f16 as usize);
        sum = own.chunks(size).fold(sum, |sum, pairs| group(pairs, sum, halves, bits, 23));
    }
    let (format, one) = if types[0] == Element::F16 { (F16, 0x3c00) } else { (F32, 0x3f80_0000) };
    let out = format.fma(one, c.into(), sum.into(), Round::Nearest) as u32;
    if format == F16 && out & 0x7c00 == 0x7c00 && out & 0x3ff != 0 { 0x7fff } else { out }
}

/// A chain of fused multiply-adds of halves in single precision, and C.
fn chain(a: &[u32], b: &[u32], c: u32, of_d: Element) -> u32 {
    let single = |half: u32| F32.convert(F16, half.into(), Round::Nearest);
    let products = a.iter().zip(b);
    let sum = products.fold(0, |sum, (&a, &b)| F32.fma(single(a), single(b), sum, Round::Nearest));
    let c = if of_d == Element::F16 { single(c) } else { c.into() };
    let out = F32.fma(0x3f80_0000, c, sum, Round::Nearest);
    if of_d == Element::F16 { F16.convert(F32, out, Round::Nearest) as u32 } else { out as u32 }
}

/// A chain of groups.
pub(super) fn dot(
    a: &[u32],
    b: &[u32],
    c: u32,
    types: [Element; 4],
    arithmetic: &TensorArithmetic,
    scales: Option<&(Scales, Scales)>,
) -> u32 {
    let small = shape_of(types[1]).1 <= 4 || types[1] == Element::E5m2;
    let bytes = matches!(types[1], Element::E4m3 | Element::E5m2);
    if bytes && arithmetic.fp8_by_halves && scales.is_none() {
        return by_halves(a, b, c, types, arithmetic);
    }
    let (bits, size, kept) = match types[1] {
        _ if small => (arithmetic.fp8_fraction_bits, arithmetic.groups.fp8, arithmetic.fp8_sum_bits),
        Element::Tf32 => (arithmetic.fraction_bits, arithmetic.groups.tf32, 23),
        _ => (arithmetic.fraction_bits, arithmetic.groups.f16, 23),
    };
    let scaled = |number: Number, scale: Option<&Scales>| match (number, scale.map(|list| &list[0])) {
        (_, Some(None)) => Number::Undefined,
        (Number::Finite(value, own), Some(Some((significand, exponent)))) => {
            Number::Finite(value * significand * two(*exponent), own.map(|own| own + exponent))
        }
        (number, _) => number,
    };
    let (of_a, of_b) = (scales.map(|(a, _)| a), scales.map(|(_, b)| b));
    let pair = |(&a, &b)| (scaled(number(types[1], a), of_a), scaled(number(types[2], b), of_b));
    let pairs: Vec<_> = a.iter().zip(b).map(pair).collect();
    pairs.chunks(size as usize).fold(c, |c, pairs| group(pairs, c, types, bits.into(), kept))
}

fn integer(ty: Element, bits: u64) -> i64 {
    match ty {
        Element::S8 => i64::from(bits as u8 as i8),
        Element::S4 => {
            if bits & 8 != 0 {
                bits as i64 - 16
            } else {
                bits as i64
            }
        }
        _ => bits as i64,
    }
}

/// Element `i` of a fragment: its register, its first bit there, by the bits of an element.
fn element(registers: &[[u32; 32]], lane: usize, i: usize, bits: usize) -> u64 {
    if bits == 64 {
        return u64::from(registers[2 * i][lane]) | u64::from(registers[2 * i + 1][lane]) << 32;
    }
    let word = u64::from(registers[i * bits / 32][lane]);
    word >> (i * bits % 32) & ((1u64 << bits) - 1)
}

/// Row and column of element `i` of A that a thread of a product of 16 or 8 rows has; `own` elements of a register.
fn of_a(m: usize, lane: usize, i: usize, own: usize) -> (usize, usize) {
    let (group, thread) = (lane >> 2, lane % 4);
    let register = i / own;
    let row = if m == 16 && register % 2 == 1 { group + 8 } else { group };
    let column = thread * own + i % own + if m == 16 { register / 2 } else { register } * 4 * own;
    (row, column)
}

/// The bits of D, row by row, from the registers of all fragments.
pub(super) fn product(
    op: &MmaOp,
    arithmetic: &TensorArithmetic,
    rounding: Option<Rounding>,
    fragments: [&[[u32; 32]]; 5],
) -> Vec<Vec<u64>> {
    let matrix = &op.matrix;
    let [m, n, k] = [matrix.shape.m, matrix.shape.n, matrix.shape.k].map(usize::from);
    let [of_d, ty, tb, tc] = matrix.types;
    let [ra, rb, rc, metadata, scales] = fragments;
    let stored = if matrix.sparse { k / 2 } else { k };
    let own = matrix.types[1].packed();
    let mut a = vec![vec![0u64; stored]; m];
    let mut b = vec![vec![0u64; n]; k];
    let mut c = vec![vec![0u64; n]; m];
    for lane in 0..32 {
        let (g, t) = (lane >> 2, lane % 4);
        for i in 0..m * stored / 32 {
            let (row, column) = of_a(m, lane, i, own);
            a[row][column] = element(ra, lane, i, ty.bits());
        }
        for i in 0..k * n / 32 {
            let row = t * own + i % own + i / own * 4 * own;
            b[row][g] = element(rb, lane, i, tb.bits());
        }
        for i in 0..m * n / 32 {
            let row = if i < 2 { g } else { g + 8 };
            c[row][t * 2 + (i & 1)] = element(rc, lane, i, tc.bits());
        }
    }
    let mut out = vec![vec![0; n]; m];
    for (row, out) in out.iter_mut().enumerate() {
        let places: Vec<usize> = match metadata.first() {
            Some(metadata) => places(op, metadata, row, stored),
            None => (0..k).collect(),
        };
        for (column, out) in out.iter_mut().enumerate() {
            let x = &a[row];
            let y: Vec<u64> = places.iter().map(|&place| b[place][column]).collect();
            let c = c[row][column];
            *out = match ty {
                Element::F64 => x.iter().zip(&y).fold(c, |sum, (&x, &y)| {
                    let round = match rounding {
                        Some(Rounding::Rz) => Round::Zero,
                        Some(Rounding::Rm) => Round::Down,
                        Some(Rounding::Rp) => Round::Up,
                        _ => Round::Nearest,
                    };
                    F64.fma(x, y, sum, round)
                }),
                Element::B1 => {
                    let count = x.iter().zip(&y).filter(|&(&x, &y)| match matrix.bit_op {
                        Some(BitOp::And) => x & y == 1,
                        _ => x != y,
                    });
                    u64::from((c as u32).wrapping_add(count.count() as u32))
                }
                Element::S8 | Element::U8 | Element::S4 | Element::U4 => {
                    let products = x.iter().zip(&y).map(|(&x, &y)| integer(ty, x) * integer(tb, y));
                    let sum = i64::from(c as u32 as i32) + products.sum::<i64>();
                    let limits = (i64::from(i32::MIN), i64::from(i32::MAX));
                    let sum = if matrix.saturate { sum.clamp(limits.0, limits.1) } else { sum };
                    u64::from(sum as u32)
                }
                _ => {
                    let words = |list: &[u64]| list.iter().map(|&bits| bits as u32).collect::<Vec<_>>();
                    // C of halves is a single where D is one.
                    let c = match (of_d, tc) {
                        (Element::F16, _) | (_, Element::F32) => c as u32,
                        _ => match number(Element::F16, c as u32) {
                            Number::Finite(value, _) => to_single(&value, 23),
                            Number::Infinite(negative) => 0x7f80_0000 | u32::from(negative) << 31,
                            Number::Undefined => 0x7fff_ffff,
                        },
                    };
                    let scales = matrix.scale.map(|_| scales_of(op, scales, row, column));
                    match scales {
                        Some(scales) if ty == Element::E2m1Packed => {
                            blocks(&words(x), &words(&y), c, scales, arithmetic.fp4_fraction_bits.into())
                                .into()
                        }
                        scales => {
                            dot(&words(x), &words(&y), c, matrix.types, arithmetic, scales.as_ref()).into()
                        }
                    }
                }
            };
        }
    }
    out
}

/// The columns of a row's elements, by the figures of "Sparse matrix storage" in the PTX manual: which thread holds
/// the metadata of a chunk, and which of its bits.
fn places(op: &MmaOp, metadata: &[u32; 32], row: usize, stored: usize) -> Vec<usize> {
    let ty = op.matrix.types[1];
    let k = usize::from(op.matrix.shape.k);
    let quad = 4 * (row % 8);
    let low = row < 8;
    let f = usize::from(op.selector);
    // Sixteen or 32 bits of a row, so many a thread.
    let words: Vec<u32> = match (ty, k) {
        (Element::F16 | Element::Bf16, 16) | (Element::Tf32, 8) => {
            vec![metadata[quad + f] >> if low { 0 } else { 16 } & 0xffff]
        }
        (Element::F16 | Element::Bf16, _) | (Element::Tf32, _) => {
            (0..2).map(|i| metadata[quad + 2 * (f % 2) + i] >> if low { 0 } else { 16 } & 0xffff).collect()
        }
        (Element::S8 | Element::U8, 32) | (Element::S4 | Element::U4, 64) => {
            vec![metadata[quad + 2 * f + usize::from(!low)]]
        }
        _ => (0..2).map(|i| metadata[quad + 2 * i + usize::from(!low)]).collect(),
    };
    let per_word = if ty.bits() >= 16 { 4 } else { 8 };
    let chunks = words.iter().flat_map(|word| (0..per_word).map(move |i| word >> (4 * i) & 0xf));
    let mut out = Vec::new();
    for (chunk, nibble) in chunks.enumerate() {
        let (first, second) = ((nibble & 3) as usize, (nibble >> 2) as usize);
        match ty {
            // 0b0100 names the first of two, 0b1110 the second.
            Element::Tf32 => out.push(2 * chunk + first / 2),
            Element::S4 | Element::U4 | Element::E2m1Packed => {
                out.extend([2 * first, 2 * first + 1, 2 * second, 2 * second + 1].map(|i| 8 * chunk + i));
            }
            _ => out.extend([first, second].map(|i| 4 * chunk + i)),
        }
    }
    out.truncate(stored);
    out
}

/// The four products of `m8n8k4`: by thread and element of D, its bits.
pub(super) fn quads(
    op: &MmaOp,
    arithmetic: &TensorArithmetic,
    fragments: [&[[u32; 32]]; 3],
) -> Vec<Vec<u32>> {
    let matrix = &op.matrix;
    let [of_d, .., of_c] = matrix.types;
    let [ra, rb, rc] = fragments;
    let half = |registers: &[[u32; 32]], lane: usize, i: usize| element(registers, lane, i, 16) as u32;
    let place = |lane: usize, i: usize, ty: Element| {
        let high = if lane < 16 { 0 } else { 4 };
        if ty == Element::F16 {
            (lane % 4 + high, i)
        } else {
            ((lane & 0b1) + (i & 0b10) + high, (i & 0b100) + (lane & 0b10) + (i & 0b1))
        }
    };
    // Of a half of the columns, four elements of eight.
    let first = 4 * usize::from(op.half.unwrap_or(0));
    let mut out = vec![Vec::new(); 32];
    for quad in 0..4 {
        let lanes: Vec<usize> = (0..32).filter(|lane| lane % 16 / 4 == quad).collect();
        let (mut a, mut b, mut c) = ([[0; 4]; 8], [[0; 8]; 4], [[0; 8]; 8]);
        for &lane in &lanes {
            for i in 0..4 {
                let across = lane % 4 + if lane < 16 { 0 } else { 4 };
                let along = i + if lane < 16 { 0 } else { 4 };
                match matrix.layouts[0] {
                    Layout::Row => a[across][i] = half(ra, lane, i),
                    Layout::Col => a[along][lane % 4] = half(ra, lane, i),
                }
                match matrix.layouts[1] {
                    Layout::Row => b[lane % 4][along] = half(rb, lane, i),
                    Layout::Col => b[i][across] = half(rb, lane, i),
                }
            }
            let elements = if of_c == Element::F16 { 0..8 } else { first..first + rc.len().min(8) };
            for i in elements {
                let (row, column) = place(lane, i, of_c);
                c[row][column] = match of_c {
                    Element::F16 => half(rc, lane, i),
                    _ => rc[i - first][lane],
                };
            }
        }
        for &lane in &lanes {
            for i in if of_d == Element::F16 { 0..8 } else { first..first + 4 } {
                let (row, column) = place(lane, i, of_d);
                let b: Vec<u32> = b.iter().map(|row| row[column]).collect();
                let c = match (of_d, of_c) {
                    (Element::F32, Element::F16) => match number(Element::F16, c[row][column]) {
                        Number::Finite(value, _) => to_single(&value, 23),
                        Number::Infinite(negative) => 0x7f80_0000 | u32::from(negative) << 31,
                        Number::Undefined => 0x7fff_ffff,
                    },
                    _ => c[row][column],
                };
                out[lane].push(match arithmetic.quads_by_fma {
                    true => chain(&a[row], &b, c, of_d),
                    false => dot(&a[row], &b, c, matrix.types, arithmetic, None),
                });
            }
        }
    }
    out
}
