//! Tests of interfaces of hosts: their addresses, and what their links do.

use super::tests::imported;

/// Its line in the fabric file.
fn of<'a>(made: &'a [String], start: &str) -> &'a str {
    made.iter().find(|line| line.starts_with(start)).unwrap_or_else(|| panic!("{start}: {made:?}"))
}

/// The router lost all its interfaces, since it had a MAC address besides.
#[test]
fn a_router_has_its_mac_at_its_first_interface() {
    let (made, notes) = imported(
        "\
class LinuxRouter(Node):
    def config(self, **params):
        super().config(**params)
        self.cmd('sysctl net.ipv4.ip_forward=1')
class T(Topo):
    def build(self):
        r0 = self.addNode('r0', cls=LinuxRouter, ip='192.168.1.1/24')
        h1 = self.addHost('h1', ip='192.168.1.100/24', defaultRoute='via 192.168.1.1')
        h2 = self.addHost('h2', ip='172.16.0.100/12', defaultRoute='via 172.16.0.1')
        self.addLink(h1, r0, params2={'ip': '192.168.1.1/24'})
        self.addLink(h2, r0, params2={'ip': '172.16.0.1/12'}, addr2='02:00:00:00:00:09')
net = Mininet(topo=T(), autoSetMacs=True)
",
    );
    let router = "r0: { kind: host, interfaces: { 0: { ipv4: \"192.168.1.1/24\", mac: \"00:00:00:00:00:03\" }, 1: { ipv4: \"172.16.0.1/12\", mac: \"02:00:00:00:00:09\" } }, forward: true }";
    assert_eq!(of(&made, "r0:"), router);
    assert!(of(&made, "h1:").contains("mac: \"00:00:00:00:00:01\""), "{made:?}");
    assert_eq!(notes, "");
}

/// Two links in one subnet: both hosts lost their addresses, and became routers.
#[test]
fn a_host_keeps_the_address_that_does_not_clash() {
    let (made, notes) = imported(
        "\
net = Mininet()
h1 = net.addHost('h1', ip='10.0.0.1/8')
h2 = net.addHost('h2', ip='10.0.0.2/8')
s1 = net.addSwitch('s1')
net.addLink(h1, s1)
net.addLink(h2, s1)
net.addLink(h1, h2)
h1.setIP('10.9.0.1', 24, 'h1-eth1')
h2.setIP('10.9.0.2', 24, 'h2-eth1')
",
    );
    assert_eq!(of(&made, "h1:"), "h1: { kind: host, ipv4: \"10.0.0.1\" }");
    let h2 = "h2: { kind: host, interfaces: { 0: { ipv4: \"10.0.0.2\" }, 1: { ipv4: \"10.9.0.2/24\" } } }";
    assert_eq!(of(&made, "h2:"), h2);
    for expected in [
        "of `h1`, `interfaces: { 0: { ipv4: \"10.0.0.1\" }, 1: { ipv4: \"10.9.0.1/24\" } }` (it has the address of the first one, by all its links)",
        "are both in 10.0.0.0/8",
    ] {
        assert!(notes.contains(expected), "{expected}\n{notes}");
    }
}

/// One route by a router that is nowhere cost a router all of its interfaces.
#[test]
fn a_route_that_leads_nowhere_costs_nothing_else() {
    let text = |routes: &str| {
        format!(
            "net = Mininet()\nr, a, b = net.addHost('r'), net.addHost('a', ip='10.1.0.2/24'), net.addHost('b', ip='10.2.0.2/24')\nnet.addLink(a, r)\nnet.addLink(b, r)\nr.setIP('10.1.0.1', 24, 'r-eth0')\nr.setIP('10.2.0.1', 24, 'r-eth1')\n{routes}"
        )
    };
    let interfaces = "interfaces: { 0: { ipv4: \"10.1.0.1/24\" }, 1: { ipv4: \"10.2.0.1/24\" } }";
    let wrong = "r.cmd('ip route add 10.9.0.0/16 via 203.0.113.7')\n";
    let (made, notes) = imported(&text(wrong));
    assert_eq!(of(&made, "r:"), format!("r: {{ kind: host, {interfaces} }}"));
    assert!(notes.contains("of `r`, the route `10.9.0.0/16 via 203.0.113.7`: 203.0.113.7 is in no subnet"), "{notes}");
    // Nor do two of them.
    let wrong = format!("{wrong}r.cmd('ip route add 10.7.0.0/16 via 203.0.113.8')\n");
    let (made, notes) = imported(&text(&format!("{wrong}r.cmd('ip route add 10.8.0.0/16 via 10.2.0.2')\n")));
    assert!(of(&made, "r:").contains(interfaces), "{made:?}");
    assert!(notes.contains("the route `10.7.0.0/16 via 203.0.113.8`"), "{notes}");
    assert!(of(&made, "r:").ends_with("routes: [\"10.8.0.0/16 via 10.2.0.2\"] }"), "{made:?}");
}

