//! What does one issue cost, by how the pipeline waits: independent operations, dependent ones,
//! shared memory, branches? One element is one warp instruction of the loop's body.

mod common;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};

fn issue(c: &mut Criterion) {
    let mut group = c.benchmark_group("issue");
    let independent = "add.u32 %a, %b, 1;\nadd.u32 %c, %b, 2;\nadd.u32 %d, %b, 3;\nadd.u32 %t, %b, 4;\n";
    let shared = "st.shared.u32 [room], %a;\nld.shared.u32 %a, [room];\n";
    let branch = "and.b32 %b, %a, 1;\nsetp.eq.u32 %q, %b, 1;\n@%q bra other;\nadd.u32 %c, %c, 1;\nother:\n";
    for (name, body, lines) in [
        ("independent", independent.repeat(8), 32),
        ("dependent", "add.u32 %a, %a, 1;\n".repeat(32), 32),
        ("shared", shared.repeat(16), 32),
        ("divergent", branch.to_string(), 4),
    ] {
        let rounds = 6400 / lines;
        let text = common::kernel(&body, rounds as u32);
        for warps in [1u32, 8, 48] {
            group.throughput(Throughput::Elements(u64::from(warps) * lines * (6400 / lines)));
            group.bench_function(format!("{name}/{warps} warps"), |b| {
                let shape = (warps.div_ceil(8), 32 * warps.min(8));
                let one_sm = || {
                    let mut chip = common::gtx480();
                    chip.limits.num_processors = 1;
                    chip
                };
                b.iter_custom(|n| (0..n).map(|_| common::time(one_sm(), &text, shape, false, None)).sum());
            });
        }
    }
    group.finish();
}

criterion_group! { name = benches; config = Criterion::default().sample_size(10); targets = issue }
criterion_main!(benches);
