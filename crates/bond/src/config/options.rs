//! The table of options: name, modes, how the value is read.

use std::fmt;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::ops::RangeInclusive;
use std::str::FromStr;

use machine::Span;

use super::{Config, Error, Mode, Rebalance, TARGETS_MAX};

/// The value of an option, as [`Config::set_value`] takes it. Shown as the kernel writes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value {
    /// One of the names or numbers that the option has; a member's name.
    Word(String),
    /// A number in the option's unit.
    Number(u32),
    /// On or off.
    Flag(bool),
    /// A time, exactly: the kernel knows whole milliseconds only.
    Time(Span),
    /// A MAC address.
    Mac([u8; 6]),
    /// Targets of probing.
    Ipv4(Vec<Ipv4Addr>),
    /// Targets of probing.
    Ipv6(Vec<Ipv6Addr>),
    /// `rebalance`, which the kernel doesn't have; `None` is off.
    Rebalance(Option<Rebalance>),
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fn list<T: fmt::Display>(addresses: &[T], f: &mut fmt::Formatter<'_>) -> fmt::Result {
            addresses
                .iter()
                .enumerate()
                .try_for_each(|(at, address)| write!(f, "{}{address}", if at > 0 { "," } else { "" }))
        }
        match self {
            Self::Word(word) => f.write_str(word),
            Self::Number(number) => number.fmt(f),
            Self::Flag(on) => f.write_str(if *on { "on" } else { "off" }),
            Self::Time(time) => time.fmt(f),
            Self::Mac(mac) => {
                let separator = |at| if at > 0 { ":" } else { "" };
                mac.iter().enumerate().try_for_each(|(at, byte)| write!(f, "{}{byte:02x}", separator(at)))
            }
            Self::Ipv4(addresses) => list(addresses, f),
            Self::Ipv6(addresses) => list(addresses, f),
            Self::Rebalance(rebalance) => f.write_str(if rebalance.is_some() { "on" } else { "off" }),
        }
    }
}

/// What the values of an option are, and where they go.
enum Kind {
    /// Words, which this reads; `Err` says what was expected.
    Word(fn(&mut Config, &str) -> Result<(), String>),
    /// Numbers within limits.
    Number {
        limits: RangeInclusive<u32>,
        set: fn(&mut Config, u32),
    },
    Flag(fn(&mut Config) -> &mut bool),
    /// Times up to so many milliseconds.
    Time {
        field: fn(&mut Config) -> &mut Span,
        ms_max: u32,
    },
    /// Addresses of one system.
    Mac(fn(&mut Config) -> &mut Option<[u8; 6]>),
    Ipv4(fn(&mut Config) -> &mut Vec<Ipv4Addr>),
    Ipv6(fn(&mut Config) -> &mut Vec<Ipv6Addr>),
    Rebalance,
}

struct Entry {
    name: &'static str,
    modes: u8,
    kind: Kind,
}

/// The kernel's limit of times, `INT_MAX`; it also keeps the sum of times far from overflow.
const MS_MAX: u32 = 0x7fff_ffff;

const EVERY: u8 = 0x7f;
const RR: u8 = Mode::BalanceRr.bit();
const BACKUP: u8 = Mode::ActiveBackup.bit();
const AD: u8 = Mode::Ad8023.bit();
const LOAD: u8 = Mode::BalanceTlb.bit() | Mode::BalanceAlb.bit();
const ACTIVE: u8 = BACKUP | LOAD;
const HASHED: u8 = Mode::BalanceXor.bit() | AD | LOAD;
/// The kernel refuses probing in 802.3ad, balance-tlb and balance-alb.
const PROBED: u8 = EVERY & !AD & !LOAD;
const REBALANCED: u8 = HASHED & !Mode::BalanceAlb.bit();

const fn entry(name: &'static str, modes: u8, kind: Kind) -> Entry {
    Entry { name, modes, kind }
}

