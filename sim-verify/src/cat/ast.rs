//! The syntax tree of a model.

use sim_frontend::diagnostic::Span;

/// A model as it is written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ast {
    /// Its title, as the first word or string has it.
    pub title: String,
    /// Its statements, in their order.
    pub statements: Vec<Item>,
}

/// A statement with its place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Item {
    /// The kind of statement.
    pub kind: ItemKind,
    /// The whole statement.
    pub span: Span,
}

/// A name that a statement gives, with its place.
pub type Named = (String, Span);

/// What a statement says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ItemKind {
    /// `let name = expr`.
    Let(Named, Expr),
    /// `let rec name = expr and …`: the least solution.
    Rec(Vec<(Named, Expr)>),
    /// `with name from partial-orders(pairs, base)`.
    With {
        /// The name of the order.
        name: Named,
        /// Events to be related in one direction or the other.
        pairs: Expr,
        /// Pairs that every order contains.
        base: Expr,
    },
    /// An axiom, or a flag.
    Check {
        /// The property that must hold.
        property: Property,
        /// The expression that must have the property.
        expr: Expr,
        /// Its name.
        name: String,
    },
}

/// What a check asks of a relation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Property {
    /// No cycle.
    Acyclic,
    /// No event related to itself.
    Irreflexive,
    /// No pair, or no event of a set.
    Empty,
    /// Some pair: reported, and no reason to reject the execution.
    FlagNotEmpty,
}

/// An expression with its place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Expr {
    /// What it is made of.
    pub kind: ExprKind,
    /// Position in the source.
    pub span: Span,
}

/// What an expression is made of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ExprKind {
    /// A name.
    Name(String),
    /// `_`: all events.
    Everything,
    /// `0`: the empty relation.
    Nothing,
    /// `[set]`: the identity on a set.
    On(Box<Expr>),
    /// `~e`.
    Not(Box<Expr>),
    /// Two operands.
    Binary(Operator, Box<Expr>, Box<Expr>),
    /// A postfix operator.
    Postfix(Postfix, Box<Expr>),
}

/// An operator between two expressions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operator {
    /// `|`
    Union,
    /// `;`
    Sequence,
    /// `\`
    Difference,
    /// `&`
    Intersection,
    /// `*`
    Product,
}

/// A postfix operator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Postfix {
    /// `+`: the transitive closure.
    Plus,
    /// `*`: the reflexive transitive closure.
    Star,
    /// `?`: the reflexive closure.
    Optional,
    /// `^-1`: the inverse.
    Inverse,
}
