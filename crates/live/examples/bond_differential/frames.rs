//! Frames of all kinds that a hash policy tells apart, whole, cut and broken. The same seed gives the same frames.

use machine::Rng;

const TCP: u8 = 6;
const UDP: u8 = 17;
const ICMP: u8 = 1;
const ICMPV6: u8 = 58;
const FRAGMENT: u8 = 44;

/// The shortest frame that is made: addresses, type, and six bytes. A kernel drops tagged frames below 20 bytes before a bond sees them.
const SHORTEST: usize = 20;
/// What fits a device's MTU of 1,500 with two tags.
const LONGEST: usize = 1_500;

/// Types that the kernel's dissector treats apart, and some that it does not.
const ETHERTYPES: [u16; 22] = [
    0x0800, 0x86dd, 0x0806, 0x8035, 0x8100, 0x88a8, 0x8847, 0x8848, 0x8863, 0x8864, 0x88ca, 0x8906, 0x88f7, 0x892f,
    0x88fb, 0x4305, 0x888e, 0x88cc, 0x88b5, 0x0004, 0x0026, 0x05dc,
];

/// IP protocols of the same kind.
const PROTOCOLS: [u8; 18] = [0, 1, 2, 4, 6, 17, 33, 41, 43, 44, 47, 50, 51, 58, 60, 132, 136, 137];

/// Makes frames, one after the other.
pub struct Frames {
    rng: Rng,
}

impl Frames {
    /// Frames from a seed.
    pub fn new(seed: u64) -> Self {
        Self { rng: Rng::new(seed) }
    }

    /// The next frame, from its destination address on.
    pub fn make(&mut self) -> Vec<u8> {
        loop {
            let mut frame = self.ethernet();
            match self.rng.below(8) {
                0 => {
                    let len = frame.len() as u32;
                    frame.truncate(SHORTEST + self.rng.below(len) as usize);
                }
                1 => self.damage(&mut frame),
                _ => {}
            }
            if (SHORTEST..=LONGEST).contains(&frame.len()) && may_pass(&frame) {
                return frame;
            }
        }
    }

    /// Changes some bytes behind the addresses.
    fn damage(&mut self, frame: &mut [u8]) {
        for _ in 0..=self.rng.below(3) {
            let end = frame.len().min(90) as u32;
            let place = 12 + self.rng.below(end - 12) as usize;
            frame[place] = self.byte();
        }
    }

    fn byte(&mut self) -> u8 {
        self.rng.bits() as u8
    }

    fn bytes(&mut self, len: usize) -> Vec<u8> {
        (0..len).map(|_| self.byte()).collect()
    }

    /// Bytes without a meaning, of even and odd number.
    fn payload(&mut self) -> Vec<u8> {
        let most = if self.rng.below(20) == 0 { 1_200 } else { 64 };
        let len = self.rng.below(most) as usize;
        self.bytes(len)
    }

    fn one_of<T: Copy>(&mut self, values: &[T]) -> T {
        values[self.rng.below(values.len() as u32) as usize]
    }

    fn ethernet(&mut self) -> Vec<u8> {
        let mut frame = match self.rng.below(16) {
            0 => vec![0xff; 6],
            1 => vec![0x01, 0x00, 0x5e, 0, 0, self.byte()],
            _ => vec![0x02, 0, 0, 0, 0, self.byte()],
        };
        let vendor = self.one_of(&[[0x02, 0, 0], [0x52, 0x54, 0], [0xac, 0xde, 0x48]]);
        frame.extend(vendor);
        frame.extend(self.bytes(3));
        for _ in 0..self.one_of(&[0, 0, 0, 0, 0, 1, 1, 2]) {
            frame.extend(self.one_of(&[0x8100_u16, 0x8100, 0x88a8]).to_be_bytes());
            frame.extend((self.rng.bits() as u16 & 0xf00f).to_be_bytes());
        }
        let (ethertype, payload) = self.network(3);
        frame.extend(ethertype.to_be_bytes());
        frame.extend(payload);
        frame
    }

