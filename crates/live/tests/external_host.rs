//! Hosts that are not made: behind veth pairs that lead out of the test's own network namespace into a guest's.

use std::os::fd::{AsRawFd, OwnedFd};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::bed::{self, Bed, GuestTap, output, source};
use fabric::{BondSetting, Overrides};
use live::Instance;
use nix::sched::{CloneFlags, unshare};
use nix::sys::socket::{AddressFamily, MsgFlags, NetlinkAddr, SockFlag, SockProtocol, SockType, bind, recv, socket};

/// `guest` is behind `dev0`; `h1` is made.
const ONE: &str = "
name: one
nodes: { h1: host, guest: { kind: host, devices: [dev0] }, s1: switch }
links:
  - between: [h1, s1]
  - between: [guest, s1]
";

/// The same with a rate, so that no frame may be longer than the MTU.
const SHAPED: &str = "
name: one
nodes: { h1: host, guest: { kind: host, devices: [dev0] }, s1: switch }
link-defaults: { rate: 100Mbit, delay: 100us, queue: 250 }
links:
  - between: [h1, s1]
  - between: [guest, s1]
";

/// A guest with two members of a bond of its own kind, its devices one below the other.
const BOND: &str = "
name: bond
nodes: { h1: host, guest: { kind: host, devices: [dev0, dev1] }, s1: switch }
links:
  - between: [h1, s1]
  - between: [guest, s1]
  - between: [guest, s1]
bonds:
  - { host: guest, mode: active-backup }
";

/// What is outside of Heddle: a namespace with a device `eth0`, `eth1`, .. for each `dev0`, `dev1`, ..
struct Guest {
    process: Child,
}

impl Guest {
    /// Moves the calling thread into a new network namespace, which stands for the machine's, and makes a guest beside it.
    fn with_devices(count: usize) -> Self {
        unshare(CloneFlags::CLONE_NEWNET).expect("root may make network namespaces");
        let process = Command::new("unshare").args(["--net", "sleep", "600"]).stdin(Stdio::null()).spawn().unwrap();
        let guest = Self { process };
        let pid = guest.process.id();
        let own = std::fs::read_link("/proc/thread-self/ns/net").unwrap();
        let started = Instant::now();
        while std::fs::read_link(format!("/proc/{pid}/ns/net")).unwrap() == own {
            assert!(started.elapsed() < bed::PATIENCE, "the guest does not start");
        }
        for n in 0..count {
            guest.make_device(n, "");
        }
        guest
    }

    /// Makes the devices `dev{n}` and `eth{n}`; `options` are for the former.
    fn make_device(&self, n: usize, options: &str) {
        run("ip", &format!("link add dev{n}{options} type veth peer name eth{n} netns {}", self.process.id()));
        run("ip", &format!("link set dev{n} up"));
        self.ip(&format!("link set eth{n} up"));
    }

    fn ip(&self, args: &str) {
        run("nsenter", &format!("-t {} -n ip {args}", self.process.id()));
    }

