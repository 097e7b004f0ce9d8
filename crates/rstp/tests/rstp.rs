//! The machine from outside.

mod hostile;
mod network;
mod trees;
