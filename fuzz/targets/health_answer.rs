//! What servers answer to health checks: any bytes are judged, by HTTP, DNS and gRPC, and nothing but an answer is good.
#![no_main]

use balance::health::http::{is_whole, read_answer};
use balance::health::{BadAnswer, DnsCheck, HttpCheck, RecordType, grpc};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let contains = Some("fine".to_owned());
    let http = HttpCheck { tls: None, path: "/".to_owned(), host: None, status: (200, 299), contains };
    let is_good = http.judge(bytes).is_ok();
    assert!(!is_good || read_answer(bytes).is_some_and(|(status, _)| (200..300).contains(&status)));
    // Whoever stops reading there finds the same.
    assert!(!is_good || http.is_enough(bytes));
    let _ = is_whole(bytes);
    let dns = DnsCheck { name: "www.example".to_owned(), record: RecordType::A, address: None };
    let id = bytes.first_chunk().map_or(0, |id| u16::from_be_bytes(*id));
    if dns.judge(id, bytes).is_ok() {
        assert_eq!(dns.judge(!id, bytes), Err(BadAnswer::NotDns));
    }
    if grpc::judge(bytes).is_ok() {
        assert!(bytes.len() > 5 && bytes[0] == 0);
    }
});
