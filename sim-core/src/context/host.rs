//! What a host asks of a context besides running grids: memory, variables, facts of kernels, and reports piece by
//! piece.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use sim_memory::address_space::{Allocation, CONST_BASE, CONST_WINDOW, WINDOW_BYTES};
use sim_memory::sm_memory::latency::Latencies;
use sim_memory::vocabulary::StateSpace;

use super::Context;
use super::parts::Runtime;
use crate::answers::{Attributes, Symbol};
use crate::error::SimError;
use crate::report::{DeviceReport, KernelReport};

impl Context {
    pub(super) fn allocate(&mut self, name: &str, bytes: u64, align: u64) -> Option<u64> {
        let limit = self.chip.limits.global_mem_size;
        let taken = self.device_bytes.fetch_add(bytes, Ordering::Relaxed);
        let address = taken
            .checked_add(bytes)
            .filter(|sum| *sum <= limit)
            .and_then(|_| Arc::make_mut(&mut self.allocations).global_aligned(name, bytes, align));
        if address.is_none() {
            self.device_bytes.fetch_sub(bytes, Ordering::Relaxed);
        } else {
            self.own_bytes += bytes;
        }
        address
    }

    pub(super) fn allocate_at(&mut self, name: &str, at: u64, bytes: u64) -> Option<u64> {
        let limit = self.chip.limits.global_mem_size;
        let taken = self.device_bytes.load(Ordering::Relaxed);
        taken.checked_add(bytes).filter(|sum| *sum <= limit)?;
        let address = Arc::make_mut(&mut self.allocations).global_at(name, at, bytes)?;
        self.device_bytes.fetch_add(bytes, Ordering::Relaxed);
        self.own_bytes += bytes;
        Some(address)
    }

    /// Allocates global memory at an address.
    ///
    /// # Errors
    /// It is not free.
    pub fn malloc_at(&mut self, name: &str, at: u64, bytes: u64) -> Result<u64, SimError> {
        self.allocate_at(name, at, bytes).ok_or_else(|| {
            let message = format!(
                "buffer `{name}` ({bytes} bytes) cannot lie at {at:#x}: that is no multiple of 256, outside of the \
                 chip's global memory or in use"
            );
            SimError::input("memory", message)
        })
    }

    /// All allocations, in the order of their addresses.
    pub fn allocations(&self) -> impl Iterator<Item = &Allocation> {
        self.allocations.iter()
    }

    /// The variables of a module, in global and constant memory: name, address in device memory, bytes.
    pub fn all_variables(&self, module: usize) -> impl Iterator<Item = (&str, u64, u64)> {
        let loaded = self.modules.get(module);
        let variables =
            loaded.into_iter().flat_map(|loaded| loaded.module.globals().iter().zip(&loaded.addresses));
        let there = variables.filter(|(variable, _)| !Runtime::is_number(&variable.name));
        // Addresses stand in the order of the variables.
        there.map(|(variable, (name, address))| {
            let base = if variable.space == StateSpace::Const { CONST_BASE } else { 0 };
            (name.as_str(), base + address, self.runtime.size(variable))
        })
    }

    /// Allocates global memory and returns its address.
    ///
    /// # Errors
    /// Too little memory is left.
    pub fn malloc(&mut self, name: &str, bytes: u64) -> Result<u64, SimError> {
        self.malloc_aligned(name, bytes, 1)
    }

    /// The same at a multiple of `align`, a power of two, in whole multiples of it.
    ///
    /// # Errors
    /// Too little memory is left.
    pub fn malloc_aligned(&mut self, name: &str, bytes: u64, align: u64) -> Result<u64, SimError> {
        self.allocate(name, bytes, align).ok_or_else(|| {
            SimError::input(
                "memory",
                format!(
                    "buffer `{name}` ({bytes} bytes) does not fit the chip's global memory of {} bytes",
                    self.chip.limits.global_mem_size
                ),
            )
        })
    }

