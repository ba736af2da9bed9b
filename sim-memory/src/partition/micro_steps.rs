//! The partition's part of the memory programs: operations on L2 and DRAM, and atomics.

use super::{Instance, Partition, Request};
use crate::address_space::LOCAL_PHYSICAL;
use crate::atomics;
use crate::cache::{Class, Outcome};
use crate::coalescing::round_to_sectors;
use crate::fault::MemoryFault;
use crate::line::LineData;
use crate::messages::AtomicLanes;
use crate::programs::{BExp, Instruction, OpExp, ProgramSet};
use crate::vocabulary::{Cycle, WARP_LANES};

impl Partition {
    /// Runs micro steps until the instance leaves, or waits for a line, an MSHR, DRAM or room in the write
    /// queue.
    pub(super) fn micro_steps(
        &mut self,
        programs: &ProgramSet,
        slot: u32,
        now: Cycle,
    ) -> Result<(), MemoryFault> {
        let index = slot as usize;
        if self.instances[index].request.slot.is_none() {
            self.write_back_of_l1(slot, now);
            return Ok(());
        }
        let code = programs.get(self.instances[index].request.program).code.as_slice();
        let mut pc = usize::from(self.instances[index].request.pc);
        loop {
            let step = &code[pc];
            if step.leaves_partition {
                self.instances[index].request.pc = pc as u16;
                self.leave(slot, now);
                return Ok(());
            }
            match &step.instruction {
                Instruction::Op(op) => {
                    if *op == OpExp::ReadMem && !self.instances[index].fetched {
                        self.instances[index].request.pc = pc as u16;
                        if self.mshrs.len() < self.spec.l2.mshrs as usize {
                            self.fetch(slot, now);
                        } else {
                            self.want_mshr.push_back(slot);
                        }
                        self.hold_line(slot);
                        return Ok(());
                    }
                    if *op == OpExp::WriteMem {
                        if !self.dram.takes_writes() {
                            self.instances[index].request.pc = pc as u16;
                            self.want_write.push_back(slot);
                            self.hold_line(slot);
                            return Ok(());
                        }
                        let Request { line, asked, data, .. } = self.instances[index].request;
                        let mut old = data;
                        self.memory.read_line(line, asked, &mut old);
                        self.memory_changes += u64::from(old != data);
                        self.write_back(line, asked, &data, now);
                        if self.observation.is_some() {
                            self.observe_write_to_memory(index, now);
                        }
                        pc += 1;
                        continue;
                    }
                    let outcome = match self.observation {
                        None => self.operate(*op, index),
                        Some(_) => self.observed(*op, index, now),
                    };
                    match outcome {
                        Outcome::Done => pc += 1,
                        Outcome::Defer => {
                            self.instances[index].request.pc = pc as u16;
                            if self.makes_room(slot, now) {
                                continue;
                            }
                            return Ok(());
                        }
                        Outcome::Stuck => {
                            return Err(MemoryFault::stuck(*op, self.instances[index].request.line));
                        }
                    }
                }
                Instruction::Yield => pc += 1,
                Instruction::Jump(to) => pc = usize::from(*to),
                Instruction::Unless(condition, to) => {
                    pc = if self.evaluate(condition, index) { pc + 1 } else { usize::from(*to) };
                }
                Instruction::End => {
                    self.instances[index].request.pc = pc as u16;
                    self.leave(slot, now);
                    return Ok(());
                }
            }
        }
    }

    /// Writes back a line of the instance's set. If there is none, or the write queue is full, the instance
    /// waits.
    fn makes_room(&mut self, slot: u32, now: Cycle) -> bool {
        let set = self.instances[slot as usize].set;
        if !self.dram.takes_writes() {
            self.want_write.push_back(slot);
        } else if let Some((line, mask, data)) = self.l2.write_back_one(set) {
            self.write_back(line, mask, &data, now);
            return true;
        } else {
            self.held.wait_for_set(set, slot);
        }
        self.hold_line(slot);
        false
    }

    /// Performs the write-back of an L1 line at the slice (the second part of `wbL1`).
    fn write_back_of_l1(&mut self, slot: u32, now: Cycle) {
        let index = slot as usize;
        let set = self.instances[index].set;
        loop {
            let request = &self.instances[index].request;
            if self.l2.write(set, request.line, request.asked, &request.data) != Outcome::Defer {
                break;
            }
            if !self.makes_room(slot, now) {
                return;
            }
        }
        if self.observation.is_some() {
            self.observe_write_to_l2(index, now);
        }
        self.release_line(index);
        self.free.push(slot);
    }

    fn hold_line(&mut self, slot: u32) {
        let instance = &mut self.instances[slot as usize];
        if !instance.holds {
            instance.holds = true;
            self.held.hold(instance.set, instance.request.line, slot);
        }
    }

