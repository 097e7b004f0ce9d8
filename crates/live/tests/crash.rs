//! What is left when something dies: nothing, or what `clean` removes.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::process::Command;

use crate::bed::{self, Bed, Running, alive, soon};
use live::{Instance, StartOptions};

const PAIR: &str = "
name: pair
nodes: { h1: host, h2: host, s1: switch }
links: [ { between: [h1, s1] }, { between: [s1, h2] } ]
";

fn kill(pid: i32) {
    assert!(Command::new("kill").args(["-9", &pid.to_string()]).status().unwrap().success());
}

#[test]
fn clean_removes_what_a_killed_daemon_left() {
    let Some(bed) = Bed::new() else { return };
    let other = Instance::start(&StartOptions { ephemeral: false, ..bed.options("other") }).unwrap();
    other.apply(&bed::source(PAIR), &fabric::Overrides::default()).unwrap();
    let network = bed.up("crashed", PAIR);
    let sleeping = Running::start(network.command("h1", "sh", ["-c", "trap '' TERM; sleep 600 & wait"]));
    let bystander = Running::start(other.command("h1", "sleep", ["600"]));
    let pid = network.status().unwrap().pid;
    kill(pid);
    assert!(network.status().is_err());
    drop(network);
    assert!(alive(sleeping.pid()), "processes in hosts outlive the daemon");
    assert_eq!(Instance::list().unwrap(), ["other"]);

    let cleaned = live::clean().unwrap();
    assert_eq!(cleaned.instances, ["crashed"]);
    assert!(cleaned.processes >= 2, "{cleaned:?}");
    // What a process has is gone before itself.
    assert!(soon(|| !alive(sleeping.pid())), "even one that ignores SIGTERM");
    assert!(alive(bystander.pid()), "another network's processes are not touched");
    assert!(!bed.folder.path().join("heddle/crashed").exists());
    assert_eq!(live::clean().unwrap(), live::Cleaned::default());
    other.down().unwrap();
    assert!(soon(|| !alive(bystander.pid())), "down ends the processes in its hosts");
    assert!(bed.is_empty());
}

#[test]
fn a_network_can_be_started_again_after_a_crash() {
    let Some(bed) = Bed::new() else { return };
    let network = bed.up("twice", PAIR);
    let error = Instance::start(&bed.options("twice")).unwrap_err();
    assert!(error.to_string().contains("already up"), "{error}");
    kill(network.status().unwrap().pid);
    drop(network);
    let hint = live::Error::NotRunning("twice".to_owned()).hint().unwrap();
    assert!(hint.contains("heddle clean"), "{hint}");
    bed.up("twice", PAIR).down().unwrap();
    assert!(bed.is_empty());
}

#[test]
fn an_ephemeral_network_ends_with_its_client() {
    let Some(bed) = Bed::new() else { return };
    let network = bed.up("short", PAIR);
    assert_eq!(Instance::list().unwrap(), [""; 0], "it belongs to its client");
    assert_eq!(Instance::list_all().unwrap(), ["short"]);
    let sleeping = Running::start(network.command("h1", "sleep", ["600"]));
    let pid = network.status().unwrap().pid;
    drop(network);
    assert!(soon(|| !alive(pid) && !alive(sleeping.pid())));
    assert!(bed.is_empty());
}

#[test]
fn a_lasting_network_outlives_its_client_and_ends_by_a_signal() {
    let Some(bed) = Bed::new() else { return };
    let network = Instance::start(&StartOptions { ephemeral: false, ..bed.options("long") }).unwrap();
    let pid = network.status().unwrap().pid;
    drop(network);
    let again = Instance::connect("long").unwrap().expect("it is up");
    assert_eq!(again.status().unwrap().pid, pid);
    assert!(Command::new("kill").arg(pid.to_string()).status().unwrap().success());
    assert!(soon(|| !alive(pid)));
    assert!(bed.is_empty());
    assert!(Instance::connect("long").unwrap().is_none());
}

#[test]
fn nonsense_on_the_socket_harms_nobody() {
    let Some(bed) = Bed::new() else { return };
    let network = bed.up("calm", PAIR);
    let connect = || UnixStream::connect(bed.folder.path().join("heddle/calm/control.sock")).unwrap();
    let hello = "{\"hello\":{\"version\":1}}\n";
    for (nonsense, complaint) in [
        ("\"status\"\n".to_owned(), "before the hello"),
        ("{\"hello\":{\"version\":99}}\n".to_owned(), "version 99"),
        ("\u{0}\u{1}\n".to_owned(), "no message"),
        (format!("{hello}{{\"enter\":{{\"host\":\"../..\"}}}}\n"), "not a host"),
        (format!("{hello}{{\"reboot\":{{}}}}\n"), "no message"),
        (format!("{hello}{}\n", "[".repeat(100_000)), "no message"),
        ("x".repeat(9 << 20), "more than"),
    ] {
        let mut stream = connect();
        // The daemon may cut us off before it has read everything.
        let _ = stream.write_all(nonsense.as_bytes());
        let _ = stream.shutdown(std::net::Shutdown::Write);
        let mut reply = String::new();
        let _ = stream.read_to_string(&mut reply);
        assert!(reply.contains(complaint), "{complaint}: {reply}");
    }
    // More clients than are served at once, all silent.
    let crowd: Vec<UnixStream> = (0..40).map(|_| connect()).collect();
    Instance::connect("calm").unwrap().expect("it is up").down().unwrap();
    assert!(network.status().is_err());
    drop(crowd);
}

/// What a hypervisor leaves that was killed: here a program that takes its place, and has a child.
#[test]
fn clean_ends_what_hypervisors_have_left() {
    let Some(bed) = Bed::new() else { return };
    let folder = bed.folder.path();
    let (kernel, child) = (folder.join("kernel"), folder.join("child"));
    std::fs::write(&kernel, format!("#!/bin/sh\nsleep 600 &\necho $! >{}\nwait\n", child.display())).unwrap();
    std::fs::set_permissions(&kernel, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let guest = format!("v1: {{ kind: vm, kernel: {} }}", kernel.display());
    let text = PAIR.replace("h2: host", "GUEST").replace("h2", "v1").replace("GUEST", &guest);
    let network = bed.up("crashed", &text);
    let mut pid = 0;
    bed::wait_until("the guest", || {
        let written = std::fs::read_to_string(&child).unwrap_or_default();
        pid = written.trim().parse().unwrap_or(0);
        pid > 0
    });
    kill(network.status().unwrap().pid);
    drop(network);
    assert!(alive(pid), "the kernel ends who was started, and no child of it");
    let cleaned = live::clean().unwrap();
    assert_eq!(cleaned.instances, ["crashed"]);
    assert!(cleaned.processes >= 1, "{cleaned:?}");
    assert!(soon(|| !alive(pid)));
    assert!(bed.is_empty());
}
