//! Congestion control: the window, the algorithms that set it, and the end of slow start.

pub mod algorithm;
pub mod bbr;
pub mod control;
pub mod cubic;
pub mod hystart;
pub mod model;
pub mod new_reno;
pub mod state;
