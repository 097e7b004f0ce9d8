//! Commands of the guest in its controlq (virtio 1.2, section 5.1.6.5): how many pairs of queues it uses. It is asked for nothing else, since nothing else is offered.
//!
//! QEMU and DPDK have a controlq of their own, and enable rings as their guests want; User-Mode Linux hands its guest's over.

use super::queue::Call;
use super::ring::{Chain, Ring, RingError};

/// Class and number of `VIRTIO_NET_CTRL_MQ_VQ_PAIRS_SET`.
const PAIRS_SET: [u8; 2] = [4, 0];
/// Class, number, and how many pairs.
const COMMAND: usize = 4;

/// `VIRTIO_NET_OK`, `VIRTIO_NET_ERR`
const OK: u8 = 0;
const REFUSED: u8 = 1;

/// So many commands are served before whoever serves them looks at something else.
const COMMANDS_MAX: u32 = 64;

/// The queue of commands.
#[derive(Debug)]
pub struct Controlq {
    ring: Ring,
}

impl Controlq {
    /// The queue in this ring.
    pub const fn new(ring: Ring) -> Self {
        Self { ring }
    }

    /// Its ring.
    pub const fn ring(&mut self) -> &mut Ring {
        &mut self.ring
    }

    /// Reads commands, has `use_pairs` do what they ask for, as far as there are up to `pairs_max` pairs, answers, and asks to be notified of the next one. Whether more may wait.
    ///
    /// # Errors
    /// If the guest has written nonsense into the ring.
    pub fn serve(&mut self, pairs_max: u16, call: &Call, mut use_pairs: impl FnMut(u16)) -> Result<bool, RingError> {
        for _ in 0..COMMANDS_MAX {
            if self.ring.available(1)? == 0 {
                self.ring.ask_for_notifications(true);
                // One may have come before the guest could know that it was to notify us.
                if self.ring.available(1)? == 0 {
                    return Ok(false);
                }
            }
            let head = self.ring.head(0);
            let chain = self.ring.chain(self.ring.descriptor(head)?, false)?;
            let written = answer(&self.ring, chain, pairs_max, &mut use_pairs)?;
            self.ring.advance(1);
            self.ring.write_used(0, head, written);
            self.ring.count_used(1);
            if self.ring.show_used() {
                call.notify();
            }
        }
        Ok(true)
    }
}

/// Reads a command, has it done, and writes whether it was into the first byte that is ours. How many bytes were written.
fn answer(
    ring: &Ring,
    mut chain: Chain<'_>,
    pairs_max: u16,
    use_pairs: &mut impl FnMut(u16),
) -> Result<u32, RingError> {
    let (mut command, mut len) = ([0; COMMAND], 0_usize);
    while let Some((addr, room, is_written)) = chain.next_part()? {
        if is_written && room > 0 {
            let [class, number, low, high] = command;
            let pairs = u16::from_le_bytes([low, high]);
            let is_done = len == COMMAND && [class, number] == PAIRS_SET && (1..=pairs_max).contains(&pairs);
            if is_done {
                use_pairs(pairs);
            }
            ring.memory().write(addr, &[if is_done { OK } else { REFUSED }])?;
            return Ok(1);
        }
        if !is_written {
            let rest = &mut command[len.min(COMMAND)..];
            let part = (room as usize).min(rest.len());
            ring.memory().read(addr, &mut rest[..part])?;
            len = len.saturating_add(room as usize);
        }
    }
    Ok(0)
}
