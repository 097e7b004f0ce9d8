//! What a bond is configured to do: the options of the Linux kernel's bonding document (`Documentation/networking/bonding.rst`),
//! under their kernel names and with their kernel numbers.
//!
//! Invariant: an option is held only if the mode takes it; [`Config::set`] refuses the others, and the message says which
//! modes do. The kernel accepts some of them silently and without effect.

mod names;
mod options;

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

use machine::Span;

pub use names::{AdSelect, ArpAllTargets, ArpValidate, FailOverMac, HashPolicy, LacpRate, Mode, PrimaryReselect};
pub use options::Value;

/// Targets of link monitoring, of each address family (the kernel's `BOND_MAX_ARP_TARGETS`).
pub const TARGETS_MAX: usize = 16;

/// What is wrong with an option.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// No such option.
    #[error("a bond has no option `{name}`")]
    Unknown {
        /// The name as it was written.
        name: String,
    },
    /// The value cannot be read or is out of range.
    #[error("{name}: `{value}` is not {expected}")]
    Value {
        /// Kernel name of the option.
        name: &'static str,
        /// The value as it was written.
        value: String,
        /// What would be right.
        expected: String,
    },
    /// The mode does not use the option.
    #[error("{name} has no meaning in mode {mode}; it is for {}", modes_listed(*.modes))]
    Mode {
        /// Kernel name of the option.
        name: &'static str,
        /// The bond's mode.
        mode: Mode,
        /// The modes that take it: bit *n* for mode *n*.
        modes: u8,
    },
    /// Two options exclude each other, or one needs another.
    #[error("{name} {problem}")]
    Together {
        /// Kernel name of the option.
        name: &'static str,
        /// What it lacks or what it clashes with.
        problem: &'static str,
    },
}

fn modes_listed(modes: u8) -> String {
    let names: Vec<_> = Mode::ALL.iter().filter(|mode| modes >> mode.number() & 1 == 1).map(Mode::to_string).collect();
    names.join(", ")
}

/// Follows the load in hashed modes (as Open vSwitch's balance-tcp does; the kernel's driver has nothing like it).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rebalance {
    /// At most one bucket is re-mapped in this time.
    pub interval: Span,
    /// A bucket moves only when nothing was sent in it for this long, so that no flow is reordered.
    pub gap: Span,
}

impl Default for Rebalance {
    /// A second, as is usual for Open vSwitch's balancing in tests; and 500 us, more than what two members' queues differ by.
    fn default() -> Self {
        Self { interval: Span::from_secs(1), gap: Span::from_us(500) }
    }
}

/// The options of one bond. Times are exact: the kernel rounds `updelay` and `downdelay` to its polling interval, which is
/// not needed where carrier changes are events.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// `mode`: which member sends.
    pub mode: Mode,
    /// `xmit_hash_policy`; `layer2` by default.
    pub policy: HashPolicy,
    /// `packets_per_slave`: packets before the turn passes; 0 chooses a member at random for each. 1 by default.
    pub packets_per_slave: u16,
    /// `primary`: the member's name.
    pub primary: Option<String>,
    /// `primary_reselect`: when the primary becomes active again.
    pub primary_reselect: PrimaryReselect,
    /// `fail_over_mac`: what happens to members' MAC addresses at a fail-over.
    pub fail_over_mac: FailOverMac,
    /// `miimon`: how often the driver looks at carriers that it gets no events of; zero is never.
    pub miimon: Span,
    /// `updelay`: from carrier to use.
    pub updelay: Span,
    /// `downdelay`: from loss of carrier to giving up.
    pub downdelay: Span,
    /// `arp_interval`: between probes; zero is no probing.
    pub arp_interval: Span,
    /// `arp_ip_target`: the IPv4 addresses that are probed.
    pub arp_ip_target: Vec<Ipv4Addr>,
    /// `ns_ip6_target`: the IPv6 addresses that are probed.
    pub ns_ip6_target: Vec<Ipv6Addr>,
    /// `arp_validate`: which members' arrivals must be answers to probes.
    pub arp_validate: ArpValidate,
    /// `arp_all_targets`: whether one target must answer or all.
    pub arp_all_targets: ArpAllTargets,
    /// `arp_missed_max`: intervals without an answer before a member is down; 2 by default.
    pub arp_missed_max: u8,
    /// `min_links`: members that must distribute before the bond has carrier.
    pub min_links: u8,
    /// `all_slaves_active`: frames that arrive on inactive members are delivered.
    pub all_slaves_active: bool,
    /// `num_grat_arp` (also `num_unsol_na`): announcements after a fail-over; 1 by default.
    pub num_grat_arp: u8,
    /// `peer_notif_delay`: between announcements; zero is as `miimon`.
    pub peer_notif_delay: Span,
    /// `resend_igmp`: how often memberships are reported again after a fail-over; 1 by default.
    pub resend_igmp: u8,
    /// `lp_interval`: between learning frames; 1 s by default.
    pub lp_interval: Span,
    /// `tlb_dynamic_lb`: by load; else by hash.
    pub tlb_dynamic_lb: bool,
    /// `lacp_rate`: how often the partner is asked for LACPDUs.
    pub lacp_rate: LacpRate,
    /// `lacp_active`: whether LACPDUs are sent before the partner sends any.
    pub lacp_active: bool,
    /// `ad_select`: which aggregate is used.
    pub ad_select: AdSelect,
    /// `ad_actor_sys_prio`, 1 to 65535; 65535 by default.
    pub ad_actor_sys_prio: u16,
    /// `ad_actor_system`; without it the bond's own address.
    pub ad_actor_system: Option<[u8; 6]>,
    /// `ad_user_port_key`, 0 to 1023.
    pub ad_user_port_key: u16,
    /// `rebalance`: an option of Heddle that the kernel does not have.
    pub rebalance: Option<Rebalance>,
}

