//! Commands about a running network, as users of Mininet and containerlab know them: list, ping, shell, iperf, path, graph.

use std::io::Write;
use std::process::Stdio;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;

use crate::command::completed;
use crate::live::{Guard, may_run, up};
use crate::program::Desk;

/// What does not happen within this does not happen.
const PATIENCE: Duration = Duration::from_secs(60);

/// Two leaves with two hosts each, and three equal paths between them.
const LAB: &str = "\
topology: { leaf-spine: { leaves: 2, spines: 3, hosts-per-leaf: 2 } }
spread: ecmp
";

pub(crate) fn json(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

#[test]
fn networks_are_listed_and_what_a_crash_left_is_named() {
    if !may_run() {
        return;
    }
    let guard = up(LAB);
    let desk = &guard.0;
    desk.expect(0, &["up", "lab.fabric.yaml", "--name", "other"]);
    let (listed, _) = desk.expect(0, &["list", "-o", "json"]);
    let listed = json(&listed);
    assert!(listed[0]["name"] == "lab" && listed[1]["name"] == "other", "{listed}");
    for network in listed.as_array().expect("rows") {
        let expected = [("state", "up".into()), ("file", "lab.fabric.yaml".into()), ("hosts", 4.into())];
        let more = [("switches", Value::from(5)), ("links", 10.into()), ("fabric", "lab".into())];
        for (key, value) in expected.into_iter().chain(more) {
            assert_eq!(network[key], value, "{key}: {network}");
        }
        assert!(network["uptime-s"].is_u64() && network["user"].is_string(), "{network}");
    }
    let (table, _) = desk.expect(0, &["ls"]);
    assert!(table.starts_with("name ") && table.lines().count() == 3, "{table}");
    // A program that outlives the network's process.
    let mut program = desk.command(&["exec", "-n", "lab", "h1", "sleep", "600"]).spawn().expect("it can be started");
    let began = Instant::now();
    while std::fs::read_to_string(format!("/proc/{}/comm", program.id())).is_ok_and(|name| name.trim() != "sleep") {
        assert!(began.elapsed() < PATIENCE, "it does not become what it is to be");
        std::thread::sleep(Duration::from_millis(5));
    }
    let pid = listed[0]["pid"].as_i64().expect("a number") as i32;
    kill(Pid::from_raw(pid), Signal::SIGKILL).expect("it runs");
    let began = Instant::now();
    let (table, stderr) = loop {
        let said = desk.expect(0, &["list", "-o", "csv"]);
        if said.0.contains("lab,crashed") {
            break said;
        }
        assert!(began.elapsed() < PATIENCE, "{said:?}");
        std::thread::sleep(Duration::from_millis(5));
    };
    assert!(table.contains("other,up"), "{table}");
    assert!(stderr.contains("lab: ") && stderr.contains("1 program still runs") && stderr.contains("heddle clean"));
    desk.expect(0, &["down", "-n", "other"]);
    let (_, stderr) = desk.expect(2, &["show", "counters"]);
    assert!(stderr.contains("the process of lab has died") && stderr.contains("heddle clean"), "{stderr}");
    desk.expect(0, &["clean"]);
    program.wait().expect("it is ended");
    let (table, stderr) = desk.expect(0, &["list"]);
    assert!(table.is_empty() && stderr.contains("heddle up FILE"), "{table}{stderr}");
    assert_eq!(desk.expect(0, &["list", "-o", "json"]).0, "[]\n");
}

#[test]
fn a_process_that_says_nothing_or_has_died_is_named() {
    if !may_run() {
        return;
    }
    let guard = up(LAB);
    let desk = &guard.0;
    let pid = || {
        let listed = json(&desk.expect(0, &["list", "-o", "json"]).0);
        Pid::from_raw(listed[0]["pid"].as_i64().expect("a number") as i32)
    };
    let daemon = pid();
    kill(daemon, Signal::SIGSTOP).expect("it runs");
    for command in [&["path", "h1", "h2"][..], &["down"]] {
        let (_, stderr) = desk.expect(2, command);
        assert!(stderr.contains(&format!("{daemon}, does not answer")) && stderr.contains("kill -CONT"), "{stderr}");
    }
    kill(daemon, Signal::SIGCONT).expect("it runs");
    desk.expect(0, &["path", "h1", "h2"]);
    for command in [&["iperf", "h1", "h3", "-t", "600"][..], &["ping", "h1", "h3", "-c", "9999"]] {
        let mut waits = desk.command(command);
        let waits = waits.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().expect("it can be started");
        let began = Instant::now();
        let children = format!("/proc/{0}/task/{0}/children", waits.id());
        while std::fs::read_to_string(&children).is_ok_and(|pids| pids.is_empty()) {
            assert!(began.elapsed() < PATIENCE, "it does not begin");
            std::thread::sleep(Duration::from_millis(5));
        }
        kill(pid(), Signal::SIGKILL).expect("it runs");
        let output = waits.wait_with_output().expect("it ends");
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.code() == Some(2) && stderr.contains("has gone away"), "{output:?}");
        desk.expect(0, &["clean"]);
        desk.expect(0, &["up", "lab.fabric.yaml"]);
    }
}

