//! The program on a device that hands its frames to sockets (bpf(2)).
//!
//! Five instructions that only look up the socket of the frame's queue, so they stand here as they are and need neither a compiler nor a library to load them. The
//! program is on the device as long as its link is open, which the kernel closes with this process, however that ends.
#![allow(unsafe_code)]

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

/// An instruction (`struct bpf_insn`).
#[repr(C)]
#[derive(Clone, Copy)]
struct Instruction {
    code: u8,
    /// Destination in the low half, source in the high one.
    registers: u8,
    offset: i16,
    value: i32,
}

const fn instruction(code: u8, (to, from): (u8, u8), offset: i16, value: i32) -> Instruction {
    Instruction { code, registers: from << 4 | to, offset, value }
}

/// `BPF_LDX | BPF_MEM | BPF_W`, `BPF_LD | BPF_DW | BPF_IMM`, `BPF_ALU64 | BPF_MOV | BPF_K`, `BPF_JMP | BPF_CALL`, `BPF_JMP | BPF_EXIT`.
const LOAD_WORD: u8 = 0x61;
const LOAD_CONSTANT: u8 = 0x18;
const MOVE: u8 = 0xb7;
const CALL: u8 = 0x85;
const EXIT: u8 = 0x95;
/// Where a constant is the descriptor of a map (`BPF_PSEUDO_MAP_FD`).
const MAP: u8 = 1;
/// Where `struct xdp_md` has the number of the receive queue.
const RX_QUEUE_INDEX: i16 = 16;
/// `bpf_redirect_map`; what it returns for a queue without a socket: the kernel's stack gets the frame (`XDP_PASS`).
const REDIRECT_MAP: i32 = 51;
const XDP_PASS: i32 = 2;

/// Commands, kinds and flags of bpf(2), as `linux/bpf.h` has them.
const BPF_MAP_CREATE: libc::c_long = 0;
const BPF_MAP_UPDATE_ELEM: libc::c_long = 2;
const BPF_PROG_LOAD: libc::c_long = 5;
const BPF_LINK_CREATE: libc::c_long = 28;
const BPF_MAP_TYPE_XSKMAP: u32 = 17;
const BPF_PROG_TYPE_XDP: u32 = 6;
const BPF_XDP: u32 = 37;
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
        let sockets = create_map(queues).map_err(explained)?;
        let program = load(&sockets).map_err(explained)?;
        let attach = |flags| link(&program, device, flags);
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
        #[repr(C)]
        struct Update {
            map: u32,
            padding: u32,
            key: u64,
            value: u64,
            flags: u64,
        }
        let value = socket.as_raw_fd();
        let update = Update {
            map: self.sockets.as_raw_fd().cast_unsigned(),
            padding: 0,
            key: (&raw const queue).addr() as u64,
            value: (&raw const value).addr() as u64,
            flags: 0,
        };
        // SAFETY: the kernel reads a key and a value of four bytes each, which outlive the call.
        unsafe { bpf(BPF_MAP_UPDATE_ELEM, &update) }.map(drop)
    }
}

/// A map from queues to sockets.
fn create_map(queues: u32) -> io::Result<OwnedFd> {
    #[repr(C)]
    struct Create {
        kind: u32,
        key_bytes: u32,
        value_bytes: u32,
        entries: u32,
        flags: u32,
    }
    let create = Create { kind: BPF_MAP_TYPE_XSKMAP, key_bytes: 4, value_bytes: 4, entries: queues, flags: 0 };
    // SAFETY: the structure points to nothing.
    unsafe { bpf(BPF_MAP_CREATE, &create) }.map(owned)
}

/// The program, for this map.
fn load(sockets: &OwnedFd) -> io::Result<OwnedFd> {
    #[repr(C)]
    struct Load {
        kind: u32,
        instruction_count: u32,
        instructions: u64,
        license: u64,
        log_level: u32,
        log_bytes: u32,
        log: u64,
        kernel_version: u32,
        flags: u32,
        name: [u8; 16],
        device: u32,
        attach_type: u32,
    }
    let instructions = [
        instruction(LOAD_WORD, (2, 1), RX_QUEUE_INDEX, 0),
        instruction(LOAD_CONSTANT, (1, MAP), 0, sockets.as_raw_fd()),
        instruction(0, (0, 0), 0, 0),
        instruction(MOVE, (3, 0), 0, XDP_PASS),
        instruction(CALL, (0, 0), 0, REDIRECT_MAP),
        instruction(EXIT, (0, 0), 0, 0),
    ];
    let load = Load {
        kind: BPF_PROG_TYPE_XDP,
        instruction_count: instructions.len() as u32,
        instructions: instructions.as_ptr().addr() as u64,
        license: c"Dual MIT/GPL".as_ptr().addr() as u64,
        log_level: 0,
        log_bytes: 0,
        log: 0,
        kernel_version: 0,
        flags: 0,
        name: *b"heddle_xdp\0\0\0\0\0\0",
        device: 0,
        attach_type: BPF_XDP,
    };
    // SAFETY: the kernel reads as many instructions as it is given, and a text that ends with a zero; both outlive the call.
    unsafe { bpf(BPF_PROG_LOAD, &load) }.map(owned)
}

/// Puts a program on a device.
fn link(program: &OwnedFd, device: u32, flags: u32) -> io::Result<OwnedFd> {
    #[repr(C)]
    struct Link {
        program: u32,
        device: u32,
        attach_type: u32,
        flags: u32,
    }
    let link = Link { program: program.as_raw_fd().cast_unsigned(), device, attach_type: BPF_XDP, flags };
    // SAFETY: the structure points to nothing.
    unsafe { bpf(BPF_LINK_CREATE, &link) }.map(owned)
}

/// Carries out a command with its part of `union bpf_attr`; what the rest of the union says is zero then.
///
/// # Safety
/// `attributes` is what the command takes, and what it points to is as long as it says and outlives the call.
unsafe fn bpf<T>(command: libc::c_long, attributes: &T) -> io::Result<libc::c_int> {
    // SAFETY: as this function demands.
    let result = unsafe { libc::syscall(libc::SYS_bpf, command, std::ptr::from_ref(attributes), size_of::<T>()) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result as libc::c_int) }
}

fn owned(descriptor: libc::c_int) -> OwnedFd {
    // SAFETY: the kernel has just made the descriptor, and nobody else has it.
    unsafe { OwnedFd::from_raw_fd(descriptor) }
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
