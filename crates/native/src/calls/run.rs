//! Start, the loop, the end.

use super::guard::{Qanat, enter, put, wanted};
use super::options::Options;
use crate::address::Address;
use crate::event::Event;
use crate::native::Native;
use crate::options::Options as Asked;
use crate::place::PlaceError;
use crate::status::{Code, Refused, Status};
use qanat::{CommandError, Commands, Doorbell};
use std::os::fd::BorrowedFd;
use std::time::Duration;

/// Starts a stack where the options say. A null pointer for the usual options. `*qanat` is to be used by this thread only, and ended by
/// `qanat_end`, before the thread ends. Several may be started, each by a thread of its own.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn qanat_start(options: *const Options, qanat: *mut *mut Qanat) -> Code {
    if qanat.is_null() {
        return Refused::Argument("qanat: a null pointer").code();
    }
    // SAFETY: the program's promise, as the module says.
    let options = unsafe { options.as_ref() }.map_or_else(Asked::default, |options| options.0.clone());
    let started = || -> Result<Box<Qanat>, PlaceError> {
        let waker = Doorbell::new().map_err(|error| PlaceError::Lacks { what: "a doorbell", error })?;
        Ok(Qanat::new(Native::open(&options, &waker)?, waker))
    };
    match started() {
        Ok(started) => {
            // SAFETY: the same.
            unsafe { put(qanat, Box::into_raw(started)) };
            Status::Ok as Code
        }
        Err(why) => {
            // SAFETY: the same.
            unsafe { put(qanat, std::ptr::null_mut()) };
            Refused::Failed(why.to_string()).code()
        }
    }
}

/// Takes turns until something happens. `*events` are `*count` events, in order, and good until the next call of this function. They are
/// waited for `patience_ns` nanoseconds at most: 0 does not wait, less than 0 waits without end. If nothing has happened by then, there
/// are none, and the status is QANAT_STATUS_OK. What was commanded since the last call is sent first.
///
/// QANAT_STATUS_FAILED: the card, the interface or every net core is gone, with all connections, or somebody else has an own address. Nothing
/// more comes then: end it, and start anew.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn qanat_next(
    qanat: *mut Qanat,
    patience_ns: i64,
    events: *mut *const Event,
    count: *mut usize,
) -> Code {
    // SAFETY: the program's promise, as the module says.
    unsafe {
        put(events, std::ptr::null());
        put(count, 0);
        enter(qanat, |native| {
            wanted(events, "events: a null pointer")?;
            wanted(count, "count: a null pointer")?;
            let found = native.next(u64::try_from(patience_ns).ok().map(Duration::from_nanos))?;
            // An empty list has no place in memory.
            put(events, if found.is_empty() { std::ptr::null() } else { found.as_ptr() });
            put(count, found.len());
            Ok(())
        })
    }
}

/// Has `qanat_next` return with QANAT_EVENT_WOKEN. It may be called from any thread, and from a signal handler, as long as `qanat` has not been
/// ended.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn qanat_wake(qanat: *const Qanat) {
    if !qanat.is_null() {
        // SAFETY: the program's promise. The bell is never changed while there is a `qanat`.
        unsafe { (*qanat).waker.ring() };
    }
}

/// Has `qanat_next` tell of QANAT_EVENT_READABLE with `token` as long as the descriptor is readable: the program reads it. The
/// descriptor may be closed afterwards; `qanat_unwatch` ends the watch.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn qanat_watch(qanat: *mut Qanat, descriptor: i32, token: u64) -> Code {
    // SAFETY: the program's promise, as the module says.
    unsafe {
        enter(qanat, |native| {
            if descriptor < 0 {
                return Err(Refused::Argument("descriptor: less than 0"));
            }
            native.watch(BorrowedFd::borrow_raw(descriptor), token)
        })
    }
}

/// Ends the watch over all that was given with `token`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn qanat_unwatch(qanat: *mut Qanat, token: u64) -> Code {
    // SAFETY: the program's promise, as the module says.
    unsafe { enter(qanat, |native| native.unwatch(token)) }
}

