//! Arrays, texture and surface objects and texture references of the driver API.

use std::ffi::{c_char, c_void};

use sim_core::texture::{Bound, Channels, Format, Image, Sampler};

use crate::arrays::{self, CUBEMAP, LAYERED, array, copy_box, not_captured};
use crate::driver::modules::variable;
use crate::error::{Error, INVALID_HANDLE, INVALID_VALUE, NOT_SUPPORTED};
use crate::graph::{Extent, Pitched};
use crate::images::{Object, Sampling, TextureReference};
use crate::pointers;
use crate::runtime::State;
use crate::textures::{self, array_image, linear_image, pitched_image};

/// CUDA's `CUDA_ARRAY_DESCRIPTOR`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Flat {
    width: usize,
    height: usize,
    format: i32,
    channels: u32,
}

/// CUDA's `CUDA_ARRAY3D_DESCRIPTOR`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Deep {
    width: usize,
    height: usize,
    depth: usize,
    format: i32,
    channels: u32,
    flags: u32,
}

/// CUDA's `CUDA_RESOURCE_DESC`: a kind, and the fields of that kind.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Resource {
    /// 0 array, 1 mipmapped array, 2 linear memory, 3 pitched memory.
    kind: i32,
    /// An array, or an address.
    at: usize,
    format: i32,
    channels: u32,
    /// Bytes of linear memory; texels of a row of pitched memory.
    width: usize,
    height: usize,
    pitch: usize,
    rest: [u64; 12],
}

/// CUDA's `CUDA_TEXTURE_DESC`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Description {
    address: [i32; 3],
    filter: i32,
    flags: u32,
    anisotropy: u32,
    mip_filter: i32,
    mip_bias: f32,
    mip_clamp: [f32; 2],
    border: [f32; 4],
    rest: [i32; 12],
}

/// The bits of a texture's flags.
const READ_AS_INTEGER: u32 = 1;
const NORMALIZED_COORDINATES: u32 = 2;
const SRGB: u32 = 16;

/// A texel of channels of a type (`CUarray_format`).
fn format(number: i32, channels: u32) -> Result<Format, Error> {
    let channel = u32::try_from(number).ok().and_then(Channels::of_number);
    let count = u8::try_from(channels).ok();
    channel.zip(count).and_then(|(channel, count)| Format::new(channel, count)).ok_or(INVALID_VALUE)
}

/// The number of a type of channels.
fn number(format: Format) -> i32 {
    format.channels.number().cast_signed()
}

fn make(state: &mut State, at: *mut usize, all: Deep, levels: u32, mipmapped: bool) -> Result<(), Error> {
    if at.is_null() {
        return Err(INVALID_VALUE);
    }
    let extent = Extent { width: all.width, height: all.height, depth: all.depth };
    let texel = format(all.format, all.channels)?;
    // Flags beyond those of the runtime API say how the array may be used.
    let flags = all.flags & (LAYERED | 2 | CUBEMAP | 8);
    let handle = arrays::create(state, texel, extent, (levels, flags), mipmapped)?;
    out!(at, handle);
    Ok(())
}

fn told(state: &mut State, handle: usize) -> Result<Deep, Error> {
    let own = array(state, handle)?;
    Ok(Deep {
        width: own.extent.width,
        height: own.extent.height,
        depth: own.extent.depth,
        format: number(own.image.format),
        channels: own.image.format.count.into(),
        flags: own.flags,
    })
}

fn image_of(state: &mut State, resource: &Resource) -> Result<Image, Error> {
    let texel = || format(resource.format, resource.channels);
    match resource.kind {
        0 | 1 => array_image(state, resource.at, resource.kind == 1),
        2 => linear_image(state, resource.at, texel()?, resource.width),
        3 => pitched_image(state, resource.at, texel()?, [resource.width, resource.height, resource.pitch]),
        _ => Err(INVALID_VALUE),
    }
}

