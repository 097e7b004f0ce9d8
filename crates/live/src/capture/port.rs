//! The port of a capture: what is played comes in by it when it is due, what goes out by it is recorded.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use nix::sys::time::TimeSpec;
use nix::sys::timerfd::{ClockId, Expiration, TimerFd, TimerFlags, TimerSetTimeFlags};
use nix::time::clock_gettime;
use topology::{Node, PcapDevice};

use super::{CaptureError, Played, Player, Recorder, failed, open_to_play, open_to_record};
use crate::Error;
use crate::port::{Fault, Port, Unsent};
use crate::tap::VNET_HEADER;

/// What is behind `pcap:..`.
#[derive(Debug)]
pub struct PcapPort {
    /// Readable when a packet is due.
    timer: TimerFd,
    player: Option<(PathBuf, Player<File>)>,
    recorder: Option<(PathBuf, Recorder<File>)>,
    /// Why it plays no further, once that is so.
    fault: Arc<Fault>,
}

impl PcapPort {
    /// The port of a host with this device of this name; relative paths are of `folder`. It plays from when it is read first, and what it writes is empty from then on:
    /// until then, the port of a network before this one may write there.
    ///
    /// # Errors
    /// [`Error::Capture`] if a file can't be played or written.
    pub fn open(name: &str, device: PcapDevice<'_>, node: &Node, folder: &Path) -> Result<Self, Error> {
        let timer = TimerFd::new(ClockId::CLOCK_MONOTONIC, TimerFlags::TFD_CLOEXEC | TimerFlags::TFD_NONBLOCK);
        let timer = timer.map_err(Error::system("make a timer"))?;
        let play = |path: PathBuf| match open_to_play(&path) {
            Ok(reader) => Ok((path, Player::new(reader, device.speed))),
            Err(error) => Err(failed((node, name), &path)(error)),
        };
        let record = |path: PathBuf| match open_to_record(&path) {
            Ok(file) => Ok((path, Recorder::new(file))),
            Err(error) => Err(failed((node, name), &path)(error)),
        };
        let player = device.rx.map(|file| folder.join(file)).map(play).transpose()?;
        let recorder = device.tx.map(|file| folder.join(file)).map(record).transpose()?;
        let port = Self { timer, player, recorder, fault: Arc::default() };
        // Long ago; zero would mean never.
        port.wake_at(1).map_err(|source| Error::System { step: "set a timer", source })?;
        Ok(port)
    }

    /// Readable when a packet is due.
    ///
    /// # Errors
    /// If the kernel has no descriptor left.
    pub fn descriptor(&self) -> io::Result<Arc<OwnedFd>> {
        Ok(Arc::new(self.timer.as_fd().try_clone_to_owned()?))
    }

    /// Says why it plays no further, from when that is so.
    pub fn fault(&self) -> Arc<Fault> {
        Arc::clone(&self.fault)
    }

    /// The port is readable from then on, and not before.
    fn wake_at(&self, due_ns: u64) -> io::Result<()> {
        let due = Expiration::OneShot(TimeSpec::from_duration(Duration::from_nanos(due_ns)));
        Ok(self.timer.set(due, TimerSetTimeFlags::TFD_TIMER_ABSTIME)?)
    }

    /// Plays nothing any more.
    #[cold]
    fn stop(&mut self, outcome: Result<(), CaptureError>) -> io::Result<()> {
        if let Some((path, player)) = self.player.take() {
            let (path, packets) = (path.display(), player.packets());
            match outcome {
                Ok(()) => tracing::info!("{path} has been played: {packets} packets"),
                Err(error) => {
                    let plural = if packets == 1 { "" } else { "s" };
                    let fault = format!("{path} is played no further, after {packets} packet{plural}: {error}");
                    tracing::error!("{fault} (hint: {})", error.hint());
                    self.fault.set(fault);
                }
            }
        }
        // Unset, it is not readable.
        Ok(self.timer.unset()?)
    }
}

impl AsFd for PcapPort {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.timer.as_fd()
    }
}

impl Port for PcapPort {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<Option<usize>> {
        if let Some((_, recorder)) = &mut self.recorder {
            recorder.begin();
        }
        let Some((_, player)) = &mut self.player else {
            self.timer.unset()?;
            return Ok(None);
        };
        // An all-zero virtio-net header leaves nothing to be done. A frame that is too long fills the buffer, by which it is recognised.
        let (header, frame) = buffer.split_at_mut(VNET_HEADER);
        header.fill(0);
        match player.play(now_ns()?, frame) {
            Ok(Played::Packet(bytes)) => return Ok(Some(VNET_HEADER + bytes)),
            Ok(Played::Wait(due_ns)) => self.wake_at(due_ns)?,
            Ok(Played::End) => self.stop(Ok(()))?,
            Err(error) => self.stop(Err(error))?,
        }
        Ok(None)
    }

    fn write(&mut self, frame: &[u8]) -> io::Result<()> {
        let Some((_, recorder)) = &mut self.recorder else { return Ok(()) };
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        recorder.record(since.as_nanos() as u64, frame)
    }

    fn is_waiting(&self) -> bool {
        self.recorder.as_ref().is_some_and(|(_, recorder)| recorder.is_waiting())
    }

    fn flush(&mut self) -> Unsent {
        let Some((path, recorder)) = &mut self.recorder else { return Unsent::default() };
        let unsent = recorder.flush();
        if let Some(error) = recorder.take_failure() {
            tracing::error!(
                "{}: packets are lost that can't be written: {error}; `heddle show counters` says how many",
                path.display()
            );
        }
        unsent
    }
}

/// The time of the clock by which timers go.
fn now_ns() -> io::Result<u64> {
    let now = Duration::from(clock_gettime(nix::time::ClockId::CLOCK_MONOTONIC)?);
    Ok(now.as_nanos() as u64)
}
