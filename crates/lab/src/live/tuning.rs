//! What a [`TransportSpec`] means to Linux's TCP, so that live and simulated senders play by the same rules.
//!
//! | spec | Linux |
//! |---|---|
//! | `transport: linux` | all of TCP as kernels have it that nobody has set up, with the `congestion-control` of the file in the whole host (the route's `congctl`), whatever the machine's own is |
//! | `sysctl` | the sysctls below `net.ipv4` of that name, in each host's network namespace, which no other host has; read again afterwards |
//! | `transport`, of the studies' | congestion control `reno` in the whole host, by its route, since a namespace's sysctl takes only what the machine allows everybody; `tcp_sack` on for SACK, off for `reno` and `newreno`: without SACK, Linux recovers as RFC 6582 says, and has no plain RFC 5681 Reno |
//! | `initial-window` | the route's `initcwnd` |
//! | `rto-min` | the route's `rto_min` |
//! | `delayed-ack: none` | the route's `quickack`; otherwise Linux's own timer (40 to 200 ms) |
//! | `duplicate-ack-threshold` | `tcp_reordering`, and `tcp_max_reordering` so that Linux doesn't raise it by itself |
//! | `window` | `tcp_rmem`, all three values: a receive buffer that autotuning leaves alone, as large as makes Linux advertise the window (see [`receive_buffer`]). In unshaped fabrics, where 64 KiB segments pass, it is what Linux had set, for autotuning |
//! | `window: auto` | `tcp_rmem` as a kernel has it that nobody has set up ([`LINUX_BUFFERS`]), the same in all hosts, for autotuning |
//! | `streams` | iperf3 `-P`; of UDP, sockets of one sender |
//! | `segment` | iperf3 `-M`, where it is less than the MTU allows; 12 bytes are added for the timestamp option |
//!
//! With the studies' transports these are off, since the simulated TCP has none of them: tail loss probes (`tcp_early_retrans`), F-RTO, and RACK (`tcp_recovery`) in kernels that still
//! ask: 6.18 finds losses by RACK whatever that says.
//! Nothing is ever remembered from one connection to the next. Not the same, and not switched off: undo by
//! timestamps (Eifel), pacing of TSO bursts, and the header's 12 bytes of timestamps.

use std::fmt::Write as _;

use fabric::Fabric;
use machine::Span;
use topology::{HostAddress, Link};
use transport::linux::{Settings, Sysctl};
use transport::{ReceiveWindow, TransportKind, TransportSpec};

use crate::linux_limits::{congestion_control, receive_buffer};

/// Where the kernel has the sysctls of the network namespace of who looks.
const SYSCTLS: &str = "/proc/sys/net/ipv4";

/// The TCP option that each segment carries (RFC 7323), padded.
const TIMESTAMP_BYTES: u32 = 12;

/// Bytes of the IPv4 and TCP headers without options.
const HEADERS: u32 = 40;

/// Linux's `tcp_rmem` (`Documentation/networking/ip-sysctl.rst`).
pub(crate) const LINUX_BUFFERS: &str = "4096 131072 6291456";

/// A shell script that sets a host's TCP up; it fails at the first step that fails. `buffers` is for `tcp_rmem`.
pub(crate) fn script(spec: &TransportSpec, address: &HostAddress, buffers: &str) -> String {
    let control = congestion_control(spec).name();
    let mut script = format!(
        "set -e\nread -r known < {SYSCTLS}/tcp_available_congestion_control\n\
         case \" $known \" in *\" {control} \"*) ;; *) echo \"this kernel has no congestion control '{control}', only: $known\" >&2; exit 1;; esac\n"
    );
    script.push_str(&set_sysctls(SYSCTLS, &sysctls(spec)));
    let prefix = address.ipv4_prefix;
    let network = network_of(address.ipv4, prefix);
    let _ = write!(
        script,
        "set -- $(ip -o -4 address show to {}/32)\n\
         ip route replace {network}/{prefix} dev \"$2\" scope link src {} initcwnd {} rto_min {}ms congctl {control}",
        address.ipv4,
        address.ipv4,
        spec.initial_window.max(1),
        spec.rto_min.as_ns().div_ceil(1_000_000),
    );
    if spec.delayed_ack.is_none_or(|after| after == Span::ZERO) {
        script.push_str(" quickack 1");
    }
    script.push('\n');
    let _ = writeln!(script, "echo {buffers} > {SYSCTLS}/tcp_rmem");
    script
}

