//! Plays a capture: says which packet is due when.

use std::io::Read;

use topology::Speed;

use super::{CaptureError, Reader};

/// A capture that is played once.
#[derive(Debug)]
pub struct Player<R> {
    reader: Reader<R>,
    speed: Speed,
    /// When the first packet was played and when it was captured, nanoseconds.
    start: Option<(u64, u64)>,
}

/// What [`Player::play`] has done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Played {
    /// A packet is due, and so many bytes of it are in the buffer.
    Packet(usize),
    /// The next one is due at this time.
    Wait(u64),
    /// All have been played.
    End,
}

impl<R: Read> Player<R> {
    /// Plays all packets that `reader` has not read.
    pub const fn new(reader: Reader<R>, speed: Speed) -> Self {
        Self { reader, speed, start: None }
    }

    /// Reads the next packet into `buffer` if it is due at `now_ns`. The first one is due at once, each of the others as much later as it was captured;
    /// at once, if it was captured earlier.
    ///
    /// # Errors
    /// As [`Reader::read`]; nothing is to be played any more.
    pub fn play(&mut self, now_ns: u64, buffer: &mut [u8]) -> Result<Played, CaptureError> {
        let Some(captured_ns) = self.reader.peek()? else { return Ok(Played::End) };
        let due_ns = match (self.speed, self.start) {
            (Speed::Max, _) => now_ns,
            (Speed::Recorded, Some((start_ns, first_ns))) => {
                start_ns.saturating_add(captured_ns.saturating_sub(first_ns))
            }
            (Speed::Recorded, None) => {
                self.start = Some((now_ns, captured_ns));
                now_ns
            }
        };
        if due_ns > now_ns {
            return Ok(Played::Wait(due_ns));
        }
        Ok(self.reader.read(buffer)?.map_or(Played::End, Played::Packet))
    }

    /// How many packets have been played.
    pub const fn packets(&self) -> u64 {
        self.reader.packets()
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{Frame, pcap};
    use super::*;

    /// Plays frames that were captured at these times, in nanoseconds.
    fn player(captured_ns: &[u64], speed: Speed) -> Player<std::io::Cursor<Vec<u8>>> {
        let frames = captured_ns.iter().enumerate().map(|(at, time)| Frame { ns: *time, bytes: vec![at as u8; 60] });
        Player::new(Reader::new(std::io::Cursor::new(pcap(&frames.collect::<Vec<_>>()))).unwrap(), speed)
    }

    #[test]
    fn packets_come_as_far_apart_as_they_were_captured() {
        let mut player = player(&[5_000_000_000, 5_000_001_000, 5_000_001_000, 7_000_000_000], Speed::Recorded);
        let mut buffer = [0; 100];
        assert_eq!(player.play(100, &mut buffer).unwrap(), Played::Packet(60));
        assert_eq!(player.play(100, &mut buffer).unwrap(), Played::Wait(1_100));
        assert_eq!(player.play(1_099, &mut buffer).unwrap(), Played::Wait(1_100));
        assert_eq!(player.play(1_150, &mut buffer).unwrap(), Played::Packet(60));
        assert_eq!(player.play(1_150, &mut buffer).unwrap(), Played::Packet(60));
        assert_eq!(buffer[0], 2);
        // Who was late is not late for ever.
        assert_eq!(player.play(1_150, &mut buffer).unwrap(), Played::Wait(2_000_000_100));
        assert_eq!(player.play(2_000_000_100, &mut buffer).unwrap(), Played::Packet(60));
        assert_eq!(player.play(u64::MAX, &mut buffer).unwrap(), Played::End);
        assert_eq!(player.packets(), 4);
    }

    #[test]
    fn a_packet_from_before_the_one_ahead_of_it_is_played_at_once() {
        let mut player = player(&[9_000, 1_000, 9_500], Speed::Recorded);
        let mut buffer = [0; 100];
        let played: Vec<Played> = (0..3).map(|_| player.play(70, &mut buffer).unwrap()).collect();
        assert_eq!(played, [Played::Packet(60), Played::Packet(60), Played::Wait(570)]);
    }

    #[test]
    fn at_full_speed_nothing_waits() {
        let mut player = player(&[0, 1_000_000_000, 4_000_000_000_000_000_000], Speed::Max);
        let mut buffer = [0; 100];
        let played: Vec<Played> = (0..4).map(|_| player.play(70, &mut buffer).unwrap()).collect();
        assert_eq!(played, [Played::Packet(60), Played::Packet(60), Played::Packet(60), Played::End]);
    }
}
