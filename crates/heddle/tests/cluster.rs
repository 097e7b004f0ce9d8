//! `heddle cluster` against real controllers: processes on loopback, each with a data folder of its own.

use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use crate::command::completed;
use crate::json::hold;
use crate::program::Desk;
use node::Client;
use serde_json::Value;

/// What does not happen within this does not happen.
const PATIENCE: Duration = Duration::from_secs(60);

/// A controller process, ended with the test.
struct Node {
    process: Child,
    address: String,
    server: u64,
}

impl Node {
    /// Starts one with these options and waits until it says where it listens.
    fn start(desk: &Desk, data: &str, options: &[&str]) -> Self {
        let args = [&["controller", "-o", "json", "--data", data], options].concat();
        let log = std::fs::File::create(desk.path().join(format!("{data}.log"))).expect("a file for its log");
        let mut process =
            desk.command(&args).stdout(Stdio::piped()).stderr(log).spawn().expect("the program can be started");
        let mut said = String::new();
        let mut lines = BufReader::new(process.stdout.take().expect("it is piped"));
        while !said.ends_with("}\n") {
            let read = lines.read_line(&mut said).expect("it speaks UTF-8");
            assert!(read > 0, "{args:?} ended: {}", desk.read(&format!("{data}.log")));
        }
        let ready: Value = serde_json::from_str(&said).expect("JSON");
        let address = ready["listen"].as_str().expect("an address").to_owned();
        Self { process, address, server: ready["server"].as_u64().expect("a number") }
    }

