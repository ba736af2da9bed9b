//! Launches: the calls that nvcc's code makes for `<<<…>>>`, and those of programs.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::ffi::{c_char, c_void};

use sim_core::clusters::{Refused, Wanted, cluster_of};
use warpsim::device::Kernel;

use crate::call;
use crate::error::{
    COOPERATIVE_TOO_LARGE, Error, INVALID_CLUSTER_SIZE, INVALID_CONFIGURATION, INVALID_FUNCTION,
    INVALID_VALUE, MISSING_CONFIGURATION, NOT_SUPPORTED, OUT_OF_RESOURCES,
};
use crate::graph::{Launched, Work};
use crate::occupancy::{DEFAULT_SHARED, resident_blocks};
use crate::pointers;
use crate::runtime::{State, explain};

/// CUDA's `dim3`.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dim3 {
    /// Size in x.
    pub x: u32,
    /// Size in y.
    pub y: u32,
    /// Size in z.
    pub z: u32,
}

impl Dim3 {
    fn sizes(self) -> [u32; 3] {
        [self.x, self.y, self.z]
    }
}

/// Grid, block, dynamic shared memory, stream.
type Configuration = (Dim3, Dim3, usize, *mut c_void);

thread_local! {
    static CONFIGURATIONS: RefCell<Vec<Configuration>> = const { RefCell::new(Vec::new()) };
}

/// Keeps what stands between `<<<` and `>>>` until the stand-in of the kernel takes it.
#[unsafe(no_mangle)]
pub extern "C" fn __cudaPushCallConfiguration(
    grid: Dim3,
    block: Dim3,
    shared: usize,
    stream: *mut c_void,
) -> u32 {
    CONFIGURATIONS.with(|list| list.borrow_mut().push((grid, block, shared, stream)));
    0
}

/// Gives what was kept last.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __cudaPopCallConfiguration(
    grid: *mut Dim3,
    block: *mut Dim3,
    shared: *mut usize,
    stream: *mut c_void,
) -> i32 {
    call::keep("__cudaPopCallConfiguration", || {
        let last = CONFIGURATIONS.with(|list| list.borrow_mut().pop());
        let (own_grid, own_block, own_shared, own_stream) = last.ok_or(MISSING_CONFIGURATION)?;
        out!(grid, own_grid);
        out!(block, own_block);
        out!(shared, own_shared);
        out!(stream.cast::<*mut c_void>(), own_stream);
        Ok(())
    })
}

/// How a kernel is launched.
pub struct How {
    grid: [u32; 3],
    /// Threads of a block by axis.
    pub block: [u32; 3],
    /// Bytes of dynamic shared memory.
    pub shared: usize,
    stream: *mut c_void,
    cooperative: bool,
    /// Blocks of a cluster by axis.
    pub cluster: Option<[u32; 3]>,
}

impl How {
    /// A launch that is not cooperative.
    pub fn of(grid: Dim3, block: Dim3, shared: usize, stream: *mut c_void) -> Self {
        Self { grid: grid.sizes(), block: block.sizes(), shared, stream, cooperative: false, cluster: None }
    }

    /// All blocks run at once.
    #[must_use]
    pub fn cooperative(self) -> Self {
        Self { cooperative: true, ..self }
    }

    /// Adds `count` attributes.
    ///
    /// # Errors
    /// One is not supported.
    ///
    /// # Safety
    /// `attributes` must lead to as many.
    pub unsafe fn with(&mut self, attributes: *const LaunchAttribute, count: u32) -> Result<(), Error> {
        for i in 0..count as usize {
            // SAFETY: the caller's promise.
            let attribute = unsafe { pointers::get(attributes.wrapping_add(i)) }?;
            match attribute.id {
                COOPERATIVE => self.cooperative = attribute.value[0] != 0,
                CLUSTER => self.cluster = attribute.value.first_chunk().copied(),
                id if HINTS.contains(&id) => {}
                id => {
                    eprintln!("warpsim: launch attribute {id} is not supported");
                    return Err(NOT_SUPPORTED);
                }
            }
        }
        Ok(())
    }
}

