//! Shared memory of a block: the variables of the module and of the functions that may run, then
//! dynamic shared memory.

use rustc_hash::FxHashMap;
use sim_memory::vocabulary::StateSpace;

use super::Parts;
use crate::ptx::ast::{Statement, Storage, Variable};

/// A shared variable.
#[derive(Clone, Debug)]
pub(super) struct SharedVariable {
    name: Box<str>,
    bytes: u64,
    align: u64,
    /// Its size is the launch's.
    dynamic: bool,
}

impl SharedVariable {
    /// A variable, if it is of shared memory.
    pub(super) fn of(variable: &Variable<'_>) -> Option<Self> {
        (variable.storage == Storage::Space(StateSpace::Shared)).then(|| Self {
            name: variable.name.into(),
            bytes: variable.bytes().unwrap_or(0),
            align: variable.alignment(),
            dynamic: variable.external || variable.dims.iter().any(Option::is_none),
        })
    }

    /// Those that a body declares, in order.
    pub(super) fn of_body(body: &[Statement<'_>], out: &mut Vec<Self>) {
        for statement in body {
            match statement {
                Statement::Declaration(variable) => out.extend(Self::of(variable)),
                Statement::Block(inner) => Self::of_body(inner, out),
                _ => {}
            }
        }
    }
}

/// Where shared variables lie.
pub(super) struct Layout<'p> {
    /// Those of the module.
    pub(super) module: FxHashMap<&'p str, u64>,
    /// Those of functions, by function and order of declaration.
    pub(super) functions: FxHashMap<(usize, usize), u64>,
    /// Bytes in all, without dynamic shared memory.
    pub(super) bytes: u32,
    /// Alignment of dynamic shared memory.
    pub(super) align: u32,
}

/// The layout for an entry.
pub(super) fn layout(parts: &Parts, entry: usize) -> Layout<'_> {
    let mut at = 0u64;
    let mut place = |variable: &SharedVariable| {
        at = at.next_multiple_of(variable.align);
        let offset = at;
        at += variable.bytes;
        offset
    };
    let (dynamic, fixed): (Vec<_>, Vec<_>) = parts.shared.iter().partition(|variable| variable.dynamic);
    let mut module: FxHashMap<&str, u64> = fixed.into_iter().map(|v| (&*v.name, place(v))).collect();
    let mut functions = FxHashMap::default();
    for (f, part) in parts.functions.iter().enumerate() {
        let Some(part) = part.as_ref().filter(|part| !part.func.entry || f == entry) else { continue };
        for (i, variable) in part.shared.iter().enumerate() {
            functions.insert((f, i), place(variable));
        }
    }
    let align = dynamic.iter().map(|variable| variable.align).max().unwrap_or(16).max(16);
    let bytes = at.next_multiple_of(align);
    module.extend(dynamic.iter().map(|variable| (&*variable.name, bytes)));
    let bytes = if dynamic.is_empty() { at } else { bytes };
    Layout { module, functions, bytes: bytes.min(u32::MAX.into()) as u32, align: align as u32 }
}
