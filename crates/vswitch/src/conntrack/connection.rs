//! One connection.

use machine::{Rebase, Span, Time};
use wire::tcp_flags::{ACK, RST, SYN};

use super::ct_state::{DESTINATION_NAT, SOURCE_NAT};
use super::lifetime::Lifetime;
use super::segment::Segment;
use super::tcp::{Step, TcpState};
use super::tuple::Tuple;
use super::windows::{Verdict, Windows};

/// A first segment so soon behind an end that may have been made up begins another connection only if its receiver agrees: by then, ends that go on have shown that they do.
const DOUBTED_FOR: Span = Span::from_secs(1);

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
    /// Who has reset it, if that may have been made up, since somebody else has followed it before: whether the end that answers.
    pub reset_by: Option<bool>,
    pub lifetime: Lifetime,
    /// Its neighbours in the list of its lifetime.
    pub before: u32,
    pub next: u32,
}

impl Connection {
    /// What a segment does to a connection of TCP in this state, in this period of the table. What lies outside of its windows changes nothing.
    #[inline]
    pub fn step(&mut self, now: Time, state: TcpState, is_reply: bool, segment: &Segment, period: u16) -> Step {
        let step = state.step(is_reply, segment.tcp_flags);
        if state == TcpState::Close && self.reset_by.is_some() {
            return self.step_behind_reset(step, is_reply, segment);
        }
        let Step::To(next) = step else { return self.step_behind_end(now, step, state, is_reply, segment) };
        let Some(windows) = &mut self.windows else { return step };
        // Nobody takes one that is not whole.
        let Some(numbers) = &segment.numbers else { return Step::Invalid };
        windows.enter(period, state);
        match windows.judge(state, is_reply, segment.tcp_flags, numbers) {
            Verdict::Inside => {
                let is_reset = next == TcpState::Close && state != TcpState::Close;
                let may_be_made_up = is_reset && windows.is_resumed();
                self.reset_by = self.reset_by.or(may_be_made_up.then_some(is_reply));
                step
            }
            // Its ends go on elsewhere: who has ended it did not know where they stood.
            Verdict::Outside if windows.is_resumed() && is_over(state) => {
                windows.resume();
                Step::To(TcpState::CloseWait)
            }
            Verdict::Outside => Step::Stay,
            Verdict::Invalid => Step::Invalid,
            Verdict::Unnumbered => {
                self.windows = None;
                step
            }
        }
    }

    /// What a segment does that moves nothing by itself. Where somebody else has followed a connection before, its end may have been made up, and what seems to begin another one as well.
    #[inline]
    fn step_behind_end(&mut self, now: Time, step: Step, state: TcpState, is_reply: bool, segment: &Segment) -> Step {
        if !is_over(state) || segment.tcp_flags & SYN == 0 || !self.windows.is_some_and(|it| it.is_resumed()) {
            return step;
        }
        let silent_for = (now + self.lifetime.timeout()).since(self.expires_at);
        match step {
            Step::Reopen if silent_for < DOUBTED_FOR => Step::Stay,
            Step::Stay if is_reply && is_agreement(segment.tcp_flags) => self.begin_behind_doubt(),
            _ => step,
        }
    }

    /// The same behind a reset that may have been made up. Whoever has reset a connection sends nothing more; if he does, he has not reset it. Nor does a first segment begin another one
    /// before its receiver has agreed: it may be made up as well.
    #[cold]
    fn step_behind_reset(&mut self, step: Step, is_reply: bool, segment: &Segment) -> Step {
        // The segments of a simulation may overtake each other, and do not say so.
        if segment.numbers.is_none_or(|numbers| numbers.are_absent()) {
            return step;
        }
        match TcpState::Established.step(is_reply, segment.tcp_flags) {
            Step::To(next) if next != TcpState::Close && self.reset_by == Some(is_reply) => {
                self.reset_by = None;
                self.windows.iter_mut().for_each(Windows::resume);
                Step::To(next)
            }
            _ if is_reply && is_agreement(segment.tcp_flags) => self.begin_behind_doubt(),
            _ if step == Step::Reopen => Step::Stay,
            _ => step,
        }
    }

    /// A server seems to have agreed to another connection. That may be made up, too: where both ends stand is taken from what comes next, and until then it can't be reset.
    fn begin_behind_doubt(&mut self) -> Step {
        self.reset_by = None;
        self.windows.iter_mut().for_each(Windows::resume);
        Step::To(TcpState::SynReceived)
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

/// Whether both ends have sent all, as far as anybody knows.
const fn is_over(state: TcpState) -> bool {
    matches!(state, TcpState::LastAck | TcpState::TimeWait)
}

/// Whether a segment agrees to a connection that was wanted.
const fn is_agreement(flags: u8) -> bool {
    flags & (SYN | ACK | RST) == SYN | ACK
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
