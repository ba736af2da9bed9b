//! What blocks of a cluster send each other: accesses to each other's shared memory, and arrivals at the barrier of the
//! cluster. In timed runs packets travel between SMs; in the functional mode they act at once.

use std::sync::Arc;

use sim_frontend::form::{MbarrierOptions, MbarrierStep};
use sim_frontend::program::Pc;
use sim_memory::port::AccessId;
use sim_memory::vocabulary::{LaneMask, WARP_LANES};

use crate::code::Code;
use crate::error::{Fault, Location, Violation};
use crate::grid::Kernel;
use crate::reconvergence::Lanes;
use crate::registers::first_lane;

/// A packet to a block.
#[derive(Clone, Debug, borsh::BorshSerialize, borsh::BorshDeserialize)]
pub struct Packet {
    /// Grid of the block.
    pub grid_id: u32,
    /// Number of the block in its grid.
    pub number: u64,
    /// Its SM.
    pub sm: u32,
    /// What it is to do.
    pub what: What,
}

/// What a packet asks for.
#[derive(Clone, Debug, borsh::BorshSerialize, borsh::BorshDeserialize)]
pub enum What {
    /// All threads of the block of a rank that live have arrived in a phase of the barrier of the cluster; without a
    /// phase: all its threads have ended.
    Arrived {
        /// The rank of the block that sends it.
        rank: u32,
        /// The parity of the phase.
        odd: Option<bool>,
    },
    /// An access to shared memory.
    Access(Box<RemoteAccess>),
    /// The answer to one, at the SM that sent it.
    Answer(Box<RemoteAccess>),
}

/// What a remote access does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, borsh::BorshSerialize, borsh::BorshDeserialize)]
pub enum Does {
    /// Load, store or atomic operation; the instruction says which. It is answered.
    Access,
    /// `st.async`, `red.async`: it completes its bytes at mbarrier objects.
    Async,
    /// An operation on mbarrier objects.
    Count(MbarrierStep, MbarrierOptions),
}

/// An access of lanes of a warp to shared memory of another block.
#[derive(Clone, Debug, borsh::BorshSerialize, borsh::BorshDeserialize)]
pub struct RemoteAccess {
    /// Where it comes from.
    pub origin: Origin,
    /// What it does.
    pub does: Does,
    /// The access in flight that is answered.
    pub access: AccessId,
    /// Its number among what the SM has sent, where sanitizers follow it.
    pub ticket: Option<u32>,
    /// Lanes that take part.
    pub lanes: LaneMask,
    /// Offset of each lane in the shared memory of the block.
    pub addresses: [u32; WARP_LANES],
    /// Bytes that a lane accesses.
    pub bytes: u32,
    /// Bytes to be stored, or that were loaded.
    pub data: [[u8; 16]; WARP_LANES],
    /// Operands b and c of atomic operations; the operand of operations on mbarrier objects, or the object's offset.
    pub operands: [[u64; 2]; WARP_LANES],
}

/// The instruction that a packet comes from.
#[derive(Clone, Debug, borsh::BorshSerialize, borsh::BorshDeserialize)]
pub struct Origin {
    /// Its program.
    #[borsh(serialize_with = "crate::state::write_code", deserialize_with = "crate::state::read_code")]
    pub code: Arc<Code>,
    /// Name of the kernel.
    name: Arc<str>,
    /// Threads of a block by axis.
    block: [u32; 3],
    warp_size: u32,
    /// Index of the block in the grid.
    index: [u32; 3],
    /// Warp in the block.
    warp: u32,
    /// Warp slot of its SM.
    pub slot: usize,
    /// Address of the instruction.
    pub pc: Pc,
    /// Number of the SM.
    pub sm: u32,
}

impl Origin {
    /// An instruction of the warp in `slot` of an SM, number `warp` of the block at `index`.
    pub fn new(kernel: &Kernel, index: [u32; 3], (slot, warp): (usize, u32), pc: Pc, sm: u32) -> Self {
        Self {
            code: Arc::clone(&kernel.code),
            name: Arc::clone(&kernel.name),
            block: kernel.block,
            warp_size: kernel.warp_size,
            index,
            warp,
            slot,
            pc,
            sm,
        }
    }

    /// What is wrong with an access where it arrives, at its instruction: `sm` is the SM where that is found.
    #[cold]
    pub fn fault(&self, violation: &Violation, sm: u32, cycle: u64) -> Box<Fault> {
        let [x, y, _] = self.block.map(|n| n.max(1));
        let thread = self.warp * self.warp_size + first_lane(violation.lanes) as u32;
        Box::new(Fault {
            kind: violation.kind(),
            rule: violation.rule.to_string(),
            message: violation.reason.clone(),
            place: Location {
                kernel: Arc::clone(&self.name),
                block: self.index,
                thread: [thread % x, thread / x % y, thread / x / y],
                warp: self.warp,
                lane: first_lane(violation.lanes) as u32,
                pc: self.pc,
                file: Arc::clone(&self.code.program.source.name),
                line: self.code.program.info.get(self.pc as usize).map_or(0, |info| info.line),
                instruction: self.code.program.text(self.pc).into(),
                sm,
                cycle,
            },
        })
    }
}

impl Packet {
    /// Bytes of data that it carries; one that carries none counts as one byte.
    pub fn bytes(&self) -> u64 {
        let carried = |access: &RemoteAccess, to_memory: bool| {
            let lanes = u64::from(access.lanes.count_ones());
            let op = &access.origin.code.program.ops[access.origin.pc as usize];
            let facts = op.extra.access();
            let each = match (access.does, facts.and_then(|facts| facts.atomic)) {
                (Does::Count(..), _) => 0,
                (Does::Async, _) => access.bytes,
                // An answer brings what a load or atomic operation returns, a request what it needs.
                (Does::Access, None) if op.dst[0].is_some() != to_memory => access.bytes,
                (Does::Access, Some(_)) if to_memory || op.dst[0].is_some() => access.bytes,
                _ => 0,
            };
            lanes * u64::from(each)
        };
        let bytes = match &self.what {
            What::Arrived { .. } => 0,
            What::Access(access) => carried(access, true),
            What::Answer(access) => carried(access, false),
        };
        bytes.max(1)
    }
}

impl RemoteAccess {
    /// The lanes' offsets, inactive ones at the first active one's.
    pub fn places(&self) -> [u64; WARP_LANES] {
        let first = self.addresses[first_lane(self.lanes)];
        let mut places = [u64::from(first); WARP_LANES];
        Lanes(self.lanes).for_each(|lane| places[lane as usize] = self.addresses[lane as usize].into());
        places
    }
}
