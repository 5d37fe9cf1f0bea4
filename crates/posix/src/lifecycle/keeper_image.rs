//! The library as a program of its own. The keeper is executed, not only forked, so that it has nothing of the program's memory. It can thus
//! drop to the least rights of those who share the world, and gives nothing away by that.
//!
//! The dynamic linker is told to run this library, which has an entry point for it. What the keeper needs of the world, it has as a program
//! has that [joins](crate::lifecycle::join): descriptors under the same numbers, memory at the same addresses.

use crate::lifecycle::signal_sockets::SignalSockets;
use crate::sys::descriptor::{self, Entry};
use crate::sys::libc_next;
use crate::sys::raw::{self, Call};
use crate::sys::this_process::class;
use crate::sys::{arena, page};
use crate::world::lock;
use libc::{Dl_info, c_char};
use std::ffi::{CStr, CString};
use std::os::fd::RawFd;

/// The dynamic linker, which runs this library.
const LINKER: &CStr = c"/lib64/ld-linux-x86-64.so.2";
/// Names what the keeper begins with.
const VARIABLE: &str = "QANAT_KEEPS";

/// What the keeper has.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Things {
    /// Where processes register, and where the keeper hears of it.
    pub(crate) registry: RawFd,
    pub(crate) waker: RawFd,
    pub(crate) successor: RawFd,
    /// What tells the program that the keeper is there.
    pub(crate) ready: RawFd,
    /// By which the program is ended when its card is gone.
    pub(crate) signal_sockets: SignalSockets,
}

/// Where this library was loaded from.
fn path() -> Option<CString> {
    let mut found = std::mem::MaybeUninit::<Dl_info>::zeroed();
    // SAFETY: the pointer is to a place with room for the answer.
    if unsafe { libc::dladdr((path as *const ()).cast(), found.as_mut_ptr()) } == 0 {
        return None;
    }
    // SAFETY: written by the call, and a string of the loader's.
    let name = unsafe { CStr::from_ptr(found.assume_init().dli_fname) };
    (!name.is_empty()).then(|| name.to_owned())
}

/// What is to be executed, made before the fork: the child takes no memory.
pub(crate) struct Image {
    ready: RawFd,
    arguments: Vec<CString>,
    environment: Vec<CString>,
}

impl Image {
    /// `None`: what it needs can't be told.
    pub(crate) fn new(things: &Things) -> Option<Image> {
        let (file, base) = arena::place()?;
        let shared = std::ptr::from_ref(lock::shared()?).addr();
        let own: Vec<String> =
            descriptor::all().filter(|(_, entry)| *entry == Entry::Own).map(|(fd, _)| fd.to_string()).collect();
        let Things { registry, waker, successor, ready, signal_sockets: SignalSockets { terminate_end, kill_end } } =
            *things;
        let words = [registry, waker, successor, ready, terminate_end, kill_end, file, page::file()]
            .map(|fd| fd.to_string())
            .join(" ");
        let name = crate::sys::this_process::program::program().replace(['=', ';', '\0'], "_");
        let value = format!("{VARIABLE}={words} {base} {shared};{};{name}", own.join(" "));
        let kept = crate::lifecycle::environment::kept().iter().filter(|(name, _)| name.as_slice() != b"LD_PRELOAD");
        let kept = kept.filter_map(|(name, value)| CString::new([name.as_slice(), b"=", value].concat()).ok());
        let arguments = vec![c"qanat-keeper".to_owned(), path()?];
        Some(Image { ready, arguments, environment: kept.chain(CString::new(value)).collect() })
    }

    /// Becomes it; returns if that can't be.
    pub(crate) fn execute(&self) {
        let own = descriptor::all().filter(|(_, entry)| *entry == Entry::Own).map(|(fd, _)| fd);
        for fd in own.chain([self.ready]) {
            // By their numbers, as what finds the C library's functions may have been in use when this process began.
            // SAFETY: the call takes no pointers.
            unsafe { raw::call(&Call::new(libc::SYS_fcntl, [fd as usize, libc::F_SETFD as usize, 0, 0, 0])) };
        }
        let pointers = |texts: &[CString]| -> [*const c_char; 64] {
            let mut all = [std::ptr::null(); 64];
            all.iter_mut().zip(texts.iter().take(63)).for_each(|(place, text)| *place = text.as_ptr());
            all
        };
        let (arguments, environment) = (pointers(&self.arguments), pointers(&self.environment));
        let places = [LINKER.as_ptr().addr(), arguments.as_ptr().addr(), environment.as_ptr().addr(), 0, 0];
        // SAFETY: the pointers are to C strings, and to arrays that end with a null pointer.
        unsafe { raw::call(&Call::new(libc::SYS_execve, places)) };
    }
}

/// Takes over what the environment tells of: what the keeper has, and the library's descriptors.
pub(crate) fn begin() -> Option<(Things, Vec<RawFd>)> {
    begin_with(&std::env::var(VARIABLE).ok()?)
}

/// Takes over what `text` tells of.
fn begin_with(text: &str) -> Option<(Things, Vec<RawFd>)> {
    let mut parts = text.splitn(3, ';');
    let numbers: Option<Vec<i64>> = parts.next()?.split(' ').map(|word| word.parse().ok()).collect();
    let own: Vec<RawFd> = parts.next()?.split(' ').filter_map(|word| word.parse().ok()).collect();
    crate::sys::this_process::program::keeps(parts.next()?.to_owned());
    let numbers = numbers?;
    let [registry, waker, successor, ready, terminate_end, kill_end, file, page, base, shared] = numbers.as_slice()
    else {
        return None;
    };
    let fd = |number: &i64| RawFd::try_from(*number).ok();
    let place = |number: &i64| usize::try_from(*number).ok();
    let (base, shared) = (place(base)?, place(shared)?);
    let things = Things {
        registry: fd(registry)?,
        waker: fd(waker)?,
        successor: fd(successor)?,
        ready: fd(ready)?,
        signal_sockets: SignalSockets { terminate_end: fd(terminate_end)?, kill_end: fd(kill_end)? },
    };
    for fd in &own {
        // SAFETY: the call takes no pointers.
        unsafe { libc_next::fcntl64(*fd, libc::F_SETFD, libc::FD_CLOEXEC as libc::c_ulong) };
    }
    class::look_around();
    arena::adopt(fd(file)?, fd(file)?, base).ok()?;
    page::adopt(fd(page)?).ok()?;
    crate::sys::shared_place::adopt(shared);
    let guard = lock::lock().ok()?;
    guard.holdings.places.iter().try_for_each(|place| place.map().ok())?;
    let mut extents = [None; crate::sys::this_process::departure::EXTENTS_MAX];
    // Not in the arena: they are read when the lock is given back.
    extents.iter_mut().zip(&guard.holdings.places).for_each(|(extent, place)| *extent = Some(place.extent()));
    drop(guard);
    let places = extents.into_iter().flatten().collect();
    crate::sys::this_process::departure::remember(shared, places);
    Some((things, own))
}
