//! What the front end says by its socket: memory, rings, features. Here is what its messages do.
//!
//! A ring runs from when its kick has come until `GET_VRING_BASE`, and is used while it is enabled. Whatever changes here is changed between two bursts of the worker
//! ([`Shared::change`]).

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::os::unix::fs::FileTypeExt as _;
use std::sync::Arc;

use super::commands::Commands;
use super::message::{Request, RingState};
use super::shared::Shared;
use crate::virtqueue::{
    Call, Controlq, GuestMemory, Layout, OFFLOADS_OFFERED, Offloads, Receiveq, Ring, RingSpec, SIZE_MAX, Transmitq,
};
use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::sys::socket::{AddressFamily, SockaddrLike as _, SockaddrStorage, getsockname};

/// `VIRTIO_NET_F_MRG_RXBUF`
const MERGEABLE: u64 = 1 << 15;
/// `VIRTIO_NET_F_CTRL_VQ`
const CONTROLQ: u64 = 1 << 17;
/// `VIRTIO_NET_F_MQ`
const MULTIQUEUE: u64 = 1 << 22;
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
/// `VHOST_USER_PROTOCOL_F_MQ`
const PROTOCOL_MULTIQUEUE: u64 = 1 << 0;
/// `VHOST_USER_PROTOCOL_F_CONFIG`: User-Mode Linux finds there how many pairs there are.
const CONFIG: u64 = 1 << 9;

/// All features of the protocol that are served where there are so many pairs of queues.
const fn protocol_offered(pairs: usize) -> u64 {
    REPLY_ACK | BACKEND_REQUESTS | if pairs > 1 { PROTOCOL_MULTIQUEUE | CONFIG } else { 0 }
}

/// All that is served where there are so many pairs of queues. Linux takes several queues only with a controlq.
const fn offered(pairs: usize) -> u64 {
    let always = MERGEABLE | INDIRECT | EVENT_INDEX | PROTOCOL_FEATURES | VERSION_1 | OFFLOADS_OFFERED;
    always | if pairs > 1 { MULTIQUEUE | CONTROLQ } else { 0 }
}

/// The rings of one pair: `receiveq1` and `transmitq1`.
const RINGS: usize = 2;

/// Where the number of pairs stands in the configuration (`max_virtqueue_pairs`). All else there is of features that are not offered.
const CONFIG_PAIRS: u64 = 8;

/// What a ring is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Role {
    /// The guest gets frames by it, of this pair.
    Receive(usize),
    /// It sends them by it.
    Transmit(usize),
    /// It gives commands by it.
    Control,
}

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
    /// Of all pairs, and behind them that of commands, where there are several pairs.
    vrings: Box<[Vring]>,
    commands: Commands,
    /// A socket that is only kept: the front end would notice its end.
    back_channel: Option<File>,
    /// Whether the front end may want to know that something was done.
    pub has_acknowledgements: bool,
}

impl Backend {
    /// One that has heard nothing yet.
    ///
    /// # Errors
    /// If the kernel has no descriptor left.
    pub fn new(shared: Arc<Shared>) -> io::Result<Self> {
        let rings = RINGS * shared.pairs + usize::from(shared.pairs > 1);
        Ok(Self {
            shared,
            features: 0,
            memory: None,
            vrings: (0..rings).map(|_| Vring::default()).collect(),
            commands: Commands::new()?,
            back_channel: None,
            has_acknowledgements: false,
        })
    }

    /// Which of the rings has this number. Those of commands come behind the pairs, of which there is one without [`MULTIQUEUE`].
    fn index(&self, ring: u32) -> Result<usize> {
        let behind_pairs = RINGS * self.shared.pairs;
        let controlq = if self.has(CONTROLQ) && !self.has(MULTIQUEUE) { RINGS } else { behind_pairs };
        let at = usize::try_from(ring).ok().map(|at| if at == controlq { behind_pairs } else { at });
        let there = at.filter(|at| *at < self.vrings.len());
        there.ok_or_else(|| format!("ring {ring}, of {}", self.vrings.len()))
    }

    fn role(&self, at: usize) -> Role {
        match (at / RINGS, at % RINGS) {
            (pair, _) if pair == self.shared.pairs => Role::Control,
            (pair, 0) => Role::Receive(pair),
            (pair, _) => Role::Transmit(pair),
        }
    }

