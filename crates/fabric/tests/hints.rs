//! What newcomers write first, and what they are told: hints that lead to the right key, and nothing that misleads.

use fabric::{Fabric, Problem, Source, parse};

fn source(text: &str) -> Source {
    Source { name: "net.fabric.yaml".to_owned(), text: text.to_owned() }
}

fn read(text: &str) -> Fabric {
    parse(&source(text)).unwrap_or_else(|error| panic!("{:?}", miette::Report::new(error)))
}

fn error(text: &str) -> (String, Vec<Problem>) {
    let error = parse(&source(text)).expect_err("the file is wrong");
    (error.to_string(), error.problems().to_vec())
}

const LEAF_SPINE: &str =
    "topology: { leaf-spine: { leaves: 2, spines: 2, hosts-per-leaf: 2 } }\nlinks: { rate: 1Gbit, delay: 1us }\n";

/// Two hosts at a switch, with these links.
fn pair(links: &str) -> String {
    format!("nodes: {{ h1: host, h2: host, s1: switch }}\n{links}")
}

#[test]
fn a_link_of_two_names_is_shown_with_its_key() {
    let (_, problems) = error(&pair("links:\n  - [h1, s1]\n  - between: [h2, s1]\n"));
    let [problem] = &problems[..] else { panic!("{problems:?}") };
    assert_eq!((problem.line, problem.hint.as_str()), (3, "write `- between: [h1, s1]`"));
    let (_, three) = error(&pair("links:\n  - [h1, s1, h2]\n"));
    assert!(three[0].message.contains("found a list of 3"), "{three:?}");
}

#[test]
fn a_link_as_other_tools_write_it_is_shown_as_it_is_here() {
    for link in ["h1 s1", "h1, s1", "'h1,s1'", "h1-s1", "h1 -- s1", "h1--s1", "'h1:s1'", "'h1:eth0 <-> s1:eth1'"] {
        let (_, problems) = error(&pair(&format!("links:\n  - {link}\n  - between: [h2, s1]\n")));
        let [problem] = &problems[..] else { panic!("{link}: {problems:?}") };
        assert_eq!((problem.line, problem.hint.as_str()), (3, "write `{ between: [h1, s1] }`"), "{link}");
        assert!(problem.message.starts_with("a link is a map, found `"), "{link}: {problem:?}");
    }
    let (_, problems) = error(&pair("links: [h1 s1 h2]\n"));
    assert_eq!(problems[0].hint, "write `{ between: [NODE, NODE] }`");
    for link in [
        "endpoints: ['h1:eth1', 's1:eth2']",
        "{ nodes: [h1, s1] }",
        "{ from: h1, to: s1, rate: 1Gbit }",
        "{ a: h1, b: s1 }",
    ] {
        let (_, problems) = error(&pair(&format!("links:\n  - {link}\n  - between: [h2, s1]\n")));
        let [problem] = &problems[..] else { panic!("{link}: {problems:?}") };
        assert_eq!((problem.line, problem.hint.as_str()), (3, "write `between: [h1, s1]`"), "{link}");
    }
}

