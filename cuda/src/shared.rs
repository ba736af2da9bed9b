//! Memory that the host and the device both use: managed, pinned and mapped. It has the same address on both sides:
//! the addresses of the device are reserved in the host's address space, without access, so that a host access to
//! device memory faults as on real systems; pages of shared memory are made accessible. The bytes are the host's
//! between runs: what the host changed is copied to the device before a run, what the device changed is copied back
//! after it. A page at a time is compared with what both had last, so that neither overwrites the other.

use std::collections::BTreeMap;
use std::ffi::c_void;

use sim_core::error::SimError;
use sim_memory::address_space::GLOBAL_BASE;
use warpsim::device::Device;

use crate::error::{Error, MEMORY_ALLOCATION};
use crate::pointers;

/// Bytes of a page of the host.
pub const PAGE: u64 = 4096;

/// What memory was allocated as.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// `cudaMallocManaged`.
    Managed,
    /// `cudaMallocHost`, `cudaHostAlloc`.
    Pinned,
    /// A variable of managed memory.
    Variable,
    /// Memory of the host that `cudaHostRegister` was given: the device has another address for it.
    Registered,
}

struct Region {
    kind: Kind,
    /// Where the host has it.
    host: u64,
    /// What both sides had last.
    last: Vec<u8>,
}

/// Keeps the host from using addresses; false where it uses some of them.
fn keep_free(at: u64, bytes: usize) -> bool {
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE | libc::MAP_FIXED_NOREPLACE;
    let at = at as *mut c_void;
    // SAFETY: with MAP_FIXED_NOREPLACE nothing that is mapped is replaced.
    let got = unsafe { libc::mmap(at, bytes, libc::PROT_NONE, flags, -1, 0) };
    if got != at && got != libc::MAP_FAILED {
        // SAFETY: it was mapped just now, elsewhere.
        unsafe { libc::munmap(got, bytes) };
    }
    got == at
}

/// The shared memory of a device.
#[derive(Default)]
pub struct Shared {
    /// By address.
    regions: BTreeMap<u64, Region>,
    /// Bytes that are reserved in the host's address space; 0 where the host had no room there.
    reserved: usize,
    /// Bytes of further addresses that are reserved there, by address.
    claimed: BTreeMap<u64, usize>,
}

impl Shared {
    /// Reserves the addresses of a device.
    pub fn reserve(global_bytes: u64) -> Self {
        let bytes = (global_bytes.next_multiple_of(PAGE)) as usize;
        let reserved = if keep_free(GLOBAL_BASE, bytes) { bytes } else { 0 };
        Self { regions: BTreeMap::new(), reserved, claimed: BTreeMap::new() }
    }

    /// Reserves addresses of the device beyond those of its memory; false where the host has something there.
    pub fn claim(&mut self, at: u64, bytes: u64) -> bool {
        if at < GLOBAL_BASE + self.reserved as u64 {
            return true;
        }
        let free = keep_free(at, bytes as usize);
        if free {
            self.claimed.insert(at, bytes as usize);
        }
        free
    }

    /// The host may use the addresses again.
    pub fn unclaim(&mut self, at: u64) {
        if let Some(bytes) = self.claimed.remove(&at) {
            // SAFETY: the pages were mapped by `claim`, and nobody can access them.
            unsafe { libc::munmap(at as *mut c_void, bytes) };
        }
    }

    /// The device's addresses are the program's no more.
    pub fn is_reserved(&self) -> bool {
        self.reserved > 0
    }

    /// Makes device memory accessible to the host, with the bytes it has.
    ///
    /// # Errors
    /// The host has something else at these addresses.
    pub fn share(&mut self, device: &mut Device, at: u64, bytes: u64, kind: Kind) -> Result<(), Error> {
        let first = at / PAGE * PAGE;
        let length = ((at + bytes.max(1)).next_multiple_of(PAGE) - first) as usize;
        if self.reserved == 0 {
            eprintln!(
                "warpsim: shared memory at {at:#x}: the program has mapped these addresses; link it as a \
                 position-independent executable"
            );
            return Err(MEMORY_ALLOCATION);
        }
        let access = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: the pages lie in what was reserved, which only this module uses.
        if unsafe { libc::mprotect(first as *mut c_void, length, access) } != 0 {
            return Err(MEMORY_ALLOCATION);
        }
        let mut last = vec![0; bytes as usize];
        device.read(at, &mut last).map_err(|_| MEMORY_ALLOCATION)?;
        // SAFETY: the pages were made accessible just now, and the program does not know the address yet.
        unsafe { pointers::bytes_mut(at as *mut u8, last.len()) }.copy_from_slice(&last);
        self.regions.insert(at, Region { kind, host: at, last });
        Ok(())
    }

