//! What newcomers stumbled over.

use std::io::{BufRead as _, BufReader, Read as _};
use std::process::{Command, Stdio};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;

use crate::live::{Guard, may_run, up};
use crate::network_commands::json;
use crate::program::Desk;

/// Two hosts at a switch that has a flow, a group and a meter; a program, a service and a chain of none.
const LAB: &str = "\
nodes:
  h1: host
  h2: { kind: host, programs: { web: python3 -m http.server 80 } }
  h3: host
  s1: switch
  s2: switch
links: [{ between: [h1, s1] }, { between: [h2, s1] }, { between: [h3, s2] }, { between: [s1, s2] }]
services: { web: { address: '10.1.0.80:80', servers: [h2], health: { check: tcp } } }
flows: { s1: ['priority=5,icmp,actions=normal', 'priority=0,actions=normal'] }
";

/// What a command prints, line by line.
fn words(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn every_command_that_takes_json_prints_json() {
    if !may_run() {
        return;
    }
    let guard = Guard(Desk::new());
    let desk = &guard.0;
    desk.write("lab.fabric.yaml", LAB);
    desk.write("two.clab.yml", "name: two\ntopology:\n  nodes: { a: { kind: linux }, b: { kind: linux } }\n  links: [{ endpoints: ['a:eth1', 'b:eth1'] }]\n");
    for line in [
        "new other",
        "import two.clab.yml",
        "check lab.fabric.yaml",
        "plan lab.fabric.yaml",
        "up lab.fabric.yaml",
        "list",
        "show nodes",
        "show links",
        "show routes",
        "show flows",
        "show caches",
        "show connections",
        "show macs",
        "show rstp",
        "show meters",
        "show bonds",
        "show counters",
        "show services",
        "show names",
        "show chains",
        "show programs",
        "show nodes lab.fabric.yaml",
        "ping h1 h2 -c 1",
        "path h1 h2",
        "trace s1 tcp,in_port=h1,nw_dst=h2,tp_dst=80",
        "link show h1",
        "link set h1 delay=1ms",
        "link down h1",
        "link up h1",
        "port show",
        "port set s1 h1 tag=5",
        "port set s1 h1 tag=none",
        "flow show",
        "flow add s1 tcp,actions=drop",
        "flow mod s1 tcp,actions=normal",
        "flow del s1 tcp",
        "group add s1 group_id=1,type=all,bucket=output:h1",
        "group show s1",
        "group stats s1",
        "group del s1",
        "meter add s1 meter=1,pktps,band=type=drop,rate=500",
        "meter show s1",
        "meter del s1",
        "program stop h2 web",
        "program start h2",
        "service drain web h2",
        "service enable web h2",
        "flush macs",
        "flush connections",
        "clean",
        "down lab",
        "schema",
    ] {
        let words: Vec<&str> = line.split(' ').chain(["-o", "json"]).collect();
        let output = desk.heddle(&words);
        let stdout = String::from_utf8(output.stdout).expect("UTF-8");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{line}: {stdout}{said}");
        assert!(serde_json::from_str::<Value>(&stdout).is_ok(), "{line}: {stdout}{said}");
    }
    assert!(desk.path().join("other.fabric.yaml").is_file());
    desk.expect(0, &["up", "lab.fabric.yaml"]);
    let (down, _) = desk.expect(0, &["down", "--all", "-o", "json"]);
    let down = json(&down);
    assert_eq!((&down[0]["name"], &down[0]["hosts"], &down[1]), (&"lab".into(), &3.into(), &Value::Null));
    assert_eq!(json(&desk.expect(0, &["down", "--all", "-o", "json"]).0), Value::Array(Vec::new()));
}

#[test]
fn a_service_answers_the_first_request_after_up() {
    if !may_run() {
        return;
    }
    let guard = up(LAB);
    let fetch = "import urllib.request; print(urllib.request.urlopen('http://10.1.0.80/', timeout=60).status)";
    let (said, _) = guard.0.expect(0, &["exec", "h1", "python3", "-c", fetch]);
    assert_eq!(said, "200\n");
    let services = json(&guard.0.expect(0, &["show", "services", "-o", "json"]).0);
    assert_eq!(services["servers"][0]["state"], "up", "{services}");
}

#[test]
fn a_node_with_one_link_names_it() {
    if !may_run() {
        return;
    }
    let guard = up(LAB);
    let desk = &guard.0;
    assert_eq!(desk.expect(0, &["link", "down", "h1"]).0, "h1-s1 is down\n");
    assert_eq!(desk.expect(0, &["link", "down", "h1-s1"]).0, "h1-s1 is down already\n");
    let (_, said) = desk.expect(2, &["link", "down", "s1"]);
    assert!(
        words(&said).contains("`s1` is a node, and has 3 links help: name one: `h1-s1`, `h2-s1`, `s1-s2`"),
        "{said}"
    );
    // What somebody has taken down is named, until he gives it back.
    let (_, said) = desk.expect(0, &["up", "lab.fabric.yaml"]);
    assert!(said.contains("link h1-s1 is still down (hint: heddle link up h1 s1)"), "{said}");
    desk.expect(0, &["link", "up", "h1"]);
    let (_, said) = desk.expect(0, &["up", "lab.fabric.yaml"]);
    assert!(!said.contains("still down"), "{said}");
}

#[test]
fn a_link_whose_device_has_no_carrier_is_not_called_taken_down() {
    if !may_run() {
        return;
    }
    if !nix::unistd::geteuid().is_root() {
        return eprintln!("SKIPPED: devices of the machine are for root");
    }
    // What this thread starts is in its network namespace.
    nix::sched::unshare(nix::sched::CloneFlags::CLONE_NEWNET).expect("root may make network namespaces");
    // Its other end is down, so it has no carrier.
    let pair = "ip link add tap0 type veth peer name far0 && ip link set tap0 up";
    assert!(Command::new("sh").args(["-c", pair]).status().expect("sh runs").success(), "{pair}");
    let guard = up("nodes: { h1: host, out: { kind: host, devices: [tap0] }, s1: switch }
links: [{ between: [h1, s1] }, { between: [out, s1] }]
");
    let links = json(&guard.0.expect(0, &["show", "links", "-o", "json"]).0);
    let states: Vec<&Value> = links.as_array().expect("rows").iter().map(|link| &link["state"]).collect();
    assert_eq!(states, ["up", "down"], "{links}");
    let (_, said) = guard.0.expect(0, &["up", "lab.fabric.yaml"]);
    assert!(!said.contains("still down"), "{said}");
}

/// A command on a terminal of so many columns and rows; what it prints comes through a pipe.
pub(crate) fn on_a_terminal(desk: &Desk, (columns, rows): (u16, u16), line: &str) -> Command {
    let command = format!("stty cols {columns} rows {rows}; exec {} {line}", env!("CARGO_BIN_EXE_heddle"));
    let mut script = Command::new("script");
    script.args(["-qec", &command, "/dev/null"]).stdin(Stdio::null()).stdout(Stdio::piped());
    script.current_dir(desk.path()).env("XDG_RUNTIME_DIR", desk.path()).env("NO_COLOR", "1").env("TERM", "xterm");
    script.env_remove("HEDDLE_NETWORK");
    script
}

pub(crate) fn has_script() -> bool {
    Command::new("script").arg("--version").stdout(Stdio::null()).status().is_ok()
}

#[test]
fn a_terminal_of_80_columns_is_wide_enough() {
    if !may_run() || !has_script() {
        return;
    }
    let guard = up(LAB);
    for line in
        ["port show", "show flows", "flow show s1", "show links", "show nodes", "show services", "show counters"]
    {
        let output = on_a_terminal(&guard.0, (80, 24), line).output().expect("it runs");
        let shown = String::from_utf8_lossy(&output.stdout).replace('\r', "");
        assert!(shown.lines().count() > 1, "{line}: {shown}");
        assert!(shown.lines().all(|line| line.chars().count() <= 80), "{line}: {shown}");
    }
}

#[test]
fn what_is_watched_is_drawn_in_place_on_a_terminal_and_one_after_the_other_elsewhere() {
    const HOME: &str = "\u{1b}[H";
    if !may_run() || !has_script() {
        return;
    }
    let guard = up(LAB);
    let mut script = on_a_terminal(&guard.0, (60, 5), "show links --watch").spawn().expect("it runs");
    let mut stdout = script.stdout.take().expect("it is piped");
    let (mut shown, mut buffer) = (Vec::new(), [0; 4096]);
    // Two whole screens, and the beginning of the third.
    while String::from_utf8_lossy(&shown).matches(HOME).count() < 3 {
        let bytes = stdout.read(&mut buffer).expect("it goes on");
        assert!(bytes > 0, "it has ended: {}", String::from_utf8_lossy(&shown));
        shown.extend_from_slice(&buffer[..bytes]);
    }
    kill(Pid::from_raw(script.id().cast_signed()), Signal::SIGTERM).expect("it runs");
    script.wait().expect("it ends");
    let shown = String::from_utf8_lossy(&shown).replace('\r', "");
    for screen in shown.split(HOME).skip(1).take(2) {
        assert!(screen.starts_with("Every 1 s: heddle show links"), "{screen:?}");
        assert!(screen.lines().count() <= 5 && screen.ends_with("\u{1b}[J"), "{screen:?}");
    }
    // A number behind `--watch` is how often, as with `watch -n`.
    let mut command = guard.0.command(&["show", "flows", "--watch", "1", "-o", "json"]);
    let mut watch = command.stdout(Stdio::piped()).spawn().expect("it runs");
    let lines = BufReader::new(watch.stdout.take().expect("it is piped")).lines();
    for line in lines.take(2) {
        let flows = json(&line.expect("UTF-8"));
        assert_eq!(flows[0]["switch"], "s1", "{flows}");
    }
    kill(Pid::from_raw(watch.id().cast_signed()), Signal::SIGTERM).expect("it runs");
    assert_eq!(watch.wait().expect("it ends").code(), Some(0));
    let (said, _) = guard.0.expect(0, &["show", "counters", "--watch", "--count", "2", "-o", "json"]);
    assert_eq!(said.lines().map(|line| json(line).is_array()).collect::<Vec<_>>(), [true, true]);
    guard.0.expect(2, &["show", "counters", "--count", "2"]);
    // In the background of a script, SIGINT is ignored from the start.
    let command = guard.0.command(&["show", "services", "--watch", "-o", "json"]);
    let ignoring = ["-c", "trap '' INT; exec \"$0\" \"$@\""];
    let program = command.get_program().to_owned();
    let arguments: Vec<_> = command.get_args().map(std::ffi::OsStr::to_owned).collect();
    let mut shell = std::process::Command::new("sh");
    shell.args(ignoring).arg(program).args(arguments);
    if let Some(folder) = command.get_current_dir() {
        shell.current_dir(folder);
    }
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => shell.env(name, value),
            None => shell.env_remove(name),
        };
    }
    let mut watch = shell.stdout(Stdio::piped()).spawn().expect("it runs");
    let mut lines = BufReader::new(watch.stdout.take().expect("it is piped")).lines();
    lines.next().expect("it says something").expect("UTF-8");
    kill(Pid::from_raw(watch.id().cast_signed()), Signal::SIGINT).expect("it runs");
    assert_eq!(watch.wait().expect("it ends").code(), Some(0));
}

