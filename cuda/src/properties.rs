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

/// Fields that are not zero: offset in CUDA 13 and 12, bytes, and the attribute that says the same.
#[rustfmt::skip]
const FIELDS: [((Option<usize>, usize), usize, i32); 86] = [
    ((Some(296), 296), 8, 8), // sharedMemPerBlock
    ((Some(304), 304), 4, 12), // regsPerBlock
    ((Some(308), 308), 4, 10), // warpSize
    ((Some(312), 312), 8, 11), // memPitch
    ((Some(320), 320), 4, 1), // maxThreadsPerBlock
    ((Some(324), 324), 4, 2), // maxThreadsDim
    ((Some(328), 328), 4, 3), // maxThreadsDim
    ((Some(332), 332), 4, 4), // maxThreadsDim
    ((Some(336), 336), 4, 5), // maxGridSize
    ((Some(340), 340), 4, 6), // maxGridSize
    ((Some(344), 344), 4, 7), // maxGridSize
    ((Some(352), 352), 8, 9), // totalConstMem
    ((Some(360), 360), 4, 75), // major
    ((Some(364), 364), 4, 76), // minor
    ((Some(368), 368), 8, 14), // textureAlignment
    ((Some(376), 376), 8, 51), // texturePitchAlignment
    ((Some(384), 388), 4, 16), // multiProcessorCount
    ((Some(392), 400), 4, 19), // canMapHostMemory
    ((Some(552), 568), 8, 30), // surfaceAlignment
    ((Some(560), 576), 4, 31), // concurrentKernels
    ((Some(568), 584), 4, 33), // pciBusID
    ((Some(584), 600), 4, 40), // asyncEngineCount
    ((Some(588), 604), 4, 41), // unifiedAddressing
    ((Some(592), 612), 4, 37), // memoryBusWidth
    ((Some(596), 616), 4, 38), // l2CacheSize
    ((Some(604), 624), 4, 39), // maxThreadsPerMultiProcessor
    ((Some(608), 628), 4, 78), // streamPrioritiesSupported
    ((Some(612), 632), 4, 79), // globalL1CacheSupported
    ((Some(616), 636), 4, 80), // localL1CacheSupported
    ((Some(624), 640), 8, 81), // sharedMemPerMultiprocessor
    ((Some(632), 648), 4, 82), // regsPerMultiprocessor
    ((Some(636), 652), 4, 83), // managedMemory
    ((Some(668), 688), 4, 95), // cooperativeLaunch
    ((Some(672), 696), 8, 97), // sharedMemPerBlockOptin
    ((Some(688), 712), 4, 106), // maxBlocksPerMultiProcessor
    ((Some(696), 720), 8, 111), // reservedSharedMemPerBlock
    ((None, 348), 4, 13), // clockRate
    ((None, 384), 4, 15), // deviceOverlap
    ((None, 608), 4, 36), // memoryClockRate
    ((Some(396), 408), 4, 21), // maxTexture1D
    ((Some(400), 412), 4, 77), // maxTexture1DMipmap
    ((None, 416), 4, 69), // maxTexture1DLinear
    ((Some(404), 420), 4, 22), // maxTexture2D
    ((Some(408), 424), 4, 23),
    ((Some(412), 428), 4, 73), // maxTexture2DMipmap
    ((Some(416), 432), 4, 74),
    ((Some(420), 436), 4, 70), // maxTexture2DLinear
    ((Some(424), 440), 4, 71),
    ((Some(428), 444), 4, 72),
    ((Some(432), 448), 4, 45), // maxTexture2DGather
    ((Some(436), 452), 4, 46),
    ((Some(440), 456), 4, 24), // maxTexture3D
    ((Some(444), 460), 4, 25),
    ((Some(448), 464), 4, 26),
    ((Some(452), 468), 4, 47), // maxTexture3DAlt
    ((Some(456), 472), 4, 48),
    ((Some(460), 476), 4, 49),
    ((Some(464), 480), 4, 52), // maxTextureCubemap
    ((Some(468), 484), 4, 42), // maxTexture1DLayered
    ((Some(472), 488), 4, 43),
    ((Some(476), 492), 4, 27), // maxTexture2DLayered
    ((Some(480), 496), 4, 28),
    ((Some(484), 500), 4, 29),
    ((Some(488), 504), 4, 53), // maxTextureCubemapLayered
    ((Some(492), 508), 4, 54),
    ((Some(496), 512), 4, 55), // maxSurface1D
    ((Some(500), 516), 4, 56), // maxSurface2D
    ((Some(504), 520), 4, 57),
    ((Some(508), 524), 4, 58), // maxSurface3D
    ((Some(512), 528), 4, 59),
    ((Some(516), 532), 4, 60),
    ((Some(520), 536), 4, 61), // maxSurface1DLayered
    ((Some(524), 540), 4, 62),
    ((Some(528), 544), 4, 63), // maxSurface2DLayered
    ((Some(532), 548), 4, 64),
    ((Some(536), 552), 4, 65),
    ((Some(540), 556), 4, 66), // maxSurfaceCubemap
    ((Some(544), 560), 4, 67), // maxSurfaceCubemapLayered
    ((Some(548), 564), 4, 68),
    ((None, 668), 4, 87), // singleToDoublePrecisionPerfRatio
    ((Some(656), 676), 4, 89), // concurrentManagedAccess
    ((Some(660), 680), 4, 90), // computePreemptionSupported
    ((Some(704), 728), 4, 99), // hostRegisterSupported
    ((Some(720), 744), 4, 115), // memoryPoolsSupported
    ((Some(736), 760), 4, 119), // memoryPoolSupportedHandleTypes
    ((Some(748), 772), 4, 120), // clusterLaunch
];