impl Description {
    fn sampling(&self) -> Sampling {
        Sampling {
            address: self.address,
            filters: [self.filter, self.mip_filter],
            normalized_float: self.flags & READ_AS_INTEGER == 0,
            normalized: self.flags & NORMALIZED_COORDINATES != 0,
            srgb: self.flags & SRGB != 0,
            border: self.border,
            mip: [self.mip_bias, self.mip_clamp[0], self.mip_clamp[1]],
        }
    }
}

/// Integers of 32 bits are read as they are, whatever the flags say.
fn sampler(mut sampling: Sampling, image: &Image) -> Result<Sampler, Error> {
    if matches!(image.format.channels, Channels::Unsigned(32) | Channels::Signed(32)) {
        sampling.normalized_float = false;
    }
    sampling.of(image)
}

/// Copies bytes between rows of an array, the first from `x` bytes on, and memory.
unsafe fn linear(
    state: &mut State,
    handle: usize,
    x: usize,
    at: u64,
    bytes: usize,
    to_array: bool,
) -> Result<(), Error> {
    let memory = arrays::Side::Memory(Pitched { at: at as usize, pitch: bytes, width: bytes, height: 1 });
    let other = (memory, Extent { width: 0, height: 0, depth: 0 });
    let own = (arrays::Side::Array(handle), Extent { width: x, height: 0, depth: 0 });
    let (to, from) = if to_array { (own, other) } else { (other, own) };
    // SAFETY: the caller's promise.
    unsafe { copy_box(state, to, from, Extent { width: bytes, height: 1, depth: 1 }, 4) }
}

/// What an object was made of.
fn made_of(state: &mut State, handle: u64) -> Result<([u64; 18], Option<[u32; 26]>), Error> {
    match state.runtime()?.images.objects.get(&handle) {
        Some(Object::Driver(resource, description)) => Ok((*resource, *description)),
        _ => Err(INVALID_VALUE),
    }
}

/// Changes a texture reference and binds it anew, behind all that is queued.
fn change(
    state: &mut State,
    handle: usize,
    change: impl FnOnce(&mut State, &mut TextureReference) -> Result<(), Error>,
) -> Result<(), Error> {
    state.synchronize()?;
    let mut reference = state.driver.references.get(&handle).cloned().ok_or(INVALID_HANDLE)?;
    change(state, &mut reference)?;
    if let Some(image) = &reference.image {
        let sampler = sampler(reference.sampling, image)?;
        let bound = Bound::Texture(image.clone(), sampler);
        let device = &mut state.runtime()?.device;
        device.context().map_err(|_| INVALID_VALUE)?.bind(handle as u64, Some(bound));
    }
    state.driver.references.insert(handle, reference);
    Ok(())
}