#[test]
fn check_says_what_a_guest_needs() {
    let desk = Desk::new();
    desk.write("lab.fabric.yaml", "nodes: { v1: { kind: vm, run: echo hello }, h1: host, s1: switch }\nlinks: [{ between: [v1, s1] }, { between: [h1, s1] }]\n");
    let mut check = desk.command(&["check", "lab.fabric.yaml"]);
    let output = check.env("PATH", desk.path()).output().expect("it runs");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    assert!(
        said.contains("lab.fabric.yaml:1: note: guest v1 can't be started on this machine: there is no linux.uml"),
        "{said}"
    );
    assert!(said.contains("apt-get install user-mode-linux"), "{said}");
}

#[test]
fn rates_are_understood_as_others_write_them() {
    let desk = Desk::new();
    let check = |rate: &str| {
        desk.write(
            "lab.fabric.yaml",
            &format!("topology: {{ tree: {{ depth: 1, fanout: 2 }} }}\nlinks: {{ rate: {rate} }}\n"),
        );
        desk.heddle(&["check", "lab.fabric.yaml"])
    };
    for rate in ["1gbit", "10mbit", "100kbit", "1Gbps", "10 mbit/s"] {
        assert!(check(rate).status.success(), "{rate}");
    }
    for (rate, meant) in [("1G", "1Gbit"), ("10M", "10Mbit"), ("10m", "10Mbit"), ("64k", "64kbit")] {
        let said = String::from_utf8(check(rate).stderr).expect("UTF-8");
        assert!(words(&said).contains(&format!("write `{meant}`")), "{rate}: {said}");
    }
}

