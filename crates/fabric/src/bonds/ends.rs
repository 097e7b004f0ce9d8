//! What is at the two ends of a bond, and whether they go together.

use bond::config::{Config, Error, Mode};
use link::LinkSpec;

use super::text::{BondText, EndText, Given};
use super::values::ReorderText;
use crate::error::Problems;
use crate::source::{At, Place};
use crate::{Bond, BondOption, EndKind, ReorderSpec};

/// The two nodes of a bond, in the order of the file.
pub(super) struct Pair<'a> {
    pub names: [&'a str; 2],
    pub is_host: [bool; 2],
    /// What each member does to packets.
    pub specs: Vec<LinkSpec>,
}

/// What one end is, checked.
pub(super) struct Settings {
    pub end: EndKind,
    pub config: Config,
    pub options: Vec<BondOption>,
    pub reorder: Option<ReorderSpec>,
}

/// The configuration of an end in `mode`: options that the mode has no use for are left out.
pub(super) fn configured(mode: Mode, options: &[BondOption]) -> Config {
    let mut config = Config::new(mode);
    for option in options {
        // Values were checked when the file was read; what is refused here is refused for the mode.
        let _ = apply(&mut config, option);
    }
    config
}

fn apply(config: &mut Config, option: &BondOption) -> Result<(), Error> {
    config.set_value(option.name, &option.value)
}

/// Whether a switch's end of a host's bond in `mode` has MAC-learning ports.
pub(super) fn leaves_switch_alone(mode: Mode) -> bool {
    mode.has_active()
}

/// Works out both ends of a bond. `None`: there is a problem, which has been noted. `varied` are the modes that experiments
/// give to all bonds.
pub(super) fn settings(
    text: &At<BondText>,
    own: [Option<&At<EndText>>; 2],
    pair: &Pair<'_>,
    varied: &[Mode],
    problems: &mut Problems<'_>,
) -> Option<[Settings; 2]> {
    let before = problems.noted();
    let ends = BondEnds::new(text, own, pair, varied);
    for side in 0..2 {
        ends.check_own(side, problems);
    }
    ends.check_shared(problems);
    let settings = [ends.settings(0, problems), ends.settings(1, problems)];
    if problems.noted() == before && text.sound {
        ends.check_together(&settings, problems);
    }
    (problems.noted() == before).then_some(settings)
}

struct BondEnds<'a> {
    text: &'a At<BondText>,
    own: [Option<&'a At<EndText>>; 2],
    pair: &'a Pair<'a>,
    varied: &'a [Mode],
    modes: [Mode; 2],
    kinds: [EndKind; 2],
}

