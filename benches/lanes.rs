//! What do 32 lanes of an operation cost on each instruction set of this host? Functional runs:
//! one element is one warp instruction.

mod common;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use sim_core::instruction_set::InstructionSet;

fn lanes(c: &mut Criterion) {
    let mut group = c.benchmark_group("lanes");
    let rounds = 2000u32;
    group.throughput(Throughput::Elements(u64::from(rounds) * 64 * 2));
    for (name, line) in [
        ("fma.rn.f32", "fma.rn.f32 %f, %f, %g, %h;\n"),
        ("mad.lo.u32", "mad.lo.u32 %a, %a, %b, %c;\n"),
        ("add.f64", "add.f64 %e, %e, %e;\n"),
        ("div.rn.f32", "div.rn.f32 %f, %f, %g;\n"),
        ("ex2.approx.f32", "ex2.approx.f32 %f, %g;\n"),
        ("popc.b32", "popc.b32 %a, %b;\n"),
    ] {
        let text = common::kernel(&line.repeat(64), rounds);
        for set in InstructionSet::available() {
            group.bench_function(format!("{name}/{}", set.name()), |b| {
                b.iter_custom(|n| {
                    (0..n).map(|_| common::time(common::gtx480(), &text, (1, 64), true, Some(set))).sum()
                });
            });
        }
    }
    group.finish();
}

criterion_group! { name = benches; config = Criterion::default().sample_size(10); targets = lanes }
criterion_main!(benches);
