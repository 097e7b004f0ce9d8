use super::super::{NoteKind, import};
use crate::{Source, parse};

/// The lines of the fabric file that is made, and what is said to be left out.
pub fn imported(text: &str) -> (Vec<String>, String) {
    let source = Source { name: "lab.py".to_owned(), text: text.to_owned() };
    let imported = import(&source).unwrap_or_else(|error| panic!("{:?}", miette::Report::new(error)));
    let made = Source { name: "made".to_owned(), text: imported.text.clone() };
    parse(&made).unwrap_or_else(|error| panic!("{}\n{:?}", imported.text, miette::Report::new(error)));
    let notes = imported.notes.into_iter().map(|note| match note.line {
        Some(line) => format!("{line}: {}\n", note.message),
        None => format!("{}\n", note.message),
    });
    (imported.text.lines().skip(3).map(|line| line.trim().to_owned()).collect(), notes.collect())
}

/// Links as pairs of names.
fn links(made: &[String]) -> Vec<String> {
    let links = made.iter().filter_map(|line| line.split_once("between: [")?.1.split_once(']'));
    links.map(|(ends, _)| ends.to_owned()).collect()
}

#[test]
fn names_and_loops_are_what_python_makes_of_them() {
    let (made, notes) = imported(
        r"
from mininet.topo import Topo
from mininet.util import irange
from functools import partial
import itertools

HOSTS = 2

class MyTopo(Topo):
    def __init__(self, n=3, lossy=True, **opts):
        Topo.__init__(self, **opts)
        switches = [self.addSwitch('s%d' % i) for i in range(n)]
        for index, switch in enumerate(switches, start=1):
            for h in irange(1, HOSTS):
                name = f'h{index}x{h:02d}'
                host = self.addHost(name)
                if lossy and h > 1:
                    self.addLink(host, switch, bw=10 * h, loss=1)
                else:
                    self.addLink(host, switch)
        for a, b in zip(switches, switches[1:]):
            self.addLink(a, b, delay='%sms' % (2 + 3))
        for a, b in itertools.combinations(sorted({'e1': 1, 'e2': 2}), 2):
            self.addSwitch(a), self.addSwitch(b)
            self.addLink(a, b); self.addLink(a, switches[-1])
        i = 0
        while True:
            i += 1
            if i == 2:
                continue
            elif i > 3:
                break
            self.addLink(self.addHost('w{}'.format(i)), 's' + str(i - 1))

topos = { 'mytopo': ( lambda: MyTopo(n=3) ) }
",
    );
    assert_eq!(
        links(&made),
        [
            "h1x01, s0",
            "h1x02, s0",
            "h2x01, s1",
            "h2x02, s1",
            "h3x01, s2",
            "h3x02, s2",
            "s0, s1",
            "s1, s2",
            "e1, e2",
            "e1, s2",
            "w1, s0",
            "w3, s2"
        ]
    );
    let all = made.join("\n");
    assert!(all.contains("- { between: [h1x02, s0], rate: 20Mbit, loss: 1% }"), "{all}");
    assert!(all.contains("- { between: [s1, s2], delay: 5ms }"), "{all}");
    assert_eq!(notes, "");
}

