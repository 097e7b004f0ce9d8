//! A change of members as its bytes stand in a log: raft-rs's `ConfChangeV2`, which is protobuf.
//!
//! raft-rs writes it; nothing but this reads it. protobuf 2 recurses without a bound (RUSTSEC-2024-0437), and a log may hold what
//! another server made up: so its parser never sees bytes of a log.
//!
//! ```text
//!   ConfChangeV2:     1 transition: varint   2 changes: [ConfChangeSingle]   3 context: bytes, always empty here
//!   ConfChangeSingle: 1 type: varint         2 node: varint
//! ```

use raft::eraftpb::{ConfChangeSingle, ConfChangeTransition, ConfChangeType, ConfChangeV2};

/// Longest encoding: a change of each member that a group may have fits.
pub(crate) const CHANGE_BYTES_MAX: usize = 64 << 10;

/// Most members that one change may name.
const CHANGED_MAX: usize = 2_048;

/// Tags of protobuf: the field's number and its form (0 a varint, 2 bytes with their length).
const TRANSITION: u64 = 1 << 3;
const CHANGE: u64 = 2 << 3 | 2;
const CONTEXT: u64 = 3 << 3 | 2;
const KIND: u64 = 1 << 3;
const NODE: u64 = 2 << 3;

/// Reads a change of members. `None` for bytes that no Heddle server has written; unknown fields are among these.
pub(crate) fn parse(bytes: &[u8]) -> Option<ConfChangeV2> {
    if bytes.len() > CHANGE_BYTES_MAX {
        return None;
    }
    let mut change = ConfChangeV2::default();
    let mut reader = Reader(bytes);
    while !reader.0.is_empty() {
        match reader.varint()? {
            TRANSITION => change.set_transition(match reader.varint()? {
                0 => ConfChangeTransition::Auto,
                1 => ConfChangeTransition::Implicit,
                2 => ConfChangeTransition::Explicit,
                _ => return None,
            }),
            CHANGE if change.get_changes().len() < CHANGED_MAX => {
                let single = single(reader.bytes()?)?;
                change.mut_changes().push(single);
            }
            CONTEXT if reader.bytes()?.is_empty() => {}
            _ => return None,
        }
    }
    Some(change)
}

fn single(bytes: &[u8]) -> Option<ConfChangeSingle> {
    let mut single = ConfChangeSingle::default();
    let mut reader = Reader(bytes);
    while !reader.0.is_empty() {
        match reader.varint()? {
            KIND => single.set_change_type(match reader.varint()? {
                0 => ConfChangeType::AddNode,
                1 => ConfChangeType::RemoveNode,
                2 => ConfChangeType::AddLearnerNode,
                _ => return None,
            }),
            NODE => single.set_node_id(reader.varint()?),
            _ => return None,
        }
    }
    (single.get_node_id() != 0).then_some(single)
}

struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn varint(&mut self) -> Option<u64> {
        let mut value = 0_u64;
        for shift in (0..64).step_by(7) {
            let (&byte, rest) = self.0.split_first()?;
            self.0 = rest;
            let bits = u64::from(byte & 0x7f);
            if shift == 63 && bits > 1 {
                return None;
            }
            value |= bits << shift;
            if byte & 0x80 == 0 {
                return Some(value);
            }
        }
        None
    }

    fn bytes(&mut self) -> Option<&'a [u8]> {
        let length = usize::try_from(self.varint()?).ok()?;
        let (bytes, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(bytes)
    }
}

#[cfg(test)]
mod tests {
    use protobuf::Message as _;

    use super::*;
    use crate::message::MemberChange;

    #[test]
    fn it_reads_what_raft_rs_writes() {
        let changes = [
            MemberChange::default(),
            MemberChange { voters: vec![1, 300], learners: vec![u64::MAX], removed: vec![4] },
            MemberChange { removed: vec![1], ..MemberChange::default() },
        ];
        for change in changes {
            let mut raft = change.to_raft();
            for transition in
                [ConfChangeTransition::Auto, ConfChangeTransition::Implicit, ConfChangeTransition::Explicit]
            {
                raft.set_transition(transition);
                assert_eq!(parse(&raft.write_to_bytes().unwrap()).as_ref(), Some(&raft));
            }
        }
    }

    #[test]
    fn it_takes_nothing_else() {
        // An unknown field; a group that holds groups without end, which protobuf follows until the stack is used up; a number
        // that is cut, one that is too long, a length beyond the bytes; no member; a context.
        let nested = [0x23; 4_096];
        let bad: [&[u8]; 9] = [
            &[0x20, 1],
            &nested,
            &[0x08],
            &[0x08, 0xff],
            &[0x08, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x02],
            &[0x12, 9, 0],
            &[0x12, 2, 0x08, 0],
            &[0x1a, 1, 0],
            &[0x08, 3],
        ];
        for bytes in bad {
            assert_eq!(parse(bytes), None, "{bytes:?}");
        }
        let mut many = MemberChange { voters: (1..=CHANGED_MAX as u64 + 1).collect(), ..MemberChange::default() };
        assert_eq!(parse(&many.to_raft().write_to_bytes().unwrap()), None);
        many.voters.pop();
        assert!(parse(&many.to_raft().write_to_bytes().unwrap()).is_some());
    }
}
