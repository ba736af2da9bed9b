//! Loads, stores and atomics as the threads of a split execute them (CS §5.3.2 ld, st, atom):
//! addresses, generic addressing, alignment and bounds, and the shared, constant and parameter
//! accesses that never leave the SM. What must leave it becomes a [`Request`].

use sim_frontend::program::{Extra, MemoryOp, Op, OpClass, Pc, Row};
use sim_memory::address_space::{self, Allocations, SHARED_WINDOW, WINDOW_BYTES, WINDOWS};
use sim_memory::priority::Policy;
use sim_memory::vocabulary::{LaneMask, StateSpace, WARP_LANES};

use super::request::Request;
use super::resident::{Resident, Step};
use super::wide;
use crate::code::Code;
use crate::error::Violation;
use crate::grid::Kernel;
use crate::instruction_set::InstructionSet;
use crate::lookups::NO_LOOKUP;
use crate::reconvergence::{Lanes, Reconvergence};
use crate::registers::{LaneRow, each, first_lane, read_element, read_row, rows_of_words, write_element};
use crate::warp::Warp;

/// What a null pointer and an offset of a structure come to.
const NULL_BYTES: u64 = 4096;

/// The addresses of an access: each lane's own, inactive lanes at the first active one's, so that
/// whatever holds for all 32 holds for those that take part.
#[inline(always)]
pub(crate) fn addresses(
    set: InstructionSet,
    warp: &Warp,
    code: &Code,
    op: &Op,
    address_64: bool,
    lanes: LaneMask,
) -> [u64; WARP_LANES] {
    let mut out = if !op.src[0].is_some() {
        [op.imm as u64; WARP_LANES]
    } else if address_64 {
        let low = read_row(&warp.rows, &code.consts, op.src[0]);
        let high = read_row(&warp.rows, &code.consts, Row(op.src[0].0 + 1));
        wide::pairs(set, low, high, op.imm)
    } else {
        let row = read_row(&warp.rows, &code.consts, op.src[0]);
        let scale = op.extra.access().map_or(0, |facts| facts.scale);
        each(|l| u64::from((row[l] << scale).wrapping_add(op.imm as u32)))
    };
    if lanes != LaneMask::MAX {
        let first = out[first_lane(lanes)];
        for lane in 0..WARP_LANES {
            out[lane] = if lanes >> lane & 1 == 1 { out[lane] } else { first };
        }
    }
    out
}

/// All addresses of an access lie in the aligned block `(start, bytes)`, a power of two.
#[inline(always)]
fn block_of(set: InstructionSet, addresses: &[u64; WARP_LANES], bytes: u64) -> (u64, u64) {
    let (any, all) = wide::any_and_all(set, addresses);
    let size = ((any ^ all) | (bytes - 1)).checked_add(1).and_then(u64::checked_next_power_of_two);
    size.map_or((0, u64::MAX), |size| (addresses[0] & !(size - 1), size))
}

impl<P: Reconvergence> Resident<P> {
    /// `ld`, `st`, `atom`, `red` [thr-ld] [thr-st] [thr-atom].
    #[inline(always)]
    pub(super) fn access(
        &mut self,
        kernel: &Kernel,
        w: usize,
        pc: Pc,
        op: &Op,
        mut exec: LaneMask,
    ) -> Result<(), Violation> {
        self.requests.clear();
        let Extra::Memory(facts) = &op.extra else {
            return Err(Violation::new(
                "thr-ld",
                exec,
                "internal error: a decoded memory access has no operands",
            ));
        };
        if exec == 0 {
            self.outcome = Step::Done;
            return Ok(());
        }
        if facts.of_warp {
            exec &= exec.wrapping_neg();
        }
        let code = &*kernel.code;
        let mut addresses =
            addresses(self.world.instruction_set, &self.warps[w], code, op, facts.address_64, exec);
        let alignment = u64::from(facts.alignment);
        let (any, _) = wide::any_and_all(self.world.instruction_set, &addresses);
        if any & alignment.wrapping_sub(1) != 0 {
            return Err(misaligned(exec, &addresses, alignment));
        }
        match facts.space {
            StateSpace::Global => self.global(code, w, pc, op, facts, exec, &addresses),
            StateSpace::Local => self.local(kernel, w, pc, op, facts, exec, &addresses),
            StateSpace::Shared => self.shared(kernel, w, pc, op, facts, exec, &addresses),
            StateSpace::Const | StateSpace::Param => self.constant(w, op, facts, exec, &addresses),
            StateSpace::Generic => {
                // Most are global addresses: one test for all windows tells.
                let within = |base: u64, bytes: u64| {
                    let mut inside = 0u32;
                    for lane in 0..WARP_LANES {
                        inside |= u32::from(addresses[lane].wrapping_sub(base) < bytes) << lane;
                    }
                    inside & exec
                };
                if within(WINDOWS.start, WINDOWS.end - WINDOWS.start) == 0 {
                    return self.global(code, w, pc, op, facts, exec, &addresses);
                }
                if within(SHARED_WINDOW, WINDOW_BYTES) != exec {
                    return self.windows(kernel, w, pc, op, facts, exec, &addresses);
                }
                for lane in 0..WARP_LANES {
                    addresses[lane] = addresses[lane].wrapping_sub(SHARED_WINDOW);
                }
                self.shared(kernel, w, pc, op, facts, exec, &addresses)
            }
        }
    }