    /// Shares memory that the host has at `host` and the device at `at`.
    ///
    /// # Errors
    /// The device has not allocated it.
    ///
    /// # Safety
    /// The host's memory must be valid until [`end`](Self::end).
    pub unsafe fn register(
        &mut self,
        device: &mut Device,
        at: u64,
        host: u64,
        bytes: u64,
    ) -> Result<(), Error> {
        // SAFETY: the caller's promise.
        let last = unsafe { pointers::bytes(host as *const u8, bytes as usize) }.to_vec();
        device.write(at, &last).map_err(|_| MEMORY_ALLOCATION)?;
        self.regions.insert(at, Region { kind: Kind::Registered, host, last });
        Ok(())
    }

    /// Where the host has what the device has at an address.
    pub fn host_side(&self, address: u64) -> u64 {
        let found = self.find(address).and_then(|(at, ..)| Some((at, self.regions.get(&at)?.host)));
        found.map_or(address, |(at, host)| host + (address - at))
    }

    /// Where the device has registered memory that the host has at an address.
    pub fn device_side(&self, address: u64) -> Option<u64> {
        self.regions.iter().find_map(|(at, region)| {
            let offset =
                address.checked_sub(region.host).filter(|offset| *offset < region.last.len() as u64)?;
            (region.kind == Kind::Registered).then_some(at + offset)
        })
    }

    /// Ends the sharing of what begins at an address; gives what it was.
    pub fn end(&mut self, at: u64) -> Option<Kind> {
        let region = self.regions.remove(&at)?;
        if !matches!(region.kind, Kind::Variable | Kind::Registered) {
            let length = (region.last.len().max(1) as u64).next_multiple_of(PAGE) as usize;
            // SAFETY: the pages are this region's alone: it was allocated in whole pages. Their contents go.
            unsafe {
                libc::madvise(at as *mut c_void, length, libc::MADV_DONTNEED);
                libc::mprotect(at as *mut c_void, length, libc::PROT_NONE);
            }
        }
        Some(region.kind)
    }

    /// The region that holds an address: where it begins, its size and kind.
    pub fn find(&self, address: u64) -> Option<(u64, u64, Kind)> {
        let (at, region) = self.regions.range(..=address).next_back()?;
        let bytes = region.last.len() as u64;
        (address - at < bytes.max(1)).then_some((*at, bytes, region.kind))
    }

    /// Copies what the host changed to the device.
    ///
    /// # Errors
    /// A region is no longer allocated.
    pub fn to_device(&mut self, device: &mut Device) -> Result<(), SimError> {
        for (at, region) in &mut self.regions {
            // SAFETY: the pages are accessible while the region is in the list. A thread of the program that writes
            // them at the same time races with the launch, as on real systems.
            let now = unsafe { pointers::bytes(region.host as *const u8, region.last.len()) };
            let chunks = now.chunks(PAGE as usize).zip(region.last.chunks_mut(PAGE as usize));
            for (offset, (now, last)) in (0..).step_by(PAGE as usize).zip(chunks) {
                if *now != *last {
                    last.copy_from_slice(now);
                    device.write(at + offset, last)?;
                }
            }
        }
        Ok(())
    }

    /// Copies what the device changed to the host.
    ///
    /// # Errors
    /// A region is no longer allocated.
    pub fn to_host(&mut self, device: &mut Device) -> Result<(), SimError> {
        let mut now = [0; PAGE as usize];
        for (at, region) in &mut self.regions {
            for (offset, last) in (0..).step_by(PAGE as usize).zip(region.last.chunks_mut(PAGE as usize)) {
                let now = &mut now[..last.len()];
                device.read(at + offset, now)?;
                if *now != *last {
                    last.copy_from_slice(now);
                    // SAFETY: as in `to_device`.
                    unsafe { pointers::bytes_mut((region.host + offset) as *mut u8, last.len()) }
                        .copy_from_slice(now);
                }
            }
        }
        Ok(())
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        let claimed: Vec<u64> = self.claimed.keys().copied().collect();
        claimed.into_iter().for_each(|at| self.unclaim(at));
        if self.reserved > 0 {
            // SAFETY: it was reserved by `reserve`, and no region is given out any more.
            unsafe { libc::munmap(GLOBAL_BASE as *mut c_void, self.reserved) };
        }
    }
}
