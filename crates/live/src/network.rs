//! A live network: its hosts and its data plane, and how a new file changes them.

mod captures;
pub mod countries;
mod devices;
mod flows;
mod hosts;
mod images;
mod macs;
mod ports;
mod rstp;
mod services;
mod setups;
mod views;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::{FileExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use fabric::{ChangedLink, Fabric, LinkChange, Overrides, PortChange, Source};
use machine::Rebase as _;
use topology::{LinkId, NodeId, Routes, Side};
use vswitch::Pipelines;

use crate::checks::Checks;
use crate::clock::Clock;
use crate::control::{Applied, Counters, LinksSet, Status};
use crate::convergence::UnconvergedBond;
use crate::daemon::Options;
use crate::dataplane::{DataPlane, Plan, default_workers};
use crate::device::{Attached, Device};
use crate::host::{Host, HostSpec, hosts_file};
use crate::kernel_path::KernelPath;
use crate::log_quota::LogQuota;
use crate::namespace::Namespace;
use crate::programs::Programs;
use crate::secret::seeds;
use crate::uplink::Outside;
use crate::{Error, process};
use captures::Captures;
pub use countries::with_countries;
use devices::has_relative_files;
use images::Roots;
use setups::LaidOut;
pub use views::difference;
use views::is_same;

/// Files that the process needs besides its hosts' ones.
const FILES_SPARE: u64 = 256;

/// A host's descriptors: its namespace and its TAP.
const FILES_PER_HOST: u64 = 2;

/// A link, whatever number it has: the names of its ends, and which of the parallel ones it is.
type LinkKey = (String, String, u32);

/// A host that is not made: its name, and its devices, one for each of its links.
type ExternalHost = (String, Vec<Arc<Device>>);

/// All that one daemon holds.
#[derive(Debug)]
pub struct Network {
    instance: String,
    ephemeral: bool,
    pipelines: Pipelines,
    mark: String,
    hosts_path: PathBuf,
    hosts_max: u32,
    clock: Clock,
    /// The file applied last, and what was changed in it.
    source: Source,
    /// The folder that files which it names are relative to.
    folder: PathBuf,
    overrides: Overrides,
    /// Links that were changed since.
    changed_links: Vec<ChangedLink>,
    /// Ports that were added to switches or taken away since.
    changed_ports: Vec<PortChange>,
    /// Switches that were given tables of flows which the file does not name.
    with_tables: BTreeSet<String>,
    /// Switches whose flows somebody has changed since the file was applied.
    changed_flows: BTreeSet<String>,
    /// The hosts, in the fabric's order.
    hosts: Vec<Host>,
    /// Those that are not made, in the fabric's order.
    external: Vec<ExternalHost>,
    /// What may be written into the log about the carriers of their devices.
    carrier_log: LogQuota,
    /// Links that somebody has pulled, while they are in the file.
    pulled: BTreeSet<LinkKey>,
    /// Where the machine's devices are.
    outside: Namespace,
    /// What starts programs there; there is none where there is nothing to start.
    uplinks: Option<Outside>,
    plane: Option<DataPlane>,
    /// Whether a host has a device that the data plane does not know yet.
    unplugged: bool,
    captures: Captures,
    /// What carries services' connections in the kernel.
    kernel_path: KernelPath,
    /// Health checks and agents of services.
    checks: Checks,
    /// The programs of its hosts, and the files that those see.
    programs: Programs,
    /// Those that the last change has started anew, by host and program.
    restarted: Vec<(String, String)>,
    laid_out: LaidOut,
    /// The roots of hosts and functions that are images, and the containers of functions.
    roots: Roots,
}

impl Network {
    /// An empty network. `outside` has the machine's devices; `hosts_path` is what its hosts will see as `/etc/hosts`; `files_max` how many files the process may open.
    pub fn new(
        options: &Options,
        (outside, uplinks): (Namespace, Option<Outside>),
        hosts_path: PathBuf,
        mark: String,
        files_max: u64,
    ) -> Self {
        Self {
            instance: options.instance.clone(),
            ephemeral: options.ephemeral,
            pipelines: options.pipelines.clone(),
            outside,
            uplinks,
            external: Vec::new(),
            carrier_log: LogQuota::default(),
            pulled: BTreeSet::new(),
            mark,
            hosts_path,
            hosts_max: (files_max.saturating_sub(FILES_SPARE) / FILES_PER_HOST).min(u64::from(u16::MAX)) as u32,
            clock: Clock::start(options.clock_age),
            source: Source { name: String::new(), text: String::new() },
            folder: PathBuf::new(),
            overrides: Overrides::default(),
            changed_links: Vec::new(),
            changed_ports: Vec::new(),
            with_tables: BTreeSet::new(),
            changed_flows: BTreeSet::new(),
            hosts: Vec::new(),
            plane: None,
            unplugged: false,
            captures: Captures::default(),
            kernel_path: KernelPath::default(),
            checks: Checks::default(),
            programs: Programs::default(),
            restarted: Vec::new(),
            laid_out: LaidOut::default(),
            roots: Roots::default(),
        }
    }

