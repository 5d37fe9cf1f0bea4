//! [`Memif`]: a queue of a connection as a [`Vnic`].
//!
//! A slave's frame is in exactly one of: its pool, a `Frame`, `lent` (posted in the inward ring), `in_flight` (in the
//! outward ring). Positions this end writes are kept here and never read back from shared memory.

use super::config::MemifConfig;
use super::control::{ring, silence};
use super::error::{MemifError, Violation};
use super::link::MemifLink;
use super::shared::{Descriptor, Mapping, SharedRing, copy};
use crate::base::prefetch::prefetch_at;
use crate::memory::{Frame, Pool};
use crate::plan::{FrameMemory, MemoryPlan};
use crate::statistics::VnicStatistics;
use crate::vnic::{Capabilities, LINK_HEADER_MAX, ReceiveChecksum, TransmitBuffer, TransmitOptions, Vnic};
use std::cell::Cell;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::ptr::NonNull;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{Ordering, fence};

/// Headroom of received frames, bytes.
const RECEIVE_HEADROOM: usize = 128;
/// Headroom of frames copied by `transmit`.
const COPY_HEADROOM: usize = 64;
/// Pieces a packet may have, as on other devices.
const PIECES_MAX: usize = 18;
/// Empty frames are posted so many at a time.
const REFILL_BATCH: u16 = 32;
/// Packets whose first bytes are asked for before they are copied: copying eight takes about as long as asking.
const AHEAD: u16 = 8;
/// Looks at the ring again after so many pauses once interrupts are unmasked: a producer that has no barrier between
/// publishing and looking at the mask (DPDK's) may still have seen it masked.
const UNMASK_PAUSES: u32 = 16;

/// Whose memory it is.
pub(super) enum Side {
    /// The peer's regions.
    Master { regions: Arc<[Arc<Mapping>]> },
    /// Our frames' region: its file and its number.
    Slave { file: OwnedFd, region: u16 },
}

/// All of a queue that isn't bound to a thread.
pub(super) struct QueueParts {
    pub(super) receive: SharedRing,
    pub(super) transmit: SharedRing,
    pub(super) receive_bell: OwnedFd,
    pub(super) transmit_bell: OwnedFd,
    pub(super) side: Side,
    pub(super) plan: MemoryPlan,
}

/// A queue to be opened on the thread that will use it.
pub struct MemifOpener {
    parts: QueueParts,
    link: MemifLink,
    capabilities: Capabilities,
    interrupts: bool,
}

impl std::fmt::Debug for MemifOpener {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "MemifOpener({:?})", self.link)
    }
}

impl MemifOpener {
    pub(super) fn new(parts: QueueParts, link: MemifLink, config: &MemifConfig) -> MemifOpener {
        let capabilities = Capabilities {
            mac: config.mac,
            mtu: config.mtu,
            // A sender that sums nothing need not be told where: `transmit` passes over it.
            transmit_checksum: !config.checksums,
            receive_checksum: if config.checksums { ReceiveChecksum::Verify } else { ReceiveChecksum::Trust },
            transmit_buffers_max: 1,
            transmit_headroom: 0,
        };
        MemifOpener { parts, link, capabilities, interrupts: config.interrupts }
    }

    /// Maps frame memory and opens the queue.
    ///
    /// # Errors
    /// What mapping says; [`MemifError::Invalid`] for an MTU that a frame can't hold.
    pub fn open(self) -> Result<Memif, MemifError> {
        self.open_over(None)
    }

