//! Why a net core does not serve somebody.

use qanat_control::net_core::CardNumber;
use qanat_control::protocol::Fault;
use std::io;

/// Why a net core does not serve somebody. The text goes to the service.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Refused {
    #[error("this net core is one service's own, or the daemon's, which is to be asked")]
    NotHere,
    #[error("service of version {service}, net core of {own}: use one build of both")]
    OtherBuild { service: u32, own: u32 },
    #[error("who is it?")]
    Unknown,
    #[error("this net core does not serve user {0}: start it with --user {0}")]
    User(u32),
    #[error("no such card")]
    NoSuchCard,
    #[error("there is no card {card} here ({last_offence})")]
    CardGone { card: CardNumber, last_offence: String },
    #[error("no card has that address; those there are: {0}")]
    NoSuchAddress(String),
    #[error(
        "the free card was another user's before, who may still read what it receives; user {0} needs one of its own"
    )]
    AnotherUsers(u32),
    #[error("every such card has a service already, and they do not share it (--share)")]
    Occupied,
    #[error("no ports: {first} to {last}")]
    NoPorts { first: u16, last: u16 },
    #[error("no entropy: {0}")]
    NoEntropy(io::Error),
    #[error("memory for the service: {0}")]
    Memory(io::Error),
    #[error(transparent)]
    Fault(#[from] Fault),
    #[error(transparent)]
    System(io::Error),
}
