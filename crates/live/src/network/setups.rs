//! What runs in the hosts of a network, and what they find there.

use std::collections::{BTreeMap, BTreeSet};
use std::os::fd::AsFd as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use fabric::{Fabric, HostFile, Program, Restart};

use super::{ExternalHost, Network};
use crate::Error;
use crate::files::{self, FileMount};
use crate::host::HostSpec;
use crate::programs::{Launch, ProgramCommand, ProgramState, output_path};
use crate::uplink::{self, Outside, Wanted};
use crate::vm::{Guest, unusable_path};

/// Where resolvers look for name servers.
const RESOLV_CONF: &str = "/etc/resolv.conf";

/// The files of hosts, as they were laid out last.
#[derive(Clone, Debug, Default)]
pub(super) struct LaidOut {
    /// By host: the files, and how they are seen.
    hosts: BTreeMap<String, (Vec<HostFile>, Vec<FileMount>)>,
    /// How often any was laid out: each time in a folder of its own, since programs that run see the one before.
    count: u64,
}

/// A program that is this one is started from where this one is.
fn by_path(program: &Program) -> Program {
    let mut program = program.clone();
    if let Some(name) = program.run.first_mut().filter(|name| *name == fabric::FORWARDER)
        && let Ok(path) = std::env::current_exe()
        && let Some(path) = path.to_str()
    {
        path.clone_into(name);
    }
    program
}

/// The files that programs of a host see: those of the file, and which name servers they ask.
pub(super) fn files_of(fabric: &Fabric, host: &str) -> Vec<HostFile> {
    let setup = fabric.setups.get(host);
    let mut files = setup.map(|setup| setup.files.clone()).unwrap_or_default();
    let own = resolv_conf(fabric, setup.is_some_and(|setup| setup.uplink.is_some()));
    files.extend(own.filter(|own| !files.iter().any(|file| file.path == own.path)));
    files
}

/// What a host sees as `/etc/resolv.conf`: the network's name servers, and the one behind its uplink, which answers what those refuse. `None`: what the machine has.
fn resolv_conf(fabric: &Fabric, has_uplink: bool) -> Option<HostFile> {
    /// As many as resolvers ask (resolv.conf(5)).
    const ASKED: usize = 3;
    let mut servers: Vec<String> = Vec::new();
    for address in fabric.names.iter().flat_map(|name| &name.spec.asked_at) {
        let text = address.to_string();
        if !servers.contains(&text) {
            servers.push(text);
        }
    }
    servers.truncate(ASKED - usize::from(has_uplink));
    servers.extend(has_uplink.then(|| uplink::NAME_SERVER.to_owned()));
    let text = servers.iter().fold(String::new(), |text, server| text + "nameserver " + server + "\n");
    (!text.is_empty()).then(|| HostFile { path: RESOLV_CONF.to_owned(), text })
}

impl Network {
    /// Lays out the files of hosts that have others than before.
    pub(super) fn lay_out_files(&self, fabric: &Fabric) -> Result<LaidOut, Error> {
        let mut next = LaidOut { hosts: BTreeMap::new(), count: self.laid_out.count };
        // Those of an image are written into its own root.
        let has_image = |host: &String| fabric.setups.get(host).is_some_and(|setup| setup.image.is_some());
        let hosts = HostSpec::of(fabric).filter(|spec| spec.within.is_none() && !spec.is_function);
        let mut hosts: BTreeSet<String> = hosts.map(|spec| spec.name).collect();
        hosts.extend(fabric.setups.keys().cloned());
        let all = hosts.into_iter().filter(|host| !has_image(host)).map(|host| {
            let files = files_of(fabric, &host);
            (host, files)
        });
        for (host, wanted) in all.filter(|(_, wanted)| !wanted.is_empty()) {
            let known = self.laid_out.hosts.get(&host).filter(|(files, _)| *files == wanted);
            let laid_out = if let Some(known) = known {
                known.clone()
            } else if let Some(mounts) = self.with_other_name_servers(&host, &wanted) {
                (wanted, mounts)
            } else {
                next.count += 1;
                let root = self.below_runtime_folder("files").join(format!("{host}.{}", next.count));
                let mounts = files::lay_out(&root, &host, &wanted)?;
                (wanted, mounts)
            };
            next.hosts.insert(host, laid_out);
        }
        Ok(next)
    }