    /// As [`open`](MemifOpener::open), over memory that the caller made by the configured plan: a master's alone, for a
    /// slave's frames are its peer's to write.
    ///
    /// # Errors
    /// As there; [`MemifError::Invalid`] for a slave.
    pub fn open_over(self, given: Option<FrameMemory>) -> Result<Memif, MemifError> {
        let MemifOpener { parts, link, capabilities, interrupts } = self;
        let failed = |error| MemifError::system("map frame memory", error);
        let plan = parts.plan;
        let frame_bytes_max = usize::from(capabilities.mtu) + LINK_HEADER_MAX;
        if frame_bytes_max > plan.frame_size as usize - RECEIVE_HEADROOM {
            let reason = format!("MTU {} in frames of {} bytes: too large", capabilities.mtu, plan.frame_size);
            return Err(MemifError::Invalid { reason });
        }
        let (memory, end) = match parts.side {
            Side::Master { regions } => {
                let memory = given.map_or_else(|| plan.allocate(), Ok).map_err(failed)?;
                (memory, End::Master { regions })
            }
            Side::Slave { .. } if given.is_some() => {
                let reason = "frames of a memif slave are its master's too: be the master".to_owned();
                return Err(MemifError::Invalid { reason });
            }
            Side::Slave { file, region } => {
                let mapped = plan.map_memory_file(file.as_fd()).map_err(failed)?;
                let lent = vec![0; usize::from(parts.receive.size())].into_boxed_slice();
                let in_flight = (0..parts.transmit.size()).map(|_| None).collect();
                (plan.cut(&mapped).map_err(failed)?, End::Slave { region, lent, in_flight })
            }
        };
        let mut queue = Memif {
            receive: parts.receive,
            transmit: parts.transmit,
            end,
            memory,
            link,
            frame_bytes_max,
            taken: 0,
            posted: 0,
            filled: 0,
            published: 0,
            returned: 0,
            discarding: false,
            is_wound_up: false,
            interrupts,
            armed: Cell::new(false),
            capabilities,
            statistics: VnicStatistics::default(),
            receive_bell: parts.receive_bell,
            transmit_bell: parts.transmit_bell,
        };
        queue.refill(1);
        Ok(queue)
    }
}

enum End {
    Master {
        regions: Arc<[Arc<Mapping>]>,
    },
    Slave {
        region: u16,
        /// Frame indices of the buffers posted, by slot.
        lent: Box<[u32]>,
        /// By slot, until the master has handed the slot back.
        in_flight: Box<[Option<TransmitBuffer>]>,
    },
}

/// An open queue.
pub struct Memif {
    pub(super) receive: SharedRing,
    pub(super) transmit: SharedRing,
    end: End,
    memory: FrameMemory,
    link: MemifLink,
    frame_bytes_max: usize,
    /// Inward ring: next descriptor to take.
    taken: u16,
    /// Inward ring, slave: next slot to post an empty frame in.
    posted: u16,
    /// Outward ring: next slot to fill.
    filled: u16,
    /// Outward ring: what the peer has been shown.
    published: u16,
    /// Outward ring: slave: slots the master has handed back; master: slots the slave has posted.
    returned: u16,
    /// Parts of a packet of several frames are being thrown away.
    discarding: bool,
    is_wound_up: bool,
    interrupts: bool,
    /// Interrupts are unmasked.
    armed: Cell<bool>,
    capabilities: Capabilities,
    statistics: VnicStatistics,
    receive_bell: OwnedFd,
    transmit_bell: OwnedFd,
}

/// The bytes a descriptor of the peer's names.
#[inline]
fn resolve(regions: &[Arc<Mapping>], descriptor: Descriptor) -> Result<NonNull<u8>, Violation> {
    let region = regions.get(usize::from(descriptor.region)).ok_or(Violation::Region)?;
    region.range(descriptor.offset, descriptor.length).ok_or(Violation::Extent)
}

/// Asks for the first bytes a descriptor of the peer's names: another processor wrote them last, so they are far away. A hint:
/// what the descriptor says is checked when it is used.
#[inline(always)]
fn ask_for(regions: &[Arc<Mapping>], descriptor: Descriptor) {
    if let Ok(place) = resolve(regions, descriptor) {
        prefetch_at(place);
    }
}

/// The descriptors of one packet, each copied once.
struct Packet {
    pieces: [Descriptor; PIECES_MAX],
    count: usize,
}

impl Memif {
    /// The connection's fate.
    pub fn link(&self) -> &MemifLink {
        &self.link
    }