    pub(super) fn release_line(&mut self, index: usize) {
        let instance = &self.instances[index];
        if instance.holds
            && let Some(next) = self.held.release(instance.set, instance.request.line, index as u32)
        {
            self.instances[next as usize].holds = true;
            self.runnable.push(next);
        }
    }

    fn evaluate(&mut self, condition: &BExp, index: usize) -> bool {
        match condition {
            BExp::True => true,
            BExp::False | BExp::IsCachedL1 => false,
            BExp::Not(inner) => !self.evaluate(inner, index),
            BExp::And(a, b) => self.evaluate(a, index) && self.evaluate(b, index),
            BExp::Or(a, b) => self.evaluate(a, index) || self.evaluate(b, index),
            BExp::IsCachedL2 => {
                let instance = &self.instances[index];
                let cached = self.l2.is_cached(instance.set, instance.request.line, instance.request.mask);
                let local = instance.request.line >= LOCAL_PHYSICAL;
                self.l2.stats.looked_up(cached, instance.waited, local);
                cached
            }
        }
    }

    pub(super) fn operate(&mut self, op: OpExp, index: usize) -> Outcome {
        let Instance { request: r, set, pinned, .. } = &mut self.instances[index];
        let set = *set;
        match op {
            OpExp::ReadMem => {
                self.memory.read_line(r.line, r.mask, &mut r.data);
                Outcome::Done
            }
            OpExp::AtomOp => {
                let Some(atomic) = &mut r.atomic else { return Outcome::Stuck };
                self.stats.atomics += u64::from(atomic.lanes.count_ones());
                perform(atomic, &mut r.data);
                Outcome::Done
            }
            OpExp::ReadL2 => {
                let outcome = self.l2.read(set, r.line, r.mask, &mut r.data, pinned);
                if outcome == Outcome::Done {
                    self.held.wake_set(set, &mut self.runnable);
                }
                outcome
            }
            OpExp::WriteL2 => self.l2.write(set, r.line, r.asked, &r.data),
            OpExp::ReserveL2 => {
                if let Some(bytes) = self.spec.l2_fetch_bytes
                    && r.is_load
                {
                    r.mask |= self.l2.lacks(set, r.line, round_to_sectors(r.mask, bytes));
                }
                self.l2.reserve(set, r.line, r.mask, pinned)
            }
            OpExp::UpdateL2 => self.l2.update(set, r.line, r.mask, &r.data),
            OpExp::EvictL2 => self.l2.evict(set, r.line),
            OpExp::DiscardL2 => self.l2.discard(set, r.line, r.asked),
            OpExp::ClassifyFirstL2 => {
                self.l2.classify(set, r.line, Class::First);
                Outcome::Done
            }
            OpExp::ClassifyNormalL2 => {
                self.l2.classify(set, r.line, Class::Normal);
                Outcome::Done
            }
            _ => Outcome::Stuck,
        }
    }
}

/// Performs an atomic for its lanes in ascending order on the bytes of a line.
fn perform(atomic: &mut AtomicLanes, data: &mut LineData) {
    let size = atomic.ty.bytes() as usize;
    if atomic.wide.is_some() {
        return perform_wide(atomic, data);
    }
    for lane in (0..WARP_LANES).filter(|lane| atomic.lanes >> lane & 1 == 1) {
        let at = usize::from(atomic.offsets[lane]);
        let Some(bytes) = data.get_mut(at..at + size) else { continue };
        let mut word = [0; 8];
        word[..size].copy_from_slice(bytes);
        let old = u64::from_le_bytes(word);
        let [b, c] = atomic.operands[lane];
        let new = atomics::apply_global(atomic.op, atomic.ty, old, b, c);
        bytes.copy_from_slice(&new.to_le_bytes()[..size]);
        atomic.old[lane] = old;
    }
}

/// [`perform`] for values of 128 bits.
#[cold]
fn perform_wide(atomic: &mut AtomicLanes, data: &mut LineData) {
    let Some(wide) = &mut atomic.wide else { return };
    for lane in (0..WARP_LANES).filter(|lane| atomic.lanes >> lane & 1 == 1) {
        let at = usize::from(atomic.offsets[lane]);
        let Some(bytes) = data.get_mut(at..).and_then(|rest| rest.first_chunk_mut::<16>()) else { continue };
        let old = u128::from_le_bytes(*bytes);
        let [low, high] = atomic.operands[lane].map(u128::from);
        *bytes = atomics::apply_wide(atomic.op, old, high << 64 | low, wide.c[lane]).to_le_bytes();
        (atomic.old[lane], wide.old[lane]) = (old as u64, (old >> 64) as u64);
    }
}