    /// A generic access of lanes whose addresses lie in several spaces, or in local or constant memory or
    /// among the parameters.
    #[inline(never)]
    fn windows(
        &mut self,
        kernel: &Kernel,
        w: usize,
        pc: Pc,
        op: &Op,
        facts: &MemoryOp,
        exec: LaneMask,
        addresses: &[u64; WARP_LANES],
    ) -> Result<(), Violation> {
        const ORDER: [StateSpace; 5] =
            [StateSpace::Global, StateSpace::Shared, StateSpace::Const, StateSpace::Param, StateSpace::Local];
        let places = addresses.map(address_space::resolve);
        let own = places.map(|(_, address)| address);
        let mut did = Step::Done;
        for space in ORDER {
            let there = |lane: &u32| places[*lane as usize].0 == space;
            let lanes = Lanes(exec).filter(there).fold(0, |mask, lane| mask | 1 << lane);
            if lanes == 0 {
                continue;
            }
            let own = only(&own, lanes);
            match space {
                StateSpace::Shared => self.shared(kernel, w, pc, op, facts, lanes, &own)?,
                StateSpace::Const => self.constant(w, op, facts, lanes, &own)?,
                StateSpace::Param => self.params_at(kernel, w, op, facts, lanes, &own)?,
                StateSpace::Local => self.local(kernel, w, pc, op, facts, lanes, &own)?,
                _ => self.global(&kernel.code, w, pc, op, facts, lanes, &own)?,
            }
            did = both(did, self.outcome);
        }
        self.outcome = did;
        Ok(())
    }

    /// `prefetch` and other hints: a lane whose address lies nowhere, or in shared memory, asks for
    /// nothing (PTX ISA "prefetch").
    pub(super) fn hint(&mut self, kernel: &Kernel, w: usize, pc: Pc, op: &Op, exec: LaneMask) {
        self.requests.clear();
        self.outcome = Step::Done;
        let Extra::Memory(facts) = &op.extra else { return };
        if exec == 0 {
            return;
        }
        let addresses =
            addresses(self.world.instruction_set, &self.warps[w], &kernel.code, op, facts.address_64, exec);
        let allocations = &self.world.allocations;
        let (space, lanes) = match facts.space {
            StateSpace::Local => {
                let own = |l: &u32| addresses[*l as usize] < u64::from(kernel.local_bytes);
                (StateSpace::Local, Lanes(exec).filter(own).fold(0, |mask, l| mask | 1 << l))
            }
            StateSpace::Global | StateSpace::Generic => {
                let there = |l: &u32| allocations.find(addresses[*l as usize], 1).is_some();
                (StateSpace::Global, Lanes(exec).filter(there).fold(0, |mask, l| mask | 1 << l))
            }
            _ => return,
        };
        if lanes != 0 {
            let own = only(&addresses, lanes);
            self.request(&kernel.code, w, pc, op, facts, lanes, space, &own, (0, 1));
            self.outcome = Step::Access;
        }
    }

    /// Accesses to global memory: inside an allocation, or a fault that names the nearest one.
    #[inline(always)]
    fn global(
        &mut self,
        code: &Code,
        w: usize,
        pc: Pc,
        op: &Op,
        facts: &MemoryOp,
        lanes: LaneMask,
        addresses: &[u64; WARP_LANES],
    ) -> Result<(), Violation> {
        let bytes = u64::from(facts.element_bytes) * u64::from(facts.vector);
        let (start, size) = block_of(self.world.instruction_set, addresses, bytes);
        if self.world.allocations.find(start, size).is_none() {
            self.in_buffers(op.class, lanes, addresses, bytes)?;
        }
        self.request(code, w, pc, op, facts, lanes, StateSpace::Global, addresses, (0, 1));
        self.outcome = Step::Access;
        Ok(())
    }

