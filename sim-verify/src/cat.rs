//! Axiomatic memory models as text, in the subset of herd's `cat` language that the models need.
//!
//! ```text
//! model     ::= title? statement*
//! statement ::= `let` NAME `=` e | `let rec` NAME `=` e (`and` NAME `=` e)*
//!             | `with` NAME `from` `partial-orders` `(` e `,` e `)`
//!             | (`acyclic` | `irreflexive` | `empty`) e `as` NAME
//!             | `flag` `~empty` e `as` NAME
//! e         ::= e `|` e | e `;` e | e `\` e | e `&` e | e `*` e | `~` e | e `+` | e `*` | e `?` | e `^-1`
//!             | `[` e `]` | `(` e `)` | NAME | `_` | `0`
//! ```
//!
//! Operators bind in this order, the loosest first; comments are `(* … *)` and `// …`. `with x from
//! partial-orders(pairs, base)` lets `x` range over the least transitive and irreflexive relations that contain
//! `base` and relate the events of each pair in one direction.

pub mod ast;
mod bounds;
mod check;
mod eval;
mod parser;

use sim_frontend::diagnostic::{Diagnostic, Source};

pub use check::{Check, Model, RelationTerm, SetTerm, Statement, StatementKind, Type};
pub use eval::{Frame, Leaf};

/// The syntax tree of a model.
///
/// # Errors
/// The text is not of the language.
pub fn parse(source: &Source) -> Result<ast::Ast, Diagnostic> {
    parser::parse(source)
}

impl Model {
    /// Reads a model.
    ///
    /// # Errors
    /// The text is not of the language, names something unknown, or uses a set where a relation is needed.
    pub fn parse(name: &str, text: &str) -> Result<Self, Diagnostic> {
        let source = Source::new(name, text);
        Self::new(&parser::parse(&source)?, &source)
    }
}

#[cfg(test)]
mod tests;
