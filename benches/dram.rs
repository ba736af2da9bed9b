//! What does a choice of the FR-FCFS scheduler cost, on rows that are open and on others?

use std::sync::Arc;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use sim_memory::dram::{DramChannel, DramRequest, DramTimings};

mod common;

fn dram(c: &mut Criterion) {
    let mut group = c.benchmark_group("dram");
    let spec = common::gtx480().memory.dram;
    group.throughput(Throughput::Elements(1024));
    for (name, stride) in [("stream", 128u64), ("scattered", 1 << 20 | 128)] {
        let timings = DramTimings::of(&spec).expect("shipped");
        let mut channel = DramChannel::new(&spec, Arc::new(timings));
        let (mut address, mut now) = (0u64, 0);
        group.bench_function(name, |b| {
            b.iter(|| {
                for i in 0..1024 {
                    address = address.wrapping_add(stride) % (1 << 32);
                    channel.push(DramRequest { tag: Some(i), address, bursts: 4, write: false }, now);
                    // A queue of 32 stays.
                    if channel.queued() > 32
                        && let Some(at) = channel.next_decision()
                    {
                        now = at;
                        channel.choose(now);
                    }
                }
            });
        });
    }
    group.finish();
}

criterion_group!(benches, dram);
criterion_main!(benches);
