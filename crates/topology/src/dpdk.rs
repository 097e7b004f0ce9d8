//! Devices that a driver of DPDK has.

use std::fmt;

/// A device of DPDK. Its name is `dpdk:DEVICE` or `dpdk:DEVICE,KEY=VALUE,..`, as DPDK's programs have it behind `--vdev` and `--allow`: `dpdk:net_af_packet0,iface=eth1`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DpdkDevice<'a> {
    /// The device with its arguments.
    pub arguments: &'a str,
    /// The device itself: `net_af_packet0`, or the address of a card, `0000:3b:00.0`.
    pub name: &'a str,
}

/// Why a name that begins with `dpdk:` is no such device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotDpdk<'a> {
    /// No driver has devices that are called so.
    Name(&'a str),
    /// An argument is none.
    Argument(&'a str),
}

/// The longest name in bytes: DPDK's `RTE_DEV_NAME_MAX_LEN` less its end.
const LONGEST: usize = 63;

impl<'a> DpdkDevice<'a> {
    /// What the names of these devices begin with.
    pub const PREFIX: &'static str = "dpdk:";

    /// The device with this name; `None` if it does not begin as theirs do.
    ///
    /// # Errors
    /// [`NotDpdk`] if it begins so and goes on in another way.
    pub fn parse(name: &'a str) -> Option<Result<Self, NotDpdk<'a>>> {
        name.strip_prefix(Self::PREFIX).map(Self::read)
    }

    fn read(arguments: &'a str) -> Result<Self, NotDpdk<'a>> {
        let (name, rest) = arguments.split_once(',').map_or((arguments, None), |(name, rest)| (name, Some(rest)));
        let is_named = |c: char| c.is_ascii_alphanumeric() || "_.:-".contains(c);
        if name.is_empty() || name.len() > LONGEST || !name.chars().all(is_named) {
            return Err(NotDpdk::Name(name));
        }
        let is_argument = |text: &str| {
            text.split_once('=').is_some_and(|(key, value)| !key.is_empty() && !value.is_empty())
                && text.chars().all(|c| !c.is_control() && !c.is_whitespace())
        };
        match rest.into_iter().flat_map(|rest| rest.split(',')).find(|argument| !is_argument(argument)) {
            Some(argument) => Err(NotDpdk::Argument(argument)),
            None => Ok(Self { arguments, name }),
        }
    }
}

impl fmt::Display for NotDpdk<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Name(name) => write!(f, "no device of DPDK is called `{name}`"),
            Self::Argument(argument) => write!(f, "`{argument}` is no argument of a device: KEY=VALUE"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn devices_are_written_as_dpdk_has_them() {
        let of = |name| DpdkDevice::parse(name).map(|it| it.map(|device| (device.name, device.arguments)));
        assert_eq!(of("dpdk:net_null0"), Some(Ok(("net_null0", "net_null0"))));
        let packet = "net_af_packet0,iface=eth1,qpairs=1";
        assert_eq!(of("dpdk:net_af_packet0,iface=eth1,qpairs=1"), Some(Ok(("net_af_packet0", packet))));
        assert_eq!(of("dpdk:0000:3b:00.0"), Some(Ok(("0000:3b:00.0", "0000:3b:00.0"))));
        assert_eq!(of("dpdk:net_ring0,nodeaction=r0:0:CREATE").map(|it| it.is_ok()), Some(true));
        assert_eq!(of("eth0"), None);
    }

    #[test]
    fn nonsense_is_named() {
        let why = |name| DpdkDevice::parse(name).unwrap().unwrap_err();
        assert_eq!(why("dpdk:"), NotDpdk::Name(""));
        assert_eq!(why("dpdk:net null0"), NotDpdk::Name("net null0"));
        assert_eq!(why("dpdk:,iface=eth1"), NotDpdk::Name(""));
        assert_eq!(why("dpdk:a,"), NotDpdk::Argument(""));
        assert_eq!(why("dpdk:a,iface"), NotDpdk::Argument("iface"));
        assert_eq!(why("dpdk:a,iface=x y"), NotDpdk::Argument("iface=x y"));
        let long = format!("dpdk:{}", "x".repeat(64));
        assert!(matches!(DpdkDevice::parse(&long), Some(Err(NotDpdk::Name(_)))));
    }
}
