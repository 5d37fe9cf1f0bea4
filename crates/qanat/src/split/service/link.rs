//! The memory a service shares with one net core, and the rings in it: the service's end.

use crate::split::doorbell;
use crate::split::handshake::{Attached, LARGE_BLOCK_BYTES, SMALL_BLOCK_BYTES};
use crate::split::service::received::Received;
use qanat_abi::message::RELEASES_MAX;
use qanat_abi::{Command, Consumer, ControlMemory, Event, Message, Mismatch, Producer, Rings};
use qanat_nic::{Frame, Pool, Region};
use std::collections::VecDeque;
use std::net::SocketAddr;
use std::os::fd::{AsFd, OwnedFd};

/// Commands that wait for room in the ring before datagrams are dropped. (What else waits is bounded by what there is:
/// connections, frames.)
pub(crate) const WAITING_MAX: usize = 1_024;

/// The memory shared with one net core.
pub(crate) struct Link {
    pub socket: OwnedFd,
    pub events: Consumer<ControlMemory>,
    commands: Producer<ControlMemory>,
    pub received: Received,
    pub small: Pool,
    pub large: Pool,
    pub small_bytes: usize,
    /// Commands the ring had no room for.
    pub waiting: VecDeque<Command>,
    /// Datagrams' blocks, free once the command at that position has been taken.
    datagrams: VecDeque<(u32, Frame)>,
}

/// The net core does not keep to the rules, or is gone.
pub(crate) struct Lost;

impl Link {
    /// Maps what came beside a net core's answer.
    pub(crate) fn open(socket: OwnedFd, attached: &Attached, files: &[OwnedFd]) -> Result<Link, Mismatch> {
        let (control, received, small, large, copies) = match files {
            [control, received, small, large] if attached.copies == 0 => (control, received, small, large, None),
            [control, received, small, large, copies] => (control, received, small, large, Some(copies)),
            _ => return Err(std::io::Error::from(std::io::ErrorKind::InvalidData).into()),
        };
        let rings = Rings::open(control.as_fd())?;
        let received = Received::map(received, copies, attached)?;
        let pool = |file: &OwnedFd, count: u32, size: u32| -> std::io::Result<Pool> {
            let region = Region::of_file(file.as_fd(), count, size)?;
            region.pool(count).ok_or_else(|| std::io::ErrorKind::InvalidData.into())
        };
        let small = pool(small, attached.small_blocks, SMALL_BLOCK_BYTES)?;
        let large = pool(large, attached.large_blocks, LARGE_BLOCK_BYTES)?;
        received.copy_on_write_to(&small);
        let small_bytes = small.region().length();
        Ok(Link {
            socket,
            events: Consumer::new(rings.events),
            commands: Producer::new(rings.commands),
            received,
            small,
            large,
            small_bytes,
            waiting: VecDeque::new(),
            datagrams: VecDeque::new(),
        })
    }

    #[inline]
    pub(crate) fn give(&mut self, command: Command) {
        if !self.waiting.is_empty() || !matches!(self.commands.push(command.encode()), Ok(true)) {
            self.waiting.push_back(command);
        }
    }

    /// Has the processor fetch the bytes that the next message tells of: another one wrote them, and they are far away.
    #[inline]
    pub(crate) fn ask_for_next(&self) {
        if let Some((frame, start)) = self.events.peek().and_then(Event::bytes_of) {
            self.received.prefetch(frame, start.into());
        }
    }

    /// Moves what waits into the ring and tells the net core. [`wake`](Link::wake) is to follow.
    pub(crate) fn flush(&mut self) -> Result<(), Lost> {
        while let Some(command) = self.waiting.front() {
            if !self.commands.push(command.encode()).map_err(|_| Lost)? {
                break;
            }
            self.waiting.pop_front();
        }
        self.commands.publish();
        Ok(())
    }

    /// Wakes the net core if it sleeps and was told something; whether it did.
    #[inline]
    pub(crate) fn wake(&mut self) -> bool {
        let must = self.commands.must_wake();
        if must {
            doorbell::ring(&self.socket);
        }
        must
    }

    /// Batches of commands so far.
    pub(crate) fn batches(&self) -> u64 {
        self.commands.batches()
    }

    /// Whether the net core has taken all it was told.
    pub(crate) fn is_heard(&mut self) -> bool {
        self.waiting.is_empty()
            && self.commands.consumed(true).is_ok_and(|consumed| consumed == self.commands.position())
    }

    /// Frees blocks of datagrams that have been sent.
    pub(crate) fn reclaim(&mut self, fresh: bool) -> Result<(), Lost> {
        if self.datagrams.is_empty() {
            return Ok(());
        }
        let consumed = self.commands.consumed(fresh).map_err(|_| Lost)?;
        while let Some((position, _)) = self.datagrams.front()
            && consumed.wrapping_sub(*position).cast_signed() >= 0
        {
            self.datagrams.pop_front();
        }
        Ok(())
    }

    /// A block for a datagram.
    #[inline]
    pub(crate) fn block(&mut self, length: usize) -> Option<Frame> {
        let pool = if length <= SMALL_BLOCK_BYTES as usize { &self.small } else { &self.large };
        if let Some(block) = pool.allocate(0) {
            return Some(block);
        }
        self.reclaim(true).ok()?;
        let pool = if length <= SMALL_BLOCK_BYTES as usize { &self.small } else { &self.large };
        pool.allocate(0)
    }

    /// Where a frame is in transmit memory as a whole; `None`: elsewhere.
    #[inline]
    pub(crate) fn offset(&self, frame: &Frame) -> Option<u32> {
        if frame.is_of(&self.small) {
            return u32::try_from(frame.offset_in_region()).ok();
        }
        frame.is_of(&self.large).then(|| u32::try_from(self.small_bytes + frame.offset_in_region()).ok())?
    }

    /// Sends a block as a datagram.
    pub(crate) fn send_block(&mut self, socket: u16, peer: SocketAddr, block: Frame) {
        let (Some(offset), Ok(length)) = (self.offset(&block), u16::try_from(block.len())) else { return };
        self.give(Command::SendTo { socket, peer, offset, length });
        let position = self.commands.position().wrapping_add(self.waiting.len() as u32);
        self.datagrams.push_back((position, block));
    }

    /// Tells of frames the service has dropped.
    pub(crate) fn release_dropped(&mut self) {
        let mut frames = [0; RELEASES_MAX];
        let mut count = 0;
        while let Some(frame) = self.received.dropped() {
            frames[count] = frame;
            count += 1;
            if count == RELEASES_MAX {
                self.give(Command::Release { count: count as u8, frames });
                count = 0;
            }
        }
        if count > 0 {
            self.give(Command::Release { count: count as u8, frames });
        }
    }
}
