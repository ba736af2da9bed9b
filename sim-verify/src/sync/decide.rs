//! The decision: deadlock freedom, safe recycling of barriers, race freedom.

use super::agents::{Agents, Barrier, Beyond, Does, NONE, Use, View};
use super::object::Misuse;
use super::order::{Order, Position};
use super::phases::{self, Phases};
use super::program::{Programs, Queue};
use super::races::{Race, sweep};
use super::trace::{End, Trace};

/// A barrier that is recycled while a thread can still come to its earlier use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Recycling {
    /// An operation of the earlier use.
    pub earlier: Use,
    /// An operation of the next use, which nothing keeps until the earlier one is complete.
    pub later: Use,
    /// How many operations are like it, at the same two places of the program.
    pub count: u64,
}

/// What was decided.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// In all interleavings all threads return, each operation takes part in the same use of its barrier, and there are no
    /// races.
    Verified,
    /// In the execution of [`Decision::trace`] threads wait for ever.
    Deadlock {
        /// Operations that wait.
        waiting: Vec<Use>,
    },
    /// Two operations of a use expect different numbers of threads.
    CountMismatch {
        /// An operation that came earlier.
        earlier: Use,
        /// The one that does not agree.
        later: Use,
    },
    /// More threads come to a use than it expects.
    TooMany {
        /// The operations that had come.
        earlier: Vec<Use>,
        /// The one too many.
        later: Use,
    },
    /// An operation that must not be there.
    Misuse {
        /// Why.
        what: Misuse,
        /// Operations of the use before it.
        earlier: Vec<Use>,
        /// The operation.
        later: Use,
    },
    /// Barriers are recycled too early.
    Recycling(Vec<Recycling>),
    /// Operations on mbarrier objects are of different phases in different interleavings.
    Phases(Vec<Phases>),
    /// Copies are in flight, and nobody ever waits for them.
    NotAwaited(Vec<Use>),
    /// There are races.
    Races(Vec<Race>),
    /// It is not decided.
    Unknown(Beyond),
}

/// What the proof needed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Measures {
    /// Threads.
    pub threads: u32,
    /// Groups of threads with the same barrier operations.
    pub agents: u32,
    /// Barriers.
    pub barriers: u32,
    /// The most uses of one barrier.
    pub generations: u32,
    /// Uses of barriers.
    pub dynamic_barriers: u64,
    /// Barrier operations of threads.
    pub operations: u64,
    /// Accesses of threads.
    pub accesses: u64,
    /// Bytes of shared memory that they access.
    pub bytes: u64,
    /// Pairs of accesses that were tested.
    pub pairs: u64,
}

/// A verdict, with what it is about.
#[derive(Debug)]
pub struct Decision {
    /// What was decided.
    pub verdict: Verdict,
    /// What it needed.
    pub measures: Measures,
    /// The agents; `None` where they cannot be told.
    pub agents: Option<Agents>,
    /// The execution.
    pub trace: Option<Trace>,
    /// Happens-before, of an execution that ended.
    pub order: Option<Order>,
    /// The order of execution, where some operations wait and order no accesses to memory.
    pub execution: Option<Order>,
}

impl Decision {
    /// Uses of barriers that are not complete when all threads have returned: arrivals that nobody waits for.
    pub fn left_open(&self) -> impl Iterator<Item = u32> + '_ {
        let trace = self.trace.iter().filter(|trace| trace.end == End::Done);
        trace.flat_map(|trace| {
            let open = |node: &super::trace::Node| !node.complete && !node.parts.is_empty();
            trace.nodes.iter().enumerate().filter(move |(_, node)| open(node)).map(|(n, _)| n as u32)
        })
    }
}

/// Decides for all interleavings of a block's threads. Sound and complete for these thread programs (NB theorem 1 and lemma 1).
pub fn decide(programs: &Programs, view: View) -> Decision {
    decide_by(programs, view, true)
}

