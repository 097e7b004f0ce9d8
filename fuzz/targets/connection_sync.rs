//! What balancers say to each other about connections: any bytes are read or refused, and what is read is written and read again as the same.
#![no_main]

use datapath::{SyncMessage, parse_sync};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let Ok((header, entries)) = parse_sync(bytes) else { return };
    let mut message = SyncMessage::new(&header);
    // A datagram has room for fewer than its number of entries may say.
    let written: Vec<_> = entries
        .into_iter()
        .take_while(|entry| {
            let has_room = message.has_room();
            if has_room {
                message.push(entry);
            }
            has_room
        })
        .collect();
    assert_eq!(parse_sync(message.bytes()), Ok((header, written)));
});
