//! Putting the native loader on the wire: [`Attachment::towards`] the server, with the memory and limits a loader needs.

use super::http::{HttpPlan, LoadError};
use qanat::{Attachment, Runtime};
use qanat_nic::MemoryPlan;
use qanat_nic::link::Namespace;
use std::net::IpAddr;

/// Own addresses taken on a veth unless told otherwise: each has some 28,000 ports and more, so four outlast the
/// server's TIME-WAIT at any rate one core can make.
pub const ADDRESSES_DEFAULT: usize = 4;
/// A loader holds what it received no longer than one call, so this is for bursts.
const RECEIVE_FRAMES: u32 = 8_192;
const TRANSMIT_FRAMES: u32 = 8_192;

/// A VLAN of an interface.
#[derive(Clone, Debug)]
pub struct Vlan {
    /// The interface.
    pub interface: String,
    /// 1 to 4094.
    pub identifier: u16,
}

/// A runtime on the wire.
pub struct Attached {
    /// To run the load on.
    pub runtime: Runtime,
    /// The interface's name.
    pub interface: String,
    /// Keeps the program attached.
    _attachment: Attachment,
}

/// Attaches to the interface that leads to the plan's server and gives the plan its sources. `sources`: own addresses;
/// empty: `address_count` unused ones, which only a veth's subnet may be guessed to have.
///
/// # Errors
/// [`LoadError::Attach`], with the remedy.
pub fn attach(
    plan: &mut HttpPlan,
    address_count: usize,
    namespace: Option<&Namespace>,
    vlan: Option<&Vlan>,
) -> Result<Attached, LoadError> {
    let (target, sources): (IpAddr, Vec<IpAddr>) = (plan.peer.ip(), plan.sources.clone());
    let attachment = match vlan {
        None => Attachment::towards(target, &sources, address_count, namespace)?,
        Some(vlan) => Attachment::towards_in_vlan(target, &sources, &vlan.interface, vlan.identifier, namespace)?,
    };
    let mtu = attachment.mtu();
    let frame_size = MemoryPlan::frame_size_for(mtu);
    let memory =
        MemoryPlan { frame_size, receive_frames: RECEIVE_FRAMES, transmit_frames: TRANSMIT_FRAMES, prepared_frames: 0 };
    let vnic = attachment.open_queue(0, memory)?;
    let mut config = attachment.config().clone();
    // With --close a connection's end overlaps the next one's beginning.
    config.connections_max = plan.connections * 2 + 1_024;
    config.half_open_max = 16;
    config.listeners_max = 1;
    config.udp_sockets_max = 1;
    config.timers_max = 16;
    let entropy = qanat::entropy()
        .map_err(|error| LoadError::System { what: "ask the kernel for random bytes".to_owned(), error })?;
    let runtime = Runtime::new(Box::new(vnic), config, entropy);
    plan.sources = attachment.addresses();
    Ok(Attached { runtime, interface: attachment.interface().to_owned(), _attachment: attachment })
}
