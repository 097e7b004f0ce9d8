//! Options of Mininet's links, as keys of the fabric file, and what is said of options of its switches.

use super::super::python::{Heap, Value, number, whole, written};
use crate::units;

/// What an option comes to: a key, nothing, or what is left out and why.
pub type Option_ = Result<Option<(&'static str, String)>, &'static str>;

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
        units::span(&text).is_ok().then_some(text).ok_or("no time that is known here")
    };
    Ok(match option {
        "bw" => match number {
            Some(0.0) | None => return Err("no rate that is known here"),
            Some(mbit) => Some(("rate", format!("{mbit}Mbit"))),
        },
        "delay" => Some(("delay", time()?)),
        "jitter" => Some(("jitter", time()?)),
        "loss" => match number {
            Some(0.0) => None,
            Some(percent) if percent <= 100.0 => Some(("loss", format!("{percent}%"))),
            _ => return Err("no share that is known here"),
        },
        "max_queue_size" => match whole(value) {
            Some(packets @ 1..=1_000_000) => Some(("queue", packets.to_string())),
            _ => return Err("no number of packets that is known here"),
        },
        "cls" | "cls1" | "cls2" | "intf" | "port1" | "port2" | "intfName1" | "intfName2" | "use_htb" | "use_hfsc"
        | "use_tbf" | "params1" | "params2" | "node1" | "node2" | "fast" => None,
        _ => return Err("nothing here stands for it"),
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
