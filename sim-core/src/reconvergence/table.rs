//! A table of paths per warp as a policy, for those that keep more than one path: what distinguishes
//! them is in their [`Rules`]; this file tells these what happened and makes their answer known.

use std::fmt::Debug;
use std::io::{Read, Write};
use std::sync::Arc;

use borsh::{BorshDeserialize, BorshSerialize};
use sim_frontend::program::{ControlFlow, NO_PC, Pc};
use sim_memory::links;
use sim_memory::vocabulary::LaneMask;

use super::paths::{Group, NONE, PATHS, Path, Paths};
use super::plan::Plan;
use super::rules::{Event, Rules};
use super::table_policies::TablePolicy;
#[cfg(test)]
use super::{Corruption, paths::Entry};
use super::{Cost, Holding, Issuing, LaneTargets, Lanes, ReadyAddress, Reconvergence, SplitId, WarpSlots};
use crate::by_split::BySplit;
use crate::error::Violation;

/// The split of a path.
#[inline]
fn split_id(warp: usize, slot: u32) -> SplitId {
    (warp * PATHS) as SplitId + slot
}

/// The kind of instruction by which threads moved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Moved {
    Branched,
    Called,
    /// The threads returned or exited.
    Left,
}

/// What issues of a slot without a path.
const NOBODY: Issuing = Issuing { pc: 0, stop: NO_PC, mask: 0 };

/// The policy: one table a warp.
#[derive(Debug, borsh::BorshSerialize, borsh::BorshDeserialize)]
pub struct Table {
    decoded: BySplit<Issuing, Self>,
    /// By warp: slots whose paths are in splits, one bit each.
    seen: Vec<u32>,
    warps: Vec<Paths>,
    #[borsh(serialize_with = "write_rules", deserialize_with = "read_rules")]
    rules: Box<dyn Rules>,
    groups: Vec<Group>,
    forms_warps: bool,
}

#[allow(clippy::borrowed_box, reason = "the field is a box")]
fn write_rules<W: Write>(rules: &Box<dyn Rules>, writer: &mut W) -> std::io::Result<()> {
    rules.save()?.serialize(writer)
}

/// The rules are those of the policy that runs.
fn read_rules<R: Read>(reader: &mut R) -> std::io::Result<Box<dyn Rules>> {
    let mut rules = links::of(|policy: &TablePolicy| Some(policy.rules()))?;
    rules.restore(&Vec::deserialize_reader(reader)?)?;
    Ok(rules)
}

impl Table {
    /// The table of `warps` warps under `rules`.
    pub fn with(rules: Box<dyn Rules>, warps: usize) -> Self {
        Self {
            decoded: BySplit::new(warps, NOBODY),
            seen: vec![0; warps],
            warps: vec![Paths::default(); warps],
            forms_warps: rules.forms_warps(),
            rules,
            groups: Vec::new(),
        }
    }

    /// Takes over where the paths have gone since.
    fn sync(&mut self, warp: usize) {
        for slot in Lanes(self.seen[warp]) {
            self.warps[warp].slots[slot as usize].pc = self.decoded[split_id(warp, slot)].pc;
        }
    }

    /// Asks the policy and makes known what changed.
    fn settle(&mut self, warp: usize, event: Event, slot: usize, touched: &mut Vec<SplitId>) -> Cost {
        self.rules.settle(&mut self.warps[warp], event, slot);
        if self.rules.spans_blocks() {
            let block = self.warps[warp].block;
            let here = |(_, paths): &(usize, &Paths)| paths.block == block && paths.used().next().is_some();
            let own: Vec<usize> = self.warps.iter().enumerate().filter(here).map(|(w, _)| w).collect();
            for &other in own.iter().filter(|other| **other != warp) {
                self.sync(other);
            }
            let begins = event == Event::Admitted && own == [warp];
            self.rules.settle_block(&mut self.warps, &own, begins);
            for &other in own.iter().filter(|other| **other != warp) {
                self.show(other, touched);
            }
        }
        self.show(warp, touched);
        let paths = &mut self.warps[warp];
        paths.moved = 0;
        let size = paths.size();
        let before = std::mem::replace(&mut paths.charged, size);
        self.rules.cost(before, size)
    }