    /// Makes it what the file says, whose folder is `folder`. If it cannot be done, nothing changes.
    pub fn apply(&mut self, source: Source, folder: PathBuf, overrides: &Overrides) -> Result<Applied, Error> {
        let fabric = definition((&source, overrides), &[], &[], &BTreeSet::new()).map_err(|error| in_file(&error));
        let fabric = with_countries(fabric?, &folder)?;
        self.check(&fabric)?;
        self.check_guests(&fabric, &folder)?;
        self.check_uplinks(&fabric)?;
        self.unplugged |= self.roots.prepare(&fabric, &folder)?;
        fabric.services.iter().try_for_each(|service| Checks::refuse(service, &folder))?;
        self.restarted.clear();
        let mut applied = self.go_over_to(fabric, &folder)?;
        let restarted = std::mem::take(&mut self.restarted);
        applied.restarted = restarted.into_iter().map(|(host, program)| format!("{program} of {host}")).collect();
        // The same file may name certificates that have changed.
        self.check_servers(&folder);
        (self.source, self.folder) = (source, folder);
        self.overrides = overrides.clone();
        self.changed_links.clear();
        self.changed_ports.clear();
        self.with_tables.clear();
        self.restore_flows(&mut applied)?;
        self.reconnect();
        Ok(applied)
    }

    /// Changes what the links between two nodes do, from the first to the second: of the one with this number, or of all. How many do something else then.
    pub fn change_link(&mut self, a: &str, b: &str, number: Option<u32>, change: &LinkChange) -> Result<usize, Error> {
        let Some(before) = self.fabric() else { return Err(Error::NothingRuns) };
        let links = fabric::find_links(&before.topology, a, b, number)?;
        let mut all = self.changed_links.clone();
        for &link in &links {
            let does = &before.topology.links[link];
            let does = (does.spec, does.back);
            let of_command = |error: fabric::Error| Error::File(describe(&error));
            let is_turned = !fabric::begins_at(&before.topology, link, a);
            let seen = if is_turned { fabric::turn(&does) } else { does };
            change.of(&seen, before.topology.has_host(link)).map_err(of_command)?;
            let change = if is_turned { change.turned(&does).map_err(of_command)? } else { change.clone() };
            let (a, b, number) = link_key(before, link);
            match all.iter_mut().find(|other| (&other.a, &other.b, other.number) == (&a, &b, number)) {
                Some(other) => other.change.add(&change),
                None => all.push(ChangedLink { a, b, number, change }),
            }
        }
        let fabric = self.definition(&all, &self.changed_ports)?;
        let specs = |fabric: &Fabric| {
            let both = |link: &LinkId| (fabric.topology.links[*link].spec, fabric.topology.links[*link].back);
            links.iter().map(both).collect::<Vec<_>>()
        };
        let changed = specs(before).iter().zip(specs(&fabric)).filter(|(before, after)| *before != after).count();
        if changed > 0 {
            self.go_over_to(fabric, &self.folder.clone())?;
            self.reconnect();
        }
        self.changed_links = all;
        Ok(changed)
    }

    /// What it is to be if these links and ports are changed.
    fn definition(&self, links: &[ChangedLink], ports: &[PortChange]) -> Result<Fabric, Error> {
        let fabric = definition((&self.source, &self.overrides), links, ports, &self.with_tables);
        with_countries(fabric.map_err(|error| in_file(&error))?, &self.folder)
    }

