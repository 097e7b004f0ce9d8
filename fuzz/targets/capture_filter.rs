//! Filters of `heddle capture`: any text is read or refused with a printable reason; what is read says the same again, and looks at any frame.
#![no_main]

use std::net::IpAddr;

use libfuzzer_sys::fuzz_target;
use live::sniffer::Filter;

/// Hosts whose names are vowels have addresses.
fn addresses(name: &str) -> Vec<IpAddr> {
    let is_known = matches!(name, "a" | "e" | "i" | "o" | "u");
    if is_known { vec!["10.0.0.1".parse().expect("v4"), "fd00::1".parse().expect("v6")] } else { Vec::new() }
}

fuzz_target!(|bytes: &[u8]| {
    let split = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
    let (text, frame) = bytes.split_at(split);
    let Ok(text) = std::str::from_utf8(text) else { return };
    match Filter::parse(text, &addresses) {
        Ok(None) => assert!(text.trim().is_empty()),
        Ok(Some(filter)) => {
            let matches = filter.matches(frame);
            // As it is written out it has more parentheses, and may be too long or too deep.
            if let Ok(Some(again)) = Filter::parse(&filter.to_string(), &addresses) {
                assert_eq!(again.matches(frame), matches);
            }
        }
        Err(error) => {
            let message = error.to_string();
            assert!(!message.is_empty() && !message.contains(char::is_control), "{message:?}");
        }
    }
});
