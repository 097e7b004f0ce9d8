//! `forward`: passes frames on in a function of a service chain that names no program of its own.

use miette::{Report, miette};

/// Passes on by each of two devices what comes in by the other one, until it is ended.
pub fn forward(devices: [&str; 2]) -> Result<(), Report> {
    match live::forward::forward(devices) {
        Err((device, error)) => Err(miette!(
            help = "it runs in functions of chains, whose devices are eth0 and eth1",
            "cannot pass frames on at the device {device}: {error}"
        )),
    }
}
