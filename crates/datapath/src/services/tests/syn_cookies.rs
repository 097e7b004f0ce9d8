//! SYN cookies: who makes up addresses takes nobody's place.

use proptest::prelude::*;

use super::super::syn_cookies::MadeUp;
use super::*;

fn always(service: &mut Service) {
    service.half_open_max = 0;
}

impl Bed {
    /// A first segment is answered with a cookie.
    fn cookie(&mut self, from: Endpoint, seq: u32) -> u32 {
        let (decision, fields) = self.send(from, 80, SYN, seq, 0);
        let Decision::Answer(MadeUp { flags, seq: cookie, ack, window, size }) = decision else {
            panic!("{decision:?}")
        };
        assert_eq!((flags, ack, window, size), (SYN | ACK, seq.wrapping_add(1), 0, Some(536)));
        assert!(fields.is_empty());
        cookie
    }
}

#[test]
fn numbers_are_translated_from_then_on() {
    let mut bed = Bed::with(2, &[80], always);
    let client = bed.client(4_000);
    let cookie = bed.cookie(client, u32::MAX);
    assert_eq!((bed.counts(0), bed.state.conntrack().map_or(1, |it| it.counters().connections)), ((0, 0), 0));
    let (decision, fields) = bed.send(client, 80, ACK, 0, cookie.wrapping_add(1));
    let Decision::Connect(server, first) = decision else { panic!("{decision:?}") };
    assert_eq!((first.flags, first.seq, first.ack, first.window, first.size), (SYN, u32::MAX, 0, 1_000, Some(536)));
    assert!(fields.contains(&Field::DstPort(SERVER_PORT)), "{fields:?}");
    // It asks again while the server has not answered: that may not have heard.
    assert_eq!(bed.send(client, 80, ACK, 0, cookie.wrapping_add(1)).0, decision);
    let (decision, fields) = bed.answer(server.0, client, SYN | ACK, (9_000, 0));
    let Decision::Join(third, update) = decision else { panic!("{decision:?}") };
    assert_eq!((third.flags, third.seq, third.ack, third.window), (ACK, 0, 9_001, 1_000));
    assert_eq!((update.flags, update.seq, update.ack, update.window), (ACK, cookie.wrapping_add(1), 0, 1_000));
    assert!(fields.contains(&Field::SrcPort(80)), "{fields:?}");
    let (decision, fields) = bed.send(client, 80, PSH | ACK, 0, cookie.wrapping_add(1));
    assert_eq!((decision, fields.last()), (Decision::To(server), Some(&Field::TcpAck(9_001))));
    let (decision, fields) = bed.answer(server.0, client, PSH | ACK, (9_001, 10));
    assert_eq!((decision, fields.last()), (Decision::Translated, Some(&Field::TcpSeq(cookie.wrapping_add(1)))));
    // The server has not heard that its client has.
    assert!(matches!(bed.answer(server.0, client, SYN | ACK, (9_000, 0)).0, Decision::Join(..)));
    assert_eq!(bed.counts(0), (1, 0));
    assert_eq!(bed.send(client, 80, RST, 0, 0).0, Decision::To(server));
    assert_eq!(bed.counts(0), (0, 0));
    let counters = bed.state.views().next().expect("it is there").counters;
    assert_eq!((counters.cookies, counters.by_cookie, counters.invalid), (1, 1, 0));
}

#[test]
fn a_server_that_refuses_is_heard() {
    let mut bed = Bed::with(1, &[80], always);
    let client = bed.client(4_000);
    let cookie = bed.cookie(client, 1_000);
    assert!(matches!(bed.send(client, 80, ACK, 1_001, cookie.wrapping_add(1)).0, Decision::Connect(..)));
    let (decision, fields) = bed.answer(1, client, RST | ACK, (0, 1_001));
    assert_eq!((decision, fields.last()), (Decision::Translated, Some(&Field::TcpSeq(cookie.wrapping_add(1)))));
    assert_eq!(bed.counts(0), (0, 1));
}

