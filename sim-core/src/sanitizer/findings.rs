//! Findings of sanitizers: one for each kind and pair of source lines, with the first example and a count.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::fmt;
use std::sync::Arc;

use serde::Serialize;

use crate::error::Location;
use crate::grid::Kernel;
use crate::memory_model::lines::Transfer;

/// Findings that are kept; more are counted.
const MOST: usize = 1000;

/// An access of a lane.
pub type Side = (Arc<Transfer>, usize);

/// What is wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// Two accesses that nothing orders.
    Race,
    /// A read of bytes that were never written.
    UnwrittenMemory,
    /// A read of a register that its thread has not written.
    UnwrittenRegister,
    /// Device memory that was not freed.
    Leak,
    /// A barrier for whole warps that some threads of a warp execute.
    DivergentBarrier,
    /// Arrivals at a barrier that nothing completes.
    BarrierIncomplete,
    /// An mbarrier object is made where one is.
    MbarrierReinitialized,
    /// An ordinary store to an mbarrier object.
    MbarrierOverwritten,
    /// Asynchronous copies that their thread never waits for.
    CopiesNotAwaited,
    /// An asynchronous operation reads what threads stored without a fence between the proxies.
    ProxyNotFenced,
}

impl Kind {
    /// The kind of `--check` that finds it.
    pub fn check(self) -> &'static str {
        match self {
            Self::Race => "races",
            Self::UnwrittenMemory | Self::UnwrittenRegister | Self::Leak => "init",
            _ => "sync",
        }
    }

    fn words(self) -> &'static str {
        match self {
            Self::Race => "data race",
            Self::UnwrittenMemory => "read of memory that was never written",
            Self::UnwrittenRegister => "read of a register that its thread has not written",
            Self::Leak => "device memory from malloc that was not freed",
            Self::DivergentBarrier => "an aligned barrier executed by some threads of a warp only",
            Self::BarrierIncomplete => "an arrival at a barrier that never completes",
            Self::MbarrierReinitialized => "mbarrier.init of an object that exists already",
            Self::MbarrierOverwritten => "store to the bytes of an mbarrier object",
            Self::CopiesNotAwaited => "asynchronous copies that their thread never waits for",
            Self::ProxyNotFenced => "an asynchronous read of what was stored without fence.proxy.async since",
        }
    }
}

/// What was found, raw.
#[derive(Clone, Debug)]
pub struct Found {
    /// The accesses of the first example.
    pub sides: Vec<Side>,
    /// The address of the first byte.
    pub address: Option<u64>,
    /// How many there are.
    pub count: u64,
}

/// File and line of each instruction concerned, sorted.
type Lines = Vec<(Arc<str>, u32)>;
/// Grid and address of an instruction.
type Place = (u32, u32);

/// Findings by kind and lines.
#[derive(Clone, Debug, Default)]
pub struct Findings {
    found: Vec<Found>,
    /// The place of each among them.
    places: BTreeMap<(Kind, Lines), usize>,
    /// The same by instructions, before their lines are looked up; none: there was no room.
    known: BTreeMap<(Kind, [Option<Place>; 2]), Option<usize>>,
    /// Findings for which there was no room.
    pub more: u64,
}

impl Findings {
    /// Adds what one access, or two, have shown.
    pub fn add(
        &mut self,
        kind: Kind,
        sides: &[(&Transfer, usize)],
        address: Option<u64>,
        count: u64,
        kernels: &[Arc<Kernel>],
    ) {
        let place = |side: &(&Transfer, usize)| (side.0.grid, side.0.pc);
        let key = (kind, [0, 1].map(|i| sides.get(i).map(place)));
        let known = match self.known.get(&key) {
            Some(known) => *known,
            None => {
                let new = self.place(kind, sides, address, kernels);
                self.known.insert(key, new);
                new
            }
        };
        match known {
            Some(place) => self.found[place].count += count,
            None => self.more += 1,
        }
    }

    /// The place of a finding, which is made where there is none yet and room.
    fn place(
        &mut self,
        kind: Kind,
        sides: &[(&Transfer, usize)],
        address: Option<u64>,
        kernels: &[Arc<Kernel>],
    ) -> Option<usize> {
        let line = |(transfer, _): &(&Transfer, usize)| {
            let found = kernels.binary_search_by_key(&transfer.grid, |kernel| kernel.grid_id);
            let program = found.ok().map(|i| &kernels[i].code.program);
            let line =
                program.and_then(|program| program.info.get(transfer.pc as usize)).map_or(0, |i| i.line);
            (program.map_or_else(|| "".into(), |program| Arc::clone(&program.source.name)), line)
        };
        let mut lines: Lines = sides.iter().map(line).collect();
        lines.sort();
        match self.places.entry((kind, lines)) {
            Entry::Occupied(known) => Some(*known.get()),
            Entry::Vacant(new) if self.found.len() < MOST => {
                let sides = sides.iter().map(|(transfer, lane)| (Arc::new(Transfer::clone(transfer)), *lane));
                self.found.push(Found { sides: sides.collect(), address, count: 0 });
                Some(*new.insert(self.found.len() - 1))
            }
            Entry::Vacant(_) => None,
        }
    }

