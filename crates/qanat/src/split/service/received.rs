//! Received memory as a service sees it: its card's frames, and small buffers with copies of small messages, all read-only.

use crate::split::handshake::Attached;
use crate::split::net_core::lending::COPY_BYTES;
use qanat_abi::message::Window;
use qanat_nic::{Frame, LentFrames, Pool};
use std::io;
use std::os::fd::{AsFd, OwnedFd};

/// Both.
pub(crate) struct Received {
    frames: LentFrames,
    copies: Option<LentFrames>,
    /// Windows' numbers from here on are copies'.
    first_copy: u32,
}

impl Received {
    pub(crate) fn map(frames: &OwnedFd, copies: Option<&OwnedFd>, attached: &Attached) -> io::Result<Received> {
        let map_copies = |file: &OwnedFd| LentFrames::map(file.as_fd(), attached.copies, COPY_BYTES);
        Ok(Received {
            frames: LentFrames::map(frames.as_fd(), attached.receive_frames, attached.frame_size)?,
            copies: copies.map(map_copies).transpose()?,
            first_copy: attached.receive_frames,
        })
    }

    /// What is written to is copied there before.
    pub(crate) fn copy_on_write_to(&self, pool: &Pool) {
        let both = std::iter::once(&self.frames).chain(&self.copies);
        both.for_each(|lent| lent.pool().region().copy_on_write_to(pool));
    }

    /// It has been lent. `None`: it is here already, or there is no such.
    #[inline]
    pub(crate) fn take(&mut self, window: Window) -> Option<Frame> {
        let (start, length) = (window.start.into(), window.length.into());
        match window.frame.checked_sub(self.first_copy) {
            None => self.frames.take(window.frame, start, length),
            Some(copy) => self.copies.as_mut()?.take(copy, start, length),
        }
    }

    /// Has the processor fetch the bytes from `start` on: a hint.
    #[inline]
    pub(crate) fn prefetch(&self, index: u32, start: u32) {
        match (index.checked_sub(self.first_copy), &self.copies) {
            (Some(copy), Some(copies)) => copies.prefetch(copy, start),
            _ => self.frames.prefetch(index, start),
        }
    }

    #[inline]
    pub(crate) fn has(&self, frame: &Frame) -> bool {
        frame.is_of(self.frames.pool()) || self.copies.as_ref().is_some_and(|copies| frame.is_of(copies.pool()))
    }

    /// Gives one back by hand; its number. `None`: it is not of these, and dropped.
    #[inline]
    pub(crate) fn give_back(&mut self, frame: Frame) -> Option<u32> {
        match &mut self.copies {
            Some(copies) if frame.is_of(copies.pool()) => Some(self.first_copy + copies.give_back(frame)?),
            _ => self.frames.give_back(frame),
        }
    }

    /// The number of one that was dropped here since the last call: its owner is to be told.
    #[inline]
    pub(crate) fn dropped(&mut self) -> Option<u32> {
        let copy = |copies: &mut LentFrames| Some(self.first_copy + copies.dropped()?);
        self.frames.dropped().or_else(|| self.copies.as_mut().and_then(copy))
    }
}
