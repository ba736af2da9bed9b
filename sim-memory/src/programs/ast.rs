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

/// The component that runs an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Room {
    /// The SM that issued it.
    Sm,
    /// The partition that owns the address.
    Partition,
}

macro_rules! operations {
    ($($variant:ident $name:literal $room:ident;)+) => {
        /// Operational expressions: the 23 of the thesis and three extensions, `writeThroughL1` (write if cached;
        /// the line stays clean), `writeAllocateL1` (the same, and a line is taken where none is cached) and
        /// `flushL1` [prog-opexp].
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[allow(missing_docs, reason = "the names are the thesis's")]
        pub enum OpExp {
            $($variant),+
        }

        impl OpExp {
            /// All operations with their names.
            pub const ALL: &[(&'static str, OpExp)] = &[$(($name, OpExp::$variant)),+];

            /// Where it runs in a program of global or local memory; those of shared and constant memory run
            /// in the SM.
            pub const fn room(self) -> Room {
                match self {
                    $(Self::$variant => Room::$room),+
                }
            }
        }
    };
}

operations! {
    ReadMem "readMem" Partition;
    WriteMem "writeMem" Partition;
    AtomOp "atomOp" Partition;
    ReleaseRegs "releaseRegs" Sm;
    WriteToRegs "writeToRegs" Sm;
    Lock "lock" Sm;
    Unlock "unlock" Sm;
    ReadL1 "readL1" Sm;
    ReadL2 "readL2" Partition;
    WriteL1 "writeL1" Sm;
    WriteL2 "writeL2" Partition;
    ReserveL1 "reserveL1" Sm;
    ReserveL2 "reserveL2" Partition;
    UpdateL1 "updateL1" Sm;
    UpdateL2 "updateL2" Partition;
    EvictL1 "evictL1" Sm;
    EvictL2 "evictL2" Partition;
    DiscardL1 "discardL1" Sm;
    DiscardL2 "discardL2" Partition;
    ClassifyFirstL1 "classifyFirstL1" Sm;
    ClassifyFirstL2 "classifyFirstL2" Partition;
    ClassifyNormalL1 "classifyNormalL1" Sm;
    ClassifyNormalL2 "classifyNormalL2" Partition;
    WriteThroughL1 "writeThroughL1" Sm;
    WriteAllocateL1 "writeAllocateL1" Sm;
    FlushL1 "flushL1" Sm;
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
