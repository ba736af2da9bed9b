//! Races in shared memory: conflicting accesses of two threads that happens-before leaves unordered (NB §4.2).
//!
//! The accesses are taken in an order that happens-before agrees with. For each place in memory the last write is kept, and
//! the reads and atomics since. Where these are ordered before the next write, so is all that came before them: one sweep
//! finds a race in each place that has one, and no more tests are made than there are accesses, but for atomics.

use std::collections::BTreeMap;

use super::order::Order;
use super::program::{Access, Operation, Programs, Range};
use super::trace::{Agents, Trace, View};

/// An access of a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Point {
    /// The thread.
    pub thread: u32,
    /// Its agent.
    pub agent: u32,
    /// Operations of the agent before it.
    pub operations: u32,
    /// Where in the program.
    pub site: u32,
    /// What it does.
    pub access: Access,
    /// To what.
    pub range: Range,
}

/// Accesses that race, of two sites.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Race {
    /// The first found, with the access that comes first in the execution.
    pub first: Point,
    /// And the other.
    pub second: Point,
    /// How often it was found for these sites.
    pub count: u64,
}

/// What the sweep found and did.
#[derive(Clone, Debug, Default)]
pub struct Swept {
    /// Races, one for each pair of sites, in the order of sites.
    pub races: Vec<Race>,
    /// Accesses of threads.
    pub accesses: u64,
    /// Bytes of shared memory that are accessed.
    pub bytes: u64,
    /// Pairs of accesses that were tested.
    pub pairs: u64,
}

/// Bytes of shared memory at most.
pub const MOST_BYTES: u32 = 1 << 20;

/// Lanes of an agent in a step.
#[derive(Clone, Copy, Debug)]
struct Piece {
    opened: u32,
    stream: u32,
    step: u32,
    agent: u32,
    operations: u32,
    lanes: u32,
}

#[derive(Clone, Copy, Debug)]
struct Last {
    thread: u32,
    agent: u32,
    operations: u32,
    piece: u32,
}

const NOBODY: Last = Last { thread: u32::MAX, agent: 0, operations: 0, piece: 0 };

#[derive(Clone, Debug)]
struct Cell {
    write: Last,
    reads: Vec<Last>,
    atomics: Vec<Last>,
}

/// Looks for races in a well-synchronized execution [nb-raceFree].
pub fn sweep(
    programs: &Programs,
    agents: &Agents,
    trace: &Trace,
    order: &Order,
) -> Result<Swept, &'static str> {
    let (pieces, granule, end) = pieces(programs, agents, trace);
    if end > u64::from(MOST_BYTES) {
        return Err("an access lies beyond 1 MiB of shared memory");
    }
    let cell = Cell { write: NOBODY, reads: Vec::new(), atomics: Vec::new() };
    let mut sweep = Sweep {
        programs,
        order,
        lockstep: agents.view == View::Lockstep,
        threads: agents.threads as usize,
        cells: vec![cell; end.div_ceil(u64::from(granule)) as usize],
        pieces: &pieces,
        found: BTreeMap::new(),
        swept: Swept::default(),
    };
    for (number, piece) in pieces.iter().enumerate() {
        let stream = &programs.streams[piece.stream as usize];
        let Operation::Access { access, bytes, ref addresses } = stream.steps[piece.step as usize].operation
        else {
            continue;
        };
        for lane in (0..32).filter(|lane| piece.lanes >> lane & 1 == 1) {
            let now = Last {
                thread: stream.first_thread + lane,
                agent: piece.agent,
                operations: piece.operations,
                piece: number as u32,
            };
            let start = addresses.at(lane);
            sweep.swept.accesses += 1;
            for cell in start / granule..(start + bytes).div_ceil(granule) {
                sweep.access(cell as usize, access, now);
            }
        }
    }
    let used = |cell: &&Cell| {
        cell.write.thread != NOBODY.thread || !cell.reads.is_empty() || !cell.atomics.is_empty()
    };
    let bytes = sweep.cells.iter().filter(used).count() as u64 * u64::from(granule);
    Ok(Swept { races: sweep.found.into_values().collect(), bytes, ..sweep.swept })
}

