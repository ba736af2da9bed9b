//! A table of paths per warp, for the policies that keep more than one of them: where each path
//! is, who it waits for, and which of them may issue. What distinguishes the policies is in their
//! [`Rules`]; this file moves threads, keeps their return addresses and loses none of them.

use std::fmt::Debug;
use std::sync::Arc;

use sim_frontend::program::{ControlFlow, NO_PC, Pc};
use sim_memory::vocabulary::LaneMask;

#[cfg(test)]
use super::Corruption;
use super::lowest_first::{LowestFirst, Order};
use super::plan::Plan;
use super::registry::{Kind, PolicyChoice};
use super::returns::Returns;
use super::{Cost, Holding, Injected, LaneTargets, Lanes, Place, Reconvergence, SplitId};
use crate::error::Bottom;

/// Paths a warp can have: one a lane.
pub const PATHS: usize = 32;

/// No reconvergence entry.
pub const NONE: usize = usize::MAX;

/// Threads of one warp that run together.
#[derive(Clone, Copy, Debug, Default)]
pub struct Path {
    /// Their next instruction.
    pub pc: Pc,
    /// Function calls they are in.
    pub depth: u32,
    /// Which they are; empty: there is no such path.
    pub mask: LaneMask,
    /// They wait at a barrier or collective.
    pub parked: bool,
    /// The policy lets the scheduler issue them.
    pub enabled: bool,
    /// The address before which the policy wants to be asked again.
    pub stop: Pc,
    /// Where they wait for others: index into [`Paths::entries`], or [`NONE`].
    pub entry: usize,
    /// The branch at which they wait for the other warps of their block, or [`NO_PC`].
    pub held: Pc,
    /// When the path was made or last had its turn; greater is later.
    pub turn: u64,
}

/// A point where paths wait for each other.
#[derive(Clone, Copy, Debug)]
pub struct Entry {
    /// The address.
    pub join: Pc,
    /// Calls the threads are in there.
    pub depth: u32,
    /// Threads that still have to arrive.
    pub pending: LaneMask,
    /// Threads that wait there.
    pub arrived: LaneMask,
    /// The entry they belong to once they have met.
    pub parent: usize,
    /// Unused, for the next.
    pub closed: bool,
    /// Only one path of it at a time may issue.
    pub serial: bool,
    /// Issues of the warp since a thread arrived.
    pub waited: u32,
}

/// Threads that go to one address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Group {
    /// The address.
    pub pc: Pc,
    /// Calls they are in there.
    pub depth: u32,
    /// Which.
    pub mask: LaneMask,
}

/// The paths of one warp.
#[derive(Clone, Debug)]
pub struct Paths {
    /// By slot.
    pub slots: [Path; PATHS],
    /// Points where paths meet.
    pub entries: Vec<Entry>,
    /// The block slot.
    pub block: usize,
    /// Slots of the paths that the last control instruction made or moved.
    pub moved: u32,
    /// What is known of the program.
    pub plan: Arc<Plan>,
    /// Where the path that runs began to since the policy was last asked.
    pub began: Pc,
    returns: Returns,
    turns: u64,
}

impl Default for Paths {
    fn default() -> Self {
        Self {
            slots: [Path { entry: NONE, stop: NO_PC, held: NO_PC, ..Path::default() }; PATHS],
            entries: Vec::new(),
            block: 0,
            moved: 0,
            plan: Arc::default(),
            began: 0,
            returns: Returns::default(),
            turns: 0,
        }
    }
}

impl Paths {
    /// Slots that hold a path, one bit each.
    pub fn occupied(&self) -> u32 {
        self.slots.iter().enumerate().fold(0u32, |bits, (i, p)| bits | u32::from(p.mask != 0) << i)
    }

    /// Slots that hold a path.
    pub fn used(&self) -> impl Iterator<Item = usize> + use<> {
        Lanes(self.occupied()).map(|slot| slot as usize)
    }

    /// Slots that hold a path which does not wait at a barrier or collective.
    pub fn running(&self) -> impl Iterator<Item = usize> + use<> {
        let runs = |path: &Path| path.mask != 0 && !path.parked;
        let used = self.slots.iter().enumerate().fold(0u32, |bits, (i, p)| bits | u32::from(runs(p)) << i);
        Lanes(used).map(|slot| slot as usize)
    }

    /// A number greater than any before.
    pub fn next_turn(&mut self) -> u64 {
        self.turns += 1;
        self.turns
    }

