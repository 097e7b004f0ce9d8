//! What a host's bond asks for to see whether its members live must be somebody else: a host does not answer questions about itself that come
//! back to it, so that such a bond would go down.

use std::net::IpAddr;

use bond::config::{ArpAllTargets, Value};

use super::ends::Settings;
use super::text::{BondText, EndText};
use crate::error::Problems;
use crate::source::{At, Place};
use topology::HostAddress;

/// One end, for [`check`].
pub(super) struct ProbedEnd<'a> {
    pub name: &'a str,
    /// `None`: a switch, which has none.
    pub address: Option<&'a HostAddress>,
    pub settings: &'a Settings,
    /// What is written for it alone.
    pub own: Option<&'a At<EndText>>,
}

/// Notes it where an end asks its own address whether it lives. One target of several may be its own, so that both ends can have the same
/// list, unless all of them have to answer. `None`: that is wrong.
pub(super) fn check(text: &At<BondText>, ends: &[ProbedEnd<'_>], problems: &mut Problems<'_>) -> Option<()> {
    let mut is_right = true;
    for end in ends {
        let Some(address) = end.address else { continue };
        let is_own = |target: &IpAddr| match target {
            IpAddr::V4(target) => *target == address.ipv4,
            IpAddr::V6(target) => *target == address.ipv6,
        };
        let targets: Vec<(&str, IpAddr)> = targets(end.settings).collect();
        let Some((option, target)) = targets.iter().find(|(_, target)| is_own(target)) else { continue };
        if targets.iter().any(|(_, target)| !is_own(target)) && !all_must_answer(end.settings) {
            continue;
        }
        let key = option.replace('_', "-");
        problems.add(
            place_of(option, text, end.own),
            format!(
                "`{key}` of `{}` is its own address {target}, which does not answer: the bond would go down",
                end.name
            ),
            "its own address",
            "name the address of another host",
        );
        is_right = false;
    }
    is_right.then_some(())
}

/// The targets of an end, whatever its mode, with the option that names each.
fn targets(settings: &Settings) -> impl Iterator<Item = (&'static str, IpAddr)> {
    settings.options.iter().flat_map(|option| {
        let addresses: Vec<IpAddr> = match &option.value {
            Value::Ipv4(targets) => targets.iter().copied().map(IpAddr::V4).collect(),
            Value::Ipv6(targets) => targets.iter().copied().map(IpAddr::V6).collect(),
            Value::Word(_)
            | Value::Number(_)
            | Value::Flag(_)
            | Value::Time(_)
            | Value::Mac(_)
            | Value::Rebalance(_) => Vec::new(),
        };
        addresses.into_iter().map(|target| (option.name, target))
    })
}

fn all_must_answer(settings: &Settings) -> bool {
    let all = Value::Word(ArpAllTargets::All.name().to_owned());
    settings.options.iter().any(|option| option.name == "arp_all_targets" && option.value == all)
}

/// Where an option stands: for this end alone if it does, else for both.
fn place_of(name: &str, text: &At<BondText>, own: Option<&At<EndText>>) -> Place {
    let own = own.map(|end| end.value.options.given()).unwrap_or_default();
    let all = own.into_iter().chain(text.value.both.options.given());
    all.into_iter().find(|given| given.value.name == name).map_or(text.place, |given| given.place)
}
