//! The end of a tunnel as a port: frames come and go in UDP datagrams, by VXLAN (RFC 7348) or Geneve (RFC 8926).
//!
//! With `vni=flow` a tunnel carries frames of all networks: flows match which one a frame has come by (`tun_id`), and write which one it leaves by.
//!
//! Tunnels of one machine may have the same address and port, as in Linux, if they differ by network or by their other end ([`shared_socket`]). What comes from another address than the
//! other end's, or is of a network that no tunnel carries, is lost and counted: whoever can forge that address can send frames all the same, as in every tunnel that is not encrypted. Datagrams that are longer than what the way takes are
//! cut and put together again by the kernels, which costs; `mtu: 1450` keeps them whole where it takes 1,500 bytes.
//!
//! Over virtual devices of one machine (veth) Linux hands over what it has left to a device: frames whose checksums are undone, and large TCP segments
//! that a device would have cut. They get the virtio-net header that says so. How long Linux wanted the pieces of a segment is not known: they are as
//! long as the network's links take.

mod shared_socket;

use std::io::{self, IoSlice};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use nix::errno::Errno;
use nix::sys::socket::{ControlMessage, MsgFlags, SockaddrStorage, sendmsg};
use topology::TunnelDevice;
use vswitch::segmentation::LargeSegment;
use wire::{
    ChecksumRequest, Encapsulation, Segmentation, SegmentationKind, VirtioNetPacket, VirtioNetRepr, ethertype,
    tcp_flags,
};

use self::shared_socket::{SharedSocket, SocketShare};
use crate::port::{Port, RxBurst, TxFrames, Unsent};
use crate::tap::{VNET_HEADER, VNET_LAYOUT};

/// The longest frame, in bytes: jumbo frames with a tag.
const FRAME_MAX: usize = 9_234;

/// So many datagrams that are not of the tunnel are passed over before the worker does something else.
const PASSED_OVER_MAX: usize = 64;

/// Where a tunnel's header begins in front of a frame: its end is where the frame begins, behind a virtio-net header that is not needed there.
const HEADER_AT: usize = VNET_HEADER - Encapsulation::HEADER_LEN;

/// A frame of an Ethernet has two addresses and a type at least.
const FRAME_MIN: usize = 14;

/// What Linux takes at once to send as datagrams of one length (UDP GSO): so many, of so many bytes.
const PIECES_AT_ONCE: usize = 64;
const BYTES_AT_ONCE: usize = 65_000;

/// How many calls' pieces go one by one before the kernel is asked again whether it takes them together.
const ALONE: u32 = 1_000;

/// The shortest header of TCP.
const TCP_HEADER: usize = 20;

/// TCP's checksum is so far behind the begin of its header.
const TCP_CHECKSUM: u16 = 16;

/// The end of a tunnel.
#[derive(Debug)]
pub struct TunnelPort {
    shared: Arc<SharedSocket>,
    /// What it has of that socket.
    share: Arc<SocketShare>,
    kind: Encapsulation,
    /// The only network that it carries, if there is but one.
    vni: Option<u32>,
    /// The network of the frame that was read last.
    from: u32,
    remote: SocketAddr,
    /// The longest IP packet of the network's links, in bytes.
    mtu: usize,
    /// A frame as it is sent.
    frame: Box<[u8]>,
    /// Pieces of a large segment, each with its tunnel's header, that are sent together.
    pieces: Vec<u8>,
    /// How many calls are left by which pieces go one by one: the kernel did not take them together, since they must be cut on their way, which may change.
    alone: u32,
    /// Datagrams that were not of the tunnel, or too long, since they were asked for last.
    lost: u64,
    /// Control messages of the other end since they were asked for last.
    controls: u64,
}

/// An address with a port that is still to be chosen, as it stands in a tunnel's name.
fn another(local: SocketAddr) -> String {
    match local.ip() {
        IpAddr::V4(address) => format!("{address}:PORT"),
        IpAddr::V6(address) => format!("[{address}]:PORT"),
    }
}

