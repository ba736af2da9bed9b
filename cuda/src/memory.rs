//! Device memory, shared memory, copies and fills. Copies happen at the call, behind all that is queued.

use std::ffi::c_void;

use sim_core::error::SimError;
use sim_memory::address_space::{GLOBAL_BASE, WINDOWS};

use crate::error::{
    ALREADY_REGISTERED, Error, INVALID_DIRECTION, INVALID_HANDLE, INVALID_PITCH, INVALID_VALUE,
    MEMORY_ALLOCATION, NOT_REGISTERED,
};
use crate::graph::{Copy3D, Extent, Fill, Pitched, Work};
use crate::one_device::{Runtime as Loaded, known, loaded};
use crate::pointers;
use crate::runtime::{Runtime, State};
use crate::shared::{Kind, PAGE};

/// Where bytes are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// The host's own memory.
    Host,
    /// Memory of both; the host's bytes count between runs.
    Shared,
    /// Device memory.
    Device,
}

/// What `cudaMallocPitch` rounds rows up to.
pub const PITCH: usize = 512;

impl Runtime {
    /// Where the `bytes` bytes from an address on are.
    ///
    /// # Errors
    /// They belong to the device and are not all allocated.
    pub fn place(&mut self, address: u64, bytes: u64) -> Result<Place, Error> {
        if let Some((at, size, _)) = self.shared.find(address) {
            return if address - at + bytes <= size { Ok(Place::Shared) } else { Err(INVALID_VALUE) };
        }
        let global = GLOBAL_BASE..GLOBAL_BASE + self.device.chip().limits.global_mem_size;
        let reserved = self.virtual_memory.holds(address);
        if !reserved && !global.contains(&address) && !WINDOWS.contains(&address) {
            return Ok(Place::Host);
        }
        match self.device.allocation(address, bytes.max(1)) {
            Some(_) => Ok(Place::Device),
            None if self.virtual_memory.is_mapped(address, bytes.max(1)) => Ok(Place::Device),
            // What the program has mapped there itself is its own where the addresses are not reserved.
            None if !reserved && !self.shared.is_reserved() => Ok(Place::Host),
            None => Err(INVALID_VALUE),
        }
    }
}

/// The parts of `bytes` bytes at an address that lie in one allocation each: where they begin in the bytes, and how many
/// they are. Only virtual memory has several.
fn parts(runtime: &mut Runtime, address: u64, bytes: usize) -> Vec<(usize, usize)> {
    let mut all = Vec::new();
    let mut done = 0;
    while done < bytes {
        let at = address + done as u64;
        let inside = runtime.device.allocation(at, 1).map_or(u64::MAX, |(begin, size)| begin + size - at);
        let size = (bytes - done).min(usize::try_from(inside).unwrap_or(usize::MAX));
        all.push((done, size));
        done += size;
    }
    all
}

impl Runtime {
    /// Copies device memory to the host.
    ///
    /// # Errors
    /// It is not allocated.
    pub fn read(&mut self, address: u64, bytes: &mut [u8]) -> Result<(), SimError> {
        if !self.virtual_memory.holds(address) {
            return self.device.read(address, bytes);
        }
        for (begin, size) in parts(self, address, bytes.len()) {
            self.device.read(address + begin as u64, &mut bytes[begin..begin + size])?;
        }
        Ok(())
    }

    /// Copies to device memory.
    ///
    /// # Errors
    /// It is not allocated.
    pub fn write(&mut self, address: u64, bytes: &[u8]) -> Result<(), SimError> {
        if !self.virtual_memory.holds(address) {
            return self.device.write(address, bytes);
        }
        for (begin, size) in parts(self, address, bytes.len()) {
            self.device.write(address + begin as u64, &bytes[begin..begin + size])?;
        }
        Ok(())
    }
}