    /// Looks at each lane's address by itself.
    #[inline(never)]
    pub(super) fn in_buffers(
        &self,
        class: OpClass,
        lanes: LaneMask,
        addresses: &[u64; WARP_LANES],
        bytes: u64,
    ) -> Result<(), Violation> {
        let allocations = &self.world.allocations;
        let mut found: Option<std::ops::Range<u64>> = None;
        for lane in Lanes(lanes) {
            let address = addresses[lane as usize];
            let end = address.saturating_add(bytes);
            if found.as_ref().is_some_and(|range| range.start <= address && end <= range.end) {
                continue;
            }
            match allocations.find(address, bytes) {
                Some(allocation) => found = Some(allocation.range.clone()),
                None => return Err(nowhere(allocations, class, lane, address, bytes)),
            }
        }
        Ok(())
    }

    /// Accesses to local memory: each lane's own, interleaved by lane in physical memory.
    fn local(
        &mut self,
        kernel: &Kernel,
        w: usize,
        pc: Pc,
        op: &Op,
        facts: &MemoryOp,
        lanes: LaneMask,
        addresses: &[u64; WARP_LANES],
    ) -> Result<(), Violation> {
        let bytes = u64::from(facts.element_bytes) * u64::from(facts.vector);
        let size = u64::from(kernel.local_bytes);
        for lane in Lanes(lanes) {
            let address = addresses[lane as usize];
            if address.checked_add(bytes).is_none_or(|end| end > size) {
                return Err(Violation::new(
                    "env-spaces",
                    1 << lane,
                    format!(
                        "local address {address:#x} is outside the thread's {size} bytes of local memory"
                    ),
                ));
            }
        }
        let parts = bytes.div_ceil(4).clamp(1, 4) as u8;
        for part in 0..parts {
            self.request(&kernel.code, w, pc, op, facts, lanes, StateSpace::Local, addresses, (part, parts));
        }
        self.outcome = Step::Access;
        Ok(())
    }

    /// The warp's memory action: the addresses, data and operands of the lanes that access
    /// [warp-mem].
    #[inline(always)]
    pub(super) fn request(
        &mut self,
        code: &Code,
        w: usize,
        pc: Pc,
        op: &Op,
        facts: &MemoryOp,
        lanes: LaneMask,
        space: StateSpace,
        addresses: &[u64; WARP_LANES],
        (part, parts): (u8, u8),
    ) {
        let warp = &self.warps[w];
        let request = self.requests.next();
        request.lookup = NO_LOOKUP;
        request.warp = w;
        request.pc = pc;
        request.space = space;
        request.lanes = lanes;
        let from = 4 * u64::from(part);
        for lane in 0..WARP_LANES {
            request.addresses[lane] = addresses[lane].wrapping_add(from);
        }
        request.part = part;
        request.parts = parts;
        let whole = u32::from(facts.element_bytes) * u32::from(facts.vector);
        request.bytes = if parts > 1 { 4 } else { whole };
        let bits = u32::from(facts.reg_bits);
        match op.class {
            OpClass::Store => match rows_of_words(&op.src[1..], facts) {
                Some((rows, words)) => {
                    let first = usize::from(part);
                    let asked = if parts > 1 { first..first + 1 } else { 0..words };
                    for (to, row) in rows[asked].iter().enumerate() {
                        let row = read_row(&warp.rows, &code.consts, *row);
                        for lane in 0..WARP_LANES {
                            request.data[lane][4 * to..][..4].copy_from_slice(&row[lane].to_le_bytes());
                        }
                    }
                }
                None => {
                    let size = usize::from(facts.element_bytes);
                    for lane in Lanes(lanes) {
                        for (i, row) in op.src[1..].iter().take(facts.vector.into()).enumerate() {
                            let value = read_element(&warp.rows, &code.consts, *row, lane, bits);
                            request.data[lane as usize][i * size..][..size]
                                .copy_from_slice(&value.to_le_bytes()[..size]);
                        }
                        request.data[lane as usize].copy_within(from as usize.., 0);
                    }
                }
            },
            OpClass::Atomic if facts.element_bytes == 16 => {
                let operands = wide_operands(&warp.rows, &code.consts, op, lanes);
                for (lane, [b, c]) in Lanes(lanes).zip(operands) {
                    request.operands[lane as usize] = [b as u64, (b >> 64) as u64];
                    request.data[lane as usize] = c.to_le_bytes();
                }
            }
            OpClass::Atomic => {
                for lane in Lanes(lanes) {
                    for (i, row) in op.src[1..3].iter().enumerate() {
                        request.operands[lane as usize][i] = if row.is_some() {
                            read_element(&warp.rows, &code.consts, *row, lane, bits)
                        } else {
                            0
                        };
                    }
                }
            }
            _ => {}
        }
        if let Policy::Operand(place) = facts.policy {
            policies(request, &warp.rows, &code.consts, op, place);
        }
    }
}

