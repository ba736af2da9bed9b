//! Attention, in double precision, row by row.

use sim_frontend::workload::HostBuffer;

use super::inputs::{Inputs, Reference, ReferenceError};

/// The references of this file by name.
pub const ALL: &[(&str, Reference)] = &[
    ("attention_64", |i| attention(i, 64, false)),
    ("attention_64_causal", |i| attention(i, 64, true)),
    ("attention_128", |i| attention(i, 128, false)),
    ("attention_128_causal", |i| attention(i, 128, true)),
];

/// `softmax(q * transposed k / sqrt(columns)) * v` of each of `heads` heads of `n` rows; causal, a row sees the keys up to
/// its own.
fn attention(i: &Inputs<'_>, columns: usize, causal: bool) -> Result<HostBuffer, ReferenceError> {
    let (q, k, v) = (i.f32s("q")?, i.f32s("k")?, i.f32s("v")?);
    let (n, heads) = (i.count("n")?, i.count("heads")?);
    let mut out = vec![0f32; heads * n * columns];
    let row_of = |from: &[f32], row: usize| -> Vec<f64> {
        from[row * columns..(row + 1) * columns].iter().map(|x| f64::from(*x)).collect()
    };
    for row in 0..heads * n {
        let (head, own) = (row / n * n, row % n);
        let query = row_of(&q, row);
        let keys = if causal { own + 1 } else { n };
        let score = |key: usize| -> f64 {
            let key = row_of(&k, head + key);
            query.iter().zip(&key).map(|(a, b)| a * b).sum::<f64>() / (columns as f64).sqrt()
        };
        let scores: Vec<f64> = (0..keys).map(score).collect();
        let most = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let weights: Vec<f64> = scores.iter().map(|score| (score - most).exp()).collect();
        let total: f64 = weights.iter().sum();
        let mut sums = vec![0f64; columns];
        for (key, weight) in weights.iter().enumerate() {
            for (sum, value) in sums.iter_mut().zip(row_of(&v, head + key)) {
                *sum += weight * value;
            }
        }
        for (to, sum) in out[row * columns..].iter_mut().zip(&sums) {
            *to = (sum / total) as f32;
        }
    }
    Ok(HostBuffer::from_f32(&out))
}
