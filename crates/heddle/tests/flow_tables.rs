//! `heddle flow`, `group` and `trace`, and flows of a file.

use serde_json::Value;

use crate::live::{may_run, up};

const LAB: &str = "\
topology: { leaf-spine: { leaves: 2, spines: 2, hosts-per-leaf: 2 } }
flows:
  leaf1:
    - priority=10,tcp,tp_dst=80,actions=drop
";

#[test]
fn flows_are_added_shown_traced_and_removed() {
    if !may_run() {
        return;
    }
    let guard = up(LAB);
    let desk = &guard.0;
    let said = |args: &[&str]| desk.expect(0, args).0;
    let shown = said(&["show", "flows"]);
    let rules: Vec<&str> =
        shown.lines().map(|line| line.rsplit_once("n_bytes=0, ").map_or(line, |(_, rule)| rule)).collect();
    assert_eq!(rules, ["leaf1:", "priority=10,tcp,tp_dst=80 actions=drop", "priority=0 actions=NORMAL"], "{shown}");
    assert_eq!(said(&["flow", "add", "leaf2", "udp,actions=drop", "table=1,actions=normal"]), "leaf2: 2 flows added\n");
    let rows: Value = serde_json::from_str(&said(&["flow", "show", "leaf2", "udp", "-o", "json"])).expect("it is JSON");
    assert_eq!((&rows[0]["match"], &rows[0]["actions"]), (&"udp".into(), &"drop".into()), "{rows}");
    assert_eq!(rows.as_array().map(Vec::len), Some(1));
    assert_eq!(said(&["flow", "mod", "leaf2", "udp,actions=output:spine1,goto_table:1"]), "leaf2: 1 flow changed\n");
    let traced = said(&["trace", "leaf2", "in_port=h3,udp,nw_dst=10.0.0.1"]);
    let lines: Vec<&str> = traced.lines().map(str::trim).collect();
    assert_eq!(lines.len(), 9, "{traced}");
    assert!(lines[1].ends_with("udp actions=output:2,goto_table:1"), "{traced}");
    assert_eq!(lines[3], "If it came here: output:2,NORMAL", "where it leads depends on what became of the packet");
    assert_eq!(lines[5], "The tables look at udp,in_port=0, and NORMAL at", "{traced}");
    assert!(lines[6].starts_with("- which host has their destination MAC address"), "{traced}");
    assert!(lines[8].starts_with("It does not come here: nobody has the address 10.0.0.1"), "{traced}");
    let traced = said(&["trace", "leaf2", "tcp,nw_dst=10.0.1.1"]);
    assert!(traced.contains("Done: NORMAL, to h1 by one of the ports 2 (to spine1), 3 (to spine2)\n"), "{traced}");
    let traced: Value =
        serde_json::from_str(&said(&["trace", "leaf1", "tcp,nw_dst=10.0.1.1", "-o", "json"])).expect("it is JSON");
    let entry = serde_json::json!([{ "table": 0, "flow": "priority=0 actions=NORMAL" }]);
    assert_eq!(traced["entries"], entry, "{traced}");
    let normal = serde_json::json!({ "to": "h1", "ports": [{ "port": 0, "node": "h1" }] });
    assert_eq!(traced["normal"], normal, "{traced}");
    let rows = said(&["trace", "leaf1", "tcp,nw_dst=10.0.1.1", "-o", "csv"]);
    assert!(rows.contains("\n1,0,priority=0 actions=NORMAL,NORMAL,"), "{rows}");
    assert!(rows.ends_with(",to h1 by port 0\n"), "{rows}");
    let group = "group_id=3,type=select,bucket=output:spine1,bucket=output:spine2";
    assert_eq!(said(&["group", "add", "leaf2", group]), "leaf2: 1 group added\n");
    assert!(said(&["group", "show", "leaf2"]).contains("group_id=3,type=select,bucket=weight:1,actions=output:2"));
    said(&["group", "add", "leaf2", "group_id=4,type=indirect,bucket=output:spine1"]);
    for (what, line) in [("show", "group_id=4,type=indirect,"), ("stats", "group_id=4,duration=")] {
        for number in ["4", "group_id=4"] {
            let shown = said(&["group", what, "leaf2", number]);
            assert!(shown.lines().count() == 2 && shown.contains(line), "{shown}");
        }
        let missing = desk.expect(2, &["group", what, "leaf2", "7"]).1;
        assert!(missing.contains("leaf2 has no group 7") && missing.contains("heddle group show leaf2"), "{missing}");
    }
    assert_eq!(said(&["group", "show", "leaf2", "3", "-o", "csv"]).lines().count(), 2);
    // One may name another of a higher number, for whoever follows packets, too.
    said(&["group", "add", "leaf2", "group_id=1,type=indirect,bucket=group:4"]);
    said(&["flow", "add", "leaf2", "priority=40000,in_port=h4,udp,actions=group:1"]);
    assert!(said(&["trace", "leaf2", "in_port=h4,udp,nw_dst=h1"]).contains("Done: output:2\n"));
    assert!(said(&["path", "h4", "h1", "--protocol", "udp"]).contains("Flows of leaf2 do: output:2\n"));
    said(&["flow", "del", "leaf2", "out_group=1"]);
    said(&["group", "del", "leaf2", "1"]);
    assert_eq!(said(&["group", "del", "leaf2"]), "leaf2: 2 groups removed\n");
    assert_eq!(said(&["flow", "del", "leaf2", "udp"]), "leaf2: 1 flow removed\n");
    desk.write("flows.txt", "# some of a script's\n\ntcp,tp_dst=1,actions=drop\ntcp,tp_dst=2,actions=drop\n");
    let mut command = desk.command(&["flow", "add", "leaf2", "-"]);
    command.stdin(std::fs::File::open(desk.path().join("flows.txt")).expect("it was written"));
    let output = command.output().expect("it can be started");
    assert_eq!(String::from_utf8_lossy(&output.stdout), "leaf2: 2 flows added\n", "{output:?}");
    desk.write(
        "bundle.txt",
        "add tcp,tp_dst=3,actions=drop\nmodify tcp,tp_dst=2,actions=normal\ndelete tcp,tp_dst=3\n",
    );
    assert_eq!(said(&["flow", "add", "leaf2", "./bundle.txt"]), "leaf2: 3 flows changed\n");
    assert!(said(&["flow", "show", "leaf2", "tcp"]).ends_with("tcp,tp_dst=2 actions=NORMAL\n"));
    // What was shown can be added, and files as well.
    desk.write("dump.txt", &said(&["flow", "show", "leaf2"]));
    assert_eq!(desk.expect(0, &["flow", "del", "leaf1", "tcp"]).1, "");
    let (_, warned) = desk.expect(0, &["flow", "del", "leaf1"]);
    let how = "(hint: heddle flow add leaf1 priority=0,actions=NORMAL)";
    assert!(
        warned.starts_with("note: leaf1 forwards nothing by its routes any more") && warned.contains(how),
        "{warned}"
    );
    assert_eq!(desk.expect(0, &["flow", "del", "leaf1"]).1, "", "it is said once");
    assert_eq!(said(&["flow", "add", "leaf1", "./dump.txt"]), "leaf1: 4 flows added\n");
    let rules = |switch: &str| {
        let shown = said(&["flow", "show", switch]);
        let rule = |line: &str| Some(line.split_once("n_bytes=")?.1.split_once(", ")?.1.to_owned());
        shown.lines().skip(1).filter_map(rule).collect::<std::collections::BTreeSet<_>>()
    };
    assert_eq!(rules("leaf1"), rules("leaf2"));
    assert_eq!(rules("leaf1").len(), 4);
    desk.write("all.txt", &said(&["show", "flows"]));
    let refused = desk.expect(2, &["flow", "add", "leaf1", "all.txt"]).1;
    assert!(refused.contains("all.txt has flows of 2 switches"), "{refused}");
    said(&["flow", "add", "leaf1", "priority=7,udp,actions=output:spine2"]);
    let shown = said(&["flow", "show", "leaf1", "out_port=spine2"]);
    assert!(shown.lines().count() == 2 && shown.contains("priority=7,udp"), "{shown}");
    assert_eq!(said(&["flow", "del", "leaf1", "out_port=spine2"]), "leaf1: 1 flow removed\n");
    assert!(said(&["show", "routes", "-o", "csv"]).starts_with("node,to,ports,packets\nleaf1,h1,"));
}

