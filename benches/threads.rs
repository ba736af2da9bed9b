//! How much faster are two threads, and four?

mod common;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};

fn threads(c: &mut Criterion) {
    let mut group = c.benchmark_group("threads");
    let runs: &[&[&str]] = &[
        &["fmaloop", "--set", "n=8192", "--set", "blocks=120", "--chip", "gtx480"],
        &["sgemm", "--set", "n=512", "--chip", "gtx480"],
        &["sgemm", "--set", "n=512", "--chip", "qv100"],
        &["vecadd", "--set", "n=4194304", "--chip", "gtx480"],
    ];
    for run in runs {
        for threads in ["1", "2", "4"] {
            let run: Vec<&str> = run.iter().copied().chain(["--threads", threads]).collect();
            let (_, instructions) = common::command(&run);
            group.throughput(Throughput::Elements(instructions));
            group.bench_function(run.join(" "), |b| {
                b.iter_custom(|n| (0..n).map(|_| common::command(&run).0).sum());
            });
        }
    }
    group.finish();
}

criterion_group! { name = benches; config = Criterion::default().sample_size(10); targets = threads }
criterion_main!(benches);