    /// Ends the process as a crash would.
    fn kill(&mut self) {
        self.process.kill().expect("it is ours to kill");
        self.process.wait().expect("it ends");
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Controllers `c1`, `c2`, ... of one cluster, and how to talk to it.
struct Cluster {
    desk: Desk,
    nodes: Vec<Node>,
}

impl Cluster {
    fn start(size: usize) -> Self {
        let desk = Desk::new();
        let mut nodes = vec![Node::start(&desk, "c1", &["--node", "c1", "--listen", "127.0.0.1:0"])];
        let first = nodes[0].address.clone();
        for number in 2..=size {
            let name = format!("c{number}");
            nodes.push(Node::start(&desk, &name, &["--node", &name, "--listen", "127.0.0.1:0", "--join", &first]));
        }
        let cluster = Self { desk, nodes };
        cluster.wait("all vote", |status| {
            status["shards"].as_array().is_some_and(|shards| {
                shards.iter().all(|shard| names(&shard["voters"]).len() == size && shard["leader"].is_string())
            })
        });
        cluster
    }

    fn endpoints(&self) -> String {
        self.nodes.iter().map(|node| node.address.as_str()).collect::<Vec<_>>().join(",")
    }

    /// `heddle cluster ...`, which has to end with `status`: its standard output and standard error.
    fn expect(&self, status: i32, args: &[&str]) -> (String, String) {
        let endpoints = self.endpoints();
        self.desk.expect(status, &[&["cluster", "--endpoints", &endpoints, "--timeout", "60s"], args].concat())
    }

    /// What it says when it works.
    fn run(&self, args: &[&str]) -> String {
        self.expect(0, args).0
    }

    fn json(&self, args: &[&str]) -> Value {
        serde_json::from_str(&self.run(&[args, &["-o", "json"]].concat())).expect("JSON")
    }

    fn wait(&self, what: &str, wanted: impl Fn(&Value) -> bool) -> Value {
        let begun = Instant::now();
        loop {
            let status = self.json(&["status"]);
            if wanted(&status) {
                return status;
            }
            assert!(begun.elapsed() < PATIENCE, "{what}: {status:#}");
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// Writes without arguments' limits: the value comes by standard input.
    fn put_from_stdin(&self, path: &str, value: &[u8]) {
        let endpoints = self.endpoints();
        let mut process = self
            .desk
            .command(&["cluster", "--endpoints", &endpoints, "put", path, "-"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("the program can be started");
        process.stdin.take().expect("it is piped").write_all(value).expect("it reads");
        assert!(process.wait().expect("it ends").success());
    }

    fn get_bytes(&self, path: &str) -> Vec<u8> {
        let endpoints = self.endpoints();
        let output = self.desk.heddle(&["cluster", "--endpoints", &endpoints, "get", path]);
        assert!(output.status.success(), "{output:?}");
        output.stdout
    }

    /// The row of a shard.
    fn shard(&self, name: &str) -> Value {
        let shards = self.json(&["shards"]);
        let rows = shards.as_array().expect("rows");
        rows.iter().find(|row| row["name"] == name).unwrap_or_else(|| panic!("{name}: {shards:#}")).clone()
    }
}

/// Names that stand with commas in one cell.
fn names(cell: &Value) -> Vec<&str> {
    cell.as_str().unwrap_or_default().split(", ").filter(|name| !name.is_empty()).collect()
}

/// A path, a value: what stays of a list when entity tags are left out.
fn values(list: &Value) -> Vec<(String, String)> {
    let text = |value: &Value| value.as_str().map(str::to_owned);
    let row = |row: &Value| (text(&row["path"]).unwrap(), text(&row["value"]).or(text(&row["value-hex"])).unwrap());
    list.as_array().expect("rows").iter().map(row).collect()
}

#[test]
fn values_are_written_read_listed_and_taken_away() {
    let cluster = Cluster::start(1);
    let path = "/car:cars/car-entry=17";
    let absent = format!(
        "There is no value at {path} in the datastore `config`; `heddle cluster list /car:` shows those of `car`\n"
    );
    assert_eq!(cluster.expect(1, &["get", path]), (String::new(), absent));
    let etag = cluster.json(&["put", path, "red"])["etag"].as_u64().expect("an entity tag");
    assert_eq!(cluster.run(&["get", path]), "red", "not a byte more");
    assert_eq!(cluster.run(&["get", path, "--stale"]), "red");
    let (_, stderr) = cluster.expect(1, &["put", path, "blue", "--create"]);
    assert!(stderr.contains("already"), "{stderr}");
    let (_, stderr) = cluster.expect(1, &["put", path, "blue", "--if-etag", "99"]);
    assert!(stderr.contains(&format!("entity tag {etag}")), "{stderr}");
    cluster.expect(1, &["put", "/car:cars/car-entry=18", "blue", "--replace"]);
    assert_eq!(cluster.run(&["get", path]), "red", "nothing of this was carried out");
    cluster.run(&["put", path, "blue", "--if-etag", &etag.to_string()]);
    cluster.run(&["put", path, "green", "--replace"]);
    cluster.run(&["put", "/car:cars/car-entry=18", "white", "--create"]);
    cluster.run(&["put", path, "17 km/h", "--datastore", "operational"]);
    cluster.put_from_stdin("/bin:blob", b"\x00\xff\n");
    assert_eq!(cluster.get_bytes("/bin:blob"), b"\x00\xff\n");
    assert_eq!(cluster.json(&["get", "/bin:blob"])["value-hex"], "00ff0a");
    let all = cluster.json(&["list", "/"]);
    let expected = [("/bin:blob", "00ff0a"), (path, "green"), ("/car:cars/car-entry=18", "white")];
    assert_eq!(values(&all), expected.map(|(path, value)| (path.to_owned(), value.to_owned())));
    let (csv, _) = cluster.expect(0, &["list", "/car:cars", "--limit", "1", "-o", "csv"]);
    assert_eq!((csv.lines().next(), csv.lines().count()), (Some("path,etag,value"), 2));
    assert_eq!(values(&cluster.json(&["list", "/", "--datastore", "operational"])).len(), 1);
    cluster.expect(1, &["delete", path, "--if-etag", "1"]);
    cluster.run(&["delete", "/car:cars"]);
    cluster.expect(1, &["delete", "/car:cars"]);
    assert_eq!(values(&cluster.json(&["list", "/"])).len(), 1);
    // All data at once only for those who say so, and only the datastore that is meant.
    let (_, stderr) = cluster.expect(2, &["delete", "/"]);
    assert!(stderr.contains("/ is all data of the cluster") && stderr.contains("--recursive"), "{stderr}");
    assert_eq!(values(&cluster.json(&["list", "/"])).len(), 1);
    cluster.run(&["delete", "/", "--recursive", "--datastore", "operational"]);
    assert_eq!(values(&cluster.json(&["list", "/", "--datastore", "operational"])).len(), 0);
    assert_eq!(values(&cluster.json(&["list", "/"])).len(), 1);
    // What is no path, and what fits nowhere.
    let (_, stderr) = cluster.expect(2, &["get", "cars"]);
    assert!(stderr.contains("/car:cars/car-entry=17"), "{stderr}");
    let (_, stderr) = cluster.expect(2, &["put", "/car:", "x"]);
    assert!(stderr.contains("at no node"), "{stderr}");
}

#[test]
fn room_on_disks_is_given_back_while_servers_go_on() {
    let cluster = Cluster::start(3);
    cluster.run(&["put", "/car:cars/car-entry=17", "red"]);
    let rows = cluster.json(&["defrag"]);
    let rows = rows.as_array().expect("rows");
    assert_eq!(rows.iter().map(|row| row["server"].as_str().expect("a name")).collect::<Vec<_>>(), ["c1", "c2", "c3"]);
    for row in rows {
        let bytes = |column: &str| row[column].as_u64().expect("a number");
        assert!(bytes("log-bytes-before") > 0 && bytes("log-bytes") > 0 && bytes("snapshot-bytes") > 0, "{row:#}");
    }
    assert_eq!(cluster.json(&["defrag", "c2"]).as_array().map(Vec::len), Some(1));
    assert!(cluster.expect(2, &["defrag", "nobody"]).1.contains("there is no server `nobody`"));
    let status = cluster.json(&["status"]);
    let disks = status["disks"].as_array().expect("rows");
    assert!(disks.len() == 3 && disks.iter().all(|disk| disk["snapshot-bytes"].as_u64() > Some(0)), "{disks:#?}");
    assert_eq!(cluster.run(&["get", "/car:cars/car-entry=17"]), "red");
}

#[test]
fn changes_are_followed_and_rpcs_called() {
    let cluster = Cluster::start(1);
    let endpoints = cluster.endpoints();
    let args = ["cluster", "--endpoints", &endpoints, "watch", "/car:cars", "-o", "json"];
    let mut command = cluster.desk.command(&args);
    let mut watch = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it starts");
    let mut begun = String::new();
    let mut stderr = BufReader::new(watch.stderr.take().expect("it is piped"));
    stderr.read_line(&mut begun).expect("it says that it has begun");
    assert!(begun.starts_with("Watching /car:cars of config"), "{begun}");
    cluster.run(&["put", "/car:cars/car-entry=1", "red"]);
    cluster.run(&["put", "/people:people", "not watched"]);
    cluster.run(&["delete", "/car:cars/car-entry=1"]);
    let mut lines = BufReader::new(watch.stdout.take().expect("it is piped")).lines();
    let mut event = || -> Value { serde_json::from_str(&lines.next().expect("a line").expect("UTF-8")).expect("JSON") };
    let (first, second) = (event(), event());
    assert_eq!(
        (&first["event"], &first["path"], &first["value"]),
        (&"put".into(), &"/car:cars/car-entry=1".into(), &"red".into())
    );
    assert_eq!((&second["event"], &second["path"]), (&"deleted".into(), &"/car:cars/car-entry=1".into()));
    watch.kill().expect("it is ours to kill");
    watch.wait().expect("it ends");

    let (_, stderr) = cluster.expect(2, &["call", "people:greet"]);
    assert!(stderr.contains("no server offers people:greet"), "{stderr}");
    let provider = Client::connect(&[cluster.nodes[0].address.clone()], None).expect("a client");
    let path = tree::Path::parse("/people:people").expect("a path");
    let offers = vec![("people:greet".to_owned(), Some(path))];
    let greet = |call: node::Call| match &call.input[..] {
        b"" => Err("whom?".to_owned()),
        name => Ok([b"hello ", name].concat()),
    };
    provider.serve(offers, PATIENCE, greet).expect("the offer is taken");
    let path = "/people:people/person=7";
    assert_eq!(cluster.run(&["call", "people:greet", "Ada", "--path", path]), "hello Ada");
    assert_eq!(cluster.json(&["call", "people:greet", "Ada", "--path", path, "--idempotent"])["output"], "hello Ada");
    let (_, stderr) = cluster.expect(2, &["call", "people:greet", "--path", path]);
    assert!(stderr.contains("whom?"), "{stderr}");
    let (verbose, _) = cluster.expect(0, &["status", "-v"]);
    assert!(verbose.contains("people:greet") && verbose.contains("lease-reads"), "{verbose}");
}

#[test]
fn shards_are_made_moved_and_deleted_while_values_stay() {
    let cluster = Cluster::start(3);
    let (path, other) = ("/car:cars/car-entry=17", "/car:cars/car-entry=18");
    cluster.run(&["put", path, "red"]);
    cluster.run(&["put", other, "blue"]);
    let made = cluster.json(&["shards", "create", "cars", "--module", "car"]);
    assert_eq!(made["moved"], true);
    assert_eq!(cluster.run(&["get", path]), "red", "it was written before the shard was made");
    let row = cluster.shard("cars");
    assert_eq!((&row["prefixes"], &row["entries"], &row["made"]), (&"module car".into(), &2.into(), &"by hand".into()));
    let (_, errors) = cluster.expect(2, &["shards", "create", "cars2", "--module", "car"]);
    assert!(errors.contains("module car belongs to shard cars already"), "{errors}");
    cluster.run(&["shards", "create", "one", "--replicas", "1"]);
    assert_eq!(cluster.json(&["shards", "move", "one", "--prefix", path])["moved"], true);
    assert_eq!(names(&cluster.shard("one")["voters"]).len(), 1);
    assert_eq!((cluster.run(&["get", path]), cluster.run(&["get", other])), ("red".into(), "blue".into()));
    assert_eq!(values(&cluster.json(&["list", "/car:cars"])).len(), 2, "over two shards");
    // Changes which servers hold it, and which one leads it.
    assert_eq!(cluster.json(&["shards", "replicas", "one", "c1,c3"])["converged"], true);
    assert_eq!(names(&cluster.shard("one")["voters"]), ["c1", "c3"]);
    let (_, stderr) = cluster.expect(2, &["move-leader", "one", "c2"]);
    assert!(stderr.contains("no voting replica"), "{stderr}");
    for server in ["c3", "c1"] {
        assert_eq!(cluster.json(&["shards", "pin", "one", server])["leads"], true);
        assert_eq!(cluster.shard("one")["leader"], *server);
    }
    let (_, stderr) = cluster.expect(2, &["move-leader", "one", "c3"]);
    assert!(stderr.contains("pinned"), "{stderr}");
    cluster.run(&["shards", "unpin", "one"]);
    assert!(cluster.shard("one")["pinned"].is_null());
    for server in ["2", "c3"] {
        cluster.run(&["move-leader", "cars", server]);
    }
    let (_, stderr) = cluster.expect(2, &["shards", "pin", "trucks", "c1"]);
    assert!(stderr.contains("no shard `trucks`") && stderr.contains("default"), "{stderr}");
    let (_, stderr) = cluster.expect(2, &["shards", "replicas", "meta", "1"]);
    assert!(stderr.contains("always there"), "{stderr}");
    // Back again.
    assert_eq!(cluster.json(&["shards", "delete", "one"])["gone"], true);
    assert_eq!(cluster.run(&["get", path]), "red");
    assert_eq!(cluster.shard("cars")["entries"], 2);
    // Shards that come by themselves.
    cluster.run(&["shards", "strategy", "distributed"]);
    cluster.run(&["put", "/people:people/person=1", "Ada"]);
    cluster.wait("people has its shard", |status| {
        let rows = status["shards"].as_array().expect("rows");
        rows.iter().any(|row| row["prefixes"] == "module people" && row["moving"].is_null())
    });
    cluster.run(&["shards", "strategy", "single"]);
    assert_eq!(cluster.run(&["get", "/people:people/person=1"]), "Ada");
    assert_eq!(cluster.json(&["shards"]).as_array().expect("rows").len(), 3);
}

#[test]
fn a_backup_fills_another_cluster() {
    let cluster = Cluster::start(1);
    for number in 0..20 {
        cluster.run(&["put", &format!("/car:cars/car-entry={number}"), &format!("car {number}")]);
    }
    cluster.run(&["put", "/car:cars/car-entry=7", "130 km/h", "--datastore", "operational"]);
    cluster.put_from_stdin("/car:photo", &vec![7; 700_000]);
    cluster.run(&["shards", "create", "seven", "--prefix", "/car:cars/car-entry=7"]);
    cluster.run(&["shards", "pin", "seven", "c1"]);
    cluster.run(&["put", "/lab:bench", "in default, made before the strategy"]);
    cluster.run(&["shards", "strategy", "distributed"]);
    cluster.run(&["put", "/people:people/person=1", "Ada"]);
    let shown = cluster.json(&["backup", "monday.heddle"]);
    assert_eq!(shown["entries"], 24);
    let (_, stderr) = cluster.expect(2, &["backup", "monday.heddle"]);
    assert!(stderr.contains("--force"), "{stderr}");
    cluster.run(&["backup", "monday.heddle", "--force", "--quiet"]);

    let whole = std::fs::read(cluster.desk.path().join("monday.heddle")).expect("it is there");
    let mut damaged = whole.clone();
    damaged[whole.len() / 2] ^= 1;
    std::fs::write(cluster.desk.path().join("damaged.heddle"), damaged).expect("room");
    std::fs::write(cluster.desk.path().join("short.heddle"), &whole[..whole.len() - 1]).expect("room");
    let second = Cluster { desk: Desk::new(), nodes: Vec::new() };
    let new = Node::start(&second.desk, "c1", &["--node", "c1", "--listen", "127.0.0.1:0"]);
    let second = Cluster { nodes: vec![new], ..second };
    let file = |name: &str| cluster.desk.path().join(name).display().to_string();
    cluster.desk.write("letter.heddle", "Dear cluster");
    for (name, reason) in [
        ("damaged.heddle", "checksum"),
        ("short.heddle", "too early"),
        ("letter.heddle", "no backup"),
        ("none.heddle", "cannot read"),
    ] {
        let (_, stderr) = second.expect(2, &["restore", &file(name)]);
        assert!(stderr.contains(reason), "{stderr}");
    }
    assert_eq!(values(&second.json(&["list", "/"])), [], "nothing was written");
    let shown = second.json(&["restore", &file("monday.heddle")]);
    assert_eq!(shown["entries"], 24);
    for datastore in ["config", "operational"] {
        let list = ["list", "/", "--datastore", datastore];
        assert_eq!(values(&second.json(&list)), values(&cluster.json(&list)));
    }
    assert_eq!(second.shard("seven")["prefixes"], "/car:cars/car-entry=7");
    assert_eq!((&second.shard("seven")["pinned"], &second.shard("seven")["entries"]), (&"c1".into(), &2.into()));
    assert_eq!(second.shard("people")["made"], "by strategy");
    assert_eq!(second.json(&["status"])["strategy"], "distributed");
    let (_, stderr) = second.expect(2, &["restore", &file("monday.heddle")]);
    assert!(stderr.contains("not empty") && stderr.contains("seven"), "{stderr}");
}

#[test]
fn servers_come_go_and_are_replaced() {
    let mut cluster = Cluster::start(3);
    let path = "/car:cars/car-entry=17";
    cluster.run(&["put", path, "red"]);
    cluster.run(&["shards", "create", "cars", "--module", "car", "--replicas", "c1,c2,c3"]);
    let (_, stderr) = cluster.expect(0, &["replace", "c2"]);
    assert!(stderr.contains("c2 is running: stop it first"), "{stderr}");
    let (_, stderr) = cluster.expect(2, &["replace", "c9"]);
    assert!(stderr.contains("no server `c9`") && stderr.contains("c1, c2, c3"), "{stderr}");

    // The second one crashes for good, and another takes its place: name, address, replicas.
    cluster.nodes[1].kill();
    let status = cluster.wait("c2 is missed", |status| status["servers"][1]["live"] == false);
    assert_eq!(status["servers"][0]["live"], true);
    let (_, stderr) = cluster.expect(2, &["remove", "c3"]);
    assert!(stderr.contains("too few servers of meta"), "{stderr}");
    let command = cluster.run(&["replace", "c2"]);
    let options: Vec<&str> = command.split_whitespace().skip(2).collect();
    let replacement = Node::start(&cluster.desk, "c2-again", &options);
    assert_eq!((replacement.server, &replacement.address), (4, &cluster.nodes[1].address));
    cluster.nodes[1] = replacement;
    cluster.wait("it holds what the old one held", |status| {
        let rows = status["shards"].as_array().expect("rows");
        let cars = rows.iter().find(|row| row["name"] == "cars").expect("it is there");
        status["servers"].as_array().is_some_and(|servers| servers.iter().all(|server| server["live"] == true))
            && names(&cars["voters"]) == ["c1", "c3", "c2"]
    });

    // A fourth one, as `add` says.
    let (_, stderr) = cluster.expect(2, &["add", "x y"]);
    assert!(stderr.contains("`x y` cannot name a node"), "{stderr}");
    let (_, stderr) = cluster.expect(2, &["replace", "c3", "-x"]);
    assert!(stderr.contains("-x"), "{stderr}");
    let (_, stderr) = cluster.expect(0, &["add", "c4"]);
    assert!(stderr.contains("--election-timeout"), "{stderr}");
    let (_, stderr) = cluster.expect(2, &["add", "c3"]);
    assert!(stderr.contains("already") && stderr.contains("replace c3"), "{stderr}");
    let command = cluster.json(&["add"]);
    assert_eq!(command["name"], "c4");
    let command = cluster.run(&["add", "c4", "--listen", "127.0.0.1:0"]);
    let options: Vec<&str> = command.split_whitespace().skip(2).collect();
    cluster.nodes.push(Node::start(&cluster.desk, "c4", &options));
    cluster.wait("c4 votes", |status| names(&status["shards"][0]["voters"]).contains(&"c4"));

    // The first one, which may lead everything, is taken out; the data stays.
    assert_eq!(cluster.json(&["shards", "replicas", "cars", "c1,c2,c4"])["converged"], true);
    assert_eq!(cluster.run(&["get", path]), "red");
    let first = cluster.nodes[0].address.clone();
    let (shown, _) = cluster.desk.expect(0, &["cluster", "--endpoints", &first, "remove", "1", "-o", "json"]);
    assert!(shown.contains("\"converged\": true"), "{shown}");
    cluster.nodes[0].kill();
    cluster.nodes.remove(0);
    let status = cluster.json(&["status"]);
    let servers: Vec<&str> =
        status["servers"].as_array().unwrap().iter().filter_map(|row| row["name"].as_str()).collect();
    assert_eq!(servers, ["c3", "c2", "c4"], "by number");
    assert_eq!(names(&cluster.shard("cars")["voters"]).len(), 2);
    assert_eq!(cluster.run(&["get", path]), "red");
    let (csv, _) = cluster.expect(0, &["status", "-o", "csv"]);
    assert_eq!(csv.lines().count(), 1 + 3);
}

#[test]
fn without_a_majority_only_stale_reads_are_answered() {
    let mut cluster = Cluster::start(3);
    let path = "/car:cars/car-entry=17";
    cluster.run(&["put", path, "red"]);
    let last = cluster.nodes[2].address.clone();
    let ask_within = |cluster: &Cluster, timeout: &str, status: i32, args: &[&str]| {
        cluster.desk.expect(status, &[&["cluster", "--endpoints", &last, "--timeout", timeout], args].concat())
    };
    let stale = ["cluster", "--endpoints", &last, "get", path, "--stale"];
    cluster.wait("the last one has it", |_| cluster.desk.heddle(&stale).stdout == b"red");
    let mut waiting = Vec::new();
    for args in [&["watch", "/car:cars"][..], &["elect", "/car:boss", "--listen"]] {
        let args = [&["cluster", "--endpoints", &last, "--timeout", "1s"], args].concat();
        let mut command = cluster.desk.command(&args);
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it starts");
        // Who is elected, or from which revision it watches: it has begun.
        let mut begun = [0];
        let mut stderr = BufReader::new(child.stderr.take().expect("it is piped"));
        if args.contains(&"elect") {
            child.stdout.as_mut().expect("it is piped").read_exact(&mut begun).expect("it says who is elected");
        } else {
            stderr.read_exact(&mut begun).expect("it says that it watches");
        }
        waiting.push((child, stderr.lines()));
    }
    cluster.nodes[0].kill();
    cluster.nodes[1].kill();
    let ask = |status: i32, args: &[&str]| ask_within(&cluster, "60s", status, args);
    // Who waits for changes hears that there can be none.
    let mut hear = |wanted: &str| {
        for (_, lines) in &mut waiting {
            let is_it = |line: std::io::Result<String>| line.expect("UTF-8").contains(wanted);
            assert!(lines.any(is_it), "{wanted}");
        }
    };
    hear("it goes on when the cluster is there again");
    let bench = ["bench", "--requests", "1", "--repeat", "1"];
    for args in [&["put", path, "blue"][..], &["get", path], &["shards", "create", "cars", "--module", "car"], &bench] {
        let (_, stderr) = ask_within(&cluster, "1s", 2, args);
        assert!(stderr.contains("1000 ms") && stderr.contains("majority"), "{args:?}: {stderr}");
    }
    // Nobody listens where it asked last.
    for at in [0, 1] {
        let both = format!("{last},{}", cluster.nodes[at].address);
        let (_, stderr) = cluster.desk.expect(2, &["cluster", "--endpoints", &both, "--timeout", "1s", "list", "/"]);
        assert!(stderr.contains("majority") && !stderr.contains("certificates"), "{stderr}");
    }
    assert_eq!(ask(0, &["get", path, "--stale"]).0, "red");
    let begun = Instant::now();
    while let (status, _) = ask(0, &["status"])
        && !status.contains("1 of 3 servers live")
    {
        assert!(begun.elapsed() < PATIENCE, "{status}");
    }
    let _back = Node::start(&cluster.desk, "c1", &["--node", "c1", "--listen", &cluster.nodes[0].address]);
    hear("note: the cluster answers again");
    for (child, _) in &mut waiting {
        child.kill().expect("it is ours to kill");
        child.wait().expect("it ends");
    }
}

#[test]
fn without_a_majority_of_meta_nobody_is_removed() {
    let mut cluster = Cluster::start(2);
    cluster.run(&["put", "/car:cars", "red"]);
    cluster.nodes[1].kill();
    cluster.wait("c2 is missed", |status| status["servers"][1]["live"] == false);
    let first = cluster.nodes[0].address.clone();
    let args = ["cluster", "--endpoints", &first, "--timeout", "1s", "remove", "c2", "--force"];
    let (_, stderr) = cluster.desk.expect(2, &args);
    let words = stderr.split_whitespace().filter(|word| *word != "│").collect::<Vec<_>>().join(" ");
    for said in ["needs a majority of its voters", "with its data folder", "heddle cluster restore", "--stale"] {
        assert!(words.contains(said), "{said}: {stderr}");
    }
    let (help, _) = cluster.desk.expect(0, &["cluster", "remove", "--help"]);
    assert!(help.contains("majority of the voters of `meta`"), "{help}");
}

#[test]
fn files_of_a_backup_are_called_as_the_user_does() {
    let cluster = Cluster::start(1);
    let (_, stderr) = cluster.expect(2, &["backup", "nowhere/monday.heddle"]);
    assert!(stderr.contains("cannot create nowhere/monday.heddle: ") && stderr.contains("make its folder"), "{stderr}");
    assert!(!stderr.contains(".partial"), "{stderr}");
}

#[test]
fn reads_can_do_without_leases() {
    let desk = Desk::new();
    let node = Node::start(&desk, "c1", &["--node", "c1", "--listen", "127.0.0.1:0", "--reads", "index"]);
    let ask = |args: &[&str]| desk.expect(0, &[&["cluster", "--endpoints", &node.address], args].concat()).0;
    ask(&["put", "/car:cars", "red"]);
    assert_eq!(ask(&["get", "/car:cars"]), "red");
    let status: Value = serde_json::from_str(&ask(&["status", "-o", "json"])).expect("JSON");
    assert_eq!((&status["counters"][0]["lease-reads"], &status["counters"][0]["index-reads"]), (&0.into(), &1.into()));
    let (help, _) = desk.expect(0, &["controller", "--help"]);
    assert!(help.contains("50 per mille"), "{help}");
}

/// Whoever started it may have gone, with both ends of its pipes.
#[test]
fn a_controller_survives_that_nobody_listens() {
    let desk = Desk::new();
    let listen = {
        // Not one of 127.0.0.1, which another connection may get meanwhile.
        let listener = std::net::TcpListener::bind("127.0.0.2:0").expect("a free port");
        listener.local_addr().expect("it is bound").to_string()
    };
    for format in ["json", "table"] {
        let args = ["controller", "--data", "c1", "--listen", &listen, "-o", format, "-v"];
        let mut command = desk.command(&args);
        let process = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it starts");
        let mut node = Node { process, address: listen.clone(), server: 1 };
        drop((node.process.stdout.take(), node.process.stderr.take()));
        let begun = Instant::now();
        let mut answers = 0;
        while answers < 3 {
            let asked = desk.heddle(&["cluster", "--endpoints", &listen, "--timeout", "2s", "put", "/car:cars", "red"]);
            answers += u32::from(asked.status.success());
            assert_eq!(node.process.try_wait().expect("it is ours"), None, "{format}");
            assert!(begun.elapsed() < PATIENCE, "{asked:?}");
            std::thread::sleep(Duration::from_millis(50));
        }
    }
}

#[test]
fn a_log_in_a_file_has_no_colours() {
    let desk = Desk::new();
    let args = ["controller", "--data", "c1", "--listen", "127.0.0.1:0", "-o", "json"];
    let mut process = desk
        .command(&args)
        .env_remove("NO_COLOR")
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .expect("it starts");
    let mut line = String::new();
    BufReader::new(process.stderr.take().expect("it is piped")).read_line(&mut line).expect("UTF-8");
    process.kill().expect("it is ours to kill");
    process.wait().expect("it ends");
    assert!(line.contains("founded cluster") && !line.contains('\x1b'), "{line:?}");
}

#[test]
fn certificates_are_asked_for_and_shown() {
    let desk = Desk::new();
    desk.expect(0, &["controller", "certificates", "--out", "tls", "127.0.0.1"]);
    let tls = ["--tls-cert", "tls/127.0.0.1.pem", "--tls-key", "tls/127.0.0.1.key", "--tls-ca", "tls/ca.pem"];
    let options = [&["--node", "c1", "--listen", "127.0.0.1:0"], &tls[..]].concat();
    let node = Node::start(&desk, "c1", &options);
    let ask_within = |timeout: &str, status: i32, args: &[&str]| {
        desk.expect(status, &[&["cluster", "--endpoints", &node.address, "--timeout", timeout], args].concat())
    };
    let ask = |status: i32, args: &[&str]| ask_within("60s", status, args);
    assert!(ask(0, &[&["put", "/car:cars", "red"], &tls[..]].concat()).0.starts_with("etag"));
    let (_, stderr) = ask_within("2s", 2, &["get", "/car:cars"]);
    assert!(stderr.contains("--tls-cert"), "{stderr}");
    let (command, _) = ask(0, &[&["add", "c2"], &tls[..]].concat());
    assert!(command.contains("--tls-cert FILE --tls-key FILE --tls-ca tls/ca.pem"), "{command}");
    let bench = ["bench", "--requests", "20", "--repeat", "1", "--operations", "create,delete", "-o", "json"];
    let (rows, _) = ask(0, &[&bench[..], &tls[..]].concat());
    hold("heddle cluster bench", &rows);
    let rows: Value = serde_json::from_str(&rows).expect("JSON");
    assert_eq!((rows.as_array().map(Vec::len), &rows[0]["failed"]), (Some(2), &0.into()));
    // A client is no server, and does not become one.
    let client = ["--tls-cert", "tls/client.pem", "--tls-key", "tls/client.key", "--tls-ca", "tls/ca.pem"];
    let join = ["controller", "--data", "c2", "--node", "c2", "--listen", "127.0.0.1:0", "--join", &node.address];
    let (_, stderr) = desk.expect(2, &[&join[..], &client[..]].concat());
    assert!(stderr.contains("not a server's"), "{stderr}");
}

#[test]
fn who_cannot_keep_an_audit_log_takes_no_place_in_a_cluster() {
    let desk = Desk::new();
    let node = Node::start(&desk, "c1", &["--listen", "127.0.0.1:0"]);
    let joins = ["controller", "--data", "c2", "--node", "c2", "--listen", "127.0.0.1:0", "--join", &node.address];
    let (_, stderr) = desk.expect(2, &[&joins[..], &["--audit-log", "."]].concat());
    assert!(stderr.contains("cannot append to it"), "{stderr}");
    let (members, _) = desk.expect(0, &["cluster", "--endpoints", &node.address, "status", "-o", "json"]);
    hold("heddle cluster status", &members);
    assert!(!members.contains("\"c2\""), "{members}");
    let (_, stderr) = desk.expect(2, &["cluster", "--endpoints", &format!("http://{}", node.address), "status"]);
    assert!(stderr.contains("expected HOST:PORT"), "{stderr}");
}

#[test]
fn without_a_cluster_the_way_to_one_is_shown() {
    let desk = Desk::new();
    // A port that was free a moment ago, and one that speaks something else.
    let closed = std::net::TcpListener::bind("127.0.0.2:0").expect("a port").local_addr().expect("an address");
    let (_, stderr) = desk.expect(2, &["cluster", "--timeout", "10m", "status", "--endpoints", &closed.to_string()]);
    assert!(stderr.contains(&closed.to_string()) && stderr.contains("heddle controller"), "{stderr}");
    assert!(!stderr.contains("600000 ms"), "at once, not when the ten minutes are over: {stderr}");
    let strange = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = strange.local_addr().expect("an address").to_string();
    std::thread::spawn(move || {
        for stream in strange.incoming().flatten() {
            let mut stream = stream;
            let _ = stream
                .write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n")
                .and_then(|()| stream.read(&mut [0; 64]).map(|_| ()));
        }
    });
    let (_, stderr) = desk.expect(2, &["cluster", "status", "--endpoints", &address, "--timeout", "500ms"]);
    assert!(stderr.contains("500 ms") && stderr.contains("--tls-cert"), "{stderr}");
    let (_, stderr) = desk.expect(2, &["cluster", "get", "/car:cars", "--timeout", "5"]);
    assert!(stderr.contains("500ms, 5s or 1m"), "{stderr}");
    // An empty variable of the environment is none; an empty option is a script's mistake.
    let unset = desk.command(&["cluster", "status", "--timeout", "500ms"]).env("HEDDLE_ENDPOINTS", "").output();
    let unset = unset.expect("it can be started");
    assert!(!String::from_utf8_lossy(&unset.stderr).contains("is no address"), "{unset:?}");
    let (_, stderr) = desk.expect(2, &["cluster", "status", "--endpoints", ""]);
    assert!(stderr.contains("expected HOST:PORT") && stderr.contains("variable"), "{stderr}");
    let (_, stderr) = desk.expect(2, &["cluster", "status", "--tls-cert", "c.pem"]);
    assert!(stderr.contains("--tls-key") && stderr.contains("--tls-ca"), "{stderr}");
    let (_, stderr) = desk.expect(2, &["cluster", "put", "/car:cars", "x", "--create", "--replace"]);
    assert!(stderr.contains("cannot be used with"), "{stderr}");
    desk.expect(0, &["man", "pages"]);
    let page = desk.read("pages/heddle-cluster.1");
    assert!(page.contains("EXIT STATUS") && page.contains("HEDDLE_ENDPOINTS") && page.contains("alarms"));
    assert!(desk.read("pages/heddle-cluster-shards-create.1").contains("replicas"));
    assert_eq!(completed(&desk, &["cluster", "mov"]), ["move-leader"]);
}

/// Requests that come in at one server draw the shard's leader there. It takes ten of them a second: clients that start anew for each are too slow for that on
/// a busy machine, so a few connections ask one thing after another.
#[test]
fn a_leader_moves_to_where_requests_come_from() {
    let cluster = Cluster::start(3);
    cluster.run(&["put", "/car:cars/car-entry=1", "red"]);
    let leader = |cluster: &Cluster| {
        let status = cluster.json(&["status"]);
        let shards = status["shards"].as_array().expect("a list").clone();
        let of_default = shards.iter().find(|shard| shard["name"] == "default").expect("it is always there");
        of_default["leader"].as_str().map(str::to_owned)
    };
    let before = leader(&cluster).expect("somebody leads");
    let other = (1..=3).map(|n| format!("c{n}")).find(|name| *name != before).expect("there are three");
    let load = ["bench", "--at", "follower", "--operations", "update", "--requests", "2000", "--clients", "8"];
    let begun = Instant::now();
    while leader(&cluster).as_ref() != Some(&other) {
        assert!(begun.elapsed() < 2 * PATIENCE, "{other} is asked, and {:?} leads", leader(&cluster));
        cluster.run(&[&load[..], &["--repeat", "1"]].concat());
    }
}
