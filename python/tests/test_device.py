"""Devices, modules, calls."""

import os
import pickle
import signal
import struct
import threading
import time
from pathlib import Path

import numpy as np
import pytest
import warpsim
from kernels import BEYOND, FOREVER, HEAD, SPIN, TYPES, VECADD


@pytest.fixture
def gpu():
    return warpsim.Device("v100")


def arrays(n=1000):
    random = np.random.default_rng(1)
    a, b = (random.uniform(-1, 1, n).astype(np.float32) for _ in range(2))
    return a, b, np.zeros(n, np.float32)


def test_a_call_copies_in_and_back(gpu):
    a, b, c = arrays()
    before = gpu.free_bytes
    r = gpu.module(VECADD)["vecadd"]((8,), (128,), a, b, c, len(a))
    assert np.array_equal(c, a + b)
    assert gpu.free_bytes == before, "copies are freed"
    assert r.cycles > 100 and r.time_us > 0 and r.launch_cycles > 0
    assert r.cycles == r.kernels[0].cycles
    slots = r.issued + sum(r.stalls.values())
    assert slots == r.cycles * r.to_dict()["sms"] * r.to_dict()["schedulers"]
    kernel = r.kernels[0]
    assert (kernel.name, kernel.grid, kernel.block) == ("vecadd", (8, 1, 1), (128, 1, 1))
    assert kernel.thread_instructions > 1000 * 13 and kernel.registers > 0 and not kernel.functional
    # Each of the 3 * 32 lines is touched by one warp.
    assert kernel.l1.accesses > 0 and 0 <= kernel.l1.hit_rate <= 1
    assert r.memory.l2.accesses == 64 and r.memory.transactions == 96 and r.memory.bytes_useful == 12_000
    assert r.memory.l2.hit_rate == 1 and r.memory.l1.hit_rate == 1 - r.memory.l1.misses / r.memory.l1.accesses
    assert r.metrics["cycles"] == r.cycles
    assert (r.result, r.chip) == ("unchecked", "v100")
    assert r.seconds > 0


def test_a_run_is_the_same_again_and_what_was_changed_is_seen(gpu):
    def cycles(device):
        a, b, c = arrays()
        return device.module(VECADD)["vecadd"](8, 128, a, b, c, 1000).cycles

    assert cycles(gpu) == cycles(warpsim.Device("v100", threads=2))
    slow = warpsim.Device(warpsim.chip("v100", **{"memory.l2.hit_latency": 2000}))
    assert slow.chip["memory.l2.hit_latency"] == 2000
    assert cycles(slow) > cycles(warpsim.Device("v100"))


def test_functional_runs_have_results_and_no_cycles():
    a, b, c = arrays()
    gpu = warpsim.Device("v100", functional=True)
    r = gpu.module(VECADD)["vecadd"](8, 128, a, b, c, 1000)
    assert np.array_equal(c, a + b) and r.cycles == 0 and r.kernels[0].functional
    timed = warpsim.Device("v100").module(VECADD)["vecadd"](8, 128, a, b, c, 1000, functional=True)
    assert timed.kernels[0].functional


def test_arrays_stay_on_the_device(gpu):
    a, b, c = arrays()
    k = gpu.module(VECADD)["vecadd"]
    before = gpu.free_bytes
    x, y = gpu.array(a), gpu.empty(1000)
    k(8, 128, x, b, y, 1000)
    k(8, 128, y, b, y, 1000)
    assert np.array_equal(y.copy_to_host(), (a + b) + b)
    assert np.array_equal(x.copy_to_host(), a)
    assert np.array_equal(np.asarray(x), a) and np.asarray(x, np.float64).dtype == np.float64
    with pytest.raises(ValueError, match="without a copy"):
        x.__array__(copy=False)
    y.copy_from_host(a)
    out = np.empty_like(a)
    assert y.copy_to_host(out) is out and np.array_equal(out, a)
    assert (len(y), y.shape, y.dtype, y.nbytes) == (1000, (1000,), np.float32, 4000)
    assert gpu.free_bytes < before
    del x, y
    assert gpu.free_bytes == before, "freed with the last reference"
    with pytest.raises(warpsim.Error, match="shape"):
        gpu.empty(3).copy_from_host(a)
    with pytest.raises(warpsim.Error, match="contiguous"):
        gpu.empty(3).copy_to_host(a)


