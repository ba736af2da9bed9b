"""How far something is: in notebooks and on terminals, once it takes longer than a moment."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import Any

#: Seconds before anything is shown.
PATIENCE = 0.5

#: What calls take as `progress`: whether to show it, or who is told (cycle, done, in all).
Progress = bool | None | Callable[[int, int, int], Any]


def _notebook() -> bool:
    """Whether a notebook shows what is displayed."""
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    return shell is not None and hasattr(shell, "kernel")


class Bar:
    """A bar that is there while something runs."""

    def __init__(self, what: str, unit: str, progress: Progress = None) -> None:
        self._what, self._unit = what, unit
        self._begin = time.monotonic()
        self._handle: Any = None
        self._printed = False
        self._notebook = _notebook()
        shown = progress if isinstance(progress, bool) else self._notebook or sys.stderr.isatty()
        #: What the native part is given.
        self.call: Callable[[int, int, int], Any] | None
        if callable(progress):
            self.call = progress
        else:
            self.call = self._show if shown else None

    def _show(self, cycle: int, done: int, whole: int) -> None:
        seconds = time.monotonic() - self._begin
        if seconds < PATIENCE or whole == 0:
            return
        at = f", cycle {cycle:,}" if cycle else ""
        text = f"{self._what}: {done:,} of {whole:,} {self._unit}{at}, {seconds:.0f} s"
        if not self._notebook:
            sys.stderr.write(f"\r{text}\x1b[K")
            sys.stderr.flush()
            self._printed = True
            return
        from IPython.display import HTML, display

        bar = HTML(f'<progress value="{done}" max="{whole}"></progress> {text}')
        if self._handle is None:
            self._handle = display(bar, display_id=True)
        else:
            self._handle.update(bar)

    def __enter__(self) -> Bar:
        return self

    def __exit__(self, *_: object) -> None:
        if self._handle is not None:
            from IPython.display import HTML

            self._handle.update(HTML(""))
        if self._printed:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()
