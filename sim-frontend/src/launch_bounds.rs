//! What a kernel says of its launches (PTX ISA "Performance-Tuning Directives").

/// Limits a kernel states about its launches, in threads or blocks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LaunchBounds {
    /// Block size required by `.reqntid`.
    pub required: Option<[u32; 3]>,
    /// Largest block size, by `.maxntid`.
    pub max: Option<[u32; 3]>,
    /// Resident blocks per SM asked for by `.minnctapersm`.
    pub min_blocks: Option<u32>,
    /// Registers per thread allowed by `.maxnreg`.
    pub max_registers: Option<u32>,
    /// Blocks of a cluster by axis, by `.reqnctapercluster`.
    pub cluster: Option<[u32; 3]>,
    /// `.explicitcluster`: the size of clusters must be given.
    pub explicit_cluster: bool,
    /// Most blocks of a cluster, by `.maxclusterrank`.
    pub max_cluster: Option<u32>,
}

impl LaunchBounds {
    /// The registers that a thread of a kernel with `setmaxnreg` begins with: what `.maxnreg` says, or what is there
    /// for each thread of as many blocks as shall be resident. Without either the assembler ignores `setmaxnreg`.
    pub fn entry_registers(&self) -> Option<u32> {
        // Those of an SM, as the assembler counts them for all targets that have `setmaxnreg`.
        const REGISTERS: u32 = 65536;
        const MOST: u32 = 255;
        if let Some(registers) = self.max_registers {
            return Some(registers.clamp(1, MOST));
        }
        let block = self.required.or(self.max)?;
        let threads = block.iter().fold(1u32, |threads, n| threads.saturating_mul(*n));
        let threads = threads.checked_next_multiple_of(32)?.checked_mul(self.min_blocks?)?;
        Some((REGISTERS.checked_div(threads)? & !7).clamp(8, MOST))
    }
}
