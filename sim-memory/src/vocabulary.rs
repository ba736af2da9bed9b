//! The terms that PTX and the memory environment share: state spaces, cache operators, scopes, memory
//! semantics, atomic operations and scalar types.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Number of lanes of a warp.
pub const WARP_LANES: usize = 32;

/// One bit per lane of a warp; bit `i` is lane `i`.
pub type LaneMask = u32;

/// A time in cycles of the owner's clock domain.
pub type Cycle = u64;

/// The cycle of an event that does not occur.
pub const NEVER: Cycle = Cycle::MAX;

/// A PTX state space (PTX ISA "State Spaces"); `Generic` is an address not yet resolved to one.
#[derive(
    Clone,
    Copy,
    Debug,
    PartialEq,
    Eq,
    Hash,
    PartialOrd,
    Ord,
    Serialize,
    Deserialize,
    borsh::BorshSerialize,
    borsh::BorshDeserialize,
)]
#[serde(rename_all = "snake_case")]
pub enum StateSpace {
    /// Device memory shared by all threads of a context.
    Global,
    /// Device memory private to a thread, interleaved by lane.
    Local,
    /// On-chip memory of a thread block.
    Shared,
    /// Device memory that threads only read.
    Const,
    /// Parameters: of a kernel (in constant memory) or of a device function.
    Param,
    /// A generic address: within the windows it is shared, local or constant memory or a parameter, elsewhere
    /// global.
    Generic,
}

/// A cache operator of `ld` and `st` (PTX ISA "Cache Operators").
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CacheOp {
    /// `ld.ca`: cache at all levels.
    Ca,
    /// `ld.cg`/`st.cg`: cache at L2 and below, not L1.
    Cg,
    /// `ld.cs`/`st.cs`: streaming, likely accessed once.
    Cs,
    /// `ld.lu`: last use.
    Lu,
    /// `ld.cv`: volatile; do not cache, fetch again.
    Cv,
    /// `st.wb`: write back at all coherent levels.
    Wb,
    /// `st.wt`: write through.
    Wt,
}

/// The cache operation of an instruction that moves no value (PTX ISA "prefetch", "discard",
/// "applypriority").
#[derive(
    Clone,
    Copy,
    Debug,
    PartialEq,
    Eq,
    Hash,
    PartialOrd,
    Ord,
    Serialize,
    Deserialize,
    borsh::BorshSerialize,
    borsh::BorshDeserialize,
)]
#[serde(rename_all = "snake_case")]
pub enum CacheHint {
    /// `prefetch.L1`, `prefetchu.L1`: bring the line to L1.
    PrefetchL1,
    /// `prefetch.L2`: bring the line to L2.
    PrefetchL2,
    /// `discard.L2`: drop the line without writing it back.
    Discard,
    /// `applypriority.L2::evict_normal`: the line is evicted like any other.
    EvictNormal,
}

/// Memory semantics of an access (PTX ISA "Memory Consistency Model").
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, Default)]
#[serde(rename_all = "snake_case")]
pub enum Semantics {
    /// An ordinary access, not ordered with other threads' (`.weak`).
    #[default]
    Weak,
    /// `.volatile`: as relaxed with system scope, in the thread's issue order.
    Volatile,
    /// `.relaxed`: strong, but without ordering of other accesses.
    Relaxed,
    /// `.acquire`: the thread's later accesses are ordered after it.
    Acquire,
    /// `.release`: the thread's earlier accesses are ordered before it.
    Release,
    /// `.acq_rel`: acquire and release.
    AcqRel,
    /// `fence.sc`: sequentially consistent.
    Sc,
}

/// The set of threads with which a strong operation synchronises.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Scope {
    /// The thread block (`.cta`).
    Cta,
    /// The cluster (`.cluster`).
    Cluster,
    /// The device (`.gpu`; `.gl` of `membar`).
    Gpu,
    /// The system (`.sys`).
    Sys,
}

/// The operation of `atom` and `red` (PTX ISA "atom").
#[derive(
    Clone,
    Copy,
    Debug,
    PartialEq,
    Eq,
    Hash,
    PartialOrd,
    Ord,
    Serialize,
    Deserialize,
    borsh::BorshSerialize,
    borsh::BorshDeserialize,
)]
#[serde(rename_all = "snake_case")]
pub enum AtomicOp {
    /// Bitwise and: writes `old & b`.
    And,
    /// Bitwise or: writes `old | b`.
    Or,
    /// Bitwise exclusive or: writes `old ^ b`.
    Xor,
    /// Compare and swap: writes `c` if the old value equals `b`.
    Cas,
    /// Exchange: writes `b`.
    Exch,
    /// Addition: wrapping for integers, round to nearest even for floats.
    Add,
    /// Increment with wrap-around: `old >= b ? 0 : old + 1`.
    Inc,
    /// Decrement with wrap-around: `old == 0 || old > b ? b : old - 1`.
    Dec,
    /// Minimum of the old value and `b`.
    Min,
    /// Maximum of the old value and `b`.
    Max,
}

