//! Addresses as written.

use std::borrow::Cow;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};

use crate::InterfaceAddress;
use crate::error::Problems;
use crate::read::{Read, expected};
use crate::tree::{Node, Value};

/// A MAC address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Mac(pub [u8; 6]);

impl std::str::FromStr for Mac {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let mut bytes = [0; 6];
        let mut parts = text.split(':');
        for byte in &mut bytes {
            let part = parts.next().filter(|p| p.len() == 2 && p.bytes().all(|b| b.is_ascii_hexdigit())).ok_or(())?;
            *byte = u8::from_str_radix(part, 16).map_err(|_| ())?;
        }
        parts.next().map_or(Ok(Self(bytes)), |_| Err(()))
    }
}

/// An address, and how many bits the prefix of its subnet has where that is written: `10.0.1.7/24`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct WithPrefix<A> {
    pub address: A,
    pub prefix: Option<u8>,
}

/// An address of either version with the prefix of its subnet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Subnet(pub InterfaceAddress);

/// The bits of an address and how many there can be.
pub(crate) const fn width(address: IpAddr) -> u8 {
    match address {
        IpAddr::V4(_) => 32,
        IpAddr::V6(_) => 128,
    }
}

/// The length of a prefix as digits.
pub(crate) fn prefix_length(text: &str, width: u8) -> Option<u8> {
    let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|bits| is_number && *bits <= width)
}

impl<A: std::str::FromStr + Copy + Into<IpAddr>> std::str::FromStr for WithPrefix<A> {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let (address, bits) = text.split_once('/').map_or((text, None), |(address, bits)| (address, Some(bits)));
        let address: A = address.parse().map_err(|_| ())?;
        let prefix = bits.map(|bits| prefix_length(bits, width(address.into())).ok_or(())).transpose()?;
        Ok(Self { address, prefix })
    }
}

impl std::str::FromStr for Subnet {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let WithPrefix::<IpAddr> { address, prefix } = text.parse()?;
        Ok(Self(InterfaceAddress { address, prefix: prefix.ok_or(())? }))
    }
}

macro_rules! address {
    ($type:ty, $what:literal) => {
        impl Read for $type {
            fn read(node: &Node, problems: &mut Problems<'_>) -> Option<Self> {
                let address = match &node.value {
                    Value::Scalar(text) => text.parse().ok(),
                    _ => None,
                };
                if address.is_none() {
                    expected(node, $what, problems);
                }
                address
            }
        }
    };
}
address!(Mac, "a MAC address like `02:00:00:00:00:01`");
address!(IpAddr, "an IP address like `10.0.0.7`");
address!(Ipv4Addr, "an IPv4 address like `10.0.0.7`");
address!(Ipv6Addr, "an IPv6 address like `fd68:6564:646c::7`");
address!(WithPrefix<Ipv4Addr>, "an IPv4 address like `10.0.0.7`, or `10.0.1.7/24` with the prefix of its subnet");
address!(
    WithPrefix<Ipv6Addr>,
    "an IPv6 address like `fd68:6564:646c::7`, or `fd00:1::7/64` with the prefix of its subnet"
);
address!(Subnet, "an address with the prefix of its subnet, like `10.0.1.7/24` or `fd00:1::7/64`");

macro_rules! text_schema {
    ($type:ty, $name:literal, $pattern:literal) => {
        impl JsonSchema for $type {
            fn schema_name() -> Cow<'static, str> {
                $name.into()
            }

            fn json_schema(_: &mut SchemaGenerator) -> Schema {
                json_schema!({ "type": "string", "pattern": $pattern })
            }
        }
    };
}
text_schema!(WithPrefix<Ipv4Addr>, "Ipv4InSubnet", "^[0-9]+(\\.[0-9]+){3}(/[0-9]{1,2})?$");
text_schema!(WithPrefix<Ipv6Addr>, "Ipv6InSubnet", "^[0-9A-Fa-f:.]+(/[0-9]{1,3})?$");
text_schema!(Subnet, "Subnet", "^[0-9A-Fa-f:.]+/[0-9]{1,3}$");

impl JsonSchema for Mac {
    fn schema_name() -> Cow<'static, str> {
        "Mac".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "string", "pattern": "^[0-9A-Fa-f]{2}(:[0-9A-Fa-f]{2}){5}$" })
    }
}

impl std::fmt::Display for Mac {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for (i, byte) in self.0.iter().enumerate() {
            let colon = if i == 0 { "" } else { ":" };
            write!(f, "{colon}{byte:02x}")?;
        }
        Ok(())
    }
}