/// Directions of copies as CUDA numbers them.
fn direction_fits(kind: i32, to: Place, from: Place) -> Result<bool, Error> {
    let (host_to, host_from) = (to != Place::Device, from != Place::Device);
    let (device_to, device_from) = (to != Place::Host, from != Place::Host);
    Ok(match kind {
        0 => host_to && host_from,
        1 => device_to && host_from,
        2 => host_to && device_from,
        3 => device_to && device_from,
        4 => true,
        _ => return Err(INVALID_DIRECTION),
    })
}

/// Copies bytes behind all that is queued.
///
/// # Errors
/// What the addresses are does not fit the direction, or they are not allocated.
///
/// # Safety
/// Addresses of the host must be valid for the copy.
pub unsafe fn copy(state: &mut State, to: u64, from: u64, bytes: usize, kind: i32) -> Result<(), Error> {
    state.synchronize()?;
    let runtime = state.runtime()?;
    if bytes == 0 {
        return Ok(());
    }
    if to == 0 || from == 0 {
        return Err(INVALID_VALUE);
    }
    let (to, from) = (runtime.shared.host_side(to), runtime.shared.host_side(from));
    let places = (runtime.place(to, bytes as u64)?, runtime.place(from, bytes as u64)?);
    if !direction_fits(kind, places.0, places.1)? {
        return Err(INVALID_VALUE);
    }
    let wrong = |_| INVALID_VALUE;
    match places {
        (Place::Device, Place::Device) => {
            let mut all = vec![0; bytes];
            runtime.read(from, &mut all).map_err(wrong)?;
            runtime.write(to, &all).map_err(wrong)
        }
        (Place::Device, _) => {
            // SAFETY: the caller's promise for the host's own memory; shared memory is accessible.
            let from = unsafe { pointers::bytes(from as *const u8, bytes) };
            runtime.write(to, from).map_err(wrong)
        }
        (_, Place::Device) => {
            // SAFETY: as above.
            let to = unsafe { pointers::bytes_mut(to as *mut u8, bytes) };
            runtime.read(from, to).map_err(wrong)
        }
        _ => {
            // SAFETY: as above; source and destination may overlap.
            unsafe { std::ptr::copy(from as *const u8, to as *mut u8, bytes) };
            Ok(())
        }
    }
}

/// Copies rows.
///
/// # Errors
/// As [`copy`], or a row is longer than a pitch.
///
/// # Safety
/// Addresses of the host must be valid for the copy.
pub unsafe fn copy_rows(
    state: &mut State,
    (to, to_pitch): (u64, usize),
    (from, from_pitch): (u64, usize),
    (width, height): (usize, usize),
    kind: i32,
) -> Result<(), Error> {
    if width > to_pitch || width > from_pitch {
        return Err(INVALID_PITCH);
    }
    for row in 0..height as u64 {
        // SAFETY: the caller's promise.
        unsafe { copy(state, to + row * to_pitch as u64, from + row * from_pitch as u64, width, kind) }?;
    }
    Ok(())
}

/// The copy of rows as that of a box.
pub fn rows(
    (to, to_pitch): (usize, usize),
    (from, from_pitch): (usize, usize),
    (width, height): (usize, usize),
    kind: i32,
) -> Copy3D {
    let none = Extent { width: 0, height: 0, depth: 0 };
    let side = |at, pitch| Pitched { at, pitch, width, height };
    Copy3D {
        from_array: 0,
        from_position: none,
        from: side(from, from_pitch),
        to_array: 0,
        to_position: none,
        to: side(to, to_pitch),
        extent: Extent { width, height, depth: 1 },
        kind,
    }
}

fn fill(state: &mut State, at: u64, value: i32, bytes: usize) -> Result<(), Error> {
    state.synchronize()?;
    let runtime = state.runtime()?;
    if bytes == 0 {
        return Ok(());
    }
    let at = runtime.shared.host_side(at);
    let registered = runtime.shared.device_side(at).is_some();
    match runtime.place(at, bytes as u64)? {
        Place::Host if !registered => Err(INVALID_VALUE),
        Place::Host | Place::Shared => {
            // SAFETY: shared memory is accessible.
            unsafe { pointers::bytes_mut(at as *mut u8, bytes) }.fill(value as u8);
            Ok(())
        }
        Place::Device => runtime.write(at, &vec![value as u8; bytes]).map_err(|_| INVALID_VALUE),
    }
}