/// The launch of the kernel of a stand-in; `args` leads to a pointer for each parameter.
///
/// # Errors
/// It exceeds a limit, or there is no such kernel.
///
/// # Safety
/// `args` must lead to a pointer for each parameter of the kernel, and each of these to a value of its type.
pub unsafe fn prepare(
    state: &mut State,
    function: *const c_void,
    how: &How,
    args: *const *const c_void,
) -> Result<Kernel, Error> {
    let found = state.registry.function(function)?.clone();
    let module = state.module(found.binary)?;
    let runtime = state.runtime()?;
    let stream = runtime.streams.find(how.stream)?.number;
    let limits = runtime.device.chip().limits.clone();
    let most_shared = runtime.device.chip().shared_of_block();
    let within =
        |sizes: [u32; 3], most: [u32; 3]| sizes.iter().zip(most).all(|(n, most)| (1..=most).contains(n));
    let threads = how.block.iter().fold(1u64, |product, n| product.saturating_mul(u64::from(*n)));
    if !within(how.grid, limits.max_grid_size)
        || !within(how.block, limits.max_block_size)
        || threads > u64::from(limits.max_threads_per_block)
    {
        return Err(INVALID_CONFIGURATION);
    }
    let Some(entry) = runtime.device.entry(module, &found.name) else { return Err(INVALID_FUNCTION) };
    let attributes = runtime.device.attributes(module, &found.name).map_err(|error| {
        explain(&error);
        crate::error::INVALID_PTX
    })?;
    if threads > u64::from(attributes.max_threads) {
        return Err(OUT_OF_RESOURCES);
    }
    let dynamic = u32::try_from(how.shared).map_err(|_| INVALID_VALUE)?;
    let allowed = match found.dynamic_shared {
        Some(allowed) => allowed.saturating_add(attributes.shared),
        None => DEFAULT_SHARED,
    };
    if u64::from(dynamic) + u64::from(attributes.shared) > u64::from(allowed.min(most_shared)) {
        return Err(INVALID_VALUE);
    }
    if how.cooperative {
        let chip = runtime.device.chip();
        let at_once = u64::from(resident_blocks(chip, &attributes, threads as u32, dynamic))
            * u64::from(limits.num_processors);
        if how.grid.iter().map(|n| u64::from(*n)).product::<u64>() > at_once {
            return Err(COOPERATIVE_TOO_LARGE);
        }
    }
    let chip = runtime.device.chip();
    let wanted = Wanted {
        grid: how.grid,
        cluster: how.cluster,
        non_portable: found.non_portable_cluster,
        resident: resident_blocks(chip, &attributes, threads as u32, dynamic),
        shared: attributes.shared.saturating_add(dynamic),
    };
    cluster_of(chip, &entry.bounds, &wanted).map_err(|Refused { limit, message }| {
        eprintln!("warpsim: {}: {message} ({limit})", found.name);
        INVALID_CLUSTER_SIZE
    })?;
    let mut params = vec![0; attributes.parameters as usize];
    for (i, parameter) in entry.params.iter().enumerate() {
        // SAFETY: the program passes an array with a pointer for each parameter of the kernel.
        let from = unsafe { pointers::get(args.wrapping_add(i)) }?;
        if from.is_null() {
            return Err(INVALID_VALUE);
        }
        let (at, size) = (parameter.offset as usize, parameter.size as usize);
        let place = params.get_mut(at..at + size).ok_or(INVALID_FUNCTION)?;
        // SAFETY: each pointer leads to a value of the parameter's type, which has the size that PTX gives it.
        place.copy_from_slice(unsafe { pointers::bytes(from.cast(), size) });
    }
    Ok(Kernel {
        module,
        entry: found.name,
        grid: how.grid,
        block: how.block,
        dynamic_shared: dynamic,
        stream,
        params,
        functional: false,
        cooperative: how.cooperative,
        cluster: how.cluster,
        non_portable_cluster: found.non_portable_cluster,
    })
}

