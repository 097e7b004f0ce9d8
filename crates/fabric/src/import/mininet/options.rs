//! Options of Mininet's links, as keys of the fabric file, and what is said of options of its switches.

use super::super::python::{Heap, Value, number, whole, written};
use crate::names::nearest;
use crate::units;

/// What an option comes to: a key, nothing, or what is left out and why.
pub type Option_ = Result<Option<(&'static str, String)>, String>;

/// Options that are keys here.
const KEYS: [&str; 5] = ["bw", "delay", "jitter", "loss", "max_queue_size"];

/// Options that `TCLink` takes, and nothing here stands for.
const OF_MININET: [&str; 15] = [
    "ifconfig",
    "disable_gro",
    "speedup",
    "gro",
    "latency_ms",
    "enable_ecn",
    "enable_red",
    "txo",
    "rxo",
    "intf1",
    "intf2",
    "ip1",
    "ip2",
    "params",
    "moveIntfFn",
];

/// Whether it is an option that nothing here stands for.
pub fn is_known_to_mininet(option: &str) -> bool {
    OF_MININET.contains(&option)
}

/// Whether it is an option that is a key here.
pub fn is_option(option: &str) -> bool {
    KEYS.contains(&option)
}

/// An option of Mininet's `TCLink`.
pub fn link_key(heap: &Heap, option: &str, value: &Value) -> Option_ {
    if matches!(value, Value::None) {
        return Ok(None);
    }
    let text = written(heap, value).unwrap_or_default();
    let of_text = || text.parse::<f64>().ok();
    let number = number(value).or_else(of_text).filter(|number| number.is_finite() && *number >= 0.0);
    // A plain number is of microseconds to tc.
    let time = || {
        let text = if number.is_some() { format!("{text}us") } else { text.clone() };
        units::span(&text).is_ok().then_some(text).ok_or("it is no time, as `5ms` is")
    };
    Ok(match option {
        "bw" => match number {
            Some(0.0) | None => return Err("it is no rate in Mbit/s, as `10` is".to_owned()),
            Some(mbit) => Some(("rate", format!("{mbit}Mbit"))),
        },
        "delay" => Some(("delay", time()?)),
        "jitter" => Some(("jitter", time()?)),
        "loss" => match number {
            Some(0.0) => None,
            Some(percent) if percent <= 100.0 => Some(("loss", format!("{percent}%"))),
            _ => return Err("it is no share from 0 to 100 (%)".to_owned()),
        },
        "max_queue_size" => match whole(value) {
            Some(packets @ 1..=1_000_000) => Some(("queue", packets.to_string())),
            _ => return Err("it is no number of packets from 1 to 1000000".to_owned()),
        },
        // `params1` and the like are said of one end.
        "params1" | "params2" | "addr1" | "addr2" | "cls" | "cls1" | "cls2" | "intf" | "port1" | "port2"
        | "intfName1" | "intfName2" | "use_htb" | "use_hfsc" | "use_tbf" | "node1" | "node2" | "port" | "up"
        | "fast" => None,
        _ if is_known_to_mininet(option) => return Err("nothing here stands for it".to_owned()),
        _ => {
            let all = KEYS.into_iter().map(|key| format!("`{key}`")).collect::<Vec<_>>().join(", ");
            return Err(match nearest(option, KEYS) {
                Some(near) => format!("there is no such option; did you mean `{near}`?"),
                None => format!("there is no such option; there are {all}"),
            });
        }
    })
}

/// What is said of the spanning tree of switches.
pub const SPANNING_TREE: &str = "the spanning tree of switches (`stp`): `switches: { s1: { rstp: true } }` has them speak RSTP; without it loops do no harm";

/// What is said of an option of Open vSwitch.
pub fn switch_option(option: &str) -> Option<&'static str> {
    Some(match option {
        "failMode" => "`failMode` of switches: without a controller they forward, and do what `flows:` of the file say",
        "datapath" => "`datapath` of switches: one process forwards for all of them",
        "protocols" => "`protocols` of switches: `heddle flow` takes what ovs-ofctl takes of any version",
        "stp" | "stp_enable" | "rstp" | "rstp_enable" => SPANNING_TREE,
        "dpid" => "`dpid` of switches: they are known by their names",
        "listenPort" => "`listenPort` of switches: `heddle flow` finds them by their names",
        "inband" => "`inband` of switches: there is no controller between them",
        "opts" => "`opts` of switches",
        "reconnectms" => "`reconnectms` of switches: there is no controller to connect to",
        "batch" => "`batch` of switches",
        _ => return None,
    })
}
