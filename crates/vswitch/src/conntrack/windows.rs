//! TCP's windows: which segments may be of a connection, by what both of its ends have sent and announced. After Linux's `nf_conntrack_proto_tcp.c` where that is liberal
//! (`nf_conntrack_tcp_be_liberal`): what lies outside passes, since its receiver judges it better, but it changes nothing here. A reset ends a connection here only if it ends
//! it at its receiver (RFC 5961, 3): who does not see the connection's segments would have to guess a number of 32 bits.
//!
//! ```text
//!   bytes of a sender:   ....|======= acknowledged =======|--- under way ---|.. may be sent ..|
//!                                                   receiver.acked       sender.end     sender.end_max
//! ```
//!
//! Only connections of which both beginnings were seen are followed; selective acknowledgements are not read.

use wire::tcp_flags::{ACK, RST, SYN};

use super::segment::SequenceNumbers;
use super::tcp::TcpState;

/// An acknowledgement may be late by so much, or by the largest window (Linux's `MAXACKWINCONST`).
const ACK_LATE_MAX: u32 = 66_000;

/// The largest scale of windows (RFC 7323, 2.3).
const SCALE_MAX: u8 = 14;

/// What a segment is to a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// It is one of it.
    Inside,
    /// It is for its receiver to judge.
    Outside,
    /// It is made up.
    Invalid,
    /// It has no numbers, and neither have the others: those of a simulation.
    Unnumbered,
}

/// One end of a connection, as a sender.
#[derive(Clone, Copy, Debug, Default)]
struct Sender {
    /// Whether it has been seen.
    is_known: bool,
    /// How many bits its windows are to be shifted by.
    scale: u8,
    /// Whether it has acknowledged anything.
    has_acked: bool,
    /// Behind the last byte that it has sent.
    end: u32,
    /// Behind the last one that it may send.
    end_max: u32,
    /// The largest window that it has announced.
    window_max: u32,
    /// The highest number that it has acknowledged.
    acked: u32,
}

/// Whether `a` comes after `b`.
const fn after(a: u32, b: u32) -> bool {
    b.wrapping_sub(a).cast_signed() < 0
}

impl Sender {
    fn begin(numbers: &SequenceNumbers) -> Self {
        let window = u32::from(numbers.window).max(1);
        Self {
            is_known: true,
            scale: numbers.scale.unwrap_or(0).min(SCALE_MAX),
            end: numbers.end(),
            end_max: numbers.end(),
            window_max: window,
            ..Self::default()
        }
    }
}

/// The windows of a connection.
#[derive(Clone, Copy, Debug)]
pub(super) struct Windows {
    /// Whoever began it, and the other one.
    senders: [Sender; 2],
    /// The number of the first segment.
    first: u32,
    /// Whether the first segment said how windows are to be scaled.
    offers_scale: bool,
}

impl Windows {
    /// Those of a connection that begins with this segment. `None`: it is not the first one.
    pub fn begin(flags: u8, numbers: &SequenceNumbers) -> Option<Self> {
        if flags & (SYN | ACK) != SYN {
            return None;
        }
        let senders = [Sender::begin(numbers), Sender::default()];
        Some(Self { senders, first: numbers.seq, offers_scale: numbers.scale.is_some() })
    }

    /// What a segment is to a connection in this state; its windows move on.
    #[inline]
    pub fn judge(&mut self, state: TcpState, is_reply: bool, flags: u8, numbers: &SequenceNumbers) -> Verdict {
        let is_beginning = matches!(state, TcpState::SynSent | TcpState::SynSent2 | TcpState::SynReceived);
        if flags & RST != 0 {
            return self.judge_reset(state, is_reply, flags, numbers);
        }
        if flags & SYN != 0 {
            return if is_beginning { self.judge_beginning(is_reply, flags, numbers) } else { Verdict::Outside };
        }
        let own = usize::from(is_reply);
        let (sender, receiver) = (self.senders[own], self.senders[1 - own]);
        if !sender.is_known || !receiver.is_known {
            // The other end is not there yet.
            return Verdict::Inside;
        }
        let ack = if flags & ACK == 0 { receiver.end } else { numbers.ack };
        if !is_inside(&sender, &receiver, numbers, ack) {
            return Verdict::Outside;
        }
        self.advance(own, flags, numbers, ack);
        Verdict::Inside
    }

