//! [`Qanat`]: what a program has a pointer to, and how a call gets from there to [`Native`].

use crate::native::Native;
use crate::status::{Code, Refused, Status};
use qanat::Doorbell;
use std::cell::{Cell, UnsafeCell};
use std::ffi::{CStr, c_char};
use std::mem::ManuallyDrop;
use std::sync::atomic::{AtomicU64, Ordering};

/// Threads that have started a `qanat` or asked for one, so far.
static THREADS: AtomicU64 = AtomicU64::new(0);

thread_local! {
    /// The thread's number; 0: it has none yet.
    static HERE: Cell<u64> = const { Cell::new(0) };
}

/// A program's stack, wherever that is.
pub struct Qanat {
    /// May be rung from any thread, and from a signal handler.
    pub(super) waker: Doorbell,
    /// The thread that may use the rest.
    thread: u64,
    is_entered: Cell<bool>,
    native: UnsafeCell<ManuallyDrop<Native>>,
}

/// Ends a call.
struct Entered<'a>(&'a Cell<bool>);

impl Drop for Entered<'_> {
    fn drop(&mut self) {
        self.0.set(false);
    }
}

/// A number that no other thread ever has.
#[inline]
fn this_thread() -> u64 {
    match HERE.get() {
        0 => {
            HERE.set(THREADS.fetch_add(1, Ordering::Relaxed) + 1);
            HERE.get()
        }
        number => number,
    }
}

impl Qanat {
    pub(super) fn new(native: Native, waker: Doorbell) -> Box<Qanat> {
        let native = UnsafeCell::new(ManuallyDrop::new(native));
        Box::new(Qanat { waker, thread: this_thread(), is_entered: Cell::new(false), native })
    }

    /// Over a runtime of the caller's, for whoever counts what a call costs.
    ///
    /// # Errors
    /// The process is out of descriptors.
    pub fn over(runtime: qanat::Runtime) -> std::io::Result<*mut Qanat> {
        Ok(Box::into_raw(Qanat::new(Native::over(runtime)?, Doorbell::new()?)))
    }

    /// Ends it: what is inside is dropped as within a call, so that what the program does meanwhile is refused.
    ///
    /// # Safety
    /// It is of [`new`](Qanat::new), nothing is inside, and it is used no more.
    pub(super) unsafe fn end(qanat: *mut Qanat) {
        // SAFETY: the caller's promise. Those that are called meanwhile have a reference like this one, and go no further.
        let inside = unsafe { &*qanat };
        inside.is_entered.set(true);
        // SAFETY: it is dropped here only, and then the whole of it, to which there is no reference any more.
        unsafe {
            ManuallyDrop::drop(&mut *inside.native.get());
            drop(Box::from_raw(qanat));
        }
    }

    /// Whether the call is from the thread that started it, and from outside.
    #[inline]
    pub(super) fn is_free(&self) -> bool {
        self.thread == this_thread() && !self.is_entered.get()
    }
}

/// Does what a call is for.
///
/// # Safety
/// `qanat` is null, or of `qanat_start` and not ended.
#[inline]
pub(super) unsafe fn enter(qanat: *mut Qanat, call: impl FnOnce(&mut Native) -> Result<(), Refused>) -> Code {
    // SAFETY: the caller's promise.
    let Some(qanat) = (unsafe { qanat.as_ref() }) else {
        return Refused::Argument("qanat: a null pointer").code();
    };
    if !qanat.is_free() {
        return Status::Busy as Code;
    }
    qanat.is_entered.set(true);
    let _entered = Entered(&qanat.is_entered);
    // SAFETY: only this thread comes here, and `is_entered` keeps calls from within calls away: there is no other reference.
    match call(unsafe { &mut *qanat.native.get() }) {
        Ok(()) => Status::Ok as Code,
        Err(refused) => refused.code(),
    }
}

/// What a pointer is to.
///
/// # Safety
/// It is null, or to a `T`.
#[inline]
pub(super) unsafe fn read<'a, T>(pointer: *const T, name: &'static str) -> Result<&'a T, Refused> {
    // SAFETY: the caller's promise.
    unsafe { pointer.as_ref() }.ok_or(Refused::Argument(name))
}

/// Refuses a null pointer for a result that has to have a place.
#[inline]
pub(super) fn wanted<T>(place: *mut T, name: &'static str) -> Result<(), Refused> {
    if place.is_null() { Err(Refused::Argument(name)) } else { Ok(()) }
}

/// Puts a result where the program wants it, unless it does not.
///
/// # Safety
/// `place` is null, or may be written.
#[inline]
pub(super) unsafe fn put<T>(place: *mut T, value: T) {
    if !place.is_null() {
        // SAFETY: the caller's promise.
        unsafe { place.write(value) };
    }
}

/// A program's text.
///
/// # Safety
/// It is null, or ends with a zero byte.
pub(super) unsafe fn text<'a>(pointer: *const c_char, name: &'static str) -> Result<&'a str, Refused> {
    if pointer.is_null() {
        return Err(Refused::Argument(name));
    }
    // SAFETY: the caller's promise.
    let text = unsafe { CStr::from_ptr(pointer) };
    text.to_str().map_err(|_| Refused::Argument(name))
}

/// A program's bytes. A null pointer is good for none.
///
/// # Safety
/// `data` has `length` bytes, or is null.
#[inline]
pub(super) unsafe fn bytes<'a>(data: *const u8, length: usize) -> Result<&'a [u8], Refused> {
    if length == 0 {
        return Ok(&[]);
    }
    if data.is_null() {
        return Err(Refused::Argument("data: a null pointer, and a length"));
    }
    if isize::try_from(length).is_err() {
        return Err(Refused::Argument("length: no memory is so long"));
    }
    // SAFETY: the caller's promise.
    Ok(unsafe { std::slice::from_raw_parts(data, length) })
}