/// Whether an address is one of this machine, in the calling thread's network namespace: what is for it comes from it.
fn is_own(address: SocketAddr) -> io::Result<bool> {
    let any = if address.is_ipv4() { IpAddr::V4(Ipv4Addr::UNSPECIFIED) } else { IpAddr::V6(Ipv6Addr::UNSPECIFIED) };
    let probe = UdpSocket::bind((any, 0))?;
    // Nothing is sent. Where no route leads there, it is somebody else's.
    Ok(probe.connect(address).is_ok() && probe.local_addr()?.ip() == address.ip())
}

impl TunnelPort {
    /// Opens the end of a tunnel in the calling thread's network namespace, for a network with this MTU, in bytes.
    ///
    /// # Errors
    /// If another program, or another tunnel of the same network to the same other end, has the port; or whatever else the kernel says.
    pub fn open(tunnel: TunnelDevice<'_>, mtu: u32) -> io::Result<Self> {
        let port = tunnel.kind.port();
        let remote = SocketAddr::new(tunnel.remote.address, tunnel.remote.port.unwrap_or(port));
        let any = if remote.is_ipv4() { IpAddr::V4(Ipv4Addr::UNSPECIFIED) } else { IpAddr::V6(Ipv6Addr::UNSPECIFIED) };
        let local = SocketAddr::new(
            tunnel.local.map_or(any, |local| local.address),
            tunnel.local.and_then(|local| local.port).unwrap_or(port),
        );
        if remote.port() == local.port() && local.ip().is_unspecified() && is_own(remote)? {
            let circle =
                format!("{} is this machine, so that what is sent comes back: name the other end", remote.ip());
            return Err(io::Error::new(io::ErrorKind::InvalidInput, circle));
        }
        let joined = SharedSocket::join(local, tunnel.kind, (remote.ip(), tunnel.vni));
        let (shared, share) = joined.map_err(|error| match error.kind() {
            io::ErrorKind::AddrInUse => {
                let taken =
                    format!("UDP port {} is taken: `local={}` has it use another one", local.port(), another(local));
                io::Error::new(error.kind(), taken)
            }
            _ => error,
        })?;
        let frame = vec![0; VNET_HEADER + FRAME_MAX].into();
        Ok(Self {
            shared,
            share,
            kind: tunnel.kind,
            vni: tunnel.vni,
            from: 0,
            remote,
            mtu: mtu as usize,
            frame,
            pieces: Vec::new(),
            alone: 0,
            lost: 0,
            controls: 0,
        })
    }

    /// Readable when a frame waits.
    ///
    /// # Errors
    /// If the kernel has no descriptor left.
    pub fn descriptor(&self) -> io::Result<Arc<OwnedFd>> {
        Ok(Arc::new(self.share.as_fd().try_clone_to_owned()?))
    }

    /// The datagram of a frame of a network that `fill` writes behind its virtio-net header, which may ask for a checksum, but for nothing else.
    fn datagram(&mut self, vni: u32, fill: impl FnOnce(&mut [u8]) -> Option<usize>) -> io::Result<&[u8]> {
        let len = fill(&mut self.frame).ok_or(io::ErrorKind::InvalidInput)?;
        let header = VirtioNetPacket::new_checked(&self.frame[..len], VNET_LAYOUT);
        if let Some((at, sum)) = header.ok().and_then(|header| header.missing_checksum()) {
            self.frame[VNET_HEADER + at..VNET_HEADER + at + 2].copy_from_slice(&sum.to_be_bytes());
        }
        self.frame[HEADER_AT..VNET_HEADER].copy_from_slice(&self.kind.emit(vni));
        Ok(&self.frame[HEADER_AT..len])
    }

    /// Sends the frame that `fill` writes by itself.
    fn send(&mut self, vni: u32, fill: impl FnOnce(&mut [u8]) -> Option<usize>) -> io::Result<()> {
        let len = self.datagram(vni, fill)?.len();
        self.shared.socket.send_to(&self.frame[HEADER_AT..HEADER_AT + len], self.remote).map(drop)
    }

