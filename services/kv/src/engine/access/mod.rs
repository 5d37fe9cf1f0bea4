//! What users may do: what a command needs, whether a user has it, and how rules are said.
//!
//! [`needs`] and [`categories`] know commands, [`judge`] compares a command with a user, [`rules`] and [`words`] make users from what is
//! said of them.

pub mod categories;
pub mod judge;
pub mod lines;
pub mod needs;
pub mod rules;
pub mod uses;
pub mod words;
