//! What can go wrong on the real machine, and what to do about it.

use std::io;
use std::path::PathBuf;

use crate::owner::Owner;
use crate::runtime::MAKE_RUNTIME_FOLDER;

/// A failure of the live driver. [`Error::hint`] says what fixes it, where that is known.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// `/dev/net/tun` cannot be opened.
    #[error("cannot open /dev/net/tun, through which hosts exchange packets with the fabric: {source}")]
    Tun {
        /// What the kernel said.
        source: io::Error,
    },
    /// The kernel refuses a user namespace.
    #[error("this user may not make network namespaces, and not a user namespace either: {source}")]
    UserNamespace {
        /// What the kernel said.
        source: io::Error,
    },
    /// A host could not be set up.
    #[error("host {host}: cannot {step}: {reason}")]
    Host {
        /// The host's name.
        host: String,
        /// What was tried.
        step: &'static str,
        /// What the kernel said.
        reason: String,
        /// What fixes it, if it is known.
        hint: Option<&'static str>,
    },
    /// A file of a host has no place.
    #[error("host {host}: cannot have the file {path}: {reason}")]
    HostFile {
        /// The host's name.
        host: String,
        /// Where it was to be.
        path: String,
        /// Why it can't.
        reason: String,
        /// What fixes it.
        hint: &'static str,
    },
    /// A sysctl of a host could not be set.
    #[error("host {host}: cannot set the sysctl {name} to `{value}`: {source}")]
    HostSysctl {
        /// The host's name.
        host: String,
        /// Its name, with slashes.
        name: String,
        /// What it was to be.
        value: String,
        /// What the kernel said.
        source: io::Error,
    },
    /// A route of a host could not be set.
    #[error("host {host}: cannot have the route `{route}`: {reason}")]
    HostRoute {
        /// The host's name.
        host: String,
        /// The route.
        route: String,
        /// What the kernel said.
        reason: String,
    },
    /// The image of a host or a function is of no use.
    #[error("{owner}: cannot have the image {image}: {source}")]
    Image {
        /// Whose it is.
        owner: Owner,
        /// The image, as the file has it.
        image: String,
        /// Why not.
        source: crate::image::Unusable,
    },
    /// The bundle of a function is of no use.
    #[error("{owner}: cannot run the bundle {bundle}: {source}")]
    Bundle {
        /// Whose it is.
        owner: Owner,
        /// The bundle, as the file has it.
        bundle: String,
        /// Why not.
        source: crate::image::Unusable,
    },
    /// What runs containers is not installed.
    #[error("{owner}: its bundle needs the program crun or runc, and neither is installed")]
    NoContainerRuntime {
        /// Whose bundle it is.
        owner: Owner,
    },
    /// A program is to begin in a container that does not run.
    #[error("the container of function {instance} does not run")]
    ContainerDown {
        /// The instance of the function.
        instance: String,
    },
    /// What carries an uplink is not installed.
    #[error("host {host}: `uplink: nat` needs the program pasta, which is not installed")]
    NoPasta {
        /// The host's name.
        host: String,
    },
    /// The kernel cannot sleep as long as a link's delay takes.
    #[error("cannot sleep for less than a millisecond (epoll_pwait2): {source}")]
    Sleep {
        /// What the kernel said.
        source: io::Error,
    },
    /// A system call that should not fail did.
    #[error("cannot {step}: {source}")]
    System {
        /// What was tried.
        step: &'static str,
        /// What the kernel said.
        source: io::Error,
    },
    /// A file or folder of the runtime folder.
    #[error("{}: cannot {step}: {source}", path.display())]
    Path {
        /// The path that the step was for.
        path: PathBuf,
        /// What was tried.
        step: &'static str,
        /// What the kernel said.
        source: io::Error,
    },
    /// The runtime folder is not this user's own.
    #[error("{} belongs to another user or is open to others; expected a folder of mode 0700 of user {uid}", path.display())]
    Folder {
        /// The runtime folder.
        path: PathBuf,
        /// The user who runs this program.
        uid: u32,
        /// The user that it belongs to.
        owner: u32,
    },
    /// Another user's process listens where this user's network should.
    #[error("the process of the network `{instance}` is of {}, and this one of {}", user(*owner), user(nix::unistd::geteuid().as_raw()))]
    OtherUser {
        /// The name of the network.
        instance: String,
        /// The user that its process belongs to.
        owner: u32,
    },
    /// A name that cannot be that of an instance.
    #[error(
        "`{0}` cannot name a network: expected 1 to 64 letters, digits, `-`, `_`, `.`, and a letter or digit first"
    )]
    Name(String),
    /// A network of this name runs already.
    #[error("a network named `{0}` is already up")]
    Running(String),
    /// No network of this name is up.
    #[error("no network named `{0}` is up")]
    NotRunning(String),
    /// The fabric has no such host.
    #[error("`{host}` is not a host of the network `{instance}`")]
    NoSuchHost {
        /// The name that was given.
        host: String,
        /// The name of the network.
        instance: String,
        /// Which host may be meant.
        hint: String,
    },
    /// A switch is no host.
    #[error("`{switch}` is a switch of the network `{instance}`: programs run in hosts only")]
    IsSwitch {
        /// The name that was given.
        switch: String,
        /// The name of the network.
        instance: String,
        /// A host of the network: beside the switch, if one is.
        host: String,
    },
    /// A device of the machine can't be used as the end of a link.
    #[error("the device `{device}` of host `{host}` can't be opened: {source}")]
    Device {
        /// The host that is behind it.
        host: String,
        /// The name of the device.
        device: String,
        /// What the kernel says.
        source: std::io::Error,
    },
    /// A capture can't be the end of a link.
    #[error("host `{host}`, {}: {source}", file.display())]
    Capture {
        /// The host that is behind it.
        host: String,
        /// The device as the fabric file names it.
        device: String,
        /// The file.
        file: PathBuf,
        /// What is wrong with it.
        source: crate::capture::CaptureError,
    },
    /// More or fewer links than devices.
    #[error("host `{host}` has {links} links and {devices} devices, expected one for each link")]
    DeviceCount {
        /// The name of the host.
        host: String,
        /// How many links it has.
        links: usize,
        /// How many devices it has.
        devices: usize,
    },
    /// The network has not made this host.
    #[error("host `{host}` is behind devices of the machine ({devices}): nothing can be run in it from here")]
    ExternalHost {
        /// The name of the host.
        host: String,
        /// Names with commas between.
        devices: String,
    },
    /// The network has no such link.
    #[error(transparent)]
    NoSuchLink(#[from] fabric::NoSuchLink),
    /// A capture can't look there.
    #[error(transparent)]
    CaptureTarget(#[from] crate::sniffer::TargetError),
    /// A capture's filter is none.
    #[error(transparent)]
    CaptureFilter(#[from] crate::sniffer::FilterError),
    /// As many look as there may.
    #[error("{limit} captures of this network are under way, and there can be no more at one time")]
    TooManyCaptures {
        /// How many there may be.
        limit: usize,
    },
    /// No file has been applied yet.
    #[error("the network has no links yet")]
    NothingRuns,
    /// A path cannot stand on the command line of a guest's kernel.
    #[error(
        "the virtual machine `{host}` cannot be started: User-Mode Linux takes no space, comma, colon or quote in `{path}`"
    )]
    GuestPath {
        /// The host's name.
        host: String,
        /// What would stand on the kernel's command line.
        path: String,
    },
    /// A file of a guest is none.
    #[error("the virtual machine `{host}` cannot have the {key} {}: {source}", path.display())]
    GuestFile {
        /// The host's name.
        host: String,
        /// What it would be: `kernel`, `initrd` or `image`.
        key: &'static str,
        /// The file.
        path: PathBuf,
        /// As [`Error::place_in_file`].
        at: Vec<String>,
        /// What the kernel says.
        source: io::Error,
    },
    /// Whose certificates are good for a service's health checks is not known.
    #[error("certificates for the health checks of {service}: {why}")]
    Authorities {
        /// The service's name.
        service: String,
        /// The file, and what is wrong with it.
        why: String,
    },
    /// Which addresses are in which country is not known.
    #[error("countries of {service}: {why}")]
    Countries {
        /// The service's name.
        service: String,
        /// The file, and what is wrong with it.
        why: String,
    },
    /// More than one process can hold.
    #[error("{hosts} hosts are more than one live network can have: {limit} at most")]
    TooManyHosts {
        /// How many the file has.
        hosts: u32,
        /// How many there can be.
        limit: u32,
    },
    /// A worker has been at something for so long that another change would have to wait for it.
    #[error("worker-{worker} has not gone over to the network of the file before: what it is at has not returned")]
    Worker {
        /// Its number.
        worker: usize,
    },
    /// The network has ended, but some workers have not: they end with the process.
    #[error("the network is down, but {} had not ended: what it was at had not returned", names(workers))]
    LeftBehind {
        /// Their numbers.
        workers: Vec<usize>,
    },
    /// The file cannot be used.
    #[error("{0}")]
    File(String),
    /// A network that several workers forward was given functions of service chains.
    #[error(
        "{workers} workers forward this network, and one with functions of service chains or with services is one worker's"
    )]
    ChainsOfSeveralWorkers {
        /// How many there are.
        workers: usize,
    },
    /// There is no such switch.
    #[error(transparent)]
    NoSuchSwitch(#[from] fabric::NoSuchSwitch),
    /// A switch forwards along the routes, and has no tables.
    #[error("{switch} has no tables of flows: it forwards along the routes")]
    NoTables {
        /// The switch's name.
        switch: String,
    },
    /// There is no such service.
    #[error("there is no service {service}")]
    NoService {
        /// The name that was given.
        service: String,
        /// Those that there are.
        known: Vec<String>,
    },
    /// A service has no such server.
    #[error("{service} has no server {server}")]
    NoServer {
        /// The service's name.
        service: String,
        /// The name that was given.
        server: String,
        /// Those that there are.
        known: Vec<String>,
    },
    /// A port cannot have the name of a node that is there.
    #[error("there is a node {name} already")]
    NodeExists {
        /// The name.
        name: String,
    },
    /// A switch has no port of this name.
    #[error("no port of {switch} is called {port}")]
    NoSuchPort {
        /// The switch's name.
        switch: String,
        /// What the port was called.
        port: String,
    },
    /// A port is the end of a link of the file.
    #[error("the port of {switch} that leads to {peer} is the end of a link of the file")]
    PortOfLink {
        /// The switch's name.
        switch: String,
        /// The node at the link's other end.
        peer: String,
    },
    /// A change of tables cannot be made; none of those that came with it was.
    #[error("`{text}` is refused: {error}")]
    Flow {
        /// The switch's name.
        switch: String,
        /// The flow or group.
        text: String,
        /// Why.
        error: vswitch::flow_table::ChangeError,
    },
    /// The daemon did not come up.
    #[error("the network's process did not start: {message}")]
    Start {
        /// What it said last.
        message: String,
        /// What it advised.
        hint: Option<String>,
    },
    /// The daemon refused a request; nothing changed.
    #[error("{message}")]
    Refused {
        /// Why the request was refused.
        message: String,
        /// What it advised.
        hint: Option<String>,
        /// As [`Error::place_in_file`].
        at: Vec<String>,
    },
    /// Client and daemon do not understand each other.
    #[error("the network's process and this program do not understand each other: {0}")]
    Protocol(#[from] crate::control::ProtocolError),
    /// The daemon is gone.
    #[error("the network's process has gone away")]
    Gone,
    /// The daemon is there and says nothing.
    #[error("the process of the network `{instance}`, {pid}, does not answer")]
    Silent {
        /// The name of the network.
        instance: String,
        /// The daemon's.
        pid: i32,
    },
}

impl Error {
    /// What fixes it, where that is known: one or two sentences for the user.
    pub fn hint(&self) -> Option<String> {
        let hint = match self {
            Self::Tun { source } if source.kind() == io::ErrorKind::PermissionDenied => {
                "allow it with `sudo chmod 0666 /dev/net/tun`, which is how Debian's udev rules set it; \
                 opening it gives no rights over the machine's own network"
            }
            Self::Tun { source } if source.kind() == io::ErrorKind::NotFound => {
                "load the driver with `sudo modprobe tun`; in a container, pass the device in: `--device /dev/net/tun`"
            }
            Self::Tun { .. } => "load the driver with `sudo modprobe tun`",
            Self::UserNamespace { .. } => return Some(user_namespace_hint().to_owned()),
            Self::Folder { uid, owner, .. } if uid != owner => return Some(as_user(*owner)),
            Self::OtherUser { owner, .. } => return Some(as_user(*owner)),
            Self::Folder { .. } => "set XDG_RUNTIME_DIR to a folder of your own, or correct its owner and mode",
            Self::Running(_) => "`heddle up` changes it, `heddle down` ends it",
            Self::NotRunning(name) if crate::runtime::has_crashed(name) => {
                "its process has died: `heddle clean` removes what it left, `heddle up FILE` starts it anew"
            }
            Self::NotRunning(_) if crate::runtime::external_session().is_some() => {
                return crate::runtime::external_session().map(|owner| {
                    format!(
                        "XDG_RUNTIME_DIR is a folder of {}, whose networks only that user can enter: {}",
                        user(owner),
                        as_user(owner)
                    )
                });
            }
            Self::NotRunning(_) => "start it with `heddle up FILE`",
            Self::GuestPath { .. } => {
                "XDG_RUNTIME_DIR is the folder that networks are in: take one without; and the fabric file's folder, where an image is relative to it; or say `hypervisor: qemu`"
            }
            Self::GuestFile { .. } => "it is a file, relative to the fabric file's folder",
            Self::Authorities { .. } => {
                "`ca` is a file in PEM with the certificates of who has signed those of the servers, relative to the fabric file's folder; `ca: none` takes any"
            }
            Self::Countries { .. } => {
                "`file` has a line for each range of addresses, `1.0.0.0/24,AU` or `1.0.1.0,1.0.3.255,CN`, and is relative to the fabric file's folder"
            }
            Self::TooManyHosts { .. } => {
                "simulate it: `heddle run --sim`; or raise the limit of open files, `ulimit -Hn`"
            }
            Self::Silent { .. } => {
                "it may have been stopped: `kill -CONT` with its number lets it go on; or end it with `kill -KILL`, and `heddle clean` removes what it left"
            }
            Self::Gone => "its log lies in the runtime folder; `heddle clean` removes what it left",
            Self::DeviceCount { .. } => "leave `members` as in the file, or simulate it: `heddle run --sim`",
            Self::Device { device, source, .. } if device.starts_with(topology::DpdkDevice::PREFIX) => {
                dpdk_hint(source)
            }
            Self::Device { device, source, .. } if topology::VhostUserDevice::of(device).is_some() => {
                socket_hint(source)
            }
            Self::Device { device, source, .. } if topology::TunnelDevice::parse(device).is_some() => {
                tunnel_hint(source)
            }
            Self::Device { source, .. } => device_hint(source),
            Self::Capture { source, .. } => source.hint(),
            Self::ExternalHost { .. } => "run it where the host is: in the guest, or on the machine behind the cable",
            Self::NoSuchHost { hint, .. } => return Some(hint.clone()),
            Self::IsSwitch { host, .. } => {
                return Some(format!(
                    "`heddle exec {host} -- ..` runs it in a host; `heddle show routes` and `heddle show counters` show what a switch does"
                ));
            }
            Self::NoSuchLink(error) => return Some(error.hint()),
            Self::NoTables { switch } => {
                return Some(format!("`heddle flow add {switch} ..` gives it some; `heddle path` follows routes"));
            }
            Self::NoService { known, .. } if known.is_empty() => {
                return Some("the network has no services: they stand in its file, under `services:`".to_owned());
            }
            Self::NoService { known, .. } => return Some(format!("there are {}", known.join(", "))),
            Self::NoServer { known, .. } => return Some(format!("it has {}", known.join(", "))),
            Self::NodeExists { .. } => {
                return Some("give the port another name: the host behind it is called so".to_owned());
            }
            Self::NoSuchPort { switch, .. } => return Some(format!("`heddle port show {switch}` lists them")),
            Self::PortOfLink { switch, peer } => {
                return Some(format!(
                    "`heddle link down {switch} {peer}` takes its carrier; `heddle up` with another file removes it"
                ));
            }
            Self::ChainsOfSeveralWorkers { .. } => {
                return Some("`heddle down`, then `heddle up`: it begins with one worker then".to_owned());
            }
            Self::NoSuchSwitch(error) => return Some(error.hint.clone()),
            Self::Flow { error, switch, .. } => return Some(error.hint().replace("SWITCH", switch)),
            Self::CaptureTarget(error) => return Some(error.hint()),
            Self::CaptureFilter(error) => return Some(error.hint()),
            Self::TooManyCaptures { .. } => "end one of them first: each ends when its `heddle capture` does",
            Self::Worker { .. } => "`heddle down`, and then `heddle up` again: the network's log says since when",
            Self::NothingRuns => "give it some with `heddle up FILE`",
            Self::Protocol(_) => "they are probably of different versions: `heddle down`, then `heddle up` again",
            Self::Host { hint: Some(hint), .. } | Self::HostFile { hint, .. } => hint,
            Self::HostSysctl { host, source, .. } if source.kind() == io::ErrorKind::NotFound => {
                return Some(format!(
                    "this kernel has none of this name in a host's own network: `heddle exec {host} sysctl -a` lists those that it has"
                ));
            }
            Self::HostSysctl { source, .. } if source.kind() == io::ErrorKind::InvalidInput => {
                "the kernel takes other values there: its ip-sysctl.rst describes them"
            }
            Self::HostSysctl { name, .. } if name.ends_with("tcp_congestion_control") => {
                "net.ipv4.tcp_available_congestion_control lists those that this kernel has, and net.ipv4.tcp_allowed_congestion_control those that it lets hosts of ordinary users have"
            }
            Self::Image { source, .. } | Self::Bundle { source, .. } => source.hint,
            Self::NoContainerRuntime { .. } => {
                "their packages are called as they are: `sudo apt install crun`; a network that is up finds it at the next `heddle up`"
            }
            Self::ContainerDown { .. } => {
                "`heddle show programs` says how it has ended, and `heddle logs FUNCTION` what it said; it is started again by itself"
            }
            Self::NoPasta { .. } => {
                "its package is called passt: `sudo apt install passt`; a network that is up finds it after `heddle down`"
            }
            Self::HostRoute { .. } => {
                "its next hop has to be in a subnet of the host, and this kernel needs IPv6 for routes of that version"
            }
            Self::HostSysctl { .. } => "only what belongs to a host's own network can be set in it",
            Self::Sleep { .. } => {
                "use Linux 5.11 or newer; in a container, a newer container runtime, whose filter lets this system call pass"
            }
            Self::Path { step: MAKE_RUNTIME_FOLDER, .. } => "set XDG_RUNTIME_DIR to a folder of your own",
            Self::Host { .. } if one("/proc/sys/kernel/apparmor_restrict_unprivileged_userns") => {
                return Some(user_namespace_hint().to_owned());
            }
            Self::Start { hint, .. } | Self::Refused { hint, .. } => return hint.clone(),
            _ => return None,
        };
        Some(hint.to_owned())
    }

    /// What of the fabric file it is about: the keys that lead there, and in a list the text of the item, as [`fabric::problem_at`] takes them. Empty: none of
    /// it.
    pub fn place_in_file(&self) -> Vec<String> {
        match self {
            Self::Capture { host, device, .. } | Self::Device { host, device, .. } => {
                ["nodes", host, "devices", device].map(str::to_owned).into()
            }
            Self::HostFile { host, path, .. } => ["nodes", host, "files", path].map(str::to_owned).into(),
            Self::Image { owner, .. } => owner.key("image"),
            Self::Bundle { owner, .. } | Self::NoContainerRuntime { owner } => owner.key("bundle"),
            Self::NoPasta { host } => ["nodes", host, "uplink"].map(str::to_owned).into(),
            Self::GuestPath { host, .. } => ["nodes", host].map(str::to_owned).into(),
            Self::Countries { service, .. } => ["services", service, "countries", "file"].map(str::to_owned).into(),
            Self::Authorities { service, .. } => ["services", service, "health", "ca"].map(str::to_owned).into(),
            Self::HostSysctl { host, .. } => ["nodes", host, "sysctls"].map(str::to_owned).into(),
            Self::HostRoute { host, route, .. } => ["nodes", host, "routes", route].map(str::to_owned).into(),
            Self::Refused { at, .. } | Self::GuestFile { at, .. } => at.clone(),
            _ => Vec::new(),
        }
    }

    /// A failed system call.
    pub(crate) fn system(step: &'static str) -> impl Fn(nix::Error) -> Self {
        move |errno| Self::System { step, source: errno.into() }
    }

    /// A failed operation on `path`.
    pub(crate) fn path(path: impl Into<PathBuf>, step: &'static str) -> impl FnOnce(io::Error) -> Self {
        let path = path.into();
        move |source| Self::Path { path, step, source }
    }
}

/// Workers by their threads' names.
fn names(workers: &[usize]) -> String {
    workers.iter().map(|worker| format!("worker-{worker}")).collect::<Vec<_>>().join(", ")
}

/// A user by name, or else by number.
fn user(uid: u32) -> String {
    let found = nix::unistd::User::from_uid(uid.into()).ok().flatten();
    found.map_or_else(|| format!("user {uid}"), |user| format!("user {}", user.name))
}

/// How another user's network is reached.
fn as_user(uid: u32) -> String {
    let found = nix::unistd::User::from_uid(uid.into()).ok().flatten();
    let name = found.map_or_else(|| format!("'#{uid}'"), |user| user.name);
    format!("run it as that user: `sudo -u {name} heddle ..`")
}

/// What fixes a device that can't be opened.
fn device_hint(source: &io::Error) -> &'static str {
    match source.kind() {
        _ if [libc::ENODEV, libc::ENXIO].map(Some).contains(&source.raw_os_error()) => {
            "`ip link` shows the devices there are, in the network namespace in which `heddle up` is called; if it was called for \
             this network before, from another one: `heddle down` first"
        }
        io::ErrorKind::PermissionDenied => "devices of the machine are for root: `sudo heddle up ..`",
        io::ErrorKind::ResourceBusy => {
            "if this network has it: `heddle up` without it first. `ip link show` names a program of others, and `ip link set DEVICE xdp off` takes \
             that off; or leave `xdp:` out"
        }
        _ => "`ip link` shows the devices there are, and their state",
    }
}

