//! LACP over simulated links: bonds of Heddle against each other, and against partners that are written by hand.

mod bring_up;
mod faults;
mod hostile;
mod linux;
mod properties;
mod selection;
mod world;