    /// The pool received frames come from. Those posted for the peer count as in use.
    pub fn receive_pool(&self) -> &Pool {
        &self.memory.receive
    }

    /// Frames on their way out, the master not having handed them back.
    pub fn in_flight_count(&self) -> u32 {
        match self.end {
            End::Slave { .. } => u32::from(self.filled.wrapping_sub(self.returned)),
            End::Master { .. } => 0,
        }
    }

    /// Empty frames posted for the master to fill.
    pub fn lent_count(&self) -> u32 {
        match self.end {
            End::Slave { .. } => u32::from(self.posted.wrapping_sub(self.taken)),
            End::Master { .. } => 0,
        }
    }

    /// The connection is over: what the peer held comes back. Once.
    #[cold]
    fn wind_up(&mut self) {
        if std::mem::replace(&mut self.is_wound_up, true) {
            silence(&self.receive_bell);
            return;
        }
        self.statistics.transmit_lost += u64::from(self.filled.wrapping_sub(self.published));
        if let End::Slave { lent, in_flight, .. } = &mut self.end {
            in_flight.iter_mut().for_each(|slot| drop(slot.take()));
            let count = self.posted.wrapping_sub(self.taken);
            for position in (0..count).map(|offset| self.taken.wrapping_add(offset)) {
                let index = lent.get(self.receive.slot(position)).copied().unwrap_or(0);
                // SAFETY: lent at this position by `refill`, and taken back once: `taken` moves past it below.
                drop(unsafe { self.memory.receive.redeem(index, 0, 0, false) });
            }
            self.taken = self.posted;
        }
        self.returned = self.filled;
        self.published = self.filled;
        silence(&self.receive_bell);
    }

    #[cold]
    fn violated(&mut self, violation: Violation) {
        self.link.cut(violation);
        self.wind_up();
    }

    /// Slave: posts empty frames, if at least `least` are missing.
    fn refill(&mut self, least: u16) {
        let End::Slave { region, lent, .. } = &mut self.end else { return };
        let missing = self.receive.size() - self.posted.wrapping_sub(self.taken);
        if missing < least {
            return;
        }
        let start = self.posted;
        for _ in 0..missing {
            let Some(frame) = self.memory.receive.allocate(RECEIVE_HEADROOM) else { break };
            let descriptor = Descriptor {
                continues: false,
                region: *region,
                length: frame.tailroom() as u32,
                // The plan's length was checked to fit 32 bits.
                offset: frame.offset_in_region() as u32,
            };
            self.receive.write(self.posted, descriptor);
            if let Some(slot) = lent.get_mut(self.receive.slot(self.posted)) {
                *slot = frame.into_index();
            }
            self.posted = self.posted.wrapping_add(1);
        }
        if self.posted != start {
            // Release: the descriptors before the position that shows them.
            self.receive.head().store(self.posted, Ordering::Release);
        }
    }

    /// How many descriptors wait in the inward ring.
    #[inline]
    fn waiting(&self) -> Result<u16, Violation> {
        let (position, most) = match self.end {
            End::Slave { .. } => (self.receive.tail().load(Ordering::Acquire), self.posted.wrapping_sub(self.taken)),
            End::Master { .. } => (self.receive.head().load(Ordering::Acquire), self.receive.size()),
        };
        let waiting = position.wrapping_sub(self.taken);
        if waiting > most { Err(Violation::Index) } else { Ok(waiting) }
    }

    /// The packet at `taken`; `None` if its end isn't there yet.
    #[inline]
    fn next_packet(&self, waiting: u16) -> Result<Option<Packet>, Violation> {
        let mut packet = Packet { pieces: [Descriptor::default(); PIECES_MAX], count: 0 };
        for piece in &mut packet.pieces {
            if packet.count == usize::from(waiting) {
                // A ring full of one packet will never have its end.
                return if waiting == self.receive.size() { Err(Violation::Chain) } else { Ok(None) };
            }
            *piece = self.receive.read(self.taken.wrapping_add(packet.count as u16));
            packet.count += 1;
            if !piece.continues {
                return Ok(Some(packet));
            }
        }
        Err(Violation::Chain)
    }

