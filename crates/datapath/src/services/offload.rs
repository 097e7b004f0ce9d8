//! Connections whose packets a driver carries by itself, without showing them here: those that go on as they are, over paths on which nothing else is to be done.
//!
//! ```text
//!   auto: has been answered, asks again (or is long) ---------+
//!   yes:  its handshake is complete (UDP: has been answered) --+--> path? --> driver: offload --> carried, by direction
//!                                                                                                  |  what has passed: count_offloaded
//!   first and last segments come here all the same; with the last ones, or when it is no more: ----+--> withdrawn
//! ```
//!
//! Datagrams have no last one. They are withdrawn when nothing has passed for as long as their connection lives, and when their server is dead: the next one goes to another.

use machine::Time;
use topology::{NetPort, NodeId};
use vswitch::conntrack::{TcpState, Tracked};
use wire::protocol;

use balance::Scheduler;

use super::state::{SERVER_BITS, ServiceState, of_mark};
use super::{ForwardingMethod, Service};
use crate::driver::Driver;
use crate::graph::{Graph, Moment};
use crate::offload::{ConnectionId, KernelUse, OffloadOutcome, OffloadedFlow};
use crate::paths::{Exit, Origin};

/// A direction of a connection in which so many packets have come is worth it, whatever they say.
const LONG: u8 = 16;

/// A connection that could not be carried is not tried again for so long.
const RETRY: machine::Span = machine::Span::from_ms(100);

/// What is known of a connection in both directions: that of its first packet, and that of answers.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Offloading {
    /// Packets, as far as they matter, and how often its server has answered.
    seen: [u8; 2],
    answers: u8,
    is_carried: [bool; 2],
    /// Whether the driver has had no room for it, which is counted once.
    had_no_room: bool,
    /// Not before.
    retry_at: Time,
}

impl Offloading {
    pub(super) fn is_carried(&self) -> bool {
        self.is_carried != [false; 2]
    }
}

impl machine::Rebase for Offloading {
    fn rebase(&mut self, by: machine::Span) {
        let Self { seen: _, answers: _, is_carried: _, had_no_room: _, retry_at } = self;
        retry_at.rebase(by);
    }
}

/// Connections that are carried, or are about to be.
#[derive(Debug, Default)]
pub(super) struct Offloads {
    /// Whether there is a driver that carries them.
    is_possible: bool,
    /// The direction of a connection whose packet was processed last, if it is to be carried.
    candidate: Option<(u32, bool)>,
    /// Places of connections that are not carried any more, as long as the driver has not heard of it.
    withdrawn: Vec<u32>,
}

impl Offloads {
    /// The connection at a place is carried no more, if it was.
    #[inline]
    pub(super) fn withdraw(&mut self, place: u32, offloading: &mut Offloading) {
        if offloading.is_carried() {
            offloading.is_carried = [false; 2];
            self.withdrawn.push(place);
        }
    }
}

impl Service {
    /// Why none of its connections can be carried by the kernel; `None`: some can.
    pub fn offload_refusal(&self) -> Option<&'static str> {
        if !self.at.is_empty() {
            return Some("it is balanced at hosts");
        }
        if self.forwarding == ForwardingMethod::Tunnel {
            return Some("packets go through tunnels");
        }
        match self.spec.scheduler {
            Scheduler::PeakEwma | Scheduler::Learned | Scheduler::Prequal => {
                Some("its scheduler goes by how fast servers answer, which the kernel does not see")
            }
            Scheduler::Rr
            | Scheduler::Wrr
            | Scheduler::Lc
            | Scheduler::Wlc
            | Scheduler::Sed
            | Scheduler::Nq
            | Scheduler::Sh
            | Scheduler::Mh
            | Scheduler::P2c
            | Scheduler::Arr
            | Scheduler::Alc
            | Scheduler::Utilisation => None,
        }
    }
}