#[test]
fn names_of_what_runs_are_completed() {
    if !may_run() {
        return;
    }
    let guard = up(LAB);
    let desk = &guard.0;
    assert_eq!(completed(desk, &["exec", "h"]), ["h1", "h2", "h3", "h4"]);
    assert_eq!(completed(desk, &["ping", "h1", "h3"]), ["h3"]);
    assert_eq!(completed(desk, &["link", "down", "leaf1", "spine"]), ["spine1", "spine2", "spine3"]);
    assert_eq!(completed(desk, &["shell", "--name", ""]), ["lab"]);
    assert_eq!(completed(desk, &["show", "nodes", "l"]), ["lab", "lab.fabric.yaml"]);
}

#[test]
fn what_follows_a_program_s_name_is_the_program_s() {
    if !may_run() {
        return;
    }
    let guard = up(LAB);
    let desk = &guard.0;
    let echo = |args: &[&str]| desk.expect(0, args).0;
    assert_eq!(echo(&["exec", "h1", "echo", "-v", "--name", "x", "--", "-o", "json"]), "-v --name x -- -o json\n");
    assert_eq!(echo(&["exec", "--name", "lab", "h1", "--", "echo", "--", "-n"]), "-- -n\n");
    assert_eq!(echo(&["exec", "h1", "-n", "lab", "hostname"]), "h1\n");
    let (_, stderr) = desk.expect(2, &["exec", "h1"]);
    assert!(stderr.contains("COMMAND"), "{stderr}");
    // The same network by the environment, and by the old spelling of the option.
    let by =
        |value: &str| desk.command(&["exec", "h1", "hostname"]).env("HEDDLE_NETWORK", value).output().expect("it runs");
    assert!(by("lab").status.success());
    assert!(String::from_utf8_lossy(&by("other").stderr).contains("no network named `other`"));
    assert_eq!(echo(&["exec", "--instance", "lab", "h1", "hostname"]), "h1\n");
}

#[test]
fn a_shell_names_host_and_network_and_ends_with_its_status() {
    if !may_run() {
        return;
    }
    let guard = up(LAB);
    let desk = &guard.0;
    for (shell, prompt) in [("/bin/bash", "h2@lab:"), ("/bin/sh", "h2@lab:"), ("/usr/sbin/nologin", "h2@lab:")] {
        // At a terminal, which `script` makes.
        let heddle = desk.command(&["shell", "h2"]);
        let line = format!("SHELL={shell} {} shell h2", heddle.get_program().to_string_lossy());
        let mut script = std::process::Command::new("script");
        script.args(["-q", "-e", "-c", &line, "/dev/null"]).current_dir(desk.path());
        script.envs(heddle.get_envs().filter_map(|(name, value)| Some((name, value?))));
        script.env("SHELL", "/bin/sh").env("HOME", desk.path()).env("TERM", "dumb").env_remove("ENV");
        let mut child = script.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("util-linux is there");
        let mut input = child.stdin.take().expect("it is piped");
        input.write_all(b"hostname; echo $HEDDLE_HOST+$HEDDLE_NETWORK\nexit 7\n").expect("it reads");
        let output = child.wait_with_output().expect("it ends");
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(said.contains(prompt) && said.contains("h2+lab"), "{shell}: {said}");
        assert_eq!(output.status.code(), Some(7), "{shell}: {said}");
    }
    // Without a terminal it is a script.
    let mut shell = desk.command(&["shell", "h1"]);
    let mut child = shell.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("it can be started");
    child.stdin.take().expect("it is piped").write_all(b"hostname\nexit 3\n").expect("it reads");
    let output = child.wait_with_output().expect("it ends");
    assert_eq!((output.status.code(), &*output.stdout), (Some(3), &b"h1\n"[..]));
    let (_, stderr) = desk.expect(2, &["shell", "h22"]);
    assert!(stderr.contains("did you mean `h2`?"), "{stderr}");
}