/// A host that is written before others moves their addresses.
#[test]
fn up_says_which_hosts_get_another_address() {
    if !may_run() {
        return;
    }
    let file = |hosts: &[&str]| {
        let links: Vec<String> = hosts.iter().map(|host| format!("{{ between: [{host}, s1] }}")).collect();
        format!("nodes: {{ {}: host, s1: switch }}\nlinks: [{}]\n", hosts.join(": host, "), links.join(", "))
    };
    let Guard(desk) = &up(&file(&["h1", "h2", "h3"]));
    desk.write("lab.fabric.yaml", &file(&["h1", "h2", "h3", "h4"]));
    let (_, stderr) = desk.expect(0, &["up", "lab.fabric.yaml"]);
    assert!(!stderr.contains("becomes"), "{stderr}");
    desk.write("lab.fabric.yaml", &file(&["h1", "new", "h2", "h3", "h4"]));
    let (_, stderr) = desk.expect(0, &["up", "lab.fabric.yaml"]);
    let said = words(&stderr);
    assert!(said.contains("note: h2: 10.0.0.2 becomes 10.0.0.3 note: h3: 10.0.0.3 becomes 10.0.0.4"), "{stderr}");
    assert!(said.contains("h4: 10.0.0.4 becomes 10.0.0.5 (hint: ") && said.contains("write new ones last"), "{stderr}");
    desk.expect(0, &["down"]);
}