    /// What a segment with SYN is while nobody has data to send yet.
    fn judge_beginning(&mut self, is_reply: bool, flags: u8, numbers: &SequenceNumbers) -> Verdict {
        let (is_answer, first) = (flags & ACK != 0, &self.senders[0]);
        if is_reply && is_answer {
            if self.first == 0 && numbers.are_absent() {
                return Verdict::Unnumbered;
            }
            // Data that came with the first one need not be acknowledged with it (RFC 7413).
            if !after(numbers.ack, self.first) || after(numbers.ack, first.end) {
                return Verdict::Outside;
            }
        }
        let own = usize::from(is_reply);
        if !is_reply && !is_answer {
            // It may be another one, as long as nobody has answered.
            (self.first, self.offers_scale) = (numbers.seq, numbers.scale.is_some());
            self.senders[0] = Sender { end_max: self.senders[0].end_max, ..Sender::begin(numbers) };
            return Verdict::Inside;
        }
        self.senders[own] = Sender { acked: numbers.ack, has_acked: is_answer, ..Sender::begin(numbers) };
        // Both have to say it (RFC 7323, 2.2).
        if numbers.scale.is_none() || !self.offers_scale {
            self.senders.iter_mut().for_each(|sender| sender.scale = 0);
        }
        let (window, other) = (u32::from(numbers.window), &mut self.senders[1 - own]);
        if other.is_known && is_answer {
            other.end_max = numbers.ack.wrapping_add(window.max(1));
        }
        // Until it is answered, it may send what fits a window that nobody has scaled.
        self.senders[own].end_max = numbers.end().wrapping_add(self.senders[1 - own].window_max);
        Verdict::Inside
    }

    /// A reset ends a connection if its number is the next one that its receiver waits for, or follows the last one that its sender has sent.
    fn judge_reset(&self, state: TcpState, is_reply: bool, flags: u8, numbers: &SequenceNumbers) -> Verdict {
        let own = usize::from(is_reply);
        let (sender, receiver) = (&self.senders[own], &self.senders[1 - own]);
        match state {
            // It has ended.
            TcpState::TimeWait | TcpState::Close => Verdict::Inside,
            TcpState::SynSent | TcpState::SynSent2 if is_reply && !sender.is_known => {
                let answers = flags & ACK != 0 && after(numbers.ack, self.first) && !after(numbers.ack, receiver.end);
                let is_absent = self.first == 0 && numbers.are_absent();
                if answers || is_absent { Verdict::Inside } else { Verdict::Invalid }
            }
            _ if receiver.has_acked && numbers.seq == receiver.acked => Verdict::Inside,
            _ if sender.is_known && numbers.seq == sender.end => Verdict::Inside,
            _ if receiver.has_acked && after(receiver.acked, numbers.seq) => Verdict::Invalid,
            _ if sender.is_known && after(numbers.seq, sender.end_max) => Verdict::Invalid,
            // Its receiver asks whether it is meant.
            _ => Verdict::Outside,
        }
    }

    /// A segment was inside.
    fn advance(&mut self, own: usize, flags: u8, numbers: &SequenceNumbers, ack: u32) {
        let end = numbers.end();
        let sender = &mut self.senders[own];
        let window = u32::from(numbers.window) << sender.scale;
        sender.window_max = sender.window_max.max(window);
        if after(end, sender.end) {
            sender.end = end;
        }
        if flags & ACK != 0 && (!sender.has_acked || after(ack, sender.acked)) {
            (sender.acked, sender.has_acked) = (ack, true);
        }
        let end_max = sender.end_max;
        let receiver = &mut self.senders[1 - own];
        if after(end, end_max) {
            // More than was allowed has come, and was taken.
            receiver.window_max = receiver.window_max.saturating_add(end.wrapping_sub(end_max));
        }
        // A window that is shut is probed by a byte.
        let allowed = ack.wrapping_add(window.max(1));
        if flags & ACK != 0 && after(allowed, receiver.end_max) {
            receiver.end_max = allowed;
        }
    }
}

