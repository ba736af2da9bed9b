//! Texture and surface objects, and the references of programs that were compiled before CUDA 12.

use std::collections::BTreeMap;
use std::ffi::{c_char, c_void};
use std::sync::{Mutex, PoisonError};

use sim_core::texture::{Bound, Format, Image};

use crate::arrays::array;
use crate::call::lock;
use crate::error::{Error, INVALID_SYMBOL, INVALID_VALUE, NOT_SUPPORTED};
use crate::images::{ChannelFormat, Description, Object, Resource, Sampling};
use crate::pointers;
use crate::registry::Variable;
use crate::runtime::State;

/// CUDA's `textureReference`, as far as it is looked at.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Reference {
    normalized: i32,
    filter: i32,
    address: [i32; 3],
    format: ChannelFormat,
    srgb: i32,
    anisotropy: u32,
    mip_filter: i32,
    mip_bias: f32,
    mip_clamp: [f32; 2],
}

impl Description {
    fn sampling(&self) -> Result<Sampling, Error> {
        if !(0..=1).contains(&self.read) {
            return Err(INVALID_VALUE);
        }
        Ok(Sampling {
            address: self.address,
            filters: [self.filter, self.mip_filter],
            normalized_float: self.read == 1,
            normalized: self.normalized != 0,
            srgb: self.srgb != 0,
            border: self.border,
            mip: [self.mip_bias, self.mip_clamp[0], self.mip_clamp[1]],
        })
    }
}

/// An array as a texture or surface has it: a level by itself, or all of them.
///
/// # Errors
/// There is no such array.
pub fn array_image(state: &mut State, handle: usize, mipmapped: bool) -> Result<Image, Error> {
    let own = array(state, handle)?;
    if own.mipmapped != mipmapped {
        return Err(INVALID_VALUE);
    }
    if own.level == 0 && own.image.levels == 1 || mipmapped {
        return Ok(own.image);
    }
    // Levels lie one after another, each as an image of its own would.
    let mut image = own.image.clone();
    image.address = own.image.address_of(own.level, 0, 0, 0);
    (image.extent, image.levels) = (own.image.extent.level(own.level), 1);
    Ok(image)
}

/// Linear memory of the device.
///
/// # Errors
/// It is not allocated, or no multiple of the alignment.
pub fn linear_image(state: &mut State, at: usize, format: Format, bytes: usize) -> Result<Image, Error> {
    let width = u32::try_from(bytes / format.bytes() as usize).map_err(|_| INVALID_VALUE)?;
    within(state, at, u64::from(width) * u64::from(format.bytes()))?;
    if width == 0 || !at.is_multiple_of(format.bytes() as usize) {
        return Err(INVALID_VALUE);
    }
    Ok(Image::buffer(at as u64, format, width))
}

/// Pitched memory of the device.
///
/// # Errors
/// As [`linear_image`].
pub fn pitched_image(
    state: &mut State,
    at: usize,
    format: Format,
    [width, height, pitch]: [usize; 3],
) -> Result<Image, Error> {
    let number = |n: usize| u32::try_from(n).ok().filter(|n| (1..=1 << 20).contains(n)).ok_or(INVALID_VALUE);
    let texel = format.bytes() as usize;
    if width.checked_mul(texel).is_none_or(|row| row > pitch)
        || !at.is_multiple_of(texel)
        || !pitch.is_multiple_of(texel)
        || pitch > 1 << 30
    {
        return Err(INVALID_VALUE);
    }
    let image = Image::pitched(at as u64, format, number(width)?, number(height)?, pitch as u64);
    // The last row need not have its whole pitch.
    within(state, at, image.bytes() - (pitch - width * texel) as u64)?;
    Ok(image)
}

fn within(state: &mut State, at: usize, bytes: u64) -> Result<(), Error> {
    let found = state.runtime()?.device.allocation(at as u64, bytes.max(1));
    found.map(drop).ok_or(INVALID_VALUE)
}

fn image_of(state: &mut State, resource: &Resource) -> Result<Image, Error> {
    match resource.kind {
        0 | 1 => array_image(state, resource.at, resource.kind == 1),
        2 => linear_image(state, resource.at, resource.format.format()?, resource.width),
        3 => {
            let size = [resource.width, resource.height, resource.pitch];
            pitched_image(state, resource.at, resource.format.format()?, size)
        }
        _ => Err(INVALID_VALUE),
    }
}

