//! How does the time of a verdict on synchronization grow with the accesses and barriers of a block of 1,024 threads?
//!
//! The block is that of a pipeline: a quarter of the warps write tiles into a ring of buffers, the others read them, and each
//! buffer has a barrier that says that it is full and one that it is empty. The largest one has 10^4 uses of barriers
//! and 10^7 accesses. `phases` is the same pipeline with mbarrier objects in place of barriers, `apart` has as many accesses
//! of threads that all differ in their barriers, so that none can be grouped.
//!
//! Growth is near to linear if an access of the largest block takes at most [`MOST_GROWTH`] times as long as one of the
//! smallest, which has a quarter of its rounds: the bench says so for each, and fails if it is not.

use std::time::Instant;

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use sim_verify::sync::program::{Access, Act, Addresses, Operation, Programs, Step, Stream};
use sim_verify::sync::{Verdict, View, decide};

// The allocator of the command.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const WARPS: u32 = 32;
const WRITERS: u32 = 8;
const BUFFERS: u32 = 7;
const ROUNDS: [u32; 3] = [1250, 2500, 5000];
/// Runs of each block, of which the fastest counts.
const RUNS: usize = 5;
/// Time for an access of the largest block against one of the smallest, at most.
const MOST_GROWTH: f64 = 1.5;

/// `rounds` tiles, of which each thread accesses `each` words; two uses of barriers a tile.
fn pipeline(rounds: u32, each: u32) -> Programs {
    let stream = |warp: u32| {
        let mut steps = Vec::new();
        let mut step = |operation| steps.push(Step { lanes: u32::MAX, site: 0, operation });
        let writes = warp < WRITERS;
        for round in 0..rounds {
            let slot = round % BUFFERS;
            let (full, empty) = (1 + slot, 8 + slot);
            let count = 32 * WARPS;
            match writes {
                true if round >= BUFFERS => step(Operation::Sync { barrier: empty, count: Some(count) }),
                true => {}
                false => step(Operation::Sync { barrier: full, count: Some(count) }),
            }
            for word in 0..each {
                let own = if writes { warp * each + word } else { (warp + word) % (WRITERS * each) };
                let base = slot * WRITERS * each * 128 + own * 128;
                let access = if writes { Access::Write } else { Access::Read };
                step(Operation::Access {
                    access,
                    bytes: 4,
                    addresses: Addresses::Affine { base, stride: 4 },
                });
            }
            match writes {
                true => step(Operation::Arrive { barrier: full, count }),
                false if round + BUFFERS < rounds => step(Operation::Arrive { barrier: empty, count }),
                false => {}
            }
        }
        Stream { first_thread: 32 * warp, lanes: u32::MAX, steps }
    };
    Programs { blocks: None, warp_size: 32, streams: (0..WARPS).map(stream).collect() }
}

/// The pipeline with mbarrier objects: two phases a tile.
fn phases(rounds: u32, each: u32) -> Programs {
    let object = |number: u32, act| Operation::Object { object: 0x20000 + 8 * number, act, relaxed: false };
    let stream = |warp: u32| {
        let mut steps = Vec::new();
        let mut step = |lanes, operation| steps.push(Step { lanes, site: 0, operation });
        let writes = warp < WRITERS;
        for buffer in 0..if warp == 0 { BUFFERS } else { 0 } {
            step(1, object(buffer, Act::Init { count: 32 * WRITERS }));
            step(1, object(8 + buffer, Act::Init { count: 32 * (WARPS - WRITERS) }));
        }
        step(u32::MAX, Operation::Sync { barrier: 0, count: None });
        for round in 0..rounds {
            let (slot, phase) = (round % BUFFERS, round / BUFFERS);
            let (waits, arrives) = if writes { (8 + slot, slot) } else { (slot, 8 + slot) };
            // The phase before the first one counts as complete.
            step(u32::MAX, object(waits, Act::Wait { odd: (phase % 2 == 0) == writes }));
            for word in 0..each {
                let own = if writes { warp * each + word } else { (warp + word) % (WRITERS * each) };
                let base = slot * WRITERS * each * 128 + own * 128;
                let access = if writes { Access::Write } else { Access::Read };
                let addresses = Addresses::Affine { base, stride: 4 };
                step(u32::MAX, Operation::Access { access, bytes: 4, addresses });
            }
            step(u32::MAX, object(arrives, Act::Arrive { count: 1, bytes: 0, drop: false }));
        }
        Stream { first_thread: 32 * warp, lanes: u32::MAX, steps }
    };
    Programs { blocks: None, warp_size: 32, streams: (0..WARPS).map(stream).collect() }
}

