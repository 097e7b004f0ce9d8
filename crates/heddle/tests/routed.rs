//! Subnets and the routers between them: which way packets take, and what is said of them at each switch.

use serde_json::Value;

use crate::live::{may_run, up};
use crate::program::Desk;
use crate::services::WITH_BALANCERS;

const ROUTED: &str = "\
name: lab
nodes:
  h1: { kind: host, ipv4: 10.0.1.1/24, routes: [default via 10.0.1.254] }
  h2: { kind: host, ipv4: 10.0.2.1/24, routes: [default via 10.0.2.254] }
  h3: { kind: host, ipv4: 10.0.2.3/24, routes: [default via 10.0.2.254] }
  r1:
    kind: host
    forward: true
    interfaces: { s1: { ipv4: 10.0.1.254/24 }, s2: { ipv4: 10.0.2.254/24, addresses: [192.168.7.1/24] } }
  s1: switch
  s2: switch
links:
  - { between: [h1, s1] }
  - { between: [r1, s1] }
  - { between: [r1, s2] }
  - { between: [h2, s2] }
  - { between: [h3, s2] }
services:
  web: { address: '10.0.2.80:80', servers: [h2], scheduler: rr }
";

fn desk(text: &str) -> Desk {
    let desk = Desk::new();
    desk.write("lab.fabric.yaml", text);
    desk
}

const ACROSS: &str = "\
h1 - s1 - r1
r1 routes it: it leaves r1.eth1 with TTL 63, to 02:00:0a:00:00:02 (h2)
r1.eth1 - s2 - h2
";

#[test]
fn a_path_leads_through_routers_to_hosts_and_services() {
    let desk = desk(ROUTED);
    let path = |status: i32, to: &str| desk.expect(status, &["path", "h1", to, "lab.fabric.yaml"]);
    let (said, note) = path(0, "h2");
    assert!(said.ends_with(ACROSS) && note.contains("Routes of hosts are those of the file"), "{said}{note}");
    assert!(said.contains("r1       r1.eth1  router: TTL 63, to 02:00:0a:00:00:02 (h2)"), "{said}");
    let (said, _) = path(0, "web");
    let to_service = "r1 routes it: it leaves r1.eth1 with TTL 63, to 06:68:76:61:00:01 (service web)\nr1.eth1 - s2 - h2\nh2 gets it, for web: ";
    assert!(said.contains(to_service), "{said}");
    // Whichever address of a router is asked for, it is there already.
    for own in ["r1", "10.0.2.254", "192.168.7.1"] {
        assert!(path(0, own).0.ends_with("\nh1 - s1 - r1\n"), "{own}");
    }
    let rows: Value = serde_json::from_str(&desk.expect(0, &["path", "h1", "h2", "lab.fabric.yaml", "-o", "json"]).0)
        .expect("it is JSON");
    let hops = rows["hops"].as_array().expect("rows");
    let states: Vec<&str> = hops.iter().filter_map(|row| row["state"].as_str()).collect();
    assert_eq!(states, ["up", "up", "routed", "up", "up"]);
    assert_eq!(
        (&hops[2]["kind"], &hops[2]["from"], &hops[2]["to"]),
        (&"router".into(), &"r1".into(), &"r1.eth1".into())
    );
    assert_eq!(
        (&hops[3]["hop"], &rows["end"]["state"], &rows["end"]["at"]),
        (&3.into(), &"delivered".into(), &"h2".into())
    );
    let (said, _) = desk.expect(1, &["path", "h1", "h2", "-6", "lab.fabric.yaml"]);
    assert!(said.ends_with("It is lost at h1: it has no route to fd68:6564:646c:2::2:1\n"), "{said}");
}

#[test]
fn a_router_that_is_none_ends_a_path() {
    for (from, to, expected) in [
        (
            "forward: true",
            "forward: false",
            "It is lost at r1: its kernel passes nothing on, as the file has no `forward: true` there\n",
        ),
        (
            "routes: [default via 10.0.1.254]",
            "routes: [default via 10.0.1.253]",
            "It is lost at h1: nobody has the address 10.0.1.253 of its next hop to 10.0.2.1\n",
        ),
        // Two that send it to each other.
        (
            "  s1: switch\n",
            "  r2: { kind: host, forward: true, ipv4: 10.0.2.9/24, addresses: [10.0.9.1/24], routes: [default via 10.0.2.254] }\n  s1: switch\n",
            "its hop limit is used up: routers send it in a circle\n",
        ),
    ] {
        let mut text = ROUTED.replace(from, to);
        let mut destination = "h2";
        if to.contains("r2:") {
            text = text.replace("links:\n", "links:\n  - { between: [r2, s2] }\n");
            text = text.replace("    forward: true\n", "    forward: true\n    routes: [10.8.0.0/16 via 10.0.2.9]\n");
            text = text.replace("  h3: {", "  h4: { kind: host, ipv4: 10.8.0.1/16 }\n  h3: {");
            text = text.replace("links:\n", "links:\n  - { between: [h4, s2] }\n");
            destination = "h4";
        }
        let desk = desk(&text);
        let (said, _) = desk.expect(1, &["path", "h1", destination, "lab.fabric.yaml"]);
        assert!(said.ends_with(expected), "{said}");
    }
}