fn tunnel_hint(source: &io::Error) -> &'static str {
    match source.kind() {
        io::ErrorKind::AddrInUse => {
            "`ss -ulpn` shows who has it: a program, the kernel's own tunnels, or another tunnel of this network, also one that a change would take away (`heddle port del`, or `heddle down`, first); \
             the other end then names the other port"
        }
        io::ErrorKind::AddrNotAvailable => "`local` has to be an address of this machine: `ip address` shows them",
        io::ErrorKind::PermissionDenied => "tunnels are for root: `sudo heddle up ..`",
        _ => "`ip address` and `ip route` show what this machine has and reaches",
    }
}

fn dpdk_hint(source: &io::Error) -> &'static str {
    match source.kind() {
        io::ErrorKind::Unsupported if !cfg!(feature = "dpdk") => {
            "build it with DPDK (Debian: `apt install libdpdk-dev`): `cargo build --release --features dpdk`, or open the device by `xdp:`, or by its name alone"
        }
        io::ErrorKind::AlreadyExists | io::ErrorKind::ResourceBusy => {
            "this network has it already: give each port a number of its own (`net_null0`, `net_null1`); before a change of its arguments: `heddle port del` or `heddle down` first"
        }
        _ => {
            "DPDK's own lines are on the log (`HEDDLE_DPDK_EAL`, its command line, may have `--log-level=8`); `dpdk:` takes what its programs take behind `--vdev`"
        }
    }
}

