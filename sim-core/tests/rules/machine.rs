//! One kernel on a GTX 480 (or what a test makes of it), run in every way there is.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use sim_core::context::Launch;
use sim_core::device::{ContextId, Device, Options};
use sim_core::error::SimError;
use sim_core::monitor::Check;
use sim_core::reconvergence::registry::PolicyChoice;
use sim_core::report::DeviceReport;
use sim_core::sm::scheduler::WarpScheduler;
use sim_frontend::chip::ChipSpec;
use sim_frontend::diagnostic::Source;
use sim_frontend::isa_cost::IsaCosts;

/// The shipped GTX 480, changed by `change`.
pub fn chip(change: impl FnOnce(&mut ChipSpec)) -> Arc<ChipSpec> {
    let text = include_str!("../../../configs/chips/gtx480.yaml");
    let mut chip = ChipSpec::load(&Source::new("gtx480.yaml", text)).expect("the shipped chip is right");
    change(&mut chip);
    Arc::new(chip)
}

/// The shipped V100 with one SM and this compute capability.
pub fn newer_chip(capability: &str) -> Arc<ChipSpec> {
    let text = include_str!("../../../configs/chips/v100.yaml");
    let mut chip = ChipSpec::load(&Source::new("v100.yaml", text)).expect("the shipped chip is right");
    chip.limits.num_processors = 1;
    chip.compute_capability = capability.into();
    Arc::new(chip)
}

/// A device of `chip` under `policy`, every check on.
pub fn device(chip: Arc<ChipSpec>, policy: &str) -> Device {
    device_with(chip, policy, |options| options)
}

/// The same with other options.
pub fn device_with(chip: Arc<ChipSpec>, policy: &str, change: impl FnOnce(Options) -> Options) -> Device {
    let costs = match chip.isa.as_str() {
        "7.0" => include_str!("../../../configs/isa/7.0.yaml"),
        _ => include_str!("../../../configs/isa/2.0.yaml"),
    };
    let costs = IsaCosts::load(&Source::new("costs.yaml", costs)).expect("the shipped costs are right");
    let options = Options {
        check: Check::Full,
        max_cycles: Some(10_000_000),
        ..Options::of(PolicyChoice::parse(policy).expect("a policy"), WarpScheduler::Gto)
    };
    Device::new(chip, Arc::new(costs), change(options))
}

/// A module with the kernel `k(.u64 out)`: `body` finds its global thread index in `%i`, the
/// address of its own word of `out` in `%own`, of the first in `%out`, and leaves its result in
/// `%r`, which is stored at the end. `functions` stand before the kernel.
pub fn module(functions: &str, body: &str) -> String {
    format!(
        ".version 3.0\n.target sm_20\n.address_size 64\n{functions}\n\
         .visible .entry k(.param .u64 p)\n{{\n\
         .reg .u32 %r, %i, %t, %a, %b, %c, %n;\n.reg .u64 %out, %own, %w, %x;\n\
         .reg .f32 %f, %g;\n.reg .pred %p, %q;\n\
         .shared .align 8 .b8 room[4096];\n\
         ld.param.u64 %out, [p];\nmov.u32 %t, %tid.x;\nmov.u32 %a, %ctaid.x;\nmov.u32 %n, %ntid.x;\n\
         mad.lo.u32 %i, %a, %n, %t;\nmul.wide.u32 %own, %i, 4;\nadd.u64 %own, %own, %out;\n\
         mov.u32 %r, 0;\n{body}\nst.global.u32 [%own], %r;\nexit;\n}}\n"
    )
}

/// A loaded kernel with its buffer.
pub struct Run {
    /// The device.
    pub device: Device,
    /// Its context.
    pub context: ContextId,
    /// Address of `out`.
    pub out: u64,
    words: usize,
}