/// What hosts ask about each other is answered where they ask, whatever flows say: to a trace, and to real packets.
#[test]
fn questions_about_neighbours_come_to_no_table() {
    if !may_run() {
        return;
    }
    let guard = up(LAB);
    let desk = &guard.0;
    let said = |args: &[&str]| desk.expect(0, args).0;
    said(&["flow", "add", "leaf1", "priority=0,actions=drop"]);
    let arp = "in_port=h1,arp,arp_op=1,arp_spa=10.0.1.1,arp_tpa=10.0.2.1";
    let solicitation = "in_port=h1,icmp6,icmp_type=135,nd_target=h3";
    let mut addresses = Vec::new();
    for (packet, answer) in [(arp, "an ARP reply"), (solicitation, "a neighbour advertisement")] {
        // It is the same where only who asks is known, and at switches to which it does not come.
        let elsewhere = packet.replace("in_port=h1,", "") + ",dl_src=h1";
        for (switch, packet) in [("leaf1", packet), ("spine1", &elsewhere)] {
            let traced = said(&["trace", switch, packet]);
            assert!(traced.contains("none: it is answered at the port of h1\nDone: answered\n"), "{traced}");
            let stead = "is the address of h3, in whose stead Heddle answers before the tables:";
            assert!(traced.contains(&format!("{stead} {answer} (02:00:0a:00:02:01) to h1\n")), "{traced}");
        }
        let traced: Value = serde_json::from_str(&said(&["trace", "leaf1", packet, "-o", "json"])).expect("it is JSON");
        assert_eq!((&traced["answered"]["host"], &traced["answered"]["at"]), (&"h3".into(), &"h1".into()), "{traced}");
        assert_eq!((&traced["entries"], &traced["actions"]), (&serde_json::json!([]), &"answered".into()), "{traced}");
        addresses.push(traced["answered"]["address"].as_str().expect("an address").to_owned());
    }
    let (traced, note) = desk.expect(0, &["trace", "leaf1", &arp.replace("arp_op=1,", "")]);
    assert!(traced.contains("Done: answered\n") && note.contains("No arp_op is named: arp_op=1"), "{traced}{note}");
    let asked = |target: &str| said(&["trace", "leaf1", &arp.replace("10.0.2.1", target)]);
    let own = asked("10.0.1.1");
    assert!(
        own.contains("It does not come here: it goes no further than the port of h1: the asker owns the address"),
        "{own}"
    );
    assert!(asked("10.0.9.9").contains("Done: drop\n"), "nobody has that address");
    let away = said(&["trace", "leaf1", "in_port=h1,icmp6,icmp_type=135,nd_target=fd00::99"]);
    assert!(away.contains("Done: drop\n"), "{away}");
    // Both pings are lost, and both neighbours found.
    for address in &addresses {
        desk.expect(1, &["exec", "h1", "--", "ping", "-c", "1", "-W", "1", address]);
        let known = said(&["exec", "h1", "--", "ip", "neigh", "show", address]);
        assert!(known.contains("lladdr 02:00:0a:00:02:01"), "{known}");
    }
}

