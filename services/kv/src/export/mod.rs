//! What conventional programs read of a store: `keys/`, a file for each key of the first database, and `slowlog`.
//!
//! The export's thread asks ([`keys`]), the core answers one question a turn ([`answers`]). Between them is a
//! [`Desk`](qanat_export::questions::Desk).

pub mod answers;
pub mod keys;
pub mod text;
