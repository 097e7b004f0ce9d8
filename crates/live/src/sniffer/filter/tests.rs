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
    let frames = [ipv4([1, 2], 6, [40_000, 80]), ipv4([2, 1], 17, [53, 5_000]), ipv4([1, 3], 1, [8, 0]), arp(), ipv6()];
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
    let text = "nodes: { h1: host, h2: host, s1: switch }\nlinks: [{ between: [h1, s1] }, { between: [h2, s1] }]\nservices: { web: { address: '10.1.0.80:80', servers: [h2] } }\n";
    let source = fabric::Source { name: "x".to_owned(), text: text.to_owned() };
    let fabric = fabric::parse(&source).unwrap();
    let hint = |text: &str| Filter::of(&fabric, text).unwrap_err().hint();
    assert_eq!(hint("host zzz"), "the hosts are `h1` to `h2`");
    assert_eq!(hint("icmp and host h3"), "did you mean `h1`?");
    assert!(hint("host h1 and broadcast").contains("pcap-filter(7)"));
    assert_eq!(hint("host wep"), "did you mean `web`?");
    let to_service = Filter::of(&fabric, "host web").unwrap().unwrap();
    assert_eq!(to_service.to_string(), "(net 10.1.0.80/32)");
}

#[test]
fn flags_and_lengths_choose_as_tcpdump_does() {
    let segment = |flags: u8| {
        let mut frame = ipv4([1, 2], 6, [40_000, 80]);
        frame.resize(14 + 20 + 20, 0);
        frame[16..18].copy_from_slice(&40_u16.to_be_bytes());
        frame[14 + 20 + 12] = 0x50;
        frame[14 + 20 + 13] = flags;
        frame
    };
    let mut over_ipv6 = ipv6();
    over_ipv6[14 + 40 + 12] = 0x50;
    over_ipv6[14 + 40 + 13] = 2;
    let (syn, syn_ack, ack, fin) = (segment(2), segment(0x12), segment(0x10), segment(0x11));
    let frames = [syn, syn_ack, ack, fin, over_ipv6, arp()];
    for (text, expected) in [
        ("tcp[13] & 2 != 0", [true, true, false, false, true, false]),
        ("tcp[13]&2!=0", [true, true, false, false, true, false]),
        ("tcp[tcpflags] & (tcp-syn|tcp-fin) != 0", [true, true, false, true, true, false]),
        ("tcp[tcpflags] == tcp-syn", [true, false, false, false, true, false]),
        ("tcp[tcpflags] = tcp-syn|tcp-ack", [false, true, false, false, false, false]),
        ("tcp[tcpflags] & (tcp-syn|tcp-ack) == (tcp-syn|tcp-ack)", [false, true, false, false, false, false]),
        ("tcp[13:1] == 0x12 or arp", [false, true, false, false, false, true]),
        ("port 80 and not tcp[tcpflags] & tcp-ack != 0", [true, false, false, false, true, false]),
        ("(tcp[13] >= 17)", [false, true, false, true, false, false]),
        ("tcp[13] < 0x10 and ip", [true, false, false, false, false, false]),
        ("greater 74", [false, false, false, false, true, false]),
        ("less 53", [false, false, false, false, false, true]),
        ("greater 54 and less 54", [true, true, true, true, false, false]),
    ] {
        let filter = parse(text).unwrap_or_else(|error| panic!("{text}: {error}")).unwrap();
        assert_eq!(frames.each_ref().map(|frame| filter.matches(frame)), expected, "{text}");
        let again = parse(&filter.to_string()).unwrap_or_else(|error| panic!("{filter}: {error}")).unwrap();
        assert_eq!(frames.each_ref().map(|frame| again.matches(frame)), expected, "{text}, as {filter}");
    }
    // A header that is cut off has no flags.
    assert!(!parse("tcp[13] >= 0").unwrap().unwrap().matches(&frames[0][..40]));
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
        ("tcp[12] & 2 != 0", "tcp[12]", "only TCP's flags"),
        ("ip[8] < 5", "ip[8]", "only TCP's flags"),
        ("tcp[13] & 2", "", "expected `=`"),
        ("tcp[tcpflags] & tcp-syn|tcp-ack != 0", "|", "expected `=`"),
        ("tcp[tcpflags] == tcp-sin", "tcp-sin", "expected flags"),
        ("tcp[tcpflags] & (tcp-syn != 0", "!=", "`|` or `)`"),
        ("tcp[13] = 256", "256", "up to 255"),
        ("greater h1", "h1", "how many bytes"),
        ("less", "", "how many bytes"),
        ("tcp port http", "http", "number"),
        ("host h9", "h9", "a host or a service of this network"),
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