impl ServiceState {
    /// A packet of a connection has passed in a direction: whether those after it may be carried is looked at. `asks`: it wants an answer, or is one.
    ///
    /// What a server says goes with the end of its connection, if that is close behind: the client would hear of the end later, and begin it itself. So a first answer is not carried.
    #[inline]
    pub(super) fn consider_offload(
        &mut self,
        now: Time,
        place: u32,
        tracked: &Tracked,
        (is_reply, asks): (bool, bool),
    ) {
        if !self.offloads.is_possible {
            return;
        }
        let opened = &mut self.opened[place as usize];
        let kernel = self.running[opened.running as usize].kernel;
        let direction = usize::from(is_reply);
        let is_due = match (tracked.tcp, kernel) {
            (_, KernelUse::No)
            | (
                Some(TcpState::SynSent | TcpState::SynSent2 | TcpState::SynReceived),
                KernelUse::Auto | KernelUse::Yes,
            ) => false,
            (None | Some(TcpState::Established), KernelUse::Auto | KernelUse::Yes) => {
                let offloading = &mut opened.offloading;
                offloading.seen[direction] = offloading.seen[direction].saturating_add(1);
                offloading.answers = offloading.answers.saturating_add(u8::from(is_reply && asks));
                let is_worth = match kernel {
                    _ if is_reply => offloading.is_carried[0] && offloading.answers > 1,
                    KernelUse::Yes if tracked.tcp.is_some() => true,
                    KernelUse::Auto | KernelUse::Yes | KernelUse::No => asks && opened.is_answered,
                };
                is_worth || offloading.seen[direction] >= LONG
            }
            // It ends.
            _ => return self.offloads.withdraw(place, &mut opened.offloading),
        };
        let offloading = &opened.offloading;
        if is_due && !offloading.is_carried[direction] && now >= offloading.retry_at && opened.proxied().is_none() {
            self.offloads.candidate = Some((place, is_reply));
        }
    }

    /// Whether a driver carries connections from now on. None is carried at present.
    pub fn set_offload(&mut self, is_possible: bool) {
        for opened in self.opened.iter_mut().filter(|opened| opened.offloading.is_carried()) {
            opened.offloading.is_carried = [false; 2];
        }
        self.offloads = Offloads { is_possible, ..Offloads::default() };
    }

    /// Connections are carried no more, each once. Whoever carries them is to be asked after each burst.
    #[inline]
    pub(crate) fn take_withdrawn(&mut self) -> Option<u32> {
        self.offloads.withdrawn.pop()
    }

    /// The direction of a connection whose packet was processed last, if it is to be carried.
    #[inline]
    pub(super) fn take_candidate(&mut self) -> Option<(u32, bool)> {
        self.offloads.candidate.take()
    }

    /// A direction of a connection is carried from now on, or could not be.
    pub(super) fn note_offloaded(&mut self, now: Time, (place, is_reply): (u32, bool), is_carried: bool) {
        let opened = &mut self.opened[place as usize];
        if !is_carried {
            opened.offloading.retry_at = now + RETRY;
            return;
        }
        opened.offloading.is_carried[usize::from(is_reply)] = true;
        // Whether it is, nobody will see: a reset from its server is no failure then.
        opened.is_answered = true;
        if let Some(conntrack) = &mut self.conntrack {
            // Where its segments stand is not known from now on.
            conntrack.forget_windows(place);
        }
        if std::mem::take(&mut opened.waits) {
            // Nobody will see the answer.
            self.running[opened.running as usize].machine.withdrawn(opened.server);
        }
    }

    /// The driver has no room for a direction of a connection.
    pub(super) fn note_no_room(&mut self, (place, _): (u32, bool)) {
        let opened = &mut self.opened[place as usize];
        if !std::mem::replace(&mut opened.offloading.had_no_room, true) {
            self.running[opened.running as usize].no_room += 1;
        }
    }

    /// Whether packets of this direction of a connection come from this host.
    pub(super) fn is_sender(&self, (place, is_reply): (u32, bool), from: NodeId) -> bool {
        let Some(opened) = self.opened.get(place as usize) else { return false };
        if !is_reply {
            return opened.client == Some(from);
        }
        let hosts = &self.running[opened.running as usize].hosts;
        hosts.get(opened.server.index()).copied().flatten().is_some_and(|server| server.host == from)
    }

