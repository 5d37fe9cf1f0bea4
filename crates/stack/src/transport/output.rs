//! Connections take turns to send, once their next hops are known.

use crate::stack::Stack;
use crate::tcp::{Env, State};
use crate::transport::emitter::{LosingEmitter, SegmentEmitter};
use crate::transport::tables::env;
use qanat_api::CloseReason;
use qanat_nic::{Time, Vnic};
use qanat_wire::ethernet::MacAddress;
use std::net::IpAddr;

/// Frames of one connection before the next one's, which need not wait until all others have sent a window each. As many segments of
/// 1,448 bytes as a train has.
const TURN_FRAMES: usize = 45;
/// Turns at least, so that few connections have large batches too.
const TURNS_MIN: usize = 6;

impl Stack {
    /// A connection's segment came from `mac`. Its next hop is reached at the address that its packets come from (see
    /// [`neighbours_by_traffic`](crate::Config::neighbours_by_traffic)).
    #[inline]
    pub(crate) fn learn_by_connection(&mut self, now: Time, vnic: &mut dyn Vnic, slot: u32, mac: MacAddress) {
        let Some(connection) = self.transport.connections.at_mut(slot) else { return };
        let (next_hop, hint) = (connection.next_hop, connection.hint);
        if !self.network.neighbours.is_from(now, next_hop, hint, mac) {
            self.network.learn(now, vnic, next_hop, mac, false, true);
        }
    }

    /// Whether [`transmit`](Stack::transmit) has something to send at once.
    pub(crate) fn has_output(&self) -> bool {
        !self.transport.ready.is_empty() || !self.transport.replies.is_empty()
    }

    /// Lets every connection that wants to send.
    pub(crate) fn output_connections(&mut self, now: Time, vnic: &mut dyn Vnic) {
        self.fail_unreachable(now);
        self.output_replies(now, vnic);
        if self.network.take_resolved() {
            let transport = &mut self.transport;
            transport.ready.extend(transport.unresolved.drain(..));
        }
        // A turn for each. What there is no room for, or too much for one batch, waits for the next poll, after a look at what has come.
        for _ in 0..self.transport.ready.len().max(TURNS_MIN) {
            let room = vnic.batch_room().min(TURN_FRAMES);
            if room == 0 {
                return;
            }
            let Some(slot) = self.transport.ready.pop_front() else { return };
            let Some(connection) = self.transport.connections.at_mut(slot) else { continue };
            let (mac, hint) = self.network.resolve(now, vnic, connection.next_hop, connection.hint);
            connection.hint = hint;
            let Some(mac) = mac else {
                // It stays marked as ready, so it is in one list only.
                self.transport.unresolved.push(slot);
                continue;
            };
            connection.ready = false;
            if connection.path_version != self.transport.path_mtus.version() {
                connection.path_version = self.transport.path_mtus.version();
                if let Some(segment) = self.transport.path_mtus.segment(now, connection.key.remote_address()) {
                    connection.tcp.adopt_path_mtu(segment, &mut env!(self, now));
                }
            }
            let mut emitter = SegmentEmitter::new(&mut self.network, vnic, &connection.key, mac, room);
            let disposition = connection.tcp.output(&mut env!(self, now), &mut emitter);
            self.settle(now, slot, disposition);
        }
    }

    /// Sends the ACK a connection owes apart from those of later segments, if it owes one; the device is not told yet.
    #[inline]
    pub(crate) fn acknowledge_apart(&mut self, now: Time, slot: u32, vnic: &mut dyn Vnic) {
        let Some(connection) = self.transport.connections.at_mut(slot) else { return };
        if !connection.tcp.owes_ack_apart() {
            return;
        }
        let (mac, hint) = self.network.resolve(now, vnic, connection.next_hop, connection.hint);
        connection.hint = hint;
        // Without an address the ACKs are merged: they wait for it in any case.
        let Some(mac) = mac else { return };
        let room = vnic.transmit_room();
        let mut emitter = SegmentEmitter::new(&mut self.network, vnic, &connection.key, mac, room);
        connection.tcp.acknowledge_apart(&mut env!(self, now), &mut emitter);
    }

    /// Neighbours did not answer: attempts to connect through them end, and what open connections had for them is lost.
    fn fail_unreachable(&mut self, now: Time) {
        while let Some(address) = self.transport.unreachable.pop() {
            // A walk over all connections, at most as often as a neighbour fails after three seconds of asking.
            let failed: Vec<u32> = self
                .transport
                .connections
                .iter()
                .filter(|(_, slot)| slot.next_hop == address && slot.tcp.state() == State::SynSent)
                .map(|(slot, _)| slot)
                .collect();
            for slot in failed {
                if let Some(connection) = self.transport.connections.at_mut(slot) {
                    let first = connection.tcp.send_unacknowledged();
                    let disposition =
                        connection.tcp.on_unreachable(first, CloseReason::Unreachable, true, &mut env!(self, now));
                    self.settle(now, slot, disposition);
                }
            }
            let mut unresolved = std::mem::take(&mut self.transport.unresolved);
            for slot in unresolved.drain(..) {
                self.lose_output(now, slot, address);
            }
            // Its capacity is kept; what has become unresolved meanwhile is put back.
            std::mem::swap(&mut self.transport.unresolved, &mut unresolved);
            self.transport.unresolved.append(&mut unresolved);
        }
    }

    /// A connection waiting for a next hop's address: if that is `address`, its output is lost; else it asks again.
    fn lose_output(&mut self, now: Time, slot: u32, address: IpAddr) {
        let Some(connection) = self.transport.connections.at_mut(slot) else { return };
        if connection.next_hop != address {
            self.transport.ready.push_back(slot);
            return;
        }
        connection.ready = false;
        let mut emitter = LosingEmitter { lost: &mut self.network.counters.neighbour_pending_dropped };
        let disposition = connection.tcp.output(&mut env!(self, now), &mut emitter);
        self.settle(now, slot, disposition);
    }
}
