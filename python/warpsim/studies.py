"""Studies: many simulations for one table, as `warpsim study` makes them."""

from __future__ import annotations

import json
import os
import warnings
from collections.abc import Mapping, Sequence
from typing import Any

from . import _warpsim
from .chips import _text
from .progress import Bar, Progress
from .tables import Table

Path = str | os.PathLike[str]


def _study(name: str, unit: str, options: Mapping[str, Any], progress: Progress) -> list[dict[str, Any]]:
    with Bar(name, unit, progress) as bar:
        rows, left_out = _warpsim.study(name, json.dumps(options), bar.call)
    for why in left_out:
        warnings.warn(f"not compared: {why}", stacklevel=3)
    return json.loads(rows)


def _table(rows: list[dict[str, Any]]) -> Table:
    # Keys that are left out of a row are missing figures.
    names = list(dict.fromkeys(name for row in rows for name in row))
    return Table.of(names, ([row.get(name) for name in names] for row in rows))


def _settings(values: Mapping[str, Any] | None) -> list[str]:
    return [f"{key}={_text(value)}" for key, value in (values or {}).items()]


def study_policies(
    workloads: Sequence[str] = (),
    policies: Sequence[str] = (),
    chip: Path = "gtx480",
    *,
    set: Mapping[str, Any] | None = None,
    variant: str | None = None,
    jobs: int | None = None,
    progress: Progress = None,
) -> Table:
    """Workloads under reconvergence policies: cycles, speed-up over `pdom_stack`, SIMD efficiency, instructions, transactions.

    By default the workloads that diverge, under all policies. `jobs`: simulations at a time; the host's cores by default.
    """
    options = {
        "workloads": list(workloads),
        "policies": list(policies),
        "chip": os.fspath(chip),
        "variant": variant,
        "set": _settings(set),
        "jobs": jobs,
    }
    return _table(_study("policies", "simulations", options, progress))


def study_liveness(
    chip: Path = "gtx480",
    *,
    variant: str = "sm_52",
    max_cycles: int = 4_000_000,
    jobs: int | None = None,
    progress: Progress = None,
) -> Table:
    """Programs that need fair scheduling, under every policy: which terminate, and in how many cycles.

    One that has not ended after `max_cycles` core cycles counts as not terminating. `verdict`: `terminates`, `livelock` or
    `deadlock` (proved), or `runs on`.
    """
    options = {"chip": os.fspath(chip), "variant": variant, "max_cycles": max_cycles, "jobs": jobs}
    return _table(_study("liveness", "simulations", options, progress))


def study_microbenchmarks(
    chips: Sequence[Path] = (), *, gated: bool = False, jobs: int | None = None, progress: Progress = None
) -> Table:
    """Microbenchmarks beside published measurements: `ours` and `published` in `unit`, `error` in per cent.

    By default all chips with measurements. `gated`: only rows that must hold; `holds` says whether they do.
    """
    options = {"chip": [os.fspath(chip) for chip in chips], "gated": gated, "jobs": jobs}
    return _table(_study("microbenchmarks", "measurements", options, progress))


def study_registers() -> Table:
    """Registers a thread of the kernels of all workloads beside those that ptxas allocates, with errors in per cent."""
    return _table(_study("registers", "kernels", {}, False))


def study_silicon(
    programs: Path | None = None,
    *,
    chips: Sequence[Path] = (),
    data: Path | None = None,
    set: Mapping[str, Any] | None = None,
    only: str | None = None,
    jobs: int | None = None,
    progress: Progress = None,
) -> Table:
    """Whole kernels beside what was measured on hardware, the worst first: core cycles, and counts of profilers.

    Without `programs` the workloads that were measured; else the CUDA programs of that folder. `data`: measurements in the
    format of data/silicon.yaml in place of those that ship. `ratio`: cycles of the simulator over those of the machine.
    What a profiler counted is in columns that begin with `silicon_`. A program that is not there is warned of. `only`: a
    regular expression of the programs, or of the commands of the workloads.
    """
    options = {
        "programs": None if programs is None else os.fspath(programs),
        "data": None if data is None else os.fspath(data),
        "chip": [os.fspath(chip) for chip in chips],
        "set": _settings(set),
        "only": only,
        "jobs": jobs,
    }
    rows = _study("silicon", "runs", options, progress)
    counted = [{f"silicon_{name}": value for name, value in row.pop("silicon").items()} for row in rows]
    return _table([row | counts for row, counts in zip(rows, counted, strict=True)])