/// Whether it carries nothing beyond what its receiver allows or long has, and acknowledges nothing that was not sent or that was long ago.
fn is_inside(sender: &Sender, receiver: &Sender, numbers: &SequenceNumbers, ack: u32) -> bool {
    let oldest = sender.end.wrapping_sub(receiver.window_max).wrapping_sub(1);
    let oldest_ack = receiver.end.wrapping_sub(sender.window_max.max(ACK_LATE_MAX)).wrapping_sub(1);
    !after(numbers.seq, sender.end_max)
        && after(numbers.end(), oldest)
        && !after(ack, receiver.end)
        && after(ack, oldest_ack)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use wire::tcp_flags::FIN;

    use super::*;

    fn numbers(seq: u32, ack: u32, length: u32, scale: Option<u8>) -> SequenceNumbers {
        SequenceNumbers { seq, ack, window: 500, length, scale }
    }

    /// Client and server after their handshake: the next number of each, and windows of 500 shifted by `scale`.
    fn established(first: u32, scale: u8) -> (Windows, u32, u32) {
        let (client, server) = (first, first.wrapping_mul(31));
        let mut windows = Windows::begin(SYN, &numbers(client, 0, 1, Some(scale))).expect("it is the first one");
        let answer = numbers(server, client.wrapping_add(1), 1, Some(scale));
        assert_eq!(windows.judge(TcpState::SynSent, true, SYN | ACK, &answer), Verdict::Inside);
        let (client, server) = (client.wrapping_add(1), server.wrapping_add(1));
        let third = numbers(client, server, 0, None);
        assert_eq!(windows.judge(TcpState::SynReceived, false, ACK, &third), Verdict::Inside);
        // The first window that is scaled.
        let fourth = numbers(server, client, 0, None);
        assert_eq!(windows.judge(ESTABLISHED, true, ACK, &fourth), Verdict::Inside);
        (windows, client, server)
    }

    const ESTABLISHED: TcpState = TcpState::Established;

    proptest! {
        /// Whatever the first number is, and whether or not numbers begin anew meanwhile.
        #[test]
        fn only_the_next_number_resets_a_connection(first: u32, scale in 0..=14_u8, off in 1..=u32::MAX) {
            let (mut windows, client, server) = established(first, scale);
            let window = 500 << scale;
            for (is_reply, seq, ack) in [(false, client, server), (true, server, client)] {
                prop_assert_eq!(windows.judge(ESTABLISHED, is_reply, RST, &numbers(seq, ack, 0, None)), Verdict::Inside);
                let wrong = windows.judge(ESTABLISHED, is_reply, RST | ACK, &numbers(seq.wrapping_add(off), ack, 0, None));
                // Within the window its receiver asks whether it is meant (RFC 5961, 3.2).
                prop_assert_eq!(wrong, if off <= window { Verdict::Outside } else { Verdict::Invalid }, "{}", off);
            }
        }

        /// Bytes that go to and fro in pieces are inside, and so is a reset that follows them before they are acknowledged.
        #[test]
        fn what_both_ends_say_is_inside(first: u32, scale in 7..=14_u8, pieces in prop::collection::vec((any::<bool>(), 0..20_000_u32, any::<bool>()), 0..60)) {
            let (mut windows, client, server) = established(first, scale);
            let (mut sent, mut acked) = ([client, server], [client, server]);
            for (is_reply, length, is_late) in pieces {
                let own = usize::from(is_reply);
                // Nobody sends more than the other one takes.
                let length = length.min((500 << scale) - sent[own].wrapping_sub(acked[own]));
                let segment = numbers(sent[own], sent[1 - own], length, None);
                prop_assert_eq!(windows.judge(ESTABLISHED, is_reply, ACK, &segment), Verdict::Inside);
                // It may come once more.
                prop_assert_eq!(windows.judge(ESTABLISHED, is_reply, ACK, &segment), Verdict::Inside);
                (sent[own], acked[1 - own]) = (segment.end(), sent[1 - own]);
                let reset = numbers(sent[own], sent[1 - own], 0, None);
                prop_assert_eq!(windows.judge(ESTABLISHED, is_reply, RST | ACK, &reset), Verdict::Inside);
                if !is_late {
                    let ack = numbers(sent[1 - own], sent[own], 0, None);
                    prop_assert_eq!(windows.judge(ESTABLISHED, !is_reply, ACK, &ack), Verdict::Inside);
                    acked[own] = sent[own];
                }
            }
        }
    }

    #[test]
    fn what_is_made_up_changes_nothing() {
        let (mut windows, client, server) = established(u32::MAX - 3, 0);
        for (seq, ack) in [
            (client.wrapping_add(100_000), server),
            (client, server.wrapping_add(1)),
            (client, server.wrapping_sub(90_000)),
        ] {
            assert_eq!(windows.judge(ESTABLISHED, false, FIN | ACK, &numbers(seq, ack, 1, None)), Verdict::Outside);
            assert_eq!(windows.judge(ESTABLISHED, false, ACK, &numbers(seq, ack, 0, None)), Verdict::Outside);
        }
        // A first segment in the middle of a connection is answered with what its receiver waits for; then its sender resets it.
        assert_eq!(windows.judge(ESTABLISHED, false, SYN, &numbers(7, 0, 1, None)), Verdict::Outside);
        assert_eq!(windows.judge(ESTABLISHED, false, RST, &numbers(client, 0, 0, None)), Verdict::Inside);
    }

    #[test]
    fn a_refusal_acknowledges_what_it_refuses() {
        let windows = Windows::begin(SYN, &numbers(1_000, 0, 1, None)).expect("it is the first one");
        let refusal = |ack, flags| windows.judge_reset(TcpState::SynSent, true, flags, &numbers(0, ack, 0, None));
        assert_eq!(refusal(1_001, RST | ACK), Verdict::Inside);
        for (ack, flags) in [(1_000, RST | ACK), (1_002, RST | ACK), (1_001, RST), (0, RST)] {
            assert_eq!(refusal(ack, flags), Verdict::Invalid, "{ack}");
        }
        assert_eq!(windows.judge_reset(TcpState::SynSent, false, RST, &numbers(1_001, 0, 0, None)), Verdict::Inside);
        assert!(Windows::begin(ACK, &numbers(1, 1, 0, None)).is_none(), "its beginning was not seen");
    }

    #[test]
    fn headers_without_numbers_are_known_as_such() {
        let absent = SequenceNumbers { length: 1, ..SequenceNumbers::default() };
        let mut windows = Windows::begin(SYN, &absent).expect("it is the first one");
        assert_eq!(windows.judge(TcpState::SynSent, true, SYN | ACK, &absent), Verdict::Unnumbered);
        // Whoever leaves out his own is followed all the same once he is answered.
        let answer = numbers(5, 1, 1, None);
        assert_eq!(windows.judge(TcpState::SynSent, true, SYN | ACK, &answer), Verdict::Inside);
    }
}
