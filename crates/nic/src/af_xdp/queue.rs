//! [`AfXdp`]: one queue of an interface as a [`Vnic`].
//!
//! ```text
//!   receive pool ─index→ fill ring ─kernel→ receive ring ─Frame→ the stack ─drop→ receive pool
//!   TransmitBuffer → in_flight[frame index], transmit ring ─flush, kernel→ completion ring → in_flight dropped
//!                                                       └─flush of many, Injector→ in_flight dropped at once
//! ```
//!
//! A frame is in exactly one of: its pool, a `Frame`, the kernel (fill ring … receive ring), `in_flight`.

use super::batch::{BATCH_FRAMES_MAX, FRAME_BYTES_MIN};
use super::config::{LINK_HEADER_MAX, RingSizes};
use super::copies::Copies;
use super::inject::{self, Injector};
use super::interface::QueueOpener;
use super::pace::Pace;
use super::ring::Producer;
use super::socket::Socket;
use crate::checksum::ChecksumOffload;
use crate::error::DeviceError;
use crate::memory::{Frame, Pool};
use crate::migration::Migrate;
use crate::plan::FrameMemory;
use crate::statistics::VnicStatistics;
use crate::vnic::{Capabilities, ReceiveChecksum, TransmitBuffer, TransmitOptions, Vnic};
use libc::xdp_desc;
use qanat_wire::ethernet::MacAddress;
use std::net::IpAddr;
use std::os::fd::{AsFd, BorrowedFd};
use std::rc::Rc;

/// Frames one packet may consist of: the kernel's `MAX_SKB_FRAGS` + 1.
const TRANSMIT_BUFFERS_MAX: u8 = 18;
/// Refill the fill ring when this many entries are free: one shared position update for many frames.
const REFILL_BATCH_MAX: u32 = 64;
/// Kicks of one flush that move nothing before it gives up until the next.
const FRUITLESS_KICKS_MAX: u32 = 4;
/// Headroom of a frame copied by `transmit`: room for metadata, on a cache line.
const COPY_HEADROOM: usize = 64;

/// An open queue. Not `Send`: its frames belong to this thread.
pub struct AfXdp {
    /// Before the memory it uses.
    pub(super) socket: Socket,
    pub(super) in_flight: Vec<Option<TransmitBuffer>>,
    pub(super) in_flight_count: u32,
    pub(super) memory: FrameMemory,
    frame_shift: u32,
    /// Frames in the fill ring, or in the kernel's hands, or in the receive ring.
    pub(super) lent_count: u32,
    /// Everything before this is whole packets, for the next flush to publish.
    pub(super) packet_end: u32,
    /// Descriptors published so far.
    pub(super) published: u32,
    /// Bytes of the frames queued since the last flush.
    queued_bytes: usize,
    /// How much one flush sends, and what the last one had no time for.
    pace: Pace,
    unsent: u32,
    pub(super) injector: Option<Injector>,
    /// Bytes and frames queued of the packet not yet whole.
    packet_length: usize,
    packet_buffers: u32,
    /// The rest of a refused packet is being thrown away.
    discarding: bool,
    refill_batch: u32,
    /// Reclaim when fewer transmit entries are free.
    reserve: u32,
    capabilities: Capabilities,
    pub(super) statistics: VnicStatistics,
    /// Another process has had it before, and may still have its rings mapped.
    pub(super) is_moved: bool,
    queue: u32,
    copies: Option<Copies>,
    /// Keeps the XDP program; a queue handed over by the control plane has it kept there.
    opener: Option<QueueOpener>,
}

/// What a queue must know of its interface.
pub(super) struct Card {
    pub(super) mac: MacAddress,
    pub(super) mtu: u32,
    /// Another program of this machine is at its other end: a veth device, or the kernel's end of a TAP device.
    pub(super) is_local: bool,
    pub(super) scatter: bool,
}

impl AfXdp {
    pub(super) fn use_injector(&mut self, injector: Option<Injector>) {
        // Injected frames have no metadata: their checksums must be whole.
        self.capabilities.transmit_checksum &= injector.is_none();
        self.injector = injector;
    }

