//! What can be wrong with bytes that come from a log, a snapshot or another server.

/// Why bytes were not taken.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TreeError {
    /// A command's bytes are not what this version writes.
    #[error("command of {bytes} bytes cannot be decoded ({reason}); hint: it is damaged, or a newer version wrote it")]
    Command {
        /// How many bytes there were.
        bytes: usize,
        /// What the decoder says.
        reason: String,
    },
    /// A command is of a newer format.
    #[error("command has format {found}, expected at most {expected}; hint: update this server")]
    CommandFormat {
        /// The format in the bytes.
        found: u8,
        /// The newest that is understood.
        expected: u8,
    },
    /// A piece of a snapshot is not what this version writes.
    #[error(
        "piece {piece} of a snapshot cannot be decoded ({reason}); hint: it is damaged, or a newer version wrote it"
    )]
    Piece {
        /// The piece's number, from 0.
        piece: u64,
        /// What the decoder says.
        reason: String,
    },
    /// A snapshot is of a newer format.
    #[error("snapshot has format {found}, expected at most {expected}; hint: update this server")]
    SnapshotFormat {
        /// The format in its header.
        found: u32,
        /// The newest that is understood.
        expected: u32,
    },
    /// A piece can be decoded, but does not fit what came before.
    #[error("piece {piece} of a snapshot: {reason}; hint: pieces are lost, doubled or out of order, fetch it again")]
    Inconsistent {
        /// The piece's number, from 0.
        piece: u64,
        /// What does not fit.
        reason: &'static str,
    },
    /// A snapshot ended before its last piece.
    #[error("snapshot ends after {pieces} pieces, expected more; hint: fetch it again")]
    Incomplete {
        /// How many pieces there were.
        pieces: u64,
    },
}
