//! Periodic liveness checks of the engine: whether any progress is still possible, and what may still cause
//! it. The checks happen at cycles that do not depend on epochs, so that the verdict is the same for any
//! number of threads. The interval between them doubles, so that a program that makes progress is rarely
//! checked.

use sim_memory::address_space::LOCAL_PHYSICAL;
use sim_memory::vocabulary::Cycle;

use super::Engine;
use crate::error::Fault;
use crate::execute::Resident;
use crate::liveness::{Look, Watch};
use crate::reconvergence::Reconvergence;
use crate::sm::Sm;

/// The cycle of the first check.
const FIRST: Cycle = 1 << 16;
/// Cycles without a memory change that are required before the threads are watched.
const LISTEN: Cycle = 1021;

#[derive(Debug, borsh::BorshSerialize, borsh::BorshDeserialize)]
enum State {
    Asleep,
    /// Waiting for memory changes; holds the number of changes at the start.
    Listening(u64),
    /// Watching the threads; holds the number of L1 hits at the start.
    Watching(Watch, u64),
}

/// State of the liveness checks.
#[derive(Debug, borsh::BorshSerialize, borsh::BorshDeserialize)]
pub(super) struct Lookout {
    /// The cycle of the next check.
    pub(super) next: Cycle,
    state: State,
    /// The reason why the run may never end, as text for the user.
    pub(super) suspicion: Option<String>,
}

impl Lookout {
    pub(super) fn new() -> Self {
        Self { next: FIRST, state: State::Asleep, suspicion: None }
    }
}

/// Loads that L1 served, but for those of local memory.
fn l1_hits<P: Reconvergence>(sm: &Sm<P>) -> u64 {
    let stats = &sm.memory.l1().stats;
    stats.hits + stats.merges - stats.local_hits - stats.local_merges
}

impl<P: Reconvergence> Engine<P> {
    /// Performs the check that is due. A fault returned is a proof that nothing will ever change.
    pub(super) fn look(&mut self) -> Option<Box<Fault>> {
        let now = self.lookout.next;
        let changes = self.dispatcher.blocks_sent()
            + self.dispatcher.blocks_done
            + self.partitions().map(|partition| partition.changes()).sum::<u64>()
            + self
                .sms()
                .map(|sm| sm.memory.l1().changes() + sm.resident.changes + sm.resident.admissions)
                .sum::<u64>();
        let hits: u64 = self.sms().map(|sm| l1_hits(sm)).sum();
        let state = std::mem::replace(&mut self.lookout.state, State::Asleep);
        match state {
            State::Asleep => {
                self.sms().for_each(|sm| sm.resident.watching = true);
                self.lookout.state = State::Listening(changes);
                self.lookout.next = now + LISTEN;
                None
            }
            State::Listening(before) if before == changes => {
                self.sms().for_each(|sm| sm.resident.forget_branches());
                let watch = Watch::begin(self.sms().map(|sm| &sm.resident), changes, Some(now));
                self.lookout.next = now + watch.gap();
                self.lookout.state = State::Watching(watch, hits);
                None
            }
            State::Listening(_) => {
                self.sleep(now, None);
                None
            }
            State::Watching(mut watch, before) => {
                let others = self.pending(watch.since(), hits != before);
                let waits = self.dispatcher.windows.as_ref().is_some_and(|windows| windows.waits());
                // Blocks that are executed without timing may do what is waited for.
                let only_they = waits && others.is_none();
                let pending = others.or(waits.then(|| "blocks that are not timed have not ended".into()));
                let residents: Vec<&Resident<P>> = self.sms().map(|sm| &sm.resident).collect();
                match watch.look(&residents, changes, pending) {
                    Look::Stuck => {
                        let mut fault = watch.stuck(&residents, now);
                        fault.message.push_str(&self.dispatcher.waits_in_words());
                        self.now = now;
                        return Some(fault);
                    }
                    Look::Open => {
                        watch.renew(self.sms().map(|sm| &mut sm.resident));
                        self.lookout.next = now + watch.gap();
                        self.lookout.state = State::Watching(watch, before);
                    }
                    Look::Suspicious(why) => {
                        if only_they {
                            self.dispatcher.windows.iter_mut().for_each(|windows| windows.rest());
                        }
                        self.sleep(now, Some(why));
                    }
                    Look::Progress => self.sleep(now, None),
                }
                None
            }
        }
    }

    fn sleep(&mut self, now: Cycle, suspicion: Option<String>) {
        self.sms().for_each(|sm| sm.resident.watching = false);
        self.lookout.suspicion = suspicion;
        self.lookout.next = 2 * now;
    }

    /// A description of what may still happen besides the actions of threads.
    fn pending(&mut self, since: Cycle, hit: bool) -> Option<String> {
        if self.dispatcher.next_action().is_some() || self.sms().any(|sm| sm.expects_messages()) {
            return Some("a dispatch is pending".into());
        }
        if let Some(sm) = self.sms().find(|sm| sm.waits_since(since)).map(|sm| sm.index) {
            return Some(format!("SM {sm} has an older access in flight"));
        }
        if let Some(sm) = self.sms().find(|sm| sm.memory.l1().any_dirty(|line| line < LOCAL_PHYSICAL)) {
            return Some(format!("SM {} has dirty lines in L1", sm.index));
        }
        hit.then(|| "threads read lines of L1, which may be stale until they are evicted".into())
    }
}
