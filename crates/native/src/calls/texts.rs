//! Texts, and addresses as texts.

use super::guard::{put, text, wanted};
use crate::address::Address;
use crate::event::{CLOSES, Close};
use crate::status::{Code, Refused, STATUSES, Status, last_error};
use std::ffi::{CStr, c_char};
use std::net::SocketAddr;

/// The number of this interface. Functions are added without a change of it; whatever else changes is another number, and another
/// `libqanat-native.so`.
pub const VERSION: u32 = 1;

/// The number of the interface that the library has: QANAT_VERSION of the header that it goes with.
#[unsafe(no_mangle)]
pub extern "C" fn qanat_version() -> u32 {
    VERSION
}

fn text_of(number: Option<&'static CStr>) -> *const c_char {
    number.unwrap_or(c"unknown").as_ptr()
}

/// What a status means, in English.
#[unsafe(no_mangle)]
pub extern "C" fn qanat_status_text(status: i32) -> *const c_char {
    text_of(STATUSES.into_iter().find(|known| *known as Code == status).map(Status::text))
}

/// Why a connection ended, in English: `status` of QANAT_EVENT_CLOSED.
#[unsafe(no_mangle)]
pub extern "C" fn qanat_close_reason_text(reason: i32) -> *const c_char {
    text_of(CLOSES.into_iter().find(|known| *known as i32 == reason).map(Close::text))
}

/// Why a call of this thread was refused with QANAT_STATUS_INVALID or QANAT_STATUS_FAILED, the last of them, and the remedy. It is good until
/// the next such call.
#[unsafe(no_mangle)]
pub extern "C" fn qanat_last_error() -> *const c_char {
    last_error(CStr::as_ptr)
}

/// Reads an address and port: `10.77.0.2:80`, `[fd77::2]:80`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn qanat_address_parse(written: *const c_char, address: *mut Address) -> Code {
    // SAFETY: the program's promise, as the module says.
    let read = unsafe { text(written, "written: no text") };
    let parsed = read.and_then(|written| {
        wanted(address, "address: a null pointer")?;
        // An address of a link means nothing without it, and `qanat_address` has no place for it.
        let has_scope = |address: &SocketAddr| matches!(address, SocketAddr::V6(six) if six.scope_id() != 0);
        let wrong =
            Refused::Argument("written: no address and port, as in 10.77.0.2:80 or [fd77::2]:80; a scope is not known");
        written.parse::<SocketAddr>().ok().filter(|address| !has_scope(address)).ok_or(wrong)
    });
    match parsed {
        Ok(parsed) => {
            // SAFETY: the same.
            unsafe { put(address, Address::from(parsed)) };
            Status::Ok as Code
        }
        Err(refused) => refused.code(),
    }
}

/// Writes an address and port into `size` bytes, with a zero byte at its end: 64 are always enough.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn qanat_address_text(address: *const Address, text: *mut c_char, size: usize) -> Code {
    // SAFETY: the program's promise, as the module says.
    let written = match unsafe { super::connections::socket_address(address) } {
        Ok(address) => address.to_string(),
        Err(refused) => return refused.code(),
    };
    if text.is_null() || size <= written.len() {
        return Refused::Argument("text: a null pointer, or too few bytes: 64 are enough").code();
    }
    // SAFETY: `text` has `size` bytes, which are more than these and the zero.
    unsafe {
        std::ptr::copy_nonoverlapping(written.as_ptr(), text.cast(), written.len());
        text.add(written.len()).write(0);
    }
    Status::Ok as Code
}
