"""Workloads and sweeps."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from . import _warpsim
from .chips import Chip, _text
from .errors import Differs, Stopped
from .progress import Bar, Progress
from .results import Result
from .tables import Table, typed


def run(
    program: str | os.PathLike[str],
    chip: Chip | str | os.PathLike[str] | None = None,
    *,
    set: Mapping[str, Any] | None = None,
    variant: str | None = None,
    policy: str | None = None,
    scheduler: str | None = None,
    check: str = "safety",
    seed: int = 0,
    threads: int = 1,
    functional: bool = False,
    skip_launches: int = 0,
    time_launches: int | None = None,
    max_cycles: int | None = None,
    max_instructions: int | None = None,
    allow_newer_isa: bool = False,
    profile: bool = False,
    sample_every: int | None = None,
    sample: float | None = None,
    keep: Sequence[str] = (),
    progress: Progress = None,
) -> Result:
    """Runs a workload, by its name, folder or `workload.yaml`, as `warpsim run` does.

    `chip`: by default the smallest that runs it. `set`: parameters of the workload by their names and values of the chip by
    their paths. `variant`: which of its programs. `seed`: what the seeds of random contents are changed by. `skip_launches`:
    launches that run without timing first. `time_launches`: launches that are timed then; by default all. `keep`: buffers for
    `Result.buffer`. The other options are those of `Device`.

    A result that is not what the workload expects raises `Differs`.
    """
    changes = dict(chip._set) if isinstance(chip, Chip) else {}
    changes |= {key: _text(value) for key, value in (set or {}).items()}
    options = {
        "program": os.fspath(program),
        "chip": chip._name if isinstance(chip, Chip) else None if chip is None else os.fspath(chip),
        "set": list(changes.items()),
        "variant": variant,
        "policy": policy,
        "scheduler": scheduler,
        "check": check,
        "seed": seed,
        "threads": threads,
        "functional": functional,
        "skip_launches": skip_launches,
        "time_launches": time_launches,
        "max_cycles": max_cycles,
        "max_instructions": max_instructions,
        "allow_newer_isa": allow_newer_isa,
        "profile": profile,
        "sample_every": sample_every,
        "sample": sample,
        "keep": list(keep),
    }
    try:
        with Bar(os.fspath(program), "blocks", progress) as bar:
            result = Result(_warpsim.run(json.dumps(options), bar.call))
    except Stopped as error:
        error.result = Result(error.ran) if hasattr(error, "ran") else None
        raise
    if result.result == "fail":
        raise Differs(f"{os.fspath(program)}: {result.to_dict().get('difference', 'its results differ')}", result)
    return result


@dataclass
class Sweep:
    """A sweep that was simulated. Points that are refused, as for a key that a chip does not have, are rows of the table and in
    `bad`; they raise nothing."""

    _native: _warpsim.Sweep = field(repr=False)
    #: Name.
    name: str
    #: Number of points.
    points: int
    #: Points that were simulated now.
    simulated: int
    #: Points that had results.
    had: int
    #: Points that other processes are at.
    elsewhere: int
    #: What was wrong, and the points it was wrong with, as arguments of `warpsim run`. They are rows of the table.
    bad: dict[str, list[str]]
    #: Points without a result, and why.
    broken: list[str]

    def table(self, wide: bool = False) -> Table:
        """The results: a row for each point and metric, as `warpsim sweep collect` writes them.

        `wide`: a row for each point, a column for each metric.
        """
        names, rows = self._native.table()
        if not wide:
            return Table({name: typed([row[i] for row in rows]) for i, name in enumerate(names)})
        at = {name: i for i, name in enumerate(names)}
        of_point = [name for name in names if name not in ("metric", "value", "unit")]
        points: dict[tuple[str, ...], dict[str, str]] = {}
        metrics: dict[str, None] = {}
        for row in rows:
            values = points.setdefault(tuple(row[at[name]] for name in of_point), {})
            if row[at["metric"]]:
                metrics.setdefault(row[at["metric"]])
                values[row[at["metric"]]] = row[at["value"]]
        columns = {name: typed([point[i] for point in points]) for i, name in enumerate(of_point)}
        # Axes come first; figures that points lack are missing.
        return Table(columns | {m: typed([values.get(m, "") for values in points.values()]) for m in metrics})


def sweep(
    file: str | os.PathLike[str],
    results: str | os.PathLike[str],
    *,
    jobs: int | None = None,
    progress: Progress = None,
) -> Sweep:
    """Simulates the points of a sweep file that have no result in the folder `results`, as `warpsim sweep run` does.

    A name without a folder that is no file may be a sweep that ships, such as `generations.yaml`. `jobs`: simulations at a time;
    the host's cores by default. Ctrl-C gives back what is under way; called again, it goes on.
    """
    native = _warpsim.Sweep(os.fspath(file), os.fspath(results))
    with Bar(native.name, "points", progress) as bar:
        counts, bad, broken = native.simulate(jobs, bar.call)
    return Sweep(_native=native, name=native.name, points=native.points, bad=dict(bad), broken=broken, **counts)
