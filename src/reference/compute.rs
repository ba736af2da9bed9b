//! References of hashes, matrices, bodies, searches, clusters and sorting.

use sim_frontend::workload::HostBuffer;

use super::inputs::{Inputs, Reference, ReferenceError};
use super::tensor::spacing;

type Result = std::result::Result<HostBuffer, ReferenceError>;

/// References by name.
pub const ALL: &[(&str, Reference)] = &[
    ("sha256", sha256),
    ("dgemm", dgemm),
    ("igemm", igemm),
    ("mma_rate", mma_rate),
    ("wgmma_rate", wgmma_rate),
    ("nbody", nbody),
    ("nbody_half2_x", nbody_half2_x),
    ("nbody_half2_y", nbody_half2_y),
    ("string_differences", string_differences),
    ("string_products", string_products),
    ("string_best", string_best),
    ("virtual_calls", virtual_calls),
    ("kmeans_nearest", kmeans_nearest),
    ("kmeans_count", kmeans_count),
    ("kmeans_sum_x", |i| kmeans_sum(i, "x")),
    ("kmeans_sum_y", |i| kmeans_sum(i, "y")),
    ("lud", lud),
    ("mergesort", mergesort),
    ("linked_lists", linked_lists),
    ("prefix_sums", prefix_sums),
    ("tile_sums", |i| Ok(from_words(i.u32s("in")?.chunks(8).map(sum)))),
    ("even_numbers", |i| Ok(from_words(i.u32s("in")?.into_iter().filter(|v| v % 2 == 0)))),
    ("even_count", |i| {
        Ok(from_words(std::iter::once(i.u32s("in")?.iter().filter(|v| *v % 2 == 0).count() as u32)))
    }),
    ("tile_total", |i| Ok(from_words(std::iter::once(sum(&i.u32s("in")?))))),
    ("matrix_times_vector", matrix_times_vector),
    ("mixed_rounds", mixed_rounds),
];

/// The first primes.
fn primes(count: usize) -> Vec<u64> {
    (2..).filter(|n| (2..*n).all(|d| n % d != 0)).take(count).collect()
}

/// The first 32 bits of the fraction of the `root`-th root of a prime (FIPS 180-4 §4.2.2, §5.3.3),
/// by bisection.
fn fraction(prime: u64, root: u32) -> u32 {
    let wanted = u128::from(prime) << (32 * root);
    let (mut low, mut high) = (0u128, 1u128 << 37);
    while high - low > 1 {
        let middle = (low + high) / 2;
        if middle.pow(root) <= wanted { low = middle } else { high = middle }
    }
    low as u32
}

fn compress(state: &mut [u32; 8], block: &[u32], k: &[u32]) {
    let mut w = block.to_vec();
    for t in 16..64 {
        let s0 = w[t - 15].rotate_right(7) ^ w[t - 15].rotate_right(18) ^ w[t - 15] >> 3;
        let s1 = w[t - 2].rotate_right(17) ^ w[t - 2].rotate_right(19) ^ w[t - 2] >> 10;
        w.push(w[t - 16].wrapping_add(s0).wrapping_add(w[t - 7]).wrapping_add(s1));
    }
    let mut v = *state;
    for t in 0..64 {
        let [a, b, c, _, e, f, g, h] = v;
        let s1 = e.rotate_right(6) ^ e.rotate_right(11) ^ e.rotate_right(25);
        let t1 = [s1, e & f ^ !e & g, k[t], w[t]].iter().fold(h, |sum, x| sum.wrapping_add(*x));
        let s0 = a.rotate_right(2) ^ a.rotate_right(13) ^ a.rotate_right(22);
        let t2 = s0.wrapping_add(a & b ^ a & c ^ b & c);
        v.rotate_right(1);
        v[0] = t1.wrapping_add(t2);
        v[4] = v[4].wrapping_add(t1);
    }
    for (s, v) in state.iter_mut().zip(v) {
        *s = s.wrapping_add(v);
    }
}

/// The hash of whole blocks, padding included.
fn hash(blocks: &[u32]) -> [u32; 8] {
    let primes = primes(64);
    let k: Vec<u32> = primes.iter().map(|p| fraction(*p, 3)).collect();
    let mut state = [0; 8];
    for (s, p) in state.iter_mut().zip(&primes) {
        *s = fraction(*p, 2);
    }
    blocks.chunks_exact(16).for_each(|block| compress(&mut state, block, &k));
    state
}