/// Makes an object behind all that is queued; its handle.
///
/// # Errors
/// There is no device.
pub fn create(state: &mut State, bound: Bound, object: Object) -> Result<u64, Error> {
    let runtime = state.runtime()?;
    let handle = runtime.device.context().map_err(|_| INVALID_VALUE)?.create_object(bound);
    runtime.images.objects.insert(handle, object);
    Ok(handle)
}

/// Forgets an object behind all that is queued.
///
/// # Errors
/// There is none.
pub fn destroy(state: &mut State, handle: u64) -> Result<(), Error> {
    state.synchronize()?;
    let runtime = state.runtime()?;
    runtime.images.objects.remove(&handle).ok_or(INVALID_VALUE)?;
    runtime.device.context().map_err(|_| INVALID_VALUE)?.bind(handle, None);
    Ok(())
}

fn object(state: &mut State, handle: u64) -> Result<(Resource, Option<Description>), Error> {
    match state.runtime()?.images.objects.get(&handle) {
        Some(Object::Runtime(resource, description)) => Ok((*resource, *description)),
        _ => Err(INVALID_VALUE),
    }
}

/// References whose integers are read as normalized numbers, by the address of their stand-in.
static NORMALIZED: Mutex<BTreeMap<usize, bool>> = Mutex::new(BTreeMap::new());

fn register(handle: *mut *mut c_void, stand_in: usize, name: *const c_char, normalized: bool) {
    // SAFETY: what nvcc's code passes is a text.
    let Ok(name) = (unsafe { pointers::text(name) }) else { return };
    NORMALIZED.lock().unwrap_or_else(PoisonError::into_inner).insert(stand_in, normalized);
    let variable = Variable { binary: (handle as usize).wrapping_sub(1), name, managed: None };
    lock().registry.variables.push((stand_in, variable));
}

/// Registers a texture reference.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __cudaRegisterTexture(
    handle: *mut *mut c_void,
    stand_in: *const c_void,
    _device_address: *const *const c_void,
    name: *const c_char,
    _dimensions: i32,
    normalized: i32,
    _external: i32,
) {
    register(handle, stand_in as usize, name, normalized != 0);
}

/// Registers a surface reference.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __cudaRegisterSurface(
    handle: *mut *mut c_void,
    stand_in: *const c_void,
    _device_address: *const *const c_void,
    name: *const c_char,
    _dimensions: i32,
    _external: i32,
) {
    register(handle, stand_in as usize, name, false);
}

/// Binds the variable that a reference stands for, behind all that is queued.
fn bind(state: &mut State, stand_in: *const c_void, bound: Option<Bound>) -> Result<(), Error> {
    state.synchronize()?;
    let variable = state.registry.variable(stand_in)?.clone();
    let module = state.module(variable.binary)?;
    let runtime = state.runtime()?;
    let symbol = runtime.device.symbol(module, &variable.name).ok_or(INVALID_SYMBOL)?;
    runtime.device.context().map_err(|_| INVALID_VALUE)?.bind(symbol.address, bound);
    Ok(())
}

/// Binds a texture reference with what the program says in it.
unsafe fn bind_texture(state: &mut State, reference: *const Reference, image: Image) -> Result<(), Error> {
    // Only what is registered is looked at.
    state.registry.variable(reference.cast())?;
    // SAFETY: CUDA's manual asks for a reference.
    let own = unsafe { pointers::get(reference) }?;
    let normalized_float = NORMALIZED.lock().unwrap_or_else(PoisonError::into_inner);
    let normalized_float = normalized_float.get(&(reference as usize)).copied().unwrap_or(false);
    let sampling = Sampling {
        address: own.address,
        filters: [own.filter, own.mip_filter],
        normalized_float,
        normalized: own.normalized != 0,
        srgb: own.srgb != 0,
        border: [0.0; 4],
        mip: [own.mip_bias, own.mip_clamp[0], own.mip_clamp[1]],
    };
    let sampler = sampling.of(&image)?;
    bind(state, reference.cast(), Some(Bound::Texture(image, sampler)))
}