    /// The mounts of a host whose files differ from those that it has in nothing but its name servers: these are written over, so that what runs there sees them.
    fn with_other_name_servers(&self, host: &str, wanted: &[HostFile]) -> Option<Vec<FileMount>> {
        let (known, mounts) = self.laid_out.hosts.get(host)?;
        let are_alike = |(a, b): (&HostFile, &HostFile)| a == b || (a.path == b.path && a.path == RESOLV_CONF);
        if known.len() != wanted.len() || !known.iter().zip(wanted).all(are_alike) {
            return None;
        }
        let text = &wanted.iter().find(|file| file.path == RESOLV_CONF)?.text;
        let source = mounts.iter().find_map(|mount| match mount {
            FileMount::File { source, target } if target == RESOLV_CONF => Some(source),
            _ => None,
        })?;
        std::fs::write(source, text).ok()?;
        Some(mounts.clone())
    }

    pub(super) fn below_runtime_folder(&self, name: &str) -> std::path::PathBuf {
        self.hosts_path.with_file_name(name)
    }

    /// What programs of a host see in place of what the machine has.
    pub fn mounts(&self, host: &str) -> &[FileMount] {
        self.laid_out.hosts.get(host).map_or(&[], |(_, mounts)| mounts)
    }

    /// How the programs of hosts do.
    pub fn programs(&self) -> Vec<ProgramState> {
        let mut all = self.programs.states();
        all.extend(self.uplinks.iter().flat_map(Outside::states));
        all.sort_by(|a, b| (&a.host, &a.program).cmp(&(&b.host, &b.program)));
        all
    }

    /// Starts or ends programs of a host, or one of them: how they do then. What carries its uplink is none of them.
    pub fn command_programs(
        &mut self,
        host: &str,
        program: Option<&str>,
        command: ProgramCommand,
    ) -> Vec<ProgramState> {
        self.programs.command(host, program, command)
    }

    /// Refuses uplinks that nothing here can carry.
    pub(super) fn check_uplinks(&self, fabric: &Fabric) -> Result<(), Error> {
        let mut uplinks = fabric.setups.iter().filter(|(_, setup)| setup.uplink.is_some());
        match uplinks.next().filter(|_| self.uplinks.is_none()) {
            Some((host, _)) => Err(Error::NoPasta { host: host.clone() }),
            None => Ok(()),
        }
    }

    /// Gives hosts their uplinks, and takes those of others.
    fn start_uplinks(&self, outputs: &Path) {
        let (Some(uplinks), Some(fabric)) = (&self.uplinks, self.fabric()) else { return };
        let mut wanted = Vec::new();
        for host in &self.hosts {
            let name = &host.spec().name;
            if fabric.setups.get(name).is_some_and(|setup| setup.uplink.is_some()) {
                let (host_name, output) = (name.clone(), output_path(outputs, name, fabric::UPLINK));
                let namespace = host.namespace();
                let inode = namespace.inode();
                wanted.push((Wanted { host: host_name, inode, output }, namespace.as_fd()));
            }
        }
        if let Err(error) = uplinks.apply(wanted) {
            tracing::error!("uplinks of hosts are not as the file has them: {error}");
        }
    }

    /// Ends all programs, those outside too.
    pub(super) fn end_programs(&mut self) {
        self.programs.end();
        if let Some(uplinks) = self.uplinks.take() {
            // It fails only if that process is gone.
            let _ = uplinks.apply(Vec::new());
        }
    }

    /// Refuses guests that could not be started from where they are.
    pub(super) fn check_guests(&self, fabric: &Fabric, folder: &Path) -> Result<(), Error> {
        let guests = self.below_runtime_folder("guests");
        let unusable = |(host, setup): (&String, &fabric::HostSetup)| {
            let path = unusable_path(setup.vm.as_ref()?, &guests.join(host), folder)?;
            Some(Error::GuestPath { host: host.clone(), path })
        };
        fabric.setups.iter().find_map(unusable).map_or(Ok(()), Err)
    }