/// Full NAT gives a port again while a server still waits for what is late of its last connection. A cookie leaves no room for timestamps, by which such a server would tell them apart.
#[test]
fn a_server_that_waits_for_the_last_one_is_answered_as_by_a_client() {
    let mut bed = Bed::with(1, &[80], always);
    let client = bed.client(4_000);
    let cookie = bed.cookie(client, 1_000);
    assert!(matches!(bed.send(client, 80, ACK, 1_001, cookie.wrapping_add(1)).0, Decision::Connect(..)));
    let Decision::Answer(reset) = bed.answer(1, client, ACK, (70_000, 50_000)).0 else { panic!("it hears nothing") };
    assert_eq!((reset.flags, reset.seq, reset.size), (RST, 50_000, None));
    // The client asks whether its window is open.
    assert!(matches!(bed.send(client, 80, ACK, 1_000, cookie.wrapping_add(1)).0, Decision::Connect(..)));
    assert!(matches!(bed.answer(1, client, SYN | ACK, (9_000, 1_001)).0, Decision::Join(..)));
    assert_eq!(bed.counts(0), (1, 0));
    // Now it is its connection that it speaks of.
    assert_eq!(bed.answer(1, client, ACK, (9_001, 1_001)).0, Decision::Translated);
}

/// A flood takes the places that there are for connections that are being opened, and no more; others go on, and new ones begin.
#[test]
fn a_flood_is_answered_and_forgotten() {
    let mut bed = Bed::with(1, &[80], |service| service.half_open_max = 16);
    let open: Vec<Endpoint> = (0..8).map(|number| bed.client(4_000 + number)).collect();
    for client in &open {
        bed.send(*client, 80, SYN, 1_000, 0);
        bed.answer(1, *client, SYN | ACK, (5_000, 1_001));
        bed.send(*client, 80, ACK, 1_001, 5_001);
    }
    let mut cookies = 0;
    for number in 0..10_000_u32 {
        let forged = Endpoint(Ipv4Addr::from_bits(0x0a63_0000 + number), 4_000);
        cookies += u32::from(matches!(bed.send(forged, 80, SYN, number, 0).0, Decision::Answer(_)));
    }
    assert_eq!((cookies, bed.counts(0)), (10_000 - 16, (24, 0)));
    // Whoever has not heard the answer guesses in vain.
    for number in 0..10_000_u32 {
        let forged = Endpoint(Ipv4Addr::from_bits(0x0a63_0000 + 20_000 + number), 4_000);
        assert_eq!(bed.send(forged, 80, ACK, 1, machine::mix(number.into()) as u32).0, Decision::Refuse);
    }
    for client in &open {
        assert_eq!(bed.send(*client, 80, PSH | ACK, 1_001, 5_001).0, Decision::To(host(1)));
    }
    let late = bed.client(5_000);
    let cookie = bed.cookie(late, 7);
    // Too late, and from somebody else.
    let other = bed.client(5_001);
    assert_eq!(bed.send(other, 80, ACK, 8, cookie.wrapping_add(1)).0, Decision::Refuse);
    assert!(matches!(bed.send(late, 80, ACK, 8, cookie.wrapping_add(1)).0, Decision::Connect(..)));
    // Those who never answered are forgotten, and all is as before.
    bed.now += Span::from_secs(600);
    (0..100).for_each(|_| bed.state.clear_expired(bed.now));
    assert!(matches!(bed.send(bed.client(6_000), 80, SYN, 7, 0).0, Decision::To(_)));
    let stale = bed.client(5_002);
    assert_eq!(bed.send(stale, 80, ACK, 8, cookie.wrapping_add(1)).0, Decision::Refuse);
}

