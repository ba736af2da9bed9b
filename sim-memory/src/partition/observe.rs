//! Observation of memory at a partition: the stores of the bytes of L2 and of device memory, and the order in which
//! stores are performed.

use super::Partition;
use crate::cache::Outcome;
use crate::line::ByteMask;
use crate::observation::{self, Event, INITIAL, NO_STORES, PartitionObservation, Stores};
use crate::programs::OpExp;
use crate::vocabulary::{Cycle, WARP_LANES};

impl Partition {
    /// Begins the observation of memory, in which no store is known yet.
    pub fn observe(&mut self) {
        self.observation = Some(Box::default());
        self.l2.observe(true);
    }

    /// A request arrives with the stores of its bytes.
    #[cold]
    pub(super) fn observe_request(&mut self, index: usize) {
        let Some(observed) = &mut self.observation else { return };
        observed.reserve(index);
        let request = &mut self.instances[index].request;
        observed.reads[index] = None;
        observed.stores[index] = match request.stores.take() {
            Some(stores) => *stores,
            None if request.is_load => NO_STORES,
            None => [request.transaction; crate::line::LINE_BYTES as usize],
        };
    }

    /// An operation, with what it does to the stores of bytes.
    #[cold]
    pub(super) fn observed(&mut self, op: OpExp, index: usize, now: Cycle) -> Outcome {
        let instance = &self.instances[index];
        let (set, line, mask) = (instance.set, instance.request.line, instance.request.mask);
        let missing = if op == OpExp::UpdateL2 { self.l2.missing(set, line, mask) } else { 0 };
        // A line may be dropped when it is read.
        if let (OpExp::ReadL2, Some(observed)) = (op, &mut self.observation)
            && let Some(stores) = self.l2.stores_of(set, line)
        {
            observation::copy(&mut observed.stores[index], stores, mask);
        }
        let outcome = self.operate(op, index);
        if outcome != Outcome::Done {
            return outcome;
        }
        match op {
            OpExp::ReadMem => {
                if let Some(observed) = &mut self.observation {
                    let PartitionObservation { stores, .. } = &mut **observed;
                    let mut found = stores[index];
                    observed.read_memory(line, mask, &mut found);
                    observed.stores[index] = found;
                }
            }
            OpExp::UpdateL2 => {
                if let Some(observed) = &self.observation {
                    self.l2.note_stores(set, line, missing, &observed.stores[index]);
                }
            }
            OpExp::WriteL2 => self.observe_write_to_l2(index, now),
            OpExp::AtomOp => self.observe_atomic(index),
            _ => {}
        }
        outcome
    }

    /// The lanes of an atomic read one after another: each the bytes that the last one wrote.
    fn observe_atomic(&mut self, index: usize) {
        let Some(observed) = &mut self.observation else { return };
        let request = &self.instances[index].request;
        let Some(atomic) = &request.atomic else { return };
        let size = atomic.ty.bytes() as usize;
        let stores = &mut observed.stores[index];
        let mut reads = [INITIAL; WARP_LANES];
        for lane in (0..WARP_LANES).filter(|lane| atomic.lanes >> lane & 1 == 1) {
            let at = usize::from(atomic.offsets[lane]);
            let Some(bytes) = stores.get_mut(at..at + size) else { continue };
            reads[lane] = bytes[0];
            bytes.fill(request.transaction);
        }
        observed.reads[index] = Some(Box::new(reads));
    }

    /// The bytes of an instance are in L2.
    pub(super) fn observe_write_to_l2(&mut self, index: usize, now: Cycle) {
        let instance = &self.instances[index];
        let (set, line, asked) = (instance.set, instance.request.line, instance.request.asked);
        if let Some(observed) = &mut self.observation {
            let stores = observed.stores[index];
            self.l2.note_stores(set, line, asked, &stores);
            // Bytes that do not change are not marked dirty: device memory has the same ones.
            observed.write_memory(line, asked & !self.l2.dirty(set, line), &stores);
        }
        self.observe_performed(index, now);
    }

    /// The bytes of an instance are in device memory.
    pub(super) fn observe_write_to_memory(&mut self, index: usize, now: Cycle) {
        let request = &self.instances[index].request;
        if let Some(observed) = &mut self.observation {
            let stores = observed.stores[index];
            observed.write_memory(request.line, request.asked, &stores);
        }
        self.observe_performed(index, now);
    }

    fn observe_performed(&mut self, index: usize, now: Cycle) {
        let request = &self.instances[index].request;
        let (line, bytes) = (request.line, request.asked);
        let Some(observed) = &mut self.observation else { return };
        let stores = Stores::of(&observed.stores[index], bytes);
        if matches!(stores, Stores::One(INITIAL)) {
            return;
        }
        let reads = observed.reads[index].take();
        observed.log.events.push((now, Event::Performed { line, bytes, stores, reads }));
    }

    /// A line of L2 is written to device memory.
    #[cold]
    pub(super) fn observe_write_back(&mut self, line: u64, mask: ByteMask) {
        let Some(observed) = &mut self.observation else { return };
        let (_, local) = self.mapping.place(line);
        let set = self.l2.set_of(crate::line::line_number(local));
        if let Some(stores) = self.l2.stores_of(set, line) {
            observed.write_memory(line, mask, stores);
        }
    }
}
