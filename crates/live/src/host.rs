//! A host: a network namespace with one TAP device that leads into the fabric.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::path::Path;
use std::sync::Arc;
use std::{fs, io, thread};

use fabric::{Fabric, HostAddress, Node, NodeKind};
use rtnetlink::packet_route::address::{AddressAttribute, AddressFlags};
use rtnetlink::{Handle, LinkUnspec};

use crate::Error;
use crate::namespace::Namespace;
use crate::tap::{DEVICE, Offloads, Tap};

/// Index of the TAP device: a fresh namespace has `lo` as 1, and may have the kernel's fall-back tunnels between.
const LOOPBACK: u32 = 1;

/// Packets that wait in a TAP until a worker reads them: as many as a network card's ring usually has.
const QUEUE_PACKETS: u32 = 1_000;

/// What a host is to be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostSpec {
    /// Its name, also its hostname.
    pub name: String,
    /// Its addresses.
    pub address: HostAddress,
    /// Its maximum transmission unit, bytes without the Ethernet header.
    pub mtu: u32,
    /// What its kernel may leave undone.
    pub offloads: Offloads,
}

impl HostSpec {
    /// The hosts of `fabric`, in its order.
    pub fn of(fabric: &Fabric) -> impl Iterator<Item = Self> + '_ {
        let offloads = if fabric.is_shaped() { Offloads::Checksum } else { Offloads::Segmentation };
        fabric.nodes.iter().filter_map(move |Node { name, kind, .. }| match kind {
            NodeKind::Host(address) => {
                Some(Self { name: name.clone(), address: address.clone(), mtu: fabric.mtu, offloads })
            }
            NodeKind::Switch { .. } => None,
        })
    }
}

/// A host that exists. Dropping it removes its device, and its namespace once no process is left in it.
#[derive(Debug)]
pub struct Host {
    spec: HostSpec,
    namespace: Namespace,
    tap: Arc<Tap>,
}

impl Host {
    /// Makes all of `specs`, side by side; all or none.
    pub fn create_all(specs: &[HostSpec]) -> Result<Vec<Self>, Error> {
        // Namespaces take a few milliseconds each, mostly waiting for the kernel's grace periods: threads share the wait.
        const AT_ONCE: usize = 32;
        let mut hosts = Vec::with_capacity(specs.len());
        for batch in specs.chunks(AT_ONCE) {
            let made: Vec<_> = thread::scope(|scope| {
                let threads: Vec<_> = batch.iter().map(|spec| scope.spawn(|| Self::create(spec.clone()))).collect();
                threads.into_iter().map(|thread| thread.join().expect("a host's thread does not panic")).collect()
            });
            for host in made {
                hosts.push(host?);
            }
        }
        Ok(hosts)
    }

    /// Makes one in the calling thread, which stays in the new namespace and is expected to end.
    fn create(spec: HostSpec) -> Result<Self, Error> {
        let at = |step| failure(&spec.name, step);
        nix::sched::unshare(nix::sched::CloneFlags::CLONE_NEWNET)
            .map_err(|errno| at("make a network namespace")(errno.into()))?;
        let namespace = Namespace::current().map_err(at("open its network namespace"))?;
        let tap = Tap::create().map_err(at("make its TAP device"))?;
        tap.offer(spec.offloads).map_err(at("set its device's offloads"))?;
        silence_ipv6().map_err(at("set up IPv6"))?;
        configure(&spec, None)?;
        Ok(Self { spec, namespace, tap: Arc::new(tap) })
    }