/// Nanoseconds by the clock that timers go by. It has no date.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn qanat_now(qanat: *mut Qanat, nanoseconds: *mut u64) -> Code {
    // SAFETY: the program's promise, as the module says.
    unsafe {
        enter(qanat, |native| {
            wanted(nanoseconds, "nanoseconds: a null pointer")?;
            put(nanoseconds, native.now().as_nanos());
            Ok(())
        })
    }
}

/// The `index`th address that the stack has, from 0 on; its port is 0. QANAT_STATUS_STALE: there are fewer. With the kernel
/// placement these are the addresses of the options; none means all of the machine's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn qanat_address_at(qanat: *mut Qanat, index: usize, address: *mut Address) -> Code {
    // SAFETY: the program's promise, as the module says.
    unsafe {
        enter(qanat, |native| {
            wanted(address, "address: a null pointer")?;
            let found = native.addresses().get(index).ok_or(CommandError::Stale)?;
            put(address, Address::from(*found));
            Ok(())
        })
    }
}

/// Sets a timer: QANAT_EVENT_TIMER with `token` follows after so many nanoseconds. `timer` may be null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn qanat_set_timer(qanat: *mut Qanat, after_ns: u64, token: u64, timer: *mut u64) -> Code {
    // SAFETY: the program's promise, as the module says.
    unsafe {
        enter(qanat, |native| {
            native.look_at_clock();
            let set = native.command(|context| context.set_timer(Duration::from_nanos(after_ns), token))?;
            put(timer, set.to_token());
            Ok(())
        })
    }
}

/// Forgets a timer. QANAT_STATUS_STALE: it is not pending any more.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn qanat_cancel_timer(qanat: *mut Qanat, timer: u64) -> Code {
    // SAFETY: the program's promise, as the module says.
    unsafe {
        enter(qanat, |native| {
            let timer = qanat::TimerId::from_token(timer);
            match native.command(|context| context.cancel_timer(timer)) {
                true => Ok(()),
                false => Err(CommandError::Stale.into()),
            }
        })
    }
}

/// What differs between placements.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(C)]
pub enum Capability {
    /// QANAT_EVENT_ACKED means that the peer has the bytes.
    Acknowledges = 0,
    /// `qanat_send_room` knows.
    TellsSendRoom = 1,
    /// `qanat_connect` obeys `fast_open`.
    FastOpen = 2,
    /// There may be QANAT_EVENT_URGENT.
    Urgent = 3,
    /// There may be QANAT_EVENT_ADDRESS_CONFLICT.
    AddressConflicts = 4,
}

/// Whether this placement of the stack has a `qanat_capability`. QANAT_STATUS_UNSUPPORTED: it does not.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn qanat_has(qanat: *mut Qanat, capability: u32) -> Code {
    // SAFETY: the program's promise, as the module says.
    unsafe {
        enter(qanat, |native| {
            let all = native.command(|context| context.stack_capabilities());
            let has = match capability {
                number if number == Capability::Acknowledges as u32 => all.acknowledges,
                number if number == Capability::TellsSendRoom as u32 => all.tells_send_room,
                number if number == Capability::FastOpen as u32 => all.fast_open,
                number if number == Capability::Urgent as u32 => all.urgent,
                number if number == Capability::AddressConflicts as u32 => all.address_conflicts,
                _ => return Err(Refused::Argument("capability: there is none of this number")),
            };
            if has { Ok(()) } else { Err(CommandError::Unsupported.into()) }
        })
    }
}

/// Resets all connections that have not ended, and frees everything: card, areas, connections. A connection that was closed and has not
/// ended yet is reset, too: what it had left to send is lost, so wait for its QANAT_EVENT_CLOSED first. Memory that was lent to the program may
/// not be touched any more; what the program has lent is released. A null pointer is good. QANAT_STATUS_BUSY: from another thread, or from within
/// another call; nothing is freed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn qanat_end(qanat: *mut Qanat) -> Code {
    if qanat.is_null() {
        return Status::Ok as Code;
    }
    // SAFETY: the program's promise, as the module says.
    let status = unsafe {
        enter(qanat, |native| {
            native.finish();
            Ok(())
        })
    };
    if status == Status::Ok as Code {
        // SAFETY: it is of `qanat_start`, nothing is inside of it, and it is given back once.
        unsafe { Qanat::end(qanat) };
    }
    status
}
