//! [`Status`]: status codes, and what they mean to who submitted a request.

use crate::error::StorageError;

/// A kind of status code (SCT).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum StatusType {
    /// Of any command.
    Generic,
    /// Of the command's own.
    CommandSpecific,
    /// Of the medium, and of data's integrity.
    Media,
    /// Of the path to the namespace.
    Path,
    /// Of the vendor.
    Vendor,
    /// None of the specification's.
    Reserved,
}

/// The status field without the phase bit: SC in bits 7:0, SCT in 10:8, More in 13, Do Not Retry in 14.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Status(u16);

/// Do Not Retry.
const DO_NOT_RETRY: u16 = 1 << 14;
/// SCT and SC.
const CODE: u16 = 0x7ff;

impl std::fmt::Debug for Status {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let again = if self.0 & DO_NOT_RETRY != 0 { ", do not retry" } else { "" };
        write!(f, "Status({:?} {:#04x}{again})", self.kind(), self.code())
    }
}

impl Status {
    /// Successful Completion.
    pub const SUCCESS: Status = Status::of(0, 0x00);
    /// Invalid Command Opcode.
    pub const INVALID_OPCODE: Status = Status::of(0, 0x01);
    /// Invalid Field in Command.
    pub const INVALID_FIELD: Status = Status::of(0, 0x02);
    /// Data Transfer Error: the memory named can't be reached.
    pub const DATA_TRANSFER_ERROR: Status = Status::of(0, 0x04);
    /// Internal Error.
    pub const INTERNAL_ERROR: Status = Status::of(0, 0x06);
    /// Command Abort Requested.
    pub const ABORT_REQUESTED: Status = Status::of(0, 0x07);
    /// Command Aborted due to SQ Deletion.
    pub const ABORTED_QUEUE_DELETION: Status = Status::of(0, 0x08);
    /// Invalid Namespace or Format.
    pub const INVALID_NAMESPACE: Status = Status::of(0, 0x0b);
    /// Command Sequence Error.
    pub const SEQUENCE_ERROR: Status = Status::of(0, 0x0c);
    /// PRP Offset Invalid.
    pub const INVALID_PRP_OFFSET: Status = Status::of(0, 0x13);
    /// Namespace is Write Protected.
    pub const WRITE_PROTECTED: Status = Status::of(0, 0x20);
    /// LBA Out of Range.
    pub const LBA_OUT_OF_RANGE: Status = Status::of(0, 0x80);
    /// Capacity Exceeded.
    pub const CAPACITY_EXCEEDED: Status = Status::of(0, 0x81);
    /// Namespace Not Ready.
    pub const NAMESPACE_NOT_READY: Status = Status::of(0, 0x82);
    /// Completion Queue Invalid.
    pub const COMPLETION_QUEUE_INVALID: Status = Status::of(1, 0x00);
    /// Invalid Queue Identifier.
    pub const INVALID_QUEUE_IDENTIFIER: Status = Status::of(1, 0x01);
    /// Invalid Queue Size.
    pub const INVALID_QUEUE_SIZE: Status = Status::of(1, 0x02);
    /// Asynchronous Event Request Limit Exceeded.
    pub const EVENT_LIMIT_EXCEEDED: Status = Status::of(1, 0x05);
    /// Invalid Interrupt Vector.
    pub const INVALID_INTERRUPT_VECTOR: Status = Status::of(1, 0x08);
    /// Invalid Log Page.
    pub const INVALID_LOG_PAGE: Status = Status::of(1, 0x09);
    /// Invalid Queue Deletion.
    pub const INVALID_QUEUE_DELETION: Status = Status::of(1, 0x0c);
    /// Write Fault.
    pub const WRITE_FAULT: Status = Status::of(2, 0x80);
    /// Unrecovered Read Error.
    pub const UNRECOVERED_READ_ERROR: Status = Status::of(2, 0x81);
    /// Internal Path Error: what is behind the controller is gone.
    pub const INTERNAL_PATH_ERROR: Status = Status::of(3, 0x00);
    /// Ours: what is behind the controller gave no answer in time.
    pub const NO_ANSWER: Status = Status::of(7, 0x6e);

    const fn of(kind: u16, code: u16) -> Status {
        Status(kind << 8 | code)
    }

    /// From the 15 bits above the phase bit.
    #[inline]
    pub fn from_bits(bits: u16) -> Status {
        Status(bits & 0x7fff)
    }

    /// The 15 bits above the phase bit.
    #[inline]
    pub fn bits(self) -> u16 {
        self.0
    }

    /// The same, said not to be worth a second try.
    pub const fn without_retry(self) -> Status {
        Status(self.0 | DO_NOT_RETRY)
    }

    /// Without what says more than the code.
    pub fn plain(self) -> Status {
        Status(self.0 & CODE)
    }

    /// Whether the command was done.
    #[inline]
    pub fn is_success(self) -> bool {
        self.0 & CODE == 0
    }

