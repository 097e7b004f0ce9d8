//! Ports of switches, and links, as a command line has them: any words are read or refused with a reason, and what is read fits into a network. What stands behind the first line are addresses, which
//! such a switch learns.
#![no_main]

use fabric::{AddedPort, ChangedPort, Directions, LinkChange, PortChange, Source};
use libfuzzer_sys::fuzz_target;
use machine::nanos;
use topology::NodeId;
use vswitch::mac_table::{MacLimits, MacTable};

const FILE: &str = "name: net\nnodes: { h1: host, s1: switch }\nlinks: [{ between: [h1, s1] }]\n";

/// Of the table: more addresses than it may know.
const ADDRESSES_MAX: u32 = 16;

fuzz_target!(|bytes: &[u8]| {
    let split = bytes.iter().position(|byte| *byte == b'\n').unwrap_or(bytes.len());
    let (text, learned) = bytes.split_at(split);
    learn(learned);
    let Ok(text) = std::str::from_utf8(text) else { return };
    let words: Vec<String> = text.split(' ').map(str::to_owned).collect();
    change(&words);
    match AddedPort::parse("s1", "vm", &words) {
        Ok(added) => {
            let source = Source { name: "fuzz.fabric.yaml".to_owned(), text: FILE.to_owned() };
            let fabric = fabric::parse_changed(&source, &[PortChange::Add(added)]).expect("it fits");
            assert_eq!(fabric.topology.hosts, 2);
            let ports = fabric.switches.values().flat_map(|switch| switch.ports.values());
            for vlans in ports.filter_map(|port| port.vlans.as_ref()) {
                for vid in (0..4_096).filter(|vid| vlans.carries(*vid)) {
                    let back = vlans.admit(vlans.tags(vid).then_some(vid));
                    assert!(back == Some(vid) || vid == 0, "{vlans:?} sends {vid} as {back:?}");
                }
            }
        }
        Err(error) => {
            for problem in error.problems() {
                assert!(!problem.message.is_empty() && !problem.message.contains(char::is_control), "{problem:?}");
            }
        }
    }
});

/// What is said of a port and of a link that are there: once more, it changes nothing.
fn change(words: &[String]) {
    let source = Source { name: "fuzz.fabric.yaml".to_owned(), text: FILE.to_owned() };
    if let Ok(said) = ChangedPort::parse("s1", "h1", words) {
        let mut again = said.clone();
        again.add(&said);
        let [once, twice] = [said, again].map(|said| fabric::parse_changed(&source, &[PortChange::Set(said)]).ok());
        assert_eq!(once, twice);
    }
    if let Ok(said) = LinkChange::parse(words)
        && let Ok(changed) = said.of(&Directions::default(), true)
    {
        assert_eq!(said.of(&changed, true).ok(), Some(changed), "{words:?}");
    }
}

fn learn(bytes: &[u8]) {
    let limits = MacLimits { age: nanos::Span::from_secs(10), addresses: ADDRESSES_MAX };
    let table = MacTable::new([Some(0), Some(0), None].into_iter(), &[limits], 1);
    for (at, bytes) in bytes.chunks_exact(3).enumerate() {
        let (host, now) = (NodeId(u32::from(bytes[0] & 3)), nanos::Span::from_secs(at as u64 / 8));
        let key = (u16::from(bytes[2] & 1), [2, 0, 0, 0, 0, bytes[1]]);
        table.learn(key, host, now);
        let found = table.lookup(key, now);
        assert!(host.0 > 1 || found == Some(host), "{key:?} at {host:?} is at {found:?}");
        assert!(table.addresses(now).len() <= ADDRESSES_MAX as usize);
    }
    table.flush(None);
    assert!(table.addresses(nanos::Span::from_secs(0)).is_empty());
}
