//! Multi-homed hosts: several ports that are no bond, one address. There is a switch in such a host, as in a network card that switches by itself: it
//! chooses by which port the host sends, and, if the host forwards, passes on what is for others. The host's own kernel sees neither.

use std::sync::Arc;

use topology::{NetPort, NodeId};
use vswitch::FLOOD;

use crate::driver::{Driver, Loss};
use crate::graph::{Graph, Moment};

impl<P> Graph<P> {
    /// A packet has come to a multi-homed host: it is for the host, or goes on from there.
    #[inline(never)]
    pub(crate) fn come_to_multi_homed<D: Driver<Packet = P>>(
        &mut self,
        moment: Moment<'_>,
        driver: &mut D,
        (host, port): (NodeId, NetPort),
        packet: P,
    ) {
        let tables = moment.tables;
        let to = driver.forwarding(&packet).to;
        if to == host || !tables.map.forwards(host) {
            let from = if to == FLOOD { tables.host_table.by_mac(driver.source(&packet)) } else { None };
            let is_taken = |from| self.routes.takes_flooded(host, tables.map.number(port), from);
            if from.is_none_or(is_taken) {
                driver.deliver(moment.now, port, packet);
            } else {
                driver.free(packet);
            }
        } else if to == FLOOD {
            self.flood(moment, driver, (host, port), packet);
        } else {
            self.send_by_routes(moment, driver, host, packet);
        }
    }

    /// A multi-homed host sends a packet. `port` is any of its ports.
    #[inline(never)]
    pub(crate) fn send_from_multi_homed<D: Driver<Packet = P>>(
        &mut self,
        moment: Moment<'_>,
        driver: &mut D,
        port: NetPort,
        mut packet: P,
    ) {
        let map = &moment.tables.map;
        let host = map.node(port);
        if driver.forwarding(&packet).to != FLOOD {
            return self.send_by_routes(moment, driver, host, packet);
        }
        driver.set_forwarding(&mut packet, self.flooding());
        let routes = Arc::clone(&self.routes);
        let ports = routes.tree(host).iter().map(|port| map.port(host, *port));
        self.put_each(driver, ports, packet, |graph, driver, port, packet| graph.put_on(moment, driver, port, packet));
    }

    /// Sends a packet off by one of the ports of a multi-homed host that lead to its destination.
    fn send_by_routes<D: Driver<Packet = P>>(&mut self, moment: Moment<'_>, driver: &mut D, host: NodeId, packet: P) {
        let map = &moment.tables.map;
        let at = map.host_switch(host).expect("it is multi-homed");
        let forwarding = driver.forwarding(&packet);
        let Some(out) = self.switches[at].forward(&self.routes, forwarding) else {
            driver.count(Loss::NoRoute);
            return driver.free(packet);
        };
        driver.forwarded(at, forwarding.to, 1);
        self.put_on(moment, driver, map.port(host, out), packet);
    }
}
