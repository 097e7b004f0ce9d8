//! Service chains with functions in network namespaces: live, by the program.

use std::io::{BufRead as _, BufReader};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::live::{Guard, may_run, up};
use crate::program::Desk;

/// What does not happen within this does not happen.
const PATIENCE: Duration = Duration::from_secs(60);

/// Two hosts at two switches, a function at each; those name no program, so that Heddle passes frames on.
fn lab(on_failure: &str) -> String {
    format!(
        "\
nodes: {{ h1: host, h2: host, s1: switch, s2: switch }}
links: [{{ between: [h1, s1] }}, {{ between: [h2, s2] }}, {{ between: [s1, s2] }}]
functions:
  fw: {{ at: s1 }}
  ids: {{ at: [s2, s1] }}
chains:
  all: {{ from: h1, to: h2, functions: [fw, ids], on-failure: {on_failure} }}
"
    )
}

/// A cell of `show chains`: of this course, in the row of this hop.
fn cell(desk: &Desk, course: &str, hop: &str, column: &str) -> Value {
    let text = desk.expect(0, &["show", "chains", "-o", "json"]).0;
    let rows: Value = serde_json::from_str(&text).expect("it is JSON");
    let rows = rows.as_array().expect("rows");
    let row = rows.iter().find(|row| row["course"] == course && row["hop"] == hop);
    row.unwrap_or_else(|| panic!("no {hop} in {text}"))[column].clone()
}

