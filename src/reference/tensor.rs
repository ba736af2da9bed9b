//! References of the workloads on tensor cores: in double precision, on operands as the kernels round them.

use sim_frontend::workload::{HostBuffer, Number, push_element};
use sim_memory::vocabulary::ScalarType;

use super::inputs::{Inputs, Reference, ReferenceError};

type Result<T = HostBuffer> = std::result::Result<T, ReferenceError>;

/// References by name.
pub const ALL: &[(&str, Reference)] = &[
    ("attention", |i| to_halves(&attention(i)?.0)),
    ("attention_sums", |i| Ok(to_singles(&attention(i)?.1))),
    ("attention_64", |i| attention_of(i, 64, false)),
    ("attention_64_causal", |i| attention_of(i, 64, true)),
    ("attention_128", |i| attention_of(i, 128, false)),
    ("attention_128_causal", |i| attention_of(i, 128, true)),
    ("tf32gemm", tf32gemm),
    ("fp8gemm", fp8gemm),
    ("sparse_gemm", sparse_gemm),
    ("convolution", convolution),
    ("deep_product", deep_product),
];

/// The elements of a buffer of any type.
fn numbers(i: &Inputs<'_>, name: &str) -> Result<Vec<f64>> {
    let buffer = i.buffer(name)?;
    Ok((0..buffer.len()).filter_map(|at| buffer.number(at)).map(Number::as_f64).collect())
}

fn to_singles(values: &[f64]) -> HostBuffer {
    HostBuffer::from_f32(&values.iter().map(|v| *v as f32).collect::<Vec<_>>())
}

fn to_halves(values: &[f64]) -> Result {
    let mut bytes = Vec::new();
    for value in values {
        push_element(&mut bytes, ScalarType::F16, Number::Real(*value)).map_err(ReferenceError)?;
    }
    Ok(HostBuffer { ty: ScalarType::F16, bytes })
}

/// The distance of numbers with `bits` of fraction around `x`; that of the least exponent for those below.
pub(super) fn spacing(x: f64, bits: i32, least: i32) -> f64 {
    let exponent = if x == 0.0 { least } else { (x.abs().log2().floor() as i32).max(least) };
    2f64.powi(exponent - bits)
}

fn dot(a: &[f64], b: impl Iterator<Item = f64>) -> f64 {
    a.iter().zip(b).map(|(x, y)| x * y).sum()
}

/// A product of `m` rows and `n` columns.
fn product(a: &[f64], b: &[f64], n: usize, depth: usize) -> Vec<f64> {
    let cell = |row, column| dot(row, (0..depth).map(|k| b[k * n + column]));
    a.chunks_exact(depth).flat_map(|row| (0..n).map(move |column| cell(row, column))).collect()
}

/// [`attend`] to all of the operands.
fn attention(i: &Inputs<'_>) -> Result<(Vec<f64>, Vec<f64>)> {
    let [q, k, v] = [numbers(i, "q")?, numbers(i, "k")?, numbers(i, "v")?];
    let (length, causal) = (i.count("length")?, i.count("causal")? != 0);
    let depth = q.len() / (length * i.count("heads")?);
    Ok(attend([&q, &k, &v], length, depth, causal))
}

/// The results of [`attend`] to as much of the operands as `heads` heads of `n` rows of this depth need.
fn attention_of(i: &Inputs<'_>, depth: usize, causal: bool) -> Result {
    let length = i.count("n")?;
    let all = length * i.count("heads")? * depth;
    let operand = |name| -> Result<Vec<f64>> {
        let mut numbers = numbers(i, name)?;
        numbers.truncate(all);
        Ok(numbers)
    };
    let [q, k, v] = [operand("q")?, operand("k")?, operand("v")?];
    Ok(to_singles(&attend([&q, &k, &v], length, depth, causal).0))
}

/// The results and the logarithms of the sums of exponentials of each query; causal, a row sees the keys up to its own.
fn attend([q, k, v]: [&[f64]; 3], length: usize, depth: usize, causal: bool) -> (Vec<f64>, Vec<f64>) {
    let (mut results, mut sums) = (Vec::new(), Vec::new());
    for (at, query) in q.chunks_exact(depth).enumerate() {
        let (first, own) = (at / length * length, at % length);
        let keys = first..first + if causal { own + 1 } else { length };
        let row = |of: usize| of * depth..(of + 1) * depth;
        let score = |key| dot(query, k[row(key)].iter().copied()) / (depth as f64).sqrt();
        let scores: Vec<f64> = keys.clone().map(score).collect();
        let most = scores.iter().copied().fold(f64::MIN, f64::max);
        let total: f64 = scores.iter().map(|s| (s - most).exp()).sum();
        let mut result = vec![0.0; depth];
        for (key, score) in keys.zip(&scores) {
            let weight = (score - most).exp() / total;
            result.iter_mut().zip(&v[row(key)]).for_each(|(sum, value)| *sum += weight * value);
        }
        results.extend(result);
        sums.push(most + total.ln());
    }
    (results, sums)
}

