//! Names of sets and relations that every execution comes with, in the order of their slots.

/// Sets of events.
pub const SETS: [&str; 23] = [
    "M", "R", "W", "F", "B", "IW", "NA", "WEAK", "RLX", "ACQ", "REL", "ACQ_REL", "SC", "CTA", "CLUSTER",
    "GPU", "SYS", "GEN", "SUR", "TEX", "CON", "ALIAS", "RED",
];

/// Relations over events. `rf` is the first: the others depend on the program's events alone.
pub const RELATIONS: [&str; 13] =
    ["rf", "po", "rmw", "addr", "data", "ctrl", "loc", "vloc", "sr", "scta", "syncbar", "int", "ext"];

/// The slot of the reads-from relation.
pub const READS_FROM: usize = 0;

/// The slot of a set.
///
/// # Panics
/// There is none of that name.
pub fn set(name: &str) -> usize {
    SETS.iter().position(|n| *n == name).unwrap_or_else(|| panic!("no set `{name}`"))
}

/// The slot of a relation.
///
/// # Panics
/// There is none of that name.
pub fn relation(name: &str) -> usize {
    RELATIONS.iter().position(|n| *n == name).unwrap_or_else(|| panic!("no relation `{name}`"))
}
