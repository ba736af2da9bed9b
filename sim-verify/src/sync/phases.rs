//! Mbarrier objects (PTX ISA "mbarrier"): what completes a phase, and whether each operation is of the same phase in all
//! interleavings.
//!
//! A phase is complete with the operation that leaves no arrival and no byte to wait for. An execution has given each
//! operation a phase. It is the same in all interleavings if nobody contributes to a phase, or waits for one, before the
//! phase before is certain to be complete; if the phase behind the one that is waited for cannot complete before the
//! wait is over; and if no part of the contributions to a phase is enough to complete it.

use super::agents::{Agents, Beyond, Does, NONE, Use};
use super::object::MOST;
use super::order::Order;
use super::program::Act;
use super::trace::{Initialized, Trace};

/// What is not the same in all interleavings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wrong {
    /// The second can come before the first, which initializes its object.
    NotInitialized,
    /// The second can end the object, or begin it anew, before the first.
    InUse,
    /// The second can contribute to the phase of the first, which is the one before its own.
    Early,
    /// The second can wait for a phase earlier than its own: the first is a part of the one before.
    WaitsEarly,
    /// The first can come to its wait when the phase behind its own, to which the second contributes, is complete.
    WaitsLate,
    /// The phase can be complete without the second: the first is its last arrival.
    Incomplete,
}

/// Something that is wrong with the phases of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Phases {
    /// What.
    pub wrong: Wrong,
    /// An operation.
    pub first: Use,
    /// Another.
    pub second: Use,
    /// How many are like it, at the same two places of the program.
    pub count: u64,
}

/// Pairs of places in the program that are told of.
const MOST_TOLD: usize = 64;

/// Contributions that a phase may be complete without, of which all sets are tried.
const MOST_FREE: usize = 12;

/// What is wrong with the phases of an execution that ended.
///
/// # Errors
/// What is not decided.
pub fn check(agents: &Agents, trace: &Trace, order: &Order) -> Result<Vec<Phases>, Beyond> {
    let mut check = Check { agents, trace, order, found: Vec::new() };
    let mut last: Vec<Option<(u32, u32)>> = vec![None; agents.barriers.len()];
    for object in &trace.objects {
        if let Some(before) = last[object.barrier as usize]
            && !check.known(before, object.by)
        {
            check.tell(Wrong::InUse, before, object.by);
        }
        last[object.barrier as usize] = object.invalidated;
        if let Some(end) = object.invalidated
            && !check.known(object.by, end)
        {
            check.tell(Wrong::NotInitialized, object.by, end);
        }
        for &op in &object.ops {
            check.operation(object, op);
        }
        for &node in &object.nodes {
            check.whole(object, node)?;
        }
    }
    Ok(check.found)
}

/// A contribution, and the number of its thread among those of its agent.
type Part = ((u32, u32), u32);

struct Check<'a> {
    agents: &'a Agents,
    trace: &'a Trace,
    order: &'a Order,
    found: Vec<Phases>,
}

