//! What sanitizers follow beside global memory: accesses to shared and local memory, mbarrier objects, asynchronous
//! copies, and threads of a warp that meet.
//!
//! Copies are performed by agents beside the threads: one for each thread's `cp.async`, of which the thread learns by
//! waiting, and one for the bulk copies that each mbarrier object counts, of which those learn who wait for its phase.

use std::sync::Arc;

use sim_frontend::program::{Extra, NO_PC};
use sim_memory::access::AccessKind;
use sim_memory::coalescing::lines;
use sim_memory::line::{ByteMask, LINE_BYTES};
use sim_memory::observation::{Event, ObjectAction, fill};
use sim_memory::vocabulary::{
    AtomicOp, Cycle, LaneMask, ScalarType, Scope, Semantics, StateSpace, WARP_LANES,
};

use super::Checker;
use super::clock::Clock;
use super::lines::{SHARED, Store, Transfer};
use super::threads::{Snapshot, agent_of, agent_of_object, block_of};
use crate::grid::Kernel;
use crate::reconvergence::Lanes;
use crate::sanitizer::findings::Kind;

/// Groups of copies of a lane that are known: more than `cp.async.wait_group` can name.
const MOST_GROUPS: usize = 320;

/// An mbarrier object.
#[derive(Clone, Debug, Default)]
pub struct Object {
    /// What the arrivals of the current phase have released.
    arriving: Clock,
    /// What those of all complete phases have.
    complete: Clock,
    /// Number of complete phases.
    phase: u32,
    /// It lies at an address of shared memory, and has not been invalidated.
    live: bool,
}

/// The asynchronous copies of the lanes of a warp.
#[derive(Clone, Debug, Default)]
pub struct Copies {
    epochs: [u32; WARP_LANES],
    /// The epoch of each group, the newest last.
    groups: [Vec<u32>; WARP_LANES],
    /// The last copy of each lane, with its epoch.
    last: [Option<(u32, Arc<Transfer>)>; WARP_LANES],
    /// The last epoch that is waited for or arrives at an object.
    awaited: [u32; WARP_LANES],
}

/// The scope of an access: atomics without semantics are those of the device (PTX ISA "atom").
pub(super) fn scope_of(kind: AccessKind, semantics: Semantics, scope: Scope) -> Scope {
    match kind {
        AccessKind::Atomic { .. } if semantics == Semantics::Weak => scope.max(Scope::Gpu),
        _ => scope,
    }
}

/// True if an instruction is one of the device runtime, which has no lines: `malloc`, `free`, `vprintf`.
pub(super) fn is_runtime(kernels: &[Arc<Kernel>], grid: u32, pc: u32) -> bool {
    let found = kernels.binary_search_by_key(&grid, |kernel| kernel.grid_id);
    let info = found.ok().and_then(|i| kernels[i].code.program.info.get(pc as usize));
    info.is_some_and(|info| info.line == 0 && !info.injected)
}

/// An access that has no line yet.
struct Access<'a> {
    origin: (u32, u32),
    kind: AccessKind,
    semantics: Semantics,
    scope: Scope,
    warp: Arc<Snapshot>,
    size: u8,
    copies: Option<u32>,
    addresses: &'a [u32; WARP_LANES],
}