#[test]
fn a_script_is_run_from_its_last_lines_on_and_says_what_it_does_besides() {
    let (made, notes) = imported(
        r#"#!/usr/bin/python
"""A script"""
from mininet.net import Mininet
from mininet.node import Controller, RemoteController, OVSKernelSwitch
from mininet.cli import CLI
from mininet.log import setLogLevel, info
from mininet.link import TCLink
import sys

def myNetwork(n):
    net = Mininet(topo=None, build=False, ipBase='10.0.0.0/8', link=TCLink, controller=RemoteController)
    info( '*** Adding controller\n' )
    c0 = net.addController(name='c0', port=6633)
    print "*** Python 2"
    s1 = net.addSwitch('s1', cls=OVSKernelSwitch, dpid='1')
    hosts = [ net.addHost('h%d' % i, ip=f'10.0.0.{i}', defaultRoute=None) for i in range(1, n + 1) ]
    for h in net.hosts:
        net.addLink(h, s1, bw=10)
    net.build()
    s1.start([c0])
    h1, h2 = net.get('h1', 'h2')
    h1.cmd('python3 -m http.server 80 &')
    h1.cmd('ip route add 10.9.0.0/16 via 10.0.0.2')
    net['h2'].cmd('sysctl -w net.ipv4.ip_forward=1')
    print(h2.cmd('ping -c1', h1.IP()))
    s1.cmd('ovs-ofctl add-flow s1 actions=normal')
    net.pingAll()
    net.iperf((h1, h2))
    CLI(net)
    net.stop()

if __name__ == '__main__':
    setLogLevel( 'info' )
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 3
    try:
        myNetwork(count if 'quick' not in sys.argv else 1)
    except Exception as error:
        raise
    finally:
        info('done')
"#,
    );
    assert_eq!(links(&made), ["h1, s1", "h2, s1", "h3, s1"]);
    let all = made.join("\n");
    let h1 = "h1: { kind: host, ipv4: \"10.0.0.1\", routes: [\"10.9.0.0/16 via 10.0.0.2\"], programs: { \"python3\": { run: [sh, \"-c\", \"exec python3 -m http.server 80\"], restart: never } } }";
    assert!(all.contains(h1), "{all}");
    assert!(all.contains("h2: { kind: host, ipv4: \"10.0.0.2\" }"), "with one link it passes nothing on: {all}");
    for expected in [
        "11: controllers: switches forward along shortest paths from the first packet on (the network; also in line 13)",
        "15: `dpid` of switches: they are known by their names (s1)",
        "22: commands that go on (`&`, `popen`) are `programs:` of the host",
        "25: commands of hosts: `heddle exec HOST COMMAND` once the network is up, or `programs:` of the host (h2)",
        "26: commands of switches: `heddle flow`",
        "27: pings: `heddle ping --all`",
        "28: measurements with iperf: `heddle iperf h1 h2`",
        "29: Mininet's command line: the network stays up",
    ] {
        assert!(notes.contains(expected), "{expected}\n{notes}");
    }
}

/// Mininet's example of a router, in our words: a class of nodes that forward, and an address for each of its devices.
#[test]
fn a_router_is_a_host_that_forwards() {
    let (made, notes) = imported(
        r"
class Forwarding( Node ):
    def config( self, **params ):
        super( Forwarding, self ).config( **params )
        self.cmd( 'sysctl net.ipv4.ip_forward=1' )

    def terminate( self ):
        self.cmd( 'sysctl net.ipv4.ip_forward=0' )
        super().terminate()

class Subnets( Topo ):
    def build( self, **_opts ):
        gateways = { 'h1': '192.168.1.1/24', 'h2': '172.16.0.1/12', 'h3': '10.0.0.1/8' }
        router = self.addNode( 'r0', cls=Forwarding, ip=gateways[ 'h1' ] )
        for number, ( name, gateway ) in enumerate( gateways.items() ):
            address, prefix = gateway.split( '/' )
            own = '.'.join( address.split( '.' )[ :3 ] + [ '100' ] )
            host = self.addHost( name, ip='%s/%s' % ( own, prefix ), defaultRoute='via ' + address )
            self.addLink( host, router, intfName2='r0-eth%d' % ( number + 1 ), params2={ 'ip': gateway } )

def run():
    net = Mininet( topo=Subnets(), waitConnected=True )
    net.start()
    info( net[ 'r0' ].cmd( 'route' ) )

if __name__ == '__main__':
    run()
",
    );
    let expected = [
        "h1: { kind: host, ipv4: \"192.168.1.100/24\", routes: [\"default via 192.168.1.1\"] }",
        "h2: { kind: host, ipv4: \"172.16.0.100/12\", routes: [\"default via 172.16.0.1\"] }",
        "h3: { kind: host, ipv4: \"10.0.0.100\", routes: [\"default via 10.0.0.1\"] }",
        "r0: { kind: host, interfaces: { 0: { ipv4: \"192.168.1.1/24\" }, 1: { ipv4: \"172.16.0.1/12\" }, 2: { ipv4: \"10.0.0.1\" } }, forward: true }",
        "links:",
        "- { between: [h1, r0] }",
        "- { between: [h2, r0] }",
        "- { between: [h3, r0] }",
    ];
    assert_eq!(made, expected);
    assert_eq!(
        notes,
        "19: names of interfaces (`intfName1`, `intfName2`): those of hosts are eth0, eth1, .. and ports of switches 0, 1, .. in the order of their links (r0)\n\
         24: commands of hosts: `heddle exec HOST COMMAND` once the network is up, or `programs:` of the host (r0)\n"
    );
}

