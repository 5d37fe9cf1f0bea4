//! What is sent, and when: the queue, the cut into segments, pacing, the path's MTU.

pub mod output;
mod pacing;
pub mod path_mtu;
mod path_mtu_search;
pub mod queue;
