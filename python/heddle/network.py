"""Networks that run."""

from __future__ import annotations

import ipaddress
import os
import signal
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Literal

from heddle._program import Source, call, call_json, program, text_of
from heddle.errors import CommandError, HeddleError
from heddle.frame import Frame

if TYPE_CHECKING:
    from types import TracebackType

Command = str | Sequence[str]
"""A program and its arguments; in one text it is for ``sh``."""

Protocol = Literal["tcp", "udp", "icmp"]
IpAddress = ipaddress.IPv4Address | ipaddress.IPv6Address


def up(file: Source | None = None, *, topo: str | None = None, name: str | None = None, wait: bool = True) -> Network:
    """Starts a network, or changes the running one of that name to what the file says.

    As a context (``with heddle.up(..) as net:``) it is stopped at the end, with all programs in its hosts, unless it ran before.

    Args:
        file: The fabric file, or what would stand in it, as a dictionary.
        topo: A topology in a word in place of a file: ``tree,3``, ``leaf-spine,4,2,2``, ``single,4``.
        name: What the running network is called; else as the fabric, and of a topology in a word by that: ``tree-3``.
        wait: Whether to wait until bonds have converged.

    Raises:
        FabricError: The file has mistakes; nothing was started.
        HeddleError: The network can't be started here. The text says why and what to do.
        ValueError: Neither a file nor a topology is given, or both.
    """
    if (file is None) == (topo is None):
        raise ValueError("up() takes a file or a topology: up('lab.fabric.yaml') or up(topo='tree,3')")
    if file is None:
        what = ["--topo", str(topo)]
        called = name or str(call_json("plan", *what)["fabric"]["name"])
    else:
        what = [text_of(file)[0]]
        called = name or str(call_json("check", *what, source=file)["name"])
    ran = any(network.name == called for network in networks())
    call("up", *what, "--name", called, *([] if wait else ["--no-wait"]), source=file)
    return Network(called, is_owner=not ran)


def attach(name: str) -> Network:
    """Returns a network that runs already; at the end of a ``with`` block it goes on.

    Raises:
        HeddleError: No network of that name runs.
    """
    network = Network(name, is_owner=False)
    network.show("nodes")
    return network


def networks() -> list[Network]:
    """Returns the networks of this user that run."""
    return [Network(row["name"], is_owner=False) for row in call_json("list") or [] if row["state"] != "crashed"]


