//! Messages about sockets that stay the kernel's: the first of each kind on standard error, all of them with `--explain`.

use crate::sys::explain::{explain, is_explaining, warn};
use crate::world::fallbacks::{Call, Fallback, KEPT, Why};
use crate::world::lock::lock;
use crate::world::processes::number;
use std::net::SocketAddr;
use std::os::fd::RawFd;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, PoisonError};

/// What was decided before there was a world.
static BEFORE: Mutex<Vec<Fallback>> = Mutex::new(Vec::new());

/// Notes that `fd` is the kernel's.
pub(crate) fn note(fd: RawFd, call: Call, address: SocketAddr, why: Why) {
    if crate::sys::wishes::wishes().is_none() || crate::sys::arena::is_inside() {
        return;
    }
    explain(format_args!("fd {fd}: {} {address}: the kernel's: {}", call.text(), why.text()));
    tell_once(call, address, why);
    let fallback = Fallback { process: number(), fd, call, address, why };
    if crate::world::lock::shared().is_some() {
        if let Ok(mut guard) = lock() {
            guard.fallbacks.push(fallback);
        }
        return;
    }
    let mut before = BEFORE.lock().unwrap_or_else(PoisonError::into_inner);
    if before.len() < KEPT {
        before.push(fallback);
    }
}

/// The kinds that this process has told of, or found told.
static TOLD: AtomicU32 = AtomicU32::new(0);

/// Tells of the first of each kind, once in all processes that share a world.
pub(crate) fn tell_once(call: Call, address: SocketAddr, why: Why) {
    let bit = why.bit();
    // It is looked at before it is written: each datagram that leaves by the kernel comes by here.
    let is_told = || TOLD.load(Ordering::Relaxed) & bit != 0 || TOLD.fetch_or(bit, Ordering::Relaxed) & bit != 0;
    if !why.is_told() || is_explaining() || crate::sys::wishes::wishes().is_none() || is_told() {
        return;
    }
    if crate::world::lock::shared().is_some()
        && let Ok(mut guard) = lock()
    {
        let others = guard.fallbacks.told;
        guard.fallbacks.told = others | bit;
        if others & bit != 0 {
            return;
        }
    }
    warn(format_args!(
        "{} {address}: the kernel's socket, not the card's: {} (said once; `qanat run --explain` tells of each)",
        call.text(),
        why.text()
    ));
}

/// There is a world now.
pub(crate) fn begin() {
    let before = std::mem::take(&mut *BEFORE.lock().unwrap_or_else(PoisonError::into_inner));
    let Ok(mut guard) = lock() else { return };
    guard.fallbacks.told |= TOLD.load(Ordering::Relaxed);
    for fallback in &before {
        guard.fallbacks.push(Fallback { process: number(), ..*fallback });
    }
}