    /// Sends a large segment in pieces, as many at a time as the kernel takes.
    fn send_pieces(&mut self, vni: u32, segment: &LargeSegment<'_>) -> io::Result<()> {
        let mut next = 0;
        while next < segment.count() {
            let from = next;
            self.pieces.clear();
            let mut each = 0;
            while next < segment.count() && next - from < PIECES_AT_ONCE && self.pieces.len() + each <= BYTES_AT_ONCE {
                let len = self.datagram(vni, |out| segment.emit(next, out))?.len();
                self.pieces.extend_from_slice(&self.frame[HEADER_AT..HEADER_AT + len]);
                // All but the last one of a segment are as long as the first.
                each = if next == from { len } else { each };
                next += 1;
            }
            if !self.send_joined(each)? {
                for datagram in self.pieces.chunks(each) {
                    self.shared.socket.send_to(datagram, self.remote)?;
                }
            }
        }
        Ok(())
    }

    /// Sends the pieces by one call, `each` bytes a datagram; `false` if they have to go one by one, since their way takes less or the kernel knows no other.
    fn send_joined(&mut self, each: usize) -> io::Result<bool> {
        let Ok(size) = u16::try_from(each) else { return Ok(false) };
        if self.alone > 0 {
            self.alone -= 1;
            return Ok(false);
        }
        let to = SockaddrStorage::from(self.remote);
        let parts = [IoSlice::new(&self.pieces)];
        let control = [ControlMessage::UdpGsoSegments(&size)];
        match sendmsg(self.shared.socket.as_raw_fd(), &parts, &control, MsgFlags::empty(), Some(&to)) {
            Ok(_) => Ok(true),
            Err(Errno::EINVAL | Errno::EIO | Errno::EOPNOTSUPP | Errno::ENOPROTOOPT) => {
                self.alone = ALONE;
                Ok(false)
            }
            Err(error) => Err(error.into()),
        }
    }

    /// The virtio-net header of a frame as it has come; `None` if it is too long for one.
    fn header(&self, frame: &[u8]) -> Option<VirtioNetRepr> {
        let checksum = wire::undone_checksum(frame);
        let segmentation = checksum.and_then(|undone| self.segmentation(frame, undone));
        let is_carried = segmentation.is_some() || frame.len() <= FRAME_MAX;
        is_carried.then(|| VirtioNetRepr { checksum, segmentation, ..VirtioNetRepr::default() })
    }

    /// How a frame with this undone checksum is to be cut, if it is a TCP segment that is longer than links take.
    fn segmentation(&self, frame: &[u8], undone: ChecksumRequest) -> Option<Segmentation> {
        if undone.offset != TCP_CHECKSUM || frame.len() <= FRAME_MIN + self.mtu {
            return None;
        }
        let start = usize::from(undone.start);
        let header = usize::from(frame.get(start + 12)? >> 4) * 4;
        let payload = start + header;
        if header < TCP_HEADER {
            return None;
        }
        let is_v4 = frame[12..FRAME_MIN] == ethertype::IPV4.to_be_bytes();
        Some(Segmentation {
            kind: if is_v4 { SegmentationKind::TcpV4 } else { SegmentationKind::TcpV6 },
            ecn: frame[start + 13] & tcp_flags::CWR != 0,
            segment_bytes: u16::try_from((FRAME_MIN + self.mtu).checked_sub(payload)?).ok().filter(|len| *len > 0)?,
            header_len: u16::try_from(payload).ok()?,
        })
    }

    /// The next datagram, and where it is from: one that another tunnel of the socket has read, or one of the socket's.
    fn receive(&self, buffer: &mut [u8]) -> io::Result<(usize, IpAddr)> {
        let room = &mut buffer[HEADER_AT..];
        if let Some(datagram) = self.share.take() {
            // One that does not fit is cut off, as the kernel does it.
            let len = datagram.len().min(room.len());
            room[..len].copy_from_slice(&datagram[..len]);
            return Ok((len, self.remote.ip()));
        }
        let (len, from) = self.shared.socket.recv_from(room)?;
        Ok((len, from.ip()))
    }