impl Config {
    /// The kernel's defaults for `mode`.
    pub fn new(mode: Mode) -> Self {
        Self {
            mode,
            policy: HashPolicy::Layer2,
            packets_per_slave: 1,
            primary: None,
            primary_reselect: PrimaryReselect::Always,
            fail_over_mac: FailOverMac::None,
            miimon: Span::ZERO,
            updelay: Span::ZERO,
            downdelay: Span::ZERO,
            arp_interval: Span::ZERO,
            arp_ip_target: Vec::new(),
            ns_ip6_target: Vec::new(),
            arp_validate: ArpValidate::default(),
            arp_all_targets: ArpAllTargets::Any,
            arp_missed_max: 2,
            min_links: 0,
            all_slaves_active: false,
            num_grat_arp: 1,
            peer_notif_delay: Span::ZERO,
            resend_igmp: 1,
            lp_interval: Span::from_secs(1),
            tlb_dynamic_lb: true,
            lacp_rate: LacpRate::Slow,
            lacp_active: true,
            ad_select: AdSelect::Stable,
            ad_actor_sys_prio: u16::MAX,
            ad_actor_system: None,
            ad_user_port_key: 0,
            rebalance: None,
        }
    }

    /// A whole configuration from names and values, `mode` among them (balance-rr without), in any order.
    ///
    /// # Errors
    /// The first [`Error`] of [`Config::set`] or [`Config::check`].
    pub fn from_options<'a>(options: &[(&'a str, &'a str)]) -> Result<Self, Error> {
        let mode = options.iter().rev().find(|(name, _)| *name == "mode");
        let mut config = Self::new(mode.map_or(Ok(Mode::BalanceRr), |(_, value)| value.parse())?);
        for (name, value) in options.iter().filter(|(name, _)| *name != "mode") {
            config.set(name, value)?;
        }
        config.check()?;
        Ok(config)
    }

    /// Sets one option by its kernel name; values are names or numbers as the kernel takes them, times in milliseconds, lists
    /// separated by commas. Nothing changes if there is an error.
    ///
    /// # Errors
    /// [`Error::Unknown`], [`Error::Value`]; [`Error::Mode`] if the mode has no use for it.
    pub fn set(&mut self, name: &str, value: &str) -> Result<(), Error> {
        options::set(self, name, value.trim())
    }

    /// Sets one option by its kernel name to a value. Nothing changes if there is an error.
    ///
    /// # Errors
    /// As [`Config::set`].
    pub fn set_value(&mut self, name: &str, value: &Value) -> Result<(), Error> {
        options::set_value(self, name, value)
    }

    /// The names that [`Config::set`] takes in a mode, `mode` itself left out.
    pub fn option_names(mode: Mode) -> impl Iterator<Item = &'static str> {
        options::names(mode)
    }

    /// Whether the options fit together.
    ///
    /// # Errors
    /// [`Error::Together`]
    pub fn check(&self) -> Result<(), Error> {
        let probes = self.arp_interval != Span::ZERO;
        let targets = !self.arp_ip_target.is_empty() || !self.ns_ip6_target.is_empty();
        let problem = match () {
            () if probes && self.miimon != Span::ZERO => {
                ("arp_interval", "excludes miimon: members are watched in one way")
            }
            () if probes && !targets => ("arp_interval", "needs arp_ip_target or ns_ip6_target"),
            () if targets && !probes => ("arp_ip_target", "needs arp_interval"),
            () if self.arp_validate != ArpValidate::default() && !probes => ("arp_validate", "needs arp_interval"),
            () if self.rebalance.is_some() && self.mode == Mode::BalanceTlb && self.tlb_dynamic_lb => {
                ("rebalance", "needs tlb_dynamic_lb=0: otherwise balance-tlb follows the load by itself")
            }
            () => return Ok(()),
        };
        Err(Error::Together { name: problem.0, problem: problem.1 })
    }

    /// The policy by which frames are hashed, if they are: balance-alb goes by peers while it follows the load.
    #[inline]
    pub fn hashes_by(&self) -> Option<HashPolicy> {
        let by_peer = self.mode == Mode::BalanceAlb && self.tlb_dynamic_lb;
        (self.mode.takes_policy() && !by_peer).then_some(self.policy)
    }

    /// Whether peers are told members' addresses, and not one that stays: balance-alb, where each peer may be told another one, and
    /// `fail_over_mac=active`, where it is the active member's.
    #[inline]
    pub fn answers_by_member(&self) -> bool {
        match self.mode {
            Mode::BalanceAlb => true,
            Mode::ActiveBackup => self.fail_over_mac == FailOverMac::Active,
            _ => false,
        }
    }

    /// All targets of probing, IPv4 first.
    pub fn targets(&self) -> impl Iterator<Item = IpAddr> + '_ {
        let v6 = self.ns_ip6_target.iter().map(|&target| IpAddr::V6(target));
        self.arp_ip_target.iter().map(|&target| IpAddr::V4(target)).chain(v6)
    }
}

