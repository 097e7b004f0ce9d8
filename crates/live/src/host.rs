//! A host: a network namespace with one TAP device that leads into the fabric.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};
use std::{fs, io, thread};

use datapath::Service;
use fabric::{Fabric, HostRoute, HostSetup, InterfaceAddress, NetSysctl, socket_address};
use rtnetlink::packet_route::address::{AddressAttribute, AddressFlags};
use rtnetlink::packet_route::route::{RouteMessage, RouteProtocol, RouteScope};
use rtnetlink::{AddressAddRequest, Handle, LinkUnspec, RouteMessageBuilder};
use topology::{HostAddress, Node, NodeId};

use crate::Error;
use crate::namespace::Namespace;
use crate::neighbours::{Moved, forget};
use crate::tap::Tap;
use crate::vm;

/// Index of the TAP device: a fresh namespace has `lo` as 1, and may have the kernel's fall-back tunnels between.
const LOOPBACK: u32 = 1;

/// What fixes a container in which a network cannot set up its hosts.
const READ_ONLY_HINT: &str = "/proc/sys cannot be written, as in an ordinary container: start it with `--privileged`, or with \
     `--security-opt systempaths=unconfined`";

/// What fixes a host in which a program has changed what belongs to Heddle.
const RESTART_HINT: &str = "a program in the host has changed its device or addresses; if it cannot undo that: `heddle down`, then `heddle up`";

/// The addresses of IPv4 groups: 224.0.0.0/4 (RFC 5771).
const MULTICAST: Ipv4Addr = Ipv4Addr::new(224, 0, 0, 0);

/// Packets that wait in a TAP until a worker reads them: as many as a large ring of a network card has.
const QUEUE_PACKETS: u32 = 4_096;

/// How long a kernel may take until it uses an IPv6 address that it has accepted.
const IPV6_PATIENCE: Duration = Duration::from_secs(10);

/// Flag of a route to the host itself (`RTF_LOCAL` of `linux/ipv6_route.h`).
const LOCAL_ROUTE: u32 = 0x8000_0000;

/// What a host is to be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostSpec {
    /// Its name, also its hostname.
    pub name: String,
    /// The addresses of the host.
    pub address: HostAddress,
    /// More addresses of its device, each in a subnet.
    pub addresses: Vec<InterfaceAddress>,
    /// Its maximum transmission unit, bytes without the Ethernet header.
    pub mtu: u32,
    /// Kernel parameters of its network that are not as they would be.
    pub sysctls: Vec<NetSysctl>,
    /// Its routes besides those to its subnets.
    pub routes: Vec<HostRoute>,
    /// What its device is called.
    pub device: String,
    /// The host in whose namespace its device is, if that is another one: it is a further interface of that host, or the egress of that function.
    pub within: Option<String>,
    /// Whether it is a port of a function of service chains: a device that passes on frames of others, and has no address of its own.
    pub is_function: bool,
    /// Addresses of services that it answers from, besides its own: those of direct routing.
    pub served: Vec<IpAddr>,
}

