//! Places on the earth, as members of sorted sets. A score has a place: the bits of its latitude and its longitude, one of each in turn.

pub mod area;
pub mod asked;
pub mod cell;
pub mod members;
pub mod numbers;
pub mod search;
pub mod searching;
pub mod sphere;
