//! The program of a litmus test.

use std::collections::BTreeMap;

use sim_frontend::diagnostic::{Source, Span};

use super::condition::{Condition, Quantifier};

/// A litmus test.
#[derive(Clone, Debug)]
pub struct Test {
    /// Its text.
    pub source: Source,
    /// Its name.
    pub name: String,
    /// Lines `KEY=VALUE` in front of the program, such as `Verdict=forbidden`.
    pub facts: BTreeMap<String, String>,
    /// Strings in front of the program.
    pub about: Vec<String>,
    /// Memory locations, and the addresses by which they are accessed.
    pub locations: Vec<Location>,
    /// Its threads.
    pub threads: Vec<Thread>,
    /// Only executions that satisfy it are looked at.
    pub filter: Option<Condition>,
    /// The quantifier of the question.
    pub quantifier: Quantifier,
    /// The condition on final states that is asked about.
    pub condition: Condition,
}

/// A virtual address by which memory is accessed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Location {
    /// Its name.
    pub name: String,
    /// The location it stands for: its own index, or that of the location it is an alias of.
    pub physical: usize,
    /// The address that the generic proxy sees: an alias through another proxy has that of its location.
    pub generic: usize,
    /// The value at the start; that of the physical location counts.
    pub init: i64,
}

/// The place of a thread in the scope tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Place {
    /// GPU.
    pub gpu: u32,
    /// Cluster within the GPU; CTAs without one have a cluster of their own.
    pub cluster: Option<u32>,
    /// CTA within the GPU.
    pub cta: u32,
}

impl Place {
    /// Both are in one CTA.
    pub fn same_cta(self, other: Self) -> bool {
        self.gpu == other.gpu && self.cta == other.cta
    }

    /// The scope of a thread here includes a thread there.
    pub fn includes(self, scope: Scope, other: Self) -> bool {
        match scope {
            Scope::Cta => self.same_cta(other),
            Scope::Cluster => {
                self.same_cta(other)
                    || self.gpu == other.gpu && self.cluster.is_some() && self.cluster == other.cluster
            }
            Scope::Gpu => self.gpu == other.gpu,
            Scope::Sys => true,
        }
    }
}

/// A thread.
#[derive(Clone, Debug)]
pub struct Thread {
    /// Its name, such as `P0`.
    pub name: String,
    /// Where it is in the scope tree.
    pub place: Place,
    /// Names of its registers.
    pub registers: Vec<String>,
    /// What they hold at the start.
    pub init: Vec<i64>,
    /// Its instructions; targets of branches are indices, the number of instructions is the end.
    pub code: Vec<Instruction>,
}

/// Levels of the scope tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[allow(missing_docs, reason = "the names are the PTX scopes")]
pub enum Scope {
    Cta,
    Cluster,
    Gpu,
    Sys,
}

impl Scope {
    /// As PTX spells it.
    pub fn name(self) -> &'static str {
        match self {
            Scope::Cta => "cta",
            Scope::Cluster => "cluster",
            Scope::Gpu => "gpu",
            Scope::Sys => "sys",
        }
    }
}

/// The semantics of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[allow(missing_docs, reason = "the names are the PTX qualifiers")]
pub enum Order {
    Weak,
    Relaxed,
    Acquire,
    Release,
    AcqRel,
    Sc,
}

impl Order {
    /// As PTX spells it.
    pub fn name(self) -> &'static str {
        match self {
            Order::Weak => "weak",
            Order::Relaxed => "relaxed",
            Order::Acquire => "acquire",
            Order::Release => "release",
            Order::AcqRel => "acq_rel",
            Order::Sc => "sc",
        }
    }
}

/// The proxy by which memory is accessed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[allow(missing_docs, reason = "the names are the PTX proxies")]
pub enum Proxy {
    Generic,
    Surface,
    Texture,
    Constant,
}

/// A value in an instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operand {
    /// A number, or the address of a location.
    Constant(i64),
    /// A register by its index.
    Register(usize),
}

/// What an access goes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Address {
    /// A location by its index.
    Location(usize),
    /// The location whose address a register holds, plus bytes.
    Register(usize),
}