fn words(i: &Inputs<'_>, name: &str) -> std::result::Result<Vec<u32>, ReferenceError> {
    Ok(i.i32s(name)?.into_iter().map(|word| word as u32).collect())
}

/// As hardware adds: modulo 2^32.
fn sum(words: &[u32]) -> u32 {
    words.iter().fold(0, |sum, word| sum.wrapping_add(*word))
}

fn from_words(words: impl Iterator<Item = u32>) -> HostBuffer {
    HostBuffer::from_u32(&words.collect::<Vec<_>>())
}

fn sha256(i: &Inputs<'_>) -> Result {
    let messages = words(i, "messages")?;
    let digests = messages.chunks_exact(16).flat_map(|message| {
        let mut blocks = message.to_vec();
        blocks.push(0x8000_0000);
        blocks.resize(31, 0);
        blocks.push(512);
        hash(&blocks)
    });
    Ok(from_words(digests))
}

fn dgemm(i: &Inputs<'_>) -> Result {
    let (a, b, n) = (i.f64s("a")?, i.f64s("b")?, i.count("n")?);
    let cell = |row: usize, column: usize| {
        (0..n).fold(0.0, |sum: f64, k| a[row * n + k].mul_add(b[k * n + column], sum))
    };
    Ok(HostBuffer::from_f64(&(0..n * n).map(|at| cell(at / n, at % n)).collect::<Vec<_>>()))
}

/// A product of bytes: A by rows, B by columns, sums modulo 2^32.
fn igemm(i: &Inputs<'_>) -> Result {
    let n = i.count("n")?;
    let bytes = |name: &str| -> std::result::Result<Vec<i8>, ReferenceError> {
        Ok(i.i32s(name)?.into_iter().flat_map(|word| word.to_le_bytes().map(u8::cast_signed)).collect())
    };
    let (a, b) = (bytes("a")?, bytes("b")?);
    let cell = |row: usize, column: usize| {
        let products = a[row * n..(row + 1) * n].iter().zip(&b[column * n..(column + 1) * n]);
        products.fold(0i32, |sum, (&x, &y)| sum.wrapping_add(i32::from(x) * i32::from(y)))
    };
    Ok(from_words((0..n * n).map(|at| cell(at / n, at % n).cast_unsigned())))
}

/// Matrices of ones: each product adds its depth, to four sums or, in the chain of one warp, to one.
fn mma_rate(i: &Inputs<'_>) -> Result {
    let rounds = i.count("rounds")? as f32;
    let kinds = [
        (16.0, 4.0, 512),
        (16.0, 4.0, 512),
        (16.0, 4.0, 512),
        (8.0, 4.0, 512),
        (32.0, 4.0, 512),
        (16.0, 1.0, 32),
    ];
    let of = |(depth, sums, threads): (f32, f32, usize)| {
        (0..512).map(move |thread| if thread < threads { depth * sums * rounds } else { 0.0 })
    };
    Ok(HostBuffer::from_f32(&kinds.into_iter().flat_map(of).collect::<Vec<_>>()))
}

/// Matrices of ones: each product adds its depth.
fn wgmma_rate(i: &Inputs<'_>) -> Result {
    let rounds = i.count("rounds")? as f32;
    let depths = [[16.0; 13].as_slice(), &[8.0, 32.0, 32.0]].concat();
    let of = |depth| std::iter::repeat_n(depth * rounds, 128);
    Ok(HostBuffer::from_f32(&depths.into_iter().flat_map(of).collect::<Vec<_>>()))
}

/// In double precision: the kernel's is within the tolerance of it.
fn nbody(i: &Inputs<'_>) -> Result {
    let bodies: Vec<[f64; 4]> = i
        .f32s("bodies")?
        .chunks_exact(4)
        .map(|b| [b[0].into(), b[1].into(), b[2].into(), b[3].into()])
        .collect();
    let mut out = Vec::new();
    for me in &bodies {
        let mut sum = [0.0; 3];
        for other in &bodies {
            let d = [0, 1, 2].map(|k| other[k] - me[k]);
            let r2 = d.iter().map(|d| d * d).sum::<f64>() + f64::from(0.01f32);
            for k in 0..3 {
                sum[k] += d[k] * other[3] / (r2 * r2.sqrt());
            }
        }
        out.extend(sum.map(|s| s as f32));
        out.push(0.0);
    }
    Ok(HostBuffer::from_f32(&out))
}

/// A half: the nearest of the values `k × 2^e` with eleven bits, ties to even.
fn half(x: f64) -> f64 {
    let unit = spacing(x, 10, -14);
    (x / unit).round_ties_even() * unit
}

