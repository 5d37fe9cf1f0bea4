//! The net core's end: cards, and the services that it serves and does not trust.

pub(crate) mod accept;
pub(crate) mod card;
pub(crate) mod card_end;
pub(crate) mod core;
pub(crate) mod director;
#[cfg(test)]
pub(crate) mod hoarding;
pub(crate) mod lending;
pub(crate) mod peers;
pub(crate) mod refused;
pub(crate) mod tenancy;
pub(crate) mod tenant;