/// A packet whose port is not named comes by the one of who sends it, and by the first one, which is said, if nobody knows him.
#[test]
fn a_trace_without_a_port_takes_that_of_the_sender() {
    if !may_run() {
        return;
    }
    let guard = up(LAB);
    let desk = &guard.0;
    let trace = |packet: &str| desk.expect(0, &["trace", "leaf1", packet]);
    desk.expect(0, &["flow", "add", "leaf1", "in_port=h1,actions=drop", "in_port=h2,udp,actions=output:spine1"]);
    let (traced, note) = trace("tcp,nw_src=h3,nw_dst=h2,tp_dst=90");
    assert!(traced.contains("Done: NORMAL, to h2 by port 1\n"), "{traced}");
    assert_eq!(note, "No port is named: in_port=2 (spine1), one of those by which packets of h3 come.\n");
    for packet in ["udp,nw_src=h2,nw_dst=h3", "udp,dl_src=h2,nw_dst=h3"] {
        let (traced, note) = trace(packet);
        assert!(traced.contains("Done: output:2\n") && note.is_empty(), "{traced}{note}");
    }
    let (traced, note) = trace("udp,nw_dst=h3");
    assert!(traced.contains("Done: drop\n"), "{traced}");
    assert_eq!(note, "No port is named: in_port=0 (h1).\n");
}

