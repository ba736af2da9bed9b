//! Groups of threads that do the same as far as synchronization goes, and their operations.

use std::hash::{Hash, Hasher};

use rustc_hash::{FxHashMap, FxHasher};
use serde::Serialize;

use super::program::{Act, LANES, Operation, Programs, Queue};

/// Warps whose products are one.
const WARPGROUP: u32 = 4;

/// No node.
pub const NONE: u32 = u32::MAX;

/// How the threads of a warp run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum View {
    /// Each by itself, as from compute capability 7.0 on.
    Threads,
    /// All of a warp together: a `sync` of the warp after each command (NB §3.1), in the order in which the warp was
    /// recorded. At a barrier the whole warp counts, whichever of its threads come [nb-warpSync].
    Lockstep,
}

/// A barrier.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Barrier {
    /// A named barrier.
    Named {
        /// The rank of its block.
        block: u32,
        /// Its number.
        number: u32,
    },
    /// Lanes of a warp, by the number of the warp and a mask.
    Lanes(u32, u32),
    /// An mbarrier object, by its address.
    Object(u32),
    /// That of the cluster.
    Cluster,
    /// An event, which happens once.
    Event(u32),
}

/// What an operation does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Does {
    /// Arrives at a named barrier, or takes part in a meeting of lanes.
    Meets,
    /// Operates on an mbarrier object.
    Object(Act),
    /// Begins a copy.
    Copies(Queue),
    /// Commits copies to a group.
    Commits(Queue),
    /// Waits for copies.
    Awaits(Queue),
    /// Arrives at an mbarrier object when its copies are written; true: the phase expects one arrival more from now on.
    ArrivesLater(bool),
    /// Begins a copy that is counted at an mbarrier object: so many bytes.
    CopiesBulk(u32),
    /// Arrives at the cluster's barrier.
    ArrivesAtCluster,
    /// Waits there.
    WaitsAtCluster,
    /// Signals an event.
    Signals,
    /// Waits for one.
    Observes,
}

impl Does {
    /// Waits for a use of a barrier without taking part in it.
    pub fn only_waits(self) -> bool {
        matches!(self, Self::Object(Act::Wait { .. }) | Self::WaitsAtCluster | Self::Observes)
    }

    /// A part of what it does comes later, by itself.
    pub fn is_asynchronous(self) -> bool {
        matches!(self, Self::ArrivesLater(_) | Self::CopiesBulk(_))
    }
}

/// A barrier operation of an agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Op {
    /// What it does.
    pub does: Does,
    /// Index into [`Agents::barriers`]; [`NONE`] for what concerns copies only.
    pub barrier: u32,
    /// Of copies: how many of their kind, by this thread and counted at the same object, come before. Of what waits for
    /// copies, or arrives after them: how many these are, the first ones of the thread.
    pub number: u32,
    /// Expected threads; `None`: all that have not returned.
    pub count: Option<u32>,
    /// It waits.
    pub waits: bool,
    /// It waits, but orders no accesses to memory.
    pub silent: bool,
    /// Its thread has accessed memory since the operation before.
    pub gap: bool,
    /// Where in the program.
    pub site: u32,
}

/// Threads with the same barrier operations, which therefore take part in the same uses of barriers wherever a block
/// is well-synchronized: exchanging two of them gives another trace.
#[derive(Clone, Debug)]
pub struct Agent {
    /// The rank of the block that its threads are of.
    pub block: u32,
    /// Streams and lanes.
    pub members: Vec<(u32, u32)>,
    /// What they count for at a barrier with a thread count.
    pub counted: u32,
    /// How many threads they are.
    pub threads: u32,
    /// What one of them does is ordered before what another does later: it is one thread, or a warp in lockstep.
    pub ordered: bool,
    /// Its operations.
    pub ops: Vec<Op>,
    /// By queue: the column of its copies, of those that groups count; [`NONE`] without any.
    pub copies: [u32; Queue::COUNT],
    /// The columns of its bulk copies, by barrier.
    pub bulk: Vec<(u32, u32)>,
    /// The columns of the products of its warpgroup, its own among them: a product is one of all four warps, so that who
    /// waits for it waits for the parts of all.
    pub products: Vec<u32>,
    /// By queue and number of operations: how many of its copies it has waited for; empty without any.
    pub awaited: [Vec<u32>; Queue::COUNT],
}

impl Agent {
    /// How many of its own copies a thread knows to be written behind so many operations.
    pub fn awaited(&self, queue: usize, operations: u32) -> u32 {
        self.awaited[queue].get(operations as usize).copied().unwrap_or(0)
    }

