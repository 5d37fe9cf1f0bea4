//! [`Injector`]: many frames through a veth device in one system call, without a socket buffer for each.
//!
//! Sending by an AF_XDP ring in copy mode makes of every frame a socket buffer, and veth copies that once more for the XDP
//! program at its other end: 0.5 µs of a small frame, over 1 µs of a full one. `BPF_PROG_TEST_RUN` with live frames runs
//! `bpf/inject.c` once per frame instead, and redirects a page: 0.1 to 0.2 µs each, after some 8 µs for the call. So small
//! batches go by the ring, large ones by this ([`is_worthwhile`]), and both end up in the same queue in order.
//!
//! Frames are copied when the call returns: their buffers are free at once. The device's other end must run its
//! receive processing as NAPI, which veth does with an XDP program or GRO there; [`Injector::is_ready`] looks from time
//! to time whether it still does.

use super::program::{create_link, load_error, map};
use super::queue::LINK_HEADER_MAX;
use crate::error::DeviceError;
use crate::link::{Link, Namespace, Observer};
use aya::Ebpf;
use aya::maps::{DevMap, Map, MapData};
use aya::programs::Xdp;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::ptr::NonNull;
use std::time::{Duration, Instant};

/// Frames of one call.
pub(super) const BATCH_FRAMES_MAX: usize = 256;
/// Longest frame.
pub(super) const FRAME_BYTES_MAX: usize = 1536;
/// Frames between two looks whether the softirq must run; a quarter of veth's ring, so that it can't overflow.
const RUN_FRAMES: u32 = 64;
/// Calls between two looks at the device.
const CALLS_PER_LOOK: u32 = 128;
/// A call that takes this long patches kernel code each time: see [`Injector::is_quick`].
const CALL_TIME_MAX: Duration = Duration::from_millis(2);

const BPF_PROG_TEST_RUN: i64 = 10;
const BPF_F_TEST_XDP_LIVE_FRAMES: u32 = 1 << 1;
const XDP_FLAGS_SKB_MODE: u32 = 1 << 1;
const LOOPBACK: u32 = 1;

const LOADING: &str = "prepare to inject frames";

static OBJECT: &[u8] = aya::include_bytes_aligned!(concat!(env!("OUT_DIR"), "/inject.o"));

#[repr(C)]
#[derive(Clone, Copy)]
struct Slot {
    address: u64,
    length: u32,
    reserved: u32,
}

/// Twin of `struct batch`.
#[repr(C)]
struct Batch {
    next: u32,
    count: u32,
    slots: [Slot; BATCH_FRAMES_MAX],
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

/// Whether all packets of a link with this MTU are short enough, a VLAN's tag included.
pub(super) const fn takes(mtu: u32) -> bool {
    mtu as usize + LINK_HEADER_MAX as usize <= FRAME_BYTES_MAX
}

/// The program, loaded for one sender: made ready ahead of time, for it takes some 50 ms. What it hands over is all the
/// authority a sender needs, and no more: an unprivileged process that was handed it sends through one device, from its
/// own memory.
pub struct PreparedInjector {
    object: Ebpf,
    attachment: OwnedFd,
    private_namespace: Namespace,
}

/// What a sender is handed.
#[derive(Debug)]
pub struct HandedInjector {
    /// The program.
    pub program: OwnedFd,
    /// The map with the batch.
    pub batch: OwnedFd,
    /// The program's attachment and the namespace it is in: as long as they are held, runs are quick, whoever else dies.
    pub attachment: (OwnedFd, OwnedFd),
}

impl HandedInjector {
    /// As they travel.
    pub fn into_descriptors(self) -> [OwnedFd; 4] {
        [self.program, self.batch, self.attachment.0, self.attachment.1]
    }

    /// As they arrive; `None` if it isn't four.
    pub fn from_descriptors(mut descriptors: impl Iterator<Item = OwnedFd>) -> Option<HandedInjector> {
        let mut next = || descriptors.next();
        Some(HandedInjector { program: next()?, batch: next()?, attachment: (next()?, next()?) })
    }
}

/// A sender's way through the program.
pub(super) struct Injector {
    batch: NonNull<Batch>,
    /// `BPF_PROG_TEST_RUN`'s, filled once.
    attributes: Box<TestRun>,
    _template: Box<[u8; FRAME_BYTES_MAX]>,
    /// Without it the device is known to take frames as long as it lives.
    observer: Option<Observer>,
    dropped_before: u64,
    is_ready: bool,
    calls_until_look: u32,
    /// As they came.
    held: HandedInjector,
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

impl PreparedInjector {
    /// Loads the program.
    ///
    /// # Errors
    /// What the system says.
    pub fn load() -> Result<PreparedInjector, DeviceError> {
        let system = |error| DeviceError::system(LOADING, error);
        let mut object = super::object::load(OBJECT).map_err(load_error)?;
        let private_namespace = Namespace::anonymous().map_err(system)?;
        let attachment = private_namespace.within(|| attach(&mut object)).map_err(system)??;
        Ok(PreparedInjector { object, attachment, private_namespace })
    }

