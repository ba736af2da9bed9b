//! What several benches need: kernels made of text, run on a shipped chip; the command, timed by
//! its own clock.
#![allow(dead_code, reason = "each bench uses its part")]

use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use sim_core::context::Launch;
use sim_core::device::{Device, Options};
use sim_core::instruction_set::InstructionSet;
use sim_core::reconvergence::registry::PolicyChoice;
use sim_core::sm::scheduler::WarpScheduler;
use sim_frontend::chip::ChipSpec;
use sim_frontend::diagnostic::Source;
use sim_frontend::isa_cost::IsaCosts;

/// The shipped GTX 480.
pub fn gtx480() -> ChipSpec {
    let text = include_str!("../../configs/chips/gtx480.yaml");
    ChipSpec::load(&Source::new("gtx480.yaml", text)).expect("the shipped chip is right")
}

/// A kernel `k(.u64 out)` whose loop runs `body` `rounds` times.
pub fn kernel(body: &str, rounds: u32) -> String {
    format!(
        ".version 3.0\n.target sm_20\n.address_size 64\n.visible .entry k(.param .u64 p)\n{{\n\
         .reg .u32 %a, %b, %c, %d, %n, %t;\n.reg .u64 %w, %x;\n.reg .f32 %f, %g, %h, %i;\n\
         .reg .f64 %e;\n.reg .pred %p, %q;\n.shared .align 4 .b8 room[4096];\n\
         ld.param.u64 %w, [p];\nmov.u32 %t, %tid.x;\nmul.wide.u32 %x, %t, 4;\nadd.u64 %x, %x, %w;\n\
         cvt.rn.f32.u32 %f, %t;\nmov.f32 %g, 0f3F800000;\nmov.f32 %h, %g;\nmov.f32 %i, %g;\n\
         cvt.f64.f32 %e, %f;\nmov.u32 %a, %t;\nmov.u32 %b, 3;\nmov.u32 %c, 5;\nmov.u32 %d, 7;\n\
         mov.u32 %n, {rounds};\nagain:\n{body}\n\
         sub.u32 %n, %n, 1;\nsetp.ne.u32 %p, %n, 0;\n@%p bra again;\nexit;\n}}\n"
    )
}

/// One launch, timed; the program is loaded before the clock starts.
pub fn time(
    chip: ChipSpec,
    text: &str,
    (grid, block): (u32, u32),
    functional: bool,
    set: Option<InstructionSet>,
) -> Duration {
    let costs = include_str!("../../configs/isa/2.0.yaml");
    let costs = IsaCosts::load(&Source::new("2.0.yaml", costs)).expect("the shipped costs are right");
    let policy = PolicyChoice::parse("crs_stack").expect("a policy");
    let options = Options { instruction_set: set, ..Options::of(policy, WarpScheduler::Gto) };
    let mut device = Device::new(Arc::new(chip), Arc::new(costs), options);
    let context = device.create_context();
    device.load(context, &Source::new("k.ptx", text), false).expect("the kernel is right");
    let out = device.context(context).and_then(|c| c.malloc("out", 4096 * 4)).expect("fits");
    let launch = Launch {
        module: 0,
        entry: "k".into(),
        grid: [grid, 1, 1],
        block: [block, 1, 1],
        dynamic_shared: 0,
        stream: 0,
        params: out.to_le_bytes().to_vec(),
        functional,
        cluster: None,
        non_portable_cluster: false,
    };
    device.launch(context, &launch).expect("launches");
    let start = Instant::now();
    device.synchronize(context, &AtomicBool::new(false), &|_, _, _| {}).expect("runs");
    start.elapsed()
}

/// Time inside the simulator and warp instructions of `warpsim run ARGUMENTS`.
pub fn command(arguments: &[&str]) -> (Duration, u64) {
    let folder = std::env::temp_dir().join(format!("warpsim-bench-{}", std::process::id()));
    let folder = folder.to_str().expect("text");
    let output = Command::new(env!("CARGO_BIN_EXE_warpsim"))
        .arg("run")
        .args(arguments)
        .args(["--out", folder])
        .output()
        .expect("the command runs");
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    let read = |name: &str| -> serde_json::Value {
        let text = std::fs::read_to_string(format!("{folder}/{name}")).expect("written");
        serde_json::from_str(&text).expect("JSON")
    };
    let seconds = read("host.json")["seconds"].as_f64().expect("seconds");
    let kernels = read("report.json")["kernels"].as_array().cloned().unwrap_or_default();
    let instructions = kernels.iter().filter_map(|k| k["warp_instructions"].as_u64()).sum();
    (Duration::from_secs_f64(seconds), instructions)
}
