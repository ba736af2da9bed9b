//! Warp-level accesses on their way through the memory environment, and the port by which it
//! acts on registers: the decomposition function of CS §4.4.1 undoes coalescing by the address
//! each lane kept.

use sim_memory::line::LineData;
use std::sync::Arc;

use sim_frontend::program::{Extra, Op, OpClass, TextureOp, TextureStep};
use sim_memory::access::AccessKind;
use sim_memory::port::{AccessId, RegisterPort};
use sim_memory::vocabulary::{Cycle, LaneMask, WARP_LANES};

use crate::block::Block;
use crate::execute::{deliver, wide};
use crate::grid::Kernel;
use crate::instruction_set::InstructionSet;
use crate::lookups::{Lookups, NO_LOOKUP};
use crate::registers::{each, extend, rows_of_words, write_element, write_loaded, write_loaded_word};
use crate::warp::Warp;

use super::recorder::Recorder;
use super::stats::SmStats;

/// One access of a split.
#[derive(Clone, Debug, borsh::BorshSerialize, borsh::BorshDeserialize)]
pub struct InFlight {
    /// Home warp of the lanes.
    pub warp: usize,
    /// Address of the instruction.
    pub pc: u32,
    /// Lanes that access memory.
    pub lanes: LaneMask,
    /// Lanes not yet released.
    pub blocked: LaneMask,
    /// Lanes not yet performed.
    pub pending: LaneMask,
    /// Cycle of issue.
    pub issued: Cycle,
    /// Word `part` of `parts` of an access to local memory.
    pub part: u8,
    /// How many parts there are.
    pub parts: u8,
    /// The group of parts whose registers are released together.
    pub group: u32,
    /// It is an asynchronous copy.
    pub copy: bool,
    /// Later volatile accesses of its threads wait for it.
    pub volatile: bool,
    /// Later accesses of its threads wait for its value.
    pub acquires: bool,
    /// Its number among the writes of its block, where these are counted.
    pub write: Option<u64>,
}

/// Where the bytes of local memory lie that lanes of a warp of an SM access.
#[inline(never)]
pub fn physical(sm: u32, w: u32, lanes: LaneMask, addresses: &[u64; WARP_LANES]) -> [u64; WARP_LANES] {
    let mut found = *addresses;
    for lane in crate::reconvergence::Lanes(lanes) {
        let address = &mut found[lane as usize];
        *address = sim_memory::address_space::local_physical(sm, w, lane, *address);
    }
    found
}

/// What an operation asks of memory; an acquire needs the value's arrival even where nothing keeps the value.
#[inline]
pub fn access_kind(op: &Op, acquires: bool) -> Option<AccessKind> {
    let facts = op.extra.access()?;
    let stores = || matches!(op.extra, Extra::Texture(TextureOp { step: TextureStep::Store, .. }));
    Some(match (op.class, facts.atomic) {
        (OpClass::Store, _) => AccessKind::Store,
        (OpClass::Texture, None) if stores() => AccessKind::Store,
        (OpClass::Hint, _) => AccessKind::Hint(facts.hint?),
        (OpClass::Atomic | OpClass::Texture, Some((op_, ty))) => {
            AccessKind::Atomic { op: op_, ty, returns: op.dst[0].is_some() || acquires }
        }
        _ => AccessKind::Load,
    })
}

/// The parts of one access: registers are released when all of them are.
#[derive(Clone, Copy, Debug, Default, borsh::BorshSerialize, borsh::BorshDeserialize)]
struct Group {
    left: u32,
    lanes: LaneMask,
    /// The lookup whose texels they read.
    lookup: u32,
}

/// The group of an access that belongs to none.
pub const ALONE: u32 = u32::MAX;

/// The table of accesses in flight.
#[derive(Debug, Default, borsh::BorshSerialize, borsh::BorshDeserialize)]
pub struct Accesses {
    entries: Vec<InFlight>,
    /// Of each entry, the physical address of each lane.
    addresses: Vec<[u64; WARP_LANES]>,
    free: Vec<AccessId>,
    groups: Vec<Group>,
    free_groups: Vec<u32>,
}

impl InFlight {
    /// Lanes it is not over for.
    fn open(&self) -> LaneMask {
        self.blocked | self.pending
    }
}

