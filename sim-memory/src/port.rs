//! The register side of memory programs: what `writeToRegs` and `releaseRegs` act on lives with
//! the warps, so the device implements it.

use crate::line::LineData;
use crate::vocabulary::{Cycle, LaneMask, WARP_LANES};

/// Names one warp-level access; the device chooses it and keeps addresses and registers by it.
pub type AccessId = u32;

/// What memory programs do to registers.
pub trait RegisterPort {
    /// `writeToRegs`: these lanes get their bytes out of this line. The port undoes coalescing
    /// (the decomposition function of CS §4.4.1): it knows each lane's address.
    fn write_to_regs(&mut self, access: AccessId, lanes: LaneMask, line: u64, data: &LineData, now: Cycle);

    /// `writeToRegs` of an atomic: the old value of each lane.
    fn write_atomic_results(
        &mut self,
        access: AccessId,
        lanes: LaneMask,
        old: &[u64; WARP_LANES],
        now: Cycle,
    );

    /// `releaseRegs`: registers of these lanes are free; the access is performed for the block.
    fn release_regs(&mut self, access: AccessId, lanes: LaneMask, now: Cycle);

    /// The access of these lanes is performed for the device: a load has returned, a store or
    /// atomic is acknowledged. Once for each lane of each access.
    fn performed(&mut self, access: AccessId, lanes: LaneMask, now: Cycle);
}
