//! A host's port, as its worker has it: what comes from the host, and what goes to it, by itself or together with others.

use std::io;
use std::sync::Arc;

use datapath::StormControl;
use machine::{Rebase, Span};
use vswitch::fragments::{Coalesced, Fragments};
use vswitch::segmentation::Coalescer;

use super::burst::{RxBurst, TxFrames};
use crate::control::PortTraffic;
use crate::device::Attached;
use crate::port::Port;
use crate::tap::{Tap, VNET_HEADER};

/// A host's port.
#[derive(Debug)]
pub struct HostPort {
    /// What it leads to.
    pub(super) attached: Attached,
    /// Of a host that is not made: its devices' sockets.
    sockets: Vec<Box<dyn Port>>,
    /// By device: what waits for more of its flow.
    joining: Vec<Joining>,
    /// What passed.
    pub traffic: PortTraffic,
    /// How much it sends to everybody.
    pub storm_control: StormControl,
}

/// Frames that go to one device together.
#[derive(Debug, Default)]
struct Joining {
    /// Segments of one flow.
    coalescer: Coalescer,
    /// Of the segments, without virtio-net headers.
    bytes: u64,
    /// Fragments of datagrams; only on their way into a TAP, since other devices carry no frames longer than their MTU.
    fragments: Fragments,
    /// Whether the worker knows that something waits, here or in the device's port.
    is_announced: bool,
}

impl Joining {
    /// Takes a frame if it goes with those that are there, or if it is the first.
    #[inline]
    fn offer(&mut self, frame: &[u8]) -> bool {
        let is_taken = self.coalescer.offer(frame);
        self.bytes += if is_taken { (frame.len() - VNET_HEADER) as u64 } else { 0 };
        is_taken
    }
}

impl Attached {
    fn write(&mut self, sockets: &mut [Box<dyn Port>], device: usize, frame: &[u8]) -> io::Result<()> {
        match self {
            Self::Tap(tap) => tap.write(frame),
            Self::Devices(_) => sockets[device].write(frame),
        }
    }
}

impl HostPort {
    /// The port that leads to `attached`.
    pub(super) fn new(attached: &Attached) -> Self {
        let sockets = match attached {
            Attached::Tap(_) => Vec::new(),
            Attached::Devices(devices) => {
                devices.iter().map(|device| device.take_port().expect("a device is plugged in once")).collect()
            }
        };
        Self::with(attached, sockets, false)
    }

    /// The same port for a worker that does not read it, but hands frames to it.
    ///
    /// # Panics
    /// If its frames go through a socket of one worker.
    pub(super) fn transmit_only(attached: &Attached) -> Self {
        let sockets = match attached {
            Attached::Tap(_) => Vec::new(),
            Attached::Devices(devices) => {
                devices.iter().map(|device| device.sink().expect("each worker hands frames to null devices")).collect()
            }
        };
        Self::with(attached, sockets, true)
    }

    fn with(attached: &Attached, sockets: Vec<Box<dyn Port>>, is_transmit_only: bool) -> Self {
        // Who only transmits is in a network without rates, and coalesces nothing.
        let devices = if is_transmit_only { 0 } else { sockets.len().max(1) };
        let joining = (0..devices).map(|_| Joining::default()).collect();
        Self {
            attached: attached.clone(),
            sockets,
            joining,
            traffic: PortTraffic::default(),
            storm_control: StormControl::default(),
        }
    }

    /// Reads a burst of frames, and counts it; `device` counts where there are several.
    #[inline]
    pub fn rx_burst(&mut self, device: usize, burst: &mut RxBurst<'_>) -> io::Result<()> {
        let outcome = match &mut self.attached {
            Attached::Tap(tap) => tap.rx_burst(burst),
            Attached::Devices(_) => self.sockets[device].rx_burst(burst),
        };
        self.traffic.sent_packets += burst.read.frames;
        self.traffic.sent_bytes += burst.read.bytes;
        self.traffic.refused.no_buffer += burst.read.lost;
        outcome
    }

    /// Reads one frame with its virtio-net header; `device` counts where there are several.
    #[inline]
    pub fn read(&mut self, device: usize, buffer: &mut [u8]) -> io::Result<Option<usize>> {
        match &mut self.attached {
            Attached::Tap(tap) => tap.read(buffer),
            Attached::Devices(_) => self.sockets[device].read(buffer),
        }
    }

    /// The network of the tunnel by which the frame has come that was read last.
    pub fn tunnel(&self, device: usize) -> u32 {
        self.sockets.get(device).map_or(0, |socket| socket.tunnel())
    }

