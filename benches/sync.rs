//! How does the time of a verdict on synchronization grow with the accesses and barriers of a block of 1,024 threads?
//!
//! The block is that of a pipeline: a quarter of the warps write tiles into a ring of buffers, the others read them, and each
//! buffer has a barrier that says that it is full and one that it is empty. The largest one has 10^4 uses of barriers
//! and 10^7 accesses. `apart` has the same with threads that all differ in their barriers, so that none can be grouped.

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use sim_verify::sync::program::{Access, Addresses, Operation, Programs, Step, Stream};
use sim_verify::sync::{Verdict, View, decide};

// The allocator of the command.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const WARPS: u32 = 32;
const WRITERS: u32 = 8;
const BUFFERS: u32 = 7;

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
    Programs { warp_size: 32, streams: (0..WARPS).map(stream).collect() }
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
    Programs { warp_size: 1, streams: (0..32 * WARPS).map(stream).collect() }
}

fn sync(c: &mut Criterion) {
    let mut group = c.benchmark_group("sync");
    group.sample_size(10);
    for (name, programs) in [("pipeline", pipeline as fn(u32, u32) -> Programs), ("apart", apart)] {
        for rounds in [1250, 2500, 5000] {
            let block = programs(rounds, 2);
            let decision = decide(&block, View::Threads);
            assert_eq!(decision.verdict, Verdict::Verified, "{name} {rounds}");
            group.throughput(Throughput::Elements(decision.measures.accesses));
            group.bench_with_input(BenchmarkId::new(name, rounds), &block, |b, block| {
                b.iter(|| decide(block, View::Threads).measures.pairs);
            });
        }
    }
    group.finish();
}

criterion_group!(benches, sync);
criterion_main!(benches);
