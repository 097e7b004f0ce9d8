//! What a [`TransportSpec`] means to Linux's TCP, so that live and simulated senders play by the same rules.
//!
//! | spec | Linux |
//! |---|---|
//! | `transport` | congestion control `reno` (iperf3 `-C`); `tcp_sack` on for SACK, off for `reno` and `newreno`: without SACK, Linux recovers as RFC 6582 says, and has no plain RFC 5681 Reno |
//! | `initial-window` | the route's `initcwnd` |
//! | `rto-min` | the route's `rto_min` |
//! | `delayed-ack: none` | the route's `quickack`; otherwise Linux's own timer (40 to 200 ms) |
//! | `duplicate-ack-threshold` | `tcp_reordering`, and `tcp_max_reordering` so that Linux doesn't raise it by itself |
//! | `window` | the route's `cwnd lock`, a clamp on the congestion window in segments. A receive window would be the same thing by name, but Linux counts its buffers with their overhead and so advertises some other number of segments. The kernel reads a clamp from what it remembers of a destination, so each pair of hosts opens a short connection first |
//! | `segment` | iperf3 `-M`, where it is less than the MTU allows; 12 bytes are added for the timestamp option |
//!
//! Off, since the simulated TCP has none of it: RACK (`tcp_recovery`), tail loss probes (`tcp_early_retrans`), F-RTO.
//! Slow start thresholds are not remembered from one connection to the next. Not the same, and not switched off: undo by
//! timestamps (Eifel), pacing of TSO bursts, and the header's 12 bytes of timestamps.

use std::fmt::Write as _;

use fabric::{HostAddress, TransportKind, TransportSpec};
use machine::Span;

/// The TCP option that each segment carries (RFC 7323), padded.
const TIMESTAMP_BYTES: u32 = 12;

/// Bytes of the IPv4 and TCP headers without options.
const HEADERS: u32 = 40;

/// A shell script that sets a host's TCP up; it fails at the first step that fails.
pub(crate) fn script(spec: &TransportSpec, address: &HostAddress) -> String {
    let sack = u8::from(spec.kind == TransportKind::Sack);
    let threshold = spec.duplicate_ack_threshold;
    let settings = [
        ("tcp_sack", u32::from(sack)),
        ("tcp_dsack", u32::from(sack)),
        ("tcp_recovery", 0),
        ("tcp_early_retrans", 0),
        ("tcp_frto", 0),
        ("tcp_no_metrics_save", 0),
        ("tcp_no_ssthresh_metrics_save", 1),
        ("tcp_max_reordering", threshold),
        ("tcp_reordering", threshold),
    ];
    let mut script = "set -e\n".to_owned();
    for (name, value) in settings {
        let _ = writeln!(script, "echo {value} > /proc/sys/net/ipv4/{name}");
    }
    let prefix = address.ipv4_prefix;
    let network = network_of(address.ipv4, prefix);
    let _ = write!(
        script,
        "set -- $(ip -o -4 address show to {}/32)\n\
         ip route replace {network}/{prefix} dev \"$2\" scope link src {} initcwnd {} rto_min {}ms",
        address.ipv4,
        address.ipv4,
        spec.initial_window.max(1),
        spec.rto_min.as_ns().div_ceil(1_000_000),
    );
    if spec.delayed_ack.is_none_or(|after| after == Span::ZERO) {
        script.push_str(" quickack 1");
    }
    // What is remembered holds the clamp of an earlier route.
    let _ = write!(script, " cwnd lock {}\nip tcp_metrics flush\n", spec.window.max(1));
    script
}

/// iperf3's arguments that belong to the transport.
pub(crate) fn client_arguments(spec: &TransportSpec, mtu: u32) -> Vec<String> {
    let mut arguments = vec!["-C".to_owned(), "reno".to_owned()];
    let maximum = spec.segment_bytes.saturating_add(TIMESTAMP_BYTES);
    if maximum < mtu.saturating_sub(HEADERS) {
        arguments.extend(["-M".to_owned(), maximum.to_string()]);
    }
    arguments
}

fn network_of(address: std::net::Ipv4Addr, prefix: u8) -> std::net::Ipv4Addr {
    let mask = u32::MAX.checked_shl(32 - u32::from(prefix.min(32))).unwrap_or(0);
    std::net::Ipv4Addr::from(u32::from(address) & mask)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{reno, tree};

    fn address() -> HostAddress {
        let fabric = tree(1, 1, 2, true);
        match &fabric.nodes[1].kind {
            fabric::NodeKind::Host(address) => address.clone(),
            fabric::NodeKind::Switch { .. } => unreachable!("hosts come first"),
        }
    }

    #[test]
    fn a_transport_as_settings_of_linux() {
        insta::assert_snapshot!(script(&reno(), &address()));
        assert_eq!(client_arguments(&reno(), 1_500), ["-C", "reno", "-M", "1012"]);
    }

    #[test]
    fn what_is_linux_own_way_is_left_to_it() {
        let spec = TransportSpec {
            kind: TransportKind::Sack,
            window: 256,
            segment_bytes: 1_448,
            delayed_ack: Some(Span::from_ms(40)),
            ..reno()
        };
        let text = script(&spec, &address());
        assert!(text.contains("echo 1 > /proc/sys/net/ipv4/tcp_sack\n"));
        assert!(!text.contains("quickack"), "{text}");
        assert_eq!(client_arguments(&spec, 1_500), ["-C", "reno"]);
    }

    #[test]
    fn networks_of_any_prefix() {
        let at = |prefix| network_of([10, 1, 2, 3].into(), prefix).to_string();
        assert_eq!([at(0), at(8), at(31), at(32)], ["0.0.0.0", "10.0.0.0", "10.1.2.2", "10.1.2.3"]);
    }
}
