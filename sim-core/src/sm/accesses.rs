//! Warp-level accesses on their way through the memory environment, and the port by which it
//! acts on registers: the decomposition function of CS §4.4.1 undoes coalescing by the address
//! each lane kept.

use std::sync::Arc;

use sim_frontend::program::Extra;
use sim_memory::port::{AccessId, RegisterPort};
use sim_memory::vocabulary::{Cycle, LaneMask};

use crate::execute::{extend, write_element, write_loaded};
use crate::grid::Kernel;
use crate::warp::Warp;

use super::stats::SmStats;

/// One access of a split.
#[derive(Clone, Debug)]
pub struct InFlight {
    /// Home warp.
    pub warp: usize,
    /// Operation.
    pub pc: u32,
    /// Lanes not yet released.
    pub blocked: LaneMask,
    /// Lanes not yet performed.
    pub pending: LaneMask,
    /// Cycle of issue.
    pub issued: Cycle,
    /// Each lane's physical address.
    pub addresses: [u64; 32],
}

/// The table of accesses in flight.
#[derive(Debug, Default)]
pub struct Accesses {
    entries: Vec<InFlight>,
    free: Vec<AccessId>,
}

impl Accesses {
    /// Registers an access; ids are reused.
    pub fn begin(
        &mut self,
        warp: usize,
        pc: u32,
        lanes: LaneMask,
        addresses: &[u64; 32],
        now: Cycle,
    ) -> AccessId {
        let entry =
            InFlight { warp, pc, blocked: lanes, pending: lanes, issued: now, addresses: *addresses };
        match self.free.pop() {
            Some(id) => {
                self.entries[id as usize] = entry;
                id
            }
            None => {
                self.entries.push(entry);
                (self.entries.len() - 1) as AccessId
            }
        }
    }

    /// Accesses in flight.
    pub fn in_flight(&self) -> usize {
        self.entries.len() - self.free.len()
    }

    /// An access by id.
    pub fn get(&self, id: AccessId) -> Option<&InFlight> {
        self.entries.get(id as usize)
    }

    fn close_if_done(&mut self, id: AccessId) {
        let entry = &self.entries[id as usize];
        if entry.blocked | entry.pending == 0 {
            self.free.push(id);
        }
    }
}

/// The register side of one SM while its memory advances.
#[derive(Debug)]
pub struct Port<'a> {
    /// Warps of the SM.
    pub warps: &'a mut [Warp],
    /// Its kernels.
    pub kernels: &'a [Arc<Kernel>],
    /// Accesses in flight.
    pub accesses: &'a mut Accesses,
    /// Warps some of whose lanes may go on.
    pub woken: &'a mut Vec<usize>,
    /// Counters.
    pub stats: &'a mut SmStats,
}

impl Port<'_> {
    fn wake(&mut self, warp: usize) {
        if self.woken.last() != Some(&warp) {
            self.woken.push(warp);
        }
    }
}

impl RegisterPort for Port<'_> {
    /// [reg-writeTo]
    fn write_to_regs(
        &mut self,
        access: AccessId,
        lanes: LaneMask,
        line: u64,
        data: &[u8; 128],
        _now: Cycle,
    ) {
        let Some(entry) = self.accesses.entries.get(access as usize) else { return };
        let warp = &mut self.warps[entry.warp];
        let op = &self.kernels[warp.kernel].code.program.ops[entry.pc as usize];
        let Extra::Memory(facts) = op.extra else { return };
        let bytes = usize::from(facts.element_bytes) * usize::from(facts.vector);
        if facts.element_bytes == 4
            && facts.vector == 1
            && facts.reg_bits == 32
            && let Some(row) = warp.rows.get_mut(usize::from(op.dst[0].0))
        {
            // One word a lane into a 32-bit register: no extension, no pairs.
            for lane in 0..32usize {
                if lanes >> lane & 1 == 1 {
                    let at = (entry.addresses[lane].wrapping_sub(line) & 127) as usize & !3;
                    let word = [data[at], data[at + 1], data[at + 2], data[at + 3]];
                    row.0[lane] = u32::from_le_bytes(word);
                }
            }
            return;
        }
        for lane in crate::reconvergence::Lanes(lanes) {
            let at = entry.addresses[lane as usize].wrapping_sub(line) as usize;
            if let Some(found) = data.get(at..at + bytes) {
                write_loaded(&mut warp.rows, op, &facts, lane, found);
            }
        }
    }

    fn write_atomic_results(
        &mut self,
        access: AccessId,
        lanes: LaneMask,
        old: &[u64; 32],
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

    fn release_regs(&mut self, access: AccessId, lanes: LaneMask, _now: Cycle) {
        let Some(entry) = self.accesses.entries.get_mut(access as usize) else { return };
        debug_assert_eq!(lanes & !entry.blocked, 0, "registers are released once");
        entry.blocked &= !lanes;
        let (w, pc) = (entry.warp, entry.pc);
        let warp = &mut self.warps[w];
        let hot = &self.kernels[warp.kernel].code.hot[pc as usize];
        warp.board.release(hot.blocking(), lanes);
        warp.outstanding.end_block(lanes);
        self.accesses.close_if_done(access);
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
        let w = entry.warp;
        self.warps[w].outstanding.end_device(lanes);
        self.accesses.close_if_done(access);
        self.wake(w);
    }
}
