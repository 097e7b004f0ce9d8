//! What a frame carries, and its payload.

use wire::{Error, EthernetPacket, EthernetPacketMut};

/// What a frame carries.
pub fn ethertype_of(frame: &[u8]) -> Result<u16, Error> {
    EthernetPacket::new_checked(frame).map(|ethernet| ethernet.ethertype())
}

/// The payload of a frame that carries this.
pub fn payload<'a>(frame: &'a mut [u8], wanted: u16, expected: &'static str) -> Result<&'a mut [u8], Error> {
    let ethertype = ethertype_of(frame)?;
    if ethertype != wanted {
        return Err(Error::Field { header: "Ethernet", field: "ethertype", value: u32::from(ethertype), expected });
    }
    EthernetPacketMut::new_checked(frame).map(EthernetPacketMut::into_payload)
}