    /// Names the device, and gives what a sender needs to outlive this. For one sender only: the batch is its own.
    ///
    /// # Errors
    /// What the system says.
    pub(super) fn hand_over(mut self, index: u32, namespace: &Namespace) -> Result<HandedInjector, DeviceError> {
        let system = |error| DeviceError::system(LOADING, error);
        let name_device = || -> Result<(), DeviceError> {
            // The program holds the map.
            let mut devices: DevMap<MapData> = map(&mut self.object, "devices")?;
            devices.set(0, index, None, 0).map_err(|error| system(io::Error::other(error)))
        };
        namespace.within(name_device).map_err(system)??;
        let program = program(&mut self.object)?.fd().map_err(|error| load_error(error.into()))?;
        let program = program.as_fd().try_clone_to_owned().map_err(system)?;
        let Some(Map::Array(batches)) = self.object.map("batches") else {
            return Err(DeviceError::Invalid { reason: "the object has no map batches: rebuild".to_owned() });
        };
        let batch = batches.fd().as_fd().try_clone_to_owned().map_err(system)?;
        let namespace = self.private_namespace.as_fd().try_clone_to_owned().map_err(system)?;
        Ok(HandedInjector { program, batch, attachment: (self.attachment, namespace) })
    }
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
        Injector::over(PreparedInjector::load()?.hand_over(index, &namespace)?, Some(observer))
    }

    /// Over a program somebody else loaded. Needs no privilege.
    ///
    /// # Errors
    /// As [`open`](Injector::open).
    pub(super) fn over(handed: HandedInjector, observer: Option<Observer>) -> Result<Injector, DeviceError> {
        let batch = map_batch(handed.batch.as_fd()).map_err(|error| DeviceError::system(LOADING, error))?;
        let mut template = Box::new([0; FRAME_BYTES_MAX]);
        let attributes = Box::new(TestRun {
            program: handed.program.as_raw_fd() as u32,
            data_bytes_in: FRAME_BYTES_MAX as u32,
            data_in: template.as_mut_ptr() as u64,
            flags: BPF_F_TEST_XDP_LIVE_FRAMES,
            batch_size: RUN_FRAMES,
            ..TestRun::default()
        });
        let mut injector = Injector {
            batch,
            attributes,
            _template: template,
            dropped_before: observer.as_ref().map_or(0, Observer::transmit_dropped),
            observer,
            is_ready: false,
            calls_until_look: 0,
            held: handed,
        };
        match injector.is_quick() {
            true => Ok(injector),
            false => Err(DeviceError::KernelTooOld { missing: "quick BPF_PROG_TEST_RUN with live frames" }),
        }
    }
}

impl Injector {
    /// Its descriptors, for who goes on with the queue.
    pub(super) fn descriptors(&self) -> [BorrowedFd<'_>; 4] {
        let HandedInjector { program, batch, attachment: (first, second) } = &self.held;
        [program.as_fd(), batch.as_fd(), first.as_fd(), second.as_fd()]
    }

    /// Whether the device takes frames this way now. Looks at it every [`CALLS_PER_LOOK`] calls: frames sent after it
    /// stopped and before the look are lost.
    #[inline]
    pub(super) fn is_ready(&mut self) -> bool {
        match self.calls_until_look.checked_sub(1) {
            Some(left) => self.calls_until_look = left,
            None => {
                self.calls_until_look = CALLS_PER_LOOK;
                self.is_ready = self.observer.as_ref().is_none_or(Observer::takes_frames);
            }
        }
        self.is_ready
    }

