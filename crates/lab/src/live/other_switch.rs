//! Switches of others, to compare with: a bridge of the kernel, or Open vSwitch, in a network namespace of its own, to which each host of the flows has one more device for the time of
//! a run. The same hosts, programs and settings of TCP send over it.

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Read as _};
use std::net::Ipv4Addr;
use std::path::Path;
use std::process::{Child, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use fabric::SwitchedBy;
use tempfile::TempDir;

use super::flow::{FlowFailure, Hosts, LiveFlow, start};

/// What the further device of a host is called.
const DEVICE: &str = "other0";

/// Where addresses of these devices begin: those of measurements (RFC 2544, C.2.2), which no network of a file has unless it says so.
const FIRST: Ipv4Addr = Ipv4Addr::new(198, 18, 0, 1);

/// How long a switch may take until it is there.
const PATIENCE: Duration = Duration::from_secs(30);

/// Where Debian has the schema of Open vSwitch's database.
const SCHEMA: &str = "/usr/share/openvswitch/vswitch.ovsschema";

/// Says that it is there; ends, with all that it has started, when nobody holds its standard input any more.
const UNTIL_LET_GO: &str = "echo ready; cat >/dev/null";

/// Adds the port `$1` in the namespace of the process `$2`.
const ADD_TO_BRIDGE: &str = r#"nsenter --net="/proc/$2/ns/net" ip link set "$1" up master br0"#;
const ADD_TO_OPENVSWITCH: &str = r#"nsenter --net="/proc/$2/ns/net" ip link set "$1" up && ovs-vsctl --timeout=20 --db="unix:$3/db.sock" add-port br0 "$1""#;

/// A switch that carries the flows of a run.
#[derive(Debug)]
pub(crate) struct OtherSwitch<'a, H: Hosts> {
    hosts: &'a H,
    /// The addresses of its hosts' devices.
    addresses: BTreeMap<String, Ipv4Addr>,
    /// What its namespace is held by.
    holder: Child,
    /// Where it keeps its files.
    folder: TempDir,
}

impl<'a, H: Hosts> OtherSwitch<'a, H> {
    /// Makes one for these flows; `None` if the network itself carries them.
    ///
    /// # Errors
    /// If this machine has no such switch, or it does not come up.
    pub fn start(
        hosts: &'a H,
        switched_by: SwitchedBy,
        flows: &[LiveFlow],
        mtu: u32,
    ) -> Result<Option<Self>, FlowFailure> {
        let names: BTreeMap<String, Ipv4Addr> = {
            let names = flows.iter().flat_map(|flow| [flow.from.clone(), flow.to.clone()]);
            let mut all: Vec<String> = names.collect();
            all.sort();
            all.dedup();
            all.into_iter().zip(FIRST.to_bits()..).map(|(name, address)| (name, Ipv4Addr::from_bits(address))).collect()
        };
        let Some(first) = names.keys().next().filter(|_| !switched_by.is_heddle()).cloned() else { return Ok(None) };
        let failed = |host: &str, message: String| FlowFailure {
            flow: format!("over {}", switched_by.word()),
            host: host.to_owned(),
            message,
        };
        let folder = tempfile::tempdir().map_err(|error| failed(&first, error.to_string()))?;
        let holder = hold(hosts, &first, switched_by, folder.path()).map_err(|message| failed(&first, message))?;
        let switch = Self { hosts, addresses: names, holder, folder };
        for (number, (host, address)) in switch.addresses.iter().enumerate() {
            switch.attach((number, host, *address), switched_by, mtu).map_err(|message| failed(host, message))?;
        }
        Ok(Some(switch))
    }

    /// The flows with the addresses that lead over it.
    pub fn flows(&self, flows: Vec<LiveFlow>) -> Vec<LiveFlow> {
        let over = |flow: LiveFlow| {
            let address = self.addresses.get(&flow.to).map_or(flow.address.clone(), Ipv4Addr::to_string);
            LiveFlow { address, ..flow }
        };
        flows.into_iter().map(over).collect()
    }

    /// Gives a host its device.
    fn attach(
        &self,
        (number, host, address): (usize, &str, Ipv4Addr),
        switched_by: SwitchedBy,
        mtu: u32,
    ) -> Result<(), String> {
        let (port, process) = (format!("p{number}"), self.holder.id().to_string());
        let make = format!(
            "ip link add name {DEVICE} mtu {mtu} type veth peer name {port} mtu {mtu} netns {process} && ip addr add {address}/15 dev {DEVICE} && ip link set {DEVICE} up"
        );
        run(self.hosts, host, &make, &[])?;
        let folder = self.folder.path().to_string_lossy().into_owned();
        match switched_by {
            SwitchedBy::Heddle => Ok(()),
            SwitchedBy::LinuxBridge => run(self.hosts, host, ADD_TO_BRIDGE, &[&port, &process]),
            SwitchedBy::Openvswitch => run(self.hosts, host, ADD_TO_OPENVSWITCH, &[&port, &process, &folder]),
        }
    }
}

impl<H: Hosts> Drop for OtherSwitch<'_, H> {
    fn drop(&mut self) {
        for host in self.addresses.keys() {
            // It goes with its other end otherwise.
            let _ = run(self.hosts, host, &format!("ip link del {DEVICE}"), &[]);
        }
        drop(self.holder.stdin.take());
        let _ = self.holder.wait();
    }
}

/// Starts what holds the namespace, and the switch in it.
fn hold(hosts: &impl Hosts, host: &str, switched_by: SwitchedBy, folder: &Path) -> Result<Child, String> {
    let folder = folder.to_string_lossy();
    let script = match switched_by {
        SwitchedBy::Openvswitch => {
            let has = |program: &str| run(hosts, host, &format!("command -v {program} >/dev/null"), &[]).is_ok();
            if !["ovs-vswitchd", "ovsdb-server", "ovsdb-tool", "ovs-vsctl"].into_iter().all(has) {
                return Err(
                    "Open vSwitch is not installed: `sudo apt install openvswitch-switch`, or leave `openvswitch` out of `switched-by`"
                        .to_owned(),
                );
            }
            format!(
                "set -e; cd '{folder}'; db= switch=; trap 'kill $switch $db 2>/dev/null' EXIT; export OVS_RUNDIR=. OVS_LOGDIR=. OVS_DBDIR=.
ovsdb-tool create conf.db {SCHEMA}
ovsdb-server --no-chdir --remote=punix:db.sock --unixctl=\"$PWD/db.ctl\" conf.db >/dev/null 2>db.log & db=$!
for _ in $(seq 500); do [ -S db.sock ] && break; sleep 0.02; done
vsctl() {{ ovs-vsctl --timeout=20 --db=unix:db.sock \"$@\"; }}
vsctl --no-wait init
vsctl --no-wait set Open_vSwitch . other_config:userspace-tso-enable=true
ovs-vswitchd --no-chdir --disable-system --unixctl=\"$PWD/vswitchd.ctl\" unix:db.sock >/dev/null 2>vswitchd.log & switch=$!
vsctl add-br br0 -- set bridge br0 datapath_type=netdev
{UNTIL_LET_GO}"
            )
        }
        SwitchedBy::Heddle | SwitchedBy::LinuxBridge => {
            format!("ip link add name br0 type bridge && ip link set br0 up && {{ {UNTIL_LET_GO}; }}")
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
