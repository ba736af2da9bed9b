//! One schedule of a test on the simulated chip.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use sim_core::context::Launch;
use sim_core::device::{Device, Options};
use sim_core::error::SimError;
use sim_core::monitor::Check;
use sim_core::reconvergence::registry::PolicyChoice;
use sim_frontend::chip::ChipSpec;
use sim_frontend::diagnostic::Source;
use sim_frontend::isa_cost::IsaCosts;
use sim_verify::litmus::Test;
use sim_verify::litmus::program::{address_of, location_at};

use super::kernel::Kernel;
use super::schedule::{INSTANCES, Schedule, Threads};

/// Core cycles after which a schedule counts as not terminating.
const MAX_CYCLES: u64 = 400_000;

/// A chip under test.
pub struct Machine {
    /// Parameters of the chip.
    pub chip: Arc<ChipSpec>,
    /// Instruction costs of the chip.
    pub costs: Arc<IsaCosts>,
    /// The reconvergence policy.
    pub policy: PolicyChoice,
}

/// Final states of one launch, and how many instances ended in each.
pub type States = BTreeMap<Vec<i64>, u64>;

/// The results of one launch.
pub struct Trial {
    /// Values of [`atoms`](sim_verify::verdict::atoms).
    pub states: States,
    /// Why it was stopped: it does not end, or a fault.
    pub stopped: Option<String>,
    /// Its threads, each in a warp of its own, do not end: a proof of it, or [`MAX_CYCLES`] was reached. Whether lanes of
    /// one warp end is the reconvergence policy's matter.
    pub endless: bool,
    /// The axiom of the memory model that its execution violates, and why.
    pub broken: Option<String>,
}

/// Runs a schedule.
///
/// # Errors
/// The kernel does not fit the chip.
pub fn run(
    test: &Test,
    kernel: &Kernel,
    schedule: &Schedule,
    machine: &Machine,
    check: bool,
) -> Result<Trial, SimError> {
    let options = Options {
        policy: machine.policy,
        scheduler: schedule.scheduler,
        threads: schedule.workers,
        check: Check::Off,
        undefined: sim_frontend::workload::UndefinedValues::Fault,
        memory_model: check,
        sanitize: sim_core::sanitizer::Kinds::default(),
        max_cycles: Some(MAX_CYCLES),
        max_instructions: None,
        allow_newer_isa: true,
        schedule_dependent: true,
        instruction_set: None,
        epoch: schedule.epoch,
        profile: false,
        timeline: None,
        sample: None,
        sampling: None,
        record: None,
        save: None,
        delay: None,
    };
    let mut chip = Arc::clone(&machine.chip);
    if schedule.spread > 0 {
        Arc::make_mut(&mut chip).memory.interconnect.spread = schedule.spread;
    }
    let mut device = Device::new(chip, Arc::clone(&machine.costs), options);
    let context = device.create_context();
    let module = device.load(context, &Source::new("litmus.ptx", &kernel.text), false)?;
    let (threads, locations) = (test.threads.len(), test.locations.len());
    let most = test.threads.iter().map(|t| t.registers.len()).max().unwrap_or(0);
    let word = kernel.word as usize;
    let row = (most + 1) * word;
    let out_bytes = INSTANCES as usize * threads * row;
    // Locations of one instance, and nothing of another in their lines.
    let apart = (schedule.stride * locations as u32).next_multiple_of(256) + 256;
    let data_bytes = apart as usize * 64 + schedule.blocks.len() * 4096 + 8192;
    let mut plan = schedule.blocks.clone();
    for (thread, delay) in schedule.delays.iter().enumerate() {
        plan.extend([*delay, schedule.warm[thread], schedule.pending[thread]]);
    }
    let memory = device.context(context)?;
    let out = memory.malloc("out", out_bytes as u64)?;
    let data = memory.malloc("data", data_bytes as u64)?;
    let room = memory.malloc("plan", 4 * plan.len() as u64)?;
    memory.write(out, &vec![0; out_bytes]);
    memory.write(data, &vec![0; data_bytes]);
    memory.write(room, &plan.iter().flat_map(|w| w.to_le_bytes()).collect::<Vec<u8>>());
    let place = |instance: u32, location: usize| {
        data + u64::from(instance * apart) + u64::from(schedule.stride) * location as u64
    };
    for instance in 0..INSTANCES {
        for (location, facts) in test.locations.iter().enumerate() {
            let value = match location_at(facts.init, locations) {
                Some(other) => place(instance, other),
                None => facts.init as u64,
            };
            memory.write(place(instance, location), &value.to_le_bytes()[..word]);
        }
    }
    let mut params: Vec<u8> = [out, data, room].iter().flat_map(|a| a.to_le_bytes()).collect();
    let words = [schedule.blocks.len() as u32, schedule.stride, apart];
    params.extend(words.iter().flat_map(|w| w.to_le_bytes()));
    let launch = Launch {
        module,
        entry: "litmus".into(),
        grid: [schedule.blocks.len() as u32, 1, 1],
        block: [kernel.block, 1, 1],
        dynamic_shared: 0,
        stream: 0,
        params,
        functional: false,
        cluster: None,
        non_portable_cluster: false,
    };
    device.launch(context, &launch)?;
    let mut endless = false;
    let (stopped, broken) = match device.synchronize(context, &AtomicBool::new(false), &|_, _, _| {}) {
        Ok(()) => (None, None),
        Err(SimError::Input(list)) => return Err(SimError::Input(list)),
        Err(SimError::Stopped(fault)) if fault.rule == "mm-hw" => (None, Some(fault.to_string())),
        Err(error) => {
            let ends = match &error {
                SimError::Stopped(fault) => fault.rule != "live",
                error => !matches!(error, SimError::MaxCycles { .. }),
            };
            endless = !ends && schedule.threads == Threads::Warps;
            (Some(error.to_string()), None)
        }
    };
    let memory = device.context(context)?;
    let value = |address: u64, instance: u32| {
        let mut bytes = [0; 8];
        memory.read(address, &mut bytes[..word]);
        if word == 4 {
            return i64::from(i32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]));
        }
        let value = u64::from_le_bytes(bytes);
        let found = (0..locations).find(|location| place(instance, *location) == value);
        found.map_or(value as i64, address_of)
    };
    let mut states = States::new();
    for instance in 0..INSTANCES {
        let row_of = |thread: usize| out + ((instance as usize * threads + thread) * row) as u64;
        // One whose threads have not all come to their end has no final state.
        if (0..threads).any(|t| value(row_of(t) + (most * word) as u64, instance) != 1) {
            continue;
        }
        let mut state = Vec::new();
        for (thread, facts) in test.threads.iter().enumerate() {
            state.extend(
                (0..facts.registers.len()).map(|r| value(row_of(thread) + (r * word) as u64, instance)),
            );
        }
        state.extend((0..locations).map(|location| value(place(instance, location), instance)));
        *states.entry(state).or_default() += 1;
    }
    Ok(Trial { states, stopped, endless, broken })
}
