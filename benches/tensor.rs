//! What does a product of matrices cost the host, beside its multiply-adds as ordinary vector code? Functional runs
//! of one warp; one element is one multiply-add. `fma.rn.f32` of a warp is 32 of them, which the lanes compute as
//! vectors.

mod common;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use sim_frontend::chip::ChipSpec;
use sim_frontend::diagnostic::Source;

const ROUNDS: u32 = 500;
const COPIES: u32 = 16;

fn a100() -> ChipSpec {
    let text = include_str!("../configs/chips/a100.yaml");
    ChipSpec::load(&Source::new("a100.yaml", text)).expect("the shipped chip is right")
}

fn gh200() -> ChipSpec {
    let text = include_str!("../configs/chips/gh200.yaml");
    ChipSpec::load(&Source::new("gh200.yaml", text)).expect("the shipped chip is right")
}

/// Products of a warpgroup whose matrices lie in shared memory, all zeros.
fn warpgroup(columns: u32) -> String {
    let registers = (0..columns / 2).map(|i| format!("%m{i}")).collect::<Vec<_>>().join(", ");
    let zeros: String = (0..columns / 2).map(|i| format!("mov.f32 %m{i}, 0f00000000;\n")).collect();
    let line = format!(
        "wgmma.mma_async.sync.aligned.m64n{columns}k16.f32.f16.f16 {{{registers}}}, %da, %db, 1, 1, 1, 0, 0;\n"
    );
    common::kernel(&line.repeat(COPIES as usize), ROUNDS)
        .replace(".version 3.0\n.target sm_20", ".version 8.0\n.target sm_90a")
        .replace(".reg .pred", ".reg .f32 %m<128>;\n.reg .b64 %da, %db;\n.reg .pred")
        .replace(".shared .align 4 .b8 room[4096]", ".shared .align 1024 .b8 room[40960]")
        .replace(
            "mov.u32 %n,",
            &format!(
                "{zeros}mov.b64 %da, {:#x};\nadd.u64 %db, %da, 512;\nwgmma.fence.sync.aligned;\nmov.u32 %n,",
                1u64 << 62 | 64 << 32 | 1 << 16
            ),
        )
}

fn tensor(c: &mut Criterion) {
    let mut group = c.benchmark_group("tensor");
    let f32 = "{%m0,%m1,%m2,%m3}, {%a,%b,%c,%d}, {%a,%b}, {%m0,%m1,%m2,%m3};\n";
    let pieces = "{%m0,%m1,%m2,%m3}, {%a,%b}, {%a}, {%m0,%m1,%m2,%m3};\n";
    let cases = [
        ("fma.rn.f32", "fma.rn.f32 %f, %f, %g, %h;\n".to_string(), 32),
        ("m16n8k16.f32.f16", format!("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {f32}"), 2048),
        ("m16n8k16.f32.bf16", format!("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {f32}"), 2048),
        ("m16n8k8.f32.tf32", format!("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {f32}"), 1024),
        ("m16n8k8.f32.f16", format!("mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {pieces}"), 1024),
        ("m16n8k32.s32.s8", format!("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {f32}"), 4096),
    ];
    for (name, line, products) in cases {
        let body = line.repeat(COPIES as usize);
        let text = common::kernel(&body, ROUNDS)
            .replace(".version 3.0\n.target sm_20", ".version 7.0\n.target sm_80")
            .replace(".reg .pred", ".reg .b32 %m0, %m1, %m2, %m3;\n.reg .pred")
            .replace(
                "mov.u32 %n,",
                "mov.b32 %m0, 0;\nmov.b32 %m1, 0;\nmov.b32 %m2, 0;\nmov.b32 %m3, 0;\nmov.u32 %n,",
            );
        group.throughput(Throughput::Elements(u64::from(ROUNDS * COPIES * products)));
        group.bench_function(name, |b| {
            b.iter_custom(|n| (0..n).map(|_| common::time(a100(), &text, (1, 32), true, None)).sum());
        });
    }
    for columns in [8, 64, 256] {
        let text = warpgroup(columns);
        group.throughput(Throughput::Elements(u64::from(ROUNDS * COPIES) * 64 * 16 * u64::from(columns)));
        group.bench_function(format!("wgmma.m64n{columns}k16.f32.f16"), |b| {
            b.iter_custom(|n| (0..n).map(|_| common::time(gh200(), &text, (1, 128), true, None)).sum());
        });
    }
    group.finish();
}

criterion_group! { name = benches; config = Criterion::default().sample_size(10); targets = tensor }
criterion_main!(benches);
