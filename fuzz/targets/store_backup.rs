//! A backup: raw bytes, and records with right checksums but any body behind a good head.
#![no_main]

use libfuzzer_sys::fuzz_target;
use placement::{Map, ShardId};
use store::backup::{Head, MAGIC, Part, Reader, Writer};

/// Reads as `heddle cluster restore` does; what is accepted to its end is written again, and is the same.
fn read(bytes: &[u8]) {
    let (mut reader, mut rest, mut parts) = (Reader::new(), bytes, Vec::new());
    while let Ok(Some((part, took))) = reader.next(rest) {
        assert!(took > 0 && took <= rest.len());
        rest = &rest[took..];
        parts.push(part);
    }
    if reader.finish().is_ok() && rest.is_empty() {
        again(parts);
    }
}

fn again(parts: Vec<Part>) {
    let mut parts = parts.into_iter();
    let Some(Part::Head(head)) = parts.next() else { panic!("a backup begins with its head") };
    let mut out = Vec::new();
    let mut writer = Writer::new(head.0, &mut out);
    let mut is_whole = false;
    for part in parts {
        assert!(!is_whole, "something follows the end");
        match part {
            Part::Head(_) => panic!("there is one head"),
            Part::Entries(shard, entries) => writer.entries(shard, entries, &mut out),
            Part::ShardEnd(shard, content) => assert_eq!(writer.end_shard(shard, &mut out), content),
            Part::End => is_whole = true,
        }
    }
    writer.end(&mut out);
    let (mut reader, mut rest) = (Reader::new(), &out[..]);
    while let Some((_, took)) = reader.next(rest).expect("it was just written") {
        rest = &rest[took..];
    }
    assert_eq!(reader.finish(), Ok(()));
}

fn record(body: &[u8], out: &mut Vec<u8>) {
    out.extend_from_slice(&(body.len() as u32).to_le_bytes());
    out.extend_from_slice(&crc32fast::hash(body).to_le_bytes());
    out.extend_from_slice(body);
}

fuzz_target!(|bytes: &[u8]| {
    let Some((&choice, bytes)) = bytes.split_first() else { return };
    match choice % 3 {
        0 => read(bytes),
        // Any head.
        1 => {
            let mut out = MAGIC.to_vec();
            record(bytes, &mut out);
            read(&out);
        }
        // A good head, then any two records, then ends that say what they should.
        _ => {
            let mut out = Vec::new();
            let map = Map::new().encode();
            let head = Head { program: "fuzz".into(), taken_unix_s: 0, cluster: 1, map };
            let mut writer = Writer::new(head, &mut out);
            let (first, second) = bytes.split_at(usize::from(choice / 3).min(bytes.len()));
            record(first, &mut out);
            record(second, &mut out);
            read(&out);
            writer.end_shard(ShardId::DEFAULT, &mut out);
            writer.end(&mut out);
            read(&out);
        }
    }
});
