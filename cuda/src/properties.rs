//! `cudaDeviceProp`: what it says of the simulated chip. Offsets are those of the headers of CUDA 13.0 and 12.9;
//! CUDA 11.8 has the beginning of the structure of 12.

use sim_frontend::chip::ChipSpec;

use crate::occupancy::DEFAULT_SHARED;

/// A version of the structure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Version {
    /// CUDA 11, and `cudaGetDeviceProperties` of 12.
    Eleven,
    /// `cudaGetDeviceProperties_v2` of CUDA 12.
    Twelve,
    /// CUDA 13.
    Thirteen,
}

impl Version {
    /// Bytes of the structure.
    pub fn bytes(self) -> usize {
        match self {
            Self::Eleven => 728,
            Self::Twelve => 1032,
            Self::Thirteen => 1008,
        }
    }
}

/// Bits of the memory bus, such that twice the memory clock times the bus is the chip's bandwidth.
pub fn bus_width(chip: &ChipSpec) -> u64 {
    let transfers = 2 * chip.clocks().dram_khz * 1000;
    (chip.dram_bandwidth() * 8.0 / transfers.max(1) as f64).round() as u64
}

/// Fields that are not zero: offset in CUDA 13 and 12, bytes, value.
#[rustfmt::skip]
fn fields(chip: &ChipSpec) -> Vec<((Option<usize>, usize), usize, u64)> {
    let limits = &chip.limits;
    let capability = u64::from(chip.capability());
    let has_l1 = u64::from(limits.level1_cache_size > 0);
    let [x, y, z] = limits.max_block_size.map(u64::from);
    let [gx, gy, gz] = limits.max_grid_size.map(u64::from);
    vec![
        ((Some(288), 288), 8, limits.global_mem_size), // totalGlobalMem
        ((Some(296), 296), 8, u64::from(chip.shared_of_block().min(DEFAULT_SHARED))), // sharedMemPerBlock
        ((Some(304), 304), 4, limits.reg_file_size.into()), // regsPerBlock
        ((Some(308), 308), 4, limits.warp_size.into()), // warpSize
        ((Some(312), 312), 8, i32::MAX as u64), // memPitch
        ((Some(320), 320), 4, limits.max_threads_per_block.into()), // maxThreadsPerBlock
        ((Some(324), 324), 4, x), // maxThreadsDim
        ((Some(328), 328), 4, y), // maxThreadsDim
        ((Some(332), 332), 4, z), // maxThreadsDim
        ((Some(336), 336), 4, gx), // maxGridSize
        ((Some(340), 340), 4, gy), // maxGridSize
        ((Some(344), 344), 4, gz), // maxGridSize
        ((Some(352), 352), 8, limits.const_mem_size), // totalConstMem
        ((Some(360), 360), 4, capability / 10), // major
        ((Some(364), 364), 4, capability % 10), // minor
        ((Some(368), 368), 8, 512), // textureAlignment
        ((Some(376), 376), 8, 32), // texturePitchAlignment
        ((Some(384), 388), 4, limits.num_processors.into()), // multiProcessorCount
        ((Some(392), 400), 4, 1), // canMapHostMemory
        ((Some(552), 568), 8, 512), // surfaceAlignment
        ((Some(560), 576), 4, 1), // concurrentKernels
        ((Some(568), 584), 4, 1), // pciBusID
        ((Some(584), 600), 4, 1), // asyncEngineCount
        ((Some(588), 604), 4, 1), // unifiedAddressing
        ((Some(592), 612), 4, bus_width(chip)), // memoryBusWidth
        ((Some(596), 616), 4, limits.level2_cache_size), // l2CacheSize
        ((Some(604), 624), 4, limits.max_resident_threads.into()), // maxThreadsPerMultiProcessor
        ((Some(608), 628), 4, 1), // streamPrioritiesSupported
        ((Some(612), 632), 4, has_l1), // globalL1CacheSupported
        ((Some(616), 636), 4, has_l1), // localL1CacheSupported
        ((Some(624), 640), 8, limits.shared_mem_size.into()), // sharedMemPerMultiprocessor
        ((Some(632), 648), 4, limits.reg_file_size.into()), // regsPerMultiprocessor
        ((Some(636), 652), 4, 1), // managedMemory
        ((Some(668), 688), 4, 1), // cooperativeLaunch
        ((Some(672), 696), 8, chip.shared_of_block().into()), // sharedMemPerBlockOptin
        ((Some(688), 712), 4, limits.max_resident_blocks.into()), // maxBlocksPerMultiProcessor
        ((Some(696), 720), 8, chip.sm.shared_reserved.into()), // reservedSharedMemPerBlock
        ((None, 348), 4, chip.clocks().core_khz), // clockRate
        ((None, 384), 4, 1), // deviceOverlap
        ((None, 608), 4, chip.clocks().dram_khz), // memoryClockRate
    ]
}

