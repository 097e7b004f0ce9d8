//! Switches of others, to compare with: a bridge of the kernel, or Open vSwitch, in a network namespace of its own, to which each host of the flows has one more device for the time of
//! a run. The same hosts, programs and settings of TCP send over it. Functions of chains have two more devices, and pass frames on between them as they do in the network.

mod layout;

use std::io::{BufRead as _, BufReader, Read as _};
use std::path::Path;
use std::process::{Child, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use fabric::{Fabric, SwitchedBy};
use tempfile::TempDir;

use self::layout::{Attachment, Layout, OF_FUNCTIONS, PLAIN, STEERED, Section};
use super::flow::{FlowFailure, Hosts, LiveFlow, start};

/// How long a switch may take until it is there.
const PATIENCE: Duration = Duration::from_secs(30);

/// Where Debian has the schema of Open vSwitch's database.
const SCHEMA: &str = "/usr/share/openvswitch/vswitch.ovsschema";

/// Says that it is there; ends, with all that it has started, when nobody holds its standard input any more.
const UNTIL_LET_GO: &str = "echo ready; cat >/dev/null";

/// Adds the port `$1` to the bridge `$2` in the namespace of the process `$3`.
const ADD_TO_BRIDGE: &str = r#"nsenter --net="/proc/$3/ns/net" ip link set "$1" up master "$2""#;
const ADD_TO_OPENVSWITCH: &str = r#"nsenter --net="/proc/$3/ns/net" ip link set "$1" up && ovs-vsctl --timeout=20 --db="unix:$4/db.sock" add-port "$2" "$1""#;

/// Has Open vSwitch's bridge `$1`, whose files are in the folder `$2`, steer by the flows `$3`.
const STEER: &str = r#"cd "$2" && printf %s "$3" | OVS_RUNDIR=. ovs-ofctl --timeout=20 add-flows "$1" -"#;

/// Waits until the address `$1` answers, and by that the bridges on the way know where it is.
const ANSWERS: &str = r#"ping -c 1 -w 10 -i 0.2 "$1" >/dev/null || { echo "$1 does not answer through the functions of its chain" >&2; exit 1; }"#;

/// A switch that carries the flows of a run.
#[derive(Debug)]
pub(crate) struct OtherSwitch<'a, H: Hosts> {
    hosts: &'a H,
    switched_by: SwitchedBy,
    layout: Layout,
    /// What passes frames on in functions.
    forwarders: Vec<Child>,
    /// What its namespace is held by.
    holder: Child,
    /// Where it keeps its files.
    folder: TempDir,
}

