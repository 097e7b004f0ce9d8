//! What runs in the hosts of a network, and what they find there.

use std::collections::BTreeMap;
use std::os::fd::AsFd as _;
use std::path::{Path, PathBuf};

use fabric::{Fabric, HostFile, Program};

use super::{ExternalHost, Network};
use crate::Error;
use crate::files::{self, FileMount};
use crate::programs::{Launch, ProgramState, output_path};
use crate::vm::{Guest, unusable_path};

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

impl Network {
    /// Lays out the files of hosts that have others than before.
    pub(super) fn lay_out_files(&self, fabric: &Fabric) -> Result<LaidOut, Error> {
        let mut next = LaidOut { hosts: BTreeMap::new(), count: self.laid_out.count };
        for (host, setup) in fabric.setups.iter().filter(|(_, setup)| !setup.files.is_empty()) {
            let known = self.laid_out.hosts.get(host).filter(|(files, _)| *files == setup.files);
            let laid_out = if let Some(known) = known {
                known.clone()
            } else {
                next.count += 1;
                let root = self.below_runtime_folder("files").join(format!("{host}.{}", next.count));
                (setup.files.clone(), files::lay_out(&root, host, &setup.files)?)
            };
            next.hosts.insert(host.clone(), laid_out);
        }
        Ok(next)
    }

    fn below_runtime_folder(&self, name: &str) -> std::path::PathBuf {
        self.hosts_path.with_file_name(name)
    }

    /// What programs of a host see in place of what the machine has.
    pub fn mounts(&self, host: &str) -> &[FileMount] {
        self.laid_out.hosts.get(host).map_or(&[], |(_, mounts)| mounts)
    }

    /// How the programs of hosts do.
    pub fn programs(&self) -> Vec<ProgramState> {
        self.programs.states()
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
            for program in &setup.programs {
                let namespace = match host.namespace().as_fd().try_clone_to_owned() {
                    Ok(namespace) => Some((namespace, host.namespace().inode())),
                    Err(error) => {
                        tracing::error!("program {} of host {name} is not started: {error}", program.name);
                        continue;
                    }
                };
                wanted.push(Launch {
                    host: name.clone(),
                    program: by_path(program),
                    namespace,
                    hosts_file: self.hosts_path.to_string_lossy().into_owned(),
                    mounts: self.mounts(name).to_vec(),
                    files: setup.files.clone(),
                    folder: folder.to_owned(),
                    output: output_path(&outputs, name, &program.name),
                    guest_status: None,
                });
            }
        }
        wanted.extend(self.guests(fabric, folder, &outputs));
        self.programs.apply(wanted);
    }

    /// The hypervisors of hosts that are virtual machines.
    fn guests(&self, fabric: &Fabric, folder: &Path, outputs: &Path) -> Vec<Launch> {
        let guest = |(name, devices): &ExternalHost| {
            let vm = fabric.setups.get(name)?.vm.as_ref()?;
            let address = fabric.topology.address(fabric.topology.node(name)?)?;
            let sockets: Vec<PathBuf> =
                devices.iter().filter_map(|device| device.vhost_path().map(Path::to_owned)).collect();
            let hosts_file = self.hosts_path.to_string_lossy().into_owned();
            let own = self.below_runtime_folder("guests").join(name);
            let mtu = fabric.mtu;
            let guest = Guest { name, vm, address, mtu, sockets: &sockets, own: &own, folder, hosts_file: &hosts_file };
            match guest.prepare() {
                Ok((program, files)) => Some(Launch {
                    host: name.clone(),
                    output: output_path(outputs, name, &program.name),
                    program,
                    namespace: None,
                    hosts_file: hosts_file.clone(),
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