/// The bits of a half that [`half`] gave, which is finite.
fn half_bits(x: f64) -> u32 {
    let sign = u32::from(x.is_sign_negative()) << 15;
    let magnitude = x.abs();
    if magnitude < 2f64.powi(-14) {
        return sign | (magnitude * 2f64.powi(24)) as u32;
    }
    let exponent = magnitude.log2().floor() as i32;
    let fraction = (magnitude / 2f64.powi(exponent) - 1.0) * 1024.0;
    sign | ((exponent + 15) as u32) << 10 | fraction as u32
}

/// Forces along x and y, each body alone; every operation rounds to half precision.
fn half_forces(i: &Inputs<'_>) -> std::result::Result<Vec<[f64; 2]>, ReferenceError> {
    let halves = |name: &str| -> std::result::Result<Vec<f64>, ReferenceError> {
        Ok(i.f32s(name)?.into_iter().map(|x| half(x.into())).collect())
    };
    let (x, y, mass) = (halves("x")?, halves("y")?, halves("mass")?);
    let force = |me: usize| {
        let mut sum = [0.0f64; 2];
        for j in 0..x.len() {
            let (dx, dy) = (half(x[j] - x[me]), half(y[j] - y[me]));
            // Products of halves and their sums are exact in double precision.
            let r2 = half(dx * dx + half(dy * dy));
            let w = half(mass[j] * half((-r2).exp2()));
            sum = [half(dx * w + sum[0]), half(dy * w + sum[1])];
        }
        sum
    };
    Ok((0..x.len()).map(force).collect())
}

fn packed(forces: &[[f64; 2]], axis: usize) -> HostBuffer {
    from_words(forces.chunks_exact(2).map(|two| half_bits(two[0][axis]) | half_bits(two[1][axis]) << 16))
}

fn nbody_half2_x(i: &Inputs<'_>) -> Result {
    Ok(packed(&half_forces(i)?, 0))
}

fn nbody_half2_y(i: &Inputs<'_>) -> Result {
    Ok(packed(&half_forces(i)?, 1))
}

/// For each position of the text, something of its 16 bytes and those of the query.
fn windows(i: &Inputs<'_>, f: fn(u32, u32) -> u32) -> std::result::Result<Vec<u32>, ReferenceError> {
    let bytes = |name: &str| -> std::result::Result<Vec<u8>, ReferenceError> {
        Ok(words(i, name)?.into_iter().flat_map(u32::to_le_bytes).collect())
    };
    let (text, query, n) = (bytes("text")?, bytes("query")?, i.count("n")?);
    let sum = |at: usize| (0..16).map(|k| f(text[at + k].into(), query[k].into())).sum();
    Ok((0..n).map(sum).collect())
}

fn string_differences(i: &Inputs<'_>) -> Result {
    Ok(HostBuffer::from_u32(&windows(i, u32::abs_diff)?))
}

fn string_products(i: &Inputs<'_>) -> Result {
    Ok(HostBuffer::from_u32(&windows(i, |a, b| a * b)?))
}

fn string_best(i: &Inputs<'_>) -> Result {
    let differences = windows(i, u32::abs_diff)?;
    Ok(from_words(differences.iter().zip(0u32..).map(|(d, at)| d << 16 | at).min().into_iter()))
}

/// A hash of the numbers that a thread kept, the last first: those of its own that 3 does not divide.
fn linked_lists(i: &Inputs<'_>) -> Result {
    let (numbers, each) = (i.u32s("numbers")?, i.count("each")?);
    let sum = |own: &[u32]| own.iter().filter(|v| **v % 3 != 0).fold(0u32, |sum, v| sum.wrapping_mul(7) ^ v);
    Ok(from_words(numbers.chunks(each).map(|own| sum(&own.iter().rev().copied().collect::<Vec<_>>()))))
}

fn prefix_sums(i: &Inputs<'_>) -> Result {
    let sums = i.i32s("in")?.into_iter().scan(0i32, |sum, v| {
        *sum = sum.wrapping_add(v);
        Some(*sum)
    });
    Ok(HostBuffer::from_i32(&sums.collect::<Vec<_>>()))
}

fn matrix_times_vector(i: &Inputs<'_>) -> Result {
    let (matrix, vector) = (i.i32s("matrix")?, i.i32s("vector")?);
    let pitch = matrix.len() / i.count("rows")?;
    let row =
        |row: &[i32]| row.iter().zip(&vector).fold(0i32, |sum, (a, b)| sum.wrapping_add(a.wrapping_mul(*b)));
    Ok(HostBuffer::from_i32(&matrix.chunks(pitch).map(row).collect::<Vec<_>>()))
}

