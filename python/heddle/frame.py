"""Tables, for whatever reads Arrow."""

from __future__ import annotations

import html
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pandas
    import polars
    import pyarrow

Cell = bool | int | float | str | None

SHOWN_MAX = 20
INT64_MAX = 2**63 - 1
UINT64_MAX = 2**64 - 1


class Frame:
    """A table: rows as dictionaries, and columns of one type each (bool, int, float or str, ``None`` where a row has no value).

    ``polars.DataFrame(frame)``, ``pyarrow.table(frame)`` and DuckDB read it by Arrow's C interface;
    :meth:`to_pandas` needs pandas and nothing else.
    """

    def __init__(self, rows: Sequence[Mapping[str, Any]], names: Sequence[str] = ()) -> None:
        """Makes a table.

        Args:
            rows: One dictionary a row; not all need have all columns.
            names: Columns that come first, or that an empty table has.
        """
        self._rows = [dict(row) for row in rows]
        ordered = dict.fromkeys(names)
        for row in self._rows:
            ordered.update(dict.fromkeys(row))
        self._columns = {name: _column([row.get(name) for row in self._rows]) for name in ordered}

    @property
    def columns(self) -> dict[str, list[Cell]]:
        """The columns by name. What is nested in a row is JSON here."""
        return self._columns

    def column(self, name: str) -> list[Cell]:
        """Returns one column.

        Raises:
            KeyError: There is none of that name.
        """
        try:
            return self._columns[name]
        except KeyError:
            raise KeyError(f"there is no column {name!r}; there are {', '.join(self._columns)}") from None

    def where(self, **values: Cell) -> Frame:
        """Returns the rows in which columns have these values: ``frame.where(driver="sim", metric="goodput-mean")``."""
        kept = [row for number, row in enumerate(self._rows) if all(self.column(name)[number] == value for name, value in values.items())]
        return Frame(kept, names=list(self._columns))

    def __len__(self) -> int:
        return len(self._rows)

    def __getitem__(self, index: Any) -> Any:
        return self._rows[index]

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return iter(self._rows)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Frame) and self._columns == other._columns

    __hash__ = None  # type: ignore[assignment]

    def to_pandas(self) -> pandas.DataFrame:
        """Returns a pandas data frame: int64, float64, bool and str; Int64 and boolean where values are missing."""
        import pandas

        series = {}
        for name, values in self._columns.items():
            kinds = {type(value) for value in values}
            dtype: Any = object
            if kinds == {int}:
                dtype = _integer_type(values)
            elif kinds == {int, type(None)}:
                dtype = "Int64" if _integer_type(values) == "int64" else "UInt64"
            elif kinds and kinds <= {float, type(None)} and float in kinds:
                dtype = "float64"
            elif kinds == {bool}:
                dtype = "bool"
            elif kinds == {bool, type(None)}:
                dtype = "boolean"
            series[name] = pandas.Series(values, dtype=dtype)
        return pandas.DataFrame(series)

    def to_polars(self) -> polars.DataFrame:
        """Returns a polars data frame."""
        import polars

        return polars.DataFrame(self)

    def to_arrow(self) -> pyarrow.Table:
        """Returns a table of pyarrow."""
        import pyarrow

        return pyarrow.table(self)

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """Exports the table as a stream of record batches (Arrow's PyCapsule interface)."""
        import nanoarrow

        fields = {}
        children = []
        for name, values in self._columns.items():
            kind = _arrow_type(values)
            fields[name] = kind
            children.append(nanoarrow.c_array(values, kind))
        table = nanoarrow.struct(fields, nullable=False)
        batch = nanoarrow.c_array_from_buffers(table, len(self._rows), buffers=[None], children=children)
        return nanoarrow.c_array_stream(batch).__arrow_c_stream__(requested_schema)

    def __repr__(self) -> str:
        cells = [list(self._columns)] + [
            [_shown(values[number]) for values in self._columns.values()] for number in range(min(len(self), SHOWN_MAX))
        ]
        widths = [max(len(cell) for cell in column) for column in zip(*cells, strict=True)]
        lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in cells]
        return "\n".join([*lines, *self._more()])

    def _repr_html_(self) -> str:
        """Shows the table in a notebook."""
        head = "".join(f"<th>{html.escape(name)}</th>" for name in self._columns)
        body = "".join(
            "<tr>" + "".join(f"<td>{html.escape(_shown(values[number]))}</td>" for values in self._columns.values()) + "</tr>"
            for number in range(min(len(self), SHOWN_MAX))
        )
        more = "".join(f"<p>{line}</p>" for line in self._more())
        return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{more}"

    def _more(self) -> list[str]:
        left = len(self) - SHOWN_MAX
        return [f"... and {left} more rows"] if left > 0 else []


def _shown(value: Cell) -> str:
    if value is None:
        return ""
    if isinstance(value, float):
        return f"{value:.6g}"
    return str(value)


def _column(values: list[Any]) -> list[Cell]:
    """Values of one type: integers beside floats are floats, and all else that is mixed or nested is text."""
    kinds = {type(value) for value in values if value is not None}
    if kinds == {int} and _integer_type(values) is None:
        return [None if value is None else str(value) for value in values]
    if len(kinds) <= 1 and kinds <= {bool, int, float, str}:
        return values
    if kinds == {int, float}:
        return [None if value is None else float(value) for value in values]
    return [value if value is None or isinstance(value, str) else json.dumps(value) for value in values]


def _integer_type(values: Sequence[Any]) -> str | None:
    """Of int64 and uint64 the one that has room for these; seeds have 64 bits."""
    numbers = [value for value in values if value is not None]
    if all(-INT64_MAX <= number <= INT64_MAX for number in numbers):
        return "int64"
    return "uint64" if all(0 <= number <= UINT64_MAX for number in numbers) else None


def _arrow_type(values: list[Cell]) -> Any:
    import nanoarrow

    kinds = {type(value) for value in values if value is not None}
    if kinds == {bool}:
        return nanoarrow.bool_()
    if kinds == {int}:
        return nanoarrow.int64() if _integer_type(values) == "int64" else nanoarrow.uint64()
    if kinds == {float}:
        return nanoarrow.float64()
    return nanoarrow.string()