    /// The status code (SC).
    pub fn code(self) -> u8 {
        self.0 as u8
    }

    /// The status code type (SCT).
    pub fn kind(self) -> StatusType {
        match self.0 >> 8 & 7 {
            0 => StatusType::Generic,
            1 => StatusType::CommandSpecific,
            2 => StatusType::Media,
            3 => StatusType::Path,
            7 => StatusType::Vendor,
            _ => StatusType::Reserved,
        }
    }

    /// What it means to who submitted a request.
    ///
    /// # Errors
    /// Whatever is not success.
    #[inline]
    pub fn result(self) -> Result<(), StorageError> {
        if self.is_success() { Ok(()) } else { Err(self.error()) }
    }

    fn error(self) -> StorageError {
        match self.plain() {
            Status::LBA_OUT_OF_RANGE => StorageError::OutOfRange,
            Status::INVALID_FIELD => StorageError::TooLong,
            Status::INVALID_PRP_OFFSET => StorageError::Unaligned,
            Status::DATA_TRANSFER_ERROR => StorageError::Foreign,
            Status::ABORT_REQUESTED | Status::ABORTED_QUEUE_DELETION => StorageError::Aborted,
            Status::WRITE_PROTECTED => StorageError::ReadOnly,
            Status::CAPACITY_EXCEEDED => StorageError::NoRoom,
            Status::INVALID_NAMESPACE | Status::INTERNAL_PATH_ERROR => StorageError::Gone,
            Status::NO_ANSWER => StorageError::TimedOut,
            _ if self.kind() == StatusType::Media => StorageError::Medium,
            _ => StorageError::Errno(libc::EIO),
        }
    }

    /// What a controller says of a request that ended so behind it; `is_read`: the command was Read.
    #[inline]
    pub fn of_result(result: Result<(), StorageError>, is_read: bool) -> Status {
        match result {
            Ok(()) => Status::SUCCESS,
            Err(error) => Status::of_error(error, is_read),
        }
    }

    fn of_error(error: StorageError, is_read: bool) -> Status {
        match error {
            StorageError::OutOfRange => Status::LBA_OUT_OF_RANGE.without_retry(),
            StorageError::Length | StorageError::Offset | StorageError::TooLong => {
                Status::INVALID_FIELD.without_retry()
            }
            StorageError::Unaligned => Status::INVALID_PRP_OFFSET.without_retry(),
            StorageError::Foreign => Status::DATA_TRANSFER_ERROR.without_retry(),
            StorageError::Medium if is_read => Status::UNRECOVERED_READ_ERROR,
            StorageError::Medium => Status::WRITE_FAULT,
            StorageError::NoRoom => Status::CAPACITY_EXCEEDED,
            StorageError::ReadOnly => Status::WRITE_PROTECTED.without_retry(),
            StorageError::Gone => Status::INTERNAL_PATH_ERROR.without_retry(),
            StorageError::Aborted => Status::ABORTED_QUEUE_DELETION,
            StorageError::TimedOut => Status::NO_ANSWER,
            StorageError::Errno(_) => Status::INTERNAL_ERROR,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_pass_through_a_controller() {
        let errors = [
            (StorageError::OutOfRange, StorageError::OutOfRange),
            (StorageError::Length, StorageError::TooLong),
            (StorageError::Unaligned, StorageError::Unaligned),
            (StorageError::Foreign, StorageError::Foreign),
            (StorageError::TooLong, StorageError::TooLong),
            (StorageError::Medium, StorageError::Medium),
            (StorageError::NoRoom, StorageError::NoRoom),
            (StorageError::ReadOnly, StorageError::ReadOnly),
            (StorageError::Gone, StorageError::Gone),
            (StorageError::Aborted, StorageError::Aborted),
            (StorageError::TimedOut, StorageError::TimedOut),
            (StorageError::Errno(libc::ENOMEM), StorageError::Errno(libc::EIO)),
        ];
        for (error, seen) in errors {
            for is_read in [true, false] {
                assert_eq!(Status::of_result(Err(error), is_read).result(), Err(seen), "{error:?}");
            }
        }
        assert_eq!(Status::of_result(Ok(()), true).result(), Ok(()));
    }

    #[test]
    fn codes_are_the_specifications() {
        assert_eq!(Status::INVALID_QUEUE_DELETION.bits(), 0x10c);
        assert_eq!(Status::UNRECOVERED_READ_ERROR.without_retry().bits(), 0x4281);
        assert_eq!((Status::WRITE_FAULT.kind(), Status::WRITE_FAULT.code()), (StatusType::Media, 0x80));
        assert!(Status::from_bits(0x4000).is_success(), "a mark is no code");
        assert_eq!(Status::from_bits(0x0286).result(), Err(StorageError::Medium));
        assert_eq!(Status::from_bits(0x07ff).result(), Err(StorageError::Errno(libc::EIO)));
    }
}
