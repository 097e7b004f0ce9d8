//! Packets that somebody wants to see: what leaves by a port and crosses its link is shown to the driver.
//!
//! Nobody else pays for it. A port that is observed has an egress of another kind, which packets look at anyway; and no path
//! ([`crate::paths`]) leads over it, so that all that crosses it comes by here.

use topology::NetPort;

use crate::driver::Driver;
use crate::graph::{Egress, EgressKind, Graph, Moment};

impl Egress {
    fn set_observed(&mut self, is_observed: bool) {
        self.is_observed = is_observed;
        self.kind = match self.kind {
            EgressKind::Single | EgressKind::Observed if is_observed => EgressKind::Observed,
            EgressKind::Single | EgressKind::Observed => EgressKind::Single,
            kind @ (EgressKind::InBond | EgressKind::OfMultiHomed | EgressKind::Elsewhere) => kind,
        };
    }
}

impl<P> Graph<P> {
    /// From now on the driver is shown what leaves by these ports ([`Driver::observe`]), and what leaves by others is not. Of ports whose egress belongs to another
    /// part of the graph, it is shown there.
    ///
    /// # Panics
    /// If there is no such port.
    pub fn observe(&mut self, ports: impl IntoIterator<Item = NetPort>) {
        for egress in &mut self.egress {
            egress.set_observed(false);
        }
        for port in ports {
            self.egress[port].set_observed(true);
        }
        self.paths.forget();
    }

    /// Offers a packet to the link of a port that is observed, and shows it if it is not lost there: `cross` otherwise.
    #[cold]
    #[inline(never)]
    pub(crate) fn cross_and_show<D: Driver<Packet = P>>(
        &mut self,
        Moment { now, .. }: Moment<'_>,
        driver: &mut D,
        port: NetPort,
        packet: P,
    ) -> Option<(NetPort, P)> {
        let egress = &mut self.egress[port];
        let (at, packet) = egress.offer(now, driver, packet)?;
        let (left, far) = (egress.link.idle_at(), egress.far);
        driver.observe(port, left.min(at), at, &packet);
        driver.carry(now, at, far, packet).map(|packet| (far, packet))
    }
}
