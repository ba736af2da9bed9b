//! How many bytes of PTX a second become a syntax tree, a checked module, and programs?

use std::path::{Path, PathBuf};

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use sim_frontend::chip::AssemblerSpec;
use sim_frontend::diagnostic::Source;
use sim_frontend::load::{Assembler, Module};
use sim_frontend::program::ControlFlow;

#[path = "common/texts/mod.rs"]
mod texts;

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
        group.bench_function("lower", |b| b.iter(|| lower(&source)));
        group.finish();
    }
    let all = workloads();
    let mut group = c.benchmark_group("parser/workloads");
    group.throughput(Throughput::Bytes(all.iter().map(|source| source.text.len() as u64).sum()));
    group.bench_function("lower", |b| b.iter(|| all.iter().map(lower).sum::<usize>()));
    group.finish();
    // All steps as a chip of compute capability 7.0 takes them, spilling included.
    for (name, text, size) in texts::KINDS {
        let source = Source::new(name, &text(4 * size));
        let mut group = c.benchmark_group(format!("parser/{name}"));
        group.throughput(Throughput::Bytes(source.text.len() as u64));
        group.sample_size(20);
        group.bench_function("parse", |b| {
            b.iter(|| sim_frontend::ptx::parser::parse(&source, false).is_ok());
        });
        group.bench_function("check", |b| b.iter(|| Module::build(&source, false).is_ok()));
        group.bench_function("assemble", |b| b.iter(|| assemble(&source)));
        group.finish();
    }
}

/// Parsed, checked, and every kernel made for a chip.
fn assemble(source: &Source) -> usize {
    let module = Module::build(source, false).expect("a valid module");
    let passes = AssemblerSpec { clean_up: true, ..AssemblerSpec::default() };
    let assembler = Assembler { stack_bytes: 1024, registers: 255, passes };
    let program = |entry: &str| module.program_for(entry, &|_| Some(256), ControlFlow::Injected, assembler);
    module.entries().map(|entry| program(entry).expect("a program").ops.len()).sum()
}

/// Parsed, checked, and every kernel lowered, with injected and with plain control flow.
fn lower(source: &Source) -> usize {
    let module = Module::build(source, false).expect("a valid module");
    let entries: Vec<&str> = module.entries().collect();
    let programs = entries
        .iter()
        .map(|entry| module.program(entry, &|_| Some(256), ControlFlow::Injected, 1024).expect("a program"));
    programs.map(|program| program.ops.len()).sum::<usize>()
}

/// The PTX of all workloads.
fn workloads() -> Vec<Source> {
    fn find(folder: &Path, out: &mut Vec<Source>) {
        let entries = std::fs::read_dir(folder).expect("a folder").flatten();
        let mut paths: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
        paths.sort();
        for path in paths {
            if path.is_dir() {
                find(&path, out);
            } else if path.extension().is_some_and(|extension| extension == "ptx") {
                let text = std::fs::read_to_string(&path).expect("a text");
                out.push(Source::new(&path.display().to_string(), &text));
            }
        }
    }
    let mut out = Vec::new();
    find(Path::new("workloads"), &mut out);
    out
}

criterion_group!(benches, parser);
criterion_main!(benches);
