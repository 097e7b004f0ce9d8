"""What all tests share: the program, a folder of their own, and networks that end with the test."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

SMALL = """\
name: small
topology: { leaf-spine: { leaves: 2, spines: 2, hosts-per-leaf: 2 } }
links: { rate: 100Mbit, delay: 100us, queue: 50 }
experiments:
  spread:
    traffic: { pattern: stride(2), transport: newreno }
    vary: { spread: [single, packet-scatter], links.queue: [20, 50] }
    warm-up: 100ms
    for: 200ms
    repeat: 5
    time-series: 50ms
    expect: { goodput-mean: ">= 60 Mbit/s" }
"""


def live_is_not_possible() -> str | None:
    try:
        with Path("/dev/net/tun").open("r+b", buffering=0):
            pass
    except OSError as error:
        return f"/dev/net/tun: {error.strerror}"
    own = [] if os.geteuid() == 0 else ["--user", "--map-root-user"]
    if subprocess.run(["unshare", *own, "--net", "true"], capture_output=True, check=False).returncode != 0:
        return "no network namespaces for this user"
    return None


@pytest.fixture(scope="session", autouse=True)
def program() -> Iterator[Path]:
    """The program: what HEDDLE_PROGRAM names, what is installed with the package, or what was built last."""
    if "HEDDLE_PROGRAM" not in os.environ and os.environ.get("HEDDLE_INSTALLED") != "1":
        target = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
        built = [target / build / "heddle" for build in ("release", "demo", "debug")]
        there = [path for path in built if path.is_file()]
        if not there:
            pytest.exit("no program: `cargo build` makes target/debug/heddle, or HEDDLE_PROGRAM names one", 2)
        os.environ["HEDDLE_PROGRAM"] = str(max(there, key=lambda path: path.stat().st_mtime))
    # Sockets have short paths, and nobody else's networks are seen.
    runtime = tempfile.mkdtemp(prefix="heddle-")
    os.environ["XDG_RUNTIME_DIR"] = runtime
    for variable in ("HEDDLE_NETWORK", "HEDDLE_LOG"):
        os.environ.pop(variable, None)
    import heddle

    yield heddle.program()
    subprocess.run([heddle.program(), "down", "--all"], capture_output=True, check=False)
    subprocess.run([heddle.program(), "clean"], capture_output=True, check=False)
    shutil.rmtree(runtime)


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def small(folder: Path) -> Path:
    path = folder / "small.fabric.yaml"
    path.write_text(SMALL)
    return path


@pytest.fixture(scope="session")
def live() -> None:
    reason = live_is_not_possible()
    if reason is not None:
        pytest.skip(f"networks can't run here: {reason}")
