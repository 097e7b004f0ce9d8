//! What the operator sets, by the names and numbers of the Linux bonding document.

use machine::Span;

use crate::config::{AdSelect, Config, LacpRate};

/// How long a port waits for others before it attaches.
///
/// The standard has 2 s (6.4.4, `Aggregate_Wait_Time`), so that ports which come up together attach together: hardware may have
/// to stop the aggregate's traffic for each. Here attaching disturbs nobody, so that the wait only keeps the choice of the
/// active aggregate from being made on the first port alone.
pub const AGGREGATE_WAIT: Span = Span::from_ms(500);

/// What the operator sets for one bond.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// The system's address; Linux takes the bond's (`ad_actor_system`).
    pub system: [u8; 6],
    /// The system's priority; less goes first (`ad_actor_sys_prio`).
    pub system_priority: u16,
    /// Upper ten bits of every port's key; bits above are ignored (`ad_user_port_key`).
    pub user_key: u16,
    /// How often partners are asked to send (`lacp_rate`).
    pub rate: LacpRate,
    /// Whether LACPDUs are sent to a partner that has sent none (`lacp_active`).
    pub active: bool,
    /// Which aggregate is used if there are several (`ad_select`).
    pub ad_select: AdSelect,
    /// The bond has a carrier while so many ports distribute, one at least (`min_links`).
    pub min_links: u8,
    /// How long a port waits for others before it attaches.
    pub aggregate_wait: Span,
}

impl Settings {
    /// The kernel's defaults for a bond with this address, but for the wait ([`AGGREGATE_WAIT`]).
    pub const fn new(system: [u8; 6]) -> Self {
        Self {
            system,
            system_priority: 0xffff,
            user_key: 0,
            rate: LacpRate::Slow,
            active: true,
            ad_select: AdSelect::Stable,
            min_links: 0,
            aggregate_wait: AGGREGATE_WAIT,
        }
    }

    /// What a bond's configuration says, for a bond with this address.
    pub fn of(config: &Config, mac: [u8; 6]) -> Self {
        Self {
            system: config.ad_actor_system.unwrap_or(mac),
            system_priority: config.ad_actor_sys_prio,
            user_key: config.ad_user_port_key,
            rate: config.lacp_rate,
            active: config.lacp_active,
            ad_select: config.ad_select,
            min_links: config.min_links,
            aggregate_wait: AGGREGATE_WAIT,
        }
    }
}

/// The key of a port: the user's ten bits, five of speed, one of duplex, as Linux builds it.
///
/// A speed that Linux has no code for is 0: ports of unknown speed go together, as those of TAPs do.
pub(super) fn key(user_key: u16, speed_mbps: u32, full_duplex: bool) -> u16 {
    const SPEEDS_MBPS: [u32; 17] = [
        1, 10, 100, 1_000, 2_500, 5_000, 10_000, 14_000, 20_000, 25_000, 40_000, 50_000, 56_000, 100_000, 200_000,
        400_000, 800_000,
    ];
    let code = SPEEDS_MBPS.iter().position(|&speed| speed == speed_mbps).map_or(0, |index| index as u16 + 1);
    user_key << 6 | code << 1 | u16::from(full_duplex)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_those_of_linux() {
        // A bond of Linux over 1 Gbit/s and 10 Gbit/s shows the keys 9 and 15 in /proc/net/bonding.
        assert_eq!(key(0, 1_000, true), 9);
        assert_eq!(key(0, 10_000, true), 15);
        assert_eq!(key(0, 100, false), 6);
        assert_eq!(key(3, 1_000, true), 3 * 64 + 9);
        assert_eq!(key(0, 12_345, true), 1);
    }

    #[test]
    fn a_configuration_without_options_is_the_default() {
        let mut config = Config::new(crate::config::Mode::Ad8023);
        assert_eq!(Settings::of(&config, [2; 6]), Settings::new([2; 6]));
        config.ad_actor_system = Some([4; 6]);
        assert_eq!(Settings::of(&config, [2; 6]), Settings::new([4; 6]));
    }
}
