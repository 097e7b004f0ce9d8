//! `heddle cluster lease`, `txn`, `lock`, `elect`, and old revisions, against real controllers on loopback.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::program::Desk;
use serde_json::Value;

/// What does not happen within this does not happen.
const PATIENCE: Duration = Duration::from_secs(60);

/// Ended with the test.
struct Process(Child);

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Controllers `c1`, `c2`, ... of one cluster.
struct Cluster {
    desk: Desk,
    nodes: Vec<(Process, String)>,
}

impl Cluster {
    fn start(size: usize) -> Self {
        let mut cluster = Self { desk: Desk::new(), nodes: Vec::new() };
        for number in 1..=size {
            let name = format!("c{number}");
            let mut args =
                vec!["controller", "-o", "json", "--data", &name, "--node", &name, "--listen", "127.0.0.1:0"];
            let first = cluster.nodes.first().map(|(_, address)| address.clone());
            if let Some(first) = &first {
                args.extend(["--join", first]);
            }
            let log = std::fs::File::create(cluster.desk.path().join(format!("{name}.log"))).expect("a file");
            let mut process =
                cluster.desk.command(&args).stdout(Stdio::piped()).stderr(log).spawn().expect("it starts");
            let mut said = String::new();
            let mut lines = BufReader::new(process.stdout.take().expect("it is piped"));
            while !said.ends_with("}\n") {
                assert!(lines.read_line(&mut said).expect("UTF-8") > 0, "{name} ended");
            }
            let ready: Value = serde_json::from_str(&said).expect("JSON");
            let address = ready["listen"].as_str().expect("an address").to_owned();
            cluster.nodes.push((Process(process), address));
        }
        cluster
    }

