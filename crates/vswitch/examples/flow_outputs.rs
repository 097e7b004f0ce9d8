//! Random flows, groups and packets for a switch of four ports, and what comes out of it: `benches/ovs-flows.sh` has Open vSwitch do the same.
//!
//! `generate SEED FLOWS PACKETS DIR` writes `flows.txt`, `groups.txt` and `packets.txt`; `run DIR` writes `out-PORT.txt`, a line a packet; `read FILE.pcap` prints the
//! packets of a capture in the same form. `connections SEED PACKETS DIR` writes a firewall that translates addresses, and conversations through it.
#![allow(clippy::disallowed_methods, reason = "it is the driver of its tables: files are its own")]

use std::error::Error;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::sync::Arc;

use machine::{Rng, Time};
use topology::{HostAddress, NodeId, PortId, Topology};
use vswitch::Action;
use vswitch::flow_table::{Flow, FlowTables, Group, Ports, TableChange};
use wire::{
    Coverage, EthernetRepr, Ipv4Repr, Ipv6Repr, MplsRepr, Pseudo, TAG_AT, TcpRepr, UdpRepr, ethertype, protocol,
    tcp_flags, vlan_tag,
};

/// Ports of the switch, from 1 on as Open vSwitch counts them. What leaves by port 0, which is here as well, is left out.
const PORTS: u16 = 4;

fn main() -> Result<(), Box<dyn Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    match *args {
        ["generate", seed, flows, packets, dir] => {
            let mut random = Random(Rng::new(seed.parse()?));
            let flows = (0..flows.parse::<u32>()?).map(|number| random.flow(number));
            // A packet that no flow of a later table is for is dropped here, with its action set (OpenFlow 1.3.5, 5.4); Open vSwitch carries that out.
            let misses = (1..3).map(|table| format!("table={table},priority=1,actions=drop"));
            let flows: Vec<String> = flows.chain(misses).collect();
            let packets: Vec<String> = (0..packets.parse::<u32>()?).map(|_| random.packet()).collect();
            let groups = "group_id=1,type=all,bucket=output:1,bucket=mod_dl_dst:02:00:00:00:00:09,output:2\n\
                          group_id=2,type=indirect,bucket=mod_nw_ttl:9,output:3\n";
            fs::write(Path::new(dir).join("groups.txt"), groups)?;
            fs::write(Path::new(dir).join("flows.txt"), flows.join("\n") + "\n")?;
            fs::write(Path::new(dir).join("packets.txt"), packets.join("\n") + "\n")?;
        }
        ["connections", seed, packets, dir] => {
            let mut random = Random(Rng::new(seed.parse()?));
            let mut talks: Vec<Talk> = (0..12).map(|number| random.talk(number)).collect();
            let mut text = String::new();
            for number in 0..packets.parse::<usize>()? {
                let which = random.below(talks.len() as u32) as usize;
                let Some((port, frame)) = talks[which].next(&mut random) else {
                    talks[which] = random.talk(12 + number);
                    continue;
                };
                let _ = writeln!(text, "p{port} {}", hex(&frame));
            }
            fs::write(Path::new(dir).join("groups.txt"), "")?;
            fs::write(Path::new(dir).join("flows.txt"), FIREWALL)?;
            fs::write(Path::new(dir).join("packets.txt"), text)?;
        }
        ["run", dir] => run(Path::new(dir))?,
        ["read", file] => print!("{}", captured(&fs::read(file)?)),
        _ => {
            let usage = "generate SEED FLOWS PACKETS DIR | connections SEED PACKETS DIR | run DIR | read FILE.pcap";
            return Err(format!("usage: flow_outputs {usage}").into());
        }
    }
    Ok(())
}

#[allow(clippy::default_trait_access, reason = "no machine knows another: what a link does has no name here")]
fn ports() -> Ports {
    let mut topology = Topology::default();
    let address = HostAddress {
        mac: [2, 0, 0, 0, 0, 1],
        ipv4: [10, 0, 0, 1].into(),
        ipv4_prefix: 8,
        ipv6: [0xfd00, 0, 0, 0, 0, 0, 0, 1].into(),
        ipv6_prefix: 64,
        pod: None,
    };
    let hosts: Vec<NodeId> = (0..=PORTS).map(|host| topology.add_host(format!("p{host}"), address.clone())).collect();
    let switch = topology.add_switch("s".to_owned(), 1, None);
    for host in hosts {
        topology.connect(host, switch, Default::default());
    }
    Ports::of(&topology, switch)
}