#[test]
fn keys_of_another_place_lead_there() {
    let host = |key: &str| {
        pair("links: [{ between: [h1, s1] }, { between: [h2, s1] }]\n").replacen(
            "h1: host",
            &format!("h1: {{ kind: host, {key} }}"),
            1,
        )
    };
    let experiment = |keys: &str| format!("{LEAF_SPINE}experiments: {{ a: {{ {keys} }} }}\n");
    for (text, expected) in [
        (host("vlan: 10"), "VLANs are of switches' ports: `switches: { s1: { ports: { h1: { tag: .. } } } }`"),
        (host("gateway: 10.0.0.1"), "write `routes: [default via 10.0.1.254]`, with the router's address"),
        (host("cmd: sleep 1"), "write `programs: { NAME: COMMAND }`: they start with the network"),
        (host("bw: 10Mbit"), "`rate` is of links: `links: [{ between: [h1, s1], rate: .. }]`"),
        (
            format!("{LEAF_SPINE}bandwidth: 1Gbit\n"),
            "`rate` is of links: `links: { rate: .. }` beside `topology`, `link-defaults: { rate: .. }` beside `nodes`",
        ),
        (format!("{LEAF_SPINE}repeat: 5\n"), "`repeat` is of an experiment: `experiments: { NAME: { repeat: .. } }`"),
        (
            format!("{LEAF_SPINE}switches: {{ leaf1: {{ trunk: [7] }} }}\n"),
            "`trunks` is of a port: `ports: { h1: { trunks: .. } }`",
        ),
        (
            experiment("traffic: { pattern: stride(1), warm_up: 1s }"),
            "`warm-up` is of the experiment: write it beside `traffic:`",
        ),
        (experiment("pattern: stride(1)"), "`pattern` is of the traffic: `traffic: { pattern: .. }`"),
        (
            experiment("traffic: { pattern: stride(1) }, spread: ecmp"),
            "`spread` is of the file, or varied: `vary: { spread: [..] }`",
        ),
        (experiment("traffic: { pattern: stride(1) }, duration: 1s"), "how long runs are measured is `for: 10s`"),
    ] {
        let (_, problems) = error(&text);
        assert!(problems.iter().any(|problem| problem.hint == expected), "{expected}: {problems:?}");
    }
}

#[test]
fn addresses_by_other_names_are_known() {
    for (key, known) in [("ip", "ipv4"), ("address", "ipv4"), ("ip6", "ipv6"), ("hwaddr", "mac")] {
        let host = format!("h1: {{ kind: host, {key}: 10.0.0.1/8 }}");
        let (_, problems) = error(&pair("links: [{ between: [h1, s1] }]\n").replacen("h1: host", &host, 1));
        assert_eq!(problems[0].hint, format!("did you mean `{known}`?"), "{key}");
    }
}

#[test]
fn a_topology_in_a_word_is_shown_as_a_map() {
    for (word, map) in [
        ("fat-tree,4", "{ fat-tree: { k: 4 } }"),
        ("tree,depth=3,fanout=2", "{ tree: { depth: 3, fanout: 2 } }"),
        ("leaf-spine 4 2 2", "{ leaf-spine: { leaves: 4, spines: 2, hosts-per-leaf: 2 } }"),
        ("linear", "{ linear: { switches: 4 } }"),
    ] {
        let (_, problems) = error(&format!("topology: {word}\n"));
        let [problem] = &problems[..] else { panic!("{word}: {problems:?}") };
        assert_eq!(problem.hint, format!("write `topology: {map}`"), "{word}");
        assert_eq!(problem.message, format!("a topology is a map, found `{word}`"));
        read(&format!("topology: {map}\n"));
    }
    for (text, message, hint) in [
        ("star,4", "`star,4` is not a topology", "topologies are `fat-tree`, `leaf-spine`,"),
        (
            "{ kind: nonsense }",
            "`kind` is not a topology",
            "the topology is the key, and its sizes stand below it, as in `topology: { fat-tree: { k: 4 } }`; ",
        ),
        ("{ kind: fattree, k: 4 }", "`kind` is not a topology", "write `topology: { fat-tree: { k: 4 } }`"),
        (
            "{ type: leaf-spine, leaves: 2 }",
            "`type` is not a topology",
            "write `topology: { leaf-spine: { leaves: 4, spines: 2, hosts-per-leaf: 2 } }`",
        ),
        ("{ fat-tree: { k: 4 }, tree: { depth: 2 } }", "there are two topologies", "keep one of `fat-tree` and `tree`"),
        ("{ trees: { depth: 3 } }", "`trees` is not a topology", "did you mean `tree`?"),
        ("{ k: 4, n: 3 }", "`k` is not a topology", "the topology is the key"),
    ] {
        let (_, problems) = error(&format!("topology: {text}\n"));
        let [problem] = &problems[..] else { panic!("{text}: {problems:?}") };
        assert_eq!(problem.message, message, "{text}");
        assert!(problem.hint.starts_with(hint), "{text}: {}", problem.hint);
    }
}

