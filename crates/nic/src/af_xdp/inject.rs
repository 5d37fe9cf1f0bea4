//! [`Injector`]: many frames through a veth device in one system call, without a socket buffer for each.
//!
//! Sending by an AF_XDP ring in copy mode makes of every frame a socket buffer, and veth copies that once more for the XDP
//! program at its other end: 0.5 µs of a small frame, over 1 µs of a full one. `BPF_PROG_TEST_RUN` with live frames runs
//! `bpf/inject.c` once per frame instead, and redirects a page: 0.1 to 0.2 µs each, after some 8 µs for the call. So small
//! batches go by the ring, large ones by this ([`is_worthwhile`]), and both end up in the same queue in order.
//!
//! Frames are copied into the batch, which this process shares with the program, so their buffers are free at once. The program reads
//! no other memory. The device's other end must run its receive processing as NAPI, which veth does with an XDP program or GRO
//! there; [`Injector::is_ready`] looks from time to time whether it still does.

use super::account::Account;
use super::batch::{BATCH_FRAMES_MAX, Batch, FRAME_BYTES_MAX, FRAME_BYTES_MIN, Token, map_batch, unmap_batch};
use super::injection::{HandedInjector, Injection, LOADING};
use crate::base::errno;
use crate::error::DeviceError;
use crate::link::{Link, Namespace, Observer};
use std::cell::{Cell, RefCell};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::ptr::NonNull;
use std::time::{Duration, Instant};

/// Frames between two looks whether the softirq must run; a quarter of veth's ring, so that it can't overflow.
const RUN_FRAMES: u32 = 64;
/// Between two looks at the device, and before another attempt when a call has sent nothing: a look takes some ten microseconds, and
/// what is sent into a link that has just changed is lost until then.
const LOOK_INTERVAL: Duration = Duration::from_millis(100);
/// Between two looks whatever they are for: what was sent before the one has left by the other.
const LOOK_INTERVAL_MIN: Duration = Duration::from_millis(20);
/// A call that takes this long patches kernel code each time: see [`Injector::is_quick`].
const CALL_TIME_MAX: Duration = Duration::from_millis(2);
/// Runs of a batch in a row that send nothing: the row is no longer this sender's, or not now.
const FRUITLESS_RUNS_MAX: u32 = 2;

const BPF_PROG_TEST_RUN: i64 = 10;
const BPF_F_TEST_XDP_LIVE_FRAMES: u32 = 1 << 1;

/// What a run starts with: the frame's bytes mean nothing.
#[repr(C)]
struct Template {
    token: Token,
    frame: [u8; FRAME_BYTES_MAX],
}

/// What a call costs, nanoseconds, and what it saves of a frame's and of a byte's way by the ring. Measured with
/// `examples/raw_echo.rs --single` with and without `--ring`; only their proportion matters.
const CALL_NS: usize = 6_500;
const SAVED_NS_PER_FRAME: usize = 400;
const BYTES_PER_SAVED_NS: usize = 2;

/// Whether sending so many frames of so many bytes together by [`Injector::send`] is quicker than by the ring.
#[inline]
pub(super) fn is_worthwhile(frames: usize, bytes: usize) -> bool {
    frames * SAVED_NS_PER_FRAME + bytes / BYTES_PER_SAVED_NS >= CALL_NS
}

/// A sender's way through the program.
pub(super) struct Injector {
    batch: NonNull<Batch>,
    /// `BPF_PROG_TEST_RUN`'s, filled once.
    attributes: Box<TestRun>,
    _template: Box<Template>,
    _context: Box<Context>,
    /// Without it, the process that made the row looks after the device. It takes the device out of the row when it takes no frames.
    watch: Option<Watch>,
    is_ready: bool,
    next_look: Instant,
    /// As they came.
    held: HandedInjector,
    /// The namespace in which a program of our own is attached.
    _keeper: Option<Namespace>,
}

/// What a sender knows of its device.
struct Watch {
    observer: Observer,
    account: RefCell<Account>,
    looked_at: Cell<Instant>,
}

impl Watch {
    fn open(observer: Observer) -> Option<Watch> {
        let account = Account::open(0, observer.look()?.departures);
        Some(Watch { observer, account: account.into(), looked_at: Instant::now().into() })
    }

    /// Whether the device takes frames now. `sent`: frames that it has been given, either way.
    fn look(&self, now: Instant, sent: u64) -> bool {
        let Some(look) = self.observer.look() else { return false };
        if now.saturating_duration_since(self.looked_at.get()) >= LOOK_INTERVAL_MIN {
            self.looked_at.set(now);
            self.account.borrow_mut().look(sent, look.departures);
        }
        look.takes_frames
    }
}

/// `union bpf_attr` for `BPF_PROG_TEST_RUN`.
#[repr(C)]
#[derive(Default)]
struct TestRun {
    program: u32,
    result: u32,
    data_bytes_in: u32,
    data_bytes_out: u32,
    data_in: u64,
    data_out: u64,
    repeat: u32,
    duration_ns: u32,
    context_bytes_in: u32,
    context_bytes_out: u32,
    context_in: u64,
    context_out: u64,
    flags: u32,
    cpu: u32,
    batch_size: u32,
    padding: u32,
}

