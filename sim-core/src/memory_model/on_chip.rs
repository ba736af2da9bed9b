//! What sanitizers follow beside global memory: accesses to shared and local memory, mbarrier objects, asynchronous
//! copies, and threads of a warp that meet.
//!
//! Copies are performed by agents beside the threads: one for each thread's `cp.async`, of which the thread learns by
//! waiting, and one for the bulk copies that each mbarrier object counts, of which those learn who wait for its phase.

use std::sync::Arc;

use sim_frontend::program::Extra;
use sim_memory::access::AccessKind;
use sim_memory::coalescing::lines;
use sim_memory::line::{ByteMask, LINE_BYTES};
use sim_memory::observation::{Event, fill};
use sim_memory::vocabulary::{Cycle, LaneMask, Scope, Semantics, StateSpace, WARP_LANES};

use super::Checker;
use super::clock::{Clock, Thread};
use super::lines::{OF_CLUSTER, Reads, SHARED, Store, Transfer};
use super::threads::{Release, Snapshot, agent_of, block_of};
use crate::reconvergence::Lanes;
use crate::sanitizer::findings::Kind;

/// Groups of copies of a lane that are known: more than `cp.async.wait_group` can name.
const MOST_GROUPS: usize = 320;

/// An mbarrier object.
#[derive(Clone, Debug, Default)]
pub struct Object {
    /// What the arrivals of the current phase have released.
    pub(super) arriving: Clock,
    /// What those of all complete phases have.
    pub(super) complete: Clock,
    /// Number of complete phases.
    pub(super) phase: u32,
    /// It lies at an address of shared memory, and has not been invalidated.
    pub(super) live: bool,
}

/// A bulk copy that waits for its tensor map.
#[derive(Debug)]
pub(super) struct Held {
    /// What its thread knew when it issued the copy.
    pub(super) snapshot: Snapshot,
    /// The epoch of its copies to global memory then.
    pub(super) epoch: u32,
}

/// The asynchronous copies of the lanes of a warp that they commit to groups.
#[derive(Clone, Debug, Default)]
pub struct Copies {
    pub(super) epochs: [u32; WARP_LANES],
    /// The epoch of each group, the newest last.
    groups: [Vec<u32>; WARP_LANES],
    /// The last copy of each lane, with its epoch.
    pub(super) last: [Option<(u32, Arc<Transfer>)>; WARP_LANES],
    /// The last epoch that is waited for or arrives at an object.
    awaited: [u32; WARP_LANES],
}

impl Copies {
    pub(super) fn commit(&mut self, lanes: LaneMask) {
        for lane in Lanes(lanes) {
            let lane = lane as usize;
            let groups = &mut self.groups[lane];
            groups.push(self.epochs[lane]);
            self.epochs[lane] += 1;
            if groups.len() > 2 * MOST_GROUPS {
                groups.drain(..MOST_GROUPS);
            }
        }
    }

    /// A lane waits for its copies, but for those of the newest groups: the last epoch of the others.
    pub(super) fn wait(&mut self, lane: usize, newest: Option<u8>) -> Option<u32> {
        let epoch = match newest {
            None => {
                self.epochs[lane] += 1;
                self.epochs[lane] - 1
            }
            Some(newest) => {
                let groups = &self.groups[lane];
                groups.len().checked_sub(1 + usize::from(newest)).map(|at| groups[at])?
            }
        };
        self.awaited[lane] = self.awaited[lane].max(epoch + 1);
        Some(epoch)
    }
}

/// The scope of an access: atomics without semantics are those of the device (PTX ISA "atom").
pub(super) fn scope_of(kind: AccessKind, semantics: Semantics, scope: Scope) -> Scope {
    match kind {
        AccessKind::Atomic { .. } if semantics == Semantics::Weak => scope.max(Scope::Gpu),
        _ => scope,
    }
}

/// An access that has no line yet.
pub(super) struct Access<'a> {
    pub origin: (u32, u32),
    pub kind: AccessKind,
    pub semantics: Semantics,
    pub scope: Scope,
    pub warp: Arc<Snapshot>,
    pub size: u8,
    pub copies: Option<Thread>,
    pub addresses: &'a [u32; WARP_LANES],
}

/// The first lane that reads what was not written, with the first byte, and how many there are.
fn count<T>(unwritten: &mut Option<(usize, T, u64)>, lane: usize, first: Option<T>) {
    match (unwritten, first) {
        (Some(found), Some(_)) => found.2 += 1,
        (found @ None, Some(first)) => *found = Some((lane, first, 1)),
        (_, None) => {}
    }
}