impl HostSpec {
    /// The hosts of `fabric` that are made, in its order.
    pub fn of(fabric: &Fabric) -> impl Iterator<Item = Self> + '_ {
        let topology = &fabric.topology;
        let made = topology.hosts().filter(|(_, node)| !node.is_external());
        made.filter_map(move |(id, Node { name, .. })| {
            let is_function = topology.is_function_port(id);
            let within = match topology.other_function_port(id) {
                Some(other) => (other < id).then_some(other),
                None => topology.interface_owner(id),
            };
            let number = match within {
                None => 0,
                // The egress of a function.
                Some(_) if is_function => 1,
                Some(owner) => topology.interfaces_of(owner).position(|interface| interface == id).unwrap_or(0),
            };
            let setup = fabric.setups.get(name);
            Some(Self {
                name: name.clone(),
                address: topology.address(id)?.clone(),
                addresses: setup.map(|setup| setup.addresses.clone()).unwrap_or_default(),
                mtu: fabric.mtu,
                sysctls: sysctls(setup, within.is_none() && topology.interfaces_of(id).nth(1).is_some()),
                routes: setup.map(|setup| setup.routes.clone()).unwrap_or_default(),
                device: device(number),
                within: within.map(|owner| topology.nodes[owner].name.clone()),
                is_function,
                served: served(fabric, id),
            })
        })
    }

    /// All addresses of its device, each with the length of its prefix.
    fn own_addresses(&self) -> impl Iterator<Item = (IpAddr, u8)> + '_ {
        let HostAddress { ipv4, ipv4_prefix, ipv6, ipv6_prefix, .. } = self.address;
        let first = [(IpAddr::V4(ipv4), ipv4_prefix), (IpAddr::V6(ipv6), ipv6_prefix)];
        first.into_iter().chain(self.addresses.iter().map(|own| (own.address, own.prefix)))
    }

    /// The addresses of hosts that were so, and are not so any more.
    pub fn moved<'a>(were: impl Iterator<Item = &'a Self>, are: &[Self]) -> Moved {
        let now: BTreeMap<&str, &Self> = are.iter().map(|spec| (spec.name.as_str(), spec)).collect();
        let mut moved = Moved::default();
        for was in were.filter(|was| !was.is_function) {
            let stays = |now: &&Self| now.address == was.address && now.addresses == was.addresses;
            if !now.get(was.name.as_str()).is_some_and(stays) {
                moved.ips.extend(was.own_addresses().map(|(ip, _)| ip));
                moved.macs.insert(was.address.mac);
            }
        }
        moved
    }

    /// Whether a host that is this one can become one of these in its place: its device is the same, in the namespace of the same host.
    pub fn is_place_of(&self, other: &Self) -> bool {
        let place = |spec: &Self| (spec.device.clone(), spec.within.clone(), spec.is_function);
        place(self) == place(other)
    }
}

/// What the device of a host's link is called.
fn device(number: usize) -> String {
    format!("eth{number}")
}

/// The kernel parameters of a host: what forwards is a router, and one of several interfaces does not ask for neighbours in the name of another one, which the network
/// would take for a forgery; unless the file says otherwise.
fn sysctls(setup: Option<&HostSetup>, has_interfaces: bool) -> Vec<NetSysctl> {
    let mut all = setup.map(|setup| setup.sysctls.clone()).unwrap_or_default();
    let forwards = setup.is_some_and(|setup| setup.forwards);
    let own = [
        ("net/ipv4/ip_forward", "1", forwards),
        ("net/ipv6/conf/all/forwarding", "1", forwards),
        ("net/ipv4/conf/all/arp_announce", "2", has_interfaces),
    ];
    for (name, value, _) in own.into_iter().filter(|(.., is_wanted)| *is_wanted) {
        let is_there = Path::new("/proc/sys").join(name).exists();
        if is_there && !all.iter().any(|own| own.name == name) {
            all.push(NetSysctl { name: name.to_owned(), value: value.to_owned() });
        }
    }
    all
}

/// A host that exists. Dropping it removes its device, and its namespace once no process is left in it.
#[derive(Debug)]
pub struct Host {
    spec: HostSpec,
    /// What a change that failed half way was to make of it.
    half: Option<HostSpec>,
    /// What sysctls of it were before, those that its specification sets.
    before: BTreeMap<String, String>,
    /// Those that it was given; `None`: nobody knows, since that failed half way.
    sysctls: Option<Vec<NetSysctl>>,
    /// The routes that it was given.
    routes: Vec<HostRoute>,
    namespace: Namespace,
    tap: Arc<Tap>,
}

impl Host {
    /// Makes all of `specs`, side by side; all or none. A device in the namespace of another host follows that, which is one of them or one of `existing`. What they have
    /// besides devices and addresses they get by [`Self::complete`].
    pub fn create_all(specs: &[HostSpec], existing: &[Self]) -> Result<Vec<Self>, Error> {
        // Namespaces take a few milliseconds each, mostly waiting for the kernel's grace periods: threads share the wait.
        const AT_ONCE: usize = 32;
        let mut hosts: Vec<Self> = Vec::with_capacity(specs.len());
        for batch in specs.chunks(AT_ONCE) {
            let (within, others): (Vec<_>, Vec<_>) = batch.iter().partition(|spec| spec.within.is_some());
            let made: Vec<_> = thread::scope(|scope| {
                let threads: Vec<_> =
                    others.into_iter().map(|spec| scope.spawn(|| Self::create(spec.clone(), None))).collect();
                threads.into_iter().map(|thread| thread.join().expect("a host's thread does not panic")).collect()
            });
            for host in made {
                hosts.push(host?);
            }
            for spec in within {
                let owner = hosts.iter().chain(existing).find(|host| Some(&host.spec.name) == spec.within.as_ref());
                let namespace = owner.map(Self::namespace);
                let made = thread::scope(|scope| scope.spawn(|| Self::create(spec.clone(), namespace)).join());
                hosts.push(made.expect("a host's thread does not panic")?);
            }
        }
        let place = |name: &str| specs.iter().position(|spec| spec.name == name);
        hosts.sort_by_key(|host| place(&host.spec.name));
        Ok(hosts)
    }

