//! What does a product of matrices cost the host, beside its multiply-adds as ordinary vector code? Functional runs
//! of one warp or warpgroup; one element is one multiply-add. `host` multiplies tiles of singles by vectors of the host,
//! as a compiler makes them of three loops. The last lines say red or green: a product may take ten times what its
//! multiply-adds take there. Red is exit status 1.

mod common;

use std::hint::black_box;
use std::time::{Duration, Instant};

use criterion::{Criterion, Throughput};
use sim_frontend::chip::ChipSpec;
use sim_frontend::diagnostic::Source;

const ROUNDS: u32 = 500;
const COPIES: u32 = 16;
const RUNS: usize = 41;
/// How many times what its multiply-adds take on the host a product may take.
const LIMIT: f64 = 10.0;

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

/// A tile of 16 by 8 with 16 products for each element.
type Tile = ([[f32; 16]; 16], [[f32; 8]; 16], [[f32; 8]; 16]);

#[inline(always)]
fn multiply((a, b, sums): &mut Tile) {
    for (row, sums) in a.iter().zip(sums) {
        let mut own = *sums;
        for k in 0..16 {
            for n in 0..8 {
                own[n] = row[k].mul_add(b[k][n], own[n]);
            }
        }
        *sums = own;
    }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma")]
fn multiply_avx2(tile: &mut Tile) {
    multiply(tile);
}

fn on_host(tiles: u32) -> Duration {
    let mut tile: Tile = ([[0.5; 16]; 16], [[0.25; 8]; 16], [[0.0; 8]; 16]);
    let start = Instant::now();
    for _ in 0..tiles {
        let tile = black_box(&mut tile);
        #[cfg(target_arch = "x86_64")]
        if is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma") {
            // SAFETY: the host has both.
            #[allow(unsafe_code, reason = "vectors that not every host has")]
            unsafe {
                multiply_avx2(tile);
            }
            continue;
        }
        multiply(tile);
    }
    start.elapsed()
}

/// What is measured: a name, multiply-adds of one run, and a run.
struct Case {
    name: String,
    products: u64,
    run: Box<dyn Fn() -> Duration>,
}

fn cases() -> Vec<Case> {
    let whole = "{%m0,%m1,%m2,%m3}, {%x0,%x1,%x2,%x3}, {%x4,%x5}, {%m0,%m1,%m2,%m3};\n";
    let pieces = "{%m0,%m1,%m2,%m3}, {%x0,%x1}, {%x4}, {%m0,%m1,%m2,%m3};\n";
    let half = "{%m0,%m1}, {%x0,%x1,%x2,%x3}, {%x4,%x5}, {%m0,%m1};\n";
    let sparse = "{%m0,%m1,%m2,%m3}, {%x0,%x1,%x2,%x3}, {%x4,%x5,%x0,%x1}, {%m0,%m1,%m2,%m3}, %s, 0;\n";
    let forms = [
        ("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32", whole, 2048),
        ("mma.sync.aligned.m16n8k16.row.col.f16.f16.f16.f16", half, 2048),
        ("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32", whole, 2048),
        ("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32", whole, 1024),
        ("mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32", pieces, 1024),
        ("mma.sp.sync.aligned.m16n8k32.row.col.f32.f16.f16.f32", sparse, 2048),
        ("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32", whole, 4096),
    ];
    let mut list = vec![
        Case {
            name: "host".into(),
            products: u64::from(ROUNDS * COPIES) * 2048,
            run: Box::new(|| on_host(ROUNDS * COPIES)),
        },
        Case {
            name: "fma.rn.f32".into(),
            products: u64::from(ROUNDS * COPIES) * 32,
            run: Box::new(|| {
                let text = common::kernel(&"fma.rn.f32 %f, %f, %g, %h;\n".repeat(COPIES as usize), ROUNDS);
                common::time(a100(), &text, (1, 32), true, None)
            }),
        },
    ];
    for (form, operands, products) in forms {
        let text = common::kernel(&format!("{form} {operands}").repeat(COPIES as usize), ROUNDS)
            .replace(".version 3.0\n.target sm_20", ".version 7.1\n.target sm_80")
            .replace(".reg .pred", ".reg .b32 %m<4>, %x<6>, %s;\n.reg .pred")
            .replace("mov.u32 %n,", &format!("{}mov.u32 %n,", operands_of_products()));
        list.push(Case {
            name: form.replace(".sync.aligned", "").replace(".row.col", ""),
            products: u64::from(ROUNDS * COPIES) * products,
            run: Box::new(move || common::time(a100(), &text, (1, 32), true, None)),
        });
    }
    for columns in [8, 64, 256] {
        let text = warpgroup(columns);
        list.push(Case {
            name: format!("wgmma.m64n{columns}k16.f32.f16"),
            products: u64::from(ROUNDS * COPIES) * 64 * 16 * u64::from(columns),
            run: Box::new(move || common::time(gh200(), &text, (1, 128), true, None)),
        });
    }
    list
}

