//! References of the shapes of divergent control flow.

use sim_frontend::workload::HostBuffer;

use super::inputs::{Inputs, Reference, ReferenceError};

type Result = std::result::Result<HostBuffer, ReferenceError>;

/// All of them by name.
pub const ALL: &[(&str, Reference)] = &[
    ("if_else", |i| each(i, if_else)),
    ("nested_if", |i| each(i, nested_if)),
    ("trip_count", |i| {
        each(i, |t| steps(start(t), &(0..t & 31).flat_map(|_| [1, 2]).chain([3]).collect::<Vec<_>>()))
    }),
    ("break_continue", |i| each(i, break_continue)),
    ("switch_case", |i| each(i, switch_case)),
    ("early_exit", |i| each(i, early_exit)),
    ("short_circuit", |i| each(i, short_circuit)),
    ("loop_of_two_entries", |i| each(i, loop_of_two_entries)),
    ("divergent_call", |i| each(i, divergent_call)),
    ("divergent_barrier", divergent_barrier),
    ("divergent_shuffle", divergent_shuffle),
    ("unstructured_mandelbrot", unstructured_mandelbrot),
];

/// Threads of a block.
const BLOCK: u32 = 128;

/// The result of every thread by itself.
fn each(i: &Inputs<'_>, thread: impl Fn(u32) -> u32) -> Result {
    let threads = i.count("blocks")? as u32 * BLOCK;
    Ok(HostBuffer::from_u32(&(0..threads).map(thread).collect::<Vec<_>>()))
}

fn start(t: u32) -> u32 {
    t.wrapping_mul(2_654_435_761).wrapping_add(12345)
}

/// One step of a thread's hash.
fn step(x: u32, c: u32) -> u32 {
    x.wrapping_mul(1_664_525).wrapping_add(c)
}

fn steps(x: u32, all: &[u32]) -> u32 {
    all.iter().fold(x, |x, &c| step(x, c))
}

fn if_else(t: u32) -> u32 {
    let side = if t & 1 == 1 { [1, 2, 3, 4, 5, 6] } else { [7, 8, 9, 10, 11, 12] };
    step(steps(start(t), &side), 13)
}

fn nested_if(t: u32) -> u32 {
    let path: &[u32] = match t & 31 {
        t if t & 1 == 0 => &[14],
        t if t & 2 == 0 => &[1, 12, 13],
        t if t & 4 == 0 => &[1, 2, 10, 11, 13],
        t if t & 8 == 0 => &[1, 2, 3, 8, 9, 11, 13],
        t if t & 16 == 0 => &[1, 2, 3, 4, 6, 7, 9, 11, 13],
        _ => &[1, 2, 3, 4, 5, 7, 9, 11, 13],
    };
    step(steps(start(t), path), 15)
}

fn break_continue(t: u32) -> u32 {
    let mut x = start(t);
    for _ in 0..24 {
        x = step(x, 1);
        if x >> 31 == 1 {
            continue;
        }
        x = step(x, 2);
        if x >> 24 & 15 == 0 {
            break;
        }
        x = step(x, 3);
    }
    step(x, 4)
}

fn switch_case(t: u32) -> u32 {
    (0..4).fold(start(t), |x, _| {
        let case: &[u32] = match x >> 13 & 7 {
            0 => &[1],
            1 => &[2, 3],
            2 => &[4, 5, 6],
            3 => &[5, 6],
            4 => &[7, 8, 9],
            5 => &[10],
            _ => &[11, 12],
        };
        step(steps(x, case), 13)
    })
}

fn early_exit(t: u32) -> u32 {
    let path: &[u32] = match t {
        t if t.is_multiple_of(3) => &[1],
        t if t.is_multiple_of(5) => &[1, 2, 3],
        _ => &[1, 2, 3, 4, 5, 6],
    };
    steps(start(t), path)
}

fn short_circuit(t: u32) -> u32 {
    let mut x = start(t);
    let test = |x: &mut u32, shift: u32| {
        *x = step(*x, 21);
        *x >> shift & 1 == 1
    };
    for _ in 0..4 {
        let both = test(&mut x, 17) && test(&mut x, 19);
        let whole = both || (test(&mut x, 23) && !test(&mut x, 29));
        x = if whole { steps(x, &[1, 2]) } else { step(x, 3) };
        x = step(x, 4);
    }
    x
}

fn loop_of_two_entries(t: u32) -> u32 {
    let (mut x, mut left) = (start(t), (t & 7) + 3);
    let mut spent = || {
        left = left.wrapping_sub(1);
        left == u32::MAX
    };
    if t & 1 == 1 {
        x = step(x, 2);
        if spent() {
            return step(x, 4);
        }
        x = step(x, 3);
    }
    loop {
        x = step(x, 1);
        if spent() {
            return step(x, 4);
        }
        x = step(x, 2);
        if spent() {
            return step(x, 4);
        }
        x = step(x, 3);
    }
}

fn callee(x: u32) -> u32 {
    let x = step(x, 1);
    if x >> 30 & 1 == 1 {
        return x;
    }
    let x = steps(x, &[2, 3]);
    step(x, if x >> 29 & 1 == 1 { 4 } else { 5 })
}

fn divergent_call(t: u32) -> u32 {
    let mut x = start(t);
    if t & 3 != 0 {
        x = callee(x);
    }
    x = step(x, 6);
    if t & 4 == 0 {
        x = callee(x).wrapping_add(callee(x.wrapping_add(1)));
    }
    step(x, 7)
}

fn divergent_barrier(i: &Inputs<'_>) -> Result {
    let stored = |t: u32| if t >> 5 & 1 == 1 { step(start(t), 1) } else { steps(start(t), &[3, 4]) };
    each(i, |t| {
        let own = step(stored(t), if t >> 5 & 1 == 1 { 2 } else { 5 });
        own.wrapping_add(stored(t / BLOCK * BLOCK + (t + 32) % BLOCK))
    })
}

fn divergent_shuffle(i: &Inputs<'_>) -> Result {
    let before = |t: u32| if t & 1 == 1 { step(start(t), 1) } else { steps(start(t), &[3, 4]) };
    let inside = |t: u32| {
        let (warp, lane) = (t / 32 * 32, t % 32);
        if lane & 1 == 1 {
            step(before(t).wrapping_add(before(warp + (lane ^ 2))), 2)
        } else {
            before(t) ^ before(warp + (lane + 4) % 32)
        }
    };
    each(i, |t| inside(t).wrapping_add(inside(t / 32 * 32 + 31 - t % 32)))
}

fn unstructured_mandelbrot(i: &Inputs<'_>) -> Result {
    let most = i.count("most")?;
    each(i, |t| {
        let (cx, cy) = ((t & 31) as f32 * 0.09375 - 2.0, (t >> 5) as f32 * 0.125 - 1.0);
        let (mut x, mut y, mut count) = (0f32, 0f32, 0);
        loop {
            let (xx, yy) = (x * x, y * y);
            if xx + yy > 4.0 {
                return count as u32;
            }
            if count >= most {
                return u32::MAX;
            }
            y = 2.0 * (x * y) + cy;
            x = (xx - yy) + cx;
            count += 1;
            if count == 4 && y > 1.0 {
                return count as u32;
            }
        }
    })
}
