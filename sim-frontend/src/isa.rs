//! The instruction set, declared once. Each root has its documentation, its forms in a grammar
//! close to the PTX manual's, its unit and its minimum target; parser, validator, cost tables,
//! listings and tests are driven by [`TABLE`].
//!
//! A form is `"modifiers -> operands"`. Modifiers: `{a b}` one of these, `[a b]` at most one of
//! these, `<a b>` any number of these, in this order; `$x` is a list that rows share, `#shape`
//! the shape of a matrix. Before them: `@75` the form's least target, `@90-100a` only targets from
//! sm_90 to below sm_100 whose name ends in `a` or `f` (`x` instead of
//! `a`: only in `a`), `v8.7` the form's
//! least PTX ISA, `~` parsed and checked but not executed, `!1.4` valid up to that PTX ISA, `!20` valid below that target. Types are
//! the type names; with several type groups the first is that of the result. Operands: `d`
//! destination, `q` predicate destination, `a` source of the form's type, `a:u32` source of
//! that type, `a:dst` of the result's, `p` predicate source, `m` address, `v` scalar or vector
//! of the form's type (first operand: destination), `y` and `x` destination and source of which
//! a part may be meant, `n` as `x` with a minus, `i` integer constant, `L` label or symbol, `*`
//! anything; `|q` an optional second destination; `(x)` may be left out.

pub mod class;
mod grammar;
mod products;
mod resolve;
pub mod table;

pub use class::{Effects, OpClass};
pub use grammar::{Architectures, FormListing, Legacy, OperandShape, Shape, listing};
pub use resolve::{Resolved, combinations, is_video, resolve};
pub use table::{Entry, Kind, Root, TABLE, UnitClass};

use std::sync::OnceLock;

use rustc_hash::FxHashMap;

/// The row of a root by name.
pub fn entry(name: &str) -> Option<&'static Entry> {
    static NAMES: OnceLock<FxHashMap<&str, &Entry>> = OnceLock::new();
    NAMES.get_or_init(|| TABLE.iter().map(|entry| (entry.name, entry)).collect()).get(name).copied()
}

/// The row of a root.
pub fn entry_of(root: Root) -> &'static Entry {
    &TABLE[root as usize]
}

#[cfg(test)]
mod tests;