/// Each of 64 consumers of a block mixes every 64th number of what the block is given.
fn mixed_rounds(i: &Inputs<'_>) -> Result {
    let (numbers, blocks) = (i.u32s("in")?, i.count("blocks")?);
    let mix = |sum: u32, v: &u32| sum.wrapping_mul(31).wrapping_add(*v);
    let block = |b: &[u32]| (0..64).map(|t| b.iter().skip(t).step_by(64).fold(0, mix)).collect::<Vec<_>>();
    Ok(from_words(numbers.chunks(numbers.len() / blocks).flat_map(block)))
}

fn virtual_calls(i: &Inputs<'_>) -> Result {
    let one = |(&kind, &size): (&i32, &i32)| match kind {
        0 => size * size * 3 + 4000,
        1 => size * (size + 1) / 2 * 3 + 3000,
        _ => (0..size).map(|i| (i * 3) ^ i).sum::<i32>() + 2000 * size,
    };
    Ok(HostBuffer::from_i32(&i.i32s("kinds")?.iter().zip(&i.i32s("sizes")?).map(one).collect::<Vec<_>>()))
}

/// The nearest of eight centres, for each point.
fn nearest(i: &Inputs<'_>) -> std::result::Result<Vec<i32>, ReferenceError> {
    let (x, y, cx, cy) = (i.f32s("x")?, i.f32s("y")?, i.f32s("cx")?, i.f32s("cy")?);
    let distance = |p: usize, k: usize| {
        let (dx, dy) = (x[p] - cx[k], y[p] - cy[k]);
        dx * dx + dy * dy
    };
    let one = |p: usize| (1..8).fold(0, |best, k| if distance(p, k) < distance(p, best) { k } else { best });
    Ok((0..x.len()).map(|p| one(p) as i32).collect())
}

fn kmeans_nearest(i: &Inputs<'_>) -> Result {
    Ok(HostBuffer::from_i32(&nearest(i)?))
}

fn kmeans_count(i: &Inputs<'_>) -> Result {
    let nearest = nearest(i)?;
    let count = |k: i32| nearest.iter().filter(|c| **c == k).count() as i32;
    Ok(HostBuffer::from_i32(&(0..8).map(count).collect::<Vec<_>>()))
}

fn kmeans_sum(i: &Inputs<'_>, axis: &str) -> Result {
    let (nearest, values) = (nearest(i)?, i.f32s(axis)?);
    let own = |k: i32| nearest.iter().zip(&values).filter(move |(c, _)| **c == k);
    let sum = |k: i32| own(k).map(|(_, v)| (v * 1024.0) as i32).sum::<i32>();
    Ok(HostBuffer::from_i32(&(0..8).map(sum).collect::<Vec<_>>()))
}

fn lud(i: &Inputs<'_>) -> Result {
    let (mut a, n) = (i.f32s("a")?, i.count("n")?);
    for k in 0..n {
        for row in k + 1..n {
            a[row * n + k] /= a[k * n + k];
            let factor = -a[row * n + k];
            for column in k + 1..n {
                a[row * n + column] = factor.mul_add(a[k * n + column], a[row * n + column]);
            }
        }
    }
    Ok(HostBuffer::from_f32(&a))
}

fn mergesort(i: &Inputs<'_>) -> Result {
    let mut keys = i.i32s("keys")?;
    keys.sort_unstable();
    Ok(HostBuffer::from_i32(&keys))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// FIPS 180-4, the example "abc".
    #[test]
    fn the_hash_of_abc() {
        let mut block = vec![0x6162_6380];
        block.resize(15, 0);
        block.push(24);
        let expected = [
            0xba78_16bf,
            0x8f01_cfea,
            0x4141_40de,
            0x5dae_2223,
            0xb003_61a3,
            0x9617_7a9c,
            0xb410_ff61,
            0xf200_15ad,
        ];
        assert_eq!(hash(&block), expected);
    }

    #[test]
    fn halves() {
        assert_eq!([1.0, 65504.0, -2.0, 6e-8].map(|x| half_bits(half(x))), [0x3c00, 0x7bff, 0xc000, 1]);
        assert_eq!(half(1.0 + 2f64.powi(-11)), 1.0, "a tie goes to the even one");
    }
}
