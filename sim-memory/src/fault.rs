//! Faults (`⊥`) in the memory environment.

use crate::port::AccessId;
use crate::programs::OpExp;

/// An operation that the state does not allow: `⊥` of CS §4.3 and §4.4.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("[{rule}] {reason} (line {address:#x})")]
pub struct MemoryFault {
    /// The id of the violated rule, as in `docs/rules.md`.
    pub rule: &'static str,
    /// The access, if known.
    pub access: Option<AccessId>,
    /// The lane, if known.
    pub lane: Option<u32>,
    /// The address of the line or of the access.
    pub address: u64,
    /// The reason, as text for the user.
    pub reason: String,
}

impl MemoryFault {
    /// A fault of `rule` at `address`.
    pub fn new(rule: &'static str, address: u64, reason: impl Into<String>) -> Self {
        Self { rule, access: None, lane: None, address, reason: reason.into() }
    }

    /// The fault of a memory program whose operation the state of the line does not allow (the side
    /// conditions of `OpExp` in CS §4.4).
    pub fn stuck(op: OpExp, line: u64) -> Self {
        let name = OpExp::ALL.iter().find(|(_, o)| *o == op).map_or("?", |(name, _)| *name);
        Self::new("prog-opexp", line, format!("the state does not fit the operation `{name}`"))
    }
}