fn run(dir: &Path) -> Result<(), Box<dyn Error>> {
    let ports = ports();
    let mut changes = Vec::new();
    for line in fs::read_to_string(dir.join("groups.txt"))?.lines() {
        changes.push(TableChange::AddGroup(Group::parse(line, &ports).map_err(|error| format!("{line}: {error}"))?));
    }
    for line in fs::read_to_string(dir.join("flows.txt"))?.lines() {
        changes.push(TableChange::Add(Arc::new(
            Flow::parse(line, &ports).map_err(|error| format!("{line}: {error} ({})", error.hint))?,
        )));
    }
    let mut tables = FlowTables::new(Time::ZERO, ports, 1.into(), &changes)?;
    let mut out = vec![String::new(); usize::from(PORTS) + 1];
    for line in fs::read_to_string(dir.join("packets.txt"))?.lines() {
        let (in_port, frame) = line.split_once(' ').ok_or("a port and a packet")?;
        let in_port = PortId(in_port.trim_start_matches('p').parse()?);
        let frame = bytes(frame)?;
        let mut actions = Vec::new();
        // What is malformed leaves by no port.
        let _ = tables.process(Time::ZERO, in_port, (&frame, frame.len() as u32), &mut actions);
        carry_out(&actions, frame, in_port, &mut out);
    }
    for (port, text) in out.iter().enumerate().skip(1) {
        fs::write(dir.join(format!("out-{port}.txt")), text)?;
    }
    eprintln!("{:?}", tables.cache_counters());
    Ok(())
}

