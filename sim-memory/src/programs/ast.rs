//! The language of memory programs: expressions and statements.

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

/// Operational expressions: the 23 of the thesis and two extensions, `writeThroughL1` (write if cached; the
/// line stays clean) and `flushL1` [prog-opexp].
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

/// Line and column of a position in a text, both from 1.
pub type LineColumn = (u32, u32);

/// Program statements [prog-stm].
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names are the thesis's")]
pub enum Stm {
    Nop,
    Yield,
    End,
    Op(OpExp, LineColumn),
    If(BExp, Vec<Stm>, Vec<Stm>, LineColumn),
}
