//! What threads know of each other: clocks, the fences they have executed, the releases they have observed.

use std::sync::Arc;

use sim_frontend::program::NO_PC;
use sim_memory::vocabulary::{LaneMask, Scope, Semantics, WARP_LANES};

use super::clock::{Clock, Met, Point, Thread};
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
    /// The cluster of its block.
    pub cluster: u32,
    /// What its thread knew.
    pub clock: Clock,
}

/// A thread with its cluster: a number of the run, counted from 0 in order of their start.
pub type InCluster = (Thread, u32);

/// True if two strong operations have scopes that include each other's thread.
pub fn inclusive(a: (Scope, InCluster), b: (Scope, InCluster)) -> bool {
    let least = a.0.min(b.0);
    let ((one, of_one), (other, of_other)) = (a.1, b.1);
    one.block == other.block || least >= Scope::Gpu || (least >= Scope::Cluster && of_one == of_other)
}

impl Release {
    fn by(&self) -> (Scope, InCluster) {
        (self.scope, (self.point.thread, self.cluster))
    }
}

/// The clocks of the lanes of a warp. Most of the time all know the same.
#[derive(Clone, Debug)]
enum Clocks {
    /// That of all.
    One(Clock),
    /// One for each lane.
    Each(Arc<[Clock; WARP_LANES]>),
}

impl Clocks {
    fn of(&self, lane: usize) -> &Clock {
        match self {
            Self::One(clock) => clock,
            Self::Each(clocks) => &clocks[lane],
        }
    }

    fn of_mut(&mut self, lane: usize) -> &mut Clock {
        if let Self::One(clock) = self {
            let clock = std::mem::take(clock);
            *self = Self::Each(Arc::new(std::array::from_fn(|_| clock.clone())));
        }
        match self {
            Self::One(clock) => clock,
            Self::Each(clocks) => &mut Arc::make_mut(clocks)[lane],
        }
    }

    fn add(&mut self, lane: usize, point: Point) {
        if !self.of(lane).knows(point) {
            self.of_mut(lane).add(point);
        }
    }

    fn set(&mut self, lane: usize, clock: Clock) {
        if !self.of(lane).is(&clock) {
            *self.of_mut(lane) = clock;
        }
    }

    fn set_all(&mut self, lanes: LaneMask, clock: &Clock) {
        let Some(first) = Lanes(lanes).next() else { return };
        *self.of_mut(first as usize) = clock.clone();
        if let Self::Each(clocks) = self {
            let clocks = Arc::make_mut(clocks);
            Lanes(lanes).for_each(|lane| clocks[lane as usize] = clock.clone());
        }
    }

    /// The lane whose clock is that of all `lanes`, if one look shows that there is one.
    fn common(&self, lanes: LaneMask) -> Option<usize> {
        let first = Lanes(lanes).next()? as usize;
        let all = match self {
            Self::One(_) => true,
            Self::Each(clocks) => Lanes(lanes).all(|lane| clocks[lane as usize].is(&clocks[first])),
        };
        all.then_some(first)
    }
}

/// The last that a lane learned: lanes of a warp mostly learn the same, one after another.
#[derive(Clone, Debug)]
struct Learned {
    before: Clock,
    told: Clock,
    point: Option<Point>,
    after: Clock,
}

/// The release and acquire patterns that the lanes of a warp are in.
#[derive(Clone, Debug, Default)]
struct Patterns {
    /// For each lane: its last fence of each scope.
    fences: [Vec<Release>; WARP_LANES],
    /// For each lane: the releases that it has observed and not acquired.
    observed: [Vec<Release>; WARP_LANES],
}

