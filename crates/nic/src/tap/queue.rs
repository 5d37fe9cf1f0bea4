//! [`Tap`]: the queue of a TAP device as a [`Vnic`].

use super::call;
use super::header::{self, Header, Segmentation};
use crate::error::DeviceError;
use crate::link::Bystander;
use crate::memory::{Frame, Pool};
use crate::plan::FrameMemory;
use crate::statistics::VnicStatistics;
use crate::train::{TRAIN_PIECES_MAX, Train, TransmitTrains};
use crate::vnic::{Capabilities, PACKET_FRAMES_MAX, ReceiveChecksum, TransmitBuffer, TransmitOptions, Vnic};
use qanat_wire::ethernet::MacAddress;
use std::cell::Cell;
use std::io::{self, IoSlice, IoSliceMut};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Largest packet the kernel hands over: an IP packet behind an Ethernet header with a VLAN tag.
const PACKET_MAX: usize = 65_535 + 18;
/// Free bytes before a received packet: room for headers that are written before its data.
const RECEIVE_HEADROOM: usize = 256;
/// Frames queued at most.
const QUEUED_MAX: usize = 1_024;
/// Frames well queued before a flush. The receiver works within `write`, and its acknowledgements must be read meanwhile.
const BATCH_FRAMES: usize = 256;
/// Frames of one packet to be sent, at most: as many as a packet of 9,000 bytes needs, with room to spare.
const PACKET_PIECES_MAX: usize = 18;
/// How long what was seen of the kernel's end holds.
const LOOK_INTERVAL: Duration = Duration::from_millis(100);
/// Smallest frame: an Ethernet header.
const FRAME_BYTES_MIN: usize = 14;

/// An open queue. Not `Send`: its frames belong to this thread.
pub struct Tap {
    fd: OwnedFd,
    memory: FrameMemory,
    capabilities: Capabilities,
    /// Looks at the kernel's end. `None`: it is out of sight, and has no XDP program.
    kernel_end: Option<Arc<Bystander>>,
    next_look: Instant,
    /// Packets larger than the MTU are taken there.
    takes_trains: bool,
    /// Frames of the receive pool that the next packet is read into, the first one last.
    landing: Vec<Frame>,
    landing_count: usize,
    queued: Vec<(TransmitBuffer, TransmitOptions)>,
    /// Segments that have left in trains since the last flush.
    batch_count: usize,
    /// The last frame queued goes on in another.
    is_in_packet: bool,
    statistics: VnicStatistics,
    is_gone: Cell<bool>,
}

impl Tap {
    /// Over an attached descriptor, which does not block.
    pub(super) fn over(
        fd: OwnedFd,
        mac: MacAddress,
        mtu: u32,
        memory: FrameMemory,
        kernel_end: Option<Arc<Bystander>>,
    ) -> Tap {
        let frame_size = memory.region.frame_size() as usize;
        let capabilities = Capabilities {
            mac,
            mtu: mtu.min(65_535) as u16,
            transmit_checksum: true,
            receive_checksum: ReceiveChecksum::AcceptPartial,
            transmit_buffers_max: PACKET_PIECES_MAX as u8,
            transmit_headroom: 0,
        };
        Tap {
            fd,
            memory,
            capabilities,
            kernel_end,
            next_look: Instant::now(),
            takes_trains: false,
            landing: Vec::with_capacity(PACKET_FRAMES_MAX),
            landing_count: (PACKET_MAX + RECEIVE_HEADROOM).div_ceil(frame_size),
            queued: Vec::with_capacity(QUEUED_MAX),
            batch_count: 0,
            is_in_packet: false,
            statistics: VnicStatistics::default(),
            is_gone: Cell::new(false),
        }
    }

    /// A queue over this one's descriptor and memory, to go on with after this one's owner was killed in the middle of it. This one
    /// must neither be used nor dropped any more. Frames somebody held are nobody's from now on; what was queued is lost.
    ///
    /// # Errors
    /// What copying the descriptor says.
    pub fn take_over(&self) -> Result<Tap, DeviceError> {
        let fd = self.fd.try_clone().map_err(|error| DeviceError::system("take a TAP device over", error))?;
        let Capabilities { mac, mtu, .. } = self.capabilities;
        Ok(Tap::over(fd, mac, u32::from(mtu), self.memory.anew(), self.kernel_end.clone()))
    }