class Network(Mapping[str, "Host"]):
    """A network that runs: a mapping of its hosts by name.

    Attributes:
        name: What it is called.
    """

    def __init__(self, name: str, *, is_owner: bool) -> None:
        self.name = name
        self._is_owner = is_owner
        self._hosts: dict[str, Host] | None = None

    def __enter__(self) -> Network:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self._is_owner:
            self._is_owner = False
            if error is None:
                self.down()
                return
            # What went wrong before counts.
            with suppress(HeddleError):
                self.down()

    @property
    def hosts(self) -> dict[str, Host]:
        """Its hosts by name, in the order of the file."""
        if self._hosts is None:
            rows = self.show("nodes").where(kind="host")
            self._hosts = {row["name"]: Host(self, row) for row in rows}
        return self._hosts

    def __getitem__(self, host: str) -> Host:
        try:
            return self.hosts[host]
        except KeyError:
            raise KeyError(f"{host} is no host of {self.name}; its hosts are {', '.join(self.hosts)}") from None

    def __iter__(self) -> Iterator[str]:
        return iter(self.hosts)

    def __len__(self) -> int:
        return len(self.hosts)

    def __repr__(self) -> str:
        return f"<heddle.Network {self.name}>"

    # It is the one that runs under this name, whatever hosts it has by now.
    def __eq__(self, other: object) -> bool:
        return isinstance(other, Network) and self.name == other.name

    def __hash__(self) -> int:
        return hash(self.name)

    def _repr_svg_(self) -> str:
        """Draws the network in a notebook."""
        return self.graph("svg")

    def down(self) -> None:
        """Stops the network and all programs in its hosts."""
        call("down", "--name", self.name)

    def update(self, file: Source, *, wait: bool = True) -> None:
        """Changes the network to what a file says now; what is the same in it goes on, with its connections.

        Raises:
            FabricError: The file has mistakes; nothing was changed.
        """
        call("up", text_of(file)[0], "--name", self.name, *([] if wait else ["--no-wait"]), source=file)
        self._hosts = None

    def show(self, topic: str, *arguments: str) -> Frame:
        """Returns what ``heddle show TOPIC`` has, a row for each thing; of services, a row for each server.

        Args:
            topic: nodes, links, routes, flows, macs, meters, bonds, counters, services, chains, programs, ...
            arguments: Options of that command, as in ``show("flows", "--switch", "leaf1")``.
        """
        shown = call_json("show", topic, "--name", self.name, *arguments)
        return _frame(shown["servers"] if isinstance(shown, dict) else shown)

    def ping(self, source: str, destination: str, *, count: int = 3, timeout_s: float = 2) -> Frame:
        """Asks whether one host reaches another: one row, with round-trip times in milliseconds."""
        arguments = [source, destination, "--count", str(count), "--timeout", _time(timeout_s)]
        return self._ping(arguments)

    def ping_all(self, *, count: int = 1, timeout_s: float = 2) -> Frame:
        """Has every host ask every other one: a row a pair, with round-trip times in milliseconds."""
        return self._ping(["--all", "--count", str(count), "--timeout", _time(timeout_s)])

    def _ping(self, arguments: list[str]) -> Frame:
        # Status 1: a pair got no answer, which the rows say.
        return _frame(call_json("ping", *arguments, "--quiet", "--name", self.name, accept=(0, 1)))

    def iperf(
        self,
        source: str,
        destination: str,
        *,
        seconds: int = 10,
        streams: int = 1,
        udp: bool = False,
        bitrate: str | None = None,
        reverse: bool = False,
    ) -> dict[str, Any]:
        """Measures throughput between two hosts with iperf3: ``sent-bps``, ``received-bps`` (payload, bit/s), ``retransmits``, ...

        Args:
            source: Who sends.
            destination: Who receives.
            seconds: For how long.
            streams: Side by side.
            udp: UDP in place of TCP.
            bitrate: Of each stream, as iperf3 takes it: 10M, 1G.
            reverse: The other way round.
        """
        options = ["--udp"] if udp else []
        options += ["--reverse"] if reverse else []
        options += ["--bitrate", bitrate] if bitrate is not None else []
        numbers = ["--time", str(seconds), "--parallel", str(streams)]
        rows = _frame(call_json("iperf", source, destination, *numbers, *options, "--name", self.name))
        return dict(rows[0])

    def path(
        self,
        source: str,
        destination: str,
        *,
        port: int | None = None,
        source_port: int | None = None,
        protocol: Protocol = "tcp",
        ipv6: bool = False,
    ) -> dict[str, Any]:
        """Returns the links that packets of a flow take, by the hash of the switches; without ports, all that they may take.

        ``hops`` are the links, and the functions and routers between them (``kind``); ``end`` says by its ``state`` whether the packets
        are ``delivered``, ``answered`` by a service or ``lost``, and ``at`` where; of a service's address, ``servers`` are its own.
        """
        options = ["--protocol", protocol] + (["--ipv6"] if ipv6 else [])
        options += ["--port", str(port)] if port is not None else []
        options += ["--source-port", str(source_port)] if source_port is not None else []
        path: dict[str, Any] = call_json("path", source, destination, *options, "--name", self.name, accept=(0, 1))
        return path

    def link(self, a: str, b: str | None = None, number: int | None = None) -> Link:
        """Returns the link between two nodes.

        Args:
            a: The node at one end; or the link as ``show("links")`` names it: ``leaf1-spine1``.
            b: The node at the other end.
            number: Which of parallel links, from 1; all of them if left out.
        """
        return Link(self, a, b, number)

    def graph(self, form: Literal["svg", "dot", "mermaid"] = "svg") -> str:
        """Draws the network."""
        return call("graph", "--name", self.name, "--format", form).stdout

    def logs(self, host: str | None = None, program_name: str | None = None) -> str:
        """Returns what the programs of its hosts have said (``programs:`` in the file): of all, of a host, or of one program."""
        which = [word for word in (host, program_name) if word is not None]
        return call("logs", *which, "--name", self.name).stdout

    def call(self, *arguments: str) -> str:
        """Calls any command of ``heddle`` for this network and returns what it prints: ``net.call("flow", "show", "leaf1")``.

        Raises:
            HeddleError: It failed; the text is what it said.
        """
        return call(arguments[0], "--name", self.name, *arguments[1:]).stdout


