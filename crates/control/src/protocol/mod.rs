//! What is said on the control socket: one JSON message in one packet (`SOCK_SEQPACKET`), with descriptors beside it.
//!
//! A packet has a size the kernel keeps, so a message can't be partial, and none is longer than
//! [`MESSAGE_BYTES_MAX`]. A request gets one answer. Whoever breaks a rule of this page is cut off.

mod answer;
mod disk;
mod envelope;
mod request;
mod status;
mod wish;

pub use answer::{Answer, QueueStatus, VnicEnd};
pub use disk::{
    AreaFence, AreaPath, AreaStatus, AreaWish, DiskPlace, DiskRate, DiskState, DiskStatus, DiskWish, FunctionWish,
};
pub use envelope::{
    ANSWER_BYTES_MAX, DEFAULT_SOCKET, DESCRIPTORS_MAX, Envelope, Fault, Glance, MESSAGE_BYTES_MAX, VERSION, glance,
    mismatch, receive, send, send_in, understand,
};
pub use request::Request;
pub use status::{Count, DirectionStatus, Limits, NetCoreState, Place, Status, VnicStatus};
pub use wish::{Provider, QueueWish, StackWish, Steered, VnicWish};
