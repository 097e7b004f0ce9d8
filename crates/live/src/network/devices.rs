//! The network's hosts that are not made: opens the devices that they are behind.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;

use fabric::Fabric;
use topology::{Node, NodeId, NullDevice, PcapDevice, VhostUserDevice};

use super::{ExternalHost, Network, watched};
use crate::dataplane::DataPlane;
use crate::device::{Device, Surroundings, null};
use crate::{Error, capture};

impl Network {
    /// The devices of the hosts that are not made: those that are open already, unless they are gone, and the others opened.
    pub(super) fn open_devices(&self, fabric: &Fabric, folder: &Path) -> Result<Vec<ExternalHost>, Error> {
        let destinations = null::destinations(fabric);
        let runtime = self.hosts_path.parent().unwrap_or(Path::new("/"));
        let surroundings = Surroundings { outside: &self.outside, fabric, destinations, folder, runtime };
        let known: BTreeMap<&str, &Vec<_>> =
            self.external.iter().map(|(name, devices)| (name.as_str(), devices)).collect();
        let kept = |node: &Node| {
            // The receivers of a null device's frames may have changed.
            let sends = |device: &String| NullDevice::of(device).is_some_and(|null| null.frame_bytes.is_some());
            let devices = *known.get(node.name.as_str())?;
            let is_kept = devices.iter().map(|device| device.name()).eq(node.devices.iter())
                && !devices.iter().any(|d| d.is_gone())
                && !node.devices.iter().any(sends)
                && (folder == self.folder || !has_relative_files(node));
            is_kept.then(|| devices.clone())
        };
        // Before any is opened, since that makes files.
        capture::check(fabric, folder, |node| kept(node).is_none())?;
        let open = |(id, node): (NodeId, &Node)| {
            let devices = match kept(node) {
                Some(devices) => devices,
                None => self.check_shareable(node).and_then(|()| Device::open_all(id, &surroundings))?,
            };
            Ok((node.name.clone(), devices))
        };
        fabric.topology.hosts().filter(|(_, node)| node.is_external()).map(open).collect()
    }

    /// Refuses what can't be opened once more while it is open.
    fn check_shareable(&self, node: &Node) -> Result<(), Error> {
        let open = self.external.iter().flat_map(|(_, devices)| devices).filter(|d| d.is_unshared() && !d.is_gone());
        let mut again = open.filter(|device| node.devices.iter().any(|name| name == device.name()));
        match again.next() {
            None => Ok(()),
            Some(device) => Err(Error::Device {
                host: node.name.clone(),
                device: device.name().to_owned(),
                source: io::Error::new(
                    io::ErrorKind::ResourceBusy,
                    "this network has it open, and AF_XDP opens it once",
                ),
            }),
        }
    }

    /// Opens devices again that were deleted and made again: their links have their carrier back then.
    pub(super) fn open_again(&self, plane: &DataPlane) {
        for (name, devices) in watched(&self.external) {
            let Some(host) = plane.plan().fabric().topology.node(name) else { continue };
            for (at, device) in devices.iter().enumerate() {
                match device.open_again(&self.outside) {
                    Ok(None) => {}
                    Ok(Some(replacement)) => {
                        plane.replace_port(host, at, replacement);
                        tracing::info!("device {} of host {name} was made again, and is open again", device.name());
                    }
                    Err(error) => {
                        let device = device.name();
                        tracing::warn!("device {device} of host {name} was made again and can't be opened: {error}");
                    }
                }
            }
        }
    }
}

/// Whether a host is behind captures or sockets that are other files in another folder.
pub(super) fn has_relative_files(node: &Node) -> bool {
    let captures = node.devices.iter().filter_map(|device| PcapDevice::of(device));
    let sockets = node.devices.iter().filter_map(|device| VhostUserDevice::of(device)?.socket);
    captures
        .flat_map(|device| [device.rx, device.tx])
        .flatten()
        .chain(sockets)
        .any(|file| Path::new(file).is_relative())
}
