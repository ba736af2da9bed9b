"""A device: modules, arrays, streams, calls of kernels."""

from __future__ import annotations

import itertools
import json
import os
import re
import threading
import weakref
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from . import _warpsim
from .arguments import Packed, pack
from .chips import Chip
from .errors import Error, Stopped
from .progress import Bar, Progress
from .results import KernelResult, Result

if TYPE_CHECKING:
    from .compilers import NumbaKernel, TritonKernel

#: A size: one to three numbers (x, y, z).
Size = int | Sequence[int]


def _size(what: str, size: Size) -> tuple[int, int, int]:
    axes = list(size) if isinstance(size, (tuple, list)) else [size]
    if not 1 <= len(axes) <= 3 or not all(isinstance(n, (int, np.integer)) and 0 < n < 1 << 32 for n in axes):
        raise Error(f"{what} takes one to three numbers from 1 on (x, y, z), not {size!r}")
    x, y, z = [*(int(n) for n in axes), 1, 1][:3]
    return x, y, z


class DeviceArray:
    """An array that stays on the device. `Device.array` and `Device.empty` make one; it is freed with its last reference."""

    def __init__(self, device: Device, shape: tuple[int, ...], dtype: np.dtype[Any]) -> None:
        self._device = device
        #: Shape.
        self.shape: tuple[int, ...] = shape
        #: Type of the elements.
        self.dtype: np.dtype[Any] = dtype
        #: Bytes.
        self.nbytes: int = int(np.prod(shape, dtype=np.int64)) * dtype.itemsize
        #: Address in global memory.
        self.address: int = device._malloc(self.nbytes)
        # It is freed when memory is asked for next: what collects it may run while something is simulated.
        weakref.finalize(self, device._dead.append, self.address)

    def copy_to_host(self, out: np.ndarray[Any, Any] | None = None) -> np.ndarray[Any, Any]:
        """The contents, after all that is queued has run. `out`: the array they are copied to."""
        if out is None:
            out = np.empty(self.shape, self.dtype)
        if out.shape != self.shape or out.dtype != self.dtype or not out.flags.c_contiguous:
            raise Error(f"`out` must be a contiguous array of shape {self.shape} and type {self.dtype}")
        self._device.synchronize()
        if self.nbytes:
            self._device._native.read(self.address, out.reshape(-1).view(np.uint8))
        return out

    def copy_from_host(self, array: np.ndarray[Any, Any]) -> None:
        """Sets the contents, after all that is queued has run."""
        array = np.ascontiguousarray(array)
        if array.shape != self.shape or array.dtype != self.dtype:
            raise Error(f"the array has shape {self.shape} and type {self.dtype}, not {array.shape} and {array.dtype}")
        self._device.synchronize()
        if self.nbytes:
            self._device._native.write(self.address, array.reshape(-1).view(np.uint8))

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray[Any, Any]:
        """A copy, for NumPy: as `copy_to_host`."""
        if copy is False:
            raise ValueError("an array on the device cannot be used without a copy")
        out = self.copy_to_host()
        return out if dtype is None else out.astype(dtype, copy=False)

    def __len__(self) -> int:
        return self.shape[0]

    def __repr__(self) -> str:
        return f"<DeviceArray {self.shape} {self.dtype} at {self.address:#x}>"


class Stream:
    """A stream: kernels of one run in order, those of several at the same time. `Device.stream` makes one."""

    def __init__(self, device: Device, number: int) -> None:
        self._device = device
        #: Its number; 0 is that of calls without a stream.
        self.number: int = number

    def synchronize(self) -> None:
        """Runs all that is queued, on all streams."""
        self._device.synchronize()

    def __repr__(self) -> str:
        return f"<Stream {self.number}>"


class Launch:
    """A call on a stream: it runs when its result is asked for, or the device is synchronized."""

    def __init__(self, device: Device, packed: Packed) -> None:
        self._device = device
        self._packed = packed
        self._result: Result | None = None
        self._place = 0
        self._error: BaseException | None = None

    @property
    def done(self) -> bool:
        """Whether it has run."""
        return self._result is not None or self._error is not None

    @property
    def result(self) -> Result:
        """What came of all that ran together with it; runs what is queued."""
        if not self.done:
            self._device.synchronize()
        if self._error is not None:
            raise self._error
        assert self._result is not None
        return self._result

    @property
    def kernel(self) -> KernelResult:
        """Its own figures; runs what is queued."""
        return self.result.kernels[self._place]

    @property
    def cycles(self) -> int:
        """Core cycles from the dispatch of its first block to the end of its last; runs what is queued."""
        return self.kernel.cycles

    def __repr__(self) -> str:
        return f"<Launch of {self._packed.name}, {'done' if self.done else 'queued'}>"


