"""What goes wrong, as exceptions."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .results import Result


@dataclass(frozen=True)
class Diagnostic:
    """One thing that is wrong with an input."""

    #: A short name of the kind of problem.
    code: str
    #: What is wrong.
    message: str
    #: How to correct it.
    help: str | None
    #: Name of the text it is in.
    file: str | None
    #: Line, from 1.
    line: int | None
    #: Column in characters, from 1.
    column: int | None
    #: All of it, with the line of the text and a caret.
    text: str

    def __str__(self) -> str:
        return self.text


class Error(Exception):
    """Bad input: a text, a chip, a launch, an argument. What `str()` gives is for people; the attributes are for programs.

    Of several diagnostics `message`, `code`, `help`, `file`, `line` and `column` are those of the first.
    """

    def __init__(self, text: str, diagnostics: tuple[Diagnostic, ...] = ()) -> None:
        super().__init__(text)
        first = diagnostics[0] if diagnostics else None
        #: All that is wrong.
        self.diagnostics: tuple[Diagnostic, ...] = diagnostics
        #: What is wrong.
        self.message: str = first.message if first else text
        #: A short name of the kind of problem.
        self.code: str | None = first.code if first else None
        #: How to correct it.
        self.help: str | None = first.help if first else None
        #: Name of the text it is in: a path, or the name given to `Device.module`.
        self.file: str | None = first.file if first else None
        #: Line, from 1.
        self.line: int | None = first.line if first else None
        #: Column in characters, from 1.
        self.column: int | None = first.column if first else None


class Stopped(Error):
    """A simulation that stopped before its end."""

    def __init__(self, text: str, facts: dict[str, Any]) -> None:
        super().__init__(text)
        self._facts = facts
        place = facts.get("place") or {}
        self.message = facts["message"]
        #: fault, check_violation, deadlock, livelock, or limit.
        self.kind: str = facts["kind"]
        self.code = facts.get("rule") or self.kind
        self.file = place.get("file")
        self.line = place.get("line")
        #: Name of the kernel, where it is known.
        self.kernel: str | None = place.get("kernel")
        #: The instruction, as the PTX has it.
        self.instruction: str | None = place.get("instruction")
        #: Index of the block in the grid (x, y, z).
        self.block: tuple[int, int, int] | None = tuple(place["block"]) if place else None
        #: Index of the thread in the block (x, y, z).
        self.thread: tuple[int, int, int] | None = tuple(place["thread"]) if place else None
        #: Core cycle at which it stopped.
        self.cycle: int | None = place.get("cycle")
        #: What was counted until then.
        self.result: Result | None = None

    def __reduce__(self) -> tuple[Any, ...]:
        # Results hold the simulator, and stay in their process.
        return type(self), (str(self), self._facts)


class Fault(Stopped):
    """The program did what it must not (a bad address, a trap, a barrier it misuses), or can never end (`kind` says which)."""


class LimitReached(Stopped):
    """A limit of cycles, instructions or of the host's memory was reached."""


class Differs(Error):
    """A workload's results are not those that it expects."""

    def __init__(self, text: str, result: Result | None) -> None:
        super().__init__(text)
        #: What was counted; none where the exception comes from another process.
        self.result: Result | None = result

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (str(self), None)


def of_input(facts: str) -> Error:
    """The exception of diagnostics, given as JSON."""
    found = tuple(Diagnostic(**one) for one in json.loads(facts))
    return Error("\n".join(one.text for one in found), found)


def of_words(facts: str) -> Error:
    """The exception of a message, given as JSON."""
    return Error(json.loads(facts))


def of_stop(facts: str) -> Stopped:
    """The exception of a simulation that stopped, given as JSON."""
    found = json.loads(facts)
    kind = LimitReached if found["kind"] == "limit" else Fault
    return kind(found["text"], found)
