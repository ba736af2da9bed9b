//! Bulk copies (PTX ISA "cp.async.bulk") as the unit makes them: pieces of up to 16 bytes that lie together on both
//! sides, one after another.

use sim_memory::vocabulary::{AtomicOp, LaneMask, ScalarType};

use crate::packet::Origin;

/// Bytes of a piece at most.
pub const PIECE: u32 = 16;

/// A bulk copy that was issued.
#[derive(Clone, Debug, borsh::BorshSerialize, borsh::BorshDeserialize)]
pub struct Job {
    /// The instruction and its thread.
    pub origin: Origin,
    /// Grid of the block.
    pub grid_id: u32,
    /// The lane of the thread.
    pub lane: u32,
    /// What it does.
    pub way: Way,
    /// Offset of the mbarrier object in the shared memory of the blocks that get the bytes.
    pub object: u32,
    /// The last bit of the ranks of blocks that count for both of a pair (`.cta_group::2`); else each counts its own bytes.
    pub parity: Option<u8>,
    /// Bytes of each piece.
    pub bytes: u32,
    /// What is still to be copied, the last piece first.
    pub pieces: Vec<Piece>,
    /// Where a load of a tensor goes beyond it: offsets in shared memory, and what lies there.
    pub beyond: Vec<u32>,
    /// The bytes of such a piece.
    pub fill: [u8; PIECE as usize],
    /// The reduction in global memory.
    pub atomic: Option<(AtomicOp, ScalarType)>,
    /// The box of a tensor whose map has not arrived: until then it has no pieces.
    pub awaits: Option<Box<Awaited>>,
}

/// A tensor map in global memory for which a copy waits, and what the copy takes of the tensor.
#[derive(Clone, Debug, borsh::BorshSerialize, borsh::BorshDeserialize)]
pub struct Awaited {
    /// The address of the map.
    pub map: u64,
    /// The number of the access that reads it, once there is one.
    pub asked: Option<u64>,
    /// What sanitizers know the copy by.
    pub ticket: Option<u32>,
    /// What it takes.
    pub taken: Taken,
}

/// What the instruction says of a copy of a tensor.
#[derive(Clone, Debug, borsh::BorshSerialize, borsh::BorshDeserialize)]
pub struct Taken {
    /// Coordinates, the innermost first.
    pub coordinates: Vec<i32>,
    /// Offsets of im2col mode; in its modes along W the pixels of the halo and the offset.
    pub offsets: Vec<u16>,
    /// Where the box lies in shared memory.
    pub place: u64,
    /// The blocks of a load, by rank.
    pub ranks: u32,
    /// As that of the job.
    pub parity: Option<u8>,
}

/// What a bulk copy does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, borsh::BorshSerialize, borsh::BorshDeserialize)]
pub enum Way {
    /// From global memory to the shared memory of blocks of these ranks.
    Load(u32),
    /// From shared to global memory, or a reduction there: its number among those of the warp.
    Store(u64),
    /// From shared memory to that of the block of this rank.
    Between(u32),
    /// Into L2.
    Prefetch,
    /// No copy: the block scheduler is asked to cancel a launch, and answers blocks of these ranks.
    Cancel(u32),
}

/// Bytes that are copied at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, borsh::BorshSerialize, borsh::BorshDeserialize)]
pub struct Piece {
    /// Address in global memory; of a copy between blocks, the offset that it goes to.
    pub far: u64,
    /// Offset in shared memory: of a load where it goes, else where it comes from.
    pub near: u32,
}

impl Job {
    /// Takes the next pieces that one access makes: up to 32, in global memory of one line.
    pub fn take(&mut self, line_of: impl Fn(u64) -> u64) -> Vec<Piece> {
        let mut taken: Vec<Piece> = Vec::new();
        while let Some(&piece) = self.pieces.last() {
            let apart = taken.first().is_some_and(|first| {
                !matches!(self.way, Way::Between(_)) && line_of(first.far) != line_of(piece.far)
            });
            if apart || taken.len() == LaneMask::BITS as usize {
                break;
            }
            taken.push(piece);
            self.pieces.pop();
        }
        taken
    }

    /// Takes the next pieces beyond the tensor.
    pub fn take_beyond(&mut self) -> Vec<u32> {
        self.beyond.split_off(self.beyond.len().saturating_sub(LaneMask::BITS as usize))
    }

    /// All of it is made.
    pub fn is_over(&self) -> bool {
        self.pieces.is_empty() && self.beyond.is_empty() && self.awaits.is_none()
    }
}