impl Accesses {
    /// Forgets all accesses.
    pub fn reset(&mut self) {
        let Self { entries, addresses, free, groups, free_groups } = self;
        entries.clear();
        addresses.clear();
        free.clear();
        groups.clear();
        free_groups.clear();
    }

    /// Registers an access with the physical address of each lane; ids are reused.
    pub fn begin(&mut self, entry: InFlight, addresses: &[u64; WARP_LANES]) -> AccessId {
        match self.free.pop() {
            Some(id) => {
                self.entries[id as usize] = entry;
                self.addresses[id as usize] = *addresses;
                id
            }
            None => {
                self.entries.push(entry);
                self.addresses.push(*addresses);
                (self.entries.len() - 1) as AccessId
            }
        }
    }

    /// Registers a group of `parts` accesses of `lanes`, of a `lookup` or of none.
    pub fn group(&mut self, parts: u32, lanes: LaneMask, lookup: u32) -> u32 {
        let group = Group { left: parts, lanes, lookup };
        match self.free_groups.pop() {
            Some(id) => {
                self.groups[id as usize] = group;
                id
            }
            None => {
                self.groups.push(group);
                (self.groups.len() - 1) as u32
            }
        }
    }

    /// True if an access issued before `since` is in flight.
    pub fn any_older(&self, since: Cycle) -> bool {
        self.entries.iter().any(|entry| entry.open() != 0 && entry.issued < since)
    }

    /// An access by id.
    pub fn get(&self, id: AccessId) -> Option<&InFlight> {
        self.entries.get(id as usize)
    }
}

/// The register side of one SM while its memory advances.
#[derive(Debug)]
pub struct Port<'a> {
    /// What the host has.
    pub instruction_set: InstructionSet,
    /// Warps of the SM.
    pub warps: &'a mut [Warp],
    /// Blocks of the SM.
    pub blocks: &'a mut [Option<Block>],
    /// Its kernels.
    pub kernels: &'a [Arc<Kernel>],
    /// Accesses in flight.
    pub accesses: &'a mut Accesses,
    /// Changes of shared memory.
    pub changes: &'a mut u64,
    /// Warps whose copies have arrived.
    pub copied: &'a mut Vec<usize>,
    /// Lookups under way.
    pub lookups: &'a mut Lookups,
    /// Warps some of whose lanes may go on.
    pub woken: &'a mut Vec<usize>,
    /// Counters of the SM.
    pub stats: &'a mut SmStats,
    /// What is written down.
    pub recorder: Option<&'a mut Recorder>,
}

/// The port of an SM. It borrows all but the memory, which takes it.
macro_rules! port {
    ($sm:ident) => {
        $crate::sm::accesses::Port {
            instruction_set: $sm.instruction_set,
            warps: &mut $sm.resident.warps,
            blocks: &mut $sm.resident.blocks,
            kernels: &$sm.resident.kernels,
            changes: &mut $sm.resident.changes,
            copied: &mut $sm.copied,
            accesses: &mut $sm.accesses,
            lookups: &mut $sm.resident.lookups,
            woken: &mut $sm.woken,
            stats: &mut $sm.stats,
            recorder: $sm.recorder.as_deref_mut(),
        }
    };
}
pub(super) use port;

