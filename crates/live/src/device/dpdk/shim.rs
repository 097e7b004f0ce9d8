//! The functions of `dpdk/shim.c`.

use std::ffi::{c_char, c_int, c_void};

/// A frame of DPDK (`struct rte_mbuf`).
#[repr(C)]
pub struct Mbuf {
    _private: [u8; 0],
}

/// A port that is open.
#[derive(Debug)]
#[repr(C)]
pub struct RawPort {
    pub pool: *mut c_void,
    pub number: u16,
}

// SAFETY: these are the functions of `dpdk/shim.c`, which `build.rs` compiles, with the types that they have there.
unsafe extern "C" {
    pub fn heddle_dpdk_start(count: c_int, arguments: *mut *mut c_char) -> c_int;
    pub fn heddle_dpdk_open(
        name: *const c_char,
        arguments: *const c_char,
        pool: *const c_char,
        port: *mut RawPort,
    ) -> c_int;
    pub fn heddle_dpdk_close(port: *mut RawPort);
    pub fn heddle_dpdk_receive(port: *const RawPort, frames: *mut *mut Mbuf, most: u16) -> u16;
    pub fn heddle_dpdk_read(frame: *const Mbuf, to: *mut u8, room: u32) -> u32;
    pub fn heddle_dpdk_take(port: *const RawPort, frames: *mut *mut Mbuf, count: u16) -> c_int;
    pub fn heddle_dpdk_give_back(frames: *mut *mut Mbuf, count: u16);
    pub fn heddle_dpdk_write(frame: *mut Mbuf, bytes: *const u8, len: u16) -> c_int;
    pub fn heddle_dpdk_send(port: *const RawPort, frames: *mut *mut Mbuf, count: u16) -> u16;
    pub fn heddle_dpdk_losses(port: *const RawPort) -> u64;
}
