//! How services do as sites of a name.

use super::*;

/// The load of the first service as a site.
fn load(bed: &Bed) -> Option<u32> {
    bed.state.site_state(bed.now, 0).expect("it is there").load_percent
}

/// Whoever makes up addresses opens connections that nobody answers: they are no load of a site, or it would get nobody any more.
#[test]
fn connections_that_are_being_opened_are_no_load_of_a_site() {
    let mut bed = Bed::with(2, &[80], |service| {
        service.spec.servers.iter_mut().for_each(|server| server.connections_max = Some(50));
    });
    assert_eq!(load(&bed), Some(0));
    for number in 0..90_u32 {
        let forged = Endpoint(Ipv4Addr::from_bits(0x0a63_0000 + number), 4_000);
        assert!(matches!(bed.send(forged, 80, SYN, number, 0).0, Decision::To(_)));
    }
    assert_eq!((load(&bed), bed.counts(0).0), (Some(0), 90));
    // Those that are open are, whether their server or their client has said so last.
    for number in 0..10 {
        let client = bed.client(5_000 + number);
        let Decision::To(server) = bed.send(client, 80, SYN, 1_000, 0).0 else { panic!("nobody gets it") };
        bed.answer(server.0, client, SYN | ACK, (5_000, 1_001));
        bed.send(client, 80, ACK, 1_001, 5_001);
    }
    assert_eq!(load(&bed), Some(10));
    // What is forgotten leaves nothing behind.
    bed.now += Span::from_secs(200);
    (0..10).for_each(|_| bed.state.clear_expired(bed.now));
    assert_eq!((load(&bed), bed.counts(0).0), (Some(10), 10));
}
