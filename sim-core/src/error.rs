//! Errors while a program runs. `⊥` of the papers is [`Violation`]: a typed error that names its rule. The SM
//! adds the location and makes a [`Fault`] of it.

use std::fmt;
use std::sync::Arc;

use serde::Serialize;
use sim_frontend::diagnostic::Diagnostic;
use sim_frontend::program::Pc;
use sim_memory::vocabulary::{Cycle, LaneMask};

/// The papers' `⊥`: the side condition of a rule does not hold. A single pointer, so that results of steps
/// fit in registers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation(Box<ViolationFacts>);

/// The contents of a [`Violation`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ViolationFacts {
    /// The id of the rule, as in `docs/rules.md` (`crs-ssy`, `bar-prep` …).
    pub rule: &'static str,
    /// The lanes concerned; empty if it concerns the whole warp.
    pub lanes: LaneMask,
    /// The reason, as text for the user.
    pub reason: String,
}

impl Violation {
    /// A violation of `rule` by `lanes`.
    pub fn new(rule: &'static str, lanes: LaneMask, reason: impl Into<String>) -> Self {
        Self(Box::new(ViolationFacts { rule, lanes, reason: reason.into() }))
    }

    /// The kind of fault: a safety rule that the simulator itself violated, or a fault of the program.
    pub fn kind(&self) -> FaultKind {
        let ours = ["safe-", "inv-", "cfc-addr"].iter().any(|family| self.rule.starts_with(family));
        if ours { FaultKind::CheckViolation } else { FaultKind::Fault }
    }
}

impl std::ops::Deref for Violation {
    type Target = ViolationFacts;

    fn deref(&self) -> &ViolationFacts {
        &self.0
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "[{}] {}", self.rule, self.reason)
    }
}

/// The thread and instruction at which a run stopped.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Location {
    /// Name of the kernel.
    pub kernel: Arc<str>,
    /// Index of the block in the grid.
    pub block: [u32; 3],
    /// Index, in the block, of the thread of the first lane concerned.
    pub thread: [u32; 3],
    /// Index of the warp in the block.
    pub warp: u32,
    /// The first lane concerned.
    pub lane: u32,
    /// Program address of the instruction.
    pub pc: Pc,
    /// Name of the PTX file.
    pub file: Arc<str>,
    /// Line in the PTX file, from 1.
    pub line: u32,
    /// PTX text of the instruction.
    pub instruction: Arc<str>,
    /// Index of the SM.
    pub sm: u32,
    /// Core cycle at which the run stopped.
    pub cycle: Cycle,
}

impl fmt::Display for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [x, y, z] = self.block;
        let [tx, ty, tz] = self.thread;
        write!(
            f,
            "kernel {}, block ({x}, {y}, {z}), thread ({tx}, {ty}, {tz}), warp {}, lane {}, pc {} ({}:{}: `{}`), SM {}, \
             cycle {}",
            self.kernel,
            self.warp,
            self.lane,
            self.pc,
            self.file,
            self.line,
            self.instruction,
            self.sm,
            self.cycle
        )
    }
}

/// The kind of event that stopped the run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum FaultKind {
    /// Undefined behaviour of the program: a bad address, `⊥`, a trap.
    Fault,
    /// A monitor detected that the simulator violated a rule.
    CheckViolation,
    /// No thread can ever continue.
    Deadlock,
    /// Threads run for ever in loops without a change of state.
    Livelock,
}

/// A fault that stopped a run at an instruction.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Fault {
    /// The kind of fault.
    pub kind: FaultKind,
    /// The id of the violated rule.
    pub rule: String,
    /// The reason, as text for the user.
    pub message: String,
    /// The thread, instruction and source line.
    pub place: Location,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = match self.kind {
            FaultKind::Fault => "fault",
            FaultKind::CheckViolation => "check violation",
            FaultKind::Deadlock => "deadlock",
            FaultKind::Livelock => "livelock",
        };
        write!(f, "{kind} [{}]: {}\n  at {}", self.rule, self.message, self.place)
    }
}

/// The error of a call to the device or a context.
#[derive(Clone, Debug)]
pub enum SimError {
    /// A fault, a check violation, or a proved deadlock or livelock.
    Stopped(Box<Fault>),
    /// `--max-cycles` was reached.
    MaxCycles {
        /// The limit in core cycles.
        limit: Cycle,
        /// Location of a warp that was still running.
        place: Option<Box<Location>>,
        /// The reason why the run may never end, as text for the user.
        suspicion: Option<String>,
    },
    /// `--max-instructions` was reached.
    MaxInstructions {
        /// The limit in warp instructions.
        limit: u64,
        /// Location of a warp that was still running.
        place: Option<Box<Location>>,
        /// The reason why the run may never end, as text for the user.
        suspicion: Option<String>,
    },
    /// `--max-memory` was reached.
    MaxMemory {
        /// The limit in bytes of host memory.
        limit: u64,
    },
    /// The caller stopped the run.
    Interrupted,
    /// Invalid input; nothing was run.
    Input(Vec<Diagnostic>),
}

impl SimError {
    /// An error for invalid input from the host.
    pub(crate) fn input(code: &'static str, message: impl Into<String>) -> Self {
        Self::Input(vec![Diagnostic::error(code, message)])
    }
}

impl fmt::Display for SimError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Stopped(fault) => write!(f, "{fault}"),
            Self::MaxCycles { limit, place, suspicion } => {
                write!(f, "stopped after {limit} core cycles, including launch latency (--max-cycles)")?;
                still_running(f, place.as_deref(), suspicion.as_deref())
            }
            Self::MaxInstructions { limit, place, suspicion } => {
                write!(f, "stopped after {limit} warp instructions (--max-instructions)")?;
                still_running(f, place.as_deref(), suspicion.as_deref())
            }
            Self::MaxMemory { limit } => {
                let (size, unit) = match limit >> 20 {
                    0 => (limit >> 10, "KiB"),
                    mib => (mib, "MiB"),
                };
                write!(
                    f,
                    "stopped: the simulator uses more than {size} {unit} of the host's memory (--max-memory)"
                )
            }
            Self::Interrupted => write!(f, "interrupted"),
            Self::Input(diagnostics) => {
                for (i, diagnostic) in diagnostics.iter().enumerate() {
                    write!(f, "{}{}", if i > 0 { "\n" } else { "" }, diagnostic.message)?;
                }
                Ok(())
            }
        }
    }
}

/// Describes a warp that was still running at a limit, and why the run may never end.
fn still_running(
    f: &mut fmt::Formatter<'_>,
    place: Option<&Location>,
    suspicion: Option<&str>,
) -> fmt::Result {
    if let Some(suspicion) = suspicion {
        write!(f, "; it may never end: {suspicion}")?;
    }
    place.map_or(Ok(()), |place| write!(f, "\n  at {place}"))
}

impl std::error::Error for SimError {}