const fn time(name: &'static str, modes: u8, ms_max: u32, field: fn(&mut Config) -> &mut Span) -> Entry {
    entry(name, modes, Kind::Time { field, ms_max })
}

const fn number(name: &'static str, modes: u8, limits: RangeInclusive<u32>, set: fn(&mut Config, u32)) -> Entry {
    entry(name, modes, Kind::Number { limits, set })
}

const MOST_U8: u32 = u8::MAX as u32;
const MOST_U16: u32 = u16::MAX as u32;

const ENTRIES: &[Entry] = &[
    entry("xmit_hash_policy", HASHED, Kind::Word(|c, v| named(&mut c.policy, v))),
    number("packets_per_slave", RR, 0..=MOST_U16, |c, v| c.packets_per_slave = v as u16),
    entry(
        "primary",
        ACTIVE,
        Kind::Word(|c, v| {
            if v.is_empty() {
                return Err("a member's name".into());
            }
            c.primary = Some(v.to_owned());
            Ok(())
        }),
    ),
    entry("primary_reselect", ACTIVE, Kind::Word(|c, v| named(&mut c.primary_reselect, v))),
    entry("fail_over_mac", BACKUP, Kind::Word(|c, v| named(&mut c.fail_over_mac, v))),
    time("miimon", EVERY, MS_MAX, |c| &mut c.miimon),
    time("updelay", EVERY, MS_MAX, |c| &mut c.updelay),
    time("downdelay", EVERY, MS_MAX, |c| &mut c.downdelay),
    time("arp_interval", PROBED, MS_MAX, |c| &mut c.arp_interval),
    entry("arp_ip_target", PROBED, Kind::Ipv4(|c| &mut c.arp_ip_target)),
    entry("ns_ip6_target", PROBED, Kind::Ipv6(|c| &mut c.ns_ip6_target)),
    entry("arp_validate", PROBED, Kind::Word(|c, v| named(&mut c.arp_validate, v))),
    entry("arp_all_targets", BACKUP, Kind::Word(|c, v| named(&mut c.arp_all_targets, v))),
    number("arp_missed_max", PROBED, 1..=MOST_U8, |c, v| c.arp_missed_max = v as u8),
    number("min_links", AD, 0..=crate::MEMBERS_MAX as u32, |c, v| c.min_links = v as u8),
    entry("all_slaves_active", ACTIVE | AD, Kind::Flag(|c| &mut c.all_slaves_active)),
    number("num_grat_arp", BACKUP, 0..=MOST_U8, |c, v| c.num_grat_arp = v as u8),
    number("num_unsol_na", BACKUP, 0..=MOST_U8, |c, v| c.num_grat_arp = v as u8),
    time("peer_notif_delay", BACKUP, 300_000, |c| &mut c.peer_notif_delay),
    number("resend_igmp", RR | ACTIVE, 0..=MOST_U8, |c, v| c.resend_igmp = v as u8),
    number("lp_interval", LOAD, 1..=0x7fff_ffff, |c, v| c.lp_interval = Span::from_secs(u64::from(v))),
    entry("tlb_dynamic_lb", LOAD, Kind::Flag(|c| &mut c.tlb_dynamic_lb)),
    entry("lacp_rate", AD, Kind::Word(|c, v| named(&mut c.lacp_rate, v))),
    entry("lacp_active", AD, Kind::Flag(|c| &mut c.lacp_active)),
    entry("ad_select", AD, Kind::Word(|c, v| named(&mut c.ad_select, v))),
    number("ad_actor_sys_prio", AD, 1..=MOST_U16, |c, v| c.ad_actor_sys_prio = v as u16),
    entry("ad_actor_system", AD, Kind::Mac(|c| &mut c.ad_actor_system)),
    number("ad_user_port_key", AD, 0..=1_023, |c, v| c.ad_user_port_key = v as u16),
    entry("rebalance", REBALANCED, Kind::Rebalance),
    entry(
        "rebalance_interval",
        REBALANCED,
        Kind::Word(|c, v| {
            let ms = v.parse().ok().filter(|ms| (1..=MS_MAX).contains(ms)).ok_or("a number of milliseconds above 0")?;
            let interval = Span::from_ms(u64::from(ms));
            c.rebalance = Some(Rebalance { interval, ..c.rebalance.unwrap_or_default() });
            Ok(())
        }),
    ),
    number("rebalance_gap_us", REBALANCED, 0..=1_000_000, |c, v| {
        c.rebalance = Some(Rebalance { gap: Span::from_us(u64::from(v)), ..c.rebalance.unwrap_or_default() });
    }),
];