    /// The mark of the connection at a place.
    fn mark(&self, place: u32) -> Option<u32> {
        let opened = self.opened.get(place as usize)?;
        Some(opened.running << SERVER_BITS | opened.server.index() as u32)
    }

    /// So much has passed by a flow that is carried, or was.
    pub(crate) fn count_offloaded(
        &mut self,
        now: Time,
        place: u32,
        flow: &OffloadedFlow,
        (packets, bytes): (u64, u64),
    ) {
        let (running, server) = of_mark(flow.mark);
        let Some(running) = self.running.get_mut(running) else { return };
        running.offloaded += packets;
        if let Some(counters) = running.servers.get_mut(server) {
            let (of_packets, of_bytes) = if flow.is_reply {
                (&mut counters.out_packets, &mut counters.out_bytes)
            } else {
                (&mut counters.in_packets, &mut counters.in_bytes)
            };
            *of_packets += packets;
            *of_bytes += bytes;
        }
        let Some(opened) = self.opened.get_mut(place as usize) else { return };
        if !opened.offloading.is_carried[usize::from(flow.is_reply)] {
            return;
        }
        if flow.tuple.protocol == protocol::UDP && running.machine.is_dead(opened.server) {
            self.offloads.withdraw(place, &mut opened.offloading);
        } else if let Some(conntrack) = &mut self.conntrack {
            conntrack.keep_alive(now, place);
        }
    }
}

impl<P> Graph<P> {
    /// Has the driver carry the packets that follow one which has just passed a service, if that is possible.
    #[inline]
    pub(super) fn offload<D: Driver<Packet = P>>(
        &mut self,
        moment: Moment<'_>,
        driver: &mut D,
        port: NetPort,
        packet: &P,
    ) {
        if let Some(candidate) = self.services.take_candidate() {
            self.try_offload(moment, driver, (candidate, port), packet);
        }
    }

    #[cold]
    fn try_offload<D: Driver<Packet = P>>(
        &mut self,
        moment: Moment<'_>,
        driver: &mut D,
        (candidate, port): ((u32, bool), NetPort),
        packet: &P,
    ) {
        let flow = self.flow_of(moment, driver, (candidate, port), packet);
        let outcome = flow.map_or(OffloadOutcome::Impossible, |flow| driver.offload(moment.now, &flow));
        if outcome == OffloadOutcome::NoRoom {
            self.services.note_no_room(candidate);
        }
        self.services.note_offloaded(moment.now, candidate, outcome == OffloadOutcome::Carried);
    }

    /// The flow of a packet that has passed a service and leaves its host by this port; `None` if it is to be seen on its way.
    fn flow_of<D: Driver<Packet = P>>(
        &self,
        moment: Moment<'_>,
        driver: &D,
        ((place, is_reply), port): ((u32, bool), NetPort),
        packet: &P,
    ) -> Option<OffloadedFlow> {
        let (from, forwarding) = (moment.tables.map.node(port), driver.forwarding(packet));
        // Whoever makes up a packet of another host's connection does not get it.
        if !self.services.is_sender((place, is_reply), from) {
            return None;
        }
        if !moment.tables.steering.is_plain(from) || from == forwarding.to {
            return None;
        }
        let (hops, Exit::Host(_)) = self.path(moment, driver, Origin::port(port), forwarding)? else { return None };
        let shared = self.services.conntrack()?.shared(moment.now, place)?;
        let (tuple, target) = if is_reply {
            (shared.reply, shared.original.reversed()?)
        } else {
            (shared.original, shared.reply.reversed()?)
        };
        Some(OffloadedFlow {
            connection: ConnectionId::OfService(place),
            is_reply,
            tuple,
            target,
            from,
            to: forwarding.to,
            mac: driver.destination(packet),
            only: None,
            mark: self.services.mark(place)?,
            hops,
        })
    }
}
