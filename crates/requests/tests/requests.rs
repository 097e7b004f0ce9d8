//! Programs of a service against each other, over loopback.

mod reported;
mod served;
