//! How many warp instructions a second, by kernel and chip? The headline; one thread.

mod common;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};

/// The rows of docs/performance.md.
const RUNS: &[&[&str]] = &[
    &["fmaloop", "--set", "n=8192", "--set", "blocks=120", "--chip", "gtx480"],
    &["sgemm", "--set", "n=512", "--chip", "gtx480"],
    &["vecadd", "--set", "n=4194304", "--chip", "gtx480"],
    &["bfs", "--set", "n=65536", "--chip", "gtx480"],
    &["mandelbrot", "--set", "width=512", "--set", "height=512", "--chip", "gtx480"],
    &["nqueens", "--set", "n=10", "--chip", "gtx480"],
    &["sgemm", "--set", "n=512", "--chip", "qv100"],
    &["vecadd", "--set", "n=4194304", "--chip", "qv100"],
    &["fmaloop", "--set", "n=8192", "--set", "blocks=120", "--functional", "--chip", "gtx480"],
    &["sgemm", "--set", "n=512", "--functional", "--chip", "gtx480"],
    &["vecadd", "--set", "n=4194304", "--functional", "--chip", "gtx480"],
];

fn end_to_end(c: &mut Criterion) {
    let mut group = c.benchmark_group("end_to_end");
    for run in RUNS {
        let (_, instructions) = common::command(run);
        group.throughput(Throughput::Elements(instructions));
        group.bench_function(run.join(" "), |b| {
            b.iter_custom(|n| (0..n).map(|_| common::command(run).0).sum());
        });
    }
    group.finish();
}

criterion_group! { name = benches; config = Criterion::default().sample_size(10); targets = end_to_end }
criterion_main!(benches);
