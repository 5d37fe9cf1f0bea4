//! Areas handed to applications: the disk's core is started when the first is opened, and is told of each.

use crate::clients::conversation::Said;
use crate::clients::peer::{Peer, Role};
use crate::daemon::Daemon;
use crate::disks::changes::owned;
use crate::disks::core::{Awaiting, DiskCore, DiskCoreStarter, StartedCore, Tenant};
use crate::disks::disk::limits_of;
use crate::disks::errands::{Errand, Wish};
use crate::disks::pair::pair;
use crate::disks::worker::Order as DiskOrder;
use crate::error::{DaemonError, say};
use crate::log::Event;
use qanat_control::disk_core::{Closing, ORDER_BYTES_MAX, Order, Report, TenantConfig};
use qanat_control::protocol::{Answer, AreaWish, DiskState, Fault, receive, send};
use qanat_control::refusal::{Cause, Refusal};
use qanat_disk::area::Fence;
use qanat_disk::disk_core::TENANTS_MAX;
use qanat_nic::foreign::refuse_rights;
use rustix::net::{SocketFlags, sockopt};
use std::os::fd::{AsFd, BorrowedFd};
use std::time::{Duration, Instant};

/// Requests that a disk core may have at its disk at once.
const DEPTH: u32 = 256;
/// Of one account on one disk.
const TENANTS_PER_USER_MAX: usize = TENANTS_MAX / 4;
/// How long the core of a function runs at least, if it is started again when it ends.
const AGAIN: Duration = Duration::from_secs(2);
/// Reports heard at one look. The rest is heard in the next turn.
const REPORTS_MAX: usize = 256;
/// Orders that wait while a disk core starts: bytes of its socket's buffer.
const ORDERS_BYTES: usize = 16 * ORDER_BYTES_MAX;

impl Daemon {
    /// How disk cores are started. Disks that only a core can open are opened now.
    pub fn have_disk_cores(&mut self, starter: DiskCoreStarter) {
        self.disks.starter = Some(starter);
        self.open_disks(true);
    }

    /// Has the disk's core open an area for who asks. It is answered when the core has done so.
    pub(super) fn open_area(&mut self, number: u32, errand: &Errand, wish: &AreaWish) -> Result<(), Refusal> {
        let (peer, Some(token)) = (errand.peer, errand.token) else { return Err("nobody waits for it".into()) };
        let disk = self.disks.all.get(&number).ok_or("the disk is gone")?;
        let area = owned(disk, peer, &wish.path)?.clone();
        if area.bytes == 0 {
            return Err(format!("the area {} is still being zeroed: `qanat disk list` says how far", wish.path).into());
        }
        let of_account = |tenant: &&Tenant| tenant.peer.account() == peer.account();
        let (all, own) = (disk.tenants.len(), disk.tenants.values().filter(of_account).count());
        if all >= TENANTS_MAX || own >= TENANTS_PER_USER_MAX {
            let text = format!(
                "the disk {} has {all} handles of areas open, {own} of them yours: at most {TENANTS_MAX}, and \
                 {TENANTS_PER_USER_MAX} of one user",
                disk.name
            );
            return Err(Refusal::new(Cause::Full, text));
        }
        if area.fence != Fence::Core {
            return self.ask_for_descriptor(number, errand, (&area, wish.read_only));
        }
        wish.layout.check().map_err(|error| error.to_string())?;
        let bytes = wish.layout.length();
        let ceiling = self.rule(peer)?.disk_rate;
        self.check_memory(peer, bytes)?;
        self.ensure_disk_core(number)?;
        let memory = wish.layout.allocate().map_err(|error| error.to_string())?;
        let (theirs, cores) = pair(SocketFlags::NONBLOCK)?;
        let (lease, its_lease) = pair(SocketFlags::NONBLOCK)?;
        // Neither side is to close what the other sends. Before Linux 6.16 it can't be helped.
        let _ = refuse_rights(theirs.as_fd());
        let _ = refuse_rights(cores.as_fd());
        self.disks.last_tenant += 1;
        let tenant = self.disks.last_tenant;
        let lease = self.watch(lease, Role::AreaLease(number, tenant), peer, None)?;
        self.charges.lease(lease, peer.account(), bytes);
        let order = TenantConfig {
            tenant,
            area: area.id,
            account: peer.account(),
            extents: area.extents,
            bytes: area.bytes,
            read_only: wish.read_only,
            limits: area.limits,
            ceiling: limits_of(ceiling),
            layout: wish.layout,
        };
        let about = format!("{}, {bytes} bytes of memory", wish.path);
        let awaiting = Some(Awaiting { token, about, beside: [memory, theirs] });
        let entry = Tenant { area: area.id, peer, awaiting, statistics: Default::default() };
        let disk = self.disks.all.get_mut(&number).ok_or("the disk is gone")?;
        disk.tenants.insert(tenant, entry);
        let memory =
            disk.tenants.get(&tenant).and_then(|tenant| tenant.awaiting.as_ref()).map(|its| its.beside[0].as_fd());
        let memory = memory.ok_or("the memory is gone")?;
        let sent =
            send_order(disk.core.as_ref(), Order::Open(Box::new(order)), &[memory, cores.as_fd(), its_lease.as_fd()]);
        // Not taken, it is closed here, and the lease is over.
        sent.inspect_err(|_| drop(disk.tenants.remove(&tenant)))
    }

