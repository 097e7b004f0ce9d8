//! Balancers' timers, carriers and messages, in the graph.

use machine::Time;
use topology::{LinkId, NetPort, PortId};
use vswitch::spread::FlowHash;
use vswitch::{FLOOD, Forwarding};

use super::balancer::{Balancer, Outgoing};
use super::frames;
use crate::driver::{Driver, Tag, Timer};
use crate::graph::{Graph, Moment, Tables};

impl<P> Graph<P> {
    /// The time has come that balancers have wanted.
    #[cold]
    pub(crate) fn wake_balancers<D: Driver<Packet = P>>(&mut self, moment: Moment<'_>, driver: &mut D) {
        // Else an earlier one was armed in its place.
        if self.balancers.armed == moment.now {
            self.balancers.armed = Time::NEVER;
            for at in 0..self.balancers.all.len() {
                self.drive_balancer(moment, driver, at);
            }
        }
        self.release_first_segments(moment, driver);
    }

    /// Has all balancers take part, and say what they have to say; what they were to be woken for is forgotten.
    pub(crate) fn start_balancers<D: Driver<Packet = P>>(&mut self, moment: Moment<'_>, driver: &mut D) {
        self.balancers.armed = Time::NEVER;
        for at in 0..self.balancers.all.len() {
            self.balancers.all[at].start(moment.now);
            self.drive_balancer(moment, driver, at);
        }
    }

    /// Has one do what is due, and sends what it says.
    pub(super) fn drive_balancer<D: Driver<Packet = P>>(&mut self, moment: Moment<'_>, driver: &mut D, at: usize) {
        let Moment { tables, now } = moment;
        let mut out = Vec::new();
        self.balancers.all[at].advance(now, &mut out);
        let port = port_of(tables, &self.balancers.all[at]);
        for outgoing in out {
            let Some(own) = tables.services.balancers.get(at) else { break };
            match outgoing {
                Outgoing::Sync(to, message) => {
                    let Some(other) = tables.services.balancers.iter().find(|other| other.host == to) else { continue };
                    let forwarding = Forwarding { to, hash: FlowHash(0) };
                    self.send_own(moment, driver, port, (&frames::sync(own, other, &message), forwarding));
                }
                Outgoing::Advertise { service, priority } => {
                    let service_at = &tables.services.all[service];
                    let Some(settings) = &service_at.vrrp else { continue };
                    let frame = frames::advertisement(own, settings, priority, &service_at.addresses);
                    // The switch next to it learns where the virtual router is.
                    if self.egress[port].is_up() && priority != balance::RESIGNED {
                        self.balancers.active[service] = Some(at);
                    }
                    self.send_own(moment, driver, port, (&frame, self.flooding()));
                }
                Outgoing::Active { service } => {
                    for address in &tables.services.all[service].addresses {
                        self.send_own(moment, driver, port, (&frames::announcement(address), self.flooding()));
                    }
                }
            }
        }
        self.arm_balancers(moment, driver, at);
    }

    fn send_own<D: Driver<Packet = P>>(
        &mut self,
        moment: Moment<'_>,
        driver: &mut D,
        port: NetPort,
        (frame, forwarding): (&[u8], Forwarding),
    ) {
        if let Some(packet) = driver.make(frame, forwarding, Tag::None) {
            self.put(moment, driver, port, packet);
        }
    }

    pub(super) fn arm_balancers<D: Driver<Packet = P>>(&mut self, moment: Moment<'_>, driver: &mut D, at: usize) {
        let until = self.balancers.all[at].next_time(moment.now);
        if until < self.balancers.armed {
            self.balancers.armed = until;
            driver.wake_at(until, Timer::Balancers);
        }
    }

    /// Balancers hear of the carrier of a link.
    pub(crate) fn report_carrier_to_balancers<D: Driver<Packet = P>>(
        &mut self,
        moment: Moment<'_>,
        driver: &mut D,
        link: LinkId,
        up: bool,
    ) {
        for at in 0..self.balancers.all.len() {
            let port = port_of(moment.tables, &self.balancers.all[at]);
            if moment.tables.map.ends(link).contains(&port) {
                self.balancers.all[at].set_carrier(moment.now, up);
                self.drive_balancer(moment, driver, at);
            }
        }
    }

    /// The same of a link that has no carrier from the beginning.
    pub(crate) fn start_balancers_without(&mut self, tables: &Tables, now: Time, port: NetPort) {
        for balancer in &mut self.balancers.all {
            if port_of(tables, balancer) == port {
                balancer.set_carrier(now, false);
            }
        }
    }

    /// Shows a balancer a frame that has come to its host, if it is one of its own protocols. Whether that was for it alone.
    pub(super) fn hear_at_balancer<D: Driver<Packet = P>>(
        &mut self,
        moment: Moment<'_>,
        driver: &mut D,
        at: usize,
        packet: &P,
    ) -> bool {
        let Moment { tables, now } = moment;
        let Some(frame) = driver.frame(packet) else { return false };
        let Some(own) = tables.services.balancers.get(at) else { return false };
        let is_own = if driver.forwarding(packet).to == FLOOD {
            let Some((is_ipv6, heard)) = frames::read_advertisement(frame) else { return false };
            self.balancers.all[at].hear_advertisement(now, is_ipv6, heard);
            // Programs in the host may want to hear it, too.
            false
        } else {
            let Some((from, message)) = frames::read_sync(frame, own.ipv4) else { return false };
            let Some(peer) = tables.services.balancers.iter().find(|peer| peer.ipv4 == from) else { return false };
            self.balancers.all[at].hear_sync(now, peer.host, &tables.host_table, message);
            true
        };
        self.drive_balancer(moment, driver, at);
        is_own
    }
}

/// The port of a balancer's host, which has one.
fn port_of(tables: &Tables, balancer: &Balancer) -> NetPort {
    tables.map.port(balancer.host(), PortId(0))
}
