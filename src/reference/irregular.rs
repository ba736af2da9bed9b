//! References of the programs whose threads part by their data.

use sim_frontend::workload::HostBuffer;

use super::inputs::{Inputs, Reference, ReferenceError};

type Result = std::result::Result<HostBuffer, ReferenceError>;

/// All of them by name.
pub const ALL: &[(&str, Reference)] = &[
    ("quicksort", quicksort),
    ("interpreter", interpreter),
    ("montecarlo", montecarlo),
    ("ray_sphere", ray_sphere),
];

/// Threads of the launch.
fn threads(i: &Inputs<'_>) -> std::result::Result<usize, ReferenceError> {
    Ok(i.count("blocks")? * 128)
}

/// Pieces sorted, but for the last words that their threads leave alone.
fn quicksort(i: &Inputs<'_>) -> Result {
    let (mut data, piece) = (i.u32s("data")?, i.count("piece")?);
    for (t, piece) in data.chunks_mut(piece.max(1)).enumerate() {
        let sorted = piece.len() - t % 4;
        piece[..sorted].sort_unstable();
    }
    Ok(HostBuffer::from_u32(&data))
}

fn interpreter(i: &Inputs<'_>) -> Result {
    let (code, length) = (i.u32s("code")?, i.count("length")? as u32);
    let run = |t: u32| {
        let (mut pc, mut x, mut y) = (t * 5 % length, t, 1u32);
        for _ in 0..64 {
            let word = code[pc as usize];
            let argument = word >> 8;
            pc += 1;
            match word & 15 {
                0 => x = x.wrapping_add(argument),
                1 => x ^= y << 3,
                2 => y = y.wrapping_mul(3).wrapping_add(x),
                3 => std::mem::swap(&mut x, &mut y),
                4 if x & 1 == 1 => pc += argument & 7,
                5 if (x ^ y) & 2 == 2 => pc = argument % length,
                6 => x = (x >> 1).wrapping_add(argument),
                7 => x = (0..y & 7).fold(x, |x, i| x.wrapping_mul(5).wrapping_add(i)),
                8 if x & 63 == 0 => return x ^ y,
                9 => y = y.wrapping_sub(argument),
                4 | 5 | 8 => {}
                _ => x = x.wrapping_add(1),
            }
            if pc >= length {
                pc -= length;
            }
        }
        x.wrapping_add(y)
    };
    Ok(HostBuffer::from_u32(&(0..threads(i)? as u32).map(run).collect::<Vec<_>>()))
}

fn montecarlo(i: &Inputs<'_>) -> Result {
    let (wall, most) = (i.number("wall")? as i32, i.number("most")? as i32);
    let walk = |t: u32| {
        let mut x = t.wrapping_mul(747_796_405).wrapping_add(2_891_336_453);
        let (mut at, mut steps) = (0, 0);
        while at > -wall && at < wall && steps < most {
            x = x.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            if x >> 31 == 1 {
                at += 1;
                if x >> 30 & 1 == 1 {
                    x ^= x >> 7;
                }
            } else {
                at -= 1;
            }
            steps += 1;
        }
        steps as u32 * 64 + (at + wall) as u32
    };
    Ok(HostBuffer::from_u32(&(0..threads(i)? as u32).map(walk).collect::<Vec<_>>()))
}

fn ray_sphere(i: &Inputs<'_>) -> Result {
    let bounces = i.count("bounces")?;
    let dot = |a: [f32; 3], b: [f32; 3]| (a[0] * b[0] + a[1] * b[1]) + a[2] * b[2];
    let ray = |t: usize| {
        let mut o = [0f32, 0.0, -4.0];
        let mut d = [(t % 32) as f32 * 0.0625 - 1.0, (t / 32 % 32) as f32 * 0.0625 - 1.0, 2.0];
        let n = dot(d, d).sqrt();
        d = d.map(|x| x / n);
        let mut hits = 0;
        for _ in 0..bounces {
            let (mut nearest, mut centre) = (1e30f32, [0f32; 3]);
            for s in 0..4 {
                let side = |bit: usize| if s & bit != 0 { 1.0 } else { -1.0 };
                let c = [side(1), side(2), if s == 3 { 1.0 } else { 0.0 }];
                let l: [f32; 3] = std::array::from_fn(|k| c[k] - o[k]);
                let along = dot(l, d);
                if along <= 0.0 {
                    continue;
                }
                let off = dot(l, l) - along * along;
                if off >= 0.81 {
                    continue;
                }
                let at = along - (0.81 - off).sqrt();
                if at > 0.001 && at < nearest {
                    (nearest, centre) = (at, c);
                }
            }
            if nearest >= 1e30 {
                break;
            }
            hits += 1;
            o = std::array::from_fn(|k| o[k] + d[k] * nearest);
            let n: [f32; 3] = std::array::from_fn(|k| (o[k] - centre[k]) / 0.9);
            let twice = 2.0 * dot(d, n);
            d = std::array::from_fn(|k| d[k] - twice * n[k]);
        }
        hits as f32 + d[0] * 0.25
    };
    Ok(HostBuffer::from_f32(&(0..threads(i)?).map(ray).collect::<Vec<_>>()))
}