    /// A type and what it carries; tunnels in it are no deeper than `depth`.
    fn network(&mut self, depth: u32) -> (u16, Vec<u8>) {
        match self.rng.below(16) {
            0..=6 => (0x0800, self.ipv4(depth)),
            7..=10 => (0x86dd, self.ipv6(depth)),
            11 => (0x0806, self.arp()),
            12 => self.pppoe(depth),
            13 => {
                // A label at the bottom of its stack, and one that is not.
                let label = self.one_of(&[[0, 1, 0x01, 64], [0, 1, 0x00, 64]]);
                (0x8847, [label.to_vec(), self.ipv4(depth.saturating_sub(1))].concat())
            }
            14 => {
                // Logical link control: the type is a length.
                let payload = [vec![0x42, 0x42, 3], self.payload()].concat();
                (payload.len() as u16, payload)
            }
            _ => (self.one_of(&ETHERTYPES), self.payload()),
        }
    }

    fn arp(&mut self) -> Vec<u8> {
        let mut arp = vec![0, 1, 8, 0, 6, 4, 0, 1 + self.byte() % 2];
        arp.extend(self.bytes(20));
        arp
    }

    fn pppoe(&mut self, depth: u32) -> (u16, Vec<u8>) {
        let (protocol, carried) = match self.rng.below(4) {
            0 => (vec![0, 0x21], self.ipv4(depth)),
            1 => (vec![0, 0x57], self.ipv6(depth)),
            // The protocol's number in one byte (RFC 1661, 6.5).
            2 => (vec![0x21], self.ipv4(depth)),
            _ => (vec![0xc0, 0x21], self.payload()),
        };
        let len = (protocol.len() + carried.len()) as u16;
        let header = [vec![0x11, 0, 0, self.byte()], len.to_be_bytes().to_vec()].concat();
        (0x8864, [header, protocol, carried].concat())
    }

    fn ipv4(&mut self, depth: u32) -> Vec<u8> {
        let (protocol, payload) = self.transport(depth, false);
        let words = self.one_of(&[5, 5, 5, 5, 5, 6, 10, 15]);
        // Don't fragment, first fragment, a later one, the last.
        let fragment = self.one_of(&[0_u16, 0x4000, 0x4000, 0, 0, 0x2000, 0x2010, 0x0010]);
        let len = words * 4 + payload.len();
        let mut header = vec![0x40 | words as u8, 0, (len >> 8) as u8, len as u8, self.byte(), self.byte()];
        header.extend(fragment.to_be_bytes());
        header.extend([64, protocol, 0, 0, 10, 0, 0, self.byte(), 192, 168, self.byte(), self.byte()]);
        let checksum = checksum(&header);
        header[10..12].copy_from_slice(&checksum.to_be_bytes());
        header.extend(vec![1; words * 4 - 20]);
        [header, payload].concat()
    }

    fn ipv6(&mut self, depth: u32) -> Vec<u8> {
        let (mut next, mut payload) = self.transport(depth, true);
        for _ in 0..self.one_of(&[0, 0, 0, 0, 1, 2]) {
            let header = self.one_of(&[0, 43, 60, FRAGMENT, 51]);
            let extension = match header {
                FRAGMENT => {
                    let offset = self.one_of(&[0x0001_u16, 0x0009, 0x0008, 0x0000]);
                    [vec![next, 0], offset.to_be_bytes().to_vec(), self.bytes(4)].concat()
                }
                // An authentication header counts words of four bytes.
                51 => [vec![next, 4], self.bytes(22)].concat(),
                _ => [vec![next, 0, 1, 4, 0, 0, 0, 0]].concat(),
            };
            payload = [extension, payload].concat();
            next = header;
        }
        let label = if self.rng.below(2) == 0 { [0x60, 0, 0, 0] } else { [0x60, 0x0a, self.byte(), self.byte()] };
        let len = payload.len() as u16;
        let mut header = [label.to_vec(), len.to_be_bytes().to_vec(), vec![next, 64]].concat();
        for net in [1, 2] {
            header.extend([0xfd, 0, 0, net]);
            header.extend(self.bytes(12));
        }
        [header, payload].concat()
    }

