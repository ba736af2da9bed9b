//! Conditions on final states.

use super::program::Comparison;

/// What a test asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Quantifier {
    /// Some execution satisfies the condition.
    Exists,
    /// No execution satisfies it.
    NotExists,
    /// All executions satisfy it.
    Forall,
}

/// A value of the final state.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Atom {
    /// A register of a thread, by their indices.
    Register(usize, usize),
    /// A location by its index.
    Location(usize),
    /// A number.
    Constant(i64),
}

/// A condition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Condition {
    /// Two values compared.
    Compare(Atom, Comparison, Atom),
    /// Both hold.
    And(Box<Condition>, Box<Condition>),
    /// One of them holds.
    Or(Box<Condition>, Box<Condition>),
    /// It does not hold.
    Not(Box<Condition>),
}

impl Condition {
    /// True if it holds, by the value of each atom.
    pub fn holds(&self, value: &dyn Fn(Atom) -> i64) -> bool {
        match self {
            Condition::Compare(a, comparison, b) => comparison.holds(value(*a), value(*b)),
            Condition::And(a, b) => a.holds(value) && b.holds(value),
            Condition::Or(a, b) => a.holds(value) || b.holds(value),
            Condition::Not(a) => !a.holds(value),
        }
    }

    /// Calls `each` with its atoms.
    pub fn atoms(&self, each: &mut dyn FnMut(Atom)) {
        match self {
            Condition::Compare(a, _, b) => {
                each(*a);
                each(*b);
            }
            Condition::And(a, b) | Condition::Or(a, b) => {
                a.atoms(each);
                b.atoms(each);
            }
            Condition::Not(a) => a.atoms(each),
        }
    }
}