/// Launches the kernel of a stand-in, or captures the launch.
///
/// # Errors
/// As [`prepare`], or what an earlier launch came to.
///
/// # Safety
/// As [`prepare`].
pub unsafe fn launch(
    state: &mut State,
    function: *const c_void,
    how: &How,
    args: *const *const c_void,
) -> Result<(), Error> {
    // SAFETY: the caller's promise.
    let kernel = unsafe { prepare(state, function, how, args) }?;
    if state.is_captured(how.stream) {
        let launched = Launched {
            kernel,
            function: function as usize,
            attributes: BTreeMap::new(),
            arguments: Vec::new(),
        };
        state.captured(how.stream, || Work::Kernel(Box::new(launched)));
        return Ok(());
    }
    state.launch(&kernel)
}

/// CUDA's `cudaLaunchConfig_t`.
#[repr(C)]
pub struct LaunchConfig {
    grid: Dim3,
    block: Dim3,
    shared: usize,
    stream: *mut c_void,
    attributes: *const LaunchAttribute,
    count: u32,
}

/// CUDA's `cudaLaunchAttribute`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct LaunchAttribute {
    /// Its number.
    pub id: i32,
    padding: u32,
    /// Its value.
    pub value: [u32; 16],
}

/// `cudaLaunchAttributeCooperative`.
pub const COOPERATIVE: i32 = 2;
/// `cudaLaunchAttributeClusterDimension`.
pub const CLUSTER: i32 = 4;
/// Attributes that say nothing about results: access policy, synchronization policy, scheduling preferences, programmatic
/// serialization (launches of a stream run one after another all the same), priority, memory domains, carveout, use of
/// links.
const HINTS: [i32; 11] = [0, 1, 3, 5, 6, 8, 9, 10, 11, 14, 16];

impl LaunchConfig {
    /// The configuration with its attributes.
    ///
    /// # Errors
    /// One is not supported.
    ///
    /// # Safety
    /// There must be as many attributes as it says.
    pub unsafe fn how(&self) -> Result<How, Error> {
        let mut how = How::of(self.grid, self.block, self.shared, self.stream);
        // SAFETY: the caller's promise.
        unsafe { how.with(self.attributes, self.count) }?;
        Ok(how)
    }
}

cuda! {
    fn cudaLaunchKernel cudaLaunchKernel_ptsz __cudaLaunchKernel __cudaLaunchKernel_ptsz = (
        function: *const c_void, grid: Dim3, block: Dim3, args: *mut *mut c_void, shared: usize, stream: *mut c_void
    ) |state| {
        let how = How::of(grid, block, shared, stream);
        // SAFETY: CUDA's manual asks for a pointer to each argument.
        unsafe { launch(state, function, &how, args as *const *const c_void) }
    }

    fn cudaLaunchCooperativeKernel cudaLaunchCooperativeKernel_ptsz = (
        function: *const c_void, grid: Dim3, block: Dim3, args: *mut *mut c_void, shared: usize, stream: *mut c_void
    ) |state| {
        let how = How::of(grid, block, shared, stream).cooperative();
        // SAFETY: CUDA's manual asks for a pointer to each argument.
        unsafe { launch(state, function, &how, args as *const *const c_void) }
    }

    fn cudaLaunchKernelExC cudaLaunchKernelExC_ptsz = (
        config: *const LaunchConfig, function: *const c_void, args: *mut *mut c_void
    ) |state| {
        if config.is_null() {
            return Err(INVALID_VALUE);
        }
        // SAFETY: CUDA's manual asks for a configuration.
        let how = unsafe { (*config).how() }?;
        // SAFETY: CUDA's manual asks for a pointer to each argument.
        unsafe { launch(state, function, &how, args as *const *const c_void) }
    }

    fn __cudaGetKernel cudaGetKernel cudaGetFuncBySymbol = (handle: *mut *const c_void, function: *const c_void) |state| {
        state.registry.function(function)?;
        // The stand-in itself is the handle.
        out!(handle, function);
        Ok(())
    }

    fn cudaFuncGetName = (name: *mut *const c_char, function: *const c_void) |state| {
        out!(name, state.registry.function(function)?.c_name.as_ptr());
        Ok(())
    }
}
