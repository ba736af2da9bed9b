//! Races in shared memory: conflicting accesses of two threads that happens-before leaves unordered (NB §4.2).
//!
//! The accesses are taken in an order that happens-before agrees with. For each place in memory the last write is kept, and
//! the reads and atomics since. Where these are ordered before the next write, so is all that came before them: one sweep
//! finds a race in each place that has one, and no more tests are made than there are accesses, but for atomics.
//!
//! A copy begins where its command is and ends where its thread, or a phase that counts it, has been waited for: until then it
//! is ordered before nothing. Mbarrier objects are memory too: initialization and invalidation write it, other operations
//! are atomic.

use std::borrow::Cow;
use std::collections::BTreeMap;

use super::agents::{Agents, Does, View};
use super::order::Order;
use super::program::{Access, Act, Addresses, Operation, Programs, Queue, Range};
use super::trace::Trace;

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
    /// They are ordered, but the first made the bytes an mbarrier object and the second is no operation on it.
    pub on_object: bool,
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
pub const MOST_BYTES: u32 = 1 << 22;

/// Lanes of an agent in a step.
#[derive(Clone, Copy, Debug)]
struct Piece {
    opened: u32,
    stream: u32,
    step: u32,
    agent: u32,
    operations: u32,
    lanes: u32,
    /// It is over once a row has more than `number` of this column.
    column: u32,
    number: u32,
}

#[derive(Clone, Copy, Debug)]
struct Last {
    thread: u32,
    piece: u32,
    column: u32,
    number: u32,
}

const NOBODY: Last = Last { thread: u32::MAX, piece: 0, column: 0, number: 0 };

#[derive(Clone, Debug)]
struct Cell {
    /// What made it part of an mbarrier object.
    object: Last,
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
        return Err("an access lies beyond 4 MiB of shared memory");
    }
    let cell = Cell { object: NOBODY, write: NOBODY, reads: Vec::new(), atomics: Vec::new() };
    let mut sweep = Sweep {
        programs,
        agents,
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
        let operation = &stream.steps[piece.step as usize].operation;
        let Some((access, bytes, addresses)) = accessed(operation) else { continue };
        let object = match operation {
            Operation::Object { act: Act::Init { .. }, .. } => Object::Begins,
            Operation::Object { act: Act::Inval, .. } => Object::Ends,
            Operation::Access { .. } | Operation::Copy { .. } | Operation::Bulk { .. } => Object::None,
            _ => Object::Used,
        };
        for lane in (0..32).filter(|lane| piece.lanes >> lane & 1 == 1) {
            let now = Last {
                thread: stream.first_thread + lane,
                piece: number as u32,
                column: piece.column,
                number: piece.number,
            };
            let start = addresses.at(lane);
            sweep.swept.accesses += u64::from(object == Object::None);
            for cell in start / granule..(start + bytes).div_ceil(granule) {
                sweep.access(cell as usize, access, now);
                sweep.object(cell as usize, object, now);
            }
        }
    }
    let used = |cell: &&Cell| {
        cell.write.thread != NOBODY.thread || !cell.reads.is_empty() || !cell.atomics.is_empty()
    };
    let bytes = sweep.cells.iter().filter(used).count() as u64 * u64::from(granule);
    Ok(Swept { races: sweep.found.into_values().collect(), bytes, ..sweep.swept })
}

/// What an access is to an mbarrier object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Object {
    None,
    Begins,
    Used,
    Ends,
}

/// Bytes of an mbarrier object.
const OBJECT_BYTES: u32 = 8;

/// The shared memory that a step accesses.
fn accessed(operation: &Operation) -> Option<(Access, u32, Cow<'_, Addresses>)> {
    let object = |access, object: u32| {
        Some((access, OBJECT_BYTES, Cow::Owned(Addresses::Affine { base: object, stride: 0 })))
    };
    match operation {
        Operation::Access { access, bytes, addresses } => Some((*access, *bytes, Cow::Borrowed(addresses))),
        Operation::Copy { queue, bytes, addresses, .. } => {
            Some((queue.access(), *bytes, Cow::Borrowed(addresses)))
        }
        Operation::Bulk { bytes, addresses, .. } => Some((Access::Copy, *bytes, Cow::Borrowed(addresses))),
        Operation::Object { object: at, act: Act::Init { .. } | Act::Inval, .. } => {
            object(Access::Write, *at)
        }
        Operation::Object { object: at, .. } | Operation::CopiesArrive { object: at, .. } => {
            object(Access::Atomic, *at)
        }
        _ => None,
    }
}

