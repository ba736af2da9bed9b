//! The program that each operation runs: one row for every combination of kind, state space, cache operator,
//! semantics and scope that PTX distinguishes, and one column for each protocol.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::access::AccessKind;
use crate::vocabulary::{CacheHint, CacheOp, Scope, Semantics, StateSpace};

/// A complete set of programs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Protocol {
    /// The listings of CS ch. 4 as published; operations without a listing follow the same protocol.
    Thesis,
    /// The same protocol; store registers are released once their data has left.
    Fermi,
    /// L1 is write-through; fences and acquires of device and system scope invalidate it.
    Volta,
    /// No caches of global and local memory (compute capability 1.x).
    Tesla,
}

impl Protocol {
    /// All protocols with their names in chip files.
    pub const ALL: [(&'static str, Protocol); 4] = [
        ("thesis", Protocol::Thesis),
        ("fermi", Protocol::Fermi),
        ("volta", Protocol::Volta),
        ("tesla", Protocol::Tesla),
    ];
}

impl Protocol {
    /// True if L1 caches lines of global memory.
    pub const fn caches_in_l1(self) -> bool {
        !matches!(self, Self::Tesla)
    }
}

macro_rules! table {
    ($($row:ident $name:literal: $thesis:literal, $fermi:literal, $volta:literal, $tesla:literal;)+) => {
        /// A row of the table: a kind of access, cache hint, fence or on-chip operation.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        #[repr(u8)]
        #[allow(missing_docs, reason = "named as `Operation::name` says")]
        pub enum Operation {
            $($row),+
        }

        impl Operation {
            /// All rows, in the order of the table.
            pub const ALL: &[Operation] = &[$(Operation::$row),+];

            /// The name in chip files: the PTX operation, its state space, operator or semantics, and scope.
            /// `gpu` also stands for `cluster` and `sys`.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Operation::$row => $name),+
                }
            }

            /// The name of the program that a protocol assigns to the operation.
            pub const fn program(self, protocol: Protocol) -> &'static str {
                let (thesis, fermi, volta, tesla) = match self {
                    $(Operation::$row => ($thesis, $fermi, $volta, $tesla)),+
                };
                match protocol {
                    Protocol::Thesis => thesis,
                    Protocol::Fermi => fermi,
                    Protocol::Volta => volta,
                    Protocol::Tesla => tesla,
                }
            }
        }
    };
}

