//! Commands from bytes, applied one after another: no panic, and what was decoded is encoded and decoded as itself.
//!
//! The input is a run of commands, each behind its length in two bytes.
#![no_main]

use libfuzzer_sys::fuzz_target;
use tree::command::COMMAND_FORMAT;
use tree::{Command, State};

fuzz_target!(|bytes: &[u8]| {
    let mut state = State::new();
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
        index += 1;
        let mut newest = before;
        let outcome = state.apply(index, &command, &mut |event| newest = event.revision);
        assert!(state.tree.revision() >= newest && newest >= before);
        if let Err(refusal) = outcome {
            assert_eq!(state.tree.revision(), before);
            assert!(!refusal.to_string().is_empty());
        }
    }
});