impl Checker {
    /// An event that only sanitizers ask for.
    pub(super) fn on_chip(&mut self, sm: u32, at: Cycle, event: &Event) {
        match event {
            Event::Synchronizes { origin: (slot, pc), lanes } => {
                if let Some(warp) = self.warps.get_mut(sm, *slot) {
                    warp.synchronizes(*lanes, *pc);
                }
            }
            Event::WarpSync { warp, lanes } => {
                if let Some(warp) = self.warps.get_mut(sm, *warp) {
                    let phase = self.blocks[warp.block as usize].phase;
                    warp.meet(*lanes, phase);
                }
            }
            Event::OnChip { origin, space, kind, semantics, scope, lanes, addresses, size } => {
                let Some(warp) = self.warps.get_mut(sm, origin.0) else { return };
                let phase = self.blocks[warp.block as usize].phase;
                let access = Access {
                    origin: *origin,
                    kind: *kind,
                    semantics: *semantics,
                    scope: scope_of(*kind, *semantics, *scope),
                    warp: warp.snapshot(phase),
                    size: *size,
                    copies: None,
                    addresses,
                };
                match space {
                    StateSpace::Local => self.local(sm, at, &access, *lanes),
                    _ => self.shared(sm, at, &access, *lanes, block_of(access.warp.thread(0))),
                }
            }
            Event::Copy { origin, lanes, to, size } => self.copy(sm, at, *origin, *lanes, to, *size),
            Event::Commit { warp, lanes } => {
                self.copies.room((sm, *warp)).get_or_insert_default().commit(*lanes);
            }
            Event::Awaited { warp, lanes, newest } => self.awaited((sm, *warp), *lanes, *newest),
            Event::CopiesArrive { warp, lane, object } => {
                let Some(own) = self.warps.get_mut(sm, *warp) else { return };
                let copies = self.copies.room((sm, *warp)).get_or_insert_default();
                let l = *lane as usize;
                let object = self.blocks[own.block as usize].objects.entry(*object).or_default();
                object.arriving.add(agent_of(own.thread(l), copies.epochs[l]));
                object.arriving.join(own.clock(l));
                copies.awaited[l] = copies.epochs[l] + 1;
                copies.epochs[l] += 1;
            }
            Event::BulkHeld { .. }
            | Event::BulkDropped { .. }
            | Event::Bulk { .. }
            | Event::BulkRead { .. } => self.bulk(sm, at, event),
            Event::ProductRead { origin, ranges } => self.product_reads(sm, at, *origin, ranges),
            Event::ProxyFence { warp } => {
                if let Some(warp) = self.warps.get_mut(sm, *warp) {
                    let cluster = self.blocks[warp.block as usize].cluster;
                    self.clusters[cluster as usize].proxy_fences += 1;
                }
            }
            Event::BulkCommit { warp, lanes } => {
                self.puts.room((sm, *warp)).get_or_insert_default().commit(*lanes);
            }
            Event::BulkAwaited { warp, lanes, newest } => self.puts_awaited((sm, *warp), *lanes, *newest),
            Event::Remote { .. }
            | Event::RemoteCount { .. }
            | Event::RemotePerformed { .. }
            | Event::RemoteObject { .. }
            | Event::RemoteAnswered { .. } => self.remote(sm, at, event),
            Event::Object { .. } => self.object(sm, at, event),
            Event::ClusterBarrier { warp, lanes, action, odd } => {
                self.cluster_barrier((sm, *warp), *lanes, *action, *odd);
            }
            Event::Divergent { origin, lanes, .. } => {
                self.misuse(sm, at, Kind::DivergentBarrier, *origin, *lanes);
            }
            Event::Unwritten { origin, lanes } => {
                self.misuse(sm, at, Kind::UnwrittenRegister, *origin, *lanes);
            }
            _ => {}
        }
    }

    /// An instruction of some lanes that is wrong by itself [san-sync].
    pub(super) fn misuse(&mut self, sm: u32, at: Cycle, kind: Kind, origin: (u32, u32), lanes: LaneMask) {
        let Some(warp) = self.warps.get_mut(sm, origin.0) else { return };
        let phase = self.blocks[warp.block as usize].phase;
        let access = Access {
            origin,
            kind: AccessKind::Load,
            semantics: Semantics::Weak,
            scope: Scope::Cta,
            warp: warp.snapshot(phase),
            size: 0,
            copies: None,
            addresses: &[0; WARP_LANES],
        };
        let transfer = self.transfer(sm, at, &access, lanes);
        if let Some(sanitizer) = self.sanitizer.as_mut().filter(|s| s.kinds.names().contains(&kind.check())) {
            let lane = lanes.trailing_zeros() as usize % WARP_LANES;
            sanitizer.found(kind, (&transfer, lane), None, 1, &self.kernels);
        }
    }

