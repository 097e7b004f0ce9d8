//! Packets are shown to built-in functions, and what those want is done.

use topology::{NetPort, NodeId};
use vswitch::functions::{Course, PassingPacket, Verdict};
use vswitch::{Field, FlowKey, Forwarding};

use crate::driver::{Driver, Loss};
use crate::graph::{Graph, Moment, Tables};

impl<P> Graph<P> {
    /// A packet that leaves by a port passes a built-in function on its way. It is returned if it goes on.
    pub(super) fn pass_built_in<D: Driver<Packet = P>>(
        &mut self,
        moment: Moment<'_>,
        driver: &mut D,
        (number, course, port): (usize, Course, NetPort),
        packet: P,
    ) -> Option<P> {
        let mut fields = std::mem::take(&mut self.chains.fields);
        let state = &mut self.chains.built_in[number];
        let hop = course.index();
        let bytes = driver.bytes(&packet);
        state.hops[hop].count_in(bytes);
        let passing = PassingPacket { course, headers: driver.headers(&packet), bytes };
        let verdict = state.function.process(moment.now, &passing, &mut fields);
        let passed = match verdict {
            Verdict::Drop => {
                driver.free(packet);
                None
            }
            Verdict::Pass => write(moment.tables, driver, packet, &fields),
            Verdict::PassAndCopy(to) => {
                self.send_copy(moment, driver, (port, to), &packet);
                write(moment.tables, driver, packet, &fields)
            }
        };
        if passed.is_some() {
            self.chains.built_in[number].hops[hop].count_out(bytes);
        }
        fields.clear();
        self.chains.fields = fields;
        passed
    }

    /// Sends a copy of a packet that leaves by a port to a host that watches. It begins its way at the switch behind the port, so that the link to there has no more to
    /// carry; where that is no switch, or there are several ways to it, at the port.
    fn send_copy<D: Driver<Packet = P>>(
        &mut self,
        moment: Moment<'_>,
        driver: &mut D,
        (port, to): (NetPort, NodeId),
        packet: &P,
    ) {
        let Some(mut copy) = driver.copy(packet) else { return };
        let hash = driver.forwarding(packet).hash;
        driver.steer(&mut copy, Forwarding { to, hash });
        let (map, egress) = (&moment.tables.map, &self.egress[port]);
        let taker = map.taker(egress.far);
        if !taker.is_direct() || map.switch(taker.node()).is_none() {
            self.put(moment, driver, port, copy);
        } else if egress.is_up() {
            self.pending.push_back((egress.far, copy));
        } else {
            driver.free(copy);
        }
    }
}

/// Writes fields into a packet, in order: it goes to the host that has its destination address then, and belongs to the flow that it is one of then. It is returned if
/// it has those fields.
fn write<D: Driver>(tables: &Tables, driver: &mut D, mut packet: D::Packet, fields: &[Field]) -> Option<D::Packet> {
    if fields.is_empty() {
        return Some(packet);
    }
    for field in fields {
        let owner = match *field {
            Field::Ipv4Dst(address) => tables.host_table.by_ipv4(address),
            Field::Ipv6Dst(address) => tables.host_table.by_ipv6(address),
            _ => None,
        };
        let mac = owner.map(|owner| Field::EthDst(tables.host_table.mac(owner)));
        for field in std::iter::once(*field).chain(mac) {
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