/// Hosts stand for their addresses, and ports have names where somebody asks for them, as on a terminal.
#[test]
fn flows_name_hosts_and_ports() {
    if !may_run() {
        return;
    }
    let guard = up(LAB);
    let desk = &guard.0;
    let said = |args: &[&str]| desk.expect(0, args).0;
    said(&["flow", "add", "leaf1", "priority=9,ip,in_port=h1,nw_src=h1,nw_dst=h3 actions=output:spine2"]);
    let shown = said(&["flow", "show", "leaf1", "ip,in_port=h1"]);
    assert!(shown.ends_with("ip,in_port=0,nw_src=10.0.1.1,nw_dst=10.0.2.1 actions=output:3\n"), "{shown}");
    let named = said(&["flow", "show", "leaf1", "ip,in_port=h1", "--names"]);
    assert!(named.ends_with("ip,in_port=h1,nw_src=10.0.1.1,nw_dst=10.0.2.1 actions=output:spine2\n"), "{named}");
    // What is shown by names is a flow as well.
    desk.write("flows.txt", &said(&["flow", "show", "leaf1", "--names"]));
    said(&["flow", "add", "leaf1", "flows.txt"]);
    assert_eq!(said(&["flow", "show", "leaf1", "ip,in_port=h1"]).lines().count(), 2);
    let refused = |args: &[&str]| desk.expect(2, args).1;
    let unknown = refused(&["flow", "add", "leaf1", "ip,nw_src=h9,actions=drop"]);
    assert!(unknown.contains("no host or service `h9`") && unknown.contains("`h1`"), "{unknown}");
    let of_file = {
        desk.write("flows.txt", "ip,nw_src=h2,actions=drop\nip,nw_src=h9,actions=drop\n");
        refused(&["flow", "add", "leaf1", "flows.txt"])
    };
    assert!(of_file.contains("flows.txt:2:"), "{of_file}");
    // As ovs-ofctl: a group has a type.
    let group = refused(&["group", "add", "leaf1", "group_id=1,bucket=output:spine1"]);
    assert!(group.contains("the group has no type") && group.contains("`type=select`"), "{group}");
    said(&["meter", "add", "leaf1", "meter=1,pktps,band=type=drop,rate=500"]);
    assert_eq!(said(&["meter", "stats", "leaf1"]).lines().nth(1), said(&["meter", "show", "leaf1"]).lines().nth(1));
}

