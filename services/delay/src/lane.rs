//! One direction of one queue: from a received frame to a sent one.

use crate::bottleneck::Bottleneck;
use crate::buckets::{Buckets, Held};
use crate::config::Impairments;
use crate::dice::Dice;
use crate::figures::LaneFigures;
use crate::flow::Flow;
use qanat_nic::{Frame, LINK_HEADER_MAX, Time, TransmitBuffer, TransmitOptions, Vnic};
use qanat_stack::Wheel;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// Frames released by one turn at most, so that receiving gets its turn too.
const RELEASE_MAX: usize = 256;
const ETHERNET_HEADER: usize = 14;
/// Headroom of copies: room for the driver's metadata.
const COPY_HEADROOM: usize = 64;

/// A bottleneck that all queues of a direction share. Locked once per packet if a rate is asked for: one link has one
/// queue, and the places in it can't be given out separately. Nothing else is shared.
pub(crate) type SharedBottleneck = Arc<Mutex<Bottleneck>>;

/// See the module.
pub(crate) struct Lane {
    /// At least one.
    bands: Vec<Duration>,
    reorder_by: Duration,
    dice: Dice,
    flow_seed: u64,
    bottleneck: Option<SharedBottleneck>,
    /// Two for each band: for packets on time, and for those held back longer.
    buckets: Buckets,
    /// Added to a bucket's number to make its token in the wheel.
    first_token: u32,
    frame_length_max: usize,
    device_finishes: bool,
    /// The rest of a packet of several frames is being dropped.
    discarding: bool,
    figures: LaneFigures,
}

/// What a lane is made of.
pub(crate) struct LaneConfig<'a> {
    pub(crate) impairments: &'a Impairments,
    pub(crate) bottleneck: Option<SharedBottleneck>,
    pub(crate) held_frames_max: u32,
    pub(crate) flow_seed: u64,
    pub(crate) dice_seed: u64,
    pub(crate) first_token: u32,
}

/// Where a lane sends, and what it shares with the other direction.
pub(crate) struct Way<'a, V> {
    pub(crate) egress: &'a mut V,
    pub(crate) wheel: &'a mut Wheel<u32>,
    /// Due times of what was given to the device and not yet flushed.
    pub(crate) dues: &'a mut Vec<Time>,
}

impl Lane {
    pub(crate) fn new(config: LaneConfig<'_>, egress: &impl Vnic) -> Lane {
        let capabilities = egress.capabilities();
        let mut bands = config.impairments.bands.clone();
        if bands.is_empty() {
            bands.push(Duration::ZERO);
        }
        Lane {
            reorder_by: config.impairments.reorder_by,
            dice: Dice::new(config.impairments, config.dice_seed),
            flow_seed: config.flow_seed,
            bottleneck: config.bottleneck,
            buckets: Buckets::new(bands.len() * 2, config.held_frames_max),
            bands,
            first_token: config.first_token,
            frame_length_max: usize::from(capabilities.mtu) + LINK_HEADER_MAX,
            device_finishes: capabilities.transmit_checksum,
            discarding: false,
            figures: LaneFigures::default(),
        }
    }

    /// Buckets a lane of these bands has: tokens it needs.
    pub(crate) fn bucket_count(impairments: &Impairments) -> u32 {
        impairments.bands.len().max(1) as u32 * 2
    }

    /// The counters.
    pub(crate) fn figures(&self) -> LaneFigures {
        LaneFigures { held: self.buckets.len() as u64, ..self.figures }
    }

    /// A frame was received.
    pub(crate) fn admit<V: Vnic>(&mut self, frame: Frame, now: Time, way: &mut Way<'_, V>) {
        if self.discarding || frame.continues() {
            self.figures.oversize += u64::from(!self.discarding);
            self.discarding = frame.continues();
            return;
        }
        self.figures.received += 1;
        self.figures.received_bytes += frame.len() as u64;
        if frame.len() > self.frame_length_max {
            self.figures.oversize += 1;
            return;
        }
        let fate = self.dice.throw();
        if fate.lost || fate.lost_in_burst {
            self.figures.lost += u64::from(fate.lost);
            self.figures.lost_in_bursts += u64::from(!fate.lost);
            return;
        }
        let flow = Flow::of(frame.bytes(), self.flow_seed);
        let copy = if fate.duplicated { self.copy(&frame, way.egress) } else { None };
        self.forward(frame, &flow, fate.corrupted, fate.reordered, now, way);
        if let Some(copy) = copy {
            self.forward(copy, &flow, None, false, now, way);
        }
    }

