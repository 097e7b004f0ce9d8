//! The audit log of a real process, and a client that numbers its requests as it likes.

use std::io::{Read, Write};
use std::net::TcpStream;

use crate::program::Desk;
use crate::users::{Asker, Node, audited, enable};
use serde_json::Value;
use store::protocol::{
    ClientMessage, Consistency, Error, Hello, Request, RequestBody, Response, Role, ServerMessage, Token, Welcome,
    decode, encode_frame, split_frame,
};
use tree::{Change, Location, Path, Transaction};

/// The session of the client.
const SESSION: u64 = 0x5e55;

/// A client that need not be well-behaved.
struct Raw {
    stream: TcpStream,
    inbox: Vec<u8>,
}

impl Raw {
    fn log_in(address: &str, token: &str) -> Self {
        let stream = TcpStream::connect(address).expect("it listens");
        let mut raw = Self { stream, inbox: Vec::new() };
        let digits = token.trim().strip_prefix("heddle-").expect("a token");
        let byte = |at: usize| u8::from_str_radix(&digits[2 * at..2 * at + 2], 16).expect("hexadecimal digits");
        let token = Token(std::array::from_fn(byte));
        let mut hello = Vec::new();
        encode_frame(&Hello::new(Role::User { session: SESSION, token }), &mut hello).expect("it fits a frame");
        raw.stream.write_all(&hello).expect("it reads");
        assert!(matches!(raw.receive(), Welcome::Accepted { .. }));
        raw
    }

    /// Sends these in one piece, and gives the answers in the order in which they come.
    fn ask(&mut self, requests: Vec<(u64, RequestBody)>) -> Vec<Response> {
        let (mut bytes, count) = (Vec::new(), requests.len());
        for (sequence, body) in requests {
            let request = Request { session: SESSION, sequence, acknowledged: 1, timeout_ms: 60_000, body };
            encode_frame(&ClientMessage::Request(request), &mut bytes).expect("it fits a frame");
        }
        self.stream.write_all(&bytes).expect("it reads");
        let mut answers = Vec::new();
        while answers.len() < count {
            match self.receive() {
                ServerMessage::Response(response) => answers.push(response),
                other => panic!("{other:?}"),
            }
        }
        answers
    }

    fn receive<T: serde::de::DeserializeOwned>(&mut self) -> T {
        loop {
            if let Some((body, length)) = split_frame(&self.inbox).expect("a frame") {
                let message = decode(body).expect("a message");
                self.inbox.drain(..length);
                return message;
            }
            let mut bytes = [0; 4_096];
            let read = self.stream.read(&mut bytes).expect("it says something");
            assert!(read > 0, "it was cut off");
            self.inbox.extend_from_slice(&bytes[..read]);
        }
    }
}

fn at(path: &str) -> Location {
    Location::config(Path::parse(path).expect("a path"))
}

fn put(paths: &[&str]) -> RequestBody {
    let changes = paths.iter().map(|path| Change::Put { at: at(path), value: b"x".to_vec().into() }).collect();
    RequestBody::Write(Transaction { conditions: Vec::new(), changes })
}

fn stale(path: &str) -> RequestBody {
    RequestBody::Get { at: at(path), consistency: Consistency::Stale }
}

#[test]
fn no_choice_of_numbers_hides_a_request_or_gives_it_the_outcome_of_another() {
    let desk = Desk::new();
    let options = ["--listen", "127.0.0.1:0", "--audit-log", "audit.log", "--audit", "reads", "--audit-required"];
    let node = Node::start(&desk, "c1", &options);
    enable(&desk, &node.address);
    let root = Asker::new(&desk, &node.address, &["--token-file", "rita"]);
    root.run(&["role", "add", "drivers"]);
    root.run(&["role", "grant", "drivers", "read,write", "/car:cars"]);
    root.run(&["role", "grant", "drivers", "offer", "car:"]);
    let mut ann = Raw::log_in(&node.address, &root.run(&["user", "add", "ann", "--role", "drivers", "--token"]));

    let unwatch = |watch| RequestBody::Unwatch { watch };
    ann.ask(vec![(7, put(&["/car:cars/hidden"])), (8, unwatch(7))]);
    let answers = ann.ask(vec![(9, stale("/job:jobs")), (9, put(&["/car:cars/second"]))]);
    assert!(matches!(answers[0].result, Err(Error::Denied(_))) && answers[1].result.is_ok(), "{answers:?}");
    let answers = ann.ask(vec![(10, RequestBody::WhoAmI), (10, put(&["/job:jobs"]))]);
    assert!(answers[0].result.is_ok() && matches!(answers[1].result, Err(Error::Denied(_))), "{answers:?}");
    ann.ask(vec![(11, put(&["/job:jobs"])), (12, unwatch(11))]);
    ann.ask(vec![(13, stale("/car:cars/one")), (13, stale("/car:cars/other"))]);
    let many: Vec<String> = (0..40).map(|number| format!("/car:cars/car-entry={number}")).collect();
    ann.ask(vec![(14, put(&many.iter().map(String::as_str).collect::<Vec<_>>()))]);
    let path = Path::parse("/job:jobs/secret").expect("a path");
    let offers = vec![("car:wash".to_owned(), None), ("car:sell".to_owned(), Some(path))];
    ann.ask(vec![(15, RequestBody::Offer { offers })]);
    ann.ask(vec![(16, put(&["/car:cars/last"]))]);

    let is_last = |line: &Value| line["sequence"] == 16;
    let lines = audited(&desk, "audit.log", |line| is_last(line) && line["session"] == "0000000000005e55");
    let lines: Vec<&Value> = lines.iter().filter(|line| line["session"] == "0000000000005e55").collect();
    let found = |sequence: u64| -> Vec<String> {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let of_it = lines.iter().filter(|line| line["sequence"] == sequence);
        of_it.map(|line| [&line["operation"], &line["outcome"], &line["paths"][0]].map(text).join(" ")).collect()
    };
    assert_eq!(found(7), ["write allowed config:/car:cars/hidden"]);
    assert_eq!(found(9), ["get denied config:/job:jobs", "write allowed config:/car:cars/second"]);
    assert_eq!(found(10), ["whoami allowed ", "write denied config:/job:jobs"]);
    assert_eq!(found(11), ["write denied config:/job:jobs"]);
    let mut both = found(13);
    both.sort_unstable();
    assert_eq!(both, ["get allowed config:/car:cars/one", "get allowed config:/car:cars/other"]);
    let line = lines.iter().find(|line| line["sequence"] == 14).expect("the write of many paths");
    let named = line["paths"].as_array().expect("paths");
    assert_eq!(named.len(), 40, "{line}");
    assert!(many.iter().all(|path| named.contains(&format!("config:{path}").into())), "{line}");
    let line = lines.iter().find(|line| line["sequence"] == 15).expect("the offer");
    assert_eq!(line["rpcs"], serde_json::json!(["car:wash", "car:sell"]));
    assert_eq!(line["paths"], serde_json::json!([null, "/job:jobs/secret"]));
}
