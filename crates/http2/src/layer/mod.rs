//! [`Http2Layer`]: connections with many streams become connections with one request each.
//!
//! # What is held for a connection
//! * Of what came: the beginning of one frame, and of one block of fields. Everything else is done at once, or dropped.
//! * Of what is to be sent: what the service lent, as it is; and answers to frames, up to a bound at which the connection fails.
//! * Of each request whose content is still to come: its head.

mod carrier;
mod guard;
mod http2_layer;
mod ledger;
mod limits;
mod over;
mod receiving;
mod requests;
mod sending;
mod shared;
mod slots;
mod stream;
mod streams;

pub use http2_layer::Http2Layer;
pub use limits::Http2Limits;
pub use over::Over;
