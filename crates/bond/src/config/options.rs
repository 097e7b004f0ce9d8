//! The table of options: name, modes, how the value is read.

use std::ops::RangeInclusive;
use std::str::FromStr;

use machine::Span;

use super::{Config, Error, Mode, Rebalance, TARGETS_MAX};

/// Reads a value into a configuration; `Err` says what was expected.
type Set = fn(&mut Config, &str) -> Result<(), String>;

/// What a value is.
enum Value {
    /// What this reads.
    Text(Set),
    /// A time in milliseconds, up to so many.
    Time { field: fn(&mut Config) -> &mut Span, ms_max: u32 },
}

struct Entry {
    name: &'static str,
    modes: u8,
    value: Value,
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

const fn entry(name: &'static str, modes: u8, set: Set) -> Entry {
    Entry { name, modes, value: Value::Text(set) }
}

const fn time(name: &'static str, modes: u8, ms_max: u32, field: fn(&mut Config) -> &mut Span) -> Entry {
    Entry { name, modes, value: Value::Time { field, ms_max } }
}

const ENTRIES: &[Entry] = &[
    entry("xmit_hash_policy", HASHED, |c, v| named(&mut c.policy, v)),
    entry("packets_per_slave", RR, |c, v| number(&mut c.packets_per_slave, v, &(0..=u16::MAX))),
    entry("primary", ACTIVE, |c, v| {
        if v.is_empty() {
            return Err("a member's name".into());
        }
        c.primary = Some(v.to_owned());
        Ok(())
    }),
    entry("primary_reselect", ACTIVE, |c, v| named(&mut c.primary_reselect, v)),
    entry("fail_over_mac", BACKUP, |c, v| named(&mut c.fail_over_mac, v)),
    time("miimon", EVERY, MS_MAX, |c| &mut c.miimon),
    time("updelay", EVERY, MS_MAX, |c| &mut c.updelay),
    time("downdelay", EVERY, MS_MAX, |c| &mut c.downdelay),
    time("arp_interval", PROBED, MS_MAX, |c| &mut c.arp_interval),
    entry("arp_ip_target", PROBED, |c, v| addresses(&mut c.arp_ip_target, v, "IPv4")),
    entry("ns_ip6_target", PROBED, |c, v| addresses(&mut c.ns_ip6_target, v, "IPv6")),
    entry("arp_validate", PROBED, |c, v| named(&mut c.arp_validate, v)),
    entry("arp_all_targets", BACKUP, |c, v| named(&mut c.arp_all_targets, v)),
    entry("arp_missed_max", PROBED, |c, v| number(&mut c.arp_missed_max, v, &(1..=u8::MAX))),
    entry("min_links", AD, |c, v| number(&mut c.min_links, v, &(0..=crate::MEMBERS_MAX as u8))),
    entry("all_slaves_active", ACTIVE | AD, |c, v| flag(&mut c.all_slaves_active, v)),
    entry("num_grat_arp", BACKUP, |c, v| number(&mut c.num_grat_arp, v, &(0..=u8::MAX))),
    entry("num_unsol_na", BACKUP, |c, v| number(&mut c.num_grat_arp, v, &(0..=u8::MAX))),
    time("peer_notif_delay", BACKUP, 300_000, |c| &mut c.peer_notif_delay),
    entry("resend_igmp", RR | ACTIVE, |c, v| number(&mut c.resend_igmp, v, &(0..=u8::MAX))),
    entry("lp_interval", LOAD, |c, v| {
        let mut seconds = 0_u32;
        number(&mut seconds, v, &(1..=0x7fff_ffff))?;
        c.lp_interval = Span::from_secs(u64::from(seconds));
        Ok(())
    }),
    entry("tlb_dynamic_lb", LOAD, |c, v| flag(&mut c.tlb_dynamic_lb, v)),
    entry("lacp_rate", AD, |c, v| named(&mut c.lacp_rate, v)),
    entry("lacp_active", AD, |c, v| flag(&mut c.lacp_active, v)),
    entry("ad_select", AD, |c, v| named(&mut c.ad_select, v)),
    entry("ad_actor_sys_prio", AD, |c, v| number(&mut c.ad_actor_sys_prio, v, &(1..=u16::MAX))),
    entry("ad_actor_system", AD, |c, v| {
        c.ad_actor_system = Some(unicast_mac(v).ok_or("a unicast MAC address such as 02:00:00:00:00:01")?);
        Ok(())
    }),
    entry("ad_user_port_key", AD, |c, v| number(&mut c.ad_user_port_key, v, &(0..=1_023))),
    entry("rebalance", HASHED & !Mode::BalanceAlb.bit(), |c, v| {
        let mut on = false;
        flag(&mut on, v)?;
        c.rebalance = on.then(|| c.rebalance.unwrap_or_default());
        Ok(())
    }),
    entry("rebalance_interval", HASHED & !Mode::BalanceAlb.bit(), |c, v| {
        let mut interval = Span::ZERO;
        milliseconds(&mut interval, v, MS_MAX)?;
        if interval == Span::ZERO {
            return Err("a number of milliseconds above 0".into());
        }
        c.rebalance = Some(Rebalance { interval, ..c.rebalance.unwrap_or_default() });
        Ok(())
    }),
    entry("rebalance_gap_us", HASHED & !Mode::BalanceAlb.bit(), |c, v| {
        let mut gap_us = 0_u32;
        number(&mut gap_us, v, &(0..=1_000_000))?;
        c.rebalance = Some(Rebalance { gap: Span::from_us(u64::from(gap_us)), ..c.rebalance.unwrap_or_default() });
        Ok(())
    }),
];

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
    let Entry { name, value: kind, .. } = find(config.mode, name)?;
    let read = match kind {
        Value::Text(set) => set(config, value),
        Value::Time { field, ms_max } => milliseconds(field(config), value, *ms_max),
    };
    read.map_err(|expected| Error::Value { name, value: value.to_owned(), expected })
}

