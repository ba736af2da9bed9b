"""What came of a run: figures with their units, and the report."""

from __future__ import annotations

import html
import json
from functools import cached_property
from typing import Any

from . import _warpsim
from .errors import Error
from .tables import Table


def _rate(part: int, whole: int) -> float | None:
    return part / whole if whole else None


class Cache:
    """Figures of a level of caches, all SMs or slices together. Accesses are of lines."""

    def __init__(self, stats: dict[str, Any]) -> None:
        self._stats = stats

    @property
    def hits(self) -> int:
        """Accesses whose bytes were there."""
        return self._stats["hits"]

    @property
    def merges(self) -> int:
        """Accesses that waited for an earlier one to their line, as one that fetches it."""
        return self._stats["merges"]

    @property
    def misses(self) -> int:
        """Accesses that asked the next level."""
        return self._stats["misses"]

    @property
    def accesses(self) -> int:
        """All of these."""
        return self.hits + self.merges + self.misses

    @property
    def hit_rate(self) -> float | None:
        """Hits of all accesses, from 0 to 1; merges are no hits. None without accesses."""
        return _rate(self.hits, self.accesses)

    def to_dict(self) -> dict[str, Any]:
        """All counters, as the report has them."""
        return dict(self._stats)

    def __repr__(self) -> str:
        rate = "no accesses" if self.hit_rate is None else f"hit rate {self.hit_rate:.4f}"
        return f"<Cache: {self.accesses} accesses, {rate}>"


class Dram:
    """Figures of DRAM, all channels."""

    def __init__(self, stats: dict[str, Any]) -> None:
        self._stats = stats

    @property
    def bytes(self) -> int:
        """Bytes that were moved."""
        return self._stats["bytes"]

    @property
    def row_hit_rate(self) -> float | None:
        """Bursts that found their row open, from 0 to 1; None without bursts."""
        hits = self._stats["row_hits"]
        return _rate(hits, hits + self._stats["row_misses"] + self._stats["row_conflicts"])

    def to_dict(self) -> dict[str, Any]:
        """All counters, as the report has them."""
        return dict(self._stats)

    def __repr__(self) -> str:
        return f"<Dram: {self.bytes} bytes>"


class Memory:
    """Figures of memory."""

    def __init__(self, stats: dict[str, Any]) -> None:
        self._stats = stats

    @property
    def accesses(self) -> int:
        """Accesses of warps to global and local memory."""
        return self._stats["accesses"]

    @property
    def transactions(self) -> int:
        """Lines that they were split into."""
        return self._stats["transactions"]

    @property
    def bytes_useful(self) -> int:
        """Bytes that threads asked for."""
        return self._stats["bytes_useful"]

    @property
    def bytes_moved(self) -> int:
        """Bytes between SMs and partitions."""
        return self._stats["bytes_moved"]

    @property
    def load_latency(self) -> dict[str, dict[str, int]]:
        """Latencies of loads in core cycles, by the level that had their bytes: percentiles by name."""
        return self._stats["load_latency"]

    @property
    def l1(self) -> Cache:
        """L1, all SMs."""
        return Cache(self._stats["l1"])

    @property
    def l2(self) -> Cache:
        """L2, all slices."""
        return Cache(self._stats["l2"])

    @property
    def dram(self) -> Dram:
        """DRAM, all channels."""
        return Dram(self._stats["dram"])

    def to_dict(self) -> dict[str, Any]:
        """All counters, as the report has them."""
        return dict(self._stats)

    def __repr__(self) -> str:
        return f"<Memory: {self.accesses} accesses, {self.transactions} transactions>"


