//! What a service has been lent of received messages: frames of its card, each of them a credit; and, while it has many of those,
//! copies of small messages in small buffers. So who keeps many small messages keeps 512 bytes for each, not a frame of 2 or
//! 4 KiB that the card then lacks; who gives them back soon has nothing copied.
//!
//! ```text
//!   windows' numbers   0 …… frames of the card | …… copies, in a memory file of their own, mapped read-only by services
//! ```

use qanat_abi::message::Window;
use qanat_nic::{Pool, lendable_frames, lent_frames};
use qanat_stack::{Chunk, ConnectionId};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// Bytes of a small buffer: a message of at most so many is small.
pub(crate) const COPY_BYTES: u32 = 512;
/// Small buffers of a card.
pub(crate) const COPIES: u32 = 8_192;

/// The small buffers of a card's stack.
pub(crate) struct Copies {
    pool: Pool,
    file: OwnedFd,
}

impl Copies {
    /// So many of them.
    pub(crate) fn new(count: u32) -> io::Result<Copies> {
        let (pool, file) = lendable_frames(count, COPY_BYTES)?;
        Ok(Copies { pool, file })
    }

    /// Those of another net core, in their file: to be read, and given back.
    pub(crate) fn resumed(file: OwnedFd) -> io::Result<Copies> {
        Ok(Copies { pool: lent_frames(file.as_fd(), COPIES, COPY_BYTES)?, file })
    }

    pub(crate) fn pool(&self) -> &Pool {
        &self.pool
    }

    pub(crate) fn file(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }

    pub(crate) fn count(&self) -> u32 {
        self.pool.frame_count()
    }
}

/// Received bytes the service has.
#[derive(serde::Serialize, serde::Deserialize)]
pub(crate) struct Lent {
    pub chunk: Chunk,
    /// Of a stream; else a datagram.
    pub stream: Option<ConnectionId>,
    /// Which of all that were lent.
    number: u64,
}

/// All that a service has been lent.
#[derive(serde::Serialize, serde::Deserialize)]
pub(crate) struct Lending {
    frames: u32,
    #[serde(skip)]
    copies: Option<Pool>,
    /// By frame, then by copy.
    places: Vec<Option<Lent>>,
    frames_lent: u32,
    copies_lent: u32,
    datagram_frames_lent: u32,
    ever: u64,
    /// Frames it may hold.
    credits: u32,
    copy_credits: u32,
    /// Another net core lent it the first of them, and received memory is sealed since: it is only read here, so nothing more is
    /// copied.
    is_moved: bool,
}

impl Lending {
    /// Of a card with so many frames.
    pub(crate) fn new(frames: u32) -> Lending {
        Lending {
            frames,
            copies: None,
            places: (0..frames).map(|_| None).collect(),
            frames_lent: 0,
            copies_lent: 0,
            datagram_frames_lent: 0,
            ever: 0,
            credits: frames,
            copy_credits: 0,
            is_moved: false,
        }
    }

    /// Small messages may be copied there.
    pub(crate) fn use_copies(&mut self, copies: &Copies) {
        self.places.resize_with((self.frames + copies.count()) as usize, || None);
        (self.copies, self.copy_credits) = (Some(copies.pool.clone()), copies.count());
    }

    /// Goes on with what another net core lent; whether that can be.
    pub(crate) fn resume(&mut self, frames: u32, copies: &Copies) -> bool {
        (self.copies, self.copy_credits, self.is_moved) = (Some(copies.pool.clone()), 0, true);
        let count = |range: &[Option<Lent>]| range.iter().flatten().count() as u32;
        let Some((first, second)) = self.places.split_at_checked(frames as usize) else { return false };
        let is_whole = self.frames == frames && second.len() == copies.count() as usize;
        is_whole && (count(first), count(second)) == self.counts() && self.datagram_frames_lent <= self.frames_lent
    }

    /// Whether it can't be sent on where it lies.
    #[inline]
    pub(crate) fn is_only_read(&self, chunk: &Chunk) -> bool {
        self.is_moved || self.is_copy(chunk)
    }

    /// It is one of so many services that have them.
    pub(crate) fn share(&mut self, services: u32) {
        self.credits = self.frames / services.max(1);
        let copies = self.copies.as_ref().filter(|_| !self.is_moved);
        self.copy_credits = copies.map_or(0, Pool::frame_count) / services.max(1);
    }

    #[cfg(test)]
    pub(crate) fn without_credits(&mut self) {
        self.credits = u32::MAX;
    }

    pub(crate) fn credits(&self) -> u32 {
        self.credits
    }

    /// Frames and copies it has.
    pub(crate) fn counts(&self) -> (u32, u32) {
        (self.frames_lent, self.copies_lent)
    }

    /// Whether no more datagrams are lent: the rest of the frames keeps streams going, whatever of datagrams the service keeps.
    pub(crate) fn is_full_of_datagrams(&self) -> bool {
        self.datagram_frames_lent >= self.credits / 2
    }

    pub(crate) fn is_copy(&self, chunk: &Chunk) -> bool {
        self.copies.as_ref().is_some_and(|copies| chunk.frame().is_of(copies))
    }

    /// A small message's copy, if the service has many frames already: a quarter of those it may have.
    #[inline]
    pub(crate) fn copy_of(&self, chunk: &Chunk) -> Option<Chunk> {
        if self.frames_lent < self.credits / 4 || chunk.len() > COPY_BYTES as usize {
            return None;
        }
        if self.copies_lent >= self.copy_credits || self.is_copy(chunk) {
            return None;
        }
        let mut frame = self.copies.as_ref()?.allocate(0)?;
        frame.append(chunk.len())?.copy_from_slice(chunk.bytes());
        Some(Chunk::new(frame))
    }

