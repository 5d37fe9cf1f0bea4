//! [`Device`]: a controller, the memory it is driven by, and what is under way in it.

use super::commands::COMMANDS_MAX;
use super::doorbells::Doorbells;
use super::error::NvmeError;
use super::memory::{Allocator, Mapping, Piece};
use super::prp::{PrpLists, TRANSFER_BYTES_MAX};
use super::queue::{QueuePair, Violation};
use super::spec::{Capabilities, Command, CompletionEntry, PAGE_BYTES, register};
use super::transport::Transport;
use crate::vsic::Kind;
use qanat_nic::{Frame, Time};
use std::time::Duration;

/// Admin commands under way at once.
const ADMIN_DEPTH: u32 = 15;
/// The only I/O queue.
const IO_QUEUE: u16 = 1;

/// How a controller is to be driven.
#[derive(Clone, Copy, Debug)]
pub struct NvmeOptions {
    /// Requests that may be under way at once: 1…256, and at most as many as the controller's queues hold.
    pub depth: u32,
    /// Bytes one request may have at most: 4,096…1,048,576, and at most what the controller takes.
    pub transfer_bytes_max: u32,
    /// The namespace; `None`: the first active one.
    pub namespace: Option<u32>,
    /// How long a command may take, give or take a quarter. Then the controller is reset.
    pub time_out: Duration,
    /// Whether the controller's Force Unit Access is believed. If not, a durable write is a write and then a flush.
    pub force_unit_access: bool,
    /// Whether shadow doorbells are used where the controller has them.
    pub shadow_doorbells: bool,
}

impl Default for NvmeOptions {
    fn default() -> Self {
        NvmeOptions {
            depth: 128,
            transfer_bytes_max: 1 << 17,
            namespace: None,
            time_out: Duration::from_secs(30),
            force_unit_access: true,
            shadow_doorbells: true,
        }
    }
}

impl NvmeOptions {
    /// Bytes of memory for queues that these options take: a frame of at least as many must be given.
    pub fn memory_bytes(&self) -> usize {
        let pages = |bytes: usize| bytes.next_multiple_of(PAGE_BYTES as usize);
        let (admin, io) = (QueuePair::<()>::bytes(ADMIN_DEPTH), QueuePair::<Pending>::bytes(self.depth));
        let queues = pages(admin.0) + pages(admin.1) + pages(io.0) + pages(io.1);
        // Identify data, the two pages of shadow doorbells.
        queues + 3 * PAGE_BYTES as usize + pages(PrpLists::bytes(self.depth, self.transfer_bytes_max))
    }

    /// # Errors
    /// [`NvmeError::Memory`], [`NvmeError::Unsupported`]: they are out of range.
    fn check(&self) -> Result<(), NvmeError> {
        let transfer = self.transfer_bytes_max;
        if !(1..=COMMANDS_MAX).contains(&self.depth) {
            return Err(NvmeError::Unsupported(format!("a depth of {}: it must be 1 to {COMMANDS_MAX}", self.depth)));
        }
        if !(PAGE_BYTES as u32..=TRANSFER_BYTES_MAX).contains(&transfer) {
            return Err(NvmeError::Unsupported(format!("transfers of {transfer} bytes: it must be 4096 to 1048576")));
        }
        Ok(())
    }
}

/// A request under way.
pub(super) struct Pending {
    pub(super) token: u64,
    pub(super) kind: Kind,
    /// A flush is to follow.
    pub(super) then_flush: bool,
    pub(super) frame: Option<Frame>,
    /// Bytes it transfers.
    pub(super) bytes: u64,
    /// Of zeroes: where it goes on, and how many blocks are left after the command that is under way.
    pub(super) block: u64,
    pub(super) blocks_left: u64,
    /// When it is overdue; `None` until somebody looked at it.
    pub(super) deadline: Option<Time>,
}

