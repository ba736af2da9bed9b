//! How many blocks an SM holds, by the rules of the CUDA C++ Programming Guide and NVIDIA's occupancy
//! calculator.

use super::{ChipSpec, RegisterAllocation};

/// Resources a block takes of an SM.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockNeeds {
    /// Warps per block.
    pub warps: u32,
    /// 32-bit registers, rounded as the chip allocates them.
    pub registers: u32,
    /// Bytes of shared memory, rounded as the chip allocates them.
    pub shared: u32,
}

impl ChipSpec {
    /// What a block of `threads` takes.
    pub fn block_needs(&self, threads: u32, registers_per_thread: u32, shared: u32) -> BlockNeeds {
        let (limits, sm) = (&self.limits, &self.sm);
        let warps = threads.div_ceil(limits.warp_size);
        let of_a_warp = registers_per_thread.clamp(1, limits.max_reg_size) * limits.warp_size;
        let registers = match sm.register_allocation {
            RegisterAllocation::Warp => of_a_warp.next_multiple_of(sm.register_unit) * warps,
            RegisterAllocation::Block => {
                (of_a_warp * warps.next_multiple_of(2)).next_multiple_of(sm.register_unit)
            }
        };
        let shared = shared.saturating_add(sm.shared_reserved).next_multiple_of(sm.shared_unit);
        BlockNeeds { warps, registers, shared }
    }

    /// Blocks of these needs an SM can hold, and what limits them.
    pub fn occupancy(&self, needs: BlockNeeds) -> (u32, &'static str) {
        let limits = &self.limits;
        let warps = limits.max_resident_threads / limits.warp_size;
        let by = |total: u32, each: u32| total.checked_div(each).unwrap_or(u32::MAX);
        let by_registers = match self.sm.register_allocation {
            // A warp's registers lie in its scheduler's part of the file.
            RegisterAllocation::Warp => {
                let part = limits.reg_file_size / self.sm.schedulers;
                let of_a_warp = by(needs.registers, needs.warps);
                by(by(part, of_a_warp).saturating_mul(self.sm.schedulers), needs.warps)
            }
            RegisterAllocation::Block => by(limits.reg_file_size, needs.registers),
        };
        [
            (limits.max_resident_blocks, "blocks"),
            (by(warps, needs.warps), "warps"),
            (by_registers, "registers"),
            (by(self.shared_memory(), needs.shared), "shared memory"),
        ]
        .into_iter()
        .min_by_key(|(n, _)| *n)
        .unwrap_or((0, "blocks"))
    }

    /// Bytes of shared memory the blocks of an SM can have where L1 and shared memory are one array.
    pub fn shared_memory(&self) -> u32 {
        let carveout = self.memory.unified.as_ref().and_then(|unified| unified.carveout_bytes);
        carveout.unwrap_or(u32::MAX).min(self.limits.shared_mem_size)
    }

    /// Bytes of shared memory a block can have.
    pub fn shared_of_block(&self) -> u32 {
        let most = self.shared_memory().saturating_sub(self.sm.shared_reserved);
        self.sm.shared_of_block.unwrap_or(most).min(most)
    }
}
