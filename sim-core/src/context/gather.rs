//! Builds the report from the counters of an engine.

use std::collections::{BTreeMap, BTreeSet};

use sim_frontend::awaited::Awaited;
use sim_frontend::isa::UnitClass;
use sim_frontend::program::{Pc, Program, Text};
use sim_memory::sm_memory::latency::{Kind, Level};
use sim_memory::vocabulary::Cycle;

use super::Context;
use crate::counts::KernelCounts;
use crate::engine::{Engine, KernelTimes};
use crate::execute::UndefinedReads;
use crate::reconvergence::Reconvergence;
use crate::report::{DeviceReport, KernelReport, LineReport, MemoryReport, SmReport, Time, UndefinedReport};
use crate::sm::profile::{OpCounts, merge};
use crate::sm::stall_table;
use crate::sm::states::STATES;
use crate::sm::stats::SmStats;

/// Index of the state `memory` in [`STATES`].
const MEMORY: usize = 3;
const _: () = assert!(matches!(STATES[MEMORY].as_bytes(), b"memory"));

/// Adds what an SM counted of bulk copies and of packets.
#[cold]
fn gather_clusters(memory: &mut MemoryReport, stats: &SmStats) {
    if stats.tma.copies > 0 {
        let sum = memory.tma.get_or_insert_default();
        sum.copies += stats.tma.copies;
        sum.loaded_bytes += stats.tma.loaded_bytes;
        sum.stored_bytes += stats.tma.stored_bytes;
        sum.between_bytes += stats.tma.between_bytes;
        sum.busy_cycles += stats.tma.busy_cycles;
        sum.active_cycles += stats.active_cycles;
    }
    if stats.remote.packets > 0 {
        let sum = memory.remote.get_or_insert_default();
        sum.accesses += stats.remote.accesses;
        sum.packets += stats.remote.packets;
    }
}

