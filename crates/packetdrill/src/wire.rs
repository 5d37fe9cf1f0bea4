//! What the script's own thread calls: packets, and time.

use libc::{c_int, c_longlong, c_void, size_t, timeval, useconds_t};
use qanat_posix::script;
use std::time::Duration;

/// Added to the stack's time, so that it looks like one of day: midnight of 2026-01-01.
const EPOCH: Duration = Duration::from_secs(1_767_225_600);

/// There is nothing to free: the process ends.
///
/// # Safety
/// None needed.
pub(crate) unsafe extern "C" fn free(_: *mut c_void) {}

/// # Safety
/// `packet` has `length` readable bytes.
pub(crate) unsafe extern "C" fn netdev_send(_: *mut c_void, packet: *const c_void, length: size_t) -> c_int {
    // SAFETY: `packet` has `length` readable bytes: this function's condition.
    let packet = unsafe { std::slice::from_raw_parts(packet.cast(), length) };
    // A packet before the first socket has nobody to go to.
    script::send(packet);
    0
}

/// # Safety
/// `packet` has `*length` writable bytes; `time_us` is valid.
pub(crate) unsafe extern "C" fn netdev_receive(
    _: *mut c_void,
    packet: *mut c_void,
    length: *mut size_t,
    time_us: *mut c_longlong,
) -> c_int {
    // SAFETY: `packet` has `*length` writable bytes; `time_us` is valid: this function's condition.
    unsafe {
        let target = std::slice::from_raw_parts_mut(packet.cast(), *length);
        // Never -1: packetdrill would ask again for ever.
        let (taken, time) = script::receive(target).unwrap_or((0, script::clock()));
        *length = taken;
        *time_us = (EPOCH + time).as_micros() as c_longlong;
    }
    0
}

/// # Safety
/// None needed.
pub(crate) unsafe extern "C" fn usleep(_: *mut c_void, time_us: useconds_t) -> c_int {
    script::sleep(Duration::from_micros(time_us.into()));
    0
}

/// # Safety
/// `time` is null or valid.
pub(crate) unsafe extern "C" fn gettimeofday(_: *mut c_void, time: *mut timeval, _: *mut c_void) -> c_int {
    let now = EPOCH + script::clock();
    // SAFETY: `time` is null or valid: this function's condition.
    if let Some(time) = unsafe { time.as_mut() } {
        *time = timeval { tv_sec: now.as_secs() as i64, tv_usec: now.subsec_micros().into() };
    }
    0
}