    /// The column of bulk copies that are counted at a barrier.
    pub fn bulk(&self, barrier: u32) -> u32 {
        self.bulk.iter().find(|(of, _)| *of == barrier).map_or(NONE, |(_, column)| *column)
    }
}

/// The agents of a block.
#[derive(Clone, Debug)]
pub struct Agents {
    /// The agents.
    pub list: Vec<Agent>,
    /// By stream: agents with the lanes they have there.
    pub of_stream: Vec<Vec<(u32, u32)>>,
    /// The barriers.
    pub barriers: Vec<Barrier>,
    /// Threads of all blocks.
    pub threads: u32,
    /// By block: its threads, and what they count for at a barrier with a thread count.
    pub of_block: Vec<(u32, u32)>,
    /// The view they are made for.
    pub view: View,
    /// What is known of at a place of a program: operations of each agent, its copies, the phases of each object.
    pub columns: u32,
    /// By barrier: the column of its phases, if it is an object.
    pub phases: Vec<u32>,
    /// There are operations on mbarrier objects, copies, or the barrier of a cluster.
    pub extended: bool,
}

/// A use of a barrier by an agent's operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Use {
    /// The agent.
    pub agent: u32,
    /// Its operation.
    pub op: u32,
    /// The node.
    pub node: u32,
}

/// What cannot be decided, and the site because of which.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Beyond {
    /// Why.
    pub reason: String,
    /// Where.
    pub site: u32,
}

impl Agents {
    /// Groups the threads of a block.
    ///
    /// # Errors
    /// Parts of a warp whose other threads have returned or never existed meet at barriers with thread counts in different
    /// orders; or mbarrier objects and copies where warps are to run in lockstep.
    pub fn new(programs: &Programs, view: View) -> Result<Self, Beyond> {
        let mut agents = Self {
            list: Vec::new(),
            of_stream: Vec::new(),
            barriers: Vec::new(),
            threads: programs.threads(),
            of_block: of_blocks(programs),
            view,
            columns: 0,
            phases: Vec::new(),
            extended: false,
        };
        let mut numbers: FxHashMap<Barrier, u32> = FxHashMap::default();
        let mut known: FxHashMap<(u64, u32), Vec<u32>> = FxHashMap::default();
        for number in 0..programs.streams.len() {
            agents.stream(programs, number, &mut numbers, &mut known)?;
        }
        agents.number_columns();
        agents.find_products(programs);
        Ok(agents)
    }