    fn receive_packets(&mut self, frames: &mut Vec<Frame>, frames_max: usize) -> Result<usize, Violation> {
        let mut waiting = self.waiting()?;
        if waiting == 0 {
            return Ok(0);
        }
        let mut received = 0;
        if let End::Master { regions } = &self.end {
            for offset in 0..waiting.min(AHEAD) {
                ask_for(regions, self.receive.read(self.taken.wrapping_add(offset)));
            }
        }
        while waiting > 0 {
            if let End::Master { regions } = &self.end
                && waiting > AHEAD
            {
                ask_for(regions, self.receive.read(self.taken.wrapping_add(AHEAD)));
            }
            let room = frames_max - received;
            let first = self.receive.read(self.taken);
            let (got, count) = if first.continues {
                let Some(packet) = self.next_packet(waiting)? else { break };
                let pieces = packet.pieces.get(..packet.count).unwrap_or_default();
                (self.take(pieces, frames, room)?, packet.count as u16)
            } else {
                // Nearly always.
                (self.take(std::slice::from_ref(&first), frames, room)?, 1)
            };
            let Some(got) = got else { break };
            received += got;
            self.taken = self.taken.wrapping_add(count);
            waiting -= count;
        }
        self.statistics.receive_frames += received as u64;
        match self.end {
            End::Slave { .. } => self.refill(REFILL_BATCH.min(self.receive.size() / 2).max(1)),
            // Release: nothing is read from the slots any more.
            End::Master { .. } => self.receive.tail().store(self.taken, Ordering::Release),
        }
        Ok(received)
    }

    #[inline]
    fn take(
        &mut self,
        pieces: &[Descriptor],
        frames: &mut Vec<Frame>,
        room: usize,
    ) -> Result<Option<usize>, Violation> {
        match self.end {
            End::Slave { .. } => self.take_back(pieces, frames, room),
            End::Master { .. } => self.copy_in(pieces, frames, room),
        }
    }

    /// Slave: frames it had posted come back with a packet in them. `None`: no room.
    #[inline]
    fn take_back(
        &mut self,
        pieces: &[Descriptor],
        frames: &mut Vec<Frame>,
        room: usize,
    ) -> Result<Option<usize>, Violation> {
        let End::Slave { lent, .. } = &self.end else { return Ok(None) };
        if pieces.len() > room {
            return Ok(None);
        }
        let capacity = self.memory.region.frame_size() - RECEIVE_HEADROOM as u32;
        if pieces.iter().any(|piece| piece.length > capacity) {
            return Err(Violation::Extent);
        }
        for (offset, piece) in pieces.iter().enumerate() {
            let position = self.taken.wrapping_add(offset as u16);
            let index = lent.get(self.receive.slot(position)).copied().unwrap_or(0);
            // Where the frame is we know ourselves: of what the master wrote only the length counts.
            // SAFETY: lent at this position by `refill` and redeemed once, since the caller moves `taken` past it; headroom
            // and length were checked to fit the frame.
            let frame =
                unsafe { self.memory.receive.redeem(index, RECEIVE_HEADROOM as u32, piece.length, piece.continues) };
            frames.push(frame);
            self.statistics.receive_bytes += u64::from(piece.length);
        }
        Ok(Some(pieces.len()))
    }