#[test]
fn every_pair_of_hosts_is_asked_and_who_does_not_answer_is_named() {
    if !may_run() {
        return;
    }
    let guard = up(LAB);
    let desk = &guard.0;
    let (matrix, _) = desk.expect(0, &["ping", "--all", "-W", "60s"]);
    assert!(matrix.starts_with("ms ") && matrix.contains("\n12/12 received (0 % lost)\n"), "{matrix}");
    let (one, _) = desk.expect(0, &["ping", "h1", "h4", "-c", "5", "-i", "10ms", "-W", "60s"]);
    assert!(one.starts_with("h1 -> h4 (10.") && one.contains("): 5/5 received, round-trip time "), "{one}");
    let (one, _) = desk.expect(0, &["ping", "-6", "h1", "h4", "-W", "60s"]);
    assert!(one.starts_with("h1 -> h4 (fd") && one.contains("): 3/3 received, round-trip time "), "{one}");
    let address = one.split(['(', ')']).nth(1).expect("an address");
    let (one, _) = desk.expect(0, &["ping", "h1", address, "-c", "1", "-W", "60s"]);
    assert!(one.starts_with(&format!("h1 -> {address}: 1/1 received")), "{one}");
    let (_, stderr) = desk.expect(2, &["ping", "-4", "h1", address]);
    assert!(stderr.contains("is no IPv4 address"), "{stderr}");
    desk.expect(0, &["link", "down", "h4", "leaf2"]);
    let (one, _) = desk.expect(1, &["ping", "-6", "h1", "h4", "-c", "1", "-W", "300ms"]);
    assert!(one.contains("): 0/1 received; "), "{one}");
    let (matrix, _) = desk.expect(1, &["ping", "--all", "-W", "300ms"]);
    assert!(matrix.contains("6/12 received (50 % lost)") && matrix.contains("h1 -> h4: "), "{matrix}");
    let rows =
        json(&desk.expect(1, &["ping", "--all", "-W", "300ms", "-o", "json"]).0).as_array().expect("rows").clone();
    assert_eq!(rows.len(), 12);
    for row in &rows {
        let is_cut_off = row["from"] == "h4" || row["to"] == "h4";
        assert_eq!((&row["sent"], &row["received"]), (&1.into(), &u32::from(!is_cut_off).into()), "{row}");
        assert_eq!((row["rtt-mean-ms"].is_null(), row["failure"].is_null()), (is_cut_off, !is_cut_off), "{row}");
    }
    let (_, stderr) = desk.expect(2, &["ping", "h1", "leaf1"]);
    assert!(stderr.contains("`leaf1` is a switch"), "{stderr}");
    let (_, stderr) = desk.expect(2, &["ping", "h1", "h44"]);
    assert!(stderr.contains("no host `h44`") && stderr.contains("did you mean `h4`?"), "{stderr}");
    assert!(desk.expect(2, &["ping", "h1"]).1.contains("<TO>"));
}

/// Whether something listens in a host, at iperf3's port.
fn listens(desk: &Desk, host: &str) -> bool {
    let (sockets, _) = desk.expect(0, &["exec", host, "cat", "/proc/net/tcp", "/proc/net/tcp6"]);
    sockets.lines().any(|line| line.contains(":1451 ") && line.contains(" 0A "))
}

#[test]
fn throughput_comes_in_a_line_and_no_program_stays() {
    if !may_run() {
        return;
    }
    let guard = up(LAB);
    let desk = &guard.0;
    let (line, _) = desk.expect(0, &["iperf", "h1", "h3", "-t", "1"]);
    assert!(line.starts_with("h1 -> h3: ") && line.contains("received") && line.contains("TCP for"), "{line}");
    let (row, _) = desk.expect(0, &["iperf", "h1", "h3", "-t", "1", "-P", "2", "-R", "-o", "json"]);
    let row = &json(&row)[0];
    assert_eq!((&row["from"], &row["to"], &row["streams"]), (&"h3".into(), &"h1".into(), &2.into()), "{row}");
    assert!(row["received-bps"].as_f64().is_some_and(|bps| bps > 0.0) && row["retransmits"].is_u64(), "{row}");
    let (row, _) = desk.expect(0, &["iperf", "h1", "h3", "-t", "1", "-u", "-b", "5M", "-o", "json"]);
    let row = &json(&row)[0];
    assert!(row["protocol"] == "udp" && row["datagrams"].as_u64().is_some_and(|sent| sent > 0), "{row}");
    assert!(row["received-bps"].as_f64().is_some_and(|bps| bps > 0.0), "{row}");
    // Whatever ends it, its programs end with it; also if it cannot do anything about that.
    for signal in [Signal::SIGINT, Signal::SIGTERM, Signal::SIGKILL] {
        let mut iperf = desk.command(&["iperf", "h1", "h3", "-t", "600"]).spawn().expect("it can be started");
        let began = Instant::now();
        while !listens(desk, "h3") {
            assert!(began.elapsed() < PATIENCE, "nobody listens");
        }
        kill(Pid::from_raw(iperf.id().cast_signed()), signal).expect("it runs");
        let status = iperf.wait().expect("it ends");
        assert_eq!(status.code(), (signal != Signal::SIGKILL).then_some(130), "{signal}");
        let began = Instant::now();
        while listens(desk, "h3") {
            assert!(began.elapsed() < PATIENCE, "its server goes on after {signal}");
        }
    }
    let (_, stderr) = desk.expect(2, &["iperf", "h1", "h1"]);
    assert!(stderr.contains("both ends"), "{stderr}");
}

