//! What a model says of an execution that is not yet complete: where reads or orders are still to be chosen, each
//! relation lies between two bounds. An axiom that the lower bound violates rules out every completion at once.

use super::ast::Property;
use super::check::{Model, RelationTerm, StatementKind};
use super::eval::Frame;
use crate::relation::Relation;
use crate::vocabulary::READS_FROM;

/// Bounds of the relations of a model, by slot.
pub(super) struct Bounds<'f> {
    /// Values of sets, and of relations that are fixed.
    frame: &'f Frame,
    lower: Vec<Relation>,
    upper: Vec<Relation>,
}

type Pair = (Relation, Relation);

impl Bounds<'_> {
    fn term(&self, term: &RelationTerm) -> Pair {
        let both = |f: &dyn Fn(Relation) -> Relation, a: &RelationTerm| {
            let (lower, upper) = self.term(a);
            (f(lower), f(upper))
        };
        let two = |f: &dyn Fn(&Relation, &Relation) -> Relation, a: &RelationTerm, b: &RelationTerm| {
            let ((a, b), (c, d)) = (self.term(a), self.term(b));
            (f(&a, &c), f(&b, &d))
        };
        match term {
            RelationTerm::Slot(slot) => (self.lower[*slot], self.upper[*slot]),
            RelationTerm::Nothing | RelationTerm::On(_) | RelationTerm::Product(..) => {
                let value = self.frame.relation(term);
                (value, value)
            }
            RelationTerm::Union(a, b) => two(&|a, b| a.union(b), a, b),
            RelationTerm::Intersection(a, b) => two(&|a, b| a.intersection(b), a, b),
            RelationTerm::Sequence(a, b) => two(&|a, b| a.sequence(b), a, b),
            RelationTerm::Difference(a, b) => {
                let ((a, b), (c, d)) = (self.term(a), self.term(b));
                (a.difference(&d), b.difference(&c))
            }
            RelationTerm::Not(a) => {
                let (lower, upper) = self.term(a);
                (upper.complement(), lower.complement())
            }
            RelationTerm::Inverse(a) => both(&|r| r.inverse(), a),
            RelationTerm::Plus(a) => both(&|r| r.closure(), a),
            RelationTerm::Star(a) => both(&|r| r.closure().reflexive(), a),
            RelationTerm::Optional(a) => both(&|r| r.reflexive(), a),
        }
    }

    fn set(&mut self, slot: usize, (lower, upper): Pair) {
        self.lower[slot] = lower;
        self.upper[slot] = upper;
    }

    /// An order that contains `base`: it relates no two events both ways.
    fn set_order(&mut self, slot: usize, base: &Relation) {
        let n = self.frame.events();
        let every = Relation::empty(n).complement();
        let upper = every.difference(&base.inverse()).difference(&Relation::empty(n).reflexive());
        self.set(slot, (*base, upper));
    }
}

impl Model {
    /// The first axiom that no completion satisfies, as an index of statements, where reads still have the choice of
    /// `possible`.
    pub fn refutes_reads(&self, frame: &Frame, chosen: &Relation, possible: &Relation) -> Option<usize> {
        let mut bounds = Bounds { frame, lower: frame.relations.clone(), upper: frame.relations.clone() };
        bounds.set(READS_FROM, (*chosen, *possible));
        self.refutes(0, &mut bounds)
    }

    /// As [`refutes_reads`](Self::refutes_reads), where the order of the `with` statement at this index contains `order`.
    pub(super) fn refutes_order(
        &self,
        frame: &Frame,
        statement: usize,
        slot: usize,
        order: &Relation,
    ) -> Option<usize> {
        let mut bounds = Bounds { frame, lower: frame.relations.clone(), upper: frame.relations.clone() };
        bounds.set_order(slot, order);
        self.refutes(statement + 1, &mut bounds)
    }

    fn refutes(&self, start: usize, bounds: &mut Bounds<'_>) -> Option<usize> {
        for (i, statement) in self.statements.iter().enumerate().skip(start).filter(|(_, s)| !s.fixed) {
            match &statement.kind {
                // Sets are fixed.
                StatementKind::LetSet(..) => {}
                StatementKind::Let(slot, term) => {
                    let pair = bounds.term(term);
                    bounds.set(*slot, pair);
                }
                StatementKind::Rec(list) => {
                    let nothing = Relation::empty(bounds.frame.events());
                    list.iter().for_each(|(slot, _)| bounds.set(*slot, (nothing, nothing)));
                    let mut grown = true;
                    while grown {
                        grown = false;
                        for (slot, term) in list {
                            let pair = bounds.term(term);
                            grown |= pair != (bounds.lower[*slot], bounds.upper[*slot]);
                            bounds.set(*slot, pair);
                        }
                    }
                }
                StatementKind::With { order, base, .. } => {
                    let base = bounds.term(base).0.closure();
                    if !base.is_irreflexive() {
                        return Some(i);
                    }
                    bounds.set_order(*order, &base);
                }
                StatementKind::Check(check) => {
                    let relation = bounds.term(&check.term).0;
                    let violated = match check.property {
                        Property::Acyclic => !relation.is_acyclic(),
                        Property::Irreflexive => !relation.is_irreflexive(),
                        Property::Empty => !relation.is_empty(),
                        Property::FlagNotEmpty => false,
                    };
                    if violated {
                        return Some(i);
                    }
                }
            }
        }
        None
    }
}
