//! What can be set in hosts with Linux, by sysctl's names, in the kernel's units and ranges (`Documentation/networking/ip-sysctl.rst`).

use core::ops::RangeInclusive;

use machine::Span;
use serde::Serialize;

/// How the congestion window grows, and by how much a loss reduces it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum CongestionControl {
    /// RFC 9438 with `HyStart`, the kernel's own choice.
    #[default]
    Cubic,
    /// RFC 5681.
    Reno,
    /// RFC 8257. It asks for ECN whatever `tcp_ecn` says, and is Reno where the other end has none.
    Dctcp,
    /// Version 1, with a pace of its own.
    Bbr,
}

impl CongestionControl {
    /// All of them.
    pub const ALL: &[Self] = &[Self::Cubic, Self::Reno, Self::Dctcp, Self::Bbr];

    /// Its name in files, in results, and in the kernel (`tcp_congestion_control`).
    pub const fn name(self) -> &'static str {
        match self {
            Self::Cubic => "cubic",
            Self::Reno => "reno",
            Self::Dctcp => "dctcp",
            Self::Bbr => "bbr",
        }
    }

    /// Whether it cannot do without marks (`TCP_CONG_NEEDS_ECN`).
    pub const fn needs_ecn(self) -> bool {
        matches!(self, Self::Dctcp)
    }
}

/// A value of Linux's as the machine has it.
trait KernelValue {
    fn from_kernel(value: u64) -> Self;
    fn to_kernel(self) -> u64;
}

impl KernelValue for u32 {
    fn from_kernel(value: u64) -> Self {
        Self::try_from(value).unwrap_or(Self::MAX)
    }

    fn to_kernel(self) -> u64 {
        self.into()
    }
}

impl KernelValue for bool {
    fn from_kernel(value: u64) -> Self {
        value != 0
    }

    fn to_kernel(self) -> u64 {
        self.into()
    }
}

impl KernelValue for Span {
    fn from_kernel(value: u64) -> Self {
        Self::from_ns(value)
    }

    fn to_kernel(self) -> u64 {
        self.as_ns()
    }
}

/// One row a sysctl: what it is, its name below `net.ipv4`, the field of [`Settings`], the value that the kernel has when nobody has set it, and which it may have, both in the kernel's units.
macro_rules! sysctls {
    ($(
        #[doc = $doc:literal]
        $name:literal $sysctl:ident => $field:ident: $type:ty = $usual:literal, $least:literal..=$most:literal;
    )+) => {
        /// What is set in a host: the sysctls below `net.ipv4` that the machine knows, with the kernel's own values as default.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
        pub struct Settings {
            /// `tcp_congestion_control`.
            pub congestion_control: CongestionControl,
            $(#[doc = $doc] pub $field: $type,)+
        }

        impl Default for Settings {
            fn default() -> Self {
                Self {
                    congestion_control: CongestionControl::default(),
                    $($field: <$type>::from_kernel($usual),)+
                }
            }
        }

        /// One of the sysctls that have a number.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
        pub enum Sysctl {
            $(#[doc = $doc] #[serde(rename = $name)] $sysctl,)+
        }

        impl Sysctl {
            /// All of them. A kernel to which they are written in this order accepts each.
            pub const ALL: &[Self] = &[$(Self::$sysctl,)+];

            /// Its name below `net.ipv4`.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$sysctl => $name,)+
                }
            }

            /// What it is, in a sentence.
            pub const fn description(self) -> &'static str {
                match self {
                    $(Self::$sysctl => $doc.trim_ascii(),)+
                }
            }

            /// The values that it may have.
            pub const fn range(self) -> RangeInclusive<u64> {
                match self {
                    $(Self::$sysctl => $least..=$most,)+
                }
            }

            /// Its value in `settings`.
            pub fn get(self, settings: &Settings) -> u64 {
                match self {
                    $(Self::$sysctl => settings.$field.to_kernel(),)+
                }
            }

            /// Gives it a value of its range in `settings`.
            pub fn set(self, settings: &mut Settings, value: u64) {
                match self {
                    $(Self::$sysctl => settings.$field = <$type>::from_kernel(value),)+
                }
            }
        }
    };
}
// `tcp_max_reordering` stands before `tcp_reordering`, which a kernel lets be no more than it.
sysctls! {
    /// What a sender learns about reordering on its path goes no further than so many segments.
    "tcp_max_reordering" MaxReordering => max_reordering: u32 = 300, 1..=2_147_483_647;
    /// How many segments later ones may overtake before that says something about a loss, until more is learned about the path; not more than `tcp_max_reordering`.
    "tcp_reordering" Reordering => reordering: u32 = 3, 1..=2_147_483_647;
    /// Whether a sender probes for the end of a flight that is not acknowledged (RFC 8985): with 3 and 4 it does, with less not.
    "tcp_early_retrans" EarlyRetrans => early_retrans: u32 = 3, 0..=4;
    /// Whether a sender looks for timeouts that were too early (F-RTO, RFC 5682): with 0 it does not.
    "tcp_frto" Frto => frto: u32 = 2, 0..=255;
    /// Whether a receiver says what came twice (RFC 2883).
    "tcp_dsack" Dsack => dsack: bool = 1, 0..=1;
    /// How many selective acknowledgements a receiver holds back at most; with 0 none.
    "tcp_comp_sack_nr" CompSackNr => compressed_acks: u32 = 44, 0..=255;
    /// How long a receiver holds them back at most, in nanoseconds; a twentieth of the round trip if that is shorter.
    "tcp_comp_sack_delay_ns" CompSackDelay => compressed_ack_delay: Span = 1_000_000, 0..=1_000_000_000;
    /// How much later they may leave, in nanoseconds; they do if nothing else wakes the host.
    "tcp_comp_sack_slack_ns" CompSackSlack => compressed_ack_slack: Span = 100_000, 0..=1_000_000_000;
    /// Explicit congestion notification (RFC 3168), which links with `ecn` need: with 1 hosts ask for it and grant it, with 2 they only grant it, so that nobody has it, with 0 neither.
    "tcp_ecn" Ecn => ecn: u32 = 2, 0..=2;
}

impl Settings {
    /// Whether the end of a flight is probed for.
    pub const fn probes_tail(&self) -> bool {
        matches!(self.early_retrans, 3 | 4)
    }

    /// Whether who opens a connection asks for ECN.
    pub const fn asks_for_ecn(&self) -> bool {
        self.ecn == 1 || self.congestion_control.needs_ecn()
    }

    /// Whether who is asked for ECN grants it.
    pub const fn grants_ecn(&self) -> bool {
        self.ecn > 0 || self.congestion_control.needs_ecn()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_sysctl_has_a_setting_of_its_own_that_keeps_its_value() {
        for &sysctl in Sysctl::ALL {
            let usual = Settings::default();
            assert!(sysctl.range().contains(&sysctl.get(&usual)), "{}", sysctl.name());
            for value in [*sysctl.range().start(), *sysctl.range().end()] {
                let mut settings = usual;
                sysctl.set(&mut settings, value);
                assert_eq!(sysctl.get(&settings), value, "{}", sysctl.name());
                for other in Sysctl::ALL.iter().filter(|&&other| other != sysctl) {
                    assert_eq!(other.get(&settings), other.get(&usual), "{} and {}", sysctl.name(), other.name());
                }
            }
        }
    }

    #[test]
    fn tails_are_probed_for_with_three_and_four() {
        let probes = |early_retrans| Settings { early_retrans, ..Settings::default() }.probes_tail();
        assert_eq!([0, 1, 2, 3, 4].map(probes), [false, false, false, true, true]);
    }
}
