//! Evaluation of a model over an execution.

use std::ops::ControlFlow;

use super::ast::Property;
use super::check::{Model, RelationTerm, SetTerm, Statement, StatementKind, Type};
use crate::relation::{Relation, Set, universe};
use crate::vocabulary::READS_FROM;

/// With fewer unrelated pairs, each order is looked at by itself.
const FEW_PAIRS: usize = 2;

/// Values of the names of a model for one execution.
#[derive(Clone)]
pub struct Frame {
    n: usize,
    sets: Vec<Set>,
    pub(super) relations: Vec<Relation>,
}

/// What came of one choice of orders.
pub enum Leaf {
    /// All axioms hold.
    Consistent,
    /// The first axiom that does not hold, as an index of statements.
    Violates(usize),
    /// No order satisfies a `with` statement, as an index of statements: its base is cyclic.
    NoOrder(usize),
}

impl Frame {
    /// The number of events.
    pub fn events(&self) -> usize {
        self.n
    }

    pub(super) fn set(&self, term: &SetTerm) -> Set {
        match term {
            SetTerm::Slot(slot) => self.sets[*slot],
            SetTerm::Everything => universe(self.n),
            SetTerm::Union(a, b) => self.set(a) | self.set(b),
            SetTerm::Intersection(a, b) => self.set(a) & self.set(b),
            SetTerm::Difference(a, b) => self.set(a) & !self.set(b),
            SetTerm::Not(a) => universe(self.n) & !self.set(a),
        }
    }

    /// The value of a term.
    pub fn relation(&self, term: &RelationTerm) -> Relation {
        match term {
            RelationTerm::Slot(slot) => self.relations[*slot],
            RelationTerm::Nothing => Relation::empty(self.n),
            RelationTerm::On(set) => Relation::on(self.n, self.set(set)),
            RelationTerm::Product(a, b) => Relation::product(self.n, self.set(a), self.set(b)),
            RelationTerm::Union(a, b) => self.relation(a).union(&self.relation(b)),
            RelationTerm::Intersection(a, b) => self.relation(a).intersection(&self.relation(b)),
            RelationTerm::Difference(a, b) => self.relation(a).difference(&self.relation(b)),
            RelationTerm::Sequence(a, b) => self.relation(a).sequence(&self.relation(b)),
            RelationTerm::Not(a) => self.relation(a).complement(),
            RelationTerm::Inverse(a) => self.relation(a).inverse(),
            RelationTerm::Plus(a) => self.relation(a).closure(),
            RelationTerm::Star(a) => self.relation(a).closure().reflexive(),
            RelationTerm::Optional(a) => self.relation(a).reflexive(),
        }
    }
}

impl Model {
    /// A frame for the events of a program: what depends on neither the reads-from relation nor an order is
    /// computed here. `sets` and `relations` are in the order of [`SETS`](crate::vocabulary::SETS) and
    /// [`RELATIONS`](crate::vocabulary::RELATIONS).
    pub fn frame(&self, n: usize, sets: &[Set], relations: &[Relation]) -> Frame {
        let mut frame = Frame { n, sets: sets.to_vec(), relations: relations.to_vec() };
        frame.sets.resize(self.sets, 0);
        frame.relations.resize(self.relations, Relation::empty(n));
        self.statements.iter().filter(|s| s.fixed).for_each(|s| frame.define(&s.kind));
        frame
    }

    /// Evaluates the model for a reads-from relation under every choice of its orders; `visit` may stop it.
    pub fn run(
        &self,
        frame: &mut Frame,
        reads_from: &Relation,
        visit: &mut dyn FnMut(&Frame, Leaf) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        frame.relations[READS_FROM] = *reads_from;
        self.from(0, frame, visit)
    }

    /// True if some choice of orders satisfies all axioms.
    pub fn consistent(&self, frame: &mut Frame, reads_from: &Relation) -> bool {
        let stopped = self.run(frame, reads_from, &mut |_, leaf| match leaf {
            Leaf::Consistent => ControlFlow::Break(()),
            _ => ControlFlow::Continue(()),
        });
        stopped.is_break()
    }

