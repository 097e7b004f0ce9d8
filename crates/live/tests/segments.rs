//! The kernel's TCP and the simulated one send the same segments; `benches/segments.sh` asks for more scripts, and for times.

use std::process::Command;

use crate::bed;

fn agree(script: &str) {
    if !nix::unistd::geteuid().is_root() {
        eprintln!("SKIPPED: only root makes network namespaces and real-time threads");
        return;
    }
    let output = Command::new(bed::program()).args(["agree", script]).output().unwrap();
    assert!(output.status.success(), "{script}: {}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn an_undisturbed_flow_is_the_same_live_and_simulated() {
    agree("no-loss");
}

#[test]
fn a_recovery_is_the_same_live_and_simulated() {
    agree("every-other");
}

#[test]
fn what_a_duplicate_takes_back_is_the_same_live_and_simulated() {
    agree("late-by-a-round-trip");
}

#[test]
fn what_marks_do_is_the_same_live_and_simulated() {
    agree("marks-in-two-flights");
}