    /// The length of the frame in a datagram that came from `from`, and is then where it belongs, behind its virtio-net header, and its network; `None` if it is none of the tunnel:
    /// then another one of the socket may have got it, or it is lost.
    fn unwrap(&mut self, buffer: &mut [u8], datagram: usize, from: IpAddr) -> Option<(usize, u32)> {
        let bytes = &buffer[HEADER_AT..HEADER_AT + datagram];
        if let Some(vni) = self.kind.parse_control(bytes) {
            // It is for the end itself, which knows none of them.
            if self.share.is_for(from, vni) {
                self.controls += 1;
            } else if !self.shared.pass_on(bytes, (from, vni)) {
                return self.lose();
            }
            return None;
        }
        let found = self.kind.parse(bytes);
        // One that was cut off fills the buffer.
        let is_whole = HEADER_AT + datagram < buffer.len();
        let (vni, at) = found.filter(|_| is_whole).or_else(|| self.lose())?;
        if !self.share.is_for(from, vni) {
            let is_passed_on = self.shared.pass_on(&buffer[HEADER_AT..HEADER_AT + datagram], (from, vni));
            return if is_passed_on { None } else { self.lose() };
        }
        let len = datagram - at;
        let frame = (len >= FRAME_MIN).then(|| self.frame_in(buffer, (datagram, at), len)).flatten();
        frame.map(|len| (len, vni)).or_else(|| self.lose())
    }

    /// Counts a datagram as lost.
    fn lose<T>(&mut self) -> Option<T> {
        self.lost += 1;
        None
    }

    /// Moves a frame behind its virtio-net header; its length, or `None` if it is too long.
    fn frame_in(&self, buffer: &mut [u8], (datagram, at): (usize, usize), len: usize) -> Option<usize> {
        buffer.copy_within(HEADER_AT + at..HEADER_AT + datagram, VNET_HEADER);
        self.header(&buffer[VNET_HEADER..VNET_HEADER + len])?.emit(buffer);
        Some(len)
    }
}

impl AsFd for TunnelPort {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.share.as_fd()
    }
}

impl Port for TunnelPort {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<Option<usize>> {
        for _ in 0..PASSED_OVER_MAX {
            let (datagram, from) = match self.receive(buffer) {
                Ok(received) => received,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(None),
                Err(error) => return Err(error),
            };
            if let Some((len, vni)) = self.unwrap(buffer, datagram, from) {
                self.from = vni;
                return Ok(Some(VNET_HEADER + len));
            }
        }
        Ok(None)
    }

    fn rx_burst(&mut self, burst: &mut RxBurst<'_>) -> io::Result<()> {
        while burst.receive_from_tunnel(|buffer| Ok(self.read(buffer)?.map(|len| (len, self.from))))? {}
        Ok(())
    }

    fn tx_burst(&mut self, frames: TxFrames<'_>) -> Unsent {
        let mut unsent = Unsent::default();
        for (frame, vni) in frames.with_tunnels() {
            if self.write_to_network(frame, vni).is_err() {
                unsent.add(frame);
            }
        }
        unsent
    }

    fn tunnel(&self) -> u32 {
        self.from
    }

    fn has_networks(&self) -> bool {
        self.vni.is_none()
    }

    fn write(&mut self, frame: &[u8]) -> io::Result<()> {
        self.write_to_network(frame, 0)
    }

    fn write_to_network(&mut self, frame: &[u8], vni: u32) -> io::Result<()> {
        let vni = self.vni.unwrap_or(vni);
        match LargeSegment::find(frame) {
            Ok(Some(segment)) => self.send_pieces(vni, &segment),
            // What claims to be a segment and is none goes as it is, as to a wire.
            Ok(None) | Err(_) => self.send(vni, |out| {
                out.get_mut(..frame.len())?.copy_from_slice(frame);
                Some(frame.len())
            }),
        }
    }

    fn is_waiting(&self) -> bool {
        false
    }

    fn new_losses(&mut self) -> io::Result<u64> {
        Ok(std::mem::take(&mut self.lost) + self.share.take_lost())
    }

    fn new_control_messages(&mut self) -> u64 {
        std::mem::take(&mut self.controls)
    }
}

#[cfg(test)]
mod tests {
    use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

    use super::*;

    const HERE: &str = "127.0.0.1";
    const THERE: &str = "127.0.0.2";