    /// What was found, by kind and lines.
    pub fn iter(&self) -> impl Iterator<Item = (Kind, &Found)> {
        self.places.iter().map(|((kind, _), place)| (*kind, &self.found[*place]))
    }
}

/// Where a thread synchronized last.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Synchronization {
    /// Line in the PTX file.
    pub line: u32,
    /// PTX text of the instruction.
    pub instruction: Arc<str>,
    /// File and line of the CUDA source.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
}

/// An access, or another instruction, of a finding.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Access {
    /// Load, store, atomic, copy, or another instruction.
    pub kind: &'static str,
    /// Thread and instruction.
    pub place: Location,
    /// File and line of the CUDA source.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
    /// The instruction by which the thread synchronized last before it.
    pub last_synchronization: Option<Synchronization>,
}

/// What a sanitizer has found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// What is wrong.
    pub kind: Kind,
    /// In words.
    pub message: String,
    /// State space.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub space: Option<&'static str>,
    /// Address of the first byte, in its state space.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub address: Option<u64>,
    /// How often: for races, pairs of accesses of threads.
    pub count: u64,
    /// The first example: the instructions concerned.
    pub accesses: Vec<Access>,
}

impl Finding {
    /// A finding of a kind.
    pub fn new(kind: Kind, address: Option<(&'static str, u64)>, count: u64, accesses: Vec<Access>) -> Self {
        let message = match address {
            Some((space, at)) => format!("{} at {space} address {at:#x}", kind.words()),
            None => kind.words().to_string(),
        };
        let (space, address) = (address.map(|a| a.0), address.map(|a| a.1));
        Self { kind, message, space, address, count, accesses }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let times = if self.count > 1 { format!(" ({} times)", self.count) } else { String::new() };
        write!(f, "finding [{}]: {}{times}", self.kind.check(), self.message)?;
        for access in &self.accesses {
            write!(f, "\n  {} by {}", access.kind, access.place)?;
            if let Some(source) = &access.source {
                write!(f, ", {source}")?;
            }
            match &access.last_synchronization {
                Some(last) => {
                    write!(f, "\n    its last synchronization: line {}: `{}`", last.line, last.instruction)?;
                    if let Some(source) = &last.source {
                        write!(f, ", {source}")?;
                    }
                }
                None => write!(f, "\n    it has not synchronized before")?,
            }
        }
        Ok(())
    }
}

/// What sanitizers have found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct SanitizerReport {
    /// How threads of a warp are ordered: `independent` from compute capability 7.0 on, `lockstep` below.
    pub threads_of_a_warp: &'static str,
    /// Accesses of threads to shared, local and global memory that were looked at.
    pub accesses: u64,
    /// Of these, those that were forgotten, whose races with later ones may have been missed.
    pub forgotten: u64,
    /// Findings beyond the number that is kept.
    pub more: u64,
    /// What was found.
    pub findings: Vec<Finding>,
    /// Findings that were suppressed.
    pub suppressed: u64,
    /// Suppressions that suppress nothing.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub unused_suppressions: Vec<String>,
    /// Why the workload's races are intended, where there are any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub intended_races: Option<String>,
}

impl SanitizerReport {
    /// True if there are findings, races that are intended aside.
    pub fn is_wrong(&self) -> bool {
        let counts = |finding: &Finding| finding.kind != Kind::Race || self.intended_races.is_none();
        self.findings.iter().any(counts) || (self.more > 0 && self.intended_races.is_none())
    }

    /// Adds what another run of the device has found.
    pub fn add(&mut self, other: Self) {
        self.accesses += other.accesses;
        self.forgotten += other.forgotten;
        self.more += other.more;
        for finding in other.findings {
            let lines = |finding: &Finding| {
                let mut lines: Vec<_> =
                    finding.accesses.iter().map(|a| (Arc::clone(&a.place.file), a.place.line)).collect();
                lines.sort();
                lines
            };
            let same = |known: &&mut Finding| known.kind == finding.kind && lines(known) == lines(&finding);
            match self.findings.iter_mut().find(same) {
                Some(known) => known.count += finding.count,
                None => self.findings.push(finding),
            }
        }
    }
}
