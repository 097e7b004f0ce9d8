//! Whom a host's kernel takes for its neighbours, where addresses are others now.

use std::collections::BTreeSet;
use std::net::IpAddr;

use futures_util::TryStreamExt;
use rtnetlink::Handle;
use rtnetlink::packet_route::neighbour::{NeighbourAddress, NeighbourAttribute, NeighbourMessage, NeighbourState};

/// Addresses that hosts had and have no more, or not with the same MAC address.
#[derive(Debug, Default)]
pub struct Moved {
    /// Of hosts that had them.
    pub ips: BTreeSet<IpAddr>,
    /// By which those were known.
    pub macs: BTreeSet<[u8; 6]>,
}

impl Moved {
    pub fn is_empty(&self) -> bool {
        self.macs.is_empty()
    }

    /// What somebody has written into the table stays.
    fn has(&self, neighbour: &NeighbourMessage) -> bool {
        if neighbour.header.state == NeighbourState::Permanent {
            return false;
        }
        neighbour.attributes.iter().any(|attribute| match attribute {
            NeighbourAttribute::Destination(NeighbourAddress::Inet(ip)) => self.ips.contains(&(*ip).into()),
            NeighbourAttribute::Destination(NeighbourAddress::Inet6(ip)) => self.ips.contains(&(*ip).into()),
            NeighbourAttribute::LinkLayerAddress(mac) => {
                <[u8; 6]>::try_from(&mac[..]).is_ok_and(|mac| self.macs.contains(&mac))
            }
            _ => false,
        })
    }
}

/// Takes neighbours with these addresses away from the calling thread's namespace.
pub async fn forget(handle: &Handle, moved: &Moved) -> Result<(), rtnetlink::Error> {
    let mut all = handle.neighbours().get().execute();
    let mut stale = Vec::new();
    while let Some(neighbour) = all.try_next().await? {
        if moved.has(&neighbour) {
            stale.push(neighbour);
        }
    }
    for neighbour in stale {
        // It may be gone meanwhile.
        let _ = handle.neighbours().del(neighbour).execute().await;
    }
    Ok(())
}
