//! Directories that applications export. Conventional programs (`ls`, `cat`, `grep -r`, `tar`) read them below
//! [`ROOT`](place::ROOT), and each look-up is answered by the application.
//!
//! ```text
//!   cat ── kernel (names, rights, ro) ── /dev/fuse ── server ── Tree (parts, listings) ── questions ──▶ the service's core
//!                    ▲
//!                    └─ mount, place, probe: whoever may mount; it needs no trust in the application
//! ```
//! * [`tree`]: what an application answers. [`parts`]: a tree of fixed parts, so that a service says only what it has. [`names`]: file names
//!   of what may be called anything.
//! * [`questions`]: what only the service's core knows is asked with a time limit.
//! * [`server`]: answers the kernel on a descriptor of `/dev/fuse`, without any right.
//! * [`mount`], [`place`], [`probe`]: the mount, where it goes, and whether somebody answers behind it.
//!
//! `docs/export.md` is for users.
#![forbid(unsafe_code)]

mod handles;
pub mod mount;
pub mod names;
mod numbers;
pub mod parts;
pub mod place;
pub mod probe;
pub mod questions;
pub mod server;
pub mod tree;
