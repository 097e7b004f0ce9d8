//! What programs of version 1 say is understood, and so are the answers that they get.
//!
//! `testdata/version1` was recorded from the program of commit 2a0d034: one controller with the shard `cars` and 20 values, which server 2
//! joined then; session 300.

use machine::ServerId;
use machine::nanos::{Span, Time};
use store::peer::{Echo, Envelope};
use store::protocol::{
    Answer, Hello, Response, Role, ServerMessage, VERSION_MIN, Welcome, decode, encode_frame, spoken_by_refuser,
};

const HELLO_CLIENT: &[u8] = include_bytes!("../testdata/version1/hello_client.bin");
const HELLO_PEER: &[u8] = include_bytes!("../testdata/version1/hello_peer.bin");
const WELCOME: &[u8] = include_bytes!("../testdata/version1/welcome.bin");
const REFUSED: &[u8] = include_bytes!("../testdata/version1/refused.bin");
const STATUS: &[u8] = include_bytes!("../testdata/version1/status_response.bin");
const JOINED: &[u8] = include_bytes!("../testdata/version1/joined_response.bin");
const ENVELOPE: &[u8] = include_bytes!("../testdata/version1/envelope.bin");

/// The body of a frame.
fn body<T: serde::Serialize>(message: &T) -> Vec<u8> {
    let mut bytes = Vec::new();
    encode_frame(message, &mut bytes).unwrap();
    bytes.split_off(store::protocol::FRAME_HEADER)
}

#[test]
fn greetings_are_understood_and_said_in_the_same_bytes() {
    let client: Hello = decode(HELLO_CLIENT).unwrap();
    assert_eq!(client.check(), Ok(1));
    assert_eq!(client, Hello::in_version(Role::Client { session: 300 }, 1));
    assert_eq!(body(&client), HELLO_CLIENT);
    let peer: Hello = decode(HELLO_PEER).unwrap();
    let Role::Peer { cluster, server, to } = peer.role else { panic!("{peer:?}") };
    assert_eq!((peer.check(), server, to), (Ok(1), ServerId(1), ServerId(2)));
    assert_eq!(body(&Hello::in_version(Role::Peer { cluster, server, to }, 1)), HELLO_PEER);
    let welcome: Welcome = decode(WELCOME).unwrap();
    let Welcome::Accepted { version: 1, cluster: of, server: ServerId(1), ref name } = welcome else {
        panic!("{welcome:?}")
    };
    assert_eq!((of, name.as_str()), (cluster, "c1"));
    assert_eq!(body(&welcome), WELCOME);
    let Welcome::Refused(reason) = decode(REFUSED).unwrap() else { panic!("version 1 speaks only version 1") };
    assert_eq!(spoken_by_refuser(&reason), Some(1), "{reason}");
}

#[test]
fn envelopes_are_understood_and_said_in_the_same_bytes() {
    let envelope: Envelope = decode(ENVELOPE).unwrap();
    assert!(!envelope.items.is_empty());
    assert_eq!(envelope.promise, Span::from_ms(90));
    assert_eq!(body(&envelope), ENVELOPE);
}

/// Servers count nanoseconds, and those of the first version picoseconds. A stamp is nobody's but its sender's, who gets it back.
#[test]
fn lengths_of_time_travel_in_picoseconds() {
    let echo = Some(Echo { stamp: Time::from_ns(7), delay: Span::from_us(5) });
    let envelope = Envelope { stamp: Time::from_ns(9), echo, promise: Span::from_ms(90), items: Vec::new() };
    let bytes = body(&envelope);
    let (decoded, _) = postcard::take_from_bytes::<(u64, Option<(u64, u64)>, u64)>(&bytes).unwrap();
    assert_eq!(decoded, (9, Some((7, 5_000_000)), 90_000_000_000));
    assert_eq!(decode::<Envelope>(&bytes).unwrap(), envelope);
}

#[test]
fn answers_and_the_map_have_the_same_bytes() {
    let joined: ServerMessage = decode(JOINED).unwrap();
    let ServerMessage::Response(Response { result: Ok(Answer::Joined { server, .. }), .. }) = &joined else {
        panic!("{joined:?}")
    };
    assert_eq!(*server, ServerId(2));
    assert_eq!(body(&*joined.for_version(VERSION_MIN)), JOINED);
    let status: ServerMessage = decode(STATUS).unwrap();
    assert_eq!(body(&status), STATUS);
    let ServerMessage::Response(Response { result: Ok(Answer::Status(status)), .. }) = status else {
        panic!("a status was asked for")
    };
    assert_eq!(status.map.protocol(), 1);
    assert!(status.map.shard_named("cars").is_some());
    // A snapshot of the map is a format number and the same bytes.
    let snapshot = status.map.encode();
    assert!(STATUS.windows(snapshot.len() - 1).any(|window| window == &snapshot[1..]));
    assert_eq!(placement::Map::decode(&snapshot).as_ref(), Ok(&status.map));
}
