//! The references, one function a workload's result.

use sim_frontend::workload::HostBuffer;

use super::{Inputs, Reference, ReferenceError};

type Result = std::result::Result<HostBuffer, ReferenceError>;

/// All references by name.
pub const ALL: &[(&str, Reference)] = &[
    ("vecadd", vecadd),
    ("fmaloop", fmaloop),
    ("sgemm", sgemm),
    ("reduce", reduce),
];

fn vecadd(i: &Inputs<'_>) -> Result {
    let (a, b) = (i.f32s("a")?, i.f32s("b")?);
    Ok(HostBuffer::from_f32(&a.iter().zip(&b).map(|(x, y)| x + y).collect::<Vec<_>>()))
}

fn fmaloop(i: &Inputs<'_>) -> Result {
    let (a, b, n) = (i.f32s("a")?, i.f32s("b")?, i.count("n")?);
    let out: Vec<f32> = a
        .iter()
        .zip(&b)
        .map(|(&x, &y)| {
            let (mut p, mut q, mut r, mut s) = (x, y, x + y, x - y);
            for _ in 0..n {
                p = p.mul_add(x, y);
                q = q.mul_add(y, x);
                r = r.mul_add(x, x);
                s = s.mul_add(y, y);
            }
            p + q + r + s
        })
        .collect();
    Ok(HostBuffer::from_f32(&out))
}

fn sgemm(i: &Inputs<'_>) -> Result {
    let (a, b, n) = (i.f32s("a")?, i.f32s("b")?, i.count("n")?);
    let mut c = vec![0f32; n * n];
    for row in 0..n {
        for column in 0..n {
            c[row * n + column] = (0..n).fold(0.0, |sum: f32, k| a[row * n + k].mul_add(b[k * n + column], sum));
        }
    }
    Ok(HostBuffer::from_f32(&c))
}

/// Sums of 256 elements, in the order of the tree.
fn reduce(i: &Inputs<'_>) -> Result {
    let (a, n) = (i.f32s("a")?, i.count("n")?);
    let sums: Vec<f32> = a[..n]
        .chunks(256)
        .map(|chunk| {
            let mut s = chunk.to_vec();
            s.resize(256, 0.0);
            let mut k = 1;
            while k < 256 {
                for t in (0..256).step_by(2 * k) {
                    s[t] += s[t + k];
                }
                k *= 2;
            }
            s[0]
        })
        .collect();
    Ok(HostBuffer::from_f32(&sums))
}