/// The shortest and the mean round-trip time from h1 to h2, in milliseconds, of five pings that all come back.
fn round_trips(desk: &Desk) -> (f64, f64) {
    let (rows, _) = desk.expect(0, &["ping", "h1", "h2", "-c", "5", "-i", "10ms", "-W", "60s", "-o", "json"]);
    let row = &json(&rows)[0];
    assert_eq!((&row["sent"], &row["received"]), (&5.into(), &5.into()), "{row}");
    let ms = |key: &str| row[key].as_f64().expect("a number");
    (ms("rtt-min-ms"), ms("rtt-mean-ms"))
}

/// What `show links` says of the link between h1 and its switch.
fn first_link(desk: &Desk) -> Value {
    json(&desk.expect(0, &["show", "links", "-o", "json"]).0)[0].clone()
}

#[test]
fn links_are_changed_while_the_network_runs() {
    if !may_run() {
        return;
    }
    let guard = up(LAB);
    let desk = &guard.0;
    round_trips(desk);
    assert_eq!(desk.expect(0, &["link", "show", "h1", "leaf1"]).0, "h1-leaf1 is up: as fast as the machine goes\n");
    // A program that goes on meanwhile, with the same interface.
    let mut program = desk.command(&["exec", "h1", "sleep", "600"]).spawn().expect("it can be started");
    // There, and back: both directions.
    for words in [&["h1", "leaf1", "down"][..], &["h1-leaf1:1", "down"]] {
        let (_, stderr) = desk.expect(2, &[&["link", "set"], words].concat());
        assert!(stderr.contains(&format!("`heddle link down {}`", words[..words.len() - 1].join(" "))), "{stderr}");
    }
    let (said, _) = desk.expect(0, &["link", "set", "h1", "leaf1", "delay=20ms"]);
    assert_eq!(said, "h1-leaf1 is up: delay=20ms both ways; the file says delay=none both ways\n");
    assert!(round_trips(desk).0 >= 40.0);
    let row = first_link(desk);
    assert_eq!(
        (&row["link"], &row["delay-ns"], &row["rate-bps"]),
        (&"h1-leaf1".into(), &20_000_000.into(), &Value::Null)
    );
    // By the name that `show links` prints, too.
    assert_eq!(desk.expect(0, &["link", "show", "h1-leaf1"]).0, said);
    assert_eq!(desk.expect(0, &["link", "set", "leaf1-h1", "1"]).0, said);
    assert_eq!(desk.expect(0, &["link", "set", "h1-leaf1:1", "delay=20ms"]).0, said);
    // The rest stays as it is.
    let (said, _) = desk.expect(0, &["link", "set", "leaf1", "h1", "1", "loss=100%", "rate=100Mbit/s", "queue=100"]);
    assert!(
        said.starts_with("h1-leaf1 is up: rate=100Mbit delay=20ms queue=100 loss=100% both ways; the file says "),
        "{said}"
    );
    desk.expect(1, &["ping", "h1", "h2", "-c", "3", "-i", "10ms", "-W", "300ms"]);
    let row = first_link(desk);
    assert_eq!((&row["loss-percent"], &row["queue-packets"]), (&100.0.into(), &100.into()), "{row}");
    let (plan, _) = desk.expect(0, &["plan", "lab.fabric.yaml", "-o", "json"]);
    assert_eq!(json(&plan)["up"]["changed"], serde_json::json!(["link h1-leaf1"]), "{plan}");
    // Without carrier in between, it stays changed.
    desk.expect(0, &["link", "down", "h1", "leaf1"]);
    let (said, _) = desk.expect(0, &["link", "set", "h1", "leaf1", "loss=none", "delay=30ms"]);
    assert!(said.starts_with("h1-leaf1 is down: rate=100Mbit delay=30ms queue=100 both ways; "), "{said}");
    assert_eq!(desk.expect(0, &["link", "up", "h1-leaf1"]).0, "h1-leaf1 is up\n");
    assert!(round_trips(desk).0 >= 60.0);
    let (rows, _) = desk.expect(0, &["link", "set", "-n", "lab", "h1", "leaf1", "rate=none", "-o", "csv"]);
    assert!(rows.lines().nth(1).is_some_and(|row| row.starts_with("h1-leaf1,h1,0,leaf1,0,,30000000,,")), "{rows}");
    // The file as it is brings back what it says.
    let (said, _) = desk.expect(0, &["up", "lab.fabric.yaml"]);
    assert!(said.contains("changed link h1-leaf1"), "{said}");
    assert_eq!(desk.expect(0, &["link", "set", "h1", "leaf1"]).0, "h1-leaf1 is up: as fast as the machine goes\n");
    round_trips(desk);
    let (plan, _) = desk.expect(0, &["plan", "lab.fabric.yaml", "-o", "json"]);
    assert_eq!(json(&plan)["up"]["changed"], serde_json::json!([]), "{plan}");
    assert!(program.try_wait().expect("it is a child").is_none(), "the program goes on");
    program.kill().expect("it runs");
    program.wait().expect("it ends");
}