    /// An open socket, its memory, and what was put into its fill ring already, as a queue.
    #[allow(clippy::too_many_arguments, reason = "the parts of a queue, each once")]
    pub(super) fn assemble(
        socket: Socket,
        memory: FrameMemory,
        shift: u32,
        lent_count: u32,
        rings: RingSizes,
        card: Card,
        queue: u32,
        opener: Option<QueueOpener>,
    ) -> AfXdp {
        let capabilities = Capabilities {
            mac: card.mac,
            mtu: card.mtu.min(65_535) as u16,
            // A zero-copy driver may lack it, and there is no telling which does.
            transmit_checksum: socket.metadata_bytes > 0 && !socket.zero_copy,
            receive_checksum: if card.is_local { ReceiveChecksum::AcceptPartial } else { ReceiveChecksum::Verify },
            transmit_buffers_max: if card.scatter { TRANSMIT_BUFFERS_MAX } else { 1 },
            transmit_headroom: socket.metadata_bytes as u16,
        };
        let published = socket.transmit.position();
        AfXdp {
            in_flight: (0..memory.region.frame_count()).map(|_| None).collect(),
            in_flight_count: 0,
            frame_shift: shift,
            lent_count,
            packet_end: published,
            published,
            queued_bytes: 0,
            pace: Pace::new(),
            unsent: 0,
            injector: None,
            packet_length: 0,
            packet_buffers: 0,
            discarding: false,
            refill_batch: (rings.fill / 8).clamp(1, REFILL_BATCH_MAX),
            reserve: rings.transmit / 4,
            capabilities,
            statistics: VnicStatistics::default(),
            is_moved: false,
            socket,
            memory,
            queue,
            copies: opener.as_ref().and_then(QueueOpener::take_copies).map(Copies::new),
            opener,
        }
    }

    /// Whether the driver moves frames without copying.
    pub fn is_zero_copy(&self) -> bool {
        self.socket.zero_copy
    }

    /// Whether large batches are sent without socket buffers.
    pub fn injects(&self) -> bool {
        self.injector.is_some()
    }

    /// The queue's number.
    pub fn queue(&self) -> u32 {
        self.queue
    }

    /// The pool received frames come from. Those lent to the kernel count as in use: see
    /// [`lent_count`](AfXdp::lent_count).
    pub fn receive_pool(&self) -> &Pool {
        &self.memory.receive
    }

    /// Receive frames the kernel has.
    pub fn lent_count(&self) -> u32 {
        self.lent_count
    }

    /// Frames on their way out.
    pub fn in_flight_count(&self) -> u32 {
        self.in_flight_count
    }

    /// Lends free receive frames to the kernel.
    #[inline]
    fn refill(&mut self) {
        let fill = &mut self.socket.fill;
        let room = fill.free(self.refill_batch);
        if room >= self.refill_batch {
            let mut pushed = 0;
            // Bounded by the ring's size.
            while pushed < room
                && let Some(frame) = self.memory.receive.allocate(0)
            {
                fill.push(u64::from(frame.into_index()) << self.frame_shift);
                pushed += 1;
            }
            if pushed > 0 {
                fill.publish(fill.position());
                self.lent_count += pushed;
            }
        }
        if fill.needs_wakeup() {
            self.socket.kick_receive();
        }
    }

    /// Whether a descriptor can be of a frame that the device was lent.
    #[cold]
    fn is_receivable(&self, index: u32, start: u32, length: u32) -> bool {
        index < self.memory.receive.frame_count() && length <= (1 << self.frame_shift) - start
    }

    /// Descriptors of whole packets that may be taken: at most `frames_max` of `available`.
    fn whole_packets(&self, available: u32, frames_max: u32) -> u32 {
        let mut end = available.min(frames_max);
        // The last one taken must end its packet. Without scatter-gather this looks at one descriptor.
        while end > 0 && self.socket.receive.peek(end - 1).options & libc::XDP_PKT_CONTD != 0 {
            end -= 1;
        }
        end
    }

    /// Drops the buffers of frames the kernel is done with.
    #[inline]
    fn reclaim(&mut self) {
        let count = self.socket.completion.available_now();
        for ahead in 0..count {
            let index = self.socket.completion.peek(ahead) >> self.frame_shift;
            if let Some(slot) = self.in_flight.get_mut(index as usize)
                && slot.take().is_some()
            {
                self.in_flight_count -= 1;
            }
        }
        if count > 0 {
            self.socket.completion.release(count);
        }
    }

