//! What a client gets wrong it is told, and the connection goes on; and it is known who was refused what.

use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::net::TcpStream;

use crate::controllers::{Controller, PATIENCE, car, client, client_with, command, metrics, tls_files};
use node::{Client, Tls, certificates};
use placement::AccessCommand;
use store::protocol::{
    Admin, Answer, ClientMessage, Consistency, Error, FRAME_HEADER, Hello, Request, RequestBody, Response, Role,
    ServerMessage, Token, Welcome, decode, encode_frame,
};
use store::status::Health;

/// A client that may send whatever it likes.
struct Raw(TcpStream);

impl Raw {
    fn greet(address: &str) -> Self {
        Self::greet_as(address, Role::Client { session: 7 })
    }

    fn greet_as(address: &str, role: Role) -> Self {
        let mut stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let mut hello = Vec::new();
        encode_frame(&Hello::new(role), &mut hello).unwrap();
        stream.write_all(&hello).unwrap();
        let mut raw = Self(stream);
        let welcome: Welcome = decode(&raw.frame().expect("a welcome")).unwrap();
        assert!(matches!(welcome, Welcome::Accepted { .. }), "{welcome:?}");
        raw
    }

    /// The body of the next frame; `None` when the connection has ended.
    fn frame(&mut self) -> Option<Vec<u8>> {
        let mut header = [0; FRAME_HEADER];
        self.0.read_exact(&mut header).ok()?;
        let mut body = vec![0; u32::from_le_bytes(header) as usize];
        self.0.read_exact(&mut body).ok()?;
        Some(body)
    }

    fn send(&mut self, frame: &[u8]) {
        self.0.write_all(frame).unwrap();
    }

    fn response(&mut self) -> Option<Response> {
        match decode(&self.frame()?).unwrap() {
            ServerMessage::Response(response) => Some(response),
            other => panic!("{other:?}"),
        }
    }
}

/// A request to read a car.
fn read(sequence: u64) -> Vec<u8> {
    let body = RequestBody::Get { at: car(17), consistency: Consistency::Linearizable };
    let request = Request { session: 7, sequence, acknowledged: sequence, timeout_ms: 30_000, body };
    let mut frame = Vec::new();
    encode_frame(&ClientMessage::Request(request), &mut frame).unwrap();
    frame
}

fn health(client: &Client) -> Health {
    match client.request(RequestBody::Admin(Admin::Health), PATIENCE).unwrap() {
        Answer::Health(health) => *health,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_bad_path_costs_a_request_and_not_the_connection() {
    let data = tempfile::tempdir().unwrap();
    let controller = Controller::start(command("c1", data.path(), &["--http", "127.0.0.1:0"]));
    let mut raw = Raw::greet(&controller.address);
    for sequence in 1..=3 {
        let mut bad = read(sequence);
        let place = bad.windows(4).position(|window| window == b"/car").expect("the path is in it");
        bad[place + 1] = b'7';
        raw.send(&bad);
        let response = raw.response().expect("the connection goes on");
        assert_eq!(response.sequence, sequence);
        let Err(Error::Invalid(reason)) = response.result else { panic!("{:?}", response.result) };
        assert!(reason.contains("at byte 1 of the path: expected a name") && reason.contains("hint: "), "{reason}");
        // What comes next is answered as ever.
        raw.send(&read(sequence + 10));
        let response = raw.response().expect("the connection goes on");
        assert_eq!((response.sequence, response.result), (sequence + 10, Ok(Answer::Value(None))));
    }
    // What is no request at all ends it.
    raw.send(&[3, 0, 0, 0, 9, 9, 9]);
    assert!(raw.frame().is_none());

    // It is known who that was.
    let uid = nix::unistd::geteuid();
    let health = health(&client(&[&controller]));
    let rows: Vec<_> = health.refusals.iter().map(|row| (row.what.as_str(), row.reason.as_str(), row.count)).collect();
    assert!(rows.contains(&("request", "invalid", 3)) && rows.contains(&("connection", "no message", 1)), "{rows:?}");
    let user = format!("user {uid}");
    assert!(health.refusals.iter().all(|row| row.host == "localhost" && row.client == user), "{:?}", health.refusals);
    assert!(health.log_writes.count() > 0 && health.disk.is_none());
    let page = metrics(&controller);
    let line =
        format!(r#"heddle_refusals_total{{host="localhost",client="{user}",what="request",reason="invalid"}} 3"#);
    assert!(page.contains(&line) && page.contains("heddle_log_write_seconds_count "), "{page}");
}

#[test]
fn with_certificates_it_is_known_whose_they_are() {
    let (data, made) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    certificates::make(made.path(), &["127.0.0.1".to_owned()]).unwrap();
    let options = ["--tls", made.path().to_str().unwrap(), "127.0.0.1"];
    let controller = Controller::start(command("c1", data.path(), &options));
    let tls = Tls::load(&tls_files(made.path(), "client")).unwrap();
    let client = client_with(&controller, Some(&tls));
    let nothing = tree::Transaction { conditions: Vec::new(), changes: Vec::new() };
    client.request(RequestBody::Write(nothing), PATIENCE).unwrap_err();
    let refusals = health(&client).refusals;
    let row = refusals.iter().find(|row| row.reason == "invalid").expect("it was refused");
    assert_eq!((row.host.as_str(), row.client.as_str(), row.count), ("localhost", "certificate client", 1));
}

#[test]
fn who_has_not_logged_in_sends_nothing_long() {
    let data = tempfile::tempdir().unwrap();
    let controller = Controller::start(command("c1", data.path(), &[]));
    let change = tree::Change::Put { at: car(1), value: vec![7; 100_000].into() };
    let body = RequestBody::Write(tree::Transaction::of(change));
    let request = Request { session: 7, sequence: 1, acknowledged: 1, timeout_ms: 30_000, body };
    let mut long = Vec::new();
    encode_frame(&ClientMessage::Request(request), &mut long).unwrap();
    let wrong_token = || Role::User { session: 7, token: Token([9; 32]) };

    // Where there are no users, everybody is somebody.
    let mut anybody = Raw::greet_as(&controller.address, wrong_token());
    anybody.send(&long);
    assert!(matches!(anybody.response().unwrap().result, Ok(Answer::Written { .. })));

    let me = client(&[&controller]);
    let user = format!("uid:{}", nix::unistd::geteuid());
    let add = AccessCommand::AddUser { user, roles: BTreeSet::from(["root".to_owned()]), token: None };
    for command in [add, AccessCommand::Enable] {
        let command = placement::Command::Access { revision: None, command };
        me.request(RequestBody::Admin(Admin::Placement(command)), PATIENCE).unwrap();
    }
    let mut known = Raw::greet(&controller.address);
    known.send(&long);
    assert!(matches!(known.response().unwrap().result, Ok(Answer::Written { .. })));
    let mut nobody = Raw::greet_as(&controller.address, wrong_token());
    // The rest is not waited for.
    nobody.send(&long[..100]);
    let response = nobody.response().expect("a reason");
    let Err(Error::Denied(reason)) = response.result else { panic!("{:?}", response.result) };
    assert!(response.sequence == 1 && reason.contains("65536 at most; hint: "), "{reason}");
    assert!(nobody.frame().is_none());
}
