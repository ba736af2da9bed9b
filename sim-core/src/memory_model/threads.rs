//! What threads know of each other: clocks, the fences they have executed, the releases they have observed.

use sim_memory::vocabulary::{LaneMask, Scope, Semantics, WARP_LANES};

use super::clock::{Clock, Point, Thread};
use crate::reconvergence::Lanes;

/// Releases that a thread has observed and not yet acquired, at most; older ones are dropped.
const MOST_OBSERVED: usize = 16;

/// A release pattern (MM §3.4.1): its first operation, and what precedes it.
#[derive(Clone, Debug)]
pub struct Release {
    /// Scope of the first operation.
    pub scope: Scope,
    /// Where its thread stood.
    pub point: Point,
    /// What its thread knew.
    pub clock: Clock,
}

/// True if two strong operations have scopes that include each other's thread. Blocks of one cluster are not told from
/// others: operations of cluster scope in different blocks count as not morally strong.
pub fn inclusive(a: (Scope, Thread), b: (Scope, Thread)) -> bool {
    a.1.block == b.1.block || (a.0 >= Scope::Gpu && b.0 >= Scope::Gpu)
}

/// A warp of a block.
#[derive(Clone, Debug)]
pub struct Warp {
    /// Number of its block.
    pub block: u32,
    /// Index in the block of its first thread.
    pub first: u32,
    /// Its threads.
    pub threads: LaneMask,
    clocks: [Clock; WARP_LANES],
    epochs: [u32; WARP_LANES],
    /// For each lane: its last fence of each scope.
    fences: [Vec<Release>; WARP_LANES],
    observed: [Vec<Release>; WARP_LANES],
    snapshot: Option<std::sync::Arc<Snapshot>>,
}

/// The points of a warp's threads at an access, and what they knew.
#[derive(Clone, Debug)]
pub struct Snapshot {
    clocks: [Clock; WARP_LANES],
    epochs: [u32; WARP_LANES],
    block: u32,
    first: u32,
    phase: u32,
}

impl Snapshot {
    /// The thread of a lane.
    pub fn thread(&self, lane: usize) -> Thread {
        Thread { block: self.block, index: self.first + lane as u32 }
    }

    /// The point of a lane's thread at the access.
    pub fn point(&self, lane: usize) -> Point {
        Point { thread: self.thread(lane), epoch: self.epochs[lane], phase: self.phase }
    }

    /// The vector clock of a lane's thread at the access.
    pub fn clock(&self, lane: usize) -> &Clock {
        &self.clocks[lane]
    }
}

/// The sequentially consistent fences of some scope so far.
pub type ScOrder = Clock;

impl Warp {
    /// A warp that starts.
    pub fn new(block: u32, first: u32, threads: LaneMask) -> Self {
        Self {
            block,
            first,
            threads,
            clocks: Default::default(),
            epochs: [0; WARP_LANES],
            fences: Default::default(),
            observed: Default::default(),
            snapshot: None,
        }
    }

    /// The thread of a lane.
    pub fn thread(&self, lane: usize) -> Thread {
        Thread { block: self.block, index: self.first + lane as u32 }
    }

    /// Where its threads stand, in the `phase` of their block.
    pub fn snapshot(&mut self, phase: u32) -> std::sync::Arc<Snapshot> {
        if let Some(known) = self.snapshot.as_ref().filter(|known| known.phase == phase) {
            return std::sync::Arc::clone(known);
        }
        let new = std::sync::Arc::new(Snapshot {
            clocks: self.clocks.clone(),
            epochs: self.epochs,
            block: self.block,
            first: self.first,
            phase,
        });
        self.snapshot = Some(std::sync::Arc::clone(&new));
        new
    }

    fn release(&mut self, lane: usize, scope: Scope, phase: u32) -> Release {
        let point = Point { thread: self.thread(lane), epoch: self.epochs[lane], phase };
        self.epochs[lane] += 1;
        self.snapshot = None;
        Release { scope, point, clock: self.clocks[lane].clone() }
    }

    /// The release patterns that a strong store of a lane ends: its own, and those of fences before it.
    pub fn releases(
        &mut self,
        lane: usize,
        semantics: Semantics,
        scope: Scope,
        phase: u32,
        out: &mut Vec<(u8, Release)>,
    ) {
        out.extend(self.fences[lane].iter().map(|fence| (lane as u8, fence.clone())));
        if matches!(semantics, Semantics::Release | Semantics::AcqRel | Semantics::Sc) {
            out.push((lane as u8, self.release(lane, scope, phase)));
        }
    }

    /// A lane learns of what precedes a release.
    fn acquire(&mut self, lane: usize, release: &Release) {
        self.clocks[lane].join(&release.clock);
        self.clocks[lane].add(release.point);
        self.snapshot = None;
    }

    /// A strong load of a lane observes a release (MM §3.4.1): at once, or when a fence follows.
    pub fn observe(&mut self, lane: usize, semantics: Semantics, scope: Scope, release: &Release) {
        let thread = self.thread(lane);
        if release.point.thread == thread {
            return;
        }
        if matches!(semantics, Semantics::Acquire | Semantics::AcqRel | Semantics::Sc)
            && inclusive((scope, thread), (release.scope, release.point.thread))
        {
            self.acquire(lane, release);
        }
        let observed = &mut self.observed[lane];
        if observed.len() >= MOST_OBSERVED {
            observed.remove(0);
        }
        observed.push(release.clone());
    }

    /// A fence: acquires what its threads have observed, takes part in the order of sequentially consistent fences,
    /// and begins release patterns.
    pub fn fence(
        &mut self,
        lanes: LaneMask,
        scope: Scope,
        semantics: Semantics,
        phase: u32,
        [of_block, of_device]: [&mut ScOrder; 2],
    ) {
        for lane in Lanes(lanes) {
            let lane = lane as usize;
            let thread = self.thread(lane);
            if semantics != Semantics::Release {
                let mut observed = std::mem::take(&mut self.observed[lane]);
                observed.retain(|release| {
                    let acquired = inclusive((scope, thread), (release.scope, release.point.thread));
                    if acquired {
                        self.acquire(lane, release);
                    }
                    !acquired
                });
                self.observed[lane] = observed;
            }
            if semantics == Semantics::Sc {
                self.clocks[lane].join(of_block);
                if scope >= Scope::Gpu {
                    self.clocks[lane].join(of_device);
                }
                self.snapshot = None;
            }
            if semantics != Semantics::Acquire {
                let release = self.release(lane, scope, phase);
                if semantics == Semantics::Sc {
                    of_block.join(&release.clock);
                    of_block.add(release.point);
                    if scope >= Scope::Gpu {
                        of_device.join(&release.clock);
                        of_device.add(release.point);
                    }
                }
                // A wider fence says all that earlier ones said.
                self.fences[lane].retain(|older| older.scope > scope);
                self.fences[lane].push(release);
            }
        }
    }

    /// A release of a barrier by a lane.
    pub fn arrive(&mut self, lane: usize, phase: u32) -> Release {
        self.release(lane, Scope::Cta, phase)
    }

    /// The clock of a lane.
    pub fn clock(&self, lane: usize) -> &Clock {
        &self.clocks[lane]
    }

    /// The clock of a lane after a barrier.
    pub fn set_clock(&mut self, lane: usize, clock: Clock) {
        self.clocks[lane] = clock;
        self.snapshot = None;
    }
}