    /// Readable when [`Backend::serve_commands`] is to be called.
    pub fn kicked(&self) -> BorrowedFd<'_> {
        self.commands.kicked()
    }

    /// Does what the guest asks for in its controlq, if it has handed that over. Whether there may be more.
    ///
    /// # Errors
    /// Why the front end is to be cut off.
    pub fn serve_commands(&mut self) -> Result<bool> {
        let pairs_max = if self.has(MULTIQUEUE) { self.shared.pairs as u16 } else { 0 };
        let Self { commands, shared, .. } = self;
        commands.serve(pairs_max, |pairs| shared.change(|rings| rings.wanted = pairs.into()))
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
        vring.is_running = true;
        let is_enabled = vring.is_enabled || is_always_enabled;
        let role = self.role(at);
        if role == Role::Control {
            ring.ask_for_notifications(true);
            self.commands.queue = Some(Controlq::new(ring));
            // Until it says that it uses more (section 5.1.6.5.5).
            self.shared.change(|rings| rings.wanted = 1);
            return Ok(());
        }
        // They are polled until nothing comes for a while.
        ring.ask_for_notifications(false);
        self.shared.change(|rings| match role {
            Role::Receive(pair) => {
                let receiveq = &mut rings.pairs[pair].receiveq;
                (receiveq.queue, receiveq.is_enabled) = (Some(Receiveq::new(ring, layout)), is_enabled);
            }
            Role::Transmit(pair) => {
                let transmitq = &mut rings.pairs[pair].transmitq;
                (transmitq.queue, transmitq.is_enabled) = (Some(Transmitq::new(ring, layout)), is_enabled);
            }
            Role::Control => {}
        });
        Ok(())
    }

    /// Stops a ring, if it runs. It may go on at its base.
    fn stop(&mut self, at: usize) {
        let role = self.role(at);
        let commands = &mut self.commands;
        let next = self.shared.change(|rings| match role {
            Role::Receive(pair) => rings.pairs[pair].receiveq.queue.take().map(|mut q| q.ring().next_available()),
            Role::Transmit(pair) => rings.pairs[pair].transmitq.queue.take().map(|mut q| q.ring().next_available()),
            Role::Control => {
                rings.wanted = rings.pairs.len();
                commands.queue.take().map(|mut q| q.ring().next_available())
            }
        });
        let vring = &mut self.vrings[at];
        vring.base = next.unwrap_or(vring.base);
        vring.is_running = false;
        self.forget_kick(at);
    }

    fn stop_all(&mut self) {
        (0..self.vrings.len()).for_each(|at| self.stop(at));
    }

    fn forget_kick(&mut self, at: usize) {
        if let Some(kick) = self.vrings[at].kick.take() {
            match self.role(at) {
                Role::Transmit(_) => self.shared.ignore(&kick),
                Role::Control => self.commands.ignore(&kick),
                // Nobody waits for it.
                Role::Receive(_) => {}
            }
        }
    }

    /// Puts other memory in the place of what there was; rings that run go on in it.
    fn exchange_memory(&mut self, memory: GuestMemory) -> Result<()> {
        let memory = Arc::new(memory);
        let moved = self.shared.change(|rings| {
            let moved = rings.running().try_for_each(|ring| ring.move_to(Arc::clone(&memory)));
            if moved.is_err() {
                rings.clear();
            }
            moved
        });
        let controlq = self.commands.queue.as_mut().map(Controlq::ring);
        let moved = moved.and_then(|()| controlq.map_or(Ok(()), |ring| ring.move_to(Arc::clone(&memory))));
        self.memory = Some(memory);
        moved.map_err(|error| error.to_string())
    }
}

