//! The search for a program whose mapping is wrong.
//!
//! Enumeration with two bounds, which hold for every completion of a program whose first operations have their modes:
//! - a program that is racy with the strongest modes for the others is racy with any (weaker modes have every execution
//!   of stronger ones, and less happens-before);
//! - an execution that PTX forbids with the weakest instructions for the others, or all of whose modification orders
//!   RC11 allows with the strongest modes, is no counterexample with any.
//!
//! `tests.rs` compares the search with one that knows no bounds. A SAT solver was not used: the models are text that
//! users change, which an encoding would have to repeat, and most shapes are dismissed by one evaluation.

use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use rayon::prelude::*;

use super::execution::{Events, ScAccess, Writer, choices, of_compiled, of_source};
use super::program::{Mode, Op, OpKind, Shape};
use super::reduce::{Reduction, needed};
use super::shapes::{Class, classes};
use super::table::{Instruction, Table};
use crate::cat::{Leaf, Model};
use crate::litmus::program::{Place, Scope};
use crate::relation::Relation;

/// A program and an execution that PTX allows and scoped RC11 does not.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Counterexample {
    /// The program.
    pub shape: Shape,
    /// The modes of its operations.
    pub modes: Vec<Mode>,
    /// Which operation each reading one reads from, as indices of operations; none is the initial value.
    pub sources: Vec<(Option<usize>, usize)>,
    /// Pairs of writing operations in coherence order.
    pub coherence: Vec<(usize, usize)>,
}

/// Extent and result of a search.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Searched {
    /// Classes of shapes.
    pub shapes: u64,
    /// Representative classes, which were searched.
    pub searched: u64,
    /// Programs of these, up to the order of threads and names.
    pub programs: u64,
    /// Programs whose bounds did not decide them: all their executions were looked at.
    pub decided_one_by_one: u64,
    /// The first counterexample in the order of the enumeration.
    pub counterexample: Option<Counterexample>,
}

/// The two models and the table.
pub struct Check<'m> {
    /// The model of C++.
    pub source: &'m Model,
    /// The model of PTX.
    pub target: &'m Model,
    /// The mapping.
    pub table: &'m Table,
    /// What sequentially consistent accesses are in the model of C++.
    pub sc: ScAccess,
    /// Programs that stand for others are looked at alone ([`reduce`](super::reduce)). Right for the shipped models, the
    /// table of figure 11 and converted accesses, if programs of fewer events are searched, too.
    pub reduce: bool,
}

/// An execution that is still possible: its sources.
type Choice = Vec<(Writer, usize)>;