impl<'a> BondEnds<'a> {
    fn new(text: &'a At<BondText>, own: [Option<&'a At<EndText>>; 2], pair: &'a Pair<'a>, varied: &'a [Mode]) -> Self {
        let own_mode = |side: usize| own[side].and_then(|end| end.value.own.mode.as_ref()).map(|mode| mode.value.0);
        let shared = text.value.both.own.mode.as_ref().map(|mode| mode.value.0);
        let mut modes = [0, 1].map(|side| own_mode(side).or(shared).unwrap_or(Mode::BalanceRr));
        let mut kinds = [EndKind::Bonded; 2];
        for side in 0..2 {
            let (far, here) = (modes[1 - side], own_mode(side));
            let plain = !pair.is_host[side] && pair.is_host[1 - side] && leaves_switch_alone(far);
            // A mode that is written for the switch is a bond that is wanted there, be it wise or not.
            if plain && here.is_none() && shared.is_none_or(|shared| shared == far) {
                (modes[side], kinds[side]) = (far, EndKind::Learning);
            }
        }
        Self { text, own, pair, varied, modes, kinds }
    }

    /// The modes that this end can have a bond in.
    fn modes_of(&self, side: usize) -> Vec<Mode> {
        let plain = !self.pair.is_host[side] && self.pair.is_host[1 - side];
        let varied = self.varied.iter().copied().filter(|&mode| !(plain && leaves_switch_alone(mode)));
        let base = (self.kinds[side] == EndKind::Bonded).then_some(self.modes[side]);
        base.into_iter().chain(varied).collect()
    }

    /// What is written for one end only must be of use there.
    fn check_own(&self, side: usize, problems: &mut Problems<'_>) {
        let Some(At { value: end, .. }) = self.own[side] else { return };
        let modes = self.modes_of(side);
        if modes.is_empty() {
            let (here, far, mode) = (self.pair.names[side], self.pair.names[1 - side], self.modes[side]);
            let places = end.options.given().into_iter().map(|given| given.place);
            for place in places.chain(end.own.reorder.as_ref().map(|reorder| reorder.place)) {
                problems.add(
                    place,
                    format!("`{here}` has no bond here: against `{far}` in {mode} it has MAC-learning ports"),
                    "nothing to set",
                    format!("remove it, or set it for `{far}`"),
                );
            }
            return;
        }
        for given in end.options.given() {
            note_unless_fit(&given, &modes, problems);
        }
    }

    /// What is written for both ends must be of use at one of them.
    fn check_shared(&self, problems: &mut Problems<'_>) {
        let modes = [self.modes_of(0), self.modes_of(1)].concat();
        for given in self.text.value.both.options.given() {
            note_unless_fit(&given, &modes, problems);
        }
    }

    /// The options of one end: its own, else those of both.
    fn given(&self, side: usize) -> Vec<At<Given>> {
        let own = self.own[side].map(|end| end.value.options.given()).unwrap_or_default();
        let mut all = self.text.value.both.options.given();
        all.retain(|shared| own.iter().all(|own| own.value.name != shared.value.name));
        all.extend(own);
        all
    }

    fn settings(&self, side: usize, problems: &mut Problems<'_>) -> Settings {
        let given = self.given(side);
        let mode = self.modes[side];
        let mut config = Config::new(mode);
        for At { value, place, .. } in &given {
            match apply(&mut config, &value.option()) {
                // Noted already, where it is a mistake.
                Ok(()) | Err(Error::Mode { .. }) => {}
                Err(error) => note(&error, value.key, *place, problems),
            }
        }
        let place_of = |name: &str| given.iter().find(|given| given.value.name == name).map(|given| given.place);
        // With an option missing that couldn't be read, the others would seem wrong.
        if self.kinds[side] == EndKind::Bonded && self.text.sound {
            if let Err(error @ Error::Together { name, .. }) = config.check() {
                note(&error, name, place_of(name).unwrap_or(self.text.place), problems);
            }
            self.check_members(&config, place_of, problems);
        }
        let own = self.own[side].and_then(|end| end.value.own.reorder.as_ref());
        let reorder = own.or(self.text.value.both.own.reorder.as_ref()).map(|reorder| reorder.value);
        Settings {
            end: self.kinds[side],
            config,
            options: given.iter().map(|given| given.value.option()).collect(),
            reorder: match reorder {
                None | Some(ReorderText::Off) => None,
                Some(ReorderText::On) => Some(ReorderSpec::default()),
                Some(ReorderText::With(spec)) => Some(spec),
            },
        }
    }

    /// What the options say about members must be true of them.
    fn check_members(&self, config: &Config, place_of: impl Fn(&str) -> Option<Place>, problems: &mut Problems<'_>) {
        let members = self.pair.specs.len();
        let option = |name| place_of(name).unwrap_or(self.text.place);
        if let Some((message, hint)) = lacks_primary(config, members) {
            problems.add(option("primary"), message, "not a member", hint);
        }
        if let Some((message, hint)) = lacks_links(config, members) {
            problems.add(option("min_links"), message, "more than there are", hint);
        }
    }

    fn check_together(&self, settings: &[Settings; 2], problems: &mut Problems<'_>) {
        let ends = [0, 1].map(|side| {
            let bonded = settings[side].end == EndKind::Bonded;
            EndConfig {
                name: self.pair.names[side],
                is_host: self.pair.is_host[side],
                config: bonded.then_some(&settings[side].config),
            }
        });
        if let Some(Mismatch { about, message, label, hint }) = mismatch(&ends, &self.pair.specs) {
            problems.add(self.place_of(about), message, label, hint);
        }
    }

    /// Where this key stands: for one end if it does, since that is where the two differ; else for both.
    fn place_of(&self, key: &str) -> Place {
        let in_end = |end: &EndText| match key {
            "mode" => end.own.mode.as_ref().map(|mode| mode.place),
            _ => end.options.given().iter().find(|given| given.value.key == key).map(|given| given.place),
        };
        let own = self.own.iter().flatten().find_map(|end| in_end(&end.value));
        own.or_else(|| in_end(&self.text.value.both)).unwrap_or(self.text.place)
    }
}

impl Given {
    fn option(&self) -> BondOption {
        BondOption { name: self.name, value: self.value.clone() }
    }
}

/// Notes an option that none of `modes` has a use for.
fn note_unless_fit(given: &At<Given>, modes: &[Mode], problems: &mut Problems<'_>) {
    let option = given.value.option();
    let mut unfit = None;
    for &mode in modes {
        match apply(&mut Config::new(mode), &option) {
            Err(error @ Error::Mode { .. }) => unfit = unfit.or(Some(error)),
            // Any other error is noted where the end is worked out.
            _ => return,
        }
    }
    if let Some(error) = unfit {
        note(&error, given.value.key, given.place, problems);
    }
}

