//! However much clients ask for, and however little they read, a controller holds no more for them than it was given.

use std::collections::BTreeMap;
use std::io::Write;
use std::time::Duration;

use crate::controllers::{
    Controller, PATIENCE, Raw, car, client, client_with, command, eventually, get, metric, put, status, three,
};
use nix::sys::signal::Signal;
use store::protocol::{Answer, RequestBody, ServerMessage};
use tree::{Change, Location, Path, Transaction};

/// What the controllers are given.
const MEMORY: &str = "67108864";
const MEMORY_BYTES: usize = 64 << 20;

/// What a controller takes beside: program, its data, their log and recent changes, buffers of the kernel's calls, and what the
/// allocator keeps.
const BASE_BYTES: usize = 192 << 20;

fn resident_bytes(controller: &Controller) -> usize {
    let text = std::fs::read_to_string(format!("/proc/{}/status", controller.pid())).expect("it runs");
    let line = text.lines().find(|line| line.starts_with("VmRSS:")).expect("a line");
    line.split_whitespace().nth(1).and_then(|number| number.parse::<usize>().ok()).expect("a number") << 10
}

fn write_of(key: u64, bytes: usize) -> RequestBody {
    RequestBody::Write(Transaction::of(Change::Put { at: car(key), value: vec![7; bytes].into() }))
}

#[test]
fn what_was_sent_to_peers_is_given_back() {
    let folders: Vec<tempfile::TempDir> = (0..3).map(|_| tempfile::tempdir().unwrap()).collect();
    let three = three(&folders, MEMORY);
    let everybody = client(&three.iter().collect::<Vec<_>>());
    // Long enough that not all of an envelope is sent at once.
    let value = |key: u64| Change::Put { at: car(key), value: vec![7; 1 << 20].into() };
    for _ in 0..10 {
        let transaction = Transaction { conditions: Vec::new(), changes: (0..7).map(value).collect() };
        everybody.request(RequestBody::Write(transaction), PATIENCE).unwrap();
    }
    for one in &three {
        eventually("nothing waits for peers", || metric(one, "heddle_memory_bytes{kind=\"peers\"}") == 0);
    }
}

#[test]
fn a_flood_of_writes_without_a_majority_costs_what_the_server_was_given() {
    // None that the flood writes, which may go on for a while.
    const OTHER: u64 = 1_000;
    let folders: Vec<tempfile::TempDir> = (0..3).map(|_| tempfile::tempdir().unwrap()).collect();
    let three = three(&folders, MEMORY);
    let everybody = client(&three.iter().collect::<Vec<_>>());
    put(&everybody, OTHER, b"before", PATIENCE).unwrap();
    for stopped in &three[1..] {
        stopped.signal(Signal::SIGSTOP);
    }
    let flooded = &three[0];
    let mut floods: Vec<Raw> = (0..6).map(|session| Raw::connect(&flooded.address, session)).collect();
    let flood = |flood: &mut Raw| {
        // A connection that is not read for so long has sent what it can.
        flood.stream.set_write_timeout(Some(Duration::from_secs(1))).expect("a timeout");
        // 100 MiB each at most.
        for key in 0..400 {
            if !flood.ask(write_of(key, 256 << 10)) {
                break;
            }
        }
        let resident = resident_bytes(flooded);
        assert!(resident < MEMORY_BYTES + BASE_BYTES, "{} MiB are resident", resident >> 20);
    };
    floods.iter_mut().for_each(flood);
    let peak = || metric(flooded, "heddle_memory_peak_bytes");
    eventually("it holds what it may", || {
        // A busy machine may have read little within those seconds.
        let is_much = peak() > MEMORY_BYTES as u64 / 8;
        if !is_much {
            floods.push(Raw::connect(&flooded.address, floods.len() as u64));
            floods.last_mut().into_iter().for_each(flood);
        }
        is_much
    });
    assert!(peak() <= MEMORY_BYTES as u64, "{} bytes were held", peak());
    // Others are heard meanwhile.
    let other = client_with(flooded, None);
    assert_eq!(status(&other).server.0, flooded.server);
    for stopped in &three[1..] {
        stopped.signal(Signal::SIGCONT);
    }
    put(&everybody, OTHER, b"after", PATIENCE).unwrap();
    assert_eq!(get(&other, OTHER).unwrap(), Some(b"after".to_vec()));
    // A client that has gone holds nothing.
    drop(floods);
    eventually("everything is given back", || metric(flooded, "heddle_memory_bytes{kind=\"requests\"}") == 0);
}

