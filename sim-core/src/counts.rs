//! Instruction counters of a kernel, for timed and functional runs.

use serde::Serialize;

use crate::code::DecodedOp;

/// Instruction counters of one kernel on one SM.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, borsh::BorshSerialize, borsh::BorshDeserialize,
)]
pub struct KernelCounts {
    /// Source instructions issued, counted once per split.
    pub warp_instructions: u64,
    /// Lanes that executed them (guard true or absent), summed over issues.
    pub thread_instructions: u64,
    /// Instructions of transformation 6 issued, and repeated issues of an indirect branch.
    pub control_instructions: u64,
    /// Machine operations that the source instructions stand for.
    pub machine_instructions: u64,
    /// Active lanes summed over issues of source instructions.
    pub active_lanes: u64,
    /// Blocks whose launches its threads cancelled.
    pub cancelled_blocks: u64,
}

impl KernelCounts {
    /// All issues, each counted once.
    #[inline(always)]
    pub fn issues(&self) -> u64 {
        self.warp_instructions + self.control_instructions
    }

    /// Counts an issue of `decoded` by this many executing and active lanes.
    #[inline(always)]
    pub fn count(&mut self, decoded: &DecodedOp, [executing, active]: [u32; 2]) {
        if decoded.bookkeeping() {
            self.control_instructions += 1;
        } else {
            self.warp_instructions += 1;
            self.thread_instructions += u64::from(executing);
            self.active_lanes += u64::from(active);
            self.machine_instructions += u64::from(decoded.machine_operations);
        }
    }
}

/// Executing and active lanes of an issue of a control instruction, in terms of its source instruction: if
/// the guard is inverted, the lanes that do not execute it count; a repeated indirect branch has been counted
/// before.
#[cold]
pub fn source_lanes(decoded: &DecodedOp, again: bool, [executing, active]: [u32; 2]) -> [u32; 2] {
    match (again, decoded.inverted()) {
        (true, _) => [0, 0],
        (false, true) => [active - executing, active],
        (false, false) => [executing, active],
    }
}

impl KernelCounts {
    /// Counts an issue of `decoded`, which is no data operation. `again` is true for a repeated indirect
    /// branch.
    #[inline]
    pub fn count_other(&mut self, decoded: &DecodedOp, again: bool, lanes: [u32; 2]) {
        self.count(decoded, lanes);
        if decoded.inverted() || again {
            self.correct(decoded, again, lanes);
        }
    }

    /// Corrects the counts that [`count`](Self::count) made of an issue to those of [`source_lanes`].
    #[cold]
    fn correct(&mut self, decoded: &DecodedOp, again: bool, lanes: [u32; 2]) {
        if decoded.bookkeeping() {
            return;
        }
        let [executing, active] = source_lanes(decoded, again, lanes);
        self.thread_instructions = self.thread_instructions - u64::from(lanes[0]) + u64::from(executing);
        self.active_lanes = self.active_lanes - u64::from(lanes[1]) + u64::from(active);
        if again {
            self.warp_instructions -= 1;
            self.control_instructions += 1;
            self.machine_instructions -= u64::from(decoded.machine_operations);
        }
    }

    /// Adds another SM's counts.
    pub fn add(&mut self, other: &Self) {
        self.warp_instructions += other.warp_instructions;
        self.thread_instructions += other.thread_instructions;
        self.control_instructions += other.control_instructions;
        self.machine_instructions += other.machine_instructions;
        self.active_lanes += other.active_lanes;
        self.cancelled_blocks += other.cancelled_blocks;
    }
}
