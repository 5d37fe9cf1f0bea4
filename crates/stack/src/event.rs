pub use qanat_api::{Chunk, CloseReason, ConnectionId, Event, ListenerId, TimerId, UdpSocketId};
