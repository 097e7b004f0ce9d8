//! What a sender notifies its model of, and what it does because of that.

use machine::Time;

use super::arrivals::Arrivals;
use super::bbr::{Bbr, Context};
use super::model::Model;
use super::pacing::Pacing;
use super::rate::{Rate, Sample};
use super::sender::Sender;

impl Sender {
    /// The connection stands (`bbr_init`).
    pub(super) fn make_model(&mut self, now: Time) {
        let smoothed_rtt = self.rtt.smoothed();
        let shortest = smoothed_rtt.map(|_| self.rtt.shortest());
        let mut bbr = Bbr::new(now, self.delivered, shortest, self.seed);
        let pace = bbr.first_pace(self.window.size(), smoothed_rtt, self.segment_bytes);
        let (rate, pacing) = (Rate::new(now), Pacing::new(pace));
        self.model = Some(Box::new(Model { rate, pacing, bbr, rtt: None, prior_in_flight: 0 }));
    }

    fn context(&self, now: Time) -> Context {
        Context {
            now,
            state: self.state,
            delivered: self.delivered,
            lost: self.lost,
            in_flight: self.queue.in_flight(),
            smoothed_rtt: self.rtt.smoothed(),
            segment_bytes: self.segment_bytes,
        }
    }

    /// An acknowledgement has been taken in, and says that so many segments have arrived (`bbr_main`). False: there is no model.
    pub(super) fn follow_model(&mut self, now: Time, acked: u32, arrivals: &Arrivals) -> bool {
        let context = self.context(now);
        let Some(model) = &mut self.model else { return false };
        let (prior_in_flight, rtt) = (model.prior_in_flight, model.rtt);
        let lost = arrivals.lost;
        let mut sample = Sample { interval: None, is_app_limited: false, acked, lost, prior_in_flight, rtt };
        model.rate.finish(now, self.delivered, self.rtt.shortest(), &mut sample);
        let size = model.bbr.on_ack(&context, &sample, &mut model.rate, &mut model.pacing, self.window.size());
        self.window.set_size(size);
        true
    }

    /// The window is to get smaller, which the model does not do.
    pub(super) fn save_window(&mut self) {
        if let Some(model) = &mut self.model {
            model.bbr.save_window(self.window.size());
        }
    }

    /// The timer expired.
    pub(super) fn notify_model_of_timeout(&mut self, now: Time) {
        let context = self.context(now);
        if let Some(model) = &mut self.model {
            model.bbr.time_out(&context, model.rate.delivered_at);
        }
    }

    /// The last reduction was one too many.
    pub(super) fn notify_model_of_undo(&mut self) {
        // What it looks at of the moment is when something was delivered last.
        let context = self.context(Time::ZERO);
        if let Some(model) = &mut self.model {
            model.bbr.undo(&context, model.rate.delivered_at);
        }
    }

    /// A segment leaves.
    #[inline]
    pub(super) fn note_sent(&mut self, now: Time, segment: u64, idle: bool) {
        if let Some(model) = &mut self.model {
            model.rate.on_sent(now, segment, (self.queue.first(), self.delivered, idle));
        }
    }

    /// A burst of so many segments leaves, the first of which has been counted.
    #[inline]
    pub(super) fn pace(&mut self, now: Time, burst: u32) {
        if let Some(model) = &mut self.model {
            let segments = self.counters.segments + u64::from(burst) - 1;
            model.pacing.on_sent(now, u64::from(burst) * self.segment_bytes, segments);
        }
    }

    /// Whether the pace keeps from sending.
    #[inline]
    pub(super) fn is_paced(&mut self, now: Time) -> bool {
        self.model.as_mut().is_some_and(|model| model.pacing.holds(now))
    }

    /// The pace may have kept from sending until now (`tcp_tsq_write`).
    #[inline]
    pub(super) fn resume(&mut self, now: Time) {
        if let Some(model) = &mut self.model
            && model.pacing.is_due(now)
        {
            self.output.push = true;
            self.output.resend |= self.queue.lost() > self.queue.resent();
        }
    }

    /// When the pace lets something leave that it kept from leaving.
    #[inline]
    pub(super) fn paced_until(&self) -> Time {
        self.model.as_ref().map_or(Time::NEVER, |model| model.pacing.wake_at())
    }
}