    /// Whether a user may have so much more memory.
    fn check_memory(&mut self, peer: Peer, bytes: u64) -> Result<(), Refusal> {
        let rule = self.rule(peer)?;
        self.charges.settle(&self.state, peer.account());
        let left = (rule.memory_mib << 20).saturating_sub(self.charges.of(peer.account()));
        if bytes <= left {
            return Ok(());
        }
        let text = format!(
            "rule \"{}\" allows {} MiB of memory, of which {left} bytes are left, and the area's buffers and queues take {bytes}: \
             ask for fewer, or raise memory_mib",
            rule.name, rule.memory_mib
        );
        Err(Refusal::new(Cause::Full, text))
    }

    /// Starts the disk's core, if it does not run.
    fn ensure_disk_core(&mut self, number: u32) -> Result<(), DaemonError> {
        let disk = self.disks.all.get(&number).ok_or("the disk is gone")?;
        if disk.core.is_some() {
            return Ok(());
        }
        if disk.function.is_some() {
            return Err("the disk core has just ended: ask again".into());
        }
        let starter = self.disks.starter.as_ref().ok_or("this daemon starts no disk cores")?;
        let failed = |error| say("start a disk core", error);
        let file = disk.file.as_ref().ok_or("the disk is not open")?;
        let (ours, its) = pair(SocketFlags::NONBLOCK)?;
        sockopt::set_socket_send_buffer_size(&ours, ORDERS_BYTES).map_err(failed)?;
        let child = starter(its).map_err(|error| say("start a disk core", error))?;
        let (name, file) = (disk.name.clone(), file.try_clone().map_err(|error| say("keep a descriptor", error))?);
        self.have_disk_core(number, StartedCore { child, socket: ours })?;
        let disk = self.disks.all.get(&number).ok_or("the disk is gone")?;
        let order = Order::Disk { name, depth: DEPTH };
        send_order(disk.core.as_ref(), order, &[file.as_fd()]).map_err(|refusal| refusal.text.into())
    }

    /// A disk has this core from now on, which has been started.
    pub(super) fn have_disk_core(&mut self, number: u32, started: StartedCore) -> Result<(), DaemonError> {
        let StartedCore { child, socket } = started;
        let peer = Peer::new(0, 0, i32::try_from(child.id()).unwrap_or(0));
        let watched = socket.try_clone().map_err(|error| say("keep a descriptor", error))?;
        let token = self.watch(watched, Role::DiskCore(number), peer, None)?;
        let disk = self.disks.all.get_mut(&number).ok_or("the disk is gone")?;
        disk.core = Some(DiskCore { child, socket, token });
        let name = disk.name.clone();
        (self.log)(&Event::new("disk-core-start", "done", name).by(peer));
        Ok(())
    }

