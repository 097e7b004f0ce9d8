//! Programs that hosts start with the network: shown, followed, stopped and started again.

use std::io::{BufRead as _, BufReader};
use std::process::{Child, Stdio};

use crate::chains::await_that;
use crate::live::{Guard, may_run};
use crate::network_commands::json;
use crate::program::Desk;

#[test]
fn programs_of_hosts_are_shown_and_those_that_fail_are_named() {
    if !may_run() {
        return;
    }
    let desk = Desk::new();
    desk.write(
        "web.fabric.yaml",
        "nodes:\n  h1: { kind: host, programs: { good: [sleep, '1000'], bad: no-such-program }, files: { /etc/heddle-shown: there } }\n  h2: host\nlinks: [{ between: [h1, h2] }]\n",
    );
    let guard = Guard(desk);
    let desk = &guard.0;
    let (stdout, _) = desk.expect(0, &["show", "programs", "web.fabric.yaml", "-o", "csv"]);
    assert_eq!(
        stdout,
        "host,program,restart,command\nh1,good,on-failure,sleep 1000\nh1,bad,on-failure,no-such-program\n"
    );
    let (_, stderr) = desk.expect(0, &["up", "web.fabric.yaml"]);
    assert!(stderr.contains("program bad of host h1 does not run: exit status: 127"), "{stderr}");
    let (stdout, _) = desk.expect(0, &["show", "programs", "-o", "json"]);
    let rows: serde_json::Value = serde_json::from_str(&stdout).expect("JSON");
    assert_eq!(
        (&rows[1]["program"], &rows[1]["state"], &rows[1]["starts"]),
        (&"good".into(), &"running".into(), &1.into())
    );
    let output = rows[0]["output"].as_str().expect("a path");
    assert!(std::fs::read_to_string(output).expect("it is there").contains("no-such-program"));
    assert_eq!(desk.expect(0, &["exec", "h1", "cat", "/etc/heddle-shown"]).0, "there\n");
}

/// What a program leaves behind ends with it; one that is not wanted any more is asked once.
#[test]
fn programs_are_asked_once_and_their_children_end_with_them() {
    if !may_run() {
        return;
    }
    let desk = Desk::new();
    let asked = "trap 'echo term >> terms' TERM; echo ready > ready; while :; do sleep 0.05; done";
    let leaves = "sleep 1000 & echo $! > child.new; mv child.new child";
    let file = |programs: &str| {
        format!("nodes:\n  h1: {{ kind: host{programs} }}\n  h2: host\nlinks: [{{ between: [h1, h2] }}]\n")
    };
    let programs = format!(", programs: {{ asked: [sh, -c, {asked:?}], leaves: [sh, -c, {leaves:?}] }}");
    desk.write("web.fabric.yaml", &file(&programs));
    let guard = Guard(desk);
    let desk = &guard.0;
    desk.expect(0, &["up", "web.fabric.yaml"]);
    let there = |name: &str| desk.path().join(name);
    await_that("the beginning of both", || there("ready").exists() && there("child").exists());
    let child = std::fs::read_to_string(there("child")).expect("it was written");
    let process = std::path::Path::new("/proc").join(child.trim());
    await_that("the end of the child", || !process.exists());
    desk.write("web.fabric.yaml", &file(""));
    desk.expect(0, &["up", "web.fabric.yaml"]);
    assert_eq!(std::fs::read_to_string(there("terms")).expect("it was asked"), "term\n");
}

/// A program that does not end when it is asked to is ended.
#[test]
fn programs_that_do_not_heed_are_ended() {
    if !may_run() {
        return;
    }
    let desk = Desk::new();
    let stubborn = "trap '' TERM; echo $$ > stubborn.new; mv stubborn.new stubborn; while :; do sleep 0.05; done";
    desk.write(
        "stubborn.fabric.yaml",
        &format!("nodes:\n  h1: {{ kind: host, programs: {{ stubborn: [sh, -c, {stubborn:?}] }} }}\n  h2: host\nlinks: [{{ between: [h1, h2] }}]\n"),
    );
    let guard = Guard(desk);
    let desk = &guard.0;
    desk.expect(0, &["up", "stubborn.fabric.yaml"]);
    await_that("its beginning", || desk.path().join("stubborn").exists());
    let process = std::path::Path::new("/proc").join(desk.read("stubborn").trim());
    assert!(process.exists());
    desk.expect(0, &["down"]);
    await_that("its end", || !process.exists());
}