    /// Starts the programs of hosts that do not run yet, and ends those that are not to run any more.
    pub(super) fn start_programs(&mut self, folder: &Path) {
        let Some(fabric) = self.fabric() else { return };
        let outputs = self.below_runtime_folder("output");
        let mut wanted = Vec::new();
        for host in &self.hosts {
            let name = &host.spec().name;
            let Some(setup) = fabric.setups.get(name) else { continue };
            let of_container = self.program_of_container(host.spec());
            for program in setup.programs.iter().chain(&of_container) {
                let namespace = match host.namespace().as_fd().try_clone_to_owned() {
                    Ok(namespace) => Some((namespace, host.namespace().inode())),
                    Err(error) => {
                        tracing::error!("program {} of host {name} is not started: {error}", program.name);
                        continue;
                    }
                };
                // A program of Heddle's own is not in the image.
                let is_own = program.run.first().is_some_and(|run| run == fabric::FORWARDER);
                let root = self.root(name).filter(|_| !is_own).map(|root| (Arc::clone(root), root.inode()));
                wanted.push(Launch {
                    host: name.clone(),
                    program: by_path(program),
                    namespace,
                    root,
                    container: self.container(name).cloned(),
                    hosts_file: self.hosts_path.to_string_lossy().into_owned(),
                    mounts: self.mounts(name).to_vec(),
                    // Name servers are no reason to begin again.
                    files: fabric.setups.get(name).map(|setup| setup.files.clone()).unwrap_or_default(),
                    folder: folder.to_owned(),
                    output: output_path(&outputs, name, &program.name),
                    guest_status: None,
                });
            }
        }
        wanted.extend(self.guests(fabric, folder, &outputs));
        self.start_uplinks(&outputs);
        self.restarted = self.programs.apply(wanted);
    }

    /// What a function runs that is a container: a bundle's, by its runtime, or what its image starts itself.
    fn program_of_container(&self, spec: &HostSpec) -> Option<Program> {
        let named = |name: &str, run| Program { name: name.to_owned(), run, restart: Restart::Always };
        let container = self.container(&spec.name).map(|container| named("bundle", container.run()));
        let setup = self.fabric()?.setups.get(&spec.name)?;
        let runs_itself = spec.is_function && spec.within.is_none() && setup.programs.is_empty();
        let image = || self.root(&spec.name).map(|root| named("image", root.image.command.clone()));
        container.or_else(|| runs_itself.then(image).flatten())
    }

    /// The hypervisors of hosts that are virtual machines.
    fn guests(&self, fabric: &Fabric, folder: &Path, outputs: &Path) -> Vec<Launch> {
        let forwarder = std::env::current_exe().unwrap_or_else(|_| PathBuf::from(fabric::FORWARDER));
        let forwarder = forwarder.to_string_lossy();
        let guest = |(name, devices): &ExternalHost| {
            let vm = fabric.setups.get(name)?.vm.as_ref()?;
            let node = fabric.topology.node(name)?;
            let address = fabric.topology.address(node)?;
            let mut functions = fabric.chains.functions.iter();
            let ports = functions.find_map(|it| it.instances().iter().find(|[ingress, _]| *ingress == node));
            let egress = ports.map(|[_, egress]| fabric.topology.nodes[*egress].name.as_str());
            // The second of a function's ports is another host.
            let behind = self.external.iter().filter(|(other, _)| Some(other.as_str()) == egress);
            let devices = devices.iter().chain(behind.flat_map(|(_, devices)| devices));
            let sockets: Vec<PathBuf> = devices.filter_map(|device| device.vhost_path().map(Path::to_owned)).collect();
            let forwarder = egress.map(|_| &*forwarder);
            let hosts_file = self.hosts_path.to_string_lossy().into_owned();
            let own = self.below_runtime_folder("guests").join(name);
            let mtu = fabric.mtu;
            let (sockets, hosts_file) = (&*sockets, &*hosts_file);
            let guest = Guest { name, vm, address, forwarder, mtu, sockets, own: &own, folder, hosts_file };
            match guest.prepare() {
                Ok((program, files)) => Some(Launch {
                    host: name.clone(),
                    output: output_path(outputs, name, &program.name),
                    program,
                    namespace: None,
                    root: None,
                    container: None,
                    hosts_file: hosts_file.to_owned(),
                    mounts: Vec::new(),
                    files,
                    folder: folder.to_owned(),
                    guest_status: Some(guest.status_file()),
                }),
                Err(error) => {
                    tracing::error!("virtual machine {name} is not started: {}: {error}", own.display());
                    None
                }
            }
        };
        self.external.iter().filter_map(guest).collect()
    }
}
