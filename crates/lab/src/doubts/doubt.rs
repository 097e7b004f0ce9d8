//! One of them.

/// Something that is hardly meant. It is no error.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Doubt {
    /// What of the fabric file it is about, as [`crate::Error::place_in_file`].
    pub place: Vec<String>,
    /// What happens, or does not.
    pub message: String,
    /// What may be meant.
    pub hint: &'static str,
}