class Kernel:
    """A kernel of a module. Called, it runs: `kernel(grid, block, *arguments)`."""

    def __init__(self, module: Module, name: str) -> None:
        self._module = module
        #: Name.
        self.name: str = name

    @property
    def parameters(self) -> list[tuple[str, str, int]]:
        """Names, types (`bytes` for what is no scalar) and bytes of the parameters."""
        found = self._module._device._native.parameters(self._module._number, self.name) or []
        return [(name, kind or "bytes", size) for name, _, size, _, kind in found]

    @property
    def attributes(self) -> dict[str, int]:
        """What it needs: registers of a thread, shared_bytes of a block, local_bytes of a thread, max_threads of a block."""
        return self._module._device._native.attributes(self._module._number, self.name)

    def __call__(
        self,
        grid: Size,
        block: Size,
        *args: Any,
        stream: Stream | None = None,
        shared: int = 0,
        functional: bool = False,
        cooperative: bool = False,
        cluster: Size | None = None,
        progress: Progress = None,
    ) -> Any:
        """Runs the kernel with `grid` blocks of `block` threads; gives a `Result`, on a stream a `Launch`.

        Arguments are in the order of the parameters. A NumPy array is copied to the device, and back when the kernel has run;
        one that is not writeable is not copied back, and that the kernel changes it is an error. A `DeviceArray` stays where it
        is. Numbers become what the parameter's type is; NumPy's numbers and `bytes` must have its size.

        `shared`: bytes of dynamic shared memory of a block. `functional`: without timing. `cooperative`: blocks may wait for
        each other. `cluster`: blocks of a cluster. `progress`: False shows none; a function is told (cycle, blocks done, blocks).
        """
        device = self._module._device
        parameters = device._native.parameters(self._module._number, self.name) or []
        sizes = _size("grid", grid), _size("block", block), None if cluster is None else _size("cluster", cluster)
        if stream is not None and stream._device is not device:
            raise Error("the stream is one of another device")
        packed = pack(device, self.name, parameters, args, self._module._address_bytes)
        with device._lock:
            try:
                device._native.launch(
                    self._module._number,
                    self.name,
                    sizes[0],
                    sizes[1],
                    packed.block,
                    shared=int(shared),
                    stream=stream.number if stream else 0,
                    functional=functional,
                    cooperative=cooperative,
                    cluster=sizes[2],
                )
            except BaseException:
                packed.free()
                raise
            launch = Launch(device, packed)
            device._queued.append(launch)
        if stream is not None:
            return launch
        device.synchronize(progress=progress)
        return launch.result

    def __repr__(self) -> str:
        words = ", ".join(f"{kind} {name}" for name, kind, _ in self.parameters)
        return f"<Kernel {self.name}({words})>"


class Module:
    """A module: kernels by their names. `Device.module` loads one."""

    def __init__(self, device: Device, number: int, names: list[str], address_bytes: int) -> None:
        self._device = device
        self._number = number
        self._address_bytes = address_bytes
        #: Names of the kernels.
        self.kernels: list[str] = names

    def __getitem__(self, name: str) -> Kernel:
        """A kernel by its name. What is wrong with its instructions, or what the chip lacks for it, is told here."""
        if name not in self.kernels:
            raise KeyError(f"the module has no kernel `{name}`; it has: {', '.join(self.kernels)}")
        self._device._native.attributes(self._number, name)
        return Kernel(self, name)

    def __iter__(self) -> Iterator[Kernel]:
        return (self[name] for name in self.kernels)

    def variable(self, name: str) -> tuple[int, int]:
        """Address and bytes of a variable of the module."""
        found = self._device._native.variable(self._number, name)
        if found is None:
            raise KeyError(f"the module has no variable `{name}`")
        return found

    def __repr__(self) -> str:
        return f"<Module: {', '.join(self.kernels)}>"


