from __future__ import annotations

import re
from pathlib import Path

import pytest

import heddle


def test_version_names_the_program() -> None:
    assert re.fullmatch(r"heddle \d+\.\d+\.\d+( \([0-9a-f]{7,}, \d{4}-\d\d-\d\d\))?", heddle.version())


def test_schema_is_that_of_the_file() -> None:
    assert "topology" in heddle.schema()["properties"]


def test_a_program_that_is_not_there_is_said(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    monkeypatch.setenv("HEDDLE_PROGRAM", str(folder / "nothing"))
    with pytest.raises(heddle.ProgramNotFoundError, match="no such file"):
        heddle.program()


def test_mistakes_come_with_their_place(small: Path) -> None:
    small.write_text(small.read_text().replace("queue: 50", "queues: 50"))
    for refuses in (heddle.check, heddle.run, heddle.up):
        with pytest.raises(heddle.FabricError) as raised:
            refuses(small)
        problem = raised.value.problems[0]
        assert (problem.line, problem.column, problem.code) == (3, 39, "unknown-key")
        assert problem.hint == "did you mean `queue`?"
        assert "queues" in raised.value.text
    assert not Path("results").exists()


def test_a_file_that_is_not_there_is_the_programs_error() -> None:
    with pytest.raises(heddle.HeddleError, match=r"nowhere\.yaml") as raised:
        heddle.check("nowhere.yaml")
    assert raised.value.status == 2


def test_a_dictionary_is_a_file() -> None:
    fabric = {"name": "two", "nodes": {"a": "host", "b": "host"}, "links": [{"between": ["a", "b"], "delay": "1ms"}]}
    assert heddle.check(fabric)["name"] == "two"
    with pytest.raises(heddle.FabricError) as raised:
        heddle.check({**fabric, "lynks": []})
    assert "lynks" in raised.value.problems[0].message


def test_up_wants_a_file_or_a_topology() -> None:
    with pytest.raises(ValueError, match="a file or a topology"):
        heddle.up()
    with pytest.raises(ValueError, match="a file or a topology"):
        heddle.up("a", topo="b")
