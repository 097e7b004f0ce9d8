//! Which connections are handed to whoever carries them, and when they come back.

use vswitch::conntrack::TcpState;
use wire::UdpRepr;
use wire::tcp_flags::FIN;

use super::*;

const CLIENT_PORT: u16 = 4_000;

/// A service that wants its connections carried, with an open one that has asked once and was answered.
fn answered(kernel: KernelUse) -> (Bed, Endpoint) {
    let mut bed = Bed::with(1, &[80], |service| service.kernel = kernel);
    bed.state.set_offload(true);
    let client = bed.client(CLIENT_PORT);
    bed.send(client, 80, SYN, 1_000, 0);
    bed.answer(1, client, SYN | ACK, (5_000, 1_001));
    bed.send(client, 80, ACK, 1_001, 5_001);
    bed.send(client, 80, PSH | ACK, 1_001, 5_001);
    bed.answer(1, client, PSH | ACK, (5_001, 1_001));
    assert_eq!(bed.state.take_candidate(), None, "one question is not worth it");
    (bed, client)
}

/// One that has asked again, and whose questions are carried.
fn carried() -> (Bed, Endpoint, (u32, bool)) {
    let (mut bed, client) = answered(KernelUse::Auto);
    bed.send(client, 80, PSH | ACK, 1_101, 5_101);
    let questions = bed.state.take_candidate().expect("it asks again");
    bed.state.note_offloaded(bed.now, questions, true);
    (bed, client, questions)
}

#[test]
fn a_connection_that_asks_again_is_carried_until_it_ends() {
    let (mut bed, client) = answered(KernelUse::Auto);
    assert_eq!(bed.send(client, 80, PSH | ACK, 1_001, 5_001).0, Decision::To(host(1)));
    let candidate = bed.state.take_candidate().expect("it asks again");
    assert!(!candidate.1);
    // Another host may make up its packets: they are not what is carried.
    assert_eq!([0, 1, 2].map(|number| bed.state.is_sender(candidate, host(number))), [true, false, false]);
    bed.state.note_offloaded(bed.now, candidate, true);
    bed.send(client, 80, PSH | ACK, 1_001, 5_001);
    assert_eq!(bed.state.take_candidate(), None, "it is carried already");
    bed.answer(1, client, PSH | ACK, (5_001, 1_001));
    let answers = bed.state.take_candidate().expect("the other direction follows");
    assert_eq!(answers, (candidate.0, true));
    assert_eq!([0, 1, 2].map(|number| bed.state.is_sender(answers, host(number))), [false, true, false]);
    bed.state.note_offloaded(bed.now, answers, true);
    assert_eq!((bed.state.take_withdrawn(), bed.counts(0)), (None, (1, 0)));
    // Nobody has seen how far it went meanwhile.
    assert_eq!(bed.send(client, 80, FIN | ACK, 9_000_001, 7_000_001).0, Decision::To(host(1)));
    assert_eq!((bed.state.take_withdrawn(), bed.state.take_withdrawn()), (Some(candidate.0), None));
    assert_eq!(bed.answer(1, client, FIN | ACK, (7_000_001, 9_000_002)).0, Decision::Translated);
    assert_eq!((bed.state.take_candidate(), bed.state.take_withdrawn(), bed.counts(0)), (None, None, (0, 0)));
}

#[test]
fn what_ends_otherwise_is_withdrawn_once() {
    let (mut bed, client) = answered(KernelUse::Auto);
    bed.send(client, 80, PSH | ACK, 1_001, 5_001);
    let candidate = bed.state.take_candidate().expect("it asks again");
    bed.state.note_offloaded(bed.now, candidate, true);
    // Nothing passes for longer than a connection lives.
    bed.now += Span::from_secs(500_000);
    bed.state.clear_expired(bed.now);
    assert_eq!((bed.state.take_withdrawn(), bed.state.take_withdrawn()), (Some(candidate.0), None));
    assert_eq!(bed.counts(0), (0, 0), "whether it was answered nobody has seen");
}

/// What a client sends, and what its server says once it has answered; nobody sees what is asked, so nothing of that is held against a server.
#[test]
fn a_connection_may_be_carried_from_its_handshake_on() {
    let mut bed = Bed::with(1, &[80], |service| service.kernel = KernelUse::Yes);
    bed.state.set_offload(true);
    let client = bed.client(CLIENT_PORT);
    bed.send(client, 80, SYN, 1_000, 0);
    bed.answer(1, client, SYN | ACK, (5_000, 1_001));
    assert_eq!(bed.state.take_candidate(), None, "its handshake is not complete");
    bed.send(client, 80, ACK, 1_001, 5_001);
    let questions = bed.state.take_candidate().expect("it is open");
    assert!(!questions.1);
    bed.state.note_offloaded(bed.now, questions, true);
    // Its end may be close behind.
    bed.answer(1, client, PSH | ACK, (5_001, 1_100));
    assert_eq!(bed.state.take_candidate(), None);
    bed.answer(1, client, PSH | ACK, (5_101, 1_200));
    let answers = bed.state.take_candidate().expect("it answers again");
    assert_eq!(answers, (questions.0, true));
    bed.state.note_offloaded(bed.now, answers, true);
    assert_eq!(bed.answer(1, client, RST | ACK, (70_000, 80_000)).0, Decision::Translated);
    assert_eq!((bed.state.take_withdrawn(), bed.counts(0)), (Some(questions.0), (0, 0)));
}