    /// Makes it what `spec` says; its processes and connections stay.
    pub fn change(&mut self, spec: HostSpec) -> Result<(), Error> {
        let old = &self.spec;
        let at = |step| failure(&old.name, step);
        if old.offloads != spec.offloads {
            self.tap.offer(spec.offloads).map_err(at("set its device's offloads"))?;
        }
        if (&old.address, old.mtu) != (&spec.address, spec.mtu) {
            let inside = || {
                self.namespace.enter().map_err(|errno| at("enter its network namespace")(errno.into()))?;
                configure(&spec, Some(&old.address))
            };
            thread::scope(|scope| scope.spawn(inside).join().expect("a host's thread does not panic"))?;
        }
        self.spec = spec;
        Ok(())
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
    move |source| Error::Host { host: host.clone(), step, reason: source.to_string() }
}

/// Makes the namespace's IPv6 quiet: addresses are unique by construction, so none is probed for, and there is no router to ask for.
fn silence_ipv6() -> io::Result<()> {
    let folder = Path::new("/proc/sys/net/ipv6/conf").join(DEVICE);
    if !folder.exists() {
        tracing::warn!("this kernel has no IPv6: hosts have IPv4 addresses only");
        return Ok(());
    }
    for (key, value) in [("accept_dad", "0"), ("router_solicitations", "0"), ("accept_ra", "0")] {
        fs::write(folder.join(key), value)?;
    }
    Ok(())
}

/// Gives the calling thread's namespace the addresses of `spec`, in place of `old` ones.
fn configure(spec: &HostSpec, old: Option<&HostAddress>) -> Result<(), Error> {
    let at = |step: &'static str| failure(&spec.name, step);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build().map_err(at("start netlink"))?;
    runtime.block_on(async {
        let (connection, handle, _) = rtnetlink::new_connection().map_err(at("open netlink"))?;
        let connection = tokio::spawn(connection);
        let result = set_up(&handle, spec, old).await;
        connection.abort();
        result.map_err(|(step, reason)| Error::Host { host: spec.name.clone(), step, reason: reason.to_string() })
    })
}

async fn set_up(
    handle: &Handle,
    spec: &HostSpec,
    old: Option<&HostAddress>,
) -> Result<(), (&'static str, rtnetlink::Error)> {
    let at = |step| move |error| (step, error);
    let address = &spec.address;
    let index = device_index().map_err(|errno| ("find its device", rtnetlink::Error::NamespaceError(errno)))?;
    if let Some(old) = old {
        for ip in [IpAddr::V4(old.ipv4), IpAddr::V6(old.ipv6)] {
            // An address that is gone already, by the hand of a program in the host, is no failure.
            let message = handle.address().add(index, ip, prefix(old, ip)).message_mut().clone();
            let _ = handle.address().del(message).execute().await;
        }
    } else {
        handle.link().set(LinkUnspec::new_with_index(LOOPBACK).up().build()).execute().await.map_err(at("raise lo"))?;
    }
    let device = LinkUnspec::new_with_index(index)
        .address(address.mac.to_vec())
        .mtu(spec.mtu)
        .txqueuelen(QUEUE_PACKETS)
        .up()
        .build();
    handle.link().set(device).execute().await.map_err(at("raise its device"))?;
    for ip in [IpAddr::V4(address.ipv4), IpAddr::V6(address.ipv6)] {
        if ip.is_ipv6() && !Path::new("/proc/sys/net/ipv6").exists() {
            continue;
        }
        let mut request = handle.address().add(index, ip, prefix(address, ip));
        request.message_mut().attributes.push(AddressAttribute::Flags(AddressFlags::Nodad | AddressFlags::Permanent));
        request.execute().await.map_err(at("give it its addresses"))?;
    }
    Ok(())
}

const fn prefix(address: &HostAddress, ip: IpAddr) -> u8 {
    match ip {
        IpAddr::V4(_) => address.ipv4_prefix,
        IpAddr::V6(_) => address.ipv6_prefix,
    }
}

fn device_index() -> Result<u32, String> {
    nix::net::if_::if_nametoindex(DEVICE).map_err(|errno| errno.to_string())
}

/// The addresses that name a host, for `/etc/hosts`.
pub fn hosts_file(fabric: &Fabric) -> String {
    use std::fmt::Write as _;
    let mut text = format!("127.0.0.1 localhost\n{} localhost ip6-localhost\n", Ipv6Addr::LOCALHOST);
    for spec in HostSpec::of(fabric) {
        let (v4, v6): (Ipv4Addr, Ipv6Addr) = (spec.address.ipv4, spec.address.ipv6);
        // Writing to a string cannot fail.
        let _ = write!(text, "{v4} {name}\n{v6} {name}\n", name = spec.name);
    }
    text
}
