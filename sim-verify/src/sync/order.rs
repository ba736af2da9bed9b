//! What happens before what: the barrier dependence graph of an execution, with the latest operation of each agent that
//! happens before each complete use of a barrier, and the earliest that happens after it (NB §5.2).
//!
//! Nodes of the graph are complete uses of barriers. An operation leads into its node; a node leads to what comes behind
//! the `sync` operations in it. Nodes complete in an order that the graph agrees with.
//!
//! Phases of mbarrier objects are nodes too. Who waits for one and takes no part in it knows afterwards what it knew before,
//! and what the node does: a row of its own. Copies of a thread are columns of their own, as they go on beside it.

use rustc_hash::FxHashMap;

use super::agents::{Agents, Does, NONE, Op};
use super::program::Queue;
use super::trace::Trace;

/// A place in the program of a thread of an agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Position {
    /// Its operation of this number, from 0.
    Operation(u32),
    /// An access behind so many operations.
    Access(u32),
}

/// Happens-before and happens-after by agent, for each node.
#[derive(Clone, Debug)]
pub struct Order {
    columns: usize,
    /// Only what orders accesses to memory.
    memory: bool,
    /// By row and column. Of an agent: how many of its operations happen before. Of copies: how many are written. Of an
    /// mbarrier object: how many of its phases are complete.
    before: Vec<u32>,
    /// By node: its row.
    rows: Vec<u32>,
    /// By agent and number of operations: the row of what happens before the next one.
    waited: Vec<Vec<u32>>,
    /// By node and agent: the number, from 1, of the first operation that waits and happens after the node is complete, or
    /// then; empty until it is asked for.
    after: Vec<u32>,
    /// By agent: the first node in which it counts as returned.
    returned: Vec<u32>,
}

/// Makes the rows in the order of an execution.
struct Rows<'a> {
    agents: &'a Agents,
    trace: &'a Trace,
    order: Order,
    /// By two rows: that of both.
    joined: FxHashMap<(u32, u32), u32>,
}

impl Rows<'_> {
    fn leads(&self, op: &Op) -> bool {
        op.waits && !(self.order.memory && op.silent)
    }

    /// The row of an agent behind so many operations.
    fn of(&mut self, agent: u32, operations: u32) -> u32 {
        let (a, agents) = (agent as usize, self.agents);
        while self.order.waited[a].len() <= operations as usize {
            let at = self.order.waited[a].len() - 1;
            let last = self.order.waited[a][at];
            let op = &agents.list[a].ops[at];
            let node = self.trace.node_of[a][at];
            let next = match self.leads(op) && node != NONE {
                false => last,
                true if op.does.only_waits() => self.join(last, self.order.rows[node as usize]),
                true => self.order.rows[node as usize],
            };
            self.order.waited[a].push(next);
        }
        self.order.waited[a][operations as usize]
    }

    fn row(&self, row: u32) -> std::ops::Range<usize> {
        row as usize * self.order.columns..(row as usize + 1) * self.order.columns
    }

    fn push(&mut self, row: &[u32]) -> u32 {
        let number = (self.order.before.len() / self.order.columns.max(1)) as u32;
        self.order.before.extend_from_slice(row);
        number
    }

    /// What both know.
    fn join(&mut self, one: u32, other: u32) -> u32 {
        if one == NONE || other == NONE || one == other {
            return if one == NONE { other } else { one };
        }
        if let Some(known) = self.joined.get(&(one, other)) {
            return *known;
        }
        let both: Vec<u32> = {
            let (one, other) = (&self.order.before[self.row(one)], &self.order.before[self.row(other)]);
            one.iter().zip(other).map(|(one, other)| *one.max(other)).collect()
        };
        let same = both == self.order.before[self.row(other)];
        let row = if same { other } else { self.push(&both) };
        self.joined.insert((one, other), row);
        row
    }

    /// A complete node: what its parts knew, and that they took part.
    fn node(&mut self, node: u32, row: &mut [u32]) {
        row.fill(0);
        let (agents, trace, memory) = (self.agents, self.trace, self.order.memory);
        let of = &trace.nodes[node as usize];
        let mut last = NONE;
        for &(agent, op) in &of.parts {
            let own = &agents.list[agent as usize];
            let does = own.ops.get(op as usize);
            // An arrival that is relaxed tells of nothing.
            if memory && does.is_some_and(|op| op.silent && !op.waits) {
                continue;
            }
            let from = self.of(agent, op);
            if from != NONE && from != last {
                let earlier = &self.order.before[self.row(from)];
                for (own, earlier) in row.iter_mut().zip(earlier) {
                    *own = (*own).max(*earlier);
                }
            }
            last = from;
            let mut know = |column: u32, awaited: u32| {
                let known = &mut row[column as usize];
                *known = (*known).max(awaited);
            };
            for queue in [Queue::Copies, Queue::Stores].map(|queue| queue as usize) {
                if own.copies[queue] != NONE {
                    know(own.copies[queue], own.awaited(queue, op));
                }
            }
            let awaited = own.awaited(Queue::Products as usize, op);
            own.products.iter().for_each(|column| know(*column, awaited));
        }
        for &(agent, op) in &of.parts {
            let own = &agents.list[agent as usize];
            let does = own.ops.get(op as usize);
            let later = does.is_some_and(|op| op.does.is_asynchronous());
            let mut raise = |column: u32, to: u32| {
                let known = &mut row[column as usize];
                *known = (*known).max(to);
            };
            match does.map(|does| (does, does.does)) {
                Some((does, Does::ArrivesLater(_))) if own.copies[0] != NONE => {
                    raise(own.copies[0], does.number)
                }
                Some((does, Does::CopiesBulk(_))) => raise(own.bulk(does.barrier), does.number + 1),
                _ => {}
            }
            // Of what a thread did before, nobody learns by what comes later of itself.
            if !(memory && (later || does.is_some_and(|op| op.silent && !op.waits))) {
                raise(agent, op + 1);
            }
        }
        let phases = agents.phases[of.barrier as usize];
        if phases != NONE {
            row[phases as usize] = of.generation;
        }
        self.order.rows[node as usize] = self.push(row);
    }
}

