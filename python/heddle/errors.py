"""What goes wrong, in the program's own words."""

from __future__ import annotations

import subprocess
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from heddle.frame import Frame


class HeddleError(Exception):
    """The program refused, or failed.

    Attributes:
        text: What it printed to standard error.
        status: Its exit status; ``None`` if it was not started.
    """

    def __init__(self, text: str, status: int | None = None) -> None:
        super().__init__(text)
        self.text = text
        self.status = status


class ProgramNotFoundError(HeddleError):
    """The program ``heddle`` is not there."""


@dataclass(frozen=True)
class Problem:
    """A mistake in a fabric file.

    Attributes:
        line: From 1; ``None`` where the file as a whole is meant.
        column: From 1.
        code: A word for this kind of mistake, for programs.
        message: What is wrong.
        hint: What would be right, if that is known.
        file: The file's name.
    """

    line: int | None
    column: int | None
    code: str
    message: str
    hint: str | None
    file: str

    @classmethod
    def from_json(cls, problem: Mapping[str, Any]) -> Problem:
        """Reads one of the ``problems`` that ``heddle check -o json`` prints."""
        return cls(
            line=problem.get("line"),
            column=problem.get("column"),
            code=str(problem.get("code", "")),
            message=str(problem.get("message", "")),
            hint=problem.get("hint"),
            file=str(problem.get("file", "")),
        )


class FabricError(HeddleError):
    """A fabric file has mistakes; nothing was started.

    Attributes:
        problems: All of them, in the order of the file.
    """

    def __init__(self, text: str, status: int | None, problems: Sequence[Problem]) -> None:
        super().__init__(text, status)
        self.problems = list(problems)


class ExpectationError(HeddleError):
    """Expectations of the file (``expect:``) were missed.

    Attributes:
        missed: A row for each of them.
    """

    def __init__(self, text: str, missed: Frame) -> None:
        super().__init__(text, 1)
        self.missed = missed


class CommandError(subprocess.CalledProcessError):
    """A program in a host ended with another status than 0: ``returncode``, ``stdout`` and ``stderr`` say how.

    Attributes:
        host: The host's name.
    """

    def __init__(self, host: str, status: int, command: str | Sequence[str], stdout: str, stderr: str) -> None:
        super().__init__(status, command if isinstance(command, str) else list(command), stdout, stderr)
        self.host = host

    def __str__(self) -> str:
        said = (self.stderr or self.stdout or "").strip()
        return f"{self.host}: {super().__str__()}" + (f"\n{said}" if said else "")
