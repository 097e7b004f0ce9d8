//! Keys of links as a command line has them: what somebody changes about the links of a network while it runs. They are read as those of the file are, by the
//! same reader; and each may be `none`, which takes it away. Keys with `back.` before them say what is otherwise in the direction from the second node to the first.

use link::LinkSpec;
use serde::{Deserialize, Serialize};
use topology::Link;

use crate::Fabric;
use crate::error::{Error, Problems};
use crate::links::{KEYS, LinkText, link_keys, needs_rate, note_idle, note_no_card};
use crate::names::{nearest, one_of};
use crate::parallel::find_links;
use crate::read::{Read, shown};
use crate::source::{Place, Source};
use crate::tree::{Entry, Node, Value};

/// The value that takes a key away.
const GONE: &str = "none";

/// The value of a key of the way back that is there on the way forth alone.
const OFF: &str = "off";

/// What stands before the keys of the way back.
const BACK: &str = "back.";

/// Keys of links and their values, as words like `delay=20ms`, `back.rate=1Mbit` and `rate=none`: of each key one.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct LinkChange(Vec<String>);

/// A link of a running network, by its ends and its number among parallel ones, and what is changed about it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChangedLink {
    /// The name of the node at end A.
    pub a: String,
    /// The name of the node at end B.
    pub b: String,
    /// Which of the parallel ones it is, from 1.
    pub number: u32,
    /// What is not as in the file.
    pub change: LinkChange,
}

/// Words that could be read: of both directions, and of the way back alone.
struct Reading<'a> {
    both: Keys<'a>,
    back: Keys<'a>,
}

/// What words set, and the keys that they take away.
struct Keys<'a> {
    set: LinkText,
    gone: Vec<&'a str>,
    /// Those that are there in the other direction alone.
    off: Vec<&'a str>,
}

/// What a link does from its first node to its second, and on the way back, where that differs.
pub type Directions = (LinkSpec, Option<LinkSpec>);

impl LinkChange {
    /// The keys of links, and what each of them says.
    pub const KEYS: &[(&str, &str)] = KEYS;

    /// Reads words of a command line.
    ///
    /// # Errors
    /// If anything is wrong with them. The error holds every problem that was found, as that of a file does.
    pub fn parse(words: &[String]) -> Result<Self, Error> {
        let change = Self(words.to_vec());
        change.read(|_, _| ())?;
        Ok(change)
    }

    /// Whether it changes nothing.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// What a link does that does this, with this change. `has_host`: it ends at a host.
    ///
    /// # Errors
    /// If a word cannot be read, or is of no use on such a link, as a queue without a rate.
    pub fn of(&self, (spec, back): &Directions, has_host: bool) -> Result<Directions, Error> {
        self.read(|reading, problems| {
            let changed = reading.change(spec, back.as_ref());
            // What is of no use in one direction may be of use in the other.
            let is_of_use = |on: &LinkSpec| on.rate_bps.is_some();
            let (forth, back) = (changed.0, changed.1.unwrap_or(changed.0));
            note_idle(&reading.both.set, if is_of_use(&forth) { forth } else { back }, true, problems);
            note_idle(&reading.back.set, back, true, problems);
            if !has_host {
                note_no_card(&reading.both.set, problems);
                note_no_card(&reading.back.set, problems);
            }
            changed
        })
    }

    /// What it has a link of a file do only once that has a rate again: key by key as the file writes it. Empty if it has one.
    ///
    /// # Errors
    /// If a word cannot be read.
    pub fn waiting(&self, spec: &LinkSpec) -> Result<Vec<(&'static str, String)>, Error> {
        let now = self.read(|reading, _| reading.both.change(spec))?;
        if now.rate_bps.is_some() || spec.rate_bps.is_none() {
            return Ok(Vec::new());
        }
        let mut with_rate = self.clone();
        with_rate.0.retain(|word| key(word) != "rate");
        let [now, then] = [link_keys(&now), link_keys(&with_rate.read(|reading, _| reading.both.change(spec))?)];
        Ok(then.into_iter().filter(|entry| entry.0 != "rate" && !now.contains(entry)).collect())
    }

