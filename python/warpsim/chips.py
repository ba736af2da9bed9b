"""Chips, and what else there is to choose from."""

from __future__ import annotations

import html
import json
import os
from typing import Any

from . import _warpsim
from .tables import Table


def _text(value: Any) -> str:
    """A value as the file of a chip has it."""
    return value if isinstance(value, str) else json.dumps(value)


class Chip:
    """A chip with all its values. `warpsim.chip` makes one."""

    def __init__(self, name: str | os.PathLike[str], changes: dict[str, Any] | None = None) -> None:
        """`name`: a shipped chip or a file; `changes`: values by their paths."""
        self._name = os.fspath(name)
        self._set = {path: _text(value) for path, value in (changes or {}).items()}
        facts = json.loads(_warpsim.chip(self._name, list(self._set.items())))
        self._values: dict[str, Any] = facts["values"]
        self._core_khz: int = facts["core_khz"]
        self._dram: float = facts["dram_bytes_per_second"]

    @property
    def name(self) -> str:
        """Name."""
        return self._values["name"]

    @property
    def changes(self) -> dict[str, str]:
        """Values that were changed, by their paths, as text."""
        return dict(self._set)

    @property
    def values(self) -> dict[str, Any]:
        """All values, nested as in the chip's file (`warpsim docs reference/chip` has units and meanings)."""
        return self._values

    @property
    def compute_capability(self) -> tuple[int, int]:
        """Compute capability, as (9, 0)."""
        major, minor = self._values["compute_capability"].split(".")
        return int(major), int(minor)

    @property
    def sms(self) -> int:
        """Number of streaming multiprocessors."""
        return self._values["limits"]["NumProcessors"]

    @property
    def core_mhz(self) -> float:
        """Core clock in MHz."""
        return self._core_khz / 1000

    @property
    def dram_bytes_per_second(self) -> float:
        """What the data buses of all DRAM channels can move, in bytes a second."""
        return self._dram

    def __getitem__(self, path: str) -> Any:
        """A value by its path, such as `memory.l2.hit_latency`."""
        at: Any = self._values
        for word in path.split("."):
            if not isinstance(at, dict) or word not in at:
                raise KeyError(path)
            at = at[word]
        return at

    def but(self, **changes: Any) -> Chip:
        """The same chip with further changes: `chip.but(**{"memory.l2.hit_latency": 300})`."""
        return Chip(self._name, {**self._set, **changes})

    def __repr__(self) -> str:
        changed = "".join(f", {path}={value}" for path, value in self._set.items())
        return f"<warpsim.Chip {self.name}{changed}>"

    def _repr_html_(self) -> str:
        major, minor = self.compute_capability
        rows = [
            ("compute capability", f"{major}.{minor}"),
            ("SMs", self.sms),
            ("core clock", f"{self.core_mhz:.0f} MHz"),
            ("DRAM", f"{self.dram_bytes_per_second / 1e9:.0f} GB/s"),
            *((f"{path} (changed)", value) for path, value in self._set.items()),
        ]
        cells = "".join(f"<tr><th>{html.escape(k)}</th><td>{html.escape(str(v))}</td></tr>" for k, v in rows)
        description = html.escape(self._values.get("description", ""))
        return f"<table><caption><b>{html.escape(self.name)}</b> {description}</caption>{cells}</table>"


def chip(name: str | os.PathLike[str], **changes: Any) -> Chip:
    """A chip by its name or file, with values changed by their paths.

    `warpsim.chip("h100", **{"memory.l2.hit_latency": 200})`; latencies are in core cycles, sizes in bytes.
    """
    return Chip(name, changes)


def chips() -> list[str]:
    """Names of the chips that ship."""
    return _warpsim.chips()


def workloads() -> Table:
    """The workloads that there are."""
    return Table.of(["workload", "description"], _warpsim.workloads())


def policies() -> Table:
    """The reconvergence policies: what they do, and what is known of their fairness."""
    return Table.of(["policy", "what it does", "fairness"], _warpsim.policies())


def schedulers() -> Table:
    """The warp schedulers."""
    return Table.of(["scheduler", "what it does"], _warpsim.schedulers())
