//! The hub: a network namespace in which each host has a device. What a host's program of the kernel path takes goes there, and from there to another host.
//!
//! A device of a host is one end of a veth pair, `heddle-eth0`, whose other end is in the hub. Nobody has an address there, and neither IPv4 nor IPv6 says anything by it.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::fmt::Display;
use std::os::fd::{AsFd as _, AsRawFd as _, BorrowedFd, OwnedFd};
use std::path::Path;
use std::{fs, io, thread};

use nix::net::if_::if_nametoindex;
use nix::sched::{CloneFlags, unshare};
use rtnetlink::packet_route::link::{InfoData, InfoVeth, LinkMessage};
use rtnetlink::{Handle, LinkUnspec, LinkVeth};

use super::programs;
use crate::bpf::{AttachPoint, Instruction, ProgramKind, link, load};
use crate::host::Host;
use crate::namespace::Namespace;

/// The longest packet of a veth pair. What hosts send is cut by themselves.
const MTU: u32 = 65_535;

/// Where the table is that programs look up, and where its hashes start.
pub type Table<'a> = (BorrowedFd<'a>, u64);

/// See above.
#[derive(Debug)]
pub struct Hub {
    namespace: Namespace,
    /// By host.
    devices: BTreeMap<String, Device>,
    /// How many devices there have been: each has another name.
    made: u32,
    /// What carries out flows.
    flows: OwnedFd,
    /// By the number of the device that they lead to: [`programs::arrivals`].
    arrivals: BTreeMap<u32, OwnedFd>,
}

/// A host's device in the hub.
#[derive(Debug)]
struct Device {
    /// Its number there.
    index: u32,
    /// The namespace of its host, and the host's own device.
    host: (u64, u32),
    /// The programs leave their devices when these are closed.
    _links: [OwnedFd; 3],
}

/// What failed, and why.
fn failed(what: impl Display) -> impl Fn(io::Error) -> String {
    move |error| format!("{what}: {error}")
}

impl Hub {
    /// An empty one, for this table.
    ///
    /// # Errors
    /// What the kernel does not do, and why.
    pub fn new((table, seed): Table<'_>) -> Result<Self, String> {
        let flows = classifier(*b"heddle_flows\0\0\0\0", &programs::flows(table, seed))?;
        let make = || {
            unshare(CloneFlags::CLONE_NEWNET)?;
            for all in ["all", "default"] {
                silence_ipv6(all)?;
            }
            Namespace::current()
        };
        let namespace = thread::scope(|scope| scope.spawn(make).join().expect("the hub's thread does not panic"));
        let namespace = namespace.map_err(failed("make a network namespace"))?;
        Ok(Self { namespace, devices: BTreeMap::new(), made: 0, flows, arrivals: BTreeMap::new() })
    }

    /// The number of a host's device.
    pub fn device(&self, host: &str) -> Option<u32> {
        self.devices.get(host).map(|device| device.index)
    }

    /// Gives all of these hosts a device, and takes it from all others.
    ///
    /// # Errors
    /// What the kernel does not do, and why.
    pub fn connect(&mut self, hosts: &[&Host], table: Table<'_>) -> Result<(), String> {
        let mut present = BTreeMap::new();
        for host in hosts {
            let name = &host.spec().device;
            let own = inside(host.namespace(), || {
                // A program in the host may have removed it.
                let is_there = if_nametoindex(of_host(host).as_str()).is_ok();
                Ok((if_nametoindex(name.as_str())?, is_there))
            });
            let (index, is_there) = own.map_err(failed("find a host's device"))?;
            if !is_there && let Some(device) = self.devices.get_mut(&host.spec().name) {
                device.host = (0, 0);
            }
            present.insert(&host.spec().name, (host.namespace().inode(), index));
        }
        let mut gone = Vec::new();
        self.devices.retain(|name, device| {
            let stays = present.get(name) == Some(&device.host);
            if !stays {
                gone.push(device.index);
            }
            stays
        });
        self.delete(&gone);
        for host in hosts {
            let name = &host.spec().name;
            if !self.devices.contains_key(name) {
                let device = self.add(host, present[name], table)?;
                self.devices.insert(name.clone(), device);
            }
        }
        Ok(())
    }

    /// Takes their devices from all hosts.
    pub fn clear(&mut self) {
        let all: Vec<u32> = std::mem::take(&mut self.devices).into_values().map(|device| device.index).collect();
        self.delete(&all);
    }

