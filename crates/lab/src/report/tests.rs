use fabric::{DriverKind, Experiment};
use machine::Span;

use crate::Options;
use crate::plan::plan;
use crate::results::Results;
use crate::testing::{experiment, invented, tree};

fn results(drivers: &[DriverKind]) -> Results {
    let mut fabric = tree(2, 2, 2, true);
    fabric.experiments = vec![experiment(20e6)];
    let options = Options { drivers: drivers.to_vec(), ..Options::default() };
    invented(&fabric, &plan(&fabric, &options).unwrap())
}

const BOTH: [DriverKind; 2] = [DriverKind::Live, DriverKind::Sim];

#[test]
fn tables_for_wide_and_narrow_terminals() {
    insta::assert_snapshot!("table-sim-wide", results(&[DriverKind::Sim]).table_within(200));
    insta::assert_snapshot!("table-both-wide", results(&BOTH).table_within(400));
    let narrow = results(&BOTH).table_within(100);
    assert!(narrow.lines().filter(|line| line.contains("Mbit/s")).all(|line| line.chars().count() <= 100), "{narrow}");
    insta::assert_snapshot!("table-both-narrow", narrow);
}

#[test]
fn folders_of_other_drivers_are_compared_by_another_command() {
    let (mut live, mut simulated) = (results(&[DriverKind::Live]), results(&[DriverKind::Sim]));
    let refused = |live: &Results, simulated: &Results| {
        let both = super::SideBySide::of(("one".to_owned(), live), ("two".to_owned(), simulated));
        both.expect_err("they have no driver in common")
    };
    let error = refused(&live, &simulated);
    let said = "one has live runs and two has simulated ones: they are held against each other if both are of the same file and seed, but ";
    let unknown = "of which file one of them is, is not known: it has no fabric.yaml";
    assert_eq!(error.to_string(), format!("{said}{unknown}"));
    assert!(error.hint().is_some_and(|hint| hint.starts_with("run both from the same file")), "{error:?}");
    for (results, file) in [(&mut live, "topology: {}"), (&mut simulated, "topology: { }")] {
        file.clone_into(&mut results.file);
    }
    let error = refused(&live, &simulated).to_string();
    assert_eq!(error, format!("{said}they are of two files, or of a file that was changed in between"));
}

/// There was a table's head, and nothing below it.
#[test]
fn an_experiment_without_runs_is_not_held_against_another() {
    let (mut first, mut second) = (results(&[DriverKind::Sim]), results(&[DriverKind::Sim]));
    for results in [&mut first, &mut second] {
        let mut interrupted = results.experiments[0].clone();
        "interrupted".clone_into(&mut interrupted.name);
        results.experiments.push(interrupted);
    }
    for case in &mut second.experiments[1].cases {
        case.cells.clear();
    }
    let both = super::SideBySide::of(("one".to_owned(), &first), ("two".to_owned(), &second)).unwrap();
    let table = both.table_within(200);
    assert_eq!(table.matches("metric").count(), 1, "{table}");
    assert!(table.contains("interrupted: no case was measured in both\n"), "{table}");
    assert!(table.contains("simulated runs only in one"), "{table}");
    assert!(!both.html().contains("<h2>interrupted"), "{}", both.html());
}

/// There were a heading and a word about percentiles, and no table.
#[test]
fn a_table_of_nothing_says_so() {
    let mut results = results(&[DriverKind::Sim]);
    results.experiments[0].metrics = vec![fabric::Metric::all().find(|metric| metric.word() == "delay-p99").unwrap()];
    assert!(results.table_within(200).contains("  percentiles: of all"));
    for case in &mut results.experiments[0].cases {
        case.cells.clear();
    }
    let table = results.table_within(200);
    assert!(table.contains("a case\n  nothing was measured\n") && !table.contains("percentiles"), "{table}");
    assert!(results.html().contains("Nothing was measured."));
}

#[test]
fn one_of_a_thing_is_not_several() {
    let mut results = results(&[DriverKind::Sim]);
    results.network.nodes.truncate(3);
    (results.network.hosts, results.network.controllers) = (2, Some(1));
    results.network.links.truncate(1);
    results.records.truncate(1);
    let html = results.html();
    for words in ["<span>hosts, 1 switch, 1 link</span>", "<span>controller, unless", "<span>simulated run</span>"] {
        assert!(html.contains(words), "{words}: {html}");
    }
}

