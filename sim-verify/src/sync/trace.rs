//! One execution of the barrier operations of a block, by groups of threads that do the same: which operations
//! make up each use of a barrier, or how it ends early.

use std::collections::VecDeque;
use std::hash::{Hash, Hasher};

use rustc_hash::{FxHashMap, FxHasher};
use serde::Serialize;

use super::program::{Operation, Programs};

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
    /// A named barrier of the block.
    Named(u32),
    /// Lanes of a warp, by the number of the warp and a mask.
    Lanes(u32, u32),
}

/// A barrier operation of an agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Op {
    /// Index into [`Agents::barriers`].
    pub barrier: u32,
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
    /// Threads of the block.
    pub threads: u32,
    /// What all threads count for at a barrier with a thread count.
    pub counted: u32,
    /// The view they are made for.
    pub view: View,
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
    /// orders.
    pub fn new(programs: &Programs, view: View) -> Result<Self, Beyond> {
        let mut agents = Self {
            list: Vec::new(),
            of_stream: Vec::new(),
            barriers: Vec::new(),
            threads: programs.threads(),
            counted: programs.streams.len() as u32 * programs.warp_size,
            view,
        };
        let mut numbers: FxHashMap<Barrier, u32> = FxHashMap::default();
        let mut known: FxHashMap<(u64, u32), Vec<u32>> = FxHashMap::default();
        for number in 0..programs.streams.len() {
            agents.stream(programs, number, &mut numbers, &mut known)?;
        }
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
        for step in &stream.steps {
            let silent = matches!(step.operation, Operation::Meet { orders_memory: false, .. });
            let (barrier, count, waits) = match step.operation {
                Operation::Access { .. } => {
                    for (gap, class) in gaps.iter_mut().zip(&classes) {
                        *gap |= class & step.lanes != 0;
                    }
                    continue;
                }
                Operation::Arrive { barrier, count } => (Barrier::Named(barrier), Some(count), false),
                Operation::Sync { barrier, count } => (Barrier::Named(barrier), count, true),
                Operation::Meet { .. } if lockstep => continue,
                Operation::Meet { mask, .. } => (Barrier::Lanes(number as u32, mask), None, true),
            };
            let barrier = *numbers.entry(barrier).or_insert_with(|| {
                self.barriers.push(barrier);
                self.barriers.len() as u32 - 1
            });
            for class in (0..classes.len()).filter(|&class| classes[class] & step.lanes != 0) {
                let gap = std::mem::take(&mut gaps[class]);
                ops[class].push(Op { barrier, count, waits, silent, gap, site: step.site });
                counted_site[class] = counted_site[class].or(count.map(|_| step.site));
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
            ops.hash(&mut hasher);
            let key = (hasher.finish(), counted * programs.warp_size + threads);
            let same = known.entry(key).or_default();
            let found = same.iter().copied().find(|&a| !lockstep && self.list[a as usize].ops == ops);
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
                self.list.push(Agent { members, counted, threads, ordered, ops });
            }
            mine.push((agent, lanes));
        }
        self.of_stream.push(mine);
        Ok(())
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

/// A use of a barrier.
#[derive(Clone, Debug)]
pub struct Node {
    /// Index into [`Agents::barriers`].
    pub barrier: u32,
    /// Its generation, from 1 [nb-gen].
    pub generation: u32,
    /// The threads it expects; `None`: all that have not returned.
    pub count: Option<u32>,
    /// Agents and the numbers of their operations, from 0; one behind their last for those that have returned.
    pub parts: Vec<(u32, u32)>,
    /// It is complete.
    pub complete: bool,
    /// The next use of the barrier.
    pub next: u32,
}

/// How an execution ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum End {
    /// All threads have returned.
    Done,
    /// Threads wait and nobody goes on.
    Deadlock,
    /// The agent's next operation expects another number of threads than its node.
    CountMismatch {
        /// The agent.
        agent: u32,
        /// The node.
        node: u32,
    },
    /// With the agent more threads are at a barrier than it expects.
    TooMany {
        /// The agent.
        agent: u32,
        /// The node.
        node: u32,
    },
}

/// One execution.
#[derive(Clone, Debug)]
pub struct Trace {
    /// Uses of barriers, in the order in which they began.
    pub nodes: Vec<Node>,
    /// Those that are complete, in the order of their completion.
    pub completed: Vec<u32>,
    /// By agent and operation: its node.
    pub node_of: Vec<Vec<u32>>,
    /// By agent and number of operations behind it: when it came there.
    pub opened: Vec<Vec<u32>>,
    /// Agents in the order in which they executed operations.
    pub schedule: Vec<u32>,
    /// How it ends.
    pub end: End,
}

#[derive(Clone, Debug)]
struct Place {
    node: u32,
    counted: u32,
    threads: u32,
    /// Threads that can come and have not returned.
    live: u32,
    last: u32,
    generation: u32,
}

struct Machine<'a> {
    agents: &'a Agents,
    places: Vec<Place>,
    /// By agent: operations that it has executed.
    at: Vec<u32>,
    trace: Trace,
    ready: VecDeque<u32>,
    time: u32,
    /// Agents that have returned.
    returned: Vec<u32>,
    has_returned: Vec<bool>,
}