/// Another host: it may say that it is anybody.
const ANOTHER: NodeId = host(2);

/// What another host makes up of a connection begins, ends and resets nothing, be it the whole end of one and the beginning of another: its ends know its numbers, and the switch knows who sends.
#[test]
fn what_others_make_up_of_a_connection_changes_nothing() {
    let (first, second) = (3_000_000_000, 2_000_000_000);
    let (mut bed, client, questions) = carried();
    let made_up = |bed: &mut Bed, is_answer: bool, flags: u8| {
        if is_answer {
            bed.answer_by(ANOTHER, (1, client), flags, (second, first)).0
        } else {
            bed.send_by(ANOTHER, (client, 80), flags, (first, second)).0
        }
    };
    for said in [
        vec![(false, RST), (false, SYN)],
        vec![(true, RST | ACK), (false, SYN)],
        vec![(false, FIN | ACK), (true, FIN | ACK), (false, ACK), (false, SYN)],
        vec![(false, FIN | ACK), (true, FIN | ACK), (false, ACK), (true, SYN | ACK), (false, RST), (false, SYN)],
        vec![(false, RST), (true, SYN | ACK), (false, RST), (false, SYN), (true, SYN | ACK), (false, ACK)],
    ] {
        for (is_answer, flags) in said {
            let passes = if is_answer { Decision::Translated } else { Decision::To(host(1)) };
            assert_eq!(made_up(&mut bed, is_answer, flags), passes);
        }
        assert_eq!((bed.state.take_withdrawn(), bed.counts(0)), (None, (1, 0)));
        assert_eq!(bed.state.conntrack().map(|it| it.counters().reopened), Some(0));
    }
    assert_eq!(states(&bed), [Some(TcpState::Established)]);
    // Both ends are believed at once.
    bed.answer(1, client, RST | ACK, (77, 88));
    assert_eq!((bed.state.take_withdrawn(), bed.counts(0)), (Some(questions.0), (0, 0)));
    assert_eq!(states(&bed), [Some(TcpState::Close)]);
}

fn states(bed: &Bed) -> Vec<Option<TcpState>> {
    let conntrack = bed.state.conntrack().expect("there are services");
    conntrack.connections(bed.now, 0, usize::MAX).0.iter().map(|connection| connection.tcp).collect()
}

/// A client that has reset what was carried, or has seen it end, and uses its port again gets a connection of its own: with a server that is well.
#[test]
fn who_was_carried_by_a_server_that_died_gets_another_one() {
    for is_reset in [false, true] {
        let (mut bed, client, _) = carried();
        if is_reset {
            bed.send(client, 80, RST | ACK, 1_101, 5_101);
        } else {
            end(&mut bed, client, (1_101, 5_101));
        }
        let machine = bed.state.machine("web80").expect("it is there");
        let server = machine.server("h1").expect("it is one");
        machine.drain(bed.now, server, true);
        assert_eq!(bed.send(client, 80, SYN, 9_000, 0).0, Decision::Refuse, "there is no other one");
    }
}

/// Both ends say that they have sent all, and the client knows.
fn end(bed: &mut Bed, client: Endpoint, (first, second): (u32, u32)) {
    bed.send(client, 80, FIN | ACK, first, second);
    bed.answer(1, client, FIN | ACK, (second, first + 1));
    bed.send(client, 80, ACK, first + 1, second + 1);
}

/// A client that uses its port again at once gets a connection of its own: the server agrees.
#[test]
fn a_port_is_used_again_behind_what_was_carried() {
    for later in [Span::ZERO, Span::from_secs(2)] {
        let (mut bed, client, _) = carried();
        end(&mut bed, client, (1_201, 5_101));
        assert_eq!(bed.counts(0), (0, 0));
        bed.now += later;
        assert_eq!(bed.send(client, 80, SYN, 9_000, 0).0, Decision::To(host(1)));
        bed.answer(1, client, SYN | ACK, (7_000, 9_001));
        bed.send(client, 80, ACK, 9_001, 7_001);
        bed.send(client, 80, PSH | ACK, 9_001, 7_001);
        bed.answer(1, client, PSH | ACK, (7_001, 9_001));
        assert_eq!(bed.counts(0), (1, 0));
        assert_eq!(bed.state.conntrack().map(|it| it.counters().connections), Some(1));
        end(&mut bed, client, (9_001, 7_001));
        assert_eq!(bed.counts(0), (0, 0));
    }
}

