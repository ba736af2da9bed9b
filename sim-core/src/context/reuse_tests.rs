//! An engine that is used again gives what a new one gives.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use sim_frontend::chip::ChipSpec;
use sim_frontend::diagnostic::Source;
use sim_frontend::isa_cost::IsaCosts;

use crate::context::{Context, Launch};
use crate::device::{ContextId, Device, Options};
use crate::monitor::Check;
use crate::reconvergence::registry::{POLICIES, PolicyChoice};
use crate::sm::scheduler::WarpScheduler;

/// `empty` does nothing; `walk` diverges, loads and stores with a stride, and adds atomically; `tile` goes through
/// shared memory with barriers; `deep` keeps an array in local memory.
const PROGRAM: &str = ".version 3.0\n.target sm_20\n.address_size 64\n\
    .visible .entry empty(.param .u64 p, .param .u32 s)\n{\nexit;\n}\n\
    .visible .entry walk(.param .u64 p, .param .u32 s)\n{\n.reg .u32 %t, %b, %n, %s, %i, %v;\n.reg .u64 %o, %w;\n\
    .reg .pred %p;\nld.param.u64 %o, [p];\nld.param.u32 %s, [s];\nmov.u32 %t, %tid.x;\nmov.u32 %b, %ctaid.x;\n\
    mov.u32 %n, %ntid.x;\nmad.lo.u32 %t, %b, %n, %t;\nand.b32 %i, %t, 3;\nLOOP:\nmul.lo.u32 %v, %t, %s;\n\
    add.u32 %v, %v, %i;\nand.b32 %v, %v, 4095;\nmul.wide.u32 %w, %v, 4;\nadd.u64 %w, %w, %o;\n\
    ld.global.u32 %v, [%w];\nadd.u32 %v, %v, %t;\nst.global.u32 [%w], %v;\nred.global.add.u32 [%o], 1;\n\
    sub.u32 %i, %i, 1;\nsetp.ge.s32 %p, %i, 0;\n@%p bra LOOP;\nexit;\n}\n\
    .visible .entry tile(.param .u64 p, .param .u32 s)\n{\n.shared .align 4 .b8 room[20000];\n\
    .reg .u32 %t, %a, %v;\n.reg .u64 %o, %w;\nld.param.u64 %o, [p];\nmov.u32 %t, %tid.x;\n\
    mul.wide.u32 %w, %t, 4;\nadd.u64 %w, %w, %o;\nld.global.u32 %v, [%w];\nmov.u32 %a, room;\n\
    mad.lo.u32 %a, %t, 12, %a;\nst.shared.u32 [%a], %v;\nbar.sync 0;\nxor.b32 %t, %t, 1;\nmov.u32 %a, room;\n\
    mad.lo.u32 %a, %t, 12, %a;\nld.shared.u32 %v, [%a];\natom.shared.add.u32 %v, [%a], 1;\nbar.sync 0;\n\
    st.global.u32 [%w], %v;\nexit;\n}\n\
    .visible .entry deep(.param .u64 p, .param .u32 s)\n{\n.local .align 4 .b8 stack[256];\n\
    .reg .u32 %t, %i, %v;\n.reg .u64 %o, %w, %l;\n.reg .pred %p;\nld.param.u64 %o, [p];\nmov.u32 %t, %tid.x;\n\
    mov.u32 %i, 0;\nFILL:\nmul.wide.u32 %l, %i, 4;\nmov.u64 %w, stack;\nadd.u64 %l, %l, %w;\nadd.u32 %v, %i, %t;\n\
    st.local.u32 [%l], %v;\nadd.u32 %i, %i, 1;\nsetp.lt.u32 %p, %i, 64;\n@%p bra FILL;\nand.b32 %i, %t, 63;\n\
    mul.wide.u32 %l, %i, 4;\nadd.u64 %l, %l, %w;\nld.local.u32 %v, [%l];\nmul.wide.u32 %w, %t, 4;\n\
    add.u64 %w, %w, %o;\nst.global.u32 [%w], %v;\nmembar.gl;\nexit;\n}\n";