    /// Master: copies a packet out of the peer's region. `None`: no room, or no frames.
    #[inline]
    fn copy_in(
        &mut self,
        pieces: &[Descriptor],
        frames: &mut Vec<Frame>,
        room: usize,
    ) -> Result<Option<usize>, Violation> {
        let End::Master { regions } = &self.end else { return Ok(None) };
        let capacity = self.memory.region.frame_size() - RECEIVE_HEADROOM as u32;
        let needed: u64 = pieces.iter().map(|piece| u64::from(piece.length.div_ceil(capacity).max(1))).sum();
        if needed > PIECES_MAX as u64 {
            return Err(Violation::Chain);
        }
        let needed = needed as usize;
        if needed > room {
            return Ok(None);
        }
        if needed > self.memory.receive.free_count() as usize {
            // It waits in the ring, and the sender finds that full: nothing is lost here.
            return Ok(None);
        }
        let mut made = 0;
        for piece in pieces {
            let bytes = resolve(regions, *piece)?;
            let mut done = 0;
            while done < piece.length || (piece.length == 0 && done == 0) {
                let Some(mut frame) = self.memory.receive.allocate(RECEIVE_HEADROOM) else { break };
                let count = (piece.length - done).min(capacity);
                if let Some(target) = frame.append(count as usize) {
                    // SAFETY: `bytes` names piece.length bytes of a live mapping, checked just now; `target` is private
                    // memory of `count` bytes. The peer may write the source meanwhile: then the packet is what it made
                    // of it, in private memory where it is checked and can't change any more.
                    unsafe { copy(bytes.add(done as usize).as_ptr(), target.as_mut_ptr(), count as usize) };
                }
                done += count.max(1);
                made += 1;
                frame.set_continues(made < needed);
                frames.push(frame);
            }
            self.statistics.receive_bytes += u64::from(piece.length);
        }
        Ok(Some(made))
    }

    /// Slave: drops what the master has handed back. Master: sees what the slave has posted.
    fn reclaim(&mut self) -> Result<(), Violation> {
        match &mut self.end {
            End::Slave { in_flight, .. } => {
                let tail = self.transmit.tail().load(Ordering::Acquire);
                let done = tail.wrapping_sub(self.returned);
                if done > self.published.wrapping_sub(self.returned) {
                    return Err(Violation::Index);
                }
                while self.returned != tail {
                    if let Some(slot) = in_flight.get_mut(self.transmit.slot(self.returned)) {
                        drop(slot.take());
                    }
                    self.returned = self.returned.wrapping_add(1);
                }
            }
            End::Master { .. } => {
                let head = self.transmit.head().load(Ordering::Acquire);
                // Neither back behind what is filled, nor a ring ahead of it.
                if head.wrapping_sub(self.filled) > self.transmit.size() {
                    return Err(Violation::Index);
                }
                self.returned = head;
            }
        }
        Ok(())
    }

    /// Slots free to fill, looking at the peer's position only when short.
    #[inline]
    fn slots_free(&mut self) -> Result<u16, Violation> {
        let free = |queue: &Memif| match queue.end {
            End::Slave { .. } => queue.transmit.size() - queue.filled.wrapping_sub(queue.returned),
            End::Master { .. } => queue.returned.wrapping_sub(queue.filled),
        };
        let now = free(self);
        if now > self.transmit.size() / 2 {
            return Ok(now);
        }
        self.reclaim()?;
        Ok(free(self))
    }

    /// Slave: hands the frame itself over.
    fn hand_over(&mut self, buffer: TransmitBuffer) -> Result<Option<TransmitBuffer>, Violation> {
        if self.slots_free()? == 0 {
            self.statistics.transmit_ring_full += 1;
            return Ok(Some(buffer));
        }
        let buffer = if std::ptr::eq(buffer.frame().region(), Rc::as_ptr(&self.memory.region)) {
            buffer
        } else {
            // Another device's frame: its memory isn't shared with the peer.
            let bytes = buffer.frame().bytes();
            let copied = self.memory.transmit.allocate(COPY_HEADROOM).and_then(|mut frame| {
                frame.append(bytes.len())?.copy_from_slice(bytes);
                Some(frame)
            });
            let Some(frame) = copied else {
                self.statistics.transmit_ring_full += 1;
                return Ok(Some(buffer));
            };
            self.statistics.transmit_copied += 1;
            TransmitBuffer::Owned(frame)
        };
        let End::Slave { region, in_flight, .. } = &mut self.end else { return Ok(Some(buffer)) };
        let frame = buffer.frame();
        let descriptor = Descriptor {
            continues: false,
            region: *region,
            length: frame.len() as u32,
            offset: frame.offset_in_region() as u32,
        };
        self.statistics.transmit_bytes += frame.len() as u64;
        self.transmit.write(self.filled, descriptor);
        if let Some(slot) = in_flight.get_mut(self.transmit.slot(self.filled)) {
            *slot = Some(buffer);
        }
        self.filled = self.filled.wrapping_add(1);
        Ok(None)
    }

