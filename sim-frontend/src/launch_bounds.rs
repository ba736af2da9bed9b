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
        match self.max_registers {
            Some(registers) => Some(registers.clamp(1, MOST)),
            None => self.of_resident(self.min_blocks?),
        }
    }

    /// The registers a thread may have at most: what `.maxnreg` says, or what is there for each thread of the blocks that
    /// shall be resident, of one at least. None where nothing is said of them.
    pub fn most_registers(&self) -> Option<u32> {
        // Fewer are not enough for calls: the assembler takes so many then.
        const LEAST: u32 = 24;
        let said = self.max_registers.map(|registers| registers.min(MOST));
        said.or_else(|| self.of_resident(self.min_blocks.unwrap_or(1))).map(|registers| registers.max(LEAST))
    }

    /// The registers that are there for each thread of so many blocks.
    fn of_resident(&self, blocks: u32) -> Option<u32> {
        let block = self.required.or(self.max)?;
        let threads = block.iter().fold(1u32, |threads, n| threads.saturating_mul(*n));
        let threads = threads.checked_next_multiple_of(32)?.checked_mul(blocks)?;
        Some((REGISTERS.checked_div(threads)? & !7).clamp(8, MOST))
    }
}

/// Registers of an SM, as the assembler counts them for all targets from compute capability 5.0 on.
const REGISTERS: u32 = 65536;

/// Registers of a thread at most.
const MOST: u32 = 255;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn registers_that_bounds_leave_a_thread() {
        let threads = |n| Some([n, 1, 1]);
        for (bounds, most, entry) in [
            (LaunchBounds::default(), None, None),
            (LaunchBounds { min_blocks: Some(2), ..LaunchBounds::default() }, None, None),
            (LaunchBounds { max: threads(1024), ..LaunchBounds::default() }, Some(64), None),
            (LaunchBounds { required: threads(1000), ..LaunchBounds::default() }, Some(64), None),
            (LaunchBounds { max: threads(128), ..LaunchBounds::default() }, Some(255), None),
            (
                LaunchBounds { max: threads(192), min_blocks: Some(3), ..LaunchBounds::default() },
                Some(112),
                Some(112),
            ),
            (
                LaunchBounds { max: threads(1024), min_blocks: Some(4), ..LaunchBounds::default() },
                Some(24),
                Some(16),
            ),
            (LaunchBounds { max: threads(0), ..LaunchBounds::default() }, None, None),
            (
                LaunchBounds { max_registers: Some(40), max: threads(1024), ..LaunchBounds::default() },
                Some(40),
                Some(40),
            ),
            (LaunchBounds { max_registers: Some(8), ..LaunchBounds::default() }, Some(24), Some(8)),
            (LaunchBounds { max_registers: Some(999), ..LaunchBounds::default() }, Some(255), Some(255)),
        ] {
            assert_eq!((bounds.most_registers(), bounds.entry_registers()), (most, entry), "{bounds:?}");
        }
    }
}
