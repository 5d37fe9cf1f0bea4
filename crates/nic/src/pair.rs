//! A NIC made of memory: two ends, each the other's cable.
//!
//! ```text
//!   end A                  ring A→B: bounded, one producer, one consumer                  end B
//!   transmit(frame) ─copy→ [slot][slot][slot]…   flush publishes `tail`   ─copy→ receive(frames)
//!   frame is free at once     head ──consumer     tail ──producer             from B's receive pool
//! ```
//!
//! The ends work in one thread or in two. A frame is copied into a slot by `transmit` (so a `Shared` frame is free
//! again at once) and out of it by `receive`; that copy is the wire. What isn't flushed isn't seen. When the receiver
//! has no free frame, packets wait in the ring, and the sender finds it full: nothing is ever lost here (for loss put
//! [`fault`](crate::fault) on top).

use crate::base::event_fd::event_fd;
use crate::checksum::{self, ChecksumOffload};
use crate::memory::{Frame, Pool};
use crate::plan::{FrameMemory, MemoryPlan};
use crate::statistics::VnicStatistics;
use crate::vnic::{Capabilities, LINK_HEADER_MAX, ReceiveChecksum, TransmitBuffer, TransmitOptions, Vnic};
use qanat_wire::ethernet::MacAddress;
use std::cell::UnsafeCell;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering, fence};

/// Headroom of received frames, bytes: as AF_XDP gives.
pub const RECEIVE_HEADROOM: usize = 256;

/// A pair's properties, the same for both ends.
#[derive(Clone, Copy, Debug)]
pub struct PairConfig {
    /// Largest layer-3 packet, bytes.
    pub mtu: u16,
    /// Ethernet addresses of the first and the second end.
    pub macs: [MacAddress; 2],
    /// Slots per direction; rounded up to a power of two.
    pub slots: u32,
    /// Bytes per slot: a longer frame arrives in several, as on a device that scatters. The receiver's frames must be
    /// [`RECEIVE_HEADROOM`] larger.
    pub slot_size: u32,
    /// Offer transmit checksum offload.
    pub transmit_checksum: bool,
    /// What the receiver is told to do. With `AcceptPartial` an offloaded checksum stays partial, as on veth.
    pub receive_checksum: ReceiveChecksum,
    /// Frames per transmitted packet.
    pub transmit_buffers_max: u8,
    /// Create doorbells. Without them ends must be polled (one thread, or a spinning one).
    pub doorbell: bool,
}

impl Default for PairConfig {
    /// MTU 1500, 1024 slots of 1792 bytes, checksums by the stack, no doorbell.
    fn default() -> PairConfig {
        PairConfig {
            mtu: 1500,
            macs: [MacAddress([2, 0, 0, 0, 0, 1]), MacAddress([2, 0, 0, 0, 0, 2])],
            slots: 1024,
            slot_size: 1792,
            transmit_checksum: false,
            receive_checksum: ReceiveChecksum::Verify,
            transmit_buffers_max: 1,
            doorbell: false,
        }
    }
}

/// Makes the two ends.
///
/// # Errors
/// What `eventfd` says, if doorbells are asked for.
pub fn pair(config: PairConfig) -> io::Result<(PairPort, PairPort)> {
    let forth = Arc::new(Ring::new(&config)?);
    let back = Arc::new(Ring::new(&config)?);
    let first = PairPort { config, end: 0, outward: Arc::clone(&forth), inward: Arc::clone(&back) };
    let second = PairPort { config, end: 1, outward: back, inward: forth };
    Ok((first, second))
}

/// An end not yet opened: may be sent to the thread that will use it.
pub struct PairPort {
    config: PairConfig,
    end: usize,
    outward: Arc<Ring>,
    inward: Arc<Ring>,
}

impl PairPort {
    /// Maps frame memory and opens the end on this thread.
    ///
    /// # Errors
    /// Those of [`MemoryPlan::allocate`]; `InvalidInput` if a frame can't hold a slot.
    pub fn open(self, plan: MemoryPlan) -> io::Result<Pair> {
        let memory = plan.allocate()?;
        self.open_over(plan, memory)
    }