impl Check<'_> {
    /// Searches all programs of exactly `events` events.
    pub fn all_of(&self, events: usize) -> Searched {
        let (mut list, mut shapes, mut programs) = (Vec::new(), 0, 0);
        let reduction = self.reduce.then(|| Reduction::new(events));
        classes(events, &mut |class| {
            shapes += 1;
            programs += class.programs();
            if reduction.as_ref().is_none_or(|reduction| reduction.keeps(&class.shape)) {
                list.push(class);
            }
        });
        Searched { shapes, programs, ..self.search(&list) }
    }

    /// Searches programs of at most three threads of at most two operations each, every thread in a CTA of its own and
    /// every operation atomic at GPU scope: the shapes of the classical litmus tests, with up to twelve events. Only
    /// programs are looked at that contain an operation of `rows`, which differ from a table that is known to be right.
    pub fn classical(&self, rows: &[(OpKind, Mode)]) -> Searched {
        let narrow = |modes: Vec<Vec<Mode>>| -> Vec<Vec<Mode>> {
            let wide = |mode: &Mode| mode.scope == Some(Scope::Gpu);
            modes.into_iter().map(|list| list.into_iter().filter(wide).collect()).collect()
        };
        self.run(&classical(), rows, &narrow)
    }

    /// Searches the programs of some classes.
    pub fn search(&self, list: &[Class]) -> Searched {
        self.run(list, &[], &|modes| modes)
    }

    fn run(
        &self,
        list: &[Class],
        rows: &[(OpKind, Mode)],
        narrow: &(dyn Fn(Vec<Vec<Mode>>) -> Vec<Vec<Mode>> + Sync),
    ) -> Searched {
        let one_by_one = AtomicU64::new(0);
        let first = AtomicU64::new(u64::MAX);
        let found: Option<(u64, Counterexample)> = list
            .par_iter()
            .enumerate()
            .filter_map(|(i, class)| {
                // Classes behind one that has a counterexample need not be looked at.
                if (i as u64) > first.load(Ordering::Relaxed) {
                    return None;
                }
                let options = narrow(class.shape.modes());
                let modes = vec![None; options.len()];
                let ops = class.shape.ops().zip(&options);
                let floors = ops.map(|((_, op), options)| self.table.weakest(op.kind, options)).collect();
                let mut node = Node { check: self, shape: &class.shape, modes, one_by_one: 0, floors };
                let found = node.with_row(&options, rows);
                one_by_one.fetch_add(node.one_by_one, Ordering::Relaxed);
                let found = found?;
                first.fetch_min(i as u64, Ordering::Relaxed);
                Some((i as u64, found))
            })
            .min();
        Searched {
            shapes: list.len() as u64,
            searched: list.len() as u64,
            programs: list.iter().map(Class::programs).sum(),
            decided_one_by_one: one_by_one.into_inner(),
            counterexample: found.map(|(_, found)| found),
        }
    }

    /// A counterexample among the executions of a complete program, without bounds.
    pub fn program(&self, shape: &Shape, modes: &[Mode]) -> Option<Counterexample> {
        let all: Vec<Option<Mode>> = modes.iter().copied().map(Some).collect();
        let (source, target) = (of_source(shape, &all, self.sc), of_compiled(shape, &all, self.table, &[]));
        if self.racy(shape, &source) {
            return None;
        }
        choices(shape).iter().find_map(|choice| self.execution(shape, modes, &source, &target, choice))
    }

    /// Some consistent execution has a data race.
    fn racy(&self, shape: &Shape, source: &Events) -> bool {
        let mut frame = self.source.frame(source.n, &source.sets, &source.relations);
        choices(shape).iter().any(|choice| {
            let racy = AtomicBool::new(false);
            let _ = self.source.run(&mut frame, &source.reads_from(choice), &mut |frame, leaf| {
                if matches!(leaf, Leaf::Consistent) && !self.source.flags(frame).is_empty() {
                    racy.store(true, Ordering::Relaxed);
                    return ControlFlow::Break(());
                }
                ControlFlow::Continue(())
            });
            racy.into_inner()
        })
    }

    /// An execution with these sources that PTX allows, and whose coherence order no modification order contains that
    /// RC11 allows.
    fn execution(
        &self,
        shape: &Shape,
        modes: &[Mode],
        source: &Events,
        target: &Events,
        choice: &Choice,
    ) -> Option<Counterexample> {
        let mut legal: Vec<Vec<(usize, usize)>> = Vec::new();
        let mut frame = self.source.frame(source.n, &source.sets, &source.relations);
        let _ = self.source.run(&mut frame, &source.reads_from(choice), &mut |frame, leaf| {
            if matches!(leaf, Leaf::Consistent) {
                let order = self.source.value(frame, "mo").unwrap_or(Relation::empty(source.n));
                legal.push(between_ops(source, &order));
            }
            ControlFlow::Continue(())
        });
        let mut found = None;
        let mut frame = self.target.frame(target.n, &target.sets, &target.relations);
        let _ = self.target.run(&mut frame, &target.reads_from(choice), &mut |frame, leaf| {
            if !matches!(leaf, Leaf::Consistent) {
                return ControlFlow::Continue(());
            }
            let order = self.target.value(frame, "co").unwrap_or(Relation::empty(target.n));
            let coherence = between_ops(target, &order);
            if legal.iter().any(|order| coherence.iter().all(|pair| order.contains(pair))) {
                return ControlFlow::Continue(());
            }
            let sources = choice.iter().map(|(writer, read)| match writer {
                Writer::Initial(_) => (None, *read),
                Writer::Op(op) => (Some(*op), *read),
            });
            found = Some(Counterexample {
                shape: shape.clone(),
                modes: modes.to_vec(),
                sources: sources.collect(),
                coherence,
            });
            ControlFlow::Break(())
        });
        found
    }
}

