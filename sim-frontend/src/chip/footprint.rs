//! What a device of a chip takes of the host, before it is built.

use super::ChipSpec;

impl ChipSpec {
    /// Bytes of the host that the caches, queues, registers and tables of a device of this chip take, by the
    /// sizes of the simulator's own structures: an estimate from above, without the memory that programs use.
    pub fn host_bytes(&self) -> u64 {
        let (l, sm, memory) = (&self.limits, &self.sm, &self.memory);
        // A line of a cache has its bytes, masks of them, a tag, its place in the order of use.
        let cache = |bytes: u32| u64::from(bytes) * 2;
        let entries = |list: &[u32]| list.iter().map(|n| u64::from(*n)).sum::<u64>();
        let warps = u64::from(l.max_resident_threads / l.warp_size.max(1));
        let classes = sm.units.0.values().map(|unit| u64::from(unit.count)).sum::<u64>();
        // A split of each thread of a warp, and the registers of all.
        let of_sm = cache(memory.l1.size_bytes)
            + u64::from(l.shared_mem_size)
            + u64::from(l.reg_file_size) * 4
            + warps * 32 * 256
            + u64::from(l.max_resident_blocks) * 512
            + u64::from(sm.schedulers) * (8 << 10)
            + classes * u64::from(sm.schedulers) * 64
            + entries(&[memory.l1.mshrs, memory.lsu_queue, memory.miss_queue, memory.store_tokens]) * 256
            + memory
                .tlb
                .iter()
                .flat_map(|tlb| tlb.levels())
                .map(|level| u64::from(level.entries) * 16)
                .sum::<u64>();
        let dram = &memory.dram;
        let of_partition = cache(memory.l2.size_bytes)
            + entries(&[memory.l2.mshrs, dram.queue, dram.write_queue.entries]) * 256
            + u64::from(dram.banks) * (4 << 10);
        u64::from(l.num_processors) * of_sm + u64::from(memory.partitions) * of_partition
    }
}