    /// Makes a path; there is room, since each has a lane of its own.
    pub fn place(&mut self, group: Group, entry: usize) -> usize {
        let slot = self.slots.iter().position(|path| path.mask == 0).unwrap_or(0);
        self.put(slot, group, entry);
        slot
    }

    fn put(&mut self, slot: usize, Group { pc, depth, mask }: Group, entry: usize) {
        let turn = self.next_turn();
        self.slots[slot] =
            Path { pc, depth, mask, parked: false, enabled: false, stop: NO_PC, entry, held: NO_PC, turn };
        self.moved |= 1 << slot;
    }

    /// `groups` take the place of the path at `slot`, without waiting for each other.
    pub fn scatter(&mut self, slot: usize, groups: &[Group], entry: usize) {
        self.slots[slot].mask = 0;
        for (i, &group) in groups.iter().enumerate() {
            if i == 0 { self.put(slot, group, entry) } else { _ = self.place(group, entry) }
        }
    }

    /// `groups` take the place of the path at `slot` and meet at `join`, if there is such a point
    /// and they do not already wait for others there.
    pub fn diverge(&mut self, slot: usize, groups: &[Group], join: Option<Pc>, serial: bool) -> usize {
        let Path { depth, mask, entry, .. } = self.slots[slot];
        let entry = match join {
            Some(join) if !self.meets_at(entry, join, depth) => self.open(join, depth, mask, entry, serial),
            _ => entry,
        };
        self.scatter(slot, groups, entry);
        entry
    }

    fn meets_at(&self, entry: usize, join: Pc, depth: u32) -> bool {
        self.entries.get(entry).is_some_and(|e| e.join == join && e.depth == depth)
    }

    /// A point where `mask` will meet.
    pub fn open(&mut self, join: Pc, depth: u32, mask: LaneMask, parent: usize, serial: bool) -> usize {
        let entry =
            Entry { join, depth, pending: mask, arrived: 0, parent, closed: false, serial, waited: 0 };
        match self.entries.iter().position(|entry| entry.closed) {
            Some(free) => {
                self.entries[free] = entry;
                free
            }
            None => {
                self.entries.push(entry);
                self.entries.len() - 1
            }
        }
    }

    /// Paths that have come to where they meet others wait there; those that are complete go on.
    pub fn meet(&mut self) {
        loop {
            let mut changed = false;
            for slot in self.running() {
                let Path { pc, depth, mask, entry, .. } = self.slots[slot];
                let Some(at) = self.entries.get_mut(entry) else { continue };
                if depth < at.depth {
                    // They left the function by another way than through the join.
                    at.pending &= !mask;
                    self.slots[slot].entry = at.parent;
                    changed = true;
                } else if pc == at.join && depth == at.depth {
                    at.pending &= !mask;
                    at.arrived |= mask;
                    at.waited = 0;
                    self.slots[slot].mask = 0;
                    changed = true;
                }
            }
            for entry in 0..self.entries.len() {
                if !self.entries[entry].closed && self.entries[entry].pending == 0 {
                    self.release(entry);
                    self.entries[entry].closed = true;
                    changed = true;
                }
            }
            if !changed {
                return;
            }
        }
    }

    /// The threads that wait at `entry` go on; those still on their way meet later.
    pub fn release(&mut self, entry: usize) {
        let Entry { join, depth, arrived, parent, .. } = self.entries[entry];
        self.entries[entry].arrived = 0;
        self.entries[entry].waited = 0;
        if arrived != 0 {
            self.place(Group { pc: join, depth, mask: arrived }, parent);
        }
    }

    /// Joins paths that run and agree by `same`; the lower slot stays.
    pub fn merge(&mut self, same: impl Fn(&Path, &Path) -> bool) {
        for slot in self.running() {
            for other in self.running().filter(|&other| other > slot) {
                let (a, b) = (self.slots[slot], self.slots[other]);
                if a.mask != 0 && b.mask != 0 && a.pc == b.pc && same(&a, &b) {
                    self.slots[slot].mask |= b.mask;
                    self.slots[slot].turn = a.turn.min(b.turn);
                    self.slots[other].mask = 0;
                }
            }
        }
    }

    /// Lets exactly the paths of `chosen` issue.
    pub fn enable_only(&mut self, mut chosen: impl FnMut(usize, &Path) -> bool) {
        for (slot, path) in self.slots.iter_mut().enumerate() {
            path.enabled = path.mask != 0 && !path.parked && chosen(slot, path);
        }
    }