    /// Makes one in the calling thread, which stays in its namespace and is expected to end. It is a new one, unless it shares one.
    fn create(spec: HostSpec, shared: Option<&Namespace>) -> Result<Self, Error> {
        let at = |step| failure(&spec.name, step);
        match shared {
            Some(namespace) => {
                namespace.enter().map_err(|errno| at("enter its network namespace")(errno.into()))?;
            }
            None => nix::sched::unshare(nix::sched::CloneFlags::CLONE_NEWNET)
                .map_err(|errno| at("make a network namespace")(errno.into()))?,
        }
        let namespace = Namespace::current().map_err(at("open its network namespace"))?;
        let tap = Tap::create(&spec.device).map_err(at("make its TAP device"))?;
        silence_ipv6(&spec).map_err(at("set up IPv6"))?;
        configure(&spec, &[])?;
        let (before, sysctls, routes) = (BTreeMap::new(), Some(Vec::new()), Vec::new());
        Ok(Self { spec, half: None, before, sysctls, routes, namespace, tap: Arc::new(tap) })
    }

    /// Gives it its kernel parameters and routes, once it has all of its interfaces. It may be called again at any time: a route goes with the address that its next hop needs.
    pub fn complete(&mut self) -> Result<(), Error> {
        if self.sysctls.as_ref() != Some(&self.spec.sysctls) {
            self.sysctls = None;
            self.before = self.inside(|| set_sysctls(&self.spec, &self.before))?;
            self.sysctls = Some(self.spec.sysctls.clone());
        }
        if !self.spec.routes.is_empty() || !self.routes.is_empty() {
            self.inside(|| set_routes(&self.spec, &self.routes))?;
            self.routes.clone_from(&self.spec.routes);
        }
        Ok(())
    }

    /// Makes its device what `spec` says, and [`Self::complete`] the rest; its processes and connections stay. If this fails, it may be anything between the two, until a
    /// change succeeds.
    pub fn change(&mut self, spec: HostSpec) -> Result<(), Error> {
        let is_half = self.half.is_some();
        let attempted = self.half.replace(spec.clone());
        let old = &self.spec;
        let addresses = |spec: &HostSpec| (spec.address.clone(), spec.addresses.clone(), spec.mtu, spec.served.clone());
        if is_half || addresses(old) != addresses(&spec) {
            let given: Vec<&HostSpec> = [Some(old), attempted.as_ref()].into_iter().flatten().collect();
            self.inside(|| configure(&spec, &given))?;
        }
        self.spec = spec;
        self.half = None;
        Ok(())
    }

    /// Gives it a new device if a program in it has removed the old one; whether that was so.
    pub fn repair(&mut self) -> Result<bool, Error> {
        if !self.tap.is_gone() {
            return Ok(false);
        }
        let spec = &self.spec;
        let at = |step| {
            move |source: io::Error| {
                let (host, reason) = (spec.name.clone(), source.to_string());
                Error::Host { host, step, reason, hint: Some(RESTART_HINT) }
            }
        };
        let tap = self.inside(|| {
            let tap = Tap::create(&spec.device).map_err(at("make it a new TAP device"))?;
            silence_ipv6(spec).map_err(at("set up IPv6"))?;
            configure(spec, &[])?;
            Ok(tap)
        })?;
        self.tap = Arc::new(tap);
        Ok(true)
    }

    /// Has the kernel of its namespace forget neighbours that have one of these addresses: whoever asks for them again is answered with what holds now.
    pub fn forget(&self, moved: &Moved) -> Result<(), Error> {
        let at =
            |reason: rtnetlink::Error| failure(&self.spec.name, "look at its neighbours")(io::Error::other(reason));
        self.inside(|| by_netlink(&self.spec, async |handle| forget(handle, moved).await)?.map_err(at))
    }

    /// Gives its device a carrier, or takes it. Its kernel says so at once, and sends again within milliseconds; that it stops sending can
    /// take it a second, and what it sends meanwhile is lost on the link.
    pub fn set_carrier(&self, up: bool) -> Result<(), Error> {
        self.tap.set_carrier(up).map_err(failure(&self.spec.name, "change the carrier of its device"))
    }

