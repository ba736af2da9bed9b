//! The formulas of the guide's appendix "Texture Fetching", written as they stand there, in exact fractions.

use num_bigint::BigInt;
use num_rational::BigRational;
use num_traits::{FromPrimitive, Signed, ToPrimitive, Zero};

use super::sampler::AddressMode;

type Q = BigRational;

fn q(n: i64) -> Q {
    Q::from_integer(BigInt::from(n))
}

fn floor(x: &Q) -> BigInt {
    x.floor().to_integer()
}

/// 1 - frac(x) for odd floor(x), frac(x) for even: the coordinate of mirror mode; of wrap mode frac(x).
fn index(i: &BigInt, n: i64, mode: AddressMode, normalized: bool) -> Option<i64> {
    let size = BigInt::from(n);
    let clamp = |i: &BigInt| {
        if i.is_negative() { 0 } else { i.min(&(&size - 1)).to_i64().unwrap_or(0) }
    };
    match mode {
        AddressMode::Border => (!i.is_negative() && *i < size).then(|| i.to_i64().unwrap_or(0)),
        AddressMode::Wrap if normalized => {
            let mut at = i.clone();
            // Period by period, not by a remainder.
            while at.is_negative() {
                at += &size;
            }
            while at >= size {
                at -= &size;
            }
            at.to_i64()
        }
        AddressMode::Mirror if normalized => {
            let mut at = i.clone();
            loop {
                if at.is_negative() {
                    // The mirror stands at 0: -1 is 0, -2 is 1.
                    at = -at - 1;
                } else if at >= size {
                    // It stands at n: n is n - 1.
                    at = BigInt::from(2 * n - 1) - at;
                } else {
                    return at.to_i64();
                }
            }
        }
        _ => Some(clamp(i)),
    }
}

/// A lookup in `axes` dimensions: coordinates, sizes, modes, and the texel at an index (`None`: the border).
pub fn sample(
    at: &[f32],
    sizes: &[i64],
    modes: &[AddressMode],
    normalized: bool,
    linear: bool,
    texel: &dyn Fn(&[Option<i64>]) -> Q,
) -> Q {
    let scaled: Vec<Q> = at
        .iter()
        .zip(sizes)
        .map(|(x, n)| {
            let x = Q::from_f32(*x).unwrap_or_else(Q::zero);
            if normalized { x * q(*n) } else { x }
        })
        .collect();
    let find = |indices: &[BigInt]| -> Q {
        let found: Vec<Option<i64>> = indices
            .iter()
            .zip(sizes)
            .zip(modes)
            .map(|((i, n), mode)| index(i, *n, *mode, normalized))
            .collect();
        texel(&found)
    };
    if !linear {
        return find(&scaled.iter().map(floor).collect::<Vec<_>>());
    }
    // i = floor(xB), alpha = frac(xB), xB = x - 0.5; alpha in 8 bits.
    let lower: Vec<BigInt> = scaled.iter().map(|x| floor(&(x - Q::new(1.into(), 2.into())))).collect();
    let alpha: Vec<Q> = scaled
        .iter()
        .zip(&lower)
        .map(|(x, i)| {
            let fraction = x - Q::new(1.into(), 2.into()) - Q::from_integer(i.clone());
            (fraction * q(256) + Q::new(1.into(), 2.into())).floor() / q(256)
        })
        .collect();
    let one = q(1);
    (0..1u32 << at.len()).fold(Q::zero(), |sum, corner| {
        let upper = |axis: usize| corner >> axis & 1 == 1;
        let indices: Vec<BigInt> =
            lower.iter().enumerate().map(|(axis, i)| i + i32::from(upper(axis))).collect();
        let weight = alpha.iter().enumerate().fold(one.clone(), |weight, (axis, alpha)| {
            weight * if upper(axis) { alpha.clone() } else { &one - alpha }
        });
        sum + weight * find(&indices)
    })
}

/// The nearest single-precision number.
pub fn nearest(x: &Q) -> f32 {
    // A fraction of small numbers: the double is exact enough to decide, and is checked to be no midpoint.
    let near = x.to_f64().unwrap_or(f64::NAN) as f32;
    let distance = |f: f32| (Q::from_f32(f).unwrap_or_else(Q::zero) - x).abs();
    [near.next_down(), near, near.next_up()]
        .into_iter()
        .min_by(|a, b| distance(*a).cmp(&distance(*b)).then((a.to_bits() & 1).cmp(&(b.to_bits() & 1))))
        .unwrap_or(near)
}