/// Operands rounded to ten bits of fraction, ties away from zero.
fn tf32gemm(i: &Inputs<'_>) -> Result {
    let n = i.count("n")?;
    let rounded = |name: &str| -> Result<Vec<f64>> {
        let round = |x: f64| (x / spacing(x, 10, -126)).round() * spacing(x, 10, -126);
        Ok(numbers(i, name)?.into_iter().map(round).collect())
    };
    Ok(to_singles(&product(&rounded("a")?, &rounded("b")?, n, n)))
}

/// Operands rounded to E4M3: three bits of fraction, ties to even, at most 448. The right one lies by columns.
fn fp8gemm(i: &Inputs<'_>) -> Result {
    let n = i.count("n")?;
    let rounded = |name: &str| -> Result<Vec<f64>> {
        let round =
            |x: f64| ((x / spacing(x, 3, -6)).round_ties_even() * spacing(x, 3, -6)).clamp(-448.0, 448.0);
        Ok(numbers(i, name)?.into_iter().map(round).collect())
    };
    let (a, b) = (rounded("a")?, rounded("b")?);
    let row =
        |row: &[f64]| b.chunks_exact(n).map(|column| dot(row, column.iter().copied())).collect::<Vec<_>>();
    Ok(to_singles(&a.chunks_exact(n).flat_map(row).collect::<Vec<_>>()))
}

/// Of four neighbours the two greatest are kept, the first of those that are equal.
fn sparse_gemm(i: &Inputs<'_>) -> Result {
    let n = i.count("n")?;
    let (mut a, b) = (numbers(i, "a")?, numbers(i, "b")?);
    for four in a.chunks_exact_mut(4) {
        let mut order = [0, 1, 2, 3];
        order.sort_by(|x, y| four[*y].abs().total_cmp(&four[*x].abs()));
        order[2..].iter().for_each(|least| four[*least] = 0.0);
    }
    Ok(to_singles(&product(&a, &b, n, n)))
}

fn deep_product(i: &Inputs<'_>) -> Result {
    Ok(to_singles(&product(&numbers(i, "a")?, &numbers(i, "b")?, i.count("n")?, i.count("depth")?)))
}

/// Each filter at each place of each image, which zeros surround.
fn convolution(i: &Inputs<'_>) -> Result {
    let [batch, height, width, channels] = ["batch", "height", "width", "channels"].map(|name| i.count(name));
    let (batch, height, width, channels) = (batch?, height?, width?, channels?);
    let (size, stride, pad) = (i.count("size")?, i.count("stride")?, i.count("pad")?);
    let (image, filter) = (numbers(i, "image")?, numbers(i, "filter")?);
    let mut out = Vec::new();
    let steps = |edge: usize| (0..(edge + 2 * pad).saturating_sub(size - 1)).step_by(stride);
    for picture in image.chunks_exact(height * width * channels).take(batch) {
        for (y, x) in steps(height).flat_map(|y| steps(width).map(move |x| (y, x))) {
            for weights in filter.chunks_exact(size * size * channels) {
                let place = |at: usize| {
                    let (row, column) =
                        ((y + at / size).checked_sub(pad)?, (x + at % size).checked_sub(pad)?);
                    let first =
                        (row < height && column < width).then_some((row * width + column) * channels)?;
                    Some(&picture[first..first + channels])
                };
                let of = |(at, weights): (usize, &[f64])| {
                    place(at).map_or(0.0, |pixel| dot(pixel, weights.iter().copied()))
                };
                out.push(weights.chunks_exact(channels).enumerate().map(of).sum());
            }
        }
    }
    Ok(to_singles(&out))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spacings() {
        assert_eq!(
            [1.0, -3.0, 448.0, 0.001, 0.0].map(|x| spacing(x, 3, -6)),
            [0.125, 0.25, 32.0, 2f64.powi(-9), 2f64.powi(-9)]
        );
    }

    #[test]
    fn products() {
        assert_eq!(product(&[1.0, 2.0, 3.0, 4.0], &[5.0, 6.0, 7.0, 8.0], 2, 2), [19.0, 22.0, 43.0, 50.0]);
    }
}
