//! What a chip can do at most, as a report tells it: the ceilings of its roofline.

use std::collections::BTreeMap;

use serde::Serialize;
use sim_frontend::chip::ChipSpec;
use sim_frontend::isa::UnitClass;
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
    /// Dense multiply-adds all tensor cores can do in a second, by type as chip files name it: the greater of what products of
    /// warps and of warpgroups reach.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub tensor_multiply_adds_per_second: BTreeMap<&'static str, u64>,
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
            tensor_multiply_adds_per_second: tensor(chip)
                .into_iter()
                .map(|(ty, rate)| (ty, a_second(sms * u64::from(rate))))
                .collect(),
        }
    }
}

/// Multiply-adds of a core cycle and SM, by type.
fn tensor(chip: &ChipSpec) -> BTreeMap<&'static str, u32> {
    let cores = chip.sm.units.of_sm(UnitClass::Tensor, chip.sm.schedulers);
    let Some(spec) = &chip.tensor else { return BTreeMap::new() };
    let of_groups = spec.wgmma.iter().flat_map(|wgmma| &wgmma.rates);
    let mut rates = BTreeMap::new();
    for (ty, rate) in spec.rates.iter().chain(of_groups) {
        let most = rates.entry(ty.name()).or_insert(0);
        *most = (*most).max(rate * cores);
    }
    rates
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
        assert!(machine.tensor_multiply_adds_per_second.is_empty());
        // 312 TFLOPS of f16 and half of them of tf32, two operations a multiply-add; 989 and 495 by warpgroups.
        for (chip, f16, tf32) in [("a100", 312.0, 156.0), ("h100", 989.0, 495.0)] {
            let (chip, _) = crate::configs::chip(chip, &[]).unwrap_or_else(|e| panic!("{}", e[0]));
            let rates = Machine::of(&chip).tensor_multiply_adds_per_second;
            let tera = |ty: &str| 2.0 * rates[ty] as f64 / 1e12;
            assert!(
                (tera("f16_f32") / f16 - 1.0).abs() < 0.1 && (tera("tf32") / tf32 - 1.0).abs() < 0.1,
                "{rates:?}"
            );
        }
        // 8 SMs of two schedulers that issue two instructions each at 822 MHz.
        let (dual, _) = crate::configs::chip("gtx560ti", &[]).unwrap_or_else(|e| panic!("{}", e[0]));
        let dual = Machine::of(&dual);
        assert_eq!(dual.warp_instructions_per_second, 32 * dual.core_khz * 1000);
    }
}
