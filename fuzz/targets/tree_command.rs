//! Commands from bytes, applied one after another: no panic, what was decoded is encoded and decoded as itself, leases fit the
//! values, and the revision before can be read.
//!
//! The input is a run of commands, each behind its length in two bytes.
#![no_main]

use libfuzzer_sys::fuzz_target;
use tree::command::COMMAND_FORMAT;
use tree::{Command, Location, Past, Path, Refusal, State};

fuzz_target!(|bytes: &[u8]| {
    let mut state = State::new();
    let mut past = Past::new(64, 0);
    let mut rest = bytes;
    let mut index = 0;
    while let Some((length, behind)) = rest.split_first_chunk::<2>() {
        let length = usize::from(u16::from_le_bytes(*length)).min(behind.len());
        let (bytes, behind) = behind.split_at(length);
        rest = behind;
        let bytes = [&[COMMAND_FORMAT], bytes].concat();
        let Ok(command) = Command::decode(&bytes) else { continue };
        assert_eq!(Command::decode(&command.encode()).as_ref(), Ok(&command));
        let before = state.tree.revision();
        let old = state.tree.clone();
        index += 1;
        let mut newest = before;
        let outcome = state.apply_with_past(index, &command, &mut |event, replaced| {
            newest = event.revision;
            past.push(&event, replaced);
        });
        let root = Location::config(Path::root());
        if let Ok(found) = past.subtree(&state.tree, &root, None, usize::MAX, before)
            && !matches!(command, Command::Import { .. })
        {
            assert_eq!(found, old.subtree(&root, None, usize::MAX));
        }
        for (id, lease) in state.leases.iter() {
            assert!(lease.values.iter().all(|at| state.leases.of(at) == Some(id) && state.tree.get(at).is_some()));
        }
        assert!(state.tree.revision() >= newest && newest >= before);
        if let Err(refusal) = outcome {
            assert!(state.tree.revision() == before || matches!(refusal, Refusal::Otherwise { .. }));
            assert!(!refusal.to_string().is_empty());
        }
    }
});
