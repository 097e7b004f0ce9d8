//! The kernel path: packets of connections that go on as they are, to services or (with `kernel: yes`) from host to host, go there by programs in the kernel, which write and count them as
//! the worker would (`docs/decisions/0081-the-kernel-path-carries-what-goes-on.md`, `0090-hosts-conversations-by-the-kernel-path.md`).
//!
//! The worker decides about connections, sees their first and last segments, and says which directions of which of them are carried ([`FlowTable`]); [`hub`] is what they are
//! carried by. Both are gone with this process, however it ends.

mod flow_table;
mod hub;
mod layout;
mod programs;

use std::hash::{BuildHasher as _, RandomState};

use datapath::{KernelUse, kernel_path_refusal};
use fabric::Fabric;
use topology::TiVec;

pub use flow_table::{FlowTable, Passed};
use hub::Hub;

use crate::control::ServiceStatus;
use crate::host::Host;

/// The most hosts of a network that has it: each gets a pair of devices.
const HOSTS_MAX: usize = 1_024;

/// The kernel path of a network, as far as it has one.
#[derive(Debug, Default)]
pub struct KernelPath {
    hub: Option<Hub>,
    /// Between [`KernelPath::keep`] and [`KernelPath::set_up`].
    flows: Option<Box<FlowTable>>,
    /// Why there is none, though a service wants one.
    refusal: Option<String>,
}

impl KernelPath {
    /// Whether there is one.
    pub const fn is_there(&self) -> bool {
        self.hub.is_some()
    }

    /// Takes back what a worker had; `None`: that does not answer, and may still have it.
    pub fn keep(&mut self, flows: Option<Box<FlowTable>>) {
        if flows.is_none() {
            self.remove();
        }
        self.flows = flows;
    }

    /// Makes it what a network wants that has these hosts: what a worker is to have for it. `None`: there is no kernel path.
    pub fn set_up(&mut self, fabric: &Fabric, hosts: &[Host], counts_flows: bool) -> Option<Box<FlowTable>> {
        self.refusal = None;
        let wants = |service: &datapath::Service| service.kernel != KernelUse::No;
        let is_wanted = fabric.kernel != KernelUse::No
            || fabric.services.iter().any(|service| wants(service) && service.offload_refusal().is_none());
        let made: Vec<&Host> = hosts.iter().filter(|host| !host.spec().is_function).collect();
        let made = match refusal(fabric, made.len(), counts_flows) {
            _ if !is_wanted => None,
            Some(why) => Err(why).into(),
            None => Some(self.connect(fabric, &made)),
        };
        match made {
            Some(Ok(flows)) => return Some(flows),
            Some(Err(why)) => {
                let must = fabric.services.iter().find(|service| service.kernel == KernelUse::Yes);
                if let Some(service) = must {
                    tracing::warn!("no kernel path for the service {}: {why}", service.name);
                } else if fabric.kernel == KernelUse::Yes {
                    tracing::warn!("no kernel path for what hosts say to each other: {why}");
                }
                self.refusal = Some(why);
            }
            None => {}
        }
        self.remove();
        None
    }

    fn connect(&mut self, fabric: &Fabric, hosts: &[&Host]) -> Result<Box<FlowTable>, String> {
        let mut flows = if let Some(flows) = self.flows.take() {
            flows
        } else {
            // What programs look up is another table now.
            self.remove();
            let seed = RandomState::new().hash_one(std::process::id());
            let made = FlowTable::new(seed).map_err(|error| match error.raw_os_error() {
                Some(libc::EPERM) => "it needs CAP_BPF and CAP_NET_ADMIN".to_owned(),
                _ => format!("the kernel does not make its table: {error}"),
            });
            Box::new(made?)
        };
        let table = (flows.map(), flows.seed());
        let hub = match &mut self.hub {
            Some(hub) => hub,
            none => none.insert(Hub::new(table)?),
        };
        hub.connect(hosts, table)?;
        let topology = &fabric.topology;
        let devices: TiVec<_, _> = topology.hosts().map(|(_, node)| hub.device(&node.name)).collect();
        flows.set_devices(devices);
        Ok(flows)
    }

    /// Takes it away.
    fn remove(&mut self) {
        if let Some(mut hub) = self.hub.take() {
            hub.clear();
        }
        self.flows = None;
    }

    /// Adds to how services do by which path their packets go. `is_captured`: a capture looks somewhere.
    pub fn describe(&self, fabric: &Fabric, services: &mut [ServiceStatus], is_captured: bool) {
        for status in services {
            let Some(service) = fabric.services.iter().find(|service| service.name == status.service) else { continue };
            let refusal = service.offload_refusal().or(self.refusal.as_deref());
            status.path = match (service.kernel, refusal) {
                (KernelUse::No, _) => "user-space".to_owned(),
                (KernelUse::Auto | KernelUse::Yes, Some(why)) => format!("user-space ({why})"),
                (KernelUse::Auto | KernelUse::Yes, None) if is_captured => {
                    "kernel (user-space where a capture looks)".to_owned()
                }
                (KernelUse::Auto | KernelUse::Yes, None) => "kernel".to_owned(),
            };
        }
    }
}

/// Why a network has no kernel path, whatever its services want.
fn refusal(fabric: &Fabric, hosts: usize, counts_flows: bool) -> Option<String> {
    if let Some(why) = kernel_path_refusal(fabric.topology.is_shaped(), !fabric.chains.chains.is_empty()) {
        return Some(why.to_owned());
    }
    if counts_flows {
        return Some("flows are counted".to_owned());
    }
    (hosts > HOSTS_MAX).then(|| format!("there are more than {HOSTS_MAX} hosts"))
}
