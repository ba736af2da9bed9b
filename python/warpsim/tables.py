"""Tables that pandas, Polars, DuckDB and pyarrow read."""

from __future__ import annotations

import html
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from . import _warpsim

#: Rows that a notebook shows.
SHOWN = 60


class Table:
    """A table with typed columns. It has the Arrow C stream interface: `polars.DataFrame(table)`, `pyarrow.table(table)`,
    `pandas.DataFrame.from_arrow(table)` (pandas 3 with pyarrow) and DuckDB read it; `to_pandas`, `to_polars` and `to_pyarrow` are short for
    that."""

    def __init__(self, columns: dict[str, list[Any]]) -> None:
        """Columns by their names: whole numbers, numbers or texts, with None for what is missing."""
        self._columns = columns

    @classmethod
    def of(cls, names: Sequence[str], rows: Iterable[Sequence[Any]]) -> Table:
        """A table of rows."""
        rows = list(rows)
        return cls({name: [row[i] for row in rows] for i, name in enumerate(names)})

    @property
    def columns(self) -> list[str]:
        """Names of the columns."""
        return list(self._columns)

    def __getitem__(self, name: str) -> list[Any]:
        """The values of a column."""
        return list(self._columns[name])

    def __len__(self) -> int:
        return len(next(iter(self._columns.values()), []))

    def __iter__(self) -> Iterator[dict[str, Any]]:
        """Rows, as dictionaries."""
        for values in zip(*self._columns.values()):
            yield dict(zip(self._columns, values))

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """The Arrow C stream of the table; its schema is what it is."""
        return _warpsim.arrow_stream(list(self._columns.items()))

    def to_pandas(self) -> Any:
        """A `pandas.DataFrame`."""
        import pandas

        def column(values: list[Any]) -> Any:
            whole = any(value is None for value in values) and all(type(value) in (int, type(None)) for value in values)
            # Whole numbers with gaps would become floating-point numbers.
            return pandas.array(values, dtype="Int64") if whole else values

        return pandas.DataFrame({name: column(values) for name, values in self._columns.items()})

    def to_polars(self) -> Any:
        """A `polars.DataFrame`."""
        import polars

        return polars.DataFrame(self)

    def to_pyarrow(self) -> Any:
        """A `pyarrow.Table`."""
        import pyarrow

        return pyarrow.table(self)

    def __repr__(self) -> str:
        return f"<warpsim.Table of {len(self)} rows: {', '.join(self._columns)}>"

    def _repr_html_(self) -> str:
        def cell(value: Any) -> str:
            text = "" if value is None else f"{value:.6g}" if isinstance(value, float) else str(value)
            return f"<td>{html.escape(text)}</td>"

        head = "".join(f"<th>{html.escape(name)}</th>" for name in self._columns)
        rows = zip(range(SHOWN), zip(*self._columns.values()))
        body = "".join(f"<tr>{''.join(map(cell, row))}</tr>" for _, row in rows)
        more = f"<p>{len(self) - SHOWN} more rows</p>" if len(self) > SHOWN else ""
        return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{more}"


def typed(values: list[str]) -> list[Any]:
    """Texts as whole numbers or numbers, where all are such; what is empty is missing."""
    there = [value for value in values if value != ""]
    for kind in (int, float):
        try:
            numbers = {value: kind(value) for value in there}
        except ValueError:
            continue
        if kind is int and any(abs(number) >= 1 << 63 for number in numbers.values()):
            continue
        return [numbers.get(value) for value in values]
    return [value if value != "" else None for value in values]
