//! [`Slot`]: a request under way, and the command that it goes on with on a generic device.

use super::generic::{self, Namespace};
use crate::error::StorageError;
use crate::nvme::spec::{Command, Status};
use crate::vsic::Kind;
use io_uring::squeue::Entry128;
use qanat_api::Geometry;
use qanat_nic::Frame;

/// Bytes of zeroes written at once.
pub(super) const ZEROES_BYTES: u32 = 1 << 20;
/// A request under way.
pub(super) struct Slot {
    pub(super) token: u64,
    pub(super) kind: Kind,
    pub(super) durable: bool,
    /// Where its transfer goes on, in bytes on the device.
    pub(super) offset: u64,
    /// Of its transfer, bytes done.
    pub(super) done: u64,
    /// Of its transfer, bytes in all; of zeroes as well.
    pub(super) length: u64,
    pub(super) frame: Option<Frame>,
    /// The registered memory the frame is in.
    pub(super) buffer: u16,
    /// A flush follows, for the device has no durable writes of its own.
    pub(super) then_flush: bool,
}

impl Slot {
    /// Whether it is a flush that it waits for, not a transfer.
    #[inline]
    pub(super) fn is_flushing(&self) -> bool {
        match self.kind {
            Kind::Flush => true,
            Kind::Write => self.then_flush && self.done == self.length,
            Kind::Read | Kind::Zero => false,
        }
    }

    /// What a generic device says of a command: NVMe's status, or an error of the kernel's. `None`: the request goes on.
    pub(super) fn command_completed(&mut self, result: i32, geometry: &Geometry) -> Option<Result<(), StorageError>> {
        match result {
            // The kernel has reset the controller, or there was no room.
            _ if result == -libc::EAGAIN || result == -libc::EINTR => return None,
            ..0 => return Some(Err(StorageError::from_errno(-result))),
            0 => {}
            status => return Some(Status::from_bits(status as u16).result()),
        }
        if self.kind == Kind::Zero {
            self.done += u64::from(zeroes_at_once(geometry)).min(self.length - self.done);
        } else if self.done < self.length {
            self.done = self.length;
        } else {
            self.then_flush = false;
        }
        (self.done == self.length && !self.then_flush).then_some(Ok(()))
    }
}

/// Bytes of zeroes that one request has.
fn zeroes_at_once(geometry: &Geometry) -> u32 {
    ZEROES_BYTES.min(geometry.transfer_bytes_max)
}

/// The command that a request goes on with on a generic device. `zeroes`: a frame of them, and the registered memory it is in.
pub(super) fn command_of(
    slot: &mut Slot,
    namespace: Namespace,
    geometry: &Geometry,
    zeroes: (&Frame, u16),
) -> Entry128 {
    let (number, power) = (namespace.identifier, namespace.block_power);
    let block = (slot.offset + slot.done) >> power;
    let blocks = |bytes: usize| (bytes as u64 >> power) as u32;
    match (slot.kind, &mut slot.frame) {
        (Kind::Read, Some(frame)) => {
            let bytes = frame.bytes_mut();
            let at = (bytes.as_mut_ptr().expose_provenance() as u64, bytes.len() as u32, slot.buffer);
            generic::entry(Command::read(number, block, blocks(bytes.len())), Some(at))
        }
        (Kind::Write, Some(frame)) if slot.done < slot.length => {
            let (bytes, forced) = (frame.bytes(), slot.durable && !slot.then_flush);
            let at = (bytes.as_ptr().expose_provenance() as u64, bytes.len() as u32, slot.buffer);
            generic::entry(Command::write(number, block, blocks(bytes.len()), forced), Some(at))
        }
        (Kind::Zero, _) => {
            let (zeroes, buffer) = zeroes;
            let some = u64::from(zeroes_at_once(geometry)).min(slot.length - slot.done) as usize;
            let at = (zeroes.bytes().as_ptr().expose_provenance() as u64, some as u32, buffer);
            generic::entry(Command::write(number, block, blocks(some), false), Some(at))
        }
        _ => generic::entry(Command::flush(number), None),
    }
}