    /// Master: copies the frame into buffers the slave has posted.
    fn copy_out(&mut self, buffer: TransmitBuffer) -> Result<Option<TransmitBuffer>, Violation> {
        let free = self.slots_free()?;
        let End::Master { regions } = &self.end else { return Ok(Some(buffer)) };
        let bytes = buffer.frame().bytes();
        if free == 0 {
            self.statistics.transmit_ring_full += 1;
            return Ok(Some(buffer));
        }
        let first = self.transmit.read(self.filled);
        if bytes.len() > first.length as usize {
            return self.copy_out_in_pieces(buffer, free);
        }
        // Nearly always: one buffer is enough.
        let place = resolve(regions, first)?;
        // SAFETY: `place` names first.length bytes of a live mapping of the peer's, checked just now, at least bytes.len();
        // nobody in this process has references into that mapping.
        unsafe { copy(bytes.as_ptr(), place.as_ptr(), bytes.len()) };
        self.transmit.write(self.filled, Descriptor { continues: false, length: bytes.len() as u32, ..first });
        self.statistics.transmit_bytes += bytes.len() as u64;
        self.filled = self.filled.wrapping_add(1);
        Ok(None)
    }

    /// Master: the same into several buffers of a slave whose buffers are small.
    #[cold]
    fn copy_out_in_pieces(&mut self, buffer: TransmitBuffer, free: u16) -> Result<Option<TransmitBuffer>, Violation> {
        let End::Master { regions } = &self.end else { return Ok(Some(buffer)) };
        let bytes = buffer.frame().bytes();
        let mut targets = [(NonNull::<u8>::dangling(), Descriptor::default()); PIECES_MAX];
        let (mut count, mut room) = (0usize, 0usize);
        // All buffers first: nothing is written unless the packet fits.
        while room < bytes.len() {
            if count == usize::from(free) {
                self.statistics.transmit_ring_full += 1;
                return Ok(Some(buffer));
            }
            let descriptor = self.transmit.read(self.filled.wrapping_add(count as u16));
            let place = resolve(regions, descriptor)?;
            *targets.get_mut(count).ok_or(Violation::Chain)? = (place, descriptor);
            room += descriptor.length as usize;
            count += 1;
        }
        let mut rest = bytes;
        for (index, (place, descriptor)) in targets.iter().take(count).enumerate() {
            let (piece, more) = rest.split_at(rest.len().min(descriptor.length as usize));
            // SAFETY: `place` names descriptor.length bytes of a live mapping of the peer's, checked just now, at least
            // piece.len() of them; nobody in this process has references into that mapping.
            unsafe { std::ptr::copy_nonoverlapping(piece.as_ptr(), place.as_ptr(), piece.len()) };
            let written = Descriptor { continues: !more.is_empty(), length: piece.len() as u32, ..*descriptor };
            self.transmit.write(self.filled.wrapping_add(index as u16), written);
            rest = more;
        }
        self.statistics.transmit_bytes += bytes.len() as u64;
        self.filled = self.filled.wrapping_add(count as u16);
        Ok(None)
    }

    /// Masks interrupts again after a sleep, or what might have become one.
    #[cold]
    fn disarm(&mut self) {
        self.armed.set(false);
        self.receive.set_masked(true);
        silence(&self.receive_bell);
    }
}

impl Vnic for Memif {
    fn capabilities(&self) -> Capabilities {
        self.capabilities
    }

