//! Devices that are the end of a tunnel: another machine is behind them.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use wire::Encapsulation;

/// A tunnel. Its name is `vxlan:REMOTE[:PORT],vni=N` or `geneve:..`, or `vni=flow` if flows say which network each frame is of, with `,local=ADDRESS[:PORT]` behind it where frames come to one address of this machine, or to
/// another port than they are sent to. An IPv6 address with a port stands in brackets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TunnelDevice<'a> {
    /// How frames are put into datagrams.
    pub kind: Encapsulation,
    /// Where the other end is.
    pub remote: Endpoint,
    /// Which network it is (VXLAN Network Identifier, Virtual Network Identifier): 24 bits; `None` if it carries all, and flows say which one a frame leaves by.
    pub vni: Option<u32>,
    /// Where datagrams come to.
    pub local: Option<Endpoint>,
    /// The whole name.
    pub name: &'a str,
}

/// An address, and a port unless it is that of the kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Endpoint {
    /// Of a machine.
    pub address: IpAddr,
    /// Of UDP.
    pub port: Option<u16>,
}

/// Why a name that begins with `vxlan:` or `geneve:` is no such device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotTunnel<'a> {
    /// Something is no address with or without a port.
    Address(&'a str),
    /// Nobody can be at this address alone.
    NotUnicast(IpAddr),
    /// No network is given.
    NoVni,
    /// The network is no number of 24 bits.
    Vni(&'a str),
    /// No option has this name.
    Unknown(&'a str),
    /// Both addresses are of different families.
    Families,
    /// Both ends are one.
    Itself,
}

impl Endpoint {
    fn parse(text: &str) -> Result<Self, NotTunnel<'_>> {
        let bare = text.strip_prefix('[').and_then(|text| text.strip_suffix(']')).unwrap_or(text);
        match (bare.parse(), text.parse::<SocketAddr>()) {
            (Ok(address), _) => Ok(Self { address, port: None }),
            (_, Ok(both)) if both.port() != 0 => Ok(Self { address: both.ip(), port: Some(both.port()) }),
            _ => Err(NotTunnel::Address(text)),
        }
    }
}

impl<'a> TunnelDevice<'a> {
    /// The device with this name; `None` if it does not begin as theirs do.
    ///
    /// # Errors
    /// [`NotTunnel`] if it begins so and goes on in another way.
    pub fn parse(name: &'a str) -> Option<Result<Self, NotTunnel<'a>>> {
        let (prefix, options) = name.split_once(':')?;
        let kind = [Encapsulation::Vxlan, Encapsulation::Geneve].into_iter().find(|kind| kind.name() == prefix)?;
        Some(Self::options(kind, name, options))
    }

    fn options(kind: Encapsulation, name: &'a str, text: &'a str) -> Result<Self, NotTunnel<'a>> {
        let mut options = text.split(',');
        let remote = Endpoint::parse(options.next().unwrap_or_default())?;
        if !is_unicast(remote.address) || remote.address.is_unspecified() {
            return Err(NotTunnel::NotUnicast(remote.address));
        }
        let (mut vni, mut local) = (None, None);
        for option in options {
            match option.split_once('=') {
                Some(("vni", "flow")) if vni.is_none() => vni = Some(None),
                Some(("vni", number)) if vni.is_none() => {
                    let is_plain =
                        number.bytes().all(|byte| byte.is_ascii_digit()) && (number == "0" || !number.starts_with('0'));
                    let parsed = number.parse().ok().filter(|vni| is_plain && *vni < 1 << 24);
                    vni = Some(Some(parsed.ok_or(NotTunnel::Vni(number))?));
                }
                Some(("local", endpoint)) if local.is_none() => local = Some(Endpoint::parse(endpoint)?),
                _ => return Err(NotTunnel::Unknown(option)),
            }
        }
        let vni = vni.ok_or(NotTunnel::NoVni)?;
        if let Some(local) = local.filter(|local| !is_unicast(local.address)) {
            return Err(NotTunnel::NotUnicast(local.address));
        }
        if local.is_some_and(|local| local.address.is_ipv4() != remote.address.is_ipv4()) {
            return Err(NotTunnel::Families);
        }
        let port = |endpoint: &Endpoint| endpoint.port.unwrap_or(kind.port());
        if local.is_some_and(|local| local.address == remote.address && port(&local) == port(&remote)) {
            return Err(NotTunnel::Itself);
        }
        Ok(Self { kind, remote, vni, local, name })
    }
}

/// Whether it is no address of several machines. That of none is of all addresses of this one.
fn is_unicast(address: IpAddr) -> bool {
    !address.is_multicast() && address != IpAddr::V4(Ipv4Addr::BROADCAST)
}

impl fmt::Display for NotTunnel<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Address(text) => write!(f, "`{text}` is no address, and no address with a port"),
            Self::NotUnicast(address) => write!(f, "{address} is no address of one machine"),
            Self::NoVni => f.write_str("it does not say which network (`vni=`)"),
            Self::Vni(text) => write!(f, "`{text}` is no network: 0 to 16777215, or `flow`"),
            Self::Unknown(option) => write!(f, "`{option}` is no option, or is there twice"),
            Self::Families => f.write_str("one address is of IPv4, the other of IPv6"),
            Self::Itself => f.write_str("it leads to itself"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tunnels_have_two_ends_and_a_network() {
        let of = |name| TunnelDevice::parse(name).unwrap().unwrap();
        let tunnel = of("vxlan:192.0.2.7,vni=42");
        assert_eq!((tunnel.kind, tunnel.vni, tunnel.local), (Encapsulation::Vxlan, Some(42), None));
        assert_eq!(of("geneve:192.0.2.7,vni=flow").vni, None);
        assert_eq!(tunnel.remote, Endpoint { address: "192.0.2.7".parse().unwrap(), port: None });
        let tunnel = of("geneve:[2001:db8::7]:7000,vni=0,local=[2001:db8::1]");
        assert_eq!((tunnel.kind, tunnel.remote.port), (Encapsulation::Geneve, Some(7000)));
        assert_eq!(tunnel.local, Some(Endpoint { address: "2001:db8::1".parse().unwrap(), port: None }));
        assert_eq!(of("vxlan:2001:db8::7,vni=1").remote.address.to_string(), "2001:db8::7");
        assert_eq!(TunnelDevice::parse("vxlan"), None);
    }

    #[test]
    fn nonsense_is_named() {
        fn why(name: &str) -> NotTunnel<'_> {
            TunnelDevice::parse(name).unwrap().unwrap_err()
        }
        assert_eq!(why("vxlan:,vni=1"), NotTunnel::Address(""));
        assert_eq!(why("vxlan:peer.example,vni=1"), NotTunnel::Address("peer.example"));
        assert_eq!(why("vxlan:192.0.2.7:0,vni=1"), NotTunnel::Address("192.0.2.7:0"));
        assert_eq!(why("vxlan:239.1.1.1,vni=1"), NotTunnel::NotUnicast("239.1.1.1".parse().unwrap()));
        assert_eq!(why("geneve:0.0.0.0,vni=1"), NotTunnel::NotUnicast("0.0.0.0".parse().unwrap()));
        assert_eq!(why("vxlan:255.255.255.255,vni=1"), NotTunnel::NotUnicast("255.255.255.255".parse().unwrap()));
        assert_eq!(
            why("vxlan:192.0.2.7,vni=1,local=224.0.0.1:44"),
            NotTunnel::NotUnicast("224.0.0.1".parse().unwrap())
        );
        assert_eq!(why("vxlan:192.0.2.7"), NotTunnel::NoVni);
        assert_eq!(why("vxlan:192.0.2.7,vni=16777216"), NotTunnel::Vni("16777216"));
        for number in ["+5", "0005", "5 ", "-1", "0x5"] {
            assert_eq!(why(&format!("vxlan:192.0.2.7,vni={number}")), NotTunnel::Vni(number));
        }
        assert_eq!(why("vxlan:192.0.2.7,vni=1,local=192.0.2.7"), NotTunnel::Itself);
        assert_eq!(why("vxlan:192.0.2.7:4790,vni=1,local=192.0.2.7:4790"), NotTunnel::Itself);
        assert_eq!(why("vxlan:192.0.2.7,vni=1,vni=1"), NotTunnel::Unknown("vni=1"));
        assert_eq!(why("vxlan:192.0.2.7,vni=flow,vni=1"), NotTunnel::Unknown("vni=1"));
        assert_eq!(why("vxlan:192.0.2.7,vni=1,key=2"), NotTunnel::Unknown("key=2"));
        assert_eq!(why("vxlan:192.0.2.7,vni=1,local=::1"), NotTunnel::Families);
    }
}
