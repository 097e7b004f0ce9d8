//! Connections that begin with a SYN cookie: their client is answered before there is a server.

use machine::Time;
use vswitch::conntrack::{Segment, SequenceNumbers, TcpState, Tracked, ct_state};
use vswitch::{Field, translate};
use wire::tcp_flags::{ACK, RST, SYN};

use super::opened::Handshake;
use super::state::{Decision, EXISTING, Origin, ServiceState, of_mark};
use super::syn_cookies::{GOOD_FOR, MadeUp, Proxied, is_third_segment, segment_size};
use super::sync::SyncCookie;
use super::{Service, Services};
use crate::segment::is_first_segment;

impl ServiceState {
    /// A segment of TCP that belongs to no connection has come to a service.
    pub(super) fn open_tcp(
        &mut self,
        now: Time,
        services: &Services,
        (number, segment, from): (usize, &Segment, Origin),
        (headers, bytes): (&[u8], u32),
        fields: &mut Vec<Field>,
    ) -> Decision {
        let is_first = is_first_segment(segment.tcp_flags);
        if is_first
            && let Some(decision) = self.answer_by_cookie(now, (number, &services.all[number]), segment, headers)
        {
            return decision;
        }
        if is_first {
            return self.open(now, services, (number, segment, from), bytes, fields);
        }
        let proxied = self.proxied(now, segment);
        let own = self.by_number[number] as usize;
        let Some(proxied) = proxied else {
            self.running[own].counters.invalid += 1;
            return Decision::Refuse;
        };
        // Its first segment is made up for a server.
        let numbers =
            SequenceNumbers { seq: proxied.first, window: proxied.window, length: 1, ..SequenceNumbers::default() };
        let first = Segment { tcp_flags: SYN, numbers: Some(numbers), ..*segment };
        let decision = self.open(now, services, (number, &first, from), bytes, fields);
        let Decision::To(host) = decision else { return decision };
        self.running[own].counters.by_cookie += 1;
        if let Some(place) = self.revisit(now, &first, EXISTING).and_then(|tracked| tracked.place) {
            // It is nobody's who makes up addresses.
            self.change_handshake(place, Handshake::Proxied(proxied));
            // Until its server has answered, its cookie says all to other balancers.
            self.has_opened = false;
        }
        Decision::Connect(host, proxied.first_segment())
    }

    /// What a first segment is answered with while too many connections are being opened.
    fn answer_by_cookie(
        &mut self,
        now: Time,
        (number, service): (usize, &Service),
        segment: &Segment,
        headers: &[u8],
    ) -> Option<Decision> {
        let running = &mut self.running[self.by_number[number] as usize];
        if running.half_open < service.half_open_max {
            return None;
        }
        let numbers = segment.numbers?;
        // Whoever may not hears nothing.
        let is_denied = |filter: &balance::SourceFilter| filter.check(segment.tuple.src).is_err();
        if running.machine.spec().filter.as_ref().is_some_and(|filter| is_denied(filter)) {
            return None;
        }
        let size = segment_size(headers)?;
        let cookie = self.cookie_key.make(now, &segment.tuple, (numbers.seq, size));
        running.counters.cookies += 1;
        self.cookies_until = now + GOOD_FOR;
        let ack = numbers.seq.wrapping_add(1);
        Some(Decision::Answer(MadeUp { flags: SYN | ACK, seq: cookie, ack, window: 0, size: Some(size) }))
    }

    /// What a segment says that answers a cookie.
    fn proxied(&self, now: Time, segment: &Segment) -> Option<Proxied> {
        // Other balancers may have sent some.
        let may_have_sent = now < self.cookies_until || self.changes.is_some();
        if !may_have_sent || !is_third_segment(segment.tcp_flags) {
            return None;
        }
        let numbers = segment.numbers?;
        let cookie = numbers.ack.wrapping_sub(1);
        // A client whose third segment was lost asks whether the window is open by the number before that one (RFC 9293, 3.8.6.1).
        [numbers.seq.wrapping_sub(1), numbers.seq].into_iter().find_map(|first| {
            let size = self.cookie_key.check(now, &segment.tuple, (first, cookie))?;
            Some(Proxied { cookie, first, size, window: numbers.window, offset: None })
        })
    }

    /// A client goes on while its server has not answered: that may not have heard.
    pub(super) fn connect_again(&mut self, now: Time, segment: &Segment, fields: &mut Vec<Field>) -> Option<Decision> {
        if segment.quoted.is_some() || segment.tcp_flags & RST != 0 {
            return None;
        }
        let tracked = self.revisit(now, segment, EXISTING)?;
        let is_joining = tracked.state & ct_state::REPLY == 0 && tracked.tcp == Some(TcpState::SynSent);
        let place = tracked.place.filter(|_| is_joining)?;
        let proxied = *self.opened[place as usize].proxied().filter(|proxied| proxied.offset.is_none())?;
        let (running, server) = of_mark(tracked.mark);
        let host = self.running[running].hosts.get(server).copied().flatten()?.host;
        translate(segment, &tracked, |field| fields.push(field));
        self.note_tunnel(running, fields);
        Some(Decision::Connect(host, proxied.first_segment()))
    }

