//! What the front end says by its socket: memory, rings, features (the vhost-user protocol, `docs/interop/vhost-user.rst` of QEMU). The messages are read by the crate
//! `vhost`; here is what they do.
//!
//! A ring runs from when its kick has come until `GET_VRING_BASE`, and is used while it is enabled. Whatever changes here is changed between two bursts of the worker
//! ([`Shared::change`]).

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::fs::FileTypeExt as _;
use std::sync::Arc;

use nix::fcntl::{FcntlArg, FdFlag, OFlag, fcntl};
use vhost::vhost_user::message::{
    VhostTransferStateDirection, VhostTransferStatePhase, VhostUserConfigFlags, VhostUserInflight, VhostUserLog,
    VhostUserMemoryRegion, VhostUserProtocolFeatures, VhostUserShMemConfig, VhostUserSharedMsg,
    VhostUserSingleMemoryRegion, VhostUserVringAddrFlags, VhostUserVringState,
};
use vhost::vhost_user::{Error, GpuBackend, Result, VhostUserBackendReqHandlerMut};

use super::memory::{GuestMemory, RegionSpec};
use super::offload::{self, Offloads};
use super::queue::{Call, Layout, Receiveq, Transmitq};
use super::ring::{Ring, RingSpec, SIZE_MAX};
use super::shared::{Running, Shared};

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

/// All that is served.
const OFFERED: u64 = MERGEABLE | INDIRECT | EVENT_INDEX | PROTOCOL_FEATURES | VERSION_1 | offload::OFFERED;

/// The rings of one pair: `receiveq1` and `transmitq1`.
const RINGS: usize = 2;
/// The one that the guest gets frames by.
const RECEIVEQ: usize = 0;
/// The one that it sends them by.
const TRANSMITQ: usize = 1;

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
    /// Why the last request was refused.
    pub refusal: Option<String>,
}

