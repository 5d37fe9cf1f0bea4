//! [`DiskCore`]: serves the queue pairs of applications that are not believed, each within its area.

use super::backend::Backend;
use super::channel::Channel;
use super::meter::MeterTable;
use super::tenant::{
    COMMANDS_MAX, Closing, Scope, TRANSFER_BYTES_MAX, Tenant, TenantConfig, TenantDescriptors, TenantError,
    TenantStatistics,
};
use super::window::Window;
use crate::area::{AreaLimits, Extent, UNIT_BYTES};
use crate::shared::SharedLayout;
use crate::vsic::Completion;
use qanat_api::Geometry;
use qanat_nic::{Pool, Region, Time};
use rustix::event::{PollFd, PollFlags, Timespec};
use std::collections::VecDeque;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

/// Applications at once.
pub const TENANTS_MAX: usize = 64;
/// Pieces of memory that a backend is lent at once: of each tenant its frames, and those it is copied through.
pub const PIECES_MAX: u16 = 2 * TENANTS_MAX as u16;
/// Frames that one tenant's data are copied through: so many commands of it at once.
const COPIES: u32 = 4;
/// Commands of one tenant that are fetched in one turn.
const COMMANDS_A_TURN: usize = 16;
/// Ends that are taken of the disk in one turn.
const ENDS_A_TURN: usize = 256;
/// Bytes of one tenant that the disk has at once, while there are others: what those have to wait for at most.
const SHARED_BYTES: u64 = 512 << 10;
/// How often it is looked whether applications are still there, if nobody sleeps.
const LOOK: Duration = Duration::from_millis(10);

/// Something that the daemon is to know.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Closed {
    /// Whose area it was.
    pub tenant: u64,
    /// Why.
    pub why: Closing,
    /// What it did.
    pub statistics: TenantStatistics,
}

/// What a turn did.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct CoreTurn {
    /// There may be more to do at once.
    pub has_more: bool,
    /// The disk has requests.
    pub is_under_way: bool,
    /// When the first request may go on that the limits hold.
    pub due: Option<Time>,
}

/// A place for a tenant.
#[derive(Default)]
struct Place {
    tenant: Option<Tenant>,
    /// Where data pass through: made for the first tenant here, and lent to the disk for good.
    copies: Option<Pool>,
}

/// Serves areas of one disk. Every number that an application says is read once and judged; what it may ask for, and how much is done of it
/// in a turn, is bounded.
pub struct DiskCore<V: Backend> {
    disk: V,
    places: Vec<Place>,
    /// The place whose turn is first.
    cursor: usize,
    passing: Vec<Completion>,
    closed: VecDeque<Closed>,
    look_at: Time,
    meters: MeterTable,
    window: Window,
}

impl<V: Backend> std::fmt::Debug for DiskCore<V> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "DiskCore({} tenants)", self.tenants().count())
    }
}

impl<V: Backend> DiskCore<V> {
    /// Of this disk. There is no tenant yet.
    pub fn new(disk: V) -> DiskCore<V> {
        DiskCore {
            disk,
            places: Vec::new(),
            cursor: 0,
            passing: Vec::with_capacity(ENDS_A_TURN),
            closed: VecDeque::new(),
            look_at: Time::ZERO,
            meters: MeterTable::default(),
            window: Window::default(),
        }
    }

    /// What the disk is like.
    pub fn geometry(&self) -> Geometry {
        self.disk.geometry()
    }

    /// Whether the disk will never do anything any more.
    pub fn is_gone(&self) -> bool {
        self.disk.is_gone()
    }

    /// The disk.
    pub fn disk(&self) -> &V {
        &self.disk
    }

    fn tenants(&self) -> impl Iterator<Item = &Tenant> {
        self.places.iter().filter_map(|place| place.tenant.as_ref())
    }

    fn tenants_mut(&mut self) -> impl Iterator<Item = &mut Tenant> {
        self.places.iter_mut().filter_map(|place| place.tenant.as_mut())
    }

    /// The tenant of that number, if it has its area.
    fn tenant_mut(&mut self, number: u64) -> Result<&mut Tenant, TenantError> {
        let found = self.tenants_mut().find(|tenant| tenant.number == number && !tenant.is_closing());
        found.ok_or(TenantError::Unknown(number))
    }

