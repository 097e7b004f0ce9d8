//! What the kernel is asked by bpf(2).
#![allow(unsafe_code)]

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use super::assembler::Instruction;

/// Commands, as `linux/bpf.h` has them.
const MAP_CREATE: libc::c_long = 0;
const MAP_UPDATE_ELEM: libc::c_long = 2;
const PROG_LOAD: libc::c_long = 5;
const LINK_CREATE: libc::c_long = 28;

/// Bytes of what the verifier says.
const LOG_BYTES: usize = 256 << 10;
/// Lines of it that an error has: the last ones, which say what is wrong.
const LOG_LINES: usize = 4;

/// What a map is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum MapKind {
    /// Values by their numbers.
    Array = 2,
    /// `AF_XDP` sockets by their numbers.
    Sockets = 17,
}

/// What a program is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum ProgramKind {
    /// A classifier of traffic control (`BPF_PROG_TYPE_SCHED_CLS`).
    Classifier = 3,
    /// `BPF_PROG_TYPE_XDP`.
    Xdp = 6,
}

/// Where a program is put on a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum AttachPoint {
    /// By its driver, or in its place (`BPF_XDP`).
    Xdp = 37,
    /// Where frames come from it (`BPF_TCX_INGRESS`; Linux 6.6).
    Ingress = 46,
    /// Where the kernel sends by it (`BPF_TCX_EGRESS`).
    Egress = 47,
}

/// A map with room for so many values; `flags` as `linux/bpf.h` has them. Keys have four bytes.
///
/// # Errors
/// If the kernel does not let this process have it.
pub fn create_map(kind: MapKind, value_bytes: u32, entries: u32, flags: u32) -> io::Result<OwnedFd> {
    #[repr(C)]
    struct Create {
        kind: u32,
        key_bytes: u32,
        value_bytes: u32,
        entries: u32,
        flags: u32,
    }
    let create = Create { kind: kind as u32, key_bytes: 4, value_bytes, entries, flags };
    // SAFETY: the structure points to nothing.
    unsafe { bpf(MAP_CREATE, &create) }.map(owned)
}

/// Puts a descriptor into a map of those.
///
/// # Errors
/// If the map does not take it, or has no room for that key.
pub fn update(map: BorrowedFd<'_>, key: u32, value: BorrowedFd<'_>) -> io::Result<()> {
    #[repr(C)]
    struct Update {
        map: u32,
        padding: u32,
        key: u64,
        value: u64,
        flags: u64,
    }
    let value = value.as_raw_fd();
    let update = Update {
        map: map.as_raw_fd().cast_unsigned(),
        padding: 0,
        key: (&raw const key).addr() as u64,
        value: (&raw const value).addr() as u64,
        flags: 0,
    };
    // SAFETY: the kernel reads a key and a value of four bytes each, which outlive the call.
    unsafe { bpf(MAP_UPDATE_ELEM, &update) }.map(drop)
}

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
    attach_point: u32,
}

/// Has the kernel take a program. `name` is what others see.
///
/// # Errors
/// What the kernel says; if its verifier refuses the program, with the end of what that says.
pub fn load(
    kind: ProgramKind,
    point: Option<AttachPoint>,
    name: [u8; 16],
    program: &[Instruction],
) -> io::Result<OwnedFd> {
    let request = |log_level, log: &mut [u8]| Load {
        kind: kind as u32,
        instruction_count: program.len() as u32,
        instructions: program.as_ptr().addr() as u64,
        license: c"Dual MIT/GPL".as_ptr().addr() as u64,
        log_level,
        log_bytes: log.len() as u32,
        log: if log.is_empty() { 0 } else { log.as_mut_ptr().addr() as u64 },
        kernel_version: 0,
        flags: 0,
        name,
        device: 0,
        attach_point: point.map_or(0, |point| point as u32),
    };
    // SAFETY: the kernel reads as many instructions as it is given, and a text that ends with a zero; both outlive the call.
    let error = match unsafe { bpf(PROG_LOAD, &request(0, &mut [])) } {
        Ok(program) => return Ok(owned(program)),
        Err(error) => error,
    };
    if matches!(error.raw_os_error(), Some(libc::EPERM)) {
        return Err(error);
    }
    // Once more, to hear why.
    let mut log = vec![0; LOG_BYTES];
    // SAFETY: as before; besides, the kernel writes as many bytes as it is given room for into the log, which outlives the call.
    if let Ok(program) = unsafe { bpf(PROG_LOAD, &request(1, &mut log)) } {
        return Ok(owned(program));
    }
    let end = log.iter().position(|byte| *byte == 0).unwrap_or(log.len());
    match said(&String::from_utf8_lossy(&log[..end])) {
        none if none.is_empty() => Err(error),
        said => Err(io::Error::new(error.kind(), format!("{error}: {said}"))),
    }
}

/// The end of what the verifier has said, in one line.
fn said(log: &str) -> String {
    let mut lines: Vec<&str> = log.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    // Statistics.
    lines.retain(|line| !line.starts_with("processed ") && !line.starts_with("verification time"));
    lines[lines.len().saturating_sub(LOG_LINES)..].join("; ")
}

/// Puts a program on the device with this number in the calling thread's network namespace. It leaves the device when this is closed.
///
/// # Errors
/// If there is no such device, or the kernel does not put it there.
pub fn link(program: BorrowedFd<'_>, device: u32, point: AttachPoint, flags: u32) -> io::Result<OwnedFd> {
    #[repr(C)]
    struct Link {
        program: u32,
        device: u32,
        attach_point: u32,
        flags: u32,
    }
    let link = Link { program: program.as_raw_fd().cast_unsigned(), device, attach_point: point as u32, flags };
    // SAFETY: the structure points to nothing.
    unsafe { bpf(LINK_CREATE, &link) }.map(owned)
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

#[cfg(test)]
mod tests {
    use super::said;

    #[test]
    fn an_error_has_the_end_of_what_the_verifier_says() {
        let log = "0: R1=ctx() R10=fp0\n0: (79) r2 = *(u64 *)(r1 +4096)\ninvalid bpf_context access off=4096 size=8\n\
                   processed 1 insns (limit 1000000) max_states_per_insn 0\n";
        let text = "0: R1=ctx() R10=fp0; 0: (79) r2 = *(u64 *)(r1 +4096); invalid bpf_context access off=4096 size=8";
        assert_eq!(said(log), text);
        assert_eq!(said(""), "");
    }
}
