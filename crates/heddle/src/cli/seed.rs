//! Seeds on the command line.

use std::num::IntErrorKind;

/// Any number of 64 bits.
///
/// # Errors
/// What was expected, or the most.
pub fn seed(text: &str) -> Result<u64, String> {
    text.parse().map_err(|error: std::num::ParseIntError| match error.kind() {
        IntErrorKind::PosOverflow => format!("{} is the most", u64::MAX),
        _ => "expected a whole number, not negative".to_owned(),
    })
}
