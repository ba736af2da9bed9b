//! What does it cost to find the lines of an access, and its bank conflicts?

use criterion::{Criterion, criterion_group, criterion_main};
use sim_memory::coalescing::lines;
use sim_memory::shared::conflict_degree;
use std::hint::black_box;

fn coalescer(c: &mut Criterion) {
    let mut group = c.benchmark_group("coalescer");
    let strided =
        |stride: u64| -> [u64; 32] { std::array::from_fn(|lane| 0x1000_0000 + stride * lane as u64) };
    for (name, stride) in [("contiguous", 4), ("4 lines", 16), ("32 lines", 128)] {
        let (at, mut out) = (strided(stride), Vec::new());
        group.bench_function(format!("lines/{name}"), |b| {
            b.iter(|| {
                out.clear();
                lines(black_box(&at), u32::MAX, 4, &mut out);
            });
        });
    }
    for (name, stride) in [("row", 4), ("two ways", 8), ("32 ways", 128)] {
        let at = strided(stride);
        group.bench_function(format!("banks/{name}"), |b| {
            b.iter(|| conflict_degree(black_box(&at), u32::MAX, 4, 32));
        });
    }
    group.finish();
}

criterion_group!(benches, coalescer);
criterion_main!(benches);
