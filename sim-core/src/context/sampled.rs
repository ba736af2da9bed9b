//! Launches, and blocks of timed kernels, that are executed without timing, where kernels are sampled.
//!
//! Where blocks are, SMs and partitions stand still meanwhile, between two cycles. Device memory gets what L2 holds before, and L2 what memory
//! has got after, with the lines that the blocks accessed last; requests on their way act later. So blocks that are timed and
//! blocks that are not see one memory, and atomics are atomic for all.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use sim_memory::line::LINE_BYTES;
use sim_memory::mapping::Mapping;
use sim_memory::vocabulary::Cycle;

use super::Context;
use super::gather::{add_counts, add_to_device, add_undefined};
use crate::counts::KernelCounts;
use crate::device::Progress;
use crate::engine::{Engine, Pause};
use crate::error::SimError;
use crate::functional::{Functional, Room};
use crate::grid::Kernel;
use crate::reconvergence::Reconvergence;
use crate::report::Time;
use crate::sampling::Sampling;
use crate::touched::Touched;

/// What executes the blocks.
pub(super) struct Beside<P> {
    machine: Functional<P>,
    /// Blocks have not ended, since they wait for others: warp instructions before them.
    waits: Option<u64>,
}

impl<P: Reconvergence> Beside<P> {
    /// Warp instructions of all blocks so far.
    pub(super) fn instructions(&self) -> u64 {
        self.machine.counts().iter().map(|counts| counts.warp_instructions).sum()
    }
}

impl Context {
    /// The blocks that may be resident at a time.
    pub(super) fn room(&self, kernel: &Kernel) -> Room {
        let fits = self.kernels[kernel.grid_id as usize].resident_blocks.max(1);
        let all = u32::try_from(kernel.blocks()).unwrap_or(u32::MAX);
        Room { fits, most: fits.saturating_mul(self.chip.limits.num_processors).min(all.max(1)) }
    }

    /// Executes the blocks of a pause. They may wait for blocks that the engine runs; then there is another pause for them.
    pub(super) fn execute_beside<P: Reconvergence>(
        &mut self,
        engine: &mut Engine<P>,
        beside: &mut Option<Box<Beside<P>>>,
        parameters: &P::Parameters,
        pause: &Pause,
        stop: &AtomicBool,
    ) -> Result<(), SimError> {
        let Pause { kernel, skip, rests } = pause;
        engine.partitions().for_each(|partition| partition.share_with_memory());
        let beside = beside.get_or_insert_with(|| {
            let mut machine = Functional::new(self.world(), P::new(parameters, self.slots(0)), 0, 0);
            machine.set_slots(self.warps());
            machine.run_beside(self.chip.limits.num_processors);
            Box::new(Beside { machine, waits: None })
        });
        let room = self.room(kernel);
        let before = match beside.waits.take() {
            // They may wait for those behind them too.
            Some(before) => {
                beside.machine.widen(room.most);
                before
            }
            None => {
                let before = beside.instructions();
                let left = self.instructions_left().saturating_sub(engine.instructions() + before);
                let lines = self.chip.limits.level2_cache_size / u64::from(LINE_BYTES);
                let touched = Box::new(Touched::new((lines as usize).max(1), 1));
                // When twice as many blocks as run at a time have begun, half of them have ended.
                beside.machine.touch_last(touched, skip.from, 2 * u64::from(room.fits));
                beside.machine.begin(kernel, skip.from..skip.to, Room { most: room.fits, ..room }, left);
                before
            }
        };
        let went = beside.machine.go_on(kernel, &|| stop.load(Ordering::Relaxed));
        let stuck = went.map_err(|halt| self.halted(halt))?;
        let mapping = Mapping::new(&self.chip.memory);
        let mut last = vec![Vec::new(); self.chip.memory.partitions as usize];
        if let Some(touched) = beside.machine.touched_mut().filter(|_| stuck.is_none()) {
            touched.launch_ends();
            let lines = touched.last_written().into_iter();
            lines.for_each(|(line, written)| last[mapping.place(line).0 as usize].push((line, written)));
        }
        for (partition, lines) in engine.partitions().zip(&last) {
            partition.renew(lines);
        }
        match stuck {
            None => engine.executed(pause, beside.instructions() - before),
            // Nobody will do anything for them.
            Some(fault) if *rests => return Err(SimError::Stopped(fault)),
            Some(_) => {
                beside.waits = Some(before);
                engine.wait(pause);
            }
        }
        Ok(())
    }