/// The device's address of pinned or registered memory of the host.
///
/// # Errors
/// It is neither.
pub fn of_host(state: &mut State, at: u64) -> Result<u64, Error> {
    let shared = &state.runtime()?.shared;
    shared.find(at).map(|_| at).or_else(|| shared.device_side(at)).ok_or(INVALID_VALUE)
}

/// Registers memory of the host.
///
/// # Errors
/// It is registered or pinned already, or there is no room.
///
/// # Safety
/// It must stay until it is unregistered.
pub unsafe fn register(state: &mut State, at: u64, bytes: u64) -> Result<(), Error> {
    if at == 0 || bytes == 0 {
        return Err(INVALID_VALUE);
    }
    if of_host(state, at).is_ok() {
        return Err(ALREADY_REGISTERED);
    }
    let runtime = state.runtime()?;
    let own = runtime.device.malloc("registered memory", bytes, PAGE).map_err(|_| MEMORY_ALLOCATION)?;
    // SAFETY: the caller's promise.
    unsafe { runtime.shared.register(&mut runtime.device, own, at, bytes) }?;
    runtime.registered.insert(at as usize, own);
    Ok(())
}

/// Ends the registration of memory of the host.
///
/// # Errors
/// None begins there.
pub fn unregister(state: &mut State, at: u64) -> Result<(), Error> {
    state.synchronize()?;
    let runtime = state.runtime()?;
    let own = runtime.registered.remove(&(at as usize)).ok_or(NOT_REGISTERED)?;
    runtime.shared.end(own);
    runtime.device.free(own, PAGE).map_err(|_| INVALID_VALUE)
}

/// Allocates device memory.
///
/// # Errors
/// Too little is left.
pub fn allocate(state: &mut State, at: *mut *mut c_void, bytes: usize) -> Result<(), Error> {
    if at.is_null() {
        return Err(INVALID_VALUE);
    }
    let runtime = state.runtime()?;
    let address = match bytes {
        0 => 0,
        _ => runtime.device.malloc("cudaMalloc", bytes as u64, 1).map_err(|_| MEMORY_ALLOCATION)?,
    };
    out!(at, address as *mut c_void);
    Ok(())
}

/// Allocates memory of both.
///
/// # Errors
/// Too little is left, or the host has no room at these addresses.
pub fn allocate_shared(
    state: &mut State,
    at: *mut *mut c_void,
    bytes: usize,
    kind: Kind,
) -> Result<(), Error> {
    if at.is_null() {
        return Err(INVALID_VALUE);
    }
    if bytes == 0 {
        out!(at, std::ptr::null_mut());
        return if kind == Kind::Managed { Err(INVALID_VALUE) } else { Ok(()) };
    }
    let runtime = state.runtime()?;
    let name = if kind == Kind::Managed { "cudaMallocManaged" } else { "cudaHostAlloc" };
    let address = runtime.device.malloc(name, bytes as u64, PAGE).map_err(|_| MEMORY_ALLOCATION)?;
    runtime.shared.share(&mut runtime.device, address, bytes as u64, kind)?;
    out!(at, address as *mut c_void);
    Ok(())
}

