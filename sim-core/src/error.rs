//! What can go wrong while a program runs. `⊥` of the papers is [`Violation`]: a typed error that
//! names its rule; the SM adds who was running and makes a [`Fault`] of it.

use std::fmt;
use std::sync::Arc;

use serde::Serialize;
use sim_frontend::diagnostic::Diagnostic;
use sim_frontend::program::Pc;
use sim_memory::vocabulary::{Cycle, LaneMask};

/// The papers' `⊥`: a rule whose side condition does not hold. One pointer, so that results of
/// steps stay in registers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation(Box<ViolationFacts>);

/// What a [`Violation`] says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ViolationFacts {
    /// The id of the rule, as in `docs/rules.md` (`crs-ssy`, `bar-prep` …).
    pub rule: &'static str,
    /// The lanes concerned; empty where the whole warp is.
    pub lanes: LaneMask,
    /// The reason in words.
    pub reason: String,
}

impl Violation {
    /// A violation of `rule` by `lanes`.
    pub fn new(rule: &'static str, lanes: LaneMask, reason: impl Into<String>) -> Self {
        Self(Box::new(ViolationFacts { rule, lanes, reason: reason.into() }))
    }

    /// What kind of stop it is: a rule of safety that the simulator itself broke, or the program's
    /// fault.
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

/// Who was running what when a run stopped.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Location {
    /// The kernel's entry.
    pub kernel: Arc<str>,
    /// Block index in the grid.
    pub block: [u32; 3],
    /// Thread in the block, of the first lane concerned.
    pub thread: [u32; 3],
    /// Warp in the block.
    pub warp: u32,
    /// First lane concerned.
    pub lane: u32,
    /// Program address of the instruction.
    pub pc: Pc,
    /// The PTX file.
    pub file: Arc<str>,
    /// Line in the PTX file, from 1.
    pub line: u32,
    /// Text of the instruction.
    pub instruction: Arc<str>,
    /// Number of the SM.
    pub sm: u32,
    /// Core cycle of the fault.
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

/// What kind of event stopped the run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum FaultKind {
    /// The program did something undefined: a bad address, `⊥`, a trap.
    Fault,
    /// A monitor found that the simulator broke a rule.
    CheckViolation,
    /// Nothing can ever run again.
    Deadlock,
    /// What runs goes round for ever.
    Livelock,
}

/// A run that stopped at an instruction.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Fault {
    /// Fault of the program, deadlock, or violated check.
    pub kind: FaultKind,
    /// The rule broken.
    pub rule: String,
    /// The reason in words.
    pub message: String,
    /// Thread, instruction and source line.
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

/// Why a call of the facade failed.
#[derive(Clone, Debug)]
pub enum SimError {
    /// A simulated fault, a check violation or a proved deadlock.
    Stopped(Box<Fault>),
    /// `--max-cycles` was reached; the place is one warp that still ran.
    MaxCycles {
        /// The limit in core cycles.
        limit: Cycle,
        /// A warp that still ran.
        place: Option<Box<Location>>,
        /// Why it may never end, in words.
        suspicion: Option<String>,
    },
    /// `--max-instructions` was reached; the place is one warp that still ran.
    MaxInstructions {
        /// The limit in warp instructions.
        limit: u64,
        /// A warp that still ran.
        place: Option<Box<Location>>,
        /// Why it may never end, in words.
        suspicion: Option<String>,
    },
    /// `--max-memory` was reached.
    MaxMemory {
        /// The limit in bytes of the host.
        limit: u64,
    },
    /// The caller asked to stop.
    Interrupted,
    /// Bad input: nothing ran.
    Input(Vec<Diagnostic>),
}

impl SimError {
    /// Bad input of the host.
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

/// Who still ran when a limit was reached, and why it may never end.
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