#[test]
fn what_programs_say_is_printed_and_followed() {
    if !may_run() {
        return;
    }
    let desk = Desk::new();
    let talks = "echo one; echo two >&2; until [ -e go ]; do sleep 0.05; done; echo three; printf four; sleep 1000";
    desk.write(
        "talk.fabric.yaml",
        &format!(
            "nodes:\n  h1: {{ kind: host, programs: {{ talks: [sh, -c, {talks:?}] }} }}\n  h2: {{ kind: host, programs: {{ ends: echo over }} }}\n  h3: host\n  s1: switch\n\
             links: [{{ between: [h1, s1] }}, {{ between: [h2, s1] }}, {{ between: [h3, s1] }}]\n"
        ),
    );
    let guard = Guard(desk);
    let desk = &guard.0;
    desk.expect(0, &["up", "talk.fabric.yaml"]);
    let said = |args: &[&str]| desk.expect(0, &[&["logs"], args].concat()).0;
    await_that("what both say", || {
        said(&[]).contains("h1.talks | two\n") && said(&["h2"]).contains("-- exit status: 0")
    });
    assert!(said(&["h2"]).starts_with("h2.ends | -- started as process ") && !said(&["h2"]).contains("h1"));
    assert_eq!(said(&["h1", "talks", "--tail", "2"]), "one\ntwo\n");
    let rows = json(&said(&["h1", "talks", "--tail", "1", "-o", "json"]));
    assert_eq!(rows, serde_json::json!([{ "host": "h1", "program": "talks", "line": "two" }]));
    for (args, expected) in [
        (&["logs", "h3"][..], "host `h3` has no programs"),
        (&["logs", "h9"], "there is no host `h9`"),
        (&["logs", "h1", "ends"], "there is no program `ends`"),
    ] {
        let (_, stderr) = desk.expect(2, args);
        assert!(stderr.contains(expected), "{args:?}: {stderr}");
    }
    let mut following = desk.command(&["logs", "h1", "--follow", "--tail", "1"]);
    let mut following = following.stdout(Stdio::piped()).spawn().expect("it can be started");
    let mut stdout = std::io::BufReader::new(following.stdout.take().expect("it is piped"));
    let mut line = String::new();
    std::io::BufRead::read_line(&mut stdout, &mut line).expect("it is text");
    assert_eq!(line, "h1.talks | two\n");
    desk.write("go", "");
    line.clear();
    std::io::BufRead::read_line(&mut stdout, &mut line).expect("it is text");
    assert_eq!(line, "h1.talks | three\n");
    desk.expect(0, &["down"]);
    // The network's end is theirs.
    let mut rest = String::new();
    std::io::Read::read_to_string(&mut stdout, &mut rest).expect("it is text");
    assert!(format!("{line}{rest}").contains("h1.talks | four"), "{line}{rest}");
    assert!(following.wait().expect("it ends").success());
}

