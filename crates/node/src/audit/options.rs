//! How an audit log is kept.

use std::path::PathBuf;

/// How an audit log is kept.
#[derive(Clone, Debug)]
pub struct AuditOptions {
    /// The file that the audit log is written to.
    pub file: PathBuf,
    /// Whether reads, lists and watches are noted as well. Those that were denied always are.
    pub reads: bool,
    /// Whether requests are refused while they cannot be noted.
    pub is_required: bool,
    /// Bytes of a file, after which another is begun.
    pub file_bytes: u64,
    /// Full files that are kept.
    pub keep: u32,
}