/// Frees what was allocated; pinned memory as memory of the host.
///
/// # Errors
/// Nothing of the kind begins there.
pub fn free(state: &mut State, at: *mut c_void, of_host: bool) -> Result<(), Error> {
    state.synchronize()?;
    let runtime = state.runtime()?;
    let at = at as u64;
    if at == 0 {
        return Ok(());
    }
    if runtime.graph_memory.has(at) && !of_host {
        runtime.graph_memory.release(at)?;
        return state.sweep();
    }
    if runtime.virtual_memory.holds(at) {
        return Err(INVALID_VALUE);
    }
    match runtime.shared.find(at) {
        Some((begin, _, kind)) => {
            if begin != at
                || matches!(kind, Kind::Variable | Kind::Registered)
                || of_host != (kind == Kind::Pinned)
            {
                return Err(INVALID_VALUE);
            }
            let bytes = runtime.shared.find(at).map_or(0, |(_, bytes, _)| bytes);
            runtime.advice.forget(at, bytes);
            runtime.shared.end(at);
            runtime.device.free(at, PAGE).map_err(|_| INVALID_VALUE)
        }
        None if of_host => Err(INVALID_VALUE),
        None => {
            runtime.device.free(at, 1).map_err(|_| INVALID_VALUE)?;
            runtime.pools.freed(at);
            Ok(())
        }
    }
}

/// Fills rows with elements.
///
/// # Errors
/// They are not allocated, or an element has another size than 1, 2 or 4 bytes.
pub fn fill_rows(state: &mut State, all: &Fill) -> Result<(), Error> {
    let pattern = all.value.to_le_bytes();
    let pattern = pattern
        .get(..all.element as usize)
        .filter(|own| [1, 2, 4].contains(&own.len()))
        .ok_or(INVALID_VALUE)?;
    for row in 0..all.height {
        let at = (all.at + row * all.pitch) as u64;
        if let [byte] = pattern {
            fill(state, at, i32::from(*byte), all.width)?;
            continue;
        }
        state.synchronize()?;
        let bytes = pattern.repeat(all.width);
        let runtime = state.runtime()?;
        match runtime.place(at, bytes.len() as u64)? {
            Place::Host => return Err(INVALID_VALUE),
            // SAFETY: shared memory is accessible.
            Place::Shared => {
                unsafe { pointers::bytes_mut(at as *mut u8, bytes.len()) }.copy_from_slice(&bytes)
            }
            Place::Device => runtime.write(at, &bytes).map_err(|_| INVALID_VALUE)?,
        }
    }
    Ok(())
}

/// `cudaMemcpyDefault`: the addresses say the direction.
pub const ANY: i32 = 4;

/// Copies behind what a stream was given, or captures the copy.
///
/// # Errors
/// As [`copy`], or there is no such stream.
///
/// # Safety
/// As [`copy`], also when a captured copy runs.
pub unsafe fn copy_on(
    state: &mut State,
    (to, from): (u64, u64),
    bytes: usize,
    kind: i32,
    stream: *mut c_void,
) -> Result<(), Error> {
    state.runtime()?.streams.find(stream)?;
    if state.captured(stream, || Work::Copy(to as usize, from as usize, bytes, kind)) {
        return Ok(());
    }
    // SAFETY: the caller's promise.
    unsafe { copy(state, to, from, bytes, kind) }
}

/// Several copies, one after another.
///
/// # Errors
/// As [`copy_on`].
///
/// # Safety
/// As [`copy_on`]; the lists must have as many as `count` says.
pub unsafe fn copy_batch(
    state: &mut State,
    (to, from): (*const u64, *const u64),
    bytes: *const usize,
    count: usize,
    stream: *mut c_void,
) -> Result<(), Error> {
    for i in 0..count {
        // SAFETY: the caller's promise.
        unsafe {
            let pair = (pointers::get(to.wrapping_add(i))?, pointers::get(from.wrapping_add(i))?);
            copy_on(state, pair, pointers::get(bytes.wrapping_add(i))?, ANY, stream)?;
        }
    }
    Ok(())
}