    /// Gives an application its area. Its data are not copied if the disk takes its memory.
    ///
    /// # Errors
    /// [`TenantError`]; then all descriptors are closed.
    pub fn open(&mut self, config: &TenantConfig, descriptors: TenantDescriptors) -> Result<(), TenantError> {
        self.admit(config, Scope::Area, descriptors)
    }

    /// Gives the daemon all of the disk, the table of areas included, as if it were an application's area.
    ///
    /// # Errors
    /// [`TenantError`]; then all descriptors are closed.
    pub fn open_whole(
        &mut self,
        tenant: u64,
        layout: SharedLayout,
        descriptors: TenantDescriptors,
    ) -> Result<(), TenantError> {
        let bytes = self.geometry().bytes();
        let extents = vec![Extent { unit: 0, units: bytes.div_ceil(UNIT_BYTES) }];
        let free = AreaLimits::default();
        // No area has this number, and no user.
        let (area, account) = (u64::MAX, u32::MAX);
        let config = TenantConfig {
            tenant,
            area,
            account,
            extents,
            bytes,
            read_only: false,
            limits: free,
            ceiling: free,
            layout,
        };
        self.admit(&config, Scope::Whole, descriptors)
    }

    fn admit(
        &mut self,
        config: &TenantConfig,
        scope: Scope,
        descriptors: TenantDescriptors,
    ) -> Result<(), TenantError> {
        if self.tenants().any(|tenant| tenant.number == config.tenant) {
            return Err(TenantError::Exists(config.tenant));
        }
        let free = self.places.iter().position(|place| place.tenant.is_none());
        let index = match free {
            Some(index) => index,
            None if self.places.len() < TENANTS_MAX => {
                self.places.push(Place::default());
                self.places.len() - 1
            }
            None => return Err(TenantError::Full(TENANTS_MAX)),
        };
        let disk = &mut self.disk;
        let geometry = disk.geometry();
        let Some(place) = self.places.get_mut(index) else { return Err(TenantError::Full(TENANTS_MAX)) };
        let copies = match &place.copies {
            Some(copies) => copies.clone(),
            None => {
                let transfer = TRANSFER_BYTES_MAX.min(geometry.transfer_bytes_max);
                let region = Region::new(COPIES, transfer.next_power_of_two()).map_err(TenantError::Copies)?;
                disk.lend(&region).map_err(TenantError::Copies)?;
                let copies =
                    region.pool(COPIES).ok_or_else(|| TenantError::Copies(std::io::Error::other("no frame")))?;
                place.copies.insert(copies).clone()
            }
        };
        let mut lent = None;
        let meters = self.meters.of((config.area, config.limits), (config.account, config.ceiling));
        let tenant = Tenant::new(geometry, (config, scope), descriptors, copies, meters, |memory| {
            // A disk that does not take it has the data copied.
            if disk.lend(memory.frames()).is_ok() {
                lent = Some(std::rc::Rc::clone(memory.frames()));
                memory.lend_from_now_on();
            }
        });
        match tenant {
            Ok(tenant) => place.tenant = Some(tenant),
            Err(error) => {
                lent.iter().for_each(|region| disk.take_back(region));
                return Err(error);
            }
        }
        Ok(())
    }

    /// An area has become larger.
    ///
    /// # Errors
    /// [`TenantError`]; then nothing has changed.
    pub fn grow(&mut self, tenant: u64, extents: &[Extent], bytes: u64) -> Result<(), TenantError> {
        let geometry = self.disk.geometry();
        self.tenant_mut(tenant)?.grow(&geometry, extents, bytes)
    }

    /// A tenant's area has other limits from now on, for all who have it open.
    ///
    /// # Errors
    /// [`TenantError::Unknown`].
    pub fn limit(&mut self, tenant: u64, limits: AreaLimits) -> Result<(), TenantError> {
        let Some(meters) = self.tenant_mut(tenant)?.channel().map(|channel| channel.meters().clone()) else {
            return Ok(());
        };
        meters.limit_area(limits);
        let all = self.tenants_mut().filter_map(Tenant::channel_mut);
        all.filter(|channel| channel.meters().shares_area(&meters)).for_each(Channel::is_limited_anew);
        Ok(())
    }