    /// The same in words of somebody who names the ends of the link in the other order: what of it is the way back there is the way forth here. `does`: what the link does.
    ///
    /// # Errors
    /// If a word cannot be read, or what it comes to cannot be said in that order: that a key is there on the way forth alone.
    pub fn turned(&self, does: &Directions) -> Result<Self, Error> {
        let seen = turn(does);
        let (forth, back) = turn(&self.read(|reading, _| reading.change(&seen.0, seen.1.as_ref()))?);
        let [is_forth, is_back] = [forth, back.unwrap_or(forth)].map(|spec| link_keys(&spec));
        let value = |keys: &[(&'static str, String)], key: &str| {
            keys.iter().find(|(other, _)| *other == key).map(|(_, value)| value.clone())
        };
        let is_named = |key: &&str| self.0.iter().any(|word| bare_key(word) == *key);
        let words = KEYS.iter().map(|(key, _)| *key).filter(is_named).flat_map(|key| {
            let [forth, back] = [&is_forth, &is_back].map(|keys| value(keys, key));
            let way_back = if back == forth { GONE.to_owned() } else { back.unwrap_or_else(|| nothing(key)) };
            let way_forth = format!("{key}={}", forth.unwrap_or_else(|| GONE.to_owned()));
            // What needs a rate is not there without one.
            let is_said = value(&is_back, "rate").is_some() || !needs_rate(key);
            std::iter::once(way_forth).chain(is_said.then(|| format!("{BACK}{key}={way_back}")))
        });
        let turned = Self(words.collect());
        let comes_to = turned.read(|reading, _| reading.change(&does.0, does.1.as_ref()));
        if comes_to.is_ok_and(|comes_to| comes_to == (forth, back)) {
            return Ok(turned);
        }
        let source = Source { name: "the command line".to_owned(), text: self.0.join(" ") };
        let mut problems = Problems::new(&source);
        let is_alone = |key: &&str| value(&is_forth, key).is_some() && value(&is_back, key).is_none();
        let key = KEYS.iter().map(|(key, _)| *key).find(is_alone).unwrap_or("rate");
        let message =
            format!("a link that has `{key}` from the end that the file names first has it on the way back, too");
        let place = Place { offset: 0, len: source.text.len() };
        let hint = format!("say `{key}` of both directions: `{key}=.. {BACK}{key}=..`");
        problems.add(place, message, "of one direction alone", hint);
        Err(problems.into_error())
    }

    /// Adds a later change, whose values count where both have a key.
    pub fn add(&mut self, later: &Self) {
        self.0.retain(|word| later.0.iter().all(|other| key(other) != key(word)));
        self.0.extend(later.0.iter().cloned());
    }

    /// Reads all words, and then does something with what they say.
    fn read<T>(&self, then: impl FnOnce(&Reading<'_>, &mut Problems<'_>) -> T) -> Result<T, Error> {
        let source = Source { name: "the command line".to_owned(), text: self.0.join(" ") };
        let mut problems = Problems::new(&source);
        let reading = read(&self.0, &mut problems).filter(|_| problems.is_empty());
        let result = reading.map(|reading| then(&reading, &mut problems));
        result.filter(|_| problems.is_empty()).ok_or_else(|| problems.into_error())
    }
}

impl Keys<'_> {
    fn change(&self, spec: &LinkSpec) -> LinkSpec {
        self.set.change(spec, |key| self.gone.contains(&key))
    }
}

impl Reading<'_> {
    /// What is otherwise on the way back stays so.
    fn change(&self, spec: &LinkSpec, back: Option<&LinkSpec>) -> Directions {
        let forth = self.both.change(spec);
        let [is_gone, is_off] = [&self.back.gone, &self.back.off].map(|keys| move |key: &str| keys.contains(&key));
        let before = (spec, back.unwrap_or(spec));
        let back = self.back.set.change_back(before, (&self.both.set, &forth), (is_gone, is_off));
        (forth, Some(back).filter(|back| *back != forth))
    }
}