/// A fundamental type of PTX (PTX ISA "Fundamental Types") and the packed ones.
#[derive(
    Clone,
    Copy,
    Debug,
    PartialEq,
    Eq,
    Hash,
    PartialOrd,
    Ord,
    Serialize,
    Deserialize,
    JsonSchema,
    borsh::BorshSerialize,
    borsh::BorshDeserialize,
)]
#[serde(rename_all = "lowercase")]
#[allow(missing_docs, reason = "the names are the PTX type names")]
pub enum ScalarType {
    B8,
    B16,
    B32,
    B64,
    B128,
    U8,
    U16,
    U32,
    U64,
    S8,
    S16,
    S32,
    S64,
    U16x2,
    S16x2,
    F16,
    F16x2,
    Bf16,
    Bf16x2,
    Tf32,
    F32,
    F32x2,
    F64,
    E4m3,
    E5m2,
    E4m3x2,
    E5m2x2,
    E2m1x2,
    E2m3x2,
    E3m2x2,
    Ue8m0x2,
    S2f6x2,
    E4m3x4,
    E5m2x4,
    E2m1x4,
    E2m3x4,
    E3m2x4,
    Pred,
}

impl ScalarType {
    /// Size in bits; a predicate has one.
    pub const fn bits(self) -> u32 {
        use ScalarType::*;
        match self {
            Pred => 1,
            B8 | U8 | S8 | E4m3 | E5m2 | E2m1x2 => 8,
            B16 | U16 | S16 | F16 | Bf16 | E4m3x2 | E5m2x2 | E2m3x2 | E3m2x2 | Ue8m0x2 | S2f6x2 | E2m1x4 => {
                16
            }
            B32 | U32 | S32 | U16x2 | S16x2 | F32 | Tf32 | F16x2 | Bf16x2 | E4m3x4 | E5m2x4 | E2m3x4
            | E3m2x4 => 32,
            B64 | U64 | S64 | F64 | F32x2 => 64,
            B128 => 128,
        }
    }

    /// Size in bytes in memory; 0 for predicates, which are not stored in memory.
    pub const fn bytes(self) -> u32 {
        self.bits() / 8
    }

    /// True for the signed integers `.s8 .s16 .s32 .s64`.
    pub const fn is_signed(self) -> bool {
        matches!(self, Self::S8 | Self::S16 | Self::S32 | Self::S64)
    }

    /// True for floating-point types, packed ones included.
    pub const fn is_float(self) -> bool {
        use ScalarType::*;
        matches!(
            self,
            F16 | F16x2
                | Bf16
                | Bf16x2
                | Tf32
                | F32
                | F32x2
                | F64
                | E4m3
                | E5m2
                | E4m3x2
                | E5m2x2
                | E2m1x2
                | E2m3x2
                | E3m2x2
                | Ue8m0x2
                | S2f6x2
                | E4m3x4
                | E5m2x4
                | E2m1x4
                | E2m3x4
                | E3m2x4
        )
    }

    /// True for the integers `.u*` and `.s*`.
    pub const fn is_integer(self) -> bool {
        use ScalarType::*;
        matches!(self, U8 | U16 | U32 | U64 | S8 | S16 | S32 | S64)
    }

    /// True for the untyped bits `.b*`.
    pub const fn is_bits(self) -> bool {
        matches!(self, Self::B8 | Self::B16 | Self::B32 | Self::B64 | Self::B128)
    }

    /// The type of a PTX suffix, given without its dot.
    pub fn named(name: &str) -> Option<Self> {
        use ScalarType::*;
        const ALL: [ScalarType; 38] = [
            B8, B16, B32, B64, B128, U8, U16, U32, U64, S8, S16, S32, S64, U16x2, S16x2, F16, F16x2, Bf16,
            Bf16x2, Tf32, F32, F32x2, F64, E4m3, E5m2, E4m3x2, E5m2x2, E2m1x2, E2m3x2, E3m2x2, Ue8m0x2,
            S2f6x2, E4m3x4, E5m2x4, E2m1x4, E2m3x4, E3m2x4, Pred,
        ];
        ALL.into_iter().find(|ty| ty.name() == name)
    }

    /// The PTX suffix, without the dot.
    pub const fn name(self) -> &'static str {
        use ScalarType::*;
        match self {
            B8 => "b8",
            B16 => "b16",
            B32 => "b32",
            B64 => "b64",
            B128 => "b128",
            U8 => "u8",
            U16 => "u16",
            U32 => "u32",
            U64 => "u64",
            S8 => "s8",
            S16 => "s16",
            S32 => "s32",
            S64 => "s64",
            U16x2 => "u16x2",
            S16x2 => "s16x2",
            F16 => "f16",
            F16x2 => "f16x2",
            Bf16 => "bf16",
            Bf16x2 => "bf16x2",
            Tf32 => "tf32",
            F32 => "f32",
            F32x2 => "f32x2",
            F64 => "f64",
            E4m3 => "e4m3",
            E5m2 => "e5m2",
            E4m3x2 => "e4m3x2",
            E5m2x2 => "e5m2x2",
            E2m1x2 => "e2m1x2",
            E2m3x2 => "e2m3x2",
            E3m2x2 => "e3m2x2",
            Ue8m0x2 => "ue8m0x2",
            S2f6x2 => "s2f6x2",
            E4m3x4 => "e4m3x4",
            E5m2x4 => "e5m2x4",
            E2m1x4 => "e2m1x4",
            E2m3x4 => "e2m3x4",
            E3m2x4 => "e3m2x4",
            Pred => "pred",
        }
    }
}