    /// A tenant has its area no more. [`next_closed`](DiskCore::next_closed) says so.
    ///
    /// # Errors
    /// [`TenantError::Unknown`].
    pub fn close(&mut self, tenant: u64) -> Result<(), TenantError> {
        self.tenant_mut(tenant)?;
        self.close_for(tenant, Closing::Asked);
        Ok(())
    }

    fn close_for(&mut self, number: u64, why: Closing) {
        let Ok(tenant) = self.tenant_mut(number) else { return };
        tenant.close();
        let statistics = tenant.statistics();
        self.closed.push_back(Closed { tenant: number, why, statistics });
    }

    /// The next tenant that has its area no more.
    pub fn next_closed(&mut self) -> Option<Closed> {
        self.closed.pop_front()
    }

    /// Counters of all tenants that have their area.
    pub fn statistics(&self) -> impl Iterator<Item = (u64, TenantStatistics)> {
        self.tenants().filter(|tenant| !tenant.is_closing()).map(|tenant| (tenant.number, tenant.statistics()))
    }

    /// Gives each tenant a turn, one after the other, each time from another on. Never blocks.
    pub fn turn(&mut self, now: Time) -> CoreTurn {
        let mut turn = CoreTurn { has_more: self.take_ends(now), ..CoreTurn::default() };
        let count = self.places.len();
        let first = self.cursor;
        self.cursor = if first + 1 >= count { 0 } else { first + 1 };
        for step in 0..count {
            turn.has_more |= self.serve((first + step) % count);
        }
        turn.has_more |= self.pass_on(first, now);
        if now >= self.look_at {
            self.look_at = now + LOOK;
            self.look();
        }
        self.tenants_mut().for_each(|tenant| tenant.say_held(now));
        for tenant in self.tenants() {
            turn.has_more |= tenant.is_over();
            let Some(channel) = tenant.channel() else { continue };
            turn.has_more |= channel.has_ended();
            turn.is_under_way |= channel.at_disk() > 0;
            turn.due = channel.due().into_iter().chain(turn.due).min();
        }
        turn
    }

    /// Takes what the disk has ended; whether there was anything.
    fn take_ends(&mut self, now: Time) -> bool {
        let depth = self.disk.geometry().depth;
        self.disk.complete(&mut self.passing, ENDS_A_TURN);
        let has_any = !self.passing.is_empty();
        for completion in self.passing.drain(..) {
            let (place, token) = (completion.token >> 32, completion.token & u64::from(u32::MAX));
            let tenant = self.places.get_mut(place as usize).and_then(|place| place.tenant.as_mut());
            if let Some(channel) = tenant.and_then(Tenant::channel_mut) {
                channel.end(Completion { token, ..completion }, now, &mut self.window, depth);
            }
        }
        has_any
    }

    /// One tenant's turn; whether there may be more to do at once.
    fn serve(&mut self, index: usize) -> bool {
        let Some(place) = self.places.get_mut(index) else { return false };
        let Some(tenant) = &mut place.tenant else { return false };
        if tenant.is_over() {
            tenant.end().say_gone();
            self.disk.take_back(tenant.memory().frames());
            place.tenant = None;
            return false;
        }
        if tenant.is_closing() {
            if let Some(channel) = tenant.channel_mut() {
                channel.abandon();
            }
            return false;
        }
        match tenant.turn(COMMANDS_A_TURN) {
            Ok(has_more) => has_more,
            Err(why) => {
                let number = tenant.number;
                self.close_for(number, why);
                true
            }
        }
    }