/// The cache policy of each lane.
#[cold]
#[inline(never)]
fn policies(request: &mut Request, rows: &[LaneRow], consts: &[LaneRow], op: &Op, place: u8) {
    for lane in Lanes(request.lanes) {
        request.operands[lane as usize][usize::from(place) & 1] =
            read_element(rows, consts, op.src[4], lane, 64);
    }
}

/// Operands b and c of an atomic of 128 bits, lane by lane.
#[cold]
pub(super) fn wide_operands(
    rows: &[LaneRow],
    consts: &[LaneRow],
    op: &Op,
    lanes: LaneMask,
) -> impl Iterator<Item = [u128; 2]> {
    Lanes(lanes).map(move |lane| {
        let half = |slot: usize| match op.src[slot].is_some() {
            true => u128::from(read_element(rows, consts, op.src[slot], lane, 64)),
            false => 0,
        };
        [half(2) << 64 | half(1), half(4) << 64 | half(3)]
    })
}

/// Writes the old value of an atomic of 128 bits to its registers.
#[cold]
pub(crate) fn write_wide(rows: &mut [LaneRow], op: &Op, lane: u32, old: u128) {
    for (row, half) in op.dst.iter().zip([old as u64, (old >> 64) as u64]).filter(|(row, _)| row.is_some()) {
        write_element(rows, *row, lane, half, 64);
    }
}

/// What an access did whose lanes lie in two spaces: requests are waited for; without any, the longer time.
pub(super) fn both(a: Step, b: Step) -> Step {
    match (a, b) {
        (Step::Done, other) | (other, Step::Done) => other,
        (
            Step::DoneAfter { latency, occupancy, turns },
            Step::DoneAfter { latency: other, occupancy: more, turns: further },
        ) => Step::DoneAfter {
            latency: latency.max(other),
            occupancy: occupancy + more,
            turns: turns + further,
        },
        _ => Step::Access,
    }
}

/// A global address that no buffer has: what it may be instead, and what is near.
#[cold]
fn nowhere(allocations: &Allocations, class: OpClass, lane: u32, address: u64, bytes: u64) -> Violation {
    let rule = if class == OpClass::Store { "env-writeDevice" } else { "env-readDevice" };
    let space = address_space::resolve(address).0;
    let what = if address < NULL_BYTES {
        format!("null pointer: address {address:#x} ({bytes} bytes) is not in any allocation")
    } else if space != StateSpace::Global {
        let space = format!("{space:?}").to_lowercase();
        format!(
            "access to generic address {address:#x} ({bytes} bytes), which is in the {space} window but not in any allocation"
        )
    } else {
        format!("address {address:#x} ({bytes} bytes) is not in any allocation")
    };
    let near = allocations.nearest(address).filter(|_| address >= NULL_BYTES).map_or(String::new(), |a| {
        let (start, end) = (a.range.start, a.range.end);
        let how = match address {
            at if at == end => "just past the end of".to_string(),
            at if at > end => format!("{} bytes past the end of", at - end),
            at if at < start => format!("{} bytes before", start - at),
            at => format!("{} bytes beyond the end of", at.saturating_add(bytes) - end),
        };
        format!("; {how} the nearest allocation, `{}` at {start:#x}..{end:#x}", a.name)
    });
    Violation::new(rule, 1 << lane, format!("{what}{near}"))
}

/// The addresses of `lanes`, the others at the first of theirs.
pub(super) fn only(addresses: &[u64; WARP_LANES], lanes: LaneMask) -> [u64; WARP_LANES] {
    let first = addresses[first_lane(lanes)];
    each(|lane| if lanes >> lane & 1 == 1 { addresses[lane] } else { first })
}

#[cold]
pub(super) fn misaligned(exec: LaneMask, addresses: &[u64; WARP_LANES], bytes: u64) -> Violation {
    let lane = Lanes(exec).find(|&l| addresses[l as usize] & bits_below(bytes) != 0).unwrap_or_default();
    Violation::new(
        "env-spaces",
        1 << lane,
        format!(
            "misaligned address {:#x}: an access of {bytes} bytes must be aligned to {bytes}",
            addresses[lane as usize]
        ),
    )
}

/// The low bits that must be zero in an address aligned to `bytes`.
#[inline(always)]
fn bits_below(bytes: u64) -> u64 {
    bytes.next_power_of_two() - 1
}