impl Context {
    /// Adds the counters of an engine to the report.
    pub(super) fn gather<P: Reconvergence>(&mut self, engine: &mut Engine<P>, complete: bool) {
        let times = engine.times().to_vec();
        let last = times.iter().map(|t| t.end).max().unwrap_or(0);
        // A run that ends is as long as its last block; one that stopped, as what has happened.
        let until = if complete { last } else { engine.now() };
        let timed = KernelTimes::running(&times, until);
        // While no grid runs, all slots are idle.
        let launch_cycles = until - timed;
        let khz = self.chip.clocks().core_khz;
        if let Some(samples) = engine.take_samples(until) {
            self.report.samples.get_or_insert_default().append(samples);
        }
        let mut total = SmStats::default();
        let mut memory = std::mem::take(&mut self.report.memory);
        let mut by_sm = std::mem::take(&mut self.report.by_sm);
        by_sm.resize_with(self.chip.limits.num_processors as usize, SmReport::default);
        for (sm, own) in engine.sms().zip(&mut by_sm) {
            sm.account_until(until);
            total.issued += sm.stats.issued;
            total.paired += sm.stats.paired;
            // Slots after the last block's end belong to no kernel.
            let slots = timed * u64::from(self.report.schedulers);
            let beyond = sm.slots().saturating_sub(slots);
            let mut stalls = sm.stats.stalls;
            stalls[0] -= beyond.min(stalls[0]);
            for (sum, stall) in total.stalls.iter_mut().zip(stalls) {
                *sum += stall;
            }
            own.warp_cycles += sm.stats.warp_cycles;
            own.active_cycles += sm.stats.active_cycles;
            total.warp_cycles += sm.stats.warp_cycles;
            total.active_cycles += sm.stats.active_cycles;
            own.blocks += sm.stats.blocks;
            own.issued += sm.stats.issued;
            own.warp_instructions +=
                sm.stats.kernels.iter().map(|counts| counts.warp_instructions).sum::<u64>();
            for (name, stall) in stall_table(&stalls).filter(|(_, stall)| *stall > 0) {
                *own.stalls.entry(name).or_default() += stall;
            }
            total.spilled_bytes += sm.stats.spilled_bytes;
            total.most_entries = total.most_entries.max(sm.stats.most_entries);
            total.blocks += sm.stats.blocks;
            memory.access_latency += sm.stats.access_latency;
            memory.on_chip_accesses += sm.stats.shared_accesses;
            memory.conflict_cycles += sm.stats.bank_conflict_cycles;
            gather_clusters(&mut memory, &sm.stats);
            for (turns, accesses) in (1u32..).zip(&sm.stats.turns).filter(|(_, accesses)| **accesses > 0) {
                *memory.on_chip_turns.entry(turns).or_default() += accesses;
            }
            for (grid, counts) in sm.stats.kernels.iter().enumerate() {
                if let Some(report) = self.kernels.get_mut(grid) {
                    add_counts(report, counts);
                }
                add_to_device(&mut self.report, counts);
            }
            let cores = self.chip.sm.units.of_sm(UnitClass::Tensor, self.chip.sm.schedulers);
            let cycles = sm.stats.active_cycles * u64::from(cores);
            std::mem::take(&mut sm.resident.tensor).add_to(&mut self.report.tensor, cycles);
            add_undefined(&mut self.kernels, std::mem::take(&mut sm.resident.undefined));
            if let Some(recorder) = sm.recorder.take() {
                for (code, counts) in recorder.profile.iter().flat_map(|profile| &profile.programs) {
                    merge(&mut self.profile, code, counts);
                }
                self.timelines.extend(recorder.timeline);
            }
            let s = sm.memory.stats();
            memory.accesses += s.accesses;
            memory.transactions += s.transactions;
            memory.bytes_useful += s.bytes_useful;
            memory.bytes_moved += s.bytes_moved;
            memory.blocked += s.blocked;
            if s.tlb.requests > 0 {
                memory.tlb.get_or_insert_default().add(&s.tlb);
            }
            memory.queues.load_store.add(&s.load_store);
            memory.queues.l1_mshrs.add(&s.mshrs);
            memory.queues.store_tokens.add(&s.tokens);
            memory.l1.add(&s.l1);
            memory.local_accesses += s.local_accesses;
            memory.local_transactions += s.local_transactions;
            self.latencies.add(sm.memory.latencies());
        }
        for (name, level) in Level::ALL {
            memory
                .load_latency
                .extend(self.latencies.percentiles(Kind::Load(level)).map(|figures| (name, figures)));
        }
        memory.store_latency = self.latencies.percentiles(Kind::Store);
        memory.atomic_latency = self.latencies.percentiles(Kind::Atomic);
        for partition in engine.partitions() {
            partition.flush_to_memory();
            let s = partition.stats();
            memory.atomics += s.atomics;
            memory.queues.l2_mshrs.add(&s.mshrs);
            memory.queues.l2_stalled.add(&s.stalled);
            memory.l2.add(&s.l2);
            memory.dram.add(&s.dram);
        }
        let all = &times;
        for (grid, times) in times.iter().enumerate() {
            if let Some(report) = self.kernels.get_mut(grid).filter(|k| !k.functional && k.end_cycle == 0) {
                // What was left out of the timing has passed too.
                let before = all.iter().enumerate().filter(|(_, other)| other.end <= times.start);
                let before: Cycle = before.map(|(other, _)| engine.left_out(other).cycles()).sum();
                let left_out = engine.left_out(grid).cycles();
                report.start_cycle = times.start + before;
                report.end_cycle = times.end + before + left_out;
                report.cycles = times.end.saturating_sub(times.start) + left_out;
                report.launch_cycles = times.start - times.taken;
                report.time_us = Time::of(report.cycles, khz);
            }
        }
        let warps = u64::from(self.chip.limits.max_resident_threads / self.chip.limits.warp_size);
        let r = &mut self.report;
        r.by_sm = by_sm;
        r.warp_cycles += total.warp_cycles;
        r.warp_slots += total.active_cycles * warps;
        r.cycles += timed + engine.left_out_of_all();
        r.launch_cycles += launch_cycles;
        r.time_us = Time::of(r.cycles, khz);
        r.launch_us = Time::of(r.launch_cycles, khz);
        r.issued += total.issued;
        r.paired += total.paired;
        for (name, stall) in stall_table(&total.stalls) {
            *r.stalls.entry(name.to_string()).or_default() += stall;
        }
        r.blocks += total.blocks;
        r.dispatch_wait_cycles += engine.dispatch_waits();
        r.policy_entries = r.policy_entries.max(total.most_entries);
        r.policy_spilled_bytes += total.spilled_bytes;
        r.memory = memory;
    }
}

