//! IEEE 802.1Q: an interface whose frames carry a VLAN tag.
//!
//! With a VLAN configured, frames leave tagged and only those with this tag are taken. Without, untagged frames and those
//! with a priority tag (identifier 0, 802.1Q section 9.6) are taken. Anything else belongs to somebody else's VLAN.

use crate::counters::Counters;
use qanat_nic::Frame;
use qanat_wire::ethernet::{self, EtherType};
use qanat_wire::vlan;

/// Identifiers a VLAN may have.
const IDENTIFIER_MAX: u16 = 4_094;

/// The configured identifier if it can be one; 0: untagged.
pub(crate) fn identifier(configured: Option<u16>) -> u16 {
    configured.filter(|identifier| *identifier <= IDENTIFIER_MAX).unwrap_or(0)
}

/// Puts the tag of VLAN `identifier` before the frame's data. Gives `None` if there is no headroom.
pub(crate) fn prepend(frame: &mut Frame, identifier: u16, ethertype: EtherType) -> Option<()> {
    let tag = vlan::Header { identifier, priority: 0, drop_eligible: false, ethertype };
    tag.emit(frame.prepend(vlan::TAG_LENGTH)?).ok()?;
    Some(())
}

/// Makes an untagged frame of one that belongs to our VLAN, `ours`, and returns its type. A frame of another VLAN is counted, and
/// gives `None`.
#[cold]
pub(crate) fn untag(frame: &mut Frame, ethertype: EtherType, ours: u16, counters: &mut Counters) -> Option<EtherType> {
    let inner = if ethertype == EtherType::VLAN {
        let bytes = frame.bytes().get(ethernet::HEADER_LENGTH..).unwrap_or(&[]);
        vlan::Tagged::parse(bytes).ok().map(|tagged| (tagged.identifier(), tagged.ethertype()))
    } else {
        // Untagged where a tag is due: not ours, but not malformed.
        Some((0, ethertype))
    };
    let Some((identifier, inner)) = inner else {
        counters.ethernet_invalid += 1;
        return None;
    };
    if identifier != ours {
        counters.ethernet_other_vlan += 1;
        return None;
    }
    // The addresses move up to where an untagged frame has them.
    let bytes = frame.bytes_mut();
    if bytes.len() < ethernet::HEADER_LENGTH + vlan::TAG_LENGTH {
        counters.ethernet_invalid += 1;
        return None;
    }
    bytes.copy_within(0..12, vlan::TAG_LENGTH);
    frame.trim_front(vlan::TAG_LENGTH);
    Some(inner)
}
