//! What a chip can do at most, as a report tells it: the ceilings of its roofline.

use serde::Serialize;
use sim_frontend::chip::ChipSpec;
use sim_memory::line::LINE_BYTES;

/// Rates of a chip.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Machine {
    /// Kilohertz of the core clock.
    pub core_khz: u64,
    /// Lanes of a warp.
    pub warp_size: u32,
    /// Bytes of a line.
    pub line_bytes: u32,
    /// Warp instructions all schedulers can issue in a second.
    pub warp_instructions_per_second: u64,
    /// Bytes the L1 caches of all SMs can serve in a second, a line a core cycle each; 0 without L1.
    pub l1_bytes_per_second: u64,
    /// Bytes all partitions can send to SMs in a second.
    pub l2_bytes_per_second: u64,
    /// Bytes the data buses of all DRAM channels can move in a second.
    pub dram_bytes_per_second: u64,
}

impl Machine {
    /// Those of a chip.
    pub fn of(chip: &ChipSpec) -> Self {
        let core_khz = chip.clocks().core_khz;
        let a_second = |a_cycle: u64| a_cycle * core_khz * 1000;
        let sms = u64::from(chip.limits.num_processors);
        let has_l1 = u64::from(chip.memory.l1.size_bytes > 0);
        let issues = u64::from(chip.sm.schedulers) * u64::from(chip.sm.issue_width);
        let replies = u64::from(chip.memory.interconnect.reply_bytes_per_cycle);
        Self {
            core_khz,
            warp_size: chip.limits.warp_size,
            line_bytes: LINE_BYTES,
            warp_instructions_per_second: a_second(sms * issues),
            l1_bytes_per_second: a_second(sms * has_l1 * u64::from(LINE_BYTES)),
            l2_bytes_per_second: a_second(u64::from(chip.memory.partitions) * replies),
            dram_bytes_per_second: chip.dram_bandwidth().round() as u64,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ceilings_of_the_gtx_480_are_those_of_its_data_sheet() {
        let (chip, _) = crate::configs::chip("gtx480", &[]).unwrap_or_else(|e| panic!("{}", e[0]));
        let machine = Machine::of(&chip);
        // 15 SMs of two schedulers at 700 MHz, half of the hot clock; 177.4 GB/s of GDDR5.
        assert_eq!(machine.warp_instructions_per_second, 21_000_000_000);
        assert_eq!(machine.l1_bytes_per_second / machine.core_khz / 1000, 15 * 128);
        assert_eq!((machine.dram_bytes_per_second as f64 / 1e8).round(), 1774.0);
        // 8 SMs of two schedulers that issue two instructions each at 822 MHz.
        let (dual, _) = crate::configs::chip("gtx560ti", &[]).unwrap_or_else(|e| panic!("{}", e[0]));
        let dual = Machine::of(&dual);
        assert_eq!(dual.warp_instructions_per_second, 32 * dual.core_khz * 1000);
    }
}
