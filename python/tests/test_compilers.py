"""Kernels of Numba and Triton, compiled without a GPU. Without these packages the tests are skipped."""

import numpy as np
import pytest
import warpsim


@pytest.fixture
def numba():
    try:
        from numba import cuda
    except Exception as error:  # noqa: BLE001: without CUDA's libraries Numba raises what it likes
        pytest.skip(f"Numba with numba-cuda[cu13] cannot be imported: {error}")
    return cuda


def test_a_function_of_numba_runs_by_one_call(numba):
    def saxpy(a, x, y):
        i = numba.grid(1)
        if i < x.size:
            y[i] = a * x[i] + y[i]

    n = 1000
    x, y = np.arange(n, dtype=np.float32), np.ones(n, np.float32)
    gpu = warpsim.Device("rtx2080ti")
    kernel = gpu.numba(saxpy)
    r = kernel((n + 127) // 128, 128, np.float32(2), x, y)
    assert np.array_equal(y, 2 * x + 1) and r.cycles > 0
    # What was decorated, with arrays that stay, of other types and with two axes.
    device = gpu.array(y)
    gpu.numba(numba.jit(saxpy))((n + 127) // 128, 128, np.float32(1), device, device)
    assert np.array_equal(device.copy_to_host(), 2 * y)

    def transpose(a, b):
        i, j = numba.grid(2)
        if i < a.shape[0] and j < a.shape[1]:
            b[j, i] = a[i, j]

    a = np.arange(15, dtype=np.int64).reshape(3, 5)
    b = np.zeros((5, 3), np.int64)
    gpu.numba(transpose)(1, (8, 8), a, b)
    assert np.array_equal(b, a.T)
    with pytest.raises(warpsim.Error, match="Numba does not compile for gtx480"):
        warpsim.Device("gtx480").numba(saxpy)(1, 1, np.float32(2), x, y)
    with pytest.raises(warpsim.Error, match="not str"):
        kernel(1, 1, "x", x, y)


def test_a_kernel_of_triton_runs_by_one_call():
    pytest.importorskip("triton")
    from triton_kernels import add, product

    n = 1000
    x, y = np.arange(n, dtype=np.float32), np.ones(n, np.float32)
    out = np.zeros(n, np.float32)
    gpu = warpsim.Device("a100")
    r = gpu.triton(add, num_warps=4)(lambda c: (n + c["BLOCK"] - 1) // c["BLOCK"], x, y, out, n, BLOCK=128)
    assert np.array_equal(out, x + y) and r.cycles > 0
    assert r.kernels[0].block == (128, 1, 1)
    with pytest.raises(warpsim.Error, match="4 arguments, not 3"):
        gpu.triton(add)(8, x, y, out, BLOCK=128)
    random = np.random.default_rng(1)
    a, b = (random.uniform(-1, 1, (32, 32)).astype(np.float16) for _ in range(2))
    c = np.zeros((32, 32), np.float32)
    gpu.triton(product)(1, a, b, c, SIZE=32)
    assert np.allclose(c, a.astype(np.float32) @ b.astype(np.float32), atol=1e-2)
