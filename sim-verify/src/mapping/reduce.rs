//! Programs that stand for others: which shapes and modes the search may leave out.
//!
//! Each rule says that a counterexample with more leads to one with less, which the search has looked at: fewer events,
//! or as many with fewer accesses, or with fewer sequentially consistent operations, or at a place that tells more scopes
//! apart. They hold for the models `ptx-6.0` and `rc11-scoped` and the table of MM figure 11, with sequentially consistent
//! accesses converted to a fence and an access; [`Check::all_of`](super::search::Check::all_of) applies them only there.
//!
//! On the side of PTX, an execution stays consistent without some of its events, as every axiom forbids a pattern. Its
//! coherence order stays as it is if causality between the remaining events does. On the side of RC11, a legal execution
//! must stay legal with the events put back, without new races. That is so for
//!
//! - a location that one thread alone accesses, or that nobody writes: reads-from, coherence and from-reads follow program
//!   order there. Of a sequentially consistent access its fence remains;
//! - a fence that is not sequentially consistent and has no read before it (acquire) or no write behind it (release): it is
//!   part of no pattern. One that both acquires and releases is then one that does one of them;
//! - a fence next to one that includes it, in order and scope;
//! - a sequentially consistent fence that is first or last in its thread: no psc edge leads to it or from it, and
//! - threads that share no location with the others, unless they *carry* causality: PTX orders `fence.sc` A, F, C by
//!   A → F → C although A and C are not morally strong, where F is in the scope of both, and A is not in that of C.
//!
//! A place matters only by the sets of threads that the scopes of each thread include. A place whose sets are all sets of
//! another, thread by thread, has no program that the other does not have.

use super::program::{MemoryOrder, Mode, OpKind, Shape};
use crate::litmus::program::{Place, Scope};

const SCOPES: [Scope; 3] = [Scope::Cta, Scope::Gpu, Scope::Sys];

/// The representative placements of threads, by number of threads.
#[derive(Clone, Debug)]
pub struct Reduction {
    kept: Vec<Vec<Vec<Place>>>,
}

impl Reduction {
    /// For programs of at most so many threads.
    pub fn new(threads: usize) -> Self {
        Self { kept: (0..=threads).map(placements).collect() }
    }

    /// Programs of this shape are searched.
    pub fn keeps(&self, shape: &Shape) -> bool {
        self.kept[shape.threads.len()].contains(&shape.places) && shared(shape) && {
            let undecided = vec![None; shape.ops().count()];
            needed(shape, &undecided)
        }
    }
}

/// The sets of threads, as bits, that the scopes of a thread include.
fn reach(places: &[Place], thread: usize) -> [u32; 3] {
    SCOPES.map(|scope| {
        (0..places.len()).filter(|t| places[thread].includes(scope, places[*t])).map(|t| 1 << t).sum()
    })
}

/// Placements of so many threads whose sets are not all sets of another.
fn placements(threads: usize) -> Vec<Vec<Place>> {
    let mut all: Vec<(Vec<Place>, Vec<[u32; 3]>)> = Vec::new();
    super::shapes::places(threads, &mut |places| {
        let sets = (0..threads).map(|t| reach(places, t)).collect();
        all.push((places.to_vec(), sets));
    });
    let within =
        |a: &[[u32; 3]], b: &[[u32; 3]]| a.iter().zip(b).all(|(a, b)| a.iter().all(|set| b.contains(set)));
    let stands = |(places, sets): &(Vec<Place>, Vec<[u32; 3]>)| {
        // One GPU for each CTA has the sets of one GPU for all.
        let apart = sets.iter().all(|[cta, gpu, _]| cta == gpu);
        let one = places.iter().all(|place| place.gpu == places[0].gpu);
        (one || !apart) && !all.iter().any(|(_, other)| within(sets, other) && !within(other, sets))
    };
    all.iter().filter(|placement| stands(placement)).map(|(places, _)| places.clone()).collect()
}

/// Every location has accesses of two threads, one of them a write.
fn shared(shape: &Shape) -> bool {
    (0..shape.locations()).all(|location| {
        let accesses = || {
            let here = move |(_, op): &(usize, super::program::Op)| {
                op.kind.accesses() && usize::from(op.location) == location
            };
            shape.ops().filter(here)
        };
        let first = accesses().next().map(|(thread, _)| thread);
        accesses().any(|(thread, _)| Some(thread) != first) && accesses().any(|(_, op)| op.kind.writes())
    })
}

/// An operation in its thread, with its mode if it has one.
#[derive(Clone, Copy)]
struct Placed {
    thread: usize,
    kind: OpKind,
    first: bool,
    last: bool,
    mode: Option<Mode>,
}

impl Placed {
    fn is_fence(&self) -> bool {
        self.kind == OpKind::Fence
    }

    /// It has a fence.sc, or may have one, whose scope includes the threads `to` and none of `without`, both bits.
    fn orders(&self, places: &[Place], to: u32, without: u32) -> bool {
        let sets = reach(places, self.thread);
        let of = |scope: Scope| sets[SCOPES.iter().position(|s| *s == scope).unwrap_or(2)];
        let fits = |set: u32| set & to == to && set & without == 0;
        match self.mode {
            None => sets.into_iter().any(fits),
            Some(Mode { order: MemoryOrder::Sc, scope }) => fits(of(scope.unwrap_or(Scope::Sys))),
            Some(_) => false,
        }
    }
}