/// What a link does, seen from its other end.
pub fn turn((spec, back): &Directions) -> Directions {
    let forth = back.unwrap_or(*spec);
    (forth, Some(*spec).filter(|spec| *spec != forth))
}

/// What a link does, key by key as `heddle link set` takes it: those of both directions, and then those in which the way back differs.
pub fn link_keys_both(link: &Link) -> Vec<(String, String)> {
    let forth = link_keys(&link.spec);
    let Some(back) = &link.back else { return forth.into_iter().map(|(key, value)| (key.to_owned(), value)).collect() };
    let back = link_keys(back);
    let value = |keys: &[(&'static str, String)], key: &str| {
        keys.iter().find(|(other, _)| *other == key).map(|(_, value)| value.clone())
    };
    // What needs a rate is not there without one, which is said of the rate.
    let has_rate = value(&back, "rate").is_some();
    let differing = KEYS.iter().filter(|(key, _)| value(&forth, key) != value(&back, key));
    let differing = differing.filter(|(key, _)| has_rate || !needs_rate(key));
    let otherwise: Vec<(String, String)> =
        differing.map(|(key, _)| (format!("{BACK}{key}"), value(&back, key).unwrap_or_else(|| nothing(key)))).collect();
    forth.into_iter().map(|(key, value)| (key.to_owned(), value)).chain(otherwise).collect()
}

/// What a key has on the way back that is there on the way forth alone.
fn nothing(key: &str) -> String {
    let is_number = LinkChange::parse(&[format!("{key}=0")]).is_ok();
    if is_number { "0" } else { OFF }.to_owned()
}

impl Fabric {
    /// The fabric with links changed while it runs. Those that it does not have are left out.
    ///
    /// # Errors
    /// If the words of a change cannot be read.
    pub fn with_links(mut self, changed: &[ChangedLink]) -> Result<Self, Error> {
        for ChangedLink { a, b, number, change } in changed {
            for link in find_links(&self.topology, a, b, Some(*number)).unwrap_or_default() {
                let link = &mut self.topology.links[link];
                (link.spec, link.back) = change.read(|reading, _| reading.change(&link.spec, link.back.as_ref()))?;
            }
        }
        Ok(self)
    }
}

/// Whether a unit may be missing behind it.
fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.')
}

/// The key of a word.
fn key(word: &str) -> &str {
    word.split_once('=').map_or(word, |(key, _)| key)
}

/// The same without what says that it is of the way back.
fn bare_key(word: &str) -> &str {
    let key = key(word);
    key.strip_prefix(BACK).unwrap_or(key)
}

/// The entries of a section as words have them, and the keys that they take away.
#[derive(Default)]
struct Words<'a> {
    entries: Vec<Entry>,
    gone: Vec<&'a str>,
    off: Vec<&'a str>,
}