#[test]
fn connections_are_shown_and_explained() {
    if !may_run() {
        return;
    }
    let guard = up(LAB);
    let desk = &guard.0;
    let said = |args: &[&str]| desk.expect(0, args).0;
    assert_eq!(said(&["show", "connections"]), "");
    said(&["flow", "add", "leaf1", "icmp,actions=ct(commit,zone=4,table=1)", "table=1,actions=normal"]);
    said(&["ping", "h1", "h2"]);
    let shown = said(&["show", "connections", "leaf1"]);
    let lines: Vec<&str> = shown.lines().collect();
    assert_eq!(lines.len(), 2, "{shown}");
    assert!(lines[1].starts_with(" icmp,orig=(src=10.0.1.1,dst=10.0.1.2,id="), "{shown}");
    assert!(lines[1].ends_with(",type=0,code=0),zone=4"), "{shown}");
    // As other topics, by the network's name; and by it, of one switch.
    for args in [&["lab"][..], &["--name", "lab"], &["lab", "--switch", "leaf1"], &["--switch", "leaf1"]] {
        let all = said(&[&["show", "connections"], args].concat());
        assert!(all.starts_with("leaf1:\n icmp,orig=(src=10.0.1.1,"), "{args:?}: {all}");
    }
    assert!(desk.expect(2, &["show", "connections", "lab", "--switch", "spine1"]).1.contains("spine1 has no tables"));
    assert!(desk.expect(2, &["show", "connections", "leaf9"]).1.contains("leaf9"));
    assert!(desk.expect(2, &["show", "links", "--switch", "leaf1"]).1.contains("`--switch` is for `flows`"));
    assert_eq!(said(&["show", "flows", "--switch", "leaf1"]).lines().next(), Some("leaf1:"));
    let json: Value = serde_json::from_str(&said(&["show", "connections", "-o", "json"])).expect("it is JSON");
    assert_eq!(json[0]["counters"]["committed"], 1, "{json}");
    // Of another zone there is none.
    assert_eq!(said(&["flush", "connections", "leaf1", "--zone", "5"]), "leaf1: 0 connections forgotten\n");
    assert_eq!(said(&["flush", "connections", "--zone", "4"]), "all switches: 1 connection forgotten\n");
    assert!(!said(&["show", "connections", "leaf1"]).contains("icmp"));
    assert!(desk.expect(2, &["flush", "macs", "--zone", "4"]).1.contains("addresses have no zone"));
    let traced = said(&["trace", "leaf1", "icmp,in_port=h1,nw_src=10.0.1.1,nw_dst=10.0.1.2,icmp_type=8"]);
    assert!(traced.contains("ct_state=+new+trk,ct_zone=4"), "{traced}");
    // Whoever names a port sends from the host there.
    let (same, note) = desk.expect(0, &["trace", "leaf1", "icmp,in_port=h1,nw_dst=10.0.1.2,icmp_type=8"]);
    assert!(note.contains("nw_src=10.0.1.1 is that of h1"), "{note}");
    assert_eq!(same, traced);
    let caches: Value = serde_json::from_str(&said(&["show", "caches", "-o", "json"])).expect("it is JSON");
    assert_eq!((&caches[0]["switch"], caches[0]["misses"].as_u64() > Some(1)), (&"leaf1".into(), true), "{caches}");
    assert!(said(&["show", "caches", "--switch", "leaf1"]).contains("leaf1"));
    let refused = desk.expect(2, &["show", "connections", "spine1"]).1;
    assert!(refused.contains("spine1 has no tables of flows"), "{refused}");
}

#[test]
fn a_wrong_flow_is_refused_where_it_is_wrong() {
    if !may_run() {
        return;
    }
    let guard = up(LAB);
    let desk = &guard.0;
    let refused = |args: &[&str]| desk.expect(2, args).1;
    let said = refused(&["flow", "add", "leaf1", "tcp,actions=drop", "tcp,tp_dts=80,actions=drop"]);
    assert!(said.contains("`tp_dts` is no field of packets") && said.contains("did you mean `tp_dst`?"), "{said}");
    assert_eq!(desk.expect(0, &["flow", "show", "leaf1", "-o", "csv"]).0.lines().count(), 3, "none was added");
    desk.write("flows.txt", "# some\n\ntcp,actions=drop\ntcp,actions=drops\n");
    for (command, place) in [("flow", "[standard input:4:13]"), ("group", "[standard input:3:1]")] {
        let mut command = desk.command(&[command, "add", "leaf1", "-"]);
        command.stdin(std::fs::File::open(desk.path().join("flows.txt")).expect("it was written"));
        let output = command.output().expect("it can be started");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.code() == Some(2) && said.contains(place), "{said}");
    }
    let said = refused(&["flow", "add", "leaf1", "tcp,actions=group:9"]);
    assert!(said.contains("the switch has no group 9") && said.contains("heddle group add leaf1"), "{said}");
    let said = refused(&["flow", "add", "leaf3", "tcp,actions=drop"]);
    assert!(said.contains("there is no switch `leaf3`") && said.contains("did you mean `leaf1`?"), "{said}");
    let said = refused(&["trace", "leaf1", "tcp,priority=1"]);
    assert!(said.contains("a packet has no `priority`") && !said.contains("--strict"), "{said}");
    let said = refused(&["flow", "add", "leaf1", "ip,actions = drop"]);
    assert!(said.contains("`actions` needs a `=`") && said.contains("`actions=drop`"), "{said}");
    // A switch without tables does what it does, too.
    let traced = desk.expect(0, &["trace", "spine1", "in_port=leaf1,tcp,nw_src=10.0.1.1,nw_dst=10.0.2.1"]).0;
    assert!(traced.contains("the switch has no tables of flows: NORMAL"), "{traced}");
    assert!(traced.contains("Done: NORMAL, to h3 by port 1 (to leaf2)\n"), "{traced}");
    assert!(traced.contains("From here:\nspine1 - leaf2 - h3\nh3 gets it\n"), "{traced}");
    // A trace that ends at another switch's flow sends nobody to itself.
    let packet = "in_port=leaf2,tcp,nw_src=10.0.2.1,nw_dst=10.0.1.1,tp_dst=80";
    let traced = desk.expect(0, &["trace", "spine1", packet]).0;
    assert!(traced.contains("a flow drops it, or none is for it") && !traced.contains("heddle trace"), "{traced}");
}

