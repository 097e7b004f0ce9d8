//! What clients, servers and applications send to the programs of a service: requests, answers, queries, distributions, pushes, texts of the kernel. Each is read or refused, and
//! what is read lies within its bounds and is the same whatever pieces it comes in.
#![no_main]

use libfuzzer_sys::fuzz_target;
use requests::agent::{Pushed, proc_texts};
use requests::http::request::{BODY_MAX, HEAD_MAX};
use requests::http::{AnswerReader, Request};
use workload::service::{Distribution, SIZE_MAX, Target, VALUE_MAX, quantity};

fn request(bytes: &[u8]) {
    match Request::parse(bytes) {
        Ok(Some(request)) => {
            assert!(request.length <= bytes.len() && request.length <= HEAD_MAX + BODY_MAX);
            assert!(request.body.len() <= BODY_MAX);
            // A request that is whole is the same one with more behind it.
            let longer = [bytes, b"GET / HTTP/1.1\r\n\r\n"].concat();
            assert_eq!(Request::parse(&longer).map(|it| it.map(|it| it.length)), Ok(Some(request.length)));
        }
        Ok(None) => assert!(bytes.len() < HEAD_MAX + BODY_MAX),
        Err(error) => assert!((400..600).contains(&error.status()) && !error.to_string().contains(char::is_control)),
    }
}

/// The first answer: its status and length, how many bytes it takes; nothing if it is none or not complete.
fn answer(bytes: &[u8], piece: usize) -> Option<(u16, u64, usize)> {
    let (mut reader, mut at) = (AnswerReader::default(), 0);
    while at < bytes.len() {
        let (found, taken) = reader.take(&bytes[at..bytes.len().min(at + piece)]).ok()?;
        at += taken;
        if let Some(answer) = found {
            assert!(answer.bytes <= at as u64);
            return Some((answer.status, answer.bytes, at));
        }
        assert!(taken > 0, "what is not complete takes all that there is");
    }
    None
}

fn text(text: &str) {
    if let Ok(target) = Target::parse(text) {
        let mut path = Vec::new();
        target.write_path(&mut path);
        let path = String::from_utf8(path).expect("it is text");
        let again = Target::parse(&path).expect("what is written is read");
        assert_eq!(again.answer_bytes(), target.answer_bytes());
    }
    for distribution in [Distribution::sizes(text), Distribution::durations(text)].into_iter().flatten() {
        assert!(distribution.draw(&mut machine::Rng::new(1)) <= VALUE_MAX);
    }
    assert!(quantity::size(text).is_ok_and(|size| size <= SIZE_MAX) || quantity::size(text).is_err());
    let _ = (quantity::time(text), quantity::share(text), quantity::rate(text), quantity::factor(text));
    let _ = (proc_texts::cpu(text), proc_texts::memory(text), proc_texts::pressure_us(text));
    let _ = (proc_texts::connections(text), proc_texts::run_queue(text));
}

fuzz_target!(|bytes: &[u8]| {
    request(bytes);
    let whole = answer(bytes, usize::MAX / 2);
    if bytes.len() < 4_096 {
        assert_eq!(answer(bytes, 1), whole);
    }
    if let Err(expected) = Pushed::parse(bytes) {
        assert!(!expected.is_empty());
    }
    if let Ok(bytes) = std::str::from_utf8(bytes) {
        text(bytes);
    }
});
