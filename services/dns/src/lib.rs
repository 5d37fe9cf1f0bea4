//! An authoritative name server whose answers are ready before they are asked for: the thesis's Namestorm, grown up.
//!
//! ```text
//!   master file ──zone──▶ Zone ──image──▶ ZoneImage ──┐
//!                                                     ├─ Catalog ──answer──▶ request bytes in, answer bytes out
//!                                  other zones ───────┘                        (service: UDP, TCP, reload, limits)
//! ```
#![forbid(unsafe_code)]

pub mod answer;
pub mod counted;
pub mod image;
pub mod layout;
pub mod message;
pub mod name;
mod publish;
pub mod service;
pub mod transfer;
pub mod zone;
