//! The operational semantics of NB §3, rule by rule. Slow and literal: what the fast decision is tested against.

use super::asynchronous::{Cluster, Object};
use super::object::Misuse;
use super::program::{Block, Command};

/// A barrier: `B(b) = (I, A, n)`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Barrier {
    /// `I`: threads that wait, in the order of their numbers.
    pub syncs: Vec<u8>,
    /// `A`: threads that have arrived, in the order of their numbers.
    pub arrives: Vec<u8>,
    /// `n`: `None` is `⊥`. The inner `None`: all threads that have not returned.
    pub count: Option<Option<u32>>,
    /// How often it was recycled: no part of NB's state; generations are numbered by it.
    pub recycled: u32,
}

impl Barrier {
    /// `|I| + |A|`.
    pub fn registered(&self) -> u32 {
        (self.syncs.len() + self.arrives.len()) as u32
    }
}

/// A configuration: the state `(E, B)`, which threads are enabled and the barriers, and how far each thread is
/// [nb-state]. Threads are numbered up to 255.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Configuration {
    /// `E`.
    pub enabled: Vec<bool>,
    /// `B`, by number.
    pub barriers: Vec<Barrier>,
    /// Commands that each thread has executed; one more once it has returned.
    pub points: Vec<u16>,
    /// Mbarrier objects, by number.
    pub objects: Vec<Object>,
    /// What is in flight: copies and arrivals, by thread and command.
    pub flights: Vec<(u8, u16)>,
    /// The barrier of the cluster.
    pub cluster: Cluster,
}

/// `err`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Error {
    /// A thread expects another number of threads than the barrier does.
    CountMismatch {
        /// The thread.
        thread: u8,
        /// The barrier.
        barrier: u32,
    },
    /// As many threads as the barrier expects have registered, and one more comes.
    TooMany {
        /// The thread.
        thread: u8,
        /// The barrier.
        barrier: u32,
    },
    /// An operation that must not be there, which NB does not have.
    Misuse {
        /// The thread.
        thread: u8,
        /// Why.
        what: Misuse,
    },
}

/// What a step did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Label {
    /// A thread executed a command, or registered and waits.
    Thread(u8),
    /// A barrier was recycled: its waiting threads have executed their `sync`.
    Recycled(u32),
    /// What this command of the thread began has ended.
    Landed(u8, u16),
}

/// A step: what it did, and what it led to.
pub type Successor = (Label, Result<Configuration, Error>);

impl Configuration {
    /// `I`: all threads are enabled, no barrier is configured.
    pub fn initial(block: &Block) -> Self {
        let of = |command: &Command| match *command {
            Command::Arrive { barrier, .. } | Command::Sync { barrier, .. } => barrier as usize + 1,
            _ => 0,
        };
        let object = |command: &Command| match *command {
            Command::Object(object, _)
            | Command::CopiesArrive { object, .. }
            | Command::Bulk { object, .. } => object as usize + 1,
            _ => 0,
        };
        let objects = block.threads.iter().flatten().map(object).max().unwrap_or(0);
        let barriers = block.threads.iter().flatten().map(of).max().unwrap_or(0);
        Self {
            enabled: vec![true; block.threads.len()],
            barriers: vec![Barrier::default(); barriers],
            points: vec![0; block.threads.len()],
            objects: vec![Object::default(); objects],
            flights: Vec::new(),
            cluster: Cluster { open: vec![0; block.threads.len()], ..Cluster::default() },
        }
    }

    fn returned(&self, block: &Block, thread: usize) -> bool {
        self.points[thread] as usize > block.threads[thread].len()
    }

    /// All threads execute `return` [nb-done]; barriers may be left as they are. Nothing is in flight.
    pub fn done(&self, block: &Block) -> bool {
        self.flights.is_empty()
            && (0..block.threads.len()).all(|t| self.points[t] as usize >= block.threads[t].len())
    }

    /// As many threads have registered as the barrier expects.
    pub fn full(&self, block: &Block, barrier: &Barrier) -> bool {
        let live = || (0..block.threads.len()).filter(|&t| !self.returned(block, t)).count() as u32;
        match barrier.count {
            None => false,
            Some(Some(n)) => barrier.registered() == n,
            Some(None) => barrier.registered() == live(),
        }
    }

    /// Every configuration that one step leads to. The rule of the block: a thread steps where no barrier is full
    /// [nb-step]; a full barrier is recycled; a thread's error is the block's.
    pub fn successors(&self, block: &Block) -> Vec<Successor> {
        let full: Vec<u32> = (0..self.barriers.len())
            .filter(|&b| self.full(block, &self.barriers[b]))
            .map(|b| b as u32)
            .collect();
        let mut out: Vec<Successor> =
            full.iter().map(|&b| (Label::Recycled(b), Ok(self.recycle(b)))).collect();
        for thread in 0..block.threads.len() {
            match self.thread(block, thread) {
                Some(Err(errors)) => {
                    out.extend(errors.into_iter().map(|e| (Label::Thread(thread as u8), Err(e))));
                }
                Some(Ok(next)) if full.is_empty() => out.push((Label::Thread(thread as u8), Ok(next))),
                Some(Ok(_)) | None => {}
            }
        }
        if full.is_empty() {
            out.extend(self.landings(block));
        }
        out
    }