    /// Deletes devices. Those whose hosts are gone are gone already.
    fn delete(&self, indices: &[u32]) {
        if indices.is_empty() {
            return;
        }
        let deleted = inside(&self.namespace, || {
            by_netlink(async |handle| {
                for index in indices {
                    let _ = handle.link().del(*index).execute().await;
                }
                Ok(())
            })
        });
        if let Err(error) = deleted {
            tracing::warn!("hosts keep devices of the kernel path: {error}");
        }
    }

    fn add(&mut self, host: &Host, own: (u64, u32), (table, seed): Table<'_>) -> Result<Device, String> {
        let (name, in_hub) = (of_host(host), format!("n{}", self.made));
        self.made += 1;
        let at = |what: &str| failed(format!("{what} of host {}", host.spec().name));
        let peer = LinkUnspec::new_with_name(&name).mtu(MTU).setns_by_fd(host.namespace().as_fd().as_raw_fd()).build();
        let pair = LinkVeth::new(&in_hub, &name).set_info_data(InfoData::Veth(InfoVeth::Peer(peer))).mtu(MTU).up();
        let pair: LinkMessage = pair.build();
        let index = inside(&self.namespace, || {
            by_netlink(async |handle| handle.link().add(pair).execute().await.map_err(io::Error::other))?;
            Ok(if_nametoindex(in_hub.as_str())?)
        });
        let index = index.map_err(at("make the device"))?;
        let device = inside(host.namespace(), || {
            silence_ipv6(&name)?;
            let up = LinkUnspec::new_with_name(&name).up().build();
            by_netlink(async |handle| handle.link().set(up).execute().await.map_err(io::Error::other))?;
            Ok(if_nametoindex(name.as_str())?)
        });
        let device = device.map_err(at("raise the device"))?;
        let departures = programs::departures(table, seed, (device, index));
        let departures = classifier(*b"heddle_depart\0\0\0", &departures)?;
        if let Entry::Vacant(entry) = self.arrivals.entry(own.1) {
            entry.insert(classifier(*b"heddle_arrive\0\0\0", &programs::arrivals(own.1))?);
        }
        let attach = |program: &OwnedFd, device, point| {
            link(program.as_fd(), device, point, 0).map_err(|error| match error.raw_os_error() {
                Some(libc::EINVAL) => io::Error::new(error.kind(), "it has no tcx; Linux 6.6 and later ones have"),
                _ => error,
            })
        };
        let in_host = inside(host.namespace(), || {
            let arrivals = attach(&self.arrivals[&own.1], device, AttachPoint::Ingress)?;
            Ok((arrivals, attach(&departures, own.1, AttachPoint::Egress)?))
        });
        let in_hub = inside(&self.namespace, || attach(&self.flows, index, AttachPoint::Ingress));
        let (arrivals, departures) = in_host.map_err(at("put programs on devices"))?;
        let in_hub = in_hub.map_err(at("put a program on the device"))?;
        Ok(Device { index, host: own, _links: [arrivals, departures, in_hub] })
    }
}

/// The name of a host's end.
fn of_host(host: &Host) -> String {
    format!("heddle-{}", host.spec().device)
}

fn classifier(name: [u8; 16], program: &[Instruction]) -> Result<OwnedFd, String> {
    load(ProgramKind::Classifier, None, name, program).map_err(|error| match error.raw_os_error() {
        Some(libc::EPERM) => "it needs CAP_BPF and CAP_NET_ADMIN".to_owned(),
        _ => format!("the kernel does not take a program: {error}"),
    })
}

/// Has no address made for a device.
fn silence_ipv6(device: &str) -> io::Result<()> {
    let path = Path::new("/proc/sys/net/ipv6/conf").join(device).join("disable_ipv6");
    if path.exists() { fs::write(path, "1") } else { Ok(()) }
}

/// Runs `act` in a thread in a network namespace.
fn inside<T: Send>(namespace: &Namespace, act: impl FnOnce() -> io::Result<T> + Send) -> io::Result<T> {
    let enter = || {
        namespace.enter()?;
        act()
    };
    thread::scope(|scope| scope.spawn(enter).join().expect("a thread of the hub does not panic"))
}

/// Has the calling thread ask the kernel of its network namespace for something.
fn by_netlink(ask: impl AsyncFnOnce(&Handle) -> io::Result<()>) -> io::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build()?;
    runtime.block_on(async {
        let (connection, handle, _) = rtnetlink::new_connection()?;
        let connection = tokio::spawn(connection);
        let result = ask(&handle).await;
        connection.abort();
        result
    })
}
