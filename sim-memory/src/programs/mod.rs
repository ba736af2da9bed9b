//! Memory programs: the effects of each load, store and atomic on L1, L2 and DRAM, micro step by micro step,
//! in the language of CS §4.4. The texts lie beside this file, one for each operation of a protocol; they are
//! parsed, checked and compiled once.

mod ast;
mod compile;
mod parser;
mod table;

use std::sync::{Arc, OnceLock};

use crate::vocabulary::Scope;
pub use ast::{BExp, LineColumn, OpExp, Room, Stm};
pub use compile::{CompileError, CompiledStep, Instruction, MemoryProgram};
pub use parser::{ParseError, parse};
pub use table::{Choice, Choices, Operation, Protocol};

/// The index of a program in a [`ProgramSet`].
pub type ProgramId = u8;

/// The programs of a chip, indexed by [`Operation`].
#[derive(Clone, Debug, Default)]
pub struct ProgramSet {
    /// Shared by all components of a device. `None` in the default, which replaces a component's own set
    /// while that is taken out, and allocates nothing.
    programs: Option<Arc<[MemoryProgram]>>,
}

macro_rules! texts {
    ($($name:literal => $path:literal),+ $(,)?) => {
        &[$(($name, include_str!($path))),+]
    };
}

/// Every shipped program: name and text [prog-listing41] [prog-listing42] [prog-listing43] [prog-listing44]
/// [prog-listing45] [prog-listing46].
pub const TEXTS: &[(&str, &str)] = texts! {
    "thesis/atom_acquire" => "thesis/atom_acquire.mem",
    "thesis/atom_global" => "thesis/atom_global.mem",
    "thesis/atom_shared" => "thesis/atom_shared.mem",
    "thesis/fence" => "thesis/fence.mem",
    "thesis/ld_acquire" => "thesis/ld_acquire.mem",
    "thesis/ld_ca" => "thesis/ld_ca.mem",
    "thesis/ld_cg" => "thesis/ld_cg.mem",
    "thesis/ld_const" => "thesis/ld_const.mem",
    "thesis/ld_cs" => "thesis/ld_cs.mem",
    "thesis/ld_cv" => "thesis/ld_cv.mem",
    "thesis/ld_local_lu" => "thesis/ld_local_lu.mem",
    "thesis/ld_shared" => "thesis/ld_shared.mem",
    "thesis/red" => "thesis/red.mem",
    "thesis/st_global_cs" => "thesis/st_global_cs.mem",
    "tesla/atom" => "tesla/atom.mem",
    "tesla/hint" => "tesla/hint.mem",
    "tesla/ld" => "tesla/ld.mem",
    "tesla/red" => "tesla/red.mem",
    "tesla/st" => "tesla/st.mem",
    "thesis/st_global_wb" => "thesis/st_global_wb.mem",
    "thesis/st_global_wt" => "thesis/st_global_wt.mem",
    "thesis/st_local_cg" => "thesis/st_local_cg.mem",
    "thesis/st_local_wb" => "thesis/st_local_wb.mem",
    "thesis/st_local_wt" => "thesis/st_local_wt.mem",
    "thesis/st_shared" => "thesis/st_shared.mem",
    "thesis/discard" => "thesis/discard.mem",
    "thesis/evict_normal" => "thesis/evict_normal.mem",
    "thesis/prefetch_l1" => "thesis/prefetch_l1.mem",
    "thesis/prefetch_l2" => "thesis/prefetch_l2.mem",
    "thesis/write_regs" => "thesis/write_regs.mem",
    "fermi/red" => "fermi/red.mem",
    "fermi/st_global" => "fermi/st_global.mem",
    "fermi/st_global_cs" => "fermi/st_global_cs.mem",
    "fermi/st_global_wt" => "fermi/st_global_wt.mem",
    "fermi/st_local" => "fermi/st_local.mem",
    "fermi/st_local_cs" => "fermi/st_local_cs.mem",
    "fermi/st_local_wt" => "fermi/st_local_wt.mem",
    "volta/fence" => "volta/fence.mem",
    "volta/ld_local_lu" => "volta/ld_local_lu.mem",
    "volta/st_global" => "volta/st_global.mem",
    "volta/st_global_cg" => "volta/st_global_cg.mem",
    "volta/st_global_cs" => "volta/st_global_cs.mem",
    "volta/st_global_wt" => "volta/st_global_wt.mem",
    "volta/st_local" => "volta/st_local.mem",
};

/// The reason why a set of programs cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProgramError {
    /// A text does not parse.
    #[error("{name}: {error}")]
    Parse {
        /// Name of the program.
        name: String,
        /// Position and reason.
        error: ParseError,
    },
    /// A program would get stuck.
    #[error("{name}: {error}")]
    Compile {
        /// Name of the program.
        name: String,
        /// Position and reason.
        error: CompileError,
    },
    /// A chip file names an operation or a program that does not exist.
    #[error("{0}")]
    Unknown(String),
}

