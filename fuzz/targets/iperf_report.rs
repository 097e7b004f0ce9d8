//! What iperf3 prints, which may be any version's, or cut off: a measurement or an error of one printable line.
#![no_main]

use lab::iperf::parse;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &[u8]| {
    match parse(text) {
        Ok(measurement) => {
            assert!(measurement.goodput_bps.is_finite() && measurement.goodput_bps >= 0.0);
            assert!(measurement.seconds.is_finite() && measurement.seconds >= 0.0);
        }
        Err(error) => {
            let message = error.to_string();
            assert!(!message.is_empty() && !message.contains(char::is_control), "{message:?}");
        }
    }
});