driver! {
    ENTRIES []

    context cuArrayCreate_v2 = (at: *mut usize, all: *const Flat) |state| {
        // SAFETY: CUDA's manual asks for the structure.
        let Flat { width, height, format, channels } = unsafe { pointers::get(all) }?;
        make(state, at, Deep { width, height, depth: 0, format, channels, flags: 0 }, 1, false)
    }

    context cuArray3DCreate_v2 = (at: *mut usize, all: *const Deep) |state| {
        // SAFETY: CUDA's manual asks for the structure.
        let all = unsafe { pointers::get(all) }?;
        make(state, at, all, 1, false)
    }

    context cuMipmappedArrayCreate = (at: *mut usize, all: *const Deep, levels: u32) |state| {
        // SAFETY: CUDA's manual asks for the structure.
        let all = unsafe { pointers::get(all) }?;
        make(state, at, all, levels, true)
    }

    context cuMipmappedArrayGetLevel = (at: *mut usize, handle: usize, level: u32) |state| {
        let own = arrays::level(state, handle, level)?;
        out!(at, own);
        Ok(())
    }

    context cuArrayDestroy cuMipmappedArrayDestroy = (handle: usize) |state| {
        if handle == 0 { Err(INVALID_HANDLE) } else { arrays::destroy(state, handle) }
    }

    context cuArrayGetDescriptor_v2 = (at: *mut Flat, handle: usize) |state| {
        let Deep { width, height, format, channels, .. } = told(state, handle)?;
        out!(at, Flat { width, height, format, channels });
        Ok(())
    }

    context cuArray3DGetDescriptor_v2 = (at: *mut Deep, handle: usize) |state| {
        out!(at, told(state, handle)?);
        Ok(())
    }

    context cuMemcpyHtoA_v2 cuMemcpyHtoA_v2_ptds = (to: usize, x: usize, from: u64, bytes: usize) |state| {
        // SAFETY: CUDA's manual asks for valid memory.
        unsafe { linear(state, to, x, from, bytes, true) }
    }

    context cuMemcpyHtoAAsync_v2 cuMemcpyHtoAAsync_v2_ptsz = (to: usize, x: usize, from: u64, bytes: usize, stream: *mut c_void) |state| {
        state.runtime()?.streams.find(stream)?;
        not_captured(state, stream)?;
        // SAFETY: CUDA's manual asks for valid memory.
        unsafe { linear(state, to, x, from, bytes, true) }
    }

    context cuMemcpyDtoA_v2 cuMemcpyDtoA_v2_ptds = (to: usize, x: usize, from: u64, bytes: usize) |state| {
        // SAFETY: CUDA's manual asks for valid memory.
        unsafe { linear(state, to, x, from, bytes, true) }
    }

    context cuMemcpyAtoH_v2 cuMemcpyAtoH_v2_ptds = (to: u64, from: usize, x: usize, bytes: usize) |state| {
        // SAFETY: CUDA's manual asks for valid memory.
        unsafe { linear(state, from, x, to, bytes, false) }
    }

    context cuMemcpyAtoHAsync_v2 cuMemcpyAtoHAsync_v2_ptsz = (to: u64, from: usize, x: usize, bytes: usize, stream: *mut c_void) |state| {
        state.runtime()?.streams.find(stream)?;
        not_captured(state, stream)?;
        // SAFETY: CUDA's manual asks for valid memory.
        unsafe { linear(state, from, x, to, bytes, false) }
    }

    context cuMemcpyAtoD_v2 cuMemcpyAtoD_v2_ptds = (to: u64, from: usize, x: usize, bytes: usize) |state| {
        // SAFETY: CUDA's manual asks for valid memory.
        unsafe { linear(state, from, x, to, bytes, false) }
    }

    context cuTexObjectCreate = (at: *mut u64, resource: *const Resource, description: *const Description, view: *const c_void) |state| {
        if !view.is_null() {
            eprintln!("warpsim: cuTexObjectCreate: resource views are not supported");
            return Err(NOT_SUPPORTED);
        }
        // SAFETY: CUDA's manual asks for the structures.
        let (own, sampled) = unsafe { (pointers::get(resource)?, pointers::get(description)?) };
        let image = image_of(state, &own)?;
        let sampler = sampler(sampled.sampling(), &image)?;
        if at.is_null() {
            return Err(INVALID_VALUE);
        }
        // SAFETY: as above; the structures have as many bytes.
        let object = unsafe { Object::Driver(pointers::get(resource.cast())?, Some(pointers::get(description.cast())?)) };
        let handle = textures::create(state, Bound::Texture(image, sampler), object)?;
        out!(at, handle);
        Ok(())
    }

    context cuSurfObjectCreate = (at: *mut u64, resource: *const Resource) |state| {
        // SAFETY: CUDA's manual asks for the structure.
        let own = unsafe { pointers::get(resource) }?;
        if own.kind != 0 || at.is_null() {
            return Err(INVALID_VALUE);
        }
        let image = image_of(state, &own)?;
        // SAFETY: as above; the structure has as many bytes.
        let object = unsafe { Object::Driver(pointers::get(resource.cast())?, None) };
        let handle = textures::create(state, Bound::Surface(image), object)?;
        out!(at, handle);
        Ok(())
    }

    context cuTexObjectGetResourceDesc cuSurfObjectGetResourceDesc = (at: *mut [u64; 18], handle: u64) |state| {
        out!(at, made_of(state, handle)?.0);
        Ok(())
    }

    context cuTexObjectGetTextureDesc = (at: *mut [u32; 26], handle: u64) |state| {
        out!(at, made_of(state, handle)?.1.ok_or(INVALID_VALUE)?);
        Ok(())
    }

    context cuTexObjectDestroy cuSurfObjectDestroy = (handle: u64) |state| { textures::destroy(state, handle) }

    context cuModuleGetTexRef cuModuleGetSurfRef = (at: *mut usize, module: usize, name: *const c_char) |state| {
        // SAFETY: as above.
        let address = unsafe { variable(state, module, name) }?.address as usize;
        state.driver.references.entry(address).or_default();
        out!(at, address);
        Ok(())
    }

    context cuTexRefSetArray = (reference: usize, handle: usize, _flags: u32) |state| {
        change(state, reference, |state, own| {
            let image = array_image(state, handle, false)?;
            (own.format, own.image) = (Some(image.format), Some(image));
            Ok(())
        })
    }

    context cuTexRefSetMipmappedArray = (reference: usize, handle: usize, _flags: u32) |state| {
        change(state, reference, |state, own| {
            let image = array_image(state, handle, true)?;
            (own.format, own.image) = (Some(image.format), Some(image));
            Ok(())
        })
    }

    context cuTexRefSetAddress_v2 = (offset: *mut usize, reference: usize, at: u64, bytes: usize) |state| {
        change(state, reference, |state, own| {
            let format = own.format.ok_or(INVALID_VALUE)?;
            own.image = Some(linear_image(state, at as usize, format, bytes)?);
            Ok(())
        })?;
        if !offset.is_null() {
            out!(offset, 0);
        }
        Ok(())
    }

    context cuTexRefSetAddress2D_v2 cuTexRefSetAddress2D_v3 = (reference: usize, all: *const Flat, at: u64, pitch: usize) |state| {
        // SAFETY: CUDA's manual asks for the structure.
        let all = unsafe { pointers::get(all) }?;
        change(state, reference, |state, own| {
            let format = format(all.format, all.channels)?;
            own.format = Some(format);
            own.image = Some(pitched_image(state, at as usize, format, [all.width, all.height, pitch])?);
            Ok(())
        })
    }

    context cuTexRefSetFormat = (reference: usize, number: i32, channels: i32) |state| {
        change(state, reference, |_, own| {
            own.format = Some(format(number, channels as u32)?);
            Ok(())
        })
    }

    context cuTexRefSetAddressMode = (reference: usize, axis: i32, mode: i32) |state| {
        change(state, reference, |_, own| {
            *own.sampling.address.get_mut(axis as usize).ok_or(INVALID_VALUE)? = mode;
            Ok(())
        })
    }

    context cuTexRefSetFilterMode = (reference: usize, mode: i32) |state| {
        change(state, reference, |_, own| {
            own.sampling.filters[0] = mode;
            Ok(())
        })
    }

    context cuTexRefSetFlags = (reference: usize, flags: u32) |state| {
        change(state, reference, |_, own| {
            own.sampling.normalized_float = flags & READ_AS_INTEGER == 0;
            own.sampling.normalized = flags & NORMALIZED_COORDINATES != 0;
            own.sampling.srgb = flags & SRGB != 0;
            Ok(())
        })
    }

    context cuSurfRefSetArray = (reference: usize, handle: usize, _flags: u32) |state| {
        state.synchronize()?;
        let image = array_image(state, handle, false)?;
        let device = &mut state.runtime()?.device;
        device.context().map_err(|_| INVALID_VALUE)?.bind(reference as u64, Some(Bound::Surface(image)));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn structures_have_the_sizes_of_the_headers() {
        assert_eq!((size_of::<Flat>(), size_of::<Deep>()), (24, 40));
        assert_eq!((size_of::<Resource>(), size_of::<Description>()), (144, 104));
        assert_eq!(std::mem::offset_of!(Resource, width), 24);
    }

    #[test]
    fn formats_have_the_numbers_of_the_headers() {
        for own in [1, 2, 3, 8, 9, 10, 16, 32] {
            assert_eq!(format(own, 4).map(number), Ok(own));
        }
        assert_eq!((format(7, 1), format(1, 3)), (Err(INVALID_VALUE), Err(INVALID_VALUE)));
    }
}
