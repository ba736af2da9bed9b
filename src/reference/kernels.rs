//! The references, one function a workload's result.

use sim_frontend::workload::{HostBuffer, SplitMix64};

use super::inputs::{Inputs, Reference, ReferenceError};

type Result = std::result::Result<HostBuffer, ReferenceError>;

/// All references by name.
pub const ALL: &[(&str, Reference)] = &[
    ("vecadd", vecadd),
    ("fmaloop", fmaloop),
    ("sgemm", sgemm),
    ("reduce", reduce),
    ("vectoradd", vectoradd),
    ("saxpy", saxpy),
    ("daxpy", daxpy),
    ("reduction", reduction),
    ("scan", scan),
    ("transpose", transpose),
    ("histogram", histogram),
    ("graph_rows", graph_rows),
    ("graph_edges", graph_edges),
    ("first_level", first_level),
    ("bfs", bfs),
    ("spmv", spmv),
    ("mandelbrot", mandelbrot),
    ("nqueens", nqueens),
    ("bitonic_sort", bitonic_sort),
    ("needleman_wunsch", needleman_wunsch),
    ("hotspot", hotspot),
    ("black_scholes_call", black_scholes_call),
    ("black_scholes_put", black_scholes_put),
    ("producer_consumer", producer_consumer),
    ("dma_sums", dma_sums),
    ("chain", chain),
    ("dataflow", dataflow),
    ("ring", ring),
    ("exchange", exchange),
    ("warp_sums", warp_sums),
    ("warp_odd", warp_odd),
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
            let sum = p + q + r + s;
            // The simulated arithmetic has one NaN.
            if sum.is_nan() { f32::from_bits(0x7fff_ffff) } else { sum }
        })
        .collect();
    Ok(HostBuffer::from_f32(&out))
}

fn sgemm(i: &Inputs<'_>) -> Result {
    let (a, b, n) = (i.f32s("a")?, i.f32s("b")?, i.count("n")?);
    let mut c = vec![0f32; n * n];
    for row in 0..n {
        for column in 0..n {
            c[row * n + column] =
                (0..n).fold(0.0, |sum: f32, k| a[row * n + k].mul_add(b[k * n + column], sum));
        }
    }
    Ok(HostBuffer::from_f32(&c))
}

