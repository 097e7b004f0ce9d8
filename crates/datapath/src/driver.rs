//! What the graph asks of whoever drives it.

use std::borrow::Cow;

use bond::end::{Output, Received};
use bond::{Config, End, MemberId, Summary, Transmit};
use machine::Time;
use rstp::PortState;
use topology::{BondEndId, NetPort, NodeId};
use vswitch::{Action, Field, Forwarding};

use crate::offload::{OffloadOutcome, OffloadedFlow};

/// What an end of a bond writes on what it sends, as a tag would before the frame.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Tag {
    /// It writes nothing.
    #[default]
    None,
    /// The number of the packet among those that this end has sent.
    Number(u32),
    /// It is of the bond's own: LACP, announcements. Nobody else gets it.
    Control,
}

/// Why a packet went nowhere, where no link has counted it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Loss {
    /// A switch knows no path to its destination.
    NoRoute,
    /// The bond has no member that it could leave by.
    NoMember,
    /// It was under way when links changed: on a link of another part of the graph that was cut, or by a tree that is no more.
    Cut,
    /// Storm control: a host sends too much to everybody.
    Storm,
    /// A switch's pipeline looks at headers that it does not have, or writes them.
    Malformed,
    /// A switch's pipeline drops it.
    Pipeline,
    /// A port of a switch does not carry the VLAN that it is in.
    Vlan,
    /// A port of a switch that speaks RSTP does not forward.
    Discarding,
    /// The pipelines of switches send packets in a circle that takes no time.
    Loop,
    /// It is for a service, which has counted why nobody gets it.
    Service,
    /// It is for a service with full NAT, and none of the balancer's own ports is left.
    NoPort,
    /// A meter of a switch's pipeline drops it.
    Meter,
    /// A built-in function of its chain drops it, and has counted why.
    Function,
    /// A function of its chain is down, and the chain lets nobody pass unchecked.
    FunctionDown,
    /// It is for a chain, or comes from a function of one, and is for everybody or nobody.
    Stray,
    /// It is for a service or a name server, and a checksum of it is wrong.
    Checksum,
    /// The same, and no station can have sent it from its source address: a group's, a service's, ..
    Martian,
    /// The same, and its hops are used up.
    HopLimit,
}

impl Loss {
    /// All of them.
    pub const ALL: [Self; 18] = [
        Self::NoRoute,
        Self::NoMember,
        Self::Cut,
        Self::Storm,
        Self::Malformed,
        Self::Pipeline,
        Self::Vlan,
        Self::Discarding,
        Self::Loop,
        Self::Service,
        Self::NoPort,
        Self::Meter,
        Self::Function,
        Self::FunctionDown,
        Self::Stray,
        Self::Checksum,
        Self::Martian,
        Self::HopLimit,
    ];

    /// Its name in counters and results.
    pub const fn name(self) -> &'static str {
        match self {
            Self::NoRoute => "no route to host",
            Self::NoMember => "bond without a usable member",
            Self::Cut => "link or host removed",
            Self::Storm => "storm control",
            Self::Malformed => "malformed",
            Self::Pipeline => "dropped by a flow",
            Self::Vlan => "not in its VLAN",
            Self::Discarding => "port does not forward (RSTP)",
            Self::Loop => "forwarding loop",
            Self::Service => "not served",
            Self::NoPort => "no source port left",
            Self::Meter => "dropped by a meter",
            Self::Function => "dropped by a function of a chain",
            Self::FunctionDown => "function of a chain down",
            Self::Stray => "stray in a chain",
            Self::Checksum => "wrong checksum",
            Self::Martian => "martian source",
            Self::HopLimit => "TTL 0",
        }
    }
}

/// What a driver wakes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Timer {
    /// This end of a bond.
    End(BondEndId),
    /// The control machine of the switch with this number among the switches.
    Switch(u32),
    /// The RSTP machine of the switch with this number among the switches.
    Bridge(u32),
    /// The watches over functions of service chains.
    Chains,
    /// The balancers of services that are at hosts.
    Balancers,
}

/// The clock's side of the graph: packets, their bytes, the queue of what is under way, hosts.
pub trait Driver {
    /// A packet. Whoever has it owns it.
    type Packet;

    /// So many packets may pass pipelines at one instant. Pipelines may send a packet in a circle, and where links take no time it would go round for
    /// ever.
    const AT_ONCE_MAX: u32;

    /// Whether frames of hosts have checksums, and may be anything. Simulated hosts send nothing but what is right, and sum nothing.
    const HAS_CHECKSUMS: bool = true;

    /// Its length in bytes, from the destination address on, without frame check sequence.
    fn bytes(&self, packet: &Self::Packet) -> u32;

    /// Where it goes.
    fn forwarding(&self, packet: &Self::Packet) -> Forwarding;

    /// Has it go somewhere else.
    fn set_forwarding(&mut self, packet: &mut Self::Packet, forwarding: Forwarding);

    /// Has this very packet go to a function of a chain, or on from there: others like it are elsewhere in the chain.
    fn steer(&mut self, packet: &mut Self::Packet, forwarding: Forwarding) {
        self.set_forwarding(packet, forwarding);
    }

