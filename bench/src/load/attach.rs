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
    let runtime = Runtime::new(Box::new(vnic), config, seed()?);
    plan.sources = attachment.addresses();
    Ok(Attached { runtime, interface: attachment.interface().to_owned(), _attachment: attachment })
}

/// A seed whose half for sequence numbers and timestamps is the same in each loader until the machine is started anew. A server keeps the
/// connections of the last run in TIME-WAIT for a minute; so the SYNs of this one, from the same addresses and ports, are newer than what
/// it remembers, and not answered by a challenge (RFC 6191). A loader has nothing to fear of who foresees its sequence numbers.
fn seed() -> Result<[u8; 32], LoadError> {
    let failed = |what: &str| {
        let what = what.to_owned();
        move |error| LoadError::System { what, error }
    };
    let mut seed = qanat::entropy().map_err(failed("ask the kernel for random bytes"))?;
    let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").map_err(failed("read which boot this is"))?;
    let boot = u128::from_str_radix(&boot.trim().replace('-', ""), 16).unwrap_or_default();
    seed[16..].copy_from_slice(&boot.to_le_bytes());
    Ok(seed)
}
