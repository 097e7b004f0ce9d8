//! What the front end says by its socket: memory, rings, features. Here is what its messages do.
//!
//! A ring runs from when its kick has come until `GET_VRING_BASE`, and is used while it is enabled. Whatever changes here is changed between two bursts of the worker
//! ([`Shared::change`]).

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::fs::FileTypeExt as _;
use std::sync::Arc;

use super::message::{Request, RingState};
use super::shared::{Running, Shared};
use crate::virtqueue::{
    Call, GuestMemory, Layout, OFFLOADS_OFFERED, Offloads, Receiveq, Ring, RingSpec, SIZE_MAX, Transmitq,
};
use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::sys::socket::{AddressFamily, SockaddrLike as _, SockaddrStorage, getsockname};

/// `VIRTIO_NET_F_MRG_RXBUF`
const MERGEABLE: u64 = 1 << 15;
/// `VIRTIO_F_INDIRECT_DESC`
const INDIRECT: u64 = 1 << 28;
/// `VIRTIO_F_EVENT_IDX`
const EVENT_INDEX: u64 = 1 << 29;
/// `VHOST_USER_F_PROTOCOL_FEATURES`
const PROTOCOL_FEATURES: u64 = 1 << 30;
/// `VIRTIO_F_VERSION_1`
const VERSION_1: u64 = 1 << 32;

/// `VHOST_USER_PROTOCOL_F_REPLY_ACK`
const REPLY_ACK: u64 = 1 << 3;
/// `VHOST_USER_PROTOCOL_F_BACKEND_REQ`: there is nothing to be asked for, but User-Mode Linux gives a device no interrupt without it (`virtio_uml.c` of Linux 6.1).
const BACKEND_REQUESTS: u64 = 1 << 5;
/// All features of the protocol that are served.
const PROTOCOL_OFFERED: u64 = REPLY_ACK | BACKEND_REQUESTS;

/// All that is served.
const OFFERED: u64 = MERGEABLE | INDIRECT | EVENT_INDEX | PROTOCOL_FEATURES | VERSION_1 | OFFLOADS_OFFERED;

/// The rings of one pair: `receiveq1` and `transmitq1`.
const RINGS: usize = 2;
/// The one that the guest gets frames by.
const RECEIVEQ: usize = 0;
/// The one that it sends them by.
const TRANSMITQ: usize = 1;

/// Why the front end is to be cut off, if it is.
type Result<T> = std::result::Result<T, String>;

/// What the front end has said of a ring.
#[derive(Debug, Default)]
struct Vring {
    spec: RingSpec,
    base: u16,
    is_enabled: bool,
    is_running: bool,
    kick: Option<File>,
}

/// One front end, from when it connects until it goes.
#[derive(Debug)]
pub struct Backend {
    shared: Arc<Shared>,
    features: u64,
    memory: Option<Arc<GuestMemory>>,
    vrings: [Vring; RINGS],
    /// A socket that is only kept: the front end would notice its end.
    back_channel: Option<File>,
    /// Whether the front end may want to know that something was done.
    pub has_acknowledgements: bool,
}

impl Backend {
    /// One that has heard nothing yet.
    pub fn new(shared: Arc<Shared>) -> Self {
        Self {
            shared,
            features: 0,
            memory: None,
            vrings: Default::default(),
            back_channel: None,
            has_acknowledgements: false,
        }
    }

    fn has(&self, feature: u64) -> bool {
        self.features & feature != 0
    }

    fn layout(&self) -> Layout {
        Layout {
            has_count: self.has(MERGEABLE | VERSION_1),
            is_mergeable: self.has(MERGEABLE),
            offloads: Offloads::of(self.features),
        }
    }

    /// Has a ring run that goes on at its base.
    fn start(&mut self, at: usize) -> Result<()> {
        let memory = self.memory.clone().ok_or("a ring before its memory")?;
        let (has_event_index, has_indirect) = (self.has(EVENT_INDEX), self.has(INDIRECT));
        let (layout, is_always_enabled) = (self.layout(), !self.has(PROTOCOL_FEATURES));
        let vring = &mut self.vrings[at];
        (vring.spec.has_event_index, vring.spec.has_indirect) = (has_event_index, has_indirect);
        let ring = Ring::new(memory, vring.spec, vring.base);
        let mut ring = ring.map_err(|error| format!("ring {at}: {error}"))?;
        // Both are polled until nothing comes for a while.
        ring.ask_for_notifications(false);
        vring.is_running = true;
        let is_enabled = vring.is_enabled || is_always_enabled;
        self.shared.change(|rings| {
            if at == RECEIVEQ {
                rings.receiveq.queue = Some(Receiveq::new(ring, layout));
                rings.receiveq.is_enabled = is_enabled;
            } else {
                rings.transmitq.queue = Some(Transmitq::new(ring, layout));
                rings.transmitq.is_enabled = is_enabled;
            }
        });
        Ok(())
    }

