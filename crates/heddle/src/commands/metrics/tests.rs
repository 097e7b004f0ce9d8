//! What is written is what `OpenMetrics` 1.0 allows, and the board asks for nothing else.

use std::collections::{BTreeMap, BTreeSet};

use datapath::ServiceCounters;
use live::control::{
    ChainCounters, ChainHop, Forwarded, HealthStatus, HopCount, LinkCounters, NameStatus, PortCounters, ServerStatus,
    ServiceStatus, SiteStatus,
};

use super::*;

/// A network with something of everything, and with names that have to be escaped.
fn counters() -> Counters {
    let link = |a: &str, b: &str| LinkCounters { a: a.to_owned(), b: b.to_owned(), ..LinkCounters::default() };
    let mut counters =
        Counters { links: vec![link("h1", "s1"), link("h1", "s1"), link("s1", "h2")], ..Counters::default() };
    counters.links[1].forward.drops = 7;
    counters.links[2].backward.overtakes = 2;
    counters.links[2].backward.busy = machine::Span::from_ms(1_500);
    let mut port = PortCounters { host: "h1".to_owned(), ..PortCounters::default() };
    port.traffic.refused.vlan = 3;
    counters.ports = vec![port];
    let forwarded =
        |switch: &str, host: &str| Forwarded { switch: switch.to_owned(), host: host.to_owned(), packets: 5 };
    counters.forwarded = vec![forwarded("s1", "h1"), forwarded("s1", "h2"), forwarded("s2", "h1")];
    counters.workers = vec![live::control::WorkerCounters::default()];
    let count = HopCount { name: "a \"name\" with \\ and\na line".to_owned(), count: 4, bytes: None };
    let hop = ChainHop { function: "nf1".to_owned(), counts: vec![count], ..ChainHop::default() };
    let chain = "inspect".to_owned();
    counters.chains = vec![ChainCounters {
        chain,
        course: "forward".to_owned(),
        hops: vec![hop.clone(), hop],
        ..ChainCounters::default()
    }];
    let health = HealthStatus { is_down: true, is_starting: false, probes: 9, failures: 8, last_failure: None };
    let down = ServerStatus {
        server: "h2".to_owned(),
        out: Some("down".to_owned()),
        health: Some(health),
        latency: Some(machine::nanos::Span::from_ms(20)),
        ..ServerStatus::default()
    };
    let up = ServerStatus { server: "h3".to_owned(), ..ServerStatus::default() };
    counters.services = vec![ServiceStatus {
        service: "web".to_owned(),
        servers: vec![down, up],
        counters: ServiceCounters { refused: 6, ..ServiceCounters::default() },
        ..ServiceStatus::default()
    }];
    let site = SiteStatus { site: "east".to_owned(), answers: 4, load_percent: Some(50), ..SiteStatus::default() };
    let name = "www.example.net".to_owned();
    counters.names = vec![NameStatus { name, sites: vec![site], ..NameStatus::default() }];
    counters.name_servers.refused = 2;
    counters
}

/// The samples of a page by name and labels, read as the grammar of `OpenMetrics` 1.0 has it; panics where it is something else.
fn parse(page: &str) -> BTreeMap<String, f64> {
    let rest = page.strip_suffix("# EOF\n").expect("it ends as it must");
    let (mut samples, mut families) = (BTreeMap::new(), BTreeSet::new());
    let (mut family, mut kind, mut has_help) = (String::new(), String::new(), false);
    for line in rest.lines() {
        assert!(!line.is_empty() && !line.ends_with(' '), "{line:?}");
        if let Some(described) = line.strip_prefix("# ") {
            let mut words = described.splitn(3, ' ');
            let [what, name, text] = [(); 3].map(|()| words.next().expect("three parts"));
            assert!(is_name(name), "{line}");
            match what {
                "HELP" => {
                    assert!(!text.contains(['\n', '"']) && !has_help, "{line}");
                    assert!(families.insert(name.to_owned()), "{name} comes once");
                    (family, has_help) = (name.to_owned(), true);
                    kind.clear();
                }
                "TYPE" => {
                    assert!(name == family && kind.is_empty() && ["counter", "gauge"].contains(&text), "{line}");
                    text.clone_into(&mut kind);
                }
                _ => panic!("{line}"),
            }
            continue;
        }
        has_help = false;
        let (name, labels, value) = sample(line);
        let suffix = if kind == "counter" { "_total" } else { "" };
        assert_eq!(name, format!("{family}{suffix}"), "{line}");
        let value: f64 = value.parse().expect("a number");
        assert!(value.is_finite() && (kind == "gauge" || value >= 0.0), "{line}");
        assert!(samples.insert(format!("{name}{{{labels}}}"), value).is_none(), "twice: {line}");
    }
    samples
}

fn is_name(text: &str) -> bool {
    text.starts_with(|first: char| first.is_ascii_lowercase())
        && text.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_')
}