def test_streams_run_together(gpu):
    spin = gpu.module(SPIN)["spin"]
    at = [np.zeros(1, np.uint32) for _ in range(2)]
    alone = spin(1, 32, at[0], 500)
    at[0][:] = 0
    one, two = gpu.stream(), gpu.stream()
    assert one.number != two.number
    launches = [spin(1, 32, array, 500, stream=stream) for array, stream in zip(at, (one, two))]
    assert not launches[0].done and at[0][0] == 0, "nothing has run"
    together = gpu.synchronize()
    assert launches[0].done and at[0][0] == at[1][0] == 500
    assert launches[0].result is together and len(together.kernels) == 2
    assert together.cycles < 1.7 * alone.cycles
    assert launches[1].kernel.cycles == launches[1].cycles == together.kernels[1].cycles
    with pytest.raises(warpsim.Error, match="2 kernels"):
        together.kernels[0].l1
    # Each has its own figures.
    launches = [spin(1, 32, array, n, stream=stream) for array, n, stream in zip(at, (500, 50), (one, two))]
    assert launches[0].cycles > 2 * launches[1].cycles
    # What only a call has is there until it has run.
    before = gpu.free_bytes
    spin(1, 32, gpu.array(at[0]), 5, stream=one)
    assert gpu.free_bytes < before
    gpu.synchronize()
    assert gpu.free_bytes == before
    # One stream is in order, and the result runs what is queued.
    later = [spin(1, 32, array, 500, stream=one) for array in at]
    assert later[1].result.cycles > 1.7 * alone.cycles
    assert gpu.synchronize() is None
    with pytest.raises(warpsim.Error, match="another device"):
        spin(1, 32, at[0], 5, stream=warpsim.Device("v100").stream())


def test_numbers_become_what_parameters_are(gpu):
    k = gpu.module(TYPES)["store"]
    out = np.zeros(44, np.uint8)
    k(1, 1, out, 200, -3, 4_000_000_000, -5, 1.5, 2, np.float16(0.5), struct.pack("<if", 7, 0.25))
    found = struct.unpack("<Bxhiqf4xdexxif", out.tobytes())
    assert found == (200, -3, 4_000_000_000 - (1 << 32), -5, 1.5, 2.0, 0.5, 7, 0.25)
    assert k.parameters[:3] == [("at", "u64", 8), ("a", "u8", 1), ("b", "s16", 2)] and k.parameters[-1] == ("s", "bytes", 8)
    record = np.array((8, 0.5), [("i", "<i4"), ("f", "<f4")])
    k(1, 1, out, 1, 1, 1, 1, 1, 1, 0xABCD, record[()])
    assert struct.unpack("<Hxxif", out.tobytes()[32:]) == (0xABCD, 8, 0.5)


@pytest.mark.parametrize(
    ("place", "value", "words"),
    [
        (0, 1.5, "argument 1 of store is 1.5, but parameter `at` is .u64"),
        (0, "x", "is of type str"),
        (0, np.array([object()]), "which no kernel can read"),
        (0, np.zeros((4, 4))[:, 0], "do not lie one behind the other"),
        (1, 256, "out of range: parameter `a` is .u8"),
        (1, -1, "out of range"),
        (2, 1 << 15, "out of range: parameter `b` is .s16"),
        (3, np.float32(1), "is of type float32, but parameter `c` is .u32"),
        (3, np.int64(1), "has 8 bytes, but parameter `c` is .u32 of 4 bytes"),
        (3, np.zeros(3), "is an array, but parameter `c` is .u32"),
        (5, np.int32(1), "is of type int32, but parameter `e` is .f32"),
        (5, np.zeros(3), "is an array"),
        (7, 0.5, "but parameter `h` is .b16: pass a NumPy number"),
        (8, b"123", "has 3 bytes, but parameter `s` has 8 bytes"),
    ],
)
def test_wrong_arguments_are_told(gpu, place, value, words):
    args = [np.zeros(44, np.uint8), 1, 1, 1, 1, 1.0, 1.0, 1, bytes(8)]
    args[place] = value
    before = gpu.free_bytes
    with pytest.raises(warpsim.Error) as caught:
        gpu.module(TYPES)["store"](1, 1, *args)
    assert words in str(caught.value)
    assert gpu.free_bytes == before, "what was copied is freed"


def test_the_number_of_arguments_and_sizes_are_checked(gpu):
    k = gpu.module(VECADD)["vecadd"]
    a, b, c = arrays()
    before = gpu.free_bytes
    with pytest.raises(warpsim.Error, match=r"vecadd takes 4 arguments \(u64 a, u64 b, u64 c, u32 n\), not 2"):
        k(8, 128, a, b)
    for grid in [0, -1, (1, 2, 3, 4), (), 1.5, (1, "x"), 1 << 32]:
        with pytest.raises(warpsim.Error, match="grid takes one to three numbers"):
            k(grid, 128, a, b, c, 1)
    with pytest.raises(warpsim.Error, match="1024") as caught:
        k(1, 2048, a, b, c, 1)
    assert caught.value.code
    with pytest.raises(KeyError, match="it has: vecadd"):
        gpu.module(VECADD)["vecad"]
    # What was refused is not queued, and leaves nothing.
    assert gpu.synchronize() is None and gpu.free_bytes == before