/// Countries of a list decide in a path as they do of a packet.
#[test]
fn a_path_heeds_the_countries_of_a_service() {
    let countries = ROUTED.replace("scheduler: rr", "countries: { file: countries.csv, deny: [XX] }");
    let desk = desk(&countries);
    let refused = desk.expect(2, &["path", "h1", "web", "lab.fabric.yaml"]).1;
    assert!(refused.contains("countries of web: ") && refused.contains("No such file"), "{refused}");
    desk.write("countries.csv", "10.0.1.0/24,XX\n10.0.2.0/24,AU\n");
    let (said, _) = desk.expect(1, &["path", "h1", "web", "lab.fabric.yaml"]);
    assert!(said.contains("the firewall of `web` (`countries:`) does not let this client's country in\n"), "{said}");
    let (said, _) = desk.expect(0, &["path", "h3", "web", "lab.fabric.yaml"]);
    assert!(said.contains("h2 gets it, for web"), "{said}");
}

#[test]
fn a_running_networks_kernels_say_their_routes() {
    if !may_run() {
        return;
    }
    let guard = up(ROUTED);
    let desk = &guard.0;
    let (said, note) = desk.expect(0, &["path", "h1", "h2"]);
    assert!(said.ends_with(ACROSS) && !note.contains("Routes of hosts"), "{said}{note}");
    let (routes, _) = desk.expect(0, &["show", "routes", "-o", "csv"]);
    assert!(routes.contains("\nh1,default via 10.0.1.254,,\n"), "{routes}");
    // What a daemon does is what somebody does by hand: the file says nothing of it.
    desk.expect(0, &["exec", "h1", "ip", "route", "del", "default"]);
    let (said, _) = desk.expect(1, &["path", "h1", "h2"]);
    assert!(
        said.contains("It is lost at h1: its kernel has no route to 10.0.2.1 for it: network is unreachable"),
        "{said}"
    );
    desk.expect(0, &["exec", "h1", "ip", "route", "add", "10.0.0.0/16", "via", "10.0.1.254"]);
    assert!(desk.expect(0, &["path", "h1", "h2"]).0.ends_with(ACROSS));
    let trace = |switch: &str, packet: &str| desk.expect(0, &["trace", switch, packet]).0;
    let said = trace("s1", "tcp,nw_src=10.0.1.1,nw_dst=10.0.2.1,tp_dst=80");
    assert!(said.contains("Done: NORMAL, to r1 by port 1\n"), "{said}");
    let on_the_way = "Between subnets, this is the packet on its way from h1 to r1: dl_src=02:00:0a:00:00:01, dl_dst=02:00:0a:00:00:04, nw_ttl=64\n";
    assert!(said.contains(on_the_way), "{said}");
    let from_here = "From here:\ns1 - r1\nr1 routes it: it leaves r1.eth1 with TTL 63, to 02:00:0a:00:00:02 (h2)\nr1.eth1 - s2 - h2\nh2 gets it\n";
    assert!(said.ends_with(from_here), "{said}");
    let said = trace("s2", "tcp,nw_src=10.0.1.1,nw_dst=10.0.2.1,tp_dst=80");
    assert!(
        said.contains("from r1.eth1 to h2: dl_src=02:00:0b:00:00:04, dl_dst=02:00:0a:00:00:02, nw_ttl=63\n"),
        "{said}"
    );
    assert!(said.ends_with("From here:\ns2 - h2\nh2 gets it\n"), "{said}");
    // It has the route, and is told not to pass on what comes by this device.
    let forwarding = |on: &str| {
        let key = format!("net.ipv4.conf.eth0.forwarding={on}");
        desk.expect(0, &["exec", "r1", "sysctl", "-qw", &key, &format!("net.ipv6.conf.all.forwarding={on}")]);
    };
    desk.expect(0, &["exec", "h1", "ip", "-6", "route", "add", "default", "via", "fd68:6564:646c:1::1:fe"]);
    forwarding("0");
    let off = "It is lost at r1: its kernel passes nothing on: net.ipv4.conf.eth0.forwarding is 0 there";
    let said = desk.expect(1, &["path", "h1", "h2"]).0;
    assert!(said.contains(off), "{said}");
    let said = desk.expect(1, &["path", "-6", "h1", "h2"]).0;
    assert!(said.contains(&off.replace("ipv4.conf.eth0", "ipv6.conf.all")), "{said}");
    forwarding("1");
    desk.expect(0, &["exec", "h1", "ip", "route", "del", "10.0.0.0/16"]);
    let said = trace("s1", "tcp,nw_src=10.0.1.1,nw_dst=10.0.2.1");
    assert!(said.contains("It does not come here: h1: its kernel has no route to 10.0.2.1"), "{said}");
    // Flows see what the router has written.
    desk.expect(0, &["flow", "add", "s2", "ip,dl_src=02:00:0b:00:00:04,nw_ttl=63,actions=drop"]);
    let said = trace("s2", "tcp,nw_src=10.0.1.1,nw_dst=10.0.2.1,tp_dst=80");
    assert!(said.contains("Done: drop\n") && said.contains("It is lost at s2: a flow drops it"), "{said}");
    desk.expect(0, &["flow", "del", "s2"]);
    let said = trace("s1", "tcp,nw_dst=10.0.2.1");
    assert!(said.contains("It does not come here: routers are between here and h2: `nw_src=`"), "{said}");
}

