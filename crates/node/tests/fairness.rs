//! One client that asks for a lot, or holds a lot, is not served at the cost of the others.

use nix::sys::signal::Signal;
use store::protocol::{
    Admin, Answer, ClientMessage, Consistency, Request, RequestBody, Response, ServerMessage, encode_frame,
};
use tree::{Change, Transaction};

use crate::controllers::{Controller, PATIENCE, Raw, car, client, command, eventually, metric, put, status, three};

/// Requests that one connection sends at once. Their answers are few enough bytes that the client may leave them unread.
const PIPELINED: u64 = 3_000;

fn request(sequence: u64, body: RequestBody) -> ClientMessage {
    ClientMessage::Request(Request { session: 7, sequence, acknowledged: 1, timeout_ms: 600_000, body })
}

/// Sends all of it with as few calls as the kernel allows.
fn pipeline(raw: &mut Raw) {
    use std::io::Write;
    let mut frames = Vec::new();
    for sequence in 1..=PIPELINED {
        encode_frame(&request(sequence, RequestBody::WhoAmI), &mut frames).unwrap();
    }
    raw.stream.write_all(&frames).unwrap();
}

#[test]
fn who_asks_once_does_not_wait_for_all_that_others_have_asked() {
    let data = tempfile::tempdir().unwrap();
    let controller = Controller::start(command("c1", data.path(), &[]));
    put(&client(&[&controller]), 0, b"first", PATIENCE).unwrap();
    let mut greedy: Vec<Raw> = (0..8).map(|session| Raw::connect(&controller.address, session)).collect();
    let mut modest = Raw::connect(&controller.address, 100);
    // While it is stopped, everything is there before it looks, in this order.
    controller.signal(Signal::SIGSTOP);
    greedy.iter_mut().for_each(pipeline);
    assert!(modest.ask(RequestBody::Admin(Admin::Status)));
    controller.signal(Signal::SIGCONT);
    let ServerMessage::Response(Response { result: Ok(Answer::Status(status)), .. }) = modest.receive() else {
        panic!("the status was asked for")
    };
    let before = status.counters.requests;
    assert!(before < PIPELINED, "{before} requests of others came first");
    // Nothing of the rest is lost, and each gets its answers in order.
    for raw in &mut greedy {
        for sequence in 1..=PIPELINED {
            let ServerMessage::Response(response) = raw.receive() else { panic!("it watches nothing") };
            assert_eq!(response.sequence, sequence);
        }
    }
}

/// What was sent before the end of a connection is heard, however many turns that takes.
#[test]
fn what_was_sent_before_the_end_is_heard() {
    let data = tempfile::tempdir().unwrap();
    let controller = Controller::start(command("c1", data.path(), &[]));
    let other = client(&[&controller]);
    put(&other, 0, b"first", PATIENCE).unwrap();
    let mut raw = Raw::connect(&controller.address, 1);
    controller.signal(Signal::SIGSTOP);
    pipeline(&mut raw);
    raw.stream.shutdown(std::net::Shutdown::Write).unwrap();
    controller.signal(Signal::SIGCONT);
    eventually("all of it was heard", || status(&other).counters.requests > PIPELINED);
}

/// Whoever holds most makes room for the others, and not who came first.
#[test]
fn parts_of_others_frames_do_not_cost_an_honest_request_its_connection() {
    use std::io::Write;
    let data = tempfile::tempdir().unwrap();
    let controller = Controller::start(command("c1", data.path(), &["--memory", "67108864", "--http", "127.0.0.1:0"]));
    put(&client(&[&controller]), 0, b"first", PATIENCE).unwrap();
    let mut honest = Raw::connect(&controller.address, 1);
    let change = |key| Change::Put { at: car(key), value: vec![7; 500_000].into() };
    let body = RequestBody::Write(Transaction { conditions: Vec::new(), changes: (0..3).map(change).collect() });
    let mut frame = Vec::new();
    encode_frame(&request(1, body), &mut frame).unwrap();
    let (first, rest) = frame.split_at(frame.len() / 2);
    honest.stream.write_all(first).unwrap();
    eventually("the half is there", || metric(&controller, "heddle_memory_bytes{kind=\"received\"}") > 0);
    let mut greedy: Vec<Raw> = (0..4).map(|session| Raw::connect(&controller.address, 10 + session)).collect();
    for one in &mut greedy {
        let mut part = vec![0; 7 << 20];
        part[..4].copy_from_slice(&(16_u32 << 20).to_le_bytes());
        // It may be cut off in the midst of it.
        let _ = one.stream.write_all(&part);
    }
    eventually("some are cut off", || metric(&controller, "heddle_unfinished_messages_total") >= 2);
    honest.stream.write_all(rest).unwrap();
    let ServerMessage::Response(response) = honest.receive() else { panic!("it watches nothing") };
    assert!(matches!(response.result, Ok(Answer::Written { .. })), "{response:?}");
}

/// Answers that come all at once are more than a kernel takes: that says nothing of who asked.
#[test]
fn many_long_answers_at_once_cut_nobody_off() {
    const ASKED: u64 = 100;
    let folders: Vec<tempfile::TempDir> = (0..3).map(|_| tempfile::tempdir().unwrap()).collect();
    let three = three(&folders, "536870912");
    put(&client(&three.iter().collect::<Vec<_>>()), 1, &vec![b'v'; 1 << 20], PATIENCE).unwrap();
    let mut raw = Raw::connect(&three[0].address, 7);
    let before = metric(&three[0], "heddle_requests_total ");
    // They wait for a majority together.
    three[1..].iter().for_each(|one| one.signal(Signal::SIGSTOP));
    for _ in 0..ASKED {
        assert!(raw.ask(RequestBody::Get { at: car(1), consistency: Consistency::Linearizable }));
    }
    eventually("all of it is heard", || metric(&three[0], "heddle_requests_total ") >= before + ASKED);
    three[1..].iter().for_each(|one| one.signal(Signal::SIGCONT));
    eventually("answers wait", || metric(&three[0], "heddle_memory_bytes{kind=\"answers\"}") > (ASKED - 20) << 20);
    for _ in 0..ASKED {
        let ServerMessage::Response(response) = raw.receive() else { panic!("it watches nothing") };
        assert!(matches!(response.result, Ok(Answer::Value { .. })), "{:?}", response.result.err());
    }
}
