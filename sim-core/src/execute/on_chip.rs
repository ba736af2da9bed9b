//! Accesses that never leave the SM: shared memory, constant memory and kernel parameters. They
//! happen at issue; latency and bank conflicts are charged.

use sim_frontend::program::{Extra, MemoryOp, Op, OpClass, Pc, Row};
use sim_memory::address_space::CONST_BASE;
use sim_memory::atomics;
use sim_memory::vocabulary::{Cycle, LaneMask, WARP_LANES};

use super::access::{addresses, wide_operands, write_wide};
use super::resident::{Resident, Step};
use super::wide;
use crate::error::Violation;
use crate::grid::Kernel;
use crate::reconvergence::{Lanes, Reconvergence};
use crate::registers::{
    extend, from_bytes, read_element, rows_of_words, write_element, write_loaded, write_uniform,
};

impl<P: Reconvergence> Resident<P> {
    /// Accesses to shared memory happen at once: the SM's load-store unit processes them in
    /// issue order, so this equals running their programs to completion.
    #[inline(always)]
    pub(super) fn shared(
        &mut self,
        kernel: &Kernel,
        w: usize,
        pc: Pc,
        op: &Op,
        facts: &MemoryOp,
        lanes: LaneMask,
        addresses: &[u64; WARP_LANES],
    ) -> Result<(), Violation> {
        let code = &*kernel.code;
        let warp = &mut self.warps[w];
        let Some(block) = self.blocks[warp.block].as_mut() else {
            return Err(Violation::new("env-readShared", lanes, "the block is not resident"));
        };
        let bytes = usize::from(facts.element_bytes) * usize::from(facts.vector);
        let size = block.shared.len() as u64;
        let bits = u32::from(facts.reg_bits);
        // Inactive lanes stand at the first active one's address.
        let (mut high, mut most) = (0, 0u32);
        for lane in 0..WARP_LANES {
            high |= addresses[lane] >> 32;
            most = most.max(addresses[lane] as u32);
        }
        if high != 0 || u64::from(most) + bytes as u64 > size {
            return self.shared_of_cluster(kernel, w, pc, op, facts, lanes, addresses);
        }
        let memory = block.shared.bytes_mut();
        // Whole words are moved row by row.
        let moved = match op.class {
            OpClass::Load => rows_of_words(&op.dst, facts),
            OpClass::Store if !self.watching => rows_of_words(&op.src[1..], facts),
            _ => None,
        };
        let mut at = [0; WARP_LANES];
        for lane in 0..WARP_LANES {
            at[lane] = addresses[lane] as u32;
        }
        let set = self.world.instruction_set;
        match (op.class, &moved) {
            (OpClass::Load, Some((rows, words))) => {
                wide::load(set, memory, &mut warp.rows, &rows[..*words], &at, lanes);
            }
            (OpClass::Store, Some((rows, words))) => {
                wide::store(memory, &warp.rows, &code.consts, &rows[..*words], &at, lanes);
            }
            (OpClass::Load, None) => {
                for lane in Lanes(lanes) {
                    let at = addresses[lane as usize] as usize;
                    write_loaded(&mut warp.rows, op, facts, lane, &memory[at..at + bytes]);
                }
            }
            (OpClass::Store, None) => {
                let each = usize::from(facts.element_bytes);
                for lane in Lanes(lanes) {
                    let at = addresses[lane as usize] as usize;
                    for (i, row) in op.src[1..].iter().take(facts.vector.into()).enumerate() {
                        let value = read_element(&warp.rows, &code.consts, *row, lane, bits).to_le_bytes();
                        let to = &mut memory[at + i * each..][..each];
                        self.changes += u64::from(self.watching && *to != value[..each]);
                        to.copy_from_slice(&value[..each]);
                    }
                }
            }
            _ => {
                let Some((operation, ty)) = facts.atomic else {
                    return Err(Violation::new(
                        "thr-atom",
                        lanes,
                        "internal error: a decoded atomic has no operation",
                    ));
                };
                if facts.element_bytes == 16 {
                    let operands: Vec<_> = wide_operands(&warp.rows, &code.consts, op, lanes).collect();
                    for (lane, [b, c]) in Lanes(lanes).zip(operands) {
                        let at = addresses[lane as usize] as usize;
                        let Some(place) = memory.get_mut(at..).and_then(|rest| rest.first_chunk_mut::<16>())
                        else {
                            continue;
                        };
                        let old = u128::from_le_bytes(*place);
                        let new = atomics::apply_wide(operation, old, b, c);
                        self.changes += u64::from(self.watching && new != old);
                        *place = new.to_le_bytes();
                        write_wide(&mut warp.rows, op, lane, old);
                    }
                } else {
                    for lane in Lanes(lanes) {
                        let at = addresses[lane as usize] as usize;
                        let operand = |row: Row| match row.is_some() {
                            true => read_element(&warp.rows, &code.consts, row, lane, bits),
                            false => 0,
                        };
                        let (b, c) = (operand(op.src[1]), operand(op.src[2]));
                        let old = from_bytes(&memory[at..at + bytes]);
                        let new = atomics::apply(operation, ty, old, b, c);
                        self.changes += u64::from(self.watching && new != old);
                        memory[at..at + bytes].copy_from_slice(&new.to_le_bytes()[..bytes]);
                        if op.dst[0].is_some() {
                            write_element(&mut warp.rows, op.dst[0], lane, extend(old, facts), bits);
                        }
                    }
                }
            }
        }
        let latencies = &self.world.latency;
        let degree = match op.class {
            class if moved.is_some() => {
                latencies.bank_rule.turns_of_words(&at, lanes, bytes as u32, class == OpClass::Load)
            }
            OpClass::Load => latencies.bank_rule.turns_of_load(addresses, lanes, bytes as u32),
            _ => latencies.bank_rule.turns(addresses, lanes, bytes as u32),
        };
        let latency = if op.class == OpClass::Atomic {
            let (shared_atomic, turn) = (latencies.shared_atomic, latencies.turn);
            let performing = if facts.is_one(lanes) { lanes & lanes.wrapping_neg() } else { lanes };
            // Lanes that meet in a bank wait for its lock, which is what conflicts of atomics take.
            self.lock_banks(addresses, performing, bytes as u32)
                + shared_atomic
                + degree.saturating_sub(1) * turn
        } else {
            latencies.of_turns(degree, (bytes as u32).div_ceil(4))
        };
        let turns = degree.max(1);
        self.outcome = Step::DoneAfter { latency, occupancy: turns * self.world.latency.turn, turns };
        Ok(())
    }