/// The pairs of an order over writes, as operations; initial writes are left out.
fn between_ops(events: &Events, order: &Relation) -> Vec<(usize, usize)> {
    let op = |event: usize| events.accesses.iter().position(|(_, write)| *write == Some(event));
    order.pairs().filter_map(|(a, b)| Some((op(a)?, op(b)?))).collect()
}

/// A program some of whose operations have their modes.
struct Node<'c> {
    check: &'c Check<'c>,
    shape: &'c Shape,
    modes: Vec<Option<Mode>>,
    one_by_one: u64,
    /// The weakest access that each operation may become.
    floors: Vec<Option<Instruction>>,
}

impl Node<'_> {
    /// All programs; if `rows` has any, those that contain one of these operations.
    fn with_row(&mut self, options: &[Vec<Mode>], rows: &[(OpKind, Mode)]) -> Option<Counterexample> {
        let all = choices(self.shape);
        if rows.is_empty() {
            return self.extend(options, &all);
        }
        let kinds: Vec<OpKind> = self.shape.ops().map(|(_, op)| op.kind).collect();
        for (i, kind) in kinds.iter().enumerate() {
            for mode in &options[i] {
                if rows.contains(&(*kind, *mode)) {
                    self.modes[i] = Some(*mode);
                    let found = self.extend(options, &all);
                    self.modes[i] = None;
                    if found.is_some() {
                        return found;
                    }
                }
            }
        }
        None
    }

    /// Gives the next operation each of its modes, while an execution among `alive` may be a counterexample.
    fn extend(&mut self, options: &[Vec<Mode>], alive: &[Choice]) -> Option<Counterexample> {
        if self.check.reduce && !needed(self.shape, &self.modes) {
            return None;
        }
        let source = of_source(self.shape, &self.modes, self.check.sc);
        let target = of_compiled(self.shape, &self.modes, self.check.table, &self.floors);
        let alive = self.alive(&source, &target, alive);
        if alive.is_empty() || self.may_race() && self.check.racy(self.shape, &source) {
            return None;
        }
        let Some(next) = self.modes.iter().position(Option::is_none) else {
            self.one_by_one += 1;
            let modes: Vec<Mode> = self.modes.iter().flatten().copied().collect();
            let find = |choice| self.check.execution(self.shape, &modes, &source, &target, choice);
            return alive.iter().find_map(find);
        };
        for mode in &options[next] {
            self.modes[next] = Some(*mode);
            let found = self.extend(options, &alive);
            if found.is_some() {
                return found;
            }
        }
        self.modes[next] = None;
        None
    }

    /// The choices of sources that may still be a counterexample. A coherence order that is total at the weakest
    /// instructions stays as it is with stronger ones: then it is known whether RC11 allows it.
    fn alive(&self, source: &Events, target: &Events, choices: &[Choice]) -> Vec<Choice> {
        let check = self.check;
        let mut above = check.source.frame(source.n, &source.sets, &source.relations);
        let mut below = check.target.frame(target.n, &target.sets, &target.relations);
        let pairs = self.pairs_of_writes();
        let alive = choices.iter().filter(|choice| {
            let (mut legal, mut forbids) = (Vec::new(), false);
            let _ = check.source.run(&mut above, &source.reads_from(choice), &mut |frame, leaf| {
                match leaf {
                    Leaf::Consistent => {
                        legal.push(check.source.value(frame, "mo").unwrap_or(Relation::empty(source.n)))
                    }
                    _ => forbids = true,
                }
                ControlFlow::Continue(())
            });
            if !forbids {
                return false;
            }
            let stopped = check.target.run(&mut below, &target.reads_from(choice), &mut |frame, leaf| {
                if !matches!(leaf, Leaf::Consistent) {
                    return ControlFlow::Continue(());
                }
                let coherence = check.target.value(frame, "co").unwrap_or(Relation::empty(target.n));
                let write = |events: &Events, op: usize| events.accesses[op].1.unwrap_or(0);
                let ordered =
                    |events: &Events, order: &Relation, a, b| order.has(write(events, a), write(events, b));
                let total = pairs
                    .iter()
                    .all(|(a, b)| ordered(target, &coherence, *a, *b) || ordered(target, &coherence, *b, *a));
                let allowed = total
                    && legal.iter().any(|order| {
                        pairs.iter().all(|(a, b)| {
                            ordered(source, order, *a, *b) == ordered(target, &coherence, *a, *b)
                        })
                    });
                if allowed { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
            });
            stopped.is_break()
        });
        alive.cloned().collect()
    }

    /// Pairs of writing operations of one location.
    fn pairs_of_writes(&self) -> Vec<(usize, usize)> {
        let ops: Vec<Op> = self.shape.ops().map(|(_, op)| op).collect();
        let writes = |i: &usize| ops[*i].kind.writes();
        let pairs = (0..ops.len()).filter(writes).flat_map(|b| (0..b).filter(writes).map(move |a| (a, b)));
        pairs.filter(|(a, b)| ops[*a].location == ops[*b].location).collect()
    }

    /// Two operations that conflict are not both atomic with scopes that include each other.
    fn may_race(&self) -> bool {
        let ops: Vec<(usize, Op)> = self.shape.ops().collect();
        let mode = |i: usize| self.modes[i].unwrap_or(Mode::STRONGEST);
        ops.iter().enumerate().any(|(i, (s, a))| {
            ops[..i].iter().enumerate().any(|(j, (t, b))| {
                let conflict = s != t
                    && a.kind.accesses()
                    && b.kind.accesses()
                    && a.location == b.location
                    && (a.kind.writes() || b.kind.writes());
                let (p, q) = (self.shape.places[*s], self.shape.places[*t]);
                conflict
                    && match (mode(i).scope, mode(j).scope) {
                        (Some(x), Some(y)) => !(p.includes(x, q) && q.includes(y, p)),
                        _ => true,
                    }
            })
        })
    }
}

