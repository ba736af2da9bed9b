"""warpsim: a GPU architecture simulator. Real PTX in, a cycle-level answer out.

    import numpy as np, warpsim

    gpu = warpsim.Device(warpsim.chip("h100", **{"memory.l2.hit_latency": 200}))
    k = gpu.module(open("vecadd.ptx").read())["vecadd"]
    a, b, c = np.ones(1024, np.float32), np.ones(1024, np.float32), np.zeros(1024, np.float32)
    r = k((4,), (256,), a, b, c, 1024)
    r.cycles, r.stalls, r.kernels[0].l1.hit_rate

All times are in cycles of the core clock, but for what ends in `_us` (microseconds). Sizes are in bytes.
"""

from . import _start as _start
from ._warpsim import version as _version
from .chips import Chip, chip, chips, policies, schedulers, workloads
from .device import Device, DeviceArray, Kernel, Launch, Module, Stream
from .errors import Diagnostic, Differs, Error, Fault, LimitReached
from .results import Cache, Dram, KernelResult, Memory, Report, Result, compare, metrics
from .runs import Sweep, run, sweep
from .studies import (
    study_liveness,
    study_microbenchmarks,
    study_policies,
    study_registers,
    study_silicon,
)
from .tables import Table

#: The version, with the commit where it is known.
__version__: str = _version()

__all__ = [
    "Cache",
    "Chip",
    "Device",
    "DeviceArray",
    "Diagnostic",
    "Differs",
    "Dram",
    "Error",
    "Fault",
    "Kernel",
    "KernelResult",
    "Launch",
    "LimitReached",
    "Memory",
    "Module",
    "Report",
    "Result",
    "Stream",
    "Sweep",
    "Table",
    "chip",
    "chips",
    "compare",
    "metrics",
    "policies",
    "run",
    "schedulers",
    "study_liveness",
    "study_microbenchmarks",
    "study_policies",
    "study_registers",
    "study_silicon",
    "sweep",
    "workloads",
]
