//! What a kernel or a launch needs of a chip, whatever chip it was refused by.

/// What a chip must have.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Needs {
    /// Compute capability at least, as major * 10 + minor.
    pub capability: u32,
    /// Instructions of the kernel.
    pub instructions: u64,
    /// Blocks of the grid.
    pub grid: [u32; 3],
    /// Threads of a block.
    pub block: [u32; 3],
    /// Registers of a thread.
    pub registers: u32,
    /// Bytes of shared memory of a block.
    pub shared: u64,
    /// Bytes of local memory of a thread.
    pub local: u64,
}

impl Needs {
    /// A compute capability.
    pub fn capability(capability: u32) -> Self {
        Self { capability, ..Self::default() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chip::ChipSpec;
    use crate::diagnostic::Source;

    #[test]
    fn each_limit_counts() {
        let text = include_str!("../../../configs/chips/gtx480.yaml");
        let chip = ChipSpec::load(&Source::new("chip.yaml", text)).expect("the shipped chip is right");
        let good = Needs {
            capability: 20,
            instructions: 512_000_000,
            grid: [65535, 65535, 65535],
            block: [1024, 1, 1],
            registers: 21,
            shared: 49152,
            local: 524_288,
        };
        assert!(chip.has(&good) && chip.has(&Needs::default()));
        for bad in [
            Needs { capability: 21, ..good.clone() },
            Needs { instructions: 512_000_001, ..good.clone() },
            Needs { grid: [65536, 1, 1], ..good.clone() },
            Needs { block: [1025, 1, 1], ..good.clone() },
            Needs { block: [32, 1, 65], ..good.clone() },
            Needs { block: [64, 64, 1], ..good.clone() },
            Needs { block: [32, 1, 1], registers: 64, ..good.clone() },
            Needs { block: [1024, 1, 1], registers: 40, ..good.clone() },
            Needs { shared: 49153, ..good.clone() },
            Needs { local: 524_289, ..good.clone() },
        ] {
            assert!(!chip.has(&bad), "{bad:?}");
        }
    }
}
