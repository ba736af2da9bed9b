//! A grid: one launch of a kernel (CS §5.6).

use std::sync::Arc;

use crate::code::Code;
use crate::registers::LaneRow;

/// One launch of a kernel.
#[derive(Debug)]
pub struct Kernel {
    /// Order of launch, from 0; `%gridid`.
    pub grid_id: u32,
    /// Decoded code of the kernel.
    pub code: Arc<Code>,
    /// Grid size in blocks.
    pub grid: [u32; 3],
    /// Block size in threads.
    pub block: [u32; 3],
    /// Blocks of a cluster by axis.
    pub cluster: [u32; 3],
    /// The kernel or its launch gives the size of clusters.
    pub explicit_cluster: bool,
    /// Lanes of a warp.
    pub warp_size: u32,
    /// Dynamic shared memory in bytes.
    pub dynamic_shared: u32,
    /// Static and dynamic shared memory of a block in bytes.
    pub shared_bytes: u32,
    /// Local memory of a thread in bytes.
    pub local_bytes: u32,
    /// The parameter block.
    pub params: Vec<u8>,
    /// The address of what the blocks of a cooperative launch meet by; 0 in other launches.
    pub workspace: u64,
    /// Constant rows, parameters among them ([`Code::constant_rows`]).
    pub consts: Box<[LaneRow]>,
    /// Stream it was launched on.
    pub stream: u32,
    /// Name of the kernel.
    pub name: Arc<str>,
}

impl Kernel {
    /// Warps of one block.
    pub fn warps_per_block(&self) -> u32 {
        let [x, y, z] = self.block;
        (x * y * z).div_ceil(self.warp_size)
    }

    /// Blocks of the grid.
    pub fn blocks(&self) -> u64 {
        self.grid.iter().map(|&n| u64::from(n)).product()
    }

    /// Blocks of a cluster.
    pub fn cluster_size(&self) -> u32 {
        self.cluster.iter().product()
    }

    /// The number of block `n` in the order of dispatch: cluster by cluster, within one by rank.
    pub fn in_order(&self, n: u64) -> u64 {
        let size = u64::from(self.cluster_size());
        if size == 1 {
            return n;
        }
        let across: [u64; 3] = std::array::from_fn(|axis| (self.grid[axis] / self.cluster[axis]).into());
        let cluster = n / size;
        let at = [cluster % across[0], cluster / across[0] % across[1], cluster / across[0] / across[1]];
        let first = std::array::from_fn(|axis| at[axis] as u32 * self.cluster[axis]);
        self.number_at(first, (n % size) as u32)
    }

    /// The number of the block of a rank in the cluster whose first block has an index.
    fn number_at(&self, first: [u32; 3], rank: u32) -> u64 {
        let [cx, cy, _] = self.cluster;
        let within = [rank % cx, rank / cx % cy, rank / cx / cy];
        let [x, y, z] = std::array::from_fn(|axis| u64::from(first[axis] + within[axis]));
        let [gx, gy, _] = self.grid.map(u64::from);
        x + gx * (y + gy * z)
    }

    /// The number of the block of a rank in the cluster of the block at `index`.
    pub fn number_of_rank(&self, index: [u32; 3], rank: u32) -> u64 {
        self.number_at(
            std::array::from_fn(|axis| index[axis] / self.cluster[axis] * self.cluster[axis]),
            rank,
        )
    }

    /// Rank of the block at `index` in its cluster.
    pub fn rank(&self, index: [u32; 3]) -> u32 {
        let [x, y, z]: [u32; 3] = std::array::from_fn(|axis| index[axis] % self.cluster[axis]);
        x + self.cluster[0] * (y + self.cluster[1] * z)
    }

    /// Index of block `n` in row-major order, x fastest.
    pub fn block_index(&self, n: u64) -> [u32; 3] {
        let [gx, gy, _] = self.grid.map(u64::from);
        [(n % gx) as u32, (n / gx % gy) as u32, (n / gx / gy) as u32]
    }
}