/// What the device is called.
pub fn name(chip: &ChipSpec) -> String {
    format!("warpsim {}", chip.description)
}

/// What identifies the device: the same for every run of a chip.
pub fn uuid(chip: &ChipSpec) -> [u8; 16] {
    let mut out = [0; 16];
    let text = b"warpsim ".iter().chain(chip.name.as_bytes());
    out.iter_mut().zip(text).for_each(|(place, byte)| *place = *byte);
    out
}

/// The structure as a version has it.
pub fn properties(chip: &ChipSpec, version: Version) -> Vec<u8> {
    let mut out = vec![0; version.bytes()];
    let name = name(chip);
    let name = &name.as_bytes()[..name.len().min(255)];
    out[..name.len()].copy_from_slice(name);
    out[256..272].copy_from_slice(&uuid(chip));
    for ((newest, older), bytes, value) in fields(chip) {
        let Some(at) = (if version == Version::Thirteen { newest } else { Some(older) }) else { continue };
        if let Some(place) = out.get_mut(at..at + bytes) {
            place.copy_from_slice(&value.to_le_bytes()[..bytes]);
        }
    }
    out
}

/// The value of a `cudaDeviceAttr`, by its number; `None` for one that is none.
pub fn attribute(chip: &ChipSpec, number: i32) -> Option<i32> {
    let limits = &chip.limits;
    let capability = chip.capability() as i32;
    let value: u64 = match number {
        1 => limits.max_threads_per_block.into(),
        2..=4 => limits.max_block_size[number as usize - 2].into(),
        5..=7 => limits.max_grid_size[number as usize - 5].into(),
        8 => chip.shared_of_block().min(DEFAULT_SHARED).into(),
        9 => limits.const_mem_size,
        10 => limits.warp_size.into(),
        11 => i32::MAX as u64,
        12 | 82 => limits.reg_file_size.into(),
        13 => chip.clocks().core_khz,
        14 | 30 => 512,
        // Overlap, mapped memory, concurrent kernels, bus, copy engines, unified addressing, priorities, managed memory,
        // cooperative launches, registration.
        15 | 19 | 31 | 33 | 40 | 41 | 78 | 83 | 95 | 99 => 1,
        16 => limits.num_processors.into(),
        // Sizes of textures (CUDA C++ Programming Guide, "Technical Specifications per Compute Capability").
        21 | 22 => 1 << 17,
        23 => 1 << 16,
        24..=26 => 1 << 14,
        69 => 1 << 28,
        36 => chip.clocks().dram_khz,
        37 => bus_width(chip),
        38 => limits.level2_cache_size,
        39 => limits.max_resident_threads.into(),
        51 => 32,
        75 => capability as u64 / 10,
        76 => capability as u64 % 10,
        79 | 80 => (limits.level1_cache_size > 0).into(),
        81 => limits.shared_mem_size.into(),
        97 => chip.shared_of_block().into(),
        106 => limits.max_resident_blocks.into(),
        // Virtual memory, memory pools.
        102 | 115 => 1,
        111 => chip.sm.shared_reserved.into(),
        120 => chip.cluster.is_some().into(),
        // What the simulated device does not have: peers, external memory, and what was not needed yet.
        17..=160 => 0,
        _ => return None,
    };
    Some(i32::try_from(value).unwrap_or(i32::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn structures_of_all_versions_tell_the_same_chip() {
        let request = warpsim::device::DeviceRequest::default();
        let chip = request.configured().unwrap_or_else(|e| panic!("{}", e[0])).chip;
        let word = |bytes: &[u8], at: usize| {
            bytes[at..at + 4].iter().rev().fold(0u32, |n, b| n << 8 | u32::from(*b))
        };
        for (version, processors, l2) in
            [(Version::Eleven, 388, 616), (Version::Twelve, 388, 616), (Version::Thirteen, 384, 596)]
        {
            let all = properties(&chip, version);
            assert_eq!(all.len(), version.bytes());
            assert!(all.starts_with(b"warpsim GeForce RTX 2080 Ti"));
            assert_eq!((word(&all, processors), word(&all, l2)), (68, 5_767_168));
            assert_eq!((word(&all, 360), word(&all, 364), word(&all, 308)), (7, 5, 32));
        }
        // 352 bits of GDDR6 at 14 GT/s.
        let bandwidth = 2.0 * chip.clocks().dram_khz as f64 * 1e3 * bus_width(&chip) as f64 / 8.0;
        assert!((bandwidth / chip.dram_bandwidth() - 1.0).abs() < 0.01, "{bandwidth}");
        assert_eq!(
            (attribute(&chip, 16), attribute(&chip, 75), attribute(&chip, 0)),
            (Some(68), Some(7), None)
        );
    }
}
