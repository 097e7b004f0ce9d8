//! A real agent: what it answers to `HAProxy`, to those who ask for JSON, and what applications may push.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use requests::Error;
use requests::agent::{Agent, AgentConfig, Sources, WeightConfig};
use requests::serve::{PushTo, ServeConfig};
use serde_json::Value;

use crate::served::{Running, config as serve_config};

/// Only what an application says counts: the machine may be busy.
const BY_APPLICATION: WeightConfig = WeightConfig {
    cpu: false,
    memory: false,
    pressure: false,
    application: true,
    up_to: 0.5,
    least_percent: 1,
    drain_at: Some(0.95),
    connections_max: None,
};

struct Reporting {
    check: SocketAddr,
    http: SocketAddr,
    socket: PathBuf,
    ending: Arc<AtomicBool>,
    thread: Option<JoinHandle<Result<(), Error>>>,
    _folder: tempfile::TempDir,
}

impl Reporting {
    fn start(push_lasts: Duration) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let (socket, any) = (folder.path().join("agent.sock"), "127.0.0.1:0".parse().expect("an address"));
        let config = AgentConfig {
            check: vec![any],
            http: vec![any],
            sockets: vec![socket.clone()],
            every: Duration::from_millis(5),
            push_lasts,
            sources: Sources::default(),
            weight: BY_APPLICATION,
        };
        let agent = Agent::open(config).expect("ports are free");
        let (addresses, ending) = (agent.addresses(), Arc::new(AtomicBool::new(false)));
        let until = Arc::clone(&ending);
        let thread = Some(std::thread::spawn(move || agent.run(until)));
        Self { check: addresses[0], http: addresses[1], socket, ending, thread, _folder: folder }
    }

    fn line(&self) -> String {
        let mut line = String::new();
        let mut stream = TcpStream::connect(self.check).expect("it listens");
        stream.read_to_string(&mut line).expect("it answers and closes");
        line
    }

    fn ask(mut stream: impl Read + Write, request: &str) -> String {
        stream.write_all(request.as_bytes()).expect("it is sent");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("it answers and closes");
        answer
    }

    fn push(&self, body: &str) -> String {
        let head = format!("POST /push HTTP/1.0\r\nContent-Length: {}\r\n\r\n", body.len());
        Self::ask(UnixStream::connect(&self.socket).expect("it listens"), &(head + body))
    }

    fn load(&self) -> Value {
        let answer = Self::ask(TcpStream::connect(self.http).expect("it listens"), "GET /load HTTP/1.0\r\n\r\n");
        serde_json::from_str(answer.split("\r\n\r\n").nth(1).expect("a body")).expect("JSON")
    }
}

impl Drop for Reporting {
    fn drop(&mut self) {
        self.ending.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
        assert!(std::thread::panicking() || !self.socket.exists(), "its socket goes with it");
    }
}

#[test]
fn haproxy_gets_a_weight_by_what_the_application_says() {
    let agent = Reporting::start(Duration::from_secs(3_600));
    assert_eq!(agent.line(), "ready up 100%\n", "what is not known is no reason to change anything");
    for (load, line) in [("0.75", "ready up 51%\n"), ("2", "drain up 1%\n"), ("0.1", "ready up 100%\n")] {
        assert!(agent.push(&format!("{{\"application_utilization\": {load}}}")).starts_with("HTTP/1.1 200 "));
        assert_eq!(agent.line(), line);
    }
    let refused = agent.push("{\"application_utilization\": \"much\"}");
    assert!(refused.starts_with("HTTP/1.1 400 ") && refused.contains("expected a number"), "{refused}");
    assert_eq!(agent.line(), "ready up 100%\n", "what was refused changes nothing");
}

#[test]
fn who_asks_for_json_gets_what_the_kernel_and_the_application_say() {
    let agent = Reporting::start(Duration::from_secs(3_600));
    agent.push(r#"{"application_utilization": 0.25, "rps_fractional": 12, "eps": 1, "named_metrics": {"queue": 3}}"#);
    // A share of processors needs two samples in different ticks.
    let load = loop {
        let load = agent.load();
        if load["cpu_utilization"].is_number() {
            break load;
        }
    };
    assert_eq!((&load["application_utilization"], &load["rps_fractional"]), (&Value::from(0.25), &Value::from(12.0)));
    let memory = load["mem_utilization"].as_f64().expect("it is known");
    assert!(memory > 0.0 && memory < 1.0, "{load}");
    let named = &load["named_metrics"];
    assert!(named["queue"] == 3.0 && named["run_queue"].as_f64() > Some(0.0), "{load}");
    assert!(named["connections"].is_number(), "{load}");
}

#[test]
fn what_was_pushed_is_forgotten() {
    let agent = Reporting::start(Duration::from_millis(20));
    agent.push(r#"{"application_utilization": 2}"#);
    while agent.line() != "ready up 100%\n" {}
    assert!(agent.load().get("application_utilization").is_none(), "silence is not idleness");
}

#[test]
fn a_server_gives_its_agent_load_reports() {
    let agent = Reporting::start(Duration::from_secs(3_600));
    for to in [PushTo::Tcp(agent.http), PushTo::Unix(agent.socket.clone())] {
        let mut config = serve_config();
        config.server.at_a_time = Some(1);
        let push = Some((to, Duration::from_millis(5)));
        let server = Running::start(ServeConfig { push, ..config });
        while agent.load()["application_utilization"] != 0.0 {}
        let mut client = TcpStream::connect(server.address).expect("it listens");
        client.write_all(b"GET /work?duration=1h HTTP/1.1\r\n\r\n").expect("it is sent");
        while agent.load()["application_utilization"] != 1.0 {}
        assert_eq!(agent.line(), "drain up 1%\n");
    }
}

#[test]
fn a_socket_that_somebody_has_is_not_taken() {
    let agent = Reporting::start(Duration::from_secs(1));
    let config = |socket: PathBuf| AgentConfig {
        check: Vec::new(),
        http: Vec::new(),
        sockets: vec![socket],
        every: Duration::from_millis(50),
        push_lasts: Duration::from_secs(1),
        sources: Sources::default(),
        weight: BY_APPLICATION,
    };
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("file");
    std::fs::write(&file, "").expect("it can be written");
    for (path, hint) in [
        (&agent.socket, "ss -lxp"),
        (&file, "no socket"),
        (&folder.path().join("x".repeat(108)), "107 bytes"),
        (&folder.path().join("no/such.sock"), "folder"),
    ] {
        let error = Agent::open(config(path.clone())).err().expect("it is refused");
        assert!(matches!(error, Error::ListenUnix { .. }), "{error}");
        assert!(error.hint().is_some_and(|it| it.contains(hint)), "{error}: {:?}", error.hint());
    }
    // One that was left behind is.
    let path = folder.path().join("left.sock");
    drop(std::os::unix::net::UnixListener::bind(&path).expect("it can be made"));
    assert!(path.exists());
    Agent::open(config(path)).expect("nobody listens there");
}