impl Kind {
    /// Reads a value as the kernel takes it; `None`: it is none of this option.
    fn read(&self, config: &Config, text: &str) -> Option<Value> {
        Some(match self {
            Self::Word(_) => Value::Word(text.to_owned()),
            Self::Number { .. } => Value::Number(text.parse().ok()?),
            Self::Flag(_) => Value::Flag(flag(text)?),
            Self::Time { .. } => Value::Time(Span::from_ms(u64::from(text.parse::<u32>().ok()?))),
            Self::Mac(_) => Value::Mac(mac(text)?),
            Self::Ipv4(_) => Value::Ipv4(addresses(text)?),
            Self::Ipv6(_) => Value::Ipv6(addresses(text)?),
            // What was set of it by `rebalance_interval` and `rebalance_gap_us` stays.
            Self::Rebalance => Value::Rebalance(flag(text)?.then(|| config.rebalance.unwrap_or_default())),
        })
    }

    /// Puts a value where it belongs; `Err` says what was expected.
    fn set(&self, config: &mut Config, value: &Value) -> Result<(), String> {
        match (self, value) {
            (Self::Word(set), Value::Word(word)) => return set(config, word),
            (Self::Number { limits, set }, Value::Number(number)) if limits.contains(number) => set(config, *number),
            (Self::Flag(field), Value::Flag(on)) => *field(config) = *on,
            (Self::Time { field, ms_max }, Value::Time(time)) if *time <= Span::from_ms(u64::from(*ms_max)) => {
                *field(config) = *time;
            }
            (Self::Mac(field), Value::Mac(mac)) if is_unicast(*mac) => *field(config) = Some(*mac),
            (Self::Ipv4(field), Value::Ipv4(list)) if is_some_targets(list) => field(config).clone_from(list),
            (Self::Ipv6(field), Value::Ipv6(list)) if is_some_targets(list) => field(config).clone_from(list),
            (Self::Rebalance, Value::Rebalance(rebalance)) => config.rebalance = *rebalance,
            _ => return Err(self.expected()),
        }
        Ok(())
    }

    /// What values look like.
    fn expected(&self) -> String {
        match self {
            Self::Word(_) => "a word".to_owned(),
            Self::Number { limits, .. } => format!("a number from {} to {}", limits.start(), limits.end()),
            Self::Flag(_) | Self::Rebalance => "0 (off) or 1 (on)".to_owned(),
            Self::Time { ms_max: MS_MAX, .. } => "a number of milliseconds".to_owned(),
            Self::Time { ms_max, .. } => format!("a number from 0 to {ms_max}"),
            Self::Mac(_) => "a unicast MAC address such as 02:00:00:00:00:01".to_owned(),
            Self::Ipv4(_) => format!("1 to {TARGETS_MAX} IPv4 addresses"),
            Self::Ipv6(_) => format!("1 to {TARGETS_MAX} IPv6 addresses"),
        }
    }
}

/// See [`Config::option_names`].
pub(super) fn names(mode: Mode) -> impl Iterator<Item = &'static str> {
    ENTRIES.iter().filter(move |entry| entry.modes & mode.bit() != 0).map(|entry| entry.name)
}