    /// Whether it can become this fabric.
    fn check(&self, fabric: &Fabric) -> Result<(), Error> {
        if fabric.topology.hosts > self.hosts_max {
            return Err(Error::TooManyHosts { hosts: fabric.topology.hosts, limit: self.hosts_max });
        }
        check_devices(fabric)
    }

    /// Becomes this fabric, if it is not. If it cannot be done, nothing changes.
    fn go_over_to(&mut self, fabric: Fabric, folder: &Path) -> Result<Applied, Error> {
        let mut applied = difference(self.fabric(), &fabric);
        self.repair_hosts(&fabric, &mut applied)?;
        self.unplugged |= self.external.iter().any(|(_, devices)| devices.iter().any(|device| device.is_gone()));
        self.unplugged |= self.folder != folder && fabric.topology.nodes.iter().any(has_relative_files);
        if self.unplugged || !self.fabric().is_some_and(|old| is_same(old, &fabric)) {
            self.change_to(fabric, folder)?;
            self.go_on_capturing();
        }
        Ok(applied)
    }

    /// Gives links what they are to have after a change: those that are down, pulled ones that are there still, and those that end on devices.
    fn reconnect(&mut self) {
        let Some(plane) = &self.plane else { return };
        let fabric = plane.plan().fabric();
        let mut links: Vec<LinkId> = plane.links_down().collect();
        if !self.pulled.is_empty() {
            let all = fabric.topology.links.keys();
            let there: BTreeMap<LinkKey, LinkId> = all.map(|link| (link_key(fabric, link), link)).collect();
            self.pulled.retain(|key| there.contains_key(key));
            links.extend(self.pulled.iter().map(|key| there[key]));
        }
        self.connect(&links);
        // A host that was without a carrier may hang on another link now.
        self.show_carriers(|_| true);
        self.look_at_carriers(true);
    }

    /// Gives hosts that stay a new device where a program in them has removed the old one.
    fn repair_hosts(&mut self, fabric: &Fabric, applied: &mut Applied) -> Result<(), Error> {
        let stay: BTreeSet<_> = HostSpec::of(fabric).map(|spec| spec.name).collect();
        for host in self.hosts.iter_mut().filter(|host| stay.contains(&host.spec().name)) {
            if !host.repair()? {
                continue;
            }
            self.unplugged = true;
            let name = &host.spec().name;
            let topology = &fabric.topology;
            let name = topology.node(name).map_or(name, |node| &topology.nodes[topology.known_as(node)].name);
            if !applied.changed.contains(name) {
                applied.changed.push(name.clone());
                applied.kept = applied.kept.saturating_sub(1);
            }
        }
        Ok(())
    }

    /// Changes all, or nothing. The names come first: that a file cannot be written is more likely than all that follows.
    fn change_to(&mut self, fabric: Fabric, folder: &Path) -> Result<(), Error> {
        let before = self.fabric().map(hosts_file).unwrap_or_default();
        let laid_out = self.lay_out_files(&fabric)?;
        self.stop_offloads();
        let result = self.write_names(&hosts_file(&fabric)).and_then(|()| self.exchange(fabric, folder));
        self.start_offloads();
        if result.is_ok() {
            self.laid_out = laid_out;
            self.check_servers(folder);
            self.start_programs(folder);
        }
        if result.is_err()
            && let Err(error) = self.write_names(&before)
        {
            tracing::error!("{error}");
        }
        result
    }

    fn write_names(&self, text: &str) -> Result<(), Error> {
        overwrite(&self.hosts_path, text).map_err(Error::path(&self.hosts_path, "write the hosts' /etc/hosts"))
    }