    /// An access of `lanes` to no line yet.
    pub(super) fn transfer(&self, sm: u32, at: Cycle, access: &Access<'_>, lanes: LaneMask) -> Transfer {
        let first = access.warp.thread(0);
        let mut offsets = [0; WARP_LANES];
        for lane in 0..WARP_LANES {
            let offset = (access.addresses[lane] % LINE_BYTES) as u8;
            offsets[lane] = if lanes >> lane & 1 == 1 { offset } else { 0 };
        }
        Transfer {
            number: self.number,
            sm,
            slot: access.origin.0,
            pc: access.origin.1,
            grid: self.blocks[block_of(first) as usize].grid,
            issued: at,
            kind: access.kind,
            semantics: access.semantics,
            scope: access.scope,
            line: 0,
            bytes: 0,
            lanes,
            offsets,
            size: access.size,
            exclusive: false,
            copies: access.copies,
            warp: Arc::clone(&access.warp),
        }
    }

    /// Makes a transfer the next one, to a line.
    pub(super) fn next_transfer(
        &mut self,
        transfer: &mut Transfer,
        line: u64,
        bytes: ByteMask,
        lanes: LaneMask,
    ) {
        self.number += 1;
        (transfer.number, transfer.line, transfer.bytes, transfer.lanes) = (self.number, line, bytes, lanes);
        transfer.exclusive =
            lanes.is_power_of_two() || bytes.count_ones() == lanes.count_ones() * u32::from(transfer.size);
    }

    /// Lanes access their own local memory.
    fn local(&mut self, sm: u32, at: Cycle, access: &Access<'_>, lanes: LaneMask) {
        let mut unwritten = None;
        let Some(sanitizer) = self.sanitizer.as_mut().filter(|s| s.kinds.init) else { return };
        for lane in Lanes(lanes) {
            let lane = lane as usize;
            let thread = access.warp.thread(lane);
            let (thread, to) = ((thread.block, thread.index), access.addresses[lane]);
            let size = u32::from(access.size);
            match access.kind {
                AccessKind::Store => sanitizer.written.write_local(thread, to, size),
                _ => count(&mut unwritten, lane, sanitizer.written.unwritten_local(thread, to, size)),
            }
        }
        if let Some((lane, address, count)) = unwritten {
            let transfer = self.transfer(sm, at, access, lanes);
            if let Some(sanitizer) = &mut self.sanitizer {
                let address = Some(u64::from(address));
                sanitizer.found(Kind::UnwrittenMemory, (&transfer, lane), address, count, &self.kernels);
            }
        }
    }

    /// The address of the first line of a block's shared memory.
    pub(super) fn shared_base(&self, block: u32) -> u64 {
        let several = self.clusters[self.blocks[block as usize].cluster as usize].several;
        SHARED | if several { OF_CLUSTER } else { 0 } | u64::from(block) << 24
    }

    /// Lanes, or agents that copy for them, access the shared memory of a block.
    fn shared(&mut self, sm: u32, at: Cycle, access: &Access<'_>, lanes: LaneMask, block: u32) {
        self.by_line(sm, at, access, lanes, block, |checker, transfer| checker.shared_line(transfer, block));
    }

    /// The same, line by line.
    pub(super) fn by_line(
        &mut self,
        sm: u32,
        at: Cycle,
        access: &Access<'_>,
        lanes: LaneMask,
        block: u32,
        mut each: impl FnMut(&mut Self, &Transfer),
    ) {
        let base = self.shared_base(block);
        let mut parts = std::mem::take(&mut self.parts);
        parts.clear();
        lines(&access.addresses.map(u64::from), lanes, access.size.into(), &mut parts);
        let mut transfer = self.transfer(sm, at, access, lanes);
        for part in &parts {
            self.next_transfer(&mut transfer, base | part.line, part.bytes, part.lanes);
            each(self, &transfer);
        }
        self.parts = parts;
    }

    pub(super) fn shared_line(&mut self, transfer: &Transfer, block: u32) {
        self.sanitize_shared(transfer, block);
        if !self.follows {
            return;
        }
        // An agent releases nothing.
        if transfer.strong() && transfer.copies.is_none() {
            self.strong_shared(&Arc::new(transfer.clone()));
        } else if let (true, Some(line)) =
            (transfer.kind != AccessKind::Load, self.lines.get_mut(&transfer.line))
        {
            fill(&mut line.current, transfer.bytes, transfer.number);
        }
    }

