//! What atomic operations on shared memory order: which release each acquire has read in the run.
//!
//! A release and the acquire that reads what it wrote, or what a later read-modify-write of the same word made of it, are an
//! event between two threads (PTX ISA "Release and Acquire Patterns", "Synchronizes-with"). A fence makes a release or an
//! acquire of a relaxed operation. Another run may read in another order, so that this is one of the things that a verdict
//! is for.

use std::collections::BTreeMap;

use sim_core::recording::{Orders, Who};
use sim_verify::sync::program::{LANES, Operation, Step, Stream};

/// Events that a word holds at most: releases by operations that acquire nothing add up.
const MOST_EVENTS: usize = 1024;

/// A lane's last fence, and what it has read since.
#[derive(Clone, Debug, Default)]
struct Lane {
    /// Steps of its stream before the last fence that releases, and where that is.
    fence: Option<(usize, u32)>,
    /// Events that it has read without acquiring them.
    read: Vec<u32>,
}

/// The order of the atomic operations of a block.
#[derive(Debug)]
pub struct Atomics {
    /// By address: the releases that a read of it synchronizes with. A store in between would end them; it races with both
    /// sides, or is ordered between them, so that they are ordered without.
    words: BTreeMap<u32, Vec<u32>>,
    events: u32,
    /// By stream and lane.
    lanes: Vec<[Lane; LANES]>,
    /// Signals at fences, by stream, steps before, and lane: the event, and where.
    fences: BTreeMap<(usize, usize, usize), (u32, u32)>,
    /// Where the first acquire is.
    pub first: Option<u32>,
}

/// What atomic operations are told to be too many of.
const TOO_MANY: &str = "more than 1,024 releases to one word that no operation on it acquires";

fn each(mask: u32) -> impl Iterator<Item = usize> {
    (0..LANES).filter(move |lane| mask >> lane & 1 == 1)
}

impl Atomics {
    /// Of a block of so many warps.
    pub fn new(warps: usize) -> Self {
        let lanes = (0..warps).map(|_| std::array::from_fn(|_| Lane::default())).collect();
        Self { words: BTreeMap::new(), events: 0, lanes, fences: BTreeMap::new(), first: None }
    }

    /// A block more, of so many warps.
    pub fn add(&mut self, warps: usize) {
        self.lanes.extend((0..warps).map(|_| std::array::from_fn(|_| Lane::default())));
    }

    fn observe(&mut self, stream: &mut Stream, lane: usize, pc: u32, events: &[u32]) {
        for &event in events {
            self.first.get_or_insert(pc);
            stream.steps.push(Step {
                lanes: 1 << lane,
                site: pc,
                operation: Operation::Observe { event, relaxed: false },
            });
        }
    }

    /// A fence, of lanes of the warp with this number.
    pub fn fence(&mut self, stream: &mut Stream, warp: usize, who: Who, orders: Orders) {
        for lane in each(who.lanes) {
            if orders.acquires {
                let read = std::mem::take(&mut self.lanes[warp][lane].read);
                self.observe(stream, lane, who.pc, &read);
            }
            if orders.releases {
                self.lanes[warp][lane].fence = Some((stream.steps.len(), who.pc));
            }
        }
    }

    /// An atomic operation, whose step is `access`.
    ///
    /// # Errors
    /// Too many releases.
    pub fn atomic(
        &mut self,
        stream: &mut Stream,
        warp: usize,
        who: Who,
        orders: Orders,
        addresses: &[u64; LANES],
        access: Step,
    ) -> Result<(), &'static str> {
        let mut signals = Vec::new();
        for lane in each(who.lanes) {
            let word = addresses[lane] as u32;
            let mut held = self.words.remove(&word).unwrap_or_default();
            // A step of the lane between the fence and this operation is not released by it.
            let fence = self.lanes[warp][lane].fence.filter(|_| orders.writes);
            let apart = |&(at, _): &(usize, u32)| stream.steps[at..].iter().any(|s| s.lanes >> lane & 1 == 1);
            let distant = fence.filter(apart);
            if orders.reads && orders.acquires {
                self.observe(stream, lane, who.pc, &held);
            } else if orders.reads {
                let read = &mut self.lanes[warp][lane].read;
                held.iter().for_each(|event| {
                    if !read.contains(event) {
                        read.push(*event);
                    }
                });
            }
            let event = match (orders.writes && (orders.releases || fence.is_some()), distant) {
                (false, _) => None,
                (true, Some((at, pc))) if !orders.releases => {
                    let next = self.events;
                    let (event, _) = *self.fences.entry((warp, at, lane)).or_insert((next, pc));
                    self.events += u32::from(event == next);
                    Some(event)
                }
                (true, _) => {
                    let event = self.events;
                    self.events += 1;
                    let operation = Operation::Signal { event, relaxed: false };
                    signals.push(Step { lanes: 1 << lane, site: who.pc, operation });
                    if orders.reads && orders.acquires {
                        // Who reads this one has what this one has acquired.
                        held.clear();
                    }
                    Some(event)
                }
            };
            if let Some(event) = event.filter(|event| !held.contains(event)) {
                held.push(event);
            }
            if held.len() > MOST_EVENTS {
                return Err(TOO_MANY);
            }
            if !held.is_empty() {
                self.words.insert(word, held);
            }
        }
        stream.steps.push(access);
        stream.steps.extend(signals);
        Ok(())
    }

    /// Puts the signals of fences where these are.
    pub fn place_fences(&mut self, streams: &mut [Stream]) {
        for ((warp, at, lane), (event, pc)) in std::mem::take(&mut self.fences).into_iter().rev() {
            let operation = Operation::Signal { event, relaxed: false };
            streams[warp].steps.insert(at, Step { lanes: 1 << lane, site: pc, operation });
        }
    }
}
