//! What can be set in hosts with Linux, by sysctl's names.

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
}

impl CongestionControl {
    /// All of them.
    pub const ALL: &[Self] = &[Self::Cubic, Self::Reno];

    /// Its name in files, in results, and in the kernel (`tcp_congestion_control`).
    pub const fn name(self) -> &'static str {
        match self {
            Self::Cubic => "cubic",
            Self::Reno => "reno",
        }
    }
}

/// The sysctls below `net.ipv4` that the machine knows, with the kernel's own values as default.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Settings {
    /// `tcp_congestion_control`.
    pub congestion_control: CongestionControl,
    /// `tcp_reordering`: how many segments later ones may overtake before that says something about a loss.
    pub reordering: u32,
    /// `tcp_max_reordering`: what is learned about the path goes no further.
    pub max_reordering: u32,
    /// `tcp_early_retrans`: whether the end of a flight is probed for.
    pub tail_loss_probe: bool,
    /// `tcp_frto`: whether a timeout may turn out to have been one too many.
    pub frto: bool,
    /// `tcp_dsack`: whether a receiver says what came twice.
    pub dsack: bool,
    /// `tcp_comp_sack_nr`: selective acknowledgements that are held back at most; 0: none is.
    pub compressed_acks: u32,
    /// `tcp_comp_sack_delay_ns`: how long they are held back at most.
    pub compressed_ack_delay: Span,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            congestion_control: CongestionControl::default(),
            reordering: 3,
            max_reordering: 300,
            tail_loss_probe: true,
            frto: true,
            dsack: true,
            compressed_acks: 44,
            compressed_ack_delay: Span::from_ms(1),
        }
    }
}
