//! Partners that are written by hand after what Linux 6.1 and Open vSwitch send.

use bond::Carrier;
use bond::lacp::{Lacp, MuxState, Output};
use machine::{Span, Step, Time};
use wire::{LacpInfo, LacpPacket, LacpRepr, LacpState, MarkerPacket, MarkerRepr, SLOW_PAYLOAD, SLOW_PROTOCOLS};

use crate::lacp::world::{fast, member, system};

/// One port, and a partner that says what a test makes it say.
pub struct Bench {
    pub now: Time,
    pub lacp: Lacp,
    /// The last LACPDU that we sent.
    pub last_sent: LacpRepr,
    pub markers: Vec<MarkerRepr>,
}

impl Bench {
    pub fn new() -> Self {
        let mut lacp = Lacp::new(fast(1));
        lacp.add_port(Time::ZERO, member(0), [2, 1, 0, 0, 0, 7], 0xff);
        lacp.link(member(0), Carrier::up(1_000));
        let mut bench = Self { now: Time::ZERO, lacp, last_sent: LacpRepr::default(), markers: vec![] };
        bench.drain();
        bench
    }

    pub fn drain(&mut self) -> Time {
        loop {
            match self.lacp.poll(self.now) {
                Step::Do(Output::Send { port, frame }) if port == member(0) => {
                    assert_eq!(frame[..6], SLOW_PROTOCOLS);
                    assert_eq!(frame[6..14], [2, 1, 0, 0, 0, 7, 0x88, 0x09]);
                    if let Ok(packet) = LacpPacket::new_checked(&frame[14..]) {
                        self.last_sent = LacpRepr::parse(&packet);
                    } else {
                        self.markers.push(MarkerRepr::parse(&MarkerPacket::new_checked(&frame[14..]).unwrap()));
                    }
                }
                Step::Do(output) => assert!(!matches!(output, Output::Send { .. }), "there is only member 0"),
                Step::Wait(deadline) => return deadline,
            }
        }
    }

    /// Lets the clock run.
    pub fn run(&mut self, span: Span) {
        let until = self.now + span;
        loop {
            let deadline = self.drain();
            if deadline > until {
                break;
            }
            self.now = deadline;
        }
        self.now = until;
    }

    /// The partner says this of itself, and of this port what the port sent last.
    pub fn say(&mut self, actor: LacpInfo) {
        self.receive(&LacpRepr { actor, partner: self.last_sent.actor, collector_max_delay: 0 });
        self.drain();
    }

    pub fn receive(&mut self, pdu: &LacpRepr) {
        let mut payload = [0; SLOW_PAYLOAD];
        pdu.emit(&mut payload);
        self.lacp.receive(self.now, member(0), &payload);
    }

    pub fn mux(&self) -> MuxState {
        self.lacp.status(member(0)).unwrap().mux
    }

    fn own_state(&self) -> u8 {
        self.last_sent.actor.state.0
    }
}

pub fn partner(state: u8) -> LacpInfo {
    LacpInfo {
        system_priority: 0xffff,
        system: system(2),
        key: 9,
        port_priority: 0xff,
        port: 1,
        state: LacpState(state),
    }
}

#[test]
fn linux_with_coupled_control() {
    let mut bench = Bench::new();
    assert_eq!(bench.own_state(), 0xc7, "active, short, may be aggregated, defaulted, expired");
    // Linux at the fast rate has just come up, then has heard us and waits for its two seconds.
    bench.say(partner(0x47));
    bench.run(Span::from_ms(1));
    bench.say(partner(0x07));
    for _ in 0..2 {
        bench.run(Span::from_secs(1));
        bench.say(partner(0x07));
    }
    assert_eq!((bench.mux(), bench.own_state()), (MuxState::Attached, 0x0f));
    assert!(
        bench
            .lacp
            .why(bench.now, member(0))
            .unwrap()
            .to_string()
            .ends_with("has not put its port 1 into an aggregate (not in sync)")
    );
    // Attached, and in its next tick collecting and distributing together.
    bench.say(partner(0x0f));
    assert_eq!(bench.mux(), MuxState::Collecting);
    bench.say(partner(0x3f));
    assert_eq!((bench.mux(), bench.lacp.members().distributing.bits()), (MuxState::Distributing, 1));
    bench.run(Span::from_secs(1));
    assert_eq!(bench.own_state(), 0x3f);
    // ifdown: it is not in sync any more.
    bench.say(partner(0x07));
    assert_eq!((bench.mux(), bench.lacp.members().distributing.bits()), (MuxState::Attached, 0));
}

#[test]
fn open_vswitch_shows_all_bits_at_once() {
    let mut bench = Bench::new();
    bench.say(partner(0x3d));
    assert_eq!(bench.lacp.members().distributing.bits(), 0, "this end is not attached yet");
    bench.run(Span::from_ms(501));
    assert_eq!(bench.lacp.members().distributing.bits(), 1);
    // It asks for long timeouts, so it gets an LACPDU every 30 s.
    bench.run(Span::from_secs(2));
    let before = bench.lacp.status(member(0)).unwrap().counters.sent;
    bench.say(partner(0x3d));
    bench.run(Span::from_ms(2_500));
    assert_eq!(bench.lacp.status(member(0)).unwrap().counters.sent, before);
}

#[test]
fn a_partner_whose_link_is_individual_is_used_alone() {
    let mut bench = Bench::new();
    for _ in 0..3 {
        bench.say(partner(0x3d & !0x04));
        bench.run(Span::from_ms(400));
    }
    assert_eq!(bench.lacp.members().distributing.bits(), 1);
}

#[test]
fn a_partner_that_does_not_hear_us_is_not_sent_to() {
    let mut bench = Bench::new();
    for _ in 0..3 {
        bench.receive(&LacpRepr { actor: partner(0x3d), partner: LacpInfo::default(), collector_max_delay: 0 });
        bench.run(Span::from_ms(900));
    }
    assert_eq!((bench.mux(), bench.lacp.members().distributing.bits()), (MuxState::Attached, 0));
    assert_eq!(
        bench.lacp.why(bench.now, member(0)).unwrap().to_string(),
        "port 1 does not distribute: its partner 02:00:00:00:00:02 key 9 does not hear it (do frames pass in one direction only?)"
    );
}

#[test]
fn a_partner_that_does_not_collect_is_not_sent_to() {
    let mut bench = Bench::new();
    for _ in 0..3 {
        bench.say(partner(0x0f));
        bench.run(Span::from_ms(900));
    }
    assert_eq!(bench.lacp.members().collecting.bits(), 1);
    assert_eq!(bench.lacp.members().distributing.bits(), 0);
    assert!(bench.lacp.why(bench.now, member(0)).unwrap().to_string().ends_with("on its port 1 yet (not collecting)"));
}

#[test]
fn a_marker_is_answered_as_it_was() {
    let mut bench = Bench::new();
    let marker =
        MarkerRepr { response: false, requester_port: 5, requester_system: system(2), transaction: 0xfeed_beef };
    let mut payload = [0; SLOW_PAYLOAD];
    marker.emit(&mut payload);
    bench.lacp.receive(bench.now, member(0), &payload);
    bench.drain();
    assert_eq!(bench.markers, [MarkerRepr { response: true, ..marker }]);
}
