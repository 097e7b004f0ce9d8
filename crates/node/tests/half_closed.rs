//! Clients that say nothing more, or vanish: what they asked is answered, and nobody keeps their place for ever.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::sync::Arc;

use crate::controllers::{Controller, PATIENCE, Raw, car, command, eventually, tls_files};
use node::certificates;
use store::protocol::{
    Answer, ClientMessage, Consistency, Error, Hello, Request, RequestBody, Response, Role, ServerMessage, Welcome,
    decode, encode_frame, split_frame,
};
use tree::{Change, Transaction};

fn write(key: u64) -> RequestBody {
    RequestBody::Write(Transaction::of(Change::Put { at: car(key), value: b"x".to_vec().into() }))
}

fn read(key: u64) -> RequestBody {
    RequestBody::Get { at: car(key), consistency: Consistency::Linearizable }
}

fn watch() -> RequestBody {
    RequestBody::Watch { at: car(1), from: std::collections::BTreeMap::new() }
}

/// The answers that come before the connection ends.
fn answers(raw: &mut Raw) -> Vec<Response> {
    let mut bytes = Vec::new();
    raw.stream.read_to_end(&mut bytes).expect("it ends in peace");
    let (mut rest, mut answers) = (&bytes[..], Vec::new());
    while let Some((body, length)) = split_frame(rest).expect("a frame") {
        match decode(body).expect("a message") {
            ServerMessage::Response(response) => answers.push(response),
            other => panic!("{other:?}"),
        }
        rest = &rest[length..];
    }
    assert!(rest.is_empty(), "part of a frame");
    answers
}

#[test]
fn what_a_client_asked_before_it_fell_silent_is_answered() {
    let data = tempfile::tempdir().unwrap();
    let controller = Controller::start(command("c1", data.path(), &[]));
    for key in 0..10 {
        let mut raw = Raw::connect(&controller.address, key);
        raw.ask(write(key));
        raw.ask(read(key));
        raw.stream.shutdown(Shutdown::Write).unwrap();
        let results: Vec<_> = answers(&mut raw).into_iter().map(|response| response.result).collect();
        // A read does not wait for a write that was sent before it.
        let is_written = results.iter().any(|result| matches!(result, Ok(Answer::Written { .. })));
        let is_read = results.iter().any(|result| matches!(result, Ok(Answer::Value(_))));
        assert!(results.len() == 2 && is_written && is_read, "{results:?}");
    }
    // More than is taken in at once.
    let mut raw = Raw::connect(&controller.address, 7);
    for key in 0..3_000 {
        raw.ask(read(key));
    }
    raw.stream.shutdown(Shutdown::Write).unwrap();
    let answers = answers(&mut raw);
    assert_eq!(answers.len(), 3_000);
    assert!(answers.iter().all(|response| matches!(response.result, Ok(Answer::Value(_)))));
}

#[test]
fn who_falls_silent_watches_and_offers_nothing_any_more() {
    let data = tempfile::tempdir().unwrap();
    let controller = Controller::start(command("c1", data.path(), &[]));
    let mut raw = Raw::connect(&controller.address, 1);
    raw.ask(RequestBody::Offer { offers: vec![("car:wash".into(), None)] });
    raw.ask(watch());
    let first = [raw.receive(), raw.receive()];
    let is_ok = |message: &ServerMessage| matches!(message, ServerMessage::Response(Response { result: Ok(_), .. }));
    assert!(first.iter().all(is_ok), "{first:?}");
    raw.stream.shutdown(Shutdown::Write).unwrap();
    assert!(answers(&mut raw).is_empty());

    // A call that is never answered does not keep the connection for ever.
    let mut provider = Raw::connect(&controller.address, 2);
    provider.ask(RequestBody::Offer { offers: vec![("car:wash".into(), None)] });
    assert!(is_ok(&provider.receive()));
    let mut caller = Raw::connect(&controller.address, 3);
    caller.ask(RequestBody::Call { name: "car:wash".into(), path: None, input: Vec::new(), idempotent: false });
    assert!(matches!(provider.receive(), ServerMessage::Invoke { .. }));
    caller.stream.shutdown(Shutdown::Write).unwrap();
    assert!(answers(&mut caller).is_empty());
    // Nor does one whose provider falls silent wait for it.
    let mut caller = Raw::connect(&controller.address, 4);
    caller.ask(RequestBody::Call { name: "car:wash".into(), path: None, input: Vec::new(), idempotent: false });
    assert!(matches!(provider.receive(), ServerMessage::Invoke { .. }));
    provider.stream.shutdown(Shutdown::Write).unwrap();
    let answer: ServerMessage = caller.receive();
    assert!(
        matches!(answer, ServerMessage::Response(Response { result: Err(Error::Rpc(_)), .. })),
        "the call is given up at once: {answer:?}"
    );
}

