//! The address of the part of a world that all its processes share. The [lock](crate::world::lock) knows what is there.

use std::ffi::c_void;
use std::sync::atomic::{AtomicPtr, Ordering};

static SHARED: AtomicPtr<c_void> = AtomicPtr::new(std::ptr::null_mut());

/// Its address; null: nothing is shared.
#[inline]
pub(crate) fn get() -> *mut c_void {
    SHARED.load(Ordering::Acquire)
}

/// It is there from now on.
pub(crate) fn set(shared: *mut c_void) {
    SHARED.store(shared, Ordering::Release);
}

/// What another process has made, at the same address.
pub(crate) fn adopt(shared: usize) {
    set(std::ptr::with_exposed_provenance_mut(shared));
}

/// Nothing is shared.
pub(crate) fn abandon() {
    set(std::ptr::null_mut());
}
