//! TCP's windows: which segments may be of a connection, by what both of its ends have sent and announced. After Linux's `nf_conntrack_proto_tcp.c` where that is liberal
//! (`nf_conntrack_tcp_be_liberal`): what lies outside passes, since its receiver judges it better, but it changes nothing here. A reset ends a connection here only if it ends
//! it at its receiver (RFC 5961, 3): who does not see the connection's segments would have to guess a number of 32 bits.
//!
//! ```text
//!   bytes of a sender:   ....|======= acknowledged =======|--- under way ---|.. may be sent ..|
//!                                                   receiver.acked       sender.end     sender.end_max
//! ```
//!
//! Connections are followed of which both beginnings were seen, and those whose segments another machine has seen meanwhile: there, what each end sends next says where it
//! stands, and until then no reset is believed. Selective acknowledgements are not read.

use wire::tcp_flags::{ACK, RST, SYN};

use super::segment::SequenceNumbers;
use super::tcp::TcpState;

/// An acknowledgement may be late by so much, or by the largest window (Linux's `MAXACKWINCONST`).
const ACK_LATE_MAX: u32 = 66_000;

/// The largest scale of windows (RFC 7323, 2.3).
const SCALE_MAX: u8 = 14;

/// What two ends say of each other may be apart by so much at most, where it is not known what was sent before: windows are seldom larger.
const APART_MAX: u32 = 1 << 22;

/// Where it is not known how windows are scaled, none counts as larger: who makes numbers up would be within it too often.
const WINDOW_MAX: u32 = 1 << 24;

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

/// Whether they are apart by so much at most.
const fn near(a: u32, b: u32) -> bool {
    a.wrapping_sub(b).cast_signed().unsigned_abs() <= APART_MAX
}

impl Sender {
    /// One of which nothing is known but how its windows are scaled.
    fn unknown(scale: u8) -> Self {
        Self { scale, ..Self::default() }
    }

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
    /// The first segment, and the last one that wanted to begin the connection before it was answered. Anybody can forge a second one, so an answer may be one to either.
    attempts: [Attempt; 2],
    /// The period of its table in which they were followed.
    period: u16,
    /// Whether somebody else has followed it before. Then what made-up segments of both ends say may be taken for where it stands.
    is_resumed: bool,
    /// Where both ends were joined by somebody between them, whoever began it sees of the other one's numbers so much more, modulo 2^32. All here are as he sees them.
    offset: u32,
}

/// A segment that wanted to begin a connection.
#[derive(Clone, Copy, Debug)]
struct Attempt {
    /// Its number.
    seq: u32,
    /// How its sender's windows are to be scaled, if it says so.
    scale: Option<u8>,
}

impl Attempt {
    fn new(numbers: &SequenceNumbers) -> Self {
        Self { seq: numbers.seq, scale: numbers.scale.map(|scale| scale.min(SCALE_MAX)) }
    }
}

impl Windows {
    /// Those of a connection that begins with this segment. `None`: it is not the first one.
    pub fn begin(period: u16, flags: u8, numbers: &SequenceNumbers) -> Option<Self> {
        if flags & (SYN | ACK) != SYN {
            return None;
        }
        let senders = [Sender::begin(numbers), Sender::default()];
        Some(Self { senders, attempts: [Attempt::new(numbers); 2], period, is_resumed: false, offset: 0 })
    }

    /// Those of a connection that somebody else has seen begin. Its ends may have scaled their windows by anything, unless they were joined: cookies have no room for that.
    pub fn resumed(period: u16, joined: Option<u32>) -> Self {
        let attempt = Attempt { seq: 0, scale: None };
        let scale = if joined.is_some() { 0 } else { SCALE_MAX };
        let offset = joined.unwrap_or(0);
        Self { senders: [Sender::unknown(scale); 2], attempts: [attempt; 2], period, is_resumed: true, offset }
    }

    /// Whether a reset that ended its connection may have been made up by somebody who has not seen it.
    pub const fn is_resumed(&self) -> bool {
        self.is_resumed
    }

