//! Powers and logarithms that are the same on every machine: additions, multiplications and divisions only, which IEEE 754 defines to the last bit. Those of the
//! platform's library differ from one to the next, and with them would the requests of a seed.

use std::f64::consts::{LN_2, LOG2_E};

/// Terms of the series of `e^x` for `x` below 0.7, and of the logarithm for mantissas: what is left out lies below the last bit.
const TERMS: u32 = 22;

/// 2 to the power of `x`; zero below, and infinite above, what a normal number reaches.
pub(super) fn exp2(x: f64) -> f64 {
    if x >= 1_024.0 {
        return f64::INFINITY;
    }
    if x < -1_022.0 {
        return 0.0;
    }
    let whole = x.floor();
    let rest = (x - whole) * LN_2;
    let series = (1..=TERMS).rev().fold(1.0, |sum, term| 1.0 + sum * rest / f64::from(term));
    let power = f64::from_bits(((whole as i64 + 1_023) as u64) << 52);
    series * power
}

/// The logarithm of `x` to the base 2, of a positive normal number.
pub(super) fn log2(x: f64) -> f64 {
    let bits = x.to_bits();
    let exponent = i32::from((bits >> 52) as u16 & 0x7ff) - 1_023;
    let mantissa = f64::from_bits((bits & ((1 << 52) - 1)) | (1_023 << 52));
    let ratio = (mantissa - 1.0) / (mantissa + 1.0);
    let square = ratio * ratio;
    let series = (0..TERMS).rev().fold(0.0, |sum, term| sum * square + 1.0 / f64::from(2 * term + 1));
    f64::from(exponent) + 2.0 * ratio * series * LOG2_E
}

/// `base` to the power of `exponent`, of a positive base.
pub(super) fn power(base: f64, exponent: f64) -> f64 {
    exp2(exponent * log2(base))
}

/// e to the power of `x`.
pub(super) fn exp(x: f64) -> f64 {
    exp2(x * LOG2_E)
}

/// The natural logarithm of a positive number.
pub(super) fn ln(x: f64) -> f64 {
    log2(x) * LN_2
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn they_are_what_the_library_has() {
        for x in [1e-9, 0.001, 0.3, 0.999_999, 1.0, 1.5, 2.0, 10.0, 12_345.678, 1e12] {
            assert!((ln(x) - x.ln()).abs() <= 1e-12 * (1.0 + x.ln().abs()), "{x}");
            assert!((power(x, 0.7) - x.powf(0.7)).abs() <= 1e-12 * x.powf(0.7), "{x}");
        }
        for x in [-30.0, -1.0, -0.1, 0.0, 0.5, 1.0, 20.0] {
            assert!((exp(x) - f64::exp(x)).abs() <= 1e-12 * f64::exp(x), "{x}");
        }
        assert_eq!((exp2(10.0), exp2(-3.0), exp2(2_000.0), exp2(-2_000.0)), (1_024.0, 0.125, f64::INFINITY, 0.0));
    }
}
