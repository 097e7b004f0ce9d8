//! The programs of the kernel path.
//!
//! ```text
//!   host a: socket -> eth0, egress: `departures` --redirect--> heddle-eth0 ==== a's device in the hub, ingress: `flows` --redirect to peer--> heddle-eth0 of host b
//!                            | none of a flow                                                                                                     ingress: `arrivals`
//!                            v                                                                                                                    --redirect--> eth0 -> socket
//!                           TAP: the worker
//! ```
//!
//! A segment of TCP that begins or ends a connection is of no flow, so the worker sees it. What comes to the hub and is of no flow is dropped there: nothing but `departures` should
//! send it.

use std::os::fd::BorrowedFd;

use super::layout::{
    BUCKET_BITS, FACTOR, FLOW_WORDS, KEY_WORDS, LIVE, TCP_OVER_IPV4, TCP_OVER_IPV6, UDP_OVER_IPV4, UDP_OVER_IPV6, WAYS,
    word,
};
use crate::bpf::{Alu, Assembler, Condition, Instruction, Register, Size, helper};
use Register::{R0, R1, R2, R3, R4, R5, R6, R7, R8, R9, R10};

/// Fields of `struct __sk_buff`.
const LENGTH: i16 = 0;
const VLAN_PRESENT: i16 = 20;
const DEVICE: i16 = 40;
const DATA: i16 = 76;
const DATA_END: i16 = 80;

/// What becomes of a packet: the next program is asked, and in the end the device; or it is dropped.
const TCX_NEXT: i32 = -1;
const TCX_DROP: i32 = 2;

/// `BPF_F_INGRESS`: to where frames come from a device.
const TO_INGRESS: i32 = 1;
/// `BPF_F_PSEUDO_HDR`: what is written is a part of the pseudo-header.
const PSEUDO_HEADER: i32 = 0x10;
/// `BPF_F_MARK_MANGLED_0`: a checksum of zero says that there is none.
const ZERO_IS_NONE: i32 = 0x20;

/// Where things are in a frame.
const ETHERTYPE: i16 = 12;
const IP: i16 = 14;
const IPV4_HEADER: i16 = 20;
const IPV6_HEADER: i16 = 40;
const TCP_HEADER: i16 = 20;
const TCP_FLAGS: i16 = 13;
const UDP_HEADER: i16 = 8;
const IPV4_CHECKSUM: i16 = 10;
const IPV4_ADDRESSES: i16 = 12;
const IPV6_ADDRESSES: i16 = 8;
const TCP: i32 = 6;
const UDP: i32 = 17;
/// More fragments, or an offset.
const FRAGMENT: u16 = 0x3fff;
/// FIN, SYN and RST.
const BEGINS_OR_ENDS: i32 = 0x07;

/// Where the key and the bucket's number are in the stack frame.
const KEY: i16 = -of_word(KEY_WORDS);
const BUCKET: i16 = KEY - 8;
/// Where a MAC address is, once the key is not needed.
const MAC: i16 = -8;

/// Where a protocol's header has its checksum, and what is special about it.
#[derive(Clone, Copy)]
struct Checksum {
    at: i16,
    flags: i32,
}

const OF_TCP: Checksum = Checksum { at: 16, flags: 0 };
const OF_UDP: Checksum = Checksum { at: 6, flags: ZERO_IS_NONE };

/// The value of a field of two bytes as a program loads it.
const fn half(value: u16) -> i32 {
    u16::from_ne_bytes(value.to_be_bytes()) as i32
}

const fn of_word(number: usize) -> i16 {
    ((number * 8) as u16).cast_signed()
}

/// At the egress of a host's device: what is of a flow of this host goes to `device`, which leads to `in_hub`. Another host may have made up its addresses and ports before: then the flow is
/// that one's, and what this host sends is the worker's to judge.
pub fn departures(table: BorrowedFd<'_>, seed: u64, (device, in_hub): (u32, u32)) -> Vec<Instruction> {
    let mut program = Assembler::default();
    let none = program.label();
    program.alu_by(Alu::Move, R6, R1);
    find(&mut program, (table, seed), none);
    program.load(Size::Double, R1, R9, of_word(word::FROM));
    program.jump_if(Condition::NotEqual, R1, in_hub.cast_signed(), none);
    is_between(&mut program, none);
    program.alu(Alu::Move, R1, device.cast_signed());
    program.alu(Alu::Move, R2, 0);
    program.call(helper::REDIRECT);
    program.exit();
    program.place(none);
    program.exit_with(TCX_NEXT);
    program.finish()
}

