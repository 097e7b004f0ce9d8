//! Service chains in a file.

use fabric::Fabric;
use machine::Span;
use vswitch::chain::FunctionKind;
use vswitch::functions::{BuiltIn, Course, RateLimit};

use crate::network;

const NETWORK: &str = "\
name: net
nodes: { h1: host, h2: host, h3: host, s1: switch, s2: switch }
links:
  - between: [h1, s1]
  - between: [h2, s2]
  - between: [h3, s2]
  - between: [s1, s2]
";

fn read(more: &str) -> Result<Fabric, fabric::Error> {
    network::read(NETWORK, more)
}

fn problems(more: &str) -> Vec<String> {
    network::problems(NETWORK, more)
}

#[test]
fn functions_are_pairs_of_ports_behind_the_hosts() {
    let fabric = read(
        "\
functions:
  fw: { at: s1, simulated: { delay: 5us } }
  nat: { at: [s1, s2], instances: 2, timeout: 50ms, links: { rate: 1Gbit } }
  ids: { at: s2, devices: ['null:', 'null:'] }
chains:
  web: { from: h1, to: [h3, h2], match: 'tcp,tp_dst=80', functions: [nat, fw], on-failure: bypass }
  rest: { from: all, to: h3, functions: ids, both-directions: false }
",
    )
    .expect("it is a file");
    let topology = &fabric.topology;
    let names: Vec<&str> = topology.nodes.iter().map(|node| node.name.as_str()).collect();
    let functions = ["fw", "fw.out", "nat-1", "nat-1.out", "nat-2", "nat-2.out", "ids", "ids.out"];
    assert_eq!(names, [&["h1", "h2", "h3"], &functions[..], &["s1", "s2"]].concat());
    assert_eq!((topology.hosts, topology.end_host_count()), (11, 3));
    let links: Vec<String> = topology.links.keys().map(|link| topology.link_name(link)).collect();
    assert_eq!(links[..6], ["h1-s1", "h2-s2", "h3-s2", "s1-s2", "fw-s1", "fw.out-s1"]);
    assert_eq!(links[7], "nat-1.out-s2");
    let [web, rest] = &fabric.chains.chains[..] else { panic!("two chains") };
    assert_eq!((&web.functions, &rest.functions), (&vec![1, 0], &vec![2]));
    assert_eq!((web.to.len(), rest.from.len(), rest.is_both_ways), (2, 3, false));
    assert!(
        matches!(fabric.chains.functions[1].kind, FunctionKind::External { timeout, .. } if timeout == Span::from_ms(50))
    );
    assert_eq!(fabric.simulated_functions[0].delay, Span::from_us(5));
    // Who is not behind devices and names no program passes frames on.
    assert_eq!(fabric.setups.keys().collect::<Vec<_>>(), ["fw", "nat-1", "nat-2"]);
    let json = serde_json::to_value(&fabric).expect("it is data");
    assert_eq!(json["chains"][0]["match"], "tcp,tp_dst=80");
    assert_eq!(json["functions"][1]["instances"][1][1], "nat-2.out");
}

#[test]
fn a_wrong_chain_is_refused_where_it_is_wrong() {
    let chain = |chain: &str| {
        let functions = "functions:\n  fw: { at: s1 }\n  ids: { at: s1 }\n";
        problems(&format!("{functions}chains:\n  web: {{ from: h1, to: h2, {chain} }}\n"))
    };
    assert_eq!(chain("functions: [fv]"), ["12:40 there is no function `fv` (did you mean `fw`?)"]);
    let [message] = &chain("functions: [fw, ids, fw]")[..] else { panic!("one problem") };
    assert!(message.contains("would come to `fw` twice"), "{message}");
    let [message] = &chain("functions: [fw], match: 'tcp,tp_dst=http'")[..] else { panic!("one problem") };
    assert!(message.starts_with("12:64 `http`"), "{message}");
    let [message] = &chain("functions: [fw], match: 'table=1,tcp'")[..] else { panic!("one problem") };
    assert!(message.contains("no table, cookie or priority"), "{message}");
    let [message] = &chain("functions: [fw], on-failure: pass")[..] else { panic!("one problem") };
    assert!(message.contains("`pass` is not what becomes of packets"), "{message}");
    let [message] = &chain("functions: [fw] }\n  two: { from: h2, to: h3, functions: [ids, fw]")[..] else {
        panic!("one problem")
    };
    assert!(message.contains("`fw` is a function of the chain `web`"), "{message}");
    for (ends, what) in [
        ("from: s1, to: h2", "`s1` is a switch"),
        ("from: h1, to: fw", "`fw` is a function"),
        ("from: h1, to: h9", "`h9` is not a host"),
        ("from: h1, to: h1", "`h1` would talk to itself"),
    ] {
        let found =
            problems(&format!("functions: {{ fw: {{ at: s1 }} }}\nchains: {{ web: {{ {ends}, functions: fw }} }}\n"));
        assert!(found.len() == 1 && found[0].contains(what), "{found:?}");
    }
}