/// Sums of 256 elements, in the order of the tree.
fn reduce(i: &Inputs<'_>) -> Result {
    let (a, n) = (i.f32s("a")?, i.count("n")?);
    let sums: Vec<f32> = a[..n.min(a.len())]
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

fn vectoradd(i: &Inputs<'_>) -> Result {
    let wide =
        |name: &str| i.buffer(name)?.as_u64().ok_or_else(|| ReferenceError(format!("`{name}` is not u64")));
    let (a, b) = (wide("a")?, wide("b")?);
    let sums: Vec<u64> =
        a.iter().zip(&b).map(|(x, y)| x.wrapping_add(y.wrapping_mul(0x0123_4567_89ab_cdef))).collect();
    Ok(HostBuffer::from_u64(&sums))
}

fn saxpy(i: &Inputs<'_>) -> Result {
    let alpha = i.number("alpha")? as f32;
    let (x, y) = (i.f32s("x")?, i.f32s("y")?);
    Ok(HostBuffer::from_f32(&x.iter().zip(&y).map(|(x, y)| alpha.mul_add(*x, *y)).collect::<Vec<_>>()))
}

fn daxpy(i: &Inputs<'_>) -> Result {
    let alpha = i.number("alpha")?;
    let (x, y) = (i.f64s("dx")?, i.f64s("dy")?);
    Ok(HostBuffer::from_f64(&x.iter().zip(&y).map(|(x, y)| alpha.mul_add(*x, *y)).collect::<Vec<_>>()))
}

fn reduction(i: &Inputs<'_>) -> Result {
    let sum = i.i32s("in")?.iter().fold(0i32, |s, v| s.wrapping_add(*v));
    Ok(HostBuffer::from_u32(&[sum as u32]))
}

fn scan(i: &Inputs<'_>) -> Result {
    let block = i.count("block")?.max(1);
    let mut out = i.i32s("in")?;
    for chunk in out.chunks_mut(block) {
        for k in 1..chunk.len() {
            chunk[k] += chunk[k - 1];
        }
    }
    Ok(HostBuffer::from_i32(&out))
}

fn transpose(i: &Inputs<'_>) -> Result {
    let (a, n) = (i.f32s("in")?, i.count("n")?);
    Ok(HostBuffer::from_f32(&(0..n * n).map(|k| a[k % n * n + k / n]).collect::<Vec<_>>()))
}

fn histogram(i: &Inputs<'_>) -> Result {
    let mut bins = [0u32; 64];
    i.buffer("in")?.bytes.iter().for_each(|b| bins[usize::from(b >> 2)] += 1);
    Ok(HostBuffer::from_u32(&bins))
}

/// Out-degrees from 0 to twice the mean, so that rows have different lengths.
fn degrees(i: &Inputs<'_>) -> std::result::Result<Vec<usize>, ReferenceError> {
    let (n, degree) = (i.count("n")?, i.count("degree")?);
    let mut generator = SplitMix64(42);
    Ok((0..n).map(|_| (generator.next_bits() % (degree as u64 + 1)) as usize).collect())
}

fn graph_rows(i: &Inputs<'_>) -> Result {
    let mut rows = vec![0i32];
    for degree in degrees(i)? {
        rows.push(rows.last().copied().unwrap_or(0) + degree as i32);
    }
    Ok(HostBuffer::from_i32(&rows))
}

fn graph_edges(i: &Inputs<'_>) -> Result {
    let (n, total) = (i.count("n")? as u64, degrees(i)?.iter().sum::<usize>());
    let mut generator = SplitMix64(43);
    Ok(HostBuffer::from_i32(&(0..total).map(|_| (generator.next_bits() % n) as i32).collect::<Vec<_>>()))
}

fn first_level(i: &Inputs<'_>) -> Result {
    let mut level = vec![-1i32; i.count("n")?];
    level[0] = 0;
    Ok(HostBuffer::from_i32(&level))
}

fn bfs(i: &Inputs<'_>) -> Result {
    let (rows, edges, mut level) = (i.i32s("rows")?, i.i32s("edges")?, i.i32s("level")?);
    let mut queue = std::collections::VecDeque::from([0usize]);
    while let Some(v) = queue.pop_front() {
        for e in rows[v]..rows[v + 1] {
            let to = edges[e as usize] as usize;
            if level[to] < 0 {
                level[to] = level[v] + 1;
                queue.push_back(to);
            }
        }
    }
    Ok(HostBuffer::from_i32(&level))
}

fn spmv(i: &Inputs<'_>) -> Result {
    let (rows, columns) = (i.i32s("rows")?, i.i32s("columns")?);
    let (values, x) = (i.i32s("values")?, i.i32s("x")?);
    let y: Vec<i32> = rows
        .windows(2)
        .map(|w| (w[0]..w[1]).map(|e| values[e as usize] * x[columns[e as usize] as usize]).sum())
        .collect();
    Ok(HostBuffer::from_i32(&y))
}

fn mandelbrot(i: &Inputs<'_>) -> Result {
    let (width, height, limit) = (i.count("width")?, i.count("height")?, i.count("limit")?);
    let time = |px: usize, py: usize| {
        let (cx, cy) = ((px as f32).mul_add(0.03125, -2.0), (py as f32).mul_add(0.03125, -1.0));
        let (mut x, mut y) = (0f32, 0f32);
        for n in 0..limit {
            let (xx, yy) = (x * x, y * y);
            if xx + yy > 4.0 {
                return n as i32;
            }
            y = (2.0 * x).mul_add(y, cy);
            x = (xx - yy) + cx;
        }
        limit as i32
    };
    Ok(HostBuffer::from_i32(&(0..width * height).map(|k| time(k % width, k / width)).collect::<Vec<_>>()))
}

/// Solutions with queens already in the first rows.
fn solutions(n: usize, placed: &mut Vec<usize>) -> i32 {
    let fits = |placed: &[usize], column: usize| {
        let row = placed.len();
        placed.iter().enumerate().all(|(r, &c)| c != column && c.abs_diff(column) != row - r)
    };
    if placed.len() == n {
        return 1;
    }
    let mut count = 0;
    for column in 0..n {
        if fits(placed, column) {
            placed.push(column);
            count += solutions(n, placed);
            placed.pop();
        }
    }
    count
}

fn nqueens(i: &Inputs<'_>) -> Result {
    let n = i.count("n")?;
    let count = |t: usize| {
        let mut placed = vec![t / n, t % n];
        if placed[0].abs_diff(placed[1]) <= 1 { 0 } else { solutions(n, &mut placed) }
    };
    Ok(HostBuffer::from_i32(&(0..n * n).map(count).collect::<Vec<_>>()))
}

fn bitonic_sort(i: &Inputs<'_>) -> Result {
    let mut data = i.buffer("data")?.as_u32().ok_or_else(|| ReferenceError("`data` is not u32".into()))?;
    data.chunks_mut(256).for_each(<[u32]>::sort_unstable);
    Ok(HostBuffer::from_u32(&data))
}

fn needleman_wunsch(i: &Inputs<'_>) -> Result {
    let (a, b, gap) = (i.buffer("a")?.bytes, i.buffer("b")?.bytes, i.number("gap")? as i32);
    let score = |(a, b): (&[u8], &[u8])| {
        let mut row: Vec<i32> = (0..=b.len() as i32).map(|j| -gap * j).collect();
        for (r, x) in a.iter().enumerate() {
            let mut corner = row[0];
            row[0] = -gap * (r as i32 + 1);
            for (j, y) in b.iter().enumerate() {
                let hit = corner + if x == y { 3 } else { -1 };
                corner = row[j + 1];
                row[j + 1] = hit.max(corner - gap).max(row[j] - gap);
            }
        }
        row[b.len()]
    };
    Ok(HostBuffer::from_i32(&a.chunks(64).zip(b.chunks(64)).map(score).collect::<Vec<_>>()))
}

fn hotspot(i: &Inputs<'_>) -> Result {
    let (mut t, power, n) = (i.f32s("t0")?, i.f32s("power")?, i.count("n")?);
    for _ in 0..2 {
        let at = |x: i64, y: i64, c: f32| {
            let inside = (0..n as i64).contains(&x) && (0..n as i64).contains(&y);
            if inside { t[y as usize * n + x as usize] } else { c }
        };
        let next = (0..n * n)
            .map(|k| {
                let (x, y, c) = ((k % n) as i64, (k / n) as i64, t[k]);
                let sum = (at(x - 1, y, c) + at(x + 1, y, c)) + (at(x, y - 1, c) + at(x, y + 1, c));
                c.mul_add(0.5, sum.mul_add(0.109_375, power[k] * 0.0625))
            })
            .collect();
        t = next;
    }
    Ok(HostBuffer::from_f32(&t))
}

/// The formula in double precision, with the same polynomial for the normal distribution.
fn black_scholes(i: &Inputs<'_>, call: bool) -> Result {
    let (s, x, t) = (i.f32s("price")?, i.f32s("strike")?, i.f32s("years")?);
    let (r, v) = (i.number("rate")?, i.number("volatility")?);
    let normal = |d: f64| {
        let k = 1.0 / (1.0 + 0.231_641_9 * d.abs());
        let p = k
            * (0.319_381_53
                + k * (-0.356_563_782 + k * (1.781_477_937 + k * (-1.821_255_978 + k * 1.330_274_429))));
        let tail = (-d * d / 2.0).exp() / std::f64::consts::TAU.sqrt() * p;
        if d > 0.0 { 1.0 - tail } else { tail }
    };
    let value = |k: usize| {
        let (s, x, t) = (f64::from(s[k]), f64::from(x[k]), f64::from(t[k]));
        let d1 = ((s / x).ln() + (r + v * v / 2.0) * t) / (v * t.sqrt());
        let d2 = d1 - v * t.sqrt();
        let discounted = x * (-r * t).exp();
        let price = if call {
            s * normal(d1) - discounted * normal(d2)
        } else {
            discounted * (1.0 - normal(d2)) - s * (1.0 - normal(d1))
        };
        price as f32
    };
    Ok(HostBuffer::from_f32(&(0..s.len()).map(value).collect::<Vec<_>>()))
}

fn black_scholes_call(i: &Inputs<'_>) -> Result {
    black_scholes(i, true)
}

fn black_scholes_put(i: &Inputs<'_>) -> Result {
    black_scholes(i, false)
}

fn producer_consumer(i: &Inputs<'_>) -> Result {
    let (input, rounds) = (i.i32s("in")?, i.count("rounds")?);
    let mut out = vec![0; input.len()];
    for block in 0..input.len() / (rounds * 32) {
        let mut sums = [0i32; 32];
        for round in 0..rounds {
            let base = (block * rounds + round) * 32;
            for lane in 0..32 {
                sums[lane] += input[base + 31 - lane] * 3;
            }
            out[base..base + 32].copy_from_slice(&sums);
        }
    }
    Ok(HostBuffer::from_i32(&out))
}

fn dma_sums(i: &Inputs<'_>) -> Result {
    let (input, rounds) = (i.i32s("in")?, i.count("rounds")?);
    let sum = |tiles: &[i32], t: usize| (0..rounds).map(|r| tiles[r * 64 + 63 - t]).sum();
    let blocks = input.chunks(rounds * 64);
    let sums: Vec<i32> = blocks.flat_map(|tiles| (0..64).map(move |t| sum(tiles, t))).collect();
    Ok(HostBuffer::from_i32(&sums))
}

fn chain(i: &Inputs<'_>) -> Result {
    let stages: [fn(u32) -> u32; 7] = [
        |v| v.wrapping_mul(3),
        |v| v.wrapping_add(7),
        |v| v ^ 0x55,
        |v| v.wrapping_sub(11),
        |v| v << 1,
        |v| v | 1,
        |v| !v,
    ];
    // Each of the seven links turns the lanes round.
    let of = |warp: &[u32]| -> Vec<u32> {
        warp.iter().rev().map(|v| stages.iter().fold(*v, |v, stage| stage(v))).collect()
    };
    Ok(HostBuffer::from_u32(&i.u32s("in")?.chunks(32).flat_map(of).collect::<Vec<_>>()))
}

fn dataflow(i: &Inputs<'_>) -> Result {
    let of = |v: &[i32]| -> Vec<i32> {
        let at = |lane: usize| {
            // b and a are read in turned order; what depends on a is turned three times in all.
            let (turned, back) = (v[31 - lane], v[lane]);
            turned + 1 + back * 2 * 5 + (turned * 2 - 9) * 7
        };
        (0..32).map(at).collect()
    };
    Ok(HostBuffer::from_i32(&i.i32s("in")?.chunks(32).flat_map(of).collect::<Vec<_>>()))
}

fn ring(i: &Inputs<'_>) -> Result {
    let rounds = i.count("rounds")?;
    let of = |token: &[i32]| -> Vec<i32> {
        let mut token = token.to_vec();
        for step in 0..4 * rounds {
            if step > 0 {
                token.reverse();
            }
            token.iter_mut().for_each(|v| *v = v.wrapping_mul(3).wrapping_add((step % 4) as i32));
        }
        token
    };
    Ok(HostBuffer::from_i32(&i.i32s("in")?.chunks(32).flat_map(of).collect::<Vec<_>>()))
}

fn exchange(i: &Inputs<'_>) -> Result {
    let turned = |v: &[i32]| -> Vec<i32> { v.iter().rev().copied().collect() };
    Ok(HostBuffer::from_i32(&i.i32s("in")?.chunks(64).flat_map(turned).collect::<Vec<_>>()))
}

fn warp_sums(i: &Inputs<'_>) -> Result {
    Ok(HostBuffer::from_i32(
        &i.i32s("in")?
            .chunks(32)
            .map(|w| w.iter().fold(0, |sum, x| i32::wrapping_add(sum, *x)))
            .collect::<Vec<_>>(),
    ))
}

fn warp_odd(i: &Inputs<'_>) -> Result {
    let odd = |w: &[i32]| w.iter().enumerate().fold(0u32, |m, (lane, v)| m | ((v & 1) as u32) << lane);
    Ok(HostBuffer::from_u32(&i.i32s("in")?.chunks(32).map(odd).collect::<Vec<_>>()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queens_by_the_known_counts() {
        for (n, expected) in [(4, 2), (5, 10), (6, 4), (8, 92)] {
            assert_eq!(solutions(n, &mut Vec::new()), expected);
        }
    }

    #[test]
    fn names_are_unique() {
        let mut names: Vec<_> = ALL.iter().map(|(name, _)| name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), ALL.len());
    }
}
