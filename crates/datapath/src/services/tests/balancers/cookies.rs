//! SYN cookies of balancers at hosts: whoever goes on with a connection that began with one has its numbers.

use proptest::prelude::*;
use vswitch::Field;
use wire::{Coverage, EthernetPacket, Ipv4Packet, Pseudo, TcpPacket, checksum};

use super::super::super::syn_cookies::MadeUp;
use super::*;

/// A connection that began with a cookie.
#[derive(Clone, Copy, Debug)]
struct Begun {
    client: Endpoint,
    /// Where its server sees the client.
    seen: Endpoint,
    /// The client's first number, that of its server, and that which the client sees in its place.
    first: u32,
    server: u32,
    cookie: u32,
}

/// A frame as it goes on: from where, to where, and with which numbers. Its checksums are right.
fn passed(mut frame: Vec<u8>, fields: &[Field]) -> (Endpoint, Endpoint, u32, u32) {
    for field in fields {
        field.write(&mut frame, Coverage::Complete).expect("it has the field");
    }
    let ethernet = EthernetPacket::new_checked(&frame).expect("it is a frame");
    let ip = Ipv4Packet::new_checked(ethernet.payload()).expect("it is a packet");
    let tcp = TcpPacket::new_checked(ip.payload()).expect("it is a segment");
    assert!(ip.is_checksum_right());
    let pseudo = Pseudo::V4 { src: ip.src(), dst: ip.dst(), protocol: protocol::TCP };
    assert_eq!(checksum::transport(&pseudo, ip.payload()), 0);
    (Endpoint(ip.src(), tcp.src_port()), Endpoint(ip.dst(), tcp.dst_port()), tcp.seq(), tcp.ack())
}

impl Pair {
    /// All connections begin with cookies.
    fn of_cookies() -> Self {
        Self::with(|service| service.half_open_max = 0)
    }

    /// What a first segment is answered with.
    fn cookie(&mut self, at: usize, client: Endpoint, first: u32) -> u32 {
        let (decision, _) = self.send(at, client, SYN, (first, 0));
        let Decision::Answer(MadeUp { seq, ack, .. }) = decision else { panic!("{decision:?}") };
        assert_eq!(ack, first.wrapping_add(1));
        seq
    }

    /// A client answers a cookie; where the server is to see it.
    fn connect(&mut self, at: usize, client: Endpoint, (first, cookie): (u32, u32)) -> Endpoint {
        let (decision, fields) = self.send(at, client, ACK, (first.wrapping_add(1), cookie.wrapping_add(1)));
        let Decision::Connect(to, made) = decision else { panic!("{decision:?}") };
        assert_eq!((to, made.flags, made.seq), (host(1), SYN, first));
        let port = fields.iter().find_map(|it| if let Field::SrcPort(port) = it { Some(*port) } else { None });
        Endpoint(VIRTUAL, port.unwrap_or(client.1))
    }

    /// The server answers a connection; both ends hear of each other.
    fn join(&mut self, at: usize, begun: &Begun) {
        let Begun { seen, first, server, cookie, .. } = *begun;
        let (client, decision, fields) = self.decide_answer(at, seen, SYN | ACK, (server, first.wrapping_add(1)));
        let Decision::Join(third, update) = decision else { panic!("{decision:?}") };
        assert_eq!((client, third.flags, update.flags), (Some(host(0)), ACK, ACK));
        assert_eq!((third.seq, third.ack), (first.wrapping_add(1), server.wrapping_add(1)));
        assert_eq!((update.seq, update.ack), (cookie.wrapping_add(1), first.wrapping_add(1)));
        assert!(fields.contains(&Field::SrcPort(80)), "{fields:?}");
    }

    fn begin(&mut self, at: usize, port: u16, (first, server): (u32, u32)) -> Begun {
        let client = self.bed.client(port);
        let cookie = self.cookie(at, client, first);
        let seen = self.connect(at, client, (first, cookie));
        let begun = Begun { client, seen, first, server, cookie };
        self.join(at, &begun);
        begun
    }