    /// The address above `path`'s at which another path that runs stands, or where its own entry
    /// meets: the policy must be asked there.
    pub fn next_meeting(&self, slot: usize, same: impl Fn(&Path, &Path) -> bool) -> Pc {
        let path = &self.slots[slot];
        let join = self.entries.get(path.entry).filter(|e| e.depth == path.depth).map(|e| e.join);
        self.running()
            .filter(|&other| other != slot)
            .filter(|&other| same(path, &self.slots[other]))
            .map(|other| self.slots[other].pc)
            .chain(join)
            .filter(|&pc| pc > path.pc)
            .min()
            .unwrap_or(NO_PC)
    }

    /// Paths and entries in use: what the policy's table holds.
    pub fn size(&self) -> u32 {
        (self.used().count() + self.entries.iter().filter(|entry| !entry.closed).count()) as u32
    }

    fn end(&mut self, lanes: LaneMask) {
        for entry in &mut self.entries {
            entry.pending &= !lanes;
        }
    }

    /// Lanes by address and depth, the group of the lowest lane first.
    fn groups(&self, lanes: LaneMask, to: impl Fn(u32) -> Pc, out: &mut Vec<Group>) {
        for lane in Lanes(lanes) {
            let (pc, depth) = (to(lane), self.returns.depth(lane));
            match out.iter_mut().find(|group| group.pc == pc && group.depth == depth) {
                Some(group) => group.mask |= 1 << lane,
                None => out.push(Group { pc, depth, mask: 1 << lane }),
            }
        }
    }
}

/// Why a policy is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// A warp became resident.
    Admitted,
    /// A path executed a branch at this address.
    Branched(Pc),
    /// A path executed a call, return or exit at this address.
    Controlled(Pc),
    /// A path came to its stop address.
    Stopped,
    /// A path waits at a barrier or collective.
    Parked,
    /// A path may go on.
    Resumed,
    /// Some threads of a path have their data, others wait.
    Memory,
}

/// What makes a policy of a table of paths.
pub trait Rules: Send + Debug {
    /// The threads of the path at `slot`, at `pc`, go to two or more places; they could meet at
    /// `join`.
    fn diverged(&mut self, paths: &mut Paths, slot: usize, pc: Pc, groups: &[Group], join: Option<Pc>);

    /// Threads that call a function together wait for each other where it returns.
    fn joins_calls(&self) -> bool {
        false
    }

    /// Merges what may merge and says which paths may issue and where each must stop. `slot` is
    /// the path the event concerns; it may have ended.
    fn settle(&mut self, paths: &mut Paths, event: Event, slot: usize);

    /// The warps of a block have a say in each other: [`settle_block`](Self::settle_block) follows
    /// each [`settle`](Self::settle).
    fn spans_blocks(&self) -> bool {
        false
    }

    /// As `settle`, for the warps `own` of a block; `begins`: it has just become resident.
    fn settle_block(&mut self, _warps: &mut [Paths], _own: &[usize], _begins: bool) {}

    /// True if splits of several warps issue together.
    fn forms_warps(&self) -> bool {
        false
    }

    /// True if only warps of one block do.
    fn forms_within_blocks(&self) -> bool {
        false
    }

    /// The place that issues next.
    fn prefers(&mut self, _places: &[Place]) -> Option<usize> {
        None
    }

    /// True if [`memory`](Self::memory) is to be asked.
    fn divides_at_memory(&self) -> bool {
        false
    }

    /// The threads `done` of the path at `slot` have their data, the others wait; `idle`: nothing
    /// else of the SM can issue. True if the path was divided.
    fn memory(&mut self, _paths: &mut Paths, _slot: usize, _done: LaneMask, _idle: bool) -> bool {
        false
    }

    /// What the policy charges for a table of `entries`, beyond the branch itself, given that it
    /// had `before` entries.
    fn cost(&self, _before: u32, entries: u32) -> Cost {
        Cost { entries, ..Cost::default() }
    }
}

/// By what threads got where they go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Moved {
    Branched,
    Called,
    /// Return, exit.
    Left,
}

/// What every issue reads.
#[derive(Clone, Copy, Debug)]
struct Hot {
    pc: Pc,
    stop: Pc,
    mask: LaneMask,
}

