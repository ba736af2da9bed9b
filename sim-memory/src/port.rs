//! The register side of memory programs. The registers that `writeToRegs` and `releaseRegs` act on belong to
//! the warps, so the device implements this trait.

use crate::line::LineData;
use crate::vocabulary::{Cycle, LaneMask, WARP_LANES};

/// The id of a warp-level access. The device assigns it, and finds the access's addresses and registers by
/// it.
pub type AccessId = u32;

/// The effects of memory programs on registers.
pub trait RegisterPort {
    /// `writeToRegs`: writes the bytes of `line` that `lanes` have requested to their registers. The port
    /// inverts coalescing (the decomposition function of CS §4.4.1), since it knows each lane's address.
    fn write_to_regs(&mut self, access: AccessId, lanes: LaneMask, line: u64, data: &LineData, now: Cycle);

    /// `writeToRegs` of an atomic: writes each lane's old value to its register.
    fn write_atomic_results(
        &mut self,
        access: AccessId,
        lanes: LaneMask,
        old: &[u64; WARP_LANES],
        now: Cycle,
    );

    /// The same of an atomic of 128 bits: the lower and the upper halves.
    fn write_wide_results(
        &mut self,
        access: AccessId,
        lanes: LaneMask,
        halves: [&[u64; WARP_LANES]; 2],
        now: Cycle,
    );

    /// `releaseRegs`: releases the registers of `lanes`; the access is performed at block level.
    fn release_regs(&mut self, access: AccessId, lanes: LaneMask, now: Cycle);

    /// The access of `lanes` is performed at device level: a load has returned, or a store or atomic is
    /// acknowledged. Called once for each lane of each access.
    fn performed(&mut self, access: AccessId, lanes: LaneMask, now: Cycle);
}