    /// Sends everything queued through the injector, if that is quicker and overtakes nothing; else, and what it doesn't send, is left
    /// to the ring.
    #[inline]
    fn inject(&mut self) {
        let Some(injector) = &mut self.injector else { return };
        let (ring, queued) = (&mut self.socket.transmit, self.packet_end.wrapping_sub(self.published) as usize);
        let accepted = self.statistics.transmit_frames;
        if !inject::is_worthwhile(queued, self.queued_bytes)
            || ring.pending(self.published) > 0
            || !injector.is_ready(|| accepted.saturating_sub(queued as u64))
        {
            return;
        }
        let base = self.memory.region.base().as_ptr().cast_const();
        let timed = self.pace.start(queued as u32);
        let mut sent = 0;
        // Ends: a call that sends less than it was given is the last.
        while sent < queued {
            let end = queued.min(sent + BATCH_FRAMES_MAX);
            let frames = (sent..end).map(|ahead| {
                let descriptor = ring.unpublished(self.published.wrapping_add(ahead as u32));
                (base.wrapping_add(descriptor.addr as usize), descriptor.len)
            });
            self.statistics.transmit_doorbells += 1;
            // SAFETY: descriptors that `transmit` wrote, of frames of the region that are this queue's now.
            sent += unsafe { injector.send(frames) };
            if sent < end {
                break;
            }
        }
        self.statistics.transmit_injected += sent as u64;
        self.pace.end(timed, sent as u32);
        for ahead in 0..sent {
            let address = ring.unpublished(self.published.wrapping_add(ahead as u32)).addr;
            let slot = self.in_flight.get_mut((address >> self.frame_shift) as usize);
            if slot.and_then(Option::take).is_some() {
                self.in_flight_count -= 1;
            }
        }
        ring.close_gap(self.published, sent as u32);
        self.packet_end = ring.position();
    }

    /// Shows the kernel all whole packets.
    #[inline]
    fn publish(&mut self) {
        self.queued_bytes = 0;
        if self.packet_end != self.published {
            self.socket.transmit.publish(self.packet_end);
            self.published = self.packet_end;
        }
    }

    /// Has the kernel send what it was shown; `is_bounded`: for as long as one flush may take, and the next one goes on.
    #[inline]
    fn kick(&mut self, is_bounded: bool) {
        let mut pending = self.socket.transmit.pending(self.published);
        let (before, start) = (pending, self.pace.start(pending));
        let mut fruitless = 0;
        self.unsent = 0;
        // Ends: every turn sends something, or is counted as fruitless.
        while pending > 0 && self.socket.transmit.needs_wakeup() && fruitless < FRUITLESS_KICKS_MAX {
            // A full completion ring would stop the kernel.
            self.reclaim();
            self.statistics.transmit_doorbells += 1;
            match self.socket.kick_transmit() {
                // The frame it stopped at is gone (a full veth peer); the rest is still there.
                libc::EBUSY => self.statistics.transmit_lost += 1,
                libc::ENETDOWN | libc::ENXIO | libc::EBADF => break,
                // 0, or EAGAIN, ENOBUFS: budget, completion ring or send buffer spent, descriptors kept.
                _ => {}
            }
            let left = self.socket.transmit.pending(self.published);
            fruitless = if left < pending { 0 } else { fruitless + 1 };
            pending = left;
            if is_bounded && pending > 0 && Pace::is_over(start) {
                self.unsent = pending;
                break;
            }
        }
        self.pace.end(start, before.saturating_sub(pending));
    }

    /// Sends everything that is queued, however long it takes.
    pub(super) fn finish(&mut self) {
        self.publish();
        self.kick(false);
        self.reclaim();
    }

    /// Whether the kernel can send this frame from where it is.
    #[inline]
    fn is_sendable(&self, frame: &Frame) -> bool {
        std::ptr::eq(frame.region(), Rc::as_ptr(&self.memory.region))
            && frame.headroom() >= self.socket.metadata_bytes as usize
            && self.in_flight.get(frame.index() as usize).is_some_and(Option::is_none)
    }

    /// A copy the kernel can send; `None` if no frame is free. Counted: prepared content should not need it.
    fn copy(&mut self, frame: &Frame) -> Option<Frame> {
        let mut copy = self.memory.transmit.allocate(COPY_HEADROOM.min(frame.capacity() - frame.len()))?;
        copy.append(frame.len())?.copy_from_slice(frame.bytes());
        self.statistics.transmit_copied += 1;
        Some(copy)
    }

