//! Fields that are written into a packet on its way.

use vswitch::{Field, FlowKey, Forwarding};

use crate::driver::{Driver, Loss};
use crate::graph::Tables;

/// Writes fields into a packet, in order: it goes to the host that has its destination address then, and belongs to the flow that it is one of then. It is returned if
/// it has those fields.
pub(crate) fn write<D: Driver>(
    tables: &Tables,
    driver: &mut D,
    packet: D::Packet,
    fields: &[Field],
) -> Option<D::Packet> {
    write_all(driver, packet, fields, |field| {
        let owner = match field {
            Field::Ipv4Dst(address) => tables.host_table.by_ipv4(address),
            Field::Ipv6Dst(address) => tables.host_table.by_ipv6(address),
            _ => None,
        };
        owner.map(|owner| Field::EthDst(tables.host_table.mac(owner)))
    })
}

/// The same, but its MAC addresses are among the fields, or stay: whoever has its destination address may be behind a router.
pub(crate) fn write_only<D: Driver>(driver: &mut D, packet: D::Packet, fields: &[Field]) -> Option<D::Packet> {
    write_all(driver, packet, fields, |_| None)
}

/// Writes fields, and after each of them what follows from it.
fn write_all<D: Driver>(
    driver: &mut D,
    mut packet: D::Packet,
    fields: &[Field],
    follows: impl Fn(Field) -> Option<Field>,
) -> Option<D::Packet> {
    if fields.is_empty() {
        return Some(packet);
    }
    for field in fields {
        for field in std::iter::once(*field).chain(follows(*field)) {
            if driver.rewrite(&mut packet, field).is_err() {
                driver.count(Loss::Malformed);
                driver.free(packet);
                return None;
            }
        }
    }
    if let Ok(key) = FlowKey::parse(driver.headers(&packet)) {
        let forwarding = driver.forwarding(&packet);
        driver.set_forwarding(&mut packet, Forwarding { hash: key.hash(), ..forwarding });
    }
    Some(packet)
}
