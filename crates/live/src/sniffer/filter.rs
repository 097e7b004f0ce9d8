//! Filters: the part of pcap-filter(7) that names protocols, addresses and ports.
//!
//! As there, `and` and `or` are of equal rank and are taken from left to right, and `not` binds more tightly than both.

mod flags;

use std::fmt;
use std::net::IpAddr;

use fabric::Fabric;
use vswitch::FlowKey;
use wire::{ethertype, protocol};

use self::flags::FlagsTest;

/// Nested parentheses and `not`s; more are nobody's question.
const DEPTH_MAX: usize = 32;

/// Bytes of a filter.
const LENGTH_MAX: usize = 4_096;

/// What can be said, for hints.
const KNOWN: &str = "a filter is made of `arp`, `ip`, `ip6`, `icmp`, `icmp6`, `tcp`, `udp`, `vlan`, `host A`, `net A/LENGTH`, `port N`, `portrange N-M`, \
                     with `src` or `dst` before the last four, `greater BYTES`, `less BYTES` and `tcp[tcpflags] & (tcp-syn|tcp-fin) != 0`, joined by `and`, `or`, `not` and parentheses; what else pcap-filter(7) has, `tshark -Y` or \
                     `tcpdump -r FILE` can do with what was captured";

/// What is expected where a host is named.
const NO_HOST: &str = "expected an address, or the name of a host or a service of this network";

/// Which frames are captured.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Filter(Test);

/// A question about a frame.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Test {
    EtherType(u16),
    Vlan,
    /// By its number; and only of this version of IP, where one is named.
    Protocol(u8, Option<u16>),
    /// Whether an address is one of these: each with the length of its prefix.
    Net(Endpoint, Vec<(IpAddr, u8)>),
    /// Of TCP or UDP, or of the one that is named.
    Port(Endpoint, u16, u16, Option<u8>),
    /// Whether a frame has so many bytes or more.
    Greater(u32),
    /// Whether it has so many or fewer.
    Less(u32),
    TcpFlags(FlagsTest),
    Not(Box<Self>),
    And(Box<Self>, Box<Self>),
    Or(Box<Self>, Box<Self>),
}

/// Which end of a packet is asked about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Endpoint {
    Source,
    Destination,
    Either,
    Both,
}

/// Why a filter is none.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the filter can't be used at `{}`: {what}", shown(at))]
pub struct FilterError {
    /// The word that it is about; empty at its end.
    pub at: String,
    /// What was expected.
    pub what: String,
    /// What fixes it, if that is known.
    hint: Option<String>,
}

impl FilterError {
    /// What fixes it.
    pub fn hint(&self) -> String {
        self.hint.clone().unwrap_or_else(|| KNOWN.to_owned())
    }
}

fn shown(word: &str) -> String {
    if word.is_empty() { "its end".to_owned() } else { word.chars().take(40).flat_map(char::escape_default).collect() }
}

impl Filter {
    /// Reads a filter that may name hosts and services of a network; `None` if it is empty.
    ///
    /// # Errors
    /// As [`Filter::parse`].
    pub fn of(fabric: &Fabric, text: &str) -> Result<Option<Self>, FilterError> {
        let topology = &fabric.topology;
        let addresses = |name: &str| {
            if let Some(node) = topology.node(name) {
                let address = topology.address(node);
                return address.map_or_else(Vec::new, |address| vec![address.ipv4.into(), address.ipv6.into()]);
            }
            let service = fabric.services.iter().find(|service| service.name == name);
            service.map_or_else(Vec::new, |it| it.addresses.iter().map(datapath::VirtualAddress::ip).collect())
        };
        let with_names = |mut error: FilterError| {
            if error.what == NO_HOST {
                let services = || fabric.services.iter().map(|service| service.name.as_str());
                let hosts = fabric::host_hint(topology, &error.at);
                error.hint = Some(match fabric::nearest(&error.at, services()) {
                    Some(near) if !hosts.starts_with("did you mean") => format!("did you mean `{near}`?"),
                    _ => hosts,
                });
            }
            error
        };
        Self::parse(text, &addresses).map_err(with_names)
    }