impl Backend {
    /// One that has heard nothing yet.
    pub fn new(shared: Arc<Shared>) -> Self {
        Self { shared, features: 0, memory: None, vrings: Default::default(), refusal: None }
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

    fn refuse<T>(&mut self, why: impl ToString) -> Result<T> {
        self.refusal = Some(why.to_string());
        Err(Error::InvalidParam)
    }

    fn vring(&mut self, index: u32) -> Result<(usize, &mut Vring)> {
        let at = usize::try_from(index).ok().filter(|at| *at < RINGS);
        match at {
            Some(at) => Ok((at, &mut self.vrings[at])),
            None => self.refuse(format_args!("ring {index}, of {RINGS}")),
        }
    }

    /// Has a ring run that goes on at its base.
    fn start(&mut self, at: usize) -> Result<()> {
        let Some(memory) = self.memory.clone() else { return self.refuse("a ring before its memory") };
        let (has_event_index, has_indirect) = (self.has(EVENT_INDEX), self.has(INDIRECT));
        let (layout, is_always_enabled) = (self.layout(), !self.has(PROTOCOL_FEATURES));
        let vring = &mut self.vrings[at];
        (vring.spec.has_event_index, vring.spec.has_indirect) = (has_event_index, has_indirect);
        let mut ring = match Ring::new(memory, vring.spec, vring.base) {
            Ok(ring) => ring,
            Err(error) => return self.refuse(format_args!("ring {at}: {error}")),
        };
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
        moved.or_else(|error| self.refuse(error))
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

/// Finds out what a descriptor is. It is not inherited, and does not block.
fn take_over(file: &File) -> io::Result<Kind> {
    fcntl(file.as_fd(), FcntlArg::F_SETFD(FdFlag::FD_CLOEXEC))?;
    let flags = OFlag::from_bits_retain(fcntl(file.as_fd(), FcntlArg::F_GETFL)?);
    fcntl(file.as_fd(), FcntlArg::F_SETFL(flags | OFlag::O_NONBLOCK))?;
    if file.metadata()?.file_type().is_fifo() {
        return Ok(Kind::Pipe);
    }
    let link = std::fs::read_link(format!("/proc/self/fd/{}", file.as_raw_fd()))?;
    Ok(if link.as_os_str() == "anon_inode:[eventfd]" { Kind::Eventfd } else { Kind::Other })
}

/// What was not offered is not asked for: the crate `vhost` refuses most of these before.
fn not_offered<T>() -> Result<T> {
    Err(Error::InvalidOperation("it was not offered"))
}

impl VhostUserBackendReqHandlerMut for Backend {
    fn set_owner(&mut self) -> Result<()> {
        Ok(())
    }

    fn reset_owner(&mut self) -> Result<()> {
        (0..RINGS).for_each(|at| self.stop(at));
        Ok(())
    }

    fn reset_device(&mut self) -> Result<()> {
        not_offered()
    }

    fn get_features(&mut self) -> Result<u64> {
        Ok(OFFERED)
    }

    fn set_features(&mut self, features: u64) -> Result<()> {
        if features & !OFFERED != 0 {
            return self.refuse(format_args!("features {:#x}, which were not offered", features & !OFFERED));
        }
        self.features = features;
        Ok(())
    }

    fn set_mem_table(
        &mut self,
        regions: &[VhostUserMemoryRegion],
        files: Vec<File>,
        _: Option<bool>,
    ) -> Result<Option<Vec<vhost::VhostUserMemoryRegionBase>>> {
        let spec = |region: &VhostUserMemoryRegion| RegionSpec {
            guest: region.guest_phys_addr,
            user: region.user_addr,
            len: region.memory_size,
            offset: region.mmap_offset,
        };
        let specs: Vec<_> = regions.iter().map(spec).zip(files).collect();
        match GuestMemory::map(&specs) {
            Ok(memory) => self.exchange_memory(memory).map(|()| None),
            Err(error) => self.refuse(error),
        }
    }

    fn set_vring_num(&mut self, index: u32, num: u32) -> Result<()> {
        let (_, vring) = self.vring(index)?;
        if vring.is_running || num > SIZE_MAX.into() {
            return self.refuse(format_args!("ring {index} of {num} descriptors"));
        }
        vring.spec.size = num;
        Ok(())
    }

    fn set_vring_addr(
        &mut self,
        index: u32,
        flags: VhostUserVringAddrFlags,
        descriptors: u64,
        used: u64,
        available: u64,
        _: u64,
    ) -> Result<()> {
        let (at, vring) = self.vring(index)?;
        if !flags.is_empty() {
            return self.refuse("a log of what is written, which was not offered");
        }
        vring.spec = RingSpec { descriptors, available, used, ..vring.spec };
        if !vring.is_running {
            return Ok(());
        }
        let kick = vring.kick.take();
        self.stop(at);
        self.vrings[at].kick = kick;
        self.start(at)
    }

    fn set_vring_base(&mut self, index: u32, base: u32) -> Result<()> {
        let (_, vring) = self.vring(index)?;
        match u16::try_from(base) {
            Ok(base) if !vring.is_running => {
                vring.base = base;
                Ok(())
            }
            _ => self.refuse(format_args!("ring {index} from {base} on")),
        }
    }

    fn get_vring_base(&mut self, index: u32) -> Result<VhostUserVringState> {
        let (at, _) = self.vring(index)?;
        self.stop(at);
        Ok(VhostUserVringState::new(index, self.vrings[at].base.into()))
    }

    fn set_vring_kick(&mut self, index: u8, file: Option<File>) -> Result<()> {
        let (at, vring) = self.vring(index.into())?;
        let is_running = vring.is_running;
        self.forget_kick(at);
        if let Some(file) = file {
            // Whatever else can be polled may have the kernel ask somebody who does not answer.
            if !matches!(take_over(&file), Ok(Kind::Eventfd)) {
                return self.refuse(format_args!("ring {index} is kicked by something that is no eventfd"));
            }
            // Nobody waits for buffers of the receiveq: what finds none is lost.
            if at == TRANSMITQ
                && let Err(error) = self.shared.watch(&file)
            {
                return self.refuse(format_args!("the kick of ring {index} can't be watched: {error}"));
            }
            self.vrings[at].kick = Some(file);
        }
        if is_running { Ok(()) } else { self.start(at) }
    }

    fn set_vring_call(&mut self, index: u8, file: Option<File>) -> Result<()> {
        let (at, _) = self.vring(index.into())?;
        if let Some(file) = &file
            && !matches!(take_over(file), Ok(Kind::Eventfd | Kind::Pipe))
        {
            return self.refuse(format_args!("ring {index} calls something that is no eventfd"));
        }
        self.shared.change(|rings| {
            let call = if at == RECEIVEQ { &mut rings.receiveq.call } else { &mut rings.transmitq.call };
            *call = Call(file);
        });
        Ok(())
    }

    fn set_vring_err(&mut self, index: u8, _: Option<File>) -> Result<()> {
        // What is wrong with a ring is said by the end of the connection.
        self.vring(index.into()).map(drop)
    }

    fn get_protocol_features(&mut self) -> Result<VhostUserProtocolFeatures> {
        Ok(VhostUserProtocolFeatures::REPLY_ACK)
    }

    fn set_protocol_features(&mut self, features: u64) -> Result<()> {
        if features & !VhostUserProtocolFeatures::REPLY_ACK.bits() != 0 {
            return self.refuse(format_args!("protocol features {features:#x}, which were not offered"));
        }
        Ok(())
    }

    fn get_queue_num(&mut self) -> Result<u64> {
        Ok(1)
    }

    fn set_vring_enable(&mut self, index: u32, enable: bool) -> Result<()> {
        let (at, vring) = self.vring(index)?;
        vring.is_enabled = enable;
        self.shared.change(|rings| {
            let is_enabled =
                if at == RECEIVEQ { &mut rings.receiveq.is_enabled } else { &mut rings.transmitq.is_enabled };
            *is_enabled = enable;
        });
        Ok(())
    }

    fn get_config(&mut self, _: u32, _: u32, _: VhostUserConfigFlags) -> Result<Vec<u8>> {
        not_offered()
    }

    fn set_config(&mut self, _: u32, _: &[u8], _: VhostUserConfigFlags) -> Result<()> {
        not_offered()
    }

    fn set_gpu_socket(&mut self, _: GpuBackend) -> Result<()> {
        not_offered()
    }

    fn get_shared_object(&mut self, _: VhostUserSharedMsg) -> Result<File> {
        not_offered()
    }

    fn get_inflight_fd(&mut self, _: &VhostUserInflight) -> Result<(VhostUserInflight, File)> {
        not_offered()
    }

    fn set_inflight_fd(&mut self, _: &VhostUserInflight, _: File) -> Result<()> {
        not_offered()
    }

    fn get_max_mem_slots(&mut self) -> Result<u64> {
        not_offered()
    }

    fn add_mem_region(
        &mut self,
        _: &VhostUserSingleMemoryRegion,
        _: File,
        _: Option<bool>,
    ) -> Result<Option<vhost::VhostUserMemoryRegionBase>> {
        not_offered()
    }

    fn remove_mem_region(&mut self, _: &VhostUserSingleMemoryRegion) -> Result<()> {
        not_offered()
    }

    fn set_device_state_fd(
        &mut self,
        _: VhostTransferStateDirection,
        _: VhostTransferStatePhase,
        _: File,
    ) -> Result<Option<File>> {
        not_offered()
    }

    fn check_device_state(&mut self) -> Result<()> {
        not_offered()
    }

    fn get_shmem_config(&mut self) -> Result<VhostUserShMemConfig> {
        not_offered()
    }

    fn set_log_base(&mut self, _: &VhostUserLog, _: File) -> Result<()> {
        not_offered()
    }
}
