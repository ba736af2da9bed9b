//! Sanitizers: what a program does wrong although it comes to its end. Races, misuse of barriers, and reads of what
//! was never written are found while it runs, and reported together in the end [san-findings].
//!
//! They work on the events and vector clocks of the check against the memory model
//! ([`memory_model`](crate::memory_model)), which tells them of each access.

pub mod findings;
pub mod races;
pub mod shadow;
pub mod written;

use std::sync::Arc;

pub use self::findings::{Finding, SanitizerReport};

use self::findings::{Findings, Kind};
use self::races::{Launches, Races};
use self::written::Written;
use crate::grid::Kernel;
use crate::memory_model::lines::Transfer;

/// What sanitizers look for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Kinds {
    /// Unordered accesses to shared and global memory.
    pub races: bool,
    /// Misuse of barriers, mbarrier objects and asynchronous copies.
    pub sync: bool,
    /// Reads of what was never written, and device memory that is not freed.
    pub init: bool,
}

impl Kinds {
    /// All.
    pub const ALL: Self = Self { races: true, sync: true, init: true };

    /// True if there is anything to look for.
    pub fn any(self) -> bool {
        self != Self::default()
    }

    /// Their names in options and reports.
    pub fn names(self) -> Vec<&'static str> {
        let named = [("races", self.races), ("sync", self.sync), ("init", self.init)];
        named.into_iter().filter(|(_, on)| *on).map(|(name, _)| name).collect()
    }

    /// Adds the kind of a name, or `all`. False if there is none.
    pub fn add(&mut self, name: &str) -> bool {
        match name {
            "races" => self.races = true,
            "sync" => self.sync = true,
            "init" => self.init = true,
            "all" => *self = Self::ALL,
            _ => return false,
        }
        true
    }
}

/// The state of the sanitizers in one run of a device.
#[derive(Debug)]
pub struct Sanitizer {
    /// What is looked for.
    pub kinds: Kinds,
    /// Unordered accesses.
    pub races: Races,
    /// Bytes that were written.
    pub written: Written,
    /// What was found.
    pub findings: Findings,
    /// Accesses of lanes that were looked at.
    pub accesses: u64,
}

impl Sanitizer {
    /// Nothing found yet, in a run of these kernels. Threads of a warp run in lockstep, or by themselves.
    pub fn new(kinds: Kinds, lockstep: bool, kernels: &[Arc<Kernel>]) -> Self {
        let launches = kernels.iter().map(|kernel| (kernel.grid_id, kernel.stream));
        Self {
            kinds,
            races: Races::new(lockstep, Launches::new(launches)),
            written: Written::default(),
            findings: Findings::default(),
            accesses: 0,
        }
    }

    /// A warp accesses a line of shared or global memory.
    pub fn access(&mut self, transfer: &Transfer, kernels: &[Arc<Kernel>]) {
        let one = transfer.lanes.is_power_of_two();
        self.accesses += if one { 1 } else { u64::from(transfer.lanes.count_ones()) };
        let findings = &mut self.findings;
        if self.kinds.races {
            self.races.access(transfer, |race| {
                let sides = [(race.old, race.old_lane), (transfer, race.lane)];
                let address = transfer.address(race.byte);
                findings.add(Kind::Race, &sides, Some(address), race.count, kernels);
            });
        }
    }

    /// Two accesses that are wrong together.
    pub fn found_pair(
        &mut self,
        kind: Kind,
        sides: [(&Transfer, usize); 2],
        address: u64,
        kernels: &[Arc<Kernel>],
    ) {
        self.findings.add(kind, &sides, Some(address), 1, kernels);
    }

    /// Something that is no pair of accesses, `count` times.
    pub fn found(
        &mut self,
        kind: Kind,
        (transfer, lane): (&Transfer, usize),
        address: Option<u64>,
        count: u64,
        kernels: &[Arc<Kernel>],
    ) {
        self.findings.add(kind, &[(transfer, lane)], address, count, kernels);
    }
}
