//! Every service in each of the three placements, by the same clients; and what is particular to the kernel's, and to the emulated
//! crossing.
#![forbid(unsafe_code)]

#[path = "e2e_placements/app_cores.rs"]
mod app_cores;
#[path = "e2e_placements/crossing.rs"]
mod crossing;
#[path = "e2e_placements/every_service.rs"]
mod every_service;
#[path = "e2e_placements/kernel.rs"]
mod kernel;
#[path = "e2e_placements/kernel_hostile.rs"]
mod kernel_hostile;
