//! One connection.

use machine::{Rebase, Span, Time};

use super::ct_state::{DESTINATION_NAT, SOURCE_NAT};
use super::lifetime::Lifetime;
use super::segment::Segment;
use super::tcp::{Step, TcpState};
use super::tuple::Tuple;
use super::windows::{Verdict, Windows};

/// Nothing is there.
pub(super) const NONE: u32 = u32::MAX;

/// A connection.
#[derive(Clone, Copy, Debug)]
pub(super) struct Connection {
    pub original: Tuple,
    pub reply: Tuple,
    pub expires_at: Time,
    /// When it expired as it was last moved in its list.
    pub listed_until: Time,
    pub mark: u32,
    pub zone: u16,
    pub share: u8,
    /// [`SOURCE_NAT`] and [`DESTINATION_NAT`], as in the original direction.
    pub translated: u8,
    pub is_replied: bool,
    pub tcp: Option<TcpState>,
    /// Of TCP, if its beginning was seen here, or was over when another table spoke of it.
    pub windows: Option<Windows>,
    /// Of TCP without windows: who has reset it, whoever that was: whether the end that answers.
    pub reset_by: Option<bool>,
    pub lifetime: Lifetime,
    /// Its neighbours in the list of its lifetime.
    pub before: u32,
    pub next: u32,
}

impl Connection {
    /// What a segment does to a connection of TCP in this state, in this period of the table. What lies outside of its windows changes nothing.
    #[inline]
    pub fn step(&mut self, state: TcpState, is_reply: bool, segment: &Segment, period: u16) -> Step {
        let step = state.step(is_reply, segment.tcp_flags);
        let Step::To(next) = step else { return step };
        let Some(windows) = &mut self.windows else { return Step::To(self.unfollowed(state, next, is_reply, segment)) };
        // Nobody takes one that is not whole.
        let Some(numbers) = &segment.numbers else { return Step::Invalid };
        windows.enter(period, state);
        match windows.judge(state, is_reply, segment.tcp_flags, numbers) {
            Verdict::Inside => step,
            Verdict::Outside => Step::Stay,
            Verdict::Invalid => Step::Invalid,
            Verdict::Unnumbered => {
                self.windows = None;
                step
            }
        }
    }

    /// The state after the next one of segments of which nobody knows where they stand. Any reset counts, be it made up; but whoever resets a connection sends nothing more, and if he
    /// does, he has not reset it.
    fn unfollowed(&mut self, state: TcpState, next: TcpState, is_reply: bool, segment: &Segment) -> TcpState {
        match (state, next) {
            (TcpState::Established, TcpState::Close) => self.reset_by = Some(is_reply),
            // The segments of a simulation may overtake each other, and do not say so.
            (TcpState::Close, TcpState::Close)
                if self.reset_by == Some(is_reply)
                    && segment.numbers.is_some_and(|numbers| !numbers.are_absent())
                    && let Step::To(next) = TcpState::Established.step(is_reply, segment.tcp_flags)
                    && next != TcpState::Close =>
            {
                self.reset_by = None;
                return next;
            }
            _ => {}
        }
        next
    }

    /// What packets of a direction become.
    pub fn target(&self, is_reply: bool) -> Option<Tuple> {
        if is_reply { self.original.reversed() } else { self.reply.reversed() }
    }

    /// The flags of translations in a direction.
    pub const fn translations(&self, is_reply: bool) -> u8 {
        match (is_reply, self.translated) {
            (true, SOURCE_NAT) => DESTINATION_NAT,
            (true, DESTINATION_NAT) => SOURCE_NAT,
            (_, translated) => translated,
        }
    }
}

impl Rebase for Connection {
    fn rebase(&mut self, by: Span) {
        let Self {
            original: _,
            reply: _,
            expires_at,
            listed_until,
            mark: _,
            zone: _,
            share: _,
            translated: _,
            is_replied: _,
            tcp: _,
            windows: _,
            reset_by: _,
            lifetime: _,
            before: _,
            next: _,
        } = self;
        expires_at.rebase(by);
        listed_until.rebase(by);
    }
}
