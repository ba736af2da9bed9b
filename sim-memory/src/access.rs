//! Warp-level accesses to global and local memory, as the SM passes them to the memory side.

use crate::port::AccessId;
use crate::priority::Policy;
use crate::vocabulary::{
    AtomicOp, CacheHint, CacheOp, LaneMask, ScalarType, Scope, Semantics, StateSpace, WARP_LANES,
};

/// The kind of access: load, store, atomic or cache hint.
#[derive(Clone, Copy, Debug, PartialEq, Eq, borsh::BorshSerialize, borsh::BorshDeserialize)]
pub enum AccessKind {
    /// A load (`ld`).
    Load,
    /// A store (`st`).
    Store,
    /// An atomic: `atom`, or `red` where the old value is not returned.
    Atomic {
        /// The read-modify-write operation.
        op: AtomicOp,
        /// The type of the operands.
        ty: ScalarType,
        /// True if the old value is written to a register (`atom`); false for `red`.
        returns: bool,
    },
    /// A cache hint on whole lines, such as `prefetch`.
    Hint(CacheHint),
}

impl AccessKind {
    /// True if the access fetches a line and holds an MSHR until it arrives. Other accesses hold a store
    /// token.
    #[inline]
    pub fn fetches(self) -> bool {
        matches!(self, Self::Load | Self::Hint(CacheHint::PrefetchL1 | CacheHint::PrefetchL2))
    }
}

/// One access of the active lanes of a split.
#[derive(Clone, Copy, Debug)]
pub struct WarpAccess<'a> {
    /// The id under which the register side knows the access; replies carry it.
    pub id: AccessId,
    /// Load, store, atomic or hint.
    pub kind: AccessKind,
    /// The state space: global or local.
    pub space: StateSpace,
    /// The PTX cache operator (`.ca`, `.cg` …).
    pub cache_op: CacheOp,
    /// Memory ordering semantics.
    pub semantics: Semantics,
    /// Memory ordering scope.
    pub scope: Scope,
    /// Bytes accessed by each lane: 1 to 16; addresses are aligned to this size.
    pub element_bytes: u32,
    /// The active mask: lanes that take part.
    pub lanes: LaneMask,
    /// Physical address of each lane.
    pub addresses: &'a [u64; WARP_LANES],
    /// Where the eviction priorities of its lines in L2 are written.
    pub policy: Policy,
    /// Data to store, by lane; unused by loads.
    pub data: &'a [[u8; 16]; WARP_LANES],
    /// Operands `b` and `c` of an atomic, by lane; `None` for other accesses.
    pub operands: Option<&'a [[u64; 2]; WARP_LANES]>,
    /// The operands of the lanes of an atomic, which all name one address, were combined: the partition performs one.
    pub combined: bool,
}