    /// As [`open`](PairPort::open), over memory that the caller made by `plan`.
    ///
    /// # Errors
    /// `InvalidInput` if a frame can't hold a slot.
    pub fn open_over(self, plan: MemoryPlan, memory: FrameMemory) -> io::Result<Pair> {
        let frame_size = plan.frame_size as usize;
        if frame_size < RECEIVE_HEADROOM + self.config.slot_size as usize {
            let message = format!(
                "frames of {} bytes can't hold slots of {} and {RECEIVE_HEADROOM} bytes of headroom",
                plan.frame_size, self.config.slot_size
            );
            return Err(io::Error::new(io::ErrorKind::InvalidInput, message));
        }
        let frame_bytes_max = (plan.frame_size as usize).min(self.config.mtu as usize + LINK_HEADER_MAX);
        let tail = self.outward.tail.0.load(Ordering::Relaxed);
        let head = self.inward.head.0.load(Ordering::Relaxed);
        Ok(Pair {
            slots_per_frame_max: frame_bytes_max.div_ceil(self.config.slot_size as usize).max(1) as u32,
            memory,
            tail,
            packet_start: tail,
            packet_length: 0,
            packet_checksum: None,
            peer_head: self.outward.head.0.load(Ordering::Acquire),
            head,
            peer_tail: head,
            armed: false,
            ring_overdue: false,
            statistics: VnicStatistics::default(),
            port: self,
        })
    }
}

/// One field per cache line (two: the prefetcher takes pairs).
#[repr(align(128))]
struct Padded<T>(T);

#[derive(Clone, Copy)]
struct SlotHeader {
    length: u32,
    continues: bool,
}

struct Ring {
    /// Next slot to produce; written by the producer at flush.
    tail: Padded<AtomicU32>,
    /// Next slot to consume; written by the consumer.
    head: Padded<AtomicU32>,
    /// The consumer sleeps, or is about to: ring the doorbell at the next publication.
    armed: Padded<AtomicBool>,
    /// The consumer is gone.
    closed: AtomicBool,
    doorbell: Option<OwnedFd>,
    mask: u32,
    slot_size: usize,
    headers: Box<[UnsafeCell<SlotHeader>]>,
    bytes: Box<[UnsafeCell<u8>]>,
}

// SAFETY: slots in [head, tail) are touched by the one consumer only, all others by the one producer only (each half is
// owned by exactly one Pair, which isn't Sync), and the slots change hands by release stores and acquire loads of `head`
// and `tail`.
unsafe impl Sync for Ring {}
// SAFETY: nothing in it is bound to a thread.
unsafe impl Send for Ring {}

impl Ring {
    fn new(config: &PairConfig) -> io::Result<Ring> {
        let slots = config.slots.clamp(1, 1 << 20).next_power_of_two();
        let doorbell = if config.doorbell { Some(event_fd()?) } else { None };
        let empty = SlotHeader { length: 0, continues: false };
        let bytes = slots as usize * config.slot_size.max(64) as usize;
        Ok(Ring {
            tail: Padded(AtomicU32::new(0)),
            head: Padded(AtomicU32::new(0)),
            armed: Padded(AtomicBool::new(false)),
            closed: AtomicBool::new(false),
            doorbell,
            mask: slots - 1,
            slot_size: config.slot_size.max(64) as usize,
            headers: (0..slots).map(|_| UnsafeCell::new(empty)).collect(),
            bytes: zeroed_bytes(bytes),
        })
    }

    fn slot_count(&self) -> u32 {
        self.mask + 1
    }

    fn header(&self, position: u32) -> *mut SlotHeader {
        self.headers[(position & self.mask) as usize].get()
    }

    fn data(&self, position: u32) -> *mut u8 {
        self.bytes[(position & self.mask) as usize * self.slot_size].get()
    }

    /// Wakes the consumer if it sleeps.
    fn ring_doorbell(&self) {
        let Some(doorbell) = &self.doorbell else { return };
        // The publication must be visible before `armed` is read: the consumer does the reverse (store `armed`, fence,
        // read `tail`), so that one of the two sees the other.
        fence(Ordering::SeqCst);
        if self.armed.0.load(Ordering::Relaxed) && self.armed.0.swap(false, Ordering::Relaxed) {
            // Failure (the counter is full) means that it is readable already.
            let _ = rustix::io::write(doorbell, &1u64.to_ne_bytes());
        }
    }
}

fn zeroed_bytes(length: usize) -> Box<[UnsafeCell<u8>]> {
    let bytes = vec![0u8; length].into_boxed_slice();
    // SAFETY: UnsafeCell<u8> has the layout of u8, and ownership moves from one box to the other.
    unsafe { Box::from_raw(Box::into_raw(bytes) as *mut [UnsafeCell<u8>]) }
}

/// An open end of a [`pair`].
pub struct Pair {
    port: PairPort,
    memory: FrameMemory,
    slots_per_frame_max: u32,
    /// Next slot to fill; published up to `packet_start` at flush.
    tail: u32,
    /// First slot of the packet not yet complete (`tail` if there is none).
    packet_start: u32,
    packet_length: usize,
    packet_checksum: Option<ChecksumOffload>,
    /// Last known head of the outward ring.
    peer_head: u32,
    /// Next slot to take.
    head: u32,
    /// Last known tail of the inward ring.
    peer_tail: u32,
    /// The inward ring's doorbell was armed at the last empty `receive`.
    armed: bool,
    /// The producer was about to ring when this end was already awake.
    ring_overdue: bool,
    statistics: VnicStatistics,
}