/// Where packets come from hosts into the hub: each is written as its flow says, counted, and goes to its host.
pub fn flows(table: BorrowedFd<'_>, seed: u64) -> Vec<Instruction> {
    let mut program = Assembler::default();
    let (none, send, tcp_over_ipv6) = (program.label(), program.label(), program.label());
    let (udp_over_ipv4, udp_over_ipv6) = (program.label(), program.label());
    program.alu_by(Alu::Move, R6, R1);
    // Also here only what is live: a host that sends to its device of the kernel path by itself would go on with a flow that has been taken back.
    find(&mut program, (table, seed), none);
    // Another host's may have the same addresses, if somebody has made them up.
    program.load(Size::Double, R1, R9, of_word(word::FROM));
    program.load(Size::Word, R2, R6, DEVICE);
    program.jump_if_by(Condition::NotEqual, R1, R2, none);
    is_between(&mut program, none);
    program.alu(Alu::Move, R1, 1);
    program.add_atomically(R9, of_word(word::PACKETS), R1);
    program.load(Size::Word, R1, R6, LENGTH);
    program.add_atomically(R9, of_word(word::BYTES), R1);
    program.load(Size::Double, R7, R9, of_word(word::TRANSLATES));
    // The key's last word says what it is.
    program.load(Size::Word, R8, R10, KEY + of_word(KEY_WORDS - 1) + upper_half());
    program.load(Size::Double, R1, R9, of_word(word::MAC));
    program.store(Size::Double, R10, MAC, R1);
    store_bytes(&mut program, 0, (R10, MAC), 6);
    program.jump_if(Condition::Equal, R7, 0, send);
    program.jump_if(Condition::Equal, R8, TCP_OVER_IPV6 as i32, tcp_over_ipv6);
    program.jump_if(Condition::Equal, R8, UDP_OVER_IPV6 as i32, udp_over_ipv6);
    replace_checksum(&mut program, helper::L3_CHECKSUM, IP + IPV4_CHECKSUM, word::ADDRESSES_DIFFER, 0);
    program.jump_if(Condition::Equal, R8, UDP_OVER_IPV4 as i32, udp_over_ipv4);
    translate(&mut program, (IP + IPV4_ADDRESSES, 8), IP + IPV4_HEADER, OF_TCP);
    program.jump(send);
    program.place(udp_over_ipv4);
    translate(&mut program, (IP + IPV4_ADDRESSES, 8), IP + IPV4_HEADER, OF_UDP);
    program.jump(send);
    program.place(udp_over_ipv6);
    translate(&mut program, (IP + IPV6_ADDRESSES, 32), IP + IPV6_HEADER, OF_UDP);
    program.jump(send);
    program.place(tcp_over_ipv6);
    translate(&mut program, (IP + IPV6_ADDRESSES, 32), IP + IPV6_HEADER, OF_TCP);
    program.place(send);
    program.load(Size::Word, R1, R9, of_word(word::TO) + lower_half());
    program.alu(Alu::Move, R2, 0);
    program.call(helper::REDIRECT_PEER);
    program.exit();
    program.place(none);
    program.exit_with(TCX_DROP);
    program.finish()
}

/// Where packets come from the hub into a host: they come in by its device.
pub fn arrivals(device: u32) -> Vec<Instruction> {
    let mut program = Assembler::default();
    program.alu(Alu::Move, R1, device.cast_signed());
    program.alu(Alu::Move, R2, TO_INGRESS);
    program.call(helper::REDIRECT);
    program.exit();
    program.finish()
}

/// Where the halves of a word are.
const fn upper_half() -> i16 {
    if cfg!(target_endian = "little") { 4 } else { 0 }
}

