//! [`Tenant`]: an application with an area, its controller, and what it did.

use super::channel::Channel;
use super::meter::Meters;
use crate::area::{AreaDisk, AreaLimits, Extent};
use crate::controller::{Controller, ControllerConfig, ControllerError, NamespaceConfig};
use crate::shared::{CoreEnd, LayoutError, QUEUE_PAIRS, SharedLayout, TenantMemory};
use crate::vsic::{Vsic, VsicStatistics};
use qanat_api::Geometry;
use qanat_nic::{Pool, Time};
use std::os::fd::OwnedFd;

/// Commands of one tenant that are under way at once, and entries of its queues: one more than the driver's deepest.
pub(super) const COMMANDS_MAX: u32 = 256;
const QUEUE_ENTRIES_MAX: u32 = COMMANDS_MAX + 1;
/// Bytes one command may transfer.
pub(super) const TRANSFER_BYTES_MAX: u32 = 1 << 17;

/// What an application is to have. It is also what the daemon says when it has an area opened.
#[derive(Clone, PartialEq, Eq, Debug, serde::Serialize, serde::Deserialize)]
pub struct TenantConfig {
    /// The daemon's number for it, never used again in the life of the disk core.
    pub tenant: u64,
    /// Its area's number on the disk: tenants of one area share its limits.
    pub area: u64,
    /// Whose ceiling counts: tenants of one account share it.
    pub account: u32,
    /// Where its area lies on the disk, in order.
    pub extents: Vec<Extent>,
    /// Bytes of it that are ready, and may be used: whole blocks of the disk.
    pub bytes: u64,
    /// Writes are refused.
    pub read_only: bool,
    /// How much all tenants of the area may ask for. Zeroes: as much as the disk does.
    pub limits: AreaLimits,
    /// How much all tenants of the account may ask for.
    pub ceiling: AreaLimits,
    /// How its memory is divided.
    pub layout: SharedLayout,
}

/// An application's descriptors.
#[derive(Debug)]
pub struct TenantDescriptors {
    /// The memory that it shares with the core.
    pub memory: OwnedFd,
    /// The core's end of the doorbell.
    pub doorbell: OwnedFd,
    /// It is closed when nothing of the area or the memory is used any more.
    pub lease: OwnedFd,
}