/// A program that was stopped stays so, and is started again when it is asked for.
#[test]
fn programs_are_stopped_started_and_restarted() {
    if !may_run() {
        return;
    }
    let desk = Desk::new();
    desk.write(
        "two.fabric.yaml",
        "nodes:\n  h1: { kind: host, programs: { one: { run: [sleep, '1000'], restart: always }, two: [sleep, '1001'] } }\n  h2: host\nlinks: [{ between: [h1, h2] }]\n",
    );
    let guard = Guard(desk);
    let desk = &guard.0;
    desk.expect(0, &["up", "two.fabric.yaml"]);
    let run = |args: &[&str]| {
        let rows = json(&desk.expect(0, &[&["program"], args, &["-o", "json"]].concat()).0);
        rows.as_array().expect("rows").clone()
    };
    let state = |program: &str| {
        let rows = json(&desk.expect(0, &["show", "programs", "-o", "json"]).0);
        let found = rows.as_array().expect("rows").iter().find(|row| row["program"] == program).cloned();
        found.expect("it is shown")
    };
    await_that("both run", || ["one", "two"].iter().all(|it| state(it)["state"] == "running"));
    let (one, two) = (state("one")["pid"].clone(), state("two")["pid"].clone());
    let stopped = run(&["stop", "h1", "one"]);
    assert_eq!((stopped.len(), &stopped[0]["state"]), (1, &"stopped".into()));
    let process = std::path::Path::new("/proc").join(one.to_string());
    await_that("its end", || !process.exists());
    // The file as it is starts nothing.
    let (_, stderr) = desk.expect(0, &["up", "two.fabric.yaml"]);
    assert!(stderr.contains("program one of host h1 is stopped (hint: heddle program start h1 one)"), "{stderr}");
    assert_eq!(state("one")["state"], "stopped");
    run(&["start", "h1"]);
    await_that("it runs again", || state("one")["state"] == "running");
    assert_eq!((&state("one")["starts"], &state("two")["pid"]), (&2.into(), &two));
    run(&["restart", "h1", "two"]);
    await_that("another process runs", || state("two")["state"] == "running" && state("two")["pid"] != two);
    assert_eq!(state("two")["starts"], 2);
    assert_eq!(run(&["restart", "h1", "one"])[0]["state"], "running", "it has begun");
    // Where nothing can be written, it is said why, and the program is not forgotten.
    let log = state("one")["output"].as_str().expect("a path").to_owned();
    std::fs::rename(&log, format!("{log}.old")).expect("it is there");
    std::fs::create_dir(&log).expect("it has gone");
    let failed = run(&["restart", "h1", "one"])[0].clone();
    let why = failed["last-end"].as_str().expect("a reason");
    assert!(failed["state"] == "ended" && why.contains("cannot be started"), "{failed}");
    std::fs::remove_dir(&log).expect("it is empty");
    assert_eq!(run(&["start", "h1", "one"])[0]["state"], "running");
    for (args, expected) in [
        (&["program", "stop", "h2"][..], "host `h2` has no programs"),
        (&["program", "start", "h9"], "there is no host `h9`"),
        (&["program", "restart", "h1", "three"], "there is no program `three`"),
    ] {
        let (_, stderr) = desk.expect(2, args);
        assert!(stderr.contains(expected), "{args:?}: {stderr}");
    }
}

/// Programs that ignore SIGTERM end with their hosts, all at one time; those of hosts that stay go on.
#[test]
fn programs_end_with_their_hosts_however_many_there_are() {
    if !may_run() {
        return;
    }
    let desk = Desk::new();
    desk.write("lab.fabric.yaml", "name: lab\ntopology: { single: { hosts: 5 } }\n");
    let guard = Guard(desk);
    let desk = &guard.0;
    desk.expect(0, &["up", "lab.fabric.yaml"]);
    let start = |host: &str| {
        let mut command = desk.command(&["exec", host, "sh", "-c", "trap '' TERM; echo ready; exec sleep 1000"]);
        let mut child = command.stdout(Stdio::piped()).spawn().expect("it can be started");
        let mut ready = String::new();
        let said = child.stdout.take().expect("it is piped");
        BufReader::new(said).read_line(&mut ready).expect("UTF-8");
        assert_eq!(ready, "ready\n");
        child
    };
    let mut all: Vec<Child> = ["h1", "h3", "h4", "h5"].into_iter().map(start).collect();
    desk.write("lab.fabric.yaml", "name: lab\ntopology: { single: { hosts: 2 } }\n");
    desk.expect(0, &["up", "lab.fabric.yaml"]);
    for ended in &mut all[1..] {
        assert!(!ended.wait().expect("it is ours").success());
    }
    assert!(all[0].try_wait().expect("it is ours").is_none(), "h1 stays");
    desk.expect(0, &["down"]);
    all[0].wait().expect("it is ours");
}