/// A warp of a block.
#[derive(Clone, Debug)]
pub struct Warp {
    /// Number of its block.
    pub block: u32,
    /// Number of its cluster.
    pub cluster: u32,
    /// Index in the block of its first thread.
    pub first: u32,
    /// Its threads.
    pub threads: LaneMask,
    clocks: Clocks,
    epochs: [u32; WARP_LANES],
    patterns: Option<Box<Patterns>>,
    learned: Option<Box<Learned>>,
    /// For each lane 1 + the last epoch of its own copies that it knows beside its clock, or 0.
    copied: Option<Arc<[u32; WARP_LANES]>>,
    synchronized: [u32; WARP_LANES],
    snapshot: Option<Arc<Snapshot>>,
}

/// The points of a warp's threads at an access, and what they knew.
#[derive(Clone, Debug)]
pub struct Snapshot {
    clocks: Clocks,
    epochs: [u32; WARP_LANES],
    synchronized: [u32; WARP_LANES],
    block: u32,
    cluster: u32,
    first: u32,
    phase: u32,
    /// The last epoch that a lane is in.
    latest: u32,
    /// What each lane knows beside its clock: of a thread its agent, of an agent its thread, with 1 + the epoch.
    partners: Option<Arc<[u32; WARP_LANES]>>,
    /// The lane whose clock is that of all, if there is one.
    common: Option<usize>,
    /// The blocks whose meetings all lanes know.
    met: Met,
    /// How often all lanes know that their own block has met.
    meetings: u32,
}

/// Set in the numbers of blocks of what copies for threads: for each thread, the agent that performs its `cp.async`.
const COPIES: u32 = 1 << 31;
/// The same for each mbarrier object: the agent that performs the bulk copies which it counts.
const BULK: u32 = 1 << 30;

/// The same for each thread: the agent that performs its bulk copies to global memory.
const PUTS: u32 = 1 << 29;

/// The number of the block of a thread, or of an agent.
pub fn block_of(thread: Thread) -> u32 {
    thread.block & !(COPIES | BULK | PUTS)
}

/// Where the agent of a thread stands after it has copied in an `epoch`: nobody knows by barriers what it has done.
pub fn agent_of(thread: Thread, epoch: u32) -> Point {
    let thread = Thread { block: thread.block | COPIES, index: thread.index };
    Point { thread, epoch, phase: u32::MAX }
}

/// Where the agent of a thread stands after it has copied to global memory in an `epoch`.
pub fn agent_of_puts(thread: Thread, epoch: u32) -> Point {
    let thread = Thread { block: thread.block | PUTS, index: thread.index };
    Point { thread, epoch, phase: u32::MAX }
}

/// Where the agent of an object of a block stands after it has copied in a phase of the object.
pub fn agent_of_object(block: u32, object: u32, phase: u32) -> Point {
    let thread = Thread { block: block | BULK, index: (object / 8) & 0x7fff };
    Point { thread, epoch: phase, phase: u32::MAX }
}

impl Snapshot {
    /// What an agent knows that makes the bulk copy of lane 0.
    pub fn become_agent(&mut self, agent: Point) {
        self.epochs[0] = agent.epoch;
        self.latest = latest(&self.epochs);
        (self.block, self.first, self.phase) = (agent.thread.block, agent.thread.index, u32::MAX);
    }

    /// The thread of a lane.
    pub fn thread(&self, lane: usize) -> Thread {
        Thread { block: self.block, index: self.first + lane as u32 }
    }

    /// The thread of a lane, with its cluster.
    pub fn in_cluster(&self, lane: usize) -> InCluster {
        (self.thread(lane), self.cluster)
    }

    /// The point of a lane's thread at the access.
    pub fn point(&self, lane: usize) -> Point {
        Point { thread: self.thread(lane), epoch: self.epochs[lane], phase: self.phase }
    }

    /// True if a lane's thread knew a point at the access.
    pub fn knows(&self, lane: usize, point: Point) -> bool {
        let partner = |epochs: &Arc<[u32; WARP_LANES]>| {
            let thread = Thread { block: self.block ^ COPIES, index: self.first + lane as u32 };
            point.thread == thread && point.epoch < epochs[lane]
        };
        self.clocks.of(lane).knows(point) || self.partners.as_ref().is_some_and(partner)
    }