#[test]
fn each_line_that_is_otherwise_here_is_named() {
    let (_, notes) = imported(
        "\
net = Mininet(switch=partial(OVSKernelSwitch, protocols='OpenFlow13'))
a, b = net.addHost('a'), net.addHost('b')
s = net.addSwitch('s', cls=OVSSwitch, failMode='standalone', stp=True)
t = net.addSwitch('t', cls=partial(OVSSwitch, datapath='user'), failMode='secure')
net.addLink(a, s, intfName1='lan', intfName2='up')
net.addLink(b, t)
net.addLink(s, t)
a.popen('python3 -m http.server 80')
b.cmd('iperf -s &')
a.cmd('ls')
b.popen('sleep 9', shell=True)
b.cmd('date')
",
    );
    for expected in [
        "1: `protocols` of switches: `heddle flow` takes what ovs-ofctl takes of any version (all switches)",
        "3: `failMode` of switches: without a controller they forward, and do what `flows:` of the file say (s, t; also in line 4)",
        "3: the spanning tree of switches (`stp`): `switches: { s1: { rstp: true } }`",
        "4: `datapath` of switches: one process forwards for all of them (t)",
        "in the order of their links (a, s)",
        "8: commands that go on (`&`, `popen`)",
        "(a, b; also in lines 9, 11)",
        "10: commands of hosts",
        "(a, b; also in line 12)",
    ] {
        assert!(notes.contains(expected), "{expected}\n{notes}");
    }
}

/// What the file has in another way is not said to be missing, and what is missing is said with the key that does it.
#[test]
fn what_is_converted_is_not_missing() {
    let text = "\
net = Mininet()
a, s = net.addHost('a'), net.addSwitch('s', stp_enable=True)
net.addLink(a, s, port1=1)
a.cmd('tc qdisc add dev a-eth0 root netem delay 10ms loss 1%')
s.cmd('ovs-vsctl set bridge s stp_enable=true')
a.cmd('sleep 9 &')
";
    let imported = import(&Source { name: "lab.py".to_owned(), text: text.to_owned() }).expect("it is a network");
    let of = |line| imported.notes.iter().find(|note| note.line == Some(line)).expect("it is noted");
    assert!(of(6).kind == NoteKind::Converted && of(6).message.starts_with("commands that go on"), "{:?}", of(6));
    assert_eq!(imported.notes.iter().filter(|note| note.kind == NoteKind::Converted).count(), 1);
    assert!(of(2).message.contains("rstp: true") && of(2).message.ends_with("(s; also in line 5)"), "{:?}", of(2));
    assert!(of(3).message.contains("from 0 in the order of the links"), "{:?}", of(3));
    assert!(of(4).message.contains("write `delay: 10ms, loss: 1%` at its link"), "{:?}", of(4));
}

#[test]
fn what_python_would_not_run_is_refused_with_its_line() {
    let network = "net = Mininet()\nh1 = net.addHost('h1')\nh2 = net.addHost('h2')\ns1 = net.addSwitch('s1')\nnet.addLink(h1, s1)\nnet.addLink(h2, s1)\n";
    for (was, is, line, message) in [
        ("'h2')", "'h2'", 3, "this is no Python: '(' was never closed"),
        ("h1, s1", "h1 s1", 5, "this is no Python: invalid syntax. Perhaps you forgot a comma?"),
        ("'s1')", "'s1)", 4, "this is no Python: unterminated string literal (detected at line 4)"),
        ("h1 =", "if 1\nh1 =", 2, "this is no Python: expected ':'"),
    ] {
        let source = Source { name: "lab.py".to_owned(), text: network.replace(was, is) };
        let error = import(&source).expect_err(is);
        let [only] = error.problems() else { panic!("{error:?}") };
        assert_eq!((only.line, only.message.as_str()), (line, message));
        assert!(only.hint.contains("py_compile"), "{}", only.hint);
    }
}