    fn stream(
        &mut self,
        programs: &Programs,
        number: usize,
        numbers: &mut FxHashMap<Barrier, u32>,
        known: &mut FxHashMap<(u64, u32), Vec<u32>>,
    ) -> Result<(), Beyond> {
        let stream = &programs.streams[number];
        let lockstep = self.view == View::Lockstep;
        let mut classes = vec![stream.lanes];
        if !lockstep {
            for step in &stream.steps {
                if !matches!(step.operation, Operation::Access { .. }) {
                    refine(&mut classes, step.lanes);
                }
            }
        }
        let mut ops: Vec<Vec<Op>> = vec![Vec::new(); classes.len()];
        let mut gaps = vec![false; classes.len()];
        let mut counted_site = vec![None; classes.len()];
        let mut copies = vec![Copies::default(); classes.len()];
        for step in &stream.steps {
            if let Operation::Access { .. } = step.operation {
                for (gap, class) in gaps.iter_mut().zip(&classes) {
                    *gap |= class & step.lanes != 0;
                }
                continue;
            }
            if lockstep && step.operation.is_of_threads() {
                continue;
            }
            let at = (number as u32, programs.block_of(stream.first_thread));
            let Part { does, barrier, count, waits, silent } = part(&step.operation, at);
            if does != Does::Meets {
                self.extended = true;
                if lockstep {
                    let reason = "mbarrier objects, asynchronous copies and clusters are not decided for warps in lockstep: no chip \
                                  that has them runs its warps so";
                    return Err(Beyond { reason: reason.into(), site: step.site });
                }
            }
            let barrier = barrier.map_or(NONE, |barrier| {
                *numbers.entry(barrier).or_insert_with(|| {
                    self.barriers.push(barrier);
                    self.barriers.len() as u32 - 1
                })
            });
            for class in (0..classes.len()).filter(|&class| classes[class] & step.lanes != 0) {
                let gap = std::mem::take(&mut gaps[class]);
                let number = copies[class].number(&step.operation, barrier);
                ops[class].push(Op { does, barrier, number, count, waits, silent, gap, site: step.site });
                let named = count.filter(|_| does == Does::Meets);
                counted_site[class] = counted_site[class].or(named.map(|_| step.site));
            }
        }
        // Lanes without threads, and those that go to no barrier with a count, count with the others.
        let counting: Vec<usize> = (0..classes.len()).filter(|&c| counted_site[c].is_some()).collect();
        let here: u32 = counting.iter().map(|&c| classes[c].count_ones()).sum();
        let absent = programs.warp_size.saturating_sub(here);
        if let ([_, other, ..], true, false) = (&counting[..], absent > 0, lockstep) {
            return Err(Beyond {
                reason: "threads of a warp meet at barriers with thread counts in different orders while other threads of \
                         the warp do not take part: when the warp counts as a whole is not decided"
                    .into(),
                site: counted_site[*other].unwrap_or_default(),
            });
        }
        let mut mine = Vec::new();
        for (class, ops) in ops.into_iter().enumerate() {
            let lanes = classes[class];
            let threads = lanes.count_ones();
            let whole = lockstep || counted_site[class].is_some();
            let counted =
                if lockstep { programs.warp_size } else { threads + if whole { absent } else { 0 } };
            let mut hasher = FxHasher::default();
            let block = programs.block_of(stream.first_thread);
            (&ops, block).hash(&mut hasher);
            let key = (hasher.finish(), counted * programs.warp_size + threads);
            let same = known.entry(key).or_default();
            let list = &self.list;
            let alike = |a: &u32| list[*a as usize].ops == ops && list[*a as usize].block == block;
            let found = same.iter().copied().find(|a| !lockstep && alike(a));
            let agent = found.unwrap_or(self.list.len() as u32);
            if found.is_some() {
                let agent = &mut self.list[agent as usize];
                agent.members.push((number as u32, lanes));
                agent.counted += counted;
                agent.threads += threads;
                agent.ordered = false;
            } else {
                same.push(agent);
                let members = vec![(number as u32, lanes)];
                let ordered = lockstep || threads == 1;
                let (copies, bulk, awaited) = ([NONE; Queue::COUNT], Vec::new(), Default::default());
                self.list.push(Agent {
                    block,
                    members,
                    counted,
                    threads,
                    ordered,
                    ops,
                    copies,
                    bulk,
                    products: Vec::new(),
                    awaited,
                });
            }
            mine.push((agent, lanes));
        }
        self.of_stream.push(mine);
        Ok(())
    }

    /// Columns of agents come first, then those of their copies, then those of objects.
    fn number_columns(&mut self) {
        let mut next = self.list.len() as u32;
        for agent in &mut self.list {
            for queue in [Queue::Copies, Queue::Stores, Queue::Products] {
                if !agent.ops.iter().any(|op| op.does == Does::Copies(queue)) {
                    continue;
                }
                agent.copies[queue as usize] = next;
                next += 1;
                let mut known = 0;
                let awaited = &mut agent.awaited[queue as usize];
                awaited.push(0);
                for op in &agent.ops {
                    known = if op.does == Does::Awaits(queue) { op.number.max(known) } else { known };
                    awaited.push(known);
                }
            }
            for op in &agent.ops {
                if matches!(op.does, Does::CopiesBulk(_)) && agent.bulk(op.barrier) == NONE {
                    agent.bulk.push((op.barrier, next));
                    next += 1;
                }
            }
        }
        for barrier in &self.barriers {
            let object = matches!(barrier, Barrier::Object(_));
            self.phases.push(if object { next } else { NONE });
            next += u32::from(object);
        }
        self.columns = next;
    }

    /// Products of an agent are those of one warp.
    fn find_products(&mut self, programs: &Programs) {
        let own = |agent: &Agent| agent.copies[Queue::Products as usize];
        let group = |agent: &Agent| {
            programs.streams[agent.members[0].0 as usize].first_thread / (WARPGROUP * LANES as u32)
        };
        let with: Vec<(u32, u32)> = self
            .list
            .iter()
            .filter(|agent| own(agent) != NONE)
            .map(|agent| (group(agent), own(agent)))
            .collect();
        for agent in self.list.iter_mut().filter(|agent| own(agent) != NONE) {
            let group = group(agent);
            agent.products = with.iter().filter(|(of, _)| *of == group).map(|(_, column)| *column).collect();
        }
    }

    /// The number of an agent's first thread.
    pub fn first_thread(&self, programs: &Programs, agent: u32) -> u32 {
        let (stream, lanes) = self.list[agent as usize].members[0];
        programs.streams[stream as usize].first_thread + lanes.trailing_zeros()
    }
}