/// Waits until this holds.
pub fn await_that(what: &str, mut holds: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !holds() {
        assert!(begun.elapsed() < PATIENCE, "{what} does not come");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// The process of a function's program, once it passes frames on.
fn pid(desk: &Desk, host: &str) -> String {
    let mut pid = String::new();
    await_that("the program", || {
        let rows: Value =
            serde_json::from_str(&desk.expect(0, &["show", "programs", "-o", "json"]).0).expect("it is JSON");
        let row = rows.as_array().and_then(|rows| rows.iter().find(|row| row["host"] == host).cloned());
        pid = row.and_then(|row| row["pid"].as_i64()).map(|pid| pid.to_string()).unwrap_or_default();
        !pid.is_empty()
    });
    pid
}

/// Sends a signal to a process.
pub fn signal(pid: &str, signal: &str) {
    assert!(Command::new("kill").args([signal, pid]).status().expect("there is kill").success());
}

/// Whether h2 answers one question.
fn answers(desk: &Desk) -> bool {
    desk.heddle(&["exec", "h1", "ping", "-c", "1", "-W", "1", "h2"]).status.success()
}

#[test]
fn packets_pass_functions_both_ways_and_a_file_shows_them() {
    if !may_run() {
        return;
    }
    let Guard(desk) = &up(&lab("block"));
    await_that("an answer through both functions", || answers(desk));
    let passed = |course: &str, hop: &str| cell(desk, course, hop, "out-packets").as_u64().expect("a count");
    for course in ["forward", "reverse"] {
        assert!(passed(course, "fw") > 0 && passed(course, "ids") > 0, "{course}");
    }
    // A connection of many segments, which stay whole on their way through the functions.
    let (said, _) = desk.expect(0, &["iperf", "h1", "h2", "-t", "1"]);
    assert!(said.contains("bit/s"), "{said}");
    let (text, _) = desk.expect(0, &["show", "chains", "lab.fabric.yaml", "-o", "csv"]);
    assert_eq!(text.lines().nth(1), Some("all,h1,h2,,fw ids,both,block"), "{text}");
    // A function is no host that others talk to.
    let (hosts, _) = desk.expect(0, &["exec", "h1", "cat", "/etc/hosts"]);
    assert!(!hosts.contains("fw"), "{hosts}");
    let (devices, _) = desk.expect(0, &["exec", "ids", "ip", "-br", "address"]);
    assert!(devices.contains("eth0") && devices.contains("eth1") && !devices.contains("10."), "{devices}");
    // The chain goes, and packets go on without it.
    desk.write("lab.fabric.yaml", &lab("block").replace("functions: [fw, ids]", "functions: [ids]"));
    desk.expect(0, &["up", "lab.fabric.yaml"]);
    let before = cell(desk, "forward", "ids", "out-packets").as_u64().expect("a count");
    await_that("an answer through one function", || answers(desk));
    assert!(cell(desk, "forward", "ids", "out-packets").as_u64().expect("a count") > before);
}

/// A bridge looks for neighbours, and `show chains` had a row `for nobody`.
#[test]
fn what_a_function_itself_sends_to_groups_is_none_of_the_chains() {
    if !may_run() {
        return;
    }
    let Guard(desk) = &up(&lab("block"));
    await_that("an answer through both functions", || answers(desk));
    let strays = || {
        let text = desk.expect(0, &["show", "counters", "-o", "json"]).0;
        let rows: Value = serde_json::from_str(&text).expect("it is JSON");
        let row = rows.as_array().and_then(|rows| rows.iter().find(|row| row["to"] == "stray in a chain").cloned());
        row.and_then(|row| row["drops"].as_u64()).unwrap_or_default()
    };
    let before = strays();
    // Who has no address asks whether somebody has one.
    let asks = "import socket; s = socket.socket(socket.AF_PACKET, socket.SOCK_RAW); s.bind(('eth0', 0)); s.send(bytes.fromhex('333300000001020000000001') + b'\\x86\\xdd' + bytes(60))";
    desk.expect(0, &["exec", "fw", "python3", "-c", asks]);
    await_that("what it has sent", || strays() > before);
    let (rows, _) = desk.expect(0, &["show", "chains", "-o", "csv"]);
    assert!(!rows.contains("for nobody"), "{rows}");
}

#[test]
fn a_function_that_hangs_is_passed_by_and_comes_back() {
    if !may_run() {
        return;
    }
    let Guard(desk) = &up(&lab("bypass"));
    await_that("an answer through both functions", || answers(desk));
    let program = pid(desk, "fw");
    signal(&program, "-STOP");
    await_that("an answer past the function", || {
        answers(desk) && cell(desk, "forward", "fw", "state").as_str().is_some_and(|state| state.starts_with("down"))
    });
    assert!(cell(desk, "forward", "bypasses", "in-packets").as_u64().is_some_and(|packets| packets > 0));
    signal(&program, "-CONT");
    await_that("the function", || answers(desk) && cell(desk, "forward", "fw", "state") == "up");
    assert!(cell(desk, "forward", "fw", "failures").as_u64().is_some_and(|failures| failures > 0));
}

#[test]
fn a_function_that_dies_blocks_until_its_program_is_started_again() {
    if !may_run() {
        return;
    }
    let Guard(desk) = &up(&lab("block"));
    await_that("an answer through both functions", || answers(desk));
    let program = pid(desk, "ids");
    signal(&program, "-KILL");
    await_that("a failure", || {
        answers(desk);
        cell(desk, "forward", "ids", "failures").as_u64().is_some_and(|failures| failures > 0)
    });
    // The daemon starts it again.
    await_that("an answer", || answers(desk) && cell(desk, "forward", "ids", "state") == "up");
    assert_ne!(pid(desk, "ids"), program);
}

/// Two hosts at two switches, and one that watches; built-in functions before and behind one with ports.
const BUILT_IN: &str = "\
nodes: { h1: host, h2: host, h3: host, s1: switch, s2: switch }
links: [{ between: [h1, s1] }, { between: [h2, s2] }, { between: [h3, s2] }, { between: [s1, s2] }]
functions:
  count: { kind: counter }
  fw: { at: s1 }
  wall: { kind: firewall, inbound: [{ allow: 'tcp,tp_dst=8080' }, { allow: 'tcp,tp_dst=80' }] }
  nat: { kind: nat, source: 10.0.9.1, forwards: [{ port: 8080, to: h1, to-port: 80 }] }
  tap: { kind: mirror, to: h3 }
chains:
  all: { from: h1, to: h2, functions: [count, fw, wall, nat, tap] }
";

/// From whom a server in one host has a connection that a program in another one asks for; nothing if it is not let in.
fn connects(desk: &Desk, (at, port): (&str, u16), (from, to, to_port): (&str, &str, u16)) -> Option<String> {
    let (port, to_port) = (port.to_string(), to_port.to_string());
    let mut command = desk.command(&["exec", at, "iperf3", "-s", "-1", "-p", &port, "--forceflush"]);
    let mut server = command.stdout(Stdio::piped()).spawn().expect("it starts");
    let mut lines = BufReader::new(server.stdout.take().expect("it is piped")).lines().map_while(Result::ok);
    assert!(lines.any(|line| line.contains("listening")), "the server has ended");
    let client = ["exec", from, "iperf3", "-c", to, "-p", &to_port, "-n", "10K", "--connect-timeout", "2000"];
    if !desk.heddle(&client).status.success() {
        let _ = server.kill();
        let _ = server.wait();
        return None;
    }
    let from =
        lines.find_map(|line| Some(line.split_once("Accepted connection from ")?.1.split(',').next()?.to_owned()));
    let _ = server.wait();
    from
}

#[test]
fn built_in_functions_let_pass_what_they_should() {
    if !may_run() {
        return;
    }
    let Guard(desk) = &up(BUILT_IN);
    await_that("an answer through all functions", || answers(desk));
    let address = |host: &str| {
        let text = desk.expect(0, &["show", "nodes", "-o", "json"]).0;
        let rows: Value = serde_json::from_str(&text).expect("it is JSON");
        let row = rows.as_array().and_then(|rows| rows.iter().find(|row| row["name"] == host).cloned());
        row.and_then(|row| Some(row["ipv4"].as_str()?.split('/').next()?.to_owned()))
            .unwrap_or_else(|| panic!("{text}"))
    };
    let (h1, h2) = (address("h1"), address("h2"));
    // Who connects seems to be another one.
    assert_eq!(connects(desk, ("h2", 90), ("h1", &h2, 90)).as_deref(), Some("10.0.9.1"));
    // Nobody is let in but at the ports that rules allow, and one of them leads to another one.
    assert_eq!(connects(desk, ("h1", 90), ("h2", &h1, 90)), None);
    assert_eq!(connects(desk, ("h1", 80), ("h2", "10.0.9.1", 8_080)).as_deref(), Some(&*h2));
    // A connection of many segments, which stay whole on their way.
    let (said, _) = desk.expect(0, &["iperf", "h1", "h2", "-t", "1"]);
    assert!(said.contains("bit/s"), "{said}");
    let counted = |hop: &str, what: &str| cell(desk, "forward", hop, "counted")[what].as_u64().unwrap_or(0);
    assert!(counted("count", "tcp") > 0 && counted("count", "tcp bytes") > 0 && counted("count", "icmp") > 0);
    assert!(counted("wall", "inbound deny by default") > 0 && counted("wall", "inbound allow tcp,tp_dst=80") > 0);
    assert!(counted("nat", "translated") > 0);
    let copies = |course: &str| cell(desk, course, "tap", "out-packets").as_u64().expect("a count");
    let shown = copies("forward") + copies("reverse");
    let links: Value =
        serde_json::from_str(&desk.expect(0, &["show", "counters", "-o", "json"]).0).expect("it is JSON");
    let to_h3: u64 = links
        .as_array()
        .into_iter()
        .flatten()
        .filter(|row| row["from"] == "s2" && row["to"] == "h3")
        .filter_map(|row| row["packets"].as_u64())
        .sum();
    assert!(to_h3 >= shown && shown > 0, "{to_h3} of {shown}: {links}");
    // What the file changes elsewhere, functions do not notice.
    let before = counted("count", "tcp");
    desk.write("lab.fabric.yaml", &BUILT_IN.replace("wall, nat, tap]", "wall, nat]"));
    desk.expect(0, &["up", "lab.fabric.yaml"]);
    assert!(counted("count", "tcp") >= before);
}

/// The block of built-in functions in the recipes, in a network of four hosts.
#[test]
fn the_recipe_of_built_in_functions_does_what_it_says() {
    if !may_run() {
        return;
    }
    let recipes = include_str!("../../../docs/recipes.md");
    let (_, section) = recipes.split_once("\n### Built-in functions").expect("there is the section");
    let (_, block) = section.split_once("```yaml\n").expect("it has a block");
    let (block, commands) = block.split_once("```").expect("which ends");
    assert!(commands.contains("heddle exec h3 -- curl 10.0.9.1:8080"), "its command is what is tried here");
    let nodes = "nodes: { h1: host, h2: host, h3: host, h4: host, s1: switch }\n";
    let links = ["h1", "h2", "h3", "h4"].map(|host| format!("{{ between: [{host}, s1] }}")).join(", ");
    let Guard(desk) = &up(&format!("{nodes}links: [{links}]\n{block}"));
    assert!(connects(desk, ("h1", 80), ("h3", "10.0.9.1", 8_080)).is_some());
    assert_eq!(connects(desk, ("h1", 90), ("h3", "10.0.9.1", 90)), None);
    // By its own address, too.
    for family in ["-4", "-6"] {
        let ping = desk.heddle(&["exec", "h3", "ping", family, "-c", "1", "-W", "5", "h1"]);
        assert!(ping.status.success(), "{family}: {}", String::from_utf8_lossy(&ping.stdout));
    }
}

/// What is for an address that only a function has is another packet when a switch sees it.
#[test]
fn a_trace_translates_as_functions_do() {
    if !may_run() {
        return;
    }
    let Guard(desk) = &up(&BUILT_IN.replace("[count, fw, wall, nat, tap]", "[count, wall, nat]"));
    let trace = |packet: &str| desk.expect(0, &["trace", "s2", packet]).0;
    let traced = trace("in_port=h2,tcp,nw_src=h2,nw_dst=10.0.9.1,tp_dst=8080");
    assert!(
        traced.contains("The function `nat` has translated it where it left h2: nw_dst=10.0.0.1, tp_dst=80"),
        "{traced}"
    );
    assert!(
        traced.contains("The chain `all` (reverse) takes it where it leaves h2: nat (nat), wall (firewall)"),
        "{traced}"
    );
    assert!(traced.contains("NORMAL, to h1 by port") && traced.contains("h1 gets it"), "{traced}");
    // No port of its is forwarded but that one.
    let traced = trace("in_port=h2,tcp,nw_dst=10.0.9.1,tp_dst=8081");
    assert!(traced.contains("It does not come here: nat (nat) drops it: "), "{traced}");
    assert!(traced.contains("If it came here: ") && !traced.contains("Done: "), "{traced}");
    let traced = trace("tcp,nw_dst=10.0.9.1,tp_dst=8080");
    assert!(traced.contains("10.0.9.1 is an address of a function of a chain"), "{traced}");
    // In the other direction it is the source that switches see.
    desk.expect(0, &["flow", "add", "s1", "priority=50,tcp,nw_src=10.0.9.1,tp_dst=80,actions=drop"]);
    for packet in ["in_port=h1,tcp,nw_dst=h2,tp_dst=80", "tcp,nw_src=h1,nw_dst=h2,tp_src=4000,tp_dst=80"] {
        let traced = desk.expect(0, &["trace", "s1", packet]).0;
        assert!(
            traced.contains("The function `nat` has translated it where it left h1: nw_src=10.0.9.1, tp_src="),
            "{traced}"
        );
        assert!(traced.contains("priority=50") && !traced.contains("h2 gets it"), "{traced}");
    }
    // It has no ports.
    let traced = desk.expect(0, &["trace", "s1", "in_port=h1,icmp,nw_dst=h2,icmp_type=8"]).0;
    assert!(traced.contains("it left h1: nw_src=10.0.9.1\n") && traced.contains("h2 gets it"), "{traced}");
}

/// What the sender's own link loses, no function has lost.
#[test]
fn a_function_is_not_blamed_for_what_is_lost_before_it() {
    if !may_run() {
        return;
    }
    let text = lab("block").replace("between: [h1, s1]", "between: [h1, s1], rate: 5Mbit, queue: 2");
    let Guard(desk) = &up(&text);
    await_that("an answer through the functions", || answers(desk));
    desk.expect(0, &["iperf", "h1", "h2", "-u", "-b", "50M", "-t", "1"]);
    let count = |hop: &str, column: &str| cell(desk, "forward", hop, column).as_u64().expect("a count");
    await_that("the last packet", || count("fw", "drops") == 0);
    assert!(count("fw", "lost-before") > 0, "the queue of its link is short");
    assert_eq!((count("ids", "lost-before"), count("ids", "drops")), (0, 0));
}

#[test]
fn a_rate_limit_drops_by_name() {
    if !may_run() {
        return;
    }
    let text = lab("block").replace("  fw: { at: s1 }\n", "  fw: { kind: rate-limit, rate: 8Mbit }\n");
    let Guard(desk) = &up(&text);
    await_that("an answer through the functions", || answers(desk));
    desk.expect(0, &["iperf", "h1", "h2", "-t", "1"]);
    let counted = cell(desk, "forward", "fw", "counted");
    assert!(counted["too fast forward"].as_u64().is_some_and(|packets| packets > 0), "{counted}");
    let drops = cell(desk, "forward", "fw", "drops").as_u64().expect("a count");
    let counters: Value =
        serde_json::from_str(&desk.expect(0, &["show", "counters", "-o", "json"]).0).expect("it is JSON");
    let rows = counters.as_array().into_iter().flatten();
    let by_name: u64 = rows
        .filter(|row| row["to"] == "dropped by a function of a chain")
        .filter_map(|row| row["drops"].as_u64())
        .sum();
    assert!(drops > 0 && by_name >= drops, "{drops} of {by_name}");
    assert_eq!(cell(desk, "forward", "fw", "state"), "rate-limit");
    let (file, _) = desk.expect(0, &["show", "chains", "lab.fabric.yaml", "-o", "csv"]);
    assert!(file.contains("fw(rate-limit) ids"), "{file}");
}

#[test]
fn a_path_leads_through_the_functions_of_a_chain() {
    let desk = Desk::new();
    let text = BUILT_IN.replace("to: h2, functions", "to: h2, match: 'tcp,tp_dst=80', functions");
    desk.write("lab.fabric.yaml", &text);
    let path = |args: &[&str]| desk.expect(0, &[&["path", "h1", "h2", "lab.fabric.yaml"], args].concat());
    let (said, _) = path(&["--port", "80", "--source-port", "4000"]);
    assert!(
        said.contains(
            "They pass the chain `all`, forward: count (counter), fw, wall (firewall), nat (nat), tap (mirror)"
        ),
        "{said}"
    );
    assert!(said.contains("h1 - s1 - fw\n") && said.contains("fw.out - s1 - s2 - h2\n"), "{said}");
    let (rows, _) = path(&["--port", "80", "--source-port", "4000", "-o", "json"]);
    let rows: Value = serde_json::from_str(&rows).expect("it is JSON");
    let hops = rows["hops"].as_array().expect("rows").iter();
    let links: Vec<(&str, &str)> = hops.filter_map(|row| Some((row["kind"].as_str()?, row["by"].as_str()?))).collect();
    let expected = [
        ("function", "count (counter)"),
        ("link", "h1-s1"),
        ("link", "fw-s1"),
        ("function", "fw"),
        ("function", "wall (firewall)"),
        ("function", "nat (nat)"),
        ("function", "tap (mirror)"),
        ("link", "fw.out-s1"),
        ("link", "s1-s2"),
        ("link", "h2-s2"),
    ];
    assert_eq!(links, expected, "{rows}");
    let (said, _) = path(&["--port", "81", "--source-port", "4000"]);
    assert!(said.contains("h1 - s1 - s2 - h2\n") && !said.contains("chain"), "{said}");
    let (_, note) = path(&[]);
    assert!(note.contains("The chain `all` takes packets of these that match `tcp,tp_dst=80`"), "{note}");
    for others in [&["--protocol", "udp"][..], &["--port", "81"], &["--port", "81", "--source-port", "4000"]] {
        let (_, note) = path(others);
        assert!(note.contains("The chain `all` takes what matches `tcp,tp_dst=80`, and not these.\n"), "{note}");
    }
    // What comes back passes them in reverse order.
    let back = ["path", "h2", "h1", "lab.fabric.yaml", "--port", "4000", "--source-port", "80"];
    let (said, _) = desk.expect(1, &back);
    assert!(said.contains("Only answers come through") && !said.contains("answers-only"), "{said}");
    assert!(said.contains("reverse: tap (mirror), nat (nat), wall (firewall), fw, count (counter)"), "{said}");
}