/// A link to what has no value was left out, with a note and status 0.
#[test]
fn names_without_a_value_end_the_import_as_they_end_python() {
    let network = "net = Mininet()\nh1 = net.addHost('h1')\nh2 = net.addHost('h2')\ns1 = net.addSwitch('s1')\nnet.addLink(h1, s1)\nnet.addLink(h2, s1)\n";
    for (was, is, line, message, hint) in [
        ("h2, s1", "h2, undefined", 6, "name 'undefined' is not defined", "undefined = net.addHost('undefined')"),
        ("h2, s1", "h2, s11", 6, "name 's11' is not defined", "did you mean `s1`?"),
        ("h2 =", "net.addLink(h1, s1)\nh2 =", 3, "name 's1' is not defined", "it gets its value in line 5"),
        (
            "net.addLink(h1",
            "for i in range(two):\n    pass\nnet.addLink(h1",
            5,
            "name 'two' is not defined",
            "or import it",
        ),
        (
            "net.addLink(h1",
            "def f():\n    return str(f'{three}')\nf()\nnet.addLink(h1",
            6,
            "name 'three' is not defined",
            "",
        ),
    ] {
        let source = Source { name: "lab.py".to_owned(), text: network.replacen(was, is, 1) };
        let error = import(&source).expect_err(is);
        let [only] = error.problems() else { panic!("{error:?}") };
        let message = format!("Python would end here with NameError: {message}");
        assert_eq!((only.line, only.message.as_str()), (line, message.as_str()));
        assert!(only.hint.contains(hint), "{}", only.hint);
    }
    // What Python may have caught or not come to, or what is of somebody else's, is left out as before.
    for (was, is) in [
        ("h2, s1", "h2, somewhere()"),
        ("net = ", "from lab import *\nnet = "),
        ("net = ", "try:\n    text = unicode_text\nexcept NameError:\n    text = str\nnet = "),
        ("net = ", "import os\nif os.geteuid():\n    h3 = 1\nelse:\n    print(h3, h4)\nnet = "),
        ("net = ", "def f():\n    return later\nlater = 1\nf()\nnet = "),
    ] {
        let text = format!("from site import somewhere\n{}", network.replacen(was, is, 1));
        assert_eq!(links(&imported(&text).0)[0], "h1, s1", "{is}");
    }
}

/// Attributes that Mininet's classes lack, nodes that nobody adds and operators between a text and a number were passed over.
#[test]
fn what_ends_python_ends_the_import_with_its_line() {
    let network = "from mininet.net import Mininet\nnet = Mininet()\nh1 = net.addHost('h1')\nh2 = net.addHost('h2')\ns1 = net.addSwitch('s1')\nnet.addLink(h1, s1)\nnet.addLink(h2, s1)\n";
    let topology = "class Lab(Topo):\n    def build(self):\n        s1 = self.addSwitch('s1')\n        for i in range(2):\n            self.addLink(self.addHost('h%d' % i), s1)\n";
    for (text, marked, line, message, hint) in [
        (
            network.replace("addHost('h2", "addHots('h2"),
            "addHots",
            4,
            "AttributeError: 'Mininet' object has no attribute 'addHots'",
            "did you mean `addHost`?",
        ),
        (
            format!("{network}net.pingall()\n"),
            "pingall",
            8,
            "AttributeError: 'Mininet' object has no attribute 'pingall'",
            "did you mean `pingAll`?",
        ),
        (
            format!("{network}for h in net.itemz:\n    print(h)\n"),
            "itemz",
            8,
            "AttributeError: 'Mininet' object has no attribute 'itemz'",
            "did you mean `items`?",
        ),
        (
            format!("{network}net.frobnicate()\n"),
            "frobnicate",
            8,
            "AttributeError: 'Mininet' object has no attribute 'frobnicate'",
            "a network has `addHost`",
        ),
        (
            topology.replace("addHost", "addHots"),
            "addHots",
            5,
            "AttributeError: 'Lab' object has no attribute 'addHots'",
            "did you mean `addHost`?",
        ),
        (
            format!("{}topos = {{ 'lab': lambda: Lab() }}\n", topology.replace("addHost", "addHots")),
            "addHots",
            5,
            "AttributeError: 'Lab' object has no attribute 'addHots'",
            "",
        ),
        (format!("{network}h = net.get('h9')\n"), "h9", 8, "KeyError: 'h9'", "did you mean `h1`?"),
        (
            format!("{network}h = net['client']\n"),
            "client",
            8,
            "KeyError: 'client'",
            "the program adds `h1`, `h2`, `s1` before",
        ),
        (
            topology.replace("'h%d' % i", "'h' + i"),
            "+",
            5,
            "TypeError: can only concatenate str (not \"int\") to str",
            "str(..)",
        ),
        (
            format!("{network}x = 1 + 'h'\n"),
            "+",
            8,
            "TypeError: unsupported operand type(s) for +: 'int' and 'str'",
            "str(..)",
        ),
        (format!("{network}x = 'h'\nx += 1\n"), "+", 9, "TypeError: can only concatenate str (not \"int\") to str", ""),
    ] {
        let source = Source { name: "lab.py".to_owned(), text: text.clone() };
        let error = import(&source).expect_err(&text);
        let [only] = error.problems() else { panic!("{error:?}") };
        let message = format!("Python would end here with {message}");
        assert_eq!((only.line, only.message.as_str()), (line, message.as_str()), "{text}");
        assert_eq!(&text[only.span.offset()..][..only.span.len()], marked, "{text}");
        assert!(only.hint.contains(hint), "{}", only.hint);
    }
}