/// Hosts forward if the program says so, or nothing else joins the network.
#[test]
fn hosts_of_several_links_forward_only_if_they_do_so_there() {
    let text = |more: &str| {
        format!(
            "net = Mininet()\na, b, s, t = net.addHost('a'), net.addHost('b'), net.addSwitch('s'), net.addSwitch('t')\nfor x in (a, b):\n    net.addLink(x, s)\n    net.addLink(x, t)\n{more}"
        )
    };
    let (made, notes) = imported(&text(""));
    assert_eq!((of(&made, "a:"), notes.as_str()), ("a: host", ""));
    let (made, _) = imported(&text("a.cmd('sysctl -w net.ipv4.ip_forward=1')\n"));
    assert_eq!((of(&made, "a:"), of(&made, "b:")), ("a: { kind: host, forward: true }", "b: host"));
    let (made, notes) = imported(&text("c = net.addHost('c')\nnet.addLink(b, c)\n"));
    assert_eq!((of(&made, "b:"), of(&made, "c:")), ("b: { kind: host, forward: true }", "c: host"));
    assert!(notes.contains("hosts have `forward: true`, since the network falls apart without: a, b"), "{notes}");
}

/// What was set at interfaces and at one end of a link vanished without a note.
#[test]
fn what_is_set_at_interfaces_is_there_or_noted() {
    let (made, notes) = imported(
        "\
net = Mininet(link=TCLink)
h1, h2, s1 = net.addHost('h1'), net.addHost('h2'), net.addSwitch('s1')
net.addLink(h1, s1, params1={'bw': 10, 'delay': '5ms', 'jitter': '1ms', 'loss': 3}, params2={'bw': 20})
l = net.addLink(h2, s1, bw=5, delay='1ms')
l.intf2.config(delay='50ms', loss=5)
h2.intf().config(bw=3)
h2.intf().setIP('10.0.0.77/8')
h2.intf('h2-eth0').setMAC('02:00:00:00:00:AA')
h1.intfs[0].ifconfig('mtu', '1300')
h1.setARP('10.0.0.2', '02:00:00:00:00:aa')
s1.attach('eth7')
Intf('eth8', node=s1)
l.delete()
h1.intf().rename('lan')
s1.intf('s1-eth1').setIP('10.0.0.9/8')
h1.setHostRoute('10.9.0.1', 'h1-eth0')
s1.dpctl('show')
h1.intf('h1-eth5').setMAC('02:00:00:00:00:05')
net.linksBetween(h1, s1)[0].stop()
for link in net.links:
    link.reset()
s1.start([])
print(h1.IP(), h1.intf().MAC(), l.intf1.node.name, h1.connectionsTo(s1)[0][1].name)
",
    );
    assert_eq!(of(&made, "h2:"), "h2: { kind: host, ipv4: \"10.0.0.77\", mac: \"02:00:00:00:00:aa\" }");
    let links: Vec<&str> = made.iter().filter(|line| line.contains("between")).map(String::as_str).collect();
    assert_eq!(
        links,
        [
            "- { between: [h1, s1], rate: 10Mbit, delay: 5ms, jitter: 1ms, loss: 3%, back: { rate: 20Mbit, delay: 0ms, jitter: 0ms, loss: 0% } }",
            "- { between: [s1, h2], delay: 50ms, loss: 5%, back: { rate: 3Mbit, delay: 0ms, loss: 0% } }",
        ]
    );
    for expected in [
        "9: commands of hosts: `heddle exec HOST COMMAND`",
        "10: MAC addresses of neighbours (`setARP`): hosts ask for them",
        "11: `s1.attach('eth7')`: a device of the machine: `switches: { s1: { ports: { lan: { device: eth1 } } } }`",
        "12: `Intf('eth8', node=s1)`: a device of the machine",
        "13: `l.delete()`: nothing here stands for `delete`",
        "14: `h1.intf().rename('lan')`: nothing here stands for `rename`",
        "15: addresses of switches' ports",
        "16: routes to one host",
        "17: `s1.dpctl('show')`: nothing here stands for `dpctl`",
        "18: `h1.intf('h1-eth5').setMAC('02:00:00:00:0...`: `h1` has no interface `h1-eth5`",
        "19: `net.linksBetween(h1, s1)[0].stop()`: nothing here stands for `stop`",
        "21: `link.reset()`: nothing here stands for `reset`",
    ] {
        assert!(notes.contains(expected), "{expected}\n{notes}");
    }
    assert!(!notes.contains("22: ") && !notes.contains("23: "), "{notes}");
}

/// What is not known at one end is said, and so is a call on what is not known.
#[test]
fn what_is_not_known_of_interfaces_is_said() {
    let (_, notes) = imported(
        "\
from lab import options, nodes
net = Mininet()
h1, s1 = net.addHost('h1'), net.addSwitch('s1')
net.addLink(h1, s1, params1=options, params2={'ip': '10.0.0.9/8', 'speedup': 3})
h1.intf().config(**options)
h1.setIP(nodes)
nodes.first.setIP('10.0.0.5/8')
h1.setDefaultRoute(h1.intf())
",
    );
    for expected in [
        "4: `net.addLink(h1, s1, params1=options, par...`: options of the link that are not known here",
        "4: addresses of switches' ports: a switch forwards, and has none (s1)",
        "4: `speedup=3` of a link: nothing here stands for it",
        "5: `h1.intf().config(**options)`: options of the link that are not known here",
        "6: addresses of interfaces that are not known here",
        "7: `nodes.first.setIP('10.0.0.5/8')`: nothing here stands for `setIP`",
        "8: routes of hosts that are not known here",
    ] {
        assert!(notes.contains(expected), "{expected}\n{notes}");
    }
}