def test_arrays_that_are_the_same_or_overlap(gpu):
    k = gpu.module(VECADD)["vecadd"]
    a, b, _ = arrays()
    was = a.copy()
    k(8, 128, a, b, a, 1000)
    assert np.array_equal(a, was + b)
    k(8, 128, a[:], b, a[:], 1000)
    assert np.array_equal(a, was + b + b)
    with pytest.raises(warpsim.Error, match="argument 3 of vecadd overlaps argument 1"):
        k(8, 128, a[:500], b, a[100:600], 100)


def test_orders_of_elements_and_empty_arrays(gpu):
    k = gpu.module(VECADD)["vecadd"]
    a = np.asfortranarray(np.arange(12, dtype=np.float32).reshape(3, 4))
    c = np.zeros((3, 4), np.float32, order="F")
    k(1, 32, a, a, c, 12)
    assert np.array_equal(c, 2 * a) and c.flags.f_contiguous
    empty = np.zeros(0, np.float32)
    k(1, 32, empty, a, empty, 0)
    assert gpu.array(empty).copy_to_host().shape == (0,)


def test_an_array_that_is_not_writeable_is_not_changed(gpu):
    k = gpu.module(VECADD)["vecadd"]
    a, b, c = arrays()
    a.flags.writeable = c.flags.writeable = False
    with pytest.raises(warpsim.Error, match="argument 3 of vecadd is not writeable, and the kernel changed it"):
        k(8, 128, a, b, c, 1000)
    assert not c.any()


def test_diagnostics_have_places(gpu):
    text = HEAD + ".visible .entry k() {\n    .reg .b32 %r;\n    ad.u32 %r, %r, 1;\n    ret;\n}\n"
    with pytest.raises(warpsim.Error) as caught:
        gpu.module(text, name="mine.ptx")["k"]
    error = caught.value
    assert (error.file, error.line, error.column) == ("mine.ptx", 6, 5)
    assert "ad" in error.message and "^" in str(error) and error.diagnostics[0].text in str(error)
    with pytest.raises(warpsim.Error) as caught:
        gpu.module(text.replace("()", "("), name="mine.ptx")
    assert (caught.value.file, caught.value.line) == ("mine.ptx", 4)
    with pytest.raises(warpsim.Error, match="pathlib.Path"):
        gpu.module("vecadd.ptx")
    with pytest.raises(warpsim.Error) as caught:
        warpsim.Device("v10")
    assert "did you mean `v100`" in caught.value.help and caught.value.file is None
    for wrong in [{"policy": "none"}, {"scheduler": "none"}, {"check": "none"}, {"threads": 0}]:
        with pytest.raises(warpsim.Error):
            warpsim.Device("v100", **wrong)


def test_a_module_from_a_file(gpu, tmp_path):
    path = tmp_path / "k.ptx"
    path.write_text(VECADD)
    module = gpu.module(path)
    assert module.kernels == ["vecadd"] and [k.name for k in module] == ["vecadd"]
    path.write_text(VECADD.replace("add.f32", "ad.f32"))
    with pytest.raises(warpsim.Error) as caught:
        gpu.module(path)["vecadd"]
    assert caught.value.file == str(path)


def test_a_fault_has_its_place_and_what_was_counted(gpu):
    k = gpu.module(BEYOND, name="beyond.ptx")["beyond"]
    at = np.zeros(1, np.uint32)
    with pytest.raises(warpsim.Fault) as caught:
        k(1, 32, at)
    error = caught.value
    assert (error.kind, error.kernel, error.file, error.line) == ("fault", "beyond", "beyond.ptx", 8)
    assert error.block == (0, 0, 0) and error.thread == (0, 0, 0) and error.cycle > 0
    assert "st.global.u32" in error.instruction and error.code
    assert error.result.result == "stopped" and error.result.kernels[0].name == "beyond"
    sent = pickle.loads(pickle.dumps(error))
    assert (type(sent), str(sent), sent.line, sent.thread, sent.cycle) == (warpsim.Fault, str(error), 8, (0, 0, 0), error.cycle)
    assert sent.result is None
    # The device goes on.
    a, b, c = arrays()
    gpu.module(VECADD)["vecadd"](8, 128, a, b, c, 1000)
    assert np.array_equal(c, a + b)