#[test]
fn a_wrong_function_is_refused_where_it_is_wrong() {
    for (function, what) in [
        ("at: s3", "there is no switch `s3`"),
        ("at: h1", "there is no switch `h1`"),
        ("at: [s1, s2, s1]", "these are 3 switches"),
        ("at: s1, devices: ['null:']", "2 devices, of which 1 are given"),
        ("at: s1, instances: 2, devices: ['null:', 'null:']", "4 devices, of which 2 are given"),
        ("at: s1, devices: [tap1, tap1]", "`tap1` is given twice"),
        ("at: s1, simulated: { delay: 30ms }", "looks down"),
        ("at: s1, simulated: { queue: 10 }", "rate"),
        ("at: s1, instances: 17", "17"),
        ("at: s1, image: fw.tar, devices: ['null:', 'null:']", "is not made, and has no `image`"),
        ("at: s1, bundle: fw, devices: ['null:', 'null:']", "is not made, and has no `bundle`"),
        ("at: s1, bundle: fw, image: fw.tar", "a bundle has a root file system of its own"),
        ("at: s1, bundle: fw, programs: { a: b }", "a bundle says itself what runs in its container"),
        ("at: s1, bundle: fw, files: { /etc/a: b }", "a bundle says itself what runs in its container"),
    ] {
        let found = problems(&format!("functions: {{ fw: {{ {function} }} }}\n"));
        assert!(found.len() == 1 && found[0].contains(what), "{found:?}");
    }
    let found = problems("functions: { h1: { at: s1 } }\n");
    assert!(found.len() == 1 && found[0].contains("there is a node `h1` already"), "{found:?}");
    let found = problems("functions: { fw: { at: s1, devices: ['null:', 'null:'], programs: { a: b } } }\n");
    assert_eq!(found.len(), 2, "{found:?}");
}

#[test]
fn a_function_may_be_a_container() {
    let fabric = read(
        "\
functions:
  image: { at: s1, image: fw.tar }
  own: { at: s1, image: fw.tar, programs: { fw: exec /bin/fw }, files: { /etc/fw: deny } }
  bundle: { at: s1, bundle: fw, instances: 2, sysctls: { net.ipv4.ip_forward: 1 } }
",
    )
    .expect("it is a file");
    let setup = |name: &str| {
        let setup = &fabric.setups[name];
        (setup.image.as_deref(), setup.bundle.as_deref(), setup.programs.len())
    };
    // Nothing else passes frames on there.
    assert_eq!(setup("image"), (Some("fw.tar"), None, 0));
    assert_eq!(setup("own"), (Some("fw.tar"), None, 1));
    assert_eq!((setup("bundle-1"), setup("bundle-2")), ((None, Some("fw"), 0), (None, Some("fw"), 0)));
    assert_eq!(serde_json::to_value(&fabric).expect("it is data")["setups"]["bundle-1"]["bundle"], "fw");
}

