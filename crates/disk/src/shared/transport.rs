//! [`SharedTransport`]: the way of a driver to a disk core.

use super::bell::Bell;
use super::layout::{LayoutError, SharedLayout};
use super::page::{Page, Side};
use crate::nvme::spec::register;
use crate::nvme::{Held, Mapping, Nvme, NvmeError, NvmeOptions, Transport};
use qanat_nic::{Clock, Pool, Region};
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec};
use std::cell::Cell;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::rc::Rc;
use std::time::Duration;

/// How long a driver that waits for a register sleeps at once, nanoseconds: a disk core does not ring for each of them.
const NAP_NS: i64 = 1_000_000;

/// Registers and doorbells in shared memory, and a socket that wakes who sleeps.
///
/// The disk core is not believed: what it writes is judged by the driver as any controller's. If it ends without having said that it let
/// go of the memory, buffers under way never come back, since the device may still write there.
pub struct SharedTransport {
    page: Page,
    bell: Bell,
    /// It polls readable at all times.
    ready: OwnedFd,
    /// The core was told that the driver sleeps.
    sleeps: Cell<bool>,
    is_gone: bool,
    /// Is called while the driver waits, if the core is in this thread.
    turns: Option<Box<dyn FnMut()>>,
}

impl std::fmt::Debug for SharedTransport {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "SharedTransport({})", if self.is_gone { "gone" } else { "connected" })
    }
}

/// Why an area of a disk core can't be had.
#[derive(Debug, thiserror::Error)]
pub enum SharedError {
    /// The memory.
    #[error(transparent)]
    Memory(#[from] LayoutError),
    /// What the kernel says of a descriptor.
    #[error("an eventfd for the disk's doorbell: {0}")]
    Event(std::io::Error),
    /// The disk core.
    #[error("the disk core: {0}")]
    Controller(#[from] NvmeError),
}

/// An area of a disk core as the daemon gives it to an application.
#[derive(Debug)]
pub struct SharedArea {
    /// The memory file.
    pub memory: OwnedFd,
    /// The application's end of the doorbell.
    pub doorbell: OwnedFd,
    /// How the memory is divided.
    pub layout: SharedLayout,
}

impl SharedArea {
    /// Brings the queue pair up: the driver, and all frames that it can use. `options`: those the memory was made for.
    ///
    /// # Errors
    /// [`SharedError`].
    pub fn open<C: Clock>(
        self,
        clock: C,
        options: NvmeOptions,
    ) -> Result<(Nvme<SharedTransport, C>, Pool), SharedError> {
        self.open_with(clock, options, None)
    }

    /// The same for who divides the frames himself: the driver, and the frames' memory.
    ///
    /// # Errors
    /// [`SharedError`].
    pub fn open_region<C: Clock>(
        self,
        clock: C,
        options: NvmeOptions,
    ) -> Result<(Nvme<SharedTransport, C>, Rc<Region>), SharedError> {
        self.bring_up(clock, options, None)
    }

    /// The same with a disk core in this thread: `turns` gives it a turn, and is called while the driver waits.
    ///
    /// # Errors
    /// [`SharedError`].
    pub fn open_with<C: Clock>(
        self,
        clock: C,
        options: NvmeOptions,
        turns: Option<Box<dyn FnMut()>>,
    ) -> Result<(Nvme<SharedTransport, C>, Pool), SharedError> {
        let layout = self.layout;
        let (driver, frames) = self.bring_up(clock, options, turns)?;
        // Just mapped: nobody has had any of it.
        let pool = frames.pool(layout.frames).ok_or(LayoutError::Range(layout))?;
        Ok((driver, pool))
    }

    fn bring_up<C: Clock>(
        self,
        clock: C,
        options: NvmeOptions,
        turns: Option<Box<dyn FnMut()>>,
    ) -> Result<(Nvme<SharedTransport, C>, Rc<Region>), SharedError> {
        let SharedArea { memory, doorbell, layout } = self;
        let regions = layout.map(memory.as_fd())?;
        let ready =
            rustix::event::eventfd(1, EventfdFlags::CLOEXEC).map_err(|error| SharedError::Event(error.into()))?;
        let (page, bell) = (Page::new(regions.link), Bell::new(doorbell));
        let transport = SharedTransport { page, bell, ready, sleeps: Cell::new(false), is_gone: false, turns };
        let queues = regions.queues.pool(1).and_then(|pool| pool.allocate(0));
        let Some(queues) = queues else { return Err(LayoutError::Range(layout).into()) };
        let mapping = |region, address| Mapping { region, address };
        let memory = Rc::clone(&regions.frames);
        let queues = (mapping(regions.queues, layout.queues_at()), queues);
        let frames = vec![mapping(regions.frames, layout.frames_at())];
        Ok((Nvme::open(transport, clock, options, queues, frames)?, memory))
    }
}

impl SharedTransport {
    /// Wakes the core, if it sleeps: after what was stored before.
    #[inline]
    fn wake(&self) {
        if self.page.is_asleep(Side::Core) {
            self.bell.ring();
        }
    }

    /// Says that the driver sleeps.
    fn say_asleep(&self) {
        if !self.sleeps.replace(true) {
            self.page.say_asleep(Side::Driver, true);
        }
    }
}

impl Transport for SharedTransport {
    fn read32(&mut self, offset: u32) -> u32 {
        // Who asks for the status wants to know whether there is somebody.
        self.is_gone |= offset == register::CSTS && !self.bell.is_connected();
        if self.is_gone { u32::MAX } else { self.page.load(offset) }
    }

    fn read64(&mut self, offset: u32) -> u64 {
        u64::from(self.read32(offset)) | u64::from(self.read32(offset.wrapping_add(4))) << 32
    }

    fn write32(&mut self, offset: u32, value: u32) {
        self.page.store(offset, value);
        self.wake();
    }

    fn write64(&mut self, offset: u32, value: u64) {
        self.page.store(offset, value as u32);
        self.page.store(offset.wrapping_add(4), (value >> 32) as u32);
        self.wake();
    }

    /// The doorbells are in memory already.
    fn wants_shadow_doorbells(&self) -> bool {
        false
    }

    fn event(&self, has_some: &dyn Fn() -> bool) -> Option<BorrowedFd<'_>> {
        self.say_asleep();
        Some(if has_some() { self.ready.as_fd() } else { self.bell.as_fd() })
    }

    fn silence(&mut self) -> bool {
        if self.sleeps.get() {
            self.sleeps.set(false);
            self.page.say_asleep(Side::Driver, false);
            self.is_gone |= !self.bell.silence();
        }
        !self.is_gone
    }

    fn held(&mut self) -> Held {
        let (count, milliseconds) = self.page.held();
        Held { count, time: Duration::from_millis(u64::from(milliseconds)) }
    }

    fn relax(&mut self) {
        if let Some(turns) = &mut self.turns {
            return turns();
        }
        self.say_asleep();
        let nap = Timespec { tv_sec: 0, tv_nsec: NAP_NS };
        // EINTR, as any other end, is as good as a bell: the driver looks.
        let _ = rustix::event::poll(&mut [PollFd::new(&self.bell, PollFlags::IN)], Some(&nap));
        self.silence();
    }

    /// It is certain if the core has said that it let go: then all bits of its status are set.
    fn isolate(&mut self) -> bool {
        self.page.load(register::CSTS) == u32::MAX
    }
}
