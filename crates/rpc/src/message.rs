//! What servers say to each other.

use core::fmt;
use std::collections::BTreeMap;

use machine::ServerId;
use machine::nanos::Span;
use serde::{Deserialize, Serialize};
use tree::{Bytes, Path};

use crate::{Bucket, Version};

/// One attempt of a server to have a call executed elsewhere. Never used twice by the same server, over its restarts too.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct AttemptId {
    /// The caller's server's incarnation.
    pub incarnation: u64,
    /// Numbers the attempts of an incarnation.
    pub sequence: u64,
}

impl fmt::Display for AttemptId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.incarnation, self.sequence)
    }
}

/// A message between the RPC parts of two servers. Its codec (postcard) and its framing are the driver's.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Message {
    /// How new the sender's buckets are. Answered by an envelope if the receiver has something newer, by a status if it has something older.
    Status {
        /// A version for each server whose bucket the sender holds.
        versions: BTreeMap<ServerId, Version>,
    },
    /// Buckets that are newer than what the receiver has.
    Envelope {
        /// The buckets, by server.
        buckets: BTreeMap<ServerId, Bucket>,
    },
    /// Asks the receiver to have a procedure executed by one of its local providers.
    Call {
        /// The number to repeat in the answer.
        attempt: AttemptId,
        /// The receiver's incarnation as far as the sender knows. A later one cannot tell whether a copy of this message was executed before it.
        receiver: u64,
        /// The name of the procedure.
        name: String,
        /// The path that chooses the provider.
        path: Option<Path>,
        /// What the procedure gets.
        input: Bytes,
        /// After this nobody waits for the answer.
        #[serde(with = "machine::nanos::in_picoseconds")]
        timeout: Span,
    },
    /// How a call ended.
    Result {
        /// The attempt that is meant.
        attempt: AttemptId,
        /// How it ended.
        verdict: Verdict,
    },
    /// No provider of this procedure is connected to the sender (any more). The call was not executed.
    NotHere {
        /// The attempt that is meant.
        attempt: AttemptId,
    },
    /// The sender cannot take the call now. It was not executed.
    Busy {
        /// The attempt that is meant.
        attempt: AttemptId,
    },
}

/// How a call ended that was delivered to a provider.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Verdict {
    /// Executed, with this output.
    Done(Bytes),
    /// Executed, and the provider says that it did not succeed.
    Failed(String),
    /// Executed, but the output exceeds the bound; this many bytes.
    TooLarge(u64),
    /// The provider disconnected before it answered: executed or not.
    Lost,
    /// The receiver has started anew: executed by its earlier incarnation, or not.
    Restarted,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Offer;
    use proptest::collection::{btree_map, btree_set, vec};
    use proptest::prelude::*;

    fn version() -> impl Strategy<Value = Version> {
        (any::<u64>(), any::<u64>()).prop_map(|(incarnation, change)| Version { incarnation, change })
    }

    fn path() -> impl Strategy<Value = Option<Path>> {
        proptest::option::of(
            "/[a-z]{1,3}:[a-z]{1,3}(=[0-9]{1,3})?".prop_map(|text| Path::parse(&text).expect("a path")),
        )
    }

    fn message() -> impl Strategy<Value = Message> {
        let server = || any::<u64>().prop_map(ServerId);
        let attempt =
            || (any::<u64>(), any::<u64>()).prop_map(|(incarnation, sequence)| AttemptId { incarnation, sequence });
        let offer = || ("[a-z:]{0,9}", path()).prop_map(|(name, path)| Offer { name, path });
        let bucket = (version(), btree_set(offer(), 0..5)).prop_map(|(version, offers)| Bucket { version, offers });
        let bytes = || vec(any::<u8>(), 0..40).prop_map(Bytes::from);
        let verdict = prop_oneof![
            bytes().prop_map(Verdict::Done),
            ".{0,20}".prop_map(Verdict::Failed),
            any::<u64>().prop_map(Verdict::TooLarge),
            Just(Verdict::Lost),
            Just(Verdict::Restarted)
        ];
        prop_oneof![
            btree_map(server(), version(), 0..5).prop_map(|versions| Message::Status { versions }),
            btree_map(server(), bucket, 0..5).prop_map(|buckets| Message::Envelope { buckets }),
            (attempt(), any::<u64>(), "[a-z:]{0,9}", path(), bytes()).prop_map(
                |(attempt, receiver, name, path, input)| {
                    Message::Call {
                        attempt,
                        receiver,
                        name,
                        path,
                        input,
                        timeout: Span::from_us(receiver % 1_000_000_000_000),
                    }
                }
            ),
            (attempt(), verdict).prop_map(|(attempt, verdict)| Message::Result { attempt, verdict }),
            attempt().prop_map(|attempt| Message::NotHere { attempt }),
            attempt().prop_map(|attempt| Message::Busy { attempt }),
        ]
    }

    #[test]
    fn a_timeout_goes_over_the_wire_in_picoseconds() {
        let attempt = AttemptId { incarnation: 2, sequence: 3 };
        let call = |timeout| Message::Call {
            attempt,
            receiver: 4,
            name: "a:b".into(),
            path: None,
            input: Bytes::from(Vec::new()),
            timeout,
        };
        let written = |timeout| postcard::to_stdvec(&call(timeout)).expect("any message can be written");
        let picoseconds = |ps: u64| postcard::to_stdvec(&ps).expect("a number can be written");
        assert!(written(Span::from_secs(3)).ends_with(&picoseconds(3_000_000_000_000)));
        // What lasts longer than 64 bits of them lasts for 213 days.
        let century = written(Span::from_secs(3_155_760_000));
        assert!(century.ends_with(&picoseconds(u64::MAX)));
        let read: Message = postcard::from_bytes(&century).expect("what was written can be read");
        assert_eq!(read, call(Span::from_ns(u64::MAX / 1_000)));
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_again(message in message()) {
            let bytes = postcard::to_stdvec(&message).expect("any message can be written");
            prop_assert_eq!(postcard::from_bytes::<Message>(&bytes).expect("what was written can be read"), message);
        }

        #[test]
        fn any_bytes_are_read_or_refused(bytes in vec(any::<u8>(), 0..200)) {
            if let Ok(message) = postcard::from_bytes::<Message>(&bytes) {
                let written = postcard::to_stdvec(&message).expect("any message can be written");
                prop_assert_eq!(postcard::from_bytes::<Message>(&written).expect("what was written can be read"), message);
            }
        }
    }
}