impl<'a> Words<'a> {
    fn read(self, place: Place, problems: &mut Problems<'_>) -> Option<Keys<'a>> {
        let set = LinkText::read(&Node { place, value: Value::Map(self.entries) }, problems)?;
        Some(Keys { set, gone: self.gone, off: self.off })
    }
}

/// Reads the words of a text in which a blank stands between any two.
fn read<'a>(words: &'a [String], problems: &mut Problems<'_>) -> Option<Reading<'a>> {
    let (mut both, mut back, mut offset) = (Words::default(), Words::default(), 0);
    for word in words {
        let place = Place { offset, len: word.len() };
        offset += word.len() + 1;
        let is_back = word.starts_with(BACK);
        let (section, word, place) = match word.strip_prefix(BACK) {
            Some(rest) => (&mut back, rest, Place { offset: place.offset + BACK.len(), len: rest.len() }),
            None => (&mut both, word.as_str(), place),
        };
        let is_off = |known: &&str| word.split_once('=') == Some((*known, OFF));
        if is_back && let Some(key) = KEYS.iter().map(|(key, _)| *key).find(is_off) {
            section.off.push(key);
        } else {
            read_word(section, word, place, problems);
        }
    }
    let place = Place { offset: 0, len: offset.saturating_sub(1) };
    let (both, back) = (both.read(place, problems), back.read(place, problems));
    Some(Reading { both: both?, back: back? })
}

fn read_word<'a>(section: &mut Words<'a>, word: &'a str, place: Place, problems: &mut Problems<'_>) {
    let Words { entries, gone, off } = section;
    let keys = || KEYS.iter().map(|(key, _)| *key);
    let Some((key, value)) = word.split_once('=') else {
        let before =
            entries.last().filter(|entry| entry.value.place.offset + entry.value.place.len + 1 == place.offset);
        let hint = match (before, nearest(word, keys())) {
            (Some(Entry { key, value: Node { value: Value::Scalar(number), .. }, .. }), None) if is_number(number) => {
                format!("write it without a blank, `{}={}{}`", shown(key), shown(number), shown(word))
            }
            (_, Some(key)) => format!("write `{key}=VALUE`, or `{key}=none` to take it away"),
            (_, None) => format!("the keys are {}", one_of(keys())),
        };
        problems.add(place, format!("expected KEY=VALUE, found `{}`", shown(word)), "found no `=`", hint);
        return;
    };
    let key_place = Place { len: key.len(), ..place };
    if entries.iter().any(|entry| entry.key == key) || gone.contains(&key) || off.contains(&key) {
        problems.add(key_place, format!("`{}` is there twice", shown(key)), "the second one", "remove one of them");
        return;
    }
    if Some(key) == BACK.strip_suffix('.') {
        let hint = "write `back.KEY=VALUE`, as in `back.rate=1Mbit`";
        problems.add(key_place, "the way back is written key by key", "no key of links", hint);
        return;
    }
    if value == GONE && keys().any(|known| known == key) {
        gone.push(key);
        return;
    }
    let place = Place { offset: place.offset + key.len() + 1, len: value.len() };
    let value = if value.is_empty() { Value::Null } else { Value::Scalar(value.to_owned()) };
    entries.push(Entry { key: key.to_owned(), key_place, value: Node { place, value } });
}

#[cfg(test)]
mod tests {
    use machine::Span;

    use super::*;

    fn change(words: &str) -> LinkChange {
        let words: Vec<String> = words.split_whitespace().map(str::to_owned).collect();
        LinkChange::parse(&words).unwrap_or_else(|error| panic!("{:?}", miette::Report::new(error)))
    }

    /// What a link does that does the same in both directions.
    fn of(words: &str, spec: &LinkSpec) -> LinkSpec {
        let (forth, back) = change(words).of(&(*spec, None), true).expect("all is of use");
        assert_eq!(back, None, "{words}");
        forth
    }

    fn keys(spec: &LinkSpec) -> String {
        keys_of(&link_keys(spec))
    }

