//! NVMe: the driver of a controller's queue pairs, whatever they are reached by.

pub mod spec;