    /// A disk core says something, or is gone.
    pub(crate) fn attend_disk_core(&mut self, number: u32) {
        let mut buffer = vec![0; ORDER_BYTES_MAX];
        for _ in 0..REPORTS_MAX {
            let Some(core) = self.disks.all.get(&number).and_then(|disk| disk.core.as_ref()) else { return };
            match receive::<Report>(core.socket.as_fd(), &mut buffer) {
                Ok((report, _)) => self.take_disk_report(number, report),
                Err(Fault::Empty) => return,
                Err(Fault::Closed) => return self.disk_core_ended(number, "it is started again when it is needed"),
                // One that talks nonsense is not to be relied on.
                Err(fault) => return self.disk_core_ended(number, &fault.to_string()),
            }
        }
    }

    fn take_disk_report(&mut self, number: u32, report: Report) {
        let Some(disk) = self.disks.all.get_mut(&number) else { return };
        match report {
            Report::Ready { confinement, .. } => {
                let detail = format!("{}: given up: {}", disk.name, confinement.join(", "));
                (self.log)(&Event::new("disk-core-ready", "done", detail));
            }
            Report::Opened { tenant } => {
                let Some(tenant) = disk.tenants.get_mut(&tenant) else { return };
                let (area, peer, Some(awaiting)) = (tenant.area, tenant.peer, tenant.awaiting.take()) else { return };
                let handles = self.area_handles(number, area);
                let entry = self.disks.all.get(&number).and_then(|disk| disk.areas.get(&area));
                let status = entry.map(|entry| entry.status(handles)).unwrap_or_default();
                let Awaiting { token, about, beside } = awaiting;
                let served = Ok((Answer::Area(status), Vec::from(beside)));
                self.conclude(Some(token), peer, &Said { name: "open-area", changes: true, vnic: None, about }, served);
            }
            Report::Refused { tenant, why } => {
                let name = disk.name.clone();
                let Some(tenant) = disk.tenants.get_mut(&tenant) else { return };
                let peer = tenant.peer;
                match tenant.awaiting.take() {
                    Some(Awaiting { token, about, .. }) => {
                        let said = Said { name: "open-area", changes: true, vnic: None, about };
                        self.conclude(Some(token), peer, &said, Err(why.into()));
                    }
                    None => (self.log)(&Event::new("disk-core-order", "failed", format!("{name}: {why}"))),
                }
            }
            Report::Closed { tenant, why, statistics } => {
                let (name, known) = (disk.name.clone(), disk.tenants.get_mut(&tenant));
                let Some(known) = known else {
                    // The daemon itself, which has all of the disk, was not believed.
                    if matches!(why, Closing::Offence(_)) {
                        self.disk_core_ended(number, "it has cut the daemon off");
                    }
                    return;
                };
                known.statistics = statistics;
                if let Closing::Offence(what) = why {
                    disk.offences += 1;
                    let peer = known.peer;
                    (self.log)(&Event::new("area-use", "cut-off", format!("{name}: {what}")).by(peer));
                }
            }
            Report::Statistics { tenant, statistics } => {
                if let Some(known) = disk.tenants.get_mut(&tenant) {
                    known.statistics = statistics;
                }
            }
            Report::Grown { .. } | Report::Limited { .. } => {}
        }
    }

    /// A disk core is gone, or of no use. Its leases end with it.
    fn disk_core_ended(&mut self, number: u32, what: &str) {
        let name = self.disks.all.get(&number).map_or_else(String::new, |disk| disk.name.clone());
        (self.log)(&Event::new("disk-core-end", "failed", format!("{name}: {what}")));
        self.end_disk_core(number);
        self.open_function_again(number);
    }