/// Live TCP is measured for whole seconds, whatever the file says.
#[test]
fn headings_say_how_long_live_runs_are_measured() {
    let said = "a case";
    let heading = |drivers: &[DriverKind]| {
        let table = results(drivers).table_within(200);
        table.lines().find(|line| line.contains(said)).unwrap_or_default().to_owned()
    };
    assert!(heading(&BOTH).contains(" of 0.1 s (live TCP: 1 s) a case"), "{}", heading(&BOTH));
    assert!(heading(&[DriverKind::Sim]).ends_with(" of 0.1 s a case"), "{}", heading(&[DriverKind::Sim]));
    assert!(results(&BOTH).html().contains(" of 0.1 s (live TCP: 1 s)"));
}

/// Several flows of live TCP warm up though the file says nothing of it: the table and the page held them against others without a word.
#[test]
fn live_runs_that_warm_up_otherwise_are_said_once() {
    let said = |drivers: &[DriverKind], warm_up| {
        let mut fabric = tree(2, 2, 2, true);
        fabric.experiments = vec![Experiment { warm_up: Span::from_secs(warm_up), ..experiment(20e6) }];
        let options = Options { drivers: drivers.to_vec(), ..Options::default() };
        let results = invented(&fabric, &plan(&fabric, &options).unwrap());
        [results.table_within(200), results.html()].map(|text| text.matches("iperf3 takes whole seconds").count())
    };
    assert_eq!(said(&BOTH, 0), [1, 1]);
    assert_eq!((said(&BOTH, 1), said(&[DriverKind::Live], 0), said(&[DriverKind::Sim], 0)), ([0; 2], [0; 2], [0; 2]));
    let table = results(&BOTH).table_within(200);
    let expected = "  live TCP warms up for 1 s and is measured for 1 s: iperf3 takes whole seconds\n  simulated runs warm up for 0.05 s and last 0.1 s\n";
    assert!(table.contains(expected), "{table}");
}

#[test]
fn a_page_says_of_live_flows_what_concerns_some() {
    let says = |drivers: &[DriverKind]| results(drivers).html().contains("live flows hash the ports");
    assert_eq!([says(&BOTH), says(&[DriverKind::Live]), says(&[DriverKind::Sim])], [true, true, false]);
}

#[test]
fn functions_without_ports_count_as_the_others() {
    let mut results = results(&[DriverKind::Sim]);
    assert!(!results.html().contains(" function"));
    (results.network.functions, results.network.function_ports) = (6, 2);
    assert!(results.html().contains("links, 6 functions<"), "{}", results.html());
}

#[test]
fn a_missed_expectation_fails_the_results() {
    let mut fabric = tree(2, 2, 2, true);
    fabric.experiments = vec![experiment(200e6)];
    let options = Options { drivers: vec![DriverKind::Sim], ..Options::default() };
    let results = invented(&fabric, &plan(&fabric, &options).unwrap());
    assert!(!results.passed());
    assert_eq!(results.verdicts().count(), 2, "one for each case with `spread: single`");
    assert!(results.html().contains("2 of 2 expectations missed"));
    assert!(results.table_within(200).contains("MISSED line 12: goodput-mean >= 20 Mbit/s"));
    assert!(self::results(&BOTH).passed());
}

#[test]
fn elections_between_distant_controllers_are_reported_without_live_runs() {
    let text = "controllers: { nodes: 3, delay: { min: 5ms, mean: 6ms } }\nexperiments:\n  far:\n    \
        cluster: { operations: [election], until: leader, requests: 2 }\n    vary: { pre-vote: [false, true] }\n    repeat: 2\n    \
        expect: { election-max: \"<= 1 s\" }\n    published: { election-mean: { where: { pre-vote: false }, is: 3.80 s } }\n";
    let source = fabric::Source { name: "far".to_owned(), text: text.to_owned() };
    let fabric = fabric::parse(&source).unwrap();
    let options = Options { drivers: BOTH.to_vec(), ..Options::default() };
    let results = crate::run(&source, &fabric, &options, &crate::Journal::in_memory()).unwrap().results;
    // Nothing is expected of live runs, since there are none.
    assert!(results.passed() && results.verdicts().count() == 2);
    let (table, html) = (results.table_within(200), results.html());
    for words in [
        "until another leads, 2 times a run",
        "pre-vote false",
        "published mean (s)",
        "pre-vote true against false: election-mean",
        "not run live: `delay` and `until: leader` are simulated",
    ] {
        assert!(table.contains(words), "{words}: {table}");
    }
    assert!(html.contains("not run live: ") && html.contains("until another leads, 2 times a run"));
}

