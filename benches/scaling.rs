//! Does the cost grow with warp instructions alone? Each pair doubles one thing: instructions
//! (twice the time), idle SMs, sleeping cycles, sleeping warps (the same time).

mod common;

use criterion::{Criterion, criterion_group, criterion_main};

fn scaling(c: &mut Criterion) {
    let mut group = c.benchmark_group("scaling");
    let work = "add.u32 %a, %a, 1;\n".repeat(32);
    for rounds in [400u32, 800] {
        let text = common::kernel(&work, rounds);
        group.bench_function(format!("rounds/{rounds}"), |b| {
            b.iter_custom(|n| {
                (0..n).map(|_| common::time(common::gtx480(), &text, (15, 256), false, None)).sum()
            });
        });
    }
    let text = common::kernel(&work, 800);
    for sms in [15u32, 30, 60] {
        let chip = || {
            let mut chip = common::gtx480();
            chip.limits.num_processors = sms;
            chip
        };
        group.bench_function(format!("idle SMs/{}", sms - 1), |b| {
            b.iter_custom(|n| (0..n).map(|_| common::time(chip(), &text, (1, 256), false, None)).sum());
        });
    }
    // Loads of one line by few warps: most cycles are idle; a longer wait costs nothing.
    let text = common::kernel("ld.volatile.global.u32 %a, [%x];\nadd.u32 %b, %a, %b;\n", 800);
    for latency in [120u32, 240, 480] {
        let chip = || {
            let mut chip = common::gtx480();
            chip.memory.l2.hit_latency = latency;
            chip
        };
        group.bench_function(format!("idle cycles/L2 hit {latency}"), |b| {
            b.iter_custom(|n| (0..n).map(|_| common::time(chip(), &text, (1, 64), false, None)).sum());
        });
    }
    // One warp works, the others of its block wait at the barrier.
    let body = format!("setp.ge.u32 %q, %t, 32;\n@%q bra rest;\n{work}rest:\n");
    for threads in [256u32, 512, 1024] {
        let one = format!("{}bar.sync 0;\nexit;\n}}\n", common::kernel(&body, 1).replace("exit;\n}\n", ""));
        let text = one.replace(&work, &work.repeat(200));
        group.bench_function(format!("warps asleep/{}", threads / 32 - 1), |b| {
            b.iter_custom(|n| {
                (0..n).map(|_| common::time(common::gtx480(), &text, (1, threads), false, None)).sum()
            });
        });
    }
    group.finish();
}

criterion_group! { name = benches; config = Criterion::default().sample_size(10); targets = scaling }
criterion_main!(benches);
