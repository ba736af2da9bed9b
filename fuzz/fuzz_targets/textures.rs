//! Lookups of textures by any coordinates, levels and offsets: what they read lies in the image.
#![no_main]

use libfuzzer_sys::fuzz_target;
use sim_core::texture::{
    AddressMode, Channels, Extent, Filter, Format, Geometry, Image, Level, Lookup, Sampler, Storage,
};

fuzz_target!(|input: (
    [u8; 12],
    [u32; 3],
    [f32; 6],
    (u32, bool, [i32; 3], Option<f32>, Option<u8>),
    [f32; 3]
)| {
    let ([kind, storage, width, height, depth, layers, levels, address, flags, channels, count, which], ..) = input;
    let (_, coordinates, gradients, (layer, integer, offset, reference, gather), bias) = input;
    const CHANNELS: [Channels; 8] = [
        Channels::Unsigned(8),
        Channels::Unsigned(16),
        Channels::Unsigned(32),
        Channels::Signed(8),
        Channels::Signed(16),
        Channels::Signed(32),
        Channels::Float(16),
        Channels::Float(32),
    ];
    let channels = CHANNELS[usize::from(channels % 8)];
    let Some(format) = Format::new(channels, [1, 2, 4][usize::from(count % 3)]) else { return };
    let geometry = [
        Geometry::One,
        Geometry::Two,
        Geometry::Three,
        Geometry::OneArray,
        Geometry::TwoArray,
        Geometry::Cube,
        Geometry::CubeArray,
    ][usize::from(kind % 7)];
    let size = |n: u8| u32::from(n % 40) + 1;
    let axes = geometry.axes();
    let mut extent = Extent { width: size(width), height: 1, depth: 1 };
    if axes > 1 {
        extent.height = if geometry.cube() { extent.width } else { size(height) };
    }
    if axes > 2 {
        extent.depth = size(depth);
    }
    let mut image = Image::array(1 << 32, format, extent, axes as u8);
    image.cube = geometry.cube();
    if geometry.layered() || geometry.cube() {
        image.layers = if geometry.cube() { 6 * (u32::from(layers % 4) + 1) } else { u32::from(layers % 9) + 1 };
    }
    image.levels = u32::from(levels) % extent.levels() + 1;
    if image.layers == 0 && image.levels == 1 {
        image.storage = match (storage % 3, axes) {
            (1, 1) => Storage::Buffer,
            (2, 2) => Storage::Pitched(u64::from(extent.width + 3) * u64::from(format.bytes())),
            _ => Storage::Array,
        };
    }
    const MODES: [AddressMode; 4] =
        [AddressMode::Wrap, AddressMode::Mirror, AddressMode::Clamp, AddressMode::Border];
    let sampler = Sampler {
        address: std::array::from_fn(|axis| MODES[usize::from(address >> (2 * axis) & 3)]),
        filter: if flags & 1 == 1 { Filter::Linear } else { Filter::Point },
        mip_filter: if flags & 2 == 2 { Filter::Linear } else { Filter::Point },
        normalized: flags & 4 == 4,
        mip_bias: bias[0],
        mip_clamp: [bias[1], bias[2]],
        ..Sampler::default()
    };
    let level = match which % 3 {
        0 => Level::Base,
        1 => Level::Detail(gradients[0]),
        _ => {
            let [a, b, c, d, e, f] = gradients;
            Level::Gradient([a, b, c], [d, e, f])
        }
    };
    let lookup = Lookup {
        geometry,
        coordinates,
        integer,
        layer,
        level,
        offset: offset.map(|n| n.clamp(-8, 7)),
        reference,
        gather: gather.map(|component| component % 4).filter(|_| axes == 2),
    };
    let plan = lookup.plan(&image, &sampler);
    let end = image.address + image.bytes();
    for at in plan.taps().iter().filter_map(|tap| tap.address) {
        assert!(at >= image.address && at + u64::from(format.bytes()) <= end, "{at:#x} of {image:?}");
    }
});