impl Order {
    /// Goes through the nodes as they complete. Edges lead from node to node through threads [nb-bdg]; each node takes the
    /// maximum of those before it, and so has the latest operation of each agent that happens before it [nb-lhb].
    ///
    /// Of `memory`, only operations that order accesses to memory lead on: collectives other than `bar.warp.sync` wait
    /// and order nothing.
    pub fn new(agents: &Agents, trace: &Trace, memory: bool) -> Self {
        let columns = agents.columns as usize;
        let begins = |agent: &super::agents::Agent| {
            let mut own = Vec::with_capacity(agent.ops.len() + 1);
            own.push(NONE);
            own
        };
        let order = Self {
            columns,
            memory,
            before: Vec::with_capacity(trace.completed.len() * columns),
            rows: vec![NONE; trace.nodes.len()],
            waited: agents.list.iter().map(begins).collect(),
            after: Vec::new(),
            returned: Vec::new(),
        };
        let mut rows = Rows { agents, trace, order, joined: FxHashMap::default() };
        let mut row = vec![0u32; columns];
        for &node in &trace.completed {
            rows.node(node, &mut row);
        }
        for agent in 0..agents.list.len() {
            rows.of(agent as u32, trace.node_of[agent].len() as u32);
        }
        rows.order
    }

    /// Goes through the nodes backwards: each has the earliest operation of each agent that happens after it [nb-eha].
    pub fn find_after(&mut self, agents: &Agents, trace: &Trace) {
        let count = self.waited.len();
        let memory = self.memory;
        let leads = |op: &Op| op.waits && !(memory && op.silent);
        self.after = vec![u32::MAX; trace.nodes.len() * count];
        self.returned = vec![NONE; count];
        for &node in trace.completed.iter().rev() {
            for &(agent, op) in &trace.nodes[node as usize].parts {
                if op as usize == agents.list[agent as usize].ops.len() {
                    self.returned[agent as usize] = node;
                }
            }
        }
        let mut row = vec![u32::MAX; count];
        for &node in trace.completed.iter().rev() {
            row.fill(u32::MAX);
            let mut last = NONE;
            for &(agent, op) in &trace.nodes[node as usize].parts {
                let of = &agents.list[agent as usize];
                if !of.ops.get(op as usize).is_some_and(leads) {
                    continue;
                }
                row[agent as usize] = row[agent as usize].min(op + 1);
                for later in op as usize + 1..of.ops.len() {
                    let to = trace.node_of[agent as usize][later];
                    if to != last && trace.nodes[to as usize].complete {
                        let after = &self.after[to as usize * count..][..count];
                        for (own, after) in row.iter_mut().zip(after) {
                            *own = (*own).min(*after);
                        }
                        last = to;
                    }
                    if leads(&of.ops[later]) {
                        break;
                    }
                }
                // Behind its last operation it returns, which others may wait for.
                let to = self.returned[agent as usize];
                if to != NONE && !of.ops[op as usize + 1..].iter().any(leads) {
                    let after = &self.after[to as usize * count..][..count];
                    for (own, after) in row.iter_mut().zip(after) {
                        *own = (*own).min(*after);
                    }
                }
            }
            self.after[node as usize * count..][..count].copy_from_slice(&row);
        }
    }

