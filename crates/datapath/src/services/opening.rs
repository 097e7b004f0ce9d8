//! Connections to services begin.

use balance::{Client, Denied, Outcome, ServerId};
use machine::Time;
use vswitch::conntrack::{NatRange, Refusal, Request, Segment, Tracked, Translate, TranslatedEnd, Tuple};
use vswitch::{Field, translate};
use wire::protocol;

use super::offload::Offloading;
use super::opened::{Handshake, Opened, Phase, Shared};
use super::state::{Decision, Origin, Running, SERVER_BITS, ServiceState};
use super::{ForwardingMethod, Services};

/// Ports of clients at which servers see them whose own port is another connection's.
const OTHER_PORTS: (u16, u16) = (32_768, u16::MAX);

impl Running {
    /// A connection to a server is being opened.
    pub(super) fn begin_half_open(&mut self, server: ServerId) {
        let count = self.half_open_by_server.len().max(server.index() + 1);
        self.half_open_by_server.resize(count, 0);
        self.half_open_by_server[server.index()] += 1;
        self.half_open += 1;
    }

    /// It is so no more.
    pub(super) fn end_half_open(&mut self, server: ServerId) {
        self.half_open_by_server[server.index()] -= 1;
        self.half_open -= 1;
    }

    /// How many connections to a server are being opened.
    pub(super) fn half_open_at(&self, server: ServerId) -> u32 {
        self.half_open_by_server.get(server.index()).copied().unwrap_or(0)
    }
}

impl ServiceState {
    /// Something else is known of how the connection at a place was opened, or is.
    pub(super) fn change_handshake(&mut self, place: u32, handshake: Handshake) {
        let opened = &mut self.opened[place as usize];
        let running = &mut self.running[opened.running as usize];
        match std::mem::replace(&mut opened.handshake, handshake) {
            Handshake::HalfOpen => running.end_half_open(opened.server),
            Handshake::Proxied(known) => self.joining -= u32::from(known.offset.is_none()),
            Handshake::Done => {}
        }
        match handshake {
            Handshake::HalfOpen => running.begin_half_open(opened.server),
            Handshake::Proxied(known) => self.joining += u32::from(known.offset.is_none()),
            Handshake::Done => {}
        }
    }

    /// A packet begins a connection.
    pub(super) fn open(
        &mut self,
        now: Time,
        services: &Services,
        (number, segment, from): (usize, &Segment, Origin),
        bytes: u32,
        fields: &mut Vec<Field>,
    ) -> Decision {
        let tuple = segment.tuple;
        let (service, own) = (&services.all[number], self.by_number[number] as usize);
        let running = &mut self.running[own];
        let client = Client { address: tuple.src, port: tuple.src_port };
        let server = match running.machine.open(now, &client) {
            Ok(server) => server,
            // Nobody hears from a firewall.
            Err(balance::Refusal::Denied(why)) => {
                match why {
                    Denied::Address => running.counters.denied += 1,
                    Denied::Country => running.counters.denied_country += 1,
                }
                return Decision::Drop;
            }
            Err(balance::Refusal::NoServer | balance::Refusal::Full | balance::Refusal::ClientLimit) => {
                running.counters.refused += 1;
                return Decision::Refuse;
            }
        };
        let place = running.hosts.get(server.index()).copied().flatten();
        let location = place.and_then(|place| Some((place.host, place.number?)));
        // A server would talk to itself, with its own address at both ends.
        let may_be_own = service.forwarding == ForwardingMethod::FullNat;
        let Some((host, of_file)) = location.filter(|(host, _)| *host != from.host || may_be_own) else {
            running.machine.close(now, server, false, Outcome::Expired);
            running.counters.refused += 1;
            return Decision::Refuse;
        };
        let server_end = || {
            let address = services.server_addresses[number][of_file][usize::from(tuple.is_ipv6)];
            let port = service.servers[of_file].port.unwrap_or(tuple.dst_port);
            let end = TranslatedEnd::Destination;
            NatRange { end, is_ipv6: tuple.is_ipv6, addresses: (address, address), ports: Some((port, port)) }
        };
        let translated = match service.forwarding {
            ForwardingMethod::Nat => Translate::New(server_end()),
            ForwardingMethod::FullNat => Translate::Both {
                source: service.source_range(&tuple, self.place_of(service)),
                destination: server_end(),
            },
            ForwardingMethod::DirectRouting | ForwardingMethod::Tunnel => Translate::No,
        };
        let mark = Some(((own as u32) << SERVER_BITS | server.index() as u32, u32::MAX));
        let request = Request { zone: 0, commit: true, force: false, mark, translate: translated };
        let mut tracked = self.track(now, segment, request);
        if tracked.place.is_none()
            && let Translate::New(range) = translated
        {
            tracked = self.track_beside_others(now, segment, (request, range));
        }
        let running = &mut self.running[own];
        let Some(place) = tracked.place else {
            running.machine.close(now, server, false, Outcome::Expired);
            if service.forwarding == ForwardingMethod::FullNat && tracked.refusal == Some(Refusal::NoTuple) {
                running.counters.no_port += 1;
                return Decision::Exhausted;
            }
            running.counters.full += 1;
            return Decision::Refuse;
        };
        let is_tcp = tuple.protocol == protocol::TCP;
        let opened = Opened {
            running: own as u32,
            server,
            asked_at: now,
            waits: true,
            is_answered: false,
            is_from_host: from.is_its_address,
            phase: Phase::Active,
            client: Some(from.host),
            client_mac: from.mac,
            handshake: if is_tcp { Handshake::HalfOpen } else { Handshake::Done },
            shared: Shared::default(),
            offloading: Offloading::default(),
        };
        running.connections += 1;
        if is_tcp {
            running.begin_half_open(server);
        }
        // A server finds no way to an address that nobody has, and its answer never leaves.
        if is_tcp && from.is_its_address {
            running.machine.handshake(now, server, false);
        }
        let counters = &mut running.servers[server.index()];
        counters.in_packets += 1;
        counters.in_bytes += u64::from(bytes);
        self.keep_opened(place, opened);
        self.note_opened(place);
        translate(segment, &tracked, |field| fields.push(field));
        self.tunnel = self.running[own].has_tunnels.then_some(own as u32);
        Decision::To(host)
    }

    /// The same of a connection whose answers would be another one's: two services, or two ports of one, may share a server.
    fn track_beside_others(&mut self, now: Time, segment: &Segment, (request, range): (Request, NatRange)) -> Tracked {
        let tuple = segment.tuple;
        // What has ended makes room.
        let answers =
            Tuple { dst: range.addresses.0, dst_port: range.ports.map_or(tuple.dst_port, |ports| ports.0), ..tuple };
        if let (Some(conntrack), Some(answers)) = (&mut self.conntrack, answers.reversed()) {
            conntrack.clear_ended(now, 0, &answers);
            self.note_removed(now);
        }
        let tracked = self.track(now, segment, request);
        if tracked.refusal != Some(Refusal::NoTuple) {
            return tracked;
        }
        // It has not ended: the server sees the client at another port.
        let source = NatRange {
            end: TranslatedEnd::Source,
            is_ipv6: tuple.is_ipv6,
            addresses: (tuple.src, tuple.src),
            ports: Some(OTHER_PORTS),
        };
        let translate = Translate::Both { source, destination: range };
        self.track(now, segment, Request { translate, ..request })
    }
}