impl Run {
    /// Loads `text` and allocates `words` words.
    pub fn new(mut device: Device, text: &str, papers: bool, words: usize) -> Self {
        let context = device.create_context();
        let text = if papers { format!("// dialect: papers\n{text}") } else { text.to_string() };
        if let Err(error) = device.load(context, &Source::new("t.ptx", &text), papers) {
            panic!("the test's program is wrong: {error}");
        }
        let out = device.context(context).expect("it exists").malloc("out", 4 * words as u64).expect("fits");
        Self { device, context, out, words }
    }

    /// Queues a launch of `k`.
    pub fn launch(&mut self, grid: u32, block: u32, functional: bool) -> Result<u32, SimError> {
        self.launch_on(0, grid, block, functional)
    }

    /// Queues a launch of `k` on a stream.
    pub fn launch_on(
        &mut self,
        stream: u32,
        grid: u32,
        block: u32,
        functional: bool,
    ) -> Result<u32, SimError> {
        self.launch_with(&[], stream, grid, block, functional)
    }

    /// The same with parameters after the address of `out`.
    pub fn launch_with(
        &mut self,
        more: &[u8],
        stream: u32,
        grid: u32,
        block: u32,
        functional: bool,
    ) -> Result<u32, SimError> {
        let launch = Launch { stream, grid: [grid, 1, 1], ..self.block_of(0, block, functional) };
        let params = [&launch.params[..], more].concat();
        self.device.launch(self.context, &Launch { params, ..launch })
    }

    /// Queues a launch of one block of `k` of another module.
    pub fn launch_from(&mut self, module: usize, block: u32, functional: bool) {
        let launch = self.block_of(module, block, functional);
        self.device.launch(self.context, &launch).expect("it fits");
    }

    fn block_of(&self, module: usize, block: u32, functional: bool) -> Launch {
        Launch {
            module,
            entry: "k".into(),
            grid: [1; 3],
            block: [block, 1, 1],
            dynamic_shared: 0,
            stream: 0,
            params: self.out.to_le_bytes().to_vec(),
            functional,
            cluster: None,
            non_portable_cluster: false,
        }
    }

    /// Runs what is queued.
    pub fn wait(&mut self) -> Result<(), SimError> {
        self.device.synchronize(self.context, &AtomicBool::new(false), &|_, _, _| {})
    }

    /// The buffer.
    pub fn words(&mut self) -> Vec<u32> {
        let mut bytes = vec![0; 4 * self.words];
        self.device.context(self.context).expect("it exists").read(self.out, &mut bytes);
        bytes.chunks_exact(4).map(|b| u32::from_le_bytes([b[0], b[1], b[2], b[3]])).collect()
    }

    /// What happened.
    pub fn report(&mut self) -> DeviceReport {
        self.device.context(self.context).expect("it exists").report()
    }
}

/// Runs `text` timed under the token stack and `mimd`, and functionally: the results must agree.
pub fn every_way(text: &str, grid: u32, block: u32) -> Vec<u32> {
    let mut results = Vec::new();
    for (policy, functional) in [("crs_stack", false), ("mimd", false), ("crs_stack", true)] {
        let mut run = Run::new(device(chip(|_| {}), policy), text, false, (grid * block) as usize);
        run.launch(grid, block, functional).unwrap_or_else(|e| panic!("{e}"));
        run.wait().unwrap_or_else(|e| panic!("{policy}: {e}"));
        results.push(run.words());
    }
    assert_eq!(results[0], results[1], "mimd differs");
    assert_eq!(results[0], results[2], "the functional mode differs");
    results.swap_remove(0)
}

/// One timed run under the token stack: results and report.
pub fn timed(text: &str, papers: bool, grid: u32, block: u32) -> Result<(Vec<u32>, DeviceReport), SimError> {
    let device = device(chip(|_| {}), "crs_stack");
    let mut run = Run::new(device, text, papers, (grid * block) as usize);
    run.launch(grid, block, false)?;
    run.wait()?;
    Ok((run.words(), run.report()))
}