    fn exchange(&mut self, fabric: Fabric, folder: &Path) -> Result<(), Error> {
        let specs: Vec<HostSpec> = HostSpec::of(&fabric).collect();
        let external = self.open_devices(&fabric, folder)?;
        let routes = Routes::compute(&fabric.topology);
        let before = self.plane.as_ref().map(DataPlane::plan);
        // Tests have pipelines of their own.
        check_workers(&fabric, before)?;
        let pipelines =
            if self.pipelines.is_empty() { fabric.pipelines(seeds(&fabric)) } else { self.pipelines.clone() };
        let plan = Plan::new(fabric, routes, default_workers(), pipelines, before);
        // Those of `heddle run` are there to be measured.
        let plan = if self.ephemeral { plan.counting_flows() } else { plan };
        let known = self.known_hosts(&specs);
        let missing: Vec<_> = specs.iter().filter(|spec| !known.contains_key(&spec.name)).cloned().collect();
        let mut made = Host::create_all(&missing, &self.hosts)?;
        let changes = specs.iter().filter_map(|spec| Some((*known.get(&spec.name)?, spec.clone()))).collect();
        let undo = self.change_hosts(changes)?;
        let completed = self.complete_hosts(&mut made, &specs);
        let roots = match completed.and_then(|()| self.make_roots(plan.fabric(), &made)) {
            Ok(roots) => roots,
            Err(error) => {
                self.restore(undo);
                return Err(error);
            }
        };
        let mut made = made.into_iter();
        let places: Vec<_> = specs.iter().map(|spec| known.get(&spec.name).copied()).collect();
        let mut old: Vec<Option<Host>> = std::mem::take(&mut self.hosts).into_iter().map(Some).collect();
        let place = |at: &Option<usize>| at.map_or_else(|| made.next(), |at| old[at].take());
        let hosts: Vec<Host> = places.iter().filter_map(place).collect();
        if let Err(error) = self.start(plan, &hosts, &external) {
            // Back to what was: the old hosts in their places and with their old specifications, the new ones dropped.
            for (host, at) in hosts.into_iter().zip(&places) {
                if let Some(at) = *at {
                    old[at] = Some(host);
                }
            }
            self.hosts = old.into_iter().flatten().collect();
            self.restore(undo);
            return Err(error);
        }
        self.hosts = hosts;
        self.roots.made = roots;
        self.external = external;
        let gone: Vec<Host> = old.into_iter().flatten().collect();
        let were = undo.iter().map(|(_, was)| was).chain(gone.iter().map(Host::spec));
        self.forget_moved(&HostSpec::moved(were, &specs));
        let mut namespaces: BTreeSet<u64> = gone.iter().map(|host| host.namespace().inode()).collect();
        // The host that an interface belongs to may stay.
        self.hosts.iter().for_each(|stays| _ = namespaces.remove(&stays.namespace().inode()));
        if !namespaces.is_empty() {
            process::end(&self.mark, Some(&namespaces));
        }
        self.unplugged = false;
        Ok(())
    }

    fn start(&mut self, plan: Plan, hosts: &[Host], external: &[ExternalHost]) -> Result<(), Error> {
        let (mut made, mut external) = (hosts.iter(), external.iter());
        let attached = plan.fabric().topology.hosts().filter_map(|(_, node)| {
            if node.is_external() {
                return external.next().map(|(_, devices)| Attached::Devices(devices.clone()));
            }
            made.next().map(|host| Attached::Tap(host.tap().clone()))
        });
        let attached: Vec<Attached> = attached.collect();
        if let Some(plane) = &mut self.plane {
            return plane.change(plan, attached);
        }
        self.plane = Some(DataPlane::start(plan, attached, self.clock)?);
        Ok(())
    }

    /// Whether there are devices whose carriers are to be watched.
    pub fn has_devices(&self) -> bool {
        watched(&self.external).next().is_some()
    }

    /// Where the machine's devices are.
    pub const fn outside(&self) -> &Namespace {
        &self.outside
    }

    /// Looks at the carriers of the machine's devices: a link has a carrier if the devices on which it ends have one, and nobody has pulled
    /// it. `anew`: links may have been made since.
    pub fn look_at_carriers(&mut self, anew: bool) {
        let Some(plane) = &self.plane else { return };
        self.open_again(plane);
        let topology = &plane.plan().fabric().topology;
        let (mut links, now) = (Vec::new(), self.clock.now());
        if let Some(lines) = self.carrier_log.take_left_out(now) {
            tracing::warn!("{lines} more changes of devices' carriers in a minute are not in this log");
        }
        for (name, devices) in watched(&self.external) {
            let Some(node) = topology.node(name).map(|id| &topology.nodes[id]) else { continue };
            for (device, &(link, _)) in devices.iter().zip(&node.ports) {
                let (up, changed) = device.look();
                if changed && self.carrier_log.take(now) {
                    let now = if up { "has a carrier" } else { "has no carrier" };
                    tracing::info!("device {} of host {name} {now}", device.name());
                }
                if changed || anew {
                    links.push(link);
                }
            }
        }
        self.connect(&links);
    }

