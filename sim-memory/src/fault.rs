//! `⊥` in the memory environment.

use crate::port::AccessId;
use crate::programs::OpExp;

/// An operation that the state does not allow (CS §4.3, §4.4: `⊥`).
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("[{rule}] {reason} (line {address:#x})")]
pub struct MemoryFault {
    /// The id of the rule.
    pub rule: &'static str,
    /// The access, where one is known.
    pub access: Option<AccessId>,
    /// The lane, where one is known.
    pub lane: Option<u32>,
    /// The line or address.
    pub address: u64,
    /// The reason in words.
    pub reason: String,
}

impl MemoryFault {
    /// A fault of `rule` at `address`.
    pub fn new(rule: &'static str, address: u64, reason: impl Into<String>) -> Self {
        Self { rule, access: None, lane: None, address, reason: reason.into() }
    }

    /// A memory program's operation that the state of the line does not allow (the side conditions of
    /// CS §4.4's `OpExp`).
    pub fn stuck(op: OpExp, line: u64) -> Self {
        let name = OpExp::ALL.iter().find(|(_, o)| *o == op).map_or("?", |(name, _)| *name);
        Self::new("prog-opexp", line, format!("the state does not fit the operation `{name}`"))
    }
}
