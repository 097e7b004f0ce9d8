"""Finds the program and calls it."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from heddle.errors import FabricError, HeddleError, Problem, ProgramNotFoundError

Source = str | os.PathLike[str] | Mapping[str, Any]
"""A fabric: the name of its file, or what would stand in the file, as a dictionary."""

PROGRAM = "HEDDLE_PROGRAM"


def program() -> Path:
    """Returns the path of the program.

    It is what the environment's ``HEDDLE_PROGRAM`` names; otherwise the one that was installed with this package; otherwise
    the one that a shell would find.

    Raises:
        ProgramNotFoundError: There is none.
    """
    named = os.environ.get(PROGRAM)
    if named:
        path = Path(named)
        if path.is_file():
            return path.absolute()
        raise ProgramNotFoundError(f"{PROGRAM} is {named}, and there is no such file")
    for folder in _folders():
        path = folder / "heddle"
        if path.is_file():
            return path
    found = shutil.which("heddle")
    if found:
        return Path(found)
    raise ProgramNotFoundError(
        f"the program heddle is not there: install the wheel of this platform, put it on the PATH, or name it in {PROGRAM}"
    )


def _folders() -> list[Path]:
    """Where wheels' programs are put: of this environment, of `pip install --user`, and of `pip install --target`."""
    folders = [sysconfig.get_path("scripts"), sysconfig.get_path("scripts", f"{os.name}_user")]
    beside = Path(__file__).parent.parent / "bin"
    # Without an environment of its own, Debian's Python has another scheme for what pip installs.
    return [Path(folder) for folder in dict.fromkeys(folders)] + [beside, Path(sys.prefix) / "bin"]


def environment() -> dict[str, str]:
    """Returns this process's environment, with plain text asked for."""
    return {**os.environ, "NO_COLOR": "1"}


def text_of(source: Source) -> tuple[str, str | None]:
    """Returns what the command line calls a fabric, and what it is to read from standard input, if that is so."""
    if isinstance(source, Mapping):
        # JSON is YAML.
        return "-", json.dumps(source)
    return os.fspath(source), None


def call(
    *arguments: str,
    accept: tuple[int, ...] = (0,),
    source: Source | None = None,
    progress: bool = False,
) -> subprocess.CompletedProcess[str]:
    """Calls the program and returns what it printed.

    Args:
        arguments: Of the command line.
        accept: Exit statuses that are no error.
        source: The fabric that the arguments name, if they do.
        progress: Whether its standard error is the terminal's, and not kept.

    Raises:
        FabricError: The fabric has mistakes.
        HeddleError: It ended with another status. The text is what it printed to standard error.
        KeyboardInterrupt: It was interrupted.
    """
    done = _start(arguments, source, progress=progress)
    if done.returncode in accept:
        return done
    if done.returncode == 130:
        raise KeyboardInterrupt
    said = (done.stderr or "").strip()
    if source is not None and done.returncode == 2:
        found = problems(source)
        if found:
            # With -o json, they are in the data and not in the text.
            raise FabricError(said or _start(["check", text_of(source)[0]], source).stderr.strip(), done.returncode, found)
    raise HeddleError(said or f"heddle {' '.join(arguments)}: exit status {done.returncode}", done.returncode)


def _start(arguments: Sequence[str], source: Source | None, *, progress: bool = False) -> subprocess.CompletedProcess[str]:
    """Calls the program, whatever its status will be. A fabric that is no file is what it reads from standard input."""
    given = None if source is None else text_of(source)[1]
    return subprocess.run(
        [program(), *arguments],
        input=given or "",
        stdout=subprocess.PIPE,
        stderr=None if progress else subprocess.PIPE,
        encoding="utf-8",
        errors="replace",
        env=environment(),
        check=False,
    )


def call_json(*arguments: str, accept: tuple[int, ...] = (0,), source: Source | None = None) -> Any:
    """Calls the program with ``-o json`` and returns the data; raises as `call` does."""
    printed = call(*arguments, "-o", "json", accept=accept, source=source).stdout
    return json.loads(printed) if printed.strip() else None


def problems(source: Source) -> list[Problem]:
    """Returns the mistakes of a fabric; none if it can't be read at all, which the program has said then."""
    done = _start(["check", text_of(source)[0], "-o", "json"], source)
    if done.returncode != 2:
        return []
    try:
        listed = json.loads(done.stdout)["problems"]
    except (ValueError, KeyError, TypeError):
        return []
    return [Problem.from_json(problem) for problem in listed]


def version() -> str:
    """Returns what ``heddle --version`` prints: the version, with its commit where that is known."""
    return call("--version").stdout.strip()


def schema() -> dict[str, Any]:
    """Returns the JSON Schema (draft 7) of fabric files."""
    parsed: dict[str, Any] = json.loads(call("schema").stdout)
    return parsed
