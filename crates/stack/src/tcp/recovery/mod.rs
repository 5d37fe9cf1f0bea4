//! Loss: how it is noticed (scoreboard, RACK-TLP, time-outs), repaired (episodes, PRR), and taken back (undo).

pub mod delivery_rate;
mod episode;
mod modelled;
pub mod phase;
pub mod prr;
pub mod rack;
pub mod rtt;
pub mod scoreboard;
pub mod undo;
pub mod variables;