/// `back.` is the direction from the node that is named second to the first, whichever the file names first.
#[test]
fn the_way_back_is_that_of_the_command() {
    if !may_run() {
        return;
    }
    let guard = up(
        "nodes: { h1: host, h2: host, s1: switch }\nlinks: [{ between: [h1, s1], delay: 1ms }, { between: [h2, s1] }]\n",
    );
    let desk = &guard.0;
    let set = |words: &[&str]| desk.expect(0, &[&["link", "set"], words].concat()).0;
    assert!(set(&["h1", "s1", "back.delay=5ms"]).starts_with("h1-s1 is up: delay=1ms h1 -> s1; delay=5ms s1 -> h1;"));
    assert!(set(&["s1", "h1", "back.delay=7ms"]).starts_with("h1-s1 is up: delay=7ms h1 -> s1; delay=5ms s1 -> h1;"));
    assert!(set(&["s1-h1", "delay=9ms"]).starts_with("h1-s1 is up: delay=7ms h1 -> s1; delay=9ms s1 -> h1;"));
    // A port's link begins at its switch.
    let port = desk.expect(0, &["port", "set", "s1", "h1", "back.delay=2ms"]);
    assert!(
        desk.expect(0, &["link", "show", "h1", "s1"])
            .0
            .starts_with("h1-s1 is up: delay=2ms h1 -> s1; delay=9ms s1 -> h1;"),
        "{port:?}"
    );
    assert!(set(&["s1", "h1", "back.delay=none"]).starts_with("h1-s1 is up: delay=9ms both ways;"));
    // A key may be there in one direction alone, whichever end is named first.
    assert!(set(&["s1", "h1", "delay=1ms", "back.rate=1Mbit"]).contains("rate=1Mbit"));
    let shown = set(&["s1", "h1"]);
    assert!(shown.contains("rate=1Mbit h1 -> s1; rate=off s1 -> h1"), "{shown}");
    assert!(set(&["h1", "s1", "rate=none"]).starts_with("h1-s1 is up: delay="));
}

#[test]
fn a_path_leads_to_the_balancer_that_is_active() {
    if !may_run() {
        return;
    }
    let guard = up(WITH_BALANCERS);
    let desk = &guard.0;
    let await_active = |balancer: &str| {
        crate::chains::await_that("the balancer", || {
            let services: Value =
                serde_json::from_str(&desk.expect(0, &["show", "services", "-o", "json"]).0).expect("JSON");
            services["balancers"]
                .as_array()
                .expect("rows")
                .iter()
                .any(|row| (row["balancer"].as_str(), row["state"].as_str()) == (Some(balancer), Some("active")))
        });
    };
    await_active("lb1");
    let path = || desk.expect(0, &["path", "h1", "web"]).0;
    assert!(path().contains("h1 - s1 - lb1\nlb1 - s1 - h2\n"), "{}", path());
    desk.expect(0, &["link", "down", "lb1", "s1"]);
    await_active("lb2");
    assert!(path().contains("h1 - s1 - lb2\nlb2 - s1 - h2\n"), "{}", path());
}
