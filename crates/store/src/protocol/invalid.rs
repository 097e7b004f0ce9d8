//! Requests that cannot be read: who sent one is told what is wrong with it, and the connection goes on.
//!
//! Whether a path is one is known while the message is decoded: [`tree::bounded`] keeps the words of the type that refused its bytes,
//! so that nothing is read a second time but the few bytes that say which request it was.

use serde::de::DeserializeOwned;
use tree::bounded::{self, Entries};

use super::frame::short;
use super::{ClientMessage, FrameError};

/// Entries of all lists and maps together in a message of a client. The most that one may have are the 4,096 offers of a provider; a
/// transaction has 2,048 conditions and changes, and who sends a few more is told so by the bound of transactions.
const ENTRIES_MAX: usize = 16_384;

/// What comes before a request's body: the variant of [`ClientMessage`], session, sequence.
type Head = (u32, u64, u64);

/// [`ClientMessage::Request`] on the wire.
const REQUEST: u32 = 0;

/// Why bytes are no message of a client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unreadable {
    /// They are a request with this sequence, and something in it is wrong.
    Request {
        /// The number that the request had.
        sequence: u64,
        /// What is wrong.
        reason: String,
    },
    /// It cannot even be said which request that is.
    Frame(FrameError),
}

/// The message of a client in a frame's body.
///
/// # Errors
/// [`Unreadable`].
pub fn decode_client(body: &[u8]) -> Result<ClientMessage, Unreadable> {
    decode_message(body)
}

fn decode_message<T: DeserializeOwned>(body: &[u8]) -> Result<T, Unreadable> {
    bounded::decode(body, &mut Entries::at_most(ENTRIES_MAX)).map_err(|why| {
        let reason = short(why.0);
        match request_sequence(body) {
            Some(sequence) => Unreadable::Request { sequence, reason: format!("the request cannot be read: {reason}") },
            None => Unreadable::Frame(FrameError::Malformed(reason)),
        }
    })
}

/// The sequence of the request that begins with these bytes, if it is one.
pub fn request_sequence(body: &[u8]) -> Option<u64> {
    match postcard::take_from_bytes::<Head>(body) {
        Ok(((REQUEST, _, sequence), _)) => Some(sequence),
        Ok(_) | Err(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use placement::ShardId;
    use proptest::prelude::*;
    use tree::{Change, Condition, Expect, Location, Path, Transaction};

    use super::*;
    use crate::protocol::{Admin, Consistency, Request, RequestBody};

    fn at(path: &str) -> Location {
        Location::config(Path::parse(path).expect("a path"))
    }

    fn bytes(body: RequestBody) -> Vec<u8> {
        let request = Request { session: 1 << 40, sequence: 300, acknowledged: 299, timeout_ms: 5_000, body };
        postcard::to_allocvec(&ClientMessage::Request(request)).expect("it can be encoded")
    }

    /// Requests with a path `/car:cars` in each place where there may be one.
    fn with_paths() -> Vec<RequestBody> {
        let (here, path) = (at("/car:cars"), at("/car:cars").path);
        let conditions = vec![Condition { at: here.clone(), expect: Expect::Absent }];
        let put = Change::Put { at: at("/car:cars"), value: b"v".into() };
        vec![
            RequestBody::Get { at: here.clone(), consistency: Consistency::Stale },
            RequestBody::List {
                at: at("/"),
                after: Some(path.clone()),
                limit: 7,
                consistency: Consistency::Linearizable,
            },
            RequestBody::Write(Transaction { conditions, changes: Vec::new() }),
            RequestBody::Write(Transaction { conditions: Vec::new(), changes: vec![put] }),
            RequestBody::Watch { at: here, from: BTreeMap::from([(ShardId(3), 9)]) },
            RequestBody::Offer { offers: vec![("a:b".into(), None), ("a:c".into(), Some(path.clone()))] },
            RequestBody::Call { name: "a:b".into(), path: Some(path), input: vec![1, 2, 3], idempotent: true },
        ]
    }

    #[test]
    fn a_bad_path_is_reported_wherever_it_stands() {
        for body in with_paths() {
            let good = bytes(body.clone());
            assert!(decode_client(&good).is_ok(), "{body:?}");
            let mut bad = good;
            let place = bad.windows(9).position(|window| window == b"/car:cars").expect("it is in it");
            bad[place + 4] = b' ';
            let Err(Unreadable::Request { sequence: 300, reason }) = decode_client(&bad) else { panic!("{body:?}") };
            assert!(reason.contains("at byte 4 of the path: expected") && reason.contains("hint: "), "{reason}");
        }
    }

    #[test]
    fn a_request_of_a_kind_that_nobody_knows_is_answered() {
        let mut unknown = bytes(RequestBody::Admin(Admin::Status));
        let kind = unknown.len() - 2;
        unknown[kind] = 100;
        let Err(Unreadable::Request { reason, .. }) = decode_client(&unknown) else { panic!("it is no request") };
        assert!(reason.contains("variant"), "{reason}");
        let mut long = bytes(RequestBody::Unwatch { watch: 1 });
        long.extend([0; 5]);
        let Err(Unreadable::Request { reason, .. }) = decode_client(&long) else { panic!("it is too long") };
        assert!(reason.ends_with("5 bytes too many"), "{reason}");
    }

    #[test]
    fn what_has_no_sequence_is_no_request() {
        for bytes in [&b""[..], &[0], &[0, 0xff], &[1, 2, 3], &[0xff; 40], b"GET / HTTP/1.1"] {
            assert!(matches!(decode_client(bytes), Err(Unreadable::Frame(_))), "{bytes:?}");
        }
    }

    /// Counts how many of it are made.
    #[derive(Debug, PartialEq, Eq, serde::Deserialize)]
    #[serde(from = "u8")]
    struct Counted;

    thread_local! {
        static MADE: std::cell::Cell<usize> = const { std::cell::Cell::new(0) };
    }

    impl From<u8> for Counted {
        fn from(_: u8) -> Self {
            MADE.set(MADE.get() + 1);
            Self
        }
    }

    #[test]
    fn what_cannot_be_read_is_read_once() {
        type Message = (u32, u64, u64, Vec<Counted>, bool);
        let bytes =
            postcard::to_allocvec(&(0_u32, 1_u64, 300_u64, vec![1_u8; 1_000], 7_u8)).expect("it can be encoded");
        let Err(Unreadable::Request { sequence: 300, reason }) = decode_message::<Message>(&bytes) else {
            panic!("its end is wrong");
        };
        assert!(reason.contains("7 is neither true"), "{reason}");
        assert_eq!(MADE.get(), 1_000);
    }

    proptest! {
        /// The same messages are read as by postcard's own reader.
        #[test]
        fn a_request_with_one_byte_changed_is_read_the_same(which in 0_usize..7, place in any::<prop::sample::Index>(), byte in any::<u8>()) {
            let mut bytes = bytes(with_paths().swap_remove(which));
            let place = place.index(bytes.len());
            bytes[place] = byte;
            let theirs = postcard::take_from_bytes::<ClientMessage>(&bytes).ok().filter(|(_, rest)| rest.is_empty());
            prop_assert_eq!(decode_client(&bytes).ok(), theirs.map(|(message, _)| message));
        }
    }
}