    /// Runs a program in it.
    fn output(&self, args: &[&str]) -> String {
        let pid = self.process.id().to_string();
        let output = Command::new("nsenter").args(["-t", &pid, "-n"]).args(args).output().unwrap();
        assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    /// The addresses that the fabric has for the second host of a file.
    fn has_addresses_of(&self, network: &str, device: &str) {
        let fabric = fabric::parse(&source(network)).unwrap();
        let (id, _) = fabric.topology.hosts().find(|(_, node)| node.name == "guest").unwrap();
        let address = fabric.topology.address(id).unwrap();
        let mac = address.mac.map(|byte| format!("{byte:02x}")).join(":");
        self.ip(&format!("link set {device} address {mac}"));
        self.ip(&format!("addr add {}/{} dev {device}", address.ipv4, address.ipv4_prefix));
        self.ip(&format!("addr add {}/{} dev {device} nodad", address.ipv6, address.ipv6_prefix));
        // The kernel takes packets for an IPv6 address a while after the address is there.
        let own = format!("local {} dev {device}", address.ipv6);
        let routes = || self.output(&["ip", "-6", "route", "show", "table", "local"]);
        bed::wait_until("the address is in use", || routes().contains(&own));
    }
}

impl Drop for Guest {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn run(program: &str, args: &str) {
    let output = Command::new(program).args(args.split(' ')).output().expect("it runs");
    assert!(output.status.success(), "{program} {args}: {}", String::from_utf8_lossy(&output.stderr));
}

/// Runs a test in a thread of its own, since it changes its network namespace; not where this user may not.
fn with_guest(devices: usize, test: impl FnOnce(&Bed, &Guest) + Send + 'static) {
    let thread = std::thread::spawn(move || {
        if !nix::unistd::geteuid().is_root() {
            return eprintln!("SKIPPED: devices of the machine are for root");
        }
        let Some(bed) = Bed::new() else { return };
        test(&bed, &Guest::with_devices(devices));
    });
    if let Err(panic) = thread.join() {
        std::panic::resume_unwind(panic);
    }
}

/// The same for each way in which frames come from a device: the test is given what writes a file for it.
fn with_each_port(test: impl Fn(&Bed, &Guest, &dyn Fn(&str) -> String) + Copy + Send + 'static) {
    for kind in ["", "xdp:"] {
        let by_port =
            move |text: &str| text.replace("dev0", &format!("{kind}dev0")).replace("dev1", &format!("{kind}dev1"));
        with_guest(1, move |bed, guest| test(bed, guest, &by_port));
    }
}

fn pings(network: &Instance, from: &str, to: &str) {
    bed::ping(network, from, &[], 3, to);
}

fn carries_tcp(network: &Instance, guest: &Guest) {
    let server = bed::Running::iperf3_server(network.command("h1", "iperf3", ["-s", "-1"]));
    let text = guest.output(&["iperf3", "-c", "10.0.0.1", "-n", "4M", "--json"]);
    let report: serde_json::Value = serde_json::from_str(&text).unwrap();
    let received = report["end"]["sum_received"]["bytes"].as_f64().unwrap();
    // It ends when all was handed to the kernel; how much of that has come by then is a matter of speed.
    assert!(received > 0.0, "{received} of 4 MiB came");
    assert!(server.wait().success());
}

/// The device's socket is one worker's, `h3` is the other's.
#[test]
fn a_host_behind_a_device_is_reached_from_another_worker() {
    with_guest(1, |bed, guest| {
        bed.with_workers(2);
        let text = ONE.replace("s1: switch }", "h3: host, s1: switch }") + "  - between: [h3, s1]\n";
        guest.has_addresses_of(&text, "eth0");
        let network = bed.up("one", &text);
        assert_eq!(network.status().unwrap().workers, 2);
        for host in ["h1", "h3"] {
            pings(&network, host, "guest");
        }
        guest.output(&["ping", "-c", "3", "-i", "0.01", "-W", "60", "10.0.0.3"]);
    });
}

#[test]
fn a_host_behind_a_device_is_reached_and_reaches_others() {
    with_each_port(|bed, guest, by_port| {
        guest.has_addresses_of(ONE, "eth0");
        let network = bed.up("one", &by_port(ONE));
        pings(&network, "h1", "guest");
        guest.output(&["ping", "-c", "3", "-i", "0.01", "-W", "60", "10.0.0.1"]);
        carries_tcp(&network, guest);
        network.apply(&source(&by_port(SHAPED)), &Overrides::default()).unwrap();
        carries_tcp(&network, guest);
        let error = network.command("guest", "true", [] as [&str; 0]).unwrap_err();
        let device = by_port("dev0");
        assert_eq!(
            error.to_string(),
            format!("host `guest` is behind devices of the machine ({device}): nothing can be run in it from here")
        );
    });
}

/// What waits for the end of a burst and is refused then is a loss, and nothing that was received.
#[test]
fn frames_that_a_device_refuses_are_counted() {
    with_guest(1, |bed, guest| {
        guest.has_addresses_of(ONE, "eth0");
        let network = bed.up("one", ONE);
        run("ip", "link set dev0 mtu 1000");
        for file in [ONE, SHAPED] {
            network.apply(&source(file), &Overrides::default()).unwrap();
            pings(&network, "h1", "10.0.0.2");
            let count = || {
                let ports = network.counters().unwrap().ports;
                let traffic = ports.iter().find(|port| port.host == "guest").unwrap().traffic;
                (traffic.drops, traffic.received_packets, traffic.received_bytes)
            };
            let (drops, packets, bytes) = count();
            let args = ["-c", "5", "-i", "0.01", "-s", "1200", "-W", "0.2", "10.0.0.2"];
            assert!(!network.command("h1", "ping", args).unwrap().output().unwrap().status.success());
            let counted = (drops + 5, packets, bytes);
            assert!(bed::soon(|| count() == counted), "{:?}, expected {counted:?}", count());
            pings(&network, "h1", "10.0.0.2");
        }
    });
}

#[test]
fn a_link_has_the_carrier_of_its_device() {
    with_each_port(|bed, guest, by_port| {
        guest.has_addresses_of(ONE, "eth0");
        let network = bed.up("one", &by_port(ONE));
        let is_up = || network.counters().unwrap().links[1].up;
        assert!(is_up());
        guest.ip("link set eth0 down");
        bed::wait_until("the link is down", || !is_up());
        guest.ip("link set eth0 up");
        bed::wait_until("the link is up", is_up);
        // Linux has taken the IPv6 address with the link.
        pings(&network, "h1", "10.0.0.2");
    });
}

#[test]
fn a_device_that_is_not_there_is_named() {
    with_guest(1, |bed, _| {
        let network = Instance::start(&bed.options("none")).unwrap();
        let missing = source(&ONE.replace("dev0", "dev7"));
        let error = network.apply(&missing, &Overrides::default()).unwrap_err();
        assert!(error.to_string().contains("the device `dev7` of host `guest` can't be opened"), "{error}");
        assert!(error.hint().unwrap().contains("`ip link` shows the devices"), "{error:?}");
        drop(network);
        assert!(bed.is_empty());
    });
}

/// The guest sends by one device, then by the other: the switch's MAC-learning ports learn where it is, and lose it with the carrier.
#[test]
fn a_switch_learns_behind_which_device_a_host_is() {
    with_guest(2, |bed, guest| {
        guest.has_addresses_of(BOND, "eth0");
        let network = bed.up("bond", BOND);
        pings(&network, "h1", "guest");
        guest.ip("addr flush dev eth0");
        guest.ip("link set eth0 down");
        bed::wait_until("the link is down", || !network.counters().unwrap().links[1].up);
        guest.has_addresses_of(BOND, "eth1");
        pings(&network, "h1", "guest");
        guest.output(&["ping", "-c", "3", "-i", "0.01", "-W", "60", "10.0.0.1"]);
    });
}

/// What the reviewer of a network does to it: devices come, go and change places while it runs.
#[test]
fn devices_come_go_and_change_places() {
    with_guest(2, |bed, guest| {
        guest.has_addresses_of(BOND, "eth0");
        let network = bed.up("bond", BOND);
        let apply = |text: &str| network.apply(&source(text), &Overrides::default()).unwrap();
        let up = || {
            let links = network.counters().unwrap().links;
            let guest = links.into_iter().filter(|link| [&link.a, &link.b].contains(&&"guest".to_owned()));
            guest.map(|link| link.up).collect::<Vec<_>>()
        };
        pings(&network, "h1", "guest");
        guest.ip("link set eth1 down");
        bed::wait_until("one is down", || up() == [true, false]);
        let applied = apply(&BOND.replace("[dev0, dev1]", "[dev1, dev0]"));
        assert_eq!(applied.changed, ["guest"]);
        bed::wait_until("they have changed places", || up() == [false, true]);
        // A cable that was pulled by hand stays out, whatever its device does.
        network.set_link("guest", "s1", Some(2), false).unwrap();
        guest.ip("link set eth0 down");
        std::thread::sleep(Duration::from_millis(100));
        guest.ip("link set eth0 up");
        std::thread::sleep(Duration::from_millis(200));
        assert_eq!(up(), [false, false]);
        network.set_link("guest", "s1", Some(1), true).unwrap();
        assert_eq!(up(), [false, false], "a link whose device has no carrier can't be put in");
        network.set_link("guest", "s1", Some(2), true).unwrap();
        bed::wait_until("the other can be put in", || up() == [false, true]);
        // The guest becomes a host that is made, and one behind devices again.
        apply(&BOND.replace(", devices: [dev0, dev1]", ""));
        assert_eq!(up(), [true, true]);
        pings(&network, "h1", "guest");
        apply(BOND);
        bed::wait_until("it has its devices again", || up() == [true, false]);
        pings(&network, "h1", "10.0.0.2");
        // Other members than devices: refused, and nothing changes.
        let overrides = Overrides::from([BondSetting::Members(4)]);
        let error = network.apply(&source(BOND), &overrides).unwrap_err();
        assert_eq!(error.to_string(), "host `guest` has 4 links and 2 devices, expected one for each link");
        let loopback = source(&ONE.replace("dev0", "lo"));
        let error = network.apply(&loopback, &Overrides::default()).unwrap_err();
        assert!(error.to_string().ends_with("it is no Ethernet device"), "{error}");
        pings(&network, "h1", "10.0.0.2");
    });
}

/// `AF_XDP` opens a device once: what would need it twice is refused, and nothing changes.
#[test]
fn a_device_that_is_open_by_af_xdp_stays_where_it_is() {
    with_guest(2, |bed, guest| {
        let by_xdp = |text: &str| text.replace("[dev0, dev1]", "['xdp:dev0', 'xdp:dev1']");
        guest.has_addresses_of(BOND, "eth0");
        let network = bed.up("bond", &by_xdp(BOND));
        pings(&network, "h1", "guest");
        let swapped = BOND.replace("[dev0, dev1]", "['xdp:dev1', 'xdp:dev0']");
        let error = network.apply(&source(&swapped), &Overrides::default()).unwrap_err();
        let text =
            "the device `xdp:dev0` of host `guest` can't be opened: this network has it open, and AF_XDP opens it once";
        assert_eq!(error.to_string(), text);
        assert!(error.hint().unwrap().contains("`heddle up` without it first"), "{error:?}");
        pings(&network, "h1", "10.0.0.2");
        // Once it is not in use any more, it may come back in any place.
        network.apply(&source(BOND), &Overrides::default()).unwrap();
        network.apply(&source(&swapped), &Overrides::default()).unwrap();
        guest.output(&["ping", "-c", "3", "-i", "0.01", "-W", "60", "10.0.0.1"]);
    });
}

/// The kernel's news of the devices of the thread's network namespace.
struct News(OwnedFd);

impl News {
    fn new() -> Self {
        let family = AddressFamily::Netlink;
        let socket = socket(family, SockType::Datagram, SockFlag::SOCK_NONBLOCK, SockProtocol::NetlinkRoute).unwrap();
        // RTMGRP_LINK
        bind(socket.as_raw_fd(), &NetlinkAddr::new(0, 1)).unwrap();
        Self(socket)
    }