impl Pair {
    /// The pool received frames come from.
    pub fn receive_pool(&self) -> &Pool {
        &self.memory.receive
    }

    fn slots_free(&mut self) -> u32 {
        let ring = &self.port.outward;
        let needed = self.slots_per_frame_max;
        let mut free = ring.slot_count() - self.tail.wrapping_sub(self.peer_head);
        if free < needed.max(ring.slot_count() / 2) {
            self.peer_head = ring.head.0.load(Ordering::Acquire);
            free = ring.slot_count() - self.tail.wrapping_sub(self.peer_head);
        }
        free
    }

    /// Copies `bytes` into the next slots.
    fn fill_slots(&mut self, bytes: &[u8], continues: bool) {
        let ring = &self.port.outward;
        let mut rest = bytes;
        loop {
            let (piece, more) = rest.split_at(rest.len().min(ring.slot_size));
            let continues = continues || !more.is_empty();
            // SAFETY: slot `tail` is free (the caller checked `slots_free`), so only this producer touches it; the piece
            // is at most a slot long.
            unsafe {
                *ring.header(self.tail) = SlotHeader { length: piece.len() as u32, continues };
                std::ptr::copy_nonoverlapping(piece.as_ptr(), ring.data(self.tail), piece.len());
            }
            self.tail = self.tail.wrapping_add(1);
            rest = more;
            // At most slots_per_frame_max turns: the length was checked against the MTU.
            if rest.is_empty() {
                return;
            }
        }
    }

    /// Ends the packet being built: fills in its checksum, or throws it away if it is too long.
    fn finish_packet(&mut self) {
        if self.packet_length > self.port.config.mtu as usize + LINK_HEADER_MAX {
            self.tail = self.packet_start;
            self.statistics.transmit_invalid += 1;
        } else if let Some(offload) = self.packet_checksum.take()
            && self.port.config.receive_checksum != ReceiveChecksum::AcceptPartial
        {
            self.fill_checksum(offload);
        }
        self.packet_checksum = None;
        self.packet_length = 0;
        self.packet_start = self.tail;
    }

    /// Does what a device with checksum offload does, over the packet's slots.
    fn fill_checksum(&mut self, offload: ChecksumOffload) {
        let ring = &self.port.outward;
        let start = offload.start as usize;
        let field = start + offload.offset as usize;
        let (mut sum, mut summed, mut offset) = (0u16, 0usize, 0usize);
        let mut target: Option<*mut u8> = None;
        let mut position = self.packet_start;
        while position != self.tail {
            // SAFETY: an unpublished slot of this producer, and its length as `fill_slots` wrote it.
            let bytes =
                unsafe { std::slice::from_raw_parts(ring.data(position), (*ring.header(position)).length as usize) };
            let covered = bytes.get(start.saturating_sub(offset)..).unwrap_or(&[]);
            sum = checksum::add(sum, summed, covered);
            summed += covered.len();
            if (offset..(offset + bytes.len()).saturating_sub(1)).contains(&field) {
                // SAFETY: `field` and the byte after it are within this slot's data.
                target = Some(unsafe { ring.data(position).add(field - offset) });
            }
            offset += bytes.len();
            position = position.wrapping_add(1);
        }
        match target {
            // SAFETY: two bytes of an unpublished slot, found above; no reference to them lives.
            Some(target) => unsafe { target.cast::<[u8; 2]>().write(checksum::finish(sum).to_be_bytes()) },
            None => self.statistics.transmit_invalid += 1,
        }
    }

    /// Frames of the packet at `position`; all of it is there, since only whole packets are published.
    fn packet_slots(&self, position: u32) -> u32 {
        let ring = &self.port.inward;
        let mut end = position;
        while end != self.peer_tail {
            // SAFETY: a slot in [head, tail): published by the producer, read by this consumer only.
            let header = unsafe { *ring.header(end) };
            end = end.wrapping_add(1);
            if !header.continues {
                break;
            }
        }
        end.wrapping_sub(position)
    }

    fn take_slot(&mut self) -> Option<Frame> {
        let ring = &self.port.inward;
        let mut frame = self.memory.receive.allocate(RECEIVE_HEADROOM)?;
        // SAFETY: slot `head` is published and not yet released: only this consumer touches it. Its length is at most
        // slot_size, whichever end wrote it.
        let (bytes, continues) = unsafe {
            let header = *ring.header(self.head);
            let length = (header.length as usize).min(ring.slot_size);
            (std::slice::from_raw_parts(ring.data(self.head), length), header.continues)
        };
        frame.append(bytes.len())?.copy_from_slice(bytes);
        frame.set_continues(continues);
        self.statistics.receive_frames += 1;
        self.statistics.receive_bytes += bytes.len() as u64;
        self.head = self.head.wrapping_add(1);
        Some(frame)
    }

