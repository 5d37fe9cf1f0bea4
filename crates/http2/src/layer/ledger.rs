//! [`Ledger`]: of whom the bytes are that were given to the connection, until the peer has acknowledged them.

use qanat_api::ConnectionId;
use std::collections::VecDeque;

/// Whose bytes they are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Owner {
    /// Answers of the layer's own.
    Layer,
    /// A stream's, with so many bytes that its service gave.
    Stream(ConnectionId, u64),
}

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Ledger {
    /// Bytes that are not acknowledged yet, of how many, and whose.
    entries: VecDeque<(usize, usize, Owner)>,
    bytes: usize,
    layer_bytes: usize,
}

impl Ledger {
    /// So many bytes are given.
    pub(super) fn note(&mut self, bytes: usize, owner: Owner) {
        self.entries.push_back((bytes, bytes, owner));
        self.bytes += bytes;
        if owner == Owner::Layer {
            self.layer_bytes += bytes;
        }
    }

    /// All that is not acknowledged.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Of these, the layer's own.
    pub(super) fn layer_bytes(&self) -> usize {
        self.layer_bytes
    }

    /// So many bytes are acknowledged: calls `whole` for each entry all of which is, with its bytes.
    pub(super) fn acknowledged(&mut self, bytes: usize, mut whole: impl FnMut(usize, Owner)) {
        let mut left = bytes;
        while let Some((waiting, size, owner)) = self.entries.front_mut() {
            let taken = left.min(*waiting);
            *waiting -= taken;
            left -= taken;
            self.bytes -= taken;
            if *waiting > 0 {
                return;
            }
            if *owner == Owner::Layer {
                self.layer_bytes -= *size;
            }
            whole(*size, *owner);
            self.entries.pop_front();
        }
    }
}