/// What is set in a host, all of it in each case: what another case left is none of its own.
fn sysctls(spec: &TransportSpec) -> Vec<(&'static str, u64)> {
    let is_linux = spec.kind == TransportKind::Linux;
    let has_sack = is_linux || spec.kind == TransportKind::Sack;
    let threshold = spec.duplicate_ack_threshold;
    let settings = if is_linux {
        spec.linux
    } else {
        let (max_reordering, reordering) = (threshold, threshold);
        Settings { max_reordering, reordering, early_retrans: 0, frto: 0, dsack: has_sack, ..Settings::default() }
    };
    // Seconds: what a run has lost parts of is not held against the next one.
    let others = [
        ("tcp_no_metrics_save", 1),
        ("ipfrag_time", 1),
        ("tcp_sack", has_sack.into()),
        ("tcp_recovery", is_linux.into()),
        ("tcp_window_scaling", 1),
        ("tcp_moderate_rcvbuf", 1),
    ];
    others.into_iter().chain(Sysctl::ALL.iter().map(|sysctl| (sysctl.name(), sysctl.get(&settings)))).collect()
}

/// Commands of a shell that write sysctls, each a file of `folder`, and fail if a kernel lacks one, refuses it or makes something else of it.
/// They are read by `cat`: shells read byte by byte, and a kernel gives a number to the first `read` only.
fn set_sysctls(folder: &str, values: &[(&str, u64)]) -> String {
    let mut script = "\
set_sysctl() {
  if [ ! -e \"$1\" ]; then echo \"this kernel has no sysctl 'net.ipv4.${1##*/}'\" >&2; exit 1; fi
  echo \"$2\" > \"$1\" || { echo \"the kernel refuses $2 for 'net.ipv4.${1##*/}'\" >&2; exit 1; }
  set=$(cat \"$1\")
  if [ \"$set\" != \"$2\" ]; then echo \"'net.ipv4.${1##*/}' is '$set', and $2 was written\" >&2; exit 1; fi
}
"
    .to_owned();
    for (name, value) in values {
        let _ = writeln!(script, "set_sysctl {folder}/{name} {value}");
    }
    script
}

/// What `tcp_rmem` is to be. `own`: what Linux had set in the hosts, which it keeps in a network without rates and delays, unless the file says `auto`.
pub(crate) fn receive_buffers(spec: &TransportSpec, is_shaped: bool, own: &str) -> String {
    match spec.window {
        ReceiveWindow::Auto => LINUX_BUFFERS.to_owned(),
        ReceiveWindow::Segments(window) if is_shaped => {
            let bytes = receive_buffer(window, spec.segment_bytes);
            format!("{bytes} {bytes} {bytes}")
        }
        ReceiveWindow::Segments(_) => own.to_owned(),
    }
}

/// The three numbers that a host's `tcp_rmem` holds; Linux's own if it holds anything else.
pub(crate) fn buffers_in(text: &str) -> String {
    let numbers: Vec<&str> = text.split_whitespace().collect();
    let is_known = numbers.len() == 3 && numbers.iter().all(|number| number.parse::<u32>().is_ok());
    if is_known { numbers.join(" ") } else { LINUX_BUFFERS.to_owned() }
}

/// Bytes of a message of UDP, and of the simulated sender's socket buffer.
pub(crate) const fn udp_message_bytes(spec: &TransportSpec) -> u32 {
    spec.segment_bytes.saturating_mul(transport::udp::FRAGMENTS)
}

/// Messages of a stream that are under way in a live run, where so many streams leave one host or come to one.
pub(crate) fn udp_window(fabric: &Fabric, streams_a_host: u32) -> u32 {
    let queues = fabric.topology.links.iter().flat_map(Link::specs).filter_map(|spec| spec.queue_packets);
    transport::credit::window(queues, streams_a_host)
}

/// Payload of a datagram whose frame is as long as a simulated packet: headers of Ethernet, IPv4 and UDP leave more room than TCP's.
/// Not longer than the MTU allows, where the file counts more headers than a frame has.
pub(crate) fn datagram_bytes(spec: &TransportSpec, mtu: u32) -> u32 {
    const ETHERNET: u32 = 14;
    const IP_UDP: u32 = 28;
    let least = live::datagrams::LEAST_BYTES as u32;
    let packet = (spec.segment_bytes.saturating_add(spec.header_bytes)).min(mtu.saturating_add(ETHERNET));
    packet.saturating_sub(ETHERNET + IP_UDP).max(least)
}

/// iperf3's arguments that belong to the transport, and how many streams it shall have.
pub(crate) fn client_arguments(spec: &TransportSpec, streams: u32, mtu: u32) -> Vec<String> {
    let mut arguments = Vec::new();
    if let Some(maximum) = maximum_segment(spec, mtu) {
        arguments.extend(["-M".to_owned(), maximum.to_string()]);
    }
    if streams > 1 {
        arguments.extend(["-P".to_owned(), streams.to_string()]);
    }
    arguments
}

/// The longest segment with its timestamp option; `None`: what fits the MTU.
pub(crate) fn maximum_segment(spec: &TransportSpec, mtu: u32) -> Option<u32> {
    let maximum = spec.segment_bytes.saturating_add(TIMESTAMP_BYTES);
    (maximum < mtu.saturating_sub(HEADERS)).then_some(maximum)
}

fn network_of(address: std::net::Ipv4Addr, prefix: u8) -> std::net::Ipv4Addr {
    let mask = u32::MAX.checked_shl(32 - u32::from(prefix.min(32))).unwrap_or(0);
    std::net::Ipv4Addr::from(u32::from(address) & mask)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_datagram_s_frame_is_as_long_as_a_simulated_packet() {
        let spec =
            |segment_bytes, header_bytes| TransportSpec { segment_bytes, header_bytes, ..crate::testing::reno() };
        assert_eq!(datagram_bytes(&spec(1_448, 66), 1_500), 1_472);
        assert_eq!(datagram_bytes(&spec(100, 66), 1_500), 124);
        assert_eq!(datagram_bytes(&spec(1_448, 90), 1_500), 1_472, "framing is no part of the frame");
        assert_eq!(datagram_bytes(&spec(1, 0), 1_500), 16);
    }
    use crate::testing::{reno, tree};

    fn address() -> HostAddress {
        let fabric = tree(1, 1, 2, true);
        match &fabric.topology.nodes[topology::NodeId(1)].kind {
            topology::NodeKind::Host(address) => address.clone(),
            topology::NodeKind::Switch { .. } => unreachable!("hosts come first"),
        }
    }

    #[test]
    fn a_transport_as_settings_of_linux() {
        insta::assert_snapshot!(script(&reno(), &address(), &receive_buffers(&reno(), true, "")));
        assert_eq!(client_arguments(&reno(), 1, 1_500), ["-M", "1012"]);
    }

    #[test]
    fn what_is_linux_own_way_is_left_to_it() {
        let spec = TransportSpec {
            kind: TransportKind::Sack,
            window: 256.into(),
            segment_bytes: 1_448,
            delayed_ack: Some(Span::from_ms(40)),
            ..reno()
        };
        let text = script(&spec, &address(), &buffers_in("4096\t131072\t33554432\n"));
        assert!(text.contains("set_sysctl /proc/sys/net/ipv4/tcp_sack 1\n"));
        assert!(!text.contains("quickack"), "{text}");
        assert!(text.contains("echo 4096 131072 33554432 > /proc/sys/net/ipv4/tcp_rmem\n"), "{text}");
        for broken in ["", "1 2", "1 2 x", "1 2 $(reboot)"] {
            assert_eq!(buffers_in(broken), LINUX_BUFFERS);
        }
        assert_eq!(client_arguments(&spec, 1, 1_500), [""; 0]);
        assert_eq!(client_arguments(&spec, 5, 1_500), ["-P", "5"]);
    }

    #[test]
    fn a_window_is_a_buffer_unless_receivers_find_it() {
        let own = "4096 131072 33554432";
        let of = |window, is_shaped| receive_buffers(&TransportSpec { window, ..reno() }, is_shaped, own);
        let [fixed, auto] = [ReceiveWindow::Segments(20), ReceiveWindow::Auto];
        assert_eq!([of(auto, true), of(auto, false)], [LINUX_BUFFERS; 2]);
        assert_eq!(of(fixed, false), own);
        assert_ne!(of(fixed, true), own);
    }

    #[test]
    fn each_case_sets_all_sysctls() {
        let mut linux = TransportSpec { kind: TransportKind::Linux, ..reno() };
        Sysctl::CompSackNr.set(&mut linux.linux, 0);
        let value_of = |spec: &TransportSpec, wanted: &str| {
            let values = sysctls(spec);
            values.into_iter().find(|(name, _)| *name == wanted).expect("it is set").1
        };
        assert_eq!(value_of(&linux, "tcp_comp_sack_nr"), 0);
        assert_eq!(value_of(&reno(), "tcp_comp_sack_nr"), 44, "whatever the case before it had");
        let names = |spec| sysctls(spec).into_iter().map(|(name, _)| name).collect::<Vec<_>>();
        assert_eq!(names(&reno()), names(&linux));
    }

    #[test]
    #[allow(clippy::disallowed_methods, reason = "a folder in the place of the kernel's")]
    fn a_sysctl_that_is_not_set_is_named() {
        let folder = tempfile::tempdir().expect("a folder");
        let (there, path) = (folder.path().join("tcp_dsack"), folder.path().to_str().expect("UTF-8"));
        std::fs::write(&there, "1\n").expect("a file");
        std::os::unix::fs::symlink("/dev/null", folder.path().join("tcp_frto")).expect("a link");
        std::fs::create_dir(folder.path().join("tcp_sack")).expect("a folder");
        let run = |name| {
            let script = format!("set -e\n{}", set_sysctls(path, &[("tcp_dsack", 0), (name, 3)]));
            let output = std::process::Command::new("sh").args(["-c", &script]).output().expect("there is a shell");
            (output.status.success(), String::from_utf8(output.stderr).expect("UTF-8"))
        };
        assert_eq!(run("tcp_dsack"), (true, String::new()));
        assert_eq!(std::fs::read_to_string(&there).expect("a file"), "3\n");
        for (name, said) in [
            ("tcp_comp_sack_nr", "this kernel has no sysctl 'net.ipv4.tcp_comp_sack_nr'\n"),
            ("tcp_sack", "the kernel refuses 3 for 'net.ipv4.tcp_sack'\n"),
            ("tcp_frto", "'net.ipv4.tcp_frto' is '', and 3 was written\n"),
        ] {
            let (succeeded, stderr) = run(name);
            // Before it, a shell has its own reason.
            assert!(!succeeded && stderr.ends_with(said), "{stderr}");
        }
    }

    /// Seen on Linux 6.18: buffers of 47,280 and 231,784 bytes advertise 26,334 and 133,001 bytes to segments of 1,000,
    /// buffers of 47,495 and 232,839 advertise 30,094 and 153,174 to segments of 1,448.
    #[test]
    fn the_receive_buffer_is_what_linux_makes_the_window_of() {
        for (buffer, window, segment, ratio, truesize) in [
            (47_280_u64, 26_334_u64, 1_000_u32, 148_u64, 1_728_u64),
            (231_784, 133_001, 1_000, 148, 1_728),
            (47_495, 30_094, 1_448, 170, 2_176),
            (232_839, 153_174, 1_448, 170, 2_176),
        ] {
            assert_eq!((buffer - truesize) * ratio / 256, window);
            let advertised = (receive_buffer(20, segment) - truesize) * ratio / 256;
            assert_eq!(advertised / u64::from(segment), 20);
        }
    }

    #[test]
    fn messages_under_way_fit_into_the_shortest_queue() {
        let mut fabric = tree(1, 1, 2, true);
        fabric.topology.links.iter_mut().for_each(|link| link.spec.queue_packets = Some(1_000));
        fabric.topology.links[topology::LinkId(1)].spec.queue_packets = Some(250);
        assert_eq!([1, 5, 22, 64].map(|streams| udp_window(&fabric, streams)), [22, 4, 1, 1]);
        fabric.topology.links.iter_mut().for_each(|link| link.spec.queue_packets = None);
        assert_eq!(udp_window(&fabric, 1), 186);
    }

    #[test]
    fn networks_of_any_prefix() {
        let at = |prefix| network_of([10, 1, 2, 3].into(), prefix).to_string();
        assert_eq!([at(0), at(8), at(31), at(32)], ["0.0.0.0", "10.0.0.0", "10.1.2.2", "10.1.2.3"]);
    }
}