/// `struct xdp_md` as `BPF_PROG_TEST_RUN` takes it: offsets within what is given to it.
#[repr(C)]
#[derive(Default)]
struct Context {
    data: u32,
    data_end: u32,
    data_meta: u32,
    ingress_interface: u32,
    receive_queue: u32,
    egress_interface: u32,
}

impl Injector {
    /// Loads the program for oneself.
    ///
    /// # Errors
    /// [`DeviceError::KernelTooOld`] where it would not be quicker than the ring; else what the system says.
    pub(super) fn open(link: &Link, namespace: Option<&Namespace>) -> Result<Injector, DeviceError> {
        let system = |error| DeviceError::system(LOADING, error);
        let namespace = match namespace {
            Some(namespace) => namespace.clone(),
            None => Namespace::current().map_err(system)?,
        };
        let index = link.index;
        let observer = namespace.within(|| Observer::open(index)).and_then(|opened| opened).map_err(system)?;
        let mut injection = Injection::load()?;
        let keeper = Namespace::anonymous().map_err(system)?;
        keeper.within(|| injection.keep_at(LOOPBACK)).map_err(system)??;
        let batch = Injection::make_batch()?;
        let handed = injection.hand_over(0, batch, index, &namespace)?;
        let mut injector = Injector::over(handed, Some(observer))?;
        injector._keeper = Some(keeper);
        Ok(injector)
    }

    /// Over a program somebody else loaded. Needs no privilege.
    ///
    /// # Errors
    /// As [`open`](Injector::open).
    pub(super) fn over(handed: HandedInjector, observer: Option<Observer>) -> Result<Injector, DeviceError> {
        let system = |error| DeviceError::system(LOADING, error);
        let batch = map_batch(handed.batch.as_fd()).map_err(system)?;
        // SAFETY: `map_batch`'s mapping, as long as a batch; the process that made it has written these.
        let (row, key) =
            unsafe { ((&raw const (*batch.as_ptr()).row).read(), (&raw const (*batch.as_ptr()).key).read()) };
        // The last process that had it may have left frames in it.
        // SAFETY: `map_batch`'s mapping, as long as a batch, and no program runs with it now.
        unsafe { (&raw mut (*batch.as_ptr()).count).write(0) };
        let token = Token { row, reserved: 0, key };
        let template = Box::new(Template { token, frame: [0; FRAME_BYTES_MAX] });
        let context = Box::new(Context {
            data: size_of::<Token>() as u32,
            data_end: size_of::<Template>() as u32,
            ..Context::default()
        });
        let attributes = Box::new(TestRun {
            program: handed.program.as_raw_fd() as u32,
            data_bytes_in: size_of::<Template>() as u32,
            data_in: (&raw const *template).expose_provenance() as u64,
            context_bytes_in: size_of::<Context>() as u32,
            context_in: (&raw const *context).expose_provenance() as u64,
            flags: BPF_F_TEST_XDP_LIVE_FRAMES,
            batch_size: RUN_FRAMES,
            ..TestRun::default()
        });
        let mut injector = Injector {
            batch,
            attributes,
            _template: template,
            _context: context,
            watch: observer.and_then(Watch::open),
            is_ready: false,
            next_look: Instant::now(),
            held: handed,
            _keeper: None,
        };
        match injector.is_quick() {
            true => Ok(injector),
            false => Err(DeviceError::KernelTooOld { missing: "quick BPF_PROG_TEST_RUN with live frames" }),
        }
    }

    /// Its descriptors, for the process that goes on with the queue.
    pub(super) fn descriptors(&self) -> [BorrowedFd<'_>; 2] {
        let HandedInjector { program, batch } = &self.held;
        [program.as_fd(), batch.as_fd()]
    }

    /// Whether the device takes frames this way now, of which it has been given `sent` so far, either way. Frames that are sent
    /// between a change of the link and the next look may be lost: the looks count them.
    #[inline]
    pub(super) fn is_ready(&mut self, sent: impl FnOnce() -> u64) -> bool {
        let now = Instant::now();
        if now >= self.next_look {
            self.next_look = now + LOOK_INTERVAL;
            self.is_ready = self.watch.as_ref().is_none_or(|watch| watch.look(now, sent()));
        }
        self.is_ready
    }