/// Notes what the crate `bond` finds wrong with an option.
fn note(error: &Error, key: &str, place: Place, problems: &mut Problems<'_>) {
    let key = key.replace('_', "-");
    match error {
        Error::Mode { mode, modes, .. } => {
            let names: Vec<&str> =
                Mode::ALL.iter().filter(|mode| modes >> mode.number() & 1 == 1).map(|mode| mode.name()).collect();
            problems.add(
                place,
                format!("`{key}` has no meaning in {mode}"),
                "not in this mode",
                format!("it is for {}; remove it, or choose another mode", crate::names::one_of(names)),
            );
        }
        Error::Value { value, expected, .. } => problems.add(
            place,
            format!("`{key}` can't be `{}`", crate::read::shown(value)),
            "not a value of this option",
            format!("write {expected}"),
        ),
        Error::Together { problem, .. } => {
            problems.add(
                place,
                format!("`{key}` {problem}"),
                "not by itself",
                "add what it needs, or remove one of them",
            );
        }
        Error::Unknown { .. } => unreachable!("the file's options are the kernel's"),
    }
}

/// What is wrong with `primary` where a bond has so many members, and a hint.
pub(super) fn lacks_primary(config: &Config, members: usize) -> Option<(String, String)> {
    let primary = config.primary.as_ref()?;
    if (0..members).any(|member| Bond::member_name(member) == *primary) {
        return None;
    }
    let (first, last) = (Bond::member_name(0), Bond::member_name(members - 1));
    let message = format!("there is no member `{}`", crate::read::shown(primary));
    Some((
        message,
        if members == 1 {
            format!("the member is `{first}`")
        } else {
            format!("the members are `{first}` to `{last}`")
        },
    ))
}

/// What is wrong with `min-links` where a bond has so many members, and a hint.
pub(super) fn lacks_links(config: &Config, members: usize) -> Option<(String, String)> {
    let least = usize::from(config.min_links);
    (least > members).then(|| {
        let message = format!("`min-links: {least}` of {members}: the bond would never have carrier");
        (message, format!("at most {members}, or more members"))
    })
}

/// One end, for [`mismatch`].
pub(super) struct EndConfig<'a> {
    pub name: &'a str,
    pub is_host: bool,
    /// `None`: MAC-learning ports.
    pub config: Option<&'a Config>,
}

/// Why two ends don't work together.
pub(super) struct Mismatch {
    /// The key that is at fault.
    pub about: &'static str,
    pub message: String,
    pub label: String,
    pub hint: String,
}

