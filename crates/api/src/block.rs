//! [`Block`]: memory that a service fills itself and sends without a copy, in either placement.
//!
//! In the split placement it is transmit memory, which the net core reads; in the linked one it is the process's own, as all that
//! is sent. What is read from a disk is in the disk's memory. Filled, it may be sent on any number of connections, and again, as long as somebody holds it.

use bytes::Bytes;
use qanat_nic::Frame;
use std::rc::Rc;

/// A block to fill. [`Commands::block`](crate::Commands::block) gives one.
///
/// ```
/// use qanat_api::Block;
///
/// let mut block = Block::own(64);
/// assert_eq!(block.append(b"length: "), 8);
/// block.append_with(2, |bytes| bytes.copy_from_slice(b"42"));
/// let filled = block.filled();
/// // Clones are the same memory: it may be sent on many connections.
/// assert_eq!(filled.clone().bytes(), b"length: 42");
/// ```
#[derive(Debug, serde::Serialize, serde::Deserialize)]
pub struct Block(Kind);

#[derive(Debug, serde::Serialize, serde::Deserialize)]
enum Kind {
    Own(Vec<u8>),
    Transmit(Frame),
}

impl Block {
    /// A block of the process's own memory.
    #[inline]
    pub fn own(capacity: usize) -> Block {
        Block(Kind::Own(Vec::with_capacity(capacity)))
    }

    /// A block of memory that a device or a net core reads.
    #[inline]
    pub fn transmit(frame: Frame) -> Block {
        Block(Kind::Transmit(frame))
    }

    /// How many bytes are in it.
    #[inline]
    pub fn len(&self) -> usize {
        match &self.0 {
            Kind::Own(bytes) => bytes.len(),
            Kind::Transmit(frame) => frame.len(),
        }
    }

    /// Whether it is empty.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// How many more bytes it has room for.
    #[inline]
    pub fn room(&self) -> usize {
        match &self.0 {
            Kind::Own(bytes) => bytes.capacity() - bytes.len(),
            Kind::Transmit(frame) => frame.tailroom(),
        }
    }

    /// Appends as many of `bytes` as there is room for. Returns how many.
    #[inline]
    pub fn append(&mut self, bytes: &[u8]) -> usize {
        let some = bytes.get(..self.room()).unwrap_or(bytes);
        match &mut self.0 {
            Kind::Own(own) => own.extend_from_slice(some),
            Kind::Transmit(frame) => {
                if let Some(target) = frame.append(some.len()) {
                    target.copy_from_slice(some);
                }
            }
        }
        some.len()
    }

    /// Appends `count` bytes, or as many as there is room for. `fill` has to write all of them: it may find old bytes there.
    #[inline]
    pub fn append_with<T>(&mut self, count: usize, fill: impl FnOnce(&mut [u8]) -> T) -> T {
        let count = count.min(self.room());
        match &mut self.0 {
            Kind::Own(own) => {
                let before = own.len();
                own.resize(before + count, 0);
                fill(own.get_mut(before..).unwrap_or_default())
            }
            Kind::Transmit(frame) => fill(frame.append(count).unwrap_or_default()),
        }
    }

    /// What is in it.
    #[inline]
    pub fn bytes(&self) -> &[u8] {
        match &self.0 {
            Kind::Own(bytes) => bytes,
            Kind::Transmit(frame) => frame.bytes(),
        }
    }

    /// Shortens it to `length` bytes, if it is longer.
    #[inline]
    pub fn truncate(&mut self, length: usize) {
        match &mut self.0 {
            Kind::Own(bytes) => bytes.truncate(length),
            Kind::Transmit(frame) => frame.truncate(length),
        }
    }

    /// What is in it, to be changed.
    #[inline]
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        match &mut self.0 {
            Kind::Own(bytes) => bytes,
            Kind::Transmit(frame) => frame.bytes_mut(),
        }
    }

    /// The frame that it is in.
    ///
    /// # Errors
    /// Gives it back if it is of the process's own memory.
    #[inline]
    pub fn into_frame(self) -> Result<Frame, Block> {
        match self.0 {
            Kind::Transmit(frame) => Ok(frame),
            own @ Kind::Own(_) => Err(Block(own)),
        }
    }

    /// Ends the filling: the block can be sent, and not be written any more.
    #[inline]
    pub fn filled(self) -> FilledBlock {
        FilledBlock(match self.0 {
            Kind::Own(bytes) => Filled::Own(bytes.into()),
            Kind::Transmit(frame) => Filled::Transmit(Rc::new(frame)),
        })
    }
}

/// A filled block. Clones are the same memory.
#[derive(Clone, Debug)]
pub struct FilledBlock(pub Filled);

/// Where a filled block is.
#[derive(Clone, Debug)]
pub enum Filled {
    /// In the process's own memory.
    Own(Bytes),
    /// In memory that the device or a net core reads.
    Transmit(Rc<Frame>),
}

impl FilledBlock {
    /// What is in it.
    #[inline]
    pub fn bytes(&self) -> &[u8] {
        match &self.0 {
            Filled::Own(bytes) => bytes,
            Filled::Transmit(frame) => frame.bytes(),
        }
    }

    /// The bytes, in memory of this process. They are copied if the block is transmit memory.
    #[inline]
    pub fn into_bytes(self) -> Bytes {
        match self.0 {
            Filled::Own(bytes) => bytes,
            Filled::Transmit(frame) => Bytes::copy_from_slice(frame.bytes()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use qanat_nic::Region;

    #[test]
    fn either_kind_takes_what_fits_and_is_shared_when_filled() {
        let pool = Region::new(1, 2_048).unwrap().pool(1).unwrap();
        for mut block in [Block::own(2_048), Block::transmit(pool.allocate(0).unwrap())] {
            let capacity = block.room();
            assert!(capacity >= 2_048 && block.is_empty());
            assert_eq!(block.append(b"some "), 5);
            block.append_with(4, |bytes| bytes.copy_from_slice(b"more"));
            assert_eq!((block.len(), block.room()), (9, capacity - 9));
            assert_eq!(block.append(&vec![1; capacity]), capacity - 9);
            assert_eq!((block.append(b"x"), block.room()), (0, 0));
            let filled = block.filled();
            assert_eq!((filled.clone().bytes().len(), &filled.bytes()[..9]), (capacity, b"some more".as_slice()));
            assert_eq!(filled.into_bytes().len(), capacity);
        }
        assert_eq!(pool.in_use_count(), 0);
    }
}