const fn lower_half() -> i16 {
    4 - upper_half()
}

/// Has R9 point to the live flow of the packet in R6, and R7 to its frame, or goes on at `none`.
fn find(program: &mut Assembler, (table, seed): (BorrowedFd<'_>, u64), none: crate::bpf::Label) {
    let (ipv4, known, found) = (program.label(), program.label(), program.label());
    program.load(Size::Word, R2, R6, VLAN_PRESENT);
    program.jump_if(Condition::NotEqual, R2, 0, none);
    program.load(Size::Word, R7, R6, DATA);
    program.load(Size::Word, R8, R6, DATA_END);
    is_long(program, IP + IPV4_HEADER + UDP_HEADER, none);
    program.load(Size::Half, R2, R7, ETHERTYPE);
    program.jump_if(Condition::Equal, R2, half(0x0800), ipv4);
    program.jump_if(Condition::NotEqual, R2, half(0x86dd), none);

    is_long(program, IP + IPV6_HEADER + UDP_HEADER, none);
    goes_on(program, IP + 6, IP + IPV6_HEADER, (TCP_OVER_IPV6, UDP_OVER_IPV6), none);
    for number in 0..4 {
        program.load(Size::Double, R1, R7, IP + IPV6_ADDRESSES + 8 * number);
        program.store(Size::Double, R10, KEY + 8 * number, R1);
    }
    ports(program, IP + IPV6_HEADER);
    program.jump(known);

    program.place(ipv4);
    // No options, no fragment.
    program.load(Size::Byte, R2, R7, IP);
    program.jump_if(Condition::NotEqual, R2, 0x45, none);
    program.load(Size::Half, R2, R7, IP + 6);
    program.alu(Alu::And, R2, half(FRAGMENT));
    program.jump_if(Condition::NotEqual, R2, 0, none);
    goes_on(program, IP + 9, IP + IPV4_HEADER, (TCP_OVER_IPV4, UDP_OVER_IPV4), none);
    program.alu(Alu::Move, R2, 0);
    for number in 0..2 {
        program.load(Size::Word, R1, R7, IP + IPV4_ADDRESSES + 4 * number);
        program.store(Size::Double, R10, KEY + 16 * number, R2);
        program.store(Size::Double, R10, KEY + 16 * number + 8, R1);
    }
    ports(program, IP + IPV4_HEADER);

    program.place(known);
    program.constant(R1, seed);
    program.constant(R3, FACTOR);
    for number in 0..KEY_WORDS {
        program.load(Size::Double, R2, R10, KEY + of_word(number));
        program.alu_by(Alu::Xor, R1, R2);
        program.alu_by(Alu::Mul, R1, R3);
        program.alu_by(Alu::Move, R2, R1);
        program.alu(Alu::ShiftRight, R2, 32);
        program.alu_by(Alu::Xor, R1, R2);
    }
    program.alu(Alu::ShiftRight, R1, 64 - BUCKET_BITS.cast_signed());
    program.store(Size::Word, R10, BUCKET, R1);
    program.map(R1, table);
    program.alu_by(Alu::Move, R2, R10);
    program.alu(Alu::Add, R2, BUCKET.into());
    program.call(helper::MAP_LOOKUP);
    program.jump_if(Condition::Equal, R0, 0, none);
    program.alu_by(Alu::Move, R9, R0);
    for way in 0..WAYS {
        let next = program.label();
        let at = |number: usize| of_word(way * FLOW_WORDS + number);
        program.load(Size::Double, R1, R9, at(word::STATE));
        program.jump_if(Condition::NotEqual, R1, LIVE as i32, next);
        for number in 0..KEY_WORDS {
            program.load(Size::Double, R1, R9, at(word::KEY + number));
            program.load(Size::Double, R2, R10, KEY + of_word(number));
            program.jump_if_by(Condition::NotEqual, R1, R2, next);
        }
        program.alu(Alu::Add, R9, at(0).into());
        program.jump(found);
        program.place(next);
    }
    program.jump(none);
    program.place(found);
}

/// Goes on at `none` if the flow in R9 is of packets between two MAC addresses only, and the frame in R7 is of others: who is reached by another address, or sends from one, is the worker's to find.
fn is_between(program: &mut Assembler, none: crate::bpf::Label) {
    let any = program.label();
    program.load(Size::Double, R1, R9, of_word(word::ONLY));
    program.jump_if(Condition::Equal, R1, 0, any);
    program.load(Size::Double, R2, R7, 0);
    program.jump_if_by(Condition::NotEqual, R1, R2, none);
    program.load(Size::Double, R1, R9, of_word(word::ONLY_REST));
    program.load(Size::Word, R2, R7, 8);
    program.jump_if_by(Condition::NotEqual, R1, R2, none);
    program.place(any);
}

/// Goes on at `none` if so many bytes of the frame are not at hand.
fn is_long(program: &mut Assembler, bytes: i16, none: crate::bpf::Label) {
    program.alu_by(Alu::Move, R2, R7);
    program.alu(Alu::Add, R2, bytes.into());
    program.jump_if_by(Condition::Greater, R2, R8, none);
}

/// Has R5 be the kind, in its upper half, of the segment or datagram there; goes on at `none` if it is neither, or begins or ends a connection. `protocol`: where its number stands.
fn goes_on(program: &mut Assembler, protocol: i16, segment: i16, (tcp, udp): (u64, u64), none: crate::bpf::Label) {
    let known = program.label();
    program.load(Size::Byte, R3, R7, protocol);
    program.constant(R5, udp << 32);
    program.jump_if(Condition::Equal, R3, UDP, known);
    program.jump_if(Condition::NotEqual, R3, TCP, none);
    is_long(program, segment + TCP_HEADER, none);
    program.load(Size::Byte, R2, R7, segment + TCP_FLAGS);
    program.alu(Alu::And, R2, BEGINS_OR_ENDS);
    program.jump_if(Condition::NotEqual, R2, 0, none);
    program.constant(R5, tcp << 32);
    program.place(known);
}

/// The last word of a key: ports in the lower half, the kind of R5 in the upper one.
fn ports(program: &mut Assembler, segment: i16) {
    program.load(Size::Word, R1, R7, segment);
    program.alu_by(Alu::Or, R1, R5);
    program.store(Size::Double, R10, KEY + of_word(KEY_WORDS - 1), R1);
}

/// Writes addresses and ports of the flow in R9 into the packet in R6, and what its checksum differs by.
fn translate(program: &mut Assembler, (addresses, bytes): (i16, i32), segment: i16, checksum: Checksum) {
    let at = segment + checksum.at;
    replace_checksum(program, helper::L4_CHECKSUM, at, word::ADDRESSES_DIFFER, checksum.flags | PSEUDO_HEADER);
    replace_checksum(program, helper::L4_CHECKSUM, at, word::PORTS_DIFFER, checksum.flags);
    store_bytes(program, addresses, (R9, of_word(word::ADDRESSES)), bytes);
    store_bytes(program, segment, (R9, of_word(word::PORTS)), 4);
}

/// Lets a checksum of the packet in R6 differ by what the flow in R9 says.
fn replace_checksum(program: &mut Assembler, helper: i32, at: i16, differ: usize, flags: i32) {
    program.alu_by(Alu::Move, R1, R6);
    program.alu(Alu::Move, R2, at.into());
    program.alu(Alu::Move, R3, 0);
    program.load(Size::Double, R4, R9, of_word(differ));
    program.alu(Alu::Move, R5, flags);
    program.call(helper);
}

/// Writes bytes into the packet in R6.
fn store_bytes(program: &mut Assembler, at: i16, (from, offset): (Register, i16), bytes: i32) {
    program.alu_by(Alu::Move, R1, R6);
    program.alu(Alu::Move, R2, at.into());
    program.alu_by(Alu::Move, R3, from);
    program.alu(Alu::Add, R3, offset.into());
    program.alu(Alu::Move, R4, bytes);
    program.alu(Alu::Move, R5, 0);
    program.call(helper::STORE_BYTES);
}