/// What somebody has changed meanwhile, `up` makes what the file says, as with links.
#[test]
fn up_brings_back_the_flows_of_the_file() {
    if !may_run() {
        return;
    }
    let guard = up(LAB);
    let desk = &guard.0;
    let said = |args: &[&str]| desk.expect(0, args).0;
    let of_the_file = said(&["flow", "show", "leaf1", "-o", "json"]).matches("\"match\"").count();
    said(&["flow", "del", "leaf1"]);
    said(&["flow", "add", "leaf1", "udp,actions=drop"]);
    said(&["flow", "add", "leaf2", "udp,actions=drop"]);
    let done = said(&["up", "lab.fabric.yaml"]);
    assert!(done.contains("changed leaf2, leaf1, 14 kept"), "{done}");
    assert_eq!(said(&["flow", "show", "leaf1", "-o", "json"]).matches("\"match\"").count(), of_the_file);
    assert!(said(&["flow", "show", "leaf1", "tcp"]).contains("tp_dst=80"));
    assert!(!said(&["show", "flows"]).contains("leaf2"), "the file gives it none");
    assert!(said(&["up", "lab.fabric.yaml"]).contains("nothing to change"));
    desk.write("lab.fabric.yaml", &LAB.replace("tp_dst=80", "tp_dst=81"));
    let done = said(&["up", "lab.fabric.yaml"]);
    assert!(done.contains("changed leaf1, "), "other flows are no nothing: {done}");
}

/// A frame for an address that no host has meets the flows; what they drop is counted.
#[test]
fn frames_for_unknown_addresses_come_to_the_tables() {
    if !may_run() {
        return;
    }
    let guard = up(LAB);
    let desk = &guard.0;
    let said = |args: &[&str]| desk.expect(0, args).0;
    said(&["flow", "add", "leaf1", "priority=9,dl_dst=02:00:00:00:00:98,actions=drop"]);
    said(&["exec", "h1", "--", "ip", "neigh", "replace", "10.0.9.8", "lladdr", "02:00:00:00:00:98", "dev", "eth0"]);
    desk.expect(1, &["exec", "h1", "--", "ping", "-c", "2", "-i", "0.2", "-W", "1", "10.0.9.8"]);
    assert!(said(&["flow", "show", "leaf1", "dl_dst=02:00:00:00:00:98"]).contains("n_packets=2, "));
    let counters: Value = serde_json::from_str(&said(&["show", "counters", "-o", "json"])).expect("it is JSON");
    let drops = |reason: &str| {
        let rows = counters.as_array().expect("rows").iter().filter(|row| row["to"] == reason);
        rows.filter_map(|row| row["drops"].as_u64()).sum::<u64>()
    };
    assert_eq!((drops("dropped by a flow"), drops("unknown destination")), (2, 0), "{counters}");
}