#[test]
fn an_experiment_that_nothing_has_measured_is_shown_without_a_table() {
    let text = "controllers: { nodes: 3 }\nexperiments:\n  asked: { cluster: { operations: [create], requests: 5 } }\n  \
        killed: { cluster: { operations: [create], faults: [ { at: 1s, kill: leader } ] }, for: 3s }\n";
    let source = fabric::Source { name: "killed".to_owned(), text: text.to_owned() };
    let fabric = fabric::parse(&source).unwrap();
    let options = Options { drivers: vec![DriverKind::Sim], ..Options::default() };
    let results = crate::run(&source, &fabric, &options, &crate::Journal::in_memory()).unwrap().results;
    assert!(results.experiments[0].is_measured() && !results.experiments[1].is_measured());
    let (table, html) = (results.table_within(200), results.html());
    let (measured, not_measured) = table.split_once("\nkilled\n").unwrap();
    assert!(measured.contains('─') && !not_measured.contains('─'), "{table}");
    let not_measured_html = html.split_once("<code>killed</code>").unwrap().1.split_once("</section>").unwrap().0;
    assert!(!not_measured_html.contains("<table"), "{not_measured_html}");
    for shown in [not_measured, not_measured_html] {
        assert!(shown.contains("not simulated: "), "{shown}");
    }
}

/// The page without what its plots draw: tags, classes, and words.
fn skeleton(html: &str) -> String {
    let mut out = String::new();
    let mut rest = html;
    while let Some(start) = rest.find("<svg") {
        let end = rest[start..].find("</svg>").unwrap() + start + 6;
        let label = rest[start..].split("aria-label=\"").nth(1).and_then(|s| s.split('"').next()).unwrap();
        out.push_str(&rest[..start]);
        out.push_str("[drawing: ");
        out.push_str(label);
        out.push(']');
        rest = &rest[end..];
    }
    out.push_str(rest);
    let (head, body) = out.split_once("<style>").unwrap();
    head.to_owned() + body.split_once("</style>").unwrap().1
}

#[test]
fn the_structure_of_the_page() {
    insta::assert_snapshot!(skeleton(&results(&BOTH).html()));
}

/// Who reads the page has not seen what the terminal said.
#[test]
fn too_few_runs_are_said_on_the_page() {
    let mut results = results(&BOTH);
    let said = |results: &Results| results.html().contains("runs are wide, however alike");
    assert!(said(&results));
    results.experiments[0].repeat = 5;
    assert!(!said(&results));
}

#[test]
fn the_page_needs_no_network_and_escapes_what_it_is_given() {
    let mut results = results(&BOTH);
    results.network.name = "</title><script>alert(1)</script>".to_owned();
    results.network.nodes[0].name = "\"><img src=x>".to_owned();
    results.experiments[0].cases[0].labels.0[0].1 = "<b onclick='x'>".to_owned();
    let page = results.html();
    for forbidden in ["<script", "<img", "<b ", "http://", "https://", "url(", "@import", "src="] {
        assert!(!page.replace("src=x", "").contains(forbidden), "{forbidden} in the page");
    }
    assert_eq!(page.matches("<svg").count(), page.matches("</svg>").count());
}

/// A page of hundreds of cases has a small drawing of the network for each of them.
#[test]
fn small_drawings_have_their_nodes_once() {
    let page = results(&BOTH).html();
    let again: Vec<&str> = page.split("<use href=\"#").skip(1).filter_map(|rest| rest.split('"').next()).collect();
    assert!(!again.is_empty());
    for name in again {
        assert_eq!(page.matches(&format!("<g id=\"{name}\">")).count(), 1, "{name}");
    }
}

#[test]
fn tags_are_closed_in_order() {
    let page = results(&BOTH).html();
    let mut open: Vec<&str> = Vec::new();
    for piece in page.split('<').skip(1) {
        let tag = piece.split('>').next().unwrap();
        if tag.starts_with('!') || tag.ends_with('/') {
            continue;
        }
        let name = tag.trim_start_matches('/').split(|c: char| !c.is_ascii_alphanumeric()).next().unwrap();
        if ["meta", "br", "link"].contains(&name) {
            continue;
        }
        if tag.starts_with('/') {
            assert_eq!(open.pop(), Some(name), "</{name}> closes something else");
        } else {
            open.push(name);
        }
    }
    assert!(open.is_empty(), "{open:?} stay open");
}

