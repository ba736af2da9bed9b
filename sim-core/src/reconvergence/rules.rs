//! What distinguishes the policies that keep a table of paths: what they do where it changes.

use std::fmt::Debug;

use sim_frontend::program::Pc;
use sim_memory::vocabulary::LaneMask;

use super::paths::{Group, Paths};
use super::{Cost, ReadyAddress};

/// Why a policy is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// A warp became resident.
    Admitted,
    /// A path executed a branch at this address.
    Branched(Pc),
    /// A path executed a call, return or exit at this address.
    Controlled(Pc),
    /// A path reached its stop address.
    Stopped,
    /// A path waits at a barrier or collective.
    Parked,
    /// A path may go on.
    Resumed,
    /// No path could issue, so that a join gave way.
    Blocked,
    /// Some threads of a path have their data, others wait.
    Memory,
}

/// What makes a policy of a table of paths.
pub trait Rules: Send + Debug {
    /// The threads of the path at `slot`, at `pc`, go to two or more places; they could meet at
    /// `join`.
    fn diverged(&mut self, paths: &mut Paths, slot: usize, pc: Pc, groups: &[Group], join: Option<Pc>);

    /// Threads that call a function together wait for each other where it returns.
    fn joins_calls(&self) -> bool {
        false
    }

    /// Merges what may merge and says which paths may issue and where each must stop. `slot` is
    /// the path the event concerns; it may have ended.
    fn settle(&mut self, paths: &mut Paths, event: Event, slot: usize);

    /// The warps of a block have a say in each other: [`settle_block`](Self::settle_block) follows
    /// each [`settle`](Self::settle).
    fn spans_blocks(&self) -> bool {
        false
    }

    /// As `settle`, for the warps `own` of a block; `begins`: it has just become resident.
    fn settle_block(&mut self, _warps: &mut [Paths], _own: &[usize], _begins: bool) {}

    /// True if splits of several warps issue together.
    fn forms_warps(&self) -> bool {
        false
    }

    /// True if only warps of one block do.
    fn forms_within_blocks(&self) -> bool {
        false
    }

    /// The place that issues next.
    fn prefers(&mut self, _places: &[ReadyAddress]) -> Option<usize> {
        None
    }

    /// True if [`memory`](Self::memory) is to be asked.
    fn divides_at_memory(&self) -> bool {
        false
    }

    /// The threads `done` of the path at `slot` have their data, the others wait; `idle`: nothing
    /// else of the SM can issue. True if the path was divided.
    fn memory(&mut self, _paths: &mut Paths, _slot: usize, _done: LaneMask, _idle: bool) -> bool {
        false
    }

    /// True if a path that waits goes on only where others arrive or end; false if also after some
    /// time.
    fn waits_for_threads_only(&self) -> bool {
        true
    }

    /// What the rules know beside the tables, where that is anything.
    ///
    /// # Errors
    /// None.
    fn save(&self) -> std::io::Result<Vec<u8>> {
        Ok(Vec::new())
    }

    /// Takes over what [`save`](Self::save) gave.
    ///
    /// # Errors
    /// It is something else.
    fn restore(&mut self, saved: &[u8]) -> std::io::Result<()> {
        match saved {
            [] => Ok(()),
            _ => Err(std::io::Error::other("these rules know nothing beside their tables")),
        }
    }

    /// What the policy charges for a table of `entries`, beyond the branch itself, given that it
    /// had `before` entries.
    fn cost(&self, _before: u32, entries: u32) -> Cost {
        Cost { entries, ..Cost::default() }
    }
}
