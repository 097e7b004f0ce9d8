//! Switching within VLANs: which frames a port admits, by which ports they leave, and with which tag.
//!
//! Between switches a frame says itself which VLAN it is in: by its tag, or by having none. So nothing is remembered of it from hop to hop, and networks without
//! VLANs know nothing of this.

use std::sync::Arc;

use topology::{NetPort, NodeId, PortId};
use vswitch::port::VID_MASK;
use vswitch::{FLOOD, Field, UNKNOWN};
use wire::EthernetPacket;

use crate::driver::{Driver, Loss};
use crate::flood::{is_flooded, is_for_unknown, storm_limit};
use crate::graph::{Graph, Moment, Tables};
use crate::pipeline::lose;

/// The VLAN of a frame at a switch.
#[derive(Clone, Copy, Debug)]
struct InVlan {
    vid: u16,
    /// The control information of the tag that it has, if it has one.
    tci: Option<u16>,
}

impl Tables {
    /// The VLAN that a frame is in which comes in by a port; 0 where there are none, `None` if the port does not admit it.
    pub fn vlan_of(&self, port: NetPort, frame: &[u8]) -> Option<u16> {
        let Some(vlans) = self.ports.vlans(port) else { return Some(0) };
        vlans.admit(EthernetPacket::new_checked(frame).ok()?.vlan())
    }

    /// Whether who asks is in one VLAN with who has the address, in whose stead an answer is written, and that is in the form in which it would come.
    pub(crate) fn hears(&self, port: NetPort, question: &[u8], answer: &[u8]) -> bool {
        let tagged = EthernetPacket::new_checked(question).is_ok_and(|ethernet| ethernet.vlan().is_some());
        let (Some(vlan), Some(asker), Some(owner)) = (
            self.vlan_of(port, question),
            self.ports.vlans(port),
            answer.get(6..12).and_then(|source| self.host_table.by_mac(*source.first_chunk()?)),
        ) else {
            return false;
        };
        let mut owned = (0..).map_while(|number| self.map.port_of(owner, PortId(number)));
        asker.tags(vlan) == tagged
            && asker.carries(vlan)
            && owned.any(|port| self.ports.vlans(port).is_some_and(|vlans| vlans.carries(vlan)))
    }
}

impl<P> Graph<P> {
    /// Switches what has come to a switch as a switch without flows does. It is returned with the port that it leaves by, if it does.
    pub(crate) fn switch_normally<D: Driver<Packet = P>>(
        &mut self,
        moment: Moment<'_>,
        driver: &mut D,
        (at, node, port): (usize, NodeId, NetPort),
        mut packet: P,
    ) -> Option<(NetPort, P)> {
        let Some(vlans) = moment.tables.ports.vlans(port) else {
            return self.forward(moment, driver, (at, node, port), packet);
        };
        let Ok(tci) = EthernetPacket::new_checked(driver.headers(&packet)).map(|ethernet| ethernet.vlan()) else {
            return lose(driver, Loss::Malformed, packet);
        };
        let Some(vid) = vlans.admit(tci) else { return lose(driver, Loss::Vlan, packet) };
        let frame = InVlan { vid, tci };
        let to = driver.forwarding(&packet).to;
        if to == UNKNOWN {
            if !self.may_flood_unknown(moment, driver) {
                driver.free(packet);
                return None;
            }
            driver.set_forwarding(&mut packet, self.flooding());
        }
        if to == UNKNOWN || to == FLOOD {
            self.flood_vlan(moment, driver, (node, port), frame, packet);
            return None;
        }
        let (out, packet) = self.forward(moment, driver, (at, node, port), packet)?;
        tag(moment, driver, frame, out, packet)
    }

    /// Passes on what is for everybody in a VLAN.
    fn flood_vlan<D: Driver<Packet = P>>(
        &mut self,
        moment: Moment<'_>,
        driver: &mut D,
        (node, from): (NodeId, NetPort),
        frame: InVlan,
        packet: P,
    ) {
        let Some(packet) = self.admit_flood(moment, driver, from, packet) else { return };
        let tables = moment.tables;
        let routes = Arc::clone(&self.routes);
        let is_unknown = is_for_unknown(driver, &packet);
        let ports = routes.tree(node).iter().map(|port| tables.map.port(node, *port));
        let is_wanted = |port: &NetPort| {
            *port != from
                && tables.ports.vlans(*port).is_some_and(|vlans| vlans.carries(frame.vid))
                && is_flooded(tables, *port, is_unknown)
        };
        self.put_each(driver, ports.filter(is_wanted), packet, |graph, driver, port, packet| {
            if let Some((port, packet)) = tag(moment, driver, frame, port, packet) {
                graph.put_forwarding(moment, driver, port, packet);
            }
        });
    }

    /// Whether what is for an address that nobody knows may go to all who may have it; what may not is counted.
    fn may_flood_unknown<D: Driver<Packet = P>>(&mut self, Moment { tables, now }: Moment<'_>, driver: &mut D) -> bool {
        if !tables.ports.floods_unknown() {
            driver.count(Loss::NoRoute);
            return false;
        }
        let may = self.unknown.take(now, storm_limit(tables.map.hosts()));
        if !may {
            driver.count(Loss::Storm);
        }
        may
    }

    /// There is no route for a packet. What is for an address that nobody knows goes to all who may have it.
    #[cold]
    #[inline(never)]
    pub(crate) fn without_route<D: Driver<Packet = P>>(
        &mut self,
        moment: Moment<'_>,
        driver: &mut D,
        (node, port): (NodeId, NetPort),
        mut packet: P,
    ) {
        if driver.forwarding(&packet).to != UNKNOWN {
            driver.count(Loss::NoRoute);
        } else if self.may_flood_unknown(moment, driver) {
            driver.set_forwarding(&mut packet, self.flooding());
            return self.flood(moment, driver, (node, port), packet);
        }
        driver.free(packet);
    }
}

/// Gives a frame the tag with which it leaves by a port, if it does.
fn tag<D: Driver>(
    moment: Moment<'_>,
    driver: &mut D,
    InVlan { vid, tci }: InVlan,
    out: NetPort,
    mut packet: D::Packet,
) -> Option<(NetPort, D::Packet)> {
    let Some(vlans) = moment.tables.ports.vlans(out) else { return Some((out, packet)) };
    if !vlans.carries(vid) {
        return lose(driver, Loss::Vlan, packet);
    }
    let tagged = match (tci, vlans.tags(vid)) {
        (None, false) => Ok(()),
        (None, true) => driver.push_vlan(&mut packet, vid),
        (Some(_), false) => driver.pop_vlan(&mut packet),
        (Some(tci), true) if tci & VID_MASK == vid => Ok(()),
        // It had a priority only.
        (Some(tci), true) => driver.rewrite(&mut packet, Field::VlanTci(tci & !VID_MASK | vid)),
    };
    match tagged {
        Ok(()) => Some((out, packet)),
        Err(_) => lose(driver, Loss::Malformed, packet),
    }
}