/// The accesses in an order that happens-before agrees with; the largest power of two that divides all addresses and sizes; the
/// end of the last.
fn pieces(programs: &Programs, agents: &Agents, trace: &Trace) -> (Vec<Piece>, u32, u64) {
    let mut pieces = Vec::new();
    let (mut bits, mut end) = (16u32, 0u64);
    for (number, stream) in programs.streams.iter().enumerate() {
        let own = &agents.of_stream[number];
        let mut behind = vec![0u32; own.len()];
        for (at, step) in stream.steps.iter().enumerate() {
            let classes = own.iter().enumerate().filter(|(_, (_, lanes))| lanes & step.lanes != 0);
            match &step.operation {
                Operation::Access { bytes, addresses, .. } => {
                    for lane in (0..32).filter(|lane| step.lanes >> lane & 1 == 1) {
                        let start = addresses.at(lane);
                        bits |= start | bytes;
                        end = end.max(u64::from(start) + u64::from(*bytes));
                    }
                    for (class, &(agent, lanes)) in classes {
                        pieces.push(Piece {
                            opened: trace.opened[agent as usize][behind[class] as usize],
                            stream: number as u32,
                            step: at as u32,
                            agent,
                            operations: behind[class],
                            lanes: lanes & step.lanes,
                        });
                    }
                }
                Operation::Meet { .. } if agents.view == View::Lockstep => {}
                _ => classes.for_each(|(class, _)| behind[class] += 1),
            }
        }
    }
    pieces.sort_unstable_by_key(|piece| (piece.opened, piece.stream, piece.step, piece.agent));
    (pieces, bits & bits.wrapping_neg(), end)
}

struct Sweep<'a> {
    programs: &'a Programs,
    order: &'a Order,
    lockstep: bool,
    threads: usize,
    cells: Vec<Cell>,
    pieces: &'a [Piece],
    found: BTreeMap<(u32, u32, Access, Access), Race>,
    swept: Swept,
}

impl Sweep<'_> {
    #[inline]
    fn access(&mut self, at: usize, access: Access, now: Last) {
        let write = self.cells[at].write;
        if write.thread != NOBODY.thread {
            self.test(write, now);
        }
        let mut reads = std::mem::take(&mut self.cells[at].reads);
        let mut atomics = std::mem::take(&mut self.cells[at].atomics);
        match access {
            Access::Read => {
                atomics.iter().for_each(|&last| self.test(last, now));
                push(&mut reads, now, self.threads, self.lockstep);
            }
            Access::Atomic => {
                reads.iter().for_each(|&last| self.test(last, now));
                push(&mut atomics, now, self.threads, self.lockstep);
            }
            Access::Write => {
                reads.iter().chain(&atomics).for_each(|&last| self.test(last, now));
                reads.clear();
                atomics.clear();
                self.cells[at].write = now;
            }
        }
        (self.cells[at].reads, self.cells[at].atomics) = (reads, atomics);
    }

    /// Two conflicting accesses, the earlier one of the execution first.
    #[inline]
    fn test(&mut self, one: Last, other: Last) {
        if one.thread == other.thread || self.lockstep && one.agent == other.agent && one.piece != other.piece
        {
            return;
        }
        self.swept.pairs += 1;
        if !self.order.access_before((one.agent, one.operations), (other.agent, other.operations)) {
            self.race(one, other);
        }
    }

    #[cold]
    fn race(&mut self, one: Last, other: Last) {
        let (first, second) = (self.point(one), self.point(other));
        let key = if (first.site, first.access) <= (second.site, second.access) {
            (first.site, second.site, first.access, second.access)
        } else {
            (second.site, first.site, second.access, first.access)
        };
        self.found.entry(key).or_insert(Race { first, second, count: 0 }).count += 1;
    }

    fn point(&self, last: Last) -> Point {
        let piece = self.pieces[last.piece as usize];
        let stream = &self.programs.streams[piece.stream as usize];
        let step = &stream.steps[piece.step as usize];
        let (access, range) = match &step.operation {
            Operation::Access { access, bytes, addresses } => {
                let start = addresses.at(last.thread - stream.first_thread);
                (*access, Range { start, bytes: *bytes })
            }
            _ => (Access::Read, Range { start: 0, bytes: 0 }),
        };
        let Last { thread, agent, operations, .. } = last;
        Point { thread, agent, operations, site: step.site, access, range }
    }
}

/// Adds an access; of a thread's the last one is enough, as it is ordered behind the others.
fn push(list: &mut Vec<Last>, now: Last, threads: usize, lockstep: bool) {
    if let Some(last) = list.last_mut()
        && last.thread == now.thread
    {
        *last = now;
        return;
    }
    list.push(now);
    if list.len() > 2 * threads + 64 {
        let key = |last: &Last| if lockstep { (last.agent, last.piece) } else { (last.thread, last.piece) };
        list.sort_by_key(|last| (last.thread, key(last).1));
        list.dedup_by(|later, earlier| {
            let same = later.thread == earlier.thread;
            if same {
                *earlier = *later;
            }
            same
        });
    }
}