    /// Where its segments stand is taken from what comes next.
    pub fn resume(&mut self) {
        self.senders = self.senders.map(|sender| Sender::unknown(sender.scale));
        self.is_resumed = true;
    }

    /// From now on, whoever began it sees so much more of the other one's numbers.
    pub fn join(&mut self, offset: u32) {
        let by = offset.wrapping_sub(self.offset);
        self.offset = offset;
        let [first, other] = &mut self.senders;
        first.acked = first.acked.wrapping_add(by);
        (other.end, other.end_max) = (other.end.wrapping_add(by), other.end_max.wrapping_add(by));
    }

    /// In another period of the table, somebody else may have seen what both ends have sent since, other than what a connection begins with.
    #[inline]
    pub fn enter(&mut self, period: u16, state: TcpState) {
        if self.period != period {
            self.period = period;
            if !is_beginning(state) {
                self.resume();
            }
        }
    }

    /// What a segment is to a connection in this state; its windows move on.
    #[inline]
    pub fn judge(&mut self, state: TcpState, is_reply: bool, flags: u8, numbers: &SequenceNumbers) -> Verdict {
        let is_beginning = is_beginning(state);
        let seq = numbers.seq.wrapping_add(if is_reply { self.offset } else { 0 });
        let numbers = &SequenceNumbers { seq, ..*numbers };
        if flags & RST != 0 {
            return self.judge_reset(state, is_reply, flags, numbers);
        }
        if flags & SYN != 0 {
            return if is_beginning { self.judge_beginning(is_reply, flags, numbers) } else { Verdict::Outside };
        }
        let own = usize::from(is_reply);
        let (sender, receiver) = (self.senders[own], self.senders[1 - own]);
        if !sender.is_known || !receiver.is_known {
            // Else the other end is not there yet.
            if !is_beginning && flags & ACK != 0 {
                self.resume_sender(own, numbers);
            }
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
        let is_answer = flags & ACK != 0;
        match (is_reply, is_answer) {
            (false, false) => self.begin_again(numbers),
            // Whoever began it answers if the other one began it too (RFC 9293, 3.5), and says nothing new of itself.
            (false, true) => {
                let [own, other] = self.senders;
                if !other.is_known || numbers.ack != other.end || numbers.seq != own.end.wrapping_sub(1) {
                    return Verdict::Outside;
                }
                self.begin_sender(0, true, numbers);
            }
            (true, false) => self.begin_sender(1, false, numbers),
            (true, true) if self.is_unnumbered(numbers) => return Verdict::Unnumbered,
            (true, true) => {
                let Some(answered) = self.attempts.iter().position(|attempt| self.is_answer(*attempt, numbers.ack))
                else {
                    return Verdict::Outside;
                };
                let Attempt { seq, scale } = self.attempts[answered];
                if seq != self.attempts[1].seq {
                    self.senders[0].end = numbers.ack;
                }
                self.attempts = [Attempt { seq, scale }; 2];
                self.begin_sender(1, true, numbers);
            }
        }
        Verdict::Inside
    }

    /// The first segment comes once more, or another one, as long as nobody has answered.
    fn begin_again(&mut self, numbers: &SequenceNumbers) {
        let Sender { end, end_max, .. } = self.senders[0];
        let is_same = numbers.seq == self.attempts[1].seq;
        self.attempts[1] = Attempt::new(numbers);
        self.senders[0] = Sender { end_max, ..Sender::begin(numbers) };
        // Data that came with the first one (RFC 7413) is not sent again with the second one.
        if is_same && after(end, self.senders[0].end) {
            self.senders[0].end = end;
        }
    }

    /// Whether this acknowledges a first segment. Data that came with it need not be acknowledged at once (RFC 7413).
    fn is_answer(&self, attempt: Attempt, ack: u32) -> bool {
        let is_last = attempt.seq == self.attempts[1].seq;
        let end = if is_last { self.senders[0].end } else { attempt.seq.wrapping_add(1) };
        after(ack, attempt.seq) && !after(ack, end)
    }

    /// Whether segments have no numbers.
    fn is_unnumbered(&self, numbers: &SequenceNumbers) -> bool {
        self.attempts[0].seq == 0 && numbers.are_absent()
    }

    /// An end says for the first time what it sends and takes.
    fn begin_sender(&mut self, own: usize, is_answer: bool, numbers: &SequenceNumbers) {
        self.senders[own] = Sender { acked: numbers.ack, has_acked: is_answer, ..Sender::begin(numbers) };
        // Both have to say how windows are scaled (RFC 7323, 2.2). Whoever began it said so in his first segment.
        let scales = [self.attempts[1].scale, numbers.scale.map(|scale| scale.min(SCALE_MAX))];
        let [own_scale, other_scale] = if let [Some(first), Some(other)] = scales { [first, other] } else { [0; 2] };
        if own == 1 {
            (self.senders[0].scale, self.senders[1].scale) = (own_scale, other_scale);
        } else if numbers.scale.is_none() {
            self.senders.iter_mut().for_each(|sender| sender.scale = 0);
        }
        let (window, other) = (u32::from(numbers.window), &mut self.senders[1 - own]);
        if other.is_known && is_answer {
            other.end_max = numbers.ack.wrapping_add(window.max(1));
        }
        // Until it is answered, it may send what fits a window that nobody has scaled.
        self.senders[own].end_max = numbers.end().wrapping_add(self.senders[1 - own].window_max);
    }

    /// An end says where it stands, for the first time since the connection was left to somebody else. What the other end has said before has to fit, or is made up.
    fn resume_sender(&mut self, own: usize, numbers: &SequenceNumbers) {
        let SequenceNumbers { ack, window, .. } = *numbers;
        let (end, scale, other) = (numbers.end(), self.senders[own].scale, self.senders[1 - own]);
        let window = (u32::from(window) << scale).clamp(1, WINDOW_MAX);
        let mut sender =
            Sender { is_known: true, scale, has_acked: true, end, end_max: end, window_max: window, acked: ack };
        if other.is_known && near(ack, other.end) && near(end, other.acked) {
            let is_later = |a, b| if after(a, b) { a } else { b };
            sender.end = is_later(end, other.acked);
            sender.end_max = is_later(sender.end, other.acked.wrapping_add(other.window_max));
            let other_end = is_later(ack, other.end);
            let other_end_max = is_later(other_end, ack.wrapping_add(window));
            self.senders[1 - own] = Sender { end: other_end, end_max: other_end_max, ..other };
        } else {
            self.senders[1 - own] = Sender::unknown(other.scale);
        }
        self.senders[own] = sender;
    }

    /// A reset ends a connection if its number is the next one that its receiver waits for, or follows the last one that its sender has sent.
    fn judge_reset(&self, state: TcpState, is_reply: bool, flags: u8, numbers: &SequenceNumbers) -> Verdict {
        let own = usize::from(is_reply);
        let (sender, receiver) = (&self.senders[own], &self.senders[1 - own]);
        match state {
            // It has ended.
            TcpState::TimeWait | TcpState::Close => Verdict::Inside,
            TcpState::SynSent | TcpState::SynSent2 if is_reply && !sender.is_known => {
                let is_answer =
                    flags & ACK != 0 && self.attempts.iter().any(|attempt| self.is_answer(*attempt, numbers.ack));
                if is_answer || self.is_unnumbered(numbers) { Verdict::Inside } else { Verdict::Invalid }
            }
            // Whoever wants to begin it resets what the other end still knows of another one, and has said so by an acknowledgement (RFC 9293, 3.5.2): between the same
            // ports, seen by a server that has not forgotten it. That changes nothing here.
            TcpState::SynSent if !is_reply && flags & ACK == 0 && numbers.seq != sender.end => Verdict::Outside,
            // What one end is said to have sent, the other one has to confirm.
            _ if self.is_resumed && !(sender.is_known && receiver.is_known) => Verdict::Outside,
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
        let window_max = if self.is_resumed { WINDOW_MAX } else { u32::MAX };
        let window = (u32::from(numbers.window) << sender.scale).min(window_max);
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

/// Whether nobody has data to send yet.
const fn is_beginning(state: TcpState) -> bool {
    matches!(state, TcpState::SynSent | TcpState::SynSent2 | TcpState::SynReceived)
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
        let mut windows = Windows::begin(0, SYN, &numbers(client, 0, 1, Some(scale))).expect("it is the first one");
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

    proptest! {
        /// Who stands between both ends changes nothing but the numbers of one of them, wherever that begins.
        #[test]
        fn joined_ends_are_judged_as_others(
            [first, offset] in any::<[u32; 2]>(),
            before in 0..20_usize,
            segments in prop::collection::vec((any::<bool>(), 0..100_000_u32, 0..100_000_u32, 0..2_000_u32, 0..8_u8), 1..40),
        ) {
            let (mut joined, client, server) = established(first, 3);
            let mut plain = joined;
            for (index, (is_reply, seq, ack, length, kind)) in segments.into_iter().enumerate() {
                if index == before {
                    joined.join(offset);
                }
                let offset = if index < before { 0 } else { offset };
                let flags = [ACK, ACK, ACK, ACK, FIN | ACK, SYN, RST, RST | ACK][usize::from(kind)];
                let [own, other] = if is_reply { [server, client] } else { [client, server] };
                let (seq, ack) = (own.wrapping_add(seq), other.wrapping_add(ack));
                let seen = ack.wrapping_add(if is_reply { 0 } else { offset });
                prop_assert_eq!(
                    joined.judge(ESTABLISHED, is_reply, flags, &numbers(seq, seen, length, None)),
                    plain.judge(ESTABLISHED, is_reply, flags, &numbers(seq, ack, length, None))
                );
            }
        }

        /// Wherever somebody else has left both ends, and whichever of them speaks first.
        #[test]
        fn windows_are_taken_up_from_what_comes_next(first: u32, is_known: bool, moved: [u32; 2], under_way in 0..30_000_u32, is_reply: bool, off in 1..=u32::MAX) {
            let mut windows = if is_known { established(first, 7).0 } else { Windows::resumed(0, None) };
            let (client, server) = (first.wrapping_add(moved[0]), first.wrapping_mul(31).wrapping_add(moved[1]));
            let next = if is_reply { [server, client] } else { [client, server] };
            windows.enter(1, ESTABLISHED);
            // Who has seen nothing of it cannot end it.
            for (is_reply, seq) in [(is_reply, next[0]), (!is_reply, next[1])] {
                prop_assert_eq!(windows.judge(ESTABLISHED, is_reply, RST, &numbers(seq, 0, 0, None)), Verdict::Outside);
            }
            let data = numbers(next[0], next[1], under_way, None);
            prop_assert_eq!(windows.judge(ESTABLISHED, is_reply, ACK, &data), Verdict::Inside);
            let answer = numbers(next[1], next[0], 100, None);
            prop_assert_eq!(windows.judge(ESTABLISHED, !is_reply, ACK, &answer), Verdict::Inside);
            let end = numbers(data.end(), answer.end(), 1, None);
            prop_assert_eq!(windows.judge(ESTABLISHED, is_reply, FIN | ACK, &end), Verdict::Inside);
            let reset = |off| numbers(answer.end().wrapping_add(off), end.end(), 0, None);
            prop_assert_ne!(windows.judge(ESTABLISHED, !is_reply, RST, &reset(off)), Verdict::Inside);
            prop_assert_eq!(windows.judge(ESTABLISHED, !is_reply, RST, &reset(0)), Verdict::Inside);
        }
    }

    #[test]
    fn who_makes_up_what_one_end_says_next_is_not_believed_for_long() {
        let (mut windows, client, server) = established(1_000, 0);
        windows.enter(1, ESTABLISHED);
        let forged = numbers(client.wrapping_add(1 << 30), server.wrapping_sub(1 << 30), 0, None);
        assert_eq!(windows.judge(ESTABLISHED, false, ACK, &forged), Verdict::Inside);
        for (is_reply, seq, ack) in [(true, server, client), (false, client, server)] {
            assert_eq!(windows.judge(ESTABLISHED, is_reply, ACK, &numbers(seq, ack, 0, None)), Verdict::Inside);
        }
        assert_eq!(windows.judge(ESTABLISHED, false, ACK, &forged), Verdict::Outside);
        assert_eq!(windows.judge(ESTABLISHED, false, FIN | ACK, &numbers(client, server, 1, None)), Verdict::Inside);
    }

    #[test]
    fn one_end_alone_resets_nothing_where_somebody_else_has_followed_it() {
        let mut windows = Windows::resumed(0, Some(7));
        for is_reply in [false, true, false] {
            assert_eq!(
                windows.judge(ESTABLISHED, is_reply, ACK, &numbers(70_000, 9_000_000, 0, None)),
                Verdict::Inside
            );
            for is_reply in [false, true] {
                let reset = windows.judge(ESTABLISHED, is_reply, RST, &numbers(70_000, 9_000_000, 0, None));
                assert_eq!(reset, Verdict::Outside);
            }
        }
        // Both of them fit.
        assert_eq!(windows.judge(ESTABLISHED, true, ACK, &numbers(8_999_993, 70_000, 0, None)), Verdict::Inside);
        assert_eq!(windows.judge(ESTABLISHED, false, RST, &numbers(70_000, 0, 0, None)), Verdict::Inside);
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
        let windows = Windows::begin(0, SYN, &numbers(1_000, 0, 1, None)).expect("it is the first one");
        let refusal = |ack, flags| windows.judge_reset(TcpState::SynSent, true, flags, &numbers(0, ack, 0, None));
        assert_eq!(refusal(1_001, RST | ACK), Verdict::Inside);
        for (ack, flags) in [(1_000, RST | ACK), (1_002, RST | ACK), (1_001, RST), (0, RST)] {
            assert_eq!(refusal(ack, flags), Verdict::Invalid, "{ack}");
        }
        assert_eq!(windows.judge_reset(TcpState::SynSent, false, RST, &numbers(1_001, 0, 0, None)), Verdict::Inside);
        assert!(Windows::begin(0, ACK, &numbers(1, 1, 0, None)).is_none(), "its beginning was not seen");
    }

    /// The other end still knows a connection between the same ports, and answers with what it waits for there: its reset is to arrive.
    #[test]
    fn what_is_left_of_another_connection_can_be_reset() {
        let mut windows = Windows::begin(0, SYN, &numbers(1_000, 0, 1, None)).expect("it is the first one");
        let left = numbers(900_000, 77_000, 0, None);
        assert_eq!(windows.judge(TcpState::SynSent, true, ACK, &left), Verdict::Inside);
        assert_eq!(windows.judge(TcpState::SynSent, false, RST, &numbers(77_000, 0, 0, None)), Verdict::Outside);
        // A client that gives up ends it.
        assert_eq!(windows.judge(TcpState::SynSent, false, RST, &numbers(1_001, 0, 0, None)), Verdict::Inside);
    }

    #[test]
    fn whoever_forges_a_beginning_does_not_keep_the_true_one_out() {
        use TcpState::{SynReceived, SynSent, SynSent2};
        let of = |flags, seq, ack, scale| (flags, numbers(seq, ack, u32::from(flags & SYN != 0), scale));
        let forged: [(TcpState, bool, _); 4] = [
            // Another first segment, and one that pretends to be the other end's.
            (SynSent, false, of(SYN, 77_000, 0, None)),
            (SynSent, true, of(SYN, 5, 0, None)),
            // Answers to nothing, from both ends.
            (SynSent2, false, of(SYN | ACK, 9, 9, None)),
            (SynSent2, true, of(SYN | ACK, 9, 9, None)),
        ];
        let mut windows = Windows::begin(0, SYN, &numbers(1_000, 0, 1, Some(7))).expect("it is the first one");
        for (state, is_reply, (flags, numbers)) in forged {
            windows.judge(state, is_reply, flags, &numbers);
        }
        assert_eq!(windows.judge(SynSent, true, SYN | ACK, &numbers(3_000, 1_001, 1, Some(7))), Verdict::Inside);
        // A third party's answer comes too late, from either end.
        for (is_reply, ack) in [(false, 1), (true, 1)] {
            assert_eq!(windows.judge(SynReceived, is_reply, SYN | ACK, &numbers(9, ack, 1, None)), Verdict::Outside);
        }
        assert_eq!(windows.judge(SynReceived, false, ACK, &numbers(1_001, 3_001, 0, None)), Verdict::Inside);
        // Windows are scaled as both have said: 500 * 128 bytes.
        assert_eq!(windows.judge(ESTABLISHED, true, ACK, &numbers(3_001, 1_001, 0, None)), Verdict::Inside);
        assert_eq!(windows.judge(ESTABLISHED, false, ACK, &numbers(1_001 + 63_000, 3_001, 900, None)), Verdict::Inside);
    }

    #[test]
    fn the_last_of_several_beginnings_counts_as_well() {
        let mut windows = Windows::begin(0, SYN, &numbers(77_000, 0, 1, None)).expect("it is the first one");
        for seq in [5, 1_000] {
            assert_eq!(windows.judge(TcpState::SynSent, false, SYN, &numbers(seq, 0, 1, Some(7))), Verdict::Inside);
        }
        let answer = |ack| numbers(3_000, ack, 1, Some(7));
        assert_eq!(windows.judge(TcpState::SynSent, true, SYN | ACK, &answer(6)), Verdict::Outside);
        assert_eq!(windows.judge(TcpState::SynSent, true, SYN | ACK, &answer(1_001)), Verdict::Inside);
        assert_eq!(windows.judge(TcpState::SynReceived, true, SYN | ACK, &answer(77_001)), Verdict::Outside);
    }

    #[test]
    fn data_of_a_first_segment_may_be_acknowledged_after_it_came_again_without() {
        let mut windows = Windows::begin(0, SYN, &numbers(1_000, 0, 101, None)).expect("it is the first one");
        assert_eq!(windows.judge(TcpState::SynSent, false, SYN, &numbers(1_000, 0, 1, None)), Verdict::Inside);
        assert_eq!(windows.judge(TcpState::SynSent, true, SYN | ACK, &numbers(3_000, 1_101, 1, None)), Verdict::Inside);
    }

    #[test]
    fn two_ends_may_begin_at_the_same_time() {
        let mut windows = Windows::begin(0, SYN, &numbers(1_000, 0, 1, Some(3))).expect("it is the first one");
        assert_eq!(windows.judge(TcpState::SynSent, true, SYN, &numbers(3_000, 0, 1, Some(3))), Verdict::Inside);
        let answers = [(false, numbers(1_000, 3_001, 1, Some(3))), (true, numbers(3_000, 1_001, 1, Some(3)))];
        for (is_reply, answer) in answers {
            assert_eq!(windows.judge(TcpState::SynSent2, is_reply, SYN | ACK, &answer), Verdict::Inside);
        }
        assert_eq!(windows.judge(ESTABLISHED, true, ACK, &numbers(3_001, 1_001, 0, None)), Verdict::Inside);
        // 500 * 8 bytes may be sent.
        for (seq, verdict) in [(1_001 + 4_001, Verdict::Outside), (1_001 + 4_000, Verdict::Inside)] {
            assert_eq!(windows.judge(ESTABLISHED, false, ACK, &numbers(seq, 3_001, 0, None)), verdict);
        }
    }

    #[test]
    fn headers_without_numbers_are_known_as_such() {
        let absent = SequenceNumbers { length: 1, ..SequenceNumbers::default() };
        let mut windows = Windows::begin(0, SYN, &absent).expect("it is the first one");
        assert_eq!(windows.judge(TcpState::SynSent, true, SYN | ACK, &absent), Verdict::Unnumbered);
        // Whoever leaves out his own is followed all the same once he is answered.
        let answer = numbers(5, 1, 1, None);
        assert_eq!(windows.judge(TcpState::SynSent, true, SYN | ACK, &answer), Verdict::Inside);
    }
}