/// A datagram's frame, without a checksum.
fn datagram(from: Endpoint, to: Endpoint) -> Vec<u8> {
    let udp = UdpRepr { src_port: from.1, dst_port: to.1, payload_len: 0 };
    let mut frame = frame(from, to, 0, (0, 0));
    // TCP's header is longer: what is left over is not looked at. Ethernet's has 14 bytes, that of IPv4 20.
    frame[14 + 9] = protocol::UDP;
    udp.emit(&mut frame[14 + 20..]);
    frame
}

/// Datagrams are carried once their server has answered, whatever the file says of connections: until then nobody knows whether it is there.
#[test]
fn datagrams_are_carried_once_they_are_answered() {
    for kernel in [KernelUse::Auto, KernelUse::Yes] {
        let mut bed = Bed::with(1, &[80], |service| {
            service.kernel = kernel;
            service.addresses[0].protocol = protocol::UDP;
        });
        bed.state.set_offload(true);
        let client = bed.client(CLIENT_PORT);
        let ask = |bed: &mut Bed| {
            let frame = datagram(client, Endpoint(VIRTUAL, 80));
            let (services, sender) = (&bed.services, (&bed.host_table, host(0)));
            bed.state.process_from_client(bed.now, (services, sender), &whole(&frame), &mut Vec::new())
        };
        let answer = |bed: &mut Bed| {
            let frame = datagram(Endpoint(bed.address(1), SERVER_PORT), client);
            bed.state.process_from_server(bed.now, host(1), (&frame, frame.len() as u32), &mut Vec::new())
        };
        for _ in 0..5 {
            assert_eq!(ask(&mut bed), Decision::To(host(1)));
            assert_eq!(bed.state.take_candidate(), None, "nobody has answered");
        }
        assert_eq!(answer(&mut bed), Decision::Translated);
        assert_eq!(bed.state.take_candidate(), None);
        ask(&mut bed);
        let questions = bed.state.take_candidate().expect("it asks again");
        bed.state.note_offloaded(bed.now, questions, true);
        answer(&mut bed);
        assert_eq!(bed.state.take_candidate(), Some((questions.0, true)));
        assert_eq!((bed.state.take_withdrawn(), bed.counts(0)), (None, (1, 0)));
    }
}

#[test]
fn long_connections_are_carried_whatever_they_say() {
    let (mut bed, client) = answered(KernelUse::Auto);
    let sent = (0..40).take_while(|_| {
        bed.answer(1, client, ACK, (5_001, 1_001));
        bed.state.take_candidate().is_none()
    });
    assert_eq!(sent.count(), 14, "the sixteenth packet is the fifteenth here");
}

#[test]
fn what_could_not_be_carried_is_not_tried_at_each_packet() {
    let (mut bed, client) = answered(KernelUse::Auto);
    for pause in [0, 100, 200] {
        bed.now += Span::from_ms(pause);
        bed.send(client, 80, PSH | ACK, 1_001, 5_001);
        let candidate = bed.state.take_candidate().expect("it is tried");
        bed.state.note_offloaded(bed.now, candidate, false);
        bed.send(client, 80, PSH | ACK, 1_001, 5_001);
        assert_eq!(bed.state.take_candidate(), None);
    }
    assert_eq!(bed.state.take_withdrawn(), None);
}

#[test]
fn a_connection_for_which_there_is_no_room_is_counted_once() {
    let (mut bed, client) = answered(KernelUse::Auto);
    for _ in 0..3 {
        bed.now += Span::from_ms(200);
        bed.send(client, 80, PSH | ACK, 1_001, 5_001);
        let candidate = bed.state.take_candidate().expect("it is tried");
        bed.state.note_no_room(candidate);
        bed.state.note_offloaded(bed.now, candidate, false);
    }
    assert_eq!(bed.state.views().map(|view| view.no_room).collect::<Vec<_>>(), [1]);
}

#[test]
fn nothing_is_carried_unless_it_is_wanted() {
    let (mut bed, client) = answered(KernelUse::No);
    (0..40).for_each(|_| drop(bed.send(client, 80, PSH | ACK, 1_001, 5_001)));
    assert_eq!(bed.state.take_candidate(), None);
    let (mut bed, client) = answered(KernelUse::Auto);
    bed.state.set_offload(false);
    (0..40).for_each(|_| drop(bed.send(client, 80, PSH | ACK, 1_001, 5_001)));
    assert_eq!(bed.state.take_candidate(), None);
}