/// Whether the two ends of a bond work together over such links; what is wrong if not.
///
/// The static modes balance-rr and balance-xor go with each other. Active-backup goes with itself, since both ends see
/// the same carriers and choose the same member, and with broadcast, of which it hears one copy. Against MAC-learning ports at
/// a switch go the modes that were made for it.
pub(super) fn mismatch(ends: &[EndConfig<'_>; 2], specs: &[LinkSpec]) -> Option<Mismatch> {
    let loads = |end: &&EndConfig<'_>| end.config.is_some_and(|config| config.mode.keeps_addresses());
    if let Some(end) = ends.iter().find(loads) {
        let far = if std::ptr::eq(end, &raw const ends[0]) { &ends[1] } else { &ends[0] };
        return balancing(end, far);
    }
    let [Some(a), Some(b)] = [ends[0].config, ends[1].config] else { return None };
    of_modes([(&ends[0], a), (&ends[1], b)]).or_else(|| unequal(a.mode, specs))
}

fn found(message: String, label: &str, hint: impl Into<String>) -> Mismatch {
    Mismatch { about: "mode", message, label: label.to_owned(), hint: hint.into() }
}

/// Balance-tlb and balance-alb give one host several addresses, and trust a switch to learn them.
fn balancing(end: &EndConfig<'_>, far: &EndConfig<'_>) -> Option<Mismatch> {
    let mode = end.config?.mode;
    let (here, there) = (end.name, far.name);
    let hint = "between switches, or between hosts, use `balance-rr`, `balance-xor` or `802.3ad`";
    if !end.is_host {
        return Some(found(
            format!("{mode} balances a host's own traffic by the members' addresses; `{here}` is a switch"),
            "only at hosts",
            if far.is_host {
                format!("set this mode for `{there}`; `{here}` needs none then")
            } else {
                hint.to_owned()
            },
        ));
    }
    if far.is_host {
        return Some(found(
            format!("{mode} at `{here}` needs a switch that learns its addresses; `{there}` is a host"),
            "needs a switch",
            hint,
        ));
    }
    far.config.map(|config| {
        found(
            format!(
                "`{here}` in {mode} receives where its addresses were learned; a bond in {} at `{there}` sends elsewhere",
                config.mode
            ),
            "needs MAC-learning ports at the switch",
            format!("leave out the mode of `{there}`"),
        )
    })
}

/// Whether the modes go together, and what they need to.
fn of_modes(ends: [(&EndConfig<'_>, &Config); 2]) -> Option<Mismatch> {
    use Mode::{ActiveBackup, Ad8023, BalanceRr, BalanceXor, Broadcast};
    let [(first, a), (second, b)] = ends;
    let (here, there) = (first.name, second.name);
    Some(match (a.mode, b.mode) {
        (Ad8023, Ad8023) if !a.lacp_active && !b.lacp_active => {
            let message = format!("`{here}` and `{there}` both wait for LACPDUs: neither is active");
            let found = found(message, "nobody speaks first", "set `lacp-active: on` at one end");
            Mismatch { about: "lacp-active", ..found }
        }
        (ActiveBackup, ActiveBackup) if a.primary != b.primary => {
            let message = format!(
                "`{here}` and `{there}` have different primaries: each would send where the other doesn't listen"
            );
            Mismatch { about: "primary", ..found(message, "not the same", "give both the same `primary`") }
        }
        (one, other) if one == other => return None,
        (BalanceRr | BalanceXor, BalanceXor | BalanceRr) | (ActiveBackup, Broadcast) | (Broadcast, ActiveBackup) => {
            return None;
        }
        (Ad8023, other) => waits(here, there, other),
        (other, Ad8023) => waits(there, here, other),
        (ActiveBackup, other) => inactive(first, second, other),
        (other, ActiveBackup) => inactive(second, first, other),
        (Broadcast, other) => copies(here, there, other),
        (other, _) => copies(there, here, other),
    })
}

fn waits(lacp: &str, other: &str, mode: Mode) -> Mismatch {
    found(
        format!("`{lacp}` waits for LACPDUs that `{other}` in {mode} never sends"),
        "LACP at one end only",
        "give both `802.3ad`, or both the same static mode",
    )
}

fn inactive(backup: &EndConfig<'_>, other: &EndConfig<'_>, mode: Mode) -> Mismatch {
    let plain = backup.is_host && !other.is_host;
    found(
        format!(
            "`{}` in {mode} sends on all members; `{}` in active-backup drops what comes on those that are not active",
            other.name, backup.name
        ),
        "frames would be lost",
        if plain {
            format!(
                "leave out the mode of `{}`: a switch with MAC-learning ports learns which member is active",
                other.name
            )
        } else {
            "give both the same mode".to_owned()
        },
    )
}

fn copies(broadcast: &str, other: &str, mode: Mode) -> Mismatch {
    found(
        format!(
            "`{broadcast}` in broadcast sends each frame on every member; `{other}` in {mode} would deliver every copy"
        ),
        "frames would be doubled",
        "give both `broadcast`, or both another mode",
    )
}

/// Only members of one speed aggregate: as in Linux's driver, speed and duplex are part of a port's key.
fn unequal(mode: Mode, specs: &[LinkSpec]) -> Option<Mismatch> {
    let first = specs.first()?.rate_bps;
    if mode != Mode::Ad8023 || specs.iter().all(|spec| spec.rate_bps == first) {
        return None;
    }
    let total = |rate: Option<u64>| match rate {
        Some(rate) => u128::from(rate) * specs.iter().filter(|spec| spec.rate_bps == Some(rate)).count() as u128,
        None => u128::MAX,
    };
    // The aggregation with the most bandwidth is taken to stay; of equal ones the first.
    let stays = specs.iter().map(|spec| spec.rate_bps).rev().max_by_key(|&rate| total(rate))?;
    let out: Vec<String> = specs
        .iter()
        .enumerate()
        .filter(|(_, spec)| spec.rate_bps != stays)
        .map(|(member, spec)| format!("{} ({})", Bond::member_name(member), rate(spec.rate_bps)))
        .collect();
    Some(found(
        format!(
            "in 802.3ad only members of one speed aggregate: {} would stay out, beside {}",
            out.join(", "),
            rate(stays)
        ),
        "members of unequal speed",
        "give all members the same `rate`, or use another mode: `balance-xor`",
    ))
}

fn rate(bps: Option<u64>) -> String {
    match bps {
        None => "no limit".to_owned(),
        Some(bps) if bps.is_multiple_of(1_000_000_000) => format!("{} Gbit/s", bps / 1_000_000_000),
        Some(bps) if bps.is_multiple_of(1_000_000) => format!("{} Mbit/s", bps / 1_000_000),
        Some(bps) if bps.is_multiple_of(1_000) => format!("{} kbit/s", bps / 1_000),
        Some(bps) => format!("{bps} bit/s"),
    }
}