    /// Makes known what a warp's paths are now.
    fn show(&mut self, warp: usize, touched: &mut Vec<SplitId>) {
        let paths = &self.warps[warp];
        debug_assert!(paths.agrees());
        let mut seen = 0u32;
        for slot in Lanes(self.seen[warp] | paths.occupied()) {
            let (path, decoded) = (&paths.slots[slot as usize], &mut self.decoded[split_id(warp, slot)]);
            let mask = if path.enabled || path.parked { path.mask } else { 0 };
            if mask != decoded.mask || (mask != 0 && path.pc != decoded.pc) {
                touched.push(split_id(warp, slot));
            }
            *decoded = Issuing { pc: path.pc, stop: path.stop, mask };
            seen |= u32::from(mask != 0) << slot;
        }
        self.seen[warp] = seen;
    }

    /// Threads of `split` went where `groups` says.
    fn moved(&mut self, split: SplitId, kind: Moved, touched: &mut Vec<SplitId>) -> Cost {
        let (warp, slot) = (split as usize / PATHS, split as usize % PATHS);
        let groups = std::mem::take(&mut self.groups);
        let paths = &mut self.warps[warp];
        let Path { pc, entry, .. } = paths.slots[slot];
        match groups.as_slice() {
            [] => paths.set_mask(slot, 0),
            [group] if kind != Moved::Called || !self.rules.joins_calls() => {
                let turn = paths.slots[slot].turn;
                paths.scatter(slot, &[*group], entry);
                paths.slots[slot].turn = turn;
            }
            several => {
                let join = paths.plan.join(pc);
                self.rules.diverged(paths, slot, pc, several, join);
            }
        }
        self.groups = groups;
        let event = if kind == Moved::Branched { Event::Branched(pc) } else { Event::Controlled(pc) };
        self.settle(warp, event, slot, touched)
    }
}

impl Reconvergence for Table {
    const FLOW: ControlFlow = ControlFlow::Plain;
    const WHOLE_WARP: bool = false;
    const SPLITS: usize = PATHS;
    const FORMS_WARPS: bool = true;

    type Parameters = TablePolicy;

    fn new(policy: &TablePolicy, slots: WarpSlots) -> Self {
        Self::with(policy.rules(), slots.count)
    }

    fn grow(&mut self, warps: usize) {
        self.decoded.grow(warps, NOBODY);
        self.seen.resize(warps, 0);
        self.warps.resize(warps, Paths::default());
    }

    #[inline]
    fn in_use(&self, warp: usize) -> u32 {
        self.seen[warp]
    }

    fn admit(
        &mut self,
        warp: usize,
        block: usize,
        lanes: LaneMask,
        plan: &Arc<Plan>,
        touched: &mut Vec<SplitId>,
    ) {
        let paths = &mut self.warps[warp];
        paths.block = block;
        paths.entries.clear();
        paths.returns.clear();
        paths.turns = 0;
        paths.charged = 0;
        paths.plan = Arc::clone(plan);
        paths.used().for_each(|slot| paths.set_mask(slot, 0));
        paths.place(Group { pc: plan.entry, depth: 0, mask: lanes }, NONE);
        let seen = std::mem::take(&mut self.seen[warp]);
        Lanes(seen).for_each(|slot| self.decoded[split_id(warp, slot)].mask = 0);
        self.settle(warp, Event::Admitted, 0, touched);
    }

    #[inline]
    fn lies_at(&self, split: SplitId) -> *const u8 {
        std::ptr::from_ref(&self.decoded[split]).cast()
    }

    #[inline]
    fn pc(&self, split: SplitId) -> Pc {
        self.decoded[split].pc
    }

    #[inline]
    fn mask(&self, split: SplitId) -> LaneMask {
        self.decoded[split].mask
    }

    #[inline]
    fn advance(&mut self, split: SplitId) -> bool {
        let decoded = &mut self.decoded[split];
        decoded.pc += 1;
        decoded.pc == decoded.stop
    }

    #[inline]
    fn stop(&self, split: SplitId) -> Pc {
        self.decoded[split].stop
    }

    #[inline]
    fn advance_by(&mut self, split: SplitId, count: Pc) {
        self.decoded[split].pc += count;
    }

