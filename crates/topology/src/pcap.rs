//! Devices that are capture files.

use std::fmt;

/// A device that is files in the format of pcap or pcapng: one is played into the network, into another one is recorded what the network sends. Its
/// name is `pcap:FILE`, or `pcap:` and a list of `rx=FILE`, `tx=FILE` and `speed=max`, as of DPDK's `net_pcap`: the directions are the port's. No network
/// device of Linux has a colon in its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PcapDevice<'a> {
    /// The file that is played: the network receives its packets.
    pub rx: Option<&'a str>,
    /// The file that is written: the network sends its packets.
    pub tx: Option<&'a str>,
    /// How fast it is played.
    pub speed: Speed,
}

/// How fast a capture is played.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Speed {
    /// As its time stamps say.
    #[default]
    Recorded,
    /// As fast as it is taken.
    Max,
}

/// Why a name that begins with `pcap:` is no such device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotPcap<'a> {
    /// No option has this name.
    Unknown(&'a str),
    /// An option that is there twice, or without a value.
    Option(&'a str),
    /// The speed is none that there is.
    Speed(&'a str),
    /// No file is played, and none written.
    NoFile,
    /// Both are the same file.
    SameFile(&'a str),
}

impl<'a> PcapDevice<'a> {
    /// What the names of these devices begin with.
    pub const PREFIX: &'static str = "pcap:";

    /// The device with this name; `None` if it does not begin as theirs do.
    ///
    /// # Errors
    /// [`NotPcap`] if it begins so and goes on in another way.
    pub fn parse(name: &'a str) -> Option<Result<Self, NotPcap<'a>>> {
        name.strip_prefix(Self::PREFIX).map(Self::options)
    }

    /// The device with this name, if it is such a one.
    pub fn of(name: &'a str) -> Option<Self> {
        Self::parse(name)?.ok()
    }

    fn options(text: &'a str) -> Result<Self, NotPcap<'a>> {
        let (mut rx, mut tx, mut speed) = (None, None, None);
        if text.is_empty() {
            return Err(NotPcap::NoFile);
        }
        for (at, option) in text.split(',').enumerate() {
            let (key, value) = match option.split_once('=') {
                Some(pair) => pair,
                // The first one may be just the file that is played.
                None if at == 0 => ("rx", option),
                None => return Err(NotPcap::Unknown(option)),
            };
            let known = match key {
                "rx" => &mut rx,
                "tx" => &mut tx,
                "speed" => &mut speed,
                _ => return Err(NotPcap::Unknown(key)),
            };
            if value.is_empty() || value.contains('\0') || known.replace(value).is_some() {
                return Err(NotPcap::Option(key));
            }
        }
        let speed = match speed {
            None => Speed::Recorded,
            Some("max") => Speed::Max,
            Some(other) => return Err(NotPcap::Speed(other)),
        };
        match (rx, tx) {
            (None, None) => Err(NotPcap::NoFile),
            (Some(rx), Some(tx)) if rx == tx => Err(NotPcap::SameFile(rx)),
            _ => Ok(Self { rx, tx, speed }),
        }
    }
}

impl fmt::Display for NotPcap<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unknown(option) => write!(f, "`{option}` is no option of a capture"),
            Self::Option(option) => write!(f, "`{option}` is there twice, or without a value"),
            Self::Speed(speed) => write!(f, "`{speed}` is no speed"),
            Self::NoFile => f.write_str("no file is played, and none written"),
            Self::SameFile(file) => write!(f, "`{file}` is both played and written"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn captures_are_played_written_or_both() {
        let of = |name| PcapDevice::of(name).map(|device| (device.rx, device.tx, device.speed));
        assert_eq!(of("pcap:a.pcap"), Some((Some("a.pcap"), None, Speed::Recorded)));
        assert_eq!(of("pcap:rx=a=b"), Some((Some("a=b"), None, Speed::Recorded)));
        assert_eq!(of("pcap:/a b,speed=max,tx=c"), Some((Some("/a b"), Some("c"), Speed::Max)));
        assert_eq!(of("pcap:tx=c"), Some((None, Some("c"), Speed::Recorded)));
        assert_eq!(PcapDevice::parse("null:64"), None);
        assert_eq!(PcapDevice::parse("pcap"), None);
    }

    #[test]
    fn what_is_no_capture_says_why() {
        let why = |name| PcapDevice::parse(name).unwrap().unwrap_err();
        assert_eq!(why("pcap:"), NotPcap::NoFile);
        assert_eq!(why("pcap:speed=max"), NotPcap::NoFile);
        assert_eq!(why("pcap:a,b"), NotPcap::Unknown("b"));
        assert_eq!(why("pcap:infinite_rx=1"), NotPcap::Unknown("infinite_rx"));
        assert_eq!(why("pcap:a,rx=b"), NotPcap::Option("rx"));
        assert_eq!(why("pcap:tx="), NotPcap::Option("tx"));
        assert_eq!(why("pcap:a,speed=2"), NotPcap::Speed("2"));
        assert_eq!(why("pcap:a,tx=a"), NotPcap::SameFile("a"));
    }
}
