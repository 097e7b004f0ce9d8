//! How long a server's only thread is held by the worst frames of 16 MiB that a client or a peer can make: many tiny parts.
//!
//! `cargo run --release --example worst_frames -p heddle-store`

#![allow(clippy::disallowed_methods, reason = "it measures")]

use std::time::Instant;

use store::peer::Envelope;
use store::protocol::{FRAME_MAX, decode, decode_client};
use tree::bounded::Entries;

/// A number as postcard writes it.
fn number(mut value: u64, out: &mut Vec<u8>) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// `before`, the count of the parts, and as many of them as fit a frame.
fn frame(before: &[u8], part: impl Fn(u64) -> Vec<u8>, after: &[u8]) -> Vec<u8> {
    up_to(u64::MAX, before, part, after)
}

/// The same of so many at most.
fn up_to(most: u64, before: &[u8], part: impl Fn(u64) -> Vec<u8>, after: &[u8]) -> Vec<u8> {
    let mut parts = Vec::new();
    let mut count = 0;
    while count < most && parts.len() + before.len() + after.len() + 64 < FRAME_MAX {
        parts.extend(part(count));
        count += 1;
    }
    let mut body = before.to_vec();
    number(count, &mut body);
    body.extend(parts);
    body.extend(after);
    body
}

/// The items of an envelope, with what is around them.
fn envelope(items: &[u8]) -> Vec<u8> {
    let mut body = vec![0, 0, 0];
    number(u64::from(crc32fast::hash(items)), &mut body);
    number(items.len() as u64, &mut body);
    body.extend(items);
    body
}

fn resident_mb() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find(|line| line.starts_with("VmRSS")).unwrap_or_default();
    line.split_whitespace().nth(1).and_then(|kb| kb.parse::<u64>().ok()).unwrap_or_default() >> 10
}

fn measure<T, E: std::fmt::Display>(what: &str, body: &[u8], decode: impl Fn(&[u8]) -> Result<T, E>) {
    let before = resident_mb();
    let start = Instant::now();
    let outcome = decode(body);
    let ms = start.elapsed().as_secs_f64() * 1e3;
    let held = resident_mb().saturating_sub(before);
    let verdict = match &outcome {
        Ok(_) => "taken".to_owned(),
        Err(error) => format!("refused: {:.70}", error.to_string()),
    };
    println!("{what:32} {:8} bytes {ms:8.1} ms {held:5} MB  {verdict}", body.len());
}

fn main() {
    // A request: session, sequence, acknowledged, timeout, then the kind.
    let request = |body: &[u8]| [&[0, 1, 1, 1, 1], body].concat();
    let client = |body: &[u8]| decode_client(body).map_err(|error| format!("{error:?}"));
    measure("conditions", &frame(&request(&[2]), |_| b"\0\x01/\0".to_vec(), &[0]), client);
    measure("changes", &frame(&request(&[2, 0]), |_| b"\x04\0\x01/".to_vec(), &[]), client);
    measure("otherwise", &frame(&request(&[8, 0, 0]), |_| b"\x04\0\x01/".to_vec(), &[]), client);
    measure("offers", &frame(&request(&[5]), |_| vec![0, 0], &[]), client);
    measure("offers, the last is wrong", &frame(&request(&[5]), |_| vec![0, 0], &[7]), client);
    let shard = |n| {
        let mut part = Vec::new();
        number(n, &mut part);
        part.push(1);
        part
    };
    measure("shards of a watch", &frame(&request(&[3, 0, 1, b'/']), shard, &[]), client);
    measure("bytes of a reply", &frame(&[1, 1, 0], |_| vec![7], &[]), client);

    let peer = |body: &[u8]| decode::<Envelope>(body);
    measure("items", &envelope(&frame(&[], |_| vec![6, 1], &[])), peer);
    // Of one item: a Raft message of group 1, an append of term 2 behind entry 1 of term 1.
    let entry = |n: u64| {
        let mut part = vec![0, 2];
        number(n + 2, &mut part);
        part.extend([0, 0]);
        part
    };
    let append = |entries: Vec<u8>| envelope(&[&[1, 0, 1, 0, 2, 1, 1], &entries[..], &[0; 8]].concat());
    measure("empty entries", &append(frame(&[], entry, &[])), peer);
    let leads = |_| vec![1, 0];
    measure("lists of what it leads", &envelope(&frame(&[1, 5, 0, 0, 0], leads, &[])), peer);
    println!("As much as is taken:");
    for bytes in [1, 250, 1_000] {
        let path = format!("/a:{}", "b".repeat(bytes));
        let remove = |_| {
            let mut part = vec![4, 0];
            number(path.len() as u64, &mut part);
            part.extend(path.as_bytes());
            part
        };
        measure(&format!("changes, {bytes} letters"), &up_to(16_384, &request(&[2, 0]), remove, &[]), client);
    }
    measure("offers, the last is wrong", &up_to(16_384, &request(&[5]), |_| vec![0, 0], &[7]), client);
    measure("items", &envelope(&up_to(65_536, &[], |_| vec![6, 1], &[])), peer);
    measure("empty entries", &append(up_to(65_536, &[], entry, &[])), peer);
    let command = |body: &[u8]| tree::Command::decode_bounded(body, &mut Entries::at_most(262_144));
    measure("conditions of commands", &up_to(262_144, &[1, 0, 1, 1, 1], |_| b"\0\x01/\0".to_vec(), &[0]), command);
    measure("lists of what it leads", &envelope(&up_to(524_287, &[1, 5, 0, 0, 0], leads, &[])), peer);
}