/// `ip addr add` took the first address away.
#[test]
fn an_added_address_is_one_more() {
    let (made, notes) = imported(
        "\
net = Mininet()
a, b, c, d, r, s = [net.addHost(name) for name in 'abcdr'] + [net.addSwitch('s')]
t = net.addSwitch('t')
for h in (a, b, c, d, r): net.addLink(h, s)
net.addLink(r, t)
net.addLink(net.addHost('e', ip='172.16.0.1/24'), t)
a.cmd('ip addr add 10.44.0.1/24 dev a-eth0')
b.setIP('10.0.0.22/8')
b.cmd('ifconfig b-eth0:0 192.168.5.1 netmask 255.255.255.0')
c.cmd('ip addr flush dev c-eth0'), c.cmd('ip addr add 10.44.0.3/8 dev c-eth0'), c.cmd('ip addr add 10.44.0.4 dev c-eth0')
d.cmd('ip link set dev d-eth0 address 02:00:00:00:00:0d; ip addr add 10.0.0.4/8 dev d-eth0')
d.setIP('10.0.0.4/8')
r.cmd('ip addr add 10.0.9.1/8 dev r-eth0; ip addr add 172.16.0.254/24 dev r-eth1')
",
    );
    assert_eq!(of(&made, "a:"), "a: { kind: host, addresses: [\"10.44.0.1/24\"] }");
    assert_eq!(of(&made, "b:"), "b: { kind: host, ipv4: \"10.0.0.22\", addresses: [\"192.168.5.1/24\"] }");
    assert_eq!(of(&made, "c:"), "c: { kind: host, ipv4: \"10.44.0.3\", addresses: [\"10.44.0.4/32\"] }");
    assert_eq!(of(&made, "d:"), "d: { kind: host, ipv4: \"10.0.0.4\", mac: \"02:00:00:00:00:0d\" }");
    let r = "r: { kind: host, interfaces: { 0: { ipv4: \"10.0.9.1\" }, 1: { ipv4: \"172.16.0.254/24\" } } }";
    assert_eq!(of(&made, "r:"), r);
    assert!(notes.contains("the address that Mininet gives a host by itself") && notes.contains("(r)"), "{notes}");
}

/// Mininet sorts the hosts of a topology by their names, and counts addresses in that order.
#[test]
fn hosts_of_a_topology_are_numbered_by_their_names() {
    let class = "class T(Topo):\n    def build(self):\n        s = self.addSwitch('s')\n        for name in ('zed', 'h10', 'h2', 'alice'):\n            self.addLink(self.addHost(name), s)\n        for number, name in enumerate(self.hosts()):\n            self.addLink(name, self.addSwitch('t%d' % number))\n";
    let order = |made: &[String]| -> Vec<String> {
        made.iter().take_while(|line| *line != "links:").filter(|line| line.contains("host")).cloned().collect()
    };
    for text in [
        format!("{class}topos = {{ 't': T }}\n"),
        format!("{class}net = Mininet(topo=T())\nnet.addHost('a')\nnet.addLink('a', 's')\n"),
    ] {
        let (made, _) = imported(&text);
        let expected = ["alice: host", "h2: host", "h10: host", "zed: host", "a: host"];
        let hosts = order(&made);
        assert_eq!(hosts, expected[..hosts.len()]);
        // The topology's links are where they were, and `hosts()` is sorted, too.
        let links: Vec<&str> = made
            .iter()
            .filter_map(|line| line.split_once("between: [")?.1.split_once(']'))
            .map(|(ends, _)| ends)
            .collect();
        assert_eq!(links[..8], ["zed, s", "h10, s", "h2, s", "alice, s", "alice, t0", "h2, t1", "h10, t2", "zed, t3"]);
    }
    let (made, _) = imported(&format!(
        "{class}net = Mininet(topo=T(), ipBase='10.1.0.0/16', autoSetMacs=True)\nfor h in net.hosts:\n    print(h.name)\n"
    ));
    assert_eq!(of(&made, "h2:"), "h2: { kind: host, ipv4: \"10.1.0.2/16\", mac: \"00:00:00:00:00:02\" }");
    assert!(of(&made, "zed:").contains("10.1.0.4/16"), "{made:?}");
    // Nodes of a network without a topology are as they stand there.
    let (made, _) = imported(
        "net = Mininet()\ns = net.addSwitch('s')\nfor name in ('zed', 'alice'):\n    net.addLink(net.addHost(name), s)\n",
    );
    assert_eq!(order(&made), ["zed: host", "alice: host"]);
}