#[test]
fn what_a_link_cannot_do_is_refused_as_in_the_file() {
    if !may_run() {
        return;
    }
    let guard = up(LAB);
    let desk = &guard.0;
    for (words, said, hint) in [
        (&["h1", "leaf1", "latency=20ms"][..], "there is no key `latency` here", "did you mean `delay`?"),
        (&["h1", "leaf1", "delay=20"], "`20` has no unit", "the units are ps, ns, us, ms, s, min"),
        (&["h1", "leaf1", "rate=100M"], "`M` is not a unit", "write `100Mbit`"),
        (&["h1", "leaf1", "loss=101%"], "more than all", "at most 100%"),
        (&["h1", "leaf1", "queue=100"], "a queue without a rate", "add `rate:`"),
        (&["h1", "leaf1", "rate=1Gbit", "queue"], "expected KEY=VALUE", "`queue=VALUE`"),
        (&["h1", "leaf2", "delay=1ms"], "no link between `h1` and `leaf2`", "`h1` is linked to `leaf1`"),
        (&["h1", "leaf1", "2", "delay=1ms"], "have one link; there is no 2", "leave the number out"),
        (&["h1", "leaf9", "delay=1ms"], "no node `leaf9`", "did you mean"),
        (&["h1-leaf9", "delay=1ms"], "no node `leaf9`", "did you mean"),
        (&["h1-leaf1:2", "delay=1ms"], "have one link; there is no 2", "leave the number out"),
        (&["leaf1", "delay=1ms"], "`leaf1` is a node, and has ", "name one: `"),
    ] {
        let (_, stderr) = desk.expect(2, &[&["link", "set"], words].concat());
        let stderr = stderr.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(stderr.contains(said) && stderr.contains(hint), "{words:?}: {stderr}");
    }
    assert_eq!(desk.expect(0, &["link", "show", "h1", "leaf1"]).0, "h1-leaf1 is up: as fast as the machine goes\n");
    assert_eq!(completed(desk, &["link", "set", "h1", "leaf1", "del"]), ["delay="]);
}

/// Hosts at two switches, and eight ways between those.
fn wide(extra: &str) -> String {
    let middles: Vec<String> = (1..=8).map(|n| format!("m{n}: switch")).collect();
    let links: Vec<String> = (1..=8).map(|n| format!("{{ between: [s1, m{n}] }}, {{ between: [m{n}, s2] }}")).collect();
    let (node, link) = if extra.is_empty() {
        (String::new(), String::new())
    } else {
        (format!("{extra}: switch, "), format!("{{ between: [{extra}, s1] }}, "))
    };
    format!(
        "spread: ecmp\nnodes: {{ h1: host, h2: host, {node}s1: switch, s2: switch, {} }}\nlinks: [{link}{{ between: [h1, s1] }}, {{ between: [h2, s2] }}, {}]\n",
        middles.join(", "),
        links.join(", ")
    )
}

/// The switch between s1 and s2 on the path of h1's pings.
fn middle(desk: &Desk, from: &[&str]) -> String {
    let args = [&["path", "h1", "h2", "--protocol", "icmp", "-o", "json"], from].concat();
    let path = json(&desk.expect(0, &args).0);
    let hops = path["hops"].as_array().expect("rows");
    assert_eq!(hops.len(), 4, "four links: {path}");
    assert_eq!((&path["end"]["at"], &path["end"]["state"]), (&"h2".into(), &"delivered".into()), "{path}");
    assert!(hops.iter().all(|hop| hop["kind"] == "link" && hop["share"] == 1.0), "{path}");
    hops[1]["to"].as_str().expect("a name").to_owned()
}