#[test]
fn what_is_wrong_with_an_axis_marks_its_key_and_names_links() {
    let file = |axis: &str| {
        let links = "links: [{ between: [h1, s1] }, { between: [s1, h2] }]\n";
        format!("{}experiments:\n  a: {{ traffic: {{ pattern: random }}, vary: {{ {axis} }} }}\n", pair(links))
    };
    for (key, hint) in [
        ("links.h1-s2.delay", "did you mean `links.h1-s1.delay`? there are `h1-s1`, `s1-h2`"),
        ("links.core1-core2.delay", "there are `h1-s1`, `s1-h2`"),
        ("links.h1-s1.dely", "did you mean `links.h1-s1.delay`?"),
        ("links.h1.delay", "one link is named by both of its nodes: `links.h1-NODE.delay`"),
        ("links.h1-s1.queue", "give the link a rate: `rate: 1Gbit`"),
    ] {
        let text = file(&format!("{key}: [5ms, 6ms]").replace("queue: [5ms, 6ms]", "queue: [5]"));
        let (_, problems) = error(&text);
        let [problem] = &problems[..] else { panic!("{key}: {problems:?}") };
        assert_eq!(&text[problem.span.offset()..][..problem.span.len()], key, "{problem:?}");
        assert_eq!(problem.hint, hint, "{key}");
    }
    // A value is marked by itself.
    let text = file("links.h1-s1.delay: [fast]");
    let (_, problems) = error(&text);
    assert_eq!(&text[problems[0].span.offset()..][..problems[0].span.len()], "fast");
}

#[test]
fn what_stands_in_vary_and_is_no_axis_is_shown_as_one() {
    let file = |vary: &str| {
        format!(
            "{}experiments:\n  a: {{ traffic: {{ pattern: random }}, vary: {vary} }}\n",
            pair("links: [{ between: [h1, s1] }, { between: [s1, h2] }]\n")
        )
    };
    for (vary, message, hint) in [
        (
            "{ spread: single }",
            "expected a list of values, found `single`",
            "write its values in brackets, `spread: [single, ..]`; one value for all cases stands at the top of the file, `spread: single`",
        ),
        (
            "{ transport: reno }",
            "expected a list of values, found `reno`",
            "write its values in brackets, `transport: [reno, ..]`; one value for all cases stands in `traffic:`, `transport: reno`",
        ),
        (
            "[spread]",
            "expected a map of keys with their values, found a list of 1",
            "write `vary: { spread: [single, ecmp] }`: a key, and in brackets its values",
        ),
        (
            "[{ transport: [reno, sack] }]",
            "expected a map of keys with their values, found a list of 1",
            "write `vary: { transport: [.., ..] }`: a key, and in brackets its values",
        ),
        (
            "spread",
            "expected a map of keys with their values, found `spread`",
            "write `vary: { spread: [single, ecmp] }`: a key, and in brackets its values",
        ),
        ("{ traffic.pattern: [random] }", "there is no key `traffic.pattern` here", "did you mean `pattern`?"),
        (
            "{ seed: [1, 2] }",
            "there is no key `seed` here",
            "a seed is the file's, `seed: 7`, or of a run, `heddle run --seed 7`; each repeat of a case draws anew, and there are as many as `repeat:` says",
        ),
        (
            "{ repeat: [1, 2] }",
            "there is no key `repeat` here",
            "`repeat` is of the experiment, and the same for all of its cases: write it beside `vary:`",
        ),
    ] {
        let (_, problems) = error(&file(vary));
        let [problem] = &problems[..] else { panic!("{vary}: {problems:?}") };
        assert_eq!((problem.message.as_str(), problem.hint.as_str()), (message, hint), "{vary}");
    }
}

#[test]
fn what_is_the_networks_and_what_a_share_may_mean_is_said_at_a_link() {
    let hint = |key: &str| error(&pair(&format!("links:\n  - {{ between: [h1, s1], {key} }}\n"))).1[0].hint.clone();
    assert_eq!(hint("mtu: 9000"), "all of a network have one MTU: `mtu:` stands at the top level of the file");
    assert_eq!(hint("loss: 0.05"), "write `0.05%`, or `5%` if it is meant as a share of one");
    assert_eq!(hint("loss: 5"), "write `5%`");
}

