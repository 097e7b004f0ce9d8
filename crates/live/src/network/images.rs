//! The roots of hosts that are images of containers.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use fabric::Fabric;

use super::Network;
use super::setups::files_of;
use crate::Error;
use crate::host::Host;
use crate::image::{self, Image, Root};

impl Network {
    /// Unpacks the images of a file, each once.
    pub(super) fn unpack_images(fabric: &Fabric, folder: &Path) -> Result<BTreeMap<String, Image>, Error> {
        let mut images = BTreeMap::new();
        for (host, written) in fabric.setups.iter().filter_map(|(host, setup)| Some((host, setup.image.as_ref()?))) {
            if images.contains_key(written) {
                continue;
            }
            let image = image::prepare(written, folder);
            let image = image.map_err(|source| Error::Image { host: host.clone(), image: written.clone(), source })?;
            images.insert(written.clone(), image);
        }
        Ok(images)
    }

    /// The roots that hosts are to have, those that are new and those that stay: one stays that is made of the same image and has the same files.
    pub(super) fn make_roots(&self, fabric: &Fabric, made: &[Host]) -> Result<BTreeMap<String, Arc<Root>>, Error> {
        let mut roots = BTreeMap::new();
        for (name, setup) in fabric.setups.iter().filter(|(_, setup)| setup.image.is_some()) {
            let image = setup.image.as_ref().and_then(|written| self.images.get(written));
            let own = |host: &&Host| host.spec().name == *name;
            let new = made.iter().find(own);
            let Some((image, host)) = image.zip(new.or_else(|| self.hosts.iter().find(own))) else { continue };
            let files = files_of(fabric, name);
            let known =
                self.roots.get(name).filter(|root| new.is_none() && root.image == *image && root.files == files);
            let root = if let Some(known) = known {
                Arc::clone(known)
            } else {
                let folder = self.below_runtime_folder("roots").join(name);
                let made = Root::make(image, &files, (host.namespace(), &folder, &self.hosts_path));
                let failed = |(step, source): (&'static str, std::io::Error)| Error::Host {
                    host: name.clone(),
                    step,
                    reason: source.to_string(),
                    hint: (step == image::MOUNT).then_some(
                        "an image as a root needs overlayfs, in a user namespace that of Linux 5.11 or newer",
                    ),
                };
                Arc::new(made.map_err(failed)?)
            };
            roots.insert(name.clone(), root);
        }
        Ok(roots)
    }

    /// The root of a host, if it is an image.
    pub fn root(&self, host: &str) -> Option<&Arc<Root>> {
        let owner = self.hosts.iter().map(Host::spec).find(|spec| spec.name == host)?;
        self.roots.get(owner.within.as_ref().unwrap_or(&owner.name))
    }
}
