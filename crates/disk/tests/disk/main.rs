//! Disks without hardware: every driver against a model, the middleware, areas under crashes and damage. No root needed.
#![forbid(unsafe_code)]

mod areas;
mod disk_core;
mod drivers;
mod fences;
mod hostile;
mod middleware;
mod nvme;