    /// Gives links the carriers that they are to have.
    fn connect(&mut self, links: &[LinkId]) {
        let Some(plane) = &self.plane else { return };
        let fabric = plane.plan().fabric();
        let has_carrier = |link: LinkId| {
            let ends = [Side::A, Side::B].map(|side| fabric.topology.links[link].end(side));
            let mut devices = ends.iter().filter_map(|end| {
                let name = &fabric.topology.nodes[end.node].name;
                self.external.iter().find(|(external, _)| external == name)?.1.get(usize::from(end.port.0))
            });
            !self.pulled.contains(&link_key(fabric, link)) && devices.all(|device| device.has_carrier())
        };
        let links: Vec<_> = links.iter().map(|link| (*link, has_carrier(*link))).collect();
        if let Some(plane) = &mut self.plane {
            plane.set_links(&links);
        }
        let links: BTreeSet<LinkId> = links.into_iter().map(|(link, _)| link).collect();
        self.show_carriers(|link| links.contains(&link));
    }

    /// Lets the hosts that are made see whether links of theirs have a carrier, those of which a link was touched: their device has one as long as any
    /// of its links does.
    fn show_carriers(&self, is_touched: impl Fn(LinkId) -> bool) {
        let Some(plane) = &self.plane else { return };
        let down: BTreeSet<LinkId> = plane.links_down().collect();
        let nodes = plane.plan().fabric().topology.hosts().filter(|(_, node)| !node.is_external());
        for (host, (_, node)) in self.hosts.iter().zip(nodes) {
            let mut links = node.ports.iter().map(|(link, _)| *link);
            // A host without a device sees none.
            if !links.clone().any(&is_touched) || host.tap().is_gone() {
                continue;
            }
            if let Err(error) = host.set_carrier(links.any(|link| !down.contains(&link))) {
                tracing::warn!("host {} does not see that its cable was touched: {error}", node.name);
            }
        }
    }

    fn fabric(&self) -> Option<&Fabric> {
        Some(self.plane.as_ref()?.plan().fabric())
    }

    /// The host called `name`.
    pub fn host(&self, name: &str) -> Result<&Host, Error> {
        if let Some((_, devices)) = self.external.iter().find(|(external, _)| external == name) {
            let devices = devices.iter().map(|device| device.name()).collect::<Vec<_>>().join(", ");
            return Err(Error::ExternalHost { host: name.to_owned(), devices });
        }
        let found = self.hosts.iter().find(|host| host.spec().name == name);
        found.ok_or_else(|| self.not_a_host(name))
    }

    /// Why there is no host of this name, and which there are.
    fn not_a_host(&self, name: &str) -> Error {
        let instance = self.instance.clone();
        let Some(topology) = self.fabric().map(|fabric| &fabric.topology) else {
            return Error::NoSuchHost {
                host: name.to_owned(),
                instance,
                hint: "`heddle up FILE` gives it hosts".to_owned(),
            };
        };
        let Some((switch, _)) = topology.switches().find(|(_, node)| node.name == name) else {
            return Error::NoSuchHost { host: name.to_owned(), instance, hint: fabric::host_hint(topology, name) };
        };
        let beside = topology.peers(switch).find(|peer| topology.is_host(*peer)).unwrap_or(NodeId(0));
        Error::IsSwitch { switch: name.to_owned(), instance, host: topology.nodes[beside].name.clone() }
    }

    /// What its hosts see as `/etc/hosts`.
    pub fn hosts_file(&self) -> &Path {
        &self.hosts_path
    }

