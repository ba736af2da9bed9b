# A kernel in Python, compiled by Triton for the simulated chip and launched by the driver API. Triton's own launcher loads
# machine code, which cannot run; its PTX can. Install and run it by
#   pip install triton numpy
#   warpsim cuda -- python examples/triton_add.py
import ctypes

import numpy as np
import triton
import triton.language as tl
from triton.backends.compiler import GPUTarget

cuda = ctypes.CDLL("libcuda.so.1")


def call(name, *arguments):
    status = getattr(cuda, name)(*arguments)
    if status != 0:
        text = ctypes.c_char_p()
        cuda.cuGetErrorString(status, ctypes.byref(text))
        raise RuntimeError(f"{name}: {text.value.decode()}")


@triton.jit
def add(x, y, out, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = i < n
    tl.store(out + i, tl.load(x + i, mask=inside) + tl.load(y + i, mask=inside), mask=inside)


BLOCK = 128
call("cuInit", 0)
context, major, minor = ctypes.c_void_p(), ctypes.c_int(), ctypes.c_int()
call("cuDevicePrimaryCtxRetain", ctypes.byref(context), 0)
call("cuCtxSetCurrent", context)
call("cuDeviceGetAttribute", ctypes.byref(major), 75, 0)
call("cuDeviceGetAttribute", ctypes.byref(minor), 76, 0)
signature = {"x": "*fp32", "y": "*fp32", "out": "*fp32", "n": "i32", "BLOCK": "constexpr"}
source = triton.compiler.ASTSource(fn=add, signature=signature, constexprs={"BLOCK": BLOCK})
kernel = triton.compile(source, target=GPUTarget("cuda", 10 * major.value + minor.value, 32))

module, function = ctypes.c_void_p(), ctypes.c_void_p()
call("cuModuleLoadData", ctypes.byref(module), kernel.asm["ptx"].encode())
call("cuModuleGetFunction", ctypes.byref(function), module, kernel.metadata.name.encode())
n = 1000
x, y, out = np.arange(n, dtype=np.float32), np.full(n, 0.5, dtype=np.float32), np.zeros(n, dtype=np.float32)
device = []
for host in (x, y, out):
    at = ctypes.c_uint64()
    call("cuMemAlloc_v2", ctypes.byref(at), ctypes.c_size_t(host.nbytes))
    call("cuMemcpyHtoD_v2", at, ctypes.c_void_p(host.ctypes.data), ctypes.c_size_t(host.nbytes))
    device.append(at)
# Behind the kernel's own arguments come two addresses of scratch memory, which it does not use.
arguments = [*device, ctypes.c_int(n), ctypes.c_uint64(), ctypes.c_uint64()]
pointers = (ctypes.c_void_p * len(arguments))(*(ctypes.addressof(own) for own in arguments))
grid, threads = (n + BLOCK - 1) // BLOCK, 32 * kernel.metadata.num_warps
call("cuLaunchKernel", function, grid, 1, 1, threads, 1, 1, kernel.metadata.shared, None, pointers, None)
call("cuMemcpyDtoH_v2", ctypes.c_void_p(out.ctypes.data), device[2], ctypes.c_size_t(out.nbytes))
print("PASS" if np.array_equal(out, x + y) else "FAIL", f"last is {out[-1]}")
