//! Experiments that a Linux bridge and Open vSwitch carry, beside Heddle: live, by the program.

use std::process::Command;

use crate::live::may_run;
use crate::program::Desk;

const FILE: &str = "\
nodes: { h1: host, h2: host, h3: host, s1: switch }
links: [{ between: [h1, s1], rate: 1Gbit }, { between: [h2, s1], delay: 1ms }, { between: [h3, s1] }]
experiments:
  switches:
    traffic: { pattern: { pairs: [[h1, h2], [h3, h2]] }, window: auto }
    vary: { shaping: [false], switched-by: [SWITCHES] }
    for: 1s
    repeat: 2
    expect: { goodput-min: \">= 1 Mbit/s\" }
    published: { goodput-sum: { where: { switched-by: linux-bridge }, is: 7242 Mbit/s } }
    report: [goodput-sum, retransmits]
";

fn is_installed(program: &str) -> bool {
    Command::new("sh").args(["-c", &format!("command -v {program}")]).output().is_ok_and(|found| found.status.success())
}

/// Runs a file over all switches that there are: what is printed, and whether Open vSwitch is among them. `None`: nothing can run here.
fn run_over_all(file: &str) -> Option<(String, bool)> {
    if !may_run() {
        return None;
    }
    let has_ovs = is_installed("ovs-vswitchd");
    if !has_ovs {
        eprintln!("SKIPPED in part: there is no Open vSwitch here (Debian's package openvswitch-switch)");
    }
    let desk = Desk::new();
    let switches = if has_ovs { "heddle, linux-bridge, openvswitch" } else { "heddle, linux-bridge" };
    desk.write("lab.fabric.yaml", &file.replace("SWITCHES", switches));
    // What they leave would be below this folder, and name it.
    let output = desk.command(&["run", "lab.fabric.yaml", "--quiet"]).env("TMPDIR", desk.path()).output();
    let output = output.expect("the program runs");
    let table = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{table}{}", String::from_utf8_lossy(&output.stderr));
    assert!(table.contains("linux-bridge against heddle"), "{table}");
    let left = Command::new("pgrep").args(["-f", &desk.path().display().to_string()]).output();
    assert!(left.is_ok_and(|left| left.stdout.is_empty()), "a process is left");
    Some((table, has_ovs))
}

#[test]
fn switches_of_others_carry_the_flows_of_an_experiment() {
    let Some((table, has_ovs)) = run_over_all(FILE) else { return };
    assert!(table.contains("not simulated"), "{table}");
    assert!(!has_ovs || table.contains("openvswitch against heddle"), "{table}");
}

/// Two chains, one with several hosts at an end, and hosts without one; a host is at the ends of both.
const CHAINS: &str = "\
nodes: { h1: host, h2: host, h3: host, h4: host, s1: switch }
links: [{ between: [h1, s1] }, { between: [h2, s1] }, { between: [h3, s1] }, { between: [h4, s1] }]
functions: { f1: { at: s1 }, f2: { at: s1 }, f3: { at: s1 } }
chains:
  two: { from: [h1, h2], to: h3, functions: [f1, f2] }
  one: { from: h3, to: h4, functions: [f3] }
experiments:
  chains:
    traffic: { pattern: { pairs: [[h1, h3], [h3, h2], [h3, h4], [h1, h4]] }, window: auto }
    vary: { switched-by: [SWITCHES] }
    for: 1s
    repeat: 1
    expect: { goodput-min: \">= 1 Mbit/s\" }
";

/// Nothing but its functions joins the parts of a chain: what answers has passed them.
#[test]
fn chains_lead_over_switches_of_others() {
    run_over_all(CHAINS);
}

#[test]
fn a_switch_that_is_not_installed_is_named() {
    if !may_run() || is_installed("ovs-vswitchd") {
        return;
    }
    let desk = Desk::new();
    desk.write("lab.fabric.yaml", &FILE.replace("SWITCHES", "linux-bridge, openvswitch"));
    let (_, said) = desk.expect(2, &["run", "lab.fabric.yaml", "--quiet"]);
    assert!(said.contains("sudo apt install openvswitch-switch"), "{said}");
}
