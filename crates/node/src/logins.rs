//! Failed log-ins by host, on this machine by user: who guesses is not listened to for a while.

use std::collections::HashMap;

use machine::nanos::{Span, Time};

use super::remote::RemoteHost;

/// So many tokens that are worth nothing may come from one host within [`WINDOW`].
const FAILURES_MAX: u32 = 10;

/// Failures are forgotten after this time.
const WINDOW: Span = Span::from_secs(60);

/// Hosts that are remembered; of more, the one that failed first is forgotten.
const HOSTS_MAX: usize = 4_096;

/// What is remembered.
#[derive(Debug, Default)]
pub(super) struct Logins {
    /// How many, and when the first was.
    failed: HashMap<RemoteHost, (u32, Time)>,
}

impl Logins {
    /// For how long nobody at this host may log in with a token; none: he may.
    pub fn refuses(&mut self, now: Time, host: RemoteHost) -> Option<Span> {
        let (count, first) = *self.failed.get(&host)?;
        if now >= first + WINDOW {
            self.failed.remove(&host);
            return None;
        }
        (count >= FAILURES_MAX).then(|| (first + WINDOW).since(now))
    }

    /// A token from there was worth nothing.
    pub fn failed(&mut self, now: Time, host: RemoteHost) {
        self.failed.retain(|_, (_, first)| now < *first + WINDOW);
        if self.failed.len() >= HOSTS_MAX && !self.failed.contains_key(&host) {
            let oldest = self.failed.iter().min_by_key(|(_, (_, first))| *first).map(|(host, _)| *host);
            oldest.and_then(|oldest| self.failed.remove(&oldest));
        }
        self.failed.entry(host).or_insert((0, now)).0 += 1;
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    #[test]
    fn who_guesses_waits_and_others_do_not() {
        let mut logins = Logins::default();
        // A stranger on this machine is not to keep everybody else on it from logging in.
        let [guesser, other] = [65_533, 1_000].map(|uid| RemoteHost::Local(Some(uid)));
        for _ in 0..FAILURES_MAX {
            assert_eq!(logins.refuses(Time::ZERO, guesser), None);
            logins.failed(Time::ZERO, guesser);
        }
        assert_eq!(logins.refuses(Time::ZERO + Span::from_secs(1), guesser), Some(Span::from_secs(59)));
        assert_eq!(logins.refuses(Time::ZERO, other), None);
        assert_eq!(logins.refuses(Time::ZERO + WINDOW, guesser), None);
    }

    #[test]
    fn a_host_with_many_addresses_is_one() {
        let mut logins = Logins::default();
        let network = [0x2001, 0xdb8, 0, 1];
        for _ in 0..FAILURES_MAX {
            logins.failed(Time::ZERO, RemoteHost::V6(network));
        }
        assert!(logins.refuses(Time::ZERO, RemoteHost::V6(network)).is_some());
        assert_eq!(logins.refuses(Time::ZERO, RemoteHost::V6([0x2001, 0xdb8, 0, 2])), None);
    }

    #[test]
    fn many_hosts_are_bounded() {
        let mut logins = Logins::default();
        for bits in 0..10_000_u32 {
            logins.failed(Time::ZERO + Span::from_ns(u64::from(bits)), RemoteHost::V4(Ipv4Addr::from_bits(bits)));
        }
        assert_eq!(logins.failed.len(), HOSTS_MAX);
    }
}
