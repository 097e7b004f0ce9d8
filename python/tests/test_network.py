from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

import heddle

pytestmark = pytest.mark.usefixtures("live")

TWO = {
    "name": "two",
    "nodes": {
        "a": {"kind": "host", "programs": {"says": "echo it runs; exec sleep 1000"}},
        "b": "host",
        "s": "switch",
    },
    "links": [{"between": ["a", "s"], "delay": "1ms"}, {"between": ["b", "s"]}],
}


@pytest.fixture
def net() -> Iterator[heddle.Network]:
    with heddle.up(TWO) as net:
        yield net


def test_programs_run_in_hosts(net: heddle.Network) -> None:
    assert list(net) == ["a", "b"]
    done = net["a"].run("ping -c1 b")
    assert done.returncode == 0 and "1 received" in done.stdout
    assert net["b"].run(["hostname"]).stdout == "b\n"
    assert net["a"].run("cat", input="a line\n").stdout == "a line\n"
    assert str(net["b"].ip) in net["b"].run("ip -4 address show eth0").stdout
    assert net["b"].mac in net["b"].run("ip link show eth0").stdout
    assert net["b"].ipv6.version == 6
    assert net["a"].run("echo $WORD; pwd", env={"PATH": "/usr/bin:/bin", "WORD": "said"}, cwd="/").stdout == "said\n/\n"


def test_a_program_that_fails_says_what_it_said(net: heddle.Network) -> None:
    with pytest.raises(heddle.CommandError, match="no such thing") as raised:
        net["a"].run("echo no such thing >&2; exit 3")
    assert (raised.value.host, raised.value.returncode, raised.value.stderr) == ("a", 3, "no such thing\n")
    assert net["a"].run("exit 3", check=False).returncode == 3
    with pytest.raises(heddle.CommandError) as raised:
        net["a"].run(["no-such-program"])
    assert raised.value.returncode == 127
    with pytest.raises(KeyError, match="its hosts are a, b"):
        net["c"]


def test_what_takes_too_long_ends(net: heddle.Network, folder: Path) -> None:
    with pytest.raises(subprocess.TimeoutExpired):
        net["a"].run(f"echo $$ > {folder}/pid; sleep 1000 | cat", timeout=2)
    pid = (folder / "pid").read_text().strip()
    status = Path(f"/proc/{pid}/stat")
    assert not status.exists() or ") Z " in status.read_text()


def test_programs_in_the_background_end_with_the_network() -> None:
    with heddle.up(TWO) as net:
        sleeper = net["b"].popen(["sleep", "1000"])
        assert sleeper.poll() is None
    assert sleeper.wait(timeout=60) != 0
    assert net not in heddle.networks()


def test_what_it_shows_are_tables(net: heddle.Network) -> None:
    assert net.show("nodes").column("name") == ["a", "b", "s"]
    counters = net.show("counters")
    assert {"from", "to", "packets", "drops"} <= set(counters.columns)
    assert len(net.show("flows")) == 0
    with pytest.raises(heddle.HeddleError, match="there are nodes"):
        net.show("nothing")
    assert len(net.ping_all()) == 2 and all(row["received"] == 1 for row in net.ping_all())
    row = net.ping("a", "b", count=2)[0]
    assert row["received"] == 2 and row["rtt-min-ms"] >= 2
    path = net.path("a", "b")
    assert [row["to"] for row in path["hops"]] == ["s", "b"]
    assert path["end"] == {"state": "delivered", "at": "b", "why": None}
    assert net.graph("dot").startswith("graph")
    assert net._repr_svg_().startswith("<svg")


def test_links_change_while_it_runs(net: heddle.Network) -> None:
    link = net.link("a", "s")
    assert link.set(delay="20ms", loss="none")[0]["delay-ns"] == 20_000_000
    assert net.ping("a", "b", count=1)[0]["rtt-min-ms"] >= 40
    link.down()
    assert net.ping("a", "b", count=1, timeout_s=0.2)[0]["received"] == 0
    link.up()
    assert net.ping("a", "b", count=1)[0]["received"] == 1
    net.update({**TWO, "links": [{"between": ["a", "s"], "delay": "2ms"}, {"between": ["b", "s"]}]})
    assert net.link("a-s").show()[0]["delay-ns"] == 2_000_000
    with pytest.raises(heddle.HeddleError):
        net.link("a", "b").down()


def test_other_commands_are_called_as_they_are(net: heddle.Network) -> None:
    net.call("flow", "add", "s", "priority=10,tcp,tp_dst=22,actions=drop")
    assert any("tp_dst=22" in str(row) for row in net.show("flows"))
    with pytest.raises(heddle.HeddleError):
        net.call("flow", "add", "s", "nonsense")
    while "it runs" not in net.logs("a"):
        pass


def test_a_network_that_ran_before_goes_on(net: heddle.Network) -> None:
    with heddle.up(TWO) as again:
        assert again == net
    with heddle.attach("two") as attached:
        assert list(attached) == ["a", "b"]
    assert net in heddle.networks()
    with pytest.raises(heddle.HeddleError, match="nobody"):
        heddle.attach("nobody")


def test_a_topology_in_a_word_is_called_by_it() -> None:
    with heddle.up(topo="single,2") as net:
        assert net.name == "single-2"
        assert [network.name for network in heddle.networks()] == ["single-2"]


def test_a_topology_in_a_word() -> None:
    with heddle.up(topo="single,3", name="three") as net:
        assert (net.name, len(net)) == ("three", 3)


def test_a_network_ends_with_the_error_that_ends_its_block() -> None:
    with pytest.raises(RuntimeError, match="mine"), heddle.up(TWO) as net:
        raise RuntimeError("mine")
    assert net not in heddle.networks()


def test_iperf_is_a_row(net: heddle.Network) -> None:
    if subprocess.run(["which", "iperf3"], capture_output=True, check=False).returncode != 0:
        pytest.skip("iperf3 is missing")
    measured = net.iperf("a", "b", seconds=1)
    assert measured["from"] == "a" and measured["received-bps"] > 0