    /// Frees what was allocated at an address with an alignment. Grids that are queued must not use it.
    ///
    /// # Errors
    /// Nothing begins there.
    pub fn free(&mut self, address: u64, align: u64) -> Result<(), SimError> {
        let Some(bytes) = Arc::make_mut(&mut self.allocations).free(address, align) else {
            return Err(SimError::input("memory", format!("no allocation begins at {address:#x}")));
        };
        self.device_bytes.fetch_sub(bytes, Ordering::Relaxed);
        self.own_bytes -= bytes;
        Ok(())
    }

    /// The allocation that holds all of the `bytes` bytes from an address on.
    pub fn allocation(&self, address: u64, bytes: u64) -> Option<&Allocation> {
        self.allocations.find(Self::physical(address), bytes)
    }

    /// Where device memory keeps what has a generic address: constants lie behind global memory.
    pub fn physical(address: u64) -> u64 {
        match address.checked_sub(CONST_WINDOW).filter(|offset| *offset < WINDOW_BYTES) {
            Some(offset) => CONST_BASE + offset,
            None => address,
        }
    }

    /// Bytes of global memory that can be allocated yet.
    pub fn free_bytes(&self) -> u64 {
        self.chip.limits.global_mem_size.saturating_sub(self.device_bytes.load(Ordering::Relaxed))
    }

    /// Launches get this address as that of their workspace (`%envreg1`, `%envreg2`); 0 for none. Cooperative groups of
    /// CUDA count the blocks that have arrived at a barrier of the grid in its second word.
    pub fn set_workspace(&mut self, address: u64) {
        self.workspace = address;
    }

    /// A variable of a module by its name.
    pub fn symbol(&self, module: usize, name: &str) -> Option<Symbol> {
        let loaded = self.modules.get(module)?;
        let mut variables = loaded.module.globals().iter().zip(&loaded.addresses);
        let (variable, (_, at)) = variables.find(|(variable, _)| variable.name == name)?;
        let window = if variable.space == StateSpace::Const { CONST_WINDOW } else { 0 };
        Some(Symbol { space: variable.space, address: at + window, bytes: self.runtime.size(variable) })
    }

    /// What an entry needs of a chip.
    ///
    /// # Errors
    /// There is none of that name, or the lowering cannot make its program.
    pub fn attributes(&mut self, module: usize, entry: &str) -> Result<Attributes, SimError> {
        let code = self.code(module, entry)?;
        let program = &code.program;
        let limits = &self.chip.limits;
        let bound = program.bounds.max.or(program.bounds.required);
        let bound = bound.map_or(u32::MAX, |[x, y, z]| x.saturating_mul(y).saturating_mul(z));
        let most = limits.max_threads_per_block.min(bound);
        let fits = |threads: &u32| {
            let needs = self.chip.block_needs(*threads, program.registers_per_thread, program.shared_bytes);
            self.chip.occupancy(needs).0 > 0
        };
        let max_threads =
            (1..=most.div_ceil(limits.warp_size)).rev().map(|warps| (warps * limits.warp_size).min(most));
        Ok(Attributes {
            registers: program.registers_per_thread,
            shared: program.shared_bytes,
            local: program.local_bytes,
            max_threads: max_threads.into_iter().find(fits).unwrap_or(0),
            parameters: program.param_bytes,
        })
    }

    /// Figures of a grid of the report that goes on.
    pub fn kernel(&self, grid: u32) -> Option<&KernelReport> {
        self.kernels.get(grid as usize)
    }

    /// The report of the runs since it was last taken; the next one begins empty, and its grids are counted from 0:
    /// no grid of this one is left. `None` while grids are queued.
    pub fn take_report(&mut self) -> Option<DeviceReport> {
        if !self.queue.is_empty() {
            return None;
        }
        let DeviceReport { sms, schedulers, .. } = self.report;
        let next = DeviceReport { sms, schedulers, ..DeviceReport::default() };
        let mut report = std::mem::replace(&mut self.report, next);
        report.kernels = std::mem::take(&mut self.kernels);
        self.complete(&mut report);
        self.taken.0 += report.cycles + report.launch_cycles;
        self.taken.1 += report.kernels.iter().map(|kernel| kernel.warp_instructions).sum::<u64>();
        self.next_grid = 0;
        self.profile.clear();
        self.latencies = Latencies::default();
        Some(report)
    }
}
