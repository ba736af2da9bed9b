//! Textures and surfaces of a workload: what its file says of them, over the buffers of the device.

use std::collections::BTreeMap;

use sim_core::error::SimError;
use sim_core::texture::{
    AddressMode, Bound, Channels, Extent, Filter, Format, Image, ReadMode, Sampler, Storage,
};
use sim_frontend::workload::{
    Expr, ImageAddress, ImageAddresses, ImageFilter, ImageRead, ImageSpec, ImageStorage,
};
use sim_memory::vocabulary::ScalarType;

use super::job::{Job, placed, whole, wrong};
use crate::device::{Device, Module};

/// Buffers that are stored as arrays, by name: their images, as far as the address is not known yet.
pub type Arrays = BTreeMap<String, Image>;

/// Texels in the order of a file, put into an array or taken out of it.
pub fn rearrange(image: &Image, mut each: impl FnMut(std::ops::Range<usize>, u64)) {
    let mut at = 0;
    for level in 0..image.levels {
        let Extent { width, height, .. } = image.extent.level(level);
        let row = u64::from(width) * u64::from(image.format.bytes());
        for slice in 0..image.slices(level) {
            for y in 0..height {
                for (address, bytes) in image.pieces(level, slice, 0, y, row) {
                    each(at..at + bytes as usize, address);
                    at += bytes as usize;
                }
            }
        }
    }
}

/// Bytes of an image in the order of a file.
fn file_bytes_of(image: &Image) -> u64 {
    let level = |level| {
        let Extent { width, height, .. } = image.extent.level(level);
        u64::from(width)
            * u64::from(height)
            * u64::from(image.slices(level))
            * u64::from(image.format.bytes())
    };
    (0..image.levels).map(level).sum()
}

fn format_of(ty: ScalarType, half: bool, channels: u32) -> Option<Format> {
    let channel = match ty {
        ScalarType::U16 | ScalarType::B16 if half => Channels::Float(16),
        _ if half => return None,
        ScalarType::U8 | ScalarType::B8 => Channels::Unsigned(8),
        ScalarType::S8 => Channels::Signed(8),
        ScalarType::U16 | ScalarType::B16 => Channels::Unsigned(16),
        ScalarType::S16 => Channels::Signed(16),
        ScalarType::U32 | ScalarType::B32 => Channels::Unsigned(32),
        ScalarType::S32 => Channels::Signed(32),
        ScalarType::F32 => Channels::Float(32),
        _ => return None,
    };
    Format::new(channel, u8::try_from(channels).ok()?)
}

/// The image that a texture or surface declares, at address 0.
fn image_of(job: &Job, name: &str, spec: &ImageSpec, bytes: u64) -> Result<Image, SimError> {
    let number = |expr: &Expr, what: &str| whole(expr, &job.params, &format!("{what} of `{name}`"));
    let optional = |expr: &Option<Expr>, what: &str| expr.as_ref().map_or(Ok(1), |expr| number(expr, what));
    let ty = job.spec.buffers.get(&spec.buffer).map_or(ScalarType::B8, |buffer| buffer.ty);
    let channels = number(&spec.channels, "channels")?;
    let format = format_of(ty, spec.half, channels).ok_or_else(|| {
        wrong(format!(
            "`{name}`: there is no texel format of {channels} channels of .{}; channels are 1, 2 or 4 of .u8, .s8, .u16, .s16, .u32, .s32 or .f32, or `half` of .u16",
            ty.name()
        ))
    })?;
    let width = number(&spec.width, "width")?;
    let extent =
        Extent { width, height: optional(&spec.height, "height")?, depth: optional(&spec.depth, "depth")? };
    let dimensions = 1 + u8::from(spec.height.is_some()) + u8::from(spec.depth.is_some());
    let layers = number(&spec.layers, "layers")?;
    let levels = number(&spec.levels, "levels")?;
    let size = [extent.width, extent.height, extent.depth];
    if size.contains(&0) || size.iter().any(|n| *n > 1 << 27) || layers > 1 << 16 {
        return Err(wrong(format!(
            "`{name}`: width, height and depth must be from 1 to 2^27, layers at most 65536"
        )));
    }
    if levels == 0 || levels > extent.levels() {
        let most = extent.levels();
        return Err(wrong(format!("`{name}`: levels must be from 1 to {most} for this size, not {levels}")));
    }
    if dimensions == 3 && (spec.height.is_none() || layers > 0) {
        return Err(wrong(format!("`{name}`: a three-dimensional image has a height and no layers")));
    }
    if spec.cube && (layers == 0 || !layers.is_multiple_of(6) || extent.width != extent.height) {
        return Err(wrong(format!("`{name}`: a cubemap is square and has 6 layers for each cube")));
    }
    let samples = number(&spec.samples, "samples")?;
    if !matches!(samples, 1 | 2 | 4 | 8) {
        return Err(wrong(format!("`{name}`: a texel has 1, 2, 4 or 8 samples, not {samples}")));
    }
    if samples > 1 && (dimensions != 2 || levels > 1 || spec.cube || spec.storage != ImageStorage::Array) {
        return Err(wrong(format!(
            "`{name}`: an image with several samples is an array of two dimensions without mip levels and cubes"
        )));
    }
    let mut image = Image::array(0, format, extent, dimensions);
    (image.layers, image.levels, image.cube) = (layers, levels, spec.cube);
    if samples > 1 {
        (image.samples, image.layers) = (samples, layers.max(1) * samples);
    }
    let texel = u64::from(format.bytes());
    image.storage = match spec.storage {
        ImageStorage::Array => Storage::Array,
        ImageStorage::Linear | ImageStorage::Pitched if layers > 0 || levels > 1 => {
            return Err(wrong(format!("`{name}`: only arrays have layers and levels")));
        }
        ImageStorage::Linear if dimensions > 1 => {
            return Err(wrong(format!("`{name}`: `linear` storage has one dimension")));
        }
        ImageStorage::Linear => Storage::Buffer,
        ImageStorage::Pitched if dimensions != 2 => {
            return Err(wrong(format!("`{name}`: `pitched` storage has two dimensions")));
        }
        ImageStorage::Pitched => {
            let pitch = spec.pitch.as_ref().map_or(Ok(width), |expr| number(expr, "pitch"))?;
            if pitch < width {
                return Err(wrong(format!(
                    "`{name}`: a pitch of {pitch} texels is less than the width {width}"
                )));
            }
            Storage::Pitched(u64::from(pitch) * texel)
        }
    };
    let needed = match image.storage {
        Storage::Array => image.checked_bytes().map_or(u64::MAX, |_| file_bytes_of(&image)),
        _ => image.bytes(),
    };
    let fits = if image.storage == Storage::Array { needed == bytes } else { needed <= bytes };
    if !fits {
        return Err(wrong(format!(
            "`{name}` has {needed} bytes of texels, but buffer `{}` has {bytes}",
            spec.buffer
        )));
    }
    Ok(image)
}

