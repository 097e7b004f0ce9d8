//! The program on a device that hands its frames to sockets.
//!
//! Five instructions that only look up the socket of the frame's queue. The program is on the device as long as its link is open, which the kernel closes with this
//! process, however that ends.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use crate::bpf::{
    Alu, Assembler, AttachPoint, Instruction, MapKind, ProgramKind, Register, Size, create_map, helper, link, load,
    update,
};

/// Where `struct xdp_md` has the number of the receive queue.
const RX_QUEUE_INDEX: i16 = 16;
/// What becomes of the frames of a queue without a socket: the kernel's stack gets them.
const XDP_PASS: i32 = 2;
const XDP_FLAGS_SKB_MODE: u32 = 1 << 1;
const XDP_FLAGS_DRV_MODE: u32 = 1 << 2;

/// Who runs the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// The device's driver.
    Native,
    /// The kernel, for a driver that can't.
    Generic,
}

/// A program on a device.
#[derive(Debug)]
pub struct Program {
    sockets: OwnedFd,
    mode: Mode,
    /// It leaves the device when this is closed.
    _link: OwnedFd,
}

impl Program {
    /// Loads one with room for the sockets of so many queues, and puts it on the device with this number.
    ///
    /// # Errors
    /// In words, if this needs more rights or another program has the device; otherwise what the kernel says.
    pub fn attach(device: u32, queues: u32) -> io::Result<Self> {
        let sockets = create_map(MapKind::Sockets, 4, queues, 0).map_err(explained)?;
        let instructions = instructions(sockets.as_fd());
        let program = load(ProgramKind::Xdp, Some(AttachPoint::Xdp), *b"heddle_xdp\0\0\0\0\0\0", &instructions)
            .map_err(explained)?;
        let attach = |flags| link(program.as_fd(), device, AttachPoint::Xdp, flags);
        match attach(XDP_FLAGS_DRV_MODE) {
            Ok(link) => Ok(Self { sockets, mode: Mode::Native, _link: link }),
            // Whoever has the device has it in both ways.
            Err(error) if error.raw_os_error() == Some(libc::EBUSY) => Err(explained(error)),
            Err(_) => {
                let link = attach(XDP_FLAGS_SKB_MODE).map_err(explained)?;
                Ok(Self { sockets, mode: Mode::Generic, _link: link })
            }
        }
    }

    /// Who runs it.
    pub const fn mode(&self) -> Mode {
        self.mode
    }

    /// Hands the frames of a queue to a socket.
    ///
    /// # Errors
    /// If it is no `AF_XDP` socket, or there is no room for that queue.
    pub fn hand_to(&self, queue: u32, socket: BorrowedFd<'_>) -> io::Result<()> {
        update(self.sockets.as_fd(), queue, socket)
    }
}

/// What looks up the socket of a frame's queue.
fn instructions(sockets: BorrowedFd<'_>) -> Vec<Instruction> {
    let mut program = Assembler::default();
    program.load(Size::Word, Register::R2, Register::R1, RX_QUEUE_INDEX);
    program.map(Register::R1, sockets);
    program.alu(Alu::Move, Register::R3, XDP_PASS);
    program.call(helper::REDIRECT_MAP);
    program.exit();
    program.finish()
}

/// Says what to do about what users meet.
fn explained(error: io::Error) -> io::Error {
    let text = match error.raw_os_error() {
        Some(libc::EPERM | libc::EACCES) => "AF_XDP needs CAP_BPF, CAP_NET_ADMIN and CAP_NET_RAW",
        Some(libc::EBUSY | libc::EEXIST) => "another XDP program is on it",
        Some(libc::EOPNOTSUPP) => "neither its driver nor the kernel lets an XDP program on it",
        _ => return error,
    };
    io::Error::new(error.kind(), text)
}