    /// Runs launches of one stream, some of them without timing.
    pub(super) fn run_sampled<P: Reconvergence>(
        &mut self,
        parameters: &P::Parameters,
        queue: &[(Arc<Kernel>, bool)],
        sampling: Sampling,
        stop: &AtomicBool,
        progress: &Progress<'_>,
    ) -> Result<(), SimError> {
        let mut rest = queue;
        while let Some((kernel, functional)) = rest.first() {
            if *functional || self.groups.leaves_out(kernel, sampling) {
                let (now, later) = rest.split_at(1);
                rest = later;
                self.run_functional::<P>(parameters, now, later, stop)?;
                if !functional {
                    self.estimate(kernel);
                }
                continue;
            }
            // Those behind it that are timed whatever it takes run right behind it.
            let more = rest[1..]
                .iter()
                .take_while(|(kernel, functional)| !functional && self.groups.must_time(kernel));
            let (now, later) = rest.split_at(1 + more.count());
            rest = later;
            self.run_timed::<P>(parameters, now, stop, progress).inspect_err(|_| self.groups.give_up())?;
            for (kernel, _) in now {
                let report = &self.kernels[kernel.grid_id as usize];
                self.groups.timed(kernel, report.cycles, report.warp_instructions);
            }
        }
        Ok(())
    }

    /// A launch was executed without timing: its cycles are those of others like it.
    fn estimate(&mut self, kernel: &Kernel) {
        let khz = self.chip.clocks().core_khz;
        let report = &mut self.kernels[kernel.grid_id as usize];
        let counts = KernelCounts {
            warp_instructions: report.warp_instructions,
            thread_instructions: report.thread_instructions,
            control_instructions: report.control_instructions,
            machine_instructions: report.machine_instructions,
            ..KernelCounts::default()
        };
        let (cycles, sampled) = self.groups.left_out(kernel, report.warp_instructions);
        report.functional = false;
        report.sampled = Some(sampled);
        report.launch_cycles = Cycle::from(self.chip.dispatch.launch_latency);
        (report.cycles, report.time_us) = (cycles, Time::of(cycles, khz));
        report.start_cycle = report.launch_cycles;
        report.end_cycle = report.start_cycle + cycles;
        let sum = &mut self.report;
        sum.cycles += cycles;
        sum.launch_cycles += report.launch_cycles;
        sum.time_us = Time::of(sum.cycles, khz);
        sum.launch_us = Time::of(sum.launch_cycles, khz);
        sum.blocks += kernel.blocks();
        add_to_device(sum, &counts);
    }

    /// Adds what the blocks that were left out of the timing have done.
    pub(super) fn gather_beside<P: Reconvergence>(&mut self, engine: &Engine<P>, beside: &mut Beside<P>) {
        for (grid, counts) in beside.machine.counts().iter().enumerate() {
            let Some(report) = self.kernels.get_mut(grid) else { continue };
            let left_out = engine.left_out(grid);
            let blocks = report.grid.iter().map(|&n| u64::from(n)).product();
            if left_out.blocks > 0 {
                let timed = report.cycles.saturating_sub(left_out.cycles());
                report.sampled = Some(left_out.report(blocks, timed, report.warp_instructions));
            }
            add_counts(report, counts);
            add_to_device(&mut self.report, counts);
            self.report.blocks += left_out.blocks;
        }
        add_undefined(&mut self.kernels, beside.machine.take_undefined());
    }
}
