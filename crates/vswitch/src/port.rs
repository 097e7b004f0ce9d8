//! What a port of a switch admits and carries: VLANs as Open vSwitch has them (`vlan_mode`, `tag`, `trunks`; IEEE 802.1Q, 6.9), where unknown addresses may be,
//! and how much it may send to everybody.

use serde::{Deserialize, Serialize};

/// The bits of a tag's control information that name the VLAN.
pub const VID_MASK: u16 = 0x0fff;

/// How a port has its VLANs. Their names are those of Open vSwitch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum VlanMode {
    /// It carries one VLAN, without tags.
    Access,
    /// It carries several, with tags; what has no tag is of VLAN 0.
    #[default]
    Trunk,
    /// The same, and what comes without a tag is of the port's own VLAN. That leaves with a tag.
    NativeTagged,
    /// The same, and what is of the port's own VLAN leaves without a tag.
    NativeUntagged,
}

impl VlanMode {
    /// All of them.
    pub const ALL: &[Self] = &[Self::Access, Self::Trunk, Self::NativeTagged, Self::NativeUntagged];

    /// As files write it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Access => "access",
            Self::Trunk => "trunk",
            Self::NativeTagged => "native-tagged",
            Self::NativeUntagged => "native-untagged",
        }
    }
}

/// The VLANs of a port. As it starts, it is a trunk of all of them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct PortVlans {
    mode: VlanMode,
    /// Its own VLAN, where it has one.
    tag: u16,
    /// Which others it carries, ascending; empty: all.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    trunks: Vec<u16>,
}

impl PortVlans {
    /// A port in this mode. `tag` is its own VLAN (of a trunk none), `trunks` which it carries, all if it is empty; its own is always among them.
    pub fn new(mode: VlanMode, tag: u16, mut trunks: Vec<u16>) -> Self {
        if matches!(mode, VlanMode::NativeTagged | VlanMode::NativeUntagged) && !trunks.is_empty() {
            trunks.push(tag);
        }
        trunks.sort_unstable();
        trunks.dedup();
        Self { mode, tag: tag & VID_MASK, trunks }
    }

    /// A port of one VLAN.
    pub const fn access(tag: u16) -> Self {
        Self { mode: VlanMode::Access, tag, trunks: Vec::new() }
    }

    /// How it has its VLANs.
    pub const fn mode(&self) -> VlanMode {
        self.mode
    }

    /// Its own VLAN, where it has one.
    pub fn tag(&self) -> Option<u16> {
        (self.mode != VlanMode::Trunk).then_some(self.tag)
    }

    /// Which others it carries, ascending; empty: all.
    pub fn trunks(&self) -> &[u16] {
        &self.trunks
    }

    /// The VLAN that a frame is in which comes in with this control information in its tag, if it has one; `None`: the port does not admit it.
    pub fn admit(&self, tci: Option<u16>) -> Option<u16> {
        // A tag of VLAN 0 says a priority only.
        let vid = tci.map_or(0, |tci| tci & VID_MASK);
        match self.mode {
            VlanMode::Access => (vid == 0).then_some(self.tag),
            VlanMode::NativeTagged | VlanMode::NativeUntagged if vid == 0 => Some(self.tag),
            VlanMode::Trunk | VlanMode::NativeTagged | VlanMode::NativeUntagged => self.carries(vid).then_some(vid),
        }
    }

    /// Whether frames of a VLAN leave by it.
    pub fn carries(&self, vid: u16) -> bool {
        match self.mode {
            VlanMode::Access => vid == self.tag,
            VlanMode::Trunk | VlanMode::NativeTagged | VlanMode::NativeUntagged => {
                self.trunks.is_empty() || self.trunks.binary_search(&vid).is_ok()
            }
        }
    }

    /// Whether frames of a VLAN that it carries leave with a tag.
    pub const fn tags(&self, vid: u16) -> bool {
        match self.mode {
            VlanMode::Access => false,
            VlanMode::Trunk | VlanMode::NativeTagged => vid != 0,
            VlanMode::NativeUntagged => vid != 0 && vid != self.tag,
        }
    }
}

/// How much of what is for everybody, or for an address that nobody knows, may come in by a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum StormLimit {
    /// So many frames a second.
    FramesPerSecond(u64),
    /// So many bits a second of frames, without preamble and frame check sequence.
    BitsPerSecond(u64),
}

/// What a file says about a port of a switch.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct PortSettings {
    /// Its VLANs; `None`: nothing is said, and it is a trunk of all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub vlans: Option<PortVlans>,
    /// Whether addresses are learned from what comes in by it. They are when not said.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub learning: Option<bool>,
    /// Whether what is for an address that nobody knows leaves by it. If not said: where somebody else may be, behind network devices and sockets of guests.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub flood: Option<bool>,
    /// How much may come in by it that is for everybody; `None`: what all may.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub storm_control: Option<StormLimit>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn ports_admit_and_tag_as_those_of_open_vswitch() {
        let priority = Some(0xe000);
        let access = PortVlans::access(10);
        assert_eq!([None, priority, Some(10), Some(20)].map(|tci| access.admit(tci)), [Some(10), Some(10), None, None]);
        assert!(access.carries(10) && !access.carries(20) && !access.carries(0) && !access.tags(10));
        let trunk = PortVlans::new(VlanMode::Trunk, 0, vec![20, 10]);
        assert_eq!(
            [None, Some(10), Some(0xe014), Some(30)].map(|tci| trunk.admit(tci)),
            [None, Some(10), Some(20), None]
        );
        assert!(trunk.tags(10) && !trunk.carries(0));
        let all = PortVlans::default();
        assert_eq!([None, Some(4095)].map(|tci| all.admit(tci)), [Some(0), Some(4095)]);
        assert!(!all.tags(0) && all.tags(1));
        for (mode, tags_own) in [(VlanMode::NativeUntagged, false), (VlanMode::NativeTagged, true)] {
            let native = PortVlans::new(mode, 5, vec![20]);
            assert_eq!(
                [None, Some(5), Some(20), Some(6)].map(|tci| native.admit(tci)),
                [Some(5), Some(5), Some(20), None]
            );
            assert_eq!((native.tags(5), native.tags(20), native.carries(6)), (tags_own, true, false));
        }
    }

    proptest! {
        /// What a port sends of a VLAN is of the same VLAN to a port of the same kind.
        #[test]
        fn what_one_port_sends_the_other_end_takes_for_the_same(
            mode in 0_usize..4, tag in 1_u16..4095, trunks in proptest::collection::vec(1_u16..4095, 0..5), vid in 0_u16..4095,
        ) {
            let mode = VlanMode::ALL[mode];
            let port = PortVlans::new(mode, tag, trunks.clone());
            for vid in trunks.into_iter().chain([tag, vid]).filter(|vid| port.carries(*vid)) {
                // Without a tag, a frame of VLAN 0 is one of the port's own.
                let expected = if vid == 0 && mode != VlanMode::Trunk { tag } else { vid };
                prop_assert_eq!(port.admit(port.tags(vid).then_some(vid)), Some(expected));
            }
        }
    }
}
