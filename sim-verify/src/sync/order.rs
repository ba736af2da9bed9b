//! What happens before what: the barrier dependence graph of an execution, with the latest operation of each agent that
//! happens before each complete use of a barrier, and the earliest that happens after it (NB §5.2).
//!
//! Nodes of the graph are complete uses of barriers. An operation leads into its node; a node leads to what comes behind
//! the `sync` operations in it. Nodes complete in an order that the graph agrees with.

use super::trace::{Agents, NONE, Op, Trace};

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
    agents: usize,
    /// Only what orders accesses to memory.
    memory: bool,
    /// By node and agent: how many of the agent's operations happen before the node is complete, or then.
    before: Vec<u32>,
    /// By agent and number of operations: the node of the last of them that waits.
    waited: Vec<Vec<u32>>,
    /// By node and agent: the number, from 1, of the first operation that waits and happens after the node is complete, or
    /// then; empty until it is asked for.
    after: Vec<u32>,
    /// By agent: the first node in which it counts as returned.
    returned: Vec<u32>,
}

impl Order {
    /// Goes through the nodes as they complete. Edges lead from node to node through threads [nb-bdg]; each node takes the
    /// maximum of those before it, and so has the latest operation of each agent that happens before it [nb-lhb].
    ///
    /// Of `memory`, only operations that order accesses to memory lead on: collectives other than `bar.warp.sync` wait
    /// and order nothing.
    pub fn new(agents: &Agents, trace: &Trace, memory: bool) -> Self {
        let leads = |op: &Op| op.waits && !(memory && op.silent);
        let count = agents.list.len();
        let mut waited: Vec<Vec<u32>> = Vec::with_capacity(count);
        for (agent, nodes) in agents.list.iter().zip(&trace.node_of) {
            let mut last = NONE;
            let mut own = Vec::with_capacity(nodes.len() + 1);
            own.push(NONE);
            for (op, &node) in agent.ops.iter().zip(nodes) {
                last = if leads(op) { node } else { last };
                own.push(last);
            }
            waited.push(own);
        }
        let mut before = vec![0u32; trace.nodes.len() * count];
        let mut row = vec![0u32; count];
        for &node in &trace.completed {
            row.fill(0);
            let mut last = NONE;
            for &(agent, op) in &trace.nodes[node as usize].parts {
                let from = waited[agent as usize][op as usize];
                if from != NONE && from != last {
                    let earlier = &before[from as usize * count..][..count];
                    for (own, earlier) in row.iter_mut().zip(earlier) {
                        *own = (*own).max(*earlier);
                    }
                }
                last = from;
            }
            for &(agent, op) in &trace.nodes[node as usize].parts {
                let own = &mut row[agent as usize];
                *own = (*own).max(op + 1);
            }
            before[node as usize * count..][..count].copy_from_slice(&row);
        }
        Self { agents: count, memory, before, waited, after: Vec::new(), returned: Vec::new() }
    }

    /// Goes through the nodes backwards: each has the earliest operation of each agent that happens after it [nb-eha].
    pub fn find_after(&mut self, agents: &Agents, trace: &Trace) {
        let count = self.agents;
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

    /// The node of the last operation that waits of an agent's first `operations`.
    pub fn waited(&self, agent: u32, operations: u32) -> u32 {
        self.waited[agent as usize][operations as usize]
    }

    /// How many operations of `agent` happen before `node` is complete, or then.
    pub fn before(&self, node: u32, agent: u32) -> u32 {
        if node == NONE { 0 } else { self.before[node as usize * self.agents + agent as usize] }
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
        let node = match other.1 {
            Position::Access(operations) => self.waited(other.0, operations),
            Position::Operation(op) if agents.list[other.0 as usize].ops[op as usize].waits => {
                trace.node_of[other.0 as usize][op as usize]
            }
            Position::Operation(op) => self.waited(other.0, op),
        };
        needed <= self.before(node, one.0)
    }

    /// An access of `one` behind so many operations happens before one of `other`: one look at a table.
    #[inline]
    pub fn access_before(&self, one: (u32, u32), other: (u32, u32)) -> bool {
        one.1 < self.before(self.waited(other.0, other.1), one.0)
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
        let from = self.before(self.waited(agent, operations), other);
        let mut to = u32::MAX;
        if self.after.is_empty() {
            return (from, to);
        }
        let ops = &agents.list[agent as usize].ops;
        let after = |node: u32| self.after[node as usize * self.agents + other as usize];
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