impl Context {
    /// Counts by PTX line, by kernel in the order of first issue: what is written there, then what the assembler makes for it.
    pub(super) fn lines(&self) -> Vec<LineReport> {
        let mut out = Vec::new();
        for (code, counts) in &self.profile {
            let program = &code.program;
            let base = program.base.as_ref().unwrap_or(program);
            let mut lines: BTreeMap<Place, (OpCounts, u64, u32)> = BTreeMap::new();
            let mut texts: BTreeMap<Place, Vec<(Text, u32)>> = BTreeMap::new();
            let mut awaited = Awaited::new(base);
            let mut waits_for: BTreeMap<Place, BTreeSet<u32>> = BTreeMap::new();
            let mut machine: BTreeMap<Place, BTreeMap<UnitClass, u64>> = BTreeMap::new();
            for (pc, (counts, info)) in counts.iter().zip(&program.info).enumerate() {
                // Injected operations stand for the next one of the text.
                let of = if info.injected { base.info.get(info.base_pc as usize) } else { Some(info) };
                let place = of.map_or((0, None), |info| (info.line, made(info.text)));
                if counts.reasons[MEMORY] > 0 {
                    let loads = awaited.loads_before(info.base_pc);
                    let loads = loads.iter().map(|pc| base.info[*pc as usize].line).filter(|line| *line > 0);
                    waits_for.entry(place).or_default().extend(loads);
                }
                let (sum, injected, first) =
                    lines.entry(place).or_insert((OpCounts::default(), 0, pc as u32));
                if info.injected {
                    *injected += counts.issues;
                    sum.add(&OpCounts {
                        waited: counts.waited,
                        reasons: counts.reasons,
                        ..OpCounts::default()
                    });
                } else {
                    let written = texts.entry(place).or_default();
                    if written.iter().all(|(text, _)| *text != info.text) {
                        written.push((info.text, pc as u32));
                    }
                    if program.info[*first as usize].injected {
                        *first = pc as u32;
                    }
                    sum.add(counts);
                    let op = &code.decoded[pc];
                    let operations = counts.issues * u64::from(op.machine_operations);
                    if operations > 0 {
                        let class = UnitClass::ALL[usize::from(op.unit)];
                        *machine.entry(place).or_default().entry(class).or_default() += operations;
                    }
                }
            }
            let mut waits_for = |place| waits_for.remove(&place).into_iter().flatten().collect();
            for (place, (sum, injected, pc)) in
                lines.into_iter().filter(|(_, (sum, n, _))| sum.issues + n > 0)
            {
                out.push(LineReport {
                    kernel: program.entry.to_string(),
                    line: place.0,
                    text: all_of(program, pc, texts.get(&place).map_or(&[], Vec::as_slice)),
                    source_line: program.info[pc as usize].loc.map(|(_, line)| line),
                    source_file: program.info[pc as usize].loc.map(|(file, _)| file),
                    issues: sum.issues,
                    machine_operations: machine.remove(&place).unwrap_or_default(),
                    injected,
                    executing_lanes: sum.executing,
                    active_lanes: sum.active,
                    waited: sum.waited,
                    waits: STATES.into_iter().zip(sum.reasons).filter(|(_, cycles)| *cycles > 0).collect(),
                    waits_for: waits_for(place),
                    asked: (sum.asked.accesses > 0).then_some(sum.asked),
                    conflict_cycles: sum.conflict_cycles,
                });
            }
        }
        out
    }
}

pub(super) fn add_counts(report: &mut KernelReport, counts: &KernelCounts) {
    report.warp_instructions += counts.warp_instructions;
    report.thread_instructions += counts.thread_instructions;
    report.control_instructions += counts.control_instructions;
    report.machine_instructions += counts.machine_instructions;
    report.active_lanes += counts.active_lanes;
    report.cancelled_blocks += counts.cancelled_blocks;
}

/// Adds them to those of the device.
pub(super) fn add_to_device(report: &mut DeviceReport, counts: &KernelCounts) {
    report.warp_instructions += counts.warp_instructions;
    report.thread_instructions += counts.thread_instructions;
    report.control_instructions += counts.control_instructions;
    report.machine_instructions += counts.machine_instructions;
}

/// Adds what an SM has counted of values that PTX leaves undefined; a report has the instructions in their order.
pub(super) fn add_undefined(reports: &mut [KernelReport], counted: BTreeMap<(u32, Pc), UndefinedReads>) {
    for ((grid, pc), values) in counted {
        let Some(report) = reports.get_mut(grid as usize) else { continue };
        match report.undefined_values.binary_search_by_key(&pc, |other| other.pc) {
            Ok(at) => report.undefined_values[at].lanes += values.lanes,
            Err(at) => {
                let program = &values.kernel.code.program;
                let own = UndefinedReport {
                    pc,
                    line: program.info[pc as usize].line,
                    text: program.text(pc),
                    lanes: values.lanes,
                };
                report.undefined_values.insert(at, own);
            }
        }
    }
}

/// A line, and what the assembler makes for it.
type Place = (u32, Option<&'static str>);

/// What an instruction is that is not written.
fn made(text: Text) -> Option<&'static str> {
    match text {
        Text::Written(_) => None,
        Text::Made(text) => Some(text),
    }
}

/// The instructions of a line in text order; the one at `pc` if the line has none.
fn all_of(program: &Program, pc: u32, found: &[(Text, u32)]) -> String {
    let place = |text: &Text| match text {
        Text::Written(span) => Some(span.start),
        Text::Made(_) => None,
    };
    let mut written: Vec<(u32, u32)> =
        found.iter().filter_map(|(text, pc)| Some((place(text)?, *pc))).collect();
    written.sort_unstable();
    match written.as_slice() {
        [] | [_] => program.text(pc),
        several => several.iter().map(|(_, pc)| program.text(*pc)).collect::<Vec<_>>().join("; "),
    }
}
