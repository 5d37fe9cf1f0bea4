//! What is received: reassembly, the receive window and its memory, when it is acknowledged.

pub mod data;
pub(super) mod delayed_ack;
pub mod memory;
pub mod reassembly;
pub(super) mod right_sizing;
pub mod urgent;
