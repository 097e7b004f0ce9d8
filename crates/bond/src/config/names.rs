//! Values of options that have both a name and a number in the kernel.

use std::fmt;
use std::str::FromStr;

use super::Error;

/// An enum whose values are read by kernel name or number and shown by name.
macro_rules! named {
    (
        $(#[$doc:meta])* $type:ident, $option:literal,
        $( $(#[$value_doc:meta])* $value:ident = $number:literal $name:literal ),+ $(,)?
    ) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        #[repr(u8)]
        pub enum $type { $( $(#[$value_doc])* $value = $number ),+ }

        impl $type {
            /// All values, in the order of their numbers.
            pub const ALL: &'static [Self] = &[$(Self::$value),+];

            /// The kernel's number.
            pub const fn number(self) -> u8 {
                self as u8
            }

            /// The kernel's name.
            pub const fn name(self) -> &'static str {
                match self { $(Self::$value => $name),+ }
            }
        }

        impl fmt::Display for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.pad(self.name())
            }
        }

        impl FromStr for $type {
            type Err = Error;

            /// Reads the kernel's name or number.
            fn from_str(text: &str) -> Result<Self, Error> {
                let number = text.parse::<u8>().ok();
                let found = Self::ALL.iter().find(|value| value.name() == text || Some(value.number()) == number);
                found.copied().ok_or_else(|| Error::Value {
                    name: $option,
                    value: text.to_owned(),
                    expected: one_of(Self::ALL.iter().map(|value| (value.name(), value.number()))),
                })
            }
        }
    };
}

fn one_of(values: impl Iterator<Item = (&'static str, u8)>) -> String {
    let listed: Vec<_> = values.map(|(name, number)| format!("{name} ({number})")).collect();
    format!("one of {}", listed.join(", "))
}

named! {
    /// Which member sends a frame.
    Mode, "mode",
    /// The members send in turn.
    BalanceRr = 0 "balance-rr",
    /// One at a time.
    ActiveBackup = 1 "active-backup",
    /// A hash of the packet's headers chooses the member.
    BalanceXor = 2 "balance-xor",
    /// Every member sends every frame.
    Broadcast = 3 "broadcast",
    /// By hash over those that LACP chose (IEEE 802.1AX).
    Ad8023 = 4 "802.3ad",
    /// The member with the least load sends.
    BalanceTlb = 5 "balance-tlb",
    /// Like balance-tlb, and the bond announces different addresses to its peers.
    BalanceAlb = 6 "balance-alb",
}

impl Mode {
    /// Whether one member is *active*: it has the bond's address and receives for it.
    pub const fn has_active(self) -> bool {
        matches!(self, Self::ActiveBackup | Self::BalanceTlb | Self::BalanceAlb)
    }

    /// Whether `xmit_hash_policy` can matter.
    pub const fn takes_policy(self) -> bool {
        matches!(self, Self::BalanceXor | Self::Ad8023 | Self::BalanceTlb | Self::BalanceAlb)
    }

    /// Whether members keep addresses of their own (the kernel's `bond_is_lb`).
    pub const fn keeps_addresses(self) -> bool {
        matches!(self, Self::BalanceTlb | Self::BalanceAlb)
    }

    /// Whether a fail-over moves multicast groups to another member, where they have to be reported again.
    pub const fn rejoins(self) -> bool {
        matches!(self, Self::BalanceRr | Self::ActiveBackup | Self::BalanceTlb | Self::BalanceAlb)
    }

    /// The mode's bit in a set of modes.
    pub(super) const fn bit(self) -> u8 {
        1 << self.number()
    }
}

named! {
    /// Which header fields a flow's member depends on.
    HashPolicy, "xmit_hash_policy",
    /// MAC addresses and type.
    Layer2 = 0 "layer2",
    /// IP addresses and ports.
    Layer34 = 1 "layer3+4",
    /// MAC and IP addresses.
    Layer23 = 2 "layer2+3",
    /// Like `layer2+3`, for what is inside tunnels.
    Encap23 = 3 "encap2+3",
    /// Like `layer3+4`, for what is inside tunnels.
    Encap34 = 4 "encap3+4",
    /// VLAN tag and source MAC address.
    VlanSrcMac = 5 "vlan+srcmac",
}

named! {
    /// When the primary member becomes active again.
    PrimaryReselect, "primary_reselect",
    /// It takes over as soon as it is up.
    Always = 0 "always",
    /// If it is faster than the active one.
    Better = 1 "better",
    /// When the active one fails.
    Failure = 2 "failure",
}

named! {
    /// Which MAC address moves at a fail-over in active-backup.
    FailOverMac, "fail_over_mac",
    /// None: all members have the bond's.
    None = 0 "none",
    /// The bond takes the active member's.
    Active = 1 "active",
    /// The active member takes the bond's.
    Follow = 2 "follow",
}

named! {
    /// How many targets must answer.
    ArpAllTargets, "arp_all_targets",
    /// One target that answers is enough.
    Any = 0 "any",
    /// All targets must answer.
    All = 1 "all",
}

named! {
    /// How often LACP's partner is asked to speak.
    LacpRate, "lacp_rate",
    /// Each 30 s.
    Slow = 0 "slow",
    /// The partner sends an LACPDU each second.
    Fast = 1 "fast",
}

named! {
    /// Which aggregation is used, if there are several.
    AdSelect, "ad_select",
    /// The one in use, while it has a member.
    Stable = 0 "stable",
    /// The aggregate with the highest rate in total.
    Bandwidth = 1 "bandwidth",
    /// The one with the most members.
    Count = 2 "count",
}

/// Which arrivals count as signs of life. Default: any frame.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ArpValidate {
    /// On the active member only valid answers count.
    pub active: bool,
    /// On backup members only valid probes and answers count.
    pub backup: bool,
    /// Where nothing is validated, only ARP and neighbour messages count.
    pub filter: bool,
}

impl ArpValidate {
    const NAMES: [(&'static str, Self); 7] = [
        ("none", Self::of(false, false, false)),
        ("active", Self::of(true, false, false)),
        ("backup", Self::of(false, true, false)),
        ("all", Self::of(true, true, false)),
        ("filter", Self::of(false, false, true)),
        ("filter_active", Self::of(true, false, true)),
        ("filter_backup", Self::of(false, true, true)),
    ];

    const fn of(active: bool, backup: bool, filter: bool) -> Self {
        Self { active, backup, filter }
    }
}

impl FromStr for ArpValidate {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let number = text.parse::<usize>().ok();
        let mut values = Self::NAMES.iter().enumerate();
        let found = values.find(|(at, (name, _))| *name == text || Some(*at) == number);
        found.map(|(_, (_, value))| *value).ok_or_else(|| Error::Value {
            name: "arp_validate",
            value: text.to_owned(),
            expected: one_of(Self::NAMES.iter().enumerate().map(|(at, (name, _))| (*name, at as u8))),
        })
    }
}