    fn args<'a>(endpoints: &'a str, args: &[&'a str]) -> Vec<&'a str> {
        [&["cluster", "--endpoints", endpoints, "--timeout", "60s"], args].concat()
    }

    fn endpoints(&self) -> String {
        self.nodes.iter().map(|(_, address)| address.as_str()).collect::<Vec<_>>().join(",")
    }

    fn expect(&self, status: i32, args: &[&str]) -> (String, String) {
        self.desk.expect(status, &Self::args(&self.endpoints(), args))
    }

    fn run(&self, args: &[&str]) -> String {
        self.expect(0, args).0.trim_end().to_owned()
    }

    fn json(&self, args: &[&str]) -> Value {
        serde_json::from_str(&self.run(&[args, &["-o", "json"]].concat())).expect("JSON")
    }

    fn spawn(&self, args: &[&str]) -> Process {
        let endpoints = self.endpoints();
        let mut command: Command = self.desk.command(&Self::args(&endpoints, args));
        Process(command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().expect("it starts"))
    }

    fn txn(&self, status: i32, text: &str) -> Value {
        self.desk.write("changes.txt", text);
        let (stdout, stderr) = self.expect(status, &["txn", "changes.txt", "-o", "json"]);
        serde_json::from_str(&stdout).unwrap_or(Value::String(stderr))
    }

    fn wait(what: &str, mut is_so: impl FnMut() -> bool) {
        let begun = Instant::now();
        while !is_so() {
            assert!(begun.elapsed() < PATIENCE, "{what}");
            std::thread::sleep(Duration::from_millis(50));
        }
    }
}

fn line(process: &mut Process) -> String {
    let mut text = String::new();
    BufReader::new(process.0.stdout.as_mut().expect("it is piped")).read_line(&mut text).expect("UTF-8");
    text
}

fn signal(process: &Process, signal: &str) {
    let id = process.0.id().to_string();
    assert!(Command::new("kill").args([signal, &id]).status().expect("there is `kill`").success());
}

/// Keeps a lease with a value alive for twice as long as it lives by itself. `None` if it is lost meanwhile.
fn keep_for_longer_than_it_lives(cluster: &Cluster) -> Option<String> {
    let lease = cluster.run(&["lease", "grant", "3s", "/app:nodes"]);
    assert_eq!(lease.len(), 16, "{lease}");
    let mut keeper = cluster.spawn(&["lease", "keep-alive", &lease]);
    let endpoints = cluster.endpoints();
    let heddle = |args: &[&str]| cluster.desk.heddle(&Cluster::args(&endpoints, args));
    if !heddle(&["put", "/app:nodes/node=a", "up", "--lease", &lease]).status.success() {
        return None;
    }
    let shown = heddle(&["lease", "ttl", &lease, "-o", "json"]);
    let shown: Value = serde_json::from_slice(&shown.stdout).ok()?;
    assert_eq!((&shown["home"], &shown["values"][0]), (&"/app:nodes".into(), &"/app:nodes/node=a".into()), "{shown}");
    let begun = Instant::now();
    while begun.elapsed() < Duration::from_secs(6) {
        if !line(&mut keeper).contains("lives for 3000 ms") {
            return None;
        }
    }
    (heddle(&["get", "/app:nodes/node=a"]).stdout == b"up").then_some(lease)
}

#[test]
fn a_value_goes_with_its_lease() {
    let cluster = Cluster::start(3);
    let begun = Instant::now();
    // A machine that is too busy to say in time that it lives loses its lease; not for a minute.
    let lease = loop {
        if let Some(lease) = keep_for_longer_than_it_lives(&cluster) {
            break lease;
        }
        assert!(begun.elapsed() < PATIENCE, "leases are lost although they are kept alive");
    };
    Cluster::wait("the value goes", || {
        cluster.desk.heddle(&Cluster::args(&cluster.endpoints(), &["get", "/app:nodes/node=a"])).status.code()
            == Some(1)
    });
    let (_, stderr) = cluster.expect(1, &["lease", "ttl", &lease]);
    assert!(stderr.contains("There is no lease"), "{stderr}");
    let (_, stderr) = cluster.expect(2, &["put", "/app:nodes/node=a", "up", "--lease", &lease]);
    assert!(stderr.contains("no lease"), "{stderr}");

    let lease = cluster.run(&["lease", "grant", "1h", "/app:nodes"]);
    cluster.run(&["put", "/app:nodes/node=b", "up", "--lease", &lease]);
    assert_eq!(cluster.json(&["lease", "list"])[0]["lease"], lease.as_str());
    assert!(cluster.run(&["lease", "revoke", &lease]).contains("1 value deleted"));
    cluster.expect(1, &["get", "/app:nodes/node=b"]);
    // What belongs to a lease is not in a backup: in another cluster nobody would keep it alive.
    let lease = cluster.run(&["lease", "grant", "1h", "/app:nodes"]);
    cluster.run(&["put", "/app:nodes/node=b", "up", "--lease", &lease]);
    cluster.run(&["put", "/app:nodes/node=c", "up"]);
    assert_eq!(cluster.json(&["backup", "all.heddle"])["entries"], 1);
    let (_, stderr) = cluster.expect(2, &["lease", "grant", "10ms", "/app:nodes"]);
    assert!(stderr.contains("cannot live for 10 ms"), "{stderr}");
}

#[test]
fn a_transaction_does_all_or_what_else_there_is() {
    let cluster = Cluster::start(1);
    let text = "if\n/m:a is absent\nthen\nput /m:a 1\nput /m:b \"two words \"\nget /m:b\nelse\nput /m:c late\nget /m:a\nget /m:d\n";
    let first = cluster.txn(0, text);
    assert_eq!((&first["branch"], &first["values"][0]["value"]), (&"then".into(), &"two words ".into()), "{first}");
    let second = cluster.txn(1, text);
    assert_eq!((&second["branch"], &second["failed"]["condition"]), (&"else".into(), &0.into()), "{second}");
    assert_eq!((&second["values"][0]["value"], second["values"][1].get("value")), (&"1".into(), None), "{second}");
    assert_eq!(cluster.run(&["get", "/m:c"]), "late");
    // What is read is of the transaction's revision, whatever came after.
    let etag = first["values"][0]["etag"].as_u64().expect("a number");
    let refused = cluster.txn(1, &format!("if\n/m:b etag > {etag}\nthen\ndelete /m:b\n"));
    assert!(refused.as_str().is_some_and(|text| text.contains("condition 0 does not hold")), "{refused}");
    cluster.desk.write("wrong.txt", "if\n/m:a is absent\nthen\nmove /m:a\n");
    let (_, stderr) = cluster.expect(2, &["txn", "wrong.txt"]);
    assert!(stderr.contains("wrong.txt, line 4: expected put"), "{stderr}");
    let mut process = cluster.spawn(&["txn"]);
    process.0.stdin.take().expect("it is piped").write_all(b"then\ncreate /m:e 5\n").expect("it reads");
    assert!(process.0.wait().expect("it ends").success());
    assert_eq!(cluster.run(&["get", "/m:e"]), "5");
}

#[test]
fn an_old_revision_is_read_and_watched_from() {
    let cluster = Cluster::start(1);
    for value in ["1", "2", "3"] {
        cluster.run(&["put", "/m:a", value]);
    }
    let window = cluster.json(&["revisions", "/m:a"]);
    let newest = window["newest"].as_u64().expect("a number");
    assert_eq!(cluster.run(&["get", "/m:a", "--revision", &(newest - 1).to_string()]), "2");
    assert_eq!(cluster.json(&["list", "/m:a", "--revision", &(newest - 2).to_string()])[0]["value"], "1");
    let (_, stderr) = cluster.expect(2, &["get", "/m:a", "--revision", &(newest + 1).to_string()]);
    assert!(stderr.contains(&format!("to {newest} of this shard")), "{stderr}");
    let mut watch = cluster.spawn(&["watch", "/m:a", "--from", &(newest - 1).to_string()]);
    assert_eq!(line(&mut watch), format!("{newest} put /m:a 3\n"));
}

#[test]
fn a_lock_is_held_by_one_command_at_a_time() {
    let cluster = Cluster::start(3);
    let endpoints = cluster.endpoints();
    // Whoever finds the file there was let in too early.
    let script = "set -e; test ! -e inside; touch inside; sleep 0.2; echo $HEDDLE_LOCK_TOKEN >> tokens; rm inside";
    let mut holders: Vec<Process> = (0..4)
        .map(|_| cluster.spawn(&["lock", "/job:jobs/job=night", "--ttl", "10m", "--", "sh", "-c", script]))
        .collect();
    for holder in &mut holders {
        assert_eq!(holder.0.wait().expect("it ends").code(), Some(0));
    }
    let text = cluster.desk.read("tokens");
    let tokens: Vec<u64> = text.lines().map(|line| line.parse().expect("a number")).collect();
    assert!(tokens.len() == 4 && tokens.is_sorted_by(|a, b| a < b), "{tokens:?}");
    assert_eq!(cluster.json(&["lease", "list"]).as_array().map(Vec::len), Some(0), "all were given back");

    // The command's own exit status; the transaction that names the token is taken.
    let guarded = "printf 'if\\n%s etag = %s\\nthen\\nput /job:done yes\\n' $HEDDLE_LOCK_ENTRY $HEDDLE_LOCK_TOKEN";
    let heddle = env!("CARGO_BIN_EXE_heddle");
    let script = format!("{guarded} | {heddle} cluster --endpoints {endpoints} txn && exit 7");
    cluster.expect(7, &["lock", "/job:jobs/job=night", "--ttl", "10m", "--", "sh", "-c", &script]);
    assert_eq!(cluster.run(&["get", "/job:done"]), "yes");

    // A holder that is killed is waited for no longer than its lease lives.
    let mut dies =
        cluster.spawn(&["lock", "/job:jobs/job=night", "--ttl", "5s", "--", "sh", "-c", "echo in; exec sleep 3"]);
    assert_eq!(line(&mut dies), "in\n");
    dies.0.kill().expect("it is ours");
    cluster.expect(0, &["lock", "/job:jobs/job=night", "--ttl", "10m", "--", "true"]);
    cluster.expect(127, &["lock", "/job:jobs/job=night", "--ttl", "10m", "--", "/does/not/exist"]);

    // Whoever says how long he waits gives up then, and is out of the queue.
    let mut holds =
        cluster.spawn(&["lock", "/job:jobs/job=night", "--ttl", "10m", "--", "sh", "-c", "echo in; exec sleep 1000"]);
    assert_eq!(line(&mut holds), "in\n");
    let impatient = |status: i32, args: &[&str]| {
        cluster.desk.expect(status, &[&["cluster", "--endpoints", &endpoints, "--timeout", "500ms"], args].concat()).1
    };
    let stderr = impatient(125, &["lock", "/job:jobs/job=night", "--", "touch", "too-late"]);
    assert!(stderr.contains("was not acquired within 500ms"), "{stderr}");
    let stderr = impatient(2, &["elect", "/job:jobs/job=night", "me"]);
    assert!(stderr.contains("me was not elected within 500ms"), "{stderr}");
    assert!(!cluster.desk.path().join("too-late").exists());
    Cluster::wait("they are out of the queue", || {
        cluster.json(&["list", "/job:jobs/job=night"]).as_array().map(Vec::len) == Some(1)
    });
    signal(&holds, "-TERM");
    assert_eq!(holds.0.wait().expect("it ends").code(), Some(128 + 15));

    // One that loses its lease ends its command.
    let mut loses =
        cluster.spawn(&["lock", "/job:jobs/job=night", "--ttl", "10m", "--", "sh", "-c", "echo in; exec sleep 1000"]);
    assert_eq!(line(&mut loses), "in\n");
    let lease = cluster.json(&["lease", "list"])[0]["lease"].as_str().expect("text").to_owned();
    cluster.run(&["lease", "revoke", &lease]);
    assert_eq!(loses.0.wait().expect("it ends").code(), Some(125));
    // A signal goes to the command, whose end gives the lock back.
    let mut stopped =
        cluster.spawn(&["lock", "/job:jobs/job=night", "--ttl", "10m", "--", "sh", "-c", "echo in; exec sleep 1000"]);
    assert_eq!(line(&mut stopped), "in\n");
    signal(&stopped, "-TERM");
    assert_eq!(stopped.0.wait().expect("it ends").code(), Some(128 + 15));
    cluster.expect(0, &["lock", "/job:jobs/job=night", "--ttl", "10m", "--", "true"]);
}

#[test]
fn the_next_is_elected_when_the_first_has_gone() {
    let cluster = Cluster::start(3);
    let mut listener = cluster.spawn(&["elect", "/app:leader", "--listen", "-o", "csv"]);
    assert_eq!(line(&mut listener), ",\n");
    let mut a = cluster.spawn(&["elect", "/app:leader", "node-a", "--ttl", "10m"]);
    assert!(line(&mut a).starts_with("node-a is elected with token "));
    assert!(line(&mut listener).contains("node-a"));
    let mut b = cluster.spawn(&["elect", "/app:leader", "node-b", "--ttl", "10m"]);
    Cluster::wait("the second stands", || cluster.json(&["list", "/app:leader"]).as_array().map(Vec::len) == Some(2));
    signal(&a, "-INT");
    assert!(a.0.wait().expect("it ends").success());
    assert!(line(&mut b).starts_with("node-b is elected with token "));
}