    /// True if one look shows that all its threads knew all those of another one.
    pub fn knows_all_of(&self, other: &Self) -> bool {
        self.common.is_some_and(|lane| self.clocks.of(lane).knows_warp(other.thread(0), other.latest))
    }

    /// The address of the instruction by which it synchronized last.
    pub fn synchronized(&self, lane: usize) -> u32 {
        self.synchronized[lane]
    }

    /// True if one look shows that a point is known to all threads.
    pub fn knows_block(&self, block: u32, phase: u32) -> bool {
        match self.met {
            Met::Nobody => false,
            Met::Block(known, before) => known == block && before > phase,
            Met::Several if block == self.block => self.meetings > phase,
            Met::Several => self.common.is_some_and(|lane| self.clocks.of(lane).meetings(block) > phase),
        }
    }

    /// The blocks whose meetings all lanes know.
    pub fn met(&self) -> Met {
        self.met
    }
}

fn latest(epochs: &[u32; WARP_LANES]) -> u32 {
    epochs.iter().fold(0, |latest, epoch| latest.max(*epoch))
}

/// The sequentially consistent fences of some scope so far.
pub type ScOrder = Clock;

impl Warp {
    /// A warp that starts.
    pub fn new(block: u32, cluster: u32, first: u32, threads: LaneMask) -> Self {
        Self {
            block,
            cluster,
            first,
            threads,
            clocks: Clocks::One(Clock::default()),
            epochs: [0; WARP_LANES],
            patterns: None,
            learned: None,
            copied: None,
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
        let common = self.clocks.common(self.threads);
        if let (Some(lane), Clocks::Each(clocks)) = (common, &self.clocks) {
            self.clocks = Clocks::One(clocks[lane].clone());
        }
        let new = Arc::new(Snapshot {
            clocks: self.clocks.clone(),
            epochs: self.epochs,
            synchronized: self.synchronized,
            block: self.block,
            cluster: self.cluster,
            first: self.first,
            phase,
            latest: latest(&self.epochs),
            partners: self.copied.clone(),
            common,
            met: common.map_or(Met::Nobody, |lane| self.clocks.of(lane).met()),
            meetings: common.map_or(0, |lane| self.clocks.of(lane).meetings(self.block)),
        });
        self.snapshot = Some(Arc::clone(&new));
        new
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
        let mut threads = [0; WARP_LANES];
        for lane in Lanes(lanes) {
            let lane = lane as usize;
            self.epochs[lane] += 1;
            threads[lane] = self.epochs[lane];
        }
        self.snapshot = None;
        agents.partners = Some(Arc::new(threads));
        (agents.epochs, agents.latest) = (*epochs, latest(epochs));
        (agents.block, agents.phase, agents.meetings) = (self.block | COPIES, u32::MAX, 0);
        Arc::new(agents)
    }

    /// The agent of an object that copies for a lane in a phase of the object, as lane 0.
    pub fn copying_bulk(&mut self, lane: usize, agent: Point, phase: u32) -> Arc<Snapshot> {
        let mut agents = self.issuing_bulk(lane, phase);
        agents.become_agent(agent);
        Arc::new(agents)
    }

    /// What a lane knows when it issues a bulk copy, before it is known which agent makes it.
    pub fn issuing_bulk(&mut self, lane: usize, phase: u32) -> Snapshot {
        let mut agents = Snapshot::clone(&self.snapshot(phase));
        let Release { mut clock, point, .. } = self.release(lane, Scope::Cta, phase);
        clock.add(point);
        (agents.clocks, agents.partners) = (Clocks::One(clock), None);
        agents.synchronized[0] = agents.synchronized[lane];
        (agents.common, agents.met, agents.meetings) = (None, Met::Nobody, 0);
        agents
    }

    /// A lane knows what its own copies have done up to an epoch.
    pub fn copied(&mut self, lane: usize, epoch: u32) {
        let copied = Arc::make_mut(self.copied.get_or_insert_with(|| Arc::new([0; WARP_LANES])));
        copied[lane] = copied[lane].max(epoch + 1);
        self.snapshot = None;
    }

    /// A lane knows what an agent has done.
    pub fn learns_of(&mut self, lane: usize, agent: Point) {
        self.clocks.add(lane, agent);
        self.snapshot = None;
    }

    /// The clock of a lane knows of its copies too.
    fn settle(&mut self, lane: usize) {
        if let Some(copied) = self.copied.as_mut().filter(|copied| copied[lane] != 0) {
            let epoch = std::mem::take(&mut Arc::make_mut(copied)[lane]) - 1;
            self.clocks.add(lane, agent_of(self.thread(lane), epoch));
        }
    }

    /// Lanes tell what they know, but not what they have done themselves.
    pub fn tell(&mut self, lanes: LaneMask, clock: &mut Clock) {
        match &self.clocks {
            Clocks::One(known) => clock.join(known),
            Clocks::Each(clocks) => Lanes(lanes).for_each(|lane| clock.join(&clocks[lane as usize])),
        }
        let Some(copied) = &self.copied else { return };
        let of = |lane: u32| {
            let epoch = copied[lane as usize].checked_sub(1)?;
            Some(agent_of(self.thread(lane as usize), epoch))
        };
        let points: Vec<Point> = Lanes(lanes).filter_map(of).collect();
        clock.add_warp(&points, points.len() == self.threads.count_ones() as usize);
    }

    /// Lanes release to a clock what they know and have done.
    pub fn release_to(&mut self, lanes: LaneMask, phase: u32, clock: &mut Clock) {
        self.tell(lanes, clock);
        let mut points = [Point { thread: self.thread(0), epoch: 0, phase }; WARP_LANES];
        let mut count = 0;
        for lane in Lanes(lanes) {
            let lane = lane as usize;
            points[count] = Point { thread: self.thread(lane), epoch: self.epochs[lane], phase };
            self.epochs[lane] += 1;
            count += 1;
        }
        clock.add_warp(&points[..count], lanes == self.threads);
        self.snapshot = None;
    }

    /// Lanes meet: each knows what all have done.
    pub fn meet(&mut self, lanes: LaneMask, phase: u32) {
        let mut all = Clock::default();
        self.release_to(lanes, phase, &mut all);
        self.set_clocks(lanes, &all);
    }

    fn release(&mut self, lane: usize, scope: Scope, phase: u32) -> Release {
        self.settle(lane);
        let point = Point { thread: self.thread(lane), epoch: self.epochs[lane], phase };
        self.epochs[lane] += 1;
        self.snapshot = None;
        Release { scope, point, cluster: self.cluster, clock: self.clocks.of(lane).clone() }
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
        if let Some(patterns) = &self.patterns {
            for fence in &patterns.fences[lane] {
                out.push((lane as u8, fence.clone()));
            }
        }
        if matches!(semantics, Semantics::Release | Semantics::AcqRel | Semantics::Sc) {
            out.push((lane as u8, self.release(lane, scope, phase)));
        }
    }

    /// A lane learns of what precedes a release.
    fn acquire(&mut self, lane: usize, release: &Release) {
        self.learn(lane, &release.clock, Some(release.point));
    }

    fn learn(&mut self, lane: usize, told: &Clock, point: Option<Point>) {
        let known = self.clocks.of(lane);
        // Who knows a release knows what its thread knew.
        if point.map_or_else(|| known.covers(told), |point| known.knows(point)) {
            return;
        }
        let same = |last: &&Learned| last.point == point && last.before.is(known) && last.told.is(told);
        let after = match self.learned.as_deref().filter(same) {
            Some(last) => last.after.clone(),
            None => {
                let (before, told, mut after) = (known.clone(), told.clone(), known.clone());
                after.join_more(&told);
                point.into_iter().for_each(|point| after.add(point));
                self.learned = Some(Box::new(Learned { before, told, point, after: after.clone() }));
                after
            }
        };
        self.clocks.set(lane, after);
        self.snapshot = None;
    }

    /// A strong load of a lane observes a release (MM §3.4.1): at once, or when a fence follows.
    pub fn observe(&mut self, lane: usize, semantics: Semantics, scope: Scope, release: &Release) {
        let thread = self.thread(lane);
        // Nothing new.
        if release.point.thread == thread || self.clocks.of(lane).knows(release.point) {
            return;
        }
        if matches!(semantics, Semantics::Acquire | Semantics::AcqRel | Semantics::Sc)
            && inclusive((scope, (thread, self.cluster)), release.by())
        {
            self.acquire(lane, release);
            return;
        }
        let observed = &mut self.patterns.get_or_insert_default().observed[lane];
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
            if semantics != Semantics::Release
                && let Some(mut observed) =
                    self.patterns.as_mut().map(|p| std::mem::take(&mut p.observed[lane]))
            {
                observed.retain(|release| {
                    let acquired = inclusive((scope, (thread, self.cluster)), release.by());
                    if acquired {
                        self.acquire(lane, release);
                    }
                    !acquired
                });
                if let Some(patterns) = &mut self.patterns {
                    patterns.observed[lane] = observed;
                }
            }
            if semantics == Semantics::Sc {
                self.learn(lane, of_block, None);
                if scope >= Scope::Gpu && !of_device.is(of_block) {
                    self.learn(lane, of_device, None);
                }
            }
            if semantics != Semantics::Acquire {
                let release = self.release(lane, scope, phase);
                if semantics == Semantics::Sc {
                    let one = of_device.is(of_block);
                    of_block.join(&release.clock);
                    of_block.add(release.point);
                    if scope >= Scope::Gpu && one {
                        of_device.clone_from(of_block);
                    } else if scope >= Scope::Gpu {
                        of_device.join(&release.clock);
                        of_device.add(release.point);
                    }
                }
                // A wider fence says all that earlier ones said.
                let fences = &mut self.patterns.get_or_insert_default().fences[lane];
                fences.retain(|older| older.scope > scope);
                fences.push(release);
            }
        }
    }

