//! Shared memory of a block: what the functions that may run declare or name, then dynamic shared
//! memory.

use std::collections::BTreeSet;

use rustc_hash::FxHashMap;
use sim_memory::vocabulary::StateSpace;

use super::Parts;
use crate::lower::ir::Link;
use crate::lower::work::count;
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

/// The shared variables of a module.
#[derive(Debug, Default)]
pub(super) struct ModuleShared {
    /// In the order of their declaration.
    list: Vec<SharedVariable>,
    /// Their places in it, in the order of their names.
    by_name: Vec<u32>,
}

impl ModuleShared {
    pub(super) fn new(list: Vec<SharedVariable>) -> Self {
        let mut by_name: Vec<u32> = (0..list.len() as u32).collect();
        by_name.sort_by_key(|place| &*list[*place as usize].name);
        Self { list, by_name }
    }

    /// Those of a name, by their places.
    fn named(&self, name: &str) -> &[u32] {
        let own = |place: &u32| &*self.list[*place as usize].name;
        let from = self.by_name.partition_point(|place| own(place) < name);
        let same = self.by_name[from..].iter().take_while(|place| own(place) == name).count();
        count(1 + same);
        &self.by_name[from..from + same]
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

/// Functions that a launch of `entry` may run: what is called, and where calls are indirect every function
/// whose address is taken.
fn reached(parts: &Parts, entry: usize) -> BTreeSet<usize> {
    let mut found = BTreeSet::new();
    let mut open = vec![entry];
    let mut indirect = false;
    while let Some(f) = open.pop() {
        let Some(part) = parts.functions.get(f).and_then(Option::as_ref) else { continue };
        if !found.insert(f) {
            continue;
        }
        open.extend(&part.func.callees);
        if part.func.indirect && !indirect {
            indirect = true;
            open.extend(&parts.addressed);
        }
    }
    found
}

/// The layout for an entry. Variables of the module that none of its functions names take no room.
pub(super) fn layout(parts: &Parts, entry: usize) -> Layout<'_> {
    let mut at = 0u64;
    let mut place = |variable: &SharedVariable| {
        at = at.next_multiple_of(variable.align);
        let offset = at;
        at = at.saturating_add(variable.bytes);
        offset
    };
    let reached = reached(parts, entry);
    let functions = || reached.iter().filter_map(|f| Some((*f, parts.functions[*f].as_ref()?)));
    let links = functions().flat_map(|(_, part)| &part.func.links);
    let names = links.filter_map(|link| if let Link::Variable(name) = link { Some(&**name) } else { None });
    let used: BTreeSet<u32> = names.flat_map(|name| parts.shared.named(name)).copied().collect();
    let used = used.into_iter().map(|place| &parts.shared.list[place as usize]);
    let (dynamic, fixed): (Vec<_>, Vec<_>) = used.partition(|variable| variable.dynamic);
    let mut module: FxHashMap<&str, u64> = fixed.into_iter().map(|v| (&*v.name, place(v))).collect();
    let mut inner = FxHashMap::default();
    for (f, part) in functions() {
        for (i, variable) in part.shared.iter().enumerate() {
            inner.insert((f, i), place(variable));
        }
    }
    let align = dynamic.iter().map(|variable| variable.align).max().unwrap_or(16).max(16);
    let bytes = at.checked_next_multiple_of(align).unwrap_or(u64::MAX);
    module.extend(dynamic.iter().map(|variable| (&*variable.name, bytes)));
    let bytes = if dynamic.is_empty() { at } else { bytes };
    Layout { module, functions: inner, bytes: bytes.min(u32::MAX.into()) as u32, align: align as u32 }
}