    /// Runs `act` in a thread in its network namespace.
    fn inside<T: Send>(&self, act: impl FnOnce() -> Result<T, Error> + Send) -> Result<T, Error> {
        let enter = || {
            let entered = self.namespace.enter();
            entered.map_err(|errno| failure(&self.spec.name, "enter its network namespace")(errno.into()))?;
            act()
        };
        thread::scope(|scope| scope.spawn(enter).join().expect("a host's thread does not panic"))
    }

    /// What it is.
    pub const fn spec(&self) -> &HostSpec {
        &self.spec
    }

    /// Its network namespace.
    pub const fn namespace(&self) -> &Namespace {
        &self.namespace
    }

    /// Its port of the fabric.
    pub const fn tap(&self) -> &Arc<Tap> {
        &self.tap
    }
}

fn failure(host: &str, step: &'static str) -> impl Fn(io::Error) -> Error {
    let host = host.to_owned();
    move |source| {
        let hint = (source.kind() == io::ErrorKind::ReadOnlyFilesystem).then_some(READ_ONLY_HINT);
        Error::Host { host: host.clone(), step, reason: source.to_string(), hint }
    }
}

/// Makes the namespace's IPv6 quiet: addresses are unique by construction, so none is probed for, and there is no router to ask for. A port of a function has no IPv6.
fn silence_ipv6(spec: &HostSpec) -> io::Result<()> {
    let folder = Path::new("/proc/sys/net/ipv6/conf").join(&spec.device);
    if !folder.exists() {
        tracing::warn!("this kernel has no IPv6: hosts have IPv4 addresses only");
        return Ok(());
    }
    if spec.is_function {
        fs::write(folder.join("disable_ipv6"), "1")?;
    }
    for (key, value) in [("accept_dad", "0"), ("router_solicitations", "0"), ("accept_ra", "0")] {
        fs::write(folder.join(key), value)?;
    }
    Ok(())
}

/// Sets the sysctls of the calling thread's network namespace; those that are not to be set any more get back what they were, which `before` knows. Returns what
/// those were that are set now.
fn set_sysctls(spec: &HostSpec, before: &BTreeMap<String, String>) -> Result<BTreeMap<String, String>, Error> {
    let write = |name: &str, value: &str| {
        let (host, name, value) = (spec.name.clone(), name.to_owned(), value.to_owned());
        fs::write(Path::new("/proc/sys").join(&name), &value).map_err(|source| Error::HostSysctl {
            host,
            name,
            value,
            source,
        })
    };
    let mut were = BTreeMap::new();
    for NetSysctl { name, value } in &spec.sysctls {
        // One that can't be read, as it only has the kernel do something, was nothing.
        let was = before.get(name).cloned().or_else(|| fs::read_to_string(Path::new("/proc/sys").join(name)).ok());
        write(name, value)?;
        were.extend(was.map(|was| (name.clone(), was)));
    }
    for (name, was) in before.iter().filter(|(name, _)| !were.contains_key(*name)) {
        write(name, was.trim_end())?;
    }
    Ok(were)
}

/// Gives the calling thread's namespace the addresses of `spec`, in place of `old` ones; a new device has none.
fn configure(spec: &HostSpec, old: &[&HostSpec]) -> Result<(), Error> {
    let result = by_netlink(spec, async |handle| set_up(handle, spec, old).await)?;
    result.map_err(|(step, reason)| Error::Host {
        host: spec.name.clone(),
        step,
        reason: reason.to_string(),
        hint: (!old.is_empty()).then_some(RESTART_HINT),
    })?;
    if spec.is_function {
        return Ok(());
    }
    let at = failure(&spec.name, "look for its IPv6 addresses");
    await_ipv6(spec, old.is_empty()).map_err(at)
}

/// Has the calling thread ask the kernel of its network namespace for something.
fn by_netlink<T>(spec: &HostSpec, ask: impl AsyncFnOnce(&Handle) -> T) -> Result<T, Error> {
    let at = |step: &'static str| failure(&spec.name, step);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build().map_err(at("start netlink"))?;
    runtime.block_on(async {
        let (connection, handle, _) = rtnetlink::new_connection().map_err(at("open netlink"))?;
        let connection = tokio::spawn(connection);
        let result = ask(&handle).await;
        connection.abort();
        Ok(result)
    })
}