/// Divides classes of lanes by whether they take part in a step.
fn refine(classes: &mut Vec<u32>, lanes: u32) {
    for at in 0..classes.len() {
        let (inside, outside) = (classes[at] & lanes, classes[at] & !lanes);
        if inside != 0 && outside != 0 {
            classes[at] = inside;
            classes.push(outside);
        }
    }
}

/// An operation as barriers see it.
struct Part {
    does: Does,
    barrier: Option<Barrier>,
    count: Option<u32>,
    waits: bool,
    silent: bool,
}

/// By block: its threads, and what they count for at a barrier with a thread count.
fn of_blocks(programs: &Programs) -> Vec<(u32, u32)> {
    let mut out = Vec::new();
    for stream in &programs.streams {
        let block = programs.block_of(stream.first_thread) as usize;
        if out.len() <= block {
            out.resize(block + 1, (0, 0));
        }
        out[block].0 += stream.lanes.count_ones();
        out[block].1 += programs.warp_size;
    }
    out
}

/// That of a step of a warp of a block.
fn part(operation: &Operation, (warp, block): (u32, u32)) -> Part {
    let of = |does, barrier| Part { does, barrier, count: None, waits: false, silent: false };
    match *operation {
        Operation::Access { .. } => of(Does::Meets, None),
        Operation::Arrive { barrier, count } => {
            Part { count: Some(count), ..of(Does::Meets, Some(Barrier::Named { block, number: barrier })) }
        }
        Operation::Sync { barrier, count } => {
            Part { count, waits: true, ..of(Does::Meets, Some(Barrier::Named { block, number: barrier })) }
        }
        Operation::Meet { mask, orders_memory } => {
            Part { waits: true, silent: !orders_memory, ..of(Does::Meets, Some(Barrier::Lanes(warp, mask))) }
        }
        Operation::Object { object, act, relaxed } => {
            let waits = matches!(act, Act::Wait { .. });
            // What only counts bytes orders nothing.
            let silent = relaxed || matches!(act, Act::Expect { .. } | Act::Complete { .. });
            Part { waits, silent, ..of(Does::Object(act), Some(Barrier::Object(object))) }
        }
        Operation::Copy { queue, .. } => of(Does::Copies(queue), None),
        Operation::Commit { queue } => of(Does::Commits(queue), None),
        Operation::Await { queue, .. } => of(Does::Awaits(queue), None),
        Operation::CopiesArrive { object, inc } => of(Does::ArrivesLater(inc), Some(Barrier::Object(object))),
        Operation::Bulk { object, bytes, .. } => of(Does::CopiesBulk(bytes), Some(Barrier::Object(object))),
        Operation::Cluster { wait, relaxed } => {
            let does = if wait { Does::WaitsAtCluster } else { Does::ArrivesAtCluster };
            Part { waits: wait, silent: relaxed, ..of(does, Some(Barrier::Cluster)) }
        }
        Operation::Signal { event, relaxed: silent } => {
            Part { count: Some(1), silent, ..of(Does::Signals, Some(Barrier::Event(event))) }
        }
        Operation::Observe { event, relaxed: silent } => {
            Part { count: Some(1), waits: true, silent, ..of(Does::Observes, Some(Barrier::Event(event))) }
        }
    }
}

/// What a thread has copied so far.
#[derive(Clone, Debug, Default)]
struct Copies {
    /// By queue.
    begun: [u32; Queue::COUNT],
    /// By queue and group: how many it had begun.
    groups: [Vec<u32>; Queue::COUNT],
    /// By barrier: bulk copies.
    bulk: FxHashMap<u32, u32>,
}

impl Copies {
    /// [`Op::number`] of the thread's next operation.
    fn number(&mut self, operation: &Operation, barrier: u32) -> u32 {
        match operation {
            Operation::Copy { queue, more, .. } => {
                let begun = &mut self.begun[*queue as usize];
                let number = *begun;
                *begun += u32::from(!more);
                number
            }
            Operation::Commit { queue } => {
                self.groups[*queue as usize].push(self.begun[*queue as usize]);
                0
            }
            Operation::Await { queue, newest: None } => self.begun[*queue as usize],
            Operation::CopiesArrive { .. } => self.begun[Queue::Copies as usize],
            Operation::Await { queue, newest: Some(newest) } => {
                let groups = &self.groups[*queue as usize];
                let last = groups.len().checked_sub(1 + usize::from(*newest));
                last.map_or(0, |last| groups[last])
            }
            Operation::Bulk { .. } => {
                let before = self.bulk.entry(barrier).or_insert(0);
                *before += 1;
                *before - 1
            }
            _ => 0,
        }
    }
}