impl Drop for Backend {
    fn drop(&mut self) {
        self.stop_all();
        self.shared.change(|rings| {
            rings.clear();
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
        let pairs = self.shared.pairs;
        match request {
            Request::GetFeatures => return number(offered(pairs)),
            Request::GetProtocolFeatures => return number(protocol_offered(pairs)),
            Request::GetQueues => return number(pairs as u64),
            Request::GetConfig { offset, size } if pairs > 1 => return Ok(Some(config(pairs, offset, size))),
            Request::GetConfig { .. } => return Err("its configuration, which was not offered".to_owned()),
            Request::GetRingBase(ring) => {
                let at = self.index(ring)?;
                self.stop(at);
                return Ok(Some([ring, self.vrings[at].base.into()].map(u32::to_le_bytes).concat()));
            }
            Request::SetOwner => {}
            Request::ResetOwner => self.stop_all(),
            Request::SetFeatures(features) if features & !offered(pairs) == 0 => self.features = features,
            Request::SetProtocolFeatures(features) if features & !protocol_offered(pairs) == 0 => {
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
                let at = self.index(ring)?;
                let vring = &mut self.vrings[at];
                if vring.is_running || number > SIZE_MAX.into() {
                    return Err(format!("ring {ring} of {number} descriptors"));
                }
                vring.spec.size = number;
            }
            Request::SetRingAddress { ring, is_logged, parts } => self.set_address(ring, is_logged, parts)?,
            Request::SetRingBase(RingState { ring, number }) => {
                let at = self.index(ring)?;
                let vring = &mut self.vrings[at];
                match u16::try_from(number) {
                    Ok(base) if !vring.is_running => vring.base = base,
                    _ => return Err(format!("ring {ring} from {number} on")),
                }
            }
            Request::SetRingKick(ring) => self.set_kick(ring, files.into_iter().next())?,
            Request::SetRingCall(ring) => self.set_call(ring, files.into_iter().next())?,
            // What is wrong with a ring is said by the end of the connection.
            Request::SetRingError(ring) => drop(self.index(ring)?),
            Request::SetBackChannel => self.back_channel = files.into_iter().next(),
            Request::EnableRing { ring, is_enabled } => self.enable(ring, is_enabled)?,
        }
        Ok(None)
    }

    fn set_address(&mut self, ring: u32, is_logged: bool, [descriptors, used, available]: [u64; 3]) -> Result<()> {
        let at = self.index(ring)?;
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

    fn set_kick(&mut self, ring: u32, file: Option<File>) -> Result<()> {
        let at = self.index(ring)?;
        let is_running = self.vrings[at].is_running;
        self.forget_kick(at);
        if let Some(file) = file {
            // Whatever else can be polled may have the kernel ask somebody who does not answer.
            if !matches!(take_over(&file), Ok(Kind::Eventfd)) {
                return Err(format!("ring {at} is kicked by something that is no eventfd"));
            }
            let watched = match self.role(at) {
                Role::Transmit(_) => self.shared.watch(&file),
                Role::Control => self.commands.watch(&file),
                // Nobody waits for buffers of a receiveq: what finds none is lost.
                Role::Receive(_) => Ok(()),
            };
            watched.map_err(|error| format!("the kick of ring {at} can't be watched: {error}"))?;
            self.vrings[at].kick = Some(file);
        }
        if is_running { Ok(()) } else { self.start(at) }
    }

    fn set_call(&mut self, ring: u32, file: Option<File>) -> Result<()> {
        let at = self.index(ring)?;
        if let Some(file) = &file
            && !matches!(take_over(file), Ok(Kind::Eventfd | Kind::Pipe))
        {
            return Err(format!("ring {at} calls something that is no eventfd"));
        }
        let (role, call) = (self.role(at), Call(file));
        if role == Role::Control {
            self.commands.call = call;
            return Ok(());
        }
        self.shared.change(|rings| match role {
            Role::Receive(pair) => rings.pairs[pair].receiveq.call = call,
            Role::Transmit(pair) => rings.pairs[pair].transmitq.call = call,
            Role::Control => {}
        });
        Ok(())
    }

    fn enable(&mut self, ring: u32, is_enabled: bool) -> Result<()> {
        let at = self.index(ring)?;
        self.vrings[at].is_enabled = is_enabled;
        let role = self.role(at);
        self.shared.change(|rings| match role {
            Role::Receive(pair) => rings.pairs[pair].receiveq.is_enabled = is_enabled,
            Role::Transmit(pair) => rings.pairs[pair].transmitq.is_enabled = is_enabled,
            // Commands are served while their ring runs.
            Role::Control => {}
        });
        Ok(())
    }
}

/// A part of the configuration, as a reply has it: where, how much, flags, bytes.
fn config(pairs: usize, offset: u32, size: u32) -> Vec<u8> {
    let pairs = (pairs as u16).to_le_bytes();
    let bytes = (u64::from(offset)..).take(size as usize).map(|at| match at.checked_sub(CONFIG_PAIRS) {
        Some(at @ 0..=1) => pairs[at as usize],
        _ => 0,
    });
    [offset, size, 0].into_iter().flat_map(u32::to_le_bytes).chain(bytes).collect()
}