/// Gives the calling thread's namespace the routes of `spec`, and takes those of `old` that it has no more.
fn set_routes(spec: &HostSpec, old: &[HostRoute]) -> Result<(), Error> {
    let result = by_netlink(spec, async |handle| {
        for route in old.iter().filter(|route| !spec.routes.contains(route)) {
            if let Ok(message) = message_of(route) {
                // It may have gone with its device's address, or by the hand of a program in the host.
                let _ = handle.route().del(message).execute().await;
            }
        }
        for route in &spec.routes {
            let message = message_of(route).map_err(|reason| (route, reason))?;
            handle.route().add(message).replace().execute().await.map_err(|reason| (route, reason.to_string()))?;
        }
        Ok::<(), (&HostRoute, String)>(())
    })?;
    result.map_err(|(route, reason): (&HostRoute, String)| Error::HostRoute {
        host: spec.name.clone(),
        route: route.to_string(),
        reason,
    })
}

/// A route as the kernel takes it.
fn message_of(route: &HostRoute) -> Result<RouteMessage, String> {
    let HostRoute { destination: InterfaceAddress { address, prefix }, via, device, metric } = route;
    let mut builder = RouteMessageBuilder::<IpAddr>::new()
        .destination_prefix(*address, *prefix)
        .map_err(|error| error.to_string())?
        .protocol(RouteProtocol::Static);
    match via {
        Some(via) => builder = builder.gateway(*via).map_err(|error| error.to_string())?,
        // What has no next hop is on the link, as with `ip route`.
        None => builder = builder.scope(RouteScope::Link),
    }
    if let Some(device) = device {
        builder = builder.output_interface(device_index(device)?);
    }
    if let Some(metric) = metric {
        builder = builder.priority(*metric);
    }
    Ok(builder.build())
}

/// Waits until the kernel takes packets for IPv6 addresses of the calling thread's device: all that a new device has, or the one that it was given.
///
/// A kernel accepts an address at once, but leaves the rest to a thread of its own, which may come to it later than the first packet. Until then, what comes
/// for the address is dropped, and nobody hears of it.
fn await_ipv6(spec: &HostSpec, is_new: bool) -> io::Result<()> {
    // As the kernel writes it.
    let given = format!("{:032x}", spec.address.ipv6.to_bits());
    let asked = Instant::now();
    while has_ipv6(&spec.device) {
        let addresses = fs::read_to_string("/proc/thread-self/net/if_inet6")?;
        let routes = fs::read_to_string("/proc/thread-self/net/ipv6_route")?;
        let Some(unused) = unused_ipv6(&spec.device, &addresses, &routes).find(|address| is_new || *address == given)
        else {
            break;
        };
        if asked.elapsed() > IPV6_PATIENCE {
            tracing::warn!("the kernel of {} does not take packets for its IPv6 address {unused} yet", spec.name);
            break;
        }
        thread::sleep(Duration::from_millis(1));
    }
    Ok(())
}

/// The IPv6 addresses of the device that have no local route yet, by which the kernel takes packets for them. `addresses` and `routes` are the kernel's lists:
/// an address, its index, prefix length, scope, flags, device; a destination with its prefix length, a source with its own, next hop, metric, two counts, flags, device.
fn unused_ipv6<'a>(device: &str, addresses: &'a str, routes: &str) -> impl Iterator<Item = &'a str> {
    let words = |line: &'a str| line.split_whitespace().collect::<Vec<_>>();
    let has_route = |address: &str| {
        routes.lines().any(|line| {
            let words: Vec<&str> = line.split_whitespace().collect();
            let flags = words.get(8).and_then(|flags| u32::from_str_radix(flags, 16).ok()).unwrap_or(0);
            words.starts_with(&[address, "80"]) && flags & LOCAL_ROUTE != 0
        })
    };
    let own = addresses.lines().map(words).filter(move |words| words.get(5) == Some(&device));
    own.map(|words| words[0]).filter(move |address| !has_route(address))
}

