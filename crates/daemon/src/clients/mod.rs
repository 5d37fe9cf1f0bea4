//! Those who ask: their connections and handles, what they send, and in which order they are served.

pub(crate) mod admission;
pub(crate) mod conversation;
pub(crate) mod deliveries;
pub(crate) mod door;
pub(crate) mod fairness;
pub(crate) mod handles;
pub(crate) mod orphan;
pub(crate) mod peer;
pub(crate) mod porters;
pub(crate) mod registrar;