    /// What a packet is known by again when it comes back from a function of a chain, as far as that has left it as it was.
    fn signature(&self, packet: &Self::Packet) -> u64 {
        vswitch::chain::signature(self.headers(packet))
    }

    /// Carries one direction of a connection by itself from now on, until [`Graph::take_withdrawn`](crate::Graph::take_withdrawn) says otherwise; whether it
    /// does.
    fn offload(&mut self, now: Time, flow: &OffloadedFlow) -> OffloadOutcome {
        let _ = (now, flow);
        OffloadOutcome::Impossible
    }

    /// A function of a chain, by its ingress, has gone down or come back.
    fn function_changed(&mut self, now: Time, ingress: NodeId, up: bool) {
        let _ = (now, ingress, up);
    }

    /// A port of a switch that speaks RSTP does this with frames from now on: routes are to lead around ports that do not forward.
    fn port_changed(&mut self, now: Time, port: NetPort, state: PortState) {
        let _ = (now, port, state);
    }

    /// What was learned from a port of a switch is to be forgotten.
    fn flush(&mut self, port: NetPort) {
        let _ = port;
    }

    /// A packet has been shown to a built-in function of a chain, by its number among those.
    fn met_function(&mut self, packet: &mut Self::Packet, number: usize) {
        let _ = (packet, number);
    }

    /// A packet has been shown to the pipeline of a switch, which wants this.
    fn met_pipeline(&mut self, packet: &mut Self::Packet, switch: usize, actions: &[Action]) {
        let _ = (packet, switch, actions);
    }

    /// What the end of a bond that sent it has written on it.
    fn tag(&self, packet: &Self::Packet) -> Tag;

    /// Writes on it.
    fn set_tag(&mut self, packet: &mut Self::Packet, tag: Tag);

    /// Its destination address.
    fn destination(&self, packet: &Self::Packet) -> [u8; 6];

    /// The host behind which the station is that a packet is for, which leaves by `port`, if its address has been learned. Only asked where no host of the network has it,
    /// and where there are chains.
    fn learned(&self, now: Time, port: NetPort, packet: &Self::Packet) -> Option<NodeId> {
        let _ = (now, port, packet);
        None
    }

    /// Its source address.
    fn source(&self, packet: &Self::Packet) -> [u8; 6];

    /// Changes its destination address.
    fn set_destination(&mut self, packet: &mut Self::Packet, mac: [u8; 6]);

    /// What a bond of this configuration needs to know of what comes to it: no hash.
    fn summary(&mut self, config: &Config, packet: &Self::Packet) -> Summary;

    /// Its bytes, from the destination address on; `None` if nobody has written any, as of a simulated flow's packets. What bonds send by
    /// themselves has bytes always.
    fn frame<'a>(&'a self, packet: &'a Self::Packet) -> Option<&'a [u8]>;

    /// As many of its bytes as there are, headers at least. Only asked where switches have pipelines, or where there are chains.
    fn headers<'a>(&'a self, packet: &'a Self::Packet) -> &'a [u8];

    /// The same as another program could send it on: with its checksums, where a kernel has left them to others.
    fn finished<'a>(&'a self, packet: &'a Self::Packet) -> Cow<'a, [u8]> {
        Cow::Borrowed(self.headers(packet))
    }

    /// The network of the tunnel by which it has come in, or is to leave: 0 where there is none. Only asked where switches have pipelines.
    fn tunnel(&self, packet: &Self::Packet) -> u32 {
        let _ = packet;
        0
    }

    /// Writes a header field. Only asked where switches have pipelines, or chains built-in functions.
    ///
    /// # Errors
    /// If it does not have that field: [`Field::write`].
    fn rewrite(&mut self, packet: &mut Self::Packet, field: Field) -> Result<(), wire::Error>;

    /// Puts an 802.1Q tag with this control information behind its addresses. Only asked where switches have pipelines.
    ///
    /// # Errors
    /// If it has no addresses, or there is no room for one more.
    fn push_vlan(&mut self, packet: &mut Self::Packet, tci: u16) -> Result<(), wire::Error>;

    /// Takes its outermost 802.1Q tag away. Only asked where switches have pipelines.
    ///
    /// # Errors
    /// If it has none.
    fn pop_vlan(&mut self, packet: &mut Self::Packet) -> Result<(), wire::Error>;

    /// Puts an entry on its label stack ([`wire::push_mpls`]). Only asked where switches have pipelines.
    ///
    /// # Errors
    /// If it has no Ethernet header, or there is no room for one more.
    fn push_mpls(&mut self, packet: &mut Self::Packet, ethertype: u16, entry: u32) -> Result<(), wire::Error>;

    /// Takes the uppermost entry of its label stack away ([`wire::pop_mpls`]). Only asked where switches have pipelines.
    ///
    /// # Errors
    /// If it has none.
    fn pop_mpls(&mut self, packet: &mut Self::Packet, ethertype: u16) -> Result<(), wire::Error>;