    /// Reads a filter; `None` if it is empty, so that all frames pass. `addresses` knows the addresses of a name.
    ///
    /// # Errors
    /// Says which word is wrong, and what was expected there.
    pub fn parse(text: &str, addresses: &dyn Fn(&str) -> Vec<IpAddr>) -> Result<Option<Self>, FilterError> {
        if text.len() > LENGTH_MAX {
            let what = format!("it has {} bytes, expected {LENGTH_MAX} at most", text.len());
            return Err(FilterError { at: text.chars().take(8).collect(), what, hint: None });
        }
        let words = words(text);
        if words.is_empty() {
            return Ok(None);
        }
        let mut parser = Parser { words: &words, next: 0, depth: 0, last: None, addresses };
        let test = parser.expression()?;
        match parser.peek() {
            None => Ok(Some(Self(test))),
            Some(_) => Err(parser.error("expected `and` or `or` before it, or nothing")),
        }
    }

    /// Whether a frame is captured. What is malformed is of no protocol.
    pub fn matches(&self, frame: &[u8]) -> bool {
        self.0.matches(&FlowKey::parse(frame).unwrap_or_default(), frame)
    }
}

/// Names, numbers and addresses; parentheses, `!` and what compares are words of their own.
fn words(text: &str) -> Vec<&str> {
    let mut words = Vec::new();
    let mut rest = text.trim_start();
    while let Some(first) = rest.chars().next() {
        let end = match first {
            '&' | '|' if rest[1..].starts_with(first) => 2,
            '!' | '=' | '<' | '>' if rest[1..].starts_with('=') => 2,
            first if is_sign(first) => 1,
            _ => rest.find(|c: char| c.is_whitespace() || is_sign(c)).unwrap_or(rest.len()),
        };
        words.push(&rest[..end]);
        rest = rest[end..].trim_start();
    }
    words
}

const fn is_sign(c: char) -> bool {
    matches!(c, '(' | ')' | '!' | '&' | '|' | '=' | '<' | '>')
}

struct Parser<'a> {
    words: &'a [&'a str],
    next: usize,
    depth: usize,
    /// What the last value was: `port 80 or 443` says no more of the second one.
    last: Option<Qualifiers>,
    addresses: &'a dyn Fn(&str) -> Vec<IpAddr>,
}

/// The words before a value.
#[derive(Clone, Copy, Debug)]
struct Qualifiers {
    /// The one type of frame that is meant.
    ethertype: Option<u16>,
    /// The protocol whose ports or addresses are meant.
    protocol: Option<u8>,
    endpoint: Endpoint,
    kind: Kind,
}

/// What a value is.
#[derive(Clone, Copy, Debug)]
enum Kind {
    Host,
    Net,
    Port,
    PortRange,
}

