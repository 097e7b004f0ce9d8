//! Sysctls of the file in live hosts.

use crate::live::{Guard, may_run};
use crate::program::Desk;

const FILE: &str = "\
name: set
nodes: { h1: host, h2: host, s1: switch }
link-defaults: { rate: 20Mbit, delay: 1ms, queue: 100 }
links: [{ between: [h1, s1] }, { between: [h2, s1] }]
experiments:
  set:
    traffic: { pattern: { pairs: [[h1, h2]] }, transport: linux, sysctl: { tcp_dsack: 0, tcp_comp_sack_delay_ns: 7, tcp_frto: 1 } }
    warm-up: 1s
    for: 6s
    expect: { goodput-sum: \">= 1 kbit/s\" }
";

/// Who looks into both hosts while the run goes on sees what the file says. The machine's own sysctls stay as they are.
#[test]
fn live_hosts_have_the_sysctls_of_the_file() {
    if !may_run() {
        return;
    }
    let machine = || std::fs::read_to_string("/proc/sys/net/ipv4/tcp_dsack").expect("Linux");
    let before = machine();
    let guard = Guard(Desk::new());
    let desk = &guard.0;
    desk.write("set.fabric.yaml", FILE);
    let mut run = desk.command(&["run", "set.fabric.yaml", "--live", "--quiet"]).spawn().expect("the program runs");
    let network = format!("run-{}", run.id());
    for host in ["h1", "h2"] {
        let look = "cd /proc/sys/net/ipv4; cat tcp_dsack tcp_comp_sack_delay_ns tcp_frto tcp_comp_sack_nr";
        loop {
            let output = desk.heddle(&["exec", "--name", &network, host, "--", "sh", "-c", look]);
            if output.stdout == b"0\n7\n1\n44\n" {
                break;
            }
            let ended = run.try_wait().expect("it is a child");
            assert!(ended.is_none(), "{host} never had them: {}", String::from_utf8_lossy(&output.stdout));
        }
    }
    assert!(run.wait().expect("it is a child").success());
    assert_eq!(machine(), before);
}
