//! Memory programs: what each load, store and atomic does to L1, L2 and DRAM, micro step by
//! micro step, in the language of CS §4.4. The texts lie beside this file, one a protocol's
//! operation; they are parsed, checked and compiled once.

mod compile;
mod parser;

pub use compile::{CompileError, Instruction, MemoryProgram, Room};
pub use parser::{ParseError, parse};

use serde::{Deserialize, Serialize};

use crate::access::AccessKind;
use crate::vocabulary::{CacheOp, Semantics, StateSpace};

/// Boolean expressions [prog-bexp].
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names are the thesis's")]
pub enum BExp {
    True,
    False,
    Not(Box<BExp>),
    And(Box<BExp>, Box<BExp>),
    Or(Box<BExp>, Box<BExp>),
    IsCachedL1,
    IsCachedL2,
}

/// Operational expressions: the 23 of the thesis and two declared extensions, `writeThroughL1`
/// (write if cached, stays clean) and `flushL1` [prog-opexp].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names are the thesis's")]
pub enum OpExp {
    ReadMem,
    WriteMem,
    AtomOp,
    ReleaseRegs,
    WriteToRegs,
    Lock,
    Unlock,
    ReadL1,
    ReadL2,
    WriteL1,
    WriteL2,
    ReserveL1,
    ReserveL2,
    UpdateL1,
    UpdateL2,
    EvictL1,
    EvictL2,
    DiscardL1,
    DiscardL2,
    ClassifyFirstL1,
    ClassifyFirstL2,
    ClassifyNormalL1,
    ClassifyNormalL2,
    WriteThroughL1,
    FlushL1,
}

impl OpExp {
    /// All operations with their names.
    pub const ALL: [(&'static str, OpExp); 25] = [
        ("readMem", OpExp::ReadMem),
        ("writeMem", OpExp::WriteMem),
        ("atomOp", OpExp::AtomOp),
        ("releaseRegs", OpExp::ReleaseRegs),
        ("writeToRegs", OpExp::WriteToRegs),
        ("lock", OpExp::Lock),
        ("unlock", OpExp::Unlock),
        ("readL1", OpExp::ReadL1),
        ("readL2", OpExp::ReadL2),
        ("writeL1", OpExp::WriteL1),
        ("writeL2", OpExp::WriteL2),
        ("reserveL1", OpExp::ReserveL1),
        ("reserveL2", OpExp::ReserveL2),
        ("updateL1", OpExp::UpdateL1),
        ("updateL2", OpExp::UpdateL2),
        ("evictL1", OpExp::EvictL1),
        ("evictL2", OpExp::EvictL2),
        ("discardL1", OpExp::DiscardL1),
        ("discardL2", OpExp::DiscardL2),
        ("classifyFirstL1", OpExp::ClassifyFirstL1),
        ("classifyFirstL2", OpExp::ClassifyFirstL2),
        ("classifyNormalL1", OpExp::ClassifyNormalL1),
        ("classifyNormalL2", OpExp::ClassifyNormalL2),
        ("writeThroughL1", OpExp::WriteThroughL1),
        ("flushL1", OpExp::FlushL1),
    ];
}

/// Program statements [prog-stm].
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names are the thesis's")]
pub enum Stm {
    Nop,
    Yield,
    End,
    Op(OpExp, u32),
    If(BExp, Vec<Stm>, Vec<Stm>, u32),
}

/// A complete set of programs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Protocol {
    /// The listings of CS ch. 4 as published.
    Thesis,
    /// The same protocol; store registers are released once their data has left.
    Fermi,
}

/// An index into a [`ProgramSet`].
pub type ProgramId = u8;

/// The programs of a protocol: one table of operation × space × cache operator × semantics.
#[derive(Clone, Debug, Default)]
pub struct ProgramSet {
    programs: Vec<MemoryProgram>,
}

macro_rules! texts {
    ($($name:literal => $path:literal),+ $(,)?) => {
        &[$(($name, include_str!($path))),+]
    };
}