class Device:
    """A simulated GPU."""

    def __init__(
        self,
        chip: Chip | str | os.PathLike[str] = "rtx2080ti",
        *,
        policy: str | None = None,
        scheduler: str | None = None,
        threads: int = 1,
        check: str = "safety",
        functional: bool = False,
        max_cycles: int | None = None,
        max_instructions: int | None = None,
        allow_newer_isa: bool = False,
        profile: bool = False,
        sample_every: int | None = None,
        sample: float | None = None,
    ) -> None:
        """`chip`: one of `warpsim.chip`, a name or a file.

        `policy`, `scheduler`: reconvergence policy (`name:key=value,…`) and warp scheduler; the chip's by default.
        `threads`: threads of the host; results do not depend on it. `check`: off, safety, full, memory-model, or sanitizers
        (races, sync, init, all), several separated by commas. `functional`: results without timing, faster.
        `max_cycles`, `max_instructions`: core cycles and warp instructions of all launches after which to stop.
        `allow_newer_isa`: instructions that the chip lacks run all the same. `profile`: counts by line of the PTX.
        `sample_every`: core cycles between samples of the counters. `sample`: kernels are sampled, as by `warpsim run --sample`,
        to an error of so many percent.
        """
        self.chip: Chip = chip if isinstance(chip, Chip) else Chip(chip)
        if threads < 1:
            raise Error(f"threads must be at least 1, not {threads}")
        request = {
            "chip": self.chip._name,
            "set": [f"{path}={value}" for path, value in self.chip._set.items()],
            "policy": policy,
            "scheduler": scheduler,
            "threads": threads,
            "check": check,
            "functional": functional,
            "max_cycles": max_cycles,
            "max_instructions": max_instructions,
            "allow_newer_isa": allow_newer_isa,
            "profile": profile,
            "sample_every": sample_every,
            "sampling": sample,
        }
        self._native = _warpsim.Device(json.dumps(request))
        self._queued: list[Launch] = []
        self._lock = threading.RLock()
        self._streams = itertools.count(1)
        self._dead: list[int] = []

    @property
    def policy(self) -> str:
        """Reconvergence policy with every parameter."""
        return self._native.how()[0]

    @property
    def scheduler(self) -> str:
        """Warp scheduler."""
        return self._native.how()[1]

    @property
    def free_bytes(self) -> int:
        """Bytes of global memory that are free."""
        self._collect()
        return self._native.free_bytes()

    def _collect(self) -> None:
        """Frees arrays that nobody has any more."""
        while self._dead:
            self._native.free(self._dead.pop())

    def _malloc(self, nbytes: int) -> int:
        """Allocates global memory; gives its address."""
        self._collect()
        return self._native.malloc(max(nbytes, 1))

    def module(self, ptx: str | os.PathLike[str], name: str = "module.ptx") -> Module:
        """Loads PTX: a text, or a `pathlib.Path`. `name`: what diagnostics of a text call it.

        A module may have kernels that the chip cannot run: what is wrong with one is told when it is taken from the module.
        """
        if isinstance(ptx, os.PathLike):
            name, ptx = os.fspath(ptx), Path(ptx).read_text(encoding="utf-8")
        elif "\n" not in ptx and ptx.endswith(".ptx"):
            raise Error(f"this is the name of a file, not PTX: write pathlib.Path({ptx!r})")
        number, names = self._native.load(name, ptx)
        # Without the directive addresses have 32 bits.
        wide = re.search(r"^\s*\.address_size\s+64", ptx, re.MULTILINE)
        return Module(self, number, names, 8 if wide else 4)

    def array(self, array: Any) -> DeviceArray:
        """A copy of an array that stays on the device."""
        array = np.ascontiguousarray(array)
        made = DeviceArray(self, array.shape, array.dtype)
        if made.nbytes:
            self._native.write(made.address, array.reshape(-1).view(np.uint8))
        return made

    def empty(self, shape: int | Sequence[int], dtype: Any = np.float32) -> DeviceArray:
        """An array on the device; its first contents are zeros."""
        shape = (shape,) if isinstance(shape, (int, np.integer)) else tuple(shape)
        return self.array(np.zeros(tuple(map(int, shape)), dtype))

    def stream(self) -> Stream:
        """A new stream."""
        return Stream(self, next(self._streams))

    def synchronize(self, *, progress: Progress = None) -> Result | None:
        """Runs all that is queued, and copies arrays back; gives what came of it, None where nothing was queued.

        It can be interrupted by Ctrl-C. `progress`: as of a call.
        """
        with self._lock:
            queued, self._queued = self._queued, []
            if not queued:
                return None
            name = ", ".join(dict.fromkeys(launch._packed.name for launch in queued))
            try:
                with Bar(name, "blocks", progress) as bar:
                    ran = self._native.run(name, bar.call)
            except BaseException as error:
                if isinstance(error, Stopped):
                    error.result = Result(error.ran) if hasattr(error, "ran") else None
                for launch in queued:
                    launch._error = error
                    launch._packed.free()
                raise
            result = Result(ran)
            for place, launch in enumerate(queued):
                launch._result, launch._place = result, place
            wrong: list[Error] = []
            for launch in queued:
                try:
                    launch._packed.copy_back()
                except Error as error:
                    launch._error = error
                    wrong.append(error)
            if wrong:
                raise wrong[0]
            return result

    def numba(self, function: Any, **options: Any) -> NumbaKernel:
        """A function of Numba, compiled for the chip where it is called: `gpu.numba(saxpy)(grid, block, a, x, y)`.

        Needs `numba` and `numba-cuda`. `options`: those of `numba.cuda.compile_ptx`.
        """
        from .compilers import NumbaKernel

        return NumbaKernel(self, function, options)

    def triton(self, function: Any, **options: Any) -> TritonKernel:
        """A kernel of Triton, compiled for the chip where it is called: `gpu.triton(add)(grid, x, y, out, n, BLOCK=128)`.

        Needs `triton`. `options`: those of Triton's compiler, such as `num_warps` and `num_stages`.
        """
        from .compilers import TritonKernel

        return TritonKernel(self, function, options)

    def __repr__(self) -> str:
        return f"<warpsim.Device {self.chip.name}, policy {self.policy}, scheduler {self.scheduler}>"