impl<'a> Parser<'a> {
    fn peek(&self) -> Option<&'a str> {
        self.words.get(self.next).copied()
    }

    fn take(&mut self) -> Option<&'a str> {
        let word = self.peek()?;
        self.next += 1;
        Some(word)
    }

    fn take_if(&mut self, wanted: &[&str]) -> bool {
        let is_next = self.peek().is_some_and(|word| wanted.contains(&word));
        self.next += usize::from(is_next);
        is_next
    }

    /// The next word is wrong.
    fn error(&self, what: impl Into<String>) -> FilterError {
        FilterError { at: self.peek().unwrap_or_default().to_owned(), what: what.into(), hint: None }
    }

    /// The last word is.
    fn error_before(&mut self, what: impl Into<String>) -> FilterError {
        self.next -= 1;
        self.error(what)
    }

    fn expression(&mut self) -> Result<Test, FilterError> {
        let mut test = self.term()?;
        loop {
            if self.take_if(&["and", "&&"]) {
                test = Test::And(Box::new(test), Box::new(self.term()?));
            } else if self.take_if(&["or", "||"]) {
                test = Test::Or(Box::new(test), Box::new(self.term()?));
            } else {
                return Ok(test);
            }
        }
    }

    fn term(&mut self) -> Result<Test, FilterError> {
        self.depth += 1;
        if self.depth > DEPTH_MAX {
            return Err(self.error(format!("more than {DEPTH_MAX} parentheses and `not`s within each other")));
        }
        let test = if self.take_if(&["not", "!"]) {
            Test::Not(Box::new(self.term()?))
        } else if self.take_if(&["("]) {
            let inner = self.expression()?;
            if !self.take_if(&[")"]) {
                return Err(self.error("expected `)`"));
            }
            inner
        } else {
            self.primitive()?
        };
        self.depth -= 1;
        Ok(test)
    }

    fn primitive(&mut self) -> Result<Test, FilterError> {
        let qualified = match self.peek() {
            Some("arp") => Some(Test::EtherType(ethertype::ARP)),
            Some("ip") => Some(Test::EtherType(ethertype::IPV4)),
            Some("ip6") => Some(Test::EtherType(ethertype::IPV6)),
            Some("vlan") => Some(Test::Vlan),
            Some("icmp") => Some(Test::Protocol(protocol::ICMP, Some(ethertype::IPV4))),
            Some("icmp6") => Some(Test::Protocol(protocol::ICMPV6, Some(ethertype::IPV6))),
            Some("tcp") => Some(Test::Protocol(protocol::TCP, None)),
            Some("udp") => Some(Test::Protocol(protocol::UDP, None)),
            _ => None,
        };
        let Some(test) = qualified else {
            if self.take_if(&["greater"]) {
                return self.length().map(Test::Greater);
            }
            if self.take_if(&["less"]) {
                return self.length().map(Test::Less);
            }
            if self.peek().is_some_and(|word| word.contains('[')) {
                return self.flags();
            }
            if let Some(last) = self.last.filter(|last| self.is_value(last.kind)) {
                return self.value(last);
            }
            return self.about_an_end(None, None);
        };
        self.next += 1;
        // `tcp port 80`, `ip host 10.0.0.1`, `arp src host ..`.
        let goes_on =
            self.peek().is_some_and(|word| matches!(word, "src" | "dst" | "host" | "net" | "port" | "portrange"));
        if !goes_on {
            return Ok(test);
        }
        match test {
            Test::Protocol(number, None) => self.about_an_end(None, Some(number)),
            Test::EtherType(ethertype) => self.about_an_end(Some(ethertype), None),
            _ => Err(self.error("expected `and` or `or` before it, or nothing")),
        }
    }

    /// Whether a value stands next, and no word before it.
    fn is_value(&self, kind: Kind) -> bool {
        self.peek().is_some_and(|word| match kind {
            Kind::Host => word.parse::<IpAddr>().is_ok() || !(self.addresses)(word).is_empty(),
            Kind::Net | Kind::Port | Kind::PortRange => word.starts_with(|c: char| c.is_ascii_digit()),
        })
    }

    /// `[src|dst] host|net|port|portrange ..` of this type of frame, and of this protocol.
    fn about_an_end(&mut self, ethertype: Option<u16>, protocol: Option<u8>) -> Result<Test, FilterError> {
        let direction = if self.take_if(&["src"]) {
            if self.next_two_are("or", "dst") {
                Some(Endpoint::Either)
            } else if self.next_two_are("and", "dst") {
                Some(Endpoint::Both)
            } else {
                Some(Endpoint::Source)
            }
        } else {
            self.take_if(&["dst"]).then_some(Endpoint::Destination)
        };
        let endpoint = direction.unwrap_or(Endpoint::Either);
        let kind = match self.take() {
            Some("host") => Kind::Host,
            Some("net") => Kind::Net,
            Some("port") => Kind::Port,
            Some("portrange") => Kind::PortRange,
            // `src 10.0.0.1` means the host.
            Some(_) if direction.is_some() => {
                self.next -= 1;
                Kind::Host
            }
            None => return Err(self.error("expected a protocol, `host`, `net` or `port`")),
            Some(_) => return Err(self.error_before("it is no protocol, and none of `host`, `net`, `port`")),
        };
        self.value(Qualifiers { ethertype, protocol, endpoint, kind })
    }

    /// The value that these words stand before.
    fn value(&mut self, qualifiers: Qualifiers) -> Result<Test, FilterError> {
        let Qualifiers { ethertype, protocol, endpoint, kind } = qualifiers;
        let test = match kind {
            Kind::Host => self.host(endpoint),
            Kind::Net => self.net(endpoint),
            Kind::Port => self.port(endpoint, protocol),
            Kind::PortRange => self.port_range(endpoint, protocol),
        }?;
        self.last = Some(qualifiers);
        let of_protocol = protocol.filter(|_| matches!(test, Test::Net(..))).map(|number| Test::Protocol(number, None));
        let of = of_protocol.or_else(|| ethertype.map(Test::EtherType));
        Ok(match of {
            Some(of) => Test::And(Box::new(of), Box::new(test)),
            None => test,
        })
    }

    /// How many bytes a frame has.
    fn length(&mut self) -> Result<u32, FilterError> {
        const EXPECTED: &str = "expected how many bytes a frame has, as in `greater 1000`";
        match self.take().map(str::parse) {
            Some(Ok(bytes)) => Ok(bytes),
            Some(Err(_)) => Err(self.error_before(EXPECTED)),
            None => Err(self.error(EXPECTED)),
        }
    }

    /// `tcp[tcpflags] & tcp-syn != 0`.
    fn flags(&mut self) -> Result<Test, FilterError> {
        match FlagsTest::read(&self.words[self.next..]) {
            Ok((test, words)) => {
                self.next += words;
                Ok(Test::TcpFlags(test))
            }
            Err((words, what)) => {
                self.next += words;
                Err(self.error(what))
            }
        }
    }

    fn next_two_are(&mut self, first: &str, second: &str) -> bool {
        let are = self.words.get(self.next..self.next + 2).is_some_and(|words| words == [first, second]);
        self.next += if are { 2 } else { 0 };
        are
    }

    fn host(&mut self, end: Endpoint) -> Result<Test, FilterError> {
        let Some(word) = self.take() else { return Err(self.error("expected an address, or a host's name")) };
        let addresses = match word.parse::<IpAddr>() {
            Ok(address) => vec![address],
            Err(_) => (self.addresses)(word),
        };
        if addresses.is_empty() {
            return Err(self.error_before(NO_HOST));
        }
        Ok(Test::Net(end, addresses.into_iter().map(|address| (address, bits(address))).collect()))
    }

    fn net(&mut self, end: Endpoint) -> Result<Test, FilterError> {
        let parse = |word: &str| {
            let (net, length) = word.split_once('/').map_or((word, None), |(net, length)| (net, Some(length)));
            let (address, written) = net_address(net)?;
            // Without a length, the numbers that are there are the prefix, as in `net 10.0`.
            let length = length.map_or(Some(written), |length| length.parse::<u8>().ok())?;
            (length <= bits(address)).then_some((address, length))
        };
        match self.take().map(|word| (word, parse(word))) {
            Some((word, Some((address, length)))) if length == bits(address) && !word.contains('/') => {
                Err(self.error_before(format!("without a length it is one address, `host {address}`; expected the length of a prefix, as in {address}/24")))
            }
            Some((_, Some(net))) => Ok(Test::Net(end, vec![net])),
            Some((_, None)) => Err(self.error_before("expected an address and the length of its prefix, as in 10.0.1.0/24")),
            None => Err(self.error("expected an address and the length of its prefix, as in 10.0.1.0/24")),
        }
    }

    fn port(&mut self, end: Endpoint, of: Option<u8>) -> Result<Test, FilterError> {
        match self.take().map(str::parse::<u16>) {
            Some(Ok(port)) => Ok(Test::Port(end, port, port, of)),
            Some(Err(_)) => Err(self.error_before("expected a port's number, 0 to 65535")),
            None => Err(self.error("expected a port's number, 0 to 65535")),
        }
    }

    fn port_range(&mut self, end: Endpoint, of: Option<u8>) -> Result<Test, FilterError> {
        let parse = |word: &str| {
            let (first, last) = word.split_once('-')?;
            Some((first.parse::<u16>().ok()?, last.parse::<u16>().ok()?))
        };
        match self.take().map(parse) {
            Some(Some((first, last))) => Ok(Test::Port(end, first.min(last), first.max(last), of)),
            Some(None) => Err(self.error_before("expected two ports, as in 5000-5010")),
            None => Err(self.error("expected two ports, as in 5000-5010")),
        }
    }
}

