//! SORT, SORT_RO: elements of a list, a set or a sorted set in another order, by themselves or by what other keys have.

pub mod asked;
pub mod budget;
pub mod elements;
pub mod pattern;
pub mod sort;
pub mod weight;
