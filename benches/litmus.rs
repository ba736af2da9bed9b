//! How many candidate executions a second does the checker decide, and how long does the whole suite take on one core?

use std::path::{Path, PathBuf};

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use sim_verify::cat::Model;
use sim_verify::litmus::Test;
use sim_verify::models::MODELS;
use sim_verify::verdict::{Bounds, decide};

// The allocator of the command.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn litmus(c: &mut Criterion) {
    let mut paths = Vec::new();
    collect(&Path::new(env!("CARGO_MANIFEST_DIR")).join("workloads/litmus"), &mut paths);
    paths.sort();
    let read = |path: &PathBuf| {
        let text = std::fs::read_to_string(path).expect("readable");
        Test::parse(&path.display().to_string(), &text).unwrap_or_else(|error| panic!("{}", error.render()))
    };
    let tests: Vec<Test> = paths.iter().map(read).collect();
    let mut group = c.benchmark_group("litmus");
    group.sample_size(10);
    for (name, text) in MODELS.iter().filter(|(name, _)| name.starts_with("ptx")) {
        let model = Model::parse(name, text).unwrap_or_else(|error| panic!("{}", error.render()));
        let all = || tests.iter().map(|t| decide(t, &model, Bounds::default()).candidates).sum::<u64>();
        group.throughput(Throughput::Elements(all()));
        group.bench_function(format!("suite/{name}"), |b| b.iter(all));
    }
    group.throughput(Throughput::Elements(tests.len() as u64));
    group.bench_function("parse", |b| {
        b.iter(|| {
            tests
                .iter()
                .map(|t| Test::parse(&t.name, &t.source.text).map_or(0, |t| t.threads.len()))
                .sum::<usize>()
        });
    });
    group.finish();
}

fn collect(folder: &Path, out: &mut Vec<PathBuf>) {
    let entries = std::fs::read_dir(folder).unwrap_or_else(|e| panic!("{}: {e}", folder.display()));
    for path in entries.map(|entry| entry.expect("an entry").path()) {
        if path.is_dir() {
            collect(&path, out);
        } else if path.extension().is_some_and(|extension| extension == "litmus") {
            out.push(path);
        }
    }
}

criterion_group!(benches, litmus);
criterion_main!(benches);