    /// A UDP port that nobody has.
    fn free_port() -> u16 {
        UdpSocket::bind((HERE, 0)).unwrap().local_addr().unwrap().port()
    }

    fn open(name: &str) -> io::Result<TunnelPort> {
        TunnelPort::open(TunnelDevice::parse(name).unwrap().unwrap(), 1_500)
    }

    /// The two ends of a tunnel over the loopback device.
    fn ends(kind: &str) -> [TunnelPort; 2] {
        let port = free_port();
        [(HERE, THERE), (THERE, HERE)]
            .map(|(from, to)| open(&format!("{kind}:{to}:{port},vni=7,local={from}:{port}")).unwrap())
    }

    fn frame(len: usize, mark: u8) -> Vec<u8> {
        let mut frame = vec![mark; VNET_HEADER + len];
        frame[..VNET_HEADER].fill(0);
        frame[VNET_HEADER + 12..VNET_HEADER + 14].copy_from_slice(&[0x88, 0xb5]);
        frame
    }

    fn receive(port: &mut TunnelPort) -> Vec<u8> {
        let mut buffer = vec![0xff; 70_000];
        loop {
            if let Some(len) = port.read(&mut buffer).unwrap() {
                buffer.truncate(len);
                return buffer;
            }
            poll(&mut [PollFd::new(port.as_fd(), PollFlags::POLLIN)], PollTimeout::NONE).unwrap();
        }
    }

    #[test]
    fn frames_of_all_lengths_cross_in_both_directions() {
        for kind in ["vxlan", "geneve"] {
            let [mut one, mut other] = ends(kind);
            for len in [14, 60, 1_514, FRAME_MAX] {
                one.write(&frame(len, 1)).unwrap();
                assert_eq!(receive(&mut other), frame(len, 1), "{kind}");
                other.write(&frame(len, 2)).unwrap();
                assert_eq!(receive(&mut one), frame(len, 2), "{kind}");
            }
            assert_eq!(one.write(&frame(FRAME_MAX + 1, 1)).unwrap_err().kind(), io::ErrorKind::InvalidInput);
        }
    }

    #[test]
    fn a_tunnel_of_all_networks_says_which_one_a_frame_has_come_by() {
        let port = free_port();
        let [mut one, mut other] = [(HERE, THERE), (THERE, HERE)]
            .map(|(from, to)| open(&format!("geneve:{to}:{port},vni=flow,local={from}:{port}")).unwrap());
        assert!(one.has_networks());
        for vni in [0, 7, 0x00ff_ffff] {
            one.write_to_network(&frame(60, 1), vni).unwrap();
            assert_eq!((receive(&mut other), other.tunnel()), (frame(60, 1), vni));
        }
        one.write(&frame(60, 2)).unwrap();
        assert_eq!((receive(&mut other), other.tunnel()), (frame(60, 2), 0));
        let [mut one, mut other] = ends("geneve");
        one.write_to_network(&frame(60, 1), 9).unwrap();
        assert_eq!((receive(&mut other), other.tunnel()), (frame(60, 1), 7), "it has a network of its own");
    }

    #[test]
    fn what_is_not_of_the_tunnel_is_lost_and_counted() {
        let [mut one, mut other] = ends("vxlan");
        let to = other.shared.socket.local_addr().unwrap();
        let [friend, stranger] = [HERE, "127.0.0.3"].map(|from| UdpSocket::bind((from, 0)).unwrap());
        let datagram = |vni: u32, len| [&Encapsulation::Vxlan.emit(vni)[..], &vec![0; len]].concat();
        // Of another network, no frame, no header, too long for who reads it; then the right ones from another address.
        for nonsense in [datagram(8, 60), datagram(7, 13), vec![8, 0, 0], datagram(7, 2_000)] {
            friend.send_to(&nonsense, to).unwrap();
        }
        for _ in 0..100 {
            stranger.send_to(&datagram(7, 60), to).unwrap();
        }
        one.write(&frame(60, 9)).unwrap();
        let mut buffer = vec![0; 1_600];
        let mut reads = 0;
        let len = loop {
            reads += 1;
            if let Some(len) = other.read(&mut buffer).unwrap() {
                break len;
            }
            poll(&mut [PollFd::new(other.as_fd(), PollFlags::POLLIN)], PollTimeout::NONE).unwrap();
        };
        assert_eq!(buffer[..len], frame(60, 9));
        assert!(reads > 1, "others have their turn in between");
        assert_eq!((other.new_losses().unwrap(), other.new_losses().unwrap()), (104, 0));
        // Linux's tunnels send from any port.
        friend.send_to(&datagram(7, 60), to).unwrap();
        assert_eq!(receive(&mut other).len(), VNET_HEADER + 60);
    }