/// Threads that meet at the barrier of the block, and between two such meetings in pairs that change: all programs differ.
fn apart(rounds: u32, each: u32) -> Programs {
    let stream = |thread: u32| {
        let mut steps = Vec::new();
        for round in 0..rounds {
            let mut step = |operation| steps.push(Step { lanes: 1, site: 0, operation });
            for word in 0..each {
                let base = (thread * each + word) * 4;
                step(Operation::Access {
                    access: Access::Write,
                    bytes: 4,
                    addresses: Addresses::Affine { base, stride: 0 },
                });
            }
            if thread >> (round % 10) & 1 == 0 {
                step(Operation::Arrive { barrier: 1 + round % 8, count: 512 });
            }
            step(Operation::Sync { barrier: 0, count: None });
        }
        Stream { first_thread: thread, lanes: 1, steps }
    };
    Programs { blocks: None, warp_size: 1, streams: (0..32 * WARPS).map(stream).collect() }
}

type Block = fn(u32, u32) -> Programs;
const BLOCKS: [(&str, Block); 3] = [("pipeline", pipeline), ("phases", phases), ("apart", apart)];

/// Seconds in which this thread has run on a core, which other load does not reach; where the host does not tell, of the
/// wall clock.
fn seconds(wall: Instant) -> f64 {
    let told = std::fs::read_to_string("/proc/thread-self/schedstat").ok();
    let nanoseconds = told.and_then(|text| text.split_whitespace().next()?.parse::<f64>().ok());
    nanoseconds.map_or_else(|| wall.elapsed().as_secs_f64(), |nanoseconds| nanoseconds / 1e9)
}

/// Nanoseconds for an access of a block.
fn growth(name: &str, rounds: u32, block: &Programs) -> f64 {
    let mut best = f64::MAX;
    let mut measures = None;
    for _ in 0..RUNS {
        let wall = Instant::now();
        let begin = seconds(wall);
        let decision = decide(block, View::Threads);
        best = best.min(seconds(wall) - begin);
        assert_eq!(decision.verdict, Verdict::Verified, "{name} {rounds}");
        measures = Some(decision.measures);
    }
    let measures = measures.expect("it ran");
    println!(
        "{name:10} {rounds:6} rounds: {:8} accesses, {:6} dynamic barriers, {:9} pairs tested, {:7.1} ms, {:5.1} ns an access",
        measures.accesses,
        measures.dynamic_barriers,
        measures.pairs,
        1e3 * best,
        1e9 * best / measures.accesses as f64,
    );
    1e9 * best / measures.accesses as f64
}

fn sync(c: &mut Criterion) {
    for (name, programs) in BLOCKS {
        let times = ROUNDS.map(|rounds| growth(name, rounds, &programs(rounds, 2)));
        let grows = times[2] / times[0];
        println!("{name:10} grows by {grows:.2} an access over four times the rounds; limit {MOST_GROWTH}");
        assert!(grows <= MOST_GROWTH, "{name} does not grow near to linearly");
    }
    let mut group = c.benchmark_group("sync");
    group.sample_size(10);
    for (name, programs) in BLOCKS {
        for rounds in ROUNDS {
            let block = programs(rounds, 2);
            group.throughput(Throughput::Elements(decide(&block, View::Threads).measures.accesses));
            group.bench_with_input(BenchmarkId::new(name, rounds), &block, |b, block| {
                b.iter(|| decide(block, View::Threads).measures.pairs);
            });
        }
    }
    group.finish();
}

criterion_group!(benches, sync);
criterion_main!(benches);