    /// A disk that only its core has is opened again, if that has ended.
    fn open_function_again(&mut self, number: u32) {
        let Some(disk) = self.disks.all.get_mut(&number).filter(|disk| disk.function.is_some()) else { return };
        if disk.state != DiskState::Ready {
            return;
        }
        let is_too_often = disk.reopened_at.replace(Instant::now()).is_some_and(|before| before.elapsed() < AGAIN);
        let is_told =
            !is_too_often && disk.orders.as_ref().is_some_and(|orders| orders.try_send(DiskOrder::Open).is_ok());
        match is_told {
            true => disk.state = DiskState::Opening,
            false => self.disk_failed(number, "its core ends again and again; the log says why".to_owned()),
        }
    }

    /// Has a disk core end.
    pub(super) fn end_disk_core(&mut self, number: u32) {
        let Some(core) = self.disks.all.get_mut(&number).and_then(|disk| disk.core.take()) else { return };
        let DiskCore { mut child, socket, token } = core;
        drop(socket);
        let _ = child.kill();
        self.disks.dying.push(child);
        self.close(token);
    }

    /// Sees to processes that have been told to end.
    pub(crate) fn look_after_dying_disk_cores(&mut self) {
        self.disks.dying.retain_mut(|child| matches!(child.try_wait(), Ok(None)));
    }

    /// Neither an area nor its memory is used any more by an application.
    pub(crate) fn area_lease_ended(&mut self, token: u64, number: u32, tenant: u64) {
        self.charges.end_lease(token);
        self.close(token);
        let Some(disk) = self.disks.all.get_mut(&number) else { return };
        let Some(gone) = disk.tenants.remove(&tenant) else { return };
        let is_doomed = disk.areas.get(&gone.area).is_some_and(|area| area.is_doomed);
        if let Some(Awaiting { token, about, .. }) = gone.awaiting {
            let said = Said { name: "open-area", changes: true, vnic: None, about };
            let why = "the disk core has just ended: ask again".into();
            self.conclude(Some(token), gone.peer, &said, Err(why));
        }
        if is_doomed && self.area_handles(number, gone.area) == 0 {
            let (wish, peer) = (Wish::Release { id: gone.area }, Peer::new(0, 0, 0));
            if let Some(disk) = self.disks.all.get_mut(&number) {
                disk.errands.push(Errand { token: None, peer, name: "release-area", wish });
            }
            self.attend_errands(number);
        }
    }

    /// Those who have an area are told what it is like now, if they may use more of it, or less often.
    pub(super) fn tell_tenants(&self, number: u32, area: u64, has_grown: bool, is_limited: bool) {
        let Some(disk) = self.disks.all.get(&number).filter(|disk| disk.state == DiskState::Ready) else { return };
        let Some(entry) = disk.areas.get(&area).filter(|entry| entry.fence == Fence::Core) else { return };
        for (tenant, _) in disk.tenants.iter().filter(|(_, tenant)| tenant.area == area) {
            let grow = Order::Grow { tenant: *tenant, extents: entry.extents.clone(), bytes: entry.bytes };
            let limit = Order::Limit { tenant: *tenant, limits: entry.limits };
            let orders = has_grown.then_some(grow).into_iter().chain(is_limited.then_some(limit));
            for order in orders {
                if let Err(why) = send_order(disk.core.as_ref(), order, &[]) {
                    (self.log)(&Event::new("disk-core-order", "failed", format!("{}: {why}", disk.name)));
                }
            }
        }
    }

    /// Has the disk cores say what their applications have done. They have said so by the next time.
    pub(crate) fn ask_disk_cores(&self) {
        for disk in self.disks.all.values().filter(|disk| !disk.tenants.is_empty()) {
            // One that does not listen has said so before.
            let _ = send_order(disk.core.as_ref(), Order::Statistics, &[]);
        }
    }
}

/// Says something to a disk core. One that does not listen is not waited for.
fn send_order(core: Option<&DiskCore>, order: Order, beside: &[BorrowedFd<'_>]) -> Result<(), Refusal> {
    let core = core.ok_or("the disk core has just ended: ask again")?;
    send(core.socket.as_fd(), order, beside).map_err(|fault| format!("the disk core takes no orders: {fault}").into())
}
