//! Files of the machine that a fabric file names: whether they are there, and are what they are taken for. Nothing is unpacked, written or started.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::Path;

use fabric::{Fabric, HostSetup};

use crate::checks::Checks;
use crate::network::countries;
use crate::owner::Owner;
use crate::{Error, bundle, capture, files, image};

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