    /// A line of the shared memory of a block is accessed, for sanitizers.
    pub(super) fn sanitize_shared(&mut self, transfer: &Transfer, block: u32) {
        let Some(sanitizer) = &mut self.sanitizer else { return };
        sanitizer.access(transfer, &self.kernels);
        if sanitizer.kinds.init {
            let written = sanitizer.written.shared_line(block, transfer.address(0) as u32);
            let missing = transfer.bytes & !*written;
            if matches!(transfer.kind, AccessKind::Store) {
                *written |= transfer.bytes;
            } else if missing != 0 {
                // What a lane of an atomic has written, those after it read.
                let mut unwritten = None;
                for lane in Lanes(transfer.lanes) {
                    let own = transfer.mask_of(lane as usize);
                    let first = (own & !*written != 0).then(|| (own & !*written).trailing_zeros() as usize);
                    count(&mut unwritten, lane as usize, first);
                    *written |= if transfer.kind == AccessKind::Load { 0 } else { own };
                }
                if let Some((lane, byte, count)) = unwritten {
                    let address = Some(transfer.address(byte));
                    sanitizer.found(Kind::UnwrittenMemory, (transfer, lane), address, count, &self.kernels);
                }
            }
        }
        self.overwrites(transfer, block);
        self.by_proxy(transfer, block);
    }

    /// Shared memory is performed at once: a strong access observes the last store.
    fn strong_shared(&mut self, transfer: &Arc<Transfer>) {
        let releases = self.released_by(transfer);
        let observed = self.perform_shared(transfer, releases);
        self.learn(transfer, &observed);
    }

    /// What a strong access of lanes releases.
    pub(super) fn released_by(&mut self, transfer: &Transfer) -> Vec<(u8, Release)> {
        let mut releases = Vec::new();
        if transfer.kind == AccessKind::Load {
            return releases;
        }
        if let Some(warp) = self.warps.get_mut(transfer.sm, transfer.slot) {
            let phase = self.blocks[warp.block as usize].phase;
            for lane in Lanes(transfer.lanes) {
                warp.releases(lane as usize, transfer.semantics, transfer.scope, phase, &mut releases);
            }
        }
        releases
    }

    /// A strong access to shared memory is performed: what it observes.
    pub(super) fn perform_shared(&mut self, transfer: &Arc<Transfer>, releases: Vec<(u8, Release)>) -> Reads {
        self.lines.entry(transfer.line).or_default();
        let mut observed = Vec::new();
        if transfer.kind != AccessKind::Store {
            for lane in Lanes(transfer.lanes) {
                let lane = lane as usize;
                let store = self.lines[&transfer.line].current[usize::from(transfer.offsets[lane])];
                observed.extend(self.observe(transfer, lane, store));
            }
        }
        if transfer.kind != AccessKind::Load {
            let bytes = transfer.bytes;
            let releases = Arc::new(releases);
            let mut store = Store { transfer: Arc::clone(transfer), releases, bytes, readers: Vec::new() };
            super::inherit(&mut store, &observed);
            if let Some(line) = self.lines.get_mut(&transfer.line) {
                line.perform(store);
            }
        }
        observed
    }

    fn copy(
        &mut self,
        sm: u32,
        at: Cycle,
        origin: (u32, u32),
        lanes: LaneMask,
        to: &[u32; WARP_LANES],
        size: u8,
    ) {
        let Some(warp) = self.warps.get_mut(sm, origin.0) else { return };
        let phase = self.blocks[warp.block as usize].phase;
        let copies = self.copies.room((sm, origin.0)).get_or_insert_default();
        let access = Access {
            origin,
            kind: AccessKind::Store,
            semantics: Semantics::Weak,
            scope: Scope::Cta,
            warp: warp.copying(lanes, &copies.epochs, phase),
            size,
            copies: None,
            addresses: to,
        };
        let whole = Arc::new(self.transfer(sm, at, &access, lanes));
        if let Some(copies) = self.copies.get_mut(sm, origin.0) {
            for lane in Lanes(lanes) {
                copies.last[lane as usize] = Some((copies.epochs[lane as usize], Arc::clone(&whole)));
            }
        }
        let block = block_of(access.warp.thread(0));
        self.shared(sm, at, &access, lanes, block);
    }