    /// Threads that wait are enabled and are past their `sync`, and the barrier is not configured [nb-recycle].
    fn recycle(&self, b: u32) -> Self {
        let mut next = self.clone();
        let barrier = &mut next.barriers[b as usize];
        let old = std::mem::take(barrier);
        barrier.recycled = old.recycled + 1;
        for thread in old.syncs {
            next.enabled[usize::from(thread)] = true;
            next.points[usize::from(thread)] += 1;
        }
        next
    }

    /// A thread's step; `None` where it has returned or waits.
    fn thread(&self, block: &Block, thread: usize) -> Option<Result<Self, Vec<Error>>> {
        let Some(command) = block.threads[thread].get(self.points[thread] as usize) else {
            // `return`, which matters to barriers without a count only: as a step of its own just where one is begun.
            let matters = self.barriers.iter().any(|barrier| barrier.count == Some(None))
                || !self.cluster.arrived.is_empty();
            return (matters && !self.returned(block, thread)).then(|| {
                let mut next = self.clone();
                next.points[thread] += 1;
                next.end_cluster_phase(block);
                Ok(next)
            });
        };
        if !self.enabled[thread] {
            return None;
        }
        let (barrier, count, waits) = match *command {
            Command::Access(..) => {
                let mut next = self.clone();
                next.points[thread] += 1;
                return Some(Ok(next));
            }
            Command::Arrive { barrier, count } => (barrier, Some(count), false),
            Command::Sync { barrier, count } => (barrier, count, true),
            other => {
                let misuse = |what| vec![Error::Misuse { thread: thread as u8, what }];
                return self.other(block, thread, other).map_err(misuse).transpose();
            }
        };
        let errors = self.errors(block, thread as u8, barrier, count);
        if !errors.is_empty() {
            return Some(Err(errors));
        }
        Some(Ok(if waits {
            self.sync(block, thread as u8, barrier, count)
        } else {
            self.arrive(block, thread as u8, barrier, count)
        }))
    }

    /// The error productions, of `sync` as of `arrive`: the thread counts differ [nb-errCount]; the barrier has all the
    /// threads it expects [nb-errMany].
    fn errors(&self, block: &Block, thread: u8, barrier: u32, count: Option<u32>) -> Vec<Error> {
        let at = &self.barriers[barrier as usize];
        let mut errors = Vec::new();
        let Some(expected) = at.count else { return errors };
        if agreed(expected, count, block.threads.len() as u32).is_none() {
            errors.push(Error::CountMismatch { thread, barrier });
        }
        if self.full(block, at) {
            errors.push(Error::TooMany { thread, barrier });
        }
        errors
    }

    /// `arrive`: at a barrier that is not configured it sets the count [nb-arriveFirst]; at one that is, it is added to the
    /// others [nb-arriveLater]. The thread goes on.
    fn arrive(&self, block: &Block, thread: u8, barrier: u32, count: Option<u32>) -> Self {
        let mut next = self.clone();
        let at = &mut next.barriers[barrier as usize];
        at.count = match at.count {
            None => Some(count),
            Some(expected) => agreed(expected, count, block.threads.len() as u32),
        };
        insert(&mut at.arrives, thread);
        next.points[usize::from(thread)] += 1;
        next
    }

    /// `sync`: as `arrive` at a barrier that is not configured [nb-syncFirst] or that is [nb-syncLater], but the thread is
    /// disabled and stays where it is.
    fn sync(&self, block: &Block, thread: u8, barrier: u32, count: Option<u32>) -> Self {
        let mut next = self.clone();
        let at = &mut next.barriers[barrier as usize];
        at.count = match at.count {
            None => Some(count),
            Some(expected) => agreed(expected, count, block.threads.len() as u32),
        };
        insert(&mut at.syncs, thread);
        next.enabled[usize::from(thread)] = false;
        next
    }
}

/// The count of a barrier that expects `one`, after an arrival with `other`: a number that is written stands, and a
/// `sync` without one agrees with the number of all threads only. `None`: they do not agree.
pub fn agreed(one: Option<u32>, other: Option<u32>, threads: u32) -> Option<Option<u32>> {
    match (one, other) {
        _ if one == other => Some(one),
        (None, Some(n)) | (Some(n), None) if n == threads => Some(Some(n)),
        _ => None,
    }
}

/// Lists of threads are sorted: in which order they came decides nothing.
fn insert(list: &mut Vec<u8>, thread: u8) {
    let at = list.partition_point(|&other| other <= thread);
    list.insert(at, thread);
}