/// What may be there after all is left out as before.
#[test]
fn what_python_may_have_does_not_end_the_import() {
    let network = "net = Mininet()\nh1 = net.addHost('h1')\ns1 = net.addSwitch('s1')\nnet.addLink(h1, s1)\n";
    for rest in [
        "net.get('c0')\nnet.addController('boss')\nnet['boss']\nnet.addNAT()\nnet.get('nat0')\n",
        "net.mine = 1\nprint(net.mine)\n",
        "from site import build\nbuild(net)\nnet.get('h9')\n",
        "import sys\nif len(sys.stdin.read()):\n    net.addHost('h9')\nnet.get('h9')\n",
        "try:\n    net.addHots('h2')\nexcept AttributeError:\n    pass\n",
        "if 0:\n    net.addHots('h2')\n",
        "from site import thing\nthing.addHots('h2')\nx = 'h' + thing + 1\n",
        "from site import Base\nclass Lab(Base, Topo):\n    def build(self):\n        self.addHots()\nLab()\n",
        "class Lab(Topo):\n    def more(self):\n        self.extra()\n    def extra(self):\n        pass\nLab().more()\n",
        "def later():\n    return net.addHots('h2')\n",
        "x = 'h' * 2 + '%d' % 3 + str(4)\n",
    ] {
        assert_eq!(links(&imported(&format!("{network}{rest}")).0), ["h1, s1"], "{rest}");
    }
    let elsewhere = network.replacen("net =", "from lab import Mininet\nnet =", 1);
    assert_eq!(links(&imported(&format!("{elsewhere}net.addHots('h2')\n")).0), ["h1, s1"]);
}

#[test]
fn one_of_several_topologies_is_named() {
    let class = |name: &str, base: &str, host: &str| {
        format!(
            "class {name}({base}):\n    def build(self):\n        self.addLink(self.addHost('{host}'), self.addSwitch('s1'))\n"
        )
    };
    let two = class("Small", "Topo", "h1") + &class("Large", "Topo", "h2");
    let (made, notes) = imported(&two);
    assert_eq!(links(&made), ["h2, s1"]);
    let said = "4: all topologies but `Large`, the last of the 2 that nothing in the file makes: `--topo Small` takes `Small`\n";
    assert_eq!(notes, said);
    let (made, notes) = imported(&format!("{two}topos = {{ 'lab': Small }}\n"));
    assert_eq!((links(&made), notes.as_str()), (vec!["h1, s1".to_owned()], ""));
    let several = format!("{two}\ntopos = {{ 'a': Small, 'b': Large }}\n");
    let (made, notes) = imported(&several);
    assert_eq!(links(&made), ["h1, s1"]);
    assert_eq!(notes, "8: all topologies but `a`, the first in `topos`: `b` (`--topo b` takes that one)\n");
    let source = |text: &str| Source { name: "lab.py".to_owned(), text: text.to_owned() };
    let chosen = |text: &str, name: &str| crate::import::import_with(&source(text), Some(name), &|_| None);
    for (name, host) in [("b", "h2"), ("Large", "h2"), ("a", "h1"), ("Small", "h1")] {
        let made = chosen(&several, name).unwrap_or_else(|error| panic!("{name}: {error}"));
        assert!(made.text.contains(host) && made.notes.is_empty(), "{name}: {made:?}");
    }
    let refused = |text: &str, name: &str| {
        let error = chosen(text, name).unwrap_err();
        let problem = &error.problems()[0];
        (problem.line, problem.hint.clone())
    };
    assert_eq!(refused(&several, "large"), (8, "did you mean `Large`?".to_owned()));
    assert_eq!(refused(&several, "internet"), (8, "there are `a`, `b`, `Large`, `Small`".to_owned()));
    let (_, hint) = refused("net = Mininet()\nnet.addLink(net.addHost('h1'), net.addSwitch('s1'))\n", "a");
    assert!(hint.starts_with("leave `--topo` out"), "{hint}");
    // One that derives from the other has what that has.
    assert_eq!(imported(&(class("Small", "Topo", "h1") + &class("Large", "Small", "h2"))).1, "");
}

