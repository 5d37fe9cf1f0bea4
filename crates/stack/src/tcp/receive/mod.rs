//! What is received: reassembly, the receive window and its memory, when it is acknowledged.

mod data;
mod delayed_ack;
pub mod held;
pub mod memory;
pub mod owed_acks;
pub mod reassembly;
mod right_sizing;
pub mod sizing;
mod urgent;
pub mod window;
