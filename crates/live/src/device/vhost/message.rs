//! Messages of the vhost-user protocol as bytes (`docs/interop/vhost-user.rst` of QEMU). Pure: no socket.
//!
//! A message is a header of three words (request, flags, length of what follows) and a payload. What it says is checked as far as it goes by itself: lengths, indices that
//! are numbers, files that belong to it. What was not offered is no request.

use crate::virtqueue::RegionSpec;

/// Bytes of a header.
pub const HEADER: usize = 12;
/// Regions of memory that one message has at most: as many descriptors go with one (QEMU and DPDK have 8).
pub const REGIONS_MAX: usize = 32;
/// Bytes behind a header at most: those regions.
pub const PAYLOAD_MAX: usize = 8 + REGIONS_MAX * REGION;
/// Bytes of one region.
const REGION: usize = 32;

const VERSION: u32 = 1;
const VERSION_MASK: u32 = 3;
const REPLY: u32 = 4;
const NEED_REPLY: u32 = 8;
/// There is no file with it.
const NO_FILE: u64 = 0x100;

/// Why bytes are no message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MessageError {
    /// The flags are those of no request of this version.
    #[error("a message with flags {0:#x}, expected a request of version {VERSION}")]
    Flags(u32),
    /// It is longer than any.
    #[error("a message of {0} bytes, expected {PAYLOAD_MAX} at most")]
    Length(u32),
    /// There is no such request, or it was not offered.
    #[error("request {0}, which was not offered")]
    Unknown(u32),
    /// Its payload has another length.
    #[error("request {request} with {len} bytes")]
    Payload {
        /// Which request.
        request: u32,
        /// The payload's length.
        len: usize,
    },
    /// The number of its regions is none that there can be.
    #[error("{0} regions of memory, expected 1 to {REGIONS_MAX}")]
    Regions(u32),
    /// There are more or fewer files with it than it says.
    #[error("{found} files with a message that has {expected}")]
    Files {
        /// How many came.
        found: usize,
        /// How many it says.
        expected: usize,
    },
    /// A flag that is neither 0 nor 1.
    #[error("a ring to be enabled by {0}, expected 0 or 1")]
    Enable(u32),
}

/// A header that was checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// The request's number.
    pub request: u32,
    /// Whether the front end waits for a word, if that was agreed.
    pub needs_reply: bool,
    /// Bytes that follow.
    pub len: usize,
}

/// A ring and a number for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RingState {
    /// Which ring.
    pub ring: u32,
    /// What it is for depends on the request.
    pub number: u32,
}

/// What the front end wants.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Request {
    /// Which features of virtio are offered?
    GetFeatures,
    /// These are used.
    SetFeatures(u64),
    /// It is the owner from now on.
    SetOwner,
    /// It is not any more: all rings stop.
    ResetOwner,
    /// Where the guest's memory is, each region with a file.
    SetMemory(Vec<RegionSpec>),
    /// So many descriptors.
    SetRingSize(RingState),
    /// Where its parts are.
    SetRingAddress {
        /// Which ring.
        ring: u32,
        /// Whether writes are to be logged.
        is_logged: bool,
        /// Its descriptors, what was used, what is available: addresses of the front end.
        parts: [u64; 3],
    },
    /// It goes on there.
    SetRingBase(RingState),
    /// It stops: where?
    GetRingBase(u32),
    /// It is kicked by the file that comes along.
    SetRingKick(u32),
    /// The guest is called by the file that comes along.
    SetRingCall(u32),
    /// Errors are reported to the file that comes along.
    SetRingError(u32),
    /// Which features of the protocol are offered?
    GetProtocolFeatures,
    /// These are used.
    SetProtocolFeatures(u64),
    /// How many pairs of queues are there?
    GetQueues,
    /// It is used, or not.
    EnableRing {
        /// Which ring.
        ring: u32,
        /// Whether it is used.
        is_enabled: bool,
    },
    /// What stands in the device's configuration (virtio 1.2, section 5.1.4)?
    GetConfig {
        /// From which byte on.
        offset: u32,
        /// So many bytes.
        size: u32,
    },
    /// A socket comes along by which the back end may ask for something (`VHOST_USER_SET_BACKEND_REQ_FD`).
    SetBackChannel,
}