    fn receive(&mut self, frames: &mut Vec<Frame>, frames_max: usize) -> usize {
        if self.armed.get() {
            self.disarm();
        }
        if !self.link.is_up() {
            self.wind_up();
            return 0;
        }
        let before = frames.len();
        match self.receive_packets(frames, frames_max) {
            Ok(count) => count,
            Err(violation) => {
                // Whole packets only: what came before the lie is thrown away with it.
                frames.truncate(before);
                self.violated(violation);
                0
            }
        }
    }

    fn transmit_room(&mut self) -> usize {
        if !self.link.is_up() {
            // Everything is taken, and lost.
            return usize::from(self.transmit.size());
        }
        let free = match self.slots_free() {
            Ok(free) => usize::from(free),
            Err(violation) => {
                self.violated(violation);
                return usize::from(self.transmit.size());
            }
        };
        match self.end {
            End::Slave { .. } => free,
            End::Master { .. } if free == 0 => 0,
            End::Master { .. } => {
                // Buffers are of one size, unless the slave lies: then `transmit` refuses.
                let buffer = self.transmit.read(self.filled).length as usize;
                if buffer == 0 { 0 } else { free / self.frame_bytes_max.div_ceil(buffer) }
            }
        }
    }

    fn transmit(&mut self, buffer: TransmitBuffer, options: TransmitOptions) -> Result<(), TransmitBuffer> {
        if !self.link.is_up() {
            self.statistics.transmit_lost += 1;
            return Ok(());
        }
        let length = buffer.frame().len();
        let refused = length == 0 || length > self.frame_bytes_max || options.continues || self.discarding;
        if refused {
            // A packet of several frames, which capabilities rule out, is dropped as a whole.
            self.discarding = options.continues;
            self.statistics.transmit_invalid += 1;
            return Ok(());
        }
        let outcome = match self.end {
            End::Slave { .. } => self.hand_over(buffer),
            End::Master { .. } => self.copy_out(buffer),
        };
        match outcome {
            Ok(None) => {
                self.statistics.transmit_frames += 1;
                Ok(())
            }
            Ok(Some(buffer)) => Err(buffer),
            Err(violation) => {
                self.statistics.transmit_lost += 1;
                self.violated(violation);
                Ok(())
            }
        }
    }

    fn flush(&mut self) {
        if !self.link.is_up() {
            return self.wind_up();
        }
        if self.filled != self.published {
            let position = match self.end {
                End::Slave { .. } => self.transmit.head(),
                End::Master { .. } => self.transmit.tail(),
            };
            // Release: descriptors and bytes before the position that shows them.
            position.store(self.filled, Ordering::Release);
            self.published = self.filled;
            // The consumer unmasks, then looks at the position; we do the reverse: one of the two sees the other.
            fence(Ordering::SeqCst);
            if !self.transmit.is_masked() {
                self.statistics.transmit_doorbells += 1;
                ring(&self.transmit_bell);
            }
        }
        if let Err(violation) = self.reclaim() {
            self.violated(violation);
        }
    }

    fn memory(&self) -> &FrameMemory {
        &self.memory
    }

    /// Unmasks interrupts until the next [`receive`](Vnic::receive): to be called anew before each sleep.
    fn doorbell(&self) -> Option<BorrowedFd<'_>> {
        if !self.interrupts {
            return None;
        }
        if !self.armed.replace(true) && self.link.is_up() {
            self.receive.set_masked(false);
            fence(Ordering::SeqCst);
            for _ in 0..UNMASK_PAUSES {
                std::hint::spin_loop();
            }
            // What came before the mask was lifted rings no bell: ring it ourselves. (A lie is found by `receive`.)
            if self.waiting() != Ok(0) {
                ring(&self.receive_bell);
            }
        }
        Some(self.receive_bell.as_fd())
    }

    fn statistics(&self) -> VnicStatistics {
        self.statistics
    }
}

impl Drop for Memif {
    fn drop(&mut self) {
        // Frames lent to the peer go back to their pool; the link says goodbye when the last queue is gone.
        self.wind_up();
    }
}