    /// Puts a header before its IP header, which begins at this byte of it. Only asked where services have tunnels.
    ///
    /// # Errors
    /// If there is no room for it.
    fn encapsulate(&mut self, packet: &mut Self::Packet, at: usize, header: &[u8]) -> Result<(), wire::Error> {
        let _ = packet;
        Err(wire::Error::Truncated { header: "headroom", need: header.len(), have: at })
    }

    /// Takes such a header away, which begins at this byte of it. The same holds.
    ///
    /// # Errors
    /// If it has none.
    fn decapsulate(&mut self, packet: &mut Self::Packet, at: usize, header: usize) -> Result<(), wire::Error> {
        let _ = packet;
        Err(wire::Error::Truncated { header: "frame", need: at + header, have: at })
    }

    /// How long the payloads are of the segments that it is to be cut into; `None`: it is not to be cut.
    fn cut_to(&self, packet: &Self::Packet) -> Option<u16> {
        let _ = packet;
        None
    }

    /// Has an end choose who sends it, and puts its source address right: [`End::transmit_frame`], or as much as that of [`End::transmit`].
    fn transmit(&mut self, now: Time, end: &mut End<Self::Packet>, packet: &mut Self::Packet) -> (Transmit, u32);

    /// [`Driver::transmit`] of packets that leave together, in their order; `chosen` has as many places. Returns the number of the first one: each has one more
    /// than the last one that was sent.
    fn transmit_burst(
        &mut self,
        now: Time,
        end: &mut End<Self::Packet>,
        packets: &mut [Self::Packet],
        chosen: &mut [Transmit],
    ) -> u32 {
        let mut first = None;
        for (packet, place) in packets.iter_mut().zip(chosen) {
            let (transmit, number) = self.transmit(now, end, packet);
            first.get_or_insert(number);
            *place = transmit;
        }
        first.unwrap_or(0)
    }

    /// Shows an end what has come from an external partner: [`End::receive_frame`].
    fn receive_from_external(
        &mut self,
        now: Time,
        end: &mut End<Self::Packet>,
        member: MemberId,
        packet: Self::Packet,
        out: &mut Vec<Self::Packet>,
    ) -> Received<Self::Packet>;

    /// Another packet like it; `None` when no memory is left for one, which the driver has counted.
    fn copy(&mut self, packet: &Self::Packet) -> Option<Self::Packet>;

    /// A packet of these bytes; `None` as with [`Driver::copy`].
    fn make(&mut self, frame: &[u8], forwarding: Forwarding, tag: Tag) -> Option<Self::Packet>;

    /// The same in the place of a packet, or beside it, of the connection that this is of. What hosts know of that which no header has is the same of it.
    fn make_like(&mut self, packet: &Self::Packet, frame: &[u8], forwarding: Forwarding) -> Option<Self::Packet> {
        let _ = packet;
        self.make(frame, forwarding, Tag::None)
    }

    /// A packet has found a long queue. Whether it is marked now (CE, RFC 3168), since its sender understands that.
    fn mark(&mut self, packet: &mut Self::Packet) -> bool;

    /// Flips a bit behind the Ethernet header of a packet, whichever `bits` say: checksums stay as they were, so that its receiver finds out.
    fn corrupt(&mut self, packet: &mut Self::Packet, bits: u64);

    /// A packet has done what it was for, or is lost.
    fn free(&mut self, packet: Self::Packet);

    /// A packet is lost.
    fn count(&mut self, loss: Loss);

    /// A packet comes to `port` at this time: [`Graph::arrive`](crate::Graph::arrive) then. `Some`: it does so now, and the driver did not keep it.
    fn carry(&mut self, now: Time, at: Time, port: NetPort, packet: Self::Packet) -> Option<Self::Packet>;

    /// A packet that crosses the link of `port`, which is observed ([`Graph::observe`](crate::Graph::observe)): when its last bit leaves there, and when it
    /// comes to the other end.
    fn observe(&mut self, port: NetPort, left: Time, arrives: Time, packet: &Self::Packet) {
        let _ = (port, left, arrives, packet);
    }

    /// A packet is to leave by `port`, which belongs to another part of the graph: [`Graph::depart`](crate::Graph::depart) there. Only asked where
    /// graphs are split.
    fn hand_over(&mut self, now: Time, port: NetPort, packet: Self::Packet);

    /// Frees what is under way to these ports, and says how many packets that were, each.
    fn throw_away(&mut self, ports: [NetPort; 2]) -> [u64; 2];

    /// A packet has come to a host, by this port of it.
    fn deliver(&mut self, now: Time, port: NetPort, packet: Self::Packet);

    /// Whether what comes to a port comes to this driver, and to no other one.
    fn is_here(&self, port: NetPort) -> bool {
        let _ = port;
        true
    }

    /// A switch has sent so many packets on their way to this host.
    fn forwarded(&mut self, switch: usize, to: NodeId, packets: u64) {
        let _ = (switch, to, packets);
    }

    /// [`Graph::wake`](crate::Graph::wake) is to be called for this one at this time.
    fn wake_at(&mut self, at: Time, timer: Timer);

    /// An end has an event for whoever watches it.
    fn note(&mut self, now: Time, end: BondEndId, output: &Output) {
        let _ = (now, end, output);
    }
}