impl ProgramSet {
    /// The programs that a protocol assigns to each operation.
    ///
    /// # Errors
    /// The name of a text that does not parse or compile, with the reason.
    pub fn for_protocol(protocol: Protocol) -> Result<Self, ProgramError> {
        Self::with(protocol, &Choices::new())
    }

    /// The programs of a protocol, with those of the operations in `choices` replaced.
    ///
    /// # Errors
    /// A text that does not parse or compile; an operation or program that does not exist.
    pub fn with(protocol: Protocol, choices: &Choices) -> Result<Self, ProgramError> {
        Self::for_chip(protocol, choices, 0)
    }

    /// As [`with`](Self::with), on a chip of a compute capability (major × 10 + minor); see
    /// [`Operation::program_on`].
    ///
    /// # Errors
    /// The errors of [`with`](Self::with).
    pub fn for_chip(
        protocol: Protocol,
        choices: &Choices,
        compute_capability: u32,
    ) -> Result<Self, ProgramError> {
        if let Some(name) = choices.keys().find(|name| !Operation::ALL.iter().any(|o| o.name() == *name)) {
            let known: Vec<&str> = Operation::ALL.iter().map(|o| o.name()).collect();
            let message =
                format!("programs: there is no operation `{name}`; available: {}", known.join(", "));
            return Err(ProgramError::Unknown(message));
        }
        let programs = Operation::ALL.iter().map(|&operation| match choices.get(operation.name()) {
            Some(Choice { name, text: Some(text) }) => compiled(name, text, operation.on_chip()),
            Some(Choice { name, text: None }) => load(name, operation.on_chip()),
            None => load(operation.program_on(protocol, compute_capability), operation.on_chip()),
        });
        Ok(Self { programs: Some(programs.collect::<Result<_, _>>()?) })
    }

    /// The program of an operation.
    #[inline]
    pub fn select(&self, operation: Operation) -> ProgramId {
        operation as ProgramId
    }

    /// True if a fence of this scope drops L1's lines of global memory.
    pub fn fence_flushes(&self, scope: Scope) -> bool {
        let code = &self.get(Operation::fence(scope) as ProgramId).code;
        code.iter().any(|step| step.instruction == Instruction::Op(OpExp::FlushL1))
    }

    /// True if stores of any program stay in L2.
    pub fn write_l2(&self) -> bool {
        let code = self.programs.as_deref().unwrap_or_default().iter().flat_map(|program| &program.code);
        code.into_iter().any(|step| matches!(step.instruction, Instruction::Op(OpExp::WriteL2)))
    }

    /// The program with an id.
    #[inline]
    pub fn get(&self, id: ProgramId) -> &MemoryProgram {
        &self.programs.as_deref().unwrap_or_default()[usize::from(id)]
    }
}

/// Parses and compiles a shipped program. An `on_chip` program works on shared or constant memory or on
/// registers, and runs in the SM only.
///
/// # Errors
/// The errors of the parser and the compiler, or a name that is not that of a program.
pub fn load(name: &str, on_chip: bool) -> Result<MemoryProgram, ProgramError> {
    // Each is compiled once in a process, at its first use: a sweep makes thousands of devices.
    static COMPILED: [[OnceLock<MemoryProgram>; 2]; TEXTS.len()] =
        [const { [const { OnceLock::new() }; 2] }; TEXTS.len()];
    match TEXTS.iter().position(|(n, _)| *n == name) {
        Some(index) => {
            let program = &COMPILED[index][usize::from(on_chip)];
            if let Some(program) = program.get() {
                return Ok(program.clone());
            }
            let new = compiled(name, TEXTS[index].1, on_chip)?;
            Ok(program.get_or_init(|| new).clone())
        }
        None => {
            let known: Vec<&str> = TEXTS.iter().map(|(name, _)| *name).collect();
            let message =
                format!("there is no program or file `{name}`; shipped programs: {}", known.join(", "));
            Err(ProgramError::Unknown(message))
        }
    }
}

fn compiled(name: &str, text: &str, on_chip: bool) -> Result<MemoryProgram, ProgramError> {
    let statements = parse(text).map_err(|error| ProgramError::Parse { name: name.to_string(), error })?;
    let program = if on_chip {
        MemoryProgram::compile_on_chip(&statements)
    } else {
        MemoryProgram::compile(&statements)
    };
    program.map_err(|error| ProgramError::Compile { name: name.to_string(), error })
}

#[cfg(test)]
mod tests;