    /// Refuses a packet for good: takes back what was queued of it, and ignores the rest of it.
    fn discard(&mut self, options: TransmitOptions) -> Result<(), TransmitBuffer> {
        self.statistics.transmit_invalid += 1;
        self.discarding = options.continues;
        self.packet_length = 0;
        self.packet_buffers = 0;
        while self.socket.transmit.position() != self.packet_end {
            let descriptor = self.socket.transmit.take_back();
            let slot = self.in_flight.get_mut((descriptor.addr >> self.frame_shift) as usize);
            if slot.and_then(Option::take).is_some() {
                self.in_flight_count -= 1;
            }
        }
        Ok(())
    }

    /// Whether a frame may follow what was queued of its packet. What the kernel would refuse must not reach the ring: it
    /// would neither complete it nor go on to the next.
    fn is_valid(&self, length: usize, options: TransmitOptions) -> bool {
        let total = self.packet_length + length;
        let buffers = self.packet_buffers + 1 + u32::from(options.continues);
        let checksum = match options.checksum {
            Some(offload) => offload.start as usize + offload.offset as usize + 2 <= length && self.packet_buffers == 0,
            None => true,
        };
        // A packet has an Ethernet header at least.
        total >= FRAME_BYTES_MIN
            && length > 0
            && length + self.socket.metadata_bytes as usize <= 1 << self.frame_shift
            && total <= self.capabilities.mtu as usize + LINK_HEADER_MAX as usize
            && buffers <= u32::from(self.capabilities.transmit_buffers_max)
            && checksum
    }

    /// Writes `struct xsk_tx_metadata` before the frame's data.
    #[inline]
    fn write_metadata(&self, frame: &Frame, offload: ChecksumOffload) {
        let words: [u64; 3] =
            [u64::from(libc::XDP_TXMD_FLAGS_CHECKSUM), u64::from(offload.start) | u64::from(offload.offset) << 16, 0];
        let base = self.memory.region.base().as_ptr();
        // SAFETY: `is_sendable` has shown that the frame is of this region and has this headroom before its data. No
        // reference covers headroom (`Frame` lends out its data only), and no device has the frame.
        unsafe {
            let target = base.add(frame.offset_in_region() - self.socket.metadata_bytes as usize);
            target.cast::<[u64; 3]>().write_unaligned(words);
        }
    }
}

/// Fills the fill ring with free frames of the receive pool; returns how many.
pub(super) fn stock(fill: &mut Producer<u64>, receive: &Pool, shift: u32) -> u32 {
    let mut lent_count = 0;
    while fill.free(1) > 0
        && let Some(frame) = receive.allocate(0)
    {
        fill.push(u64::from(frame.into_index()) << shift);
        lent_count += 1;
    }
    fill.publish(fill.position());
    lent_count
}

pub(super) fn memory_error(error: std::io::Error) -> DeviceError {
    match error.kind() {
        std::io::ErrorKind::InvalidInput => DeviceError::Invalid { reason: error.to_string() },
        _ => DeviceError::system("map frame memory", error),
    }
}

impl Vnic for AfXdp {
    fn capabilities(&self) -> Capabilities {
        self.capabilities
    }

    fn receive(&mut self, frames: &mut Vec<Frame>, frames_max: usize) -> usize {
        let available = self.socket.receive.available();
        let count = self.whole_packets(available, frames_max.min(u32::MAX as usize) as u32);
        let mask = (1u64 << self.frame_shift) - 1;
        for ahead in 0..count {
            let descriptor = self.socket.receive.peek(ahead);
            let index = (descriptor.addr >> self.frame_shift) as u32;
            let start = (descriptor.addr & mask) as u32;
            let continues = descriptor.options & libc::XDP_PKT_CONTD != 0;
            if self.is_moved && !self.is_receivable(index, start, descriptor.len) {
                self.statistics.receive_invalid += 1;
                continue;
            }
            // SAFETY: the kernel gives back frames it was lent through the fill ring, each once; those came from
            // `into_index` of frames of the receive pool. Its lengths stay within the frame. Where another process than the
            // kernel might write descriptors, this one has been looked at.
            let frame = unsafe { self.memory.receive.redeem(index, start, descriptor.len, continues) };
            self.statistics.receive_bytes += u64::from(descriptor.len);
            // Another core wrote it: ask for the headers of all before anyone waits for those of the first.
            frame.prefetch();
            frames.push(frame);
        }
        if count > 0 {
            self.socket.receive.release(count);
            self.statistics.receive_frames += u64::from(count);
            self.lent_count -= count;
        }
        let mut count = count as usize;
        if let Some(copies) = &mut self.copies {
            let room = frames_max.saturating_sub(count);
            let (copied, bytes) = copies.receive(&self.memory.receive, frames, room, count == 0);
            self.statistics.receive_frames += copied;
            self.statistics.receive_bytes += bytes;
            count += copied as usize;
        }
        self.refill();
        count
    }