fn sampler_of(spec: &ImageSpec) -> Result<Sampler, String> {
    let mode = |address: &ImageAddress| match address {
        ImageAddress::Wrap => AddressMode::Wrap,
        ImageAddress::Clamp => AddressMode::Clamp,
        ImageAddress::Mirror => AddressMode::Mirror,
        ImageAddress::Border => AddressMode::Border,
    };
    let filter = |filter: ImageFilter| match filter {
        ImageFilter::Point => Filter::Point,
        ImageFilter::Linear => Filter::Linear,
    };
    let mut address = [AddressMode::Clamp; 3];
    match &spec.address {
        ImageAddresses::All(all) => address = [mode(all); 3],
        ImageAddresses::Each(list) if list.len() <= 3 => {
            address.iter_mut().zip(list).for_each(|(to, from)| *to = mode(from));
        }
        ImageAddresses::Each(_) => return Err("`address` has one mode, or at most three".into()),
    }
    let repeats = |mode: &AddressMode| matches!(mode, AddressMode::Wrap | AddressMode::Mirror);
    if !spec.normalized && address.iter().any(repeats) {
        return Err("`wrap` and `mirror` need `normalized: true`".into());
    }
    Ok(Sampler {
        address,
        filter: filter(spec.filter),
        normalized: spec.normalized,
        read: match spec.read {
            ImageRead::Element => ReadMode::Element,
            ImageRead::NormalizedFloat => ReadMode::NormalizedFloat,
        },
        border: spec.border,
        mip_filter: filter(spec.mip_filter),
        mip_bias: spec.mip_bias,
        mip_clamp: [spec.mip_min, spec.mip_max],
        srgb: spec.srgb,
    })
}

/// The buffers of a workload that are stored as arrays; `bytes` of each buffer.
pub fn arrays(job: &Job, bytes: &dyn Fn(&str) -> u64) -> Result<Arrays, SimError> {
    let mut out = Arrays::new();
    for (name, spec) in job.spec.textures.iter().chain(&job.spec.surfaces) {
        let at = |error| placed(error, spec.place, job.spec.source.as_ref());
        let image = image_of(job, name, spec, bytes(&spec.buffer)).map_err(at)?;
        match out.get(&spec.buffer) {
            _ if image.storage != Storage::Array => {}
            Some(other) if *other != image => {
                let message = format!(
                    "`{name}`: buffer `{}` is an array of another size or format already",
                    spec.buffer
                );
                return Err(at(wrong(message)));
            }
            _ => {
                out.insert(spec.buffer.clone(), image);
            }
        }
    }
    for (name, spec) in job.spec.textures.iter().chain(&job.spec.surfaces) {
        if spec.storage != ImageStorage::Array && out.contains_key(&spec.buffer) {
            let message = format!("`{name}`: buffer `{}` is stored as an array", spec.buffer);
            return Err(placed(wrong(message), spec.place, job.spec.source.as_ref()));
        }
    }
    Ok(out)
}

/// Binds the textures and surfaces of a workload; their handles by name.
pub fn bind(
    job: &Job,
    device: &mut Device,
    module: Module,
    buffer: &dyn Fn(&str) -> Option<(u64, u64)>,
) -> Result<BTreeMap<String, u64>, SimError> {
    let mut handles = BTreeMap::new();
    let textures = job.spec.textures.iter().map(|(name, spec)| (name, spec, true));
    let surfaces = job.spec.surfaces.iter().map(|(name, spec)| (name, spec, false));
    for (name, spec, texture) in textures.chain(surfaces) {
        let at = |error| placed(error, spec.place, job.spec.source.as_ref());
        let Some((address, bytes)) = buffer(&spec.buffer) else { continue };
        let image = Image { address, ..image_of(job, name, spec, bytes).map_err(at)? };
        let bound = if texture {
            let sampler = sampler_of(spec).map_err(|why| at(wrong(format!("`{name}`: {why}"))))?;
            Bound::Texture(image, sampler)
        } else {
            Bound::Surface(image)
        };
        if let Some(reference) = &spec.reference {
            let Some((variable, _)) = device.variable(module, reference)? else {
                let message = format!("{} has no variable `{reference}`", job.ptx.name);
                return Err(at(wrong(message)));
            };
            device.context()?.bind(variable, Some(bound.clone()));
        }
        let handle = device.context()?.create_object(bound);
        handles.insert(name.clone(), handle);
    }
    Ok(handles)
}