impl Trace {
    /// Executes the barrier operations of a block: each agent goes on until it waits.
    pub fn new(agents: &Agents) -> Self {
        let count = agents.list.len();
        let live = |barrier: &Barrier| match *barrier {
            Barrier::Named(_) => agents.threads,
            Barrier::Lanes(stream, mask) => {
                let lanes = agents.of_stream[stream as usize].iter().map(|(_, lanes)| lanes & mask);
                lanes.map(u32::count_ones).sum()
            }
        };
        let place = |barrier| Place {
            node: NONE,
            counted: 0,
            threads: 0,
            live: live(barrier),
            last: NONE,
            generation: 0,
        };
        let mut machine = Machine {
            agents,
            places: agents.barriers.iter().map(place).collect(),
            at: vec![0; count],
            trace: Self {
                nodes: Vec::new(),
                completed: Vec::new(),
                node_of: agents.list.iter().map(|agent| Vec::with_capacity(agent.ops.len())).collect(),
                opened: agents.list.iter().map(|agent| Vec::with_capacity(agent.ops.len() + 1)).collect(),
                schedule: Vec::new(),
                end: End::Done,
            },
            ready: (0..count as u32).collect(),
            time: 0,
            returned: Vec::new(),
            has_returned: vec![false; count],
        };
        machine.trace.opened.iter_mut().for_each(|opened| opened.push(0));
        machine.run();
        machine.trace
    }
}

impl Machine<'_> {
    fn run(&mut self) {
        while let Some(agent) = self.ready.pop_front() {
            if let Err(end) = self.advance(agent) {
                self.trace.end = end;
                return;
            }
        }
        if self.returned.len() < self.agents.list.len() {
            self.trace.end = End::Deadlock;
        }
    }

    /// Goes on with an agent until it waits or returns.
    fn advance(&mut self, agent: u32) -> Result<(), End> {
        let agents = self.agents;
        let own = &agents.list[agent as usize];
        while let Some(&op) = own.ops.get(self.at[agent as usize] as usize) {
            let node = self.node(&op);
            let place = &mut self.places[op.barrier as usize];
            let state = &mut self.trace.nodes[node as usize];
            let Some(count) = agreed(state.count, op.count, agents) else {
                return Err(End::CountMismatch { agent, node });
            };
            if count.is_some_and(|n| place.counted + own.counted > n) {
                return Err(End::TooMany { agent, node });
            }
            state.count = count;
            state.parts.push((agent, self.at[agent as usize]));
            place.counted += own.counted;
            place.threads += own.threads;
            self.trace.node_of[agent as usize].push(node);
            self.trace.schedule.push(agent);
            self.time += 1;
            if !op.waits {
                self.at[agent as usize] += 1;
                self.trace.opened[agent as usize].push(self.time);
            }
            let full = count.map_or(place.threads >= place.live, |n| place.counted == n);
            if full {
                self.complete(op.barrier);
            }
            if op.waits {
                // It is ready again if the barrier was complete.
                return Ok(());
            }
        }
        self.has_returned[agent as usize] = true;
        self.returned.push(agent);
        for &(stream, lanes) in &own.members {
            for barrier in 0..self.places.len() {
                self.places[barrier].live -= match agents.barriers[barrier] {
                    Barrier::Named(_) => lanes.count_ones(),
                    Barrier::Lanes(of, mask) if of == stream => (lanes & mask).count_ones(),
                    Barrier::Lanes(..) => 0,
                };
            }
        }
        for barrier in 0..self.places.len() {
            let place = &self.places[barrier];
            let waits_for_all = place.node != NONE && self.trace.nodes[place.node as usize].count.is_none();
            if waits_for_all && place.threads >= place.live {
                self.complete(barrier as u32);
            }
        }
        Ok(())
    }

    /// The use of a barrier that an operation takes part in.
    fn node(&mut self, op: &Op) -> u32 {
        let place = &mut self.places[op.barrier as usize];
        if place.node == NONE {
            place.node = self.trace.nodes.len() as u32;
            place.generation += 1;
            if let Some(last) = self.trace.nodes.get_mut(place.last as usize) {
                last.next = place.node;
            }
            self.trace.nodes.push(Node {
                barrier: op.barrier,
                generation: place.generation,
                count: op.count,
                parts: Vec::new(),
                complete: false,
                next: NONE,
            });
        }
        place.node
    }

    /// Recycles a barrier.
    fn complete(&mut self, barrier: u32) {
        let place = &mut self.places[barrier as usize];
        let node = place.node;
        (place.last, place.node, place.counted, place.threads) = (node, NONE, 0, 0);
        self.time += 1;
        let state = &mut self.trace.nodes[node as usize];
        state.complete = true;
        for &(agent, op) in &state.parts {
            if self.agents.list[agent as usize].ops[op as usize].waits {
                self.at[agent as usize] += 1;
                self.trace.opened[agent as usize].push(self.time);
                self.ready.push_back(agent);
            }
        }
        if state.count.is_none() {
            let stream = match self.agents.barriers[barrier as usize] {
                Barrier::Named(_) => None,
                Barrier::Lanes(stream, _) => Some(stream),
            };
            for &agent in &self.returned {
                let own = &self.agents.list[agent as usize];
                if stream.is_none_or(|stream| own.members.iter().any(|(of, _)| *of == stream)) {
                    state.parts.push((agent, own.ops.len() as u32));
                }
            }
        }
        self.trace.completed.push(node);
    }
}

/// The count of a use that expects `one`, after an arrival with `other`.
fn agreed(one: Option<u32>, other: Option<u32>, agents: &Agents) -> Option<Option<u32>> {
    match (one, other) {
        _ if one == other => Some(one),
        (None, Some(n)) | (Some(n), None) if n == agents.counted => Some(Some(n)),
        _ => None,
    }
}
