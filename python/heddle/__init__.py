"""Heddle: a data-centre network from one file, live and simulated.

>>> import heddle
>>> with heddle.up("lab.fabric.yaml") as net:  # doctest: +SKIP
...     net["h1"].run("ping -c1 h2")
>>> results = heddle.run("lab.fabric.yaml", driver="sim")  # doctest: +SKIP
>>> results.summary.to_pandas()  # doctest: +SKIP

Everything is done by the program ``heddle``, which the wheel has in it; this package calls it and reads the JSON that it
prints. Whatever it refuses is raised as a :class:`HeddleError` with its own words.
"""

from heddle._program import Source, program, schema, version
from heddle.errors import CommandError, ExpectationError, FabricError, HeddleError, Problem, ProgramNotFoundError
from heddle.frame import Frame
from heddle.network import Host, Link, Network, attach, networks, up
from heddle.results import Results, check, load, run

__all__ = [
    "CommandError",
    "ExpectationError",
    "FabricError",
    "Frame",
    "HeddleError",
    "Host",
    "Link",
    "Network",
    "Problem",
    "ProgramNotFoundError",
    "Results",
    "Source",
    "attach",
    "check",
    "load",
    "networks",
    "program",
    "run",
    "schema",
    "up",
    "version",
]
