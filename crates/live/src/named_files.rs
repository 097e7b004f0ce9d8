//! Files of the machine that a fabric file names: whether they are there, and are what they are taken for. Nothing is unpacked, written or started.

use std::collections::BTreeSet;
use std::env;
use std::ffi::OsStr;
use std::fs;
use std::io;
use std::path::Path;

use fabric::{Fabric, HostSetup, Hypervisor};

use crate::checks::Checks;
use crate::network::countries;
use crate::owner::Owner;
use crate::{Error, bundle, capture, files, image, vm};

/// What is wrong with the files that a fabric names: captures, images, kernels and disks of guests, lists of countries, certificates; and with the places of hosts' own files.
/// Relative paths are of `folder`.
pub fn check_named_files(fabric: &Fabric, folder: &Path) -> Vec<Error> {
    let mut found: Vec<Error> = capture::check_captures(fabric, folder).err().into_iter().collect();
    let mut seen = BTreeSet::new();
    for (host, setup) in &fabric.setups {
        // All instances of a function have the same.
        if let Owner::Function(function) = Owner::of(fabric, host)
            && !seen.insert(function)
        {
            continue;
        }
        found.extend(check_image(fabric, (host, setup), folder));
        found.extend(check_bundle(fabric, (host, setup), folder));
        found.extend(check_guest(fabric, (host, setup), folder));
        // Those of an image are written into its own root.
        let of_machine = setup.files.iter().filter(|_| setup.image.is_none());
        found.extend(of_machine.filter_map(|file| files::check(host, file).err()));
    }
    for service in &fabric.services {
        found.extend(Checks::refuse(service, folder).err());
        found.extend(countries::filter(service, folder).err());
    }
    found
}

/// A guest whose hypervisor is not on this machine: `heddle up` would start it in vain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MissingHypervisor {
    /// The host that is a guest.
    pub host: String,
    /// The program that there is not.
    pub program: &'static str,
    /// The package of Debian that has it.
    pub package: &'static str,
}

/// Guests whose hypervisors are in none of the folders of `search`, which is as `PATH` has them. Of those with a kernel of their own for User-Mode Linux, that is the program, and
/// [`check_named_files`] looks for it.
pub fn missing_hypervisors(fabric: &Fabric, search: &OsStr) -> Vec<MissingHypervisor> {
    let is_there = |program: &str| env::split_paths(search).any(|folder| folder.join(program).is_file());
    let missing = |(host, setup): (&String, &HostSetup)| {
        let vm = setup.vm.as_ref()?;
        let (program, package) = match vm.hypervisor {
            Hypervisor::UserModeLinux if vm.kernel.is_some() => return None,
            Hypervisor::UserModeLinux => (vm::USER_MODE_LINUX, vm::USER_MODE_LINUX_PACKAGE),
            Hypervisor::Qemu => (vm::QEMU, vm::QEMU_PACKAGE),
        };
        (!is_there(program)).then(|| MissingHypervisor { host: host.clone(), program, package })
    };
    fabric.setups.iter().filter_map(missing).collect()
}

fn check_image(fabric: &Fabric, (host, setup): (&str, &HostSetup), folder: &Path) -> Option<Error> {
    let (written, owner) = (setup.image.as_ref()?, Owner::of(fabric, host));
    let runs_itself = owner.is_function() && setup.programs.is_empty();
    let source = image::check(written, folder, runs_itself).err()?;
    Some(Error::Image { owner, image: written.clone(), source })
}

fn check_bundle(fabric: &Fabric, (host, setup): (&str, &HostSetup), folder: &Path) -> Option<Error> {
    let written = setup.bundle.as_ref()?;
    let source = bundle::read(written, folder).err()?;
    Some(Error::Bundle { owner: Owner::of(fabric, host), bundle: written.clone(), source })
}

/// The first file of a guest that is none.
fn check_guest(fabric: &Fabric, (host, setup): (&str, &HostSetup), folder: &Path) -> Option<Error> {
    let vm = setup.vm.as_ref()?;
    let named = [("kernel", &vm.kernel), ("initrd", &vm.initrd), ("image", &vm.image)];
    named.into_iter().find_map(|(key, file)| {
        let path = folder.join(file.as_ref()?);
        let source = match fs::metadata(&path) {
            Ok(found) if found.is_dir() => io::ErrorKind::IsADirectory.into(),
            Ok(_) => return None,
            Err(source) => source,
        };
        let at = match Owner::of(fabric, host) {
            owner @ Owner::Host(_) => owner.key(key),
            // Its keys are those of the function's machine.
            owner @ Owner::Function(_) => [owner.key("vm"), vec![key.to_owned()]].concat(),
        };
        Some(Error::GuestFile { host: host.to_owned(), key, path, at, source })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_guest_without_its_hypervisor_is_found() {
        let text = "nodes:
  v1: { kind: vm, run: true }
  v2: { kind: vm, hypervisor: qemu, image: disk.qcow2 }
  s1: switch
links: [{ between: [v1, s1] }, { between: [v2, s1] }]
";
        let fabric = fabric::parse(&fabric::Source { name: "net.yaml".to_owned(), text: text.to_owned() });
        let fabric = fabric.expect("a network");
        let folder = std::env::temp_dir().join(format!("heddle-hypervisors-{}", std::process::id()));
        fs::create_dir_all(&folder).expect("a folder");
        let found = |fabric: &Fabric| {
            let missing = missing_hypervisors(fabric, folder.as_os_str());
            missing.into_iter().map(|it| (it.host, it.program)).collect::<Vec<_>>()
        };
        let both = [("v1".to_owned(), vm::USER_MODE_LINUX), ("v2".to_owned(), vm::QEMU)];
        assert_eq!(found(&fabric), both);
        fs::write(folder.join(vm::USER_MODE_LINUX), "").expect("a file");
        assert_eq!(found(&fabric), both[1..]);
        fs::remove_dir_all(&folder).expect("the folder goes");
    }
}
