//! Service chains in a file.

use fabric::Fabric;
use machine::Span;

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
    assert_eq!(fabric.chains.functions[1].timeout, Span::from_ms(50));
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
    ] {
        let found = problems(&format!("functions: {{ fw: {{ {function} }} }}\n"));
        assert!(found.len() == 1 && found[0].contains(what), "{found:?}");
    }
    let found = problems("functions: { h1: { at: s1 } }\n");
    assert!(found.len() == 1 && found[0].contains("there is a node `h1` already"), "{found:?}");
    let found = problems("functions: { fw: { at: s1, devices: ['null:', 'null:'], programs: { a: b } } }\n");
    assert_eq!(found.len(), 2, "{found:?}");
}
