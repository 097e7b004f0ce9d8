//! What agents on servers answer: any bytes are read or refused with a printable reason; what is read of HAProxy's agent-check is written as what is read as the
//! same again, and so are load reports (but for numbers that a decimal fraction does not hold).
#![no_main]

use balance::agent::{AgentCheck, parse_report, write_report};
use libfuzzer_sys::fuzz_target;

/// What is exact in 64 bits of floating point, in thousandths.
const EXACT: u64 = 1 << 50;

fuzz_target!(|bytes: &[u8]| {
    match AgentCheck::parse(bytes) {
        Ok(check) => assert_eq!(AgentCheck::parse(check.to_string().as_bytes()), Ok(check)),
        Err(error) => assert!(!error.to_string().is_empty()),
    }
    match parse_report(bytes) {
        Ok(report) => {
            let rates = [report.requests_per_kilosecond, report.errors_per_kilosecond];
            let again = parse_report(write_report(&report).as_bytes()).expect("it was written here");
            if rates.into_iter().flatten().all(|rate| rate < EXACT) {
                assert_eq!(again, report);
            }
        }
        Err(error) => assert!(!error.to_string().is_empty()),
    }
});
