//! Kernels of lines that are drawn from a list: copies of tensors, bulk copies, products of matrices and requests to cancel
//! launches, on registers of any values. They end, fault or are stopped, timed and functional, without a panic.
#![no_main]

use std::sync::atomic::AtomicBool;
use std::sync::{Arc, OnceLock};

use libfuzzer_sys::fuzz_target;
use sim_core::context::Launch;
use sim_core::device::{Device, Options};
use sim_core::monitor::Check;
use sim_core::reconvergence::registry::PolicyChoice;
use sim_core::sm::scheduler::WarpScheduler;
use sim_frontend::chip::ChipSpec;
use sim_frontend::diagnostic::Source;
use sim_frontend::isa_cost::IsaCosts;

/// Lines of a kernel: `%r` and `%h` are drawn, `%s` and `%o` are places in shared memory, `%g` one in global memory, `%m`
/// the address of a map.
const LINES: [&str; 36] = [
    "mov.u32 %r0, %tid.x;",
    "add.u32 %s, %s, %r1;",
    "add.u32 %o, %o, 8;",
    "add.s32 %r2, %r2, %r0;",
    "mov.b32 %r3, %r2;",
    "xor.b32 %r1, %r1, 128;",
    "add.u64 %g, %g, 16;",
    "bar.sync 0;",
    "fence.proxy.async;",
    "mbarrier.init.shared::cta.b64 [%o], 1;",
    "mbarrier.arrive.expect_tx.shared::cta.b64 _, [%o], %r1;",
    "mbarrier.arrive.shared::cta.b64 %l1, [%o];",
    "mbarrier.test_wait.parity.shared::cta.b64 %q, [%o], 0;",
    "cp.async.bulk.tensor.1d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%s], [%m, {%r1}], [%o];",
    "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%s], [%m, {%r1, %r2}], [%o];",
    "cp.async.bulk.tensor.3d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%s], [%m, {%r1, %r2, %r3}], [%o];",
    "cp.async.bulk.tensor.2d.shared::cta.global.tile::gather4.mbarrier::complete_tx::bytes [%s], [%m, {%r1, %r2, %r3, %r0, %r4}], [%o];",
    "cp.async.bulk.tensor.2d.global.shared::cta.tile::scatter4.bulk_group [%m, {%r1, %r2, %r3, %r0, %r4}], [%s];",
    "cp.async.bulk.tensor.3d.shared::cta.global.im2col.mbarrier::complete_tx::bytes [%s], [%m, {%r1, %r2, %r3}], [%o], {%h0};",
    "cp.async.bulk.tensor.3d.shared::cta.global.im2col::w.mbarrier::complete_tx::bytes [%s], [%m, {%r1, %r2, %r3}], [%o], {%h0, %h1};",
    "cp.async.bulk.tensor.4d.shared::cta.global.im2col::w::128.mbarrier::complete_tx::bytes [%s], [%m, {%r1, %r2, %r3, %r0}], [%o], {%h0, %h1};",
    "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster.cta_group::2 [%s], [%m, {%r1, %r2}], [%o], %h0;",
    "cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group [%m, {%r1, %r2}], [%s];",
    "cp.reduce.async.bulk.tensor.2d.global.shared::cta.add.tile.bulk_group [%m, {%r1, %r2}], [%s];",
    "cp.async.bulk.prefetch.tensor.2d.L2.global.tile::gather4 [%m, {%r1, %r2, %r3, %r0, %r4}];",
    "cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes.ignore_oob [%s], [%g], %r1, %r3, %r4, [%o];",
    "cp.async.bulk.global.shared::cta.bulk_group.cp_mask [%g], [%s], %r1, %h0;",
    "cp.async.bulk.commit_group;",
    "cp.async.bulk.wait_group 0;",
    "clusterlaunchcontrol.try_cancel.async.shared::cta.mbarrier::complete_tx::bytes.b128 [%s], [%o];",
    "clusterlaunchcontrol.query_cancel.get_first_ctaid.v4.b32.b128 {%r0, %r1, %r2, _}, %w;",
    "ld.shared.b128 %w, [%s];",
    "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%f0, %f1, %f2, %f3}, {%r0, %r1, %r2, %r3}, {%r4, %r0}, {%f0, %f1, %f2, %f3};",
    "mma.sync.aligned.m16n8k32.row.col.f32.e4m3.e5m2.f32 {%f0, %f1, %f2, %f3}, {%r0, %r1, %r2, %r3}, {%r4, %r0}, {%f0, %f1, %f2, %f3};",
    "ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%r0, %r1, %r2, %r3}, [%s];",
    "st.shared.f32 [%s], %f0;",
];