    /// Each lane of an atomic locks its banks, runs its program and unlocks them; lanes and warps that meet in a
    /// bank come one after another. Gives the cycles until the last lane has its banks.
    #[inline(never)]
    fn lock_banks(&mut self, addresses: &[u64; WARP_LANES], lanes: LaneMask, bytes: u32) -> u32 {
        let held = self.world.latency.atomic_interval;
        let (mut first, mut last) = (Cycle::MAX, self.now);
        for lane in Lanes(lanes) {
            let start = self.locks.lock(addresses[lane as usize], bytes, self.now, held);
            (first, last) = (first.min(start), last.max(start));
        }
        let cycles = |n: Cycle| n.min((u32::MAX / 2).into()) as u32;
        self.lock_wait = cycles(last.saturating_sub(first));
        cycles(last - self.now)
    }

    /// Loads from constant memory: bytes that no thread writes, so they are read at once; each
    /// distinct address costs a turn of the constant cache.
    pub(super) fn constant(
        &mut self,
        w: usize,
        op: &Op,
        facts: &MemoryOp,
        lanes: LaneMask,
        addresses: &[u64; WARP_LANES],
    ) -> Result<(), Violation> {
        if op.class != OpClass::Load {
            return Err(read_only(lanes, "constant memory is"));
        }
        let bytes = u64::from(facts.element_bytes) * u64::from(facts.vector);
        let world = &*self.world;
        let warp = &mut self.warps[w];
        let mut buffer = [0u8; 16];
        let (mut distinct, mut missing) = (0, 0);
        let mut last = None;
        let uniform = uniform(addresses);
        for lane in Lanes(if uniform { lanes & lanes.wrapping_neg() } else { lanes }) {
            let address = addresses[lane as usize];
            if last != Some(address) {
                let physical = address.wrapping_add(CONST_BASE);
                if world.allocations.find(physical, bytes).is_none() {
                    return Err(Violation::new(
                        "env-readDevice",
                        1 << lane,
                        format!(
                            "access to constant address {address:#x} ({bytes} bytes) is not inside any variable"
                        ),
                    ));
                }
                world.memory.read(physical, &mut buffer[..bytes as usize]);
                if !Lanes(lanes & ((1 << lane) - 1)).any(|l| addresses[l as usize] == address) {
                    distinct += 1;
                    missing += self.constants.as_mut().map_or(0, |cache| cache.load(address, bytes));
                }
                last = Some(address);
            }
            let found = &buffer[..bytes as usize];
            if uniform {
                write_uniform(&mut warp.rows, op, facts, lanes, found);
            } else {
                write_loaded(&mut warp.rows, op, facts, lane, found);
            }
        }
        let latency = if op.src[0].is_some() { world.latency.indexed } else { world.latency.constant };
        self.outcome = world.latency.of_lines(latency, distinct, missing);
        Ok(())
    }

