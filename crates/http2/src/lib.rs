//! HTTP/2 for services of HTTP/1.1: a layer between the stack, or TLS, and a service, which need not know of it.
//!
//! ```text
//!  TLS ── Event (frames) ──► Http2Layer ── Event (a request of HTTP/1.1) ──► service
//!      ◄── Commands ──────── Http2Layer::over ◄── Commands (its response) ──
//! ```
//! A connection that begins with HTTP/2's preface becomes a *carrier*. Each of its streams is a connection of the service: it is accepted, one
//! request comes on it, and it ends when the service has closed it and the peer has all of the response. Connections that begin otherwise
//! pass as they are.
//!
//! # What is not supported
//! Server push, priorities (RFC 9113 has given up both), CONNECT, content of requests (it is read and dropped), trailers of responses, and
//! a table of our own for the fields of responses.
#![forbid(unsafe_code)]

mod error;
mod figures;
mod frame;
mod hpack;
mod layer;
mod request;
mod response;
mod settings;

#[cfg(test)]
mod tests;

pub use error::ErrorCode;
pub use figures::Http2Figures;
pub use hpack::{Decoder, HpackError, encode, encode_status};
pub use layer::{Http2Layer, Http2Limits, Over};
pub use settings::{ALPN, PREFACE};