/// Name, labels and value of `name{a="b",c="d"} 1`.
fn sample(line: &str) -> (&str, String, &str) {
    let (name, mut rest) = line.split_once('{').expect("each has labels");
    assert!(is_name(name), "{line}");
    let (mut labels, mut names) = (Vec::new(), BTreeSet::new());
    loop {
        let (label, behind) = rest.split_once("=\"").expect("a label has a value");
        assert!(is_name(label) && names.insert(label), "{line}");
        let mut end = None;
        let mut escaped = false;
        for (at, character) in behind.char_indices() {
            match character {
                '"' if !escaped => {
                    end = Some(at);
                    break;
                }
                _ if escaped => {
                    assert!(['"', '\\', 'n'].contains(&character), "{line}");
                    escaped = false;
                }
                '\\' => escaped = true,
                _ => {}
            }
        }
        let end = end.expect("a value ends");
        labels.push(format!("{label}={}", &behind[..end]));
        rest = &behind[end + 1..];
        match rest.strip_prefix(',') {
            Some(more) => rest = more,
            None => break,
        }
    }
    let value = rest.strip_prefix("} ").expect("a value follows");
    assert!(!value.contains(' '), "no time stands behind: {line}");
    (name, labels.join(","), value)
}

#[test]
fn a_page_is_what_openmetrics_allows() {
    let page = page("lab", &counters());
    let samples = parse(&page);
    let is = |name: &str, expected: f64| assert_eq!(samples.get(name), Some(&expected), "{name}\n{page}");
    is("heddle_link_drops_total{network=lab,from=h1,to=s1,number=2,reason=queue}", 7.0);
    is("heddle_link_impaired_packets_total{network=lab,from=h2,to=s1,number=1,kind=overtake}", 2.0);
    is("heddle_link_transmitting_seconds_total{network=lab,from=h2,to=s1,number=1}", 1.5);
    is("heddle_host_refused_packets_total{network=lab,host=h1,reason=vlan}", 3.0);
    is("heddle_switch_forwarded_packets_total{network=lab,switch=s1}", 10.0);
    is("heddle_switch_forwarded_packets_total{network=lab,switch=s2}", 5.0);
    is("heddle_service_lost_total{network=lab,service=web,reason=refused}", 6.0);
    is("heddle_server_up{network=lab,service=web,server=h2}", 0.0);
    is("heddle_server_out{network=lab,service=web,server=h2,why=down}", 1.0);
    is("heddle_server_health_failures_total{network=lab,service=web,server=h2}", 8.0);
    is("heddle_server_latency_seconds{network=lab,service=web,server=h2}", 0.02);
    is("heddle_server_up{network=lab,service=web,server=h3}", 1.0);
    assert!(!samples.contains_key("heddle_server_latency_seconds{network=lab,service=web,server=h3}"));
    // An empty network has nothing to say but why nothing was refused.
    assert!(parse(&super::page("empty", &Counters::default())).values().all(|value| *value == 0.0));
}

#[test]
fn the_older_format_has_the_same_samples_under_their_whole_names() {
    let open = page("lab", &counters());
    let older = super::family::older(&open);
    let samples =
        |page: &str| page.lines().filter(|line| !line.starts_with('#')).map(str::to_owned).collect::<Vec<_>>();
    assert_eq!(samples(&older), samples(&open));
    let types: BTreeSet<&str> =
        older.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.split_whitespace().next()).collect();
    for sample in samples(&older) {
        let name = sample.split(['{', ' ']).next().expect("a sample has a name");
        assert!(types.contains(name), "{sample}: {types:?}");
    }
    assert!(older.contains("# TYPE heddle_link_drops_total counter\n"), "{older}");
    assert!(!older.contains("EOF"));
}

/// The board of `docs/grafana` asks for what there is, by labels that there are.
#[test]
fn the_board_shows_what_is_served() {
    let text = include_str!("../../../../../docs/grafana/heddle.json");
    let board: serde_json::Value = serde_json::from_str(text).expect("it is JSON");
    let page = page("lab", &counters());
    let names: BTreeSet<String> =
        parse(&page).into_keys().filter_map(|sample| Some(sample.split_once('{')?.0.to_owned())).collect();
    let panels = board["panels"].as_array().expect("it has panels");
    let mut asked = BTreeSet::new();
    for target in panels.iter().flat_map(|panel| panel["targets"].as_array().into_iter().flatten()) {
        let expression = target["expr"].as_str().expect("it asks for something");
        let words = expression.split(|end: char| !end.is_ascii_alphanumeric() && end != '_');
        asked.extend(words.filter(|word| word.starts_with("heddle_")).map(str::to_owned));
    }
    assert!(panels.len() > 8 && asked.len() > 8, "{asked:?}");
    assert_eq!(asked.difference(&names).collect::<Vec<_>>(), Vec::<&String>::new(), "what nobody serves");
    let places = panels.iter().map(|panel| (panel["gridPos"]["x"].as_u64(), panel["gridPos"]["y"].as_u64()));
    assert_eq!(places.collect::<BTreeSet<_>>().len(), panels.len(), "no panel covers another one");
}
