//! Why a replica has stopped.

use std::any::Any;

/// Why a replica has stopped.
#[derive(Clone, Debug)]
pub(crate) struct Failure {
    pub(crate) reason: String,
    /// Something in this program panicked, which is an error of it.
    pub(crate) panicked: bool,
}

/// What a panic said.
pub(crate) fn text_of(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("it says nothing more")
}
