"""Experiments, and what they measured."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

from heddle._program import Source, call, call_json, text_of
from heddle.errors import ExpectationError, HeddleError
from heddle.frame import Frame

Driver = Literal["both", "live", "sim"]

# What tables have in front of the cases' labels, and behind them.
CASE = ("experiment",)
RUN = ("driver", "repeat")


def check(file: Source) -> dict[str, Any]:
    """Reads a fabric and returns it as the program sees it: name, nodes, links, experiments.

    Raises:
        FabricError: It has mistakes: ``problems`` has them with line, column and hint.
    """
    checked: dict[str, Any] = call_json("check", text_of(file)[0], source=file)
    return checked


def run(
    file: Source,
    *,
    driver: Driver = "both",
    seed: int | None = None,
    experiments: Sequence[str] = (),
    threads: int | None = None,
    results: str | os.PathLike[str] | None = None,
    resume: bool = False,
    overwrite: bool = False,
    machine: str | os.PathLike[str] | None = None,
    progress: bool = False,
) -> Results:
    """Runs the experiments of a file and returns what they measured.

    A missed expectation is no error: `Results.passed` says so, and `Results.check` raises it.

    Args:
        file: The fabric file, or what would stand in it, as a dictionary.
        driver: ``live`` with real packets, ``sim`` simulated, ``both`` side by side.
        seed: Of all randomness, in place of the file's.
        experiments: Only these, by name.
        threads: Simulated runs side by side; one a core if left out.
        results: The folder for results; else ``results/NAME``. What was there before is kept beside it.
        resume: Go on with runs that were interrupted or failed.
        overwrite: Let go of the results of earlier runs.
        machine: Simulated hosts cost what this file of ``heddle calibrate`` says.
        progress: Show the program's progress bar and notes.

    Raises:
        FabricError: The file has mistakes; nothing was run.
        HeddleError: A run failed. What was measured before is kept.
        KeyboardInterrupt: It was interrupted. What was measured is kept, and ``resume=True`` goes on.
    """
    name = text_of(file)[0]
    folder = Path(results) if results is not None else Path("results") / str(check(file)["name"])
    arguments = ["run", name, "--results", str(folder), "-o", "json"]
    if driver not in ("both", "live", "sim"):
        raise ValueError(f"driver is {driver!r}; it is 'both', 'live' or 'sim'")
    arguments += [] if driver == "both" else [f"--{driver}"]
    arguments += [] if seed is None else ["--seed", str(seed)]
    for experiment in experiments:
        arguments += ["--experiment", experiment]
    arguments += [] if threads is None else ["--threads", str(threads)]
    arguments += ["--resume"] if resume else []
    arguments += ["--overwrite"] if overwrite else []
    arguments += [] if machine is None else ["--machine", os.fspath(machine)]
    arguments += [] if progress else ["--quiet"]
    call(*arguments, accept=(0, 1), source=file, progress=progress)
    return load(folder)


def load(folder: str | os.PathLike[str]) -> Results:
    """Returns what an earlier call of `run`, or of ``heddle run``, measured.

    Raises:
        HeddleError: The folder has no results.
    """
    path = Path(folder)
    if not (path / "summary.json").is_file():
        raise HeddleError(f"{path} has no results: summary.json is missing. `heddle run` makes such folders")
    return Results(path)


class Results:
    """What experiments measured: raw samples, and what the program computed from them.

    Columns of tables: ``experiment``, then one for each axis of the cases (``vary:``; a number if all its values are plain
    numbers), then ``driver`` (``live`` or ``sim``), ``repeat``, and the values. Units are in the names; those of `summary` are the
    metrics' own (goodput in bit/s).

    Attributes:
        folder: Where the files are: report.html, summary.json, samples.jsonl, machine.json, fabric.yaml.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def __repr__(self) -> str:
        return f"<heddle.Results {self.folder}>"

    @property
    def report(self) -> Path:
        """The report, one HTML file."""
        return self.folder / "report.html"

    @cached_property
    def raw(self) -> dict[str, Any]:
        """All of summary.json."""
        return _read_json(self.folder / "summary.json")

    @cached_property
    def machine(self) -> dict[str, Any]:
        """On what machine it was measured, when, with which version and command."""
        return _read_json(self.folder / "machine.json")

    def samples(self) -> Iterator[dict[str, Any]]:
        """Yields what each run measured, as it stands in samples.jsonl."""
        with (self.folder / "samples.jsonl").open(encoding="utf-8") as lines:
            for line in lines:
                if line.strip():
                    yield _with_hyphens(json.loads(line))

    @cached_property
    def summary(self) -> Frame:
        """A row for each experiment, case, driver and metric: mean, interval (half of the 99 % confidence interval), p50, p99, ..."""
        rows = []
        for experiment in self.raw["experiments"]:
            for case in experiment["cases"]:
                for cell in case["cells"]:
                    for driver in ("live", "sim"):
                        if cell.get(driver) is not None:
                            case_of = {"experiment": experiment["name"], **case["labels"]}
                            rows.append({**case_of, "driver": driver, "metric": cell["metric"], **cell[driver]})
        names = ("driver", "metric", "n", "mean", "interval", "min", "p50", "p99", "max", "standard-deviation")
        return self._frame(rows, names)

    @cached_property
    def differences(self) -> Frame:
        """How far live and simulated lie apart: a row for each experiment, case and metric that both have."""
        rows = []
        for experiment in self.raw["experiments"]:
            for case in experiment["cases"]:
                for cell in case["cells"]:
                    if cell.get("difference") is not None:
                        case_of = {"experiment": experiment["name"], **case["labels"]}
                        rows.append({**case_of, "metric": cell["metric"], **cell["difference"]})
        return self._frame(rows, ("metric", "n", "mean", "interval", "relative", "relative-interval"))

    @cached_property
    def expectations(self) -> Frame:
        """A row for each thing that the file expects (``expect:``) of a case and a driver: text, measured, passed."""
        rows = []
        for experiment in self.raw["experiments"]:
            for verdict in experiment.get("verdicts", []):
                values = {key: value for key, value in verdict.items() if key not in ("case", "labels")}
                rows.append({"experiment": experiment["name"], **verdict["labels"], **values})
        return self._frame(rows, ("driver", "metric", "text", "line", "measured", "passed"))

    @property
    def passed(self) -> bool:
        """Whether all expectations are met."""
        return all(row["passed"] for row in self.expectations)

    def check(self) -> Results:
        """Returns itself if all expectations are met.

        Raises:
            ExpectationError: Some are not.
        """
        missed = self.expectations.where(passed=False)
        if len(missed) > 0:
            raise ExpectationError(f"{len(missed)} of {len(self.expectations)} expectations are missed:\n{missed!r}", missed)
        return self

    @cached_property
    def runs(self) -> Frame:
        """A row a run: seed, seconds, the mean goodput of its flows, retransmits, and whatever else is of the whole run."""
        rows = []
        for sample in self.samples():
            row = {**_run(sample), **_flat(sample, leave=("experiment", "case", "labels", "repeat", "driver"))}
            flows = sample["flows"]
            if flows:
                row["goodput-mean-bps"] = sum(flow["goodput-bps"] for flow in flows) / len(flows)
                row["retransmits"] = sum(flow["retransmits"] for flow in flows)
            rows.append(row)
        return self._frame(rows, (*RUN, "seed", "seconds", "goodput-mean-bps", "retransmits"))

    @cached_property
    def flows(self) -> Frame:
        """A row for each flow of each run; where a pair of hosts has several streams, what they did together."""
        rows = []
        for sample in self.samples():
            for flow in sample["flows"]:
                row = {**_run(sample), **_flat(flow, leave=("delays",))}
                delays = flow.get("delays") or {}
                packets = sum(count for _, count in delays.get("counts", []))
                # Nothing that came has no delay.
                if packets > 0:
                    row["delays.mean-ns"] = delays["sum-ns"] / packets
                    row.update(_flat(delays, leave=("sum-ns",), prefix="delays."))
                rows.append(row)
        return self._frame(rows, (*RUN, "from", "to", "goodput-bps", "retransmits"))

    @cached_property
    def links(self) -> Frame:
        """A row for each direction of each link of each run."""
        # Counters of what is rare are written where there is something to count.
        rare = dict.fromkeys(("marks", "cut", "losses", "duplicates", "corruptions", "overtakes"), 0)
        rows = [{**_run(sample), **rare, **_flat(link)} for sample in self.samples() for link in sample["links"]]
        return self._frame(rows, (*RUN, "from", "to", "trunk", "packets", "bytes", "drops", "utilisation", "queue-mean"))

    @cached_property
    def time_series(self) -> Frame:
        """A row for each step of each flow of each run, where the file records them (``time-series:``); ``seconds`` is the step's begin."""
        rows = []
        for sample in self.samples():
            series = sample.get("time-series")
            if series is None:
                continue
            for flow, values in zip(sample["flows"], series["flows"], strict=False):
                for step in range(len(values["goodput-bps"])):
                    row = {**_run(sample), "from": flow["from"], "to": flow["to"], "seconds": step * series["step-seconds"]}
                    row.update({key: listed[step] for key, listed in values.items() if step < len(listed)})
                    rows.append(row)
        return self._frame(rows, (*RUN, "from", "to", "seconds", "goodput-bps"))

    @cached_property
    def link_series(self) -> Frame:
        """The same of each direction of each link: packets that waited, packets that were marked."""
        rows = []
        for sample in self.samples():
            series = sample.get("time-series")
            if series is None:
                continue
            for link, values in zip(sample["links"], series["links"], strict=False):
                for step in range(max((len(listed) for listed in values.values()), default=0)):
                    row = {**_run(sample), "from": link["from"], "to": link["to"], "seconds": step * series["step-seconds"]}
                    row.update({key: listed[step] for key, listed in values.items() if step < len(listed)})
                    rows.append(row)
        return self._frame(rows, (*RUN, "from", "to", "seconds", "queue"))

    @cached_property
    def operations(self) -> Frame:
        """A row for each operation on controllers of each run: how many, and how long they took in nanoseconds."""
        rows = []
        for sample in self.samples():
            for operation in (sample.get("cluster") or {}).get("operations", []):
                values = _flat(operation)
                count = operation["latencies"]["count"]
                if count > 0:
                    values["latencies.mean-ns"] = operation["latencies"]["sum-ns"] / count
                rows.append({**_run(sample), **values})
        return self._frame(rows, (*RUN, "operation", "seconds"))

    @cached_property
    def _axes(self) -> dict[str, bool]:
        """The axes of all experiments, and whether all values of one are plain numbers."""
        axes: dict[str, bool] = {}
        for experiment in self.raw["experiments"]:
            for case in experiment["cases"]:
                for axis, value in case["labels"].items():
                    axes[axis] = axes.get(axis, True) and _number(value) is not None
        return axes

    def _frame(self, rows: list[dict[str, Any]], names: Sequence[str]) -> Frame:
        for row in rows:
            for axis, is_number in self._axes.items():
                if is_number and axis in row:
                    row[axis] = _number(row[axis])
        return Frame(rows, names=(*CASE, *self._axes, *names))