impl fmt::Display for Config {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.mode)?;
        if self.mode.takes_policy() { write!(f, " ({})", self.policy) } else { Ok(()) }
    }
}

impl FromStr for Config {
    type Err = Error;

    /// `mode=1,primary=eth0` or the same with spaces, as module options are written.
    fn from_str(text: &str) -> Result<Self, Error> {
        let pairs: Vec<_> = text.split_whitespace().map(|pair| pair.split_once('=').unwrap_or((pair, ""))).collect();
        Self::from_options(&pairs)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modes_and_values_go_by_name_or_number() {
        for (number, name) in
            ["balance-rr", "active-backup", "balance-xor", "broadcast", "802.3ad", "balance-tlb", "balance-alb"]
                .into_iter()
                .enumerate()
        {
            assert_eq!(name.parse::<Mode>(), number.to_string().parse::<Mode>());
            assert_eq!(name.parse::<Mode>().unwrap().to_string(), name);
        }
        let config =
            Config::from_options(&[("lacp_rate", "1"), ("mode", "4"), ("xmit_hash_policy", "layer3+4")]).unwrap();
        assert_eq!((config.mode, config.lacp_rate, config.policy), (Mode::Ad8023, LacpRate::Fast, HashPolicy::Layer34));
        assert_eq!(config.to_string(), "802.3ad (layer3+4)");
    }

    #[test]
    fn an_option_that_does_not_fit_the_mode_says_which_modes_take_it() {
        let message = |options: &[(&str, &str)]| Config::from_options(options).unwrap_err().to_string();
        assert_eq!(
            message(&[("mode", "0"), ("lacp_rate", "fast")]),
            "lacp_rate has no meaning in mode balance-rr; it is for 802.3ad"
        );
        assert_eq!(
            message(&[("mode", "802.3ad"), ("primary", "eth0")]),
            "primary has no meaning in mode 802.3ad; it is for active-backup, balance-tlb, balance-alb"
        );
        assert_eq!(message(&[("colour", "red")]), "a bond has no option `colour`");
        assert_eq!(
            message(&[("mode", "7")]),
            "mode: `7` is not one of balance-rr (0), active-backup (1), balance-xor (2), broadcast (3), 802.3ad (4), \
             balance-tlb (5), balance-alb (6)"
        );
        assert_eq!(
            message(&[("packets_per_slave", "65536")]),
            "packets_per_slave: `65536` is not a number from 0 to 65535"
        );
    }

    #[test]
    fn options_are_checked_together() {
        let message = |text: &str| text.parse::<Config>().unwrap_err().to_string();
        assert_eq!(message("mode=1 arp_interval=100"), "arp_interval needs arp_ip_target or ns_ip6_target");
        assert_eq!(
            message("mode=1 arp_interval=100 arp_ip_target=10.0.0.1,10.0.0.2 miimon=100"),
            "arp_interval excludes miimon: members are watched in one way"
        );
        assert_eq!(message("mode=1 arp_validate=all"), "arp_validate needs arp_interval");
        let config: Config = "mode=1 arp_interval=100 arp_ip_target=10.0.0.1 ns_ip6_target=fd00::1".parse().unwrap();
        assert_eq!(config.targets().count(), 2);
    }

    #[test]
    fn more_targets_than_the_kernel_takes_are_refused() {
        let targets = vec!["10.0.0.1"; TARGETS_MAX + 1].join(",");
        let error = Config::new(Mode::ActiveBackup).set("arp_ip_target", &targets).unwrap_err();
        assert!(error.to_string().ends_with("is not 1 to 16 IPv4 addresses"), "{error}");
    }

    #[test]
    fn an_error_changes_nothing() {
        let mut config = Config::new(Mode::BalanceXor);
        config.set("updelay", "200").unwrap();
        assert_eq!(config.updelay, Span::from_ms(200));
        let before = config.clone();
        assert!(config.set("updelay", "-1").is_err());
        assert!(config.set("num_grat_arp", "3").is_err());
        assert_eq!(config, before);
    }
}