/// Does with a packet what is wanted, as `datapath` does.
fn carry_out(actions: &[Action], mut frame: Vec<u8>, in_port: PortId, out: &mut [String]) {
    let mut number = 0;
    while let Some(action) = actions.get(number) {
        let mut send = |port: PortId| {
            let _ = writeln!(out[usize::from(port.0)], "{}", hex(&frame));
        };
        match *action {
            Action::Output(port) => send(port),
            Action::Flood => (1..=PORTS).map(PortId).filter(|port| *port != in_port).for_each(send),
            Action::Normal | Action::Controller => {}
            Action::Set(field) => {
                if field.write(&mut frame, Coverage::Complete).is_err() {
                    return;
                }
            }
            Action::PushVlan(tci) => {
                frame.splice(TAG_AT..TAG_AT, vlan_tag(tci));
            }
            Action::PopVlan => {
                frame.drain(TAG_AT..TAG_AT + vlan_tag(0).len());
            }
            Action::PushMpls { ethertype, entry } => {
                if wire::push_mpls(&mut frame, ethertype, entry).is_err() {
                    return;
                }
            }
            Action::PopMpls(ethertype) => {
                if wire::pop_mpls(&mut frame, ethertype).is_err() {
                    return;
                }
            }
            Action::Clone(length) => {
                let end = number + 1 + usize::from(length);
                carry_out(&actions[number + 1..end], frame.clone(), in_port, out);
                number = end - 1;
            }
        }
        number += 1;
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

fn bytes(hex: &str) -> Result<Vec<u8>, std::num::ParseIntError> {
    (0..hex.len() / 2).map(|at| u8::from_str_radix(&hex[2 * at..2 * at + 2], 16)).collect()
}

/// The packets of a capture (pcap of this machine's byte order), a line each.
fn captured(file: &[u8]) -> String {
    let (mut text, mut at) = (String::new(), 24);
    while let Some(header) = file.get(at..at + 16) {
        let length = u32::from_ne_bytes([header[8], header[9], header[10], header[11]]) as usize;
        let Some(frame) = file.get(at + 16..at + 16 + length) else { break };
        let _ = writeln!(text, "{}", hex(frame));
        at += 16 + length;
    }
    text
}

/// Whoever is behind port 1 may begin a connection, and seems to be another one to those behind port 2, who may connect to port 22. What belongs to none leaves by port 4.
const FIREWALL: &str = "\
table=0,priority=10,ip,actions=ct(table=1,zone=1,nat)
table=0,priority=1,actions=drop
table=1,priority=50,ct_state=+trk+new-inv,ip,in_port=1,actions=ct(commit,zone=1,nat(src=10.0.0.100),exec(set_field:1->ct_mark)),output:2
table=1,priority=50,ct_state=+trk+est+rpl,ct_mark=1,in_port=2,actions=output:1
table=1,priority=50,ct_state=+trk+est-rpl,in_port=1,actions=output:2
table=1,priority=50,ct_state=+trk+rel,in_port=2,actions=output:1
table=1,priority=50,ct_state=+trk+new-inv,tcp,in_port=2,tp_dst=22,actions=ct(commit,zone=1),output:3
table=1,priority=50,ct_state=+trk+est,ct_mark=0,ip,actions=output:3
table=1,priority=1,actions=output:4
";

/// A conversation: who has begun it, with which port, with whom, and how far it is.
struct Talk {
    protocol: u8,
    inside: std::net::Ipv4Addr,
    outside: std::net::Ipv4Addr,
    ports: (u16, u16),
    /// Whether it begins behind port 2.
    is_from_outside: bool,
    step: u32,
}

impl Talk {
    /// The next packet, with the port that it comes in by.
    fn next(&mut self, random: &mut Random) -> Option<(u16, Vec<u8>)> {
        use tcp_flags::{ACK, FIN, SYN};
        let step = self.step;
        self.step += 1;
        if self.is_from_outside && self.ports.1 != 22 && step > 1 {
            // Nobody lets it in. Open vSwitch takes a FIN for the beginning of a connection, and Linux and we do not.
            return None;
        }
        // Who sends the numbered packet: the one who has begun, or the other.
        let (is_back, flags, seq, ack) = match (self.protocol, step) {
            (protocol::TCP, 0) => (false, SYN, 100, 0),
            (protocol::TCP, 1) => (true, SYN | ACK, 200, 101),
            (protocol::TCP, 2) => (false, ACK, 101, 201),
            (protocol::TCP, 3..=8) if random.below(2) == 0 => (false, ACK, 101, 201),
            (protocol::TCP, 3..=8) => (true, ACK, 201, 101),
            (protocol::TCP, 9) => (false, FIN | ACK, 101, 201),
            (protocol::TCP, 10) => (true, FIN | ACK, 201, 102),
            (protocol::TCP, 11) => (false, ACK, 102, 202),
            (protocol::TCP, _) => return None,
            (_, 0) => (false, 0, 0, 0),
            (_, 1..=6) => (random.below(2) == 0, 0, 0, 0),
            // A router says that the other one is not there.
            (protocol::UDP, 7) if !self.is_from_outside => return Some((2, self.error())),
            _ => return None,
        };
        // Sometimes somebody answers who was not asked, or who did not ask.
        let stray = random.below(10) == 0 && !self.is_from_outside;
        // It comes besides: an ACK to a SYN that nobody has answered is invalid to Linux and us, and not to Open vSwitch.
        self.step -= u32::from(stray);
        let port = self.ports.0 + if stray { 1_000 } else { 0 };
        let flags = if stray && self.protocol == protocol::TCP { SYN | ACK } else { flags };
        let is_inward = is_back != self.is_from_outside;
        let own = if is_inward && !self.is_from_outside { TRANSLATED } else { self.inside };
        let (src, dst) = if is_inward { (self.outside, own) } else { (own, self.outside) };
        let ports = if is_back { (self.ports.1, port) } else { (port, self.ports.1) };
        let upper = upper(self.protocol, (src, dst), ports, (flags, seq, ack), is_back);
        Some((if is_inward { 2 } else { 1 }, ipv4_frame(src, dst, self.protocol, &upper)))
    }

    /// A router's message to the translated address about the first packet.
    fn error(&self) -> Vec<u8> {
        let (src, dst) = (TRANSLATED, self.outside);
        let quoted =
            ipv4_frame(src, dst, protocol::UDP, &upper(protocol::UDP, (src, dst), self.ports, (0, 0, 0), false));
        let mut message = vec![3, 1, 0, 0, 0, 0, 0, 0];
        message.extend(&quoted[14..14 + 28]);
        let sum = wire::checksum::internet(&message);
        message[2..4].copy_from_slice(&sum.to_be_bytes());
        ipv4_frame([10, 1, 0, 99].into(), TRANSLATED, protocol::ICMP, &message)
    }
}

/// Whom those behind port 1 seem to be.
const TRANSLATED: std::net::Ipv4Addr = std::net::Ipv4Addr::new(10, 0, 0, 100);

/// What is above IP in a packet of a conversation. ICMP asks, or answers.
fn upper(
    protocol: u8,
    (src, dst): (std::net::Ipv4Addr, std::net::Ipv4Addr),
    (src_port, dst_port): (u16, u16),
    (flags, seq, ack): (u8, u32, u32),
    is_back: bool,
) -> Vec<u8> {
    let pseudo = Pseudo::V4 { src, dst, protocol };
    match protocol {
        protocol::TCP => {
            let (window, urgent) = (8_000, 0);
            let repr = TcpRepr { src_port, dst_port, seq, ack, flags, window, urgent, timestamps: None };
            let mut bytes = vec![0; repr.buffer_len()];
            repr.emit(&mut bytes);
            TcpRepr::fill_checksum(&mut bytes, &pseudo);
            bytes
        }
        protocol::UDP => {
            let repr = UdpRepr { src_port, dst_port, payload_len: 20 };
            let mut bytes = vec![6; repr.buffer_len() + 20];
            repr.emit(&mut bytes);
            UdpRepr::fill_checksum(&mut bytes, &pseudo);
            bytes
        }
        _ => {
            let [high, low] = (if is_back { dst_port } else { src_port }).to_be_bytes();
            let mut bytes = vec![if is_back { 0 } else { 8 }, 0, 0, 0, high, low, 0, 1];
            let sum = wire::checksum::internet(&bytes);
            bytes[2..4].copy_from_slice(&sum.to_be_bytes());
            bytes
        }
    }
}

fn ipv4_frame(src: std::net::Ipv4Addr, dst: std::net::Ipv4Addr, protocol: u8, upper: &[u8]) -> Vec<u8> {
    let ethernet =
        EthernetRepr { dst: [2, 0, 0, 0, 0, 2], src: [2, 0, 0, 0, 0, 1], vlan: None, ethertype: ethertype::IPV4 };
    let repr = Ipv4Repr {
        src,
        dst,
        protocol,
        ttl: 64,
        traffic_class: 0,
        identification: 7,
        dont_fragment: true,
        more_fragments: false,
        fragment_offset: 0,
        payload_len: upper.len() as u16,
    };
    let mut frame = vec![0; ethernet.buffer_len() + repr.buffer_len()];
    ethernet.emit(&mut frame);
    repr.emit(&mut frame[ethernet.buffer_len()..]);
    frame.extend(upper);
    frame
}

/// Flows and packets of few values, so that they meet.
struct Random(Rng);

impl Random {
    fn below(&mut self, n: u32) -> u32 {
        (self.0.bits() % u64::from(n)) as u32
    }

    fn one<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.below(of.len() as u32) as usize]
    }

    /// No two conversations have the same port.
    fn talk(&mut self, number: usize) -> Talk {
        let is_from_outside = self.below(5) == 0;
        Talk {
            protocol: if is_from_outside {
                protocol::TCP
            } else {
                self.one(&[protocol::TCP, protocol::UDP, protocol::ICMP])
            },
            inside: [10, 0, 0, 1 + self.below(3) as u8].into(),
            outside: [10, 1, 0, 1 + self.below(3) as u8].into(),
            ports: (2_000 + number as u16, if is_from_outside { self.one(&[22, 23]) } else { 80 }),
            is_from_outside,
            step: 0,
        }
    }

    /// No two have the same priority: of two that match a packet, only one may count.
    fn flow(&mut self, number: u32) -> String {
        let table = self.below(3);
        let kind = self.one(&["tcp", "udp", "icmp", "ip", "tcp6", "udp6", "ipv6", "icmp6", "arp", "mpls", ""]);
        let mut text = format!("table={table},priority={}", 100 + number);
        let (is_v4, is_v6) =
            (matches!(kind, "tcp" | "udp" | "icmp" | "ip"), matches!(kind, "tcp6" | "udp6" | "ipv6" | "icmp6"));
        let has_ports = matches!(kind, "tcp" | "udp" | "tcp6" | "udp6");
        let mut fields = vec![
            "in_port=1",
            "in_port=2",
            "dl_src=02:00:00:00:00:01",
            "dl_dst=02:00:00:00:00:00/fe:ff:ff:ff:ff:fe",
            "dl_vlan=5",
            "dl_vlan=0xffff",
            "vlan_tci=0x1000/0x1000",
            "dl_vlan_pcp=3",
        ];
        if table > 0 {
            fields.extend(["metadata=0x1/0x1", "metadata=0x2"]);
        }
        if is_v4 {
            fields.extend([
                "nw_src=10.0.0.1",
                "nw_src=10.0.0.0/31",
                "nw_dst=10.0.0.2",
                "nw_dst=0.0.0.1/0.0.0.1",
                "nw_frag=no",
            ]);
        }
        if is_v4 && !has_ports {
            fields.push("nw_frag=first");
        }
        if is_v6 {
            fields.extend(["ipv6_src=fd00::1", "ipv6_dst=fd00::2/127", "ipv6_label=0x5"]);
        }
        if is_v4 || is_v6 {
            fields.extend(["nw_tos=184", "nw_ecn=1", "nw_ttl=1", "nw_ttl=64"]);
        }
        if has_ports {
            fields.extend(["tp_src=1", "tp_dst=80", "tp_dst=0x50/0xfff0", "tp_src=2"]);
        }
        if matches!(kind, "tcp" | "tcp6") {
            fields.extend(["tcp_flags=+syn-ack", "tcp_flags=-rst"]);
        }
        if kind == "icmp" {
            fields.push("icmp_type=8");
        }
        if kind == "icmp6" {
            fields.extend([
                "icmp_type=135",
                "icmp_type=135,nd_target=fd00::1",
                "icmp_type=136,nd_target=fd00::2/127",
                "icmp_type=135,nd_sll=02:00:00:00:00:01",
                "icmp_type=136,nd_tll=02:00:00:00:00:00/ff:ff:ff:ff:ff:fe",
                "icmp_type=136,nd_tll=00:00:00:00:00:00",
            ]);
        }
        if kind == "mpls" {
            fields.extend(["mpls_label=16", "mpls_tc=1", "mpls_ttl=64", "mpls_bos=1", "mpls_bos=1", "mpls_bos=0"]);
        }
        if kind == "arp" {
            fields.extend(["arp_op=1", "arp_spa=10.0.0.1", "arp_tha=02:00:00:00:00:02"]);
        }
        if !kind.is_empty() {
            let _ = write!(text, ",{kind}");
        }
        let mut named: Vec<&str> = Vec::new();
        for _ in 0..self.below(4) {
            let field = self.one(&fields);
            let name = field.split('=').next().unwrap_or_default();
            let is_vlan = |field: &str| field.contains("vlan");
            if named.contains(&name) || named.iter().any(|other| is_vlan(other) && is_vlan(field)) {
                continue;
            }
            named.push(name);
            let _ = write!(text, ",{field}");
        }
        let is_in = |port: &str| text.contains(&format!("in_port={port}"));
        let outputs: Vec<&str> =
            ["output:1", "output:2", "output:3", "output:4"].into_iter().filter(|out| !is_in(&out[7..])).collect();
        let mut actions = vec![
            "mod_dl_src:02:00:00:00:00:07",
            "mod_dl_dst:02:00:00:00:00:08",
            "in_port",
            "all",
            "flood",
            "group:1",
            "set_field:00:00:00:00:00:ff/00:00:00:00:00:0f->eth_src",
        ];
        // A second tag would hide from us what is behind the first one; Open vSwitch goes on matching it.
        if text.contains("dl_vlan=0xffff") {
            actions.extend(["push_vlan:0x8100,mod_vlan_pcp:2", "push_vlan:0x8100,set_field:4103->vlan_vid"]);
        } else if text.contains("vlan") {
            actions.extend(["pop_vlan", "strip_vlan,push_vlan:0x8100", "mod_vlan_vid:9", "mod_vlan_pcp:6"]);
            actions.extend(["set_field:5->vlan_pcp", "set_field:4096/4098->vlan_vid"]);
        }
        if is_v4 {
            actions.extend(["mod_nw_src:10.0.0.2", "mod_nw_dst:10.9.9.9", "group:2"]);
        }
        if is_v6 {
            actions.extend(["set_field:fd00::9->ipv6_src", "set_field:fd00::2->ipv6_dst"]);
        }
        if is_v4 || is_v6 {
            actions.extend(["dec_ttl", "mod_nw_tos:40", "mod_nw_ecn:2", "mod_nw_ttl:5"]);
        }
        if has_ports {
            actions.extend(["mod_tp_src:2", "mod_tp_dst:81"]);
        }
        if kind == "icmp6" && text.contains("icmp_type=135") {
            actions.extend(["set_field:fd00::9->nd_target", "set_field:02:00:00:00:00:09->nd_sll"]);
        }
        if kind == "icmp6" && text.contains("icmp_type=136") {
            actions.extend(["set_field:fd00::8->nd_target", "set_field:02:00:00:00:00:08->nd_tll"]);
        }
        if kind == "mpls" {
            actions.extend(["set_mpls_label:17", "set_mpls_tc:2", "set_mpls_ttl:9", "dec_mpls_ttl"]);
        }
        let mut chosen: Vec<String> = Vec::new();
        for _ in 0..=self.below(3) {
            let of = if self.below(2) == 0 { &outputs } else { &actions };
            let action = self.one(of);
            // Of two that write tags, the second one may have none to write.
            if !action.contains("vlan") || chosen.iter().all(|other| !other.contains("vlan")) {
                chosen.push(action.to_owned());
            }
        }
        // Behind it, the packet is of another kind. Open vSwitch knows three labels: one comes in, and two tables put one on.
        let mut labels = Vec::new();
        if table < 2 && (is_v4 || is_v6 || kind == "mpls") {
            labels.extend(["push_mpls:0x8847", "push_mpls:0x8847,set_mpls_label:16,dec_mpls_ttl"]);
        }
        if text.contains("mpls_bos=1") {
            labels.extend(["pop_mpls:0x0800", "pop_mpls:0x0800,dec_ttl", "pop_mpls:0x0800,mod_nw_dst:10.0.0.7"]);
        }
        if text.contains("mpls_bos=0") {
            labels.extend(["pop_mpls:0x8847", "pop_mpls:0x8847,set_mpls_tc:3"]);
        }
        let has_labels = !labels.is_empty() && self.below(3) == 0;
        if has_labels {
            chosen.push(self.one(&labels).to_owned());
            chosen.push(self.one(&outputs).to_owned());
        }
        if self.below(4) == 0 {
            chosen.push("clear_actions".to_owned());
        }
        if self.below(3) == 0 {
            let set = if is_v4 && !has_labels {
                self.one(&["output:4,dec_ttl", "mod_nw_dst:10.0.0.7,output:3", "group:2,output:3"])
            } else {
                "mod_dl_dst:02:00:00:00:00:0a,output:3"
            };
            chosen.push(format!("write_actions({set})"));
        }
        if self.below(3) == 0 {
            chosen.push(self.one(&["write_metadata:0x1", "write_metadata:0x2/0x2"]).to_owned());
        }
        if table < 2 && self.below(2) == 0 {
            chosen.push(format!("goto_table:{}", table + 1 + self.below(2 - table)));
        }
        format!("{text},actions={}", chosen.join(","))
    }

    fn packet(&mut self) -> String {
        let mac = |n: u32| [2, 0, 0, 0, 0, n as u8];
        let vlan = self.one(&[None, None, None, Some(5), Some(0x6005), Some(7)]);
        let (src, dst) = (mac(self.below(4)), mac(self.below(4)));
        let ethernet = |ethertype: u16| {
            let repr = EthernetRepr { dst, src, vlan, ethertype };
            let mut bytes = vec![0; repr.buffer_len()];
            repr.emit(&mut bytes);
            bytes
        };
        let frame = match self.below(12) {
            10 | 11 => {
                let entry = MplsRepr {
                    label: self.one(&[16, 16, 18]),
                    traffic_class: self.one(&[0, 1]),
                    is_bottom: true,
                    ttl: self.one(&[64, 64, 2]),
                };
                [ethernet(ethertype::MPLS), entry.bits().to_be_bytes().to_vec(), self.ipv4()].concat()
            }
            0 => [ethernet(ethertype::ARP), self.arp()].concat(),
            1 => [ethernet(0x88b5), vec![7; 46]].concat(),
            2..=6 => [ethernet(ethertype::IPV4), self.ipv4()].concat(),
            _ => [ethernet(ethertype::IPV6), self.ipv6()].concat(),
        };
        format!("p{} {}", 1 + self.below(u32::from(PORTS)), hex(&frame))
    }

    fn arp(&mut self) -> Vec<u8> {
        let repr = wire::ArpRepr {
            operation: self.one(&[wire::ArpOperation::Request, wire::ArpOperation::Reply]),
            sender_mac: [2, 0, 0, 0, 0, 1],
            sender_ipv4: [10, 0, 0, self.below(3) as u8].into(),
            target_mac: [2, 0, 0, 0, 0, self.below(3) as u8],
            target_ipv4: [10, 0, 0, 2].into(),
        };
        let mut bytes = vec![0; repr.buffer_len()];
        repr.emit(&mut bytes);
        bytes.resize(46, 0);
        bytes
    }

    fn upper(&mut self, pseudo: impl Fn(u8) -> Pseudo, icmp: u8) -> (u8, Vec<u8>) {
        let (src_port, dst_port) = (1 + self.below(3) as u16, 79 + self.below(3) as u16);
        match self.below(5) {
            0 | 1 => {
                let repr = TcpRepr {
                    src_port,
                    dst_port,
                    seq: 1,
                    ack: 2,
                    flags: self.one(&[tcp_flags::SYN, tcp_flags::SYN | tcp_flags::ACK, tcp_flags::ACK, tcp_flags::RST]),
                    window: 3,
                    urgent: 0,
                    timestamps: None,
                };
                let mut bytes = vec![5; repr.buffer_len() + 20];
                repr.emit(&mut bytes);
                TcpRepr::fill_checksum(&mut bytes, &pseudo(protocol::TCP));
                (protocol::TCP, bytes)
            }
            2 | 3 => {
                let repr = UdpRepr { src_port, dst_port, payload_len: 20 };
                let mut bytes = vec![6; repr.buffer_len() + 20];
                repr.emit(&mut bytes);
                UdpRepr::fill_checksum(&mut bytes, &pseudo(protocol::UDP));
                (protocol::UDP, bytes)
            }
            _ => {
                let is_neighbour = icmp == protocol::ICMPV6 && self.below(2) == 0;
                let mut bytes =
                    if is_neighbour { self.neighbour() } else { vec![8 * (self.below(2) as u8), 0, 0, 0, 1, 2, 3, 4] };
                let sum = if icmp == protocol::ICMP {
                    wire::checksum::internet(&bytes)
                } else {
                    wire::checksum::transport(&pseudo(icmp), &bytes)
                };
                bytes[2..4].copy_from_slice(&sum.to_be_bytes());
                (icmp, bytes)
            }
        }
    }

    /// A neighbour solicitation or advertisement, and what somebody may send in its place. The checksum is not there yet.
    fn neighbour(&mut self) -> Vec<u8> {
        let mut bytes = vec![self.one(&[135, 136]), self.one(&[0, 0, 0, 1]), 0, 0, 0, 0, 0, 0];
        bytes.extend([0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, self.below(4) as u8]);
        for _ in 0..self.below(3) {
            let (option, units) = (self.one(&[1, 2, 14]), self.one(&[1, 1, 1, 1, 2, 0]));
            bytes.extend([option, units, 2, 0, 0, 0, 0, self.below(3) as u8]);
        }
        bytes
    }

    fn ipv4(&mut self) -> Vec<u8> {
        let (src, dst) = ([10, 0, 0, self.below(4) as u8].into(), [10, 0, 0, self.below(4) as u8].into());
        let (protocol, upper) = self.upper(|protocol| Pseudo::V4 { src, dst, protocol }, protocol::ICMP);
        let is_fragment = self.below(8) == 0;
        let repr = Ipv4Repr {
            src,
            dst,
            protocol,
            ttl: self.one(&[16, 64, 64]),
            traffic_class: self.one(&[0, 184, 185, 1]),
            identification: 7,
            dont_fragment: false,
            // Of later ones Open vSwitch 3.1 changes two bytes of the payload when it writes an address, as if a checksum were there.
            more_fragments: is_fragment,
            fragment_offset: 0,
            payload_len: upper.len() as u16,
        };
        let mut header = vec![0; repr.buffer_len()];
        repr.emit(&mut header);
        [header, upper].concat()
    }

    fn ipv6(&mut self) -> Vec<u8> {
        let address = |n: u32| [0xfd00, 0, 0, 0, 0, 0, 0, n as u16].into();
        let (src, dst) = (address(self.below(4)), address(self.below(4)));
        let (next_header, upper) = self.upper(|protocol| Pseudo::V6 { src, dst, protocol }, protocol::ICMPV6);
        let repr = Ipv6Repr {
            src,
            dst,
            next_header,
            hop_limit: self.one(&[16, 64, 64]),
            traffic_class: self.one(&[0, 184, 185, 1]),
            flow_label: self.one(&[0, 5]),
            payload_len: upper.len() as u16,
        };
        let mut header = vec![0; repr.buffer_len()];
        repr.emit(&mut header);
        [header, upper].concat()
    }
}
