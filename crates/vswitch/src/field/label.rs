//! Writes label stacks (RFC 3032).

use wire::{Error, EthernetPacketMut, Ipv4PacketMut, Ipv6PacketMut, MplsPacketMut, MplsRepr, ethertype};

use super::frame::ethertype_of;

/// The uppermost entry of a frame's label stack.
fn uppermost(frame: &mut [u8]) -> Result<MplsPacketMut<'_>, Error> {
    let ethertype = ethertype_of(frame)?;
    if !ethertype::is_mpls(ethertype) {
        let expected = "34887 or 34888 (MPLS)";
        return Err(Error::Field { header: "Ethernet", field: "ethertype", value: u32::from(ethertype), expected });
    }
    MplsPacketMut::new_checked(EthernetPacketMut::new_checked(frame)?.into_payload())
}

/// Writes the uppermost entry anew.
pub fn write(frame: &mut [u8], anew: impl FnOnce(MplsRepr) -> MplsRepr) -> Result<(), Error> {
    let mut entry = uppermost(frame)?;
    entry.set(anew(entry.repr()));
    Ok(())
}

/// Writes the time to live of what is behind the uppermost entry.
pub fn write_inner_ttl(frame: &mut [u8], ttl: u8) -> Result<(), Error> {
    let entry = uppermost(frame)?;
    let is_last = entry.repr().is_bottom;
    let inner = entry.into_payload();
    if !is_last {
        let mut next = MplsPacketMut::new_checked(inner)?;
        next.set(MplsRepr { ttl, ..next.repr() });
        return Ok(());
    }
    match inner.first().map_or(0, |first| first >> 4) {
        4 => Ipv4PacketMut::new_checked(inner)?.set_ttl(ttl),
        6 => Ipv6PacketMut::new_checked(inner)?.set_hop_limit(ttl),
        version => {
            let expected = "4 or 6 (IP)";
            return Err(Error::Field { header: "MPLS", field: "payload", value: u32::from(version), expected });
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use wire::{Coverage, push_mpls};

    use super::*;
    use crate::Field;
    use crate::testing::{address, labelled, tcp, tcp_v6};

    #[test]
    fn fields_of_an_entry_are_written_alone() {
        let plain = tcp(&address(1), &address(2), 1, 2, 10);
        let mut frame = labelled(plain.clone(), &[0x0001_0b40, 0x0002_0120]);
        for field in [Field::MplsLabel(0xf_fff0), Field::MplsTrafficClass(2), Field::MplsTtl(9)] {
            field.write(&mut frame, Coverage::Complete).unwrap();
        }
        let mut expected = plain.clone();
        push_mpls(&mut expected, ethertype::MPLS, 0x0002_0120).unwrap();
        push_mpls(&mut expected, ethertype::MPLS, 0xffff_0409).unwrap();
        assert_eq!(frame, expected);
        let mut frame = plain;
        assert!(Field::MplsTtl(9).write(&mut frame, Coverage::Complete).is_err());
    }

    #[test]
    fn the_time_to_live_behind_the_uppermost_entry_is_the_next_ones() {
        let (a, b) = (address(1), address(2));
        for plain in [tcp(&a, &b, 1, 2, 10), tcp_v6(&a, &b, 1, 2, 10)] {
            let mut frame = labelled(plain.clone(), &[0x0001_0040, 0x0002_0120]);
            Field::LabelledTtl(7).write(&mut frame, Coverage::Complete).unwrap();
            assert_eq!(frame, labelled(plain.clone(), &[0x0001_0040, 0x0002_0107]));
            let mut frame = labelled(plain.clone(), &[0x0002_0120]);
            Field::LabelledTtl(7).write(&mut frame, Coverage::Complete).unwrap();
            let mut written = plain;
            Field::Ttl(7).write(&mut written, Coverage::Complete).unwrap();
            assert_eq!(frame, labelled(written, &[0x0002_0120]));
        }
        let mut other = [&[0; 12][..], &[0x88, 0x47, 0, 0, 1, 1, 0x20]].concat();
        assert!(Field::LabelledTtl(7).write(&mut other, Coverage::Complete).is_err());
    }
}
