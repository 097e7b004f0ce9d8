//! Ports that are added to switches of a running network, or taken away, as a command line has them: their keys are read as those of the file are, by the same
//! reader.

use serde::{Deserialize, Serialize};

use crate::document::File;
use crate::error::{Error, Problems};
use crate::names::{nearest, one_of};
use crate::read::{Mapping, Name, Read, Section, shown};
use crate::source::{At, Place, Source};
use crate::switches::{PortText, SwitchText, check_port};
use crate::tree::{Entry, Node, Value};

/// The value that takes a key away.
const GONE: &str = "none";

/// A change of a switch's ports, besides what the file says.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PortChange {
    /// A port is added.
    Add(AddedPort),
    /// A port on a device is taken away that the file has.
    Remove {
        /// The name of the switch.
        switch: String,
        /// The name of the port.
        port: String,
    },
    /// Something else is said of a port.
    Set(ChangedPort),
}

/// A port of a running network's switch of which something else is said than in the file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChangedPort {
    /// The name of the switch.
    pub switch: String,
    /// The node that the port leads to, or its number.
    pub port: String,
    /// Keys with their values, as words like `tag=10`, or `tag=none`: of each key one.
    words: Vec<String>,
}

impl ChangedPort {
    /// The keys that ports have, `device` left out: a port stays on its device.
    pub fn keys() -> impl Iterator<Item = &'static str> {
        PortText::keys().into_iter().filter(|key| *key != "device")
    }

    /// Reads what is said of a port.
    ///
    /// # Errors
    /// If anything is wrong with it. The error holds every problem that was found, as that of a file does.
    pub fn parse(switch: &str, port: &str, words: &[String]) -> Result<Self, Error> {
        let source = Source { name: "the command line".to_owned(), text: words.join(" ") };
        let mut problems = Problems::new(&source);
        if let Some((PortText { device: Some(device), .. }, _)) = read(words, 0, &mut problems) {
            let hint = "take the port away, and add another one";
            problems.add(device.place, "a port stays on its device", "can't be changed", hint);
        }
        if problems.is_empty() {
            Ok(Self { switch: switch.to_owned(), port: port.to_owned(), words: words.to_vec() })
        } else {
            Err(problems.into_error())
        }
    }

    /// Whether nothing is said.
    pub const fn is_empty(&self) -> bool {
        self.words.is_empty()
    }

    /// Adds what is said later of the same port, which counts where both have a key.
    pub fn add(&mut self, later: &Self) {
        let key = |word: &str| word.split_once('=').map_or(word, |(key, _)| key).to_owned();
        self.words.retain(|word| later.words.iter().all(|other| key(other) != key(word)));
        self.words.extend(later.words.iter().cloned());
    }
}

/// A port on a device that a switch of a running network has besides those of its file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AddedPort {
    /// The name of the switch.
    pub switch: String,
    /// The name of the port: of the host behind it.
    pub port: String,
    /// Its keys, as words like `device=tap0` and `tag=10`.
    words: Vec<String>,
}

impl AddedPort {
    /// Reads a port's keys.
    ///
    /// # Errors
    /// If anything is wrong with them. The error holds every problem that was found, as that of a file does.
    pub fn parse(switch: &str, port: &str, words: &[String]) -> Result<Self, Error> {
        let source = Source { name: "the command line".to_owned(), text: format!("{port} {}", words.join(" ")) };
        let mut problems = Problems::new(&source);
        let name = Node { place: Place { offset: 0, len: port.len() }, value: Value::Scalar(port.to_owned()) };
        let name = Name::read(&name, &mut problems);
        let whole = Place { offset: port.len() + 1, len: words.join(" ").len() };
        let text = read(words, port.len() + 1, &mut problems);
        match (name, text) {
            (Some(_), Some((text, _))) if problems.is_empty() => check_port(&text, whole, &mut problems),
            _ => {}
        }
        if !problems.is_empty() {
            return Err(problems.into_error());
        }
        Ok(Self { switch: switch.to_owned(), port: port.to_owned(), words: words.to_vec() })
    }
}

/// Makes a file's ports what they are after these changes. The places of what was added are those of a command line, which was checked.
pub(crate) fn apply(changes: &[PortChange], file: &mut File, problems: &mut Problems<'_>) {
    for change in changes {
        match change {
            PortChange::Add(AddedPort { switch, port, words }) => {
                let Some((text, _)) = read(words, 0, problems) else { continue };
                let ports = ports_of(file, switch);
                ports.0.push((at(Name(port.clone())), at(text)));
            }
            PortChange::Set(ChangedPort { switch, port, words }) => {
                let Some((text, gone)) = read(words, 0, problems) else { continue };
                let ports = &mut ports_of(file, switch).0;
                match ports.iter_mut().find(|(name, _)| name.value.0 == *port) {
                    Some((_, known)) => known.value.change(text, |key| gone.contains(&key)),
                    None => ports.push((at(Name(port.clone())), at(text))),
                }
            }
            PortChange::Remove { switch, port } => {
                ports_of(file, switch).0.retain(|(name, text)| name.value.0 != *port || text.value.device.is_none());
            }
        }
    }
}

