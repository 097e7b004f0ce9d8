//! Programs and maps in the kernel (bpf(2)).
//!
//! Programs are written as instructions by [`Assembler`], so that neither a compiler nor a library is needed to make or to load them. What is loaded is held by
//! descriptors: the kernel takes it away with the last one, however this process ends.

mod assembler;
mod command;
mod shared_array;

pub use assembler::{Alu, Assembler, Condition, Instruction, Label, Register, Size};
pub use command::{AttachPoint, MapKind, ProgramKind, create_map, link, load, update};
pub use shared_array::SharedArray;

/// What programs call in the kernel, by its numbers (`linux/bpf.h`).
pub mod helper {
    /// `bpf_map_lookup_elem`.
    pub const MAP_LOOKUP: i32 = 1;
    /// `bpf_skb_store_bytes`.
    pub const STORE_BYTES: i32 = 9;
    /// `bpf_l3_csum_replace`.
    pub const L3_CHECKSUM: i32 = 10;
    /// `bpf_l4_csum_replace`.
    pub const L4_CHECKSUM: i32 = 11;
    /// `bpf_redirect`.
    pub const REDIRECT: i32 = 23;
    /// `bpf_redirect_map`.
    pub const REDIRECT_MAP: i32 = 51;
    /// `bpf_redirect_peer`.
    pub const REDIRECT_PEER: i32 = 155;
}
