//! What is sent, and when: the queue, the cut into segments, pacing, trains, the path's MTU.

pub mod bunching;
mod output;
mod pacing;
mod path_mtu;
mod path_mtu_search;
pub mod queue;
pub mod segment_size;
mod train;
pub mod window;
