//! What connection tracking makes of a packet, as fields that are written.

use crate::conntrack::{Segment, Tracked};
use crate::field::Field;

/// Writes, field by field, what makes a packet the one that connection tracking says it is to become. What it quotes comes last.
pub fn translate(segment: &Segment, tracked: &Tracked, mut write: impl FnMut(Field)) {
    if let Some(new) = tracked.tuple {
        let old = segment.tuple;
        let ports = old.has_ports();
        let written = [
            (old.src != new.src).then(|| source(old.is_ipv6, new.src)),
            (old.dst != new.dst).then(|| destination(old.is_ipv6, new.dst)),
            (ports && old.src_port != new.src_port).then_some(Field::SrcPort(new.src_port)),
            (ports && old.dst_port != new.dst_port).then_some(Field::DstPort(new.dst_port)),
        ];
        written.into_iter().flatten().for_each(&mut write);
    }
    if let (Some(old), Some(new)) = (segment.quoted, tracked.quoted)
        && old != new
    {
        let ports = (old.src_port, old.dst_port) != (new.src_port, new.dst_port);
        let written = [
            (old.src != new.src).then(|| Field::QuotedSrc(new.address(new.src))),
            (old.dst != new.dst).then(|| Field::QuotedDst(new.address(new.dst))),
            (ports && new.has_ports()).then_some(Field::QuotedPorts(new.src_port, new.dst_port)),
        ];
        written.into_iter().flatten().for_each(write);
    }
}

fn source(is_ipv6: bool, bits: u128) -> Field {
    if is_ipv6 { Field::Ipv6Src(bits.into()) } else { Field::Ipv4Src((bits as u32).into()) }
}

fn destination(is_ipv6: bool, bits: u128) -> Field {
    if is_ipv6 { Field::Ipv6Dst(bits.into()) } else { Field::Ipv4Dst((bits as u32).into()) }
}
