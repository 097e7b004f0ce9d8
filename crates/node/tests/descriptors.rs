//! Descriptors: whatever strangers and clients take, those of the disk and of peers stay.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::controllers::{
    Controller, PATIENCE, client, client_with, command, eventually, get, metrics, put, status, tls_files,
};
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use node::{Client, Tls, certificates};
use store::protocol::{Admin, Answer, FRAME_HEADER, Hello, RequestBody, Role, Welcome, decode, encode_frame};

/// What a controller of these tests may open.
const LIMIT: usize = 256;

/// Of these, what is kept for the disk and whatever else a server opens.
const RESERVE: usize = 64;

/// A value that fills a segment soon.
const VALUE: &[u8] = &[7; 1 << 20];

/// More of them than one segment of the log holds.
const VALUES: u64 = 80;

/// The same command, in a process that may open so many files.
fn limited(files: usize, plain: &Command) -> Command {
    let mut limited = Command::new("sh");
    limited.args(["-c", &format!("ulimit -n {files}; exec \"$0\" \"$@\"")]);
    limited.arg(plain.get_program()).args(plain.get_args());
    limited
}

/// This process itself has to hold as many connections as the tests make.
fn raise_our_limit() {
    let (_, hard) = getrlimit(Resource::RLIMIT_NOFILE).unwrap();
    setrlimit(Resource::RLIMIT_NOFILE, hard, hard).unwrap();
}

fn connect(address: &str) -> std::io::Result<TcpStream> {
    let address: SocketAddr = address.parse().unwrap();
    TcpStream::connect_timeout(&address, PATIENCE)
}

struct OnDrop<'a>(&'a AtomicBool);

impl Drop for OnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Runs `act` while somebody opens connections to `address`, holds four times as many as there may be, and opens more for each that
/// is closed. How many there were.
fn while_flooded(address: &str, act: impl FnOnce()) -> usize {
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let flood = scope.spawn(|| {
            let (mut held, mut opened) = (std::collections::VecDeque::new(), 0);
            while !over.load(Ordering::Relaxed) || opened < 4 * LIMIT {
                if let Ok(stream) = connect(address) {
                    held.push_back(stream);
                    opened += 1;
                }
                if held.len() > 4 * LIMIT {
                    held.pop_front();
                    std::thread::sleep(Duration::from_millis(1));
                }
            }
            opened
        });
        // Also when something fails.
        let end = OnDrop(&over);
        act();
        drop(end);
        flood.join().unwrap()
    })
}

/// It would end at the next segment, with "the disk failed".
fn write_across_segments(client: &Client) {
    for key in 0..VALUES {
        put(client, key, VALUE, PATIENCE).unwrap();
    }
}

fn segments(folder: &std::path::Path) -> usize {
    let names = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name());
    names.filter(|name| name.to_string_lossy().starts_with("log-")).count()
}

fn metric(controller: &Controller, name: &str) -> f64 {
    let text = metrics(controller);
    let line = text.lines().find(|line| line.split([' ', '{']).next() == Some(name)).expect("it is a metric");
    line.rsplit(' ').next().unwrap().parse().unwrap()
}

#[test]
fn idle_connections_take_no_descriptor_of_the_disk() {
    raise_our_limit();
    let data = tempfile::tempdir().unwrap();
    let controller = Controller::start(limited(LIMIT, &command("c1", data.path(), &["--http", "127.0.0.1:0"])));
    let client = client(&[&controller]);
    put(&client, 1, b"before", PATIENCE).unwrap();
    let opened = while_flooded(&controller.address, || {
        write_across_segments(&client);
        // A client that comes now is let in as well, and so is a monitor.
        assert_eq!(get(&client_with(&controller, None), 1).unwrap().as_deref(), Some(VALUE));
        eventually("strangers were displaced", || metric(&controller, "heddle_connections_displaced_total") > 0.0);
        assert!(metric(&controller, "process_open_fds") < metric(&controller, "process_max_fds"));
    });
    assert!(opened >= 4 * LIMIT && segments(data.path()) > 1, "{opened}");
}

#[test]
fn strangers_without_a_certificate_take_none_either() {
    raise_our_limit();
    let (data, made) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    certificates::make(made.path(), &["127.0.0.1".to_owned()]).unwrap();
    let options = ["--tls", made.path().to_str().unwrap(), "127.0.0.1"];
    let controller = Controller::start(limited(LIMIT, &command("c1", data.path(), &options)));
    let tls = Tls::load(&tls_files(made.path(), "client")).unwrap();
    let client = client_with(&controller, Some(&tls));
    put(&client, 1, b"before", PATIENCE).unwrap();
    while_flooded(&controller.address, || write_across_segments(&client));
    assert_eq!(get(&client, 1).unwrap().as_deref(), Some(VALUE));
}

/// Says hello, and how it is answered.
fn greet(address: &str, session: u64) -> (TcpStream, Welcome) {
    let mut stream = connect(address).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let mut hello = Vec::new();
    encode_frame(&Hello::new(Role::Client { session }), &mut hello).unwrap();
    stream.write_all(&hello).unwrap();
    let mut header = [0; FRAME_HEADER];
    stream.read_exact(&mut header).unwrap();
    let mut body = vec![0; u32::from_le_bytes(header) as usize];
    stream.read_exact(&mut body).unwrap();
    (stream, decode(&body).unwrap())
}

