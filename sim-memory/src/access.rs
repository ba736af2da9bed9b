//! What a warp asks of global or local memory.

use crate::port::AccessId;
use crate::vocabulary::{
    AtomicOp, CacheHint, CacheOp, LaneMask, ScalarType, Scope, Semantics, StateSpace, WARP_LANES,
};

/// Load, store or atomic.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AccessKind {
    /// `ld`.
    Load,
    /// `st`.
    Store,
    /// `atom`, or `red` where nothing returns.
    Atomic {
        /// The operation.
        op: AtomicOp,
        /// The type it works on.
        ty: ScalarType,
        /// The old value goes to a register.
        returns: bool,
    },
    /// `prefetch` and other hints to the caches, of whole lines.
    Hint(CacheHint),
}

impl AccessKind {
    /// Brings a line and holds an MSHR meanwhile; the others hold a store token.
    #[inline]
    pub fn fetches(self) -> bool {
        matches!(self, Self::Load | Self::Hint(CacheHint::PrefetchL1 | CacheHint::PrefetchL2))
    }
}

/// One access of the active lanes of a split.
#[derive(Clone, Copy, Debug)]
pub struct WarpAccess<'a> {
    /// Identifies the access in replies.
    pub id: AccessId,
    /// What it does.
    pub kind: AccessKind,
    /// Global or local.
    pub space: StateSpace,
    /// Cache operator.
    pub cache_op: CacheOp,
    /// Memory ordering semantics.
    pub semantics: Semantics,
    /// Memory ordering scope.
    pub scope: Scope,
    /// Bytes a lane accesses, 1 to 16, aligned to their size.
    pub element_bytes: u32,
    /// Lanes that take part.
    pub lanes: LaneMask,
    /// Physical address of each lane.
    pub addresses: &'a [u64; WARP_LANES],
    /// Store data of each lane.
    pub data: &'a [[u8; 16]; WARP_LANES],
    /// Operands b and c of atomics.
    pub operands: Option<&'a [[u64; 2]; WARP_LANES]>,
}
