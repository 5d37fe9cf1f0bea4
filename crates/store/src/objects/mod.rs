//! Flat objects: what they are made of.

pub(crate) mod event;
pub(crate) mod reading;
pub(crate) mod space;
pub(crate) mod sums;
pub(crate) mod table;
pub(crate) mod writing;
