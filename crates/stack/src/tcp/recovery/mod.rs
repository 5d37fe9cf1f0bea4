//! Loss: how it is noticed (scoreboard, RACK-TLP, time-outs), repaired (episodes, PRR), and taken back (undo).

mod episode;
pub mod phase;
pub mod prr;
pub mod rack;
pub mod rtt;
pub mod scoreboard;
pub mod undo;
pub mod variables;