/// See [`Config::set`].
pub(super) fn set(config: &mut Config, name: &str, value: &str) -> Result<(), Error> {
    if name == "mode" {
        // A mode is set first, since it decides which options there are; setting the same again is harmless.
        let mode: Mode = value.parse()?;
        if mode == config.mode {
            return Ok(());
        }
        return Err(Error::Together {
            name: "mode",
            problem: "comes first: make a new configuration for another mode",
        });
    }
    if name == "queue_id" {
        return Err(Error::Together {
            name: "queue_id",
            problem: "is a member's: it sends what tc has marked for a queue (skbedit). Frames have no such mark here; \
                      rules of a switch can send them where they should go",
        });
    }
    let Entry { name, kind, .. } = find(config.mode, name)?;
    let read = kind.read(config, value).ok_or_else(|| kind.expected()).and_then(|value| kind.set(config, &value));
    read.map_err(|expected| Error::Value { name, value: value.to_owned(), expected })
}

/// See [`Config::set_value`].
pub(super) fn set_value(config: &mut Config, name: &str, value: &Value) -> Result<(), Error> {
    let Entry { name, kind, .. } = find(config.mode, name)?;
    kind.set(config, value).map_err(|expected| Error::Value { name, value: value.to_string(), expected })
}

/// The option of this name, which has a use in a mode.
fn find(mode: Mode, name: &str) -> Result<&'static Entry, Error> {
    let found = ENTRIES.iter().find(|entry| entry.name == name);
    let entry = found.ok_or_else(|| Error::Unknown { name: name.to_owned() })?;
    let is_of_use = entry.modes & mode.bit() != 0;
    is_of_use.then_some(entry).ok_or(Error::Mode { name: entry.name, mode, modes: entry.modes })
}

fn named<T: FromStr<Err = Error>>(place: &mut T, value: &str) -> Result<(), String> {
    *place = value.parse().map_err(|error| match error {
        Error::Value { expected, .. } => expected,
        other => other.to_string(),
    })?;
    Ok(())
}

fn flag(text: &str) -> Option<bool> {
    match text {
        "0" | "off" | "false" => Some(false),
        "1" | "on" | "true" => Some(true),
        _ => None,
    }
}

fn addresses<T: FromStr>(text: &str) -> Option<Vec<T>> {
    text.split(',').map(|address| address.trim().parse().ok()).collect()
}

fn is_some_targets<T>(list: &[T]) -> bool {
    (1..=TARGETS_MAX).contains(&list.len())
}

fn mac(text: &str) -> Option<[u8; 6]> {
    let mut mac = [0; 6];
    let mut parts = text.split(':');
    for byte in &mut mac {
        let part = parts.next().filter(|part| part.len() == 2 && part.bytes().all(|c| c.is_ascii_hexdigit()))?;
        *byte = u8::from_str_radix(part, 16).ok()?;
    }
    parts.next().is_none().then_some(mac)
}

