//! A map and commands as another server may send them. What is decoded is encoded and decoded again, and a map that was
//! let in must bear every command, and be one that can be sent on.
#![no_main]

use libfuzzer_sys::fuzz_target;
use placement::{Command, Map, Mover};

/// A first byte says how many bytes the map has, in units of 16; commands follow, each behind its length.
fuzz_target!(|bytes: &[u8]| {
    let Some((&length, rest)) = bytes.split_first() else { return };
    let (snapshot, mut rest) = rest.split_at(rest.len().min(usize::from(length) * 16));
    let mut map = Map::decode(snapshot).unwrap_or_default();
    assert_eq!(Map::decode(&map.encode()).as_ref(), Ok(&map));
    while let Some((&length, behind)) = rest.split_first() {
        let (entry, behind) = behind.split_at(behind.len().min(usize::from(length)));
        rest = behind;
        let Ok(command) = Command::decode(entry) else { continue };
        assert_eq!(Command::decode(&command.encode()).as_ref(), Ok(&command));
        if let Err(refusal) = map.apply(map.applied() + 1, command) {
            assert!(refusal.to_string().contains("hint: "));
        }
    }
    let _ = Mover::new().poll(&map);
    assert_eq!(Map::decode(&map.encode()).as_ref(), Ok(&map));
});
