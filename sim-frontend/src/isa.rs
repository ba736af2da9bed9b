//! The instruction set, declared once. Each root has its documentation, its forms in a grammar
//! close to the PTX manual's, its unit and its minimum target; parser, validator, cost tables,
//! listings and tests are driven by [`TABLE`].
//!
//! A form is `"modifiers -> operands"`. Modifiers: `{a b}` one of these, `[a b]` at most one of
//! these, `<a b>` any number of these, in this order; `$x` is a list that rows share, `#shape`
//! the shape of a matrix. Before them: `@75` the form's least target, `~` parsed and checked
//! but not executed, `!1.4` valid up to that PTX ISA, `!20` valid below that target. Types are
//! the type names; with several type groups the first is that of the result. Operands: `d`
//! destination, `q` predicate destination, `a` source of the form's type, `a:u32` source of
//! that type, `a:dst` of the result's, `p` predicate source, `m` address, `v` scalar or vector
//! of the form's type (first operand: destination), `y` and `x` destination and source of which
//! a part may be meant, `n` as `x` with a minus, `i` integer constant, `L` label or symbol, `*`
//! anything; `|q` an optional second destination; `(x)` may be left out.

mod grammar;
mod resolve;
mod table;

pub use grammar::{FormListing, Legacy, OperandShape, Shape, listing};
pub use resolve::{Resolved, combinations, is_video, register_bits, resolve};
pub use table::{Root, TABLE};

use std::sync::OnceLock;

use rustc_hash::FxHashMap;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The unit that executes an instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[repr(u8)]
pub enum UnitClass {
    /// Integer, logic, comparison, move.
    Alu,
    /// Single-precision add, multiply, fused multiply-add.
    Fma,
    /// Integer multiplication.
    Imul,
    /// Double precision.
    Fp64,
    /// Conversions between types of different kind or size.
    Convert,
    /// Special functions and what is built from them.
    Sfu,
    /// Loads, stores, atomics, fences.
    LoadStore,
    /// Branches, barriers, collectives.
    Control,
}

impl UnitClass {
    /// All classes, in the order of their numbers.
    pub const ALL: [UnitClass; 8] = [
        UnitClass::Alu,
        UnitClass::Fma,
        UnitClass::Imul,
        UnitClass::Fp64,
        UnitClass::Convert,
        UnitClass::Sfu,
        UnitClass::LoadStore,
        UnitClass::Control,
    ];
}

/// A row of the table.
#[derive(Clone, Copy, Debug)]
pub struct Entry {
    /// The root.
    pub root: Root,
    /// Its name in PTX.
    pub name: &'static str,
    /// One line of documentation.
    pub doc: &'static str,
    /// The unit of its integer or only forms; floating-point forms of arithmetic go to
    /// [`UnitClass::Fma`] and [`UnitClass::Fp64`].
    pub unit: UnitClass,
    /// Least target (major * 10 + minor).
    pub min_sm: u32,
    /// Forms.
    pub forms: &'static [&'static str],
    /// Exists in the papers' dialect only.
    pub papers: bool,
}

impl Entry {
    /// True if some form of this root is executed.
    pub fn executed(&self) -> bool {
        self.forms.iter().any(|form| !form.starts_with('~'))
    }
}

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
