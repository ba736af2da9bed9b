"""Kernels written in Python: functions of Numba and of Triton become PTX for the chip, without a GPU, and are called."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from .device import DeviceArray, Kernel, Size, Stream
from .errors import Error

if TYPE_CHECKING:
    from .device import Device


class NumbaKernel:
    """A function of Numba on a device. Called as a kernel is: `kernel(grid, block, *arguments)`."""

    def __init__(self, device: Device, function: Any, options: dict[str, Any]) -> None:
        self._device = device
        # What `@cuda.jit` made has the function within.
        self._function = getattr(function, "py_func", function)
        self._options = options
        self._made: dict[Any, Kernel] = {}

    @staticmethod
    def _type(value: Any) -> Any:
        from numba import types
        from numba.np.numpy_support import from_dtype

        if isinstance(value, DeviceArray):
            return types.Array(from_dtype(value.dtype), len(value.shape), "C")
        if isinstance(value, np.ndarray):
            layout = "C" if value.flags.c_contiguous else "F" if value.flags.f_contiguous else "A"
            return types.Array(from_dtype(value.dtype), value.ndim, layout, readonly=not value.flags.writeable)
        if isinstance(value, np.generic):
            return from_dtype(value.dtype)
        for kind, numba in ((bool, types.boolean), (int, types.int64), (float, types.float64)):
            if isinstance(value, kind):
                return numba
        raise Error(f"a function of Numba takes arrays and numbers here, not {type(value).__name__}")

    def compiled(self, *args: Any) -> Kernel:
        """The kernel for arguments of these types; its PTX is made where it is not known yet."""
        from numba import cuda, types

        signature = types.void(*(self._type(value) for value in args))
        if signature not in self._made:
            options = {"cc": self._device.chip.compute_capability, **self._options}
            try:
                ptx, _ = cuda.compile_ptx(self._function, signature, device=False, **options)
            except RuntimeError as error:
                if "compute capability" not in str(error):
                    raise
                way = "CUDA 13 begins with 7.5, numba-cuda[cu12] has older ones"
                raise Error(f"Numba does not compile for {self._device.chip.name}: {error}; {way}") from error
            module = self._device.module(ptx, f"{self._function.__name__}.ptx")
            self._made[signature] = module[module.kernels[0]]
        return self._made[signature]

    def __call__(self, grid: Size, block: Size, *args: Any, **options: Any) -> Any:
        """Runs the function; `options` are those of calls of kernels."""
        flat: list[Any] = []
        for value in args:
            if not isinstance(value, (np.ndarray, DeviceArray)):
                flat.append(np.uint8(value) if isinstance(value, (bool, np.bool_)) else value)
                continue
            size = value.dtype.itemsize
            strides = value.strides if isinstance(value, np.ndarray) else _strides(value.shape, size)
            # As Numba passes an array: two addresses it has no use for here, elements, bytes of one, data, shape, strides.
            flat += [0, 0, math.prod(value.shape), size, value, *value.shape, *strides]
        return self.compiled(*args)(grid, block, *flat, **options)


def _strides(shape: tuple[int, ...], size: int) -> list[int]:
    """Bytes between elements along each axis of an array in C's order."""
    return [size * math.prod(shape[axis + 1 :]) for axis in range(len(shape))]


#: Triton's names of types, by those of NumPy.
TRITON = {
    "bool": "i1", "int8": "i8", "int16": "i16", "int32": "i32", "int64": "i64",
    "uint8": "u8", "uint16": "u16", "uint32": "u32", "uint64": "u64",
    "float16": "fp16", "bfloat16": "bf16", "float32": "fp32", "float64": "fp64",
}  # fmt: skip


class TritonKernel:
    """A kernel of Triton on a device: `kernel(grid, *arguments, NAME=constant)`."""

    def __init__(self, device: Device, function: Any, options: dict[str, Any]) -> None:
        self._device = device
        self._function = function
        self._options = options
        self._made: dict[Any, tuple[Kernel, Any]] = {}

    @staticmethod
    def _type(value: Any) -> tuple[str, bool]:
        """Triton's type of an argument, and whether it is a multiple of 16, which lets accesses be wide."""
        if isinstance(value, (np.ndarray, DeviceArray)):
            name = str(value.dtype)
            if name not in TRITON:
                raise Error(f"Triton has no type for arrays of {value.dtype}")
            return f"*{TRITON[name]}", True
        if isinstance(value, np.generic):
            return TRITON[str(value.dtype)], False
        if isinstance(value, bool):
            return "i1", False
        if isinstance(value, int):
            return "i32" if -(1 << 31) <= value < 1 << 31 else "i64", value % 16 == 0
        if isinstance(value, float):
            return "fp32", False
        raise Error(f"a kernel of Triton takes arrays and numbers here, not {type(value).__name__}")

    def compiled(self, *args: Any, **constants: Any) -> tuple[Kernel, Any]:
        """The kernel for arguments of these types, with what Triton says of it."""
        import triton
        from triton.backends.compiler import GPUTarget
        from triton.compiler import ASTSource

        names = self._function.arg_names
        rest = [name for name in names if name not in constants]
        if len(rest) != len(args):
            raise Error(f"{self._function.__name__} takes {', '.join(rest)}: {len(rest)} arguments, not {len(args)}")
        types = [self._type(value) for value in args]
        key = (tuple(types), tuple(sorted(constants.items())))
        if key not in self._made:
            kinds = dict(zip(rest, types))
            source = ASTSource(
                fn=self._function,
                signature={name: kinds[name][0] if name in kinds else "constexpr" for name in names},
                constexprs={(names.index(name),): value for name, value in constants.items()},
                attrs={(names.index(name),): [["tt.divisibility", 16]] for name in rest if kinds[name][1]},
            )
            major, minor = self._device.chip.compute_capability
            made = triton.compile(source, target=GPUTarget("cuda", 10 * major + minor, 32), options=self._options)
            module = self._device.module(made.asm["ptx"], f"{self._function.__name__}.ptx")
            self._made[key] = module[made.metadata.name], made.metadata
        return self._made[key]

    def __call__(self, grid: Any, *args: Any, stream: Stream | None = None, progress: Any = None, **constants: Any) -> Any:
        """Runs the kernel with a grid of so many blocks; gives what a call of a kernel does.

        `grid`: one to three numbers, or a function of the constants that gives them.
        """
        kernel, facts = self.compiled(*args, **constants)
        if callable(grid):
            grid = grid(constants)
        blocks = (grid,) if isinstance(grid, (int, np.integer)) else tuple(grid)
        values = [bool(v) if k[0] == "i1" else v for v, k in zip(args, map(self._type, args))]
        # Behind the arguments come scratch memory of the grid and that of a profiler, which there is not.
        missing = len(kernel.parameters) - len(values)
        scratch = getattr(facts, "global_scratch_size", 0) or 0
        if missing > 0:
            values.append(self._device.empty(scratch * math.prod(blocks), np.uint8) if scratch else 0)
        values += [0] * (missing - 1)
        block = 32 * facts.num_warps
        return kernel(blocks, block, *values, shared=facts.shared, stream=stream, progress=progress)
