//! What a host's kernel knows of its TCP connections: their windows, and what was sent again (`TCP_INFO`, by `sock_diag(7)`, as `ss -ti` shows it).

use std::io::{self, BufRead, Write};

use netlink_packet_core::{NLM_F_DUMP, NLM_F_REQUEST, NetlinkHeader, NetlinkMessage, NetlinkPayload};
use netlink_packet_sock_diag::SockDiagMessage;
use netlink_packet_sock_diag::constants::{AF_INET, IPPROTO_TCP};
use netlink_packet_sock_diag::inet::nlas::Nla;
use netlink_packet_sock_diag::inet::{ExtensionFlags, InetRequest, InetResponse, SocketId, StateFlags};
use netlink_sys::protocols::NETLINK_SOCK_DIAG;
use netlink_sys::{Socket, SocketAddr};
use serde::{Deserialize, Serialize};

use crate::Error;
use crate::datagrams::say_ready;

/// The most that the kernel sends at once, bytes.
const DATAGRAM: usize = 64 << 10;

/// One end of a connection at a moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Connection {
    /// The port of the other end.
    pub to_port: u16,
    /// The congestion window, segments.
    pub cwnd: u32,
    /// The smoothed round-trip time, microseconds.
    pub rtt_us: u32,
    /// Segments sent again since it began.
    pub retransmits: u32,
    /// Bytes of payload that the other end has acknowledged.
    pub acked_bytes: u64,
}

/// Answers each line that comes with a line of JSON: the established connections of this host over IPv4 to one of these ports, a [`Connection`] each.
/// Says [`crate::datagrams::READY`] first, and ends with `input`.
///
/// # Errors
/// If the kernel does not say it, or nobody listens to the answers.
pub fn answer(ports: &[u16], input: impl BufRead, mut output: impl Write) -> Result<(), Error> {
    let mut diagnosis = Diagnosis::open()?;
    say_ready(&mut output)?;
    for line in input.lines() {
        line.map_err(failed("read what is asked"))?;
        let mut connections = diagnosis.connections()?;
        connections.retain(|connection| ports.contains(&connection.to_port));
        let text = serde_json::to_string(&connections).expect("plain data");
        writeln!(output, "{text}").and_then(|()| output.flush()).map_err(failed("answer"))?;
    }
    Ok(())
}

/// A way to ask the kernel.
struct Diagnosis {
    socket: Socket,
    request: Vec<u8>,
    buffer: Vec<u8>,
}

impl Diagnosis {
    fn open() -> Result<Self, Error> {
        let mut socket = Socket::new(NETLINK_SOCK_DIAG).map_err(failed("open a sock_diag socket"))?;
        socket.bind_auto().map_err(failed("bind a sock_diag socket"))?;
        socket.connect(&SocketAddr::new(0, 0)).map_err(failed("connect a sock_diag socket"))?;
        let mut header = NetlinkHeader::default();
        header.flags = NLM_F_REQUEST | NLM_F_DUMP;
        let asks = InetRequest {
            family: AF_INET,
            protocol: IPPROTO_TCP,
            extensions: ExtensionFlags::INFO,
            states: StateFlags::ESTABLISHED,
            socket_id: SocketId::new_v4(),
        };
        let mut message = NetlinkMessage::new(header, SockDiagMessage::InetRequest(asks).into());
        message.finalize();
        let mut request = vec![0; message.buffer_len()];
        message.serialize(&mut request);
        Ok(Self { socket, request, buffer: vec![0; DATAGRAM] })
    }

    /// All established connections over IPv4.
    fn connections(&mut self) -> Result<Vec<Connection>, Error> {
        let step = "ask for connections";
        self.socket.send(&self.request, 0).map_err(failed(step))?;
        let mut found = Vec::new();
        loop {
            let mut free = &mut self.buffer[..];
            let length = self.socket.recv(&mut free, 0).map_err(failed(step))?;
            let mut rest = &self.buffer[..length];
            while !rest.is_empty() {
                let message = NetlinkMessage::<SockDiagMessage>::deserialize(rest)
                    .map_err(|error| Error::System { step, source: io::Error::other(error.to_string()) })?;
                // Messages begin at multiples of four bytes.
                let length = (message.header.length as usize).next_multiple_of(4).clamp(4, rest.len());
                rest = &rest[length..];
                match message.payload {
                    NetlinkPayload::InnerMessage(SockDiagMessage::InetResponse(response)) => {
                        found.extend(connection(&response));
                    }
                    NetlinkPayload::Done(_) => return Ok(found),
                    NetlinkPayload::Error(error) => return Err(Error::System { step, source: error.to_io() }),
                    _ => {}
                }
            }
        }
    }
}

/// `None` if the kernel says nothing of it but that it is there.
fn connection(response: &InetResponse) -> Option<Connection> {
    let info = response.nlas.iter().find_map(|attribute| match attribute {
        Nla::TcpInfo(info) => Some(info),
        _ => None,
    })?;
    Some(Connection {
        to_port: response.header.socket_id.destination_port,
        cwnd: info.snd_cwnd,
        rtt_us: info.rtt,
        retransmits: info.total_retrans,
        acked_bytes: info.bytes_acked,
    })
}

fn failed(step: &'static str) -> impl Fn(io::Error) -> Error {
    move |source| Error::System { step, source }
}

#[cfg(test)]
mod tests {
    use std::io::{Cursor, Read as _};
    use std::net::{Ipv4Addr, TcpListener, TcpStream};

    use super::*;
    use crate::datagrams::READY;

    #[test]
    fn the_kernel_says_how_connections_stand() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let port = listener.local_addr().unwrap().port();
        let mut sender = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).unwrap();
        let (mut receiver, _) = listener.accept().unwrap();
        sender.write_all(&[7; 3_000]).unwrap();
        receiver.read_exact(&mut [0; 3_000]).unwrap();
        let mut said = Vec::new();
        answer(&[port], Cursor::new("\n\n"), &mut said).unwrap();
        let said = String::from_utf8(said).unwrap();
        let lines: Vec<&str> = said.lines().collect();
        assert_eq!((lines.len(), lines[0]), (3, READY), "{said}");
        // The receiver's end has a port of its own as its peer's.
        let connections: Vec<Connection> = serde_json::from_str(lines[2]).unwrap();
        let [Connection { to_port, cwnd, rtt_us, retransmits, acked_bytes }] = connections[..] else {
            panic!("{said}")
        };
        assert_eq!((to_port, retransmits), (port, 0));
        assert!(cwnd >= 2 && rtt_us > 0 && acked_bytes <= 3_001, "{said}");
    }

    #[test]
    fn others_are_left_out() {
        let mut said = Vec::new();
        answer(&[], Cursor::new("\n"), &mut said).unwrap();
        assert_eq!(String::from_utf8(said).unwrap(), format!("{READY}\n[]\n"));
    }
}
