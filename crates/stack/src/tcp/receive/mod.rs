//! What is received: reassembly, the receive window and its memory, when it is acknowledged.

mod data;
pub mod delayed_ack;
pub mod memory;
pub mod reassembly;
mod right_sizing;
pub mod sizing;
mod urgent;