async fn set_up(handle: &Handle, spec: &HostSpec, old: &[&HostSpec]) -> Result<(), (&'static str, rtnetlink::Error)> {
    let at = |step| move |error| (step, error);
    let address = &spec.address;
    let index =
        device_index(&spec.device).map_err(|errno| ("find its device", rtnetlink::Error::NamespaceError(errno)))?;
    let is_function = spec.is_function;
    for old in old.iter().filter(|_| !is_function) {
        let own = old.own_addresses().map(|(ip, prefix)| (index, ip, prefix));
        let served = old.served.iter().map(|ip| (LOOPBACK, *ip, whole(*ip)));
        for (index, ip, prefix) in own.chain(served) {
            // An address that is gone already, by the hand of a program in the host, is no failure.
            let message = handle.address().add(index, ip, prefix).message_mut().clone();
            let _ = handle.address().del(message).execute().await;
        }
    }
    if old.is_empty() {
        handle.link().set(LinkUnspec::new_with_index(LOOPBACK).up().build()).execute().await.map_err(at("raise lo"))?;
    }
    let device = LinkUnspec::new_with_index(index)
        .address(address.mac.to_vec())
        .mtu(spec.mtu)
        .txqueuelen(QUEUE_PACKETS)
        .up()
        .build();
    handle.link().set(device).execute().await.map_err(at("raise its device"))?;
    // The kernel gives a device its link-local address when it is raised, and no other one with another MAC address.
    for old in old.iter().filter(|old| old.address.mac != address.mac) {
        let [mut was, is] =
            [old.address.mac, address.mac].map(|mac| handle.address().add(index, link_local(mac).into(), 64));
        if handle.address().del(was.message_mut().clone()).execute().await.is_ok() {
            // It may be there, by the hand of a program in the host.
            without_probing(is.replace()).execute().await.map_err(at("give it its link-local address"))?;
        }
    }
    if is_function {
        return Ok(());
    }
    let own = spec.own_addresses().map(|(ip, prefix)| (index, ip, prefix));
    // Nobody asks who has those of services: the switch answers. They need no device that hears it.
    let served = spec.served.iter().map(|ip| (LOOPBACK, *ip, whole(*ip)));
    for (index, ip, prefix) in own.chain(served) {
        if ip.is_ipv6() && !has_ipv6(&spec.device) {
            continue;
        }
        without_probing(handle.address().add(index, ip, prefix))
            .execute()
            .await
            .map_err(at("give it its addresses"))?;
    }
    if spec.within.is_some() {
        return Ok(());
    }
    // What is for everybody goes out by the first device, as by a default route; what is for nobody here has no route.
    for (group, bits) in [(MULTICAST, 4), (Ipv4Addr::BROADCAST, 32)] {
        let route = RouteMessageBuilder::<Ipv4Addr>::new()
            .destination_prefix(group, bits)
            .output_interface(index)
            .scope(RouteScope::Link)
            .build();
        handle.route().add(route).replace().execute().await.map_err(at("give it routes for groups"))?;
    }
    Ok(())
}

/// Addresses are unique by construction.
fn without_probing(mut request: AddressAddRequest) -> AddressAddRequest {
    request.message_mut().attributes.push(AddressAttribute::Flags(AddressFlags::Nodad | AddressFlags::Permanent));
    request
}

/// The link-local address of a device with this MAC address (RFC 4291, appendix A).
fn link_local(mac: [u8; 6]) -> Ipv6Addr {
    let mut address = [0xfe, 0x80, 0, 0, 0, 0, 0, 0, mac[0] ^ 2, mac[1], mac[2], 0xff, 0xfe, 0, 0, 0];
    address[13..].copy_from_slice(&mac[3..]);
    address.into()
}

/// Whether the kernel has IPv6, and no program in the host has turned it off for the device.
fn has_ipv6(device: &str) -> bool {
    let path = Path::new("/proc/sys/net/ipv6/conf").join(device).join("disable_ipv6");
    fs::read_to_string(path).is_ok_and(|text| text.trim() == "0")
}

/// The length of a prefix that is one address.
const fn whole(ip: IpAddr) -> u8 {
    match ip {
        IpAddr::V4(_) => 32,
        IpAddr::V6(_) => 128,
    }
}

fn device_index(device: &str) -> Result<u32, String> {
    nix::net::if_::if_nametoindex(device).map_err(|errno| errno.to_string())
}

/// The addresses of services that a host answers from.
fn served(fabric: &Fabric, host: NodeId) -> Vec<IpAddr> {
    let is_its =
        |service: &&Service| service.forwarding.keeps_address() && service.servers.iter().any(|it| it.host == host);
    let addresses = fabric.services.iter().filter(is_its).flat_map(|service| &service.addresses);
    let mut served: Vec<IpAddr> = addresses.map(|address| socket_address(address).ip()).collect();
    served.sort_unstable();
    served.dedup();
    served
}

