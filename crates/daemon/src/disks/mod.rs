//! Disks: which the daemon has, whose areas are on them, and how much of them a user may have.
//!
//! ```text
//!   client ──create-area──▶ loop: whose, how much, by which rule ── one change at a time ──▶ the disk's thread ──▶ disk
//!      ▲                       │ ◀── news: done; zeroed so far; failed ──────────────────────────┘
//!      └──────── answered ─────┘
//! ```
//! Nothing waits for a disk but its thread (`worker.rs`) and those who have asked. The loop knows each disk's table by what the thread
//! tells it. What an area's owner may have is decided when a change's turn comes, so nothing that was asked before it can slip through.
//! An area is answered for when it is recorded on the disk; zeroing it goes on behind that.

pub(crate) mod changes;
pub(crate) mod core;
mod descriptors;
pub(crate) mod disk;
mod errands;
mod error;
mod fences;
mod function;
pub(crate) mod left;
pub(crate) mod listing;
pub(crate) mod news;
pub(crate) mod opening;
mod pair;
pub(crate) mod records;
pub(crate) mod usage;
mod worker;
