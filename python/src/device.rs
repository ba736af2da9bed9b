//! A device that Python drives.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;
use pyo3::buffer::PyBuffer;
use pyo3::exceptions::PyBufferError;
use pyo3::prelude::*;
use sim_core::error::SimError;
use sim_frontend::diagnostic::{Diagnostic, Source};
use warpsim::device::{self, DeviceRequest, Kernel, Module};

use crate::errors::Wrong;
use crate::ran::Ran;
use crate::watched::{Far, watched};

/// A parameter of a kernel: name, offset, size and alignment in bytes, type where it is a scalar.
type Parameter = (String, u32, u32, u32, Option<&'static str>);

/// A device. One thread is in it at a time; others wait without the lock of the interpreter.
#[pyclass(frozen, module = "warpsim._warpsim")]
pub struct Device {
    inner: Mutex<Inner>,
}

struct Inner {
    device: device::Device,
    modules: Vec<Module>,
}

impl Inner {
    fn module(&self, number: usize) -> Result<Module, SimError> {
        let none =
            || SimError::Input(vec![Diagnostic::error("module", format!("there is no module {number}"))]);
        self.modules.get(number).copied().ok_or_else(none)
    }
}

impl Device {
    /// Does something with the device, without the lock of the interpreter.
    fn with<R: Send, E: Into<Wrong> + Send>(
        &self,
        py: Python<'_>,
        work: impl FnOnce(&mut Inner) -> Result<R, E> + Send,
    ) -> PyResult<R> {
        py.detach(|| work(&mut self.inner.lock())).map_err(|error| error.into().raised(py))
    }
}

#[pymethods]
impl Device {
    /// A device, as it is asked for in JSON.
    #[new]
    fn new(py: Python<'_>, request: &str) -> PyResult<Self> {
        let made = py.detach(|| {
            let request: DeviceRequest = serde_json::from_str(request).map_err(|error| error.to_string())?;
            Ok(device::Device::new(&request)?)
        });
        let device = made.map_err(|error: Wrong| error.raised(py))?;
        Ok(Self { inner: Mutex::new(Inner { device, modules: Vec::new() }) })
    }

    /// Policy and scheduler, with all their parameters.
    fn how(&self, py: Python<'_>) -> PyResult<(String, String)> {
        self.with(py, |inner| {
            let configured = inner.device.configured();
            Ok::<_, SimError>((configured.options.policy.canonical(), configured.scheduler.clone()))
        })
    }

    /// Loads a text; gives the number of the module and the names of its kernels.
    fn load(&self, py: Python<'_>, name: &str, text: &str) -> PyResult<(usize, Vec<String>)> {
        self.with(py, |inner| {
            let module = inner.device.load(&Source::new(name, text))?;
            inner.modules.push(module);
            Ok::<_, SimError>((inner.modules.len() - 1, inner.device.entries(module)?))
        })
    }

    /// The parameters of a kernel.
    fn parameters(&self, py: Python<'_>, module: usize, entry: &str) -> PyResult<Option<Vec<Parameter>>> {
        self.with(py, |inner| {
            let module = inner.module(module)?;
            let info = inner.device.entry(module, entry);
            Ok::<_, SimError>(info.map(|info| {
                let parameter = |p: sim_frontend::program::ParamInfo| {
                    (p.name, p.offset, p.size, p.align, p.ty.map(|ty| ty.name()))
                };
                info.params.into_iter().map(parameter).collect()
            }))
        })
    }

    /// What a kernel needs: registers of a thread, bytes of shared memory of a block, bytes of local memory of a thread,
    /// threads of a block at most.
    fn attributes(
        &self,
        py: Python<'_>,
        module: usize,
        entry: &str,
    ) -> PyResult<BTreeMap<&'static str, u32>> {
        self.with(py, |inner| {
            let module = inner.module(module)?;
            let found = inner.device.attributes(module, entry)?;
            Ok::<_, SimError>(BTreeMap::from([
                ("registers", found.registers),
                ("shared_bytes", found.shared),
                ("local_bytes", found.local),
                ("max_threads", found.max_threads),
            ]))
        })
    }

    /// Where a variable of a module lies, and its bytes.
    fn variable(&self, py: Python<'_>, module: usize, name: &str) -> PyResult<Option<(u64, u64)>> {
        self.with(py, |inner| inner.device.variable(inner.module(module)?, name))
    }

    /// Allocates global memory; gives its address.
    fn malloc(&self, py: Python<'_>, bytes: u64) -> PyResult<u64> {
        self.with(py, |inner| inner.device.malloc("an array", bytes, 1))
    }

    /// Frees what was allocated at an address.
    fn free(&self, py: Python<'_>, address: u64) -> PyResult<()> {
        self.with(py, |inner| inner.device.free(address, 1))
    }

    /// Bytes of global memory that are free.
    fn free_bytes(&self, py: Python<'_>) -> PyResult<u64> {
        self.with(py, |inner| inner.device.free_bytes())
    }

    /// Copies bytes to an address.
    fn write(&self, py: Python<'_>, address: u64, from: PyBuffer<u8>) -> PyResult<()> {
        let bytes = from.to_vec(py)?;
        self.with(py, |inner| inner.device.write(address, &bytes))
    }

    /// Copies bytes from an address into a buffer that can be written.
    fn read(&self, py: Python<'_>, address: u64, to: PyBuffer<u8>) -> PyResult<()> {
        if to.readonly() {
            return Err(PyBufferError::new_err("the array cannot be written"));
        }
        let length = to.len_bytes();
        let bytes = self.with(py, |inner| {
            let mut bytes = vec![0; length];
            inner.device.read(address, &mut bytes).map(|()| bytes)
        })?;
        to.copy_from_slice(py, &bytes)
    }

    /// Queues a launch; gives its number.
    #[pyo3(signature = (module, entry, grid, block, params, *, shared, stream, functional, cooperative, cluster))]
    fn launch(
        &self,
        py: Python<'_>,
        module: usize,
        entry: &str,
        grid: [u32; 3],
        block: [u32; 3],
        params: &[u8],
        shared: u32,
        stream: u32,
        functional: bool,
        cooperative: bool,
        cluster: Option<[u32; 3]>,
    ) -> PyResult<u64> {
        self.with(py, |inner| {
            let kernel = Kernel {
                dynamic_shared: shared,
                stream,
                functional,
                cooperative,
                cluster,
                non_portable_cluster: cluster.is_some(),
                ..Kernel::new(inner.module(module)?, entry, grid, block, params)
            };
            inner.device.launch(&kernel)
        })
    }

    /// Runs what is queued. `progress` is called with cycle, blocks done, blocks in all.
    ///
    /// An exception of a run that stopped has the attribute `ran`.
    #[pyo3(signature = (name, progress=None))]
    fn run(&self, py: Python<'_>, name: &str, progress: Option<Py<PyAny>>) -> PyResult<Ran> {
        let (stop, far) = (AtomicBool::new(false), Far::default());
        let halt = || stop.store(true, Ordering::Relaxed);
        let (ran, error) = watched(py, progress.as_ref(), &far, &halt, || {
            let device = &mut self.inner.lock().device;
            let before = device.simulated();
            let error = device.synchronize_until(&stop, &|cycle, done, all| far.is(cycle, done, all)).err();
            let seconds = (device.simulated() - before).as_secs_f64();
            let ran = device.take().map(|run| Ran {
                report: device.section(name, &run, error.as_ref()),
                chip: Arc::clone(&device.configured().chip),
                seconds,
                buffers: BTreeMap::new(),
            });
            (ran, error)
        })?;
        let Some(error) = error else {
            let none = || Wrong::from("launches are still queued".to_string()).raised(py);
            return ran.ok_or_else(none);
        };
        let raised = Wrong::from(error).raised(py);
        if let Some(ran) = ran {
            raised.value(py).setattr("ran", ran)?;
        }
        Err(raised)
    }
}