fn files() -> &'static (Arc<ChipSpec>, Arc<IsaCosts>) {
    static FILES: OnceLock<(Arc<ChipSpec>, Arc<IsaCosts>)> = OnceLock::new();
    FILES.get_or_init(|| {
        // A file that extends no other one.
        let text = include_str!("../../configs/chips/gh200.yaml");
        let mut chip = ChipSpec::load(&Source::new("gh200.yaml", text)).expect("the shipped chip is right");
        chip.limits.num_processors = 2;
        if let Some(cluster) = &mut chip.cluster {
            (cluster.gpcs, cluster.sms_per_tpc) = (1, 1);
        }
        let costs = IsaCosts::load(&Source::new("9.0.yaml", include_str!("../../configs/isa/9.0.yaml")));
        (Arc::new(chip), Arc::new(costs.expect("the shipped costs are right")))
    })
}

fuzz_target!(|input: ([u32; 5], [u16; 2], u8, [u8; 128], Vec<u8>)| {
    let (words, halves, shape, mut map, lines) = input;
    let list: String = lines.iter().take(24).map(|n| format!("{}\n", LINES[usize::from(*n) % LINES.len()])).collect();
    let registers: String = (0..5).map(|i| format!("mov.u32 %r{i}, {};\n", words[i])).collect();
    let halves: String = (0..2).map(|i| format!("mov.b16 %h{i}, {};\n", halves[i])).collect();
    let text = format!(
        ".version 9.3\n.target sm_100a\n.address_size 64\n.visible .entry k(.param .u64 p, .param .align 64 .b8 m[128])\n{{\n\
         .reg .b32 %r<5>, %s, %o;\n.reg .b64 %g, %m, %l<2>;\n.reg .b16 %h<2>;\n.reg .f32 %f<4>;\n.reg .b128 %w;\n.reg .pred %q;\n\
         .shared .align 1024 .b8 room[16384];\nld.param.u64 %g, [p];\nmov.u64 %m, m;\ncvta.param.u64 %m, %m;\nmov.u32 %s, room;\nadd.u32 %o, %s, 16256;\n\
         mov.b64 %l0, 0;\nmov.b128 %w, {{%l0, %l0}};\nmov.f32 %f0, 0f3f800000;\nmov.f32 %f1, %f0;\nmov.f32 %f2, %f0;\nmov.f32 %f3, %f0;\n\
         {registers}{halves}{list}exit;\n}}\n"
    );
    let (chip, costs) = files();
    let policy = ["crs_stack", "convergence_barriers", "mimd"][usize::from(shape % 3)];
    let cluster = if shape & 16 == 0 { 1 } else { 2 };
    for functional in [false, true] {
        let options = Options {
            check: Check::Off,
            max_cycles: Some(100_000),
            max_instructions: Some(10_000),
            allow_newer_isa: true,
            schedule_dependent: true,
            ..Options::of(PolicyChoice::parse(policy).expect("a policy"), WarpScheduler::Lrr)
        };
        let mut device = Device::new(Arc::clone(chip), Arc::clone(costs), options);
        let id = device.create_context();
        device.load(id, &Source::new("fuzz.ptx", &text), false).expect("lines are right");
        let context = device.context(id).expect("it exists");
        let out = context.malloc("out", 1 << 16).expect("it fits");
        map[8..16].copy_from_slice(&(out + 4096).to_le_bytes());
        let mut params = vec![0; 192];
        params[..8].copy_from_slice(&out.to_le_bytes());
        params[64..].copy_from_slice(&map);
        let launch = Launch {
            module: 0,
            entry: "k".into(),
            grid: [u32::from(shape >> 5) * 2 + 2, 1, 1],
            block: [if shape & 8 == 0 { 32 } else { 64 }, 1, 1],
            dynamic_shared: 0,
            stream: 0,
            params,
            functional,
            cluster: Some([cluster, 1, 1]),
            non_portable_cluster: false,
        };
        if device.launch(id, &launch).is_ok() {
            let _ = device.synchronize(id, &AtomicBool::new(false), &|_, _, _| {});
        }
    }
});