    /// `ld.param` of a kernel: the parameter block lies in constant memory. Loads of whole parameters
    /// do not come here: they are lane functions (`code::Code`).
    #[inline(always)]
    pub(super) fn load_param(
        &mut self,
        kernel: &Kernel,
        w: usize,
        op: &Op,
        exec: LaneMask,
    ) -> Result<(), Violation> {
        let Extra::Memory(facts) = &op.extra else {
            return Err(Violation::new(
                "thr-ld",
                exec,
                "internal error: a decoded memory access has no operands",
            ));
        };
        let addresses =
            addresses(self.world.instruction_set, &self.warps[w], &kernel.code, op, facts.address_64, exec);
        self.params_at(kernel, w, op, facts, exec, &addresses)
    }

    /// Loads from the parameter block at these offsets.
    pub(super) fn params_at(
        &mut self,
        kernel: &Kernel,
        w: usize,
        op: &Op,
        facts: &MemoryOp,
        lanes: LaneMask,
        addresses: &[u64; WARP_LANES],
    ) -> Result<(), Violation> {
        if !matches!(op.class, OpClass::Load | OpClass::LoadParam) {
            return Err(read_only(lanes, "kernel parameters are"));
        }
        let bytes = usize::from(facts.element_bytes) * usize::from(facts.vector);
        let warp = &mut self.warps[w];
        let (mut distinct, mut last) = (0, None);
        let uniform = uniform(addresses);
        for lane in Lanes(if uniform { lanes & lanes.wrapping_neg() } else { lanes }) {
            let at = addresses[lane as usize];
            let found = usize::try_from(at).ok().and_then(|at| kernel.params.get(at..at.checked_add(bytes)?));
            let Some(found) = found else {
                return Err(Violation::new(
                    "env-readDevice",
                    1 << lane,
                    format!(
                        "parameter offset {at} ({bytes} bytes) is outside the {} bytes of kernel parameters",
                        kernel.params.len()
                    ),
                ));
            };
            distinct += u32::from(last != Some(at));
            last = Some(at);
            if uniform {
                write_uniform(&mut warp.rows, op, facts, lanes, found);
            } else {
                write_loaded(&mut warp.rows, op, facts, lane, found);
            }
        }
        self.outcome = self.world.latency.of_constant(distinct);
        Ok(())
    }
}

/// All lanes have one address; inactive ones stand at the first active one's.
#[inline(always)]
fn uniform(addresses: &[u64; WARP_LANES]) -> bool {
    let mut differ = 0;
    for lane in 0..WARP_LANES {
        differ |= addresses[lane] ^ addresses[0];
    }
    differ == 0
}

#[cold]
fn read_only(lanes: LaneMask, what: &str) -> Violation {
    Violation::new("env-writeDevice", lanes, format!("{what} read-only"))
}

#[cold]
pub(super) fn outside(lanes: LaneMask, addresses: &[u64; WARP_LANES], bytes: u64, size: u64) -> Violation {
    let beyond = |&l: &u32| addresses[l as usize].checked_add(bytes).is_none_or(|end| end > size);
    let lane = Lanes(lanes).find(beyond).unwrap_or_default();
    Violation::new(
        "env-readShared",
        1 << lane,
        format!(
            "access to shared address {:#x} ({bytes} bytes) is outside the {size} bytes of shared memory of the block",
            addresses[lane as usize]
        ),
    )
}
