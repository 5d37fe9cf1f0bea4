//! Areas that the kernel fences, handed to applications: the disk's thread opens a descriptor, and the loop gives it away with a lease, which
//! says who is known to have one. Whether anybody still has one is for the kernel to say.

use crate::clients::conversation::Said;
use crate::clients::peer::{Peer, Role};
use crate::daemon::Daemon;
use crate::disks::core::Tenant;
use crate::disks::disk::Disk;
use crate::disks::errands::{Errand, UnderWay, Wish};
use crate::disks::fences::Offer;
use crate::disks::pair::pair;
use crate::disks::worker::{AreaEntry, Order};
use crate::error::DaemonError;
use crate::log::Event;
use crate::policy::Rule;
use crate::requests::served::Served;
use qanat_control::protocol::{Answer, AreaPath, DiskRate};
use qanat_control::refusal::{Cause, Refusal};
use qanat_disk::area::{AreaError, Fence};
use qanat_nic::foreign::refuse_rights;
use rustix::net::SocketFlags;
use std::os::fd::{AsFd, OwnedFd};

/// By what an area of this user's is to be fenced on a disk.
///
/// # Errors
/// The disk has no such areas, or this user may have none there.
pub(super) fn fence_of(disk: &Disk, peer: Peer, rule: &Rule, is_asked: bool) -> Result<Fence, Refusal> {
    let name = &disk.name;
    match (disk.offer, is_asked) {
        (Offer::Files, _) => check_rate(rule, name).map(|()| Fence::File),
        (_, false) => Ok(Fence::Core),
        (Offer::Partitions { only_root: false }, true) => check_rate(rule, name).map(|()| Fence::Partition),
        (Offer::Partitions { only_root: true }, true) if peer.user == 0 => {
            check_rate(rule, name).map(|()| Fence::Partition)
        }
        (Offer::Partitions { .. }, true) => {
            let text = format!(
                "the disk {name} is a device whose driver lets the holder of a partition do more than that (a loop device can be moved within \
                 its file): only root has fenced areas there; leave --fenced out, and the area is used through the disk core"
            );
            Err(Refusal::new(Cause::Forbidden, text))
        }
        (Offer::None, true) => Err(format!(
            "the kernel can't fence areas on the disk {name}: that takes a whole block device that may have partitions, or a directory \
             (`qanat disk add --directory`); leave --fenced out, and the area is used through the disk core"
        )
        .into()),
    }
}

/// Nobody counts the requests of a holder that no core serves.
fn check_rate(rule: &Rule, disk: &str) -> Result<(), Refusal> {
    if rule.disk_rate == DiskRate::UNLIMITED {
        return Ok(());
    }
    let text = format!(
        "rule \"{}\" limits what may be asked of a disk (disk_rate), and nobody counts that without a disk core: use an area without \
         --fenced on another disk than a directory, or have {disk} under a rule without disk_rate, and limit its users by their control group \
         (io.max)",
        rule.name
    );
    Err(Refusal::new(Cause::Forbidden, text))
}

/// That an area has limits of its own is refused, if nobody would see to them.
pub(super) fn check_may_limit(area: &AreaEntry, path: &AreaPath, rate: DiskRate) -> Result<(), Refusal> {
    if area.fence == Fence::Core || rate == DiskRate::UNLIMITED {
        return Ok(());
    }
    let text = format!(
        "the area {path} is used without a disk core, so nobody counts requests: limit its users by their control group (io.max; IOReadIOPSMax= \
         and the like in a systemd unit), or have an area without --fenced"
    );
    Err(text.into())
}

impl Daemon {
    /// Has the disk's thread open a descriptor of an area. It is answered when that is done.
    pub(super) fn ask_for_descriptor(
        &mut self,
        number: u32,
        errand: &Errand,
        (area, read_only): (&AreaEntry, bool),
    ) -> Result<(), Refusal> {
        let rule = self.rule(errand.peer)?;
        let disk = self.disks.all.get_mut(&number).ok_or("the disk is gone")?;
        fence_of(disk, errand.peer, &rule, true)?;
        let order = Order::Hand { id: area.id, read_only };
        if disk.orders.as_ref().is_none_or(|orders| orders.try_send(order).is_err()) {
            return Err(format!("the disk {} has just failed: `qanat disk list` says why", disk.name).into());
        }
        disk.errands.under_way = Some(UnderWay { errand: errand.clone(), areas: 0, bytes: 0 });
        Ok(())
    }

    /// The disk's thread has opened a descriptor, or not.
    pub(super) fn descriptor_opened(&mut self, number: u32, outcome: Result<OwnedFd, AreaError>) {
        let Some(disk) = self.disks.all.get_mut(&number) else { return };
        let Some(UnderWay { errand, .. }) = disk.errands.under_way.take() else { return };
        let served = outcome.map_err(|error| error.to_string().into());
        let served = served.and_then(|descriptor| self.lend_descriptor(number, &errand, descriptor));
        let Errand { token, peer, name, wish: Wish::Open(wish) } = &errand else { return };
        let said = Said { name, changes: true, vnic: None, about: format!("{}, by a descriptor", wish.path) };
        self.conclude(*token, *peer, &said, served);
    }

    fn lend_descriptor(&mut self, number: u32, errand: &Errand, descriptor: OwnedFd) -> Served {
        let (Wish::Open(wish), peer) = (&errand.wish, errand.peer) else {
            return Err("nothing was to be opened".into());
        };
        let (theirs, lease) = pair(SocketFlags::NONBLOCK)?;
        // Nobody is to close what the other sends. Before Linux 6.16 it can't be helped.
        let _ = refuse_rights(theirs.as_fd());
        let _ = refuse_rights(lease.as_fd());
        let disk = self.disks.all.get(&number).ok_or("the disk is gone")?;
        let area = disk.by_name(&wish.path.area).ok_or("the area is gone")?.id;
        self.disks.last_tenant += 1;
        let tenant = self.disks.last_tenant;
        self.watch(lease, Role::AreaLease(number, tenant), peer, None)?;
        let disk = self.disks.all.get_mut(&number).ok_or("the disk is gone")?;
        disk.tenants.insert(tenant, Tenant { area, peer, awaiting: None, statistics: Default::default() });
        let handles = self.area_handles(number, area);
        let entry = self.disks.all.get(&number).and_then(|disk| disk.areas.get(&area));
        let status = entry.map(|entry| entry.status(handles)).unwrap_or_default();
        Ok((Answer::Area(status), vec![descriptor, theirs]))
    }

    /// A holder had more of a file system than its area.
    pub(super) fn area_outgrown(&mut self, number: u32, id: u64, bytes: u64) -> Result<(), DaemonError> {
        let disk = self.disks.all.get_mut(&number).ok_or("the disk is gone")?;
        disk.offences += 1;
        let (name, area) = (disk.name.clone(), disk.areas.get(&id).map(|area| area.name.to_string()));
        let detail =
            format!("{name}: {} had {bytes} bytes beyond its end, which are taken back", area.unwrap_or_default());
        (self.log)(&Event::new("area-use", "cut-back", detail));
        Ok(())
    }
}
