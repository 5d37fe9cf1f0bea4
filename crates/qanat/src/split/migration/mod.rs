//! How a card moves from one net core to another.

pub(crate) mod error;
pub(crate) mod export;
#[cfg(test)]
pub(crate) mod moved;
pub(crate) mod moving;