    /// What it is.
    pub fn status(&self) -> Status {
        let fabric = self.fabric();
        Status {
            instance: self.instance.clone(),
            pid: nix::unistd::getpid().as_raw(),
            ephemeral: self.ephemeral,
            file: self.source.name.clone(),
            text: self.source.text.clone(),
            folder: self.folder.to_string_lossy().into_owned(),
            overrides: self.overrides.clone(),
            changed_links: self.changed_links.clone(),
            changed_ports: self.changed_ports.clone(),
            fabric: fabric.map(|fabric| fabric.name.clone()).unwrap_or_default(),
            hosts: self
                .hosts
                .iter()
                .map(Host::spec)
                .filter(|host| host.within.is_none())
                .map(|host| host.name.clone())
                .collect(),
            host_count: fabric.map_or(0, |fabric| fabric.topology.end_hosts().len()),
            switches: fabric.map_or(0, |fabric| fabric.topology.switches().len()),
            links: fabric.map_or(0, |fabric| fabric.topology.links.len()),
            shaped: fabric.is_some_and(|fabric| fabric.topology.is_shaped()),
            spread: fabric.map(|fabric| fabric.spread).unwrap_or_default(),
            workers: self.plane.as_ref().map_or(0, DataPlane::workers),
            uptime_ms: self.clock.uptime().as_ns() / 1_000_000,
        }
    }

    /// Takes the carrier from the links between two nodes, or gives it back: of the one with this number, or of all.
    pub fn set_link(&mut self, a: &str, b: &str, number: Option<u32>, up: bool) -> Result<LinksSet, Error> {
        let Some(plane) = &self.plane else { return Err(Error::NothingRuns) };
        let fabric = plane.plan().fabric();
        let links = fabric::find_links(&fabric.topology, a, b, number)?;
        let keys = links.iter().map(|link| link_key(fabric, *link));
        let pulled = &mut self.pulled;
        let changed = keys.filter(|key| if up { pulled.remove(key) } else { pulled.insert(key.clone()) }).count();
        let names = links.iter().map(|link| fabric.topology.numbered_link_name(*link)).collect();
        self.connect(&links);
        Ok(LinksSet { links: names, changed, up })
    }

    /// Sets the clock back if it is time, and all that goes by it. How long it is until the next time.
    pub fn set_clock_back(&mut self) -> Duration {
        loop {
            let by = match self.clock.set_back() {
                Ok(by) => by,
                Err(wait) => return wait,
            };
            self.carrier_log.rebase(by);
            if let Some(plane) = &mut self.plane {
                plane.set_back(self.clock, by);
            }
            self.captures.rebase(by);
            tracing::info!("the clock was set back by {} days", by.as_secs_f64() / 86_400.0);
        }
    }

    /// Ends the data plane. Workers that have not ended after a while are left behind, and end with the process: their numbers.
    pub fn end(mut self) -> Vec<usize> {
        self.end_programs();
        let left = self.plane.take().map(|mut plane| plane.end()).unwrap_or_default();
        self.captures.end();
        left
    }

    /// What has been counted.
    pub fn counters(&mut self) -> Counters {
        let mut counters = self.plane.as_mut().map(DataPlane::counters).unwrap_or_default();
        for (name, devices) in &self.external {
            let mut faults = devices.iter().filter_map(|device| device.fault());
            if let Some(port) = counters.ports.iter_mut().find(|port| port.host == *name) {
                port.fault = faults.next();
                if devices.iter().any(|device| device.queues_used().is_some()) {
                    port.queues_used = devices.iter().map(|device| device.queues_used().unwrap_or(0)).collect();
                }
            }
        }
        if let Some(fabric) = self.plane.as_ref().map(|plane| plane.plan().fabric()) {
            for (link, counted) in fabric.topology.links.keys().zip(&mut counters.links) {
                counted.pulled = self.pulled.contains(&link_key(fabric, link));
            }
        }
        self.checks.describe(&mut counters.services);
        self.describe_paths(&mut counters.services);
        counters
    }

    /// The salts of the hashes by which switches choose.
    pub fn salts(&self) -> Vec<u64> {
        self.plane.as_ref().map(DataPlane::salts).unwrap_or_default()
    }