    /// Whether any has come of this device since this was asked last.
    fn came(&self, index: u32) -> bool {
        let mut buffer = [0; 8_192];
        let mut came = false;
        while let Ok(len) = recv(self.0.as_raw_fd(), &mut buffer, MsgFlags::empty()) {
            // `struct ifinfomsg` behind `struct nlmsghdr`.
            came |= len >= 24 && buffer[20..24] == index.to_ne_bytes();
        }
        came
    }
}

/// Of a TAP the kernel notifies others only once a second; its link loses its carrier and has it back before. The kernel tells at once of a
/// device whose carrier somebody asks for: what it holds back is seen at another one that changes at the same time.
#[test]
fn the_carrier_of_a_tap_is_seen_before_the_kernel_reports_it() {
    with_guest(0, |bed, _| {
        let tap = GuestTap::new("dev0");
        run("ip", "link set dev0 up");
        let network = bed.up("one", ONE);
        let is_up = || network.counters().unwrap().links[1].up;
        assert!(is_up());
        let other = GuestTap::new("other");
        run("ip", "link set other up");
        let (news, index) = (News::new(), nix::net::if_::if_nametoindex("other").unwrap());
        let is_first = |up: bool| {
            news.came(index);
            other.set_carrier(up);
            tap.set_carrier(up);
            bed::wait_until("the link has followed", || is_up() == up);
            !news.came(index)
        };
        // Of one change the kernel notifies at once, and a busy machine may take a second to see the next: not of each, for a minute.
        assert!(bed::soon(|| is_first(false) | is_first(true)), "the link only ever follows the kernel's word");
    });
}

/// Hosts, and a guest that has two members of a bond without a protocol: what is sent to it stays on a member for each sender.
const HASHED: &str = "
name: hashed
nodes: { h1: host, h2: host, h3: host, guest: { kind: host, devices: [dev0, dev1] }, s1: switch }
links:
  - between: [h1, s1]
  - between: [h2, s1]
  - between: [h3, s1]
  - between: [guest, s1]
  - between: [guest, s1]
bonds:
  - { host: guest, mode: balance-xor }
";

/// How many packets `pings` of each of `hosts` to the guest put on each of its two members; nobody answers, and all are waited for.
fn spread(network: &Instance, hosts: &[&str], number: u32) -> [u64; 2] {
    let count = || -> Vec<u64> {
        let links = network.counters().unwrap().links;
        links.iter().filter(|link| link.a == "guest").map(|link| link.backward.packets).collect()
    };
    let before = count();
    let pings = number.to_string();
    let ping = |host: &&str| {
        let args = ["-c", &pings, "-i", "0.01", "-s", "1000", "-W", "0.1", "10.0.0.4"];
        network.command(host, "ping", args).unwrap().stdout(Stdio::null()).spawn().unwrap()
    };
    let pinging: Vec<Child> = hosts.iter().map(ping).collect();
    for mut ping in pinging {
        ping.wait().unwrap();
    }
    let put = || [0, 1].map(|member| count()[member] - before[member]);
    let expected = hosts.len() as u64 * u64::from(number);
    assert!(bed::soon(|| put().iter().sum::<u64>() >= expected), "{:?} of {expected}", put());
    put()
}

/// Two senders that share a member of a bond with an external partner: with `rebalance`, one of them moves to the other member.
#[test]
fn load_is_balanced_towards_a_external_partner() {
    with_guest(2, |bed, _| {
        let network = bed.up("hashed", HASHED);
        let alone = ["h1", "h2", "h3"].map(|host| (host, usize::from(spread(&network, &[host], 10)[1] > 5)));
        let shared = alone.iter().filter(|(_, member)| alone.iter().filter(|(_, other)| other == member).count() > 1);
        let shared: Vec<&str> = shared.map(|(host, _)| *host).take(2).collect();
        let member = alone.iter().find(|(host, _)| *host == shared[0]).unwrap().1;
        let before = spread(&network, &shared, 50);
        assert!(before[member] >= 100 && before[1 - member] < 10, "{shared:?} share a member: {before:?}");
        let follows = HASHED.replace("balance-xor }", "balance-xor, rebalance: { interval: 200ms, gap: 1ms } }");
        network.apply(&source(&follows), &Overrides::default()).unwrap();
        let mut after = [0, 0];
        let moved = bed::soon(|| {
            after = spread(&network, &shared, 50);
            after.iter().all(|packets| *packets >= 40)
        });
        assert!(moved, "{shared:?}: {after:?}");
    });
}

/// A device is deleted and made again, under another number or the same one, slowly or at once: its link loses its carrier and has it
/// back, and frames pass, without a word from anybody.
#[test]
fn a_device_that_is_made_again_is_in_use_again() {
    with_each_port(|bed, guest, by_port| {
        guest.has_addresses_of(ONE, "eth0");
        let network = bed.up("one", &by_port(ONE));
        let is_up = || network.counters().unwrap().links[1].up;
        pings(&network, "h1", "10.0.0.2");
        for (is_same_number, pause_ms) in [(false, 50), (true, 50), (true, 0), (false, 0)] {
            let number = nix::net::if_::if_nametoindex("dev0").unwrap();
            let options = if is_same_number { format!(" index {number}") } else { String::new() };
            run("ip", "link del dev0");
            if pause_ms > 0 {
                bed::wait_until("the link is down", || !is_up());
                std::thread::sleep(Duration::from_millis(pause_ms));
            }
            guest.make_device(0, &options);
            guest.has_addresses_of(ONE, "eth0");
            bed::wait_until("the link is up", is_up);
            let reached = bed::soon(|| {
                let mut ping = network.command("h1", "ping", ["-c", "1", "-W", "1", "10.0.0.2"]).unwrap();
                ping.output().unwrap().status.success()
            });
            assert!(reached, "{options:?}, {pause_ms} ms");
            pings(&network, "h1", "10.0.0.2");
            guest.output(&["ping", "-c", "3", "-i", "0.01", "-W", "60", "10.0.0.1"]);
        }
        // No Ethernet: it is left alone, and what has the name next is taken.
        run("ip", "link del dev0");
        run("ip", "tuntap add dev dev0 mode tun");
        run("ip", "link set dev0 up");
        bed::wait_until("the link is down", || !is_up());
        run("ip", "link del dev0");
        guest.make_device(0, "");
        bed::wait_until("the link is up", is_up);
    });
}

/// A made host and a guest, with two cables between them.
const DIRECT: &str = "
name: direct
nodes: { h1: host, guest: { kind: host, devices: [dev0, dev1] } }
links:
  - between: [h1, guest]
  - between: [h1, guest]
bonds:
  - { between: [h1, guest], mode: active-backup }
";

/// Whether a report of the group 239.1.2.3 comes to the guest within a second.
fn hears_of_group(socket: &impl AsRawFd) -> bool {
    let mut frame = [0; 2_048];
    let is_report = |frame: &[u8]| {
        frame.starts_with(&[1, 0, 0x5e]) && frame.get(23) == Some(&2) && frame.windows(4).any(|at| at == [239, 1, 2, 3])
    };
    (0..100).any(|_| {
        std::thread::sleep(Duration::from_millis(10));
        while let Ok(len) = recv(socket.as_raw_fd(), &mut frame, MsgFlags::MSG_DONTWAIT) {
            if is_report(&frame[..len]) {
                return true;
            }
        }
        false
    })
}

/// A host's bond knows the groups that the host has joined, and reports them again by the member that becomes active.
#[test]
fn groups_are_reported_again_after_a_fail_over() {
    with_guest(2, |bed, guest| {
        let network = bed.up("direct", DIRECT);
        let namespace = std::fs::File::open(format!("/proc/{}/ns/net", guest.process.id())).unwrap();
        nix::sched::setns(&namespace, CloneFlags::CLONE_NEWNET).unwrap();
        let socket = socket(AddressFamily::Packet, SockType::Raw, SockFlag::empty(), SockProtocol::EthAll).unwrap();
        output(network.command("h1", "ip", ["addr", "add", "239.1.2.3/32", "dev", "eth0", "autojoin"]));
        // What the host itself reports is for nobody here. A busy machine may not have shown it to the bond at the first fail-over.
        let reported = bed::soon(|| {
            let fails_over = |(member, up)| {
                network.set_link("h1", "guest", Some(member), up).unwrap();
                !up && hears_of_group(&socket)
            };
            [(1, false), (1, true), (2, false), (2, true)].into_iter().any(fails_over)
        });
        assert!(reported, "no report after a fail-over");
    });
}
