//! Failed log-ins by address: who guesses is not listened to for a while.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};

use machine::{Span, Time};

/// So many tokens that are worth nothing may come from one address within [`WINDOW`].
const FAILURES_MAX: u32 = 10;

/// After so long they are forgotten.
const WINDOW: Span = Span::from_secs(60);

/// Addresses that are remembered; of more, the one that failed first is forgotten.
const ADDRESSES_MAX: usize = 4_096;

/// What is remembered.
#[derive(Debug, Default)]
pub(super) struct Logins {
    /// How many, and when the first was.
    failed: HashMap<IpAddr, (u32, Time)>,
}

/// What counts as one: of IPv6, a network of 64 bits, which is what one host can choose from.
fn one(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(ip) => IpAddr::V6(Ipv6Addr::from_bits(ip.to_bits() >> 64 << 64)),
        v4 @ IpAddr::V4(_) => v4,
    }
}

impl Logins {
    /// For how long nobody at this address may log in with a token; none: he may.
    pub fn refuses(&mut self, now: Time, address: IpAddr) -> Option<Span> {
        let address = one(address);
        let (count, first) = *self.failed.get(&address)?;
        if now >= first + WINDOW {
            self.failed.remove(&address);
            return None;
        }
        (count >= FAILURES_MAX).then(|| (first + WINDOW).since(now))
    }

    /// A token from there was worth nothing.
    pub fn failed(&mut self, now: Time, address: IpAddr) {
        let address = one(address);
        self.failed.retain(|_, (_, first)| now < *first + WINDOW);
        if self.failed.len() >= ADDRESSES_MAX && !self.failed.contains_key(&address) {
            let oldest = self.failed.iter().min_by_key(|(_, (_, first))| *first).map(|(address, _)| *address);
            oldest.and_then(|oldest| self.failed.remove(&oldest));
        }
        self.failed.entry(address).or_insert((0, now)).0 += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_guesses_waits_and_others_do_not() {
        let mut logins = Logins::default();
        let [guesser, other]: [IpAddr; 2] = ["10.0.0.1", "10.0.0.2"].map(|ip| ip.parse().unwrap());
        for _ in 0..FAILURES_MAX {
            assert_eq!(logins.refuses(Time::ZERO, guesser), None);
            logins.failed(Time::ZERO, guesser);
        }
        assert_eq!(logins.refuses(Time::ZERO + Span::from_secs(1), guesser), Some(Span::from_secs(59)));
        assert_eq!(logins.refuses(Time::ZERO, other), None);
        assert_eq!(logins.refuses(Time::ZERO + WINDOW, guesser), None);
    }

    #[test]
    fn many_addresses_are_bounded_and_a_network_of_ipv6_is_one() {
        let mut logins = Logins::default();
        for bits in 0..10_000_u32 {
            logins.failed(Time::ZERO + Span::from_ns(u64::from(bits)), IpAddr::V4(bits.into()));
        }
        assert_eq!(logins.failed.len(), ADDRESSES_MAX);
        for host in 1..=FAILURES_MAX {
            logins.failed(Time::ZERO, format!("fd00::{host:x}").parse().unwrap());
        }
        assert!(logins.refuses(Time::ZERO, "fd00::ffff".parse().unwrap()).is_some());
    }
}
