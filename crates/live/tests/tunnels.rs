//! Tunnels whose other end is the kernel's own, in another namespace.

use std::process::{Child, Command, Output, Stdio};

use nix::sched::{CloneFlags, unshare};

use crate::bed::{self, Bed, Running};
use crate::far_ends::{ip, wait_until_operational};

const TUNNEL: &str = "
name: tunnel
mtu: 1450
nodes: { h1: host, far: { kind: host, devices: ['vxlan:10.9.0.2,vni=42'] }, s1: switch }
links:
  - between: [h1, s1]
  - between: [far, s1]
";

/// Two networks of one tunnel: h1 is in network 42, h2 in 43.
const NETWORKS: &str = "
name: networks
mtu: 1450
nodes: { h1: host, h2: host, far: { kind: host, devices: ['vxlan:10.9.0.2,vni=flow'] }, s1: switch }
links:
  - between: [h1, s1]RATE
  - between: [h2, s1]RATE
  - between: [far, s1]RATE
flows:
  s1:
    - in_port=h1,actions=set_tunnel:42,output:far
    - in_port=h2,actions=set_field:43->tun_id,output:far
    - tun_id=42,in_port=far,actions=output:h1
    - tun_id=43,in_port=far,actions=output:h2
    - priority=1,actions=drop
";

/// Another machine, at the other end of a cable.
struct Machine(Child);

impl Machine {
    /// Moves the calling thread into a new network namespace, which stands for this machine's, with an address; 10.9.0.2 is the other one.
    fn beside_a_new_one() -> Self {
        unshare(CloneFlags::CLONE_NEWNET).expect("root may make network namespaces");
        let other = Command::new("unshare").args(["--net", "sleep", "600"]).stdin(Stdio::null()).spawn().unwrap();
        let other = Self(other);
        let namespace = |of: &str| std::fs::read_link(format!("/proc/{of}/ns/net")).unwrap();
        let pid = other.0.id().to_string();
        bed::wait_until("the other machine starts", || namespace(&pid) != namespace("thread-self"));
        ip("link set lo up");
        ip(&format!("link add left type veth peer name right netns {pid}"));
        ip("addr add 10.9.0.1/24 dev left");
        ip("link set left up");
        other.run("ip addr add 10.9.0.2/24 dev right");
        other.run("ip link set right up");
        wait_until_operational(&["left"]);
        other
    }

    fn attempt(&self, command: &str) -> Output {
        let pid = self.0.id().to_string();
        let mut whole = Command::new("nsenter");
        whole.args(["-t", &pid, "-n"]).args(command.split(' '));
        whole.output().expect("nsenter runs")
    }

    fn run(&self, command: &str) {
        let output = self.attempt(command);
        let [out, err] = [output.stdout, output.stderr].map(|text| String::from_utf8_lossy(&text).into_owned());
        assert!(output.status.success(), "{command}: {out}{err}");
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn a_host_is_behind_a_tunnel_of_linux() {
    let thread = std::thread::spawn(|| {
        if !nix::unistd::geteuid().is_root() {
            return eprintln!("SKIPPED: tunnels are for root");
        }
        let Some(bed) = Bed::new() else { return };
        let machine = Machine::beside_a_new_one();
        let of_file = fabric::parse(&bed::source(TUNNEL)).unwrap().topology;
        let far = of_file.address(of_file.node("far").unwrap()).unwrap();
        let mac = far.mac.map(|byte| format!("{byte:02x}")).join(":");
        machine.run(&format!(
            "ip link add vx0 address {mac} mtu 1450 type vxlan id 42 remote 10.9.0.1 dstport 4789 dev right"
        ));
        machine.run(&format!("ip addr add {}/{} dev vx0", far.ipv4, far.ipv4_prefix));
        machine.run(&format!("ip -6 addr add {}/{} dev vx0 nodad", far.ipv6, far.ipv6_prefix));
        machine.run("ip link set vx0 up");

        let network = bed.up("tunnel", TUNNEL);
        bed::ping(&network, "h1", &["-4"], 5, "far");
        bed::ping(&network, "h1", &["-6"], 5, "far");
        // Large segments and their acknowledgements, both ways.
        let _server = Running::iperf3_server(network.command("h1", "iperf3", ["-s"]));
        let h1 = of_file.address(of_file.node("h1").unwrap()).unwrap().ipv4;
        for reverse in ["", " -R"] {
            // It may still be busy with the one before.
            let transfer = format!("iperf3 -c {h1} -n 20M{reverse}");
            bed::wait_until(&transfer, || machine.attempt(&transfer).status.success());
        }
        // Of another network nothing comes.
        machine.run("ip link add vx1 type vxlan id 43 remote 10.9.0.1 dstport 4789 dev right");
        machine.run("ip link set vx1 up");
        machine.run("ip addr add 10.8.0.1/24 dev vx1");
        let lost = || network.counters().unwrap().ports.iter().map(|port| port.traffic.drops).sum::<u64>();
        let before = lost();
        assert!(!machine.attempt("ping -c 1 -W 1 10.8.0.2").status.success());
        bed::wait_until("what is of another network is counted", || lost() > before);
        network.down().unwrap();
        // The socket is free again.
        drop(std::net::UdpSocket::bind("0.0.0.0:4789").unwrap());
    });
    if let Err(panic) = thread.join() {
        std::panic::resume_unwind(panic);
    }
}

#[test]
fn flows_say_which_network_of_a_tunnel_a_packet_is_of() {
    let thread = std::thread::spawn(|| {
        if !nix::unistd::geteuid().is_root() {
            return eprintln!("SKIPPED: tunnels are for root");
        }
        let Some(bed) = Bed::new() else { return };
        let machine = Machine::beside_a_new_one();
        for rate in ["", "\n    rate: 200 Mbit/s"] {
            let text = NETWORKS.replace("RATE", rate);
            let of_file = fabric::parse(&bed::source(&text)).unwrap().topology;
            let far = of_file.address(of_file.node("far").unwrap()).unwrap();
            let mac = far.mac.map(|byte| format!("{byte:02x}")).join(":");
            let network = bed.up("networks", &text);
            // The other end has one network at a time.
            for (vni, here, not_here) in [(42, "h1", "h2"), (43, "h2", "h1")] {
                machine.run(&format!(
                    "ip link add vx0 address {mac} mtu 1450 type vxlan id {vni} remote 10.9.0.1 dstport 4789 dev right"
                ));
                machine.run(&format!("ip addr add {}/{} dev vx0", far.ipv4, far.ipv4_prefix));
                machine.run("ip link set vx0 up");
                bed::ping(&network, here, &["-4"], 3, "far");
                let address = of_file.address(of_file.node(not_here).unwrap()).unwrap().ipv4;
                assert!(
                    !machine.attempt(&format!("ping -c 1 -W 1 {address}")).status.success(),
                    "{not_here} is elsewhere"
                );
                machine.run("ip link del vx0");
            }
            network.down().unwrap();
        }
    });
    if let Err(panic) = thread.join() {
        std::panic::resume_unwind(panic);
    }
}