    fn from(
        &self,
        start: usize,
        frame: &mut Frame,
        visit: &mut dyn FnMut(&Frame, Leaf) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        for (i, Statement { kind, fixed, .. }) in self.statements.iter().enumerate().skip(start) {
            match kind {
                _ if *fixed => {}
                StatementKind::Check(check) => {
                    let relation = frame.relation(&check.term);
                    let holds = match check.property {
                        Property::Acyclic => relation.is_acyclic(),
                        Property::Irreflexive => relation.is_irreflexive(),
                        Property::Empty => relation.is_empty(),
                        Property::FlagNotEmpty => true,
                    };
                    if !holds {
                        return visit(frame, Leaf::Violates(i));
                    }
                }
                StatementKind::With { order, pairs, base } => {
                    let pairs = frame.relation(pairs);
                    let base = frame.relation(base).closure();
                    if !base.is_irreflexive() {
                        return visit(frame, Leaf::NoOrder(i));
                    }
                    let undirected = pairs.union(&pairs.inverse());
                    return self.orders(i, *order, &undirected, &base, frame, visit);
                }
                definition => frame.define(definition),
            }
        }
        visit(frame, Leaf::Consistent)
    }

    /// Relates the first unrelated pair in either direction, until none is left.
    fn orders(
        &self,
        statement: usize,
        slot: usize,
        pairs: &Relation,
        order: &Relation,
        frame: &mut Frame,
        visit: &mut dyn FnMut(&Frame, Leaf) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        let open = pairs.difference(order).difference(&order.inverse());
        let Some((a, b)) = open.pairs().find(|(a, b)| a != b) else {
            frame.relations[slot] = *order;
            return self.from(statement + 1, frame, visit);
        };
        if open.pairs().nth(2 * FEW_PAIRS).is_some()
            && let Some(violated) = self.refutes_order(frame, statement, slot, order)
        {
            frame.relations[slot] = *order;
            self.define_after(statement, frame);
            return visit(frame, Leaf::Violates(violated));
        }
        for (a, b) in [(a, b), (b, a)] {
            let mut with = *order;
            // Everything up to `a` comes before everything from `b` on: the order stays closed.
            let after = order.row(b) | 1 << b;
            for i in 0..frame.n {
                if i == a || order.has(i, a) {
                    crate::relation::members(after).for_each(|j| with.insert(i, j));
                }
            }
            self.orders(statement, slot, pairs, &with, frame, visit)?;
        }
        ControlFlow::Continue(())
    }

    /// Defines what follows a `with` statement, to show an execution that is ruled out; later orders are their bases.
    fn define_after(&self, statement: usize, frame: &mut Frame) {
        for Statement { kind, fixed, .. } in self.statements.iter().skip(statement + 1) {
            match kind {
                StatementKind::With { order, base, .. } => {
                    frame.relations[*order] = frame.relation(base).closure();
                }
                _ if *fixed => {}
                definition => frame.define(definition),
            }
        }
    }

    /// Names of the flags that are raised: those whose relation has a pair, with one such pair.
    pub fn flags(&self, frame: &Frame) -> Vec<(&str, Relation)> {
        let checks = self.statements.iter().filter_map(|statement| match &statement.kind {
            StatementKind::Check(check) if check.property == Property::FlagNotEmpty => Some(check),
            _ => None,
        });
        let found = checks.map(|check| (check.name.as_str(), frame.relation(&check.term)));
        found.filter(|(_, relation)| !relation.is_empty()).collect()
    }

    /// The value of a relation by its name.
    pub fn value(&self, frame: &Frame, name: &str) -> Option<Relation> {
        Some(frame.relations[self.definition(name, Type::Relation)?.slot])
    }
}

impl Frame {
    fn define(&mut self, kind: &StatementKind) {
        match kind {
            StatementKind::LetSet(slot, term) => self.sets[*slot] = self.set(term),
            StatementKind::Let(slot, term) => self.relations[*slot] = self.relation(term),
            StatementKind::Rec(list) => {
                list.iter().for_each(|(slot, _)| self.relations[*slot] = Relation::empty(self.n));
                loop {
                    let mut grown = false;
                    for (slot, term) in list {
                        let value = self.relation(term);
                        grown |= value != self.relations[*slot];
                        self.relations[*slot] = value;
                    }
                    if !grown {
                        break;
                    }
                }
            }
            StatementKind::With { .. } | StatementKind::Check(_) => {}
        }
    }
}