impl Check<'_> {
    fn does(&self, (agent, op): (u32, u32)) -> Does {
        self.agents.list[agent as usize].ops[op as usize].does
    }

    /// `one` comes before `other` begins, for all their threads.
    fn known(&self, one: (u32, u32), other: (u32, u32)) -> bool {
        let own = one.0 == other.0 && self.agents.list[one.0 as usize].threads == 1 && one.1 < other.1;
        own || self.order.at(self.order.waited(other.0, other.1), one.0) > one.1
    }

    /// A part of a node that may still be missing when `at` begins.
    fn missing(&self, node: u32, at: (u32, u32)) -> Option<(u32, u32)> {
        let of = &self.trace.nodes[node as usize];
        let row = self.order.waited(at.0, at.1);
        if self.order.at(row, self.agents.phases[of.barrier as usize]) >= of.generation {
            return None;
        }
        let missing = |&part: &(u32, u32)| self.does(part).is_asynchronous() || !self.known(part, at);
        of.parts.iter().copied().find(missing)
    }

    fn operation(&mut self, object: &Initialized, at: (u32, u32)) {
        if !self.known(object.by, at) {
            self.tell(Wrong::NotInitialized, object.by, at);
        }
        let node = self.trace.node_of[at.0 as usize][at.1 as usize];
        if let Some(end) = object.invalidated {
            let later = self.does(at).is_asynchronous() && self.missing(node, end).is_some();
            if !self.known(at, end) || later {
                self.tell(Wrong::InUse, at, end);
            }
        }
        let waits = self.does(at).only_waits();
        // The phase behind the one before: that of a contribution, or the one that is waited for.
        let phase = if node == NONE { None } else { Some(self.trace.nodes[node as usize].phase.1 as usize) };
        if let Some(before) = phase.and_then(|phase| phase.checked_sub(1))
            && let Some(part) = self.missing(object.nodes[before], at)
        {
            self.tell(if waits { Wrong::WaitsEarly } else { Wrong::Early }, part, at);
        }
        if !waits {
            return;
        }
        let behind = object.nodes[phase.map_or(0, |phase| phase + 1).min(object.nodes.len() - 1)];
        let of = &self.trace.nodes[behind as usize];
        if of.complete && behind != node && self.order.at(self.order.row(behind), at.0) <= at.1 {
            let last = of.parts.last().copied().unwrap_or(at);
            self.tell(Wrong::WaitsLate, at, last);
        }
    }

    /// Bytes that a contribution makes its phase wait for.
    fn bytes(&self, part: (u32, u32)) -> i64 {
        match self.does(part) {
            Does::Object(Act::Arrive { bytes, .. } | Act::Expect { bytes }) => bytes.into(),
            Does::Object(Act::Complete { bytes }) | Does::CopiesBulk(bytes) => -i64::from(bytes),
            _ => 0,
        }
    }

    fn arrives(&self, part: (u32, u32)) -> bool {
        matches!(self.does(part), Does::Object(Act::Arrive { .. }) | Does::ArrivesLater(false))
    }

    /// It completes no phase.
    fn expects(&self, part: (u32, u32)) -> bool {
        matches!(self.does(part), Does::Object(Act::Expect { .. }))
    }

    /// What a thread contributes comes before what another one does begins.
    fn follows(&self, (one, thread): Part, (other, of): Part) -> bool {
        let own = one.0 == other.0 && thread == of;
        let later = matches!(self.does(one), Does::CopiesBulk(_) | Does::ArrivesLater(false));
        !later && if own { one.1 < other.1 } else { self.known(one, other) }
    }

    /// A phase is complete with all its contributions, whatever their order, or never is.
    fn whole(&mut self, object: &Initialized, node: u32) -> Result<(), Beyond> {
        let (parts, complete) = {
            let of = &self.trace.nodes[node as usize];
            (of.parts.clone(), of.complete)
        };
        let site = |(agent, op): (u32, u32)| self.agents.list[agent as usize].ops[op as usize].site;
        let threads = |part: (u32, u32)| self.agents.list[part.0 as usize].threads;
        let sum = |sign: i64| -> i64 {
            let bytes = |part: &(u32, u32)| (sign * self.bytes(*part)).max(0);
            parts.iter().map(|part| bytes(part).saturating_mul(threads(*part).into())).sum()
        };
        if let (Some(&first), true) = (parts.first(), sum(1).max(sum(-1)) > i64::from(MOST)) {
            let reason = format!("the bytes of a phase may exceed {MOST} in some order");
            return Err(Beyond { reason, site: site(first) });
        }
        // With as many arrivals as the phase expects, a part of these may be enough that no arrival is certain to come behind.
        let is_free = |part: (u32, u32)| {
            let before =
                |other: &&(u32, u32)| part.0 == other.0 && part.1 < other.1 || self.known(part, **other);
            let copy = matches!(self.does(part), Does::CopiesBulk(_));
            !self.arrives(part)
                && (copy || !parts.iter().filter(|other| self.arrives(**other)).any(|other| before(&other)))
        };
        let adds = |part: (u32, u32)| self.expects(part) || self.does(part) == Does::ArrivesLater(true);
        let none = match complete {
            true => !parts.iter().any(|part| adds(*part)),
            false => object.state.left().0 > 0,
        };
        if none {
            return Ok(());
        }
        let free: Vec<(u32, u32)> = parts.iter().copied().filter(|part| is_free(*part)).collect();
        let first = free.iter().copied().find(|part| adds(*part));
        let Some(&some) = first.as_ref().or(if complete { None } else { parts.last() }) else {
            return Ok(());
        };
        let unknown = |reason: &str| Err(Beyond { reason: reason.into(), site: site(some) });
        let all: Vec<Part> =
            free.iter().flat_map(|&part| (0..threads(part)).map(move |thread| (part, thread))).collect();
        if all.len() > MOST_FREE {
            return unknown("many contributions to a phase may come behind its last arrival");
        }
        // Where nobody waits for it and nothing follows, it is all the same whether it is complete.
        let matters = complete && {
            let of = &self.trace.nodes[node as usize];
            let next = self.trace.nodes.get(of.next as usize);
            !of.waiters.is_empty() || next.is_some_and(|n| !n.parts.is_empty() || !n.waiters.is_empty())
        };
        if let Some(missing) = self.enough_without(&parts, &all, sum(1) - sum(-1), matters) {
            let last = parts.iter().rev().copied().find(|part| self.arrives(*part));
            self.tell(Wrong::Incomplete, last.unwrap_or(missing), missing);
            return Ok(());
        }
        match free.iter().any(|part| matches!(self.does(*part), Does::CopiesBulk(_))) {
            true => unknown("bytes of a bulk copy may complete a phase before others are expected"),
            false => Ok(()),
        }
    }

    /// Of contributions that sum up to `bytes`, one that a phase may be complete without; or that comes too late to complete
    /// it, if that `matters`. `free` are those that no arrival is certain to come behind.
    fn enough_without(
        &self,
        parts: &[(u32, u32)],
        free: &[Part],
        bytes: i64,
        matters: bool,
    ) -> Option<(u32, u32)> {
        let of_all = |part: &(u32, u32)| {
            let part = *part;
            (0..self.agents.list[part.0 as usize].threads).map(move |thread| (part, thread))
        };
        let all: Vec<Part> = parts.iter().flat_map(of_all).collect();
        let sets = 1..1usize << free.len();
        for set in sets {
            let left_out =
                |part: &Part| free.iter().position(|f| f == part).is_some_and(|i| set >> i & 1 == 1);
            let left: i64 = free.iter().filter(|f| left_out(f)).map(|f| self.bytes(f.0)).sum();
            if left != bytes {
                continue;
            }
            let (without, with): (Vec<Part>, Vec<Part>) = all.iter().partition(|part| left_out(part));
            let closed = !without.iter().any(|one| with.iter().any(|other| self.follows(*one, *other)));
            let last =
                |one: &&Part| !self.expects(one.0) && !with.iter().any(|other| self.follows(**one, *other));
            if closed && with.iter().any(|one| last(&one)) {
                return without.first().map(|part| part.0);
            }
        }
        let too_late =
            |one: &&Part| self.expects(one.0) && !all.iter().any(|other| self.follows(**one, *other));
        free.iter().find(|one| matters && too_late(one)).map(|part| part.0)
    }

    fn tell(&mut self, wrong: Wrong, first: (u32, u32), second: (u32, u32)) {
        let site = |(agent, op): (u32, u32)| self.agents.list[agent as usize].ops[op as usize].site;
        let place = |u: &Use| site((u.agent, u.op));
        let sites = (wrong, site(first), site(second));
        if let Some(known) =
            self.found.iter_mut().find(|p| (p.wrong, place(&p.first), place(&p.second)) == sites)
        {
            known.count += 1;
        } else if self.found.len() < MOST_TOLD {
            let of = |(agent, op): (u32, u32)| Use {
                agent,
                op,
                node: self.trace.node_of[agent as usize][op as usize],
            };
            self.found.push(Phases { wrong, first: of(first), second: of(second), count: 1 });
        }
    }
}