/// Why an application can't have what it is to have.
#[derive(Debug, thiserror::Error)]
pub enum TenantError {
    /// Another has its number.
    #[error("there is a tenant {0} already")]
    Exists(u64),
    /// There is none of its number.
    #[error("there is no tenant {0}")]
    Unknown(u64),
    /// There are as many as there can be.
    #[error("the disk core has {0} tenants, which is all it serves: start another disk core, or close an area")]
    Full(usize),
    /// The area is none of this disk.
    #[error("an area of {bytes} bytes in {} extents is not within the part of the disk that is for areas", .extents.len())]
    Area {
        /// Its extents.
        extents: Vec<Extent>,
        /// Its size.
        bytes: u64,
    },
    /// It does not contain what it had.
    #[error("an area grows at its end only, and keeps what it has")]
    Shrinks,
    /// Its memory.
    #[error(transparent)]
    Memory(#[from] LayoutError),
    /// Memory to copy through.
    #[error("memory to copy through: {0}")]
    Copies(std::io::Error),
    /// Its controller.
    #[error(transparent)]
    Controller(#[from] ControllerError),
}

/// Why an application has an area no more.
#[derive(Clone, PartialEq, Eq, Debug, serde::Serialize, serde::Deserialize)]
pub enum Closing {
    /// The daemon said so.
    Asked,
    /// It closed its end of the doorbell, or it died.
    Left,
    /// It did what no driver does: this.
    Offence(String),
}

/// Counters of a tenant.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug, serde::Serialize, serde::Deserialize)]
pub struct TenantStatistics {
    /// Of requests to its area.
    pub disk: VsicStatistics,
    /// Commands fetched.
    pub commands: u64,
    /// Those that never reached the disk because of what they said.
    pub refused: u64,
    /// Those whose data were not copied.
    pub lent: u64,
    /// Requests that waited because of the limits.
    pub held: u64,
}

/// An application with an area.
pub(super) struct Tenant {
    pub(super) number: u64,
    controller: Controller<AreaDisk<Channel>, TenantMemory>,
    end: CoreEnd,
    /// It is the daemon, which has all of the disk.
    has_whole: bool,
    /// Kept as long as anything here is.
    _lease: OwnedFd,
    is_closing: bool,
    /// How often it was told that its commands are held.
    holds: u32,
}

/// What of the disk an application is to have.
pub(super) enum Scope {
    /// An area.
    Area,
    /// All of it, its table included: the daemon.
    Whole,
}

/// Whether an area is one of this disk.
fn check_area(disk: &Geometry, extents: &[Extent], bytes: u64) -> Result<(), TenantError> {
    let total: u64 = extents.iter().map(Extent::bytes).fold(0, u64::saturating_add);
    let is_whole = bytes.is_multiple_of(u64::from(disk.block_bytes));
    let is_its = extents.iter().all(|extent| extent.is_for_areas(disk.bytes()));
    if is_its && is_whole && (1..=total).contains(&bytes) {
        return Ok(());
    }
    Err(TenantError::Area { extents: extents.to_vec(), bytes })
}

impl Tenant {
    /// Makes its controller, for what of the disk it is to have. `copies`: where data pass through that can't be lent.
    ///
    /// # Errors
    /// [`TenantError`]; nothing is left.
    pub(super) fn new(
        disk: Geometry,
        (config, scope): (&TenantConfig, Scope),
        descriptors: TenantDescriptors,
        copies: Pool,
        meters: Meters,
        lend: impl FnOnce(&mut TenantMemory),
    ) -> Result<Tenant, TenantError> {
        let TenantConfig { tenant, extents, bytes, read_only, layout, .. } = config;
        let has_whole = matches!(scope, Scope::Whole);
        if !has_whole {
            check_area(&disk, extents, *bytes)?;
        }
        let TenantDescriptors { memory, doorbell, lease } = descriptors;
        let (mut end, mut memory) = CoreEnd::map(*layout, std::os::fd::AsFd::as_fd(&memory), doorbell)?;
        lend(&mut memory);
        let area = AreaDisk::new(Channel::new(disk, COMMANDS_MAX, meters), extents, *bytes);
        let namespace =
            NamespaceConfig { backend: 0, first_block: 0, blocks: area.geometry().blocks, read_only: *read_only };
        let controller_config = ControllerConfig {
            queue_pairs_max: QUEUE_PAIRS - 1,
            queue_entries_max: QUEUE_ENTRIES_MAX,
            commands_max: COMMANDS_MAX,
            transfer_bytes_max: TRANSFER_BYTES_MAX,
            interrupt_vectors: 1,
            // All doorbells are in memory, where the core looks by itself.
            shadow_doorbells: false,
            serial: format!("{tenant}"),
        };
        let controller = Controller::new(&controller_config, vec![area], &[namespace], memory, copies)?;
        end.begin(&controller);
        Ok(Tenant { number: *tenant, controller, end, has_whole, _lease: lease, is_closing: false, holds: 0 })
    }

    /// Its requests on their way.
    pub(super) fn channel(&self) -> Option<&Channel> {
        self.controller.backend(0).map(AreaDisk::disk)
    }

    pub(super) fn channel_mut(&mut self) -> Option<&mut Channel> {
        self.controller.backend_mut(0).map(AreaDisk::disk_mut)
    }

    pub(super) fn memory(&self) -> &TenantMemory {
        self.controller.memory()
    }

    pub(super) fn end(&self) -> &CoreEnd {
        &self.end
    }

    pub(super) fn is_closing(&self) -> bool {
        self.is_closing
    }

    /// It has been closed, and the disk has nothing of it.
    pub(super) fn is_over(&self) -> bool {
        self.is_closing && self.channel().is_none_or(|channel| channel.at_disk() == 0)
    }

    /// Whether the disk has others to be fair to because of it. The daemon seldom wants anything.
    pub(super) fn counts(&self) -> bool {
        let is_busy = |channel: &Channel| channel.at_disk() > 0 || channel.is_waiting();
        !self.is_closing && (!self.has_whole || self.channel().is_some_and(is_busy))
    }

    /// Serves it: hears what it rang, fetches at most so many commands, posts what has ended. Whether there may be more to do at once.
    ///
    /// # Errors
    /// What it did that no driver does.
    pub(super) fn turn(&mut self, commands_max: usize) -> Result<bool, Closing> {
        self.end.hear(&mut self.controller);
        let turn = self.controller.turn(commands_max);
        self.end.tell(&self.controller, turn.has_posted);
        match self.controller.offence() {
            Some(offence) => Err(Closing::Offence(offence.to_string())),
            None => Ok(turn.has_more || turn.fetched > 0),
        }
    }

    /// Tells it of commands that its limits hold, each time they do: it is not to take them for lost.
    #[inline]
    pub(super) fn say_held(&mut self, now: Time) {
        let Some((holds, time)) = self.channel().map(|channel| channel.holds(now)) else { return };
        if holds != self.holds {
            self.holds = holds;
            self.end.say_held(holds, time);
        }
    }

    /// The area has these extents and this size from now on.
    ///
    /// # Errors
    /// [`TenantError::Area`], [`TenantError::Shrinks`]; then nothing has changed.
    pub(super) fn grow(&mut self, disk: &Geometry, extents: &[Extent], bytes: u64) -> Result<(), TenantError> {
        check_area(disk, extents, bytes)?;
        let area =
            self.controller.backend_mut(0).filter(|_| !self.is_closing).ok_or(TenantError::Unknown(self.number))?;
        if !area.grow(extents, bytes) {
            return Err(TenantError::Shrinks);
        }
        let blocks = area.geometry().blocks;
        if self.controller.grow(0, blocks) { Ok(()) } else { Err(TenantError::Shrinks) }
    }

    /// It is served no more. What the disk has of it is waited for; nothing of its memory is touched but by that.
    pub(super) fn close(&mut self) {
        self.is_closing = true;
        self.controller.cut();
        if let Some(channel) = self.channel_mut() {
            channel.abandon();
        }
    }

    /// Counters.
    pub(super) fn statistics(&self) -> TenantStatistics {
        let counters = self.controller.counters();
        let (disk, held) = self.channel().map(|channel| (channel.statistics(), channel.held())).unwrap_or_default();
        TenantStatistics { disk, commands: counters.commands, refused: counters.refused, lent: counters.lent, held }
    }
}
