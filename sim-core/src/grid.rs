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

    /// Index of block `n` in row-major order, x fastest.
    pub fn block_index(&self, n: u64) -> [u32; 3] {
        let [gx, gy, _] = self.grid.map(u64::from);
        [(n % gx) as u32, (n / gx % gy) as u32, (n / gx / gy) as u32]
    }
}