/// How many packets have gone from s1 to each of the switches behind it.
fn carried(desk: &Desk) -> Vec<(String, u64)> {
    let rows = json(&desk.expect(0, &["show", "counters", "-o", "json"]).0);
    let rows = rows.as_array().expect("rows").iter().filter(|row| row["from"] == "s1");
    let to = |row: &Value| Some((row["to"].as_str()?.to_owned(), row["packets"].as_u64()?));
    rows.filter_map(to).filter(|(to, _)| to.starts_with('m')).collect()
}

/// Where h1's pings go: what is said is what is counted.
fn pings_go_by(desk: &Desk, expected: &str) {
    let before = carried(desk);
    desk.expect(0, &["exec", "h1", "ping", "-4", "-q", "-c", "40", "-i", "0.01", "-W", "60", "h2"]);
    for ((to, after), (_, before)) in carried(desk).into_iter().zip(before) {
        let packets = after - before;
        assert_eq!(packets >= 40, to == expected, "{packets} by {to}, expected by {expected}");
    }
}

#[test]
fn a_flow_s_path_is_that_which_its_packets_take() {
    if !may_run() {
        return;
    }
    let guard = up(&wide(""));
    let desk = &guard.0;
    let first = middle(desk, &[]);
    assert_eq!(middle(desk, &["lab.fabric.yaml"]), first, "as the network comes up");
    pings_go_by(desk, &first);
    // Another switch gives all others other numbers; they go on choosing as they did.
    desk.write("lab.fabric.yaml", &wide("a0"));
    desk.expect(0, &["up", "lab.fabric.yaml"]);
    assert_eq!(middle(desk, &["-n", "lab"]), first);
    pings_go_by(desk, &first);
    // Around a link that is down.
    desk.expect(0, &["link", "down", &first, "s2"]);
    let second = middle(desk, &[]);
    assert_ne!(second, first);
    pings_go_by(desk, &second);
    desk.expect(0, &["link", "down", "h2", "s2"]);
    let (said, _) = desk.expect(1, &["path", "h1", "h2"]);
    assert!(said.contains("no link leads on from there"), "{said}");
}

