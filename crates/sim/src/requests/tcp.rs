//! What comes to the ends of connections, and what they send.

use machine::{Control as _, Step, Time};
use topology::NodeId;
use transport::{Ack, Segment, receiver, sender};
use vswitch::Forwarding;
use wire::tcp_flags::{ACK, FIN, PSH, RST, SYN};
use workload::service::Failure;

use super::connection::{Connection, Phase, Stream};
use super::frame::{Endpoint, Frame, Headers, is_summed};
use super::{Due, Output, Requests};
use crate::carried::{Carried, Content, Direction};

impl Requests<'_> {
    /// A frame has come to a host. Whether it was one of a connection.
    pub(crate) fn receive(&mut self, now: Time, host: NodeId, frame: &[u8], carried: Option<Carried>) -> bool {
        let Some(headers) = Headers::parse(frame) else { return false };
        match carried {
            Some(carried) => self.receive_carried(now, host, &headers, carried),
            // What services say themselves.
            None if headers.flags & RST != 0 => self.refused(now, host, &headers),
            // Corrupted frames carry nothing, either.
            None if headers.flags & (SYN | ACK) == SYN | ACK && is_summed(frame) => self.answer_cookie(host, &headers),
            None => return false,
        }
        true
    }

    /// The service has reset a connection.
    fn refused(&mut self, now: Time, host: NodeId, headers: &Headers) {
        let Some(client) = self.clients.iter().find(|client| client.host == host) else { return };
        let Some(&connection) = client.by_port.get(&headers.dst.1) else { return };
        let at = &self.connections[connection as usize];
        match at.phase {
            Phase::Opening if at.waits => self.fail(now, connection, Failure::Refused),
            Phase::Open if at.waits => self.fail(now, connection, Failure::Reset),
            Phase::Opening | Phase::Open | Phase::Closing(_) | Phase::Reset => self.forget(now, connection),
            Phase::Free => {}
        }
    }

    /// The service has answered a first segment with a SYN cookie, and kept nothing: whoever shows that gets a server.
    fn answer_cookie(&mut self, host: NodeId, headers: &Headers) {
        let Some(client) = self.clients.iter().find(|client| client.host == host) else { return };
        let Some(&connection) = client.by_port.get(&headers.dst.1) else { return };
        let at = &self.connections[connection as usize];
        if let (Phase::Opening, Some(asked)) = (at.phase, at.asked) {
            // What the service makes of it asks the server, as the client has asked.
            let content = Content::Segment(Direction::Up, asked);
            self.send_numbered(connection, Direction::Up, (ACK, (1, headers.seq.wrapping_add(1))), 0, content);
        }
    }

    fn receive_carried(&mut self, now: Time, host: NodeId, headers: &Headers, carried: Carried) {
        let Carried { connection, generation, content } = carried;
        let Some(at) = self.connections.get(connection as usize) else { return };
        if at.generation != generation || at.phase == Phase::Free {
            return;
        }
        let server = self.servers.iter().position(|server| server.host == host);
        let end = at.client_end;
        if let Some(server) = server {
            let own = self.servers[server].end;
            if (headers.mac, headers.dst) == (own.mac, (own.ip, own.port)) {
                let (ip, port) = headers.src;
                // With full NAT it seems to be an address of the balancer's.
                let mac = if ip == end.ip { end.mac } else { self.virtual_end.mac };
                let seen_end = Endpoint { mac, ip, port };
                self.connections[connection as usize].seen_end = seen_end;
                self.come_to_server(now, (connection, server), headers, content);
            }
        } else if (headers.mac, headers.dst) == (end.mac, (end.ip, end.port))
            && headers.src == (self.virtual_end.ip, self.virtual_end.port)
        {
            self.come_to_client(now, connection, content, headers.flags);
        }
    }

    fn come_to_server(&mut self, now: Time, (connection, server): (u32, usize), headers: &Headers, content: Content) {
        let at = &mut self.connections[connection as usize];
        match at.server {
            // A service may give it to another server until the first one has answered.
            None => at.server = Some((server, self.servers[server].end)),
            Some((known, _)) if known == server => {}
            Some(_) if headers.flags & SYN != 0 && at.served == 0 => {
                at.server = Some((server, self.servers[server].end));
                at.up.receiver = transport::ReceivingEndpoint::new(self.transport);
            }
            Some(_) => return,
        }
        match content {
            Content::Segment(Direction::Up, segment) => {
                at.up.receiver.handle(now, receiver::Input::Data(segment));
                self.poll_receiver(now, connection, Direction::Up, segment.seq == Segment::SYN);
                let at = &self.connections[connection as usize];
                if at.served < at.requests && at.up.is_read() {
                    self.ask(now, connection, server);
                }
            }
            Content::Ack(Direction::Down, ack) => {
                at.down.sender.handle(now, sender::Input::Ack(ack));
                self.poll_sender(now, connection, Direction::Down);
            }
            Content::Flags(_) if headers.flags & RST != 0 => self.forget(now, connection),
            Content::Flags(_) if headers.flags & FIN != 0 => self.send_flags(connection, Direction::Down, ACK),
            // What is its own, or means nothing.
            Content::Segment(Direction::Down, _) | Content::Ack(Direction::Up, _) | Content::Flags(_) => {}
        }
    }

    fn come_to_client(&mut self, now: Time, connection: u32, content: Content, flags: u8) {
        let at = &mut self.connections[connection as usize];
        if at.phase == Phase::Reset {
            return;
        }
        match content {
            Content::Ack(Direction::Up, ack) => {
                if at.phase == Phase::Opening {
                    at.phase = Phase::Open;
                }
                at.up.sender.handle(now, sender::Input::Ack(ack));
                self.poll_sender(now, connection, Direction::Up);
            }
            Content::Segment(Direction::Down, segment) => {
                at.down.receiver.handle(now, receiver::Input::Data(segment));
                self.poll_receiver(now, connection, Direction::Down, false);
                let at = &self.connections[connection as usize];
                if at.waits && at.answered == at.requests && at.down.is_read() {
                    self.complete(now, connection);
                }
            }
            Content::Flags(_) if flags & FIN == 0 && matches!(at.phase, Phase::Closing(_)) => {
                self.forget(now, connection);
            }
            Content::Segment(Direction::Up, _) | Content::Ack(Direction::Down, _) | Content::Flags(_) => {}
        }
    }

    pub(super) fn tick(
        &mut self,
        now: Time,
        (connection, generation): (u32, u32),
        direction: Direction,
        is_sender: bool,
    ) {
        let at = &mut self.connections[connection as usize];
        if at.generation != generation || at.phase == Phase::Free {
            return;
        }
        let stream = stream(at, direction);
        let armed = &mut stream.armed[usize::from(!is_sender)];
        if *armed != now {
            // An earlier one was armed in its place.
            return;
        }
        *armed = Time::NEVER;
        if is_sender {
            stream.sender.handle(now, sender::Input::Tick);
            self.poll_sender(now, connection, direction);
        } else {
            stream.receiver.handle(now, receiver::Input::Tick);
            self.poll_receiver(now, connection, direction, false);
        }
    }

    pub(super) fn poll_sender(&mut self, now: Time, connection: u32, direction: Direction) {
        loop {
            match stream(&mut self.connections[connection as usize], direction).sender.poll(now) {
                Step::Do(segment) => self.send_segment(connection, direction, segment),
                Step::Wait(until) => return self.arm(until, connection, direction, true),
            }
        }
    }

    fn poll_receiver(&mut self, now: Time, connection: u32, direction: Direction, answers_syn: bool) {
        loop {
            match stream(&mut self.connections[connection as usize], direction).receiver.poll(now) {
                Step::Do(ack) => self.send_ack(connection, direction, ack, answers_syn),
                Step::Wait(until) => return self.arm(until, connection, direction, false),
            }
        }
    }

    fn arm(&mut self, until: Time, connection: u32, direction: Direction, is_sender: bool) {
        let at = &mut self.connections[connection as usize];
        let generation = at.generation;
        let armed = &mut stream(at, direction).armed[usize::from(!is_sender)];
        if until < *armed {
            *armed = until;
            self.due.push(until, Due::Timer { connection, generation, direction, is_sender });
        }
    }

    fn send_segment(&mut self, connection: u32, direction: Direction, segment: Segment) {
        let at = &mut self.connections[connection as usize];
        let (payload, flags) = match segment.seq {
            Segment::SYN => {
                at.asked = Some(segment);
                (0, SYN)
            }
            Segment::SYN_ANSWERED => (0, ACK),
            seq => {
                let (payload, is_last) = stream(at, direction).payload(seq);
                let ends = is_last && direction == Direction::Down && self.load.new_connections;
                let flag = |flag, is_set| if is_set { flag } else { 0 };
                (payload, ACK | flag(PSH, is_last) | flag(FIN, ends))
            }
        };
        self.send(connection, direction, flags, payload, Content::Segment(direction, segment));
    }

    fn send_ack(&mut self, connection: u32, of: Direction, ack: Ack, answers_syn: bool) {
        let back = if of == Direction::Up { Direction::Down } else { Direction::Up };
        let flags = if answers_syn { SYN | ACK } else { ACK };
        self.send(connection, back, flags, 0, Content::Ack(of, ack));
    }

    pub(super) fn send_flags(&mut self, connection: u32, direction: Direction, flags: u8) {
        self.send(connection, direction, flags, 0, Content::Flags(direction));
    }

    /// A packet leaves the end of a connection that sends in this direction.
    fn send(&mut self, connection: u32, direction: Direction, flags: u8, payload: u32, content: Content) {
        self.send_numbered(connection, direction, (flags, (0, 0)), payload, content);
    }

    /// The same with these numbers.
    fn send_numbered(
        &mut self,
        connection: u32,
        direction: Direction,
        (flags, numbers): (u8, (u32, u32)),
        payload: u32,
        content: Content,
    ) {
        let at = &self.connections[connection as usize];
        let carried = Carried { connection, generation: at.generation, content };
        let client = &self.clients[at.client];
        let (from, frame, to) = match (direction, &at.server) {
            (Direction::Up, _) => {
                (client.host, Frame::new(&at.client_end, &self.virtual_end, flags, numbers), self.first)
            }
            (Direction::Down, Some((server, end))) => {
                let to = if at.seen_end.mac == client.mac { client.host } else { self.first };
                (self.servers[*server].host, Frame::new(end, &at.seen_end, flags, numbers), to)
            }
            // Nobody has it who could say something.
            (Direction::Down, None) => return,
        };
        let forwarding = Forwarding { to, hash: frame.hash() };
        let bytes = self.transport.header_bytes.saturating_add(payload);
        let more = bytes.saturating_sub(frame.bytes().len() as u32);
        self.out.push_back(Output::Send { from, frame, more, forwarding, carried });
    }
}

const fn stream(connection: &mut Connection, direction: Direction) -> &mut Stream {
    match direction {
        Direction::Up => &mut connection.up,
        Direction::Down => &mut connection.down,
    }
}
