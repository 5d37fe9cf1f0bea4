//! What a service's process knows of a device that is not in it.

use qanat_nic::{Capabilities, ReceiveChecksum};
use qanat_wire::ethernet::MacAddress;

/// The capabilities of a device elsewhere: sums are made there, and prepared frames are not its own.
pub(crate) fn capabilities(mac: [u8; 6], mtu: u16) -> Capabilities {
    Capabilities {
        mac: MacAddress(mac),
        mtu,
        transmit_checksum: false,
        receive_checksum: ReceiveChecksum::Trust,
        transmit_buffers_max: 1,
        transmit_headroom: 0,
    }
}
