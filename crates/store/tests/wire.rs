//! The bytes that `docs/protocol.md` shows are the bytes that are sent.

use store::protocol::{
    ClientMessage, Consistency, FRAME_MAX, FrameError, Hello, Request, RequestBody, Role, decode, encode_frame,
    frame_bytes, split_frame,
};
use tree::{Change, Location, Path, Transaction};

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect::<Vec<_>>().join(" ")
}

fn frame<T: serde::Serialize>(message: &T) -> Vec<u8> {
    let mut bytes = Vec::new();
    encode_frame(message, &mut bytes).unwrap();
    assert_eq!(frame_bytes(message), bytes.len());
    bytes
}

fn at() -> Location {
    Location::config(Path::parse("/car:cars/car-entry=17").unwrap())
}

fn request(body: RequestBody) -> ClientMessage {
    ClientMessage::Request(Request { session: 300, sequence: 1, acknowledged: 1, timeout_ms: 1_000, body })
}

#[test]
fn the_examples_of_the_page_are_true() {
    let page = include_str!("../../../docs/protocol.md");
    let put = Change::Put { at: at(), value: b"red".to_vec().into() };
    for (what, bytes) in [
        ("hello", frame(&Hello::new(Role::Client { session: 300 }))),
        ("get", frame(&request(RequestBody::Get { at: at(), consistency: Consistency::Linearizable }))),
        ("put", frame(&request(RequestBody::Write(Transaction::of(put))))),
    ] {
        let hex = hex(&bytes);
        let shown = page.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(shown.contains(&hex), "docs/protocol.md should show for `{what}`:\n{hex}");
    }
}

#[test]
fn frames_are_whole_or_not_there() {
    let bytes = frame(&Hello::new(Role::Client { session: 1 }));
    for end in 0..bytes.len() {
        assert_eq!(split_frame(&bytes[..end]), Ok(None), "{end} bytes");
    }
    let (body, used) = split_frame(&bytes).unwrap().unwrap();
    assert_eq!(used, bytes.len());
    assert_eq!(decode::<Hello>(body), Ok(Hello::new(Role::Client { session: 1 })));
    let longer = [body, &[0]].concat();
    assert!(matches!(decode::<Hello>(&longer), Err(FrameError::Malformed(_))));
}

#[test]
fn a_frame_that_is_too_long_is_refused_by_its_header() {
    // The first bytes of a TLS handshake, and of an HTTP request.
    for start in [[0x16, 0x03, 0x01, 0x02], *b"GET "] {
        assert!(matches!(split_frame(&start), Err(FrameError::TooLong(bytes)) if bytes > FRAME_MAX));
    }
}

proptest::proptest! {
    #[test]
    fn no_bytes_are_too_strange(bytes in proptest::collection::vec(proptest::prelude::any::<u8>(), 0..200)) {
        let _ = split_frame(&bytes);
        let _ = decode::<Hello>(&bytes);
        let _ = decode::<store::protocol::Welcome>(&bytes);
        let _ = decode::<store::protocol::Proof>(&bytes);
        let _ = decode::<ClientMessage>(&bytes);
        let _ = decode::<store::peer::Envelope>(&bytes);
    }
}