#[test]
fn over_tls_the_end_is_said_as_well() {
    use rustls::pki_types::pem::PemObject;
    use rustls::pki_types::{CertificateDer, PrivateKeyDer};
    let (data, made) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    certificates::make(made.path(), &["127.0.0.1".to_owned()]).unwrap();
    let options = ["--tls", made.path().to_str().unwrap(), "127.0.0.1"];
    let controller = Controller::start(command("c1", data.path(), &options));
    let files = tls_files(made.path(), "client");
    let certificates = |path| CertificateDer::pem_file_iter(path).unwrap().map(Result::unwrap);
    let mut roots = rustls::RootCertStore::empty();
    certificates(&files.authority).for_each(|authority| roots.add(authority).unwrap());
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&rustls::version::TLS13])
        .unwrap()
        .with_root_certificates(roots)
        .with_client_auth_cert(
            certificates(&files.certificate).collect(),
            PrivateKeyDer::from_pem_file(&files.key).unwrap(),
        )
        .unwrap();
    let config = Arc::new(config);
    for says_so in [true, false] {
        let tls = rustls::ClientConnection::new(Arc::clone(&config), "127.0.0.1".try_into().unwrap()).unwrap();
        let socket = TcpStream::connect(&controller.address).unwrap();
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
        let mut stream = rustls::StreamOwned::new(tls, socket);
        let mut bytes = Vec::new();
        encode_frame(&Hello::new(Role::Client { session: 5 }), &mut bytes).unwrap();
        let request = Request { session: 5, sequence: 1, acknowledged: 1, timeout_ms: 30_000, body: write(1) };
        encode_frame(&ClientMessage::Request(request), &mut bytes).unwrap();
        stream.write_all(&bytes).unwrap();
        if says_so {
            stream.conn.send_close_notify();
        }
        stream.flush().unwrap();
        while stream.conn.wants_write() {
            stream.conn.write_tls(&mut stream.sock).unwrap();
        }
        stream.sock.shutdown(Shutdown::Write).unwrap();
        let mut received = Vec::new();
        // An end without a `close_notify` would be an error here.
        stream.read_to_end(&mut received).expect("it says that this is the end");
        let (body, length) = split_frame(&received).unwrap().expect("a welcome");
        assert!(matches!(decode(body).unwrap(), Welcome::Accepted { .. }));
        let (body, _) = split_frame(&received[length..]).unwrap().expect("an answer");
        let answer: ServerMessage = decode(body).unwrap();
        let is_done = matches!(&answer, ServerMessage::Response(Response { result: Ok(Answer::Written { .. }), .. }));
        assert!(is_done, "{answer:?}");
    }
}

/// Whether the kernel asks now and then whether the other end is there: `timer_active` is 2 (`proc_net_tcp.txt` of Linux).
fn is_asked_after(server: &str, client: SocketAddr) -> bool {
    let hexadecimal = |address: SocketAddr| match address {
        SocketAddr::V4(address) => format!("{:08X}:{:04X}", u32::from_ne_bytes(address.ip().octets()), address.port()),
        SocketAddr::V6(_) => panic!("not here"),
    };
    let ends = [hexadecimal(server.parse().unwrap()), hexadecimal(client)];
    let table = std::fs::read_to_string("/proc/net/tcp").unwrap();
    let timer = table.lines().find_map(|line| {
        let words: Vec<&str> = line.split_whitespace().collect();
        (words[1..3] == ends).then(|| words[5].to_owned())
    });
    timer.is_some_and(|timer| timer.starts_with("02:"))
}

#[test]
fn who_vanishes_without_a_word_is_noticed() {
    let data = tempfile::tempdir().unwrap();
    let controller = Controller::start(command("c1", data.path(), &["--http", "127.0.0.1:0"]));
    let client = Raw::connect(&controller.address, 1);
    let own = client.stream.local_addr().unwrap();
    eventually("the kernel asks whether the client is there", || is_asked_after(&controller.address, own));
    eventually("the same of HTTP", || {
        let client = TcpStream::connect(&controller.http).unwrap();
        let own = client.local_addr().unwrap();
        let mut is_asked = false;
        for _ in 0..100 {
            is_asked = is_asked || is_asked_after(&controller.http, own);
        }
        is_asked
    });
}