table! {
    LdGlobalCa "ld.global.ca": "thesis/ld_ca", "thesis/ld_ca", "thesis/ld_ca", "tesla/ld";
    LdGlobalCg "ld.global.cg": "thesis/ld_cg", "thesis/ld_cg", "thesis/ld_cg", "tesla/ld";
    LdGlobalCs "ld.global.cs": "thesis/ld_cs", "thesis/ld_cs", "thesis/ld_cs", "tesla/ld";
    // PTX: on global addresses .lu is .cs.
    LdGlobalLu "ld.global.lu": "thesis/ld_cs", "thesis/ld_cs", "thesis/ld_cs", "tesla/ld";
    LdGlobalCv "ld.global.cv": "thesis/ld_cv", "thesis/ld_cv", "thesis/ld_cv", "tesla/ld";
    LdGlobalVolatile "ld.global.volatile": "thesis/ld_cg", "thesis/ld_cg", "thesis/ld_cg", "tesla/ld";
    // The threads of a block share one L1.
    LdGlobalRelaxedCta "ld.global.relaxed.cta": "thesis/ld_ca", "thesis/ld_ca", "thesis/ld_ca", "tesla/ld";
    LdGlobalRelaxedGpu "ld.global.relaxed.gpu": "thesis/ld_cg", "thesis/ld_cg", "thesis/ld_cg", "tesla/ld";
    LdGlobalAcquireCta "ld.global.acquire.cta": "thesis/ld_ca", "thesis/ld_ca", "thesis/ld_ca", "tesla/ld";
    LdGlobalAcquireGpu "ld.global.acquire.gpu": "thesis/ld_acquire", "thesis/ld_acquire", "thesis/ld_acquire", "tesla/ld";
    LdLocalCa "ld.local.ca": "thesis/ld_ca", "thesis/ld_ca", "thesis/ld_ca", "tesla/ld";
    // L1 may hold a thread's own dirty bytes, so no load of local memory goes past it.
    LdLocalCg "ld.local.cg": "thesis/ld_ca", "thesis/ld_ca", "thesis/ld_ca", "tesla/ld";
    // PTX: on local addresses .cs is .lu.
    LdLocalCs "ld.local.cs": "thesis/ld_local_lu", "thesis/ld_local_lu", "volta/ld_local_lu", "tesla/ld";
    LdLocalLu "ld.local.lu": "thesis/ld_local_lu", "thesis/ld_local_lu", "volta/ld_local_lu", "tesla/ld";
    LdLocalCv "ld.local.cv": "thesis/ld_ca", "thesis/ld_ca", "thesis/ld_ca", "tesla/ld";
    LdLocalVolatile "ld.local.volatile": "thesis/ld_ca", "thesis/ld_ca", "thesis/ld_ca", "tesla/ld";
    StGlobalWb "st.global.wb": "thesis/st_global_wb", "fermi/st_global", "volta/st_global", "tesla/st";
    StGlobalCg "st.global.cg": "thesis/st_global_wb", "fermi/st_global", "volta/st_global_cg", "tesla/st";
    StGlobalCs "st.global.cs": "thesis/st_global_cs", "fermi/st_global_cs", "volta/st_global_cs", "tesla/st";
    StGlobalWt "st.global.wt": "thesis/st_global_wt", "fermi/st_global_wt", "volta/st_global_wt", "tesla/st";
    StGlobalVolatile "st.global.volatile": "thesis/st_global_wb", "fermi/st_global", "volta/st_global_cg", "tesla/st";
    StGlobalRelaxed "st.global.relaxed": "thesis/st_global_wb", "fermi/st_global", "volta/st_global_cg", "tesla/st";
    StGlobalRelease "st.global.release": "thesis/st_global_wb", "fermi/st_global", "volta/st_global_cg", "tesla/st";
    StLocalWb "st.local.wb": "thesis/st_local_wb", "fermi/st_local", "volta/st_local", "tesla/st";
    StLocalCg "st.local.cg": "thesis/st_local_cg", "fermi/st_local_cs", "volta/st_local", "tesla/st";
    StLocalCs "st.local.cs": "thesis/st_local_cg", "fermi/st_local_cs", "volta/st_local", "tesla/st";
    StLocalWt "st.local.wt": "thesis/st_local_wt", "fermi/st_local_wt", "volta/st_local", "tesla/st";
    StLocalVolatile "st.local.volatile": "thesis/st_local_wb", "fermi/st_local", "volta/st_local", "tesla/st";
    AtomGlobal "atom.global": "thesis/atom_global", "thesis/atom_global", "thesis/atom_global", "tesla/atom";
    AtomGlobalAcquireGpu "atom.global.acquire.gpu": "thesis/atom_acquire", "thesis/atom_acquire", "thesis/atom_acquire", "tesla/atom";
    RedGlobal "red.global": "thesis/red", "fermi/red", "fermi/red", "tesla/red";
    PrefetchL1 "prefetch.L1": "thesis/prefetch_l1", "thesis/prefetch_l1", "thesis/prefetch_l1", "tesla/hint";
    PrefetchL2 "prefetch.L2": "thesis/prefetch_l2", "thesis/prefetch_l2", "thesis/prefetch_l2", "tesla/hint";
    Discard "discard.L2": "thesis/discard", "thesis/discard", "thesis/discard", "tesla/hint";
    EvictNormal "applypriority.L2": "thesis/evict_normal", "thesis/evict_normal", "thesis/evict_normal", "tesla/hint";
    FenceCta "fence.cta": "thesis/fence", "thesis/fence", "thesis/fence", "thesis/fence";
    FenceGpu "fence.gpu": "thesis/fence", "thesis/fence", "volta/fence", "thesis/fence";
    LdShared "ld.shared": "thesis/ld_shared", "thesis/ld_shared", "thesis/ld_shared", "thesis/ld_shared";
    StShared "st.shared": "thesis/st_shared", "thesis/st_shared", "thesis/st_shared", "thesis/st_shared";
    AtomShared "atom.shared": "thesis/atom_shared", "thesis/atom_shared", "thesis/atom_shared", "thesis/atom_shared";
    LdConst "ld.const": "thesis/ld_const", "thesis/ld_const", "thesis/ld_const", "thesis/ld_const";
    Registers "registers": "thesis/write_regs", "thesis/write_regs", "thesis/write_regs", "thesis/write_regs";
}

