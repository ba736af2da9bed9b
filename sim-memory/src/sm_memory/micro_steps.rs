//! The SM's part of the memory programs: operations on registers and L1, from one `yield` to the next.

use super::latency::Kind;
use super::{Instance, SmMemory};
use crate::access::AccessKind;
use crate::address_space::LOCAL_PHYSICAL;
use crate::cache::{Class, Outcome};
use crate::fault::MemoryFault;
use crate::port::RegisterPort;
use crate::programs::{BExp, Instruction, OpExp, ProgramSet};
use crate::vocabulary::Cycle;

impl SmMemory {
    /// Runs micro steps until the instance ends, leaves, or waits for a cycle or a line. Each runs to its
    /// `yield` without interleaving [mem-step].
    pub(super) fn micro_steps(
        &mut self,
        programs: &ProgramSet,
        slot: u32,
        now: Cycle,
        port: &mut impl RegisterPort,
    ) -> Result<(), MemoryFault> {
        let index = slot as usize;
        let code = programs.get(self.instances[index].program).code.as_slice();
        let mut pc = usize::from(self.instances[index].pc);
        let mut holds = self.instances[index].holds;
        let mut read = false;
        loop {
            let step = &code[pc];
            if holds && !step.touches_l1 {
                self.release_line(index);
                holds = false;
            }
            if step.leaves_sm {
                self.instances[index].pc = pc as u16;
                self.hold_line(index, step.touches_l1);
                self.send(slot, now);
                return Ok(());
            }
            match &step.instruction {
                Instruction::Op(op) => {
                    let outcome = match self.follows_stores {
                        false => self.operate(*op, index, now, port),
                        true => self.observed(*op, index, now, port),
                    };
                    match outcome {
                        Outcome::Done => {}
                        Outcome::Defer => {
                            if *op == OpExp::ReserveL1 || *op == OpExp::WriteL1 {
                                let set = self.instances[index].set;
                                if let Some((line, mask, data)) = self.l1.write_back_one(set) {
                                    self.send_write_back(set, line, mask, data, now);
                                    continue;
                                }
                                self.held.wait_for_set(set, slot);
                            } else {
                                // Pinned by another operation: its unpinning wakes the set.
                                let set = self.instances[index].set;
                                self.held.wait_for_set(set, slot);
                            }
                            self.instances[index].pc = pc as u16;
                            self.hold_line(index, true);
                            return Ok(());
                        }
                        Outcome::Stuck => {
                            return Err({
                                let Instance { access, line, .. } = self.instances[index];
                                MemoryFault { access: Some(access), ..MemoryFault::stuck(*op, line) }
                            });
                        }
                    }
                    read |= *op == OpExp::ReadL1;
                    pc += 1;
                }
                Instruction::Yield => {
                    pc += 1;
                    if read && !self.instances[index].travelled {
                        if holds && !code[pc].touches_l1 {
                            self.release_line(index);
                        }
                        self.instances[index].pc = pc as u16;
                        let at = self.has_read(index, now);
                        self.events.push(at, 0, slot);
                        return Ok(());
                    }
                    read = false;
                }
                Instruction::Jump(to) => pc = usize::from(*to),
                Instruction::Unless(condition, to) => {
                    pc = if self.evaluate(condition, index) { pc + 1 } else { usize::from(*to) };
                }
                Instruction::End => {
                    self.end(slot, now, port);
                    return Ok(());
                }
            }
        }
    }

    /// Holds the line if operations of L1 still follow: later operations on the line wait.
    fn hold_line(&mut self, index: usize, touches_l1: bool) {
        let instance = &mut self.instances[index];
        if touches_l1 && !instance.holds {
            instance.holds = true;
            self.held.hold(instance.set, instance.line, index as u32);
        }
    }

    /// Releases the line when no operation of L1 follows: the first waiting operation becomes its holder.
    fn release_line(&mut self, index: usize) {
        let instance = &mut self.instances[index];
        debug_assert!(instance.holds);
        instance.holds = false;
        if let Some(next) = self.held.release(instance.set, instance.line, index as u32) {
            self.instances[next as usize].holds = true;
            self.runnable.push(next);
        }
    }

    fn evaluate(&mut self, condition: &BExp, index: usize) -> bool {
        match condition {
            BExp::True => true,
            BExp::False | BExp::IsCachedL2 => false,
            BExp::Not(inner) => !self.evaluate(inner, index),
            BExp::And(a, b) => self.evaluate(a, index) && self.evaluate(b, index),
            BExp::Or(a, b) => self.evaluate(a, index) || self.evaluate(b, index),
            BExp::IsCachedL1 => {
                let instance = &mut self.instances[index];
                let (mask, asked) = (instance.mask, instance.asked);
                let held = self.l1.held_of(instance.set, instance.line, [mask, asked]);
                let cached = held.is_some();
                // Stores may have written what is needed of the sectors, and no more.
                instance.mask = held.unwrap_or(mask);
                self.l1.stats.looked_up(cached, instance.waited, instance.line >= LOCAL_PHYSICAL);
                cached
            }
        }
    }

    pub(super) fn operate(
        &mut self,
        op: OpExp,
        index: usize,
        now: Cycle,
        port: &mut impl RegisterPort,
    ) -> Outcome {
        let l1 = &mut self.l1;
        let i = &mut self.instances[index];
        let data = &mut self.data[index];
        match op {
            OpExp::ReadL1 => {
                let outcome = l1.read(i.set, i.line, i.mask, data, &mut i.pinned);
                if outcome == Outcome::Done {
                    let set = i.set;
                    self.held.wake_set(set, &mut self.runnable);
                }
                outcome
            }
            OpExp::WriteL1 => l1.write(i.set, i.line, i.asked, data),
            OpExp::WriteThroughL1 => {
                l1.write_through(i.set, i.line, i.asked, data);
                Outcome::Done
            }
            OpExp::WriteAllocateL1 => {
                l1.write_allocate(i.set, i.line, i.asked, data);
                Outcome::Done
            }
            OpExp::ReserveL1 => l1.reserve(i.set, i.line, i.mask, &mut i.pinned),
            OpExp::UpdateL1 => l1.update(i.set, i.line, i.mask, data),
            OpExp::EvictL1 => l1.evict(i.set, i.line),
            OpExp::DiscardL1 => l1.discard(i.set, i.line, i.asked),
            OpExp::ClassifyFirstL1 => {
                l1.classify(i.set, i.line, Class::First);
                Outcome::Done
            }
            OpExp::ClassifyNormalL1 => {
                l1.classify(i.set, i.line, Class::Normal);
                Outcome::Done
            }
            OpExp::FlushL1 => {
                self.flush_l1();
                Outcome::Done
            }
            OpExp::WriteToRegs => {
                match (&i.kind, &i.atomic) {
                    (AccessKind::Load, _) => {
                        self.latencies.record(Kind::Load(i.level), now - i.issued);
                        port.write_to_regs(i.access, i.lanes, i.line, data, now);
                    }
                    (AccessKind::Atomic { .. }, Some(atomic)) if let Some(wide) = &atomic.wide => {
                        port.write_wide_results(i.access, i.lanes, [&atomic.old, &wide.old], now);
                    }
                    (AccessKind::Atomic { .. }, Some(atomic)) => {
                        port.write_atomic_results(i.access, i.lanes, &atomic.old, now);
                    }
                    _ => return Outcome::Stuck,
                }
                Outcome::Done
            }
            OpExp::ReleaseRegs => {
                port.release_regs(i.access, i.lanes, now);
                Outcome::Done
            }
            _ => Outcome::Stuck,
        }
    }
}