    /// Stops a ring, if it runs. It may go on at its base.
    fn stop(&mut self, at: usize) {
        let next = self.shared.change(|rings| {
            if at == RECEIVEQ {
                rings.receiveq.queue.take().map(|mut queue| queue.ring().next_available())
            } else {
                rings.transmitq.queue.take().map(|mut queue| queue.ring().next_available())
            }
        });
        let vring = &mut self.vrings[at];
        vring.base = next.unwrap_or(vring.base);
        vring.is_running = false;
        self.forget_kick(at);
    }

    fn forget_kick(&mut self, at: usize) {
        if let Some(kick) = self.vrings[at].kick.take() {
            self.shared.ignore(&kick);
        }
    }

    /// Puts other memory in the place of what there was; rings that run go on in it.
    fn exchange_memory(&mut self, memory: GuestMemory) -> Result<()> {
        let memory = Arc::new(memory);
        let moved = self.shared.change(|rings| {
            let transmitq = rings.transmitq.queue.as_mut().map(Transmitq::ring);
            let receiveq = rings.receiveq.queue.as_mut().map(Receiveq::ring);
            let moved =
                [transmitq, receiveq].into_iter().flatten().try_for_each(|ring| ring.move_to(Arc::clone(&memory)));
            if moved.is_err() {
                (rings.transmitq, rings.receiveq) = (Running::default(), Running::default());
            }
            moved
        });
        self.memory = Some(memory);
        moved.map_err(|error| error.to_string())
    }
}

impl Drop for Backend {
    fn drop(&mut self) {
        (0..RINGS).for_each(|at| self.stop(at));
        self.shared.change(|rings| {
            (rings.transmitq.call, rings.receiveq.call) = (Call::default(), Call::default());
            rings.broken = None;
        });
    }
}

/// What sort of descriptor came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Eventfd,
    Pipe,
    Other,
}

/// Finds out what a descriptor is. It does not block from now on.
fn take_over(file: &File) -> io::Result<Kind> {
    let flags = OFlag::from_bits_retain(fcntl(file.as_fd(), FcntlArg::F_GETFL)?);
    fcntl(file.as_fd(), FcntlArg::F_SETFL(flags | OFlag::O_NONBLOCK))?;
    let kind = file.metadata()?.file_type();
    // What User-Mode Linux calls a pipe is a pair of sockets. One of a network may wait when it is closed.
    let is_local =
        || getsockname::<SockaddrStorage>(file.as_raw_fd()).is_ok_and(|at| at.family() == Some(AddressFamily::Unix));
    if kind.is_fifo() || kind.is_socket() && is_local() {
        return Ok(Kind::Pipe);
    }
    let link = std::fs::read_link(format!("/proc/self/fd/{}", file.as_raw_fd()))?;
    Ok(if link.as_os_str() == "anon_inode:[eventfd]" { Kind::Eventfd } else { Kind::Other })
}