impl Operation {
    /// The program of a protocol on a chip of a compute capability (major × 10 + minor). From 7.0 on PTX has
    /// a memory model: a fence of device scope drops L1's lines of global memory under every protocol that
    /// caches them.
    pub const fn program_on(self, protocol: Protocol, compute_capability: u32) -> &'static str {
        match self {
            Self::FenceGpu if compute_capability >= 70 && protocol.caches_in_l1() => {
                self.program(Protocol::Volta)
            }
            _ => self.program(protocol),
        }
    }

    /// The row of an access to global or local memory.
    #[inline]
    pub fn of(
        kind: AccessKind,
        space: StateSpace,
        cache: CacheOp,
        semantics: Semantics,
        scope: Scope,
    ) -> Self {
        use {CacheOp as C, Semantics as S};
        let local = space == StateSpace::Local;
        let acquires = matches!(semantics, S::Acquire | S::AcqRel | S::Sc);
        let wide = scope != Scope::Cta;
        match kind {
            AccessKind::Load if local => match (semantics, cache) {
                (S::Volatile, _) => Self::LdLocalVolatile,
                (_, C::Cg) => Self::LdLocalCg,
                (_, C::Cs) => Self::LdLocalCs,
                (_, C::Lu) => Self::LdLocalLu,
                (_, C::Cv) => Self::LdLocalCv,
                (_, C::Ca | C::Wb | C::Wt) => Self::LdLocalCa,
            },
            AccessKind::Load => match (semantics, cache) {
                (S::Weak, C::Ca | C::Wb | C::Wt) => Self::LdGlobalCa,
                (S::Weak, C::Cg) => Self::LdGlobalCg,
                (S::Weak, C::Cs) => Self::LdGlobalCs,
                (S::Weak, C::Lu) => Self::LdGlobalLu,
                (S::Weak, C::Cv) => Self::LdGlobalCv,
                (S::Volatile, _) => Self::LdGlobalVolatile,
                _ => match (acquires, wide) {
                    (false, false) => Self::LdGlobalRelaxedCta,
                    (false, true) => Self::LdGlobalRelaxedGpu,
                    (true, false) => Self::LdGlobalAcquireCta,
                    (true, true) => Self::LdGlobalAcquireGpu,
                },
            },
            AccessKind::Store if local => match (semantics, cache) {
                (S::Volatile, _) => Self::StLocalVolatile,
                (_, C::Cg) => Self::StLocalCg,
                (_, C::Cs) => Self::StLocalCs,
                (_, C::Wt) => Self::StLocalWt,
                _ => Self::StLocalWb,
            },
            AccessKind::Store => match (semantics, cache) {
                (S::Weak, C::Cg) => Self::StGlobalCg,
                (S::Weak, C::Cs) => Self::StGlobalCs,
                (S::Weak, C::Wt) => Self::StGlobalWt,
                (S::Weak, _) => Self::StGlobalWb,
                (S::Volatile, _) => Self::StGlobalVolatile,
                (S::Relaxed | S::Acquire, _) => Self::StGlobalRelaxed,
                (S::Release | S::AcqRel | S::Sc, _) => Self::StGlobalRelease,
            },
            AccessKind::Atomic { returns: false, .. } => Self::RedGlobal,
            AccessKind::Atomic { .. } if acquires && wide => Self::AtomGlobalAcquireGpu,
            AccessKind::Atomic { .. } => Self::AtomGlobal,
            AccessKind::Hint(CacheHint::PrefetchL1) => Self::PrefetchL1,
            AccessKind::Hint(CacheHint::PrefetchL2) => Self::PrefetchL2,
            AccessKind::Hint(CacheHint::Discard) => Self::Discard,
            AccessKind::Hint(CacheHint::EvictNormal) => Self::EvictNormal,
        }
    }

    /// The row of a fence of a scope.
    pub fn fence(scope: Scope) -> Self {
        if scope == Scope::Cta { Self::FenceCta } else { Self::FenceGpu }
    }

    /// True if the operation runs in the SM only, on shared or constant memory or on registers.
    pub fn on_chip(self) -> bool {
        matches!(self, Self::LdShared | Self::StShared | Self::AtomShared | Self::LdConst | Self::Registers)
    }
}

/// Replacements of programs of the protocol, by the name of the operation.
pub type Choices = BTreeMap<String, Choice>;

/// A program a chip file names: a shipped one, or a file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(from = "String", into = "String")]
#[schemars(with = "String")]
pub struct Choice {
    /// Name of a shipped program, or path of a file.
    pub name: String,
    /// The file's text, once it is read.
    pub text: Option<String>,
}

impl From<Choice> for String {
    fn from(choice: Choice) -> Self {
        choice.name
    }
}

impl From<String> for Choice {
    fn from(name: String) -> Self {
        Self { name, text: None }
    }
}
