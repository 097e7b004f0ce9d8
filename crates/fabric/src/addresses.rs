//! Addresses as written.

use std::borrow::Cow;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};

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
