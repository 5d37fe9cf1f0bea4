//! Memory that is lent to the program.

use super::guard::{Qanat, enter, put, wanted};
use crate::status::{Code, Refused};

/// A block of memory to fill.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Block {
    /// The number that it is sent, written and released by.
    pub memory: u64,
    /// Its bytes, to be written until it is sealed or given away.
    pub data: *mut u8,
    /// How many.
    pub length: usize,
}

/// Gives memory to fill, and to send without a copy: for `length` bytes, or fewer, as `block->length` says (a net core has blocks of 65,536 at
/// most). The program fills it, seals it, sends it as often as it likes, and releases it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn qanat_block_new(qanat: *mut Qanat, length: usize, block: *mut Block) -> Code {
    // SAFETY: the program's promise, as the module says.
    unsafe {
        enter(qanat, |native| {
            if block.is_null() || length == 0 || length > 1 << 30 {
                return Err(Refused::Argument("block: a null pointer, or a length of 0 or of more than 2^30"));
            }
            let (memory, data, length) = native.block(length);
            put(block, Block { memory, data, length });
            Ok(())
        })
    }
}

/// Ends the filling of a block: its first `length` bytes can be sent from now on, and not be written any more.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn qanat_block_seal(qanat: *mut Qanat, block: u64, length: usize) -> Code {
    // SAFETY: the program's promise, as the module says.
    unsafe { enter(qanat, |native| native.seal(block, length)) }
}

/// Makes lent memory `length` bytes long and gives its bytes to be written: a datagram that is to be sent back, a block that is not sealed, what
/// was read from an area. What is new at the end has any bytes. What a connection has received is only to be read: QANAT_STATUS_INVALID.
/// QANAT_STATUS_TOO_LONG: there is no room for so many.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn qanat_writable(qanat: *mut Qanat, memory: u64, length: usize, data: *mut *mut u8) -> Code {
    // SAFETY: the program's promise, as the module says.
    unsafe {
        enter(qanat, |native| {
            wanted(data, "data: a null pointer")?;
            put(data, native.writable(memory, length)?);
            Ok(())
        })
    }
}

/// Gives memory back: what an event has lent, or a block. If it is of a connection, the peer may send so much more.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn qanat_release(qanat: *mut Qanat, memory: u64) -> Code {
    // SAFETY: the program's promise, as the module says.
    unsafe { enter(qanat, |native| native.release(memory)) }
}