/// A controller and the memory it is driven by.
pub(super) struct Device<T> {
    pub(super) transport: T,
    pub(super) options: NvmeOptions,
    pub(super) capabilities: Capabilities,
    pub(super) admin: QueuePair<()>,
    pub(super) io: QueuePair<Pending>,
    pub(super) doorbells: Doorbells,
    pub(super) lists: PrpLists,
    pub(super) identify: Piece,
}

impl<T: Transport> Device<T> {
    /// Nothing is written to the controller yet.
    ///
    /// # Errors
    /// [`NvmeError::Absent`], [`NvmeError::Unsupported`], [`NvmeError::Memory`].
    pub(super) fn new(
        mut transport: T,
        mut options: NvmeOptions,
        mapping: &Mapping,
        frame: Frame,
    ) -> Result<Device<T>, NvmeError> {
        options.check()?;
        let bits = transport.read64(register::CAP);
        if bits == u64::MAX {
            return Err(NvmeError::Absent);
        }
        let capabilities = Capabilities::from_bits(bits);
        if !capabilities.nvm_commands || capabilities.page_min > 0 {
            return Err(NvmeError::Unsupported(
                "a controller without the NVM command set, or without 4 KiB pages".into(),
            ));
        }
        options.depth = options.depth.min(capabilities.queue_entries_max.saturating_sub(1)).max(1);
        let needed = options.memory_bytes();
        let too_little = || {
            NvmeError::Memory(format!(
                "queues take {needed} bytes in one frame that begins with a page, of the mapping"
            ))
        };
        let mut memory = Allocator::new(mapping, frame).ok_or_else(too_little)?;
        let mut pages = |bytes| memory.pages(bytes).ok_or_else(too_little);
        let (submission, completion) = QueuePair::<()>::bytes(ADMIN_DEPTH);
        let admin = QueuePair::new(0, ADMIN_DEPTH, pages(submission)?, pages(completion)?);
        let (submission, completion) = QueuePair::<Pending>::bytes(options.depth);
        let io = QueuePair::new(IO_QUEUE, options.depth, pages(submission)?, pages(completion)?);
        let page = PAGE_BYTES as usize;
        let identify = pages(page)?;
        let doorbells = Doorbells::new(capabilities.doorbell_stride, pages(page)?, pages(page)?);
        let lists = pages(PrpLists::bytes(options.depth, options.transfer_bytes_max))?;
        let lists = PrpLists::new(lists, options.transfer_bytes_max);
        Ok(Device { transport, options, capabilities, admin, io, doorbells, lists, identify })
    }

    /// Sends an admin command; `false`: there is no room for it, as far as the controller says.
    pub(super) fn ask(&mut self, command: Command) -> bool {
        let old = self.admin.tail();
        let is_sent = self.admin.submit(command, ()).is_ok();
        if is_sent {
            let new = self.admin.tail();
            self.doorbells.ring(&mut self.transport, 0, false, (old, new));
        }
        is_sent
    }

    /// The next answer to an admin command.
    ///
    /// # Errors
    /// [`Violation`].
    pub(super) fn answer(&mut self) -> Result<Option<CompletionEntry>, Violation> {
        let old = self.admin.head();
        let Some((entry, ())) = self.admin.next()? else { return Ok(None) };
        let new = self.admin.head();
        self.doorbells.ring(&mut self.transport, 0, true, (old, new));
        Ok(Some(entry))
    }

    /// Makes queues and doorbells empty; nothing is under way.
    pub(super) fn reset_memory(&mut self) {
        while self.admin.take_any().is_some() {}
        self.admin.reset();
        self.io.reset();
        self.doorbells.reset();
        self.identify.clear();
    }

    /// Keeps the memory for good: the controller may still write there.
    pub(super) fn give_up(&mut self) {
        self.admin.give_up();
        self.io.give_up();
        self.doorbells.give_up();
        self.lists.give_up();
        self.identify.give_up();
    }
}