/// The fills of the planes of a box.
fn planes(at: Pitched, value: i32, extent: Extent) -> Result<Vec<Fill>, Error> {
    let rows = at.height.max(extent.height);
    if extent.width > at.pitch {
        return Err(INVALID_PITCH);
    }
    let plane = |z: usize| {
        let begin = z.checked_mul(rows)?.checked_mul(at.pitch)?.checked_add(at.at)?;
        let (width, height) = (extent.width, extent.height);
        Some(Fill { at: begin, pitch: at.pitch, value: value as u32 & 0xff, element: 1, width, height })
    };
    (0..extent.depth).map(|z| plane(z).ok_or(INVALID_VALUE)).collect()
}

/// CUDA's `cudaPointerAttributes`, as far as every version has it.
#[repr(C)]
pub struct PointerAttributes {
    kind: i32,
    device: i32,
    device_pointer: *mut c_void,
    host_pointer: *mut c_void,
}

cuda! {
    fn cudaMalloc = (at: *mut *mut c_void, bytes: usize) |state| { allocate(state, at, bytes) }

    fn cudaFree = (at: *mut c_void) |state| { free(state, at, false) }

    fn cudaMallocHost = (at: *mut *mut c_void, bytes: usize) |state| { allocate_shared(state, at, bytes, Kind::Pinned) }

    fn cudaHostAlloc = (at: *mut *mut c_void, bytes: usize, flags: u32) |state| {
        if flags > 7 {
            return Err(INVALID_VALUE);
        }
        allocate_shared(state, at, bytes, Kind::Pinned)
    }

    fn cudaMallocManaged = (at: *mut *mut c_void, bytes: usize, flags: u32) |state| {
        if !(1..=2).contains(&flags) {
            return Err(INVALID_VALUE);
        }
        allocate_shared(state, at, bytes, Kind::Managed)
    }

    fn cudaFreeHost = (at: *mut c_void) |state| { free(state, at, true) }

    fn cudaHostGetDevicePointer = (device: *mut *mut c_void, host: *mut c_void, _flags: u32) |state| {
        out!(device, of_host(state, host as u64)? as *mut c_void);
        Ok(())
    }

    fn cudaHostGetFlags = (flags: *mut u32, host: *mut c_void) |state| {
        of_host(state, host as u64)?;
        out!(flags, 2);
        Ok(())
    }

    fn cudaHostRegister = (at: *mut c_void, bytes: usize, _flags: u32) |state| {
        // SAFETY: CUDA's manual asks for memory of the host that stays until it is unregistered.
        unsafe { register(state, at as u64, bytes as u64) }
    }

    fn cudaHostUnregister = (at: *mut c_void) |state| { unregister(state, at as u64) }

    fn cudaMallocPitch = (at: *mut *mut c_void, pitch: *mut usize, width: usize, height: usize) |state| {
        let row = width.checked_next_multiple_of(PITCH).ok_or(INVALID_VALUE)?;
        allocate(state, at, row.checked_mul(height).ok_or(INVALID_VALUE)?)?;
        out!(pitch, row);
        Ok(())
    }

    fn cudaMalloc3D = (at: *mut Pitched, extent: Extent) |state| {
        let pitch = extent.width.checked_next_multiple_of(PITCH).ok_or(INVALID_VALUE)?;
        let bytes = pitch.checked_mul(extent.height).and_then(|rows| rows.checked_mul(extent.depth));
        let mut memory = std::ptr::null_mut();
        allocate(state, &raw mut memory, bytes.ok_or(INVALID_VALUE)?)?;
        out!(at, Pitched { at: memory as usize, pitch, width: extent.width, height: extent.height });
        Ok(())
    }

    fn cudaMemcpy cudaMemcpy_ptds = (to: *mut c_void, from: *const c_void, bytes: usize, kind: i32) |state| {
        // SAFETY: CUDA's manual asks for valid memory.
        unsafe { copy(state, to as u64, from as u64, bytes, kind) }
    }

    fn cudaMemcpyAsync cudaMemcpyAsync_ptsz = (to: *mut c_void, from: *const c_void, bytes: usize, kind: i32, stream: *mut c_void) |state| {
        state.runtime()?.streams.find(stream)?;
        if state.captured(stream, || Work::Copy(to as usize, from as usize, bytes, kind)) {
            return Ok(());
        }
        // SAFETY: CUDA's manual asks for valid memory.
        unsafe { copy(state, to as u64, from as u64, bytes, kind) }
    }

    fn cudaMemcpyPeer = (to: *mut c_void, to_device: i32, from: *const c_void, from_device: i32, bytes: usize) |state| {
        if to_device != 0 || from_device != 0 {
            return Err(crate::error::INVALID_DEVICE);
        }
        // SAFETY: CUDA's manual asks for valid memory.
        unsafe { copy(state, to as u64, from as u64, bytes, 3) }
    }

    fn cudaMemcpyPeerAsync cudaMemcpyPeerAsync_ptsz = (
        to: *mut c_void, to_device: i32, from: *const c_void, from_device: i32, bytes: usize, stream: *mut c_void
    ) |state| {
        known(to_device)?;
        known(from_device)?;
        // SAFETY: CUDA's manual asks for valid memory.
        unsafe { copy_on(state, (to as u64, from as u64), bytes, 3, stream) }
    }

    fn cudaMemcpyWithAttributesAsync cudaMemcpyWithAttributesAsync_ptsz = (
        to: *mut c_void, from: *const c_void, bytes: usize, _attributes: *const c_void, stream: *mut c_void
    ) |state| {
        // Attributes say when the source is read and where managed memory lies: a copy happens at the call.
        // SAFETY: CUDA's manual asks for valid memory.
        unsafe { copy_on(state, (to as u64, from as u64), bytes, ANY, stream) }
    }

    fn cudaMemcpyBatchAsync cudaMemcpyBatchAsync_ptsz = (
        to: *const u64, from: *const u64, bytes: *const usize, count: usize, _attributes: *const c_void,
        _places: *const usize, _kinds: usize, last: usize, stream: *mut c_void
    ) |state| {
        // CUDA 12 has a place for the copy that went wrong before the stream.
        let stream = if loaded(Loaded::Thirteen) { last as *mut c_void } else { stream };
        // SAFETY: CUDA's manual asks for as many of each, and for valid memory.
        unsafe { copy_batch(state, (to, from), bytes, count, stream) }
    }

    fn cudaMemset3D cudaMemset3D_ptds = (at: Pitched, value: i32, extent: Extent) |state| {
        planes(at, value, extent)?.iter().try_for_each(|plane| fill_rows(state, plane))
    }

    fn cudaMemset3DAsync cudaMemset3DAsync_ptsz = (at: Pitched, value: i32, extent: Extent, stream: *mut c_void) |state| {
        state.runtime()?.streams.find(stream)?;
        for plane in planes(at, value, extent)? {
            if !state.captured(stream, || Work::Fill(plane)) {
                fill_rows(state, &plane)?;
            }
        }
        Ok(())
    }

    fn cudaMemcpy2D cudaMemcpy2D_ptds = (
        to: *mut c_void, to_pitch: usize, from: *const c_void, from_pitch: usize, width: usize, height: usize, kind: i32
    ) |state| {
        // SAFETY: CUDA's manual asks for valid memory.
        unsafe { copy_rows(state, (to as u64, to_pitch), (from as u64, from_pitch), (width, height), kind) }
    }

    fn cudaMemcpy2DAsync cudaMemcpy2DAsync_ptsz = (
        to: *mut c_void, to_pitch: usize, from: *const c_void, from_pitch: usize, width: usize, height: usize, kind: i32,
        stream: *mut c_void
    ) |state| {
        state.runtime()?.streams.find(stream)?;
        if state.is_captured(stream) {
            if width > to_pitch || width > from_pitch {
                return Err(INVALID_PITCH);
            }
            let all = rows((to as usize, to_pitch), (from as usize, from_pitch), (width, height), kind);
            state.captured(stream, || Work::Copy3D(all));
            return Ok(());
        }
        // SAFETY: CUDA's manual asks for valid memory.
        unsafe { copy_rows(state, (to as u64, to_pitch), (from as u64, from_pitch), (width, height), kind) }
    }

    fn cudaMemset cudaMemset_ptds = (at: *mut c_void, value: i32, bytes: usize) |state| {
        fill(state, at as u64, value, bytes)
    }

    fn cudaMemsetAsync cudaMemsetAsync_ptsz = (at: *mut c_void, value: i32, bytes: usize, stream: *mut c_void) |state| {
        state.runtime()?.streams.find(stream)?;
        let (element, value) = (1, value as u32);
        let own = Fill { at: at as usize, pitch: bytes, value, element, width: bytes, height: 1 };
        if state.captured(stream, || Work::Fill(own)) {
            return Ok(());
        }
        fill_rows(state, &own)
    }

    fn cudaMemset2D cudaMemset2D_ptds = (at: *mut c_void, pitch: usize, value: i32, width: usize, height: usize) |state| {
        (0..height).try_for_each(|row| fill(state, at as u64 + (row * pitch) as u64, value, width))
    }

    fn cudaMemset2DAsync cudaMemset2DAsync_ptsz = (
        at: *mut c_void, pitch: usize, value: i32, width: usize, height: usize, stream: *mut c_void
    ) |state| {
        state.runtime()?.streams.find(stream)?;
        let all = Fill { at: at as usize, pitch, value: value as u32 & 0xff, element: 1, width, height };
        if state.captured(stream, || Work::Fill(all)) {
            return Ok(());
        }
        fill_rows(state, &all)
    }

    fn cudaMemGetInfo = (free: *mut usize, total: *mut usize) |state| {
        let device = &mut state.runtime()?.device;
        let bytes = device.free_bytes().map_err(|_| INVALID_HANDLE)?;
        out!(total, device.chip().limits.global_mem_size as usize);
        out!(free, bytes.saturating_sub(state.runtime()?.virtual_memory.unmapped()) as usize);
        Ok(())
    }

    fn cudaPointerGetAttributes = (attributes: *mut PointerAttributes, at: *const c_void) |state| {
        let runtime = state.runtime()?;
        let at = at.cast_mut();
        let found = runtime.shared.find(at as u64).map(|(_, _, kind)| kind);
        if found == Some(Kind::Registered) || runtime.shared.device_side(at as u64).is_some() {
            let host = runtime.shared.host_side(at as u64);
            let device = runtime.shared.device_side(host).unwrap_or_default();
            let (device_pointer, host_pointer) = (device as *mut c_void, host as *mut c_void);
            out!(attributes, PointerAttributes { kind: 1, device: 0, device_pointer, host_pointer });
            return Ok(());
        }
        let kind = match found {
            Some(Kind::Pinned) => 1,
            Some(_) => 3,
            None if runtime.place(at as u64, 1) == Ok(Place::Device) => 2,
            None => 0,
        };
        let device_pointer = if kind == 0 { std::ptr::null_mut() } else { at };
        let host_pointer = if kind == 2 { std::ptr::null_mut() } else { at };
        let device = if kind == 0 { -2 } else { 0 };
        out!(attributes, PointerAttributes { kind, device, device_pointer, host_pointer });
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directions_follow_where_the_bytes_are() {
        use Place::{Device, Host, Shared};
        for (kind, to, from) in [(0, Host, Host), (1, Device, Host), (2, Host, Device), (3, Device, Device)] {
            assert_eq!(direction_fits(kind, to, from), Ok(true));
            assert_eq!(direction_fits(4, to, from), Ok(true));
            assert_eq!(direction_fits(kind, Shared, Shared), Ok(true));
        }
        assert_eq!(direction_fits(1, Host, Device), Ok(false));
        assert_eq!(direction_fits(5, Host, Host), Err(INVALID_DIRECTION));
    }
}
