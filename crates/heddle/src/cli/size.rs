//! Sizes on the command line.

/// Bytes: a whole number and a unit, as in `512MiB` or `10GB`; without a unit, bytes.
///
/// # Errors
/// What was expected.
pub fn size(text: &str) -> Result<u64, String> {
    let expected = || {
        format!("`{text}` is no size: expected a whole number and KiB, MiB, GiB, TiB, kB, MB, GB or TB, as in 512MiB")
    };
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let number: u64 = number.parse().map_err(|_| expected())?;
    let factor: u64 = match unit {
        "" | "B" => 1,
        "KiB" => 1 << 10,
        "MiB" => 1 << 20,
        "GiB" => 1 << 30,
        "TiB" => 1 << 40,
        "kB" => 1_000,
        "MB" => 1_000_000,
        "GB" => 1_000_000_000,
        "TB" => 1_000_000_000_000,
        _ => return Err(expected()),
    };
    number.checked_mul(factor).ok_or_else(expected)
}

#[cfg(test)]
mod tests {
    use super::size;

    #[test]
    fn sizes_have_a_number_and_a_unit() {
        assert_eq!(size("512MiB"), Ok(512 << 20));
        assert_eq!((size("10GB"), size("1"), size("2TiB")), (Ok(10_000_000_000), Ok(1), Ok(2 << 40)));
        for wrong in ["", "MiB", "-1MiB", "1.5GiB", "1mib", "1 MiB", "99999999999TiB"] {
            assert!(size(wrong).is_err(), "{wrong}");
        }
    }
}
