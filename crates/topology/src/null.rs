//! Devices that no machine has: nobody is behind them.

/// A device without anything behind it, for measuring: `null:` takes what comes and sends nothing, `null:LENGTH` sends frames of that length as fast as
/// they are taken. No network device of Linux has a colon in its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NullDevice {
    /// Bytes of the frames that it sends, without frame check sequence; `None`: it sends none.
    pub frame_bytes: Option<u16>,
}

impl NullDevice {
    /// The shortest frame (IEEE 802.3, 3.2.8, without frame check sequence).
    pub const FRAME_MIN: u16 = 60;
    /// The longest one: an MTU of 1,500 bytes and a header.
    pub const FRAME_MAX: u16 = 1_514;

    /// The device with this name, if it is such a one.
    pub fn of(name: &str) -> Option<Self> {
        let length = name.strip_prefix("null:")?;
        if length.is_empty() {
            return Some(Self { frame_bytes: None });
        }
        let is_number = length.bytes().all(|byte| byte.is_ascii_digit()) && !length.starts_with('0');
        let frame_bytes = length.parse().ok().filter(|length| (Self::FRAME_MIN..=Self::FRAME_MAX).contains(length))?;
        is_number.then_some(Self { frame_bytes: Some(frame_bytes) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn null_devices_have_a_length_or_none() {
        let bytes = |name| NullDevice::of(name).map(|device| device.frame_bytes);
        assert_eq!(["null:", "null:60", "null:1514"].map(bytes), [Some(None), Some(Some(60)), Some(Some(1_514))]);
        assert_eq!(["null", "null:59", "null:1515", "null:064", "null:+64", "null:x", "eth0"].map(bytes), [None; 7]);
    }
}
