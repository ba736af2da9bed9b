//! Address mapping: the partition of an address, and its address within the partition.

use crate::divide::Divisor;
use crate::spec::MemorySpec;

/// Maps addresses to partitions.
#[derive(Clone, Debug, borsh::BorshSerialize, borsh::BorshDeserialize)]
pub struct Mapping {
    partitions: Divisor,
    interleave: Divisor,
}

impl Mapping {
    /// The mapping of a chip's memory specification.
    pub fn new(spec: &MemorySpec) -> Self {
        Self {
            partitions: Divisor::new(u64::from(spec.partitions)),
            interleave: Divisor::new(u64::from(spec.interleave_bytes)),
        }
    }

    /// Partition and byte address within it. Blocks of `interleave_bytes` are dealt to the partitions in
    /// rounds; each round is rotated by a hash of its number, so that strided accesses spread.
    #[inline]
    pub fn place(&self, address: u64) -> (u32, u64) {
        let (block, within) = self.interleave.divide(address);
        let (round, position) = self.partitions.divide(block);
        let turn = round ^ (round >> 7) ^ (round >> 15);
        let (_, partition) = self.partitions.divide(position + self.partitions.divide(turn).1);
        (partition as u32, round * self.interleave.by() + within)
    }
}
