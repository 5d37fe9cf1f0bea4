//! Frame formats: checked views and owned representations.
//!
//! # The promise
//!
//! **No function of this crate panics, allocates, blocks or loops without a bound, whatever bytes it is given.**
//! It holds by construction and is checked three ways:
//!
//! * Views keep their fixed part as a reference to an array (`&[u8; 20]`), and fields are read through
//!   [`field`], whose offsets are checked against the array's length when the crate is compiled. After `parse`
//!   succeeded no accessor can fail.
//! * The lints below forbid slice indexing, `unwrap`, `expect` and `panic!` outside of tests.
//! * Property tests here and the targets in `fuzz/` feed it arbitrary, truncated and mutated bytes.
//!
//! # Shape
//!
//! One file per format, and in each the same three things:
//!
//! * a *view* (`ethernet::Frame`, `ipv4::Packet`, `tcp::Segment`, …) made by `parse(&[u8]) -> Result<_, Error>`, which
//!   copies nothing and trusts no length it hasn't checked;
//! * an owned, `Copy` *value* (`Header`) made from a view with `Header::parse(&view)` or by hand, written with
//!   `emit(&self, &mut [u8]) -> Result<usize, Error>` (the length written; nothing is written on error);
//! * constants for the field's values, as newtypes over the number, so that unknown values survive.
//!
//! Checksums are never verified by `parse`: devices and `veth` peers may have done so or left them partial. Ask
//! `checksum_is_valid`.
#![forbid(unsafe_code)]
#![cfg_attr(
    not(test),
    deny(
        clippy::indexing_slicing,
        clippy::unwrap_used,
        clippy::expect_used,
        clippy::panic,
        clippy::unreachable,
        clippy::todo
    )
)]

pub mod arp;
pub mod checksum;
pub mod ethernet;
pub mod field;
pub mod icmp;
pub mod icmpv4;
pub mod icmpv6;
pub mod ip;
pub mod ipv4;
pub mod ipv6;
pub mod ipv6_extension;
pub mod multicast_listener;
pub mod neighbor_discovery;
pub mod tcp;
pub mod tcp_options;
pub mod udp;
pub mod vlan;

mod error;
mod sequence_number;
pub use error::Error;