class KernelResult:
    """A kernel of a run."""

    def __init__(self, stats: dict[str, Any], result: Result) -> None:
        self._stats = stats
        self._result = result

    @property
    def name(self) -> str:
        """Name."""
        return self._stats["name"]

    @property
    def grid(self) -> tuple[int, int, int]:
        """Blocks (x, y, z)."""
        x, y, z = self._stats["grid"]
        return x, y, z

    @property
    def block(self) -> tuple[int, int, int]:
        """Threads of a block (x, y, z)."""
        x, y, z = self._stats["block"]
        return x, y, z

    @property
    def functional(self) -> bool:
        """It ran without timing."""
        return self._stats["functional"]

    @property
    def cycles(self) -> int:
        """Core cycles from the dispatch of its first block to the end of its last; 0 without timing."""
        return self._stats["cycles"]

    @property
    def time_us(self) -> float:
        """Microseconds of these cycles."""
        return self._stats["time_us"]

    @property
    def warp_instructions(self) -> int:
        """Issues of instructions of the text, for a warp or a path of one."""
        return self._stats["warp_instructions"]

    @property
    def thread_instructions(self) -> int:
        """The same, by thread."""
        return self._stats["thread_instructions"]

    @property
    def registers(self) -> int:
        """Registers of a thread, as occupancy counts them."""
        return self._stats["registers_per_thread"]

    @property
    def shared_bytes(self) -> int:
        """Shared memory of a block in bytes."""
        return self._stats["shared_bytes"]

    @property
    def resident_blocks(self) -> int:
        """Blocks that an SM can hold."""
        return self._stats["resident_blocks"]

    @property
    def occupancy_limit(self) -> str:
        """The resource that limits these."""
        return self._stats["occupancy_limit"]

    @property
    def memory(self) -> Memory:
        """Figures of memory. They are counted for a run: a run of several kernels has `Result.memory` only."""
        kernels = len(self._result.kernels)
        if kernels != 1:
            raise Error(
                f"memory is counted for a run, and this one has {kernels} kernels: use `result.memory`, or run the kernel alone"
            )
        return self._result.memory

    @property
    def l1(self) -> Cache:
        """L1, all SMs; as `memory`, for a kernel that ran alone."""
        return self.memory.l1

    @property
    def l2(self) -> Cache:
        """L2, all slices; as `memory`, for a kernel that ran alone."""
        return self.memory.l2

    @property
    def dram(self) -> Dram:
        """DRAM, all channels; as `memory`, for a kernel that ran alone."""
        return self.memory.dram

    def to_dict(self) -> dict[str, Any]:
        """All figures, as the report has them."""
        return dict(self._stats)

    def __repr__(self) -> str:
        what = "functional" if self.functional else f"{self.cycles} cycles"
        return f"<KernelResult {self.name}: {what}, {self.warp_instructions} warp instructions>"


class Report:
    """The report of a run: text where it is printed, a page with findings, roofline and source lines in a notebook."""

    def __init__(self, result: Result, title: str) -> None:
        self._result = result
        self._title = title

    def __str__(self) -> str:
        return self._result._ran.summary()

    def __repr__(self) -> str:
        return str(self)

    @cached_property
    def html(self) -> str:
        """The page, as HTML that loads nothing from anywhere."""
        return _warpsim.page(self._title, [(self._title, self._result._json)])

    def save(self, path: str) -> None:
        """Writes the page to a file."""
        with open(path, "w", encoding="utf-8") as file:
            file.write(self.html)

    def _repr_html_(self) -> str:
        return (
            f'<iframe srcdoc="{html.escape(self.html, quote=True)}" style="width: 100%; height: 640px; border: 0" '
            f'sandbox="allow-scripts"></iframe>'
        )