/// What stands in no text.
fn at<T>(value: T) -> At<T> {
    At { value, place: Place::default(), sound: true }
}

/// The ports of a switch, as the file has them.
fn ports_of<'a>(file: &'a mut File, switch: &str) -> &'a mut Mapping<Name, PortText> {
    let switches = &mut file.switches.get_or_insert_with(|| at(Mapping(Vec::new()))).value.0;
    let known = switches.iter().position(|(name, _)| name.value.0 == switch).unwrap_or_else(|| {
        let text = SwitchText { mac_age: None, mac_table_size: None, rstp: None, ports: None };
        switches.push((at(Name(switch.to_owned())), at(text)));
        switches.len() - 1
    });
    &mut switches[known].1.value.ports.get_or_insert_with(|| at(Mapping(Vec::new()))).value
}

/// Reads the words of a text in which a blank stands between any two, from `offset` on: what they say, and the keys that they take away.
fn read<'a>(words: &'a [String], mut offset: usize, problems: &mut Problems<'_>) -> Option<(PortText, Vec<&'a str>)> {
    let (mut entries, mut gone) = (Vec::<Entry>::new(), Vec::new());
    let begin = offset;
    for word in words {
        let place = Place { offset, len: word.len() };
        offset += word.len() + 1;
        let Some((key, value)) = word.split_once('=') else {
            let keys = PortText::keys();
            let hint = match nearest(word, keys.iter().copied()) {
                Some(key) => format!("write `{key}=VALUE`"),
                None => format!("the keys are {}", one_of(keys)),
            };
            problems.add(place, format!("expected KEY=VALUE, found `{}`", shown(word)), "found no `=`", hint);
            continue;
        };
        let key_place = Place { len: key.len(), ..place };
        if entries.iter().any(|entry| entry.key == key) || gone.contains(&key) {
            problems.add(key_place, format!("`{}` is there twice", shown(key)), "the second one", "remove one of them");
            continue;
        }
        if value == GONE && PortText::keys().contains(&key) {
            gone.push(key);
            continue;
        }
        let place = Place { offset: place.offset + key.len() + 1, len: value.len() };
        entries.push(Entry {
            key: key.to_owned(),
            key_place,
            value: Node { place, value: value_of(key, value, place) },
        });
    }
    let place = Place { offset: begin, len: offset.saturating_sub(begin + 1) };
    Some((PortText::read(&Node { place, value: Value::Map(entries) }, problems)?, gone))
}

/// A value as the file would have it. Of lists, the items stand between commas.
fn value_of(key: &str, value: &str, place: Place) -> Value {
    if value.is_empty() {
        return Value::Null;
    }
    if key != "trunks" {
        return Value::Scalar(value.to_owned());
    }
    let mut offset = place.offset;
    let items = value.split(',').map(|item| {
        let place = Place { offset, len: item.len() };
        offset += item.len() + 1;
        Node { place, value: Value::Scalar(item.to_owned()) }
    });
    Value::List(items.collect())
}

#[cfg(test)]
mod tests {
    use topology::PortId;
    use vswitch::port::{PortVlans, VlanMode};

    use super::*;
    use crate::{find_switch, parse, parse_changed};

    fn source() -> Source {
        let text = "name: net\nnodes: { h1: host, s1: switch }\nlinks: [{ between: [h1, s1] }]\n\
            switches: { s1: { ports: { tap: { device: tap0 }, h1: { tag: 5 } } } }\n";
        Source { name: "net".to_owned(), text: text.to_owned() }
    }

    fn words(text: &str) -> Vec<String> {
        text.split_whitespace().map(str::to_owned).collect()
    }