/// Sizes of textures and surfaces, by attribute (CUDA C++ Programming Guide, "Technical Specifications per Compute
/// Capability").
fn size_of_images(capability: i32, number: i32) -> Option<u64> {
    // From compute capability 6.0 on, and below.
    let newer = capability >= 60;
    let of = |after: u64, before: u64| if newer { after } else { before };
    Some(match number {
        // One dimension, two.
        21 | 22 => of(1 << 17, 1 << 16),
        23 => 1 << 16,
        // Three dimensions, textures and surfaces.
        24..=26 | 47..=49 | 58..=60 => of(1 << 14, 1 << 12),
        // Layered, gathered, cubes, mipmapped; surfaces of one dimension.
        27 | 28 | 42 | 45 | 46 | 52 | 53 | 55 | 61 | 63 | 64 | 66 | 67 | 73 | 74 | 77 => of(1 << 15, 1 << 14),
        // Layers, and of cubes.
        29 | 43 | 62 | 65 => 2048,
        54 | 68 => 2046,
        56 => of(1 << 17, 1 << 16),
        57 => of(1 << 16, 1 << 15),
        // Linear memory.
        69 => of(1 << 28, 1 << 27),
        70 => of(131_072, 65_000),
        71 => 65_000,
        72 => of(2_097_120, 1_048_544),
        _ => return None,
    })
}

/// How many times as many operations of single precision as of double precision a multiprocessor does in a cycle (CUDA C++
/// Programming Guide, "Arithmetic Instructions").
fn single_to_double(capability: i32) -> u64 {
    match capability {
        13 => 8,
        20 | 60 | 70 | 72 | 80 | 90 | 100 => 2,
        21 => 12,
        30 | 32 => 24,
        35 | 37 => 3,
        50..=53 | 61 | 62 | 75 => 32,
        capability if capability < 20 => 0,
        _ => 64,
    }
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
    let of_attributes = FIELDS.map(|(offsets, bytes, number)| {
        let value = attribute(chip, number).unwrap_or_default();
        (offsets, bytes, value as u64)
    });
    // Of the memory of the device there is no attribute.
    let memory = ((Some(288), 288), 8, chip.limits.global_mem_size);
    for ((newest, older), bytes, value) in of_attributes.into_iter().chain([memory]) {
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
        87 => single_to_double(capability),
        // From 6.0 on, host code may use managed memory while kernels run; they see each other's writes where one waits for
        // the other.
        89 => (capability >= 60).into(),
        120 => chip.cluster.is_some().into(),
        _ if size_of_images(capability, number).is_some() => {
            size_of_images(capability, number).unwrap_or_default()
        }
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
        // Fields say what attributes do: linear textures, surfaces of cubes with layers, the ratio of precisions.
        let [twelve, thirteen] =
            [Version::Twelve, Version::Thirteen].map(|version| properties(&chip, version));
        let of = |bytes: &[u8], places: [usize; 4]| places.map(|at| word(bytes, at));
        assert_eq!(of(&thirteen, [420, 424, 544, 548]), [131_072, 65_000, 32_768, 2046]);
        assert_eq!(of(&twelve, [436, 440, 560, 564]), [131_072, 65_000, 32_768, 2046]);
        assert_eq!((word(&twelve, 668), attribute(&chip, 87)), (32, Some(32)));
        assert_eq!((word(&thirteen, 704), word(&twelve, 728), attribute(&chip, 99)), (1, 1, Some(1)));
        // 352 bits of GDDR6 at 14 GT/s.
        let bandwidth = 2.0 * chip.clocks().dram_khz as f64 * 1e3 * bus_width(&chip) as f64 / 8.0;
        assert!((bandwidth / chip.dram_bandwidth() - 1.0).abs() < 0.01, "{bandwidth}");
        assert_eq!(
            (attribute(&chip, 16), attribute(&chip, 75), attribute(&chip, 0)),
            (Some(68), Some(7), None)
        );
    }
}
