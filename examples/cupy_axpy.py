# Arrays and a kernel by CuPy, which has CUDA's runtime within it. Install and run it by
#   pip install 'cupy-cuda13x[ctk]'
#   warpsim cuda -- python examples/cupy_axpy.py
import os

# Kernels are compiled to PTX, and reductions too: those that come with CuPy (CUB) are machine code for most chips.
os.environ.setdefault("CUPY_COMPILE_WITH_PTX", "1")
os.environ.setdefault("CUPY_ACCELERATORS", "")
import cupy

triple = cupy.RawKernel(
    """
extern "C" __global__ void triple(float *at, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        at[i] *= 3;
}
""",
    "triple",
)

n = 1000
y = 2 * cupy.arange(n, dtype=cupy.float32) + 1
triple((8,), (128,), (y, n))
total = float(y.sum())
right = total == 3 * n * n and cupy.asnumpy(y)[:3].tolist() == [3, 9, 15]
print("PASS" if right else "FAIL", f"sum is {total:.0f}")