/// The addresses that name a host or a service, for `/etc/hosts`.
pub fn hosts_file(fabric: &Fabric) -> String {
    use std::fmt::Write as _;
    let mut text = format!("127.0.0.1 localhost\n{} localhost ip6-localhost\n", Ipv6Addr::LOCALHOST);
    for (id, node) in fabric.topology.addressed_hosts() {
        let Some(address) = fabric.topology.address(id) else { continue };
        let (v4, v6): (Ipv4Addr, Ipv6Addr) = (address.ipv4, address.ipv6);
        // Writing to a string cannot fail.
        let _ = writeln!(text, "{v4} {}", node.name);
        // Nobody is to wait for an address that nobody answers by.
        if !vm::lacks_ipv6(fabric, &node.name) {
            let _ = writeln!(text, "{v6} {}", node.name);
        }
    }
    for service in &fabric.services {
        let mut addresses: Vec<IpAddr> = service.addresses.iter().map(|at| socket_address(at).ip()).collect();
        addresses.dedup();
        for address in addresses {
            let _ = writeln!(text, "{address} {}", service.name);
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    const ADDRESSES: &str = "\
00000000000000000000000000000001 01 80 10 80       lo
fe80000000000000000000fffe000001 02 40 20 80     eth0
fd000000000000000000000000000001 02 40 00 82     eth0
";

    /// A route of the kernel's list.
    fn route(to: &str, bits: &str, flags: &str) -> String {
        format!("{to} {bits} {ZERO} 00 {ZERO} 00000000 00000002 00000000 {flags}     eth0\n", ZERO = "0".repeat(32))
    }

    #[test]
    fn an_address_is_used_once_there_is_a_local_route_to_it() {
        let [link_local, own] = ["fe80000000000000000000fffe000001", "fd000000000000000000000000000001"];
        let unused = |routes: &[String]| -> Vec<String> {
            unused_ipv6("eth0", ADDRESSES, &routes.concat()).map(str::to_owned).collect()
        };
        let network = route("fd000000000000000000000000000000", "40", "00000001");
        assert_eq!(unused(&[network.clone(), route(link_local, "80", "80200001")]), [own]);
        // A route by the device, and one to a network.
        assert_eq!(unused(&[route(own, "80", "00000001"), route(link_local, "40", "80200001")]), [link_local, own]);
        assert!(unused(&[network, route(link_local, "80", "80200001"), route(own, "80", "80200001")]).is_empty());
    }

    /// When nobody waited for it, the kernel was late in about half of these hosts.
    #[test]
    fn a_host_takes_packets_for_its_addresses_as_soon_as_it_has_them() {
        if !nix::unistd::geteuid().is_root() {
            eprintln!("SKIPPED: only root makes a network namespace in a thread");
            return;
        }
        let spec = |number| HostSpec {
            name: "h1".to_owned(),
            mtu: 1_500,
            sysctls: Vec::new(),
            routes: Vec::new(),
            addresses: Vec::new(),
            device: "eth0".to_owned(),
            within: None,
            is_function: false,
            served: Vec::new(),
            address: HostAddress {
                mac: [2, 0, 0, 0, 0, number],
                ipv4: Ipv4Addr::new(10, 0, 0, number),
                ipv4_prefix: 8,
                ipv6: Ipv6Addr::from_bits(0xfd << 120 | u128::from(number)),
                ipv6_prefix: 64,
                pod: None,
            },
        };
        let check = |number: u8| {
            let read = |list: &str| fs::read_to_string(format!("/proc/thread-self/net/{list}")).expect("there is IPv6");
            let (routes, addresses) = (read("ipv6_route"), read("if_inet6"));
            let unused: Vec<&str> = unused_ipv6("eth0", &addresses, &routes).collect();
            let has_it = addresses.contains(&format!("fd{number:030x}"));
            assert!(has_it && unused.is_empty(), "{unused:?}\n{addresses}{routes}");
        };
        // In a thread, which ends in the host's namespace.
        let make_and_change = || {
            let host = Host::create(spec(1), None).expect("root makes hosts");
            check(1);
            configure(&spec(2), &[&host.spec]).expect("its addresses are changed");
            check(2);
        };
        for _ in 0..40 {
            thread::scope(|scope| scope.spawn(make_and_change).join().expect("it takes packets"));
        }
    }
}
