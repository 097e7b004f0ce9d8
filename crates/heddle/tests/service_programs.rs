//! `serve`, `load` and `agent` as a user runs them.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};

use serde_json::Value;

use super::json::hold;
use super::live::{Guard, may_run};
use super::program::Desk;

/// A program that says where it listens, and ends with the test.
struct Listening {
    child: Child,
    addresses: Vec<String>,
}

impl Listening {
    fn start(desk: &Desk, args: &[&str]) -> Self {
        let mut child = desk.command(args).stdout(Stdio::piped()).spawn().expect("the program runs");
        let mut line = String::new();
        BufReader::new(child.stdout.take().expect("a pipe")).read_line(&mut line).expect("it says something");
        let addresses = line.strip_prefix("Listening at ").unwrap_or_else(|| panic!("{args:?}: {line}"));
        Self { child, addresses: addresses.trim().split(", ").map(str::to_owned).collect() }
    }

    /// Asks it to end, and waits until it has.
    fn terminate(mut self) -> Option<i32> {
        let id = self.child.id().to_string();
        assert!(Command::new("kill").arg(&id).status().expect("kill runs").success());
        self.child.wait().expect("it ends").code()
    }
}

impl Drop for Listening {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn ask(address: &str, request: &str) -> String {
    let mut stream = TcpStream::connect(address).expect("it listens");
    stream.write_all(request.as_bytes()).expect("it is sent");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("it answers and closes");
    answer
}

#[test]
fn a_load_is_put_on_a_server_and_measured() {
    let desk = Desk::new();
    let server = Listening::start(&desk, &["serve", "127.0.0.1:0", "--mode", "sleep", "--duration", "1ms", "--report"]);
    let target = format!("http://{}/", server.addresses[0]);
    let quick = ["--for", "300ms", "--warm-up", "0"];
    let (json, _) = desk.expect(0, &[&["load", &target, "-c", "3", "-o", "json"][..], &quick].concat());
    hold("heddle load", &json);
    let result: Value = serde_json::from_str(&json).expect("JSON");
    assert!(result["done"].as_u64() > Some(0) && result["failed"] == 0, "{result}");
    assert!(result["latency"]["p50-ms"].as_f64() >= Some(1.0), "{result}");
    assert_eq!((result["clients"].as_u64(), result["series"].as_array().map(Vec::len)), (Some(3), Some(1)));
    let (table, _) = desk.expect(0, &[&["load", &target, "--rate", "100/s", "--poisson"][..], &quick].concat());
    let columns: Vec<&str> = table.split_whitespace().take(5).collect();
    assert_eq!(columns, ["workload", "rate", "done", "failed", "per-second"], "{table}");
    assert_eq!((result["seconds"].as_f64(), result["warm-up-seconds"].as_f64()), (Some(0.3), Some(0.0)));
    assert!(!table.contains("warm-up"), "there was none: {table}");
    // A scheduler is asked once a connection; who says which connections there are need not hear that.
    assert!(
        table.contains("Connections stayed open (`--new-connections`") && result["connections"] == "keep-alive",
        "{table}"
    );
    for meant in ["--new-connections", "--keep-alive"] {
        let (table, _) = desk.expect(0, &[&["load", &target, meant][..], &quick].concat());
        assert!(!table.contains("Connections stayed open"), "{table}");
    }
    let warmed = ["load", &target, "--for", "200ms", "--warm-up", "100ms"];
    let (said, _) = desk.expect(0, &warmed);
    assert!(said.contains("Measured for 200ms, after a warm-up of 100ms that does not count"), "{said}");
    let (csv, _) =
        desk.expect(0, &[&["load", &target, "--new-connections", "--series", "-o", "csv"][..], &quick].concat());
    assert!(csv.starts_with("second,done,failed,p50-ms,p99-ms,max-ms\n0,"), "{csv}");
    assert!(ask(&server.addresses[0], "GET / HTTP/1.0\r\n\r\n").contains("endpoint-load-metrics: TEXT "));
    assert_eq!(server.terminate(), Some(0), "SIGTERM is how it ends");
    let (_, said) = desk.expect(1, &[&["load", &target][..], &quick].concat());
    assert!(said.contains(" failed: ") && said.contains(" refused"), "{said}");
}

#[test]
fn an_agent_says_how_loaded_the_machine_is() {
    let desk = Desk::new();
    let args =
        ["agent", "--check", "127.0.0.1:0", "--http", "127.0.0.1:0", "--socket", "agent.sock", "--load", "application"];
    let agent = Listening::start(&desk, &args);
    let [check, http, socket] = &agent.addresses[..] else { panic!("{:?}", agent.addresses) };
    let body = r#"{"application_utilization": 0.75}"#;
    let pushed = ask(http, &format!("POST /push HTTP/1.0\r\nContent-Length: {}\r\n\r\n{body}", body.len()));
    assert!(pushed.starts_with("HTTP/1.1 200 ") && socket == "agent.sock", "{pushed}");
    assert_eq!(ask(check, ""), "ready up 51%\n");
    assert!(ask(http, "GET /load HTTP/1.0\r\n\r\n").contains("\"application_utilization\":0.75"));
    assert_eq!(agent.terminate(), Some(0));
}

#[test]
fn what_is_wrong_is_said_with_what_was_expected() {
    let desk = Desk::new();
    for (args, expected) in [
        (&["serve", "h1"][..], "expected an address and a port"),
        (&["serve", "--duration", "gauss:1ms"], "lognormal:MEDIAN,SIGMA"),
        (&["serve", "192.0.2.1:1"], "ip address"),
        (&["serve", "--fail", "5"], "expected per cent"),
        (&["load", "127.0.0.1:1", "--rate", "0/s"], "is no rate"),
        (&["load", "127.0.0.1:1", "-w", "VSVD"], "fine-grain, fsfd, fsvd, vsfd, vsvd, htm-memory, web-tree"),
        (&["load", "https://127.0.0.1"], "HOST:PORT"),
        (&["load", "127.0.0.1:1/a", "-w", "vsvd"], "leave out the path"),
        (&["load", "127.0.0.1:1", "--source", "::1"], "IPv4 source"),
        (&["agent"], "--check"),
        (&["agent", "--socket", "no/such/folder.sock"], "writable"),
        (&["agent", "--http", "127.0.0.1:0", "--process", "4294967295"], "/proc/4294967295/stat"),
    ] {
        let (_, said) = desk.expect(2, args);
        let said = said.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(said.contains(expected), "{args:?}: {said}");
    }
}

/// What a network counts is printed, and served for as long as somebody asks, whether it runs or not.
#[test]
fn metrics_are_printed_and_served() {
    if !may_run() {
        return;
    }
    let Guard(desk) = &Guard(Desk::new());
    desk.expect(0, &["up", "--topo", "single,2", "-n", "counted"]);
    let (page, _) = desk.expect(0, &["metrics", "counted"]);
    assert!(page.contains("\nheddle_link_up{network=\"counted\",a=\"") && page.ends_with("# EOF\n"), "{page}");
    let served = Listening::start(desk, &["metrics", "counted", "--listen", "127.0.0.1:0"]);
    let answer = ask(
        &served.addresses[0],
        "GET /metrics?x=1 HTTP/1.0\r\nAccept: application/openmetrics-text;version=1.0.0\r\n\r\n",
    );
    let (head, body) = answer.split_once("\r\n\r\n").expect("a head and a body");
    assert!(
        head.starts_with("HTTP/1.1 200 ") && head.contains("application/openmetrics-text; version=1.0.0"),
        "{head}"
    );
    assert!(body.contains("\nheddle_link_up{") && body.ends_with("# EOF\n"), "{body}");
    let older = ask(&served.addresses[0], "GET /metrics HTTP/1.0\r\n\r\n");
    assert!(older.contains("text/plain; version=0.0.4") && older.contains("\nheddle_link_up{"), "{older}");
    assert!(!older.contains("# EOF"), "{older}");
    assert!(ask(&served.addresses[0], "GET / HTTP/1.0\r\n\r\n").starts_with("HTTP/1.1 404 "));
    desk.expect(0, &["down", "counted"]);
    let absent = ask(&served.addresses[0], "GET /metrics HTTP/1.0\r\n\r\n");
    assert!(absent.starts_with("HTTP/1.1 503 ") && absent.contains("no network counted is running"), "{absent}");
    desk.expect(0, &["up", "--topo", "single,2", "-n", "counted"]);
    assert!(ask(&served.addresses[0], "GET /metrics HTTP/1.0\r\n\r\n").starts_with("HTTP/1.1 200 "));
    assert_eq!(served.terminate(), Some(0));
    desk.expect(0, &["down", "counted"]);
    let (_, said) = desk.expect(2, &["metrics", "counted"]);
    assert!(said.contains("counted"), "{said}");
}