/// Every shipped program by name
/// [prog-listing41] [prog-listing42] [prog-listing43] [prog-listing44] [prog-listing45]
/// [prog-listing46].
pub const TEXTS: &[(&str, &str)] = texts! {
    "thesis/st_global_wb" => "thesis/st_global_wb.mem",
    "thesis/ld_ca" => "thesis/ld_ca.mem",
    "thesis/st_local_cg" => "thesis/st_local_cg.mem",
    "thesis/atom_global" => "thesis/atom_global.mem",
    "thesis/atom_shared" => "thesis/atom_shared.mem",
    "thesis/write_regs" => "thesis/write_regs.mem",
    "fermi/st_global" => "fermi/st_global.mem",
    "fermi/st_local" => "fermi/st_local.mem",
    "fermi/ld_cg" => "fermi/ld_cg.mem",
    "fermi/red_global" => "fermi/red_global.mem",
};

/// Why a set of programs cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProgramError {
    /// A text does not parse.
    #[error("{name}: {error}")]
    Parse {
        /// The program.
        name: String,
        /// Where and why.
        error: ParseError,
    },
    /// A program would get stuck.
    #[error("{name}: {error}")]
    Compile {
        /// The program.
        name: String,
        /// Where and why.
        error: CompileError,
    },
}

/// Roles in the table.
const LOAD_CA: usize = 0;
const LOAD_CG: usize = 1;
const STORE_GLOBAL: usize = 2;
const STORE_LOCAL: usize = 3;
const ATOMIC: usize = 4;
const REDUCTION: usize = 5;

impl ProgramSet {
    /// The programs of a protocol.
    ///
    /// # Errors
    /// A text that does not parse or compile, by name.
    pub fn for_protocol(protocol: Protocol) -> Result<Self, ProgramError> {
        let names: [&str; 6] = match protocol {
            Protocol::Thesis => [
                "thesis/ld_ca",
                "fermi/ld_cg",
                "thesis/st_global_wb",
                "thesis/st_local_cg",
                "thesis/atom_global",
                "thesis/atom_global",
            ],
            Protocol::Fermi => [
                "thesis/ld_ca",
                "fermi/ld_cg",
                "fermi/st_global",
                "fermi/st_local",
                "thesis/atom_global",
                "fermi/red_global",
            ],
        };
        let programs = names.iter().map(|name| load(name)).collect::<Result<_, _>>()?;
        Ok(Self { programs })
    }

    /// The program of an access.
    pub fn select(
        &self,
        kind: AccessKind,
        space: StateSpace,
        cache: CacheOp,
        semantics: Semantics,
    ) -> ProgramId {
        let local = space == StateSpace::Local;
        let index = match kind {
            AccessKind::Load => {
                let through_l1 =
                    local || (matches!(cache, CacheOp::Ca | CacheOp::Lu) && semantics == Semantics::Weak);
                if through_l1 { LOAD_CA } else { LOAD_CG }
            }
            AccessKind::Store if local => STORE_LOCAL,
            AccessKind::Store => STORE_GLOBAL,
            AccessKind::Atomic { returns: true, .. } => ATOMIC,
            AccessKind::Atomic { returns: false, .. } => REDUCTION,
        };
        index as ProgramId
    }

    /// A program by id.
    #[inline]
    pub fn get(&self, id: ProgramId) -> &MemoryProgram {
        &self.programs[usize::from(id)]
    }
}

/// Parses and compiles a shipped program.
///
/// # Errors
/// As the parser and the compiler report.
pub fn load(name: &str) -> Result<MemoryProgram, ProgramError> {
    let text = TEXTS.iter().find(|(n, _)| *n == name).map_or("", |(_, text)| *text);
    let statements = parse(text).map_err(|error| ProgramError::Parse { name: name.to_string(), error })?;
    MemoryProgram::compile(&statements)
        .map_err(|error| ProgramError::Compile { name: name.to_string(), error })
}

#[cfg(test)]
mod tests;
