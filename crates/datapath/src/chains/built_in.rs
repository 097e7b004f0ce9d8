//! Packets are shown to built-in functions, and what those want is done.

use topology::{NetPort, NodeId};
use vswitch::Forwarding;
use vswitch::functions::{Course, PassingPacket, Verdict};

use crate::driver::{Driver, Loss};
use crate::graph::{Graph, Moment};
use crate::pipeline::lose;
use crate::rewrite::write;

impl<P> Graph<P> {
    /// A packet that leaves by a port passes a built-in function on its way. It is returned if it goes on.
    pub(super) fn pass_built_in<D: Driver<Packet = P>>(
        &mut self,
        moment: Moment<'_>,
        driver: &mut D,
        (number, course, port): (usize, Course, NetPort),
        mut packet: P,
    ) -> Option<P> {
        driver.met_function(&mut packet, number);
        let mut fields = std::mem::take(&mut self.chains.fields);
        let state = &mut self.chains.built_in[number];
        let hop = course.index();
        let bytes = driver.bytes(&packet);
        state.hops[hop].count_in(bytes);
        let passing = PassingPacket { course, headers: driver.headers(&packet), bytes };
        let verdict = state.function.process(moment.now, &passing, &mut fields);
        let passed = match verdict {
            Verdict::Drop => lose(driver, Loss::Function, packet),
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
