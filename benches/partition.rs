//! What does a request cost a partition, from arrival to reply: hits in L2, and misses?

use std::sync::Arc;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use sim_memory::cache::Cache;
use sim_memory::device_memory::DeviceMemory;
use sim_memory::dram::DramTimings;
use sim_memory::mapping::Mapping;
use sim_memory::messages::Request;
use sim_memory::partition::Partition;
use sim_memory::priority::Priority;
use sim_memory::programs::ProgramSet;

mod common;

fn partition(c: &mut Criterion) {
    let mut group = c.benchmark_group("partition");
    let chip = common::gtx480();
    let spec = Arc::new(chip.memory.clone());
    let programs = Arc::new(ProgramSet::for_protocol(spec.protocol).expect("shipped"));
    let mapping = Mapping::new(&spec);
    let requests = 1024u64;
    group.throughput(Throughput::Elements(requests));
    for (name, lines) in [("hit", 16u64), ("miss", u64::MAX)] {
        let memory = Arc::new(DeviceMemory::new());
        let timings = Arc::new(DramTimings::of(&spec.dram).expect("shipped"));
        let mut partition = Partition::new(
            0,
            Arc::clone(&spec),
            chip.clocks(),
            Arc::clone(&programs),
            timings,
            memory,
            Cache::new(&spec.l2),
        );
        let (mut number, mut now) = (0u64, 0u64);
        group.bench_function(name, |b| {
            b.iter(|| {
                for _ in 0..requests {
                    // The next line of this partition.
                    let line = loop {
                        number += 1;
                        let line = 0x1000_0000 + number % lines * 128;
                        if lines != u64::MAX || mapping.place(line).0 == 0 {
                            break line;
                        }
                    };
                    now += 4;
                    let request = Request {
                        slot: Some(0),
                        local: mapping.place(line).1,
                        program: 1,
                        pc: 0,
                        line,
                        asked: u128::MAX,
                        mask: u128::MAX,
                        is_load: true,
                        data: [0; 128],
                        atomic: None,
                        transaction: 0,
                        stores: None,
                        priority: Priority::default(),
                    };
                    partition.deliver(now, 0, request);
                }
                partition.advance(now).expect("runs");
                let mut replies = 0u64;
                partition.take_replies(|_, _, _| replies += 1);
                replies
            });
        });
    }
    group.finish();
}

criterion_group!(benches, partition);
criterion_main!(benches);
