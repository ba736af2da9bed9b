//! Observation of memory at an SM: the numbers of its transactions and the stores of the bytes of L1 and of loads.

use super::SmMemory;
use crate::access::{AccessKind, WarpAccess};
use crate::cache::Outcome;
use crate::observation::{self, Event, INITIAL, NO_STORES, Stores};
use crate::port::RegisterPort;
use crate::programs::OpExp;
use crate::vocabulary::{Cycle, StateSpace};

impl SmMemory {
    /// Begins the observation of memory; L1 must be empty. Without `follows` only what is issued is observed, not which
    /// stores are read.
    pub fn observe(&mut self, sm: u32, sms: u32, follows: bool) {
        self.observation = Some(Box::new(observation::SmObservation::new(sm, sms)));
        self.follows_stores = follows;
        self.l1.observe(follows);
    }

    /// Logs an event of the SM.
    pub fn log(&mut self, now: Cycle, event: Event) {
        if let Some(observation) = &mut self.observation {
            observation.log.events.push((now, event));
        }
    }

    /// Numbers a transaction of an access. Local memory is private: no other thread reads it.
    #[cold]
    pub(super) fn observe_issue(&mut self, slot: u32, access: &WarpAccess<'_>, now: Cycle) {
        let Some(observation) = &mut self.observation else { return };
        let index = slot as usize;
        if self.follows_stores && observation.stores.len() <= index {
            observation.stores.resize(index + 1, NO_STORES);
        }
        let instance = &mut self.instances[index];
        instance.transaction = INITIAL;
        if access.space == StateSpace::Local || matches!(access.kind, AccessKind::Hint(_)) {
            return;
        }
        let transaction = observation.number();
        instance.transaction = transaction;
        if self.follows_stores && !instance.kind.fetches() {
            observation::fill(&mut observation.stores[index], u128::MAX, transaction);
        }
        let event = Event::Issued {
            transaction,
            origin: observation.origin,
            kind: access.kind,
            semantics: access.semantics,
            scope: access.scope,
            line: instance.line,
            bytes: instance.asked,
            lanes: instance.lanes,
            offsets: observation::offsets(access.addresses),
            size: access.element_bytes as u8,
        };
        observation.log.events.push((now, event));
    }

    /// An operation, with what it does to the stores of bytes.
    #[cold]
    pub(super) fn observed(
        &mut self,
        op: OpExp,
        index: usize,
        now: Cycle,
        port: &mut impl RegisterPort,
    ) -> Outcome {
        let i = &self.instances[index];
        let (set, line, mask, asked, transaction) = (i.set, i.line, i.mask, i.asked, i.transaction);
        let missing = if op == OpExp::UpdateL1 { self.l1.missing(set, line, mask) } else { 0 };
        // A line may be dropped when it is read.
        if let (OpExp::ReadL1, Some(observation)) = (op, &mut self.observation)
            && let Some(stores) = self.l1.stores_of(set, line)
        {
            observation::copy(&mut observation.stores[index], stores, mask);
        }
        let kind = i.kind;
        let outcome = self.operate(op, index, now, port);
        let Some(observation) = &mut self.observation else { return outcome };
        if outcome != Outcome::Done {
            return outcome;
        }
        let stores = &observation.stores[index];
        match op {
            OpExp::WriteL1 | OpExp::WriteThroughL1 | OpExp::WriteAllocateL1 => {
                self.l1.note_stores(set, line, asked, stores)
            }
            OpExp::UpdateL1 => self.l1.note_stores(set, line, missing, stores),
            OpExp::WriteToRegs if transaction != INITIAL => {
                let event = match kind {
                    AccessKind::Load => Event::Loaded { transaction, stores: Stores::of(stores, asked) },
                    _ => Event::Returned { transaction },
                };
                observation.log.events.push((now, event));
            }
            _ => {}
        }
        outcome
    }
}
