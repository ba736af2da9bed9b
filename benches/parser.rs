//! How many bytes of PTX a second become a syntax tree?

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use sim_frontend::diagnostic::Source;

fn parser(c: &mut Criterion) {
    let mut group = c.benchmark_group("parser");
    for (name, text) in [
        ("blackscholes", include_str!("../workloads/blackscholes/blackscholes.sm_52.ptx")),
        ("sgemm_tiled", include_str!("../workloads/sgemm_tiled/sgemm_tiled.sm_90.ptx")),
    ] {
        let source = Source::new(name, text);
        group.throughput(Throughput::Bytes(text.len() as u64));
        group.bench_function(name, |b| b.iter(|| sim_frontend::ptx::parser::parse(&source, false).is_ok()));
    }
    group.finish();
}

criterion_group!(benches, parser);
criterion_main!(benches);
