from __future__ import annotations

from typing import Any

import pytest

from heddle import Frame

ROWS: list[dict[str, Any]] = [
    {"name": "h1", "ok": True, "count": 1, "share": 1, "seed": 2**64 - 1, "more": [1, 2], "mixed": "static"},
    {"name": "h2", "ok": False, "count": None, "share": 0.5, "seed": 1, "more": {"a": 1}, "mixed": 3},
    {"name": 'h"3', "late": 2.5, "seed": 2, "share": None, "mixed": None},
]


def test_columns_have_one_type_each() -> None:
    frame = Frame(ROWS)
    assert list(frame.columns) == ["name", "ok", "count", "share", "seed", "more", "mixed", "late"]
    assert frame.column("ok") == [True, False, None]
    assert frame.column("share") == [1.0, 0.5, None]
    assert frame.column("more") == ["[1, 2]", '{"a": 1}', None]
    assert frame.column("mixed") == ["static", "3", None]
    assert frame.column("late") == [None, None, 2.5]
    assert frame[0]["more"] == [1, 2], "rows are as they were"
    with pytest.raises(KeyError, match="there is no column 'other'; there are name, ok"):
        frame.column("other")


def test_where_keeps_columns() -> None:
    frame = Frame(ROWS)
    assert [row["name"] for row in frame.where(ok=False)] == ["h2"]
    none = frame.where(name="h9")
    assert len(none) == 0 and list(none.columns) == list(frame.columns)


@pytest.mark.parametrize("rows", [ROWS, ROWS[:1], []], ids=["three", "one", "none"])
def test_arrow_reads_what_is_there(rows: list[dict[str, Any]]) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    frame = Frame(rows, names=["name", "count"])
    table = pyarrow.table(frame)
    assert table.column_names == list(frame.columns)
    assert table.to_pydict() == frame.columns
    table.validate(full=True)


def test_polars_reads_what_is_there() -> None:
    pytest.importorskip("polars")
    frame = Frame(ROWS)
    table = frame.to_polars()
    assert table.to_dict(as_series=False) == frame.columns
    assert [str(kind) for kind in table.dtypes] == [
        "String", "Boolean", "Int64", "Float64", "UInt64", "String", "String", "Float64",
    ]  # fmt: skip


def test_pandas_reads_what_is_there() -> None:
    pytest.importorskip("pandas")
    table = Frame(ROWS).to_pandas()
    assert list(table.columns) == list(Frame(ROWS).columns)
    assert table["seed"].tolist() == [2**64 - 1, 1, 2]
    assert table["count"].isna().tolist() == [False, True, True]
    assert table["share"].sum() == 1.5
    assert len(Frame([], names=["a"]).to_pandas().columns) == 1


def test_pandas_needs_no_pyarrow(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("pandas")
    monkeypatch.setattr(Frame, "__arrow_c_stream__", None)
    assert Frame(ROWS).to_pandas().shape == (3, 8)


def test_it_is_shown_as_text_and_as_html() -> None:
    frame = Frame([{"n": number, "text": "<b>"} for number in range(25)])
    assert repr(frame).splitlines()[0].split() == ["n", "text"]
    assert "... and 5 more rows" in repr(frame)
    assert "&lt;b&gt;" in frame._repr_html_() and "<b>" not in frame._repr_html_()