    /// Writes frames. Whether the device has something that waits now and had nothing before: [`HostPort::hand_over`] is to be called.
    #[inline]
    pub fn tx_burst(&mut self, device: usize, frames: TxFrames<'_>) -> bool {
        let (mut packets, mut bytes) = (0, 0);
        for frame in frames.iter() {
            packets += 1;
            bytes += (frame.len() - VNET_HEADER) as u64;
        }
        self.traffic.count_received(true, packets, bytes);
        let (unsent, waits) = match &mut self.attached {
            Attached::Tap(tap) => (tap.tx_burst(frames), false),
            Attached::Devices(_) => {
                let socket = &mut self.sockets[device];
                (socket.tx_burst(frames), socket.is_waiting())
            }
        };
        if unsent.frames > 0 {
            self.traffic.count_unsent(unsent);
        }
        waits && self.is_news(device)
    }

    #[inline]
    fn write(&mut self, device: usize, frame: &[u8]) {
        let written = self.attached.write(&mut self.sockets, device, frame);
        self.traffic.count_received(written.is_ok(), 1, (frame.len() - VNET_HEADER) as u64);
    }

    /// Whether frames wait in a device's port. A TAP takes each frame at once.
    #[inline]
    fn socket_waits(&self, device: usize) -> bool {
        self.sockets.get(device).is_some_and(|socket| socket.is_waiting())
    }

    /// Whether the worker does not know yet that something waits at a device; it does now.
    #[inline]
    fn is_news(&mut self, device: usize) -> bool {
        !std::mem::replace(&mut self.joining[device].is_announced, true)
    }

    /// Takes a frame to hand it over together with others, and hands over what it does not go with. Whether the device has something that
    /// waits now and had nothing before: [`HostPort::hand_over`] is to be called.
    #[inline]
    pub fn join(&mut self, device: usize, frame: &[u8], tunnel: u32) -> bool {
        if tunnel != 0
            && let Some(socket) = self.sockets.get_mut(device)
            && socket.has_networks()
        {
            let written = socket.write_to_network(frame, tunnel);
            self.traffic.count_received(written.is_ok(), 1, (frame.len() - VNET_HEADER) as u64);
            return self.socket_waits(device) && self.is_news(device);
        }
        if !self.joining[device].offer(frame) && !self.collect(device, frame) {
            self.write_joined(device);
            if !self.joining[device].offer(frame) && !self.collect(device, frame) {
                self.write(device, frame);
            }
        }
        let joining = &self.joining[device];
        let waits = joining.coalescer.pieces() > 0 || !joining.fragments.is_empty() || self.socket_waits(device);
        waits && self.is_news(device)
    }

    /// Takes a fragment for a TAP. Only TCP's segments overtake what waits here, which is UDP's: of one flow, whole datagrams leave in the order
    /// in which they began.
    #[inline]
    fn collect(&mut self, device: usize, frame: &[u8]) -> bool {
        self.sockets.is_empty() && self.joining[device].fragments.offer(frame)
    }

    /// Writes what has been coalesced for a device, and has its port send what waits there.
    #[inline]
    pub fn hand_over(&mut self, device: usize) {
        self.joining[device].is_announced = false;
        self.write_joined(device);
        if let Some(socket) = self.sockets.get_mut(device) {
            self.traffic.count_unsent(socket.flush());
        }
    }

    fn write_joined(&mut self, device: usize) {
        let Joining { coalescer, bytes, fragments, .. } = &mut self.joining[device];
        while let Some(Coalesced { frame, frames, bytes }) = fragments.take() {
            let written = self.attached.write(&mut self.sockets, device, frame);
            self.traffic.count_received(written.is_ok(), frames, bytes);
        }
        let (packets, bytes) = (coalescer.pieces() as u64, std::mem::take(bytes));
        if let Some(segment) = coalescer.take() {
            let written = self.attached.write(&mut self.sockets, device, segment);
            self.traffic.count_received(written.is_ok(), packets, bytes);
        }
    }

    /// Puts another port in the place of a device's. What the old one had not sent is lost.
    pub fn replace_port(&mut self, device: usize, port: Box<dyn Port>) {
        let Some(socket) = self.sockets.get_mut(device) else { return };
        let mut old = std::mem::replace(socket, port);
        self.traffic.count_unsent(old.flush());
        self.traffic.drops += old.new_losses().unwrap_or(0);
        self.traffic.refused.tunnel_control += old.new_control_messages();
    }

    /// Counts what its devices' sockets have lost since this was asked last: frames that found a ring full, or were too long.
    pub(super) fn count_losses(&mut self) {
        for socket in &mut self.sockets {
            // A socket whose device is gone tells nothing.
            self.traffic.drops += socket.new_losses().unwrap_or(0);
            self.traffic.refused.tunnel_control += socket.new_control_messages();
        }
    }

    /// The TAP, of a host of ours.
    pub const fn tap(&self) -> Option<&Arc<Tap>> {
        match &self.attached {
            Attached::Tap(tap) => Some(tap),
            Attached::Devices(_) => None,
        }
    }
}

impl Rebase for HostPort {
    fn rebase(&mut self, by: Span) {
        let Self { attached: _, sockets: _, joining: _, traffic: _, storm_control } = self;
        storm_control.rebase(by);
    }
}
