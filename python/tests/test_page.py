"""The page docs/python.md says what is so: its blocks are run, in the order of the page, in an empty folder."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

PAGE = Path(__file__).parents[2] / "docs" / "python.md"
# What a block needs that only some have.
NEEDS = ("pandas", "polars", "pyarrow", "matplotlib")


def blocks() -> list[tuple[int, str]]:
    text = PAGE.read_text(encoding="utf-8")
    found = re.finditer(r"^```python\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    return [(text.count("\n", 0, match.start()) + 2, match.group(1)) for match in found]


@pytest.mark.usefixtures("live")
def test_the_page_says_what_is_so(folder: Path) -> None:
    names: dict[str, Any] = {"__name__": "__main__"}
    found = blocks()
    assert len(found) >= 8
    for line, code in found:
        for module in NEEDS:
            if re.search(rf"\b(import|to_){module}\b", code):
                pytest.importorskip(module)
        # So that a mistake's traceback has the page's line.
        exec(compile("\n" * (line - 1) + code, str(PAGE), "exec"), names)
    assert (folder / "results" / "queues" / "report.html").is_file()
