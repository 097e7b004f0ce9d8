//! Flags of `ct_state`, as Open vSwitch numbers them.

/// It begins a connection, which is not known yet, or has no answer yet.
pub const NEW: u8 = 0x01;
/// It belongs to a connection that has been answered.
pub const ESTABLISHED: u8 = 0x02;
/// It is about a connection: an ICMP error.
pub const RELATED: u8 = 0x04;
/// It goes in the direction of answers.
pub const REPLY: u8 = 0x08;
/// It belongs to none, and may begin none.
pub const INVALID: u8 = 0x10;
/// It was looked at.
pub const TRACKED: u8 = 0x20;
/// Its source was translated.
pub const SOURCE_NAT: u8 = 0x40;
/// Its destination was translated.
pub const DESTINATION_NAT: u8 = 0x80;