    /// The pool received frames come from, those that the next packet is read into included.
    pub fn receive_pool(&self) -> &Pool {
        &self.memory.receive
    }

    /// Frames of it that the next packet is read into.
    pub fn landing_count(&self) -> usize {
        self.landing.len()
    }

    /// Has enough frames ready for the largest packet; whether there are so many.
    fn prepare_landing(&mut self) -> bool {
        while self.landing.len() < self.landing_count {
            let Some(frame) = self.memory.receive.allocate(0) else { return false };
            self.landing.push(frame);
        }
        if let Some(first) = self.landing.last_mut() {
            first.reset(RECEIVE_HEADROOM);
        }
        true
    }

    /// Reads a packet into the landing; its bytes, or `None`: there is none.
    fn read(&mut self) -> Option<usize> {
        // What the kernel says of a packet that it hands over whole is in the packet as well: lengths, and a checksum that is partial.
        let mut said = [0; header::LENGTH];
        let mut pieces: [IoSliceMut<'_>; 1 + PACKET_FRAMES_MAX] = std::array::from_fn(|_| IoSliceMut::new(&mut []));
        let mut count = 1;
        let [first, rest @ ..] = &mut pieces;
        *first = IoSliceMut::new(&mut said);
        for (piece, frame) in rest.iter_mut().zip(self.landing.iter_mut().rev()) {
            *piece = IoSliceMut::new(frame.room());
            count += 1;
        }
        match call::read(self.fd.as_fd(), pieces.get_mut(..count)?) {
            Ok(length) => length.checked_sub(header::LENGTH).filter(|length| *length > 0),
            Err(error) => {
                self.learn(&error);
                None
            }
        }
    }

    /// What an error tells of the device. Of those that don't pass the device is of no use any more: it has been deleted, say.
    fn learn(&self, error: &io::Error) {
        // Nothing to read, a signal, no memory; and of what is written: the kernel's end is down, or takes no such packet.
        let may_pass = [libc::EAGAIN, libc::EINTR, libc::ENOBUFS, libc::ENOMEM, libc::EIO, libc::EINVAL];
        if !error.raw_os_error().is_some_and(|number| may_pass.contains(&number)) {
            self.is_gone.set(true);
        }
    }

    /// Whether packets larger than the MTU are taken. An XDP program at the kernel's end gets none, so the kernel would drop them.
    fn takes_trains(&mut self) -> bool {
        let Some(kernel_end) = &self.kernel_end else { return true };
        let now = Instant::now();
        if now >= self.next_look {
            self.next_look = now + LOOK_INTERVAL;
            self.takes_trains = kernel_end.look().is_some_and(|(has_xdp, _)| !has_xdp);
        }
        self.takes_trains
    }

    /// Sends the packet that begins with frame `first`, if it is whole; returns how many frames that were.
    fn send(&mut self, first: usize) -> Option<usize> {
        let queued = self.queued.get(first..)?;
        let frames = 1 + queued.iter().position(|(_, options)| !options.continues)?;
        let said = Header { checksum: queued.first()?.1.checksum, segmentation: None }.bytes();
        let mut pieces = [IoSlice::new(&[]); 1 + PACKET_PIECES_MAX];
        let (lead, rest) = pieces.split_first_mut()?;
        *lead = IoSlice::new(&said);
        for (piece, (buffer, _)) in rest.iter_mut().zip(queued.get(..frames)?) {
            *piece = IoSlice::new(buffer.frame().bytes());
        }
        let outcome = call::write(self.fd.as_fd(), pieces.get(..1 + frames.min(PACKET_PIECES_MAX))?);
        self.note(outcome, 1);
        Some(frames)
    }

    /// Sends all that is queued, but for a packet that isn't whole yet.
    fn send_queued(&mut self) {
        let mut sent = 0;
        while let Some(frames) = self.send(sent) {
            sent += frames;
        }
        self.queued.drain(..sent);
    }

    /// What came of a packet, or of a train of `packets`.
    fn note(&mut self, outcome: io::Result<usize>, packets: u64) {
        self.statistics.transmit_doorbells += 1;
        // The kernel takes a packet whole, or not at all.
        if let Err(error) = outcome {
            self.learn(&error);
            self.statistics.transmit_lost += packets;
        }
    }
}

impl TransmitTrains for Tap {
    fn transmit_train(&mut self, train: &Train<'_>) {
        self.send_queued();
        let packets = train.segment_count();
        let length = train.headers.len() + train.payload_length();
        let kind = if train.is_v6 { Segmentation::TcpV6 } else { Segmentation::TcpV4 };
        let segmentation = (packets > 1).then_some((kind, train.segment_bytes, train.headers.len() as u16));
        let said = Header { checksum: Some(train.checksum), segmentation }.bytes();
        let mut pieces = [IoSlice::new(&[]); 2 + TRAIN_PIECES_MAX];
        let [lead, headers, rest @ ..] = &mut pieces;
        (*lead, *headers) = (IoSlice::new(&said), IoSlice::new(train.headers));
        let count = train.payload.len().min(TRAIN_PIECES_MAX);
        for (piece, payload) in rest.iter_mut().zip(train.payload) {
            *piece = *payload;
        }
        let outcome = call::write(self.fd.as_fd(), pieces.get(..2 + count).unwrap_or_default());
        self.statistics.transmit_frames += packets as u64;
        self.statistics.transmit_bytes += length as u64;
        self.batch_count += packets;
        self.note(outcome, packets as u64);
    }
}

impl Vnic for Tap {
    fn capabilities(&self) -> Capabilities {
        self.capabilities
    }

