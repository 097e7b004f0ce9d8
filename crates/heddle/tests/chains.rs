//! Service chains with functions in network namespaces: live, by the program.

use std::process::Command;
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