impl Port<'_> {
    /// The id of an access is free once the access is over.
    fn close_if_done(&mut self, id: AccessId, now: Cycle) {
        let entry = &self.accesses.entries[id as usize];
        if entry.open() == 0 {
            if let Some(recorder) = &mut self.recorder {
                let code = &self.kernels[self.warps[entry.warp].kernel].code;
                recorder.access(code, (entry, &self.accesses.addresses[id as usize]), entry.lanes, now);
            }
            self.accesses.free.push(id);
        }
    }

    fn wake(&mut self, warp: usize) {
        if self.woken.last() != Some(&warp) {
            self.woken.push(warp);
        }
    }

    /// An access to shared memory of another block is over for all its lanes.
    pub fn answered(&mut self, id: AccessId, now: Cycle) {
        let Some(entry) = self.accesses.entries.get_mut(id as usize) else { return };
        let (w, pc, lanes) = (entry.warp, entry.pc, entry.lanes);
        let (volatile, acquires) = (entry.volatile, entry.acquires);
        let blocked = std::mem::take(&mut entry.blocked);
        entry.pending = 0;
        let warp = &mut self.warps[w];
        warp.outstanding.end_block(lanes);
        warp.outstanding.end_device(lanes);
        if volatile {
            warp.outstanding.end_volatile(lanes);
        }
        if acquires {
            warp.outstanding.end_acquire(lanes);
        }
        if blocked != 0 {
            let decoded = &self.kernels[warp.kernel].code.decoded[pc as usize];
            warp.board.release(decoded.blocking(), blocked);
        }
        self.close_if_done(id, now);
        self.wake(w);
    }

    /// Bytes of asynchronous copies go to shared memory.
    #[cold]
    fn deliver(&mut self, access: AccessId, lanes: LaneMask, line: u64, data: &LineData, bytes: usize) {
        let entry = &self.accesses.entries[access as usize];
        let addresses = &self.accesses.addresses[access as usize];
        let warp = &mut self.warps[entry.warp];
        let copy = warp.copies.as_mut().and_then(|copies| copies.of_mut(access));
        let (Some(copy), Some(block)) = (copy, self.blocks[warp.block].as_mut()) else { return };
        for lane in crate::reconvergence::Lanes(lanes) {
            let at = addresses[lane as usize].wrapping_sub(line) as usize;
            let bytes = copy.piece(lane).unwrap_or(bytes);
            let Some(found) = data.get(at..at + bytes) else { continue };
            match &mut copy.landed {
                Some(landed) => landed[lane as usize][..bytes].copy_from_slice(found),
                None => *self.changes += u64::from(deliver(block, copy.to[lane as usize], found)),
            }
        }
    }

    /// A copy is over for some of its lanes.
    #[inline(never)]
    fn copied(&mut self, w: usize, access: AccessId, lanes: LaneMask, now: Cycle) {
        let warp = &mut self.warps[w];
        warp.copies_mut().arrived(access, lanes);
        if self.accesses.entries[access as usize].open() == 0 {
            warp.copies_mut().end(access);
        }
        if self.copied.last() != Some(&w) {
            self.copied.push(w);
        }
        self.close_if_done(access, now);
        self.wake(w);
    }
}

