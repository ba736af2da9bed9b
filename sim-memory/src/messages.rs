//! The messages between an SM and a partition.

use crate::line::{ByteMask, LineData};
use crate::observation::{LineStores, Transaction};
use crate::priority::Priority;
use crate::programs::ProgramId;
use crate::vocabulary::{AtomicOp, LaneMask, ScalarType, WARP_LANES};

/// The lanes of an atomic on one line: `Σatomic` of CS §4.4.1, for several addresses at once.
#[derive(Clone, Debug, borsh::BorshSerialize, borsh::BorshDeserialize)]
pub struct AtomicLanes {
    /// The read-modify-write operation.
    pub op: AtomicOp,
    /// The type of the operands.
    pub ty: ScalarType,
    /// Lanes that take part.
    pub lanes: LaneMask,
    /// Offset in bytes, within the line, of each lane's operand in memory.
    pub offsets: [u8; WARP_LANES],
    /// Operands b and c of each lane.
    pub operands: [[u64; 2]; WARP_LANES],
    /// The old value that each lane read.
    pub old: [u64; WARP_LANES],
    /// Where values have 128 bits: operands c, whose place the upper halves of b have, and upper halves of old values.
    pub wide: Option<Box<WideLanes>>,
    /// The lanes were combined into one operation, which takes the time of one.
    pub combined: bool,
    /// The old values go back.
    pub returns: bool,
}

impl AtomicLanes {
    /// Bytes of old values that go back.
    pub fn returned_bytes(&self) -> u32 {
        match (self.returns, self.combined) {
            (false, _) => 0,
            (true, true) => self.ty.bytes(),
            (true, false) => self.lanes.count_ones() * self.ty.bytes(),
        }
    }
}

/// What an atomic of 128 bits has besides the lower halves.
#[derive(Clone, Debug, borsh::BorshSerialize, borsh::BorshDeserialize)]
pub struct WideLanes {
    /// Operand c of each lane.
    pub c: [u128; WARP_LANES],
    /// The upper half of the old value that each lane read.
    pub old: [u64; WARP_LANES],
}

/// A request from an SM to a partition.
#[derive(Clone, Debug, borsh::BorshSerialize, borsh::BorshDeserialize)]
pub struct Request {
    /// The instance that waits for the reply; `None` for the write-back of an L1 line.
    pub slot: Option<u32>,
    /// The line's address within its partition.
    pub local: u64,
    /// The memory program of the access.
    pub program: ProgramId,
    /// The instruction of the program at which the partition continues.
    pub pc: u16,
    /// First address of the line.
    pub line: u64,
    /// Bytes requested or written.
    pub asked: ByteMask,
    /// `asked`, rounded up to the granularity of fetches.
    pub mask: ByteMask,
    /// True for a load: the reply carries the bytes.
    pub is_load: bool,
    /// The eviction priority that it gives the line in L2.
    pub priority: Priority,
    /// Data to write, for stores.
    pub data: LineData,
    /// Lanes and operands, for atomics.
    pub atomic: Option<Box<AtomicLanes>>,
    /// The number of the transaction, while memory is observed.
    pub transaction: Transaction,
    /// The stores of the bytes of a write-back, while memory is observed.
    pub stores: Option<Box<LineStores>>,
}

/// A reply from a partition: at its arrival the SM continues the program at `pc`.
#[derive(Clone, Debug, borsh::BorshSerialize, borsh::BorshDeserialize)]
pub struct Reply {
    /// The instance that waits for it.
    pub slot: u32,
    /// The instruction of the program at which the SM continues.
    pub pc: u16,
    /// The bytes of the line that were read.
    pub data: LineData,
    /// Old values, for atomics.
    pub atomic: Option<Box<AtomicLanes>>,
    /// True if bytes were fetched from DRAM for this request.
    pub fetched: bool,
    /// The stores of the bytes of `data`, while memory is observed.
    pub stores: Option<Box<LineStores>>,
}