fn socket_hint(source: &io::Error) -> &'static str {
    match source.kind() {
        io::ErrorKind::AddrInUse => {
            "another network or program listens there, or a file has this name: name another socket, or end or remove that one (of this network before a change, also one of its options: `heddle port del` or `heddle down` first)"
        }
        io::ErrorKind::NotFound => "make the folder first; sockets are relative to the folder of the fabric file",
        io::ErrorKind::InvalidInput => "a socket's path has 107 bytes at most: name one in a folder nearer to the root",
        _ => "the user who calls `heddle up` must be allowed to make files in the folder of the socket",
    }
}

fn reads(path: &str, value: &str) -> bool {
    std::fs::read_to_string(path).is_ok_and(|text| text.trim() == value)
}

fn zero(path: &str) -> bool {
    reads(path, "0")
}

fn one(path: &str) -> bool {
    reads(path, "1")
}

/// Which of the usual switches forbids user namespaces on this machine.
fn user_namespace_hint() -> &'static str {
    if zero("/proc/sys/kernel/unprivileged_userns_clone") {
        "allow them with `sudo sysctl kernel.unprivileged_userns_clone=1`, or run as root"
    } else if zero("/proc/sys/user/max_user_namespaces") {
        "allow them with `sudo sysctl user.max_user_namespaces=10000`, or run as root"
    } else if one("/proc/sys/kernel/apparmor_restrict_unprivileged_userns") {
        "AppArmor forbids them: `sudo sysctl kernel.apparmor_restrict_unprivileged_userns=0`, or run as root"
    } else {
        "run as root; in a container, start it with `--privileged`"
    }
}
