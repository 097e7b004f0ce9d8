//! Networks with real packets, in one program: what its tests share is compiled and linked once.

mod addresses;
mod bed;
mod bonds;
mod captures;
mod changes;
mod clock;
mod convergence;
mod crash;
mod external_addresses;
mod external_host;
mod far_ends;
mod flows;
mod groups;
mod hostile_partner;
mod hosts;
mod meddling;
mod null;
mod other_users;
mod packet;
mod pipelines;
mod reroute;
mod rootless;
mod segments;
mod two_hosts;
mod workers;
mod xdp;