    fn keys_of(keys: &[(&'static str, String)]) -> String {
        keys.iter().map(|(key, value)| format!("{key}={value}")).collect::<Vec<_>>().join(" ")
    }

    /// Whoever names the ends in the other order may say what the file cannot: that a key is there in the direction alone that it names second.
    #[test]
    fn a_key_of_one_direction_alone_is_set_from_either_end() {
        let none = (LinkSpec::default(), None);
        for words in [
            "back.rate=1Mbit",
            "back.rate=1Mbit back.ecn=20",
            "back.delay=1ms back.loss=1%",
            "rate=1Mbit back.rate=off",
        ] {
            let words = change(words);
            let meant = turn(&words.of(&none, true).expect("it is of use"));
            let turned = words.turned(&none).unwrap_or_else(|error| panic!("{:?}", miette::Report::new(error)));
            assert_eq!(turned.of(&none, true).expect("it is of use"), meant, "{turned:?}");
        }
        let turned = change("back.rate=1Mbit").turned(&none).expect("it can be said");
        assert_eq!(turned.0, ["rate=1Mbit", "back.rate=off"]);
        let both = turned.of(&none, true).expect("it is of use");
        assert_eq!((both.0.rate_bps, both.1.map(|back| back.rate_bps)), (Some(1_000_000), Some(None)));
        assert!(LinkChange::parse(&["rate=off".to_owned()]).is_err(), "of both directions that is `none`");
    }

    #[test]
    fn what_is_set_is_what_a_file_says_with_these_keys() {
        let words = "rate=2.5Gbit delay=20ms queue=100 ecn=20 overhead=24B coalesce=16us loss=0.1% jitter=1ms";
        let changed = of(words, &LinkSpec::default());
        let file = format!(
            "nodes: {{ h1: host, h2: host, s1: switch }}\nlink-defaults: {{ {} }}\nlinks: [{{ between: [h1, s1] }}, {{ between: [h2, s1] }}]\n",
            words.replace('=', ": ").replace(' ', ", ").replace(":, ", ": ")
        );
        let file = crate::parse(&Source { name: "net".to_owned(), text: file }).expect("a network");
        assert_eq!(changed, file.topology.links[topology::LinkId(0)].spec);
        assert_eq!(keys(&changed), words);
    }

    #[test]
    fn only_what_is_named_changes_and_keys_are_taken_away() {
        let file = of("rate=10Mbit queue=50 delay=1ms", &LinkSpec::default());
        let with = |words: &[&str]| {
            let mut all = LinkChange::default();
            for words in words {
                all.add(&change(words));
            }
            keys(&all.read(|reading, _| reading.both.change(&file)).unwrap())
        };
        assert_eq!(with(&["loss=1%"]), "rate=10Mbit delay=1ms queue=50 loss=1%");
        assert_eq!(with(&["loss=1% delay=2ms", "loss=none"]), "rate=10Mbit delay=2ms queue=50");
        assert_eq!(with(&["queue=none delay=none"]), "rate=10Mbit queue=1000");
        // What is of use only with a rate goes with it, and is there again when it is.
        assert_eq!(with(&["ecn=5 overhead=24", "rate=none"]), "delay=1ms");
        assert_eq!(with(&["ecn=5", "rate=none", "rate=1Mbit"]), "rate=1Mbit delay=1ms queue=50 ecn=5");
        assert_eq!(of("rate=1Mbit", &LinkSpec::default()).queue_packets, Some(1_000));
        let waiting = |words: &str| keys_of(&change(words).waiting(&file).unwrap());
        assert_eq!((waiting("ecn=5 rate=none"), waiting("ecn=5")), ("queue=50 ecn=5".to_owned(), String::new()));
        assert_eq!(of("delay=0", &file).delay, Span::ZERO);
    }

    #[test]
    fn the_way_back_leads_to_the_end_that_is_named_first() {
        let text = "nodes: { h1: host, h2: host, s1: switch }\n\
                    links: [{ between: [h1, s1], rate: 10Mbit, delay: 1ms, back: { rate: 1Mbit } }, { between: [h2, s1] }]\n";
        let fabric = crate::parse(&Source { name: "net".to_owned(), text: text.to_owned() }).expect("a network");
        // What `s1 h1 ..` comes to, as the file's order says it.
        let with = |words: &str| {
            let link = &fabric.topology.links[topology::LinkId(0)];
            let change = change(words).turned(&(link.spec, link.back)).expect("it can be said");
            let changed = ChangedLink { a: "h1".into(), b: "s1".into(), number: 1, change };
            let fabric = fabric.clone().with_links(&[changed]).expect("it can be read");
            let keys = link_keys_both(&fabric.topology.links[topology::LinkId(0)]);
            keys.iter().map(|(key, value)| format!("{key}={value}")).collect::<Vec<_>>().join(" ")
        };
        assert_eq!(with("back.delay=5ms"), "rate=10Mbit delay=5ms queue=1000 back.rate=1Mbit back.delay=1ms");
        assert_eq!(with("back.rate=5Mbit"), "rate=5Mbit delay=1ms queue=1000 back.rate=1Mbit");
        assert_eq!(with("back.rate=none"), "rate=1Mbit delay=1ms queue=1000");
        // Of both directions, but for what is otherwise on the way back.
        assert_eq!(with("delay=5ms"), "rate=10Mbit delay=5ms queue=1000 back.rate=1Mbit");
        assert_eq!(with("rate=2Mbit"), "rate=10Mbit delay=1ms queue=1000 back.rate=2Mbit");
        assert_eq!(
            with("loss=1% back.loss=2%"),
            "rate=10Mbit delay=1ms queue=1000 loss=2% back.rate=1Mbit back.loss=1%"
        );
        assert_eq!(with("delay=none back.delay=3ms"), "rate=10Mbit delay=3ms queue=1000 back.rate=1Mbit back.delay=0");
        let error = change("rate=none").turned(&turn(&(fabric.topology.links[topology::LinkId(1)].spec, None)));
        assert!(error.is_ok_and(|change| change.0 == ["rate=none", "back.rate=none"]));
        assert_eq!(with("rate=none"), "rate=10Mbit delay=1ms queue=1000 back.rate=off");
    }

    #[test]
    fn what_is_otherwise_on_the_way_back_stays_so() {
        let text = "nodes: { h1: host, h2: host, s1: switch }\n\
                    links: [{ between: [h1, s1], rate: 10Mbit, delay: 1ms, back: { rate: 1Mbit } }, { between: [h2, s1] }]\n";
        let fabric = crate::parse(&Source { name: "net".to_owned(), text: text.to_owned() }).expect("a network");
        let with = |words: &[&str]| {
            let mut all = LinkChange::default();
            for words in words {
                all.add(&change(words));
            }
            let changed = ChangedLink { a: "h1".into(), b: "s1".into(), number: 1, change: all };
            let fabric = fabric.clone().with_links(&[changed]).expect("it can be read");
            let link = &fabric.topology.links[topology::LinkId(0)];
            let keys = link_keys_both(link);
            // What is shown can be set.
            let words: Vec<String> = keys.iter().map(|(key, value)| format!("{key}={value}")).collect();
            let again = LinkChange::parse(&words).and_then(|change| change.of(&Directions::default(), true));
            assert_eq!(again.unwrap(), (link.spec, link.back), "{words:?}");
            words.join(" ")
        };
        assert_eq!(with(&[]), "rate=10Mbit delay=1ms queue=1000 back.rate=1Mbit");
        assert_eq!(with(&["delay=5ms"]), "rate=10Mbit delay=5ms queue=1000 back.rate=1Mbit");
        assert_eq!(with(&["rate=20Mbit"]), "rate=20Mbit delay=1ms queue=1000 back.rate=1Mbit");
        assert_eq!(with(&["rate=1Mbit"]), "rate=1Mbit delay=1ms queue=1000");
        assert_eq!(with(&["rate=1Mbit", "rate=2Mbit"]), "rate=2Mbit delay=1ms queue=1000 back.rate=1Mbit");
        assert_eq!(with(&["back.rate=none"]), "rate=10Mbit delay=1ms queue=1000");
        assert_eq!(
            with(&["back.rate=2Mbit back.loss=1%"]),
            "rate=10Mbit delay=1ms queue=1000 back.rate=2Mbit back.loss=1%"
        );
        assert_eq!(with(&["back.rate=2Mbit", "back.rate=none"]), "rate=10Mbit delay=1ms queue=1000");
        assert_eq!(with(&["back.delay=0"]), "rate=10Mbit delay=1ms queue=1000 back.rate=1Mbit back.delay=0");
        assert_eq!(with(&["queue=7"]), "rate=10Mbit delay=1ms queue=7 back.rate=1Mbit");
        // The way back alone may have a rate, and a queue for it.
        let alone = change("back.rate=1Mbit queue=5").of(&Directions::default(), true).unwrap();
        assert_eq!((alone.0, alone.1.map(|back| back.queue_packets)), (LinkSpec::default(), Some(Some(5))));
        let error = |words: &str| LinkChange::parse(&[words.to_owned()]).unwrap_err().problems()[0].message.clone();
        assert_eq!(error("back=1Mbit"), "the way back is written key by key");
        assert!(error("back.speed=1").contains("there is no key `speed` here"), "{}", error("back.speed=1"));
        let idle = change("back.queue=5").of(&Directions::default(), true).unwrap_err();
        assert!(idle.problems()[0].message.contains("a queue without a rate"), "{idle}");
    }

    #[test]
    fn what_is_wrong_is_said_as_of_a_file() {
        let said = |words: &[&str]| {
            let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
            let error =
                LinkChange::parse(&words).and_then(|change| change.of(&Directions::default(), true)).unwrap_err();
            let text = words.join(" ");
            let problem = |problem: &crate::Problem| {
                let marked = text[problem.span.offset()..][..problem.span.len()].to_owned();
                (marked, problem.message.clone(), problem.hint.clone())
            };
            error.problems().iter().map(problem).collect::<Vec<_>>()
        };
        let one = |words: &[&str]| {
            let [(marked, message, hint)] = said(words).try_into().expect("one problem");
            (marked, format!("{message}; {hint}"))
        };
        let (marked, message) = one(&["loss=1%", "latency=20ms"]);
        assert_eq!((&*marked, &*message), ("latency", "there is no key `latency` here; did you mean `delay`?"));
        let (marked, message) = one(&["loss=1%", "delay=20"]);
        assert_eq!((&*marked, message.starts_with("`20` has no unit; the units are ")), ("20", true), "{message}");
        let (marked, message) = one(&["queue=7"]);
        assert_eq!(marked, "7");
        assert_eq!(
            message,
            "a queue without a rate: nothing ever waits on a link without a rate; add `rate:`, or remove `queue:`"
        );
        let (marked, message, hint) = &said(&["rate=20", "Gb"])[1];
        assert_eq!((&**marked, &**message), ("Gb", "expected KEY=VALUE, found `Gb`"));
        assert_eq!(hint, "write it without a blank, `rate=20Gb`");
        assert_eq!(
            one(&["delay"]).1,
            "expected KEY=VALUE, found `delay`; write `delay=VALUE`, or `delay=none` to take it away"
        );
        assert!(one(&["20ms"]).1.contains("the keys are `rate`, `delay`"));
        assert!(one(&["delay="]).1.starts_with("`delay` has no value"));
        assert!(one(&["delay=1ms", "delay=none"]).1.starts_with("`delay` is there twice"));
        assert!(one(&["speed=none"]).1.starts_with("there is no key `speed` here"));
        let between_switches = change("coalesce=5us").of(&Directions::default(), false).unwrap_err();
        assert!(between_switches.problems()[0].message.contains("only hosts have cards"), "{between_switches}");
        assert!(one(&["loss=200%"]).1.contains("at most 100%"));
        assert_eq!(said(&["rate=fast", "jitter=1h", "x"]).len(), 3);
        assert!(one(&["delay=\u{1b}[2J"]).1.contains("\\x1b"));
    }

    #[test]
    fn links_are_changed_by_name_and_number() {
        let text = "nodes: { h1: host, h2: host, s1: switch }\nbonds: [{ host: h1 }]\n\
                    links: [{ between: [h1, s1] }, { between: [h2, s1] }, { between: [s1, h1] }]\n";
        let fabric = crate::parse(&Source { name: "net".to_owned(), text: text.to_owned() }).expect("a network");
        let at = |number: u32| ChangedLink { a: "h1".into(), b: "s1".into(), number, change: change("delay=3ms") };
        let changed = fabric.clone().with_links(&[at(2), at(7)]).expect("it can be read");
        let delay = |number| {
            let links = find_links(&changed.topology, "s1", "h1", Some(number)).expect("they are there");
            changed.topology.links[links[0]].spec.delay
        };
        assert_eq!([delay(1), delay(2)], [Span::ZERO, Span::from_ms(3)]);
        let unreadable = ChangedLink { change: LinkChange(vec!["delay=soon".to_owned()]), ..at(1) };
        assert!(fabric.with_links(&[unreadable]).is_err());
    }
}