    #[test]
    fn large_segments_are_cut_and_checksums_completed() {
        let [mut one, mut other] = ends("geneve");
        let payload: Vec<u8> = (0..3_500_u32).map(|n| (n % 251) as u8).collect();
        // UDP that is to be cut after 1,000 bytes (`VIRTIO_NET_HDR_GSO_UDP_L4`).
        let mut large = vec![1, 5, 42, 0, 0xe8, 3, 34, 0, 6, 0];
        large.extend([2, 0, 0, 0, 0, 0x0b, 2, 0, 0, 0, 0, 0x0a, 8, 0]);
        large.extend([0x45, 0, 0x0d, 0xc8, 0, 1, 0, 0, 64, 17, 0, 0, 10, 9, 0, 1, 10, 9, 0, 2]);
        large.extend([0, 7, 0, 7, 0x0d, 0xb4, 0, 0]);
        large.extend(&payload);
        one.write(&large).unwrap();
        let pieces: Vec<_> = (0..4).map(|_| receive(&mut other)).collect();
        assert_eq!(pieces.iter().flat_map(|piece| &piece[VNET_HEADER + 42..]).copied().collect::<Vec<_>>(), payload);
        for piece in &pieces {
            assert_eq!(piece[..VNET_HEADER], [0; VNET_HEADER], "nothing is left to be done");
            let ip = wire::Ipv4Packet::new_checked(&piece[VNET_HEADER + 14..]).unwrap();
            assert!(wire::UdpPacket::new_checked(ip.payload()).is_ok());
            assert_ne!(piece[VNET_HEADER + 40..VNET_HEADER + 42], [0, 0]);
        }
    }

    /// The pieces of a segment of 60,000 bytes in pieces of 1,000, over a way that takes them and one that has to cut them.
    #[test]
    fn pieces_that_are_sent_together_arrive_one_by_one() {
        for (alone, left) in [(0, 0), (ALONE, ALONE - 1)] {
            let [mut one, mut other] = ends("vxlan");
            one.alone = alone;
            let payload: Vec<u8> = (0..60_500_u32).map(|n| (n % 251) as u8).collect();
            let mut large = vec![1, 1, 54, 0, 0xe8, 3, 34, 0, 16, 0];
            large.extend([2, 0, 0, 0, 0, 0x0b, 2, 0, 0, 0, 0, 0x0a, 8, 0]);
            large.extend([0x45, 0, 0, 0, 0, 1, 0, 0, 64, 6, 0, 0, 10, 9, 0, 1, 10, 9, 0, 2]);
            large[VNET_HEADER + 16..VNET_HEADER + 18].copy_from_slice(&60_540_u16.to_be_bytes());
            large.extend([0, 7, 0, 9, 0, 0, 0, 1, 0, 0, 0, 1, 0x50, 0x10, 1, 0, 0, 0, 0, 0]);
            large.extend(&payload);
            one.write(&large).unwrap();
            let pieces: Vec<_> = (0..61).map(|_| receive(&mut other)).collect();
            let joined: Vec<u8> = pieces.iter().flat_map(|piece| &piece[VNET_HEADER + 54..]).copied().collect();
            assert_eq!((joined == payload, one.alone), (true, left));
        }
    }

    #[test]
    fn a_tunnel_does_not_lead_to_itself() {
        let port = free_port();
        let open = |local: &str| open(&format!("vxlan:{HERE}:{port},vni=7,local={local}:{port}"));
        let error = open("0.0.0.0").unwrap_err().to_string();
        assert!(error.starts_with("127.0.0.1 is this machine"), "{error}");
        open(THERE).unwrap();
    }

