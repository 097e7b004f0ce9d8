//! Virtual machines of the file, by the program: their hypervisors start with the network, attach to its sockets, and end with it. What boots here is a script in place of a
//! kernel, but for the last test; benches/guests.sh boots Linux as well.

use std::os::unix::net::UnixStream;
use std::process::Command;

use serde_json::Value;

use crate::chains::{await_that, signal};
use crate::live::{Guard, may_run, up};
use crate::program::Desk;

const FILE: &str = "\
nodes:
  h1: host
  s1: switch
  vm1: { kind: vm, kernel: kernel, memory: 64M, run: [echo, a guest] }
links: [{ between: [h1, s1] }, { between: [vm1, s1] }]
";

/// Says what it was started with.
const KERNEL: &str = "#!/bin/sh\nfor word in \"$@\"; do echo \"word $word\"; done\nexec sleep 1000\n";

fn program(desk: &Desk) -> Value {
    let rows: Value = serde_json::from_str(&desk.expect(0, &["show", "programs", "-o", "json"]).0).expect("JSON");
    rows[0].clone()
}

#[test]
fn a_virtual_machine_starts_with_its_network_and_ends_with_it() {
    if !may_run() {
        return;
    }
    let desk = Desk::new();
    desk.write("lab.fabric.yaml", FILE);
    desk.write("kernel", KERNEL);
    std::fs::set_permissions(desk.path().join("kernel"), std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let guard = Guard(desk);
    let desk = &guard.0;
    desk.expect(0, &["up", "lab.fabric.yaml"]);
    let mut output = String::new();
    await_that("the guest", || {
        let path = program(desk)["output"].as_str().expect("a path").to_owned();
        output = std::fs::read_to_string(path).unwrap_or_default();
        output.contains("word heddle.mtu=")
    });
    let word = |beginning: &str| {
        let found = output.lines().find_map(|line| line.strip_prefix(&format!("word {beginning}")));
        found.unwrap_or_else(|| panic!("no {beginning} in {output}")).to_owned()
    };
    assert_eq!(word("mem="), "65536K");
    let socket = word("virtio_uml.device=");
    let socket = socket.strip_suffix(":1:1").expect("a network card");
    UnixStream::connect(socket).expect("the network listens there");
    // What it finds when it boots.
    let folder = word("HEDDLE_GUEST=");
    let read = |name: &str| std::fs::read_to_string(format!("{folder}/{name}")).expect("it is there");
    assert!(read("run").ends_with("'echo' 'a guest'\n") && read("network").contains("ip addr add 10.0.0.2/8 dev eth0"));
    // One that dies is started again.
    let first = program(desk)["pid"].as_i64().expect("it runs");
    signal(&first.to_string(), "-KILL");
    await_that("another one", || program(desk)["pid"].as_i64().is_some_and(|pid| pid != first));
    let last = program(desk)["pid"].as_i64().expect("it runs");
    desk.expect(0, &["down"]);
    await_that("its end", || !std::path::Path::new(&format!("/proc/{last}")).exists());
}

#[test]
fn a_guest_ends_as_its_command_does() {
    if !may_run() {
        return;
    }
    let desk = Desk::new();
    desk.write("lab.fabric.yaml", FILE);
    // The guest's first process writes it, and switches the machine off.
    let script =
        "#!/bin/sh\nfor word in \"$@\"; do case $word in HEDDLE_GUEST=*) echo 7 >${word#*=}/status;; esac; done\n";
    desk.write("kernel", script);
    std::fs::set_permissions(desk.path().join("kernel"), std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let guard = Guard(desk);
    let desk = &guard.0;
    desk.expect(0, &["up", "lab.fabric.yaml"]);
    await_that("its end", || program(desk)["last-end"] == "exit status: 7");
    // It has failed, and is started again.
    await_that("another start", || program(desk)["starts"].as_u64() > Some(1));
    desk.expect(0, &["down"]);
}

#[test]
fn a_guest_is_refused_where_its_kernel_could_not_be_given_its_paths() {
    if !may_run() {
        return;
    }
    let desk = Desk::new();
    desk.write("lab.fabric.yaml", FILE);
    let runtime = desk.path().join("my dir");
    std::fs::create_dir(&runtime).unwrap();
    std::fs::set_permissions(&runtime, std::os::unix::fs::PermissionsExt::from_mode(0o700)).unwrap();
    let output = desk.command(&["up", "lab.fabric.yaml"]).env("XDG_RUNTIME_DIR", &runtime).output().unwrap();
    // As it was before it was broken into lines.
    let said = String::from_utf8_lossy(&output.stderr);
    let said = said.split_whitespace().filter(|word| *word != "│").collect::<Vec<_>>().join(" ");
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.contains("takes no space, comma, colon or quote") && said.contains("XDG_RUNTIME_DIR"), "{said}");
}

/// A chain through a virtual machine: two hosts, and a function between them.
const CHAIN: &str = "\
nodes: { h1: host, h2: host, s1: switch }
links: [{ between: [h1, s1] }, { between: [h2, s1] }]
functions: { f1: { at: s1, timeout: 500ms, vm: {} } }
chains: { all: { from: h1, to: h2, functions: f1 } }
";

/// Whether a kernel can be booted here that is an ordinary process.
fn may_boot() -> bool {
    if !may_run() {
        return false;
    }
    let is_there = |program: &str| {
        let found = Command::new("sh").args(["-c", &format!("command -v {program}")]).output();
        found.is_ok_and(|found| found.status.success())
    };
    // docs/guests.md says what User-Mode Linux lacks there.
    let has_amx = std::fs::read_to_string("/proc/cpuinfo").is_ok_and(|text| text.contains(" amx_tile"));
    let may = is_there("linux.uml") && is_there("modprobe") && nix::unistd::geteuid().is_root() && !has_amx;
    if !may {
        eprintln!("SKIPPED: it needs root, Debian's packages user-mode-linux and kmod, and a processor without AMX");
    }
    may
}

#[test]
fn a_virtual_machine_is_a_function_of_a_chain() {
    if !may_boot() {
        return;
    }
    let Guard(desk) = &up(CHAIN);
    let answers = || desk.heddle(&["exec", "h1", "ping", "-c", "1", "-W", "1", "h2"]).status.success();
    await_that("an answer through the guest", answers);
    let hop = || -> Value {
        let rows = desk.expect(0, &["show", "chains", "-o", "json"]).0;
        let rows: Vec<Value> = serde_json::from_str(&rows).expect("it is JSON");
        rows.into_iter().find(|row| row["hop"] == "f1").expect("a row")
    };
    let row = hop();
    assert!(row["out-packets"].as_u64().is_some_and(|packets| packets > 0), "{row}");
    // One that dies takes the chain with it until another one has booted.
    let first = program(desk)["pid"].as_i64().expect("it runs");
    signal(&first.to_string(), "-KILL");
    await_that("a failure", || hop()["state"] != "up");
    await_that("an answer through another guest", answers);
    assert_ne!(program(desk)["pid"].as_i64(), Some(first));
}
