//! Controllers as processes, in one program: what its tests share is compiled and linked once.

mod controllers;
mod data_folder;
mod descriptors;
mod fairness;
mod half_closed;
mod memory;
mod one_controller;
mod peers;
mod refusals;
mod three_controllers;