    fn transport(&mut self, depth: u32, is_v6: bool) -> (u8, Vec<u8>) {
        match self.rng.below(if depth > 0 { 16 } else { 10 }) {
            0..=3 => (TCP, [self.bytes(12), vec![0x50, 0x18], self.bytes(6), self.payload()].concat()),
            4..=6 => (UDP, [self.bytes(8), self.payload()].concat()),
            7 => self.icmp(is_v6),
            8 => (self.one_of(&PROTOCOLS), self.payload()),
            9 => (132, [self.bytes(12), self.payload()].concat()),
            10 => (4, self.ipv4(depth - 1)),
            11 => (41, self.ipv6(depth - 1)),
            12 => (UDP, self.vxlan(depth - 1)),
            13 => (137, [vec![0, 1, 1, 64], self.ipv4(depth - 1)].concat()),
            _ => (47, self.gre(depth - 1)),
        }
    }

    /// Echoes with an identifier, and errors that tell of a flow.
    fn icmp(&mut self, is_v6: bool) -> (u8, Vec<u8>) {
        let (protocol, kinds): (u8, &[u8]) =
            if is_v6 { (ICMPV6, &[128, 129, 1, 2, 135]) } else { (ICMP, &[8, 0, 3, 11, 5, 13]) };
        let kind = self.one_of(kinds);
        let identifier = if self.rng.below(6) == 0 { vec![0, 0] } else { self.bytes(2) };
        let quoted = if is_v6 { self.ipv6(0) } else { self.ipv4(0) };
        (protocol, [vec![kind, 0, 0, 0], identifier, self.bytes(2), quoted].concat())
    }

    fn vxlan(&mut self, depth: u32) -> Vec<u8> {
        let (ethertype, inner) = self.network(depth);
        let mut udp = self.bytes(2);
        udp.extend([0x12, 0xb5, 0, 0, 0, 0, 8, 0, 0, 0, 0, 0, 7, 0]);
        udp.extend(self.bytes(12));
        udp.extend(ethertype.to_be_bytes());
        [udp, inner].concat()
    }

    /// Of RFC 2784 and 2890, of PPTP (RFC 2637), and with flags that nobody defines.
    fn gre(&mut self, depth: u32) -> Vec<u8> {
        let flags = self.one_of(&[0_u16, 0, 0x8000, 0x2000, 0x1000, 0xb000, 0x3001, 0x3081, 0x2081, 0x4000, 0x0002]);
        let version = flags & 7;
        let (protocol, inner) = match self.rng.below(4) {
            _ if version == 1 => {
                let number = self.one_of(&[[0xff, 3, 0, 0x21], [0xff, 3, 0, 0x57], [0xff, 3, 0xc0, 0x21]]);
                let carried = if number[3] == 0x57 { self.ipv6(depth) } else { self.ipv4(depth) };
                (0x880b, [number.to_vec(), carried].concat())
            }
            0 => (0x6558, self.inner_ethernet(depth)),
            1 => (0x86dd, self.ipv6(depth)),
            2 => self.network(depth),
            _ => (0x0800, self.ipv4(depth)),
        };
        let words = [0x8000, 0x2000, 0x1000].iter().filter(|bit| flags & **bit != 0).count()
            + usize::from(version == 1 && flags & 0x80 != 0);
        let options = self.bytes(words * 4);
        [flags.to_be_bytes().to_vec(), u16::to_be_bytes(protocol).to_vec(), options, inner].concat()
    }

    fn inner_ethernet(&mut self, depth: u32) -> Vec<u8> {
        let (ethertype, inner) = self.network(depth);
        [self.bytes(12), ethertype.to_be_bytes().to_vec(), inner].concat()
    }
}

/// Whether a kernel forwards it at all: not flow control of a link, not a tag that is cut off.
fn may_pass(frame: &[u8]) -> bool {
    let mut at = 12;
    while frame.get(at..at + 2).is_some_and(|kind| matches!(kind, [0x81, 0x00] | [0x88, 0xa8])) {
        at += 4;
    }
    frame.len() >= at + 2 + 6
}

fn checksum(header: &[u8]) -> u16 {
    let sum: u32 = header.chunks(2).map(|pair| u32::from(u16::from_be_bytes([pair[0], pair[1]]))).sum();
    !((sum & 0xffff) + (sum >> 16)) as u16
}