impl<'a, H: Hosts> OtherSwitch<'a, H> {
    /// Makes one for these flows; `None` if the network itself carries them. `program` is this one, which passes frames on in functions.
    ///
    /// # Errors
    /// If this machine has no such switch, or it does not come up.
    pub fn start(
        (hosts, program): (&'a H, &Path),
        switched_by: SwitchedBy,
        fabric: &Fabric,
        flows: &[LiveFlow],
    ) -> Result<Option<Self>, FlowFailure> {
        let Some(first) = flows.first().filter(|_| !switched_by.is_heddle()) else { return Ok(None) };
        let failed = |host: &str, message: String| FlowFailure {
            flow: format!("over {}", switched_by.word()),
            host: host.to_owned(),
            message,
        };
        let layout = Layout::new(fabric, flows);
        let folder = tempfile::tempdir().map_err(|error| failed(&first.from, error.to_string()))?;
        let sections = layout.sections();
        let holder = hold((hosts, &first.from), switched_by, &sections, folder.path());
        let holder = holder.map_err(|message| failed(&first.from, message))?;
        let mut switch = Self { hosts, switched_by, layout, forwarders: Vec::new(), holder, folder };
        for attachment in &switch.layout.attachments {
            switch.attach(attachment, fabric.mtu).map_err(|message| failed(&attachment.host, message))?;
        }
        switch.steer(&first.from).map_err(|message| failed(&first.from, message))?;
        for function in &switch.layout.functions {
            let [ingress, egress] = OF_FUNCTIONS;
            let (arguments, program) = (["forward", ingress, egress].map(str::to_owned), program.to_string_lossy());
            let stdio = [Stdio::null(), Stdio::null(), Stdio::null()];
            let forwarder = start(hosts, (function, &program), &arguments, stdio);
            switch.forwarders.push(forwarder.map_err(|message| failed(function, message))?);
        }
        let ways = flows.iter().zip(&switch.layout.addresses).zip(&switch.layout.is_chained);
        for ((flow, address), _) in ways.filter(|(_, is_chained)| **is_chained) {
            run(hosts, &flow.from, ANSWERS, &[&address.to_string()]).map_err(|message| failed(&flow.from, message))?;
        }
        Ok(Some(switch))
    }

    /// The flows with the addresses that lead over it.
    pub fn flows(&self, flows: Vec<LiveFlow>) -> Vec<LiveFlow> {
        let over = |(flow, address): (LiveFlow, &std::net::Ipv4Addr)| LiveFlow { address: address.to_string(), ..flow };
        flows.into_iter().zip(&self.layout.addresses).map(over).collect()
    }

    /// Makes a device, and plugs it in.
    fn attach(&self, attachment: &Attachment, mtu: u32) -> Result<(), String> {
        let Attachment { host, device, port, section, address, peers, .. } = attachment;
        let process = self.holder.id().to_string();
        let make = format!("ip link add name {device} mtu {mtu} type veth peer name {port} mtu {mtu} netns {process}");
        let address = address.map(|address| format!("ip addr add {address}/32 dev {device}"));
        let up = format!("ip link set {device} up");
        let routes = peers.iter().map(|peer| format!("ip route add {peer}/32 dev {device}"));
        let steps: Vec<String> = [make].into_iter().chain(address).chain([up]).chain(routes).collect();
        run(self.hosts, host, &steps.join(" && "), &[])?;
        let folder = self.folder.path().to_string_lossy().into_owned();
        match self.switched_by {
            SwitchedBy::Heddle => Ok(()),
            SwitchedBy::LinuxBridge => run(self.hosts, host, ADD_TO_BRIDGE, &[port, &section.bridge(), &process]),
            SwitchedBy::Openvswitch => {
                run(self.hosts, host, ADD_TO_OPENVSWITCH, &[port, of_openvswitch(*section), &process, &folder])
            }
        }
    }

    /// Has Open vSwitch take packets of chains from port to port. Bridges of the kernel do by what is plugged into them.
    fn steer(&self, host: &str) -> Result<(), String> {
        let steering = self.layout.steering();
        if steering.is_empty() || self.switched_by != SwitchedBy::Openvswitch {
            return Ok(());
        }
        run(self.hosts, host, STEER, &[STEERED, &self.folder.path().to_string_lossy(), &steering])
    }
}

impl<H: Hosts> Drop for OtherSwitch<'_, H> {
    fn drop(&mut self) {
        for forwarder in &mut self.forwarders {
            let _ = forwarder.kill();
            let _ = forwarder.wait();
        }
        for Attachment { host, device, .. } in &self.layout.attachments {
            // It goes with its other end otherwise.
            let _ = run(self.hosts, host, &format!("ip link del {device}"), &[]);
        }
        drop(self.holder.stdin.take());
        let _ = self.holder.wait();
    }
}

/// The bridge of Open vSwitch that has a section.
const fn of_openvswitch(section: Section) -> &'static str {
    match section {
        Section::Plain => PLAIN,
        Section::Chain { .. } => STEERED,
    }
}