    /// So many bytes after the first one of each end, both directions pass at a balancer, with the numbers that their receivers know.
    fn carry(&mut self, at: usize, begun: &Begun, (up, down): (u32, u32)) {
        let Begun { client, seen, first, server, cookie } = *begun;
        let [up, server, cookie] =
            [(first, up), (server, down), (cookie, down)].map(|(first, more)| first.wrapping_add(1).wrapping_add(more));
        let (decision, fields) = self.send(at, client, PSH | ACK, (up, cookie));
        assert_eq!(decision, Decision::To(host(1)));
        let sent = frame(client, Endpoint(VIRTUAL, 80), PSH | ACK, (up, cookie));
        let own = Endpoint(self.bed.address(1), SERVER_PORT);
        assert_eq!(passed(sent, &fields), (seen, own, up, server));
        let (to, decision, fields) = self.decide_answer(at, seen, PSH | ACK, (server, up));
        assert_eq!((to, decision), (Some(host(0)), Decision::Translated));
        let sent = frame(own, seen, PSH | ACK, (server, up));
        assert_eq!(passed(sent, &fields), (Endpoint(VIRTUAL, 80), client, cookie, up));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Whichever balancer a connection comes to, that one which began it is gone or back or stands anew: numbers and checksums are right, and it ends.
    #[test]
    fn numbers_are_right_at_whoever_takes_over(first: u32, apart: u32, is_near: bool, up in 0..1_u32 << 30, down in 0..1_u32 << 30) {
        let mut pair = Pair::of_cookies();
        let client = pair.bed.client(4_000);
        let cookie = pair.cookie(0, client, first);
        let seen = pair.connect(0, client, (first, cookie));
        // Numbers that are near those of the cookie may be taken for those of one connection.
        let server = cookie.wrapping_add(if is_near { apart % (1 << 21) } else { apart });
        let begun = Begun { client, seen, first, server, cookie };
        pair.join(0, &begun);
        pair.carry(0, &begun, (0, 0));
        pair.run(Span::from_ms(5));
        prop_assert_eq!(pair.connections(), [1, 1]);
        pair.balancers[0].set_carrier(pair.bed.now, false);
        pair.is_cut = true;
        pair.carry(1, &begun, (up, down));
        // The server has not heard that its client has.
        pair.join(1, &begun);
        pair.is_cut = false;
        pair.balancers[0].set_carrier(pair.bed.now, true);
        pair.run_until(|pair| pair.balancers[0].is_usable());
        pair.carry(0, &begun, (up, down));
        pair.replace(0);
        pair.run_until(|pair| pair.balancers[0].is_usable());
        pair.carry(0, &begun, (up, down));
        prop_assert_eq!((pair.active(0), pair.active(1)), (1, 1));
        let [first, server, cookie] = [(first, up), (server, down), (cookie, down)].map(|(begin, more)| begin.wrapping_add(more));
        pair.send(0, client, FIN | ACK, (first.wrapping_add(1), cookie.wrapping_add(1)));
        pair.decide_answer(0, seen, FIN | ACK, (server.wrapping_add(1), first.wrapping_add(2)));
        pair.send(0, client, ACK, (first.wrapping_add(2), cookie.wrapping_add(2)));
        pair.run(Span::from_ms(20));
        prop_assert_eq!((pair.active(0), pair.active(1)), (0, 0));
    }
}

/// Peers hear of a connection that began with a cookie when both of its ends are about to hear of each other, and not before: what they would take over has no numbers.
#[test]
fn peers_hear_of_a_connection_with_its_numbers() {
    let mut pair = Pair::of_cookies();
    let client = pair.bed.client(4_000);
    let cookie = pair.cookie(0, client, 1_000);
    let seen = pair.connect(0, client, (1_000, cookie));
    assert!(!pair.balancers[0].state_mut().take_opened());
    pair.run(Span::from_ms(20));
    assert_eq!(pair.connections(), [1, 0]);
    let begun = Begun { client, seen, first: 1_000, server: 5_000, cookie };
    pair.join(0, &begun);
    assert!(pair.balancers[0].state_mut().take_opened());
    let now = pair.bed.now;
    pair.balancers[0].note_opened(now);
    let mut out = Vec::new();
    pair.balancers[0].advance(now, &mut out);
    let Some(Outgoing::Sync(_, first)) = out.first() else { panic!("{out:?}") };
    pair.balancers[1].hear_sync(now, AT[0], &pair.bed.host_table, first);
    pair.carry(1, &begun, (0, 0));
    // The same answer once more begins nothing.
    pair.join(0, &begun);
    assert!(!pair.balancers[0].state_mut().take_opened());
}

/// The handshake is not complete when its balancer is gone: the other one takes the cookie, however its client comes to show it.
#[test]
fn a_cookie_is_good_at_the_other_balancer() {
    let mut pair = Pair::of_cookies();
    for (port, seq) in [(4_000, 1_001), (4_001, 1_000)] {
        let client = pair.bed.client(port);
        let cookie = pair.cookie(0, client, 1_000);
        let lost = pair.connect(0, client, (1_000, cookie));
        pair.run(Span::from_ms(20));
        // What the server answers belongs to nothing.
        assert_eq!(pair.decide_answer(1, lost, SYN | ACK, (9_000, 1_001)).0, None);
        // As a client does that has data, and whose peer has announced no window.
        let (decision, fields) = pair.send(1, client, ACK, (seq, cookie.wrapping_add(1)));
        let Decision::Connect(to, made) = decision else { panic!("{decision:?}") };
        assert_eq!((to, made.seq), (host(1), 1_000));
        let port = fields.iter().find_map(|it| if let Field::SrcPort(port) = it { Some(*port) } else { None });
        let seen = Endpoint(VIRTUAL, port.expect("it is a port of its own"));
        assert_ne!(seen, lost);
        let begun = Begun { client, seen, first: 1_000, server: 5_000, cookie };
        pair.join(1, &begun);
        pair.carry(1, &begun, (7, 8));
        // Nobody else has it.
        let other = pair.bed.client(4_002);
        assert_eq!(pair.send(1, other, ACK, (seq, cookie.wrapping_add(1))).0, Decision::Refuse);
    }
}

/// Resets with made-up numbers end nothing, neither where a connection began nor at whoever has it from there.
#[test]
fn made_up_resets_end_nothing_at_either_balancer() {
    let mut pair = Pair::of_cookies();
    let begun = pair.begin(0, 4_000, (1_000, 5_000_000));
    pair.run(Span::from_ms(5));
    for at in [1, 0, 1] {
        // The other one may have had segments since: what both ends send next says where they stand.
        pair.replace(1 - at);
        pair.run_until(|pair| pair.balancers.iter().all(Balancer::is_usable));
        for made_up in [7, begun.cookie.wrapping_add(1), 5_000_001] {
            // Nor is what is made up in the name of one end enough.
            pair.send(at, begun.client, ACK, (made_up, 12_345));
            pair.send(at, begun.client, RST, (made_up, 0));
        }
        for made_up in [7, begun.cookie.wrapping_add(1), 1_001] {
            pair.decide_answer(at, begun.seen, RST, (made_up, 0));
        }
        pair.run(Span::from_ms(20));
        assert_eq!((pair.active(0), pair.active(1)), (1, 1));
        pair.carry(at, &begun, (0, 0));
    }
    pair.decide_answer(1, begun.seen, RST, (5_000_001, 0));
    pair.run(Span::from_ms(20));
    assert_eq!((pair.active(0), pair.active(1)), (0, 0));
}

/// The same client opens another connection from the same port when the first one has ended: it has other numbers, at both.
#[test]
fn another_connection_has_other_numbers() {
    let mut pair = Pair::of_cookies();
    let old = pair.begin(0, 4_000, (1_000, 5_000));
    pair.run(Span::from_ms(5));
    pair.send(0, old.client, RST, (1_001, 0));
    pair.run(Span::from_ms(5));
    assert_eq!((pair.active(0), pair.active(1)), (0, 0));
    let new = pair.begin(0, 4_000, (70_000, 900_000));
    assert_eq!(new.seen, old.seen);
    pair.run(Span::from_ms(5));
    pair.carry(1, &new, (3, 4));
}

/// Connections that are being opened at any balancer count: beyond the limit all of them answer with cookies, keep nothing, and say nothing.
#[test]
fn a_flood_is_answered_by_all_balancers() {
    let mut pair = Pair::with(|service| service.half_open_max = 16);
    let open = pair.open(1, 3_000);
    let mut forged = (0..).map(|number| Endpoint(Ipv4Addr::from_bits(0x0a63_0000 + number), 4_000));
    for (number, client) in forged.by_ref().take(16).enumerate() {
        assert_eq!(pair.send(number % 2, client, SYN, (1_000, 0)).0, Decision::To(host(1)));
    }
    pair.run(Span::from_ms(20));
    let before = (pair.connections(), pair.messages);
    assert_eq!(before.0, [17, 17]);
    for (number, client) in forged.take(10_000).enumerate() {
        pair.cookie(number % 2, client, 1_000);
    }
    pair.run(Span::from_ms(1));
    assert!(pair.connections() == before.0 && pair.messages - before.1 <= 2);
    let begun = pair.begin(0, 5_000, (1_000, 5_000));
    pair.run(Span::from_ms(20));
    pair.carry(1, &begun, (0, 0));
    assert_eq!(pair.send(0, open.0, PSH | ACK, (1_001, 5_001)).0, Decision::To(host(1)));
}
