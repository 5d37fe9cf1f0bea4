//! [`List`]: elements in order.

use crate::keyspace::change::End;
use bytes::Bytes;
use std::collections::VecDeque;

/// What an element costs in a record besides its bytes.
const ELEMENT_BYTES: usize = 6;

/// A list.
#[derive(Clone, Debug, Default)]
pub struct List {
    elements: VecDeque<Bytes>,
    bytes: usize,
}

impl List {
    /// Bytes of its record, about.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Bytes of its elements alone.
    pub fn content_bytes(&self) -> usize {
        self.bytes - ELEMENT_BYTES * self.elements.len()
    }

    /// How many elements.
    pub fn len(&self) -> usize {
        self.elements.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The element at an index.
    pub fn get(&self, index: usize) -> Option<&Bytes> {
        self.elements.get(index)
    }

    /// The element at an end.
    pub fn end(&self, end: End) -> Option<&Bytes> {
        match end {
            End::Front => self.elements.front(),
            End::Back => self.elements.back(),
        }
    }

    /// All.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = &Bytes> + ExactSizeIterator {
        self.elements.iter()
    }

    /// Those from `start` up to `end`, which is not among them.
    pub fn range(&self, start: usize, end: usize) -> impl ExactSizeIterator<Item = &Bytes> {
        let end = end.min(self.elements.len());
        self.elements.range(start.min(end)..end)
    }

    /// Puts one at an end.
    pub fn push(&mut self, end: End, element: &[u8]) {
        self.bytes += ELEMENT_BYTES + element.len();
        let element = Bytes::copy_from_slice(element);
        match end {
            End::Front => self.elements.push_front(element),
            End::Back => self.elements.push_back(element),
        }
    }

    /// Removes so many at an end, or all.
    pub fn pop(&mut self, end: End, count: u64) {
        for _ in 0..count.min(self.elements.len() as u64) {
            let gone = match end {
                End::Front => self.elements.pop_front(),
                End::Back => self.elements.pop_back(),
            };
            self.bytes -= gone.map_or(0, |gone| ELEMENT_BYTES + gone.len());
        }
    }

    /// Replaces the one at an index, if there is one.
    pub fn replace(&mut self, index: u64, element: &[u8]) {
        if let Some(old) = usize::try_from(index).ok().and_then(|index| self.elements.get_mut(index)) {
            self.bytes = self.bytes + element.len() - old.len();
            *old = Bytes::copy_from_slice(element);
        }
    }

    /// Puts one before that at an index, if the list is so long.
    pub fn insert(&mut self, index: u64, element: &[u8]) {
        if let Some(index) = usize::try_from(index).ok().filter(|index| *index <= self.elements.len()) {
            self.elements.insert(index, Bytes::copy_from_slice(element));
            self.bytes += ELEMENT_BYTES + element.len();
        }
    }

    /// Removes the one at an index, if there is one.
    pub fn remove(&mut self, index: u64) {
        let gone = usize::try_from(index).ok().and_then(|index| self.elements.remove(index));
        self.bytes -= gone.map_or(0, |gone| ELEMENT_BYTES + gone.len());
    }
}