/// The policy: one table a warp.
#[derive(Debug)]
pub struct Table {
    hot: Vec<Hot>,
    /// By warp: slots whose paths are in splits, one bit each.
    seen: Vec<u32>,
    warps: Vec<Paths>,
    rules: Box<dyn Rules>,
    groups: Vec<Group>,
    forms_warps: bool,
}

impl Table {
    /// The table of `warps` warps under `rules`.
    pub fn with(rules: Box<dyn Rules>, warps: usize) -> Self {
        Self {
            hot: vec![Hot { pc: 0, stop: NO_PC, mask: 0 }; warps * PATHS],
            seen: vec![0; warps],
            warps: vec![Paths::default(); warps],
            forms_warps: rules.forms_warps(),
            rules,
            groups: Vec::new(),
        }
    }

    /// Takes over where the paths have gone since.
    fn sync(&mut self, warp: usize) {
        let hot = &self.hot[warp * PATHS..][..PATHS];
        for slot in Lanes(self.seen[warp]) {
            self.warps[warp].slots[slot as usize].pc = hot[slot as usize].pc;
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
        self.warps[warp].moved = 0;
        self.rules.cost(0, self.warps[warp].size())
    }

    /// Makes known what a warp's paths are now.
    fn show(&mut self, warp: usize, touched: &mut Vec<SplitId>) {
        let hot = &mut self.hot[warp * PATHS..][..PATHS];
        let paths = &self.warps[warp];
        let mut seen = 0u32;
        for slot in Lanes(self.seen[warp] | paths.occupied()) {
            let (path, hot) = (&paths.slots[slot as usize], &mut hot[slot as usize]);
            let mask = if path.enabled || path.parked { path.mask } else { 0 };
            if mask != hot.mask || (mask != 0 && path.pc != hot.pc) {
                touched.push((warp * PATHS) as SplitId + slot);
            }
            *hot = Hot { pc: path.pc, stop: path.stop, mask };
            seen |= u32::from(mask != 0) << slot;
        }
        self.seen[warp] = seen;
    }

    /// Threads of `split` went where `groups` says.
    fn moved(&mut self, split: SplitId, kind: Moved, touched: &mut Vec<SplitId>) -> Cost {
        let (warp, slot) = (split as usize / PATHS, split as usize % PATHS);
        let groups = std::mem::take(&mut self.groups);
        let paths = &mut self.warps[warp];
        let before = paths.size();
        let Path { pc, entry, .. } = paths.slots[slot];
        match groups.as_slice() {
            [] => paths.slots[slot].mask = 0,
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
        let cost = self.settle(warp, event, slot, touched);
        self.rules.cost(before, cost.entries)
    }
}

impl Reconvergence for Table {
    const FLOW: ControlFlow = ControlFlow::Plain;
    const WHOLE_WARP: bool = false;
    const FORMS_WARPS: bool = true;

    fn new(choice: &PolicyChoice, warps: usize) -> Self {
        let rules = match choice.info().kind {
            Kind::Table(make) => make(choice),
            // Other kinds have types of their own.
            Kind::CrsStack | Kind::PdomStack | Kind::Mimd => Box::new(LowestFirst(Order::Pc)),
        };
        Self::with(rules, warps)
    }

    fn splits_per_warp(&self) -> usize {
        PATHS
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
        paths.plan = Arc::clone(plan);
        paths.slots.iter_mut().for_each(|path| (path.mask, path.held) = (0, NO_PC));
        paths.place(Group { pc: plan.entry, depth: 0, mask: lanes }, NONE);
        self.hot[warp * PATHS..][..PATHS].iter_mut().for_each(|hot| hot.mask = 0);
        self.seen[warp] = 0;
        self.settle(warp, Event::Admitted, 0, touched);
    }

    #[inline]
    fn lies_at(&self, split: SplitId) -> *const u8 {
        self.hot.get(split as usize).map_or(std::ptr::null(), |hot| std::ptr::from_ref(hot).cast())
    }

    #[inline]
    fn pc(&self, split: SplitId) -> Pc {
        self.hot[split as usize].pc
    }

    #[inline]
    fn mask(&self, split: SplitId) -> LaneMask {
        self.hot[split as usize].mask
    }

    #[inline]
    fn advance(&mut self, split: SplitId) -> bool {
        let hot = &mut self.hot[split as usize];
        hot.pc += 1;
        hot.pc == hot.stop
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
    ) -> Result<Cost, Bottom> {
        let (warp, slot) = (split as usize / PATHS, split as usize % PATHS);
        self.sync(warp);
        let paths = &mut self.warps[warp];
        let Path { pc, mask, .. } = paths.slots[slot];
        if to.call {
            paths.returns.call(to.lanes, pc + 1);
        }
        self.groups.clear();
        paths.groups(to.lanes, |lane| to.targets.of(lane), &mut self.groups);
        paths.groups(mask & !to.lanes, |_| pc + 1, &mut self.groups);
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
    ) -> Result<Cost, Bottom> {
        let (warp, slot) = (split as usize / PATHS, split as usize % PATHS);
        self.sync(warp);
        let paths = &mut self.warps[warp];
        let Path { pc, mask, .. } = paths.slots[slot];
        let targets = paths.returns.ret(lanes)?;
        self.groups.clear();
        paths.groups(lanes, |lane| targets[lane as usize], &mut self.groups);
        paths.groups(mask & !lanes, |_| pc + 1, &mut self.groups);
        Ok(self.moved(split, Moved::Left, touched))
    }

    fn exited(
        &mut self,
        split: SplitId,
        lanes: LaneMask,
        touched: &mut Vec<SplitId>,
    ) -> Result<Cost, Bottom> {
        let (warp, slot) = (split as usize / PATHS, split as usize % PATHS);
        self.sync(warp);
        let paths = &mut self.warps[warp];
        let Path { pc, mask, .. } = paths.slots[slot];
        paths.end(lanes);
        self.groups.clear();
        paths.groups(mask & !lanes, |_| pc + 1, &mut self.groups);
        Ok(self.moved(split, Moved::Left, touched))
    }

    fn injected(
        &mut self,
        _split: SplitId,
        lanes: LaneMask,
        instruction: Injected,
        _touched: &mut Vec<SplitId>,
    ) -> Result<Cost, Bottom> {
        Err(Bottom::new("safe-split", lanes, format!("{instruction:?} in an untransformed program")))
    }

    fn parked(&mut self, split: SplitId, touched: &mut Vec<SplitId>) {
        let (warp, slot) = (split as usize / PATHS, split as usize % PATHS);
        self.hot[split as usize].pc += 1;
        self.sync(warp);
        self.warps[warp].slots[slot].parked = true;
        self.settle(warp, Event::Parked, slot, touched);
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

    fn prefers(&mut self, places: &[Place]) -> Option<usize> {
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
        paths.slots[slot].mask &= !lanes;
        own.mask &= lanes;
        let free = paths.slots.iter().position(|path| path.mask == 0)?;
        paths.slots[free] = own;
        let first = warp * PATHS;
        self.hot[split as usize].mask &= !lanes;
        self.hot[first + free] = Hot { pc: own.pc, stop: own.stop, mask: own.mask };
        self.seen[warp] |= 1 << free;
        Some((first + free) as SplitId)
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
        let hot = &self.hot[warp * PATHS..][..PATHS];
        for (path, hot) in self.warps[warp].slots.iter().zip(hot).filter(|(path, _)| path.mask != 0) {
            let pc = if hot.mask != 0 { hot.pc } else { path.pc };
            visit(Holding { pc, mask: path.mask, waits: hot.mask == 0 });
        }
        for entry in self.warps[warp].entries.iter().filter(|entry| !entry.closed && entry.arrived != 0) {
            visit(Holding { pc: entry.join, mask: entry.arrived, waits: true });
        }
    }

    #[cfg(test)]
    fn corrupt(&mut self, split: SplitId, how: Corruption) -> bool {
        let (warp, slot) = (split as usize / PATHS, split as usize % PATHS);
        let waits = |entry: &&mut Entry| !entry.closed && entry.arrived != 0;
        match (how, self.warps[warp].entries.iter_mut().rfind(waits)) {
            (Corruption::DropLane, _) => {
                let hot = &mut self.hot[split as usize];
                hot.mask &= hot.mask - 1;
                self.warps[warp].slots[slot].mask = hot.mask;
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

    fn describe(&self, warp: usize) -> String {
        let paths = &self.warps[warp];
        let running: Vec<String> = paths
            .used()
            .map(|slot| {
                let (path, hot) = (&paths.slots[slot], &self.hot[warp * PATHS + slot]);
                let pc = if hot.mask != 0 { hot.pc } else { path.pc };
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