fn is_unicast(mac: [u8; 6]) -> bool {
    mac[0] & 1 == 0 && mac != [0; 6]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_systems_are_unicast() {
        let set = |text: &str| {
            let mut config = Config::new(Mode::Ad8023);
            set(&mut config, "ad_actor_system", text).map(|()| config.ad_actor_system)
        };
        assert_eq!(set("02:00:00:00:00:0a"), Ok(Some([2, 0, 0, 0, 0, 10])));
        for wrong in [
            "03:00:00:00:00:0a",
            "00:00:00:00:00:00",
            "02:00:00:00:00",
            "02:00:00:00:00:0a:0b",
            "2:0:0:0:0:a",
            "+2:00:00:00:00:0a",
        ] {
            assert!(matches!(set(wrong), Err(Error::Value { .. })), "{wrong}");
        }
    }

    #[test]
    fn a_mode_takes_the_names_it_lists() {
        for &mode in Mode::ALL {
            for name in names(mode) {
                let refused = set(&mut Config::new(mode), name, "no such value");
                assert!(!matches!(refused, Err(Error::Mode { .. } | Error::Unknown { .. })), "{mode} {name}");
            }
        }
        assert!(names(Mode::Broadcast).all(|name| name != "xmit_hash_policy"));
    }

    /// A value of an option that is not the one that it has by itself.
    fn another(entry: &Entry) -> Value {
        match entry.kind {
            Kind::Word(_) => Value::Word(if entry.name == "primary" { "eth1" } else { "1" }.to_owned()),
            Kind::Number { .. } => Value::Number(7),
            Kind::Flag(_) => Value::Flag(!matches!(entry.name, "tlb_dynamic_lb" | "lacp_active")),
            Kind::Time { .. } => Value::Time(Span::from_us(1_500)),
            Kind::Mac(_) => Value::Mac([2, 0, 0, 0, 0, 10]),
            Kind::Ipv4(_) => Value::Ipv4(vec![Ipv4Addr::new(10, 0, 0, 7), Ipv4Addr::new(10, 0, 0, 8)]),
            Kind::Ipv6(_) => Value::Ipv6(vec![Ipv6Addr::LOCALHOST]),
            Kind::Rebalance => Value::Rebalance(Some(Rebalance::default())),
        }
    }

    #[test]
    fn a_value_goes_where_its_text_goes_and_no_two_options_share_a_place() {
        let mut seen: Vec<(&str, Config)> = Vec::new();
        for entry in ENTRIES {
            let name = entry.name;
            let mode = *Mode::ALL.iter().find(|mode| entry.modes & mode.bit() != 0).unwrap();
            let value = another(entry);
            let mut config = Config::new(mode);
            set_value(&mut config, name, &value).unwrap();
            assert_ne!(config, Config::new(mode), "{name}");
            // The kernel knows whole milliseconds only.
            if !matches!(value, Value::Time(_)) {
                let mut written = Config::new(mode);
                set(&mut written, name, &value.to_string()).unwrap();
                assert_eq!(written, config, "{name}");
            }
            let twin = seen.iter().find(|(_, other)| *other == config).map(|(twin, _)| *twin);
            let shares = if name == "num_unsol_na" { Some("num_grat_arp") } else { None };
            assert_eq!(twin, shares, "{name} and {twin:?}");
            seen.push((name, config));
        }
    }

    #[test]
    fn values_of_another_kind_or_beyond_the_limits_are_refused() {
        for entry in ENTRIES {
            let name = entry.name;
            let mode = *Mode::ALL.iter().find(|mode| entry.modes & mode.bit() != 0).unwrap();
            let mut wrong: Vec<Value> = ENTRIES
                .iter()
                .filter(|other| std::mem::discriminant(&other.kind) != std::mem::discriminant(&entry.kind))
                .map(another)
                .collect();
            match &entry.kind {
                Kind::Number { limits, .. } => wrong.push(Value::Number(limits.end() + 1)),
                Kind::Time { ms_max, .. } => wrong.push(Value::Time(Span::from_ms(u64::from(*ms_max) + 1))),
                Kind::Mac(_) => wrong.extend([Value::Mac([0; 6]), Value::Mac([1, 0, 0, 0, 0, 10])]),
                Kind::Ipv4(_) => wrong.push(Value::Ipv4(Vec::new())),
                Kind::Ipv6(_) => wrong.push(Value::Ipv6(vec![Ipv6Addr::LOCALHOST; TARGETS_MAX + 1])),
                Kind::Word(_) => wrong.push(Value::Word(String::new())),
                Kind::Flag(_) | Kind::Rebalance => {}
            }
            for value in wrong {
                let mut config = Config::new(mode);
                let refused = set_value(&mut config, name, &value);
                assert!(matches!(refused, Err(Error::Value { .. })), "{name} {value}");
                assert_eq!(config, Config::new(mode), "{name} {value}");
            }
        }
    }

    #[test]
    fn every_option_has_a_mode_and_a_name_of_its_own() {
        for (at, entry) in ENTRIES.iter().enumerate() {
            assert_ne!(entry.modes & EVERY, 0, "{}", entry.name);
            assert!(ENTRIES[..at].iter().all(|other| other.name != entry.name), "{}", entry.name);
        }
    }
}