/// What a server has said once holds: who says something else in its name, or the server itself, does not move the numbers of a connection.
#[test]
fn a_second_answer_moves_no_numbers() {
    let mut bed = Bed::with(1, &[80], always);
    let client = bed.client(4_000);
    let cookie = bed.cookie(client, 1_000);
    assert!(matches!(bed.send(client, 80, ACK, 1_001, cookie.wrapping_add(1)).0, Decision::Connect(..)));
    assert_eq!(bed.answer(1, client, SYN | ACK, (9_000, 77)).0, Decision::Drop, "it answers another number");
    assert!(matches!(bed.answer(1, client, SYN | ACK, (9_000, 1_001)).0, Decision::Join(..)));
    assert_eq!(bed.answer(1, client, SYN | ACK, (20_000, 1_001)).0, Decision::Drop);
    let (_, fields) = bed.send(client, 80, PSH | ACK, 1_001, cookie.wrapping_add(1));
    assert_eq!(fields.last(), Some(&Field::TcpAck(9_001)));
    let (_, fields) = bed.answer(1, client, PSH | ACK, (9_001, 1_001));
    assert_eq!(fields.last(), Some(&Field::TcpSeq(cookie.wrapping_add(1))));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Who resets a connection of others has to know a number of it, as each end knows it.
    #[test]
    fn made_up_resets_end_nothing(first: u32, server: u32, made_up: u32, is_answer: bool) {
        let mut bed = Bed::with(1, &[80], always);
        let client = bed.client(4_000);
        let cookie = bed.cookie(client, first);
        let (seq, ack) = (first.wrapping_add(1), cookie.wrapping_add(1));
        let reset = |bed: &mut Bed, seq: u32| {
            if is_answer { bed.answer(1, client, RST, (seq, 0)).0 } else { bed.send(client, 80, RST, seq, 0).0 }
        };
        bed.send(client, 80, ACK, seq, ack);
        // Nobody but its client may give it up, as long as the server has not answered.
        if made_up != seq {
            reset(&mut bed, made_up);
        }
        prop_assert_eq!(bed.counts(0), (1, 0));
        bed.answer(1, client, SYN | ACK, (server, seq));
        let right = if is_answer { server.wrapping_add(1) } else { seq };
        for _ in 0..2 {
            // That of the cookie is the server's only for the client.
            for made_up in [made_up, ack].into_iter().filter(|made_up| *made_up != right) {
                reset(&mut bed, made_up);
                prop_assert_eq!(bed.counts(0), (1, 0));
            }
            prop_assert_eq!(bed.send(client, 80, PSH | ACK, seq, ack).0, Decision::To(host(1)));
            prop_assert_eq!(bed.answer(1, client, PSH | ACK, (server.wrapping_add(1), seq)).0, Decision::Translated);
        }
        reset(&mut bed, right);
        prop_assert_eq!(bed.counts(0), (0, 0));
    }
}

/// A frame as simulated hosts send them: without numbers and windows.
fn unnumbered(from: Endpoint, to: Endpoint, flags: u8, numbers: (u32, u32)) -> Vec<u8> {
    const WINDOW: usize = 14 + 20 + 14;
    let mut frame = frame(from, to, flags, numbers);
    frame[WINDOW..WINDOW + 2].fill(0);
    frame
}

/// Segments of a simulation have no numbers but in answers to cookies: a flood takes no places there either, and who answers gets a server.
#[test]
fn a_flood_without_numbers_is_answered_too() {
    let mut bed = Bed::with(1, &[80], |service| service.half_open_max = 16);
    let send = |bed: &mut Bed, from: Endpoint, flags: u8, numbers: (u32, u32)| {
        let frame = unnumbered(from, Endpoint(VIRTUAL, 80), flags, numbers);
        let sender = (&bed.services, (&bed.host_table, host(0)));
        bed.state.process_from_client(bed.now, sender, &whole(&frame), &mut Vec::new())
    };
    let answer = |bed: &mut Bed, to: Endpoint, flags: u8| {
        let frame = unnumbered(Endpoint(bed.address(1), SERVER_PORT), to, flags, (0, 0));
        bed.state.process_from_server(bed.now, host(1), (&frame, frame.len() as u32), &mut Vec::new())
    };
    let forged = |number: u32| Endpoint(Ipv4Addr::from_bits(0x0a63_0000 + number), 4_000);
    let answered =
        (0..10_000).filter(|number| matches!(send(&mut bed, forged(*number), SYN, (0, 0)), Decision::Answer(_)));
    assert_eq!(answered.count(), 10_000 - 16);
    assert_eq!(bed.counts(0), (16, 0));
    assert_eq!(send(&mut bed, forged(20_000), ACK, (1, 12_345)), Decision::Refuse, "it guesses");
    let client = bed.client(5_000);
    let Decision::Answer(MadeUp { flags, seq: cookie, ack, .. }) = send(&mut bed, client, SYN, (0, 0)) else {
        panic!("there are too many")
    };
    assert_eq!((flags, ack), (SYN | ACK, 1));
    let Decision::Connect(server, first) = send(&mut bed, client, ACK, (1, cookie.wrapping_add(1))) else {
        panic!("it is the cookie")
    };
    assert_eq!((server, first.flags, first.seq), (host(1), SYN, 0));
    assert!(matches!(answer(&mut bed, client, SYN | ACK), Decision::Join(..)));
    assert_eq!(send(&mut bed, client, PSH | ACK, (0, 0)), Decision::To(host(1)));
    assert_eq!(answer(&mut bed, client, FIN | PSH | ACK), Decision::Translated);
    assert_eq!(send(&mut bed, client, FIN | ACK, (0, 0)), Decision::To(host(1)));
    assert_eq!(bed.counts(0), (16, 0));
}