/// No part of a program, some of whose operations have their modes, can be left out.
pub fn needed(shape: &Shape, modes: &[Option<Mode>]) -> bool {
    let mut ops: Vec<Placed> = Vec::new();
    for (thread, list) in shape.threads.iter().enumerate() {
        for (i, op) in list.iter().enumerate() {
            let mode = modes[ops.len()];
            ops.push(Placed { thread, kind: op.kind, first: i == 0, last: i + 1 == list.len(), mode });
        }
    }
    (0..ops.len()).all(|i| acts(&shape.places, &ops, i) && !included(&ops, i)) && connected(shape, &ops)
}

/// An operation is not an idle fence, nor begins with one.
fn acts(places: &[Place], ops: &[Placed], i: usize) -> bool {
    let op = ops[i];
    let order = op.mode.map(|mode| mode.order);
    let at_an_end = op.first || op.last && op.is_fence();
    match order {
        _ if at_an_end && (order == Some(MemoryOrder::Sc) || order.is_none() && op.is_fence()) => {
            carries(places, ops, i)
        }
        None => true,
        Some(_) if !op.is_fence() => true,
        Some(_) if at_an_end => false,
        Some(order) => {
            let own = |other: &&Placed| other.thread == op.thread;
            let reads = ops[..i].iter().filter(own).any(|other| other.kind.reads());
            let writes = ops[i..].iter().filter(own).any(|other| other.kind.writes());
            match order {
                MemoryOrder::Acq => reads,
                MemoryOrder::Rel => writes,
                MemoryOrder::AcqRel => reads && writes,
                _ => true,
            }
        }
    }
}

/// The fence of an operation of B may carry causality between A and C, other threads: it is in the scope of a fence of
/// each and has them in its own, and the scope of A's fence does not include C.
fn carries(places: &[Place], ops: &[Placed], i: usize) -> bool {
    let b = ops[i].thread;
    let triple = |a: usize, c: usize| {
        let distinct = a != b && c != b && a != c;
        distinct
            && ops[i].orders(places, (1 << a) | (1 << c), 0)
            && ops.iter().any(|op| op.thread == a && op.orders(places, 1 << b, 1 << c))
            && ops.iter().any(|op| op.thread == c && op.orders(places, 1 << b, 0))
    };
    (0..places.len()).any(|a| (0..places.len()).any(|c| triple(a, c)))
}

/// A fence that is not sequentially consistent stands next to one of at least its order and scope. A sequentially
/// consistent access begins with one.
fn included(ops: &[Placed], i: usize) -> bool {
    let Some(Mode { order, scope }) = ops[i].mode.filter(|_| ops[i].is_fence()) else {
        return false;
    };
    if order == MemoryOrder::Sc {
        return false;
    }
    let includes = |other: &Placed, behind: bool| {
        other.mode.is_some_and(|mode| {
            let fence = other.is_fence() || behind && mode.order == MemoryOrder::Sc;
            let stronger =
                mode.order == order || mode.order == MemoryOrder::AcqRel || mode.order == MemoryOrder::Sc;
            fence && stronger && mode.scope >= scope
        })
    };
    let before = i.checked_sub(1).map(|j| ops[j]).filter(|other| other.thread == ops[i].thread);
    let after = ops.get(i + 1).filter(|other| other.thread == ops[i].thread);
    before.is_some_and(|other| includes(&other, false)) || after.is_some_and(|other| includes(other, true))
}

/// All threads are connected by locations they share, or those outside a connected part may carry causality within it.
fn connected(shape: &Shape, ops: &[Placed]) -> bool {
    let threads = shape.threads.len();
    let mut part: Vec<u32> = (0..threads).map(|t| 1 << t).collect();
    let shared = |a: usize, b: usize| {
        shape.threads[a].iter().any(|x| {
            x.kind.accesses()
                && shape.threads[b].iter().any(|y| y.kind.accesses() && x.location == y.location)
        })
    };
    for a in 0..threads {
        for b in 0..a {
            if shared(a, b) {
                let joined = part[a] | part[b];
                (0..threads).filter(|t| joined >> t & 1 == 1).for_each(|t| part[t] = joined);
            }
        }
    }
    let all = (1 << threads) - 1;
    let carried = |a: usize, b: usize, c: usize| {
        let inside = part[a] >> c & 1 == 1 && part[a] >> b & 1 == 0 && a != c;
        inside
            && ops.iter().any(|op| op.thread == a && op.orders(&shape.places, 1 << b, 1 << c))
            && ops.iter().any(|op| op.thread == b && op.orders(&shape.places, 1 << a, 0))
            && ops.iter().any(|op| op.thread == c && op.orders(&shape.places, 0, 0))
    };
    part[0] == all || (0..threads).any(|a| (0..threads).any(|b| (0..threads).any(|c| carried(a, b, c))))
}