/// The same; unless by `memory`, races are told by what orders operations, whether it orders accesses to memory or not.
pub(super) fn decide_by(programs: &Programs, view: View, memory: bool) -> Decision {
    let mut measures = Measures { threads: programs.threads(), ..Measures::default() };
    let agents = match Agents::new(programs, view) {
        Ok(agents) => agents,
        Err(beyond) => {
            let verdict = Verdict::Unknown(beyond);
            return Decision { verdict, measures, agents: None, trace: None, order: None, execution: None };
        }
    };
    let trace = Trace::new(&agents);
    measures.agents = agents.list.len() as u32;
    let event = |barrier: u32| matches!(agents.barriers.get(barrier as usize), Some(Barrier::Event(_)));
    measures.barriers = (0..agents.barriers.len() as u32).filter(|barrier| !event(*barrier)).count() as u32;
    measures.generations = trace.nodes.iter().map(|node| node.generation).max().unwrap_or(0);
    measures.dynamic_barriers = {
        let used = |node: &&super::trace::Node| !node.parts.is_empty() && !event(node.barrier);
        trace.nodes.iter().filter(used).count() as u64
    };
    let operations = |agent: &super::agents::Agent| {
        let own = agent.ops.iter().filter(|op| !event(op.barrier)).count();
        u64::from(agent.threads) * own as u64
    };
    measures.operations = agents.list.iter().map(operations).sum();
    if let Some(verdict) = failed(&agents, &trace) {
        let (agents, trace) = (Some(agents), Some(trace));
        return Decision { verdict, measures, agents, trace, order: None, execution: None };
    }
    let mut order = Order::new(&agents, &trace, false);
    let well = well_synchronized(&agents, &trace, &order);
    let mut execution = None;
    let later = |op: &super::agents::Op| op.silent || op.does.is_asynchronous();
    if memory && well.is_none() && agents.list.iter().flat_map(|agent| &agent.ops).any(later) {
        execution = Some(std::mem::replace(&mut order, Order::new(&agents, &trace, true)));
    }
    let verdict = well.unwrap_or_else(|| match sweep(programs, &agents, &trace, &order) {
        Ok(swept) => {
            (measures.accesses, measures.bytes, measures.pairs) = (swept.accesses, swept.bytes, swept.pairs);
            let left = not_awaited(&agents, &order);
            match () {
                () if !swept.races.is_empty() => Verdict::Races(swept.races),
                () if !left.is_empty() => Verdict::NotAwaited(left),
                () => Verdict::Verified,
            }
        }
        Err(reason) => Verdict::Unknown(Beyond { reason: reason.into(), site: NONE }),
    });
    Decision { verdict, measures, agents: Some(agents), trace: Some(trace), order: Some(order), execution }
}

/// What keeps an execution from being the same, but for its order, in all interleavings.
fn well_synchronized(agents: &Agents, trace: &Trace, order: &Order) -> Option<Verdict> {
    let recycled = recycling(agents, trace, order);
    if !recycled.is_empty() {
        return Some(Verdict::Recycling(recycled));
    }
    match phases::check(agents, trace, order) {
        Ok(found) if found.is_empty() => None,
        Ok(found) => Some(Verdict::Phases(found)),
        Err(beyond) => Some(Verdict::Unknown(beyond)),
    }
}

/// Copies that neither their thread nor a phase of an object waits for: the first one of each agent.
fn not_awaited(agents: &Agents, order: &Order) -> Vec<Use> {
    let mut found = Vec::new();
    for (number, agent) in agents.list.iter().enumerate() {
        let known = |column| order.most(column);
        let waited =
            |queue: usize| agent.awaited(queue, agent.ops.len() as u32).max(known(agent.copies[queue]));
        let left = |op: &super::agents::Op| match op.does {
            // What products leave in flight, nobody can see.
            Does::Copies(queue) => queue != Queue::Products && op.number >= waited(queue as usize),
            Does::CopiesBulk(_) => op.number >= known(agent.bulk(op.barrier)),
            _ => false,
        };
        if let Some(op) = agent.ops.iter().position(left) {
            found.push(Use { agent: number as u32, op: op as u32, node: NONE });
        }
    }
    found
}

/// The verdict on an execution that does not reach its end.
fn failed(agents: &Agents, trace: &Trace) -> Option<Verdict> {
    let parts = |node: u32| -> Vec<Use> {
        let Some(of) = trace.nodes.get(node as usize) else { return Vec::new() };
        of.parts
            .iter()
            .chain(of.waiters.iter().filter(|_| !of.complete))
            .map(|&(agent, op)| Use { agent, op, node })
            .collect()
    };
    let next = |agent: u32, node: u32| {
        let op = trace.node_of[agent as usize].len() as u32;
        Use { agent, op, node }
    };
    match trace.end {
        End::Done => None,
        End::CountMismatch { agent, node } => {
            let earlier = *parts(node).first()?;
            Some(Verdict::CountMismatch { earlier, later: next(agent, node) })
        }
        End::TooMany { agent, node } => {
            Some(Verdict::TooMany { earlier: parts(node), later: next(agent, node) })
        }
        End::Misuse { agent, node, what } => {
            let earlier = match node {
                NONE => Vec::new(),
                node => parts(node),
            };
            let earlier = earlier.into_iter().filter(|u| *u != next(agent, node)).collect();
            Some(Verdict::Misuse { what, earlier, later: next(agent, node) })
        }
        End::Deadlock => {
            let open = (0..trace.nodes.len() as u32).filter(|&node| !trace.nodes[node as usize].complete);
            let waits =
                |u: &Use| agents.list[u.agent as usize].ops.get(u.op as usize).is_some_and(|op| op.waits);
            Some(Verdict::Deadlock { waiting: open.flat_map(parts).filter(waits).collect() })
        }
    }
}