    /// Gives the disk what waits, one request of each tenant after the other; whether it was given any.
    fn pass_on(&mut self, first: usize, now: Time) -> bool {
        let depth = self.disk.geometry().depth;
        self.tenants_mut().filter_map(Tenant::channel_mut).for_each(|channel| channel.look(now));
        // What those who flood have at the disk, and what the others have.
        let (mut heavy, mut light) = (0, 0);
        for channel in self.tenants().filter_map(Tenant::channel) {
            *if channel.is_heavy() { &mut heavy } else { &mut light } += channel.at_disk();
        }
        let channels = || self.tenants().filter(|tenant| tenant.counts()).filter_map(Tenant::channel);
        let open = channels().count();
        let active = channels().filter(|channel| channel.at_disk() > 0 || channel.is_waiting()).count();
        // Who has nothing at the disk finds room at once when it comes.
        let idle = channels().filter(|channel| channel.at_disk() == 0).count();
        let share = (depth / active.max(1) as u32).max(1);
        let reserve = idle.min(depth as usize / 4);
        let count = self.places.len();
        let (mut has_any, mut goes_on) = (false, active > 0);
        // Each time round at least one request goes to the disk, which has room for so many.
        while std::mem::take(&mut goes_on) {
            for step in 0..count {
                let index = (first + step) % count;
                let room = self.disk.room();
                let Some(tenant) = self.places.get_mut(index).and_then(|place| place.tenant.as_mut()) else { continue };
                let Some(channel) = tenant.channel_mut() else { continue };
                let has_room = match channel.at_disk() {
                    0 => room > 0,
                    at_disk => {
                        let is_fair = open == 1 || channel.bytes_at_disk() < SHARED_BYTES;
                        room > reserve && at_disk < share && is_fair
                    }
                };
                let is_heavy = channel.is_heavy();
                if !has_room || is_heavy && open > 1 && !self.window.allows(heavy, light, now) {
                    continue;
                }
                let Some(mut request) = channel.next(now, &mut self.window, heavy) else { continue };
                *if is_heavy { &mut heavy } else { &mut light } += 1;
                request.token |= (index as u64) << 32;
                if let Err(refused) = self.disk.submit(request) {
                    // There was room. A disk that says otherwise has the request end here.
                    let token = refused.token & u64::from(u32::MAX);
                    let refused = crate::vsic::Request { token, ..refused };
                    let refused = refused.refused(crate::error::StorageError::Aborted);
                    channel.end(refused, now, &mut self.window, depth);
                }
                (has_any, goes_on) = (true, true);
            }
        }
        if has_any {
            self.disk.ring();
        }
        has_any
    }

    /// Closes the areas of those that are gone.
    fn look(&mut self) {
        let gone: Vec<u64> = self
            .tenants()
            .filter(|tenant| !tenant.is_closing() && !tenant.end().silence())
            .map(|tenant| tenant.number)
            .collect();
        gone.into_iter().for_each(|number| self.close_for(number, Closing::Left));
    }

    /// Sleeps until an application rings, the disk has something, or `also` can be read; `patience` at most. Not at all while a disk that
    /// doesn't ring has anything.
    pub fn sleep(&mut self, also: BorrowedFd<'_>, patience: Option<Duration>) {
        if self.disk.in_flight() > 0 && self.disk.doorbell().is_none() {
            return self.look();
        }
        self.tenants().for_each(|tenant| tenant.end().say_asleep(true));
        // What was rung before we said so is seen here; what is rung after it wakes us.
        if !self.tenants().any(|tenant| !tenant.is_closing() && tenant.end().has_news()) {
            let readable = |fd| PollFd::from_borrowed_fd(fd, PollFlags::IN);
            let mut descriptors: Vec<PollFd<'_>> = vec![readable(also)];
            descriptors.extend(self.disk.doorbell().map(readable));
            let open = self.tenants().filter(|tenant| !tenant.is_closing());
            descriptors.extend(open.map(|tenant| readable(tenant.end().as_fd())));
            let patience = patience
                .map(|time| Timespec { tv_sec: time.as_secs() as i64, tv_nsec: i64::from(time.subsec_nanos()) });
            // EINTR, as any other error, is as good as a bell: the caller looks.
            let _ = rustix::event::poll(&mut descriptors, patience.as_ref());
        }
        self.tenants().for_each(|tenant| tenant.end().say_asleep(false));
        self.look();
    }

    /// Frames that data pass through now.
    pub fn copies_in_use(&self) -> u32 {
        self.places.iter().filter_map(|place| place.copies.as_ref()).map(Pool::in_use_count).sum()
    }

    /// Whether nobody has an area, and the disk has nothing.
    pub fn is_idle(&self) -> bool {
        self.tenants().next().is_none()
    }
}

// A token is a place and the number in its channel.
const _: () = assert!(TENANTS_MAX < 1 << 31 && COMMANDS_MAX < 1 << 31);
