//! One execution of the barrier operations of a block, by groups of threads that do the same: which operations
//! make up each use of a barrier, or how it ends early.

use std::collections::VecDeque;

use super::agents::{Agent, Agents, Barrier, Does, NONE, Op};
use super::object::{Misuse, Object};
use super::program::Act;

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
    /// Those that wait for it and take no part in it.
    pub waiters: Vec<(u32, u32)>,
    /// Of a phase of an mbarrier object: the number of the object, and its own in that, from 0; else [`NONE`].
    pub phase: (u32, u32),
    /// It is complete.
    pub complete: bool,
    /// The next use of the barrier.
    pub next: u32,
}

/// An mbarrier object from its initialization on.
#[derive(Clone, Debug)]
pub struct Initialized {
    /// Index into [`Agents::barriers`].
    pub barrier: u32,
    /// The agent that initialized it, and its operation.
    pub by: (u32, u32),
    /// The same of its invalidation.
    pub invalidated: Option<(u32, u32)>,
    /// Its phases; the last one is not complete.
    pub nodes: Vec<u32>,
    /// Operations on it that have begun, of whichever phase.
    pub ops: Vec<(u32, u32)>,
    /// What the last phase still waits for.
    pub state: Object,
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
    /// The agent's next operation is one that must not be there.
    Misuse {
        /// The agent.
        agent: u32,
        /// The node, if there is one.
        node: u32,
        /// Why.
        what: Misuse,
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
    /// Mbarrier objects, in the order of their initialization.
    pub objects: Vec<Initialized>,
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
    /// Of an mbarrier object: its number, from its initialization to its invalidation.
    object: u32,
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
    /// By agent: the phase of the cluster's barrier at which it has arrived and not waited.
    cluster: Vec<u32>,
}

impl Trace {
    /// Executes the barrier operations of a block: each agent goes on until it waits.
    pub fn new(agents: &Agents) -> Self {
        let count = agents.list.len();
        let live = |barrier: &Barrier| match *barrier {
            Barrier::Named { block, .. } => agents.of_block[block as usize].0,
            Barrier::Cluster => agents.threads,
            Barrier::Object(_) | Barrier::Event(_) => 0,
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
            object: NONE,
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
                objects: Vec::new(),
                schedule: Vec::new(),
                end: End::Done,
            },
            ready: (0..count as u32).collect(),
            time: 0,
            returned: Vec::new(),
            has_returned: vec![false; count],
            cluster: vec![NONE; count],
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
            if op.does != Does::Meets {
                match self.other(agent, op)? {
                    true => continue,
                    false => return Ok(()),
                }
            }
            let node = self.node(&op);
            let place = &mut self.places[op.barrier as usize];
            let state = &mut self.trace.nodes[node as usize];
            let Some(count) = agreed(state.count, op.count, agents.of_block[own.block as usize].1) else {
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
        if let Some(node) = self.trace.nodes.get(self.cluster[agent as usize] as usize)
            && !node.complete
        {
            // It counts as returned from now on, not as arrived.
            self.places[node.barrier as usize].threads -= own.threads;
        }
        for &(stream, lanes) in &own.members {
            for barrier in 0..self.places.len() {
                self.places[barrier].live -= match agents.barriers[barrier] {
                    Barrier::Named { block, .. } if block == own.block => lanes.count_ones(),
                    Barrier::Cluster => lanes.count_ones(),
                    Barrier::Lanes(of, mask) if of == stream => (lanes & mask).count_ones(),
                    Barrier::Named { .. } | Barrier::Lanes(..) | Barrier::Object(_) | Barrier::Event(_) => 0,
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
        if self.places[op.barrier as usize].node == NONE {
            let node = self.new_node(op.barrier, op.count, (NONE, NONE));
            self.places[op.barrier as usize].node = node;
        }
        self.places[op.barrier as usize].node
    }

    fn new_node(&mut self, barrier: u32, count: Option<u32>, phase: (u32, u32)) -> u32 {
        let place = &mut self.places[barrier as usize];
        let node = self.trace.nodes.len() as u32;
        place.generation += 1;
        if let Some(last) = self.trace.nodes.get_mut(place.last as usize) {
            last.next = node;
        }
        let (parts, waiters) = (Vec::new(), Vec::new());
        let generation = place.generation;
        let node_of = Node { barrier, generation, count, parts, waiters, phase, complete: false, next: NONE };
        self.trace.nodes.push(node_of);
        node
    }

    /// Recycles a barrier.
    fn complete(&mut self, barrier: u32) {
        let place = &mut self.places[barrier as usize];
        let node = place.node;
        (place.last, place.node, place.counted, place.threads) = (node, NONE, 0, 0);
        self.time += 1;
        let state = &mut self.trace.nodes[node as usize];
        state.complete = true;
        for &(agent, op) in state.parts.iter().chain(&state.waiters) {
            if self.agents.list[agent as usize].ops[op as usize].waits {
                self.at[agent as usize] += 1;
                self.trace.opened[agent as usize].push(self.time);
                self.ready.push_back(agent);
            }
        }
        if state.count.is_none() {
            let of = self.agents.barriers[barrier as usize];
            let comes = |own: &Agent| match of {
                Barrier::Lanes(stream, _) => own.members.iter().any(|(of, _)| *of == stream),
                Barrier::Named { block, .. } => own.block == block,
                _ => true,
            };
            // At the cluster's barrier a thread may arrive and return: it was its arrival that counted.
            let of_cluster = self.agents.barriers[barrier as usize] == Barrier::Cluster;
            let arrived: Vec<u32> =
                state.parts.iter().filter(|_| of_cluster).map(|(agent, _)| *agent).collect();
            for &agent in self.returned.iter().filter(|agent| !arrived.contains(agent)) {
                let own = &self.agents.list[agent as usize];
                if comes(own) {
                    state.parts.push((agent, own.ops.len() as u32));
                }
            }
        }
        self.trace.completed.push(node);
    }

    /// What is neither a named barrier nor a meeting of lanes; false if the agent waits.
    fn other(&mut self, agent: u32, op: Op) -> Result<bool, End> {
        match op.does {
            Does::Object(Act::Wait { odd }) => return self.wait(agent, op, odd),
            Does::Object(Act::Init { count }) => {
                let node = self.initialize(agent, op, count)?;
                self.went(agent, node);
            }
            Does::Object(Act::Inval) => {
                let object = self.object(agent, op)?;
                let node = self.current(object);
                let of = self.trace.nodes.get(node as usize);
                if of.is_some_and(|of| !of.complete && !of.waiters.is_empty()) {
                    // Who waits for this phase waits at no object.
                    return Err(End::Misuse { agent, node, what: Misuse::NotInitialized });
                }
                self.trace.objects[object as usize].invalidated = Some((agent, self.at[agent as usize]));
                self.places[op.barrier as usize].object = NONE;
                self.places[op.barrier as usize].last = node;
                self.went(agent, node);
            }
            Does::Object(_) | Does::ArrivesLater(_) | Does::CopiesBulk(_) => self.contribute(agent, op)?,
            Does::ArrivesAtCluster => {
                if self.cluster[agent as usize] != NONE {
                    let (node, what) = (self.cluster[agent as usize], Misuse::ArrivedTwice);
                    return Err(End::Misuse { agent, node, what });
                }
                let node = self.node(&op);
                self.cluster[agent as usize] = node;
                self.trace.nodes[node as usize].parts.push((agent, self.at[agent as usize]));
                let place = &mut self.places[op.barrier as usize];
                place.threads += self.agents.list[agent as usize].threads;
                let full = place.threads >= place.live;
                self.went(agent, node);
                if full {
                    self.complete(op.barrier);
                }
            }
            Does::WaitsAtCluster => {
                let node = std::mem::replace(&mut self.cluster[agent as usize], NONE);
                if node == NONE {
                    return Err(End::Misuse { agent, node, what: Misuse::NotArrived });
                }
                return Ok(self.pass_or_wait(agent, node));
            }
            Does::Signals => {
                let node = self.node(&op);
                self.trace.nodes[node as usize].parts.push((agent, self.at[agent as usize]));
                self.went(agent, node);
                self.complete(op.barrier);
            }
            Does::Observes => {
                let node = match self.places[op.barrier as usize].last {
                    NONE => self.node(&op),
                    signalled => signalled,
                };
                return Ok(self.pass_or_wait(agent, node));
            }
            Does::Copies(_) | Does::Commits(_) | Does::Awaits(_) | Does::Meets => self.went(agent, NONE),
        }
        Ok(true)
    }

    /// An agent executes an operation and goes on.
    fn went(&mut self, agent: u32, node: u32) {
        self.trace.node_of[agent as usize].push(node);
        self.trace.schedule.push(agent);
        self.time += 1;
        self.at[agent as usize] += 1;
        self.trace.opened[agent as usize].push(self.time);
    }

    /// The agent is behind `node`, or waits for it: false.
    fn pass_or_wait(&mut self, agent: u32, node: u32) -> bool {
        let at = self.at[agent as usize];
        if let Some(of) = self.trace.nodes.get_mut(node as usize) {
            of.waiters.push((agent, at));
            if !of.complete {
                self.trace.node_of[agent as usize].push(node);
                self.trace.schedule.push(agent);
                self.time += 1;
                return false;
            }
        }
        self.went(agent, node);
        true
    }

    /// The number of the object of an operation.
    fn object(&self, agent: u32, op: Op) -> Result<u32, End> {
        match self.places[op.barrier as usize].object {
            NONE => Err(End::Misuse { agent, node: NONE, what: Misuse::NotInitialized }),
            object => Ok(object),
        }
    }

    fn current(&self, object: u32) -> u32 {
        self.trace.objects[object as usize].nodes.last().copied().unwrap_or(NONE)
    }

    fn wait(&mut self, agent: u32, op: Op, odd: bool) -> Result<bool, End> {
        let object = self.object(agent, op)?;
        let of = &mut self.trace.objects[object as usize];
        of.ops.push((agent, self.at[agent as usize]));
        let phase = of.nodes.len() - 1;
        let node = match (phase & 1 == 1) != odd {
            true => phase.checked_sub(1).map_or(NONE, |before| of.nodes[before]),
            false => of.nodes[phase],
        };
        Ok(self.pass_or_wait(agent, node))
    }

    fn initialize(&mut self, agent: u32, op: Op, count: u32) -> Result<u32, End> {
        let wrong = |node, what| Err(End::Misuse { agent, node, what });
        let place = self.places[op.barrier as usize].clone();
        if place.object != NONE {
            return wrong(self.current(place.object), Misuse::StillValid);
        }
        let Some(state) = Object::new(count) else { return wrong(NONE, Misuse::Count) };
        let object = self.trace.objects.len() as u32;
        let node = self.new_node(op.barrier, Some(count), (object, 0));
        let place = &mut self.places[op.barrier as usize];
        (place.object, place.last) = (object, node);
        let by = (agent, self.at[agent as usize]);
        let (barrier, nodes, ops) = (op.barrier, vec![node], Vec::new());
        self.trace.objects.push(Initialized { barrier, by, invalidated: None, nodes, ops, state });
        if self.agents.list[agent as usize].threads > 1 {
            // The next thread of the group does the same.
            return wrong(node, Misuse::StillValid);
        }
        Ok(node)
    }

    /// Each thread of an agent contributes to the phase of an object.
    fn contribute(&mut self, agent: u32, op: Op) -> Result<(), End> {
        let object = self.object(agent, op)?;
        let node = self.current(object);
        let at = self.at[agent as usize];
        let of = &mut self.trace.objects[object as usize];
        of.ops.push((agent, at));
        self.trace.nodes[node as usize].parts.push((agent, at));
        let threads = self.agents.list[agent as usize].threads;
        let mut complete = false;
        for _ in 0..threads {
            let what = match of.state.perform(op.does) {
                _ if complete => Misuse::OtherPhase,
                Err(what) => what,
                Ok(now) => {
                    complete = now;
                    continue;
                }
            };
            return Err(End::Misuse { agent, node, what });
        }
        self.went(agent, node);
        if complete {
            self.end_phase(object);
        }
        Ok(())
    }

    /// A phase is complete and the next one begins.
    fn end_phase(&mut self, object: u32) {
        let of = &self.trace.objects[object as usize];
        let (barrier, node, expected) = (of.barrier, self.current(object), of.state.expected());
        let next = self.new_node(barrier, Some(expected), (object, of.nodes.len() as u32));
        self.trace.objects[object as usize].nodes.push(next);
        self.places[barrier as usize].last = next;
        self.time += 1;
        let of = &mut self.trace.nodes[node as usize];
        of.complete = true;
        for &(agent, _) in &of.waiters {
            self.at[agent as usize] += 1;
            self.trace.opened[agent as usize].push(self.time);
            self.ready.push_back(agent);
        }
        self.trace.completed.push(node);
    }
}

/// The count of a use that expects `one`, after an arrival with `other`, where all threads of the block count for `all`.
fn agreed(one: Option<u32>, other: Option<u32>, all: u32) -> Option<Option<u32>> {
    match (one, other) {
        _ if one == other => Some(one),
        (None, Some(n)) | (Some(n), None) if n == all => Some(Some(n)),
        _ => None,
    }
}