/// What has no effect since it is not written as it is meant is told apart from what Heddle has not.
#[test]
fn what_is_hardly_meant_is_a_mistake() {
    let text = "\
net = Mininet()
a, s = net.addHost('a', ips='10.0.0.1'), net.addSwitch('s')
net.addHost('a')
net.addLink(a, s, dealy='5ms', loss=120, speedup=1)
net.configLinkStatus('a', 's', 'down')
";
    let imported = import(&Source { name: "lab.py".to_owned(), text: text.to_owned() }).expect("it is a network");
    let said = |kind| {
        let of_it = imported.notes.iter().filter(|note| note.kind == kind);
        of_it.map(|note| format!("{} {}", note.line.unwrap_or(0), note.message)).collect::<Vec<_>>()
    };
    assert_eq!(
        said(NoteKind::Mistake),
        [
            "2 `ips=` of `a`: did you mean `ip`?",
            "3 `a` is there twice: the second one is left out",
            "4 `dealy=5ms` of a link: there is no such option; did you mean `delay`?",
            "4 `loss=120` of a link: it is no share from 0 to 100 (%)",
        ]
    );
    assert_eq!(
        said(NoteKind::LeftOut),
        ["4 `speedup=1` of a link: nothing here stands for it", "5 `heddle link down a s` once the network is up"]
    );
}

/// Hosts have the addresses that are written, of any network; and those that Mininet would have given them.
#[test]
fn addresses_are_of_any_network() {
    let text = |options: &str, a: &str| {
        format!(
            "net = Mininet({options})\nnet.addHost('a', ip={a})\nnet.addHost('b')\nnet.addSwitch('s')\nnet.addLink('a', 's')\nnet.addLink('b', 's')\n"
        )
    };
    let (made, notes) = imported(&text("", "'192.168.7.1/24'"));
    assert_eq!(
        (made[0].as_str(), made[1].as_str(), notes.as_str()),
        ("a: { kind: host, ipv4: \"192.168.7.1/24\" }", "b: host", "")
    );
    let (made, _) = imported(&text("ipBase='192.168.7.0/24', autoSetMacs=True", "'192.168.7.9'"));
    assert_eq!(made[0], "a: { kind: host, ipv4: \"192.168.7.9/24\", mac: \"00:00:00:00:00:01\" }");
    assert_eq!(made[1], "b: { kind: host, ipv4: \"192.168.7.2/24\", mac: \"00:00:00:00:00:02\" }");
    let (made, notes) = imported(&text("", "'10.0.0.0/8'"));
    assert_eq!(made[0], "a: host");
    assert_eq!(notes, "2: the address 10.0.0.0/8 of `a` is not a host's: it is that of the subnet itself\n");
}

#[test]
fn topologies_that_mininet_brings_along_are_there() {
    for (call, first, count) in [
        ("TreeTopo(depth=2, fanout=3)", "s2, h1", 12),
        ("SingleSwitchTopo(4)", "h1, s1", 4),
        ("LinearTopo(k=3, n=2)", "h1s1, s1", 8),
        ("TorusTopo(3, 3)", "h1x1, s1x1", 27),
        ("MinimalTopo()", "h1, s1", 2),
    ] {
        let (made, notes) =
            imported(&format!("from mininet.topolib import *\nnet = Mininet(topo={call})\nnet.start()\n"));
        let links = links(&made);
        assert_eq!((links[0].as_str(), links.len(), notes.as_str()), (first, count, ""), "{call}");
    }
}