    fn arrived(&mut self, split: SplitId, touched: &mut Vec<SplitId>) -> Cost {
        let (warp, slot) = (split as usize / PATHS, split as usize % PATHS);
        self.sync(warp);
        self.settle(warp, Event::Stopped, slot, touched)
    }

    fn branched(
        &mut self,
        split: SplitId,
        to: &LaneTargets<'_>,
        touched: &mut Vec<SplitId>,
    ) -> Result<Cost, Violation> {
        let (warp, slot) = (split as usize / PATHS, split as usize % PATHS);
        self.sync(warp);
        let paths = &mut self.warps[warp];
        let Path { pc, mask, .. } = paths.slots[slot];
        if to.call {
            paths.returns.call(to.lanes, pc + 1);
        }
        self.groups.clear();
        paths.returns.branch(mask, pc, to, &mut self.groups);
        let kind = match to.call {
            true if to.lanes != 0 => Moved::Called,
            true => Moved::Left,
            false => Moved::Branched,
        };
        Ok(self.moved(split, kind, touched))
    }

    fn returned(
        &mut self,
        split: SplitId,
        lanes: LaneMask,
        touched: &mut Vec<SplitId>,
    ) -> Result<Cost, Violation> {
        let (warp, slot) = (split as usize / PATHS, split as usize % PATHS);
        self.sync(warp);
        let paths = &mut self.warps[warp];
        let Path { pc, mask, .. } = paths.slots[slot];
        let targets = paths.returns.ret(lanes)?;
        self.groups.clear();
        paths.returns.groups(lanes, |lane| targets[lane as usize], &mut self.groups);
        paths.returns.group(mask & !lanes, pc + 1, &mut self.groups);
        Ok(self.moved(split, Moved::Left, touched))
    }

    fn exited(
        &mut self,
        split: SplitId,
        lanes: LaneMask,
        touched: &mut Vec<SplitId>,
    ) -> Result<Cost, Violation> {
        let (warp, slot) = (split as usize / PATHS, split as usize % PATHS);
        self.sync(warp);
        let paths = &mut self.warps[warp];
        let Path { pc, mask, .. } = paths.slots[slot];
        paths.end(lanes);
        self.groups.clear();
        paths.returns.group(mask & !lanes, pc + 1, &mut self.groups);
        Ok(self.moved(split, Moved::Left, touched))
    }

    fn parked(&mut self, split: SplitId, touched: &mut Vec<SplitId>) {
        let (warp, slot) = (split as usize / PATHS, split as usize % PATHS);
        self.decoded[split].pc += 1;
        self.sync(warp);
        self.warps[warp].slots[slot].parked = true;
        self.settle(warp, Event::Parked, slot, touched);
    }

    fn give_way(&mut self, split: SplitId, touched: &mut Vec<SplitId>) -> bool {
        let (warp, slot) = (split as usize / PATHS, split as usize % PATHS);
        let mut gave = false;
        while self.warps[warp].is_blocked() {
            self.sync(warp);
            self.warps[warp].give_way();
            self.settle(warp, Event::Blocked, slot, touched);
            gave = true;
        }
        gave
    }

    fn resumed(&mut self, split: SplitId, touched: &mut Vec<SplitId>) {
        let (warp, slot) = (split as usize / PATHS, split as usize % PATHS);
        self.sync(warp);
        let turn = self.warps[warp].next_turn();
        let path = &mut self.warps[warp].slots[slot];
        path.parked = false;
        path.turn = turn;
        self.settle(warp, Event::Resumed, slot, touched);
    }

    fn forms_warps(&self) -> bool {
        self.forms_warps
    }

    fn spans_blocks(&self) -> bool {
        self.rules.spans_blocks()
    }

    fn prefers(&mut self, places: &[ReadyAddress]) -> Option<usize> {
        self.rules.prefers(places)
    }

    fn joins(&self, leader: SplitId, follower: SplitId) -> bool {
        let block = |split: SplitId| self.warps[split as usize / PATHS].block;
        !self.rules.forms_within_blocks() || block(leader) == block(follower)
    }

