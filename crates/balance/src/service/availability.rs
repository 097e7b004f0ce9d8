//! Which servers may get connections: those that are in, or in panic those that are out, too.

use machine::Time;

use super::Service;
use crate::ejection::{EjectionReason, Failure, outlier_below};
use crate::event::Event;
use crate::server::Server;
use crate::server_id::ServerId;

impl Service {
    /// Does what has to happen by now.
    pub(super) fn advance(&mut self, now: Time) {
        if now >= self.next_change && self.refresh(now) {
            self.scheduler.changed(&self.servers);
        }
    }

    /// Finds anew who may get connections. True if that is somebody else than before.
    pub(super) fn refresh(&mut self, now: Time) -> bool {
        self.pass_time(now);
        self.compare_success(now);
        let wanted = self.servers.iter().filter(|server| server.is_wanted());
        let (all, up, usable) = wanted.fold((0, 0, 0), |(all, up, usable), server| {
            let is_up = !server.is_down();
            let is_usable = is_up && !server.failures.is_ejected();
            (all + 1, up + usize::from(is_up), usable + usize::from(is_usable))
        });
        let is_below = |count: usize, percent: u32| count * 100 < all * percent as usize;
        let admits_ejected = is_below(usable, self.spec.panic.ejected_percent);
        // Those that are ejected count as in by now.
        let admits_down = is_below(if admits_ejected { up } else { usable }, self.spec.panic.down_percent);
        let heeds_overload = self.spec.scheduler.heeds_overload();
        let is_in = move |server: &Server| {
            server.is_wanted()
                && !server.is_full
                && (admits_down || !server.is_down())
                && (admits_ejected || admits_down || !server.failures.is_ejected())
        };
        let is_rested = |server: &Server| !heeds_overload || !server.load.is_overloaded();
        // If all are overloaded, none has to wait for the others.
        let all_overloaded = !self.servers.iter().any(|server| is_in(server) && is_rested(server));
        let has_changed = self.servers.set_eligible(|server| is_in(server) && (all_overloaded || is_rested(server)));
        self.set_panic((admits_ejected && up > usable) || (admits_down && all > up));
        self.set_next_change(now);
        has_changed
    }

    fn set_panic(&mut self, is_panic: bool) {
        if core::mem::replace(&mut self.is_panic, is_panic) != is_panic {
            self.events.push(if is_panic { Event::PanicBegan } else { Event::PanicEnded });
        }
    }

    /// A server that was ejected is back before its time.
    pub(super) fn readmitted(&mut self, now: Time, id: ServerId) {
        let Some(server) = self.servers.get_mut(id) else { return };
        server.slow_start = Some(now);
        server.silence.forget();
        self.events.push(Event::Readmitted(id));
        self.server_changed(now);
    }

    /// Brings back those whose ejection is over, and forgets overloads that nobody confirms.
    fn pass_time(&mut self, now: Time) {
        let heeds_overload = self.spec.scheduler.heeds_overload();
        let expiry = self.spec.report_expiry;
        for server in self.servers.all_mut() {
            if server.failures.readmit(now) {
                server.slow_start = Some(now);
                server.silence.forget();
                self.events.push(Event::Readmitted(server.id));
            }
            if server.load.expire(now, expiry) && heeds_overload {
                self.events.push(Event::Recovered(server.id));
            }
            if server.slow_start.is_some() && server.slow_start_permille(now, self.spec.slow_start).is_none() {
                server.slow_start = None;
            }
        }
        let growing = self.servers.iter().any(|server| server.slow_start.is_some());
        self.is_slow_start = growing && !self.spec.scheduler.is_hash();
    }

    fn set_next_change(&mut self, now: Time) {
        let expiry = self.spec.report_expiry;
        let moments = self.servers.iter().map(|server| {
            let slow_start = server.slow_start.map_or(Time::NEVER, |since| since + self.spec.slow_start);
            server.failures.ejected_until().min(server.load.overload_expires_at(expiry)).min(slow_start)
        });
        let interval = if self.spec.ejection.is_some() { self.next_interval } else { Time::NEVER };
        // What is due has been done.
        self.next_change = moments.fold(interval, Time::min).max(now + machine::Span::from_ps(1));
    }

    /// Holds back servers whose share is still growing: each gets this connection by chance only.
    pub(super) fn hold_back(&mut self, now: Time) {
        let (whole, rng) = (self.spec.slow_start, &mut self.rng);
        self.servers.set_candidates(|server| {
            server.slow_start_permille(now, whole).is_none_or(|share| rng.below(1_000) < share)
        });
    }

    /// Sets the weights that schedulers see. They are hundredths if some agent asks for a part of its server's.
    pub(super) fn set_weights(&mut self) {
        let in_parts = self.servers.all().any(|server| server.weight_percent != 100);
        for server in self.servers.all_mut() {
            let weight = server.base_weight * if in_parts { server.weight_percent } else { 1 };
            server.set_weight(weight);
        }
    }

    /// Counts a failed connection against its server, which may be one too many.
    pub(super) fn count_failure(&mut self, now: Time, id: ServerId, failure: Failure) {
        let Some(ejection) = self.spec.ejection else { return };
        let Some(server) = self.servers.get_mut(id) else { return };
        if server.failures.failure(&ejection) {
            let reason = server.failures.in_a_row(failure);
            self.eject(now, id, reason);
        }
    }

    /// Takes out those of which nothing is heard.
    #[cold]
    pub(super) fn eject_silent(&mut self, now: Time, at: Time) {
        let Some(ejection) = self.spec.ejection else { return };
        let times = (at, self.watch.heard_at());
        for position in 0..self.servers.len() {
            let server = self.servers.at(position);
            let id = server.id;
            if !server.failures.is_ejected()
                && let Some((segments, waited)) = server.silence.is_too_long(times, &ejection)
            {
                let milliseconds = waited.as_ps() / 1_000_000_000;
                self.eject(now, id, EjectionReason::Silent { segments, milliseconds });
            }
        }
    }

    /// Takes a server out for a while, unless too many are.
    fn eject(&mut self, now: Time, id: ServerId, reason: EjectionReason) {
        let Some(ejection) = self.spec.ejection else { return };
        let ejected = self.servers.iter().filter(|server| server.failures.is_ejected()).count();
        if ejected >= ejection.count_max(self.servers.len()) {
            return;
        }
        let Some(server) = self.servers.get_mut(id).filter(|server| server.is_specified) else { return };
        let until = server.failures.eject(now, &ejection, reason);
        self.events.push(Event::Ejected { server: id, until });
        self.server_changed(now);
    }

    /// Once in an interval, takes out those that succeed far less often than the others.
    fn compare_success(&mut self, now: Time) {
        let Some(ejection) = self.spec.ejection.filter(|_| now >= self.next_interval) else { return };
        self.next_interval = now + ejection.interval;
        let rate = |server: &Server| {
            let rate = server.failures.success_permille(ejection.connections_min)?;
            (!server.failures.is_ejected()).then_some(rate)
        };
        if let Some(limit) = outlier_below(self.servers.iter().filter_map(rate), &ejection) {
            for position in 0..self.servers.len() {
                let server = self.servers.at(position);
                let (id, outlier) = (server.id, rate(server).filter(|rate| *rate < limit));
                if let Some(permille) = outlier {
                    self.eject(now, id, EjectionReason::SuccessRate { permille });
                }
            }
        }
        self.servers.all_mut().for_each(|server| server.failures.next_interval());
    }
}