    fn transmit_room(&mut self) -> usize {
        if self.socket.transmit.free(self.reserve) < self.reserve {
            self.reclaim();
        }
        self.socket.transmit.free(1) as usize
    }

    fn batch_room(&mut self) -> usize {
        let queued = self.socket.transmit.position().wrapping_sub(self.published);
        // What the last flush had no time for is sent first.
        self.transmit_room().min(self.pace.room(queued.saturating_add(self.unsent)) as usize)
    }

    fn transmit(&mut self, buffer: TransmitBuffer, options: TransmitOptions) -> Result<(), TransmitBuffer> {
        if self.discarding {
            self.discarding = options.continues;
            return Ok(());
        }
        let length = buffer.frame().len();
        if !self.is_valid(length, options) {
            return self.discard(options);
        }
        if self.socket.transmit.free(1) == 0 {
            self.statistics.transmit_ring_full += 1;
            return Err(buffer);
        }
        let buffer = match self.is_sendable(buffer.frame()) {
            true => buffer,
            false => match self.copy(buffer.frame()) {
                Some(copy) => TransmitBuffer::Owned(copy),
                None => {
                    self.statistics.transmit_ring_full += 1;
                    return Err(buffer);
                }
            },
        };
        let frame = buffer.frame();
        let mut flags = if options.continues { libc::XDP_PKT_CONTD } else { 0 };
        if let Some(offload) = options.checksum.filter(|_| self.capabilities.transmit_checksum) {
            self.write_metadata(frame, offload);
            flags |= libc::XDP_TX_METADATA;
        }
        let (index, address) = (frame.index() as usize, frame.offset_in_region() as u64);
        self.socket.transmit.push(xdp_desc { addr: address, len: length as u32, options: flags });
        self.in_flight[index] = Some(buffer);
        self.in_flight_count += 1;
        if options.continues {
            self.packet_length += length;
            self.packet_buffers += 1;
        } else {
            self.packet_end = self.socket.transmit.position();
            self.packet_length = 0;
            self.packet_buffers = 0;
        }
        self.statistics.transmit_frames += 1;
        self.statistics.transmit_bytes += length as u64;
        self.queued_bytes += length;
        Ok(())
    }

    fn flush(&mut self) {
        self.inject();
        self.publish();
        self.kick(true);
        self.reclaim();
    }

    fn memory(&self) -> &FrameMemory {
        &self.memory
    }

    fn doorbell(&self) -> Option<BorrowedFd<'_>> {
        Some(self.socket.as_fd())
    }

    fn claim_address(&mut self, address: IpAddr) -> bool {
        self.opener.as_ref().is_some_and(|opener| opener.claim(address).is_ok())
    }

    fn release_address(&mut self, address: IpAddr) {
        if let Some(opener) = &self.opener {
            // What is left in the map takes frames that the stack then drops, counted.
            let _ = opener.release(address);
        }
    }

    fn is_gone(&self) -> bool {
        self.socket.is_unbound()
    }

    fn migration(&self) -> Option<&dyn Migrate> {
        Some(self)
    }

    fn statistics(&self) -> VnicStatistics {
        let kernel = self.socket.kernel_statistics();
        let waiting = self.socket.transmit.pending(self.socket.transmit.position());
        let sent = self.statistics.transmit_frames.saturating_sub(waiting.into());
        let lost = self.injector.as_ref().and_then(|injector| injector.lost_count(sent));
        let transmit_lost = lost.unwrap_or(self.statistics.transmit_lost);
        VnicStatistics {
            transmit_lost,
            // Copy mode counts each such drop under both names (`xsk_rcv`, `xp_alloc`); a zero-copy driver asks for
            // buffers ahead, so that an empty fill ring need not have cost a frame, and counts drops by itself.
            receive_no_buffer: kernel.rx_dropped + self.copies.as_ref().map_or(0, |copies| copies.lost),
            receive_ring_full: kernel.rx_ring_full,
            transmit_invalid: self.statistics.transmit_invalid.saturating_add(kernel.tx_invalid_descs),
            ..self.statistics
        }
    }
}