    /// Sends frames: addresses in this process and lengths, at most [`BATCH_FRAMES_MAX`]. Returns how many the program
    /// refused. All their memory is free to be used again then.
    ///
    /// # Errors
    /// The error number: nothing is known of what was sent.
    ///
    /// # Safety
    /// The frames are readable.
    #[inline]
    pub(super) unsafe fn send(&mut self, frames: impl Iterator<Item = (*const u8, u32)>) -> Result<u64, i32> {
        let batch = self.batch.as_ptr();
        let mut count = 0;
        for (address, length) in frames.take(BATCH_FRAMES_MAX) {
            let slot = Slot { address: address as u64, length, reserved: 0 };
            // SAFETY: the mapping is writable and ours alone between calls; the index is within the array.
            unsafe { (&raw mut (*batch).slots[count]).write(slot) };
            count += 1;
        }
        // SAFETY: as above. The program runs within `run` only.
        unsafe { (&raw mut (*batch).count).write(count as u32) };
        let (mut start, mut refused) = (0, 0);
        let mut retried = None;
        // Each round sends a frame, has the first that is left tried again, or leaves it out.
        while start < count {
            // SAFETY: as above.
            unsafe { (&raw mut (*batch).next).write(start as u32) };
            self.run((count - start) as u32)?;
            // SAFETY: as above; volatile, for the program wrote it.
            start = (unsafe { (&raw const (*batch).next).read_volatile() } as usize).clamp(start, count);
            if start == count {
                break;
            }
            if retried == Some(start) {
                (start, refused) = (start + 1, refused + 1);
                continue;
            }
            retried = Some(start);
            // SAFETY: a slot written above, and the caller's frame.
            unsafe { fault_in((&raw const (*batch).slots[start]).read()) };
        }
        Ok(refused)
    }

    /// Frames the device dropped since this was opened, however they came: its other end's queue was full. `None`: this
    /// process can't see the device.
    pub(super) fn lost_count(&self) -> Option<u64> {
        Some(self.observer.as_ref()?.transmit_dropped().saturating_sub(self.dropped_before))
    }

    fn run(&mut self, repeat: u32) -> Result<(), i32> {
        self.attributes.repeat = repeat;
        let attributes: *mut TestRun = &raw mut *self.attributes;
        // SAFETY: a live attribute block of this length; it names the live template and a program that reads the frames
        // of the batch by checked copies.
        match unsafe { libc::syscall(libc::SYS_bpf, BPF_PROG_TEST_RUN, attributes, size_of::<TestRun>()) } {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error().raw_os_error().unwrap_or(libc::EIO)),
        }
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
        // SAFETY: the mapping of `map_batch`, of this length; nothing refers to it any more.
        unsafe { libc::munmap(self.batch.as_ptr().cast(), size_of::<Batch>()) };
    }
}

/// A page that this process has not touched yet isn't in its page table, though another process wrote the frame there; nor
/// is one that the kernel is about to move. The program can't have it fetched; a look does.
///
/// # Safety
/// The frame is readable.
#[cold]
unsafe fn fault_in(frame: Slot) {
    let start = frame.address as *const u8;
    // A frame has a byte at least, and is shorter than a page.
    let last = start.wrapping_add((frame.length as usize).saturating_sub(1));
    // SAFETY: as the caller says.
    unsafe { (start.read_volatile(), last.read_volatile()) };
}

fn program(object: &mut Ebpf) -> Result<&mut Xdp, DeviceError> {
    let missing = || DeviceError::Invalid { reason: "the object has no program inject: rebuild".to_owned() };
    let program = object.program_mut("inject").ok_or_else(missing)?;
    program.try_into().map_err(|error: aya::programs::ProgramError| load_error(error.into()))
}

/// Attaches the program to the loopback device of a namespace that nobody is in: only so does the kernel's XDP dispatcher
/// know it.
fn attach(object: &mut Ebpf) -> Result<OwnedFd, DeviceError> {
    let program = program(object)?;
    program.load().map_err(|error| load_error(error.into()))?;
    let fd = program.fd().map_err(|error| load_error(error.into()))?;
    let link = create_link(fd.as_fd(), LOOPBACK, XDP_FLAGS_SKB_MODE);
    link.map_err(|error| DeviceError::system("attach the injecting program", error))
}

fn map_batch(map: BorrowedFd<'_>) -> io::Result<NonNull<Batch>> {
    // The value of a map of one such value. A descriptor of anything smaller is refused, or faults when used: the control plane
    // is trusted.
    let address = crate::place::map(map, 0, size_of::<Batch>(), 0)?;
    NonNull::new(address.cast::<Batch>()).ok_or_else(|| io::Error::other("mmap returned null"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn layouts_are_the_programs() {
        assert_eq!((size_of::<Slot>(), size_of::<Batch>()), (16, 8 + 16 * BATCH_FRAMES_MAX));
        assert_eq!(size_of::<TestRun>(), 80);
    }

    #[test]
    fn small_batches_go_by_the_ring() {
        assert!(!is_worthwhile(1, 1514) && !is_worthwhile(5, 5 * 1514) && !is_worthwhile(15, 15 * 60));
        assert!(is_worthwhile(6, 6 * 1514) && is_worthwhile(16, 16 * 60));
    }
}