fn device(chip: &str, costs: &str, change: impl FnOnce(&mut Options)) -> (Device, ContextId, u64) {
    let mut chip = ChipSpec::load(&Source::new("chip.yaml", chip)).expect("a chip");
    chip.limits.num_processors = 4;
    let costs = IsaCosts::load(&Source::new("costs.yaml", costs)).expect("costs");
    let mut options = Options {
        check: Check::Full,
        ..Options::of(PolicyChoice::parse(&chip.default_policy).expect("a policy"), WarpScheduler::Gto)
    };
    change(&mut options);
    let mut device = Device::new(Arc::new(chip), Arc::new(costs), options);
    let id = device.create_context();
    device.load(id, &Source::new("t.ptx", PROGRAM), false).expect("loads");
    let out = device.context(id).expect("it exists").malloc("out", 4 * 4096).expect("fits");
    (device, id, out)
}

/// Blocks, threads, stride, and whether the host copies something before.
const LAUNCHES: [(&str, u32, u32, u32, bool); 12] = [
    ("empty", 1, 32, 0, false),
    ("walk", 9, 96, 33, false),
    ("walk", 1, 64, 1, false),
    ("empty", 1, 32, 0, false),
    ("tile", 3, 128, 0, false),
    ("deep", 5, 96, 0, true),
    ("walk", 40, 128, 7, false),
    ("tile", 1, 32, 0, false),
    ("deep", 1, 32, 0, false),
    ("empty", 300, 256, 0, false),
    ("walk", 2, 33, 1, true),
    ("walk", 2, 33, 1, false),
];

/// The reports of all launches, one by one, and the memory at the end; without an engine of an earlier run where one
/// is `new`.
fn run(chip: &str, costs: &str, new: bool, change: impl FnOnce(&mut Options)) -> Vec<String> {
    let (mut device, id, out) = device(chip, costs, change);
    let stop = AtomicBool::new(false);
    let mut reports = Vec::new();
    for (entry, grid, block, stride, copy) in LAUNCHES {
        let context: &mut Context = device.context(id).expect("it exists");
        if new {
            context.idle = None;
        }
        if copy {
            context.write(out + 64, &[7; 640]);
        }
        let params = [&out.to_le_bytes()[..], &stride.to_le_bytes()].concat();
        let (entry, grid, block) = (entry.into(), [grid, 1, 1], [block, 1, 1]);
        let (dynamic_shared, stream, functional) = (0, 0, false);
        let launch = Launch {
            module: 0,
            entry,
            grid,
            block,
            dynamic_shared,
            stream,
            params,
            functional,
            cluster: None,
            non_portable_cluster: false,
        };
        context.launch(&launch).expect("launches");
        context.synchronize(&stop, &|_, _, _| {}).expect("runs");
        assert!(context.idle.is_some(), "the engine is kept");
        let report = context.take_report().expect("nothing is queued");
        assert!(report.cycles > 0);
        reports.push(format!("{entry} {report:?}", entry = launch.entry));
    }
    let mut memory = vec![0; 4 * 4096];
    device.context(id).expect("it exists").read(out, &mut memory);
    reports.push(format!("{memory:?}"));
    reports
}

/// Both ways on a chip.
fn same(chip: &str, costs: &str, change: impl Fn(&mut Options)) {
    let (again, new) = (run(chip, costs, false, &change), run(chip, costs, true, &change));
    for (again, new) in again.iter().zip(&new) {
        assert_eq!(again, new);
    }
    assert_eq!(again.len(), LAUNCHES.len() + 1);
}

const GTX480: &str = include_str!("../../../configs/chips/gtx480.yaml");
const FERMI: &str = include_str!("../../../configs/isa/2.0.yaml");
const V100: &str = include_str!("../../../configs/chips/v100.yaml");
const VOLTA: &str = include_str!("../../../configs/isa/7.0.yaml");

#[test]
fn an_engine_is_as_new_after_each_run_under_every_policy() {
    for policy in POLICIES {
        same(GTX480, FERMI, |options| options.policy = PolicyChoice::parse(policy.name).expect("a policy"));
    }
}

#[test]
fn an_engine_is_as_new_where_l1_is_split_anew_and_under_every_scheduler() {
    for scheduler in [WarpScheduler::Lrr, WarpScheduler::Gto, WarpScheduler::TwoLevel { active: 2 }] {
        same(V100, VOLTA, |options| options.scheduler = scheduler);
    }
}

#[test]
fn an_engine_is_as_new_with_several_workers_profiles_samples_and_checks() {
    same(V100, VOLTA, |options| options.threads = 3);
    same(GTX480, FERMI, |options| {
        (options.profile, options.sample, options.memory_model) = (true, Some(100), true);
    });
}