/// See [`Config::set_time`].
pub(super) fn set_time(config: &mut Config, name: &str, time: Span) -> Result<(), Error> {
    let Entry { name, value, .. } = find(config.mode, name)?;
    let expected = match value {
        Value::Text(_) => "no time".to_owned(),
        Value::Time { ms_max, .. } if time > Span::from_ms(u64::from(*ms_max)) => milliseconds_up_to(*ms_max),
        Value::Time { field, .. } => {
            *field(config) = time;
            return Ok(());
        }
    };
    Err(Error::Value { name, value: time.to_string(), expected })
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

fn number<T>(place: &mut T, value: &str, limits: &RangeInclusive<T>) -> Result<(), String>
where
    T: FromStr + PartialOrd + std::fmt::Display,
{
    let read = value.parse().ok().filter(|read| limits.contains(read));
    *place = read.ok_or_else(|| format!("a number from {} to {}", limits.start(), limits.end()))?;
    Ok(())
}

fn milliseconds(place: &mut Span, value: &str, ms_max: u32) -> Result<(), String> {
    let read = value.parse::<u32>().ok().filter(|&ms| ms <= ms_max);
    *place = Span::from_ms(u64::from(read.ok_or_else(|| milliseconds_up_to(ms_max))?));
    Ok(())
}

fn milliseconds_up_to(ms_max: u32) -> String {
    if ms_max == MS_MAX { "a number of milliseconds".to_owned() } else { format!("a number from 0 to {ms_max}") }
}

fn flag(place: &mut bool, value: &str) -> Result<(), String> {
    *place = match value {
        "0" | "off" | "false" => false,
        "1" | "on" | "true" => true,
        _ => return Err("0 (off) or 1 (on)".into()),
    };
    Ok(())
}

fn addresses<T: FromStr>(place: &mut Vec<T>, value: &str, family: &str) -> Result<(), String> {
    let read: Result<Vec<T>, _> = value.split(',').map(|address| address.trim().parse()).collect();
    let read = read.ok().filter(|read| read.len() <= TARGETS_MAX);
    *place = read.ok_or_else(|| format!("1 to {TARGETS_MAX} {family} addresses"))?;
    Ok(())
}

fn unicast_mac(value: &str) -> Option<[u8; 6]> {
    let mut mac = [0; 6];
    let mut parts = value.split(':');
    for byte in &mut mac {
        let part = parts.next().filter(|part| part.len() == 2 && part.bytes().all(|c| c.is_ascii_hexdigit()))?;
        *byte = u8::from_str_radix(part, 16).ok()?;
    }
    (parts.next().is_none() && mac[0] & 1 == 0 && mac != [0; 6]).then_some(mac)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_systems_are_unicast() {
        assert_eq!(unicast_mac("02:00:00:00:00:0a"), Some([2, 0, 0, 0, 0, 10]));
        for wrong in [
            "03:00:00:00:00:0a",
            "00:00:00:00:00:00",
            "02:00:00:00:00",
            "02:00:00:00:00:0a:0b",
            "2:0:0:0:0:a",
            "+2:00:00:00:00:0a",
        ] {
            assert_eq!(unicast_mac(wrong), None, "{wrong}");
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

    #[test]
    fn a_time_reaches_the_option_that_it_is_set_for_and_no_other() {
        for Entry { name, modes, value } in ENTRIES {
            let mode = *Mode::ALL.iter().find(|mode| modes & mode.bit() != 0).unwrap();
            let mut config = Config::new(mode);
            let exact = Span::from_us(1_500);
            let set = set_time(&mut config, name, exact);
            match value {
                Value::Text(_) => assert!(matches!(set, Err(Error::Value { .. })), "{name}"),
                Value::Time { field, ms_max } => {
                    assert_eq!((set, *field(&mut config)), (Ok(()), exact), "{name}");
                    *field(&mut config) = *field(&mut Config::new(mode));
                    let late = Span::from_ms(u64::from(*ms_max) + 1);
                    assert!(set_time(&mut config, name, late).is_err(), "{name}");
                }
            }
            assert_eq!(config, Config::new(mode), "{name}");
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