#[test]
fn who_does_not_reach_another_hears_of_the_link_that_is_down() {
    if !may_run() {
        return;
    }
    let Guard(desk) =
        &up("nodes: { h1: host, h2: host, s1: switch }\nlinks: [{ between: [h1, s1] }, { between: [h2, s1] }]\n");
    let why = "the link h1-s1 is down (hint: heddle link up h1-s1)";
    desk.expect(0, &["link", "down", "h1", "s1"]);
    let (_, stderr) = desk.expect(1, &["ping", "h1", "h2", "-c", "1", "-W", "100ms"]);
    assert!(words(&stderr).contains(why), "{stderr}");
    let (_, stderr) = desk.expect(1, &["ping", "--all", "-W", "100ms"]);
    assert!(words(&stderr).contains(why), "{stderr}");
    let (_, stderr) = desk.expect(2, &["iperf", "h1", "h2", "-t", "1"]);
    assert!(words(&stderr.replace('│', " ")).contains(why), "{stderr}");
    desk.expect(0, &["link", "up", "h1-s1"]);
    let (_, stderr) = desk.expect(0, &["ping", "h1", "h2", "-c", "1", "-W", "60s"]);
    assert!(!stderr.contains("is down"), "{stderr}");
    let (said, _) = desk.expect(0, &["group", "show"]);
    assert!(said.is_empty(), "{said}");
    desk.expect(0, &["down"]);
}