class Result:
    """What came of a run: of a call, of all that ran together on several streams, or of a workload."""

    def __init__(self, ran: _warpsim.Ran) -> None:
        self._ran = ran

    @cached_property
    def _json(self) -> str:
        return self._ran.json()

    @cached_property
    def _facts(self) -> dict[str, Any]:
        return json.loads(self._json)

    @property
    def cycles(self) -> int:
        """Core cycles in which a kernel ran, without launch latencies; 0 without timing."""
        return self._facts["cycles"]

    @property
    def launch_cycles(self) -> int:
        """Core cycles beside them, in which launches were under way and no kernel ran."""
        return self._facts["launch_cycles"]

    @property
    def time_us(self) -> float:
        """Microseconds of `cycles`."""
        return self._facts["time_us"]

    @property
    def issued(self) -> int:
        """Issue slots with an issue: a slot is a scheduler's core cycle."""
        return self._facts["issued"]

    @property
    def stalls(self) -> dict[str, int]:
        """Issue slots without an issue, by reason."""
        return self._facts["stalls"]

    @property
    def kernels(self) -> list[KernelResult]:
        """The kernels in the order of their launches."""
        return [KernelResult(kernel, self) for kernel in self._facts["kernels"]]

    @property
    def memory(self) -> Memory:
        """Figures of memory of the whole run."""
        return Memory(self._facts["memory"])

    @property
    def result(self) -> str:
        """pass, fail, unchecked (nothing says what is right) or stopped."""
        return self._facts["result"]

    @property
    def chip(self) -> str:
        """Name of the chip."""
        return self._facts["chip"]

    @property
    def policy(self) -> str:
        """Reconvergence policy with every parameter."""
        return self._facts["policy"]

    @property
    def printed(self) -> str:
        """What the kernels printed."""
        return self._facts.get("printed", "")

    @property
    def sanitizers(self) -> dict[str, Any] | None:
        """What sanitizers found, where `check` asked for them."""
        return self._facts.get("sanitizers")

    @cached_property
    def metrics(self) -> dict[str, float]:
        """Figures by the names of their metrics; `warpsim.metrics()` has units and definitions."""
        return self._ran.metrics()

    @property
    def bound(self) -> str:
        """What bounds the run, in words."""
        return self._ran.bound()

    @property
    def seconds(self) -> float:
        """Seconds that the host simulated."""
        return self._ran.seconds

    @property
    def lines(self) -> Table:
        """Counts by line of the PTX, where `profile=True` asked for them: issues, stall cycles (`waited`)."""
        names = ["kernel", "line", "text", "issues", "executing_lanes", "active_lanes", "waited"]
        return Table.of(names, ([line[name] for name in names] for line in self._facts.get("lines", [])))

    def buffer(self, name: str) -> Any:
        """The final contents of a buffer that `keep` names, as a NumPy array."""
        import numpy

        found = self._ran.buffer(name)
        if found is None:
            raise KeyError(f"the buffer `{name}` was not kept: keep=[…] of `run` names those that are")
        kind, data = found
        return numpy.frombuffer(data, DTYPES[kind])

    def report(self, title: str | None = None) -> Report:
        """The report: text, and a page in a notebook."""
        return Report(self, title or self._facts["workload"])

    def to_dict(self) -> dict[str, Any]:
        """All of it, as `report.json` has it."""
        return self._facts

    def __repr__(self) -> str:
        names = ", ".join(dict.fromkeys(kernel.name for kernel in self.kernels))
        return f"<Result of {names} on {self.chip}: {self.cycles} cycles, {self.result}>"

    def _repr_html_(self) -> str:
        head = f"<b>{html.escape(repr(self)[1:-1])}</b><br>{html.escape(self.bound if self.cycles else 'functional')}"
        slots = self.issued + sum(self.stalls.values())
        shares = [("issued", self.issued), *sorted(self.stalls.items(), key=lambda item: -item[1])]
        rows = "".join(
            f"<tr><td>{html.escape(name)}</td><td>{count:,}</td><td>{100 * count / slots:.1f} %</td></tr>"
            for name, count in shares
            if count and slots
        )
        table = f"<table><tr><th>issue slots</th><th></th><th>share</th></tr>{rows}</table>" if rows else ""
        return f"<div>{head}{table}</div>"


#: NumPy's types of those of buffers; bf16 has none, its bits are u16.
DTYPES = {
    "u8": "u1", "u16": "u2", "u32": "u4", "u64": "u8", "s8": "i1", "s16": "i2", "s32": "i4", "s64": "i8",
    "b8": "u1", "b16": "u2", "b32": "u4", "b64": "u8", "f16": "f2", "bf16": "u2", "f32": "f4", "f64": "f8",
}  # fmt: skip


def compare(a: Result, b: Result) -> Table:
    """The metrics in which two runs differ: values, and the change in per cent."""
    return Table.of(["metric", "unit", "a", "b", "percent"], _warpsim.compare(a._json, b._json))


def metrics() -> Table:
    """The metrics: names, units, definitions."""
    return Table.of(["metric", "unit", "meaning"], _warpsim.metrics())