/// Pairs of places in the program that are told of.
const MOST_RECYCLINGS: usize = 64;

/// WELLSYNC by nodes: whoever takes part in a use is at its operation only after the use before is complete.
fn recycling(agents: &Agents, trace: &Trace, order: &Order) -> Vec<Recycling> {
    let mut found: Vec<Recycling> = Vec::new();
    let site = |u: Use| agents.list[u.agent as usize].ops[u.op as usize].site;
    for (number, node) in trace.nodes.iter().enumerate() {
        // Phases of objects are another matter, events happen once, and who arrives at the cluster's barrier has waited there.
        if matches!(
            agents.barriers[node.barrier as usize],
            Barrier::Object(_) | Barrier::Cluster | Barrier::Event(_)
        ) {
            continue;
        }
        let Some(next) = trace.nodes.get(node.next as usize) else { continue };
        let waits = |&&(agent, op): &&(u32, u32)| {
            agents.list[agent as usize].ops.get(op as usize).is_some_and(|op| op.waits)
        };
        let sync = node.parts.iter().find(waits);
        let mut fine = NONE;
        for &(agent, op) in &next.parts {
            let Some(own) = agents.list[agent as usize].ops.get(op as usize) else { continue };
            let last = order.waited(agent, op);
            if last != NONE && last == fine {
                continue;
            }
            let unordered = match sync {
                Some(&(g, i)) => Some((g, i)).filter(|_| order.at(last, g) <= i),
                None => node.parts.iter().copied().find(|&(g, i)| {
                    let same = g == agent && agents.list[g as usize].ordered;
                    let in_program = same && (i + 1 < op || i + 1 == op && own.gap);
                    order.at(last, g) <= i && !in_program
                }),
            };
            let Some((g, i)) = unordered else {
                // What holds by the order of nodes holds for all that waited for the same one.
                if sync.is_some() {
                    fine = last;
                }
                continue;
            };
            let earlier = Use { agent: g, op: i, node: number as u32 };
            let later = Use { agent, op, node: node.next };
            let sites = (site(earlier), site(later));
            match found.iter().position(|r| (site(r.earlier), site(r.later)) == sites) {
                Some(known) => found[known].count += 1,
                None if found.len() < MOST_RECYCLINGS => found.push(Recycling { earlier, later, count: 1 }),
                None => {}
            }
        }
    }
    found
}

impl Decision {
    /// The last operation of `other` that happens before an access of `agent` behind so many operations, and the first that
    /// happens after it: accesses of `other` between them can run at the same time.
    pub fn between(&mut self, (agent, operations): (u32, u32), other: u32) -> Option<(u32, u32)> {
        let (agents, trace, order) = (self.agents.as_ref()?, self.trace.as_ref()?, self.order.as_mut()?);
        // Not where threads wait for what they take no part in.
        if !agents.extended {
            order.find_after(agents, trace);
        }
        Some(order.interval(agents, trace, (agent, operations), other))
    }

    /// An access that comes first in the execution comes before another one in all interleavings, by operations that order no
    /// accesses to memory.
    pub fn executes_before(&self, one: (u32, u32), other: (u32, u32)) -> bool {
        let (Some(agents), Some(trace)) = (&self.agents, &self.trace) else { return false };
        let at = |(agent, operations)| (agent, Position::Access(operations));
        self.execution.as_ref().is_some_and(|order| order.happens_before(agents, trace, at(one), at(other)))
    }

    /// One command happens no later than another, of another thread.
    pub fn happens_before(&self, one: (u32, Position), other: (u32, Position)) -> Option<bool> {
        let (agents, trace, order) = (self.agents.as_ref()?, self.trace.as_ref()?, self.order.as_ref()?);
        Some(order.happens_before(agents, trace, one, other))
    }
}
