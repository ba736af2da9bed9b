# A kernel in Python, compiled by Numba. Install and run it by
#   pip install numba 'numba-cuda[cu13]'
#   warpsim cuda -- python examples/numba_saxpy.py
import numpy as np
from numba import cuda


@cuda.jit
def saxpy(a, x, y):
    i = cuda.grid(1)
    if i < x.size:
        y[i] = a * x[i] + y[i]


@cuda.jit
def sums(x, out):
    part = cuda.shared.array(128, np.float32)
    i, t = cuda.grid(1), cuda.threadIdx.x
    part[t] = x[i] if i < x.size else 0
    cuda.syncthreads()
    step = 64
    while step > 0:
        if t < step:
            part[t] += part[t + step]
        cuda.syncthreads()
        step //= 2
    if t == 0:
        cuda.atomic.add(out, 0, part[0])


n = 1000
x = np.arange(n, dtype=np.float32)
y = np.ones(n, dtype=np.float32)
device = cuda.to_device(y)
saxpy[(n + 127) // 128, 128](np.float32(2), x, device)
total = np.zeros(1, dtype=np.float32)
sums[(n + 127) // 128, 128](device, total)
expected = 2 * x + 1
right = np.array_equal(device.copy_to_host(), expected) and total[0] == expected.sum()
print("PASS" if right else "FAIL", f"sum is {total[0]:.0f}")