#[test]
fn a_service_s_path_goes_to_a_server_that_gets_connections_now() {
    if !may_run() {
        return;
    }
    let guard = up("\
nodes: { h1: host, h2: host, h3: host, h4: host, s1: switch }
links: [{ between: [h1, s1] }, { between: [h2, s1] }, { between: [h3, s1] }, { between: [h4, s1] }]
services: { web: { address: '10.1.0.80:80', servers: [h2, h3, h4] } }
");
    let desk = &guard.0;
    let path = |status| desk.expect(status, &["path", "h1", "web"]).0;
    assert!(path(0).contains("`lc` chooses one of h2, h3, h4 for each connection\n"), "{}", path(0));
    desk.expect(0, &["service", "drain", "web", "h2"]);
    desk.expect(0, &["service", "weight", "web", "h4", "0"]);
    let said = path(0);
    assert!(said.contains("h1 - s1 - h3\n") && said.contains("h3 gets it, for web: no other server of it"), "{said}");
    assert!(said.contains("h2 is draining") && said.contains("h4 is draining"), "{said}");
    let (stdout, _) = desk.expect(0, &["service", "weight", "web", "h4", "3"]);
    assert_eq!(stdout, "web: h4 has weight 3; `lc` gives all servers the same, `wlc` looks at weights\n");
    assert!(path(0).contains("one of h3, h4 (weight 3)"), "{}", path(0));
    let rows = json(&desk.expect(0, &["path", "h1", "web", "-o", "json"]).0);
    let states: Vec<(&str, &str)> = (rows["servers"].as_array().expect("rows").iter())
        .filter(|row| row["service"] == "web")
        .filter_map(|row| Some((row["server"].as_str()?, row["state"].as_str()?)))
        .collect();
    assert_eq!(states, [("h2", "draining"), ("h3", "candidate"), ("h4", "candidate")]);
    // A service answers pings itself.
    for whom in ["web", "10.1.0.80"] {
        let (said, _) = desk.expect(0, &["ping", "h1", whom]);
        assert!(said.contains(whom) && said.contains("3/3"), "{said}");
    }
    // Nobody is left.
    for server in ["h3", "h4"] {
        desk.expect(0, &["service", "drain", "web", server]);
    }
    let said = path(1);
    assert!(said.contains("`web` refuses it: no server of it may have a connection"), "{said}");
    let (said, _) = desk.expect(0, &["trace", "s1", "in_port=h1,tcp,nw_dst=10.1.0.80,tp_dst=80"]);
    assert!(said.contains("It does not come here: 10.1.0.80 is the service `web`: a server's address"), "{said}");
    let (said, _) = desk.expect(0, &["trace", "s1", "in_port=h1,tcp,nw_dst=10.9.9.9,tp_dst=80"]);
    assert!(said.contains("nobody has the address 10.9.9.9"), "{said}");
}

#[test]
fn paths_of_a_file() {
    let desk = Desk::new();
    desk.write("lab.fabric.yaml", LAB);
    let (said, note) = desk.expect(0, &["path", "h1", "h4", "lab.fabric.yaml"]);
    assert!(said.contains("h1 -> h4: 3 equal paths of 4 links") && said.contains("33.33 %"), "{said}");
    assert!(note.contains("--source-port"), "{note}");
    let flow = ["path", "h1", "h4", "lab.fabric.yaml", "--port", "5201", "--source-port", "40000"];
    let (said, note) = desk.expect(0, &flow);
    assert!(said.contains("\nh1 - leaf1 - spine") && note.is_empty(), "{said}{note}");
    let (rows, _) = desk.expect(0, &[&flow[..], &["--protocol", "udp", "-6", "-o", "csv"]].concat());
    assert_eq!(rows.lines().count(), 1 + 4 + 1, "{rows}");
    desk.write("lab.fabric.yaml", &LAB.replace("ecmp", "packet-scatter"));
    let (said, note) = desk.expect(0, &flow);
    assert!(said.contains("3 equal paths") && note.is_empty(), "{said}{note}");
    let (_, stderr) = desk.expect(2, &["path", "h1", "h55", "lab.fabric.yaml"]);
    assert!(stderr.contains("no host `h55`"), "{stderr}");
    let (_, stderr) = desk.expect(2, &["path", "h1", "h2", "nowhere.yaml"]);
    assert!(stderr.contains("cannot read nowhere.yaml"), "{stderr}");
    let (_, stderr) = desk.expect(2, &["path", "h1", "h2", "lab.fabric.yaml", "--protocol", "icmp", "--port", "1"]);
    assert!(stderr.contains("no ports"), "{stderr}");
}

#[test]
fn a_network_is_drawn_as_its_file_is_named() {
    let desk = Desk::new();
    desk.write("lab.fabric.yaml", LAB);
    let (picture, _) = desk.expect(0, &["graph", "lab.fabric.yaml"]);
    assert!(picture.starts_with("<svg xmlns=") && picture.contains(">spine3</text>"), "{picture}");
    for (file, start) in [
        ("a.svg", "<svg"),
        ("a.dot", "graph \"lab\" {"),
        ("a.mmd", "flowchart TB"),
        ("a.md", "```mermaid\nflowchart TB"),
    ] {
        let (stdout, _) = desk.expect(0, &["graph", "lab.fabric.yaml", "-w", file]);
        assert!(stdout.is_empty() && desk.read(file).starts_with(start), "{file}: {stdout}");
    }
    let (dot, _) = desk.expect(0, &["graph", "lab.fabric.yaml", "--format", "dot"]);
    assert_eq!(dot.matches(" -- ").count(), 10, "{dot}");
    let (data, _) = desk.expect(0, &["graph", "lab.fabric.yaml", "-o", "json"]);
    let data = json(&data);
    assert_eq!((data["nodes"].as_array().map(Vec::len), data["links"].as_array().map(Vec::len)), (Some(9), Some(10)));
    desk.expect(2, &["graph", "lab.fabric.yaml", "-o", "csv"]);
    let (_, stderr) = desk.expect(2, &["graph", "lab.fabric.yaml", "-w", "a.png"]);
    assert!(stderr.contains("a.png: expected a name that ends in .svg") && stderr.contains("dot -Tpng"), "{stderr}");
    desk.expect(0, &["graph", "lab.fabric.yaml", "-w", "a.txt", "--format", "dot"]);
}

#[test]
fn a_network_in_a_word_needs_no_file() {
    let desk = Desk::new();
    let (plan, _) = desk.expect(0, &["plan", "--topo", "tree,3"]);
    assert!(plan.starts_with("--topo tree,3: 8 hosts, 7 switches, 14 links"), "{plan}");
    let (nodes, _) = desk.expect(0, &["show", "nodes", "--topo", "ring,5", "-o", "csv"]);
    assert_eq!(nodes.lines().count(), 1 + 5 + 5, "{nodes}");
    let (said, _) = desk.expect(0, &["path", "h1", "h9", "--topo", "torus,3,3"]);
    assert!(said.contains("h1 -> h9: 2 equal paths of 4 links"), "{said}");
    for wrong in [&["up", "--topo", "star,3"][..], &["plan", "--topo", "star"], &["new", "lab", "--topo", "star"]] {
        let (_, stderr) = desk.expect(2, wrong);
        let stderr = stderr.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(stderr.contains("`star` is not a topology") && stderr.contains("tree,3"), "{stderr}");
    }
    let (_, stderr) = desk.expect(2, &["up", "--topo", "tree,3", "lab.fabric.yaml"]);
    assert!(stderr.contains("cannot be used with"), "{stderr}");
    let (_, stderr) = desk.expect(2, &["up", "--topo", "ring,2"]);
    assert!(stderr.contains("3 is the least"), "{stderr}");
    desk.expect(2, &["new", "lab", "--topo", "ring,2"]);
    assert!(!desk.path().join("lab.fabric.yaml").exists());
    desk.expect(0, &["new", "lab", "--topo", "linear,3,2"]);
    let (summary, _) = desk.expect(0, &["check", "lab.fabric.yaml"]);
    assert!(summary.contains("6 hosts, 3 switches, 8 links, 1 experiment"), "{summary}");
}

#[test]
fn a_network_in_a_word_runs() {
    if !may_run() {
        return;
    }
    let Guard(desk) = &Guard(Desk::new());
    let (said, _) = desk.expect(0, &["up", "--topo", "tree,2"]);
    assert!(said.starts_with("tree-2 is up: "), "{said}");
    desk.expect(0, &["up", "--topo", "single,2", "--name", "small"]);
    let listed = json(&desk.expect(0, &["list", "-o", "json"]).0);
    for (row, (name, file, hosts)) in
        listed.as_array().expect("rows").iter().zip([("small", "--topo single,2", 2), ("tree-2", "--topo tree,2", 4)])
    {
        let found = ["name", "fabric", "file", "hosts"].map(|key| row[key].clone());
        assert_eq!(found, [name.into(), name.into(), file.into(), Value::from(hosts)], "{row}");
    }
    // Another word is another network, and changes none that runs.
    let (said, _) = desk.expect(0, &["up", "--topo", "ring,3"]);
    assert!(said.starts_with("ring-3 is up: created"), "{said}");
    let (_, stderr) = desk.expect(2, &["up", "--topo", "ring,3", "-n", "tree-2"]);
    let stderr = stderr.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(stderr.contains("there is another network `tree-2` already: it was made of --topo tree,2"), "{stderr}");
    assert!(stderr.contains("`heddle down tree-2`") && stderr.contains("`-n NAME`"), "{stderr}");
    // Which of several is meant is to be said; it is shown how.
    let (_, stderr) = desk.expect(2, &["ping", "h1", "h2"]);
    let stderr = stderr.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(stderr.contains("say which one: `heddle ping -n ring-3 h1 h2`"), "{stderr}");
    // Nobody has written a file.
    let (said, _) = desk.expect(0, &["link", "set", "h1", "s1", "delay", "2ms", "-n", "small"]);
    assert_eq!(said, "h1-s1 is up: delay=2ms both ways; --topo single,2 says delay=none both ways\n");
    let (matrix, _) = desk.expect(0, &["ping", "--all", "-n", "tree-2", "-W", "60s"]);
    assert!(matrix.contains("12/12 received"), "{matrix}");
    let (said, _) = desk.expect(0, &["up", "--topo", "tree,2"]);
    assert!(said.contains("nothing to change"), "{said}");
    // A file says what becomes of a network.
    desk.write("ring.fabric.yaml", "name: small\ntopology: { ring: { switches: 3 } }\n");
    // What moves is said before it does.
    let (_, stderr) = desk.expect(0, &["plan", "ring.fabric.yaml"]);
    assert!(stderr.contains("note: h2: 10.0.1.2 becomes 10.0.2.1 (hint: addresses follow from"), "{stderr}");
    let (said, _) = desk.expect(0, &["up", "ring.fabric.yaml"]);
    assert!(said.starts_with("small is up: ") && said.contains("removed"), "{said}");
    // Several are stopped at once, or none.
    let (_, stderr) = desk.expect(2, &["down", "ring-3", "tree-3", "tree-2"]);
    assert!(stderr.contains("no network named `tree-3` is up"), "{stderr}");
    let (said, _) = desk.expect(0, &["down", "ring-3", "tree-2", "ring-3", "ring.fabric.yaml"]);
    assert_eq!(said, "ring-3 is down\ntree-2 is down\nsmall is down\n");
}

#[test]
fn commands_without_a_network_say_how_to_start_one() {
    let desk = Desk::new();
    for args in [&["ping", "--all"][..], &["shell", "h1"], &["iperf", "h1", "h2"], &["path", "h1", "h2"], &["graph"]] {
        let (_, stderr) = desk.expect(2, args);
        assert!(stderr.contains("no network is running") && stderr.contains("heddle up FILE"), "{args:?}: {stderr}");
    }
}