    /// What a client acknowledges has other numbers at its server.
    #[inline]
    pub(super) fn write_acknowledgement(&self, place: u32, segment: &Segment, fields: &mut Vec<Field>) {
        let offset = self.opened[place as usize].proxied().and_then(|proxied| proxied.offset);
        if let (Some(offset), Some(numbers)) = (offset, segment.numbers)
            && segment.tcp_flags & ACK != 0
        {
            fields.push(Field::TcpAck(numbers.ack.wrapping_sub(offset)));
        }
    }

    /// A server has sent a segment: its client sees other numbers. `Some`: it is the server's first one, which that client has had already.
    pub(super) fn join(
        &mut self,
        now: Time,
        place: u32,
        (segment, tracked): (&Segment, &Tracked),
        fields: &mut Vec<Field>,
    ) -> Option<Decision> {
        let Handshake::Proxied(proxied) = &mut self.opened[place as usize].handshake else { return None };
        let numbers = segment.numbers?;
        let Proxied { cookie, first, window, offset, .. } = *proxied;
        if segment.tcp_flags & (SYN | ACK | RST) == SYN | ACK {
            let is_unnumbered = first == 0 && numbers.are_absent();
            let said = if is_unnumbered { 0 } else { cookie.wrapping_sub(numbers.seq) };
            let is_answer = is_unnumbered || numbers.ack == first.wrapping_add(1);
            // Whoever makes this up does not know the client's number; and what was said once holds, whoever says otherwise.
            if !is_answer || offset.is_some_and(|known| known != said) {
                return Some(Decision::Drop);
            }
            proxied.offset = Some(said);
            if offset.is_none() {
                self.joining -= 1;
                // Whoever takes this balancer's place then knows what the numbers are.
                self.note_opened(place);
                if let Some(conntrack) = &mut self.conntrack {
                    conntrack.join(place, said);
                }
                if let Some(original) = tracked.tuple.unwrap_or(segment.tuple).reversed() {
                    let (seq, ack) = (first.wrapping_add(1), cookie.wrapping_add(1));
                    let numbers = Some(SequenceNumbers { seq, ack, window, length: 0, scale: None });
                    let third = Segment { tuple: original, tcp_flags: ACK, quoted: None, numbers };
                    let tracked = self.track(now, &third, EXISTING);
                    self.note_stage(place, &tracked);
                }
            }
            let (seq, ack) = (numbers.ack, numbers.seq.wrapping_add(1));
            let third = MadeUp { flags: ACK, seq, ack, window, size: None };
            let (seq, ack) = (cookie.wrapping_add(1), first.wrapping_add(1));
            let update = MadeUp { flags: ACK, seq, ack, window: numbers.window, size: None };
            return Some(Decision::Join(third, update));
        }
        if offset.is_none() && segment.tcp_flags & (SYN | ACK | RST) == ACK {
            // It still has the last connection of these ports in TIME-WAIT, whose numbers are higher, and answers for that one. It forgets that by what a client answers in
            // SYN-SENT (RFC 9293, 3.10.7.3), and takes the first segment when the client goes on.
            return Some(Decision::Answer(MadeUp { flags: RST, seq: numbers.ack, ack: 0, window: 0, size: None }));
        }
        fields.push(Field::TcpSeq(match offset {
            Some(offset) => numbers.seq.wrapping_add(offset),
            // It refuses.
            None => cookie.wrapping_add(1),
        }));
        None
    }
}

impl Proxied {
    /// What other balancers are to know of it; `None`: the server has not answered.
    pub(super) fn shared(&self) -> Option<SyncCookie> {
        let Self { cookie, first, size: _, window, offset } = *self;
        Some(SyncCookie { cookie, first, offset: offset?, window })
    }

    /// Simulated ends have no numbers, but for an answer to a cookie.
    pub(super) fn is_unnumbered(&self) -> bool {
        self.first == 0 && self.offset == Some(0)
    }

    /// As the client has sent it, but for what does not fit a cookie.
    const fn first_segment(&self) -> MadeUp {
        MadeUp { flags: SYN, seq: self.first, ack: 0, window: self.window, size: Some(self.size) }
    }
}

impl From<SyncCookie> for Proxied {
    fn from(known: SyncCookie) -> Self {
        let SyncCookie { cookie, first, offset, window } = known;
        // Its server has had its first segment, which is all that has a size.
        Self { cookie, first, size: 0, window, offset: Some(offset) }
    }
}