impl Checker {
    /// An event that only sanitizers ask for.
    pub(super) fn on_chip(&mut self, sm: u32, at: Cycle, event: &Event) {
        match event {
            Event::Synchronizes { origin: (slot, pc), lanes } => {
                if let Some(warp) = self.warps.get_mut(&(sm, *slot)) {
                    warp.synchronizes(*lanes, *pc);
                }
            }
            Event::WarpSync { warp, lanes } => {
                if let Some(warp) = self.warps.get_mut(&(sm, *warp)) {
                    let phase = self.blocks[warp.block as usize].phase;
                    warp.meet(*lanes, phase);
                }
            }
            Event::OnChip { origin, space, kind, semantics, scope, lanes, addresses, size } => {
                let Some(warp) = self.warps.get_mut(&(sm, origin.0)) else { return };
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
                    _ => self.shared(sm, at, &access, *lanes),
                }
            }
            Event::Copy { origin, lanes, to, size } => self.copy(sm, at, *origin, *lanes, to, *size),
            Event::Commit { warp, lanes } => {
                let copies = self.copies.entry((sm, *warp)).or_default();
                for lane in Lanes(*lanes) {
                    let lane = lane as usize;
                    let groups = &mut copies.groups[lane];
                    groups.push(copies.epochs[lane]);
                    copies.epochs[lane] += 1;
                    if groups.len() > 2 * MOST_GROUPS {
                        groups.drain(..MOST_GROUPS);
                    }
                }
            }
            Event::Awaited { warp, lanes, newest } => self.awaited((sm, *warp), *lanes, *newest),
            Event::CopiesArrive { warp, lane, object } => {
                let Some(own) = self.warps.get(&(sm, *warp)) else { return };
                let copies = self.copies.entry((sm, *warp)).or_default();
                let l = *lane as usize;
                let object = self.blocks[own.block as usize].objects.entry(*object).or_default();
                object.arriving.add(agent_of(own.thread(l), copies.epochs[l]));
                object.arriving.join(own.clock(l));
                copies.awaited[l] = copies.epochs[l] + 1;
                copies.epochs[l] += 1;
            }
            Event::Bulk { origin, lane, to, bytes, object } => {
                self.bulk(sm, at, *origin, *lane as usize, [*to, *bytes, *object]);
            }
            Event::Object { .. } => self.object(sm, at, event),
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
    fn misuse(&mut self, sm: u32, at: Cycle, kind: Kind, origin: (u32, u32), lanes: LaneMask) {
        let Some(warp) = self.warps.get_mut(&(sm, origin.0)) else { return };
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
        let transfer = self.transfer(sm, at, &access, 0, 0, lanes);
        if let Some(sanitizer) = self.sanitizer.as_mut().filter(|s| s.kinds.names().contains(&kind.check())) {
            let lane = lanes.trailing_zeros() as usize % WARP_LANES;
            sanitizer.found(kind, (transfer, lane), None, &self.kernels);
        }
    }

    fn transfer(
        &mut self,
        sm: u32,
        at: Cycle,
        access: &Access<'_>,
        line: u64,
        bytes: ByteMask,
        lanes: LaneMask,
    ) -> Arc<Transfer> {
        let first = access.warp.thread(0);
        self.number += 1;
        Arc::new(Transfer {
            number: self.number,
            sm,
            slot: access.origin.0,
            pc: access.origin.1,
            grid: self.blocks[block_of(first) as usize].grid,
            issued: at,
            kind: access.kind,
            semantics: access.semantics,
            scope: access.scope,
            line,
            bytes,
            lanes,
            offsets: std::array::from_fn(|lane| (access.addresses[lane] % LINE_BYTES) as u8),
            size: access.size,
            exclusive: bytes.count_ones() == lanes.count_ones() * u32::from(access.size),
            copies: access.copies,
            warp: Arc::clone(&access.warp),
        })
    }

    /// Lanes access their own local memory.
    fn local(&mut self, sm: u32, at: Cycle, access: &Access<'_>, lanes: LaneMask) {
        let mut unwritten = Vec::new();
        let Some(sanitizer) = self.sanitizer.as_mut().filter(|s| s.kinds.init) else { return };
        for lane in Lanes(lanes) {
            let lane = lane as usize;
            let thread = access.warp.thread(lane);
            let (thread, to) = ((thread.block, thread.index), access.addresses[lane]);
            let size = u32::from(access.size);
            match access.kind {
                AccessKind::Store => sanitizer.written.write_local(thread, to, size),
                _ => {
                    unwritten.extend(sanitizer.written.unwritten_local(thread, to, size).map(|at| (lane, at)))
                }
            }
        }
        if let Some((lane, address)) = unwritten.first() {
            let transfer = self.transfer(sm, at, access, 0, 0, lanes);
            if let Some(sanitizer) = &mut self.sanitizer {
                let side = vec![(transfer, *lane)];
                let (count, address) = (unwritten.len() as u64, Some(u64::from(*address)));
                sanitizer.findings.add(Kind::UnwrittenMemory, side, address, count, &self.kernels);
            }
        }
    }

    /// Lanes, or agents that copy for them, access shared memory.
    fn shared(&mut self, sm: u32, at: Cycle, access: &Access<'_>, lanes: LaneMask) {
        let block = block_of(access.warp.thread(0));
        let base = SHARED | u64::from(block) << 24;
        let mut parts = std::mem::take(&mut self.parts);
        parts.clear();
        lines(&access.addresses.map(u64::from), lanes, access.size.into(), &mut parts);
        for part in &parts {
            let transfer = self.transfer(sm, at, access, base | part.line, part.bytes, part.lanes);
            self.shared_line(&transfer, block);
        }
        self.parts = parts;
    }

    fn shared_line(&mut self, transfer: &Arc<Transfer>, block: u32) {
        let Some(sanitizer) = &mut self.sanitizer else { return };
        sanitizer.access(transfer, &self.kernels);
        if sanitizer.kinds.init {
            let mut unwritten = Vec::new();
            for lane in Lanes(transfer.lanes) {
                let lane = lane as usize;
                let at = transfer.address(usize::from(transfer.offsets[lane])) as u32;
                let size = u32::from(transfer.size);
                if transfer.kind != AccessKind::Store {
                    unwritten
                        .extend(sanitizer.written.unwritten_shared(block, at, size).map(|at| (lane, at)));
                }
                if transfer.kind != AccessKind::Load {
                    sanitizer.written.write_shared(block, at, size);
                }
            }
            if let Some((lane, address)) = unwritten.first() {
                let side = vec![(Arc::clone(transfer), *lane)];
                let (count, address) = (unwritten.len() as u64, Some(u64::from(*address)));
                sanitizer.findings.add(Kind::UnwrittenMemory, side, address, count, &self.kernels);
            }
        }
        self.overwrites(transfer, block);
        if !transfer.strong() {
            if let (AccessKind::Store, Some(line)) = (transfer.kind, self.lines.get_mut(&transfer.line)) {
                fill(&mut line.current, transfer.bytes, transfer.number);
            }
            return;
        }
        self.strong_shared(transfer);
    }

    /// Shared memory is performed at once: a strong access observes the last store.
    fn strong_shared(&mut self, transfer: &Arc<Transfer>) {
        self.lines.entry(transfer.line).or_default();
        let mut observed = Vec::new();
        if transfer.kind != AccessKind::Store {
            for lane in Lanes(transfer.lanes) {
                let lane = lane as usize;
                let store = self.lines[&transfer.line].current[usize::from(transfer.offsets[lane])];
                observed.extend(self.observe(transfer, lane, store).into_iter().flatten());
            }
        }
        if transfer.kind != AccessKind::Load {
            let mut releases = Vec::new();
            if let Some(warp) = self.warps.get_mut(&(transfer.sm, transfer.slot)) {
                let phase = self.blocks[warp.block as usize].phase;
                for lane in Lanes(transfer.lanes) {
                    warp.releases(lane as usize, transfer.semantics, transfer.scope, phase, &mut releases);
                }
            }
            let bytes = transfer.bytes;
            let releases = Arc::new(releases);
            let mut store = Store { transfer: Arc::clone(transfer), releases, bytes, readers: Vec::new() };
            super::inherit(&mut store, &observed);
            if let Some(line) = self.lines.get_mut(&transfer.line) {
                line.perform(store);
            }
        }
        self.learn(transfer, Some(observed));
    }

    /// An ordinary store to the bytes of an mbarrier object.
    fn overwrites(&mut self, transfer: &Arc<Transfer>, block: u32) {
        let objects = &self.blocks[block as usize].objects;
        if objects.is_empty() || transfer.kind == AccessKind::Load || self.is_object_operation(transfer) {
            return;
        }
        let first = transfer.address(0) as u32;
        let hit = objects.range(first..first + LINE_BYTES).find_map(|(at, object)| {
            let bytes: ByteMask = 0xff << (at - first);
            let lane = Lanes(transfer.lanes).find(|&l| transfer.mask_of(l as usize) & bytes != 0);
            lane.filter(|_| object.live).map(|lane| (*at, lane as usize))
        });
        if let (Some((at, lane)), Some(sanitizer)) = (hit, self.sanitizer.as_mut().filter(|s| s.kinds.sync)) {
            let side = (Arc::clone(transfer), lane);
            sanitizer.found(Kind::MbarrierOverwritten, side, Some(at.into()), &self.kernels);
        }
    }

    fn is_object_operation(&self, transfer: &Transfer) -> bool {
        let kernel = self.kernels.iter().find(|kernel| kernel.grid_id == transfer.grid);
        let op = kernel.and_then(|kernel| kernel.code.program.ops.get(transfer.pc as usize));
        op.is_some_and(|op| matches!(op.extra, Extra::Mbarrier(_) | Extra::CopyArrive(..)))
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
        let Some(warp) = self.warps.get_mut(&(sm, origin.0)) else { return };
        let phase = self.blocks[warp.block as usize].phase;
        let copies = self.copies.entry((sm, origin.0)).or_default();
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
        let whole = self.transfer(sm, at, &access, 0, 0, lanes);
        if let Some(copies) = self.copies.get_mut(&(sm, origin.0)) {
            for lane in Lanes(lanes) {
                copies.last[lane as usize] = Some((copies.epochs[lane as usize], Arc::clone(&whole)));
            }
        }
        self.shared(sm, at, &access, lanes);
    }

    fn awaited(&mut self, of: (u32, u32), lanes: LaneMask, newest: Option<u8>) {
        let (Some(warp), Some(copies)) = (self.warps.get_mut(&of), self.copies.get_mut(&of)) else { return };
        for lane in Lanes(lanes) {
            let lane = lane as usize;
            let epoch = match newest {
                None => {
                    copies.epochs[lane] += 1;
                    Some(copies.epochs[lane] - 1)
                }
                Some(newest) => {
                    let groups = &copies.groups[lane];
                    groups.len().checked_sub(1 + usize::from(newest)).map(|at| groups[at])
                }
            };
            if let Some(epoch) = epoch {
                warp.knows(lane, agent_of(warp.thread(lane), epoch));
                copies.awaited[lane] = copies.awaited[lane].max(epoch + 1);
            }
        }
    }

    fn bulk(&mut self, sm: u32, at: Cycle, origin: (u32, u32), lane: usize, [to, bytes, object]: [u32; 3]) {
        let Some(warp) = self.warps.get_mut(&(sm, origin.0)) else { return };
        let block = warp.block;
        let phase = self.blocks[block as usize].phase;
        let complete = self.blocks[block as usize].objects.entry(object).or_default().phase;
        let agent = agent_of_object(block, object, complete);
        let thread = warp.thread(lane).index;
        let snapshot = warp.copying_bulk(lane, agent, phase);
        let mut from = to;
        while from < to + bytes {
            let end = (from / LINE_BYTES + 1) * LINE_BYTES;
            let size = end.min(to + bytes) - from;
            let access = Access {
                origin,
                kind: AccessKind::Store,
                semantics: Semantics::Weak,
                scope: Scope::Cta,
                warp: Arc::clone(&snapshot),
                size: size as u8,
                copies: Some(thread),
                addresses: &[from; WARP_LANES],
            };
            let line = SHARED | u64::from(block) << 24 | u64::from(from / LINE_BYTES * LINE_BYTES);
            let low = if size == LINE_BYTES { ByteMask::MAX } else { (1 << size) - 1 };
            let transfer = self.transfer(sm, at, &access, line, low << (from % LINE_BYTES), 1);
            self.shared_line(&transfer, block);
            from += size;
        }
    }

    /// An operation on an mbarrier object: an arrival releases, a wait that succeeds acquires.
    fn object(&mut self, sm: u32, at: Cycle, event: &Event) {
        let Event::Object { origin, lane, object: address, action, existed, completes } = event else {
            return;
        };
        let Some(warp) = self.warps.get_mut(&(sm, origin.0)) else { return };
        let (number, l) = (warp.block, *lane as usize);
        let block = &mut self.blocks[number as usize];
        let phase = block.phase;
        let before = warp.snapshot(phase);
        let object = block.objects.entry(*address).or_default();
        let again = *action == ObjectAction::Init && *existed && object.live;
        match action {
            ObjectAction::Init => *object = Object { live: true, phase: object.phase, ..Object::default() },
            ObjectAction::Inval => object.live = false,
            ObjectAction::Arrive => {
                let release = warp.arrive(l, phase);
                object.arriving.join(&release.clock);
                object.arriving.add(release.point);
            }
            ObjectAction::Wait(true) => {
                let mut clock = warp.clock(l).clone();
                clock.join(&object.complete);
                warp.set_clock(l, clock);
            }
            ObjectAction::Wait(false) | ObjectAction::Count => {}
        }
        if *completes {
            let arrived = std::mem::take(&mut object.arriving);
            object.complete.join(&arrived);
            object.complete.add(agent_of_object(number, *address, object.phase));
            object.phase += 1;
        }
        if origin.1 == NO_PC || *action == ObjectAction::Wait(false) {
            return;
        }
        if again {
            self.misuse(sm, at, Kind::MbarrierReinitialized, *origin, 1 << lane);
        }
        // The object itself is memory: making and ending it are stores, all else is strong.
        let made = matches!(action, ObjectAction::Init | ObjectAction::Inval);
        let access = Access {
            origin: *origin,
            kind: match made {
                true => AccessKind::Store,
                false => AccessKind::Atomic { op: AtomicOp::Add, ty: ScalarType::B64, returns: true },
            },
            semantics: if made { Semantics::Weak } else { Semantics::Relaxed },
            scope: Scope::Cta,
            warp: before,
            size: 8,
            copies: None,
            addresses: &[*address; WARP_LANES],
        };
        let line = address / LINE_BYTES * LINE_BYTES;
        let bytes: ByteMask = 0xff << (address % LINE_BYTES);
        let line = SHARED | u64::from(number) << 24 | u64::from(line);
        let transfer = self.transfer(sm, at, &access, line, bytes, 1 << lane);
        if let Some(sanitizer) = &mut self.sanitizer {
            sanitizer.access(&transfer, &self.kernels);
            if sanitizer.kinds.init {
                sanitizer.written.write_shared(number, *address, 8);
            }
        }
    }

    /// An access to global memory, for sanitizers.
    pub(super) fn sanitize_global(&mut self, transfer: &Arc<Transfer>) {
        let found = self.kernels.binary_search_by_key(&transfer.grid, |kernel| kernel.grid_id);
        let op = found.ok().and_then(|i| self.kernels[i].code.program.ops.get(transfer.pc as usize));
        // The lanes of a bulk copy are its pieces.
        if op.is_none_or(|op| matches!(op.extra, Extra::Bulk(_))) {
            return;
        }
        let Some(sanitizer) = &mut self.sanitizer else { return };
        sanitizer.access(transfer, &self.kernels);
        let written = &mut sanitizer.written;
        let line = transfer.line..transfer.line + u64::from(LINE_BYTES);
        if !sanitizer.kinds.init || written.heap.end <= line.start || line.end <= written.heap.start {
            return;
        }
        let mut unwritten = Vec::new();
        for lane in Lanes(transfer.lanes) {
            let lane = lane as usize;
            let at = transfer.address(usize::from(transfer.offsets[lane]));
            if transfer.kind == AccessKind::Load {
                unwritten.extend(written.unwritten_global(at, transfer.size.into()).map(|at| (lane, at)));
            } else {
                written.write_global(at, transfer.size.into());
            }
        }
        if let Some((lane, address)) = unwritten.first() {
            let side = vec![(Arc::clone(transfer), *lane)];
            let count = unwritten.len() as u64;
            sanitizer.findings.add(Kind::UnwrittenMemory, side, Some(*address), count, &self.kernels);
        }
    }

    /// The warp of a slot has ended, and with its last one the block.
    pub(super) fn end_warp(&mut self, slot: (u32, u32)) {
        let Some(sanitizer) = &mut self.sanitizer else { return };
        let copies = self.copies.remove(&slot);
        let Some(warp) = self.warps.remove(&slot) else { return };
        for (lane, last) in copies.iter().flat_map(|copies| copies.last.iter().enumerate()) {
            let awaited = copies.as_ref().map_or(0, |copies| copies.awaited[lane]);
            if let Some((epoch, transfer)) = last
                && sanitizer.kinds.sync
                && *epoch >= awaited
            {
                let side = (Arc::clone(transfer), lane);
                sanitizer.found(Kind::CopiesNotAwaited, side, None, &self.kernels);
            }
        }
        let block = &mut self.blocks[warp.block as usize];
        block.warps -= 1;
        if block.warps > 0 {
            return;
        }
        for (_, side) in std::mem::take(&mut block.arrivals) {
            if sanitizer.kinds.sync {
                sanitizer.found(Kind::BarrierIncomplete, side, None, &self.kernels);
            }
        }
        block.objects.clear();
        let (number, threads, grid) = (warp.block, block.threads, block.grid);
        let kernel = self.kernels.iter().find(|kernel| kernel.grid_id == grid);
        let shared = kernel.map_or(0, |kernel| kernel.shared_bytes);
        sanitizer.races.end_block(number, shared);
        sanitizer.written.end_block(number, threads);
        for line in (0..shared).step_by(LINE_BYTES as usize) {
            self.lines.remove(&(SHARED | u64::from(number) << 24 | u64::from(line)));
        }
    }

    /// Threads arrive at a barrier and do not wait: whether it completes is seen later.
    pub(super) fn arrives(&mut self, sm: u32, at: Cycle, slot: u32, lanes: LaneMask, barrier: u32) {
        let Some(warp) = self.warps.get_mut(&(sm, slot)).filter(|_| self.sanitizer.is_some()) else { return };
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
        let transfer = self.transfer(sm, at, &access, 0, 0, lanes);
        self.blocks[number as usize].arrivals.push((barrier, (transfer, lane)));
    }

    /// The run is over: what blocks have left.
    pub fn finish(&mut self) {
        let mut slots: Vec<(u32, u32)> = self.warps.keys().copied().collect();
        slots.sort_unstable();
        for slot in slots {
            self.end_warp(slot);
        }
    }
}
