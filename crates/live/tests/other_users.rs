//! Root and another user's runtime folder: nothing there is believed, and nothing in it is entered.
#![allow(unsafe_code)]

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, chown};
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use nix::libc;

const NOBODY: u32 = 65_534;

fn is_root() -> bool {
    let root = nix::unistd::geteuid().is_root();
    if !root {
        eprintln!("SKIPPED: this test makes folders and sockets of another user, which needs root");
    }
    root
}

/// `heddle-live-testbed ...` as root, where a session says that its runtime folder is `folder`: whether it worked, and its words.
fn run(folder: &Path, args: &[&str]) -> (bool, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_heddle-live-testbed"));
    let output = command.args(args).env("XDG_RUNTIME_DIR", folder).output().unwrap();
    let text = [output.stdout, output.stderr].concat();
    (output.status.success(), String::from_utf8_lossy(&text).into_owned())
}

/// An instance's folder, as its daemon would make it, that names a process which lives.
fn make_instance(folder: &Path) {
    fs::DirBuilder::new().mode(0o700).recursive(true).create(folder.join("heddle/net")).unwrap();
    let pid = std::process::id();
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    let started = stat.rsplit_once(") ").unwrap().1.split(' ').nth(19).unwrap().to_owned();
    let mark = "1b4e28ba-2fa1-11d2-883f-0016d3cca427";
    let state = format!(r#"{{"pid":{pid},"started":{started},"mark":"{mark}","ephemeral":false}}"#);
    fs::write(folder.join("heddle/net/state.json"), state).unwrap();
}

/// Gives everything to a user.
fn give(folder: &Path, uid: u32) {
    chown(folder, Some(uid), Some(uid)).unwrap();
    if folder.is_dir() {
        for entry in fs::read_dir(folder).unwrap() {
            give(&entry.unwrap().path(), uid);
        }
    }
}

/// A daemon that says hello to everybody; it counts those who come.
fn fake_daemon(listener: UnixListener) -> Arc<AtomicUsize> {
    let came = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&came);
    std::thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            counter.fetch_add(1, Ordering::SeqCst);
            let mut line = String::new();
            let _ = BufReader::new(&stream).read_line(&mut line);
            let _ =
                (&stream).write_all(format!("{{\"hello\":{{\"version\":{}}}}}\n", live::control::VERSION).as_bytes());
        }
    });
    came
}

#[test]
fn another_users_folder_is_not_looked_into() {
    if !is_root() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    make_instance(folder.path());
    let came = fake_daemon(UnixListener::bind(folder.path().join("heddle/net/control.sock")).unwrap());
    give(folder.path(), NOBODY);
    for args in [&["exec", "net", "h1", "id"][..], &["counters", "net"], &["down", "net"]] {
        let (worked, text) = run(folder.path(), args);
        assert!(!worked && text.contains("no network named `net` is up"), "{text}");
        assert!(text.contains("hint: ") && text.contains("sudo -u nobody heddle"), "{text}");
    }
    let (_, text) = run(folder.path(), &["clean"]);
    assert!(!text.contains("net"), "{text}");
    assert_eq!(came.load(Ordering::SeqCst), 0);
    assert!(folder.path().join("heddle/net/state.json").exists());
}

/// Whoever may write to the folder around it could put his own in its place, between the look and the use.
#[test]
fn no_folder_is_made_in_another_users() {
    if !is_root() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    give(folder.path(), NOBODY);
    let (worked, text) = run(folder.path(), &["counters", "net"]);
    assert!(!worked, "{text}");
    assert!(!folder.path().join("heddle").exists());
}

/// The last look is at who listens: a socket in our own folder may still be another user's.
#[test]
fn who_listens_has_to_be_the_same_user() {
    if !is_root() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    make_instance(folder.path());
    let path = folder.path().join("heddle/net/control.sock");
    let listener = std::thread::spawn(move || {
        let listener = UnixListener::bind(path).unwrap();
        // The kernel notes who called listen(2) last. Of this thread alone: nix would change all.
        // SAFETY: setresuid(2) and listen(2) take their arguments by value.
        let outcome = unsafe {
            let all = u64::from(NOBODY);
            libc::syscall(libc::SYS_setresuid, all, all, all) + i64::from(libc::listen(listener.as_raw_fd(), 16))
        };
        assert_eq!(outcome, 0);
        listener
    });
    let came = fake_daemon(listener.join().unwrap());
    let (worked, text) = run(folder.path(), &["counters", "net"]);
    assert!(
        !worked && text.contains("the process of the network `net` is of user nobody, and this one of user root"),
        "{text}"
    );
    assert!(text.contains("hint: run it as that user: `sudo -u nobody heddle ..`"), "{text}");
    // It was called, and got nothing.
    assert!(came.load(Ordering::SeqCst) <= 1);
}

/// A state that was written by another user, or that would have `clean` end processes which have nothing to do with it, is none.
#[test]
fn a_state_of_another_user_ends_nobody() {
    if !is_root() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    make_instance(folder.path());
    let state = folder.path().join("heddle/net/state.json");
    let mut bystander = Command::new("sleep").arg("600").spawn().unwrap();
    for mark in ["", "/", "proc"] {
        fs::write(&state, format!(r#"{{"pid":1,"started":1,"mark":"{mark}"}}"#)).unwrap();
        run(folder.path(), &["clean"]);
        assert!(
            bystander.try_wait().unwrap().is_none(),
            "the mark {mark:?} ended a process that has nothing to do with it"
        );
        if !state.exists() {
            make_instance(folder.path());
        }
    }
    make_instance(folder.path());
    chown(&state, Some(NOBODY), None).unwrap();
    assert_eq!(fs::metadata(&state).unwrap().uid(), NOBODY);
    let (worked, text) = run(folder.path(), &["counters", "net"]);
    assert!(!worked && text.contains("no network named `net` is up"), "{text}");
    bystander.kill().unwrap();
    bystander.wait().unwrap();
}