/// Ordinary numbers in all types of elements, other ones in each lane, and metadata.
fn operands_of_products() -> String {
    let mut text = String::from("mov.b32 %s, 0x4e4e4e4e;\n");
    for i in 0..4 {
        text += &format!("mov.b32 %m{i}, 0;\n");
    }
    for i in 0..6 {
        text += &format!("mad.lo.u32 %x{i}, %t, {}, 0x3c013a02;\n", 0x0013_0021 + 2 * i);
    }
    text
}

/// Nanoseconds of a multiply-add for each case, and how many times that of the first one it is: medians over rounds in which the
/// cases take turns, so that a host that is slower or faster for a while is so for all of them.
fn medians(cases: &[&Case]) -> Vec<[f64; 2]> {
    let mut rounds = vec![Vec::new(); cases.len()];
    for _ in 0..RUNS {
        let mut host = f64::NAN;
        for (i, case) in cases.iter().enumerate() {
            let own = (case.run)().as_nanos() as f64 / case.products as f64;
            if i == 0 {
                host = own;
            }
            rounds[i].push([own, own / host]);
        }
    }
    let median = |rounds: &[[f64; 2]], which: usize| {
        let mut list: Vec<f64> = rounds.iter().map(|round| round[which]).collect();
        list.sort_by(f64::total_cmp);
        list[list.len() / 2]
    };
    rounds.iter().map(|rounds| [median(rounds, 0), median(rounds, 1)]).collect()
}

fn main() {
    let mut criterion = Criterion::default().sample_size(10).configure_from_args();
    let cases = cases();
    let mut group = criterion.benchmark_group("tensor");
    for case in &cases {
        group.throughput(Throughput::Elements(case.products));
        group.bench_function(&case.name, |b| b.iter_custom(|n| (0..n).map(|_| (case.run)()).sum()));
    }
    group.finish();
    criterion.final_summary();
    // What criterion takes as a filter.
    let mut arguments = std::env::args().skip(1).filter(|text| text.parse::<f64>().is_err());
    let filter = arguments.rfind(|text| !text.starts_with('-')).unwrap_or_default();
    let mut red = false;
    let cases: Vec<&Case> =
        cases.iter().filter(|case| case.name == "host" || case.name.contains(&filter)).collect();
    for (case, [own, times]) in cases.iter().zip(medians(&cases)) {
        let product = case.name.contains("mma.");
        let over = product && times > LIMIT;
        red |= over;
        let verdict = match (product, over) {
            (false, _) => "",
            (true, false) => "  green",
            (true, true) => "  red",
        };
        println!("{:32} {own:7.3} ns a multiply-add, {times:5.1} times host{verdict}", case.name);
    }
    if red {
        println!("red: more than {LIMIT} times");
        std::process::exit(1);
    }
    println!("green: at most {LIMIT} times");
}