/// The accesses in an order that happens-before agrees with; the largest power of two that divides all addresses and sizes; the
/// end of the last.
fn pieces(programs: &Programs, agents: &Agents, trace: &Trace) -> (Vec<Piece>, u32, u64) {
    let mut pieces = Vec::new();
    let (mut bits, mut end) = (16u32, 0u64);
    for (number, stream) in programs.streams.iter().enumerate() {
        let (own, number_of_stream) = (&agents.of_stream[number], number as u32);
        let mut behind = vec![0u32; own.len()];
        for (at, step) in stream.steps.iter().enumerate() {
            let is_access = matches!(step.operation, Operation::Access { .. });
            let left_out = agents.view == View::Lockstep && step.operation.is_of_threads();
            if let Some((_, bytes, addresses)) = accessed(&step.operation) {
                for lane in (0..32).filter(|lane| step.lanes >> lane & 1 == 1) {
                    let start = addresses.at(lane);
                    bits |= start | bytes;
                    end = end.max(u64::from(start) + u64::from(bytes));
                }
                let classes = own.iter().enumerate().filter(|(_, (_, lanes))| lanes & step.lanes != 0);
                for (class, &(agent, lanes)) in classes {
                    let of = &agents.list[agent as usize];
                    let op = if is_access { None } else { of.ops.get(behind[class] as usize) };
                    let (column, number) = match op.map(|op| (op, op.does)) {
                        Some((op, Does::Copies(queue))) => (of.copies[queue as usize], op.number),
                        Some((op, Does::CopiesBulk(_))) => (of.bulk(op.barrier), op.number),
                        _ => (agent, behind[class]),
                    };
                    pieces.push(Piece {
                        opened: trace.opened[agent as usize][behind[class] as usize],
                        stream: number_of_stream,
                        step: at as u32,
                        agent,
                        operations: behind[class],
                        lanes: lanes & step.lanes,
                        column,
                        number,
                    });
                }
            }
            if !(is_access || left_out) {
                let classes = own.iter().enumerate().filter(|(_, (_, lanes))| lanes & step.lanes != 0);
                classes.for_each(|(class, _)| behind[class] += 1);
            }
        }
    }
    pieces.sort_unstable_by_key(|piece| (piece.opened, piece.stream, piece.step, piece.agent));
    (pieces, bits & bits.wrapping_neg(), end)
}

struct Sweep<'a> {
    programs: &'a Programs,
    agents: &'a Agents,
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
            Access::Read | Access::Source => {
                atomics.iter().for_each(|&last| self.test(last, now));
                push(&mut reads, now, self.threads);
            }
            Access::Atomic => {
                reads.iter().for_each(|&last| self.test(last, now));
                push(&mut atomics, now, self.threads);
            }
            Access::Write | Access::Copy => {
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
        let (own, copy) = (one.thread == other.thread, one.column >= self.agents.list.len() as u32);
        let in_program = own || self.lockstep && one.column == other.column && one.piece != other.piece;
        if in_program && !copy {
            return;
        }
        self.swept.pairs += 1;
        let later = self.pieces[other.piece as usize];
        let row = self.order.waited(later.agent, later.operations);
        let awaited = || one.number < self.awaited(one, later, own);
        if one.number >= self.order.at(row, one.column) && !(copy && awaited()) {
            self.race(one, other, false);
        }
    }

    /// How many of its copies, of those that groups count, a thread has waited for, or of the products of its warpgroup.
    #[cold]
    fn awaited(&self, copy: Last, later: Piece, own: bool) -> u32 {
        let agent = &self.agents.list[later.agent as usize];
        if agent.products.contains(&copy.column) {
            return agent.awaited(Queue::Products as usize, later.operations);
        }
        if !own {
            return 0;
        }
        let queue = agent.copies.iter().position(|column| *column == copy.column);
        queue.map_or(0, |queue| agent.awaited(queue, later.operations))
    }

    /// The bytes of an object are those of its operations from its initialization to its invalidation.
    #[inline]
    fn object(&mut self, at: usize, what: Object, now: Last) {
        match what {
            Object::Begins => self.cells[at].object = now,
            Object::Ends => self.cells[at].object = NOBODY,
            Object::Used => {}
            Object::None => {
                let object = self.cells[at].object;
                if object.thread != NOBODY.thread {
                    self.race(object, now, true);
                }
            }
        }
    }

    #[cold]
    fn race(&mut self, one: Last, other: Last, on_object: bool) {
        let (first, second) = (self.point(one), self.point(other));
        let key = if (first.site, first.access) <= (second.site, second.access) {
            (first.site, second.site, first.access, second.access)
        } else {
            (second.site, first.site, second.access, first.access)
        };
        self.found.entry(key).or_insert(Race { first, second, count: 0, on_object }).count += 1;
    }

    fn point(&self, last: Last) -> Point {
        let piece = self.pieces[last.piece as usize];
        let stream = &self.programs.streams[piece.stream as usize];
        let step = &stream.steps[piece.step as usize];
        let (access, range) = match accessed(&step.operation) {
            Some((access, bytes, addresses)) => {
                let start = addresses.at(last.thread - stream.first_thread);
                (access, Range { start, bytes })
            }
            None => (Access::Read, Range { start: 0, bytes: 0 }),
        };
        let (thread, agent, operations) = (last.thread, piece.agent, piece.operations);
        Point { thread, agent, operations, site: step.site, access, range }
    }
}

/// Adds an access; of a thread's the last one is enough, as it is ordered behind the others. What goes on beside the thread
/// is not, but behind those of its own kind.
fn push(list: &mut Vec<Last>, now: Last, threads: usize) {
    if let Some(last) = list.last_mut()
        && (last.thread, last.column) == (now.thread, now.column)
    {
        *last = now;
        return;
    }
    list.push(now);
    if list.len() > 2 * threads + 64 {
        list.sort_by_key(|last| (last.thread, last.column, last.piece));
        list.dedup_by(|later, earlier| {
            let same = (later.thread, later.column) == (earlier.thread, earlier.column);
            if same {
                *earlier = *later;
            }
            same
        });
    }
}
