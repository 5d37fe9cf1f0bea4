//! The atomics that rings are made of. A model checker puts its own here (`tests/model.rs`).

pub(crate) use std::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};