#[test]
fn watchers_that_do_not_read_cost_what_the_server_was_given() {
    let data = tempfile::tempdir().unwrap();
    let options = ["--memory", MEMORY, "--http", "127.0.0.1:0"];
    let controller = Controller::start(command("c1", data.path(), &options));
    let writer = client(&[&controller]);
    put(&writer, 0, b"first", PATIENCE).unwrap();
    let cars = Location::config(Path::parse("/car:cars").unwrap());
    let mut idle: Vec<Raw> = (0..30).map(|session| Raw::connect(&controller.address, session)).collect();
    for watcher in &mut idle {
        for _ in 0..2 {
            assert!(watcher.ask(RequestBody::Watch { at: cars.clone(), from: BTreeMap::new() }));
        }
        for _ in 0..2 {
            assert!(
                matches!(watcher.receive(), ServerMessage::Response(response) if matches!(response.result, Ok(Answer::Watching { .. })))
            );
        }
    }
    // 60 watches, 100 values of 1 MiB.
    let mut last = 0;
    for key in 0..100 {
        last = put(&writer, key % 5, &vec![key as u8; 1 << 20], PATIENCE).unwrap();
        let resident = resident_bytes(&controller);
        assert!(resident < MEMORY_BYTES + BASE_BYTES, "{} MiB are resident", resident >> 20);
    }
    assert!(metric(&controller, "heddle_memory_refused_total{kind=\"watches\"}") > 0);
    // One that reads after all is told that it has to read again, and then goes on.
    let mut skipped = false;
    loop {
        match idle[0].receive() {
            ServerMessage::Watched(batch) => {
                skipped |= batch.skipped;
                if batch.watch == 1 && batch.revision >= last {
                    break;
                }
            }
            other => panic!("{other:?}"),
        }
    }
    assert!(skipped);
    let news = put(&writer, 1, b"news", PATIENCE).unwrap();
    loop {
        if matches!(idle[0].receive(), ServerMessage::Watched(batch) if batch.watch == 1 && batch.revision == news) {
            break;
        }
    }
}

#[test]
fn watches_take_no_more_than_is_counted_for_them() {
    const EACH: usize = 1_024;
    let data = tempfile::tempdir().unwrap();
    let controller = Controller::start(command("c1", data.path(), &["--memory", "536870912", "--http", "127.0.0.1:0"]));
    put(&client(&[&controller]), 0, b"first", PATIENCE).unwrap();
    let mut watchers: Vec<Raw> = (0..50).map(|session| Raw::connect(&controller.address, session)).collect();
    let before = resident_bytes(&controller);
    let mut watching = 0;
    for watcher in &mut watchers {
        for key in 0..EACH {
            assert!(watcher.ask(RequestBody::Watch { at: car(key as u64), from: BTreeMap::new() }));
        }
        let began = |message| matches!(message, ServerMessage::Response(response) if matches!(response.result, Ok(Answer::Watching { .. })));
        watching += (0..EACH).filter(|_| began(watcher.receive())).count();
    }
    assert!((30_000..50 * EACH).contains(&watching), "{watching} watches, of which one host has half of the memory");
    let counted = metric(&controller, "heddle_memory_bytes{kind=\"watches\"}") as usize;
    // Beside them there are the connections' buffers, and what the allocator keeps.
    let taken = resident_bytes(&controller).saturating_sub(before);
    assert!(taken < counted + (16 << 20), "{watching} watches take {} KiB, {} are counted", taken >> 10, counted >> 10);
}

/// Frames that do not come to an end: each may have 16 MiB.
#[test]
fn parts_of_messages_cost_what_the_server_was_given() {
    let data = tempfile::tempdir().unwrap();
    let options = ["--memory", MEMORY, "--http", "127.0.0.1:0"];
    let controller = Controller::start(command("c1", data.path(), &options));
    let writer = client(&[&controller]);
    put(&writer, 0, b"first", PATIENCE).unwrap();
    let mut slow: Vec<Raw> = (0..40).map(|session| Raw::connect(&controller.address, session)).collect();
    for one in &mut slow {
        let mut frame = vec![0; 10 << 20];
        frame[..4].copy_from_slice(&(16_u32 << 20).to_le_bytes());
        // It may be cut off in the midst of it.
        let _ = one.stream.write_all(&frame);
    }
    eventually("the first are cut off", || metric(&controller, "heddle_unfinished_messages_total") >= 30);
    let resident = resident_bytes(&controller);
    assert!(resident < MEMORY_BYTES + BASE_BYTES, "{} MiB are resident", resident >> 20);
    put(&writer, 1, &vec![1; 1 << 20], PATIENCE).unwrap();
}
