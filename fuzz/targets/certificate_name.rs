//! Bytes that may be a certificate: the name in it, if there is one, is short and one line of its bytes.
#![no_main]

use libfuzzer_sys::fuzz_target;
use node::subject::common_name;

fuzz_target!(|bytes: &[u8]| {
    if let Some(name) = common_name(bytes) {
        assert!(name.len() <= 128);
        assert!(name.is_empty() || bytes.windows(name.len()).any(|window| window == name.as_bytes()));
    }
});
