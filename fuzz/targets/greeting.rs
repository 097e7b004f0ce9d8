//! What comes first on a connection, from whoever made it: a hello, an answer to it, a proof. What is decoded is encoded and decoded again.
#![no_main]

use libfuzzer_sys::fuzz_target;
use serde::Serialize;
use serde::de::DeserializeOwned;
use store::protocol::{FRAME_HEADER, Hello, Proof, Welcome, decode, encode_frame, spoken_by_refuser};

fn there_and_back<T: Serialize + DeserializeOwned + PartialEq + std::fmt::Debug>(bytes: &[u8]) -> Option<T> {
    let message: T = decode(bytes).ok()?;
    let mut frame = Vec::new();
    encode_frame(&message, &mut frame).expect("it came in a frame");
    assert_eq!(decode::<T>(&frame[FRAME_HEADER..]).as_ref(), Ok(&message));
    Some(message)
}

fuzz_target!(|bytes: &[u8]| {
    if let Some(hello) = there_and_back::<Hello>(bytes) {
        let _ = hello.check();
    }
    if let Some(Welcome::Refused(text) | Welcome::Removed(text)) = there_and_back::<Welcome>(bytes) {
        let _ = spoken_by_refuser(&text);
    }
    there_and_back::<Proof>(bytes);
});