    /// Ends of bonds that do not carry all that they can.
    pub fn unconverged(&self) -> Vec<UnconvergedBond> {
        self.plane.as_ref().map(DataPlane::unconverged).unwrap_or_default()
    }
}

impl Drop for Network {
    /// Ends the processes in its hosts; the hosts themselves go with their descriptors.
    fn drop(&mut self) {
        self.end_programs();
        self.plane = None;
        let ended = process::end(&self.mark, None);
        if ended > 0 {
            tracing::info!("ended {ended} processes in hosts");
        }
        // Else it goes with its descriptor.
        self.hosts.iter().for_each(|host| _ = host.tap().leave(host.namespace()));
    }
}

/// A case may have given a bond other members than there are devices.
fn check_devices(fabric: &Fabric) -> Result<(), Error> {
    match fabric.topology.nodes.iter().find(|node| node.is_external() && node.devices.len() != node.ports.len()) {
        None => Ok(()),
        Some(node) => {
            Err(Error::DeviceCount { host: node.name.clone(), links: node.ports.len(), devices: node.devices.len() })
        }
    }
}

/// Chains and services are one worker's, and nodes stay at their workers.
fn check_workers(fabric: &Fabric, before: Option<&Plan>) -> Result<(), Error> {
    match before.map_or(1, Plan::workers) {
        workers @ 2.. if !fabric.chains.functions.is_empty() || !fabric.services.is_empty() => {
            Err(Error::ChainsOfSeveralWorkers { workers })
        }
        _ => Ok(()),
    }
}

/// Hosts behind devices that may change.
fn watched(external: &[ExternalHost]) -> impl Iterator<Item = &ExternalHost> {
    external.iter().filter(|(_, devices)| devices.iter().any(|device| device.may_lose_carrier()))
}

fn link_key(fabric: &Fabric, id: LinkId) -> LinkKey {
    let [a, b] = [Side::A, Side::B].map(|side| fabric.topology.links[id].end(side).node);
    let name = |node: NodeId| fabric.topology.nodes[node].name.clone();
    (name(a), name(b), fabric.topology.link_number(id))
}

/// What a network is to be: what its file says, with what was changed in it, and tables of flows for these switches as well.
fn definition(
    (source, overrides): (&Source, &Overrides),
    links: &[ChangedLink],
    ports: &[PortChange],
    with_tables: &BTreeSet<String>,
) -> Result<Fabric, fabric::Error> {
    let fabric = fabric::parse_changed(source, ports).map(|fabric| fabric.with(overrides));
    let mut fabric = fabric.and_then(|fabric| fabric.with_links(links))?;
    for switch in with_tables.iter().filter_map(|name| fabric::find_switch(&fabric.topology, name).ok()) {
        fabric.flow_tables.entry(switch).or_default();
    }
    Ok(fabric)
}

/// Problems that are those of a file.
fn in_file(error: &fabric::Error) -> Error {
    Error::File(describe(error))
}

/// The problems of a file, one a line.
fn describe(error: &fabric::Error) -> String {
    let problem = |problem: &fabric::Problem| {
        format!("\n{}:{}: {} (hint: {})", problem.line, problem.column, problem.message, problem.hint)
    };
    error.to_string() + &error.problems().iter().map(problem).collect::<String>()
}

/// Writes a file that others read all the time, and that is mounted elsewhere, so that another one can't take its place: it is never empty, and each
/// line that is in both texts at the same place can be read all the time. What was longer ends in empty lines for a moment.
fn overwrite(path: &Path, text: &str) -> std::io::Result<()> {
    let file = fs::OpenOptions::new().write(true).create(true).truncate(false).open(path)?;
    let length = usize::try_from(file.metadata()?.len()).unwrap_or(usize::MAX).max(text.len());
    let mut padded = text.to_owned();
    padded.extend(std::iter::repeat_n('\n', length - text.len()));
    file.write_all_at(padded.as_bytes(), 0)?;
    // The folder is its owner's alone. Where it is mounted, programs of other users read it.
    file.set_permissions(fs::Permissions::from_mode(0o644))?;
    file.set_len(text.len() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_is_overwritten_is_never_empty() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("hosts");
        let long = "10.0.0.1 h1\n".repeat(300);
        overwrite(&path, &long).expect("it is written");
        std::thread::scope(|scope| {
            let reader = scope.spawn(|| {
                let texts = std::iter::repeat_with(|| fs::read_to_string(&path).expect("it can be read"));
                let mut texts = texts.take_while(|text| !text.starts_with("end"));
                texts.find(|text| !text.starts_with("10.0.0.1 h1\n"))
            });
            for _ in 0..2_000 {
                overwrite(&path, "10.0.0.1 h1\n").expect("it is written");
                assert_eq!(fs::read_to_string(&path).expect("it can be read"), "10.0.0.1 h1\n");
                overwrite(&path, &long).expect("it is written");
            }
            overwrite(&path, "end").expect("it is written");
            assert_eq!(reader.join().expect("the reader ends"), None);
        });
    }
}
