//! Users and roles by real processes: who may do what, from when on not any more, and what is noted of it.

use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use crate::program::Desk;
use serde_json::Value;

/// What does not happen within this does not happen.
const PATIENCE: Duration = Duration::from_secs(60);

/// A controller process, ended with the test.
pub struct Node {
    process: Child,
    pub address: String,
}

impl Node {
    /// Starts one and waits until it says where it listens; the error is what it said instead.
    fn try_start(desk: &Desk, data: &str, token: Option<&str>, options: &[&str]) -> Result<Self, String> {
        let args = [&["controller", "-o", "json", "--data", data, "--node", data], options].concat();
        let log = std::fs::File::create(desk.path().join(format!("{data}.log"))).expect("a file for its log");
        let mut command = desk.command(&args);
        if let Some(token) = token {
            command.env("HEDDLE_TOKEN", token);
        }
        let mut process = command.stdout(Stdio::piped()).stderr(log).spawn().expect("the program can be started");
        let mut said = String::new();
        let mut lines = BufReader::new(process.stdout.take().expect("it is piped"));
        while !said.ends_with("}\n") {
            if lines.read_line(&mut said).expect("it speaks UTF-8") == 0 {
                process.wait().expect("it ends");
                return Err(one_line(&desk.read(&format!("{data}.log"))));
            }
        }
        let ready: Value = serde_json::from_str(&said).expect("JSON");
        let address = ready["listen"].as_str().expect("an address").to_owned();
        Ok(Self { process, address })
    }

    pub fn start(desk: &Desk, data: &str, options: &[&str]) -> Self {
        Self::try_start(desk, data, None, options).unwrap_or_else(|log| panic!("{options:?}: {log}"))
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// `heddle cluster` at an address, as somebody.
pub struct Asker<'a> {
    desk: &'a Desk,
    args: Vec<String>,
}

impl<'a> Asker<'a> {
    pub fn new(desk: &'a Desk, address: &str, options: &[&str]) -> Self {
        let args = ["cluster", "--endpoints", address, "--timeout", "60s"].into_iter().chain(options.iter().copied());
        Self { desk, args: args.map(str::to_owned).collect() }
    }