    fn carve(&mut self, split: SplitId, lanes: LaneMask) -> Option<SplitId> {
        let (warp, slot) = (split as usize / PATHS, split as usize % PATHS);
        self.sync(warp);
        let paths = &mut self.warps[warp];
        let mut own = paths.slots[slot];
        paths.set_mask(slot, own.mask & !lanes);
        own.mask &= lanes;
        let free = paths.free_slot()?;
        paths.set(free, own);
        self.decoded[split].mask &= !lanes;
        let part = split_id(warp, free as u32);
        self.decoded[part] = Issuing { pc: own.pc, stop: own.stop, mask: own.mask };
        self.seen[warp] |= 1 << free;
        Some(part)
    }

    fn since(&self, split: SplitId) -> u64 {
        let (warp, slot) = (split as usize / PATHS, split as usize % PATHS);
        self.warps[warp].slots[slot].turn
    }

    fn divides_at_memory(&self) -> bool {
        self.rules.divides_at_memory()
    }

    fn memory(
        &mut self,
        split: SplitId,
        done: LaneMask,
        idle: bool,
        touched: &mut Vec<SplitId>,
    ) -> Option<Cost> {
        let (warp, slot) = (split as usize / PATHS, split as usize % PATHS);
        self.sync(warp);
        if !self.rules.memory(&mut self.warps[warp], slot, done, idle) {
            return None;
        }
        Some(self.settle(warp, Event::Memory, slot, touched))
    }

    fn threads(&self, warp: usize, visit: &mut dyn FnMut(Holding)) {
        for slot in self.warps[warp].used() {
            let (path, decoded) = (&self.warps[warp].slots[slot], &self.decoded[split_id(warp, slot as u32)]);
            let pc = if decoded.mask != 0 { decoded.pc } else { path.pc };
            visit(Holding { pc, mask: path.mask, waits: decoded.mask == 0 });
        }
        for entry in self.warps[warp].entries.iter().filter(|entry| !entry.closed && entry.arrived != 0) {
            visit(Holding { pc: entry.join, mask: entry.arrived, waits: true });
        }
    }

    fn held(&self, warp: usize) -> (LaneMask, LaneMask) {
        let paths = &self.warps[warp];
        let waiting = paths.entries.iter().filter(|entry| !entry.closed).map(|entry| entry.arrived);
        let masks = paths.used().map(|slot| paths.slots[slot].mask).chain(waiting);
        masks.fold((0, 0), |(held, twice), mask| (held | mask, twice | held & mask))
    }

    #[cfg(test)]
    fn corrupt(&mut self, split: SplitId, how: Corruption) -> bool {
        let (warp, slot) = (split as usize / PATHS, split as usize % PATHS);
        let waits = |entry: &&mut Entry| !entry.closed && entry.arrived != 0;
        match (how, self.warps[warp].entries.iter_mut().rfind(waits)) {
            (Corruption::DropLane, _) => {
                let decoded = &mut self.decoded[split];
                decoded.mask &= decoded.mask - 1;
                self.warps[warp].set_mask(slot, decoded.mask);
                true
            }
            (Corruption::Pop, Some(entry)) => {
                entry.closed = true;
                true
            }
            (Corruption::MoveTop, Some(entry)) => {
                entry.join += 1;
                true
            }
            (_, None) => false,
        }
    }

    fn waits_for_threads_only(&self, warp: usize) -> bool {
        // Where no thread waits at a join and no path for its turn, there is none that time could let
        // go on.
        let paths = &self.warps[warp];
        self.rules.waits_for_threads_only() || !paths.anyone_arrived() && paths.running().nth(1).is_none()
    }

    fn describe(&self, warp: usize) -> String {
        let paths = &self.warps[warp];
        let running: Vec<String> = paths
            .used()
            .map(|slot| {
                let (path, decoded) = (&paths.slots[slot], &self.decoded[split_id(warp, slot as u32)]);
                let pc = if decoded.mask != 0 { decoded.pc } else { path.pc };
                let how = match (path.parked, path.enabled) {
                    (true, _) => " parked",
                    (_, true) => " runs",
                    _ => "",
                };
                format!("{:#x}@{pc}{how}", path.mask)
            })
            .collect();
        let waiting: Vec<String> = paths
            .entries
            .iter()
            .filter(|entry| !entry.closed)
            .map(|e| format!("{}: {:#x} of {:#x}", e.join, e.arrived, e.arrived | e.pending))
            .collect();
        format!("paths [{}], join points [{}]", running.join(", "), waiting.join(", "))
    }
}