/// The address of a net, of which the last numbers may be left out if it is of IPv4, and how many bits are there.
fn net_address(text: &str) -> Option<(IpAddr, u8)> {
    if let Ok(address) = text.parse::<IpAddr>() {
        return Some((address, bits(address)));
    }
    let numbers = text.split('.').map(|number| number.parse::<u8>().ok()).collect::<Option<Vec<u8>>>()?;
    let mut octets = [0; 4];
    octets.get_mut(..numbers.len())?.copy_from_slice(&numbers);
    Some((IpAddr::from(octets), 8 * numbers.len() as u8))
}

impl Endpoint {
    fn matches<T>(self, source: T, destination: T, is_meant: impl Fn(T) -> bool) -> bool {
        match self {
            Self::Source => is_meant(source),
            Self::Destination => is_meant(destination),
            Self::Either => is_meant(source) || is_meant(destination),
            Self::Both => is_meant(source) && is_meant(destination),
        }
    }
}

impl Test {
    fn matches(&self, key: &FlowKey, frame: &[u8]) -> bool {
        let is_ip = matches!(key.ethertype, ethertype::IPV4 | ethertype::IPV6);
        match self {
            Self::EtherType(ethertype) => key.ethertype == *ethertype,
            Self::Vlan => key.vlan.is_some(),
            Self::Protocol(number, version) => {
                is_ip && key.protocol == *number && version.is_none_or(|version| key.ethertype == version)
            }
            Self::Net(end, nets) => end.matches(key.src, key.dst, |address| {
                nets.iter().any(|(net, length)| is_in(address, key.ethertype, *net, *length))
            }),
            Self::Port(end, first, last, of) => {
                is_ip
                    && matches!(key.protocol, protocol::TCP | protocol::UDP)
                    && of.is_none_or(|of| key.protocol == of)
                    // Fragments have no ports that could be read; nothing real has 0 twice.
                    && (key.src_port, key.dst_port) != (0, 0)
                    && end.matches(key.src_port, key.dst_port, |port| (*first..=*last).contains(&port))
            }
            Self::Greater(bytes) => frame.len() >= *bytes as usize,
            Self::Less(bytes) => frame.len() <= *bytes as usize,
            Self::TcpFlags(test) => is_ip && key.protocol == protocol::TCP && test.matches(frame),
            Self::Not(test) => !test.matches(key, frame),
            Self::And(a, b) => a.matches(key, frame) && b.matches(key, frame),
            Self::Or(a, b) => a.matches(key, frame) || b.matches(key, frame),
        }
    }
}