impl RegisterPort for Port<'_> {
    /// [reg-writeTo]
    fn write_to_regs(&mut self, access: AccessId, lanes: LaneMask, line: u64, data: &LineData, _now: Cycle) {
        let Some(entry) = self.accesses.entries.get(access as usize) else { return };
        let Some(addresses) = self.accesses.addresses.get(access as usize) else { return };
        let warp = &mut self.warps[entry.warp];
        let op = &self.kernels[warp.kernel].code.program.ops[entry.pc as usize];
        let Extra::Memory(facts) = op.extra else {
            if let Extra::Texture(_) = op.extra {
                let Some(group) = self.accesses.groups.get(entry.group as usize) else { return };
                let bytes = self.lookups.part_bytes(group.lookup, entry.part);
                for lane in crate::reconvergence::Lanes(lanes) {
                    let at = addresses[lane as usize].wrapping_sub(line) as usize;
                    if let Some(found) = data.get(at..at + bytes) {
                        self.lookups.arrived(group.lookup, entry.part, lane, found);
                    }
                }
            } else if let Some(facts) = op.extra.access() {
                let bytes = facts.element_bytes.into();
                self.deliver(access, lanes, line, data, bytes);
            }
            return;
        };
        let bytes = usize::from(facts.element_bytes) * usize::from(facts.vector);
        if entry.parts > 1 {
            for lane in crate::reconvergence::Lanes(lanes) {
                let at = addresses[lane as usize].wrapping_sub(line) as usize;
                if let Some(&[a, b, c, d]) = data.get(at..at + 4) {
                    write_loaded_word(&mut warp.rows, op, &facts, lane, entry.part, [a, b, c, d]);
                }
            }
            return;
        }
        // Whole words into 32-bit registers or pairs of them: no extension.
        if let Some((rows, words)) = rows_of_words(&op.dst, &facts) {
            for (word, row) in rows[..words].iter().enumerate() {
                // A sink takes nothing.
                let Some(row) = warp.rows.get_mut(usize::from(row.0)) else { continue };
                if word == 0 {
                    wide::of_line(self.instruction_set, data, addresses, lanes, &mut row.0);
                } else {
                    let at: [u64; WARP_LANES] = each(|lane| addresses[lane].wrapping_add(4 * word as u64));
                    wide::of_line(self.instruction_set, data, &at, lanes, &mut row.0);
                }
            }
            return;
        }
        for lane in crate::reconvergence::Lanes(lanes) {
            let at = addresses[lane as usize].wrapping_sub(line) as usize;
            if let Some(found) = data.get(at..at + bytes) {
                write_loaded(&mut warp.rows, op, &facts, lane, found);
            }
        }
    }

    fn write_atomic_results(
        &mut self,
        access: AccessId,
        lanes: LaneMask,
        old: &[u64; WARP_LANES],
        _now: Cycle,
    ) {
        let Some(entry) = self.accesses.entries.get(access as usize) else { return };
        let warp = &mut self.warps[entry.warp];
        let op = &self.kernels[warp.kernel].code.program.ops[entry.pc as usize];
        let Extra::Memory(facts) = op.extra else { return };
        if !op.dst[0].is_some() {
            return;
        }
        for lane in crate::reconvergence::Lanes(lanes) {
            let value = extend(old[lane as usize], &facts);
            write_element(&mut warp.rows, op.dst[0], lane, value, facts.reg_bits.into());
        }
    }

    #[cold]
    fn write_wide_results(
        &mut self,
        access: AccessId,
        lanes: LaneMask,
        halves: [&[u64; WARP_LANES]; 2],
        _now: Cycle,
    ) {
        let Some(entry) = self.accesses.entries.get(access as usize) else { return };
        let warp = &mut self.warps[entry.warp];
        let op = &self.kernels[warp.kernel].code.program.ops[entry.pc as usize];
        for (row, half) in op.dst.iter().zip(halves).filter(|(row, _)| row.is_some()) {
            for lane in crate::reconvergence::Lanes(lanes) {
                write_element(&mut warp.rows, *row, lane, half[lane as usize], 64);
            }
        }
    }

    fn release_regs(&mut self, access: AccessId, lanes: LaneMask, now: Cycle) {
        let Some(entry) = self.accesses.entries.get_mut(access as usize) else { return };
        debug_assert_eq!(lanes & !entry.blocked, 0, "registers are released once");
        entry.blocked &= !lanes;
        let (w, pc, group, done) = (entry.warp, entry.pc, entry.group, entry.blocked == 0);
        let acquires = entry.acquires;
        if entry.copy {
            return self.copied(w, access, lanes, now);
        }
        let warp = &mut self.warps[w];
        warp.outstanding.end_block(lanes);
        if acquires {
            warp.outstanding.end_acquire(lanes);
        }
        let decoded = &self.kernels[warp.kernel].code.decoded[pc as usize];
        if group == ALONE {
            warp.board.release(decoded.blocking(), lanes);
        } else if done {
            let parts = &mut self.accesses.groups[group as usize];
            parts.left -= 1;
            if parts.left == 0 {
                let (lanes, lookup) = (parts.lanes, parts.lookup);
                self.accesses.free_groups.push(group);
                let op = &self.kernels[warp.kernel].code.program.ops[pc as usize];
                if lookup != NO_LOOKUP
                    && let Extra::Texture(facts) = &op.extra
                {
                    self.lookups.write(lookup, &mut warp.rows, op, facts, lanes);
                    self.lookups.end(lookup);
                    // The filter's part of the latency comes behind that of memory.
                    warp.board.write(decoded.written(), lanes, now, now + Cycle::from(decoded.latency));
                }
                warp.board.release(decoded.blocking(), lanes);
            }
        }
        self.close_if_done(access, now);
        self.wake(w);
    }

    fn performed(&mut self, access: AccessId, lanes: LaneMask, now: Cycle) {
        let Some(entry) = self.accesses.entries.get_mut(access as usize) else { return };
        debug_assert_eq!(lanes & !entry.pending, 0, "an access is performed once");
        entry.pending &= !lanes;
        if entry.pending == 0 {
            self.stats.accesses += 1;
            self.stats.access_latency += now - entry.issued;
        }
        let (w, volatile) = (entry.warp, entry.volatile);
        let write = entry.write.filter(|_| entry.pending == 0);
        if entry.copy {
            return self.copied(w, access, 0, now);
        }
        let warp = &mut self.warps[w];
        warp.outstanding.end_device(lanes);
        if volatile {
            warp.outstanding.end_volatile(lanes);
        }
        if let Some(number) = write
            && let Some(block) = &mut self.blocks[warp.block]
        {
            let woken = &mut *self.woken;
            block.writes.end(number, |warp| woken.push(warp));
        }
        self.close_if_done(access, now);
        self.wake(w);
    }
}
