//! Control segments that belong to no connection: SYN-ACKs, resets, acknowledgements of TIME-WAIT.

use crate::ip::packet::IpMeta;
use crate::stack::Stack;
use crate::tables::flow::FlowKey;
use crate::tcp::{SegmentIn, reset_for};
use crate::transport::tables::{REPLIES_MAX, Reply};
use qanat_nic::{Time, Vnic};
use qanat_wire::ip::Protocol;
use qanat_wire::tcp;

impl Stack {
    /// Queues a control segment for the flow.
    pub(crate) fn reply(&mut self, key: FlowKey, header: tcp::Header) {
        if self.transport.replies.len() >= REPLIES_MAX {
            self.network.counters.transmit_ring_full += 1;
            return;
        }
        self.transport.replies.push_back(Reply { key, header });
    }

    /// Answers a segment that belongs to nothing with a reset, within the allowance of the peer that it claims to come from.
    pub(crate) fn reply_reset(&mut self, now: Time, key: FlowKey, segment: &SegmentIn<'_>) {
        let Some(header) = reset_for(segment) else { return };
        if !self.transport.resets.allow(now, key.remote_address()) {
            self.network.counters.tcp_resets_rate_limited += 1;
            return;
        }
        self.network.counters.tcp_resets_sent += 1;
        self.reply(key, header);
    }

    /// Sends the queued replies, as many as the device takes.
    pub(crate) fn output_replies(&mut self, now: Time, vnic: &mut dyn Vnic) {
        for _ in 0..vnic.transmit_room() {
            let Some(Reply { key, mut header }) = self.transport.replies.pop_front() else { return };
            header.source_port = key.local_port();
            header.destination_port = key.remote_port();
            let meta = IpMeta::new(key.local_address(), key.remote_address(), Protocol::TCP);
            let Some(mut frame) = self.network.frame(vnic) else { return };
            let length = header.header_length();
            let pseudo = meta.pseudo_header_sum(length);
            let offload = self.network.link.offload;
            let written = frame.append(length).is_some_and(|bytes| {
                let checksum = if offload {
                    tcp::write_partial_checksum
                } else {
                    |bytes: &mut [u8], sum| tcp::write_checksum(bytes, sum, 0)
                };
                header.emit(bytes).is_ok() && checksum(bytes, pseudo).is_ok()
            });
            if written {
                let checksum_offset = offload.then_some(tcp::CHECKSUM_OFFSET as u16);
                self.network.send_with(now, vnic, meta, frame, checksum_offset);
            }
        }
    }
}
