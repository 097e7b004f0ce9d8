from __future__ import annotations

import re
from pathlib import Path

import pytest

import heddle


@pytest.fixture
def results(small: Path) -> heddle.Results:
    return heddle.run(small, driver="sim")


def test_tables_have_a_row_for_each_thing(results: heddle.Results) -> None:
    # Four cases, five runs each, four flows and sixteen directions of links in each run, four steps.
    assert (len(results.runs), len(results.flows), len(results.links)) == (20, 80, 320)
    assert len(results.time_series) == 320 and len(results.link_series) == 1280
    assert list(results.flows.columns)[:7] == ["experiment", "spread", "links.queue", "driver", "repeat", "from", "to"]
    assert set(results.flows.column("links.queue")) == {20, 50}, "plain numbers are numbers"
    assert {row["spread"] for row in results.links} == {"single", "packet-scatter"}
    assert all(row["losses"] == 0 for row in results.links)
    assert all(row["delays.min-ns"] <= row["delays.mean-ns"] <= row["delays.max-ns"] for row in results.flows if "delays.mean-ns" in row)
    assert sum("delays.mean-ns" in row for row in results.flows) > 40
    assert len(results.operations) == 0 and "operation" in results.operations.columns
    assert len(results.differences) == 0 and "relative" in results.differences.columns


def test_tables_agree_with_the_programs_summary(results: heddle.Results) -> None:
    cells = results.summary.where(metric="goodput-mean", driver="sim")
    assert len(cells) == 4
    for cell in cells:
        case = {axis: cell[axis] for axis in ("spread", "links.queue")}
        means = [row["goodput-mean-bps"] for row in results.runs.where(**case)]
        assert cell["n"] == len(means) == 5
        assert sum(means) / len(means) == pytest.approx(cell["mean"])
        flows = results.flows.where(**case)
        assert sum(row["goodput-bps"] for row in flows) / len(flows) == pytest.approx(cell["mean"])


def test_missed_expectations_are_raised_when_asked_for(results: heddle.Results) -> None:
    assert not results.passed
    assert [row["passed"] for row in results.expectations] == [False, False, True, True]
    with pytest.raises(heddle.ExpectationError, match="2 of 4 expectations are missed") as raised:
        results.check()
    assert {row["spread"] for row in raised.value.missed} == {"single"}


def test_the_same_seed_gives_the_same_tables(small: Path, results: heddle.Results) -> None:
    before = results.flows
    again = heddle.run(small, driver="sim", seed=1, results="again")
    other = heddle.run(small, driver="sim", seed=2, results="other", experiments=["spread"], threads=1)
    assert again.flows == before
    assert other.flows != before
    assert heddle.load("again").summary == results.summary


def test_results_of_earlier_versions_have_the_same_tables(results: heddle.Results) -> None:
    before = (results.summary, results.flows, results.time_series, results.machine)
    for name in ("summary.json", "samples.jsonl", "machine.json"):
        file = results.folder / name
        file.write_text(re.sub(r'"([a-z-]+)":', lambda key: f'"{key[1].replace("-", "_")}":', file.read_text()))
    assert '"goodput_bps"' in (results.folder / "samples.jsonl").read_text()
    earlier = heddle.load(results.folder)
    assert (earlier.summary, earlier.flows, earlier.time_series, earlier.machine) == before


def test_files_are_those_of_the_command(results: heddle.Results) -> None:
    assert results.folder == Path("results/small")
    assert "<svg" in results.report.read_text()
    assert results.machine["command"][1] == "run"
    with pytest.raises(heddle.HeddleError, match=r"summary\.json is missing"):
        heddle.load("nowhere")


def test_a_wrong_driver_is_refused(small: Path) -> None:
    with pytest.raises(ValueError, match="'both', 'live' or 'sim'"):
        heddle.run(small, driver="simulated")  # type: ignore[arg-type]


@pytest.mark.usefixtures("live")
def test_live_and_simulated_stand_side_by_side() -> None:
    link = {"rate": "10Mbit", "delay": "1ms", "queue": 50}
    fabric = {
        "name": "pair",
        "nodes": {"a": "host", "b": "host", "s": "switch"},
        "links": [{"between": ["a", "s"], **link}, {"between": ["b", "s"], **link}],
        "experiments": {
            "one": {"traffic": {"pattern": {"pairs": [["a", "b"]]}}, "warm-up": "0s", "for": "1s", "repeat": 2},
        },
    }
    both = heddle.run(fabric)
    assert {row["driver"] for row in both.summary} == {"live", "sim"}
    assert len(both.differences.where(metric="goodput-mean")) == 1
    assert {row["driver"] for row in both.runs} == {"live", "sim"}