    #[test]
    fn what_linux_has_left_to_a_device_is_asked_for() {
        let [one, mut other] = ends("vxlan");
        let payload = 20_000_u16;
        let mut segment =
            [&[0, 7, 0, 9, 0, 0, 0, 1, 0, 0, 0, 1, 0x50, 0x10, 1, 0, 0, 0, 0, 0][..], &vec![5; 20_000]].concat();
        let mut large = vec![2, 0, 0, 0, 0, 0x0b, 2, 0, 0, 0, 0, 0x0a, 8, 0];
        large.extend([0x45, 0, 0, 0, 0, 1, 0, 0, 64, 6, 0, 0, 10, 9, 0, 1, 10, 9, 0, 2]);
        large[16..18].copy_from_slice(&(payload + 40).to_be_bytes());
        let (src, dst) = (Ipv4Addr::new(10, 9, 0, 1), Ipv4Addr::new(10, 9, 0, 2));
        let pseudo = wire::checksum::Pseudo::V4 { src, dst, protocol: wire::protocol::TCP };
        let undone = wire::checksum::pseudo_header(&pseudo, segment.len());
        segment[16..18].copy_from_slice(&undone.to_be_bytes());
        large.extend(&segment);
        let to = other.shared.socket.local_addr().unwrap();
        one.shared.socket.send_to(&[&Encapsulation::Vxlan.emit(7)[..], &large].concat(), to).unwrap();
        let came = receive(&mut other);
        assert_eq!(came[VNET_HEADER..], large);
        let cut = LargeSegment::find(&came).unwrap().expect("a segment");
        assert_eq!(cut.count(), 20_000_usize.div_ceil(1_500 - 40));
        // A frame of this length whose checksum is done is nobody's large segment.
        large[50] ^= 1;
        one.shared.socket.send_to(&[&Encapsulation::Vxlan.emit(7)[..], &large].concat(), to).unwrap();
        one.shared.socket.send_to(&[&Encapsulation::Vxlan.emit(7)[..], &large[..60]].concat(), to).unwrap();
        assert_eq!((receive(&mut other).len(), other.new_losses().unwrap()), (VNET_HEADER + 60, 1));
    }

    /// RFC 8926, 3.4: the payload of a control packet (O) must not be forwarded.
    #[test]
    fn control_messages_are_counted_and_no_frames() {
        let [mut one, mut other] = ends("geneve");
        let to = other.shared.socket.local_addr().unwrap();
        let mut control = [&Encapsulation::Geneve.emit(7)[..], &[1; 60]].concat();
        control[1] |= 0x80;
        one.shared.socket.send_to(&control, to).unwrap();
        // Of a network that nobody has.
        control[6] = 9;
        one.shared.socket.send_to(&control, to).unwrap();
        one.write(&frame(60, 2)).unwrap();
        assert_eq!(receive(&mut other), frame(60, 2), "the frame behind them is the first that comes");
        assert_eq!((other.new_control_messages(), other.new_control_messages()), (1, 0));
        assert_eq!(other.new_losses().unwrap(), 1);
    }

