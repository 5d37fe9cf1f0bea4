//! TCP (RFC 9293) as a pure state machine: time, randomness and the device are arguments.
//!
//! ```text
//!  SYN → handshake: HalfOpen ─ACK→ connection: Connection ─FIN/FIN→ time_wait: TimeWait
//!        (or a SYN cookie)         ↑ input, acknowledge, recovery, receive
//!                                  ↓ send        timers: one deadline, expiry
//! ```
//!
//! One mechanism per file, named by its RFC term. Nothing here knows addresses, devices or tables: the stack finds the
//! connection, calls [`Connection::input`], and once a poll [`Connection::output`] with an [`Emitter`].
//!
//! Types lie below behaviour: `connection` holds the variables and knows the types of its parts, none of which knows it. The
//! files with `impl Connection` lie above, and import each other not at all. Each part has private fields, and its file alone
//! changes them:
//!
//! | part | file | what it keeps |
//! |---|---|---|
//! | `ReceiveWindow` | `receive/window.rs` | RCV.NXT, the offered edge, the peer's FIN |
//! | `HeldData` | `receive/held.rs` | what is received and not taken, and its share of the memory budget |
//! | `RightSizing` | `receive/sizing.rs` | the size of the receive window |
//! | `OwedAcks` | `receive/owed_acks.rs` | ACKs and D-SACK reports that are due |
//! | `SendWindow`, `Bunching`, `PathMtu` | `send/` | the peer's window; Nagle and cork; segment sizes |
//! | `CongestionState` | `congestion/state.rs` | the congestion window, the algorithm, HyStart++ |
//! | `Scoreboard`, `Rack`, `Recovery` | `recovery/` | what is in flight; losses; the episode, its reduction and undo |
//! | `Lifecycle`, `Patience`, `Outcome` | `lifetime/` | the state; the wait for the peer; why and how it ends |
//! | `TimestampClock`, `Timers` | `timestamps.rs`, `timers.rs` | our clock and TS.Recent; deadlines |

mod acknowledge;
mod challenge;
mod commands;
mod config;
mod congestion;
mod connection;
mod counters;
mod disposition;
mod env;
mod expiry;
mod extras;
mod handshake;
mod info;
mod input;
mod lifetime;
mod receive;
mod recovery;
mod segment;
mod send;
mod sequence;
mod settings;
mod spare;
mod state;
#[cfg(test)]
mod tests;
mod time_wait;
mod timers;
mod timestamps;

pub use config::{TcpConfig, UserTimeoutBounds};
pub use connection::Connection;
pub use counters::Counters;
pub use disposition::Disposition;
pub use env::Env;
pub use handshake::cookies::{CookieCache, CookieKeys, CookieVerdict};
pub use handshake::fast_open_state::FastOpenFailure;
pub use handshake::half_open::{HalfOpen, HalfOpenTimer, HalfOpenVerdict};
pub use handshake::parameters::OpenParameters;
pub(crate) use handshake::syn_cookie;
pub use info::ConnectionInfo;
pub use qanat_api::CongestionAlgorithm;
pub use receive::memory::ReceiveMemory;
pub use recovery::phase::Phase;
pub use segment::{Emitter, SegmentIn, SegmentPayload, reset_for};
pub use send::queue::PieceRange;
pub use spare::Queues;
pub use state::State;
pub use time_wait::{TimeWait, TimeWaitVerdict};
