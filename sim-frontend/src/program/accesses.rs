//! Facts of operations that access memory: loads and stores, copies, mbarrier objects.

use sim_memory::priority::Policy;
use sim_memory::vocabulary::{
    AtomicOp, CacheHint, CacheOp, LaneMask, ScalarType, Scope, Semantics, StateSpace,
};

use crate::form::{BulkWay, MbarrierOptions, MbarrierStep, TensorMode};

/// Memory facts of a load, store or atomic.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct MemoryOp {
    /// The space of the instruction; `Generic` is resolved per lane.
    pub space: StateSpace,
    /// Cache operator (the default of the instruction where none is written).
    pub cache: CacheOp,
    /// Memory ordering semantics.
    pub semantics: Semantics,
    /// Scope; system where none is written on a strong operation.
    pub scope: Scope,
    /// Bytes of one element.
    pub element_bytes: u8,
    /// Elements per lane: 1, 2 or 4.
    pub vector: u8,
    /// Loads: sign-extend the element into the register.
    pub signed: bool,
    /// Register storage width of the data operands in bits: 16, 32 or 64.
    pub reg_bits: u8,
    /// The address register `src[0]` holds 64 bits (else 32, zero-extended).
    pub address_64: bool,
    /// The address register is shifted to the left by so much first: 0 but for shared memory, whose addresses have 32 bits.
    pub scale: u8,
    /// Bytes that the address must be a multiple of, a power of two.
    pub alignment: u8,
    /// Atomics: the operation and the type of the element.
    pub atomic: Option<(AtomicOp, ScalarType)>,
    /// Hints: what is asked of the caches.
    pub hint: Option<CacheHint>,
    /// Where the eviction priorities of its lines in L2 are written; those of a policy are in `src[4]`.
    pub policy: Policy,
    /// It may access shared memory of other blocks of the cluster: `.shared::cluster`, or a generic address.
    pub cluster: bool,
    /// The first of its threads performs it: a part of an instruction that is one operation of the warp.
    pub of_warp: bool,
    /// Atomics: how the assembler makes one operation of the warp's.
    pub combined: Option<Combined>,
}

/// An atomic whose operands are combined before one thread performs it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Combined {
    /// Only where all threads of the warp take part; otherwise each performs its own.
    pub whole: bool,
    /// Machine operations that combine the operands and hand out the old values.
    pub operations: u8,
}

impl MemoryOp {
    /// True if these lanes are one operation.
    pub fn is_one(&self, lanes: LaneMask) -> bool {
        self.combined.is_some_and(|combined| !combined.whole || lanes == LaneMask::MAX)
    }
}

/// An address of shared memory beside that in `src[0]` and `imm`: what is added to its base.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SharedAddress {
    /// Offset in bytes.
    pub offset: i32,
    /// The base has 64 bits.
    pub wide: bool,
}

/// A copy of [`OpClass::Copy`](super::OpClass::Copy).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct CopyOp {
    /// The access to global memory; its `element_bytes` are what is written to shared memory.
    pub memory: MemoryOp,
    /// The shared address.
    pub to: SharedAddress,
    /// Loads without an effect that the assembler puts in front of it.
    pub loads_before: u8,
}

/// A bulk copy of `src[2]` bytes. `src[0]` and `imm` are the address in global memory, of a copy between blocks that of
/// its source. `src[1]` is the base of the address in shared memory, of a copy between blocks that of its destination.
/// `src[3]` is the base of the mbarrier object's address, `src[4]` the mask of ranks of a multicast. `try_cancel` has
/// `src[1]`, where the answer goes, and `src[3]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct BulkOp {
    /// Between which spaces it goes.
    pub way: BulkWay,
    /// The accesses to global memory it is made of, or what is done to the elements.
    pub memory: MemoryOp,
    /// The shared address.
    pub to: SharedAddress,
    /// That of the object, where there is one.
    pub object: SharedAddress,
    /// What `src[3]` of a store or `src[4]` of a load is besides.
    pub bytes: BulkBytes,
}

/// Which bytes a bulk copy takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum BulkBytes {
    /// All.
    All,
    /// Of each 16 bytes those of the mask in `src[3]`.
    Masked,
    /// All, but as many at the beginning and at the end as the two halves of `src[4]` say need not be in a buffer.
    MayBeBeyond,
}

/// A bulk copy of a box of a tensor. `src[0]` and `imm` are the generic address of the tensor map, `src[1]`, `src[3]` and
/// `src[4]` those of [`BulkOp`]; the coordinates, the innermost first, are handed over by [`OpClass::TextureOperands`](super::OpClass::TextureOperands)
/// before.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TensorOp {
    /// Between which spaces it goes: a load, store or prefetch.
    pub way: BulkWay,
    /// Dimensions.
    pub rank: u8,
    /// How it goes through the tensor. Of a load or prefetch in im2col mode, an offset for each dimension between channels
    /// and images is handed over behind the coordinates; in its modes along W, the pixels of the halo and an offset.
    pub mode: TensorMode,
    /// The object may be that of the block whose rank differs in the last bit, and is the one of its parity.
    pub pair: bool,
    /// How the map is addressed, and the reduction; its type is the map's.
    pub memory: MemoryOp,
    /// The shared address.
    pub to: SharedAddress,
    /// That of the mbarrier object, where there is one.
    pub object: SharedAddress,
}

/// `st.async` and `red.async`: as a store or reduction, with the base of the mbarrier object's address in `src[4]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct AsyncStore {
    /// What is stored, and how.
    pub memory: MemoryOp,
    /// The address of the object, in the same block.
    pub object: SharedAddress,
}

/// Where the mbarrier object lies whose address is `src[0]` and `imm`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct MbarrierPlace {
    /// Shared, or generic.
    pub space: StateSpace,
    /// The address register has 64 bits.
    pub address_64: bool,
}

/// An operation on an mbarrier object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct MbarrierOp {
    /// What it does.
    pub step: MbarrierStep,
    /// The object; none where the operand is only a state.
    pub place: Option<MbarrierPlace>,
    /// Options of the operation.
    pub options: MbarrierOptions,
    /// Bits of the operand's register.
    pub operand_bits: u8,
    /// An arrival that comes after its thread's accesses.
    pub releases: bool,
    /// A test that is made again and again until it passes, whatever else its loop does.
    pub repeats: bool,
    /// What it orders, it orders for all blocks of the cluster.
    pub cluster: bool,
}