    /// The row of what happens before an agent's operation behind so many.
    pub fn waited(&self, agent: u32, operations: u32) -> u32 {
        self.waited[agent as usize][operations as usize]
    }

    /// The row of a node that is complete.
    pub fn row(&self, node: u32) -> u32 {
        if node == NONE { NONE } else { self.rows[node as usize] }
    }

    /// What a row has of a column.
    #[inline]
    pub fn at(&self, row: u32, column: u32) -> u32 {
        if row == NONE { 0 } else { self.before[row as usize * self.columns + column as usize] }
    }

    /// The most that anybody knows in the end of a column.
    pub fn most(&self, column: u32) -> u32 {
        let last = self.waited.iter().filter_map(|rows| rows.last());
        if column == NONE { 0 } else { last.map(|row| self.at(*row, column)).max().unwrap_or(0) }
    }

    /// How many operations of `agent` happen before `node` is complete, or then.
    pub fn before(&self, node: u32, agent: u32) -> u32 {
        self.at(self.row(node), agent)
    }

    /// `one` happens no later than `other`, of another thread (NB definition 4).
    pub fn happens_before(
        &self,
        agents: &Agents,
        trace: &Trace,
        one: (u32, Position),
        other: (u32, Position),
    ) -> bool {
        let needed = match one.1 {
            Position::Operation(op) => op + 1,
            Position::Access(operations) => operations + 1,
        };
        let row = match other.1 {
            Position::Access(operations) => self.waited(other.0, operations),
            Position::Operation(op) if agents.list[other.0 as usize].ops[op as usize].waits => {
                let node = trace.node_of[other.0 as usize][op as usize];
                let at = if self.row(node) == NONE { op } else { op + 1 };
                self.waited(other.0, at)
            }
            Position::Operation(op) => self.waited(other.0, op),
        };
        needed <= self.at(row, one.0)
    }

    /// The barrier interval of an access, seen from `other`: accesses of `other` that can run at the same time are those
    /// behind `from` operations or more, and fewer than `to` [nb-intervals]. [`Self::find_after`] comes first.
    pub fn interval(
        &self,
        agents: &Agents,
        trace: &Trace,
        (agent, operations): (u32, u32),
        other: u32,
    ) -> (u32, u32) {
        let from = self.at(self.waited(agent, operations), other);
        let mut to = u32::MAX;
        if self.after.is_empty() {
            return (from, to);
        }
        let ops = &agents.list[agent as usize].ops;
        let after = |node: u32| self.after[node as usize * self.waited.len() + other as usize];
        for op in operations as usize..ops.len() {
            let node = trace.node_of[agent as usize][op];
            if trace.nodes[node as usize].complete {
                to = to.min(after(node));
            }
            if ops[op].waits && !(self.memory && ops[op].silent) {
                return (from, to);
            }
        }
        match self.returned[agent as usize] {
            NONE => (from, to),
            node => (from, to.min(after(node))),
        }
    }
}
