//! References of the microbenchmarks.

use sim_frontend::workload::HostBuffer;

use super::inputs::{Inputs, Reference, ReferenceError};

type Result = std::result::Result<HostBuffer, ReferenceError>;

/// All of them by name.
pub const ALL: &[(&str, Reference)] = &[
    ("pointer_chase", pointer_chase),
    ("tma_copies", tma_copies),
    ("bank_conflicts", bank_conflicts),
    ("stream", stream),
    ("stream_sums", stream_sums),
    ("atomics", atomics),
    ("load_rates", load_rates),
    ("alu_chain", alu_chain),
    ("straight_code", straight_code),
    ("constant_loads", constant_loads),
    ("empty_blocks", empty_blocks),
];

/// The offset that the walk over a ring of addresses ends at.
fn pointer_chase(i: &Inputs<'_>) -> Result {
    let parameter = |name: &str| Ok::<u32, ReferenceError>(i.count(name)? as u32);
    let (n, factor, offset) = (parameter("n")?.max(1), parameter("factor")?, parameter("offset")?);
    let steps = i.count("warm")? + i.count("steps")?;
    let last = (0..steps).fold(0u32, |at, _| at.wrapping_mul(factor).wrapping_add(offset) % n);
    Ok(HostBuffer::from_u64(&[u64::from(last) * i.count("stride")? as u64]))
}

/// The same, of three walks.
fn tma_copies(i: &Inputs<'_>) -> Result {
    let one = pointer_chase(i)?;
    Ok(HostBuffer::from_u64(&one.as_u64().unwrap_or_default().repeat(3)))
}

/// The word each lane ends at: its start, and as many turns of 32 times the ways.
fn bank_conflicts(i: &Inputs<'_>) -> Result {
    let (ways, steps) = (i.count("ways")?, i.count("steps")?);
    let last: Vec<u32> = (0..32).map(|lane| ((lane + 32 * steps) * ways % 1024) as u32).collect();
    Ok(HostBuffer::from_u32(&last))
}

/// What the stream's modes leave in `c`.
fn stream(i: &Inputs<'_>) -> Result {
    let a = i.f32s("a")?;
    let c: Vec<f32> = match i.count("mode")? {
        0 => vec![0.0; a.len()],
        1 => (0..a.len()).map(|k| (k % 4 + 1) as f32).collect(),
        _ => a,
    };
    Ok(HostBuffer::from_f32(&c))
}

/// What each thread sums in the stream's reading mode.
fn stream_sums(i: &Inputs<'_>) -> Result {
    let (a, threads) = (i.f32s("a")?, i.count("blocks")? * i.count("block")?);
    let mut sums = vec![0f32; threads];
    if i.count("mode")? == 0 {
        for (k, v) in a.chunks_exact(4).enumerate() {
            let group = (v[0] + v[1]) + (v[2] + v[3]);
            sums[k % threads] += group;
        }
    }
    Ok(HostBuffer::from_f32(&sums))
}

/// Counters, each with what its threads added.
fn atomics(i: &Inputs<'_>) -> Result {
    let (slots, spread) = (i.count("slots")?.max(1), i.count("spread")?);
    let mut counters = vec![0u32; slots * spread];
    for thread in 0..i.count("blocks")? * i.count("block")? {
        counters[thread % slots * spread] += i.count("rounds")? as u32;
    }
    Ok(HostBuffer::from_u32(&counters))
}

/// Each thread's sum of eight pairs of words, or of eight words, 512 apart, as often as they are loaded.
fn load_rates(i: &Inputs<'_>) -> Result {
    let (a, rounds) = (i.u32s("a")?, i.count("rounds")? as u32);
    let words = if i.count("mode")? < 3 { 2 } else { 1 };
    let word = |at: usize| a.get(at).copied().unwrap_or(0);
    let mut sums = vec![];
    for block in 0..i.count("blocks")? {
        let first = (block * 8192) & a.len().saturating_sub(1);
        for thread in 0..512 {
            let loaded =
                (0..8).flat_map(|k| (0..words).map(move |own| first + words * (thread + 512 * k) + own));
            let sum = loaded.map(word).fold(0u32, u32::wrapping_add);
            sums.push(sum.wrapping_mul(rounds));
        }
    }
    Ok(HostBuffer::from_u32(&sums))
}

/// Passes of 256 and of 1024 multiply-adds over each of four chains, and their sum.
fn straight_code(i: &Inputs<'_>) -> Result {
    let passes = i.count("passes")?;
    let sum = |length: usize| {
        let chain = |start: f32| (0..passes * length).fold(start, |x, _| x.mul_add(0.5, 0.5));
        chain(1.0) + chain(2.0) + chain(3.0) + chain(4.0)
    };
    let sums: Vec<f32> = [256, 1024].into_iter().flat_map(|length| [sum(length); 32]).collect();
    Ok(HostBuffer::from_f32(&sums))
}

/// The words loaded are zero, so that each lane stays where it was.
fn constant_loads(i: &Inputs<'_>) -> Result {
    let (addresses, words) = (i.count("addresses")?.max(1), i.count("words")?);
    let at: Vec<u32> = (0..32).map(|lane| (lane % addresses * words) as u32).collect();
    Ok(HostBuffer::from_u32(&at))
}

/// The number of the last block.
fn empty_blocks(i: &Inputs<'_>) -> Result {
    Ok(HostBuffer::from_u32(&[i.count("blocks")?.saturating_sub(1) as u32]))
}

/// 80 applications of each operation of the chains.
fn alu_chain(_: &Inputs<'_>) -> Result {
    let int = |f: fn(i32, i32) -> i32, x: i32, y: i32| f64::from((0..80).fold(x, |x, _| f(x, y)));
    let float = |f: fn(f32, f32) -> f32| f64::from((0..80).fold(3.0, |x, _| f(x, 1.25)));
    let double = |f: fn(f64, f64) -> f64| (0..80).fold(3.0, |x, _| f(x, 1.25));
    let all = [
        int(i32::wrapping_add, 1, 3),
        int(i32::min, 9, 7),
        int(i32::wrapping_mul, 3, 5),
        int(|x, y| ((i64::from(x) * i64::from(y)) >> 32) as i32, 2_000_000_000, 2_000_000_000),
        int(|x, y| x & y, 2047, 1365),
        int(|x, y| x ^ y, 5, 3),
        int(|x, y| x << y, 1, 1),
        int(|x, y| x.wrapping_mul(y).wrapping_add(y), 3, 5),
        int(|x, _| x.count_ones() as i32, 2047, 0),
        int(|x, _| x.leading_zeros() as i32, 1, 0),
        int(|x, _| x.reverse_bits(), 6, 0),
        float(|x, y| x + y),
        float(|x, y| x * y),
        float(|x, y| x.mul_add(y, y)),
        float(|x, _| x.sqrt()),
        float(|x, _| 1.0 / x.sqrt()),
        float(|x, _| 1.0 / x),
        float(|x, _| x.sin()),
        double(|x, y| x + y),
        double(|x, y| x * y),
        double(|x, y| x.mul_add(y, y)),
    ];
    let results: Vec<f64> = all.iter().flat_map(|x| [*x; 32]).collect();
    Ok(HostBuffer::from_f64(&results))
}