#[test]
fn a_key_of_links_that_is_varied_is_an_axis_of_links() {
    let vary = |key: &str| {
        let experiment =
            format!("experiments:\n  a:\n    traffic: {{ pattern: random }}\n    vary: {{ {key}: [1, 2] }}\n");
        error(&[LEAF_SPINE, &experiment].concat()).1
    };
    for key in ["overhead", "rate", "queue"] {
        assert_eq!(vary(key)[0].hint, format!("did you mean `links.{key}`?"));
    }
    assert!(!vary("speed")[0].hint.contains("links.speed"));
}

#[test]
fn what_one_link_does_is_varied_by_its_name() {
    let file = |axis: &str| {
        let links = "links:\n  - { between: [h1, s1], rate: 1Gbit }\n  - { between: [s1, h2], delay: 3ms }\n";
        format!("{}experiments:\n  a: {{ traffic: {{ pattern: random }}, vary: {{ {axis} }} }}\n", pair(links))
    };
    let fabric = read(&file("links.h2-s1.delay: [1ms, 10ms], links.delay: [2ms]"));
    let cases = fabric.experiments[0].cases();
    let delays = cases.iter().map(|case| {
        let links = fabric.with(&case.overrides).topology.links;
        links.iter().map(|link| link.spec.delay.as_ns() / 1_000_000).collect::<Vec<_>>()
    });
    // In the order of the file: all of them come last.
    assert_eq!(delays.collect::<Vec<_>>(), [[2, 2], [2, 2]]);
    let fabric = read(&file("links.delay: [2ms], links.h2-s1.delay: [1ms, 10ms]"));
    let cases = fabric.experiments[0].cases();
    let text = serde_json::to_string(&cases[1].overrides).unwrap();
    assert!(text.contains(r#"{"link":"h2-s1","set":{"link-delay":"#), "{text}");
    let overrides: fabric::Overrides = serde_json::from_str(&text).unwrap();
    let links = fabric.with(&overrides).topology.links;
    assert_eq!(links.iter().map(|link| link.spec.delay.as_ns() / 1_000_000).collect::<Vec<_>>(), [2, 10]);
    for (axis, message, hint) in [
        ("links.h1-s9.delay: [1ms]", "there is no node `s9`", "did you mean `links.h1-s1.delay`?"),
        ("links.h1-h2.delay: [1ms]", "there is no link between `h1` and `h2`", "there are `h1-s1`"),
        ("links.h1-s1.dely: [1ms]", "links have no key `dely`", "did you mean `links.h1-s1.delay`?"),
        ("links.h2-s1.queue: [5]", "the link `h2-s1` has no rate: this would change nothing", "give the link a rate"),
    ] {
        let (_, problems) = error(&file(axis));
        assert_eq!((problems.len(), problems[0].message.as_str()), (1, message), "{problems:?}");
        assert!(problems[0].hint.contains(hint), "{problems:?}");
    }
}

#[test]
fn a_rate_that_can_not_be_read_is_all_that_is_wrong_with_a_queue() {
    for text in [
        pair("links:\n  - { between: [h1, s1], rate: 1Gbqs, queue: 10 }\n  - { between: [h2, s1] }\n"),
        pair("link-defaults: { rate: 1Gbqs, queue: 10 }\nlinks:\n  - between: [h1, s1]\n  - between: [h2, s1]\n"),
        pair("link-defaults: { rate: 1Gbqs }\nlinks:\n  - { between: [h1, s1], queue: 10 }\n  - between: [h2, s1]\n"),
        LEAF_SPINE.replace("rate: 1Gbit,", "rate: 1Gbqs, queue: 10,"),
        LEAF_SPINE.replace("rate: 1Gbit, delay: 1us", "hosts: { rate: 1Gbqs, queue: 10 }"),
    ] {
        let (_, problems) = error(&text);
        assert_eq!(problems.len(), 1, "{text}{problems:?}");
        assert!(problems[0].message.contains("Gbqs"), "{problems:?}");
    }
    let (_, in_vain) = error(&LEAF_SPINE.replace("rate: 1Gbit,", "queue: 10,"));
    assert!(in_vain[0].message.contains("a queue without a rate"), "{in_vain:?}");
}

#[test]
fn who_has_checks_left_hears_of_it() {
    let waits = "; some checks have to wait until that is mended";
    let experiment = "experiments:\n  a:\n    traffic: { pattern: random }\n    expect: { drops: NONE }\n";
    let (claim, _) = error(&[LEAF_SPINE, experiment].concat());
    assert_eq!(claim, "net.fabric.yaml has a problem");
    // A link that can't be laid out keeps all else from being looked at.
    let (link, problems) = error(&[&LEAF_SPINE.replace("hosts-per-leaf", "hosts-per-leave"), experiment].concat());
    assert!(link.ends_with(waits), "{link}");
    assert!(problems.iter().all(|problem| problem.line == 1), "{problems:?}");
    let (axis, _) =
        error(&[LEAF_SPINE, &experiment.replace("expect", "vary: { spread: [fast] }\n    expect")].concat());
    assert!(axis.ends_with(waits), "{axis}");
    let (controllers, _) = error(&[LEAF_SPINE, "controllers: { nodes: many }\n", experiment].concat());
    assert!(controllers.ends_with(waits), "{controllers}");
    let (alone, _) = error("controllers: { nodes: many }\n");
    assert_eq!(alone, "net.fabric.yaml has a problem");
}

#[test]
fn sizes_have_their_unit_and_claims_name_values_as_anybody_writes_them() {
    let experiment = |vary: &str, only: &str| {
        format!(
            "{LEAF_SPINE}experiments:\n  a:\n    traffic: {{ pattern: random }}\n    vary: {{ {vary} }}\n    \
             expect: {{ drops: {{ where: {{ {only} }}, is: <= 0 }} }}\n"
        )
    };
    let only = |vary: &str, only: &str| read(&experiment(vary, only)).experiments[0].expect[0].only.clone();
    let labels = |vary: &str| -> Vec<String> {
        let fabric = read(&experiment(vary, ""));
        fabric.experiments[0].vary[0].values.iter().map(|(text, _)| text.clone()).collect()
    };
    assert_eq!(labels("links.overhead: [0, 24, 38B]"), ["0B", "24B", "38B"]);
    assert_eq!(labels("links.queue: [10, 1000]"), ["10", "1000"], "packets");
    let found = |axis: &str, value: &str| vec![(axis.to_owned(), value.to_owned())];
    for written in ["24", "24B", "'24 B'"] {
        let claim = format!("links.overhead: {written}");
        let label = only("links.overhead: [0, 24B]", &claim);
        assert_eq!(label, found("links.overhead", "24B"), "{written}");
    }
    assert_eq!(only("links.delay: [50us, 1ms]", "links.delay: 0.05ms"), found("links.delay", "50us"));
    assert_eq!(only("spread: [single, ecmp]", "spread: ecmp"), found("spread", "ecmp"));
    let (_, problems) = error(&experiment("links.overhead: [0, 24B]", "links.overhead: 25"));
    assert_eq!(problems[0].hint, "write `0B` or `24B`, as under `vary`");
    let (_, problems) = error(&experiment("links.overhead: [0, 24B]", "links.overhead: many"));
    assert!(problems.len() == 1 && problems[0].message.contains("never is `many`"), "{problems:?}");
}

/// The list of metrics ended before those that were meant.
#[test]
fn of_many_words_those_of_the_family_are_said() {
    let hint = |word: &str| {
        let text = format!(
            "{LEAF_SPINE}experiments:\n  e: {{ traffic: {{ pattern: stride(1), transport: reno }}, for: 1s, report: [{word}] }}\n"
        );
        error(&text).1[0].hint.clone()
    };
    let latency = hint("latency");
    for word in ["`delay-min`", "`delay-p99`", "`rtt-mean`", "or `rtt-max`?"] {
        assert!(latency.contains(word), "{word}: {latency}");
    }
    assert!(!latency.contains("goodput"), "{latency}");
    assert_eq!(hint("latency_p99"), "did you mean `delay-p99` or `rtt-p99`?");
    assert_eq!(hint("loss"), "did you mean `drops`, `link-losses` or `lost`?");
    let all = hint("xyzzy");
    for word in ["`fairness`", "`goodput-..`", "`completion-..`", "`unavailable-max`"] {
        assert!(all.starts_with("there are ") && all.contains(word) && !all.ends_with("..."), "{word}: {all}");
    }
}