#[test]
fn what_is_not_known_is_skipped_and_said() {
    let (made, notes) = imported(
        "\
import random, sys; from site import nodes, read_options
class T(Topo):
    def build(self):
        for i in range(int(sys.argv[1])):
            self.addHost('x%d' % i)
        if random.random() > 0.5:
            self.addHost('y')
        self.addHost('z%d' % random.randint(1, 9))
        self.addLink(self.addHost('a'), self.addSwitch('s'), bw=random.choice([1, 2]))
        self.addLink(self.addHost('b'), 's', **read_options())
        self.addLink(*nodes)
        yield self.addHost('c')
",
    );
    assert_eq!(links(&made), ["a, s", "b, s"]);
    for expected in [
        "4: `for i in range(int(sys.argv[1])):` goes over what is not known here, and is not run: write it out",
        "6: `if random.random() > 0.5:` depends on what is not known here, and is taken as false: write it out",
        "8: `self.addHost('z%d' % random.randint(1, 9...`: a node whose name is not known here",
        "9: `bw=..` of a link: its value is not known here",
        "10: `self.addLink(self.addHost('b'), 's', **r...`: options of the link that are not known here",
        "11: `self.addLink(*nodes)`: the link is left out, since its ends are no nodes that the file adds before",
        "12: `yield self.addHost('c')` is not understood",
    ] {
        assert!(notes.contains(expected), "{expected}\n{notes}");
    }
}

/// Whatever a program does, it ends, and what it had made is there.
#[test]
fn programs_end() {
    let before = "net = Mininet()\nnet.addLink(net.addHost('a'), net.addSwitch('s'))\n";
    for (rest, expected) in [
        ("while True:\n    pass\n", "the program goes on for too long"),
        ("x = 'x'\nwhile 1:\n    x = x + x\n", "the program goes on for too long"),
        ("x = [0] * 40000\nfor _ in range(100000):\n    x[:0]\n", "the program goes on for too long"),
        ("def f(n):\n    return f(n + 1)\nf(0)\n", "calls within calls"),
        ("x = []\nfor i in range(100000):\n    x = [x]\nprint(x == [x], str(x))\n", ""),
        ("x = [0] * 10 ** 12\ny = range(10 ** 15)\nz = 10 ** 99 + 'a'.zfill(10 ** 9)\n", ""),
        ("from lab import A, B\nclass A(A): pass\nA().x.y\nclass B(Topo, B, A): pass\nB()\n", ""),
        (
            "x = 1\nfor i in range(1 << 62, -1, -3): x //= 0\ny = -9223372036854775807 - 1\nz = abs(y) + y // -1 + y % -1\n",
            "",
        ),
    ] {
        let (made, notes) = imported(&format!("{before}{rest}"));
        assert_eq!(links(&made), ["a, s"], "{rest}");
        assert!(notes.contains(expected), "{rest}: {notes}");
    }
    let deep = format!(
        "{before}x = {}1{}\ny = {}\n{}\n",
        "(".repeat(5_000),
        ")".repeat(5_000),
        "1+".repeat(9_000),
        "x.".repeat(5_000)
    );
    assert_eq!(links(&imported(&deep).0), ["a, s"]);
    let nested = (0..300).map(|depth| " ".repeat(depth) + "if 1:\n").collect::<String>();
    assert_eq!(links(&imported(&format!("{before}{nested}{}pass\n", " ".repeat(300))).0), ["a, s"]);
    let chain = format!("{before}if 0: pass\n{}", "elif 0: pass\n".repeat(3_000));
    assert_eq!(links(&imported(&chain).0), ["a, s"]);
}

proptest::proptest! {
    #[test]
    fn any_words_are_a_program(words in proptest::collection::vec("(for|in|if|else|:|\n|\n  |\n    |def|class|lambda|self|net|x|\\(|\\)|\\[|\\]|\\{|\\}|,|=|\\+|\\*\\*|\\*|%|\\.|'s%d'|f'h\\{x\\}'|1|-1|addHost|addLink|range|return|while|not|and|super|print|\"\"\"|#) ?", 0..60)) {
        let text = format!("net.addLink(net.addHost('a'), net.addSwitch('b'))\n{}", words.concat());
        if let Ok(imported) = import(&Source { name: "x.py".to_owned(), text }) {
            proptest::prop_assert!(parse(&Source { name: "made".to_owned(), text: imported.text.clone() }).is_ok(), "{}", imported.text);
        }
    }
}