#[test]
fn clients_of_one_host_leave_places_for_others() {
    raise_our_limit();
    let data = tempfile::tempdir().unwrap();
    let controller = Controller::start(limited(LIMIT, &command("c1", data.path(), &["--http", "127.0.0.1:0"])));
    let client = client(&[&controller]);
    put(&client, 1, b"before", PATIENCE).unwrap();
    let mut held = Vec::new();
    let refusal = (0..LIMIT as u64).find_map(|session| match greet(&controller.address, session) {
        (stream, Welcome::Accepted { .. }) => {
            held.push(stream);
            None
        }
        (_, Welcome::Refused(reason)) => Some(reason),
        (_, other) => panic!("a client is welcomed by {other:?}"),
    });
    let reason = refusal.expect("there is a bound");
    assert!(reason.contains("one host may have no more") && reason.contains("hint: "), "{reason}");
    assert!(held.len() > 16, "{}", held.len());
    // Those that are there go on, and whoever leaves makes room.
    put(&client, 2, b"after", PATIENCE).unwrap();
    held.clear();
    eventually("there is room again", || matches!(greet(&controller.address, 9_999).1, Welcome::Accepted { .. }));
    assert!(status(&client).counters.requests > 0);
}

/// Sets the limit of open files of a process that runs.
fn set_limit(controller: &Controller, files: usize) {
    let outcome =
        Command::new("prlimit").args(["--pid", &controller.pid().to_string(), &format!("--nofile={files}:")]).status();
    assert!(outcome.is_ok_and(|status| status.success()), "prlimit(1), of util-linux, sets a limit");
}

/// Why the disk takes no writes, as the server says.
fn disk_trouble(client: &Client) -> Option<String> {
    match client.request(RequestBody::Admin(Admin::Health), PATIENCE).unwrap() {
        Answer::Health(health) => health.disk,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_disk_that_gets_no_descriptor_waits_for_one() {
    let data = tempfile::tempdir().unwrap();
    let controller = Controller::start(command("c1", data.path(), &["--http", "127.0.0.1:0"]));
    let client = client(&[&controller]);
    let other = client_with(&controller, None);
    put(&client, 0, VALUE, PATIENCE).unwrap();
    get(&other, 0).unwrap();
    let before = segments(data.path());
    set_limit(&controller, 3);
    std::thread::scope(|scope| {
        // Each write has its answer in the end, however long the disk has to wait.
        let writer = scope.spawn(|| {
            for key in 0..VALUES {
                put(&client, key, VALUE, Duration::from_secs(600)).unwrap();
            }
        });
        let trouble = loop {
            if let Some(trouble) = disk_trouble(&other) {
                break trouble;
            }
            assert!(!writer.is_finished(), "it has written {VALUES} MiB into one segment");
            std::thread::sleep(Duration::from_millis(20));
        };
        assert!(trouble.contains("cannot open it now"), "{trouble}");
        assert_eq!(segments(data.path()), before);
        // Reads go on.
        assert_eq!(get(&other, 0).unwrap().as_deref(), Some(VALUE));
        set_limit(&controller, 512);
    });
    assert_eq!(disk_trouble(&other), None);
    assert_eq!(controller.page("/healthz").0, 200);
    drop((client, other));
    assert_eq!(controller.end(nix::sys::signal::Signal::SIGTERM).code(), Some(0));
    assert!(segments(data.path()) > before);
}

#[test]
fn with_too_few_it_does_not_start() {
    let data = tempfile::tempdir().unwrap();
    let refusal = Controller::try_start(limited(64, &command("c1", data.path(), &[]))).err().expect("it refuses");
    assert!(
        refusal.text.contains("may open 64 files") && refusal.text.contains("hint: raise the limit"),
        "{}",
        refusal.text
    );
}

/// What a request on a new connection is answered with; empty: the connection is closed without a word.
fn http(controller: &Controller, request: &[u8]) -> String {
    let mut stream = connect(&controller.http).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let mut answer = Vec::new();
    // It may be closed while there is still something to be written or read.
    let _ = stream.write_all(request).and_then(|()| stream.read_to_end(&mut answer).map(drop));
    String::from_utf8_lossy(&answer).into_owned()
}

#[test]
fn http_takes_small_requests_and_no_more_connections_than_it_may() {
    raise_our_limit();
    let data = tempfile::tempdir().unwrap();
    let controller = Controller::start(limited(LIMIT, &command("c1", data.path(), &["--http", "127.0.0.1:0"])));
    while_flooded(&controller.http, || {
        put(&client(&[&controller]), 1, b"x", PATIENCE).unwrap();
        let open = std::fs::read_dir(format!("/proc/{}/fd", controller.pid())).unwrap().count();
        // What is kept for the disk is free, also while those that had to go are not closed yet.
        assert!(open < LIMIT - RESERVE, "{open}");
    });
    let long = [b"GET /healthz HTTP/1.1\r\nHost: x\r\nX: ".as_slice(), &vec![b'a'; 64 << 10], b"\r\n\r\n"].concat();
    assert!(http(&controller, &long).starts_with("HTTP/1.1 431"));
    let fields = "A: b\r\n".repeat(100);
    let many = format!("GET /healthz HTTP/1.1\r\nHost: x\r\n{fields}\r\n");
    assert!(http(&controller, many.as_bytes()).starts_with("HTTP/1.1 431"));
    let body = b"GET /healthz HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nhello";
    assert!(http(&controller, body).starts_with("HTTP/1.1 413"));
    let chunked = b"POST /metrics HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n";
    assert!(http(&controller, chunked).starts_with("HTTP/1.1 413"));
    // Half a head is waited for, though not for ever.
    assert_eq!(http(&controller, b"GET /healthz HTTP/1.1\r\nHost:"), "");
    assert_eq!(controller.page("/healthz").0, 200);
}