    fn copy(&mut self, frame: &Frame, egress: &impl Vnic) -> Option<Frame> {
        let copy = egress.transmit_pool().allocate(COPY_HEADROOM).and_then(|mut copy| {
            copy.append(frame.len())?.copy_from_slice(frame.bytes());
            Some(copy)
        });
        match &copy {
            Some(_) => self.figures.duplicated += 1,
            None => self.figures.copy_failed += 1,
        }
        copy
    }

    /// A packet that chance has let live: through the bottleneck, into its bucket or straight out.
    fn forward<V: Vnic>(
        &mut self,
        mut frame: Frame,
        flow: &Flow,
        corrupted: Option<u64>,
        reordered: bool,
        now: Time,
        way: &mut Way<'_, V>,
    ) {
        let departure = match &self.bottleneck {
            None => now,
            Some(link) => {
                // A panic of another thread leaves only times behind: still usable.
                let mut link = link.lock().unwrap_or_else(PoisonError::into_inner);
                match link.admit(frame.len(), now) {
                    Some(departure) => departure,
                    None => {
                        self.figures.queue_full += 1;
                        return;
                    }
                }
            }
        };
        let mut checksum = None;
        if let Some(unfinished) = flow.unfinished {
            self.figures.checksums_finished += 1;
            // Damage must come after the checksum, or it would be made good.
            if self.device_finishes && corrupted.is_none() && unfinished.suits_device(frame.bytes()) {
                checksum = Some(unfinished.offload);
            } else {
                unfinished.finish(frame.bytes_mut());
            }
        }
        if let Some(bit) = corrupted.filter(|_| flow.is_protected) {
            self.figures.corrupted += u64::from(change_bit(frame.bytes_mut(), bit));
        }
        let band = (flow.hash % self.bands.len() as u64) as usize;
        let mut due = departure + self.bands.get(band).copied().unwrap_or_default();
        if reordered {
            self.figures.reordered += 1;
            due += self.reorder_by;
        }
        self.hold(band * 2 + usize::from(reordered), Held { frame, due, checksum }, now, way);
    }

    fn hold<V: Vnic>(&mut self, bucket: usize, held: Held, now: Time, way: &mut Way<'_, V>) {
        let is_first = self.buckets.first_due(bucket).is_none();
        // Nothing before it, nothing to wait for: no need of the wheel.
        if is_first && held.due <= now && has_room(way) {
            self.send(held, way);
            return;
        }
        let due = held.due;
        if self.buckets.push(bucket, held).is_err() {
            self.figures.held_full += 1;
            return;
        }
        if is_first {
            // Has room for every bucket's one timer.
            let _ = way.wheel.insert(due, self.first_token + bucket as u32);
        }
    }

    /// Sends what is due of a bucket whose timer fired, and sets it again for the next.
    pub(crate) fn release<V: Vnic>(&mut self, token: u32, now: Time, way: &mut Way<'_, V>) {
        let bucket = token.wrapping_sub(self.first_token) as usize;
        for _ in 0..RELEASE_MAX {
            if !has_room(way) {
                break;
            }
            let Some(held) = self.buckets.pop_due(bucket, now) else { break };
            self.send(held, way);
        }
        if let Some(due) = self.buckets.first_due(bucket) {
            let _ = way.wheel.insert(due, token); // as above
        }
    }

    fn send<V: Vnic>(&mut self, held: Held, way: &mut Way<'_, V>) {
        let length = held.frame.len() as u64;
        let options = TransmitOptions { continues: false, checksum: held.checksum };
        match way.egress.transmit(TransmitBuffer::Owned(held.frame), options) {
            Ok(()) => {
                self.figures.sent += 1;
                self.figures.sent_bytes += length;
                way.dues.push(held.due);
            }
            // There was room in the ring; a copy was needed, and no frame free for it.
            Err(_) => self.figures.copy_failed += 1,
        }
    }
}

/// Whether the device and the list of due times can take another frame; sends what is queued first if not.
fn has_room<V: Vnic>(way: &mut Way<'_, V>) -> bool {
    if way.dues.len() == way.dues.capacity() {
        return false;
    }
    if way.egress.transmit_room() > 0 {
        return true;
    }
    way.egress.flush();
    way.egress.transmit_room() > 0
}

/// Changes a bit after the Ethernet header; false if nothing is there.
fn change_bit(frame: &mut [u8], bit: u64) -> bool {
    let Some(payload) = frame.get_mut(ETHERNET_HEADER..) else { return false };
    let Some(bit) = bit.checked_rem(payload.len() as u64 * 8) else { return false };
    match payload.get_mut((bit / 8) as usize) {
        Some(byte) => {
            *byte ^= 1 << (bit % 8);
            true
        }
        None => false,
    }
}
