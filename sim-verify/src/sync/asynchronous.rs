//! The literal semantics of mbarrier objects, copies and the barrier of a cluster, one step at a time: a copy is in flight
//! until it lands, which is a step of its own.

use super::object::{MOST, Misuse};
use super::program::{Act, Block, Command};
use super::semantics::{Configuration, Error, Label, Successor};

/// An mbarrier object.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Object {
    /// It is initialized and not invalidated.
    pub valid: bool,
    /// How often it was initialized.
    pub initialized: u32,
    /// Phases that are complete since.
    pub phase: u32,
    /// Arrivals that a phase begins with.
    pub expected: u32,
    /// Arrivals that this one waits for.
    pub pending: u32,
    /// Bytes that it waits for.
    pub bytes: i64,
}

impl Object {
    /// A number of its phase that no other phase has.
    pub fn number(&self) -> u32 {
        self.initialized * 64 + self.phase + 1
    }

    fn arrive(&mut self, count: u32) -> Result<(), Misuse> {
        if count > self.pending {
            return Err(Misuse::TooManyArrivals);
        }
        self.pending -= count;
        Ok(())
    }

    fn complete(&mut self) {
        if self.pending == 0 && self.bytes == 0 {
            self.phase += 1;
            self.pending = self.expected;
        }
    }
}

/// The barrier of the cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Cluster {
    /// Phases that are complete.
    pub phase: u32,
    /// Threads that have arrived in this one.
    pub arrived: Vec<u8>,
    /// By thread: the number, from 1, of the phase at which it has arrived without having waited; 0 for none.
    pub open: Vec<u32>,
}

impl Configuration {
    /// The object of a number.
    fn valid(&mut self, object: u32) -> Result<&mut Object, Misuse> {
        let object = &mut self.objects[object as usize];
        if object.valid { Ok(object) } else { Err(Misuse::NotInitialized) }
    }

    /// A thread's command, if it is one of these; `Ok(None)` where it waits.
    pub(super) fn other(
        &self,
        block: &Block,
        thread: usize,
        command: Command,
    ) -> Result<Option<Self>, Misuse> {
        let mut next = self.clone();
        let at = self.points[thread];
        next.points[thread] += 1;
        match command {
            Command::Object(object, act) => {
                if let Act::Init { count } = act {
                    let object = &mut next.objects[object as usize];
                    if object.valid {
                        return Err(Misuse::StillValid);
                    }
                    if !(1..=MOST).contains(&count) {
                        return Err(Misuse::Count);
                    }
                    let initialized = object.initialized + 1;
                    *object = Object {
                        valid: true,
                        initialized,
                        expected: count,
                        pending: count,
                        ..Object::default()
                    };
                    return Ok(Some(next));
                }
                let object = next.valid(object)?;
                match act {
                    Act::Init { .. } => {}
                    Act::Inval => object.valid = false,
                    Act::Arrive { count, bytes, drop } => {
                        object.bytes += i64::from(bytes);
                        object.arrive(count)?;
                        object.expected -= if drop { count.min(object.expected) } else { 0 };
                        object.complete();
                    }
                    Act::Expect { bytes } => object.bytes += i64::from(bytes),
                    Act::Complete { bytes } => {
                        object.bytes -= i64::from(bytes);
                        object.complete();
                    }
                    Act::Wait { odd } => {
                        if (object.phase % 2 == 1) == odd {
                            return Ok(None);
                        }
                    }
                }
            }
            Command::Copy(_) | Command::Bulk { .. } => next.flights.push((thread as u8, at)),
            Command::CopiesArrive { object, inc } => {
                if inc {
                    next.valid(object)?.pending += 1;
                }
                next.flights.push((thread as u8, at));
            }
            Command::Await(newest) => {
                let commands = &block.threads[thread][..usize::from(at)];
                // Commands before the last commit but so many.
                let mut commits = (0..commands.len()).rev().filter(|i| commands[*i] == Command::Commit);
                let before = match newest {
                    None => usize::from(at),
                    Some(newest) => commits.nth(newest.into()).unwrap_or(0),
                };
                if self.copies(block, thread, before) {
                    return Ok(None);
                }
            }
            Command::ClusterArrive => {
                if self.cluster.open[thread] != 0 {
                    return Err(Misuse::ArrivedTwice);
                }
                next.cluster.open[thread] = self.cluster.phase + 1;
                next.cluster.arrived.push(thread as u8);
            }
            Command::ClusterWait => {
                let phase = self.cluster.open[thread];
                if phase == 0 {
                    return Err(Misuse::NotArrived);
                }
                if self.cluster.phase < phase {
                    return Ok(None);
                }
                next.cluster.open[thread] = 0;
            }
            Command::Observe(event) => {
                let mut done = block
                    .threads
                    .iter()
                    .zip(&self.points)
                    .flat_map(|(thread, point)| &thread[..usize::from(*point).min(thread.len())]);
                if !done.any(|command| *command == Command::Signal(event)) {
                    return Ok(None);
                }
            }
            Command::Signal(_)
            | Command::Commit
            | Command::Access(..)
            | Command::Arrive { .. }
            | Command::Sync { .. } => {}
        }
        next.flights.sort_unstable();
        next.end_cluster_phase(block);
        Ok(Some(next))
    }

    /// Copies of a thread, of those that groups count, are in flight among its first commands.
    fn copies(&self, block: &Block, thread: usize, commands: usize) -> bool {
        self.flights.iter().any(|&(of, at)| {
            let copy = matches!(block.threads[thread].get(usize::from(at)), Some(Command::Copy(_)));
            usize::from(of) == thread && usize::from(at) < commands && copy
        })
    }

    /// All threads that have not returned have arrived at the barrier of the cluster: the next phase begins.
    pub(super) fn end_cluster_phase(&mut self, block: &Block) {
        let live = |thread: usize| usize::from(self.points[thread]) <= block.threads[thread].len();
        let mut threads = (0..block.threads.len()).filter(|thread| live(*thread));
        let arrived = threads.all(|thread| self.cluster.arrived.contains(&(thread as u8)));
        if arrived && !self.cluster.arrived.is_empty() {
            self.cluster.arrived.clear();
            self.cluster.phase += 1;
        }
        self.cluster.arrived.sort_unstable();
    }

    /// What is in flight lands, one after the other in any order; arrivals after the copies of their thread.
    pub(super) fn landings(&self, block: &Block) -> Vec<Successor> {
        let mut out = Vec::new();
        for (number, &(thread, at)) in self.flights.iter().enumerate() {
            let mut next = self.clone();
            next.flights.remove(number);
            let command = block.threads[usize::from(thread)][usize::from(at)];
            let landed = match command {
                Command::CopiesArrive { .. } if self.copies(block, thread.into(), at.into()) => continue,
                Command::CopiesArrive { object, .. } => next.valid(object).and_then(|object| {
                    object.arrive(1)?;
                    object.complete();
                    Ok(())
                }),
                Command::Bulk { object, to } => next.valid(object).map(|object| {
                    object.bytes -= i64::from(to.bytes);
                    object.complete();
                }),
                _ => Ok(()),
            };
            let label = Label::Landed(thread, at);
            out.push((label, landed.map(|()| next).map_err(|what| Error::Misuse { thread, what })));
        }
        out
    }
}