def test_limits_stop_a_run():
    at = np.zeros(1, np.uint32)
    gpu = warpsim.Device("v100", max_cycles=20_000)
    with pytest.raises(warpsim.LimitReached) as caught:
        gpu.module(FOREVER)["forever"](1, 32, at)
    assert caught.value.kind == "limit" and caught.value.kernel == "forever"
    gpu = warpsim.Device("v100", functional=True, max_instructions=1000)
    with pytest.raises(warpsim.LimitReached):
        gpu.module(FOREVER)["forever"](1, 32, at)


@pytest.mark.parametrize("functional", [False, True])
def test_ctrl_c_stops_a_run_and_the_device_goes_on(functional, sigint):
    gpu = warpsim.Device("v100", functional=functional)
    k = gpu.module(FOREVER)["forever"]
    at = np.zeros(1, np.uint32)
    threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT)).start()
    begin = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        k(1, 32, at)
    assert 0.4 < time.monotonic() - begin < 10
    a, b, c = arrays()
    gpu.module(VECADD)["vecadd"](8, 128, a, b, c, 1000)
    assert np.array_equal(c, a + b)


def test_the_interpreter_goes_on_while_something_is_simulated():
    gpu = warpsim.Device("v100", max_cycles=2_000_000)
    k = gpu.module(FOREVER)["forever"]
    counted = 0

    def count():
        nonlocal counted
        while not done.wait(0.001):
            counted += 1

    done = threading.Event()
    counter = threading.Thread(target=count)
    counter.start()
    with pytest.raises(warpsim.LimitReached):
        k(1, 32, np.zeros(1, np.uint32))
    done.set()
    counter.join()
    assert counted > 10


def test_progress_is_told_and_may_stop_a_run(gpu):
    k = gpu.module(FOREVER)["forever"]
    told = []

    def progress(cycle, done, whole):
        told.append((cycle, done, whole))
        if len(told) > 5:
            raise RuntimeError("enough")

    with pytest.raises(RuntimeError, match="enough"):
        k(1, 32, np.zeros(1, np.uint32), progress=progress)
    assert told[-1][0] > told[0][0] and told[-1][1:] == (0, 1)


def test_threads_take_turns(gpu):
    k = gpu.module(VECADD)["vecadd"]
    wrong = []

    def work():
        for _ in range(5):
            a, b, c = arrays()
            k(8, 128, a, b, c, 1000)
            if not np.array_equal(c, a + b):
                wrong.append(1)

    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_what_a_kernel_needs_and_is_called(gpu):
    module = gpu.module(HEAD + ".visible .global .align 4 .u32 counter;\n.visible .entry k() {\n ret;\n}\n")
    assert module.variable("counter")[1] == 4
    with pytest.raises(KeyError):
        module.variable("none")
    k = module["k"]
    assert set(k.attributes) == {"registers", "shared_bytes", "local_bytes", "max_threads"} and k.attributes["max_threads"] == 1024
    k(1, 32)
    assert repr(gpu).startswith("<warpsim.Device v100, policy ") and repr(module) == "<Module: k>"
    assert repr(gpu.module(VECADD)["vecadd"]) == "<Kernel vecadd(u64 a, u64 b, u64 c, u32 n)>"


def test_profiles_have_lines():
    a, b, c = arrays()
    gpu = warpsim.Device("v100", profile=True)
    lines = gpu.module(VECADD)["vecadd"](8, 128, a, b, c, 1000).lines
    assert len(lines) > 5 and sum(lines["issues"]) > 0 and "add.f32" in "".join(lines["text"])
    assert len(warpsim.Device("v100").module(VECADD)["vecadd"](8, 128, a, b, c, 1000).lines) == 0


def test_sanitizers_find_races():
    text = HEAD + ".visible .entry k(.param .u64 at) {\n .reg .b64 %a; .reg .b32 %t;\n ld.param.u64 %a, [at];\n"
    text += " mov.u32 %t, %tid.x;\n st.global.u32 [%a], %t;\n ret;\n}\n"
    gpu = warpsim.Device("v100", check="races")
    r = gpu.module(text)["k"](1, 64, np.zeros(1, np.uint32))
    assert r.sanitizers["findings"]


def test_the_command_is_there():
    import subprocess
    import sys

    out = subprocess.run([sys.executable, "-m", "warpsim", "chips"], capture_output=True, text=True, cwd=Path("/"))
    assert out.returncode == 0 and "h100" in out.stdout
