//! Flows that another switch carries: what is read, and what is refused.

use fabric::SwitchedBy;

use crate::network::{problems, read};

const NETWORK: &str = "\
nodes: { h1: host, h2: host, s1: switch }
links: [{ between: [h1, s1], rate: 1Gbit }, { between: [h2, s1], delay: 1ms }]
";

/// An experiment with this traffic, and these axes.
fn experiment(traffic: &str, vary: &str) -> String {
    format!(
        "experiments:\n  a:\n    traffic: {{ pattern: {{ pairs: [[h1, h2]] }}{traffic} }}\n    vary: {{ {vary} }}\n"
    )
}

#[test]
fn switches_are_compared_where_links_take_no_time() {
    let fabric = read(NETWORK, &experiment("", "shaping: [false], switched-by: [heddle, linux-bridge, openvswitch]"))
        .unwrap_or_else(|error| panic!("{error:?}"));
    let cases = fabric.experiments[0].cases();
    let by: Vec<SwitchedBy> = cases.iter().filter_map(|case| Some(case.work.traffic()?.switched_by)).collect();
    assert_eq!(by, [SwitchedBy::Heddle, SwitchedBy::LinuxBridge, SwitchedBy::Openvswitch]);
    assert!(fabric.topology.is_shaped() && !fabric.with(&cases[1].overrides).topology.is_shaped());
    // A file may have it so as a whole.
    let whole = format!("shaping: false\n{}", experiment(", switched-by: linux-bridge", "streams: [1, 2]"));
    assert!(!read(NETWORK, &whole).unwrap_or_else(|error| panic!("{error:?}")).topology.is_shaped());
}

#[test]
fn what_another_switch_does_not_do_is_refused() {
    for (traffic, vary, what) in [
        ("", "switched-by: [bridge]", "`bridge` is not a switch"),
        ("", "switched-by: [heddle, openvswitch]", "those of `openvswitch` have none"),
        ("", "shaping: [true, false], switched-by: [linux-bridge]", "those of `linux-bridge` have none"),
        ("", "shaping: [false], links.delay: [1ms], switched-by: [linux-bridge]", "those of `linux-bridge` have none"),
        (", transport: udp", "shaping: [false], switched-by: [linux-bridge]", "and not UDP"),
        (", transfers: { size: 1kB, every: 1s }", "shaping: [false], switched-by: [linux-bridge]", "and not transfers"),
        (
            ", faults: [{ at: 1ms, down: [h1, s1] }]",
            "shaping: [false], switched-by: [linux-bridge]",
            "and not faults of links",
        ),
    ] {
        let found = problems(NETWORK, &experiment(traffic, vary));
        assert!(found.iter().any(|problem| problem.contains(what)), "{what}: {found:?}");
    }
    let unshaped = NETWORK.replace(", rate: 1Gbit", "").replace(", delay: 1ms", "");
    let found = problems(&unshaped, &experiment("", "shaping: [true, false]"));
    assert!(found[0].contains("no link has a rate, a delay or losses"), "{found:?}");
}

const CHAINED: &str = "\
nodes: { h1: host, h2: host, h3: host, s1: switch }
links: [{ between: [h1, s1] }, { between: [h2, s1] }, { between: [h3, s1] }]
";

/// A chain from h1 to h2 through `function` as it is written, with more of its keys.
fn chained(function: &str, more: &str) -> String {
    format!(
        "functions: {{ f1: {{ {function} }}, f2: {{ at: s1 }} }}\nchains:\n  c: {{ from: h1, to: h2, functions: [f1, f2]{more} }}\n"
    )
}

#[test]
fn chains_of_functions_that_pass_frames_on_are_led_over_other_switches() {
    let beside = experiment("", "switched-by: [heddle, linux-bridge, openvswitch]");
    let text = chained("at: s1", "") + &beside;
    read(CHAINED, &text).unwrap_or_else(|error| panic!("{error:?}"));
    for (function, more, what) in [
        ("kind: counter", "", "`f1` is built into Heddle's switches"),
        ("at: s1, instances: 2", "", "`f1` has several instances"),
        ("at: s1, programs: { own: sleep inf }", "", "`f1` has programs or devices of its own"),
        ("at: s1, devices: ['vhost-user:', 'vhost-user:']", "", "`f1` has programs or devices of its own"),
        ("at: s1", ", both-directions: false", "in both directions"),
        ("at: s1", ", match: tcp", "no `match` chooses"),
    ] {
        let found = problems(CHAINED, &(chained(function, more) + &beside));
        assert!(found.len() == 1 && found[0].contains(what), "{what}: {found:?}");
        // What no flow passes is as it may be.
        let others = chained(function, more) + &beside.replace("[h1, h2]", "[h1, h3]");
        read(CHAINED, &others).unwrap_or_else(|error| panic!("{what}: {error:?}"));
        let drawn = chained(function, more) + &beside.replace("{ pairs: [[h1, h2]] }", "random");
        assert_eq!(problems(CHAINED, &drawn).len(), 1, "{what}");
    }
}