/// An operation on values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names say it")]
pub enum ValueOp {
    Add,
    Sub,
    Mul,
    Div,
    And,
    Or,
    Xor,
    Min,
    Max,
    Exch,
    /// Counts up to the operand, then begins at 0.
    Inc,
    /// Counts down to 0, then begins at the operand.
    Dec,
    /// A comparison: 1 or 0.
    Compare(Comparison),
}

impl ValueOp {
    /// Its result on 32-bit words, signed but for `inc` and `dec`, or on an address; division by zero gives none.
    pub fn apply(self, a: i64, b: i64) -> Option<i64> {
        let result = match self {
            ValueOp::Add => a.wrapping_add(b),
            ValueOp::Sub => a.wrapping_sub(b),
            ValueOp::Mul => a.wrapping_mul(b),
            ValueOp::Div => a.checked_div(b)?,
            ValueOp::And => a & b,
            ValueOp::Or => a | b,
            ValueOp::Xor => a ^ b,
            ValueOp::Min => a.min(b),
            ValueOp::Max => a.max(b),
            ValueOp::Exch => b,
            ValueOp::Inc if a as u32 >= b as u32 => 0,
            ValueOp::Inc => a.wrapping_add(1),
            ValueOp::Dec if a as u32 == 0 || a as u32 > b as u32 => b,
            ValueOp::Dec => a.wrapping_sub(1),
            ValueOp::Compare(comparison) => comparison.holds(a, b).into(),
        };
        Some(if is_word(a) && is_word(b) { word(result) } else { result })
    }
}

/// A number as a signed 32-bit word.
pub fn word(value: i64) -> i64 {
    i64::from(value as i32)
}

/// It is a word, and not an address.
fn is_word(value: i64) -> bool {
    word(value) == value
}

/// How two values are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names are the PTX operators")]
pub enum Comparison {
    Eq,
    Ne,
    Lt,
    Le,
    Gt,
    Ge,
}

impl Comparison {
    /// True if it holds between two values.
    pub fn holds(self, a: i64, b: i64) -> bool {
        match self {
            Comparison::Eq => a == b,
            Comparison::Ne => a != b,
            Comparison::Lt => a < b,
            Comparison::Le => a <= b,
            Comparison::Gt => a > b,
            Comparison::Ge => a >= b,
        }
    }
}

/// An instruction with its place.
#[derive(Clone, Debug)]
pub struct Instruction {
    /// What it does.
    pub kind: Kind,
    /// Position in the source.
    pub span: Span,
    /// Its line, from 1.
    pub line: u32,
}

/// Facts of a memory operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Access {
    /// The address it accesses.
    pub address: Address,
    /// Its semantics.
    pub order: Order,
    /// Its scope; weak operations have none.
    pub scope: Option<Scope>,
    /// The proxy it goes through.
    pub proxy: Proxy,
}

/// What an instruction does.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "fields are the operands of the instruction")]
pub enum Kind {
    /// `ld`.
    Load { register: usize, access: Access },
    /// `st`.
    Store { access: Access, value: Operand },
    /// `atom`, or `red` without a register.
    Atomic { register: Option<usize>, access: Access, op: AtomicOp },
    /// `fence`.
    Fence { order: Order, scope: Scope },
    /// `fence.proxy.surface`, `.texture`, `.constant`, `.generic`.
    ProxyFence(Proxy),
    /// `fence.proxy.alias`.
    AliasFence,
    /// A barrier of the CTA.
    Barrier { arrive: bool, id: Operand, quorum: Option<Operand> },
    /// `register = a op b`.
    Compute { register: usize, op: ValueOp, a: Operand, b: Operand },
    /// Goes to the target if the comparison holds.
    Branch { comparison: Comparison, a: Operand, b: Operand, target: usize },
    /// Goes to the target.
    Goto(usize),
}

/// What an atomic does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AtomicOp {
    /// Writes `old op value`.
    Apply(ValueOp, Operand),
    /// Writes the second value if the old one is the first.
    Cas(Operand, Operand),
}

/// The address of a location as a value: above all numbers that tests count with.
pub fn address_of(location: usize) -> i64 {
    (1 << 40) + 8 * location as i64
}

/// The location at an address.
pub fn location_at(address: i64, locations: usize) -> Option<usize> {
    let offset = address.checked_sub(1 << 40)?;
    let index = usize::try_from(offset / 8).ok()?;
    (offset % 8 == 0 && index < locations).then_some(index)
}