class Link:
    """A link of a running network. What is changed holds until `Network.update` applies a file."""

    def __init__(self, network: Network, a: str, b: str | None, number: int | None) -> None:
        self._network = network
        self._words = [a, *([b] if b is not None else []), *([str(number)] if number is not None else [])]

    def __repr__(self) -> str:
        return f"<heddle.Link {' '.join(self._words)} of {self._network.name}>"

    def down(self) -> None:
        """Takes its carrier, as if the cable were pulled; routes lead around it."""
        self._call("down")

    def up(self) -> None:
        """Gives it its carrier back."""
        self._call("up")

    def set(self, **values: str | int | float) -> Frame:
        """Changes what it does to packets, in both directions, and returns what it does now.

        The keys are those that links have in the file, ``_`` for ``-``, with the same values: ``set(delay="20ms", loss="0.1%")``;
        ``"none"`` takes a key away.
        """
        return _frame(self._call("set", *(f"{key.replace('_', '-')}={value}" for key, value in values.items())))

    def show(self) -> Frame:
        """Returns what it does to packets, a row for each of parallel links."""
        return _frame(self._call("show"))

    def _call(self, action: str, *more: str) -> Any:
        return call_json("link", action, *self._words, *more, "--name", self._network.name)


class Host:
    """A host of a running network.

    Attributes:
        name: In the file.
        mac: Of its device.
    """

    def __init__(self, network: Network, row: Mapping[str, Any]) -> None:
        self._network = network
        self._row = row
        self.name: str = row["name"]
        self.mac: str = row["mac"]

    def __repr__(self) -> str:
        return f"<heddle.Host {self.name} of {self._network.name}>"

    @property
    def ip(self) -> ipaddress.IPv4Address:
        """Its IPv4 address."""
        return ipaddress.IPv4Interface(self._row["ipv4"]).ip

    @property
    def ipv6(self) -> ipaddress.IPv6Address:
        """Its IPv6 address."""
        return ipaddress.IPv6Interface(self._row["ipv6"]).ip

    def run(
        self,
        command: Command,
        *,
        check: bool = True,
        input: str | None = None,  # noqa: A002  as subprocess.run calls it
        timeout: float | None = None,
        cwd: str | os.PathLike[str] | None = None,
        env: Mapping[str, str] | None = None,
    ) -> subprocess.CompletedProcess[str]:
        """Runs a program in the host and waits for its end.

        Args:
            command: Program and arguments, or one text for ``sh``.
            check: Whether another exit status than 0 is an error.
            input: What it reads from standard input; nothing if left out.
            timeout: Seconds after which it is ended.
            cwd: Its folder; else that of this process.
            env: Its environment; else that of this process.

        Returns:
            Its exit status and what it printed, as text.

        Raises:
            CommandError: Its exit status is not 0.
            subprocess.TimeoutExpired: It did not end in time. What it had started in its group has ended, too.
        """
        with self.popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=cwd, env=env) as process:
            try:
                stdout, stderr = process.communicate(input or "", timeout=timeout)
            except BaseException:
                with suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
                raise
        if check and process.returncode != 0:
            raise CommandError(self.name, process.returncode, command, stdout, stderr)
        return subprocess.CompletedProcess(command, process.returncode, stdout, stderr)

    def popen(
        self,
        command: Command,
        *,
        stdin: int | None = subprocess.DEVNULL,
        stdout: int | None = None,
        stderr: int | None = None,
        cwd: str | os.PathLike[str] | None = None,
        env: Mapping[str, str] | None = None,
    ) -> subprocess.Popen[str]:
        """Starts a program in the host and returns at once. It leads a process group; it ends with the network at the latest.

        The arguments are those of `run` and of `subprocess.Popen`.
        """
        words = ["sh", "-c", command] if isinstance(command, str) else list(command)
        # Whatever the program sees, its network is where this process has its networks.
        own = {key: os.environ[key] for key in ("XDG_RUNTIME_DIR",) if key in os.environ}
        return subprocess.Popen(
            [program(), "exec", "--name", self._network.name, self.name, "--", *words],
            stdin=stdin,
            stdout=stdout,
            stderr=stderr,
            cwd=cwd,
            env=None if env is None else {**own, **env},
            encoding="utf-8",
            errors="replace",
            start_new_session=True,
        )


def _frame(data: Any) -> Frame:
    if data is None:
        return Frame([])
    return Frame(data if isinstance(data, list) else [data])


def _time(seconds: float) -> str:
    return f"{round(seconds * 1000)}ms"
