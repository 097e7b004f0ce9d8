//! Filters: the part of pcap-filter(7) that names protocols, addresses and ports.
//!
//! As there, `and` and `or` are of equal rank and are taken from left to right, and `not` binds more tightly than both.

use std::fmt;
use std::net::IpAddr;

use topology::Topology;
use vswitch::FlowKey;
use wire::{ethertype, protocol};

/// Nested parentheses and `not`s; more are nobody's question.
const DEPTH_MAX: usize = 32;

/// Bytes of a filter.
const LENGTH_MAX: usize = 4_096;

/// What can be said, for hints.
const KNOWN: &str = "a filter is made of `arp`, `ip`, `ip6`, `icmp`, `icmp6`, `tcp`, `udp`, `vlan`, `host A`, `net A/LENGTH`, `port N`, `portrange N-M`, \
                     with `src` or `dst` before the last four, joined by `and`, `or`, `not` and parentheses; what else pcap-filter(7) has, `tshark -Y` or \
                     `tcpdump -r FILE` can do with what was captured";

/// What is expected where a host is named.
const NO_HOST: &str = "expected an address, or the name of a host of this network";

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
    /// Reads a filter that may name hosts of a network; `None` if it is empty.
    ///
    /// # Errors
    /// As [`Filter::parse`].
    pub fn of(topology: &Topology, text: &str) -> Result<Option<Self>, FilterError> {
        let addresses = |name: &str| {
            let address = topology.node(name).and_then(|node| topology.address(node));
            address.map_or_else(Vec::new, |address| vec![address.ipv4.into(), address.ipv6.into()])
        };
        let with_names = |mut error: FilterError| {
            if error.what == NO_HOST {
                error.hint = Some(fabric::host_hint(topology, &error.at));
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
        self.0.matches(&FlowKey::parse(frame).unwrap_or_default())
    }
}

/// Names, numbers and addresses; parentheses and `!` are words of their own.
fn words(text: &str) -> Vec<&str> {
    let mut words = Vec::new();
    let mut rest = text.trim_start();
    while let Some(first) = rest.chars().next() {
        let end = match first {
            '&' | '|' if rest[1..].starts_with(first) => 2,
            '(' | ')' | '!' | '&' | '|' => 1,
            _ => {
                rest.find(|c: char| c.is_whitespace() || matches!(c, '(' | ')' | '!' | '&' | '|')).unwrap_or(rest.len())
            }
        };
        words.push(&rest[..end]);
        rest = rest[end..].trim_start();
    }
    words
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
    fn matches(&self, key: &FlowKey) -> bool {
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
            Self::Not(test) => !test.matches(key),
            Self::And(a, b) => a.matches(key) && b.matches(key),
            Self::Or(a, b) => a.matches(key) || b.matches(key),
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
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Option<Filter>, FilterError> {
        let of_name = |name: &str| match name {
            "h2" => vec!["10.0.0.2".parse().unwrap(), "fd00::2".parse().unwrap()],
            _ => Vec::new(),
        };
        Filter::parse(text, &of_name)
    }

    /// A frame of IPv4 with these last bytes of addresses, protocol and ports.
    fn ipv4(ends: [u8; 2], protocol: u8, ports: [u16; 2]) -> Vec<u8> {
        let mut frame = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 8, 0];
        frame.extend([0x45, 0, 0, 40, 0, 0, 0, 0, 64, protocol, 0, 0, 10, 0, 0, ends[0], 10, 0, 0, ends[1]]);
        frame.extend(ports.iter().flat_map(|port| port.to_be_bytes()));
        frame.extend([0; 16]);
        frame
    }

    fn arp() -> Vec<u8> {
        let mut frame = vec![0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 2, 0, 0, 0, 0, 1, 8, 6];
        frame.extend([0, 1, 8, 0, 6, 4, 0, 1, 2, 0, 0, 0, 0, 1, 10, 0, 0, 1, 0, 0, 0, 0, 0, 0, 10, 0, 0, 2]);
        frame
    }

    fn ipv6() -> Vec<u8> {
        let mut frame = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 0x86, 0xdd, 0x60, 0, 0, 0, 0, 20, 6, 64];
        let mut address = [0; 16];
        address[..2].copy_from_slice(&[0xfd, 0]);
        for last in [1, 2] {
            address[15] = last;
            frame.extend(address);
        }
        frame.extend([0, 80, 0x9c, 0x40]);
        frame.extend([0; 16]);
        frame
    }

    #[test]
    fn filters_choose_as_tcpdump_does() {
        let frames =
            [ipv4([1, 2], 6, [40_000, 80]), ipv4([2, 1], 17, [53, 5_000]), ipv4([1, 3], 1, [8, 0]), arp(), ipv6()];
        for (text, expected) in [
            ("tcp", [true, false, false, false, true]),
            ("udp", [false, true, false, false, false]),
            ("icmp", [false, false, true, false, false]),
            ("arp", [false, false, false, true, false]),
            ("ip", [true, true, true, false, false]),
            ("ip6", [false, false, false, false, true]),
            ("port 80", [true, false, false, false, true]),
            ("src port 80", [false, false, false, false, true]),
            ("tcp dst port 80", [true, false, false, false, false]),
            ("udp port 80", [false; 5]),
            ("portrange 5000-5010 or port 53", [false, true, false, false, false]),
            ("host 10.0.0.2", [true, true, false, true, false]),
            ("host h2", [true, true, false, true, true]),
            ("src h2", [false, true, false, false, false]),
            ("dst host h2 and not arp", [true, false, false, false, true]),
            ("src or dst host 10.0.0.3", [false, false, true, false, false]),
            ("src and dst net 10.0.0.0/30", [true, true, true, true, false]),
            ("net 10.0.0.2/31", [true, true, true, true, false]),
            ("net fd00::/64", [false, false, false, false, true]),
            ("net 0.0.0.0/0", [true, true, true, true, false]),
            ("ip host 10.0.0.2 && ! udp", [true, false, false, false, false]),
            // Of equal rank, from the left.
            ("arp or tcp and ip6", [false, false, false, false, true]),
            ("arp or (tcp and ip6)", [false, false, false, true, true]),
            ("not(tcp or udp)", [false, false, true, true, false]),
            ("tcp host 10.0.0.2", [true, false, false, false, false]),
            ("icmp6 || vlan", [false; 5]),
            // Words that are left out are those of the value before.
            ("port 80 or 53", [true, true, false, false, true]),
            ("tcp dst port 80 or 5000", [true, false, false, false, false]),
            ("ip host 10.0.0.3 or h2", [true, true, true, false, false]),
            ("src host h2 or not h2", [true; 5]),
            ("net 10.0/16 and port 80", [true, false, false, false, false]),
            ("net 10", [true, true, true, true, false]),
        ] {
            let filter = parse(text).unwrap_or_else(|error| panic!("{text}: {error}")).unwrap();
            assert_eq!(frames.each_ref().map(|frame| filter.matches(frame)), expected, "{text}");
            let again = parse(&filter.to_string()).unwrap_or_else(|error| panic!("{filter}: {error}")).unwrap();
            assert_eq!(frames.each_ref().map(|frame| again.matches(frame)), expected, "{text}, as {filter}");
        }
        assert_eq!(parse("  "), Ok(None));
        assert!(!parse("ip").unwrap().unwrap().matches(&[1, 2, 3]));
    }

    #[test]
    fn hosts_that_are_near_are_named() {
        let text = "nodes: { h1: host, h2: host, s1: switch }\nlinks: [{ between: [h1, s1] }, { between: [h2, s1] }]\n";
        let source = fabric::Source { name: "x".to_owned(), text: text.to_owned() };
        let topology = fabric::parse(&source).unwrap().topology;
        let hint = |text: &str| Filter::of(&topology, text).unwrap_err().hint();
        assert_eq!(hint("host zzz"), "the hosts are `h1` to `h2`");
        assert_eq!(hint("icmp and host h3"), "did you mean `h1`?");
        assert!(hint("host h1 and greater 100").contains("pcap-filter(7)"));
    }

    #[test]
    fn fragments_have_no_ports() {
        let mut fragment = ipv4([1, 2], 17, [5_555, 5_556]);
        fragment[20] = 0x20;
        for (text, is_there) in [("udp port 0", false), ("udp portrange 0-1023", false), ("udp", true)] {
            let filter = Filter::parse(text, &|_| Vec::new()).unwrap().unwrap();
            assert_eq!(filter.matches(&fragment), is_there, "{text}");
        }
    }

    #[test]
    fn what_is_not_understood_is_named() {
        for (text, at, what) in [
            ("tcp[13] & 2 != 0", "tcp[13]", "no protocol"),
            ("greater 100", "greater", "no protocol"),
            ("tcp port http", "http", "number"),
            ("host h9", "h9", "host of this network"),
            ("tcp and", "", "expected a protocol"),
            ("(tcp", "", "`)`"),
            ("tcp)", ")", "nothing"),
            ("tcp udp", "udp", "`and`"),
            ("icmp port 5", "port", "`and`"),
            ("net 10.0.0.0/33", "10.0.0.0/33", "prefix"),
            ("port 65536", "65536", "65535"),
            ("portrange 7", "7", "two ports"),
            ("net 10.0.0.0", "10.0.0.0", "one address, `host 10.0.0.0`"),
            ("net 10.0.0.0.0/8", "10.0.0.0.0/8", "prefix"),
            ("port 80 or http", "http", "no protocol"),
            ("80 or port 443", "80", "no protocol"),
            ("tcp & udp", "&", "`and`"),
            ("src", "", "expected"),
        ] {
            let error = parse(text).unwrap_err();
            assert!(error.at == at && error.what.contains(what), "{text}: {error:?}");
            assert!(error.hint().contains("pcap-filter(7)"));
        }
        assert!(parse(&"not ".repeat(1_000)).unwrap_err().what.contains("within each other"));
        assert!(parse(&"(".repeat(4_000)).unwrap_err().what.contains("within each other"));
        assert!(parse(&"x".repeat(5_000)).unwrap_err().what.contains("4096"));
        assert!(!parse("x\u{1b}[31m").unwrap_err().to_string().contains('\u{1b}'));
    }
}