    /// A release of a barrier by a lane.
    pub fn arrive(&mut self, lane: usize, phase: u32) -> Release {
        self.release(lane, Scope::Cta, phase)
    }

    /// The clock of a lane.
    pub fn clock(&mut self, lane: usize) -> &Clock {
        self.settle(lane);
        self.clocks.of(lane)
    }

    /// A lane learns what a clock knows.
    pub fn learns(&mut self, lane: usize, clock: &Clock) {
        self.learn(lane, clock, None);
    }

    /// Lanes learn what a clock knows.
    pub fn learn_together(&mut self, lanes: LaneMask, told: &Clock) {
        match &mut self.clocks {
            Clocks::One(clock) if lanes & self.threads == self.threads => {
                if !clock.covers(told) {
                    clock.join_more(told);
                    self.snapshot = None;
                }
            }
            _ => Lanes(lanes).for_each(|lane| self.learn(lane as usize, told, None)),
        }
    }

    /// The clock of lanes after they have told what they know, and met others.
    pub fn set_clocks(&mut self, lanes: LaneMask, clock: &Clock) {
        if lanes & self.threads == self.threads {
            (self.clocks, self.copied) = (Clocks::One(clock.clone()), None);
        } else {
            self.clocks.set_all(lanes, clock);
            if let Some(copied) = &mut self.copied {
                let copied = Arc::make_mut(copied);
                Lanes(lanes).for_each(|lane| copied[lane as usize] = 0);
            }
        }
        self.snapshot = None;
    }
}
