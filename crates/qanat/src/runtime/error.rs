//! Why a runtime stopped before it was asked to.

use crate::start_error::StartError;
use qanat_wire::ethernet::MacAddress;
use std::io;
use std::net::IpAddr;

/// Why a runtime stopped before it was asked to.
#[derive(Debug, thiserror::Error)]
pub enum RuntimeError {
    /// The service could not start. The text is its own.
    #[error("{0}")]
    Start(#[source] StartError),
    /// Waiting failed.
    #[error("waiting for events failed: {0}")]
    Wait(#[source] io::Error),
    /// Another host on the link has an address that was asked for.
    #[error(
        "another host on the link, {holder}, has the address {address}: choose another (--address), or take it from that host \
         (`ip neigh` shows where it is)"
    )]
    AddressTaken {
        /// The address.
        address: IpAddr,
        /// The host that has it.
        holder: MacAddress,
    },
    /// The interface has been deleted.
    #[error(
        "the network interface was deleted under the service, with all its connections: make it again, or look why its \
         daemon took it away (`qanat status`), and start the service again"
    )]
    InterfaceGone,
    /// The daemon's card is gone. Its [`CardWatch`](qanat_control::card_watch::CardWatch) knows why, or is about to.
    #[error(
        "the daemon's card is gone, with all its connections: look why in the daemon's log, and start the service again"
    )]
    CardGone,
    /// The net core is gone, and there is no other. The text says why, and names the remedy.
    #[error("{0}")]
    NetCoreGone(String),
}