impl Header {
    /// Reads a header.
    ///
    /// # Errors
    /// If it is no request's, or what follows is too long.
    pub fn parse(bytes: &[u8; HEADER]) -> Result<Self, MessageError> {
        let [request, flags, len] = [0, 4, 8].map(|at| word(bytes, at));
        if flags & (VERSION_MASK | REPLY) != VERSION {
            return Err(MessageError::Flags(flags));
        }
        if len as usize > PAYLOAD_MAX {
            return Err(MessageError::Length(len));
        }
        Ok(Self { request, needs_reply: flags & NEED_REPLY != 0, len: len as usize })
    }

    /// Reads what follows; so many files have come with it.
    ///
    /// # Errors
    /// If it is no request that was offered, or is not as long as that is.
    pub fn request(self, payload: &[u8], files: usize) -> Result<Request, MessageError> {
        let wrong = MessageError::Payload { request: self.request, len: payload.len() };
        let nothing = |request| if payload.is_empty() { Ok(request) } else { Err(wrong) };
        let number = || payload.try_into().map(u64::from_le_bytes).map_err(|_| wrong);
        let state = || match *payload {
            [ref ring @ .., _, _, _, _] if payload.len() == 8 => {
                Ok(RingState { ring: word(ring, 0), number: word(payload, 4) })
            }
            _ => Err(wrong),
        };
        let mut expected = 0;
        let mut file = |number: u64| {
            expected = usize::from(number & NO_FILE == 0);
            (number & 0xff) as u32
        };
        let request = match self.request {
            1 => nothing(Request::GetFeatures),
            2 => number().map(Request::SetFeatures),
            3 => nothing(Request::SetOwner),
            4 => nothing(Request::ResetOwner),
            5 => regions(payload, wrong).map(|regions| {
                expected = regions.len();
                Request::SetMemory(regions)
            }),
            8 => state().map(Request::SetRingSize),
            9 if payload.len() == 40 => Ok(Request::SetRingAddress {
                ring: word(payload, 0),
                is_logged: word(payload, 4) != 0,
                parts: [8, 16, 24].map(|at| long(payload, at)),
            }),
            10 => state().map(Request::SetRingBase),
            11 => state().map(|state| Request::GetRingBase(state.ring)),
            12 => number().map(|number| Request::SetRingKick(file(number))),
            13 => number().map(|number| Request::SetRingCall(file(number))),
            14 => number().map(|number| Request::SetRingError(file(number))),
            15 => nothing(Request::GetProtocolFeatures),
            16 => number().map(Request::SetProtocolFeatures),
            17 => nothing(Request::GetQueues),
            18 => match state()? {
                RingState { ring, number: number @ 0..=1 } => Ok(Request::EnableRing { ring, is_enabled: number == 1 }),
                RingState { number, .. } => Err(MessageError::Enable(number)),
            },
            21 => nothing(Request::SetBackChannel).inspect(|_| expected = 1),
            24 if payload.len() >= 12 && payload.len() - 12 == word(payload, 4) as usize => {
                Ok(Request::GetConfig { offset: word(payload, 0), size: word(payload, 4) })
            }
            9 | 24 => Err(wrong),
            unknown => Err(MessageError::Unknown(unknown)),
        }?;
        if files == expected { Ok(request) } else { Err(MessageError::Files { found: files, expected }) }
    }

    /// The reply to it.
    pub fn reply(self, payload: &[u8]) -> Vec<u8> {
        let header = [self.request, VERSION | REPLY, payload.len() as u32].map(u32::to_le_bytes);
        [header.concat().as_slice(), payload].concat()
    }
}

/// Reads regions of memory. User-Mode Linux sends two of which it says that there is one: what is behind the last one means nothing.
fn regions(payload: &[u8], wrong: MessageError) -> Result<Vec<RegionSpec>, MessageError> {
    let (head, rest) = payload.split_first_chunk::<8>().ok_or(wrong)?;
    let count = word(head, 0);
    if count == 0 || count as usize > REGIONS_MAX {
        return Err(MessageError::Regions(count));
    }
    let regions = rest.get(..count as usize * REGION).ok_or(wrong)?;
    let region = |bytes: &[u8]| RegionSpec {
        guest: long(bytes, 0),
        len: long(bytes, 8),
        user: long(bytes, 16),
        offset: long(bytes, 24),
    };
    Ok(regions.chunks_exact(REGION).map(region).collect())
}