    /// Sends frames, at most [`BATCH_FRAMES_MAX`], each of a length from [`FRAME_BYTES_MIN`] to [`FRAME_BYTES_MAX`]. Returns how many:
    /// of fewer the rest is to go another way, and so is all else until the next look. Their memory is free to be used again then.
    ///
    /// # Safety
    /// The frames are readable, and nobody writes to them meanwhile.
    #[inline]
    pub(super) unsafe fn send(&mut self, frames: impl Iterator<Item = (*const u8, u32)>) -> usize {
        let batch = self.batch.as_ptr();
        let mut count = 0;
        for (address, length) in frames.take(BATCH_FRAMES_MAX) {
            // The driver takes no others from its user.
            debug_assert!((FRAME_BYTES_MIN..=FRAME_BYTES_MAX).contains(&(length as usize)));
            let length = (length as usize).min(FRAME_BYTES_MAX);
            // SAFETY: the mapping is writable and ours alone between calls; the index is within the arrays, and a slot has more bytes
            // than the longest frame. The source is the caller's frame.
            unsafe {
                std::ptr::copy_nonoverlapping(address, (&raw mut (*batch).slots[count].bytes).cast(), length);
                (&raw mut (*batch).lengths[count]).write(length as u16);
            }
            count += 1;
        }
        let (mut start, mut fruitless) = (0, 0);
        // SAFETY: the mapping lives as long as `self`, and is ours alone between calls: the program runs within `run` only.
        unsafe { (&raw mut (*batch).count).write(count as u32) };
        // Each round sends a frame or is counted.
        while start < count {
            // SAFETY: as for `count`.
            unsafe { (&raw mut (*batch).next).write(start as u32) };
            let outcome = self.run((count - start) as u32);
            // SAFETY: as for `count`; the read is volatile since the program wrote it.
            let next = unsafe { (&raw const (*batch).next).read_volatile() } as usize;
            fruitless = if next > start { 0 } else { fruitless + 1 };
            start = next.clamp(start, count);
            // A signal ends a call early.
            let goes_on = matches!(outcome, Ok(()) | Err(libc::EINTR));
            if start < count && (!goes_on || fruitless >= FRUITLESS_RUNS_MAX && outcome.is_ok()) {
                self.is_ready = false;
                self.next_look = Instant::now() + LOOK_INTERVAL;
                break;
            }
        }
        start
    }

    /// Frames that were lost on their way to the other end, by either way, since this was opened. `None`: this process can't see the
    /// device. `sent`: frames that it has been given so far.
    pub(super) fn lost_count(&self, sent: u64) -> Option<u64> {
        let watch = self.watch.as_ref()?;
        watch.look(Instant::now(), sent);
        Some(watch.account.borrow().lost())
    }

    fn run(&mut self, repeat: u32) -> Result<(), i32> {
        self.attributes.repeat = repeat;
        let attributes: *mut TestRun = &raw mut *self.attributes;
        errno::kept(|| {
            // SAFETY: a live attribute block of this length; it names the live template and context, which are only read.
            match unsafe { libc::syscall(libc::SYS_bpf, BPF_PROG_TEST_RUN, attributes, size_of::<TestRun>()) } {
                0 => Ok(()),
                _ => Err(io::Error::last_os_error().raw_os_error().unwrap_or(libc::EIO)),
            }
        })
    }

    /// A kernel that knows the program from an attachment runs it at once; else each call patches the kernel's code, and
    /// takes milliseconds. Runs with an empty batch send nothing.
    fn is_quick(&mut self) -> bool {
        (0..3).any(|_| {
            let start = Instant::now();
            self.run(2).is_ok() && start.elapsed() < CALL_TIME_MAX
        })
    }
}

impl Drop for Injector {
    fn drop(&mut self) {
        unmap_batch(self.batch);
    }
}

/// Interface number of loopback in every namespace.
const LOOPBACK: u32 = 1;

#[cfg(test)]
mod tests {
    use super::*;
    use std::mem::offset_of;
    use std::os::fd::OwnedFd;

    #[test]
    fn layouts_are_the_programs() {
        assert_eq!((size_of::<Token>(), offset_of!(Token, key)), (24, 8));
        assert_eq!((offset_of!(Batch, row), offset_of!(Batch, next), offset_of!(Batch, count)), (16, 20, 24));
        assert_eq!((offset_of!(Batch, lengths), offset_of!(Batch, slots)), (64, 576));
        assert_eq!(size_of::<Batch>(), 576 + 1_600 * BATCH_FRAMES_MAX);
        assert_eq!((size_of::<TestRun>(), size_of::<Context>()), (80, 24));
        // Metadata before a frame has at most 32 bytes, a multiple of 4.
        assert_eq!(offset_of!(Template, frame), size_of::<Token>());
    }

    #[test]
    fn small_batches_go_by_the_ring() {
        assert!(!is_worthwhile(1, 1514) && !is_worthwhile(5, 5 * 1514) && !is_worthwhile(15, 15 * 60));
        assert!(is_worthwhile(6, 6 * 1514) && is_worthwhile(16, 16 * 60));
    }

    #[test]
    fn an_injector_is_two_descriptors() {
        let descriptors = |count: usize| (0..count).map(|_| OwnedFd::from(std::fs::File::open("/dev/null").unwrap()));
        assert!(HandedInjector::from_descriptors(descriptors(2)).is_some());
        for count in [0, 1, 3, 4] {
            assert!(HandedInjector::from_descriptors(descriptors(count)).is_none(), "{count} descriptors");
        }
    }
}