#[test]
fn more_flows_than_a_network_takes_at_once_are_refused() {
    if !may_run() {
        return;
    }
    let guard = up(LAB);
    let desk = &guard.0;
    let line = "udp,tp_src=7,actions=drop\n";
    for (bytes, is_taken) in [(5 << 20, true), ((5 << 20) + 1, false)] {
        // The same flow again and again, and a comment that fills it up.
        let mut text = format!("{}#", line.repeat(1_000));
        text.push_str(&"x".repeat(bytes - text.len()));
        desk.write("flows.txt", &text);
        let mut command = desk.command(&["flow", "add", "leaf1", "-"]);
        command.stdin(std::fs::File::open(desk.path().join("flows.txt")).expect("it was written"));
        let output = command.output().expect("it can be started");
        assert_eq!(output.status.success(), is_taken, "{output:?}");
        let said = String::from_utf8_lossy(if is_taken { &output.stdout } else { &output.stderr });
        let expected = if is_taken { "leaf1: 1000 flows added" } else { "standard input has more than 5242880 bytes" };
        assert!(said.contains(expected), "{said}");
    }
}

#[test]
fn meters_are_added_named_by_flows_and_shown() {
    if !may_run() {
        return;
    }
    let guard = up(&format!("{LAB}meters: {{ leaf1: ['meter=9,kbps,band=type=drop,rate=64'] }}\n"));
    let desk = &guard.0;
    let said = |args: &[&str]| desk.expect(0, args).0;
    let shown = said(&["show", "meters"]);
    let lines: Vec<&str> = shown.lines().collect();
    assert_eq!(lines[..2], ["leaf1:", " meter=9 kbps bands=type=drop rate=64"], "{shown}");
    assert!(lines[2].starts_with("  meter:9 flow_count:0 packet_in_count:0 byte_in_count:0 duration:"), "{shown}");
    assert_eq!(
        said(&["meter", "add", "leaf2", "meter=1,pktps,burst,band=type=drop,rate=1,burst_size=2"]),
        "leaf2: 1 meter added\n"
    );
    assert_eq!(said(&["flow", "add", "leaf2", "icmp,in_port=h3,actions=meter:1,normal"]), "leaf2: 1 flow added\n");
    // Two of them pass at once.
    desk.heddle(&["exec", "h3", "ping", "-4", "-c", "5", "-i", "0.01", "-W", "1", "h4"]);
    let rows: Value = serde_json::from_str(&said(&["meter", "show", "leaf2", "-o", "json"])).expect("it is JSON");
    assert_eq!((&rows[0]["meter"], &rows[0]["flows"]), (&1.into(), &1.into()), "{rows}");
    let count = |column: &str| rows[0][column].as_u64().expect("a count");
    assert!(count("packets") >= 5 && (1..=3).contains(&count("exceeding-packets")), "{rows}");
    let traced = said(&["trace", "leaf2", "icmp,in_port=h3"]);
    assert!(traced.contains("meter:1, which lets pass"), "{traced}");
    let (_, refused) = desk.expect(2, &["flow", "add", "leaf2", "udp,actions=meter:7,normal"]);
    assert!(refused.contains("the switch has no meter 7") && refused.contains("heddle meter add"), "{refused}");
    let (_, refused) = desk.expect(2, &["meter", "add", "leaf2", "meter=2,kbps,band=type=drop,rate=0"]);
    assert!(refused.contains("a rate of 0 lets nothing pass") && refused.contains(":1:34"), "{refused}");
    assert_eq!(said(&["meter", "mod", "leaf2", "meter=1,kbps,band=type=drop,rate=8000"]), "leaf2: 1 meter changed\n");
    said(&["meter", "add", "leaf2", "meter=5,pktps,band=type=drop,rate=9"]);
    let shown = said(&["meter", "show", "leaf2", "5"]);
    assert!(shown.contains("meter=5 ") && !shown.contains("meter=1 "), "{shown}");
    assert!(desk.expect(2, &["meter", "show", "leaf2", "6"]).1.contains("leaf2 has no meter 6"));
    // The flow goes with its meter.
    assert_eq!(said(&["meter", "del", "leaf2", "1"]), "leaf2: 1 meter removed\n");
    assert!(!said(&["flow", "show", "leaf2"]).contains("icmp"));
}