    #[test]
    fn ports_come_and_go_besides_those_of_the_file() {
        let add =
            |words_of: &str| PortChange::Add(AddedPort::parse("s1", "vm", &words(words_of)).expect("it is a port"));
        let change = add("device=vhost-user: vlan-mode=native-untagged tag=7 trunks=8,9 storm-control=10/s");
        let fabric = parse_changed(&source(), std::slice::from_ref(&change)).expect("it is a file");
        let names: Vec<&str> = fabric.topology.nodes.iter().map(|node| node.name.as_str()).collect();
        assert_eq!(names, ["h1", "tap", "vm", "s1"]);
        let s1 = find_switch(&fabric.topology, "s1").expect("it is there");
        let vlans = fabric.switches[&s1].ports[&PortId(2)].vlans.clone();
        assert_eq!(vlans, Some(PortVlans::new(VlanMode::NativeUntagged, 7, vec![8, 9])));
        let gone = PortChange::Remove { switch: "s1".to_owned(), port: "tap".to_owned() };
        let fabric = parse_changed(&source(), &[change, gone.clone()]).expect("it is a file");
        assert!(fabric.topology.node("tap").is_none() && fabric.topology.node("vm").is_some());
        assert_eq!(parse_changed(&source(), &[]).ok(), parse(&source()).ok());
        // A port that leads to a node of the file stays.
        let linked = PortChange::Remove { switch: "s1".to_owned(), port: "h1".to_owned() };
        assert_eq!(parse_changed(&source(), &[linked]).ok(), parse(&source()).ok());
    }

    #[test]
    fn what_is_said_of_a_port_changes_key_by_key() {
        let vlans = |settings: &[&str]| {
            let mut all = ChangedPort::parse("s1", "h1", &[]).expect("nothing is said");
            for words_of in settings {
                all.add(&ChangedPort::parse("s1", "h1", &words(words_of)).expect("it can be read"));
            }
            let fabric = parse_changed(&source(), &[PortChange::Set(all)])?;
            let s1 = find_switch(&fabric.topology, "s1").expect("it is there");
            Ok::<_, Error>(fabric.switches[&s1].ports[&PortId(0)].vlans.clone())
        };
        assert_eq!(vlans(&[]).unwrap(), Some(PortVlans::access(5)));
        assert_eq!(vlans(&["tag=7"]).unwrap(), Some(PortVlans::access(7)));
        assert_eq!(vlans(&["learning=false"]).unwrap(), Some(PortVlans::access(5)));
        assert_eq!(vlans(&["tag=none"]).unwrap(), None);
        let native = PortVlans::new(VlanMode::NativeUntagged, 5, vec![8]);
        assert_eq!(vlans(&["vlan-mode=native-untagged trunks=8"]).unwrap(), Some(native));
        assert_eq!(
            vlans(&["tag=none trunks=8", "trunks=9"]).unwrap(),
            Some(PortVlans::new(VlanMode::Trunk, 0, vec![9]))
        );
        let trunk = vlans(&["vlan-mode=native-tagged trunks=8", "vlan-mode=trunk tag=none"]).unwrap();
        assert_eq!(trunk, Some(PortVlans::new(VlanMode::Trunk, 0, vec![8])));
        // What goes together with what the file says, the file's checks know.
        let error = vlans(&["trunks=8"]).unwrap_err();
        assert!(error.problems()[0].hint.contains("native-untagged"), "{error}");
        let error = ChangedPort::parse("s1", "h1", &words("device=tap1")).unwrap_err();
        assert!(error.problems()[0].message.contains("stays on its device"), "{error}");
        assert!(ChangedPort::parse("s1", "h1", &words("tag=none tag=5")).is_err());
        assert!(ChangedPort::parse("s1", "h1", &words("vlan-mode=sideways")).is_err());
        let other = ChangedPort::parse("s1", "h9", &words("tag=5")).expect("it can be read");
        let error = parse_changed(&source(), &[PortChange::Set(other)]).unwrap_err();
        assert!(error.problems()[0].message.contains("leads to `h9`"), "{error}");
    }

    #[test]
    fn what_is_wrong_is_said_as_of_a_file() {
        let said = |words_of: &str| {
            let error = AddedPort::parse("s1", "vm", &words(words_of)).unwrap_err();
            let text = format!("vm {words_of}");
            let problem = &error.problems()[0];
            (
                text[problem.span.offset()..][..problem.span.len()].to_owned(),
                format!("{}; {}", problem.message, problem.hint),
            )
        };
        for (words, marked, says) in [
            ("device=tap0 tga=5", "tga", "did you mean `tag`?"),
            ("device=tap0 tag=5000", "5000", "from 1 to 4094"),
            ("device=tap0 trunks=1,x", "x", "a whole number"),
            ("device=a/b", "a/b", "can't be a network device"),
            ("device=tap0 tag=5 trunks=6", "5", "native-untagged"),
            ("device=tap0 tag=5 tag=6", "tag", "is there twice"),
            ("tag=5", "tag=5", "add `device=`"),
            ("device=tap0 tag", "tag", "write `tag=VALUE`"),
        ] {
            let (at, message) = said(words);
            assert!(at == marked && message.contains(says), "{words}: {at}: {message}");
        }
        assert!(AddedPort::parse("s1", "-x", &words("device=tap0")).is_err());
    }
}