#[test]
fn built_in_functions_have_no_ports() {
    let fabric = read(
        "\
functions:
  count: { kind: counter }
  slow: { kind: rate-limit, rate: 10 Mbit/s, burst: 20kB }
  tap: { kind: mirror, to: h3 }
  ids: { at: s1 }
  fw: { kind: firewall, inbound: [allow: 'tcp,tp_dst=22', deny: all], outbound: [deny: udp] }
  nat: { kind: nat, source: '10.9.0.1-10.9.0.4', forwards: [{ port: 8080, to: h1, to-port: 80 }, { address: 10.9.0.9, port: 53, protocol: udp, to: h2 }] }
chains:
  all: { from: h1, to: h2, functions: [count, slow, tap, ids, fw, nat] }
",
    )
    .expect("it is a file");
    assert_eq!((fabric.topology.hosts, fabric.topology.end_host_count()), (5, 3));
    let built_in = |at: usize| fabric.chains.functions[at].built_in();
    assert_eq!(built_in(1), Some(&BuiltIn::RateLimit(RateLimit { rate_bps: 10_000_000, burst_bytes: 20_000 })));
    assert_eq!((built_in(3), fabric.simulated_functions.len()), (None, 6));
    let Some(BuiltIn::Nat(rules)) = built_in(5) else { panic!("{:?}", built_in(5)) };
    assert_eq!(rules.forwards.iter().map(|it| it.course).collect::<Vec<_>>(), [Course::Reverse, Course::Forward]);
    let owners: Vec<_> = fabric.chains.aliases().iter().map(|alias| alias.host.0).collect();
    assert_eq!(owners, [0, 0, 1], "its addresses are those of the ends");
    let json = fabric::in_units(&fabric);
    assert_eq!(json["functions"][1]["rate"], "10Mbit");
    assert_eq!((&json["functions"][2]["to"], &json["functions"][2]["instances"]), (&"h3".into(), &json["none"]));
    assert_eq!(json["functions"][4]["inbound"][0], "allow: tcp,tp_dst=22");
    assert_eq!(json["functions"][5]["source"], "10.9.0.1-10.9.0.4");
    assert_eq!(json["functions"][5]["forwards"][0]["to-port"], 80);
}

#[test]
fn a_wrong_built_in_function_is_refused_where_it_is_wrong() {
    for (function, what) in [
        ("kind: firewal", "`firewal` is not a built-in function (did you mean `firewall`?)"),
        ("kind: counter, instances: 2", "has no instances: it is a part of its chain"),
        ("kind: counter, image: fw.tar", "has no ports and no process: `image` is for functions that have"),
        ("kind: counter, bundle: fw", "has no ports and no process: `bundle` is for functions that have"),
        ("kind: counter, at: s1", "has no ports and no process: `at` is for functions that have"),
        ("kind: counter, programs: { a: b }", "has no ports and no process"),
        ("kind: counter, rate: 1Mbit", "`rate` is for a function of `kind: rate-limit`, and this is a `counter`"),
        ("at: s1, rate: 1Mbit", "`rate` is for a function of `kind: rate-limit`, and this one is not built in"),
        ("timeout: 1s", "neither said where the function is nor that it is built in"),
        ("kind: rate-limit", "a `rate-limit` needs `rate`"),
        ("kind: rate-limit, rate: 0Mbit", "a limit of zero lets nothing pass"),
        ("kind: rate-limit, rate: 1Mbit, burst: 1B", "expected a number from 64"),
        ("kind: mirror", "a `mirror` needs `to`"),
        ("kind: mirror, to: s1", "`s1` is not a host"),
        ("kind: mirror, to: h2", "`h2` is an end of the chain `web`"),
        ("kind: firewall, inbound: [allow: tpc]", "`tpc`"),
        ("kind: firewall, inbound: [{ allow: tcp, deny: udp }]", "either `allow: MATCH` or `deny: MATCH`"),
        ("kind: firewall, inbound: [permit: tcp]", "no key `permit`"),
        ("kind: firewall, outbound: [deny: 'table=1,tcp']", "a rule takes packets by what is in them"),
        ("kind: nat", "a `nat` needs `source` or `forwards`"),
        ("kind: nat, source: ':5000'", "no range of addresses and ports"),
        ("kind: firewall, inbound: [allow: 'ct_state=+trk+est,ip']", "`ct_state` is what a switch knows of one"),
        ("kind: firewall, outbound: [deny: 'metadata=1']", "`metadata` is what a switch knows of one"),
        ("kind: firewall, outbound: [deny: 'in_port=a']", "which port they come in by, its chain says"),
        ("kind: firewall, outbound: [deny: 'priority=5,tcp']", "no table, cookie or priority; write fields"),
        ("kind: nat, source: 0.0.0.0", "no host of this network would answer `0.0.0.0`"),
        ("kind: nat, source: 127.0.0.1", "take addresses of 10.0.0.0/8 that no host has"),
        ("kind: nat, source: 224.0.0.1", "no host of this network would answer"),
        ("kind: nat, source: 8.8.8.8", "no host of this network would answer"),
        ("kind: nat, source: 10.0.9.1-11.0.0.1", "no host of this network would answer"),
        ("kind: nat, source: 10.255.255.255", "no host of this network would answer"),
        ("kind: nat, source: '2001:db8::1'", "take addresses of the hosts' own prefix"),
        ("kind: nat, source: '10.0.9.1:0-9'", "`10.0.9.1:0-9` begins with port 0, which nobody has"),
        ("kind: nat, forwards: [{ port: 80, to: h1, address: 8.8.8.8 }]", "no host of this network would answer"),
        ("kind: nat, source: 10.0.0.1-10.255.0.0", "has this address, and is not a `from` of the chain `web`"),
        ("kind: nat, forwards: [{ port: 80, to: h1 }]", "not said of which address"),
        ("kind: nat, source: 10.9.0.1, forwards: [{ port: 80, to: h3 }]", "`h3` is no end of the chain `web`"),
        ("kind: nat, source: 10.9.0.1, forwards: [{ port: 80, to: h1 }, { port: 80, to: h1 }]", "forwarded twice"),
    ] {
        let chain = "chains: { web: { from: h1, to: h2, functions: fw } }\n";
        let found = problems(&format!("functions: {{ fw: {{ {function} }} }}\n{chain}"));
        assert!(
            found.len() == 1 && found[0].replace(" (", "; ").contains(&what.replace(" (", "; ")),
            "{function}: {found:?}"
        );
        assert!(found[0].starts_with("8:"), "{found:?}");
    }
    let functions = "functions:\n  fw: { kind: firewall }\n  a: { kind: nat, source: 10.9.0.1-10.9.0.5 }\n  b: { kind: nat, source: 10.9.0.5 }\n";
    let found = problems(&format!(
        "{functions}chains: {{ web: {{ from: h1, to: h2, functions: fw, both-directions: false }} }}\n"
    ));
    assert!(found.len() == 1 && found[0].contains("has to see both directions"), "{found:?}");
    let found = problems(&format!(
        "{functions}chains: {{ a: {{ from: h1, to: h2, functions: [fw, a] }}, b: {{ from: h1, to: h3, functions: [b, fw] }} }}\n"
    ));
    assert!(found.iter().any(|it| it.contains("what it counts and knows is of one chain")), "{found:?}");
    let found = problems(&format!(
        "{functions}chains: {{ a: {{ from: h1, to: h2, functions: [a] }}, b: {{ from: h1, to: h3, functions: [b] }} }}\n"
    ));
    assert!(found.len() == 1 && found[0].contains("`b` and `a` have an address in common"), "{found:?}");
}