    /// Lends it. `None`: it is not in received memory, which cannot be.
    pub(crate) fn lend(&mut self, chunk: Chunk, stream: Option<ConnectionId>) -> Option<Window> {
        let (frame, is_copy) = (chunk.frame(), self.is_copy(&chunk));
        let (start, length) = (u16::try_from(frame.headroom()).ok()?, u16::try_from(frame.len()).ok()?);
        let index = if is_copy { self.frames.checked_add(frame.index())? } else { frame.index() };
        let window = Window { frame: index, start, length };
        // Each frame is somewhere once: the place is free.
        let place = self.places.get_mut(index as usize).filter(|place| place.is_none())?;
        *place = Some(Lent { chunk, number: self.ever, stream });
        self.ever += 1;
        self.count(is_copy, stream.is_none(), 1);
        Some(window)
    }

    fn count(&mut self, is_copy: bool, is_datagram: bool, change: i32) {
        let (copies, frames) = if is_copy { (change, 0) } else { (0, change) };
        self.copies_lent = self.copies_lent.saturating_add_signed(copies);
        self.frames_lent = self.frames_lent.saturating_add_signed(frames);
        let datagrams = if is_datagram { frames } else { 0 };
        self.datagram_frames_lent = self.datagram_frames_lent.saturating_add_signed(datagrams);
    }

    /// It is given back. `None`: the service does not have it.
    pub(crate) fn take_back(&mut self, index: u32) -> Option<Lent> {
        let lent = self.places.get_mut(index as usize).and_then(Option::take)?;
        self.count(index >= self.frames, lent.stream.is_none(), -1);
        Some(lent)
    }

    /// Takes back all that is a connection's, in order.
    pub(crate) fn reclaim(&mut self, connection: ConnectionId) -> Vec<Chunk> {
        let is_its = |place: &Option<Lent>| place.as_ref().is_some_and(|lent| lent.stream == Some(connection));
        let its: Vec<u32> = (0u32..).zip(&self.places).filter(|(_, place)| is_its(place)).map(|(at, _)| at).collect();
        let mut lent: Vec<Lent> = its.into_iter().filter_map(|index| self.take_back(index)).collect();
        lent.sort_unstable_by_key(|lent| lent.number);
        lent.into_iter().map(|lent| lent.chunk).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use qanat_nic::MemoryPlan;

    /// Messages of `length` bytes held until no frame, or no copy, is left: how many, and the bytes of memory that are theirs.
    fn held(length: usize, copies: u32) -> (usize, u64) {
        let plan = MemoryPlan { frame_size: 2_048, receive_frames: 64, transmit_frames: 2, prepared_frames: 0 };
        let memory = plan.allocate().unwrap();
        let copies = Copies::new(copies.max(8)).unwrap();
        let mut lending = Lending::new(64);
        if copies.count() > 8 {
            lending.use_copies(&copies);
        }
        let mut windows = Vec::new();
        while let Some(mut frame) = memory.receive.allocate(128) {
            frame.append(length).unwrap().fill(windows.len() as u8);
            let chunk = Chunk::new(frame);
            let chunk = lending.copy_of(&chunk).unwrap_or(chunk);
            assert!(chunk.bytes().iter().all(|byte| *byte == windows.len() as u8));
            windows.push(lending.lend(chunk, None).unwrap());
        }
        let (frames, small) = lending.counts();
        let count = windows.len();
        for window in windows {
            assert!(lending.take_back(window.frame).is_some() && lending.take_back(window.frame).is_none());
        }
        assert_eq!((lending.counts(), lending.datagram_frames_lent), ((0, 0), 0));
        assert_eq!((memory.receive.in_use_count(), copies.pool.in_use_count()), (0, 0), "all is home");
        (count, u64::from(frames) * 2_048 + u64::from(small) * 512)
    }

    #[test]
    fn small_messages_kept_take_small_buffers_and_large_ones_frames() {
        assert_eq!(held(100, 0), (64, 64 * 2_048), "without: a frame each");
        assert_eq!(held(100, 128), (64 + 128, 64 * 2_048 + 128 * 512));
        assert_eq!(held(512, 128).0, 64 + 128);
        assert_eq!(held(513, 128).0, 64);
    }

    #[test]
    fn what_is_taken_back_of_a_connection_is_in_order_whatever_it_is_in() {
        let copies = Copies::new(16).unwrap();
        let memory = MemoryPlan { receive_frames: 8, ..MemoryPlan::default() }.allocate().unwrap();
        let mut lending = Lending::new(8);
        lending.use_copies(&copies);
        let (own, other) = (ConnectionId::new(1, 1), ConnectionId::new(1, 2));
        for number in 0..6u8 {
            let mut frame = memory.receive.allocate(0).unwrap();
            frame.append(1).unwrap().fill(number);
            let chunk = Chunk::new(frame);
            let chunk = lending.copy_of(&chunk).unwrap_or(chunk);
            lending.lend(chunk, Some(if number == 4 { other } else { own })).unwrap();
        }
        assert_eq!(lending.counts(), (2, 4));
        let bytes: Vec<u8> = lending.reclaim(own).iter().map(|chunk| chunk.bytes()[0]).collect();
        assert_eq!((bytes, lending.counts()), (vec![0, 1, 2, 3, 5], (0, 1)));
    }
}