    #[test]
    fn tunnels_of_several_networks_share_a_port() {
        let port = free_port();
        let open = |to: &str, vni: u32, from: &str| {
            open(&format!("vxlan:{to}:{port},vni={vni},local={from}:{port}")).expect("it can be opened")
        };
        let [mut seven, mut eight] = [7, 8].map(|vni| open(THERE, vni, HERE));
        let mut other_end = open("127.0.0.3", 7, HERE);
        let [mut far_seven, mut far_eight] = [7, 8].map(|vni| open(HERE, vni, THERE));
        let mut far_other = open(HERE, 7, "127.0.0.3");
        // Whoever reads first, each gets its own, in order.
        for mark in 1..=3 {
            far_eight.write(&frame(60, mark)).unwrap();
            far_other.write(&frame(61, mark)).unwrap();
            far_seven.write(&frame(62, mark)).unwrap();
        }
        for mark in 1..=3 {
            assert_eq!(receive(&mut seven), frame(62, mark));
        }
        for mark in 1..=3 {
            assert_eq!(receive(&mut other_end), frame(61, mark));
            assert_eq!(receive(&mut eight), frame(60, mark));
        }
        let is_readable = |port: &TunnelPort| {
            poll(&mut [PollFd::new(port.as_fd(), PollFlags::POLLIN)], PollTimeout::ZERO).unwrap() > 0
        };
        assert!([&seven, &eight, &other_end].into_iter().all(|port| !is_readable(port)), "nothing waits any more");
        seven.write(&frame(60, 9)).unwrap();
        eight.write(&frame(60, 8)).unwrap();
        assert_eq!((receive(&mut far_eight), receive(&mut far_seven)), (frame(60, 8), frame(60, 9)));
        // What is for a tunnel that has gone is lost.
        drop(eight);
        far_eight.write(&frame(60, 1)).unwrap();
        far_seven.write(&frame(60, 2)).unwrap();
        assert_eq!(receive(&mut seven), frame(60, 2));
        assert_eq!((seven.new_losses().unwrap(), other_end.new_losses().unwrap()), (1, 0));
    }

    #[test]
    fn what_nobody_fetches_does_not_pile_up() {
        let port = free_port();
        let [mut seven, mut eight] =
            [7, 8].map(|vni| open(&format!("vxlan:{THERE},vni={vni},local={HERE}:{port}")).unwrap());
        let datagram = [&Encapsulation::Vxlan.emit(8)[..], &[0; 60]].concat();
        for _ in 0..5_000 {
            assert!(seven.shared.pass_on(&datagram, (THERE.parse().unwrap(), 8)));
        }
        assert_eq!((eight.new_losses().unwrap(), seven.new_losses().unwrap()), (5_000 - 4_096, 0));
        assert_eq!(receive(&mut eight).len(), VNET_HEADER + 60);
        // As many bytes as the kernel would keep, in long ones.
        while eight.read(&mut [0; 2_000]).unwrap().is_some() {}
        let long = [&datagram[..], &vec![0; 60_000]].concat();
        (0..100).for_each(|_| assert!(seven.shared.pass_on(&long, (THERE.parse().unwrap(), 8))));
        assert_eq!(eight.new_losses().unwrap(), 100 - (4 << 20) / long.len() as u64);
        assert!(!seven.shared.pass_on(&datagram, (THERE.parse().unwrap(), 9)), "nobody has that network");
        assert!(seven.read(&mut [0; 2_000]).unwrap().is_none());
    }

    #[test]
    fn a_port_has_one_tunnel_of_a_network_and_an_end() {
        let port = free_port();
        let _one = open(&format!("vxlan:{THERE},vni=7,local={HERE}:{port}")).unwrap();
        let taken = format!("UDP port {port} is taken: `local={HERE}:PORT` has it use another one");
        // The same network, all networks, another kind.
        for same in ["vxlan:127.0.0.2,vni=7", "vxlan:127.0.0.2,vni=flow", "geneve:127.0.0.2,vni=8"] {
            let error = open(&format!("{same},local={HERE}:{port}")).unwrap_err();
            assert_eq!((error.kind(), error.to_string()), (io::ErrorKind::AddrInUse, taken.clone()), "{same}");
        }
        let _another = open(&format!("vxlan:{THERE},vni=8,local={HERE}:{port}")).expect("another network");
        let _of_all = open(&format!("vxlan:127.0.0.3,vni=flow,local={HERE}:{port}")).expect("another end");
        let _other = open(&format!("vxlan:::1,vni=7,local=[::]:{port}")).expect("IPv6 has ports of its own");
        // Another program's port is nobody's to share.
        let theirs = UdpSocket::bind((HERE, 0)).unwrap();
        let port = theirs.local_addr().unwrap().port();
        let error = open(&format!("vxlan:{THERE},vni=7,local={HERE}:{port}")).unwrap_err();
        assert_eq!(error.to_string(), format!("UDP port {port} is taken: `local={HERE}:PORT` has it use another one"));
    }
}
