//! What threads know of each other: clocks, the fences they have executed, the releases they have observed.

use std::sync::Arc;

use sim_frontend::program::NO_PC;
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
    synchronized: [u32; WARP_LANES],
    snapshot: Option<Arc<Snapshot>>,
}

/// The points of a warp's threads at an access, and what they knew.
#[derive(Clone, Debug)]
pub struct Snapshot {
    clocks: [Clock; WARP_LANES],
    epochs: [u32; WARP_LANES],
    synchronized: [u32; WARP_LANES],
    block: u32,
    first: u32,
    phase: u32,
    /// The lane whose clock is that of all, if there is one.
    common: Option<usize>,
}

/// Set in the numbers of blocks of what copies for threads: for each thread, the agent that performs its `cp.async`.
const COPIES: u32 = 1 << 31;
/// The same for each mbarrier object: the agent that performs the bulk copies which it counts.
const BULK: u32 = 1 << 30;

/// The number of the block of a thread, or of an agent.
pub fn block_of(thread: Thread) -> u32 {
    thread.block & !(COPIES | BULK)
}

/// Where the agent of a thread stands after it has copied in an `epoch`: nobody knows by barriers what it has done.
pub fn agent_of(thread: Thread, epoch: u32) -> Point {
    let thread = Thread { block: thread.block | COPIES, index: thread.index };
    Point { thread, epoch, phase: u32::MAX }
}

/// Where the agent of an object of a block stands after it has copied in a phase of the object.
pub fn agent_of_object(block: u32, object: u32, phase: u32) -> Point {
    let thread = Thread { block: block | BULK, index: (object / 8) & 0x7fff };
    Point { thread, epoch: phase, phase: u32::MAX }
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

    /// The address of the instruction by which it synchronized last.
    pub fn synchronized(&self, lane: usize) -> u32 {
        self.synchronized[lane]
    }

    /// True if one look shows that a point is known to all threads.
    pub fn knows_block(&self, point: Point) -> bool {
        self.common.is_some_and(|lane| self.clocks[lane].knows_phase(point.thread.block, point.phase))
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
            synchronized: [NO_PC; WARP_LANES],
            snapshot: None,
        }
    }

    /// The thread of a lane.
    pub fn thread(&self, lane: usize) -> Thread {
        Thread { block: self.block, index: self.first + lane as u32 }
    }

    /// Where its threads stand, in the `phase` of their block.
    pub fn snapshot(&mut self, phase: u32) -> Arc<Snapshot> {
        if let Some(known) = self.snapshot.as_ref().filter(|known| known.phase == phase) {
            return Arc::clone(known);
        }
        let new = Arc::new(Snapshot {
            clocks: self.clocks.clone(),
            epochs: self.epochs,
            synchronized: self.synchronized,
            block: self.block,
            first: self.first,
            phase,
            common: self.common(),
        });
        self.snapshot = Some(Arc::clone(&new));
        new
    }

    fn common(&self) -> Option<usize> {
        let mut lanes = Lanes(self.threads).map(|lane| lane as usize);
        let first = lanes.next()?;
        lanes.all(|lane| self.clocks[lane].is(&self.clocks[first])).then_some(first)
    }

    /// Lanes begin to synchronize by an instruction.
    pub fn synchronizes(&mut self, lanes: LaneMask, pc: u32) {
        for lane in Lanes(lanes) {
            self.synchronized[lane as usize] = pc;
        }
        self.snapshot = None;
    }

    /// The agents of lanes that copy in their epochs, after all that these have done.
    pub fn copying(&mut self, lanes: LaneMask, epochs: &[u32; WARP_LANES], phase: u32) -> Arc<Snapshot> {
        let mut agents = Snapshot::clone(&self.snapshot(phase));
        for lane in Lanes(lanes) {
            let release = self.release(lane as usize, Scope::Cta, phase);
            agents.clocks[lane as usize].add(release.point);
        }
        (agents.epochs, agents.block, agents.phase, agents.common) =
            (*epochs, self.block | COPIES, u32::MAX, None);
        Arc::new(agents)
    }

    /// The agent of an object that copies for a lane in a phase of the object, as lane 0.
    pub fn copying_bulk(&mut self, lane: usize, agent: Point, phase: u32) -> Arc<Snapshot> {
        let mut agents = Snapshot::clone(&self.snapshot(phase));
        let release = self.release(lane, Scope::Cta, phase);
        agents.clocks[0] = agents.clocks[lane].clone();
        agents.clocks[0].add(release.point);
        agents.epochs[0] = agent.epoch;
        agents.synchronized[0] = agents.synchronized[lane];
        (agents.block, agents.first, agents.phase, agents.common) =
            (agent.thread.block, agent.thread.index, u32::MAX, None);
        Arc::new(agents)
    }

    /// A lane knows what an agent has done.
    pub fn knows(&mut self, lane: usize, point: Point) {
        self.clocks[lane].add(point);
        self.snapshot = None;
    }

    /// Lanes meet: each knows what all have done.
    pub fn meet(&mut self, lanes: LaneMask, phase: u32) {
        let mut all = Clock::default();
        for lane in Lanes(lanes) {
            let release = self.release(lane as usize, Scope::Cta, phase);
            all.join(&release.clock);
            all.add(release.point);
        }
        for lane in Lanes(lanes) {
            self.set_clock(lane as usize, all.clone());
        }
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
