//! Why an axiom does not hold: a cycle, and what each of its steps is made of.

use crate::cat::ast::Property;
use crate::cat::{Frame, Model, RelationTerm, StatementKind};
use crate::relation::Relation;

/// A step between two events.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Edge {
    /// From this event.
    pub from: usize,
    /// To this event.
    pub to: usize,
    /// The name of the relation in the model.
    pub name: String,
    /// What it is made of, down to relations of the execution and orders; empty where it is one itself.
    pub parts: Vec<Edge>,
}

/// The name of the axiom that a statement is, and a shortest cycle (or a pair that must not be) of its relation.
pub fn cycle_of(model: &Model, frame: &Frame, statement: usize) -> (String, Vec<Edge>) {
    match model.kind(statement) {
        StatementKind::Check(check) => {
            let relation = frame.relation(&check.term);
            let edges = match check.property {
                Property::Acyclic => relation.cycle().unwrap_or_default(),
                Property::Irreflexive => {
                    relation.pairs().find(|(a, b)| a == b).map(|(a, _)| vec![a]).unwrap_or_default()
                }
                Property::Empty | Property::FlagNotEmpty => {
                    let pair = relation.pairs().next();
                    return (
                        check.name.clone(),
                        pair.map_or(Vec::new(), |(a, b)| model.steps(frame, &check.term, a, b)),
                    );
                }
            };
            let next = |i: usize| edges[(i + 1) % edges.len()];
            let steps =
                edges.iter().enumerate().flat_map(|(i, a)| model.steps(frame, &check.term, *a, next(i)));
            (check.name.clone(), steps.collect())
        }
        StatementKind::With { base, .. } => {
            let relation = frame.relation(base);
            let cycle = relation.cycle().unwrap_or_default();
            let next = |i: usize| cycle[(i + 1) % cycle.len()];
            let steps = cycle.iter().enumerate().flat_map(|(i, a)| model.steps(frame, base, *a, next(i)));
            ("the base of an order".to_string(), steps.collect())
        }
        _ => (String::new(), Vec::new()),
    }
}

impl Model {
    /// The steps by which a term relates two events.
    fn steps(&self, frame: &Frame, term: &RelationTerm, a: usize, b: usize) -> Vec<Edge> {
        self.steps_to(frame, term, a, b, 0)
    }

    fn steps_to(&self, frame: &Frame, term: &RelationTerm, a: usize, b: usize, depth: usize) -> Vec<Edge> {
        let has = |term: &RelationTerm| frame.relation(term).has(a, b);
        let same = |term: &RelationTerm| self.steps_to(frame, term, a, b, depth);
        match term {
            RelationTerm::Slot(slot) => self.named(frame, *slot, a, b, depth),
            RelationTerm::Union(x, y) => {
                if has(x) {
                    same(x)
                } else {
                    same(y)
                }
            }
            // The operand that says most is the one that depends on what reads read, then one that is no product or
            // complement.
            RelationTerm::Intersection(x, y) => match (self.is_fixed(x), self.is_fixed(y)) {
                (true, false) => same(y),
                (false, true) => same(x),
                _ => {
                    if plain(x) {
                        same(y)
                    } else {
                        same(x)
                    }
                }
            },
            RelationTerm::Difference(x, _) => same(x),
            RelationTerm::Sequence(x, y) => {
                let (left, right) = (frame.relation(x), frame.relation(y));
                match (0..frame.events()).find(|via| left.has(a, *via) && right.has(*via, b)) {
                    Some(via) => {
                        let mut steps = self.steps_to(frame, x, a, via, depth);
                        steps.extend(self.steps_to(frame, y, via, b, depth));
                        steps
                    }
                    None => Vec::new(),
                }
            }
            RelationTerm::Inverse(x) => {
                let mut steps = self.steps_to(frame, x, b, a, depth);
                if let [only] = &mut steps[..] {
                    (only.from, only.to) = (a, b);
                    only.name.push_str("^-1");
                    only.parts.clear();
                }
                steps
            }
            RelationTerm::Plus(x) => self.path(frame, x, a, b, depth),
            RelationTerm::Star(_) | RelationTerm::Optional(_) if a == b => Vec::new(),
            RelationTerm::Star(x) => self.path(frame, x, a, b, depth),
            RelationTerm::Optional(x) => same(x),
            RelationTerm::On(_) => Vec::new(),
            RelationTerm::Nothing | RelationTerm::Product(..) | RelationTerm::Not(_) => {
                vec![Edge { from: a, to: b, name: "related".to_string(), parts: Vec::new() }]
            }
        }
    }

    /// It depends on neither the reads-from relation nor an order.
    fn is_fixed(&self, term: &RelationTerm) -> bool {
        match term {
            RelationTerm::Slot(slot) => self.is_fixed_slot(*slot),
            RelationTerm::Nothing | RelationTerm::On(_) | RelationTerm::Product(..) => true,
            RelationTerm::Union(a, b)
            | RelationTerm::Intersection(a, b)
            | RelationTerm::Difference(a, b)
            | RelationTerm::Sequence(a, b) => self.is_fixed(a) && self.is_fixed(b),
            RelationTerm::Not(a)
            | RelationTerm::Inverse(a)
            | RelationTerm::Plus(a)
            | RelationTerm::Star(a)
            | RelationTerm::Optional(a) => self.is_fixed(a),
        }
    }

    fn path(&self, frame: &Frame, term: &RelationTerm, a: usize, b: usize, depth: usize) -> Vec<Edge> {
        let relation: Relation = frame.relation(term);
        let Some(mut events) = relation.path(a, b) else { return Vec::new() };
        events.push(b);
        events.windows(2).flat_map(|pair| self.steps_to(frame, term, pair[0], pair[1], depth)).collect()
    }

    /// A step by a name; its definition is looked into.
    fn named(&self, frame: &Frame, slot: usize, a: usize, b: usize, depth: usize) -> Vec<Edge> {
        let Some((name, term)) = self.of_slot(slot) else {
            return Vec::new();
        };
        let parts = match term {
            Some(term) if depth < 16 => self.steps_to(frame, term, a, b, depth + 1),
            _ => Vec::new(),
        };
        match name {
            // A part of an expression that was computed apart has no name of its own.
            None => parts,
            Some(name) => vec![Edge { from: a, to: b, name: name.to_string(), parts }],
        }
    }
}

fn plain(term: &RelationTerm) -> bool {
    match term {
        RelationTerm::Product(..) | RelationTerm::Not(_) | RelationTerm::Nothing => true,
        RelationTerm::Union(a, b) | RelationTerm::Intersection(a, b) | RelationTerm::Difference(a, b) => {
            plain(a) && plain(b)
        }
        _ => false,
    }
}
