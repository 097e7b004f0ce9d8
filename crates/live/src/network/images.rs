//! The roots of hosts and functions that are images of containers, and the containers of bundles.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::sync::Arc;

use fabric::Fabric;

use super::Network;
use super::setups::files_of;
use crate::Error;
use crate::bundle::{self, Bundle};
use crate::container::{Container, Runtime};
use crate::control::{ImageView, OwnFiles};
use crate::host::Host;
use crate::image::{self, Image, Root};
use crate::owner::Owner;
use crate::programs::{Phase, ProgramState};

/// What images and bundles are, and what is made of them.
#[derive(Debug, Default)]
pub(super) struct Roots {
    /// Images that hosts have or had, by what the file calls them.
    images: BTreeMap<String, Image>,
    /// Bundles that functions have or had, by what the file calls them.
    bundles: BTreeMap<String, Bundle>,
    /// What hosts and functions have now.
    pub made: MadeRoots,
}

/// What is made of images and bundles, by host or instance of a function.
#[derive(Debug, Default)]
pub(super) struct MadeRoots {
    roots: BTreeMap<String, Arc<Root>>,
    containers: BTreeMap<String, Arc<Container>>,
}

impl Roots {
    /// Unpacks the images of a file, each once, and reads its bundles. Returns whether one of a known name is another one now.
    pub(super) fn prepare(&mut self, fabric: &Fabric, folder: &Path) -> Result<bool, Error> {
        let (mut images, mut bundles) = (BTreeMap::new(), BTreeMap::new());
        for (host, setup) in &fabric.setups {
            let owner = || Owner::of(fabric, host);
            if let Some(written) = &setup.image {
                let refused = |source| Error::Image { owner: owner(), image: written.clone(), source };
                if !images.contains_key(written) {
                    images.insert(written.clone(), image::prepare(written, folder).map_err(refused)?);
                }
                if setup.programs.is_empty() && owner().is_function() {
                    images[written].check_command().map_err(refused)?;
                }
            }
            if let Some(written) = setup.bundle.as_ref().filter(|written| !bundles.contains_key(*written)) {
                let refused = |source| Error::Bundle { owner: owner(), bundle: written.clone(), source };
                bundles.insert(written.clone(), bundle::read(written, folder).map_err(refused)?);
                if Runtime::find().is_none() {
                    return Err(Error::NoContainerRuntime { owner: owner() });
                }
            }
        }
        let is_other = images.iter().any(|(name, image)| self.images.get(name).is_some_and(|known| known != image))
            || bundles.iter().any(|(name, bundle)| self.bundles.get(name).is_some_and(|known| known != bundle));
        self.images.extend(images);
        self.bundles.extend(bundles);
        Ok(is_other)
    }
}

impl Network {
    /// The roots and containers that hosts and functions are to have, those that are new and those that stay: one stays that is made of the same and has the same files.
    pub(super) fn make_roots(&self, fabric: &Fabric, made: &[Host]) -> Result<MadeRoots, Error> {
        let mut all = MadeRoots::default();
        for (name, setup) in &fabric.setups {
            let own = |host: &&Host| host.spec().name == *name;
            let new = made.iter().find(own);
            let Some(host) = new.or_else(|| self.hosts.iter().find(own)) else { continue };
            if let Some(image) = setup.image.as_ref().and_then(|written| self.roots.images.get(written)) {
                let known = self.roots.made.roots.get(name).filter(|_| new.is_none());
                all.roots.insert(name.clone(), self.make_root(fabric, host, (image, known))?);
            }
            if let Some(bundle) = setup.bundle.as_ref().and_then(|written| self.roots.bundles.get(written)) {
                let known = self.roots.made.containers.get(name).filter(|_| new.is_none());
                all.containers.insert(name.clone(), self.make_container(fabric, host, (bundle, known))?);
            }
        }
        Ok(all)
    }

    fn make_root(
        &self,
        fabric: &Fabric,
        host: &Host,
        (image, known): (&Image, Option<&Arc<Root>>),
    ) -> Result<Arc<Root>, Error> {
        let name = &host.spec().name;
        let files = files_of(fabric, name);
        if let Some(known) = known.filter(|root| root.image == *image && root.files == files) {
            return Ok(Arc::clone(known));
        }
        let folder = self.below_runtime_folder("roots").join(name);
        let made = Root::make(image, &files, (host.namespace(), &folder, &self.hosts_path));
        made.map(Arc::new).map_err(failed(name))
    }

    fn make_container(
        &self,
        fabric: &Fabric,
        host: &Host,
        (bundle, known): (&Bundle, Option<&Arc<Container>>),
    ) -> Result<Arc<Container>, Error> {
        let name = &host.spec().name;
        if let Some(known) = known.filter(|container| container.bundle == *bundle) {
            return Ok(Arc::clone(known));
        }
        let runtime = Runtime::find().ok_or_else(|| Error::NoContainerRuntime { owner: Owner::of(fabric, name) })?;
        let folder = self.below_runtime_folder("containers").join(name);
        let made = Container::make(bundle, runtime, (name, host.namespace(), &folder, &self.hosts_path));
        made.map(Arc::new).map_err(failed(name))
    }

    /// The root of a host, if it is an image.
    pub fn root(&self, host: &str) -> Option<&Arc<Root>> {
        let owner = self.hosts.iter().map(Host::spec).find(|spec| spec.name == host)?;
        self.roots.made.roots.get(owner.within.as_ref().unwrap_or(&owner.name))
    }

    /// The container of an instance of a function, if it has one.
    pub fn container(&self, instance: &str) -> Option<&Arc<Container>> {
        self.roots.made.containers.get(instance)
    }

    /// How programs come to see the files of a host that has its own; `None`: it has the machine's.
    ///
    /// # Errors
    /// [`Error::ContainerDown`] if that is a container, and it does not run.
    pub fn own_files(&self, host: &str) -> Result<Option<OwnFiles>, Error> {
        if let Some(root) = self.root(host) {
            let Image { folder, environment, .. } = &root.image;
            let view = ImageView { folder: folder.clone(), environment: environment.clone() };
            return Ok(Some(OwnFiles::Image(view)));
        }
        let Some(container) = self.container(host) else { return Ok(None) };
        let is_running = |state: &ProgramState| state.host == host && state.phase == Phase::Running;
        if !self.programs().iter().any(is_running) {
            return Err(Error::ContainerDown { instance: host.to_owned() });
        }
        Ok(Some(OwnFiles::Container(container.entrance())))
    }
}

/// A step that was not taken for a host.
fn failed(host: &str) -> impl FnOnce((&'static str, io::Error)) -> Error {
    move |(step, source)| Error::Host {
        host: host.to_owned(),
        step,
        reason: source.to_string(),
        hint: (step == image::MOUNT).then_some(
            "an image or a bundle as a root needs overlayfs, in a user namespace that of Linux 5.11 or newer",
        ),
    }
}
