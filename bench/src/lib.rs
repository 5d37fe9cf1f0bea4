//! Load generators ([`load`]), the side-by-side harness ([`harness`]) and the tables made
//! with them ([`tables`]).
#![forbid(unsafe_code)]

pub mod disk;
pub mod dns;
pub mod echo;
pub mod fence;
pub mod gate;
pub mod harness;
pub mod https;
pub mod kv;
pub mod load;
pub mod machine;
pub mod model;
pub mod paths;
pub mod programs;
pub mod split;
pub mod tables;
pub mod video;
pub mod web;