def _number(text: Any) -> int | float | None:
    """The number that a label is, if it is one and no more: `20`, not `20ms`."""
    for kind in (int, float):
        try:
            number = kind(text)
        except (TypeError, ValueError):
            continue
        # `1_000` and `nan` are numbers for Python alone.
        if all(character in "0123456789.+-e" for character in str(text)):
            return number
    return None


def _run(sample: Mapping[str, Any]) -> dict[str, Any]:
    return {"experiment": sample["experiment"], **sample["labels"], "driver": sample["driver"], "repeat": sample["repeat"]}


def _flat(values: Mapping[str, Any], leave: Sequence[str] = (), prefix: str = "") -> dict[str, Any]:
    """What is a single value, by its name; of what is nested, `OUTER.INNER`. Lists are left to `Results.samples`."""
    flat: dict[str, Any] = {}
    for key, value in values.items():
        if key in leave or isinstance(value, list):
            continue
        if key == "time-series":
            continue
        if isinstance(value, Mapping):
            flat.update(_flat(value, prefix=f"{prefix}{key}."))
        else:
            flat[prefix + key] = value
    return flat


def _read_json(path: Path) -> dict[str, Any]:
    parsed: dict[str, Any] = _with_hyphens(json.loads(path.read_text(encoding="utf-8")))
    return parsed


def _with_hyphens(value: Any) -> Any:
    """What earlier versions wrote, whose keys had underscores, with the keys of this one. Those of labels are the file's own."""
    if isinstance(value, list):
        return [_with_hyphens(item) for item in value]
    if isinstance(value, dict):
        kept = ("labels", "lost")
        return {key.replace("_", "-"): item if key in kept else _with_hyphens(item) for key, item in value.items()}
    return value