/// Whether an address of a frame of this type lies in a net. An IPv4 address stands in the low 32 bits.
fn is_in(address: u128, of: u16, net: IpAddr, length: u8) -> bool {
    let (is_same_kind, net) = match net {
        IpAddr::V4(net) => (matches!(of, ethertype::IPV4 | ethertype::ARP), u128::from(net.to_bits())),
        IpAddr::V6(net_bits) => (of == ethertype::IPV6, net_bits.to_bits()),
    };
    let rest = u32::from(bits_of(of) - length.min(bits_of(of)));
    is_same_kind && (address ^ net).checked_shr(rest).unwrap_or(0) == 0
}

const fn bits(address: IpAddr) -> u8 {
    if address.is_ipv4() { 32 } else { 128 }
}

const fn bits_of(of: u16) -> u8 {
    if of == ethertype::IPV6 { 128 } else { 32 }
}

impl fmt::Display for Filter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Display for Test {
    /// As pcap-filter(7) has it, with all parentheses.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = |number: u8| if number == protocol::TCP { "tcp" } else { "udp" };
        match self {
            Self::EtherType(ethertype::ARP) => f.write_str("arp"),
            Self::EtherType(ethertype::IPV4) => f.write_str("ip"),
            Self::EtherType(_) => f.write_str("ip6"),
            Self::Vlan => f.write_str("vlan"),
            Self::Protocol(protocol::ICMP, _) => f.write_str("icmp"),
            Self::Protocol(protocol::ICMPV6, _) => f.write_str("icmp6"),
            Self::Protocol(number, _) => f.write_str(name(*number)),
            Self::Net(end, nets) => {
                let nets: Vec<String> = nets.iter().map(|(net, length)| format!("{end}net {net}/{length}")).collect();
                write!(f, "({})", nets.join(" or "))
            }
            Self::Port(end, first, last, of) => {
                let of = of.map_or(String::new(), |of| format!("{} ", name(of)));
                write!(f, "{of}{end}portrange {first}-{last}")
            }
            Self::Greater(bytes) => write!(f, "greater {bytes}"),
            Self::Less(bytes) => write!(f, "less {bytes}"),
            Self::TcpFlags(test) => test.fmt(f),
            Self::Not(test) => write!(f, "not ({test})"),
            Self::And(a, b) => write!(f, "({a} and {b})"),
            Self::Or(a, b) => write!(f, "({a} or {b})"),
        }
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Source => "src ",
            Self::Destination => "dst ",
            Self::Either => "",
            Self::Both => "src and dst ",
        })
    }
}

#[cfg(test)]
mod tests;