impl Backend {
    /// Does what the front end wants; the reply's payload, if there is one.
    ///
    /// # Errors
    /// Why the front end is to be cut off.
    pub fn handle(&mut self, request: Request, files: Vec<File>) -> Result<Option<Vec<u8>>> {
        let number = |number: u64| Ok(Some(number.to_le_bytes().to_vec()));
        match request {
            Request::GetFeatures => return number(OFFERED),
            Request::GetProtocolFeatures => return number(PROTOCOL_OFFERED),
            Request::GetQueues => return number(1),
            Request::GetRingBase(ring) => {
                let at = index(ring)?;
                self.stop(at);
                return Ok(Some([ring, self.vrings[at].base.into()].map(u32::to_le_bytes).concat()));
            }
            Request::SetOwner => {}
            Request::ResetOwner => (0..RINGS).for_each(|at| self.stop(at)),
            Request::SetFeatures(features) if features & !OFFERED == 0 => self.features = features,
            Request::SetProtocolFeatures(features) if features & !PROTOCOL_OFFERED == 0 => {
                self.has_acknowledgements = features & REPLY_ACK != 0;
            }
            Request::SetFeatures(features) | Request::SetProtocolFeatures(features) => {
                return Err(format!("features {features:#x}, not all of which were offered"));
            }
            Request::SetMemory(regions) => {
                let regions: Vec<_> = regions.into_iter().zip(files).collect();
                self.exchange_memory(GuestMemory::map(&regions).map_err(|error| error.to_string())?)?;
            }
            Request::SetRingSize(RingState { ring, number }) => {
                let vring = &mut self.vrings[index(ring)?];
                if vring.is_running || number > SIZE_MAX.into() {
                    return Err(format!("ring {ring} of {number} descriptors"));
                }
                vring.spec.size = number;
            }
            Request::SetRingAddress { ring, is_logged, parts } => self.set_address(index(ring)?, is_logged, parts)?,
            Request::SetRingBase(RingState { ring, number }) => {
                let vring = &mut self.vrings[index(ring)?];
                match u16::try_from(number) {
                    Ok(base) if !vring.is_running => vring.base = base,
                    _ => return Err(format!("ring {ring} from {number} on")),
                }
            }
            Request::SetRingKick(ring) => self.set_kick(index(ring)?, files.into_iter().next())?,
            Request::SetRingCall(ring) => self.set_call(index(ring)?, files.into_iter().next())?,
            // What is wrong with a ring is said by the end of the connection.
            Request::SetRingError(ring) => drop(index(ring)?),
            Request::SetBackChannel => self.back_channel = files.into_iter().next(),
            Request::EnableRing { ring, is_enabled } => self.enable(index(ring)?, is_enabled),
        }
        Ok(None)
    }

    fn set_address(&mut self, at: usize, is_logged: bool, [descriptors, used, available]: [u64; 3]) -> Result<()> {
        if is_logged {
            return Err("a log of what is written, which was not offered".to_owned());
        }
        let vring = &mut self.vrings[at];
        vring.spec = RingSpec { descriptors, available, used, ..vring.spec };
        if !vring.is_running {
            return Ok(());
        }
        // It goes on there.
        let kick = vring.kick.take();
        self.stop(at);
        self.vrings[at].kick = kick;
        self.start(at)
    }

    fn set_kick(&mut self, at: usize, file: Option<File>) -> Result<()> {
        let is_running = self.vrings[at].is_running;
        self.forget_kick(at);
        if let Some(file) = file {
            // Whatever else can be polled may have the kernel ask somebody who does not answer.
            if !matches!(take_over(&file), Ok(Kind::Eventfd)) {
                return Err(format!("ring {at} is kicked by something that is no eventfd"));
            }
            // Nobody waits for buffers of the receiveq: what finds none is lost.
            if at == TRANSMITQ {
                self.shared.watch(&file).map_err(|error| format!("the kick of ring {at} can't be watched: {error}"))?;
            }
            self.vrings[at].kick = Some(file);
        }
        if is_running { Ok(()) } else { self.start(at) }
    }

    fn set_call(&self, at: usize, file: Option<File>) -> Result<()> {
        if let Some(file) = &file
            && !matches!(take_over(file), Ok(Kind::Eventfd | Kind::Pipe))
        {
            return Err(format!("ring {at} calls something that is no eventfd"));
        }
        self.shared.change(|rings| {
            let call = if at == RECEIVEQ { &mut rings.receiveq.call } else { &mut rings.transmitq.call };
            *call = Call(file);
        });
        Ok(())
    }

    fn enable(&mut self, at: usize, is_enabled: bool) {
        self.vrings[at].is_enabled = is_enabled;
        self.shared.change(|rings| {
            let enabled = if at == RECEIVEQ { &mut rings.receiveq.is_enabled } else { &mut rings.transmitq.is_enabled };
            *enabled = is_enabled;
        });
    }
}

/// Which of the rings it is.
fn index(ring: u32) -> Result<usize> {
    usize::try_from(ring).ok().filter(|at| *at < RINGS).ok_or_else(|| format!("ring {ring}, of {RINGS}"))
}
