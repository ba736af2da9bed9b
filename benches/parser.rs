//! How many bytes of PTX a second become a syntax tree, a checked module, and programs?

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use sim_frontend::diagnostic::Source;
use sim_frontend::load::Module;
use sim_frontend::program::ControlFlow;

// The allocator of the command.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn parser(c: &mut Criterion) {
    for (name, text) in [
        ("blackscholes", include_str!("../workloads/blackscholes/blackscholes.sm_52.ptx")),
        ("sgemm_tiled", include_str!("../workloads/sgemm_tiled/sgemm_tiled.sm_90.ptx")),
        ("vecadd", include_str!("../workloads/vecadd/vecadd.sm_20.ptx")),
    ] {
        let source = Source::new(name, text);
        let mut group = c.benchmark_group(format!("parser/{name}"));
        group.throughput(Throughput::Bytes(text.len() as u64));
        group.bench_function("parse", |b| {
            b.iter(|| sim_frontend::ptx::parser::parse(&source, false).is_ok());
        });
        group.bench_function("check", |b| b.iter(|| Module::build(&source, false).is_ok()));
        // Parsed, checked, and every kernel lowered, with injected and with plain control flow.
        group.bench_function("lower", |b| {
            b.iter(|| {
                let module = Module::build(&source, false).expect("a valid module");
                let entries: Vec<&str> = module.entries().collect();
                let programs = entries.iter().map(|entry| {
                    module.program(entry, &|_| Some(0), ControlFlow::Injected, 1024).expect("a program")
                });
                programs.map(|program| program.ops.len()).sum::<usize>()
            });
        });
        group.finish();
    }
}

criterion_group!(benches, parser);
criterion_main!(benches);
