//! What hosts announce of their own accord about their addresses, where the host table does not speak for them: their bond is in balance-alb, or
//! in active-backup with `fail_over_mac: active`. Answers go from host to host like other frames; here is what goes to all.

use topology::BondEndId;
use vswitch::neighbour::claim;
use vswitch::spread::FlowHash;
use vswitch::{FLOOD, Forwarding};

use crate::driver::{Driver, Loss, Tag};
use crate::graph::{Graph, Moment};

/// Announcements that are let through to all hosts within a tenth of a second of each end of a bond, lest a host flood the network:
/// its IPv4 and its IPv6 address four times.
const ALLOWED: u32 = 8;

impl<P> Graph<P> {
    /// The host at the other end of a bond may have announced to everybody which address it has from here on: all hosts beyond this end hear it.
    pub(crate) fn spread_announcement<D: Driver<Packet = P>>(
        &mut self,
        moment: Moment<'_>,
        driver: &mut D,
        end: BondEndId,
        packet: &P,
    ) {
        let Moment { tables, now } = moment;
        let (spec, host_table) = (&tables.bonds[end], &tables.host_table);
        let from = tables.bonds[spec.partner].node;
        let is_announcement = host_table.answers_itself(from)
            && driver
                .frame(packet)
                .and_then(|frame| claim(frame, host_table))
                .is_some_and(|claim| claim.is_announcement && claim.host == from);
        if !is_announcement {
            return;
        }
        if !self.end(end).announced.take(now, ALLOWED) {
            return driver.count(Loss::Storm);
        }
        let Some(mut copy) = driver.copy(packet) else { return };
        driver.set_tag(&mut copy, Tag::None);
        driver.set_forwarding(&mut copy, Forwarding { to: FLOOD, hash: FlowHash(0) });
        self.go_on(moment, driver, end, copy);
    }
}
