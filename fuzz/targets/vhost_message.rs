//! What a front end may say by its socket: any bytes are messages of vhost-user one after the other, each with so many files, or are refused.
#![no_main]

use libfuzzer_sys::fuzz_target;
use live::vhost_message::{HEADER, Header, PAYLOAD_MAX, Request};

fuzz_target!(|bytes: &[u8]| {
    let mut rest = bytes;
    while let Some((head, behind)) = rest.split_first_chunk::<{ HEADER + 1 }>() {
        let [files, head @ ..] = head;
        let Ok(header) = Header::parse(head) else { return };
        assert!(header.len <= PAYLOAD_MAX, "nobody makes room for more");
        let Some((payload, behind)) = behind.split_at_checked(header.len) else { return };
        match header.request(payload, usize::from(*files)) {
            Ok(Request::SetMemory(regions)) => {
                assert_eq!(regions.len(), usize::from(*files), "each region has its file")
            }
            Ok(_) => assert!(*files <= 1, "no other message has several files"),
            Err(error) => assert!(!error.to_string().is_empty(), "who is refused hears why"),
        }
        assert_eq!(header.reply(payload).len(), HEADER + payload.len(), "a reply is whole");
        rest = behind;
    }
});