    fn receive(&mut self, frames: &mut Vec<Frame>, frames_max: usize) -> usize {
        let mut received = 0;
        // A packet takes a frame at least, and it is not known before how many: the first has room in any case that the trait promises.
        while received + self.landing_count <= frames_max && self.prepare_landing() {
            let Some(length) = self.read() else { break };
            let mut left = length;
            while left > 0
                && let Some(mut frame) = self.landing.pop()
            {
                let count = left.min(frame.tailroom());
                let _ = frame.append(count);
                left -= count;
                frame.set_continues(left > 0);
                frames.push(frame);
                received += 1;
            }
            self.statistics.receive_bytes += length as u64;
            self.statistics.receive_frames += 1;
        }
        received
    }

    fn transmit_room(&mut self) -> usize {
        QUEUED_MAX.saturating_sub(self.queued.len())
    }

    fn batch_room(&mut self) -> usize {
        BATCH_FRAMES.saturating_sub(self.queued.len() + self.batch_count)
    }

    fn transmit(&mut self, buffer: TransmitBuffer, options: TransmitOptions) -> Result<(), TransmitBuffer> {
        let length = buffer.frame().len();
        if !self.is_in_packet && length < FRAME_BYTES_MIN {
            self.statistics.transmit_invalid += 1;
            return Ok(());
        }
        if self.queued.len() >= QUEUED_MAX {
            self.statistics.transmit_ring_full += 1;
            return Err(buffer);
        }
        self.is_in_packet = options.continues;
        self.statistics.transmit_frames += 1;
        self.statistics.transmit_bytes += length as u64;
        self.queued.push((buffer, options));
        Ok(())
    }

    fn trains(&mut self) -> Option<&mut dyn TransmitTrains> {
        // Behind the first part of a packet nothing else may go.
        if !self.is_in_packet && self.takes_trains() { Some(self) } else { None }
    }

    fn flush(&mut self) {
        self.send_queued();
        self.batch_count = 0;
    }

    fn memory(&self) -> &FrameMemory {
        &self.memory
    }

    fn doorbell(&self) -> Option<BorrowedFd<'_>> {
        Some(self.fd.as_fd())
    }

    fn is_gone(&self) -> bool {
        self.is_gone.get()
    }

    fn statistics(&self) -> VnicStatistics {
        // Packets that nobody read in time.
        let dropped =
            self.kernel_end.as_ref().and_then(|end| end.look()).map_or(0, |(_, departures)| departures.dropped);
        VnicStatistics { receive_ring_full: dropped, ..self.statistics }
    }
}