/// A word of bytes that were found to be long enough.
fn word(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(*bytes[at..].first_chunk().expect("its length was checked"))
}

fn long(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(*bytes[at..].first_chunk().expect("its length was checked"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn header(request: u32, flags: u32, len: u32) -> [u8; HEADER] {
        [request, flags, len].map(u32::to_le_bytes).concat().try_into().unwrap()
    }

    #[test]
    fn requests_are_read_and_replied_to() {
        let read = |request, payload: &[u8], files| {
            Header::parse(&header(request, 1, payload.len() as u32)).unwrap().request(payload, files)
        };
        assert_eq!(read(2, &7_u64.to_le_bytes(), 0), Ok(Request::SetFeatures(7)));
        assert_eq!(read(8, &[1, 0, 0, 0, 0, 1, 0, 0], 0), Ok(Request::SetRingSize(RingState { ring: 1, number: 256 })));
        assert_eq!(read(12, &1_u64.to_le_bytes(), 1), Ok(Request::SetRingKick(1)));
        assert_eq!(read(12, &0x101_u64.to_le_bytes(), 0), Ok(Request::SetRingKick(1)));
        assert_eq!(read(12, &1_u64.to_le_bytes(), 0), Err(MessageError::Files { found: 0, expected: 1 }));
        assert_eq!(read(21, &[], 1), Ok(Request::SetBackChannel));
        assert_eq!(read(1, &[], 3), Err(MessageError::Files { found: 3, expected: 0 }));
        assert_eq!(read(18, &[0, 0, 0, 0, 2, 0, 0, 0], 0), Err(MessageError::Enable(2)));
        assert_eq!(read(9, &[0; 39], 0), Err(MessageError::Payload { request: 9, len: 39 }));
        assert_eq!(read(25, &[], 0), Err(MessageError::Unknown(25)));
        let config = |size: u32, bytes: usize| [[8, size, 0].map(u32::to_le_bytes).concat(), vec![0; bytes]].concat();
        assert_eq!(read(24, &config(2, 2), 0), Ok(Request::GetConfig { offset: 8, size: 2 }));
        assert_eq!(read(24, &config(3, 2), 0), Err(MessageError::Payload { request: 24, len: 14 }));
        assert_eq!(read(24, &[0; 11], 0), Err(MessageError::Payload { request: 24, len: 11 }));
        let reply = Header::parse(&header(1, 9, 0)).unwrap();
        assert!(reply.needs_reply);
        assert_eq!(reply.reply(&[1, 2]), [header(1, 5, 2).as_slice(), &[1, 2]].concat());
        assert_eq!(Header::parse(&header(1, 2, 0)), Err(MessageError::Flags(2)));
        assert_eq!(Header::parse(&header(1, 5, 0)), Err(MessageError::Flags(5)));
        assert_eq!(Header::parse(&header(1, 1, 2_000)), Err(MessageError::Length(2_000)));
    }

    #[test]
    fn regions_are_as_many_as_it_says() {
        let region = |number: u64| [number, number + 1, number + 2, number + 3].map(u64::to_le_bytes).concat();
        let payload = |count: u64| [count.to_le_bytes().to_vec(), region(10), region(20)].concat();
        let read = |payload: &[u8], files| Header { request: 5, needs_reply: false, len: 0 }.request(payload, files);
        let first = RegionSpec { guest: 10, len: 11, user: 12, offset: 13 };
        assert_eq!(read(&payload(1), 1), Ok(Request::SetMemory(vec![first])));
        let second = RegionSpec { guest: 20, len: 21, user: 22, offset: 23 };
        assert_eq!(read(&payload(2), 2), Ok(Request::SetMemory(vec![first, second])));
        assert_eq!(read(&payload(3), 3), Err(MessageError::Payload { request: 5, len: 72 }));
        assert_eq!(read(&payload(0), 0), Err(MessageError::Regions(0)));
        assert_eq!(read(&payload(33), 0), Err(MessageError::Regions(33)));
        assert!(matches!(read(&[1, 0], 0), Err(MessageError::Payload { .. })));
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_or_refused(request in 0..25_u32, payload in prop::collection::vec(any::<u8>(), 0..100), files in 0..3_usize) {
            // Whatever it is, it does not panic.
            let _ = Header { request, needs_reply: false, len: payload.len() }.request(&payload, files);
        }
    }
}