cuda! {
    fn cudaCreateTextureObject cudaCreateTextureObject_v2 = (
        at: *mut u64, resource: *const Resource, description: *const Description, view: *const c_void
    ) |state| {
        if !view.is_null() {
            eprintln!("warpsim: cudaCreateTextureObject: resource views are not supported");
            return Err(NOT_SUPPORTED);
        }
        // SAFETY: CUDA's manual asks for the structures.
        let (resource, description) = unsafe { (pointers::get(resource)?, pointers::get(description)?) };
        let image = image_of(state, &resource)?;
        let sampler = description.sampling()?.of(&image)?;
        if at.is_null() {
            return Err(INVALID_VALUE);
        }
        let handle = create(state, Bound::Texture(image, sampler), Object::Runtime(resource, Some(description)))?;
        out!(at, handle);
        Ok(())
    }

    fn cudaCreateSurfaceObject = (at: *mut u64, resource: *const Resource) |state| {
        // SAFETY: CUDA's manual asks for the structure.
        let resource = unsafe { pointers::get(resource) }?;
        if resource.kind != 0 || at.is_null() {
            return Err(INVALID_VALUE);
        }
        let image = image_of(state, &resource)?;
        let handle = create(state, Bound::Surface(image), Object::Runtime(resource, None))?;
        out!(at, handle);
        Ok(())
    }

    fn cudaDestroyTextureObject cudaDestroySurfaceObject = (handle: u64) |state| { destroy(state, handle) }

    fn cudaGetTextureObjectResourceDesc cudaGetSurfaceObjectResourceDesc = (at: *mut Resource, handle: u64) |state| {
        out!(at, object(state, handle)?.0);
        Ok(())
    }

    fn cudaGetTextureObjectTextureDesc cudaGetTextureObjectTextureDesc_v2 = (at: *mut Description, handle: u64) |state| {
        out!(at, object(state, handle)?.1.ok_or(INVALID_VALUE)?);
        Ok(())
    }

    fn cudaBindTexture = (
        offset: *mut usize, reference: *const Reference, memory: usize, format: *const ChannelFormat, bytes: usize
    ) |state| {
        // SAFETY: CUDA's manual asks for the structure.
        let format = unsafe { pointers::get(format) }?.format()?;
        let (begin, size) = state.runtime()?.device.allocation(memory as u64, 1).ok_or(INVALID_VALUE)?;
        // The size may be left out, which makes it the greatest number.
        let most = (begin + size - memory as u64) as usize;
        let image = linear_image(state, memory, format, bytes.min(most))?;
        // SAFETY: CUDA's manual asks for a reference.
        unsafe { bind_texture(state, reference, image) }?;
        if !offset.is_null() {
            out!(offset, 0);
        }
        Ok(())
    }

    fn cudaBindTexture2D = (
        offset: *mut usize, reference: *const Reference, memory: usize, format: *const ChannelFormat, width: usize,
        height: usize, pitch: usize
    ) |state| {
        // SAFETY: CUDA's manual asks for the structure.
        let format = unsafe { pointers::get(format) }?.format()?;
        let image = pitched_image(state, memory, format, [width, height, pitch])?;
        // SAFETY: CUDA's manual asks for a reference.
        unsafe { bind_texture(state, reference, image) }?;
        if !offset.is_null() {
            out!(offset, 0);
        }
        Ok(())
    }

    fn cudaBindTextureToArray = (reference: *const Reference, handle: usize, _format: *const ChannelFormat) |state| {
        let image = array_image(state, handle, false)?;
        // SAFETY: CUDA's manual asks for a reference.
        unsafe { bind_texture(state, reference, image) }
    }

    fn cudaBindTextureToMipmappedArray = (reference: *const Reference, handle: usize, _format: *const ChannelFormat) |state| {
        let image = array_image(state, handle, true)?;
        // SAFETY: CUDA's manual asks for a reference.
        unsafe { bind_texture(state, reference, image) }
    }

    fn cudaUnbindTexture = (reference: *const Reference) |state| { bind(state, reference.cast(), None) }

    fn cudaBindSurfaceToArray = (reference: *const c_void, handle: usize, _format: *const ChannelFormat) |state| {
        let image = array_image(state, handle, false)?;
        bind(state, reference, Some(Bound::Surface(image)))
    }

    fn cudaGetTextureAlignmentOffset = (offset: *mut usize, reference: *const Reference) |state| {
        state.registry.variable(reference.cast())?;
        out!(offset, 0);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn structures_have_the_sizes_of_the_headers() {
        assert_eq!((size_of::<Resource>(), size_of::<Description>()), (64, 72));
        assert_eq!(std::mem::offset_of!(Resource, width), 40);
        assert_eq!(std::mem::offset_of!(Reference, srgb), 40);
    }
}