    fn all<'b>(&'b self, args: &[&'b str]) -> Vec<&'b str> {
        self.args.iter().map(String::as_str).chain(args.iter().copied()).collect()
    }

    pub fn run(&self, args: &[&str]) -> String {
        self.desk.expect(0, &self.all(args)).0
    }

    /// What it says when it is refused.
    fn refused(&self, args: &[&str]) -> String {
        one_line(&self.desk.expect(2, &self.all(args)).1)
    }
}

/// Without the line breaks by which an error is fitted to a terminal.
fn one_line(text: &str) -> String {
    text.replace('│', " ").split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Writes a token into a file that nobody else may read.
fn keep(desk: &Desk, name: &str, token: &str) {
    desk.write(name, token);
    let mode = std::fs::Permissions::from_mode(0o600);
    std::fs::set_permissions(desk.path().join(name), mode).expect("it is ours");
}

/// Makes a root, gives its token to the file `rita`, and has users checked.
pub fn enable(desk: &Desk, address: &str) {
    let nobody = Asker::new(desk, address, &[]);
    keep(desk, "rita", &nobody.run(&["user", "add", "rita", "--role", "root", "--token"]));
    let refusal = nobody.refused(&["auth", "enable"]);
    assert!(refusal.contains("root"), "{refusal}");
    Asker::new(desk, address, &["--token-file", "rita"]).run(&["auth", "enable"]);
}

/// The lines of the audit log, once one of them is as wanted.
pub fn audited(desk: &Desk, name: &str, wanted: impl Fn(&Value) -> bool) -> Vec<Value> {
    let begun = Instant::now();
    loop {
        let text = desk.read(name);
        let whole = text.rsplit_once('\n').map_or("", |(whole, _)| whole);
        let lines: Vec<Value> = whole.lines().map(|line| serde_json::from_str(line).expect("a line is JSON")).collect();
        if lines.iter().any(&wanted) {
            return lines;
        }
        assert!(begun.elapsed() < PATIENCE, "{text}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn users_do_what_their_roles_allow_until_they_do_not_and_all_is_noted() {
    let desk = Desk::new();
    let node = Node::start(&desk, "c1", &["--listen", "127.0.0.1:0", "--audit-log", "audit.log"]);
    let nobody = Asker::new(&desk, &node.address, &[]);
    assert!(nobody.run(&["whoami"]).contains("not checked"));
    enable(&desk, &node.address);
    let root = Asker::new(&desk, &node.address, &["--token-file", "rita"]);
    assert!(root.run(&["whoami"]).starts_with("rita, with the roles root"));
    root.run(&["put", "/car:carsharing", "topsecret"]);

    assert_eq!(nobody.run(&["whoami"]), "nobody\n");
    keep(&desk, "wrong", &format!("heddle-{}", "0".repeat(64)));
    let wrong = Asker::new(&desk, &node.address, &["--token-file", "wrong"]);
    assert!(wrong.refused(&["whoami"]).contains("stands for nobody"));
    for refused in [
        &["get", "/car:carsharing"][..],
        &["get", "/car:carsharing", "--stale"],
        &["put", "/car:cars/car-entry=1", "red"],
        &["list", "/"],
        &["watch", "/"],
        &["status"],
        &["call", "car:wash"],
        &["user", "list"],
        &["auth", "disable"],
        &["backup", "all.heddle"],
    ] {
        let said = nobody.refused(refused);
        assert!(said.contains("logged in"), "{refused:?}: {said}");
    }

    root.run(&["role", "add", "drivers"]);
    root.run(&["role", "grant", "drivers", "read,write,watch", "/car:cars"]);
    let token = root.run(&["user", "add", "ann", "--role", "drivers", "--token"]);
    keep(&desk, "ann", &token);
    let ann = Asker::new(&desk, &node.address, &["--token-file", "ann"]);
    ann.run(&["put", "/car:cars/car-entry=1", "topsecret"]);
    assert!(ann.run(&["list", "/car:cars"]).contains("/car:cars/car-entry=1"));
    for refused in [&["get", "/car:carsharing"][..], &["delete", "/car:cars/car-entry=1"], &["list", "/car:"]] {
        let said = ann.refused(refused);
        assert!(said.contains("user ann may not"), "{refused:?}: {said}");
    }

    let watch = ann.all(&["watch", "/car:cars", "-o", "json"]);
    let mut watch =
        desk.command(&watch).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it can be started");
    let mut stderr = BufReader::new(watch.stderr.take().expect("it is piped"));
    let mut line = String::new();
    stderr.read_line(&mut line).expect("it speaks UTF-8");
    assert!(line.contains("Watching"), "{line}");
    root.run(&["role", "revoke", "drivers", "watch", "/car:cars"]);
    assert_eq!(watch.wait().expect("it ends").code(), Some(2));
    let said = one_line(&std::io::read_to_string(stderr).expect("it speaks UTF-8"));
    assert!(said.contains("the cluster has ended the watch: user ann may not watch"), "{said}");

    root.run(&["user", "delete", "ann"]);
    let said = ann.refused(&["get", "/car:cars/car-entry=1"]);
    assert!(said.contains("token"), "{said}");

    let lines = audited(&desk, "audit.log", |line| line["change"] == "delete user ann");
    let find = |wanted: &dyn Fn(&Value) -> bool, what: &str| {
        assert!(lines.iter().any(wanted), "{what}: {}", desk.read("audit.log"));
    };
    let is = |line: &Value, user: Value, operation: &str, outcome: &str| {
        line["user"] == user && line["operation"] == operation && line["outcome"] == outcome
    };
    find(
        &|line| is(line, "ann".into(), "write", "allowed") && line["paths"][0] == "config:/car:cars/car-entry=1",
        "what ann wrote",
    );
    find(&|line| is(line, "ann".into(), "get", "denied") && line["error"].is_string(), "what ann might not read");
    find(&|line| is(line, Value::Null, "write", "denied"), "what nobody might write");
    find(&|line| is(line, "ann".into(), "end of watch", "denied"), "the end of the watch");
    assert!(
        !lines.iter().any(|line| line["operation"] == "get" && line["outcome"] == "allowed"),
        "reads are not noted"
    );
    let text = desk.read("audit.log");
    assert!(!text.contains("topsecret") && !text.contains(token.trim()));
    let mode = std::fs::metadata(desk.path().join("audit.log")).expect("it is there").permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
}

#[test]
fn a_token_expires_and_who_guesses_has_to_wait() {
    let desk = Desk::new();
    let node = Node::start(&desk, "c1", &["--listen", "127.0.0.1:0", "--audit-log", "audit.log"]);
    enable(&desk, &node.address);
    let root = Asker::new(&desk, &node.address, &["--token-file", "rita"]);
    keep(&desk, "guest", &root.run(&["user", "add", "guest", "--role", "root", "--token", "--expires", "3s"]));
    let guest = Asker::new(&desk, &node.address, &["--token-file", "guest"]);
    let begun = Instant::now();
    loop {
        let output = desk.heddle(&guest.all(&["get", "/car:cars"]));
        let said = one_line(&String::from_utf8_lossy(&output.stderr));
        if said.contains("token is not valid") {
            break;
        }
        assert!(begun.elapsed() < PATIENCE, "{said}");
        std::thread::sleep(Duration::from_millis(100));
    }
    assert!(root.run(&["user", "list"]).contains("has expired"));
    std::fs::set_permissions(desk.path().join("guest"), std::fs::Permissions::from_mode(0o644)).expect("it is ours");
    assert!(guest.refused(&["whoami"]).contains("0600"));

    // A wrong token is refused, and after some of them nobody listens at this address.
    keep(&desk, "wrong", &format!("heddle-{}", "5a".repeat(32)));
    let mut wrong = Asker::new(&desk, &node.address, &["--token-file", "wrong"]);
    wrong.args.iter_mut().filter(|arg| *arg == "60s").for_each(|arg| *arg = "1s".to_owned());
    // All of them at once: a minute later they are forgotten.
    let begun = Instant::now();
    let guess = || {
        let mut command = desk.command(&wrong.all(&["get", "/car:cars"]));
        command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().expect("the program can be started")
    };
    loop {
        let guesses: Vec<Child> = (0..12).map(|_| guess()).collect();
        let said = guesses.into_iter().map(|guess| guess.wait_with_output().expect("it ends").stderr);
        if said.filter(|said| one_line(&String::from_utf8_lossy(said)).contains("too many log-ins")).count() > 0 {
            break;
        }
        assert!(begun.elapsed() < 2 * PATIENCE, "nobody has to wait");
    }
    audited(&desk, "audit.log", |line| line["operation"] == "log in" && line["outcome"] == "denied");
}

#[test]
fn the_kernel_says_whose_a_connection_within_the_machine_is() {
    let desk = Desk::new();
    let node = Node::start(&desk, "c1", &["--listen", "127.0.0.1:0"]);
    let uid = nix::unistd::geteuid();
    let me = Asker::new(&desk, &node.address, &[]);
    me.run(&["user", "add", &format!("uid:{uid}"), "--role", "root"]);
    me.run(&["auth", "enable"]);
    assert_eq!(me.run(&["whoami"]), format!("uid:{uid}, with the roles root\n"));
    me.run(&["put", "/car:cars/car-entry=1", "red"]);
    // A token that is sent is what counts, even where the kernel knows better.
    keep(&desk, "wrong", &format!("heddle-{}", "5a".repeat(32)));
    let wrong = Asker::new(&desk, &node.address, &["--token-file", "wrong"]);
    assert!(wrong.refused(&["get", "/car:cars/car-entry=1"]).contains("token is not valid"));
}

#[test]
fn a_server_joins_with_the_token_that_was_printed_for_it() {
    let desk = Desk::new();
    let first = Node::start(&desk, "c1", &["--listen", "127.0.0.1:0"]);
    enable(&desk, &first.address);
    let options = ["--listen", "127.0.0.1:0", "--join", &first.address];
    let refusal = Node::try_start(&desk, "c3", None, &options).err().expect("nobody has invited it");
    assert!(refusal.contains("logged in"), "{refusal}");
    let root = Asker::new(&desk, &first.address, &["--token-file", "rita"]);
    let printed = root.run(&["add", "c2"]);
    let token = printed.split_once("HEDDLE_TOKEN=").expect("a token").1.split_once(' ').expect("a command").0;
    let second = Node::try_start(&desk, "c2", Some(token), &options).unwrap_or_else(|log| panic!("{log}"));
    // It knows users as soon as it has the map, and lets no stranger do anything.
    let begun = Instant::now();
    let nobody = Asker::new(&desk, &second.address, &[]);
    let said = || one_line(&String::from_utf8_lossy(&desk.heddle(&nobody.all(&["get", "/car:cars"])).stderr));
    while !said().contains("logged in") {
        assert!(begun.elapsed() < PATIENCE, "a stranger is let in");
        std::thread::sleep(Duration::from_millis(50));
    }
    Asker::new(&desk, &second.address, &["--token-file", "rita"]).run(&["put", "/car:cars/car-entry=1", "red"]);
}

#[test]
fn a_certificate_names_its_user() {
    let desk = Desk::new();
    desk.expect(0, &["controller", "certificates", "--out", "tls", "127.0.0.1", "--user", "ann"]);
    let files = |name: &str| {
        let path = |ending: &str| format!("tls/{name}.{ending}");
        [
            "--tls-cert".to_owned(),
            path("pem"),
            "--tls-key".to_owned(),
            path("key"),
            "--tls-ca".to_owned(),
            "tls/ca.pem".to_owned(),
        ]
    };
    let server = files("127.0.0.1");
    let mut options = vec!["--listen", "127.0.0.1:0"];
    options.extend(server.iter().map(String::as_str));
    let node = Node::start(&desk, "c1", &options);
    let [client, ann] = ["client", "ann"].map(files);
    let client: Vec<&str> = client.iter().map(String::as_str).collect();
    let ann: Vec<&str> = ann.iter().map(String::as_str).collect();
    let setup = Asker::new(&desk, &node.address, &client);
    keep(&desk, "rita", &setup.run(&["user", "add", "rita", "--role", "root", "--token"]));
    setup.run(&["role", "add", "drivers"]);
    setup.run(&["role", "grant", "drivers", "write", "/car:cars"]);
    setup.run(&["user", "add", "ann", "--role", "drivers"]);
    let root = Asker::new(&desk, &node.address, &[&client[..], &["--token-file", "rita"]].concat());
    root.run(&["auth", "enable"]);
    let ann = Asker::new(&desk, &node.address, &ann);
    assert_eq!(ann.run(&["whoami"]), "ann, with the roles drivers\n");
    ann.run(&["put", "/car:cars/car-entry=1", "red"]);
    assert!(ann.refused(&["get", "/car:cars/car-entry=1"]).contains("ann"));
    let said = setup.refused(&["put", "/car:cars/car-entry=1", "red"]);
    assert!(said.contains("client"), "{said}");
}

#[test]
fn servers_that_are_asked_one_by_one_are_asked_by_who_is_logged_in() {
    let desk = Desk::new();
    let node = Node::start(&desk, "c1", &["--listen", "127.0.0.1:0"]);
    enable(&desk, &node.address);
    let rita = Asker::new(&desk, &node.address, &["--token-file", "rita"]);
    assert_eq!(rita.run(&["alarms"]), "No alarms.\n");
    let health = rita.run(&["check", "health", "-o", "csv"]);
    assert!(health.contains("PASS,disk of c1,") && health.contains("PASS,data of c1,"), "{health}");
    assert!(rita.run(&["status", "-v"]).contains("; protocol "));
    assert!(rita.run(&["defrag", "-o", "csv"]).contains("\nc1,"));
    let refusals = rita.run(&["refusals", "-o", "csv"]);
    assert!(refusals.contains("can switch this on"), "{refusals}");
}