#[test]
fn results_come_back_from_their_folder() {
    let folder = tempfile::tempdir().unwrap();
    let results = results(&BOTH);
    results.write(folder.path()).unwrap();
    let read = crate::load(folder.path()).unwrap();
    assert_eq!(read, results);
    assert_eq!(read.html(), results.html());
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 4, "nothing else is left there");
}

#[test]
fn a_broken_folder_says_which_file_and_line() {
    let folder = tempfile::tempdir().unwrap();
    let error = crate::load(folder.path()).unwrap_err().to_string();
    assert!(error.contains("reading") && error.contains("summary.json"), "{error}");
    results(&BOTH).write(folder.path()).unwrap();
    let samples = folder.path().join("samples.jsonl");
    let text = std::fs::read_to_string(&samples).unwrap();
    let first = text.lines().next().unwrap();
    std::fs::write(&samples, format!("{first}\n{{\"experiment\":1}}\n")).unwrap();
    let error = crate::load(folder.path()).unwrap_err().to_string();
    assert!(error.contains("samples.jsonl, line 2"), "{error}");
}

#[test]
fn the_data_has_a_line_for_each_metric() {
    let results = results(&BOTH);
    let csv = results.csv();
    // 4 cases x (19 metrics simulated + 17 live: timeouts and fast retransmits are not known there) + the header.
    assert_eq!(csv.lines().count(), 1 + 4 * (19 + 17));
    let json: serde_json::Value = serde_json::from_str(&results.json()).unwrap();
    assert_eq!(json["experiments"][0]["cases"][0]["labels"]["pattern"], "stride(1)");
    assert!(json["simulator"]["per-second"].as_f64().unwrap() > 0.0);
}

#[test]
fn live_against_simulated_for_people_and_programs() {
    let results = results(&BOTH);
    let comparison = results.compare_drivers(&[]).unwrap();
    insta::assert_snapshot!("drivers", comparison.table_within(140));
    let narrow = comparison.table_within(100);
    assert!(narrow.lines().all(|line| line.chars().count() <= 100), "{narrow}");
    let csv = comparison.csv();
    // 4 cases x the 6 metrics that are shown of traffic, + the header.
    assert_eq!(csv.lines().count(), 1 + 4 * 6);
    let columns = |line: &str| line.matches(',').count();
    let first = csv.lines().nth(1).unwrap();
    assert!(first.starts_with("scatter,\"stride(1), single\",goodput-mean,3,"), "{first}");
    assert_eq!(columns(first), columns(csv.lines().next().unwrap()) + 1, "one comma stands in a label");
    let json: serde_json::Value = serde_json::from_str(&comparison.json()).unwrap();
    let metric = &json["experiments"][0]["cases"][0]["metrics"][0];
    assert_eq!((metric["metric"].as_str(), metric["within"].as_bool()), (Some("goodput-mean"), Some(true)));
    assert_eq!(metric["tolerance"]["relative"], 0.05);
    assert!(json["flows"][0]["goodput-bps"]["live"].is_f64() && json["links"][0]["drops"]["sim"].is_f64());
    assert!(!self::results(&[DriverKind::Sim]).html().contains("Live against simulated"));
}

#[test]
fn packets_that_the_machine_lost_are_reported() {
    let mut results = results(&BOTH);
    let warning = "live: 12 packets lost in the machine, not in a link: the machine is too slow for these rates";
    assert!(
        !results.table_within(200).contains("lost in the machine") && !results.html().contains("lost in the machine")
    );
    for record in results.records.iter_mut().filter(|record| record.driver == DriverKind::Live) {
        record.lost_outside_links = Some(1);
    }
    assert!(results.table_within(200).contains(warning) && results.html().contains(warning));
}

#[test]
fn a_report_alone_leaves_the_measurements() {
    let folder = tempfile::tempdir().unwrap();
    results(&BOTH).write_report(folder.path()).unwrap();
    let names: Vec<_> = std::fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(names, ["report.html"]);
    assert!(results(&BOTH).write_report(&folder.path().join("nosuch")).is_err());
}