/// Classes of the shapes of [`Check::classical`].
fn classical() -> Vec<Class> {
    let mut threads: Vec<Vec<OpKind>> = Vec::new();
    for a in OpKind::ALL {
        threads.push(vec![a]);
        threads.extend(OpKind::ALL.into_iter().map(|b| vec![a, b]));
    }
    let mut out = Vec::new();
    for count in 2..=3 {
        let mut chosen = vec![0; count];
        loop {
            if chosen.is_sorted() {
                let kinds: Vec<Vec<OpKind>> = chosen.iter().rev().map(|i| threads[*i].clone()).collect();
                super::shapes::on_places(&kinds, &apart(count), &mut |class| {
                    // A location of one access, or of reads only, orders nothing.
                    let shape = &class.shape;
                    let accesses = |l: usize| {
                        shape.ops().filter(move |(_, op)| op.kind.accesses() && usize::from(op.location) == l)
                    };
                    let useful =
                        |l: usize| accesses(l).count() > 1 && accesses(l).any(|(_, op)| op.kind.writes());
                    if shape.locations() <= 2 && (0..shape.locations()).all(useful) {
                        out.push(class);
                    }
                });
            }
            let Some(at) = chosen.iter().rposition(|i| i + 1 < threads.len()) else { break };
            chosen[at] += 1;
            chosen[at + 1..].fill(0);
        }
    }
    out.sort_by_key(|class| class.shape.ops().map(|(_, op)| op.kind.events()).sum::<usize>());
    out
}

/// Threads in CTAs of their own, on one GPU.
fn apart(threads: usize) -> Vec<Place> {
    (0..threads).map(|cta| Place { gpu: 0, cluster: None, cta: cta as u32 }).collect()
}