    fn awaited(&mut self, of: (u32, u32), lanes: LaneMask, newest: Option<u8>) {
        let (Some(warp), Some(copies)) = (self.warps.get_mut(of.0, of.1), self.copies.get_mut(of.0, of.1))
        else {
            return;
        };
        for lane in Lanes(lanes) {
            let lane = lane as usize;
            if let Some(epoch) = copies.wait(lane, newest) {
                warp.copied(lane, epoch);
            }
        }
    }

    /// An access to global memory, for sanitizers.
    pub(super) fn sanitize_global(&mut self, transfer: &Transfer, kernel: usize) {
        let op = self.kernels.get(kernel).and_then(|k| k.code.program.ops.get(transfer.pc as usize));
        // The lanes of a bulk copy are its pieces.
        if op.is_none_or(|op| matches!(op.extra, Extra::Bulk(_) | Extra::Tensor(_))) {
            return;
        }
        let Some(sanitizer) = &mut self.sanitizer else { return };
        sanitizer.access(transfer, &self.kernels);
        let written = &mut sanitizer.written;
        let line = transfer.line..transfer.line + u64::from(LINE_BYTES);
        if !sanitizer.kinds.init || written.heap.end <= line.start || line.end <= written.heap.start {
            return;
        }
        let mut unwritten = None;
        for lane in Lanes(transfer.lanes) {
            let lane = lane as usize;
            let at = transfer.address(usize::from(transfer.offsets[lane]));
            if transfer.kind == AccessKind::Load {
                count(&mut unwritten, lane, written.unwritten_global(at, transfer.size.into()));
            } else {
                written.write_global(at, transfer.size.into());
            }
        }
        if let Some((lane, address, count)) = unwritten {
            sanitizer.found(Kind::UnwrittenMemory, (transfer, lane), Some(address), count, &self.kernels);
        }
    }

    /// The warp of a slot has ended, and with its last one the block.
    pub(super) fn end_warp(&mut self, slot: (u32, u32)) {
        let Some(sanitizer) = &mut self.sanitizer else { return };
        let copies = [self.copies.remove(slot), self.puts.remove(slot)];
        let Some(warp) = self.warps.remove(slot) else { return };
        let each =
            copies.iter().flatten().flat_map(|copies| copies.last.iter().zip(copies.awaited).enumerate());
        for (lane, (last, awaited)) in each {
            if let Some((epoch, transfer)) = last
                && sanitizer.kinds.sync
                && *epoch >= awaited
            {
                // Of a bulk copy lane 0 is the agent.
                let lane = if transfer.copies.is_some() { 0 } else { lane };
                sanitizer.found(Kind::CopiesNotAwaited, (transfer, lane), None, 1, &self.kernels);
            }
        }
        let block = &mut self.blocks[warp.block as usize];
        block.warps -= 1;
        if block.warps > 0 {
            return;
        }
        for (_, (transfer, lane)) in std::mem::take(&mut block.arrivals) {
            if sanitizer.kinds.sync {
                sanitizer.found(Kind::BarrierIncomplete, (&transfer, lane), None, 1, &self.kernels);
            }
        }
        block.objects.clear();
        block.stored.clear();
        let number = warp.block;
        let shared = self.kernels.get(block.kernel).map_or(0, |kernel| kernel.shared_bytes);
        sanitizer.races.end_block(number);
        sanitizer.written.end_block(number);
        if !self.follows {
            return;
        }
        let base = self.shared_base(number);
        for line in (0..shared).step_by(LINE_BYTES as usize) {
            self.lines.remove(&(base | u64::from(line)));
        }
    }

    /// Threads arrive at a barrier and do not wait: whether it completes is seen later.
    pub(super) fn arrives(&mut self, sm: u32, at: Cycle, slot: u32, lanes: LaneMask, barrier: u32) {
        let Some(warp) = self.warps.get_mut(sm, slot).filter(|_| self.sanitizer.is_some()) else { return };
        let number = warp.block;
        let snapshot = warp.snapshot(self.blocks[number as usize].phase);
        let lane = lanes.trailing_zeros() as usize % WARP_LANES;
        let access = Access {
            origin: (slot, snapshot.synchronized(lane)),
            kind: AccessKind::Load,
            semantics: Semantics::Weak,
            scope: Scope::Cta,
            warp: snapshot,
            size: 0,
            copies: None,
            addresses: &[0; WARP_LANES],
        };
        let transfer = Arc::new(self.transfer(sm, at, &access, lanes));
        self.blocks[number as usize].arrivals.push((barrier, (transfer, lane)));
    }

    /// The run is over: what blocks have left.
    pub fn finish(&mut self) {
        for slot in self.warps.slots() {
            self.end_warp(slot);
        }
    }
}