/// Starts what holds the namespace, and the switch in it.
fn hold(
    (hosts, host): (&impl Hosts, &str),
    switched_by: SwitchedBy,
    sections: &[Section],
    folder: &Path,
) -> Result<Child, String> {
    let folder = folder.to_string_lossy();
    let script = match switched_by {
        SwitchedBy::Openvswitch => {
            let has = |program: &str| run(hosts, host, &format!("command -v {program} >/dev/null"), &[]).is_ok();
            if !["ovs-vswitchd", "ovsdb-server", "ovsdb-tool", "ovs-vsctl", "ovs-ofctl"].into_iter().all(has) {
                return Err(
                    "Open vSwitch is not installed: `sudo apt install openvswitch-switch`, or leave `openvswitch` out of `switched-by`"
                        .to_owned(),
                );
            }
            let mut bridges: Vec<&str> = sections.iter().map(|section| of_openvswitch(*section)).collect();
            bridges.dedup();
            let add = |bridge: &str| {
                // Without a flow, nothing is forwarded.
                let by_flows = if bridge == STEERED { " fail_mode=secure" } else { "" };
                format!("vsctl add-br {bridge} -- set bridge {bridge} datapath_type=netdev{by_flows}\n")
            };
            let bridges: String = bridges.into_iter().map(add).collect();
            format!(
                "set -e; cd '{folder}'; db= switch=; trap 'kill $switch $db 2>/dev/null' EXIT; export OVS_RUNDIR=. OVS_LOGDIR=. OVS_DBDIR=.
ovsdb-tool create conf.db {SCHEMA}
ovsdb-server --no-chdir --remote=punix:db.sock --unixctl=\"$PWD/db.ctl\" conf.db >/dev/null 2>db.log & db=$!
for _ in $(seq 500); do [ -S db.sock ] && break; sleep 0.02; done
vsctl() {{ ovs-vsctl --timeout=20 --db=unix:db.sock \"$@\"; }}
vsctl --no-wait init
vsctl --no-wait set Open_vSwitch . other_config:userspace-tso-enable=true
ovs-vswitchd --no-chdir --disable-system --unixctl=\"$PWD/vswitchd.ctl\" unix:db.sock >/dev/null 2>vswitchd.log & switch=$!
{bridges}{UNTIL_LET_GO}"
            )
        }
        SwitchedBy::Heddle | SwitchedBy::LinuxBridge => {
            let add = |section: &Section| {
                format!("ip link add name {0} type bridge && ip link set {0} up && ", section.bridge())
            };
            sections.iter().map(add).collect::<String>() + &format!("{{ {UNTIL_LET_GO}; }}")
        }
    };
    let arguments = ["--net", "sh", "-c", script.as_str()].map(str::to_owned);
    let stdio = [Stdio::piped(), Stdio::piped(), Stdio::piped()];
    let mut holder = start(hosts, (host, "unshare"), &arguments, stdio)?;
    let said = holder.stdout.take().map(first_line).unwrap_or_default();
    if said == "ready" {
        return Ok(holder);
    }
    // It gives up by itself, and ends what it has started.
    drop(holder.stdin.take());
    let mut error = String::new();
    if let Some(stderr) = holder.stderr.take() {
        let _ = stderr.take(1_000).read_to_string(&mut error);
    }
    let _ = holder.wait();
    Err(format!("a {} does not come up: {}", switched_by.word(), error.trim()))
}

/// The first line that a program says, if one comes in time.
fn first_line(output: impl std::io::Read + Send + 'static) -> String {
    let (sender, receiver) = mpsc::channel();
    thread::spawn(move || {
        let mut line = String::new();
        let _ = BufReader::new(output).read_line(&mut line);
        // Nobody waits any more otherwise.
        let _ = sender.send(line.trim().to_owned());
    });
    receiver.recv_timeout(PATIENCE).unwrap_or_default()
}

/// Runs a script in a host.
fn run(hosts: &impl Hosts, host: &str, script: &str, arguments: &[&str]) -> Result<(), String> {
    let words = ["-c", script, "sh"].into_iter().chain(arguments.iter().copied()).map(str::to_owned);
    let mut command = hosts.command(host, "sh", &words.collect::<Vec<_>>())?;
    let output = command.stdin(Stdio::null()).output().map_err(|error| format!("sh cannot be started: {error}"))?;
    if output.status.success() {
        return Ok(());
    }
    Err(super::iperf::shortened(String::from_utf8_lossy(&output.stderr).trim()))
}
