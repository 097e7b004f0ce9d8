//! `heddle cluster check` and `refusals` against real controllers.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::program::Desk;
use serde_json::Value;

/// A controller process, ended with the test.
struct Node {
    process: Child,
    address: String,
}

impl Node {
    /// Starts it by this command and waits until it says where it listens.
    fn start(mut command: Command) -> Self {
        let mut process = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().expect("it can be started");
        let mut said = String::new();
        let mut lines = BufReader::new(process.stdout.take().expect("it is piped"));
        while !said.ends_with("}\n") {
            assert!(lines.read_line(&mut said).expect("it speaks UTF-8") > 0, "it ended: {said}");
        }
        let ready: Value = serde_json::from_str(&said).expect("JSON");
        Self { process, address: ready["listen"].as_str().expect("an address").to_owned() }
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn controller(desk: &Desk, name: &str, options: &[&str]) -> Command {
    let args = ["controller", "-o", "json", "--data", name, "--node", name, "--listen", "127.0.0.1:0"];
    desk.command(&[&args, options].concat())
}

/// `heddle cluster ... -o json`: the exit status, and what it printed.
fn ask(desk: &Desk, node: &Node, args: &[&str]) -> (i32, Value) {
    let access = ["cluster", "--endpoints", &node.address, "--timeout", "60s", "-o", "json"];
    let output = desk.heddle(&[&access, args].concat());
    let (text, errors) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    let value = serde_json::from_str(&text).unwrap_or_else(|error| panic!("{args:?}: {error}: {text}{errors}"));
    (output.status.code().expect("it ends"), value)
}

/// The result of each check.
fn results(value: &Value) -> Vec<(String, String)> {
    let text = |row: &Value, column: &str| row[column].as_str().expect("a text").to_owned();
    value.as_array().expect("rows").iter().map(|row| (text(row, "check"), text(row, "result"))).collect()
}

#[test]
fn a_load_is_judged_and_nothing_of_it_stays() {
    let desk = Desk::new();
    let node = Node::start(controller(&desk, "c1", &[]));
    let (status, rows) = ask(&desk, &node, &["check", "perf", "--load", "s", "--duration", "2s"]);
    let results = results(&rows);
    let checks: Vec<&str> = results.iter().map(|(check, _)| check.as_str()).collect();
    let expected =
        ["failed requests", "throughput", "slowest request", "standard deviation", "latency", "log writes of c1"];
    assert_eq!(checks, expected);
    // How fast this machine is now is not the test's business; that the exit status says so is.
    let failed = results.iter().any(|(_, result)| result == "FAIL");
    assert_eq!(status, i32::from(failed), "{rows:#}");
    assert_eq!(results[0].1, "PASS", "{rows:#}");
    assert_eq!(ask(&desk, &node, &["list", "/heddle-check:"]).1, Value::Array(Vec::new()));
    // What is others' is left alone.
    ask(&desk, &node, &["put", "/car:cars/car-entry=1", "red"]);
    let access = ["cluster", "--endpoints", &node.address];
    let (_, errors) =
        desk.expect(2, &[&access[..], &["check", "perf", "--prefix", "/car:cars", "--duration", "1s"]].concat());
    assert!(errors.contains("there are values below /car:cars"), "{errors}");
    assert_eq!(desk.expect(0, &[&access[..], &["get", "/car:cars/car-entry=1"]].concat()).0, "red");
}

#[test]
fn a_bench_leaves_alone_what_is_not_its_own() {
    let desk = Desk::new();
    let node = Node::start(controller(&desk, "c1", &[]));
    let theirs = ["/car:cars/car-entry=1", "/people:people/person=1", "/car:cars"];
    for path in theirs {
        ask(&desk, &node, &["put", path, "red"]);
    }
    let bench = ["bench", "--requests", "3", "--repeat", "2", "--operations", "create,read,update,delete,rpc,create"];
    let (_, rows) = ask(&desk, &node, &bench);
    let failed = rows.as_array().expect("rows").iter().map(|row| row["failed"].as_u64());
    assert_eq!(failed.collect::<Vec<_>>(), [Some(0); 6], "{rows:#}");
    let access = ["cluster", "--endpoints", &node.address];
    for path in theirs {
        assert_eq!(desk.expect(0, &[&access[..], &["get", path]].concat()).0, "red");
    }
    assert_eq!(ask(&desk, &node, &["list", "/heddle-bench:"]).1, Value::Array(Vec::new()));
    let (_, errors) = desk.expect(2, &[&access[..], &["bench", "--prefix", "/car:cars"]].concat());
    assert!(errors.contains("there are values below /car:cars"), "{errors}");
}

#[test]
fn a_load_that_is_broken_off_takes_away_what_it_wrote() {
    let desk = Desk::new();
    let node = Node::start(controller(&desk, "c1", &[]));
    let args = ["cluster", "--endpoints", &node.address, "check", "perf", "--load", "s", "--duration", "10m"];
    let load = desk.command(&args).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().expect("it can be started");
    let written = || ask(&desk, &node, &["list", "/heddle-check:"]).1.as_array().map_or(0, Vec::len);
    let begun = Instant::now();
    while written() < 10 {
        assert!(begun.elapsed() < Duration::from_secs(60), "it writes nothing");
    }
    assert!(Command::new("kill").args(["-INT", &load.id().to_string()]).status().expect("kill is there").success());
    let output = load.wait_with_output().expect("it ends");
    assert_eq!(output.status.code(), Some(130));
    assert!(String::from_utf8_lossy(&output.stderr).contains("taken away again"));
    assert_eq!(written(), 0);
}

/// A load on a controller, begun; and how long a request takes at most.
fn load(desk: &Desk, node: &Node, timeout: &str, what: &[&str]) -> Child {
    let access = ["cluster", "--endpoints", &node.address, "--timeout", timeout];
    let mut load = desk.command(&[&access, what].concat());
    load.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it can be started")
}

/// Waits until a load has written below a path.
fn await_writes(desk: &Desk, node: &Node, below: &str) {
    let begun = Instant::now();
    while ask(desk, node, &["list", "--limit", "10", below]).1.as_array().is_none_or(|rows| rows.len() < 10) {
        assert!(begun.elapsed() < Duration::from_secs(60), "it writes nothing");
    }
}

#[test]
fn a_load_ends_though_its_controllers_have_gone() {
    let desk = Desk::new();
    let node = Node::start(controller(&desk, "c1", &[]));
    let check = ["check", "perf", "--load", "s", "--duration", "5s"];
    let load = load(&desk, &node, "1s", &check);
    await_writes(&desk, &node, "/heddle-check:");
    drop(node);
    let output = load.wait_with_output().expect("it ends");
    let (rows, errors) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert_eq!(output.status.code(), Some(1), "{rows}{errors}");
    for failed in ["failed requests", "clearing up"] {
        let is_judged = |row: &str| row.contains("FAIL") && row.contains(failed);
        assert!(rows.lines().any(is_judged), "{failed}: {rows}{errors}");
    }
}

#[test]
fn a_load_whose_controllers_have_gone_can_be_broken_off() {
    let desk = Desk::new();
    let node = Node::start(controller(&desk, "c1", &[]));
    let load = load(&desk, &node, "10m", &["check", "perf", "--load", "s", "--duration", "10m"]);
    await_writes(&desk, &node, "/heddle-check:");
    drop(node);
    assert!(Command::new("kill").args(["-INT", &load.id().to_string()]).status().expect("kill is there").success());
    let output = load.wait_with_output().expect("it ends");
    assert_eq!(output.status.code(), Some(130));
    assert!(String::from_utf8_lossy(&output.stderr).contains("below /heddle-check:perf is still there"));
}

#[test]
fn a_bench_that_nobody_answers_is_given_up() {
    let desk = Desk::new();
    let node = Node::start(controller(&desk, "c1", &[]));
    let bench = ["bench", "--requests", "10000000", "--repeat", "1", "--operations", "create"];
    let load = load(&desk, &node, "1s", &bench);
    await_writes(&desk, &node, "/heddle-bench:");
    drop(node);
    let output = load.wait_with_output().expect("it ends");
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("create: given up, since nothing was answered for 10s"));
}

#[test]
fn a_server_that_is_away_is_found() {
    let desk = Desk::new();
    let first = Node::start(controller(&desk, "c1", &[]));
    let (status, rows) = ask(&desk, &first, &["check", "health"]);
    assert_eq!(status, 0, "{rows:#}");
    assert!(results(&rows).iter().all(|(_, result)| result == "PASS") && results(&rows).len() >= 4, "{rows:#}");
    let join = first.address.clone();
    let more: Vec<Node> =
        ["c2", "c3"].iter().map(|name| Node::start(controller(&desk, name, &["--join", &join]))).collect();
    let mut more = more.into_iter();
    let _second = more.next();
    drop(more);
    let (status, rows) = ask(&desk, &first, &["check", "health"]);
    assert_eq!(status, 1, "{rows:#}");
    assert!(results(&rows).contains(&("server c3".to_owned(), "FAIL".to_owned())), "{rows:#}");
    assert!(results(&rows).contains(&("server c1".to_owned(), "PASS".to_owned())), "{rows:#}");
}

#[test]
fn a_full_disk_is_found_and_reported() {
    let desk = Desk::new();
    let plain = controller(&desk, "c1", &[]);
    let mut limited = Command::new("sh");
    limited.args(["-c", "ulimit -f 1000; exec \"$0\" \"$@\""]).arg(plain.get_program()).args(plain.get_args());
    limited.current_dir(desk.path());
    let node = Node::start(limited);
    let value = "v".repeat(100_000);
    // A client that is refused tries again until this time is over; a machine may be too busy to say so in time.
    let access = ["cluster", "--endpoints", &node.address, "--timeout", "5s"];
    let refused = (0..100).find_map(|key| {
        let output = desk.heddle(&[&access[..], &["put", &format!("/car:cars/car-entry={key}"), &value]].concat());
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        (!output.status.success() && said.contains("disk")).then_some(said)
    });
    let refused = refused.expect("the disk is full at last").replace('\n', " ");
    assert!(refused.contains("the disk of server c1 takes no writes") && !refused.contains("majority"), "{refused}");
    assert!(refused.contains("make room for"), "{refused}");
    let (status, rows) = ask(&desk, &node, &["check", "health"]);
    assert_eq!(status, 1, "{rows:#}");
    assert!(results(&rows).contains(&("disk of c1".to_owned(), "FAIL".to_owned())), "{rows:#}");
    let (status, rows) = ask(&desk, &node, &["refusals"]);
    let row = rows.as_array().expect("rows").iter().find(|row| row["reason"] == "disk").expect("it was refused");
    assert_eq!((status, row["host"].as_str(), row["server"].as_str()), (0, Some("localhost"), Some("c1")));
}

#[test]
fn a_command_leaves_no_refusal_behind() {
    let desk = Desk::new();
    let node = Node::start(controller(&desk, "c1", &[]));
    ask(&desk, &node, &["put", "/car:cars/car-entry=1", "red"]);
    assert_eq!(ask(&desk, &node, &["refusals"]), (0, Value::Array(Vec::new())));
}

#[test]
fn the_quota_warns_refuses_and_lifts_itself() {
    let desk = Desk::new();
    let (_, errors) = desk.expect(2, &["controller", "--quota", "1MiB"]);
    assert!(errors.contains("16MiB to 1TiB, or `none`"), "{errors}");
    let node = Node::start(controller(&desk, "c1", &["--quota", "16MiB"]));
    let access = ["cluster", "--endpoints", &node.address, "--timeout", "60s"];
    assert_eq!(desk.expect(0, &[&access[..], &["alarms"]].concat()).0, "No alarms.\n");
    // An argument has 128 KiB at most; so has a value on the command line.
    let value = "v".repeat(100_000);
    let put = |key: u32| desk.heddle(&[&access[..], &["put", &format!("/car:cars/car-entry={key}"), &value]].concat());
    let refused = (0..1_000).find_map(|key| {
        let output = put(key);
        (!output.status.success()).then(|| (key, String::from_utf8_lossy(&output.stderr).replace('\n', " ")))
    });
    let (keys, refused) = refused.expect("the quota is reached at last");
    assert!(refused.contains("the quota on data is reached") && keys >= (16 << 20) / 101_000, "{keys} {refused}");
    let alarm = || {
        let (status, rows) = ask(&desk, &node, &["alarms"]);
        (status, rows[0]["alarm"].as_str().map(str::to_owned), rows[0]["about"].as_str().map(str::to_owned))
    };
    assert_eq!(alarm(), (1, Some("quota-reached".to_owned()), Some("server c1".to_owned())));
    let (status, rows) = ask(&desk, &node, &["check", "health"]);
    assert!(status == 1 && results(&rows).contains(&("data of c1".to_owned(), "FAIL".to_owned())), "{rows:#}");
    assert!(
        desk.expect(0, &[&access[..], &["status"]].concat()).0.contains("ALARM quota-reached: the data of server c1")
    );
    let (_, rows) = ask(&desk, &node, &["refusals"]);
    assert!(rows.as_array().expect("rows").iter().any(|row| row["reason"] == "quota"), "{rows:#}");
    // A backup of it has no room in a cluster with the same quota, and that is said before anything is written.
    desk.expect(0, &[&access[..], &["backup", "full.heddle", "--quiet"]].concat());
    let second = Node::start(controller(&desk, "d1", &["--quota", "16MiB"]));
    let to_second = ["cluster", "--endpoints", &second.address, "--timeout", "60s"];
    let (_, errors) = desk.expect(2, &[&to_second[..], &["restore", "full.heddle", "--quiet"]].concat());
    let errors = errors.replace(['\n', '│'], " ");
    let errors = errors.split_whitespace().collect::<Vec<_>>().join(" ");
    for said in ["larger than the quota", "server d1", "less than 16.0 MiB", "nothing was written", "--quota none"] {
        assert!(errors.contains(said), "{said}: {errors}");
    }
    assert_eq!(ask(&desk, &second, &["list", "/", "--limit", "1"]).1, Value::Array(Vec::new()));
    drop(second);
    // What adds nothing goes on, and what is taken away makes room.
    desk.expect(0, &[&access[..], &["put", "/car:cars/car-entry=0", "small"]].concat());
    for key in 1..12 {
        desk.expect(0, &[&access[..], &["delete", &format!("/car:cars/car-entry={key}")]].concat());
    }
    let grows = (0..600).any(|_| {
        std::thread::sleep(std::time::Duration::from_millis(100));
        put(1).status.success()
    });
    assert!(grows, "the data may not grow again");
    assert_eq!(alarm(), (1, Some("quota-near".to_owned()), Some("server c1".to_owned())));
    desk.expect(0, &[&access[..], &["delete", "/car:cars"]].concat());
    assert_eq!(alarm(), (0, None, None));
}

#[test]
fn different_quotas_are_an_alarm() {
    let desk = Desk::new();
    let first = Node::start(controller(&desk, "c1", &["--quota", "16MiB"]));
    let _second = Node::start(controller(&desk, "c2", &["--join", &first.address]));
    let found = (0..600).find_map(|_| {
        std::thread::sleep(std::time::Duration::from_millis(100));
        let (status, rows) = ask(&desk, &first, &["alarms"]);
        let row = rows.as_array()?.iter().find(|row| row["alarm"] == "quotas-differ")?.clone();
        Some((status, row))
    });
    let (status, row) = found.expect("it is said");
    let text = row["text"].as_str().expect("a text");
    assert!(status == 1 && text.contains("16.0 MiB of c1; 2.00 GiB of c2") && text.contains("hint:"), "{row:#}");
    let access = ["cluster", "--endpoints", &first.address, "--timeout", "60s"];
    assert!(desk.expect(0, &[&access[..], &["status"]].concat()).0.contains("ALARM quotas-differ: the servers"));
}

#[test]
fn a_server_that_waits_to_join_can_be_ended() {
    let desk = Desk::new();
    // Nobody listens on the port of a socket that is gone, and no other connection gets one of this address.
    let gone =
        std::net::TcpListener::bind("127.0.0.2:0").expect("a port").local_addr().expect("its address").to_string();
    let mut command = controller(&desk, "c2", &["--join", &gone]);
    let mut process = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().expect("it can be started");
    let mut said = String::new();
    let mut lines = BufReader::new(process.stderr.take().expect("it is piped"));
    while !said.contains("to join") {
        assert!(lines.read_line(&mut said).expect("it speaks UTF-8") > 0, "it ended: {said}");
    }
    assert!(Command::new("kill").args(["-TERM", &process.id().to_string()]).status().expect("kill is there").success());
    // Before its patience of a minute is over, but no time is measured here: it says why it ends.
    while lines.read_line(&mut said).expect("it speaks UTF-8") > 0 {}
    process.wait().expect("it ends");
    assert!(said.contains("it was told to end"), "{said}");
}