    /// Says that this end may sleep now; returns whether packets have come meanwhile.
    fn arm(&mut self) -> bool {
        let ring = &self.port.inward;
        if ring.doorbell.is_none() {
            return false;
        }
        if self.ring_overdue {
            self.ring_overdue = !drain_event_fd(ring);
        }
        if self.armed && ring.armed.0.load(Ordering::Relaxed) {
            return false;
        }
        self.armed = true;
        ring.armed.0.store(true, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        self.peer_tail = ring.tail.0.load(Ordering::Acquire);
        self.peer_tail != self.head
    }

    fn disarm(&mut self) {
        let ring = &self.port.inward;
        self.armed = false;
        if !ring.armed.0.swap(false, Ordering::Relaxed) {
            // The producer has disarmed it but may not have rung yet: then the ring is cleared later.
            self.ring_overdue = !drain_event_fd(ring);
        }
    }
}

/// Makes the doorbell unreadable; whether it had been rung.
fn drain_event_fd(ring: &Ring) -> bool {
    let Some(doorbell) = &ring.doorbell else { return true };
    rustix::io::read(doorbell, &mut [0u8; 8]) == Ok(8)
}

impl Vnic for Pair {
    fn capabilities(&self) -> Capabilities {
        let config = &self.port.config;
        Capabilities {
            mac: config.macs[self.port.end],
            mtu: config.mtu,
            transmit_checksum: config.transmit_checksum,
            receive_checksum: config.receive_checksum,
            transmit_buffers_max: config.transmit_buffers_max.max(1),
            transmit_headroom: 0,
        }
    }

    fn receive(&mut self, frames: &mut Vec<Frame>, frames_max: usize) -> usize {
        if self.peer_tail == self.head {
            self.peer_tail = self.port.inward.tail.0.load(Ordering::Acquire);
            if self.peer_tail == self.head && !self.arm() {
                return 0;
            }
        }
        if self.armed {
            self.disarm();
        }
        let mut taken = 0;
        while self.head != self.peer_tail {
            let slots = self.packet_slots(self.head);
            if taken + slots as usize > frames_max || slots > self.memory.receive.free_count() {
                break;
            }
            for _ in 0..slots {
                frames.extend(self.take_slot());
            }
            taken += slots as usize;
        }
        self.port.inward.head.0.store(self.head, Ordering::Release);
        taken
    }

    fn transmit_room(&mut self) -> usize {
        (self.slots_free() / self.slots_per_frame_max) as usize
    }

    fn transmit(&mut self, buffer: TransmitBuffer, options: TransmitOptions) -> Result<(), TransmitBuffer> {
        let bytes = buffer.frame().bytes();
        if self.port.outward.closed.load(Ordering::Relaxed) {
            self.statistics.transmit_lost += 1;
            return Ok(());
        }
        // A frame that makes its packet too long isn't copied; `finish_packet` throws away what was.
        let fits = self.packet_length + bytes.len() <= self.port.config.mtu as usize + LINK_HEADER_MAX;
        if fits {
            let needed = bytes.len().div_ceil(self.port.outward.slot_size).max(1) as u32;
            if self.slots_free() < needed {
                self.statistics.transmit_ring_full += 1;
                return Err(buffer);
            }
        }
        let bytes = buffer.frame().bytes();
        if self.packet_length == 0 {
            self.packet_checksum = options.checksum.filter(|_| self.port.config.transmit_checksum);
        }
        self.statistics.transmit_frames += 1;
        self.statistics.transmit_bytes += bytes.len() as u64;
        if fits {
            self.fill_slots(bytes, options.continues);
        }
        self.packet_length += bytes.len();
        if !options.continues {
            self.finish_packet();
        }
        Ok(())
    }

    fn flush(&mut self) {
        let ring = &self.port.outward;
        if ring.tail.0.load(Ordering::Relaxed) != self.packet_start {
            // Release: the slots' contents before the position that makes them visible. Only whole packets.
            ring.tail.0.store(self.packet_start, Ordering::Release);
            self.statistics.transmit_doorbells += 1;
            ring.ring_doorbell();
        }
    }

    fn memory(&self) -> &FrameMemory {
        &self.memory
    }

    fn doorbell(&self) -> Option<BorrowedFd<'_>> {
        self.port.inward.doorbell.as_ref().map(AsFd::as_fd)
    }

    fn statistics(&self) -> VnicStatistics {
        self.statistics
    }
}

impl Drop for PairPort {
    fn drop(&mut self) {
        self.inward.closed.store(true, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests;
