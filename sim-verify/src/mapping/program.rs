//! Programs of scoped C++.

use std::fmt;

use crate::litmus::program::{Place, Scope};

/// What an operation does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum OpKind {
    /// A read.
    Read,
    /// A write.
    Write,
    /// A read-modify-write: two events.
    Update,
    /// A fence.
    Fence,
}

impl OpKind {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Read, Self::Write, Self::Update, Self::Fence];

    /// The events it stands for.
    pub fn events(self) -> usize {
        if self == Self::Update { 2 } else { 1 }
    }

    /// It accesses memory.
    pub fn accesses(self) -> bool {
        self != Self::Fence
    }

    /// It reads.
    pub fn reads(self) -> bool {
        matches!(self, Self::Read | Self::Update)
    }

    /// It writes.
    pub fn writes(self) -> bool {
        matches!(self, Self::Write | Self::Update)
    }

    /// The memory orders it may have.
    pub fn orders(self) -> &'static [MemoryOrder] {
        use MemoryOrder::{Acq, AcqRel, Na, Rel, Rlx, Sc};
        match self {
            Self::Read => &[Na, Rlx, Acq, Sc],
            Self::Write => &[Na, Rlx, Rel, Sc],
            Self::Update => &[Rlx, Acq, Rel, AcqRel, Sc],
            Self::Fence => &[Acq, Rel, AcqRel, Sc],
        }
    }

    /// The letter that tables have for it.
    pub fn letter(self) -> char {
        match self {
            Self::Read => 'R',
            Self::Write => 'W',
            Self::Update => 'U',
            Self::Fence => 'F',
        }
    }
}

/// A memory order of C++; `Na` is an operation that is not atomic.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[allow(missing_docs, reason = "the names are those of MM figure 10")]
pub enum MemoryOrder {
    Na,
    Rlx,
    Acq,
    Rel,
    AcqRel,
    Sc,
}

impl MemoryOrder {
    /// As tables write it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Na => "na",
            Self::Rlx => "rlx",
            Self::Acq => "acq",
            Self::Rel => "rel",
            Self::AcqRel => "acqrel",
            Self::Sc => "sc",
        }
    }
}

/// An operation without its memory order: what it does, and to which location.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Op {
    /// What it does.
    pub kind: OpKind,
    /// Its location; 0 for fences.
    pub location: u8,
}

/// A memory order with its scope; operations that are not atomic have none.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Mode {
    /// The order.
    pub order: MemoryOrder,
    /// The scope.
    pub scope: Option<Scope>,
}

impl Mode {
    /// Sequentially consistent at system scope: no mode is stronger.
    pub const STRONGEST: Self = Self { order: MemoryOrder::Sc, scope: Some(Scope::Sys) };
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.order.name())?;
        match self.scope {
            Some(scope) => write!(f, ".{}", scope.name()),
            None => Ok(()),
        }
    }
}

/// A program without memory orders: its threads and their places in the scope tree.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Shape {
    /// Operations by thread.
    pub threads: Vec<Vec<Op>>,
    /// Places by thread.
    pub places: Vec<Place>,
}

impl Shape {
    /// The operations of all threads, in their order, with their threads.
    pub fn ops(&self) -> impl Iterator<Item = (usize, Op)> + '_ {
        self.threads.iter().enumerate().flat_map(|(t, ops)| ops.iter().map(move |op| (t, *op)))
    }

    /// The number of locations.
    pub fn locations(&self) -> usize {
        let accesses = self.ops().filter(|(_, op)| op.kind.accesses());
        accesses.map(|(_, op)| usize::from(op.location) + 1).max().unwrap_or(0)
    }

    /// The modes of each operation that differ: of scopes that include the same threads the narrowest stands for all.
    pub fn modes(&self) -> Vec<Vec<Mode>> {
        self.ops()
            .map(|(thread, op)| {
                let mut scopes: Vec<Scope> = Vec::new();
                for scope in [Scope::Cta, Scope::Gpu, Scope::Sys] {
                    let reach = |s: Scope| -> Vec<bool> {
                        self.places.iter().map(|p| self.places[thread].includes(s, *p)).collect()
                    };
                    if scopes.last().is_none_or(|last| reach(*last) != reach(scope)) {
                        scopes.push(scope);
                    }
                }
                let modes = op.kind.orders().iter().flat_map(|order| match order {
                    MemoryOrder::Na => vec![Mode { order: *order, scope: None }],
                    _ => scopes.iter().map(|scope| Mode { order: *order, scope: Some(*scope) }).collect(),
                });
                modes.collect()
            })
            .collect()
    }
}
