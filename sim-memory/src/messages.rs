//! What an SM and a partition send to each other.

use crate::line::{ByteMask, LineData};
use crate::programs::ProgramId;
use crate::vocabulary::{AtomicOp, LaneMask, ScalarType, WARP_LANES};

/// The lanes of an atomic on one line: `Σatomic` of CS §4.4.1, for several addresses at once.
#[derive(Clone, Debug)]
pub struct AtomicLanes {
    /// The operation.
    pub op: AtomicOp,
    /// The type.
    pub ty: ScalarType,
    /// Lanes that take part.
    pub lanes: LaneMask,
    /// Byte of the line each lane works on.
    pub offsets: [u8; WARP_LANES],
    /// Operands b and c of each lane.
    pub operands: [[u64; 2]; WARP_LANES],
    /// What each lane found.
    pub old: [u64; WARP_LANES],
}

/// What an SM sends to a partition.
#[derive(Clone, Debug)]
pub struct Request {
    /// The instance that waits for a reply; `None` for the write-back of an L1 line.
    pub slot: Option<u32>,
    /// The line's address in its partition.
    pub local: u64,
    /// Its program.
    pub program: ProgramId,
    /// Where the program goes on.
    pub pc: u16,
    /// First address of the line.
    pub line: u64,
    /// Bytes asked for or written.
    pub asked: ByteMask,
    /// The same, rounded to what is fetched.
    pub mask: ByteMask,
    /// A load: the reply carries the bytes.
    pub is_load: bool,
    /// Data of stores.
    pub data: LineData,
    /// Lanes of atomics.
    pub atomic: Option<Box<AtomicLanes>>,
}

/// What comes back from a partition: the program goes on at `pc` when it arrives.
#[derive(Clone, Debug)]
pub struct Reply {
    /// The instance it answers.
    pub slot: u32,
    /// Where its program goes on.
    pub pc: u16,
    /// The line as read.
    pub data: LineData,
    /// Old values of atomics.
    pub atomic: Option<Box<AtomicLanes>>,
    /// Its bytes were fetched from DRAM for it.
    pub fetched: bool,
}