#[test]
fn a_function_may_be_a_virtual_machine() {
    let chain = "chains: { web: { from: h1, to: h2, functions: fw } }\n";
    let text = format!("functions: {{ fw: {{ at: s1, instances: 2, vm: {{ memory: 64MiB }} }} }}\n{chain}");
    let fabric = read(&text).unwrap_or_else(|error| panic!("{error:?}"));
    for name in ["fw-1", "fw-1.out", "fw-2", "fw-2.out"] {
        let node = fabric.topology.node(name).unwrap_or_else(|| panic!("no {name}"));
        assert_eq!(fabric.topology.nodes[node].devices, ["vhost-user:"], "each port is a socket");
    }
    let of = |name: &str| fabric.setups.get(name).and_then(|setup| setup.vm.as_ref()).map(|vm| vm.memory_bytes);
    assert_eq!((of("fw-1"), of("fw-2"), of("fw-2.out")), (Some(64 << 20), Some(64 << 20), None));
    for (function, what) in [
        ("kind: counter, vm: {}", "has no ports and no process: `vm` is for functions that have"),
        ("at: s1, vm: {}, image: fw.tar", "the disk of a virtual machine is written within `vm`"),
        ("at: s1, vm: {}, bundle: fw", "a virtual machine or a container, not both"),
        ("at: s1, vm: {}, programs: { a: b }", "what runs in a virtual machine is written within `vm`"),
        ("at: s1, vm: {}, devices: ['vhost-user:', 'vhost-user:']", "is given sockets as its devices"),
        ("at: s1, vm: { cpus: 2 }", "`cpus` is QEMU's"),
    ] {
        let found = problems(&format!("functions: {{ fw: {{ {function} }} }}\n{chain}"));
        assert!(found.iter().any(|problem| problem.contains(what)), "{function}: {found:?}");
    }
}
