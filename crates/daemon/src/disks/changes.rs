//! Requests that change disks and areas: who may ask for what, and when its turn comes.

use crate::clients::conversation::Said;
use crate::clients::peer::Peer;
use crate::daemon::Daemon;
use crate::disks::descriptors::{check_may_limit, fence_of};
use crate::disks::disk::{DISKS_MAX, Disk, limits_of};
use crate::disks::errands::{Errand, UnderWay, Wish};
use crate::disks::records::DiskRecord;
use crate::disks::worker::{AreaEntry, Change, Order};
use crate::policy::Rule;
use crate::requests::served::Served;
use qanat_control::protocol::{AreaPath, DiskState, DiskWish, FunctionWish, Request};
use qanat_control::refusal::{Cause, Refusal};
use qanat_disk::area::{AreaName, Owner, UNIT_BYTES};

fn no_disk(name: &str) -> Refusal {
    format!("there is no disk {name}: `qanat disk list` shows those there are").into()
}

/// A size in whole units.
fn rounded(bytes: u64) -> Result<u64, Refusal> {
    let refusal = || format!("{bytes} bytes are more than any disk has").into();
    bytes.checked_next_multiple_of(UNIT_BYTES).ok_or_else(refusal)
}

/// The area of that name, if it is the peer's, or the peer is root.
pub(super) fn owned<'disk>(disk: &'disk Disk, peer: Peer, path: &AreaPath) -> Result<&'disk AreaEntry, Refusal> {
    let area = disk.by_name(&path.area).ok_or_else(|| {
        let AreaPath { disk, area } = path;
        format!("the disk {disk} has no area {area}: `qanat disk create {area} --on {disk} --size SIZE` makes it, `qanat disk list` shows those there are")
    })?;
    match peer.user == 0 || area.owner.uid == peer.user {
        true => Ok(area),
        false => {
            let text = format!(
                "the area {path} is another user's: `qanat disk list` shows yours; root may change all of them"
            );
            Err(Refusal::new(Cause::Forbidden, text))
        }
    }
}

/// A change that may be made, and what its user has more by it.
struct Plan {
    order: Order,
    areas: u32,
    bytes: u64,
}

impl Plan {
    fn of(change: Change) -> Plan {
        Plan { order: Order::Change(change), areas: 0, bytes: 0 }
    }
}

impl Daemon {
    /// Somebody asks for a change. The connection is not read until it is answered.
    ///
    /// # Errors
    /// The refusal, if it is plain from the start.
    pub(crate) fn ask_of_disk(&mut self, token: u64, peer: Peer, request: Request) -> Result<(), Refusal> {
        let name = request.name();
        let (disk, wish) = match request {
            Request::AddDisk(wish) => return self.add_disk(token, peer, wish),
            Request::RemoveDisk { disk } => {
                self.check_disk_admin(peer)?;
                (disk, Wish::Remove)
            }
            Request::CreateArea { path, bytes, fenced } => (path.disk.clone(), Wish::Create { path, bytes, fenced }),
            Request::GrowArea { path, bytes } => (path.disk.clone(), Wish::Grow { path, bytes }),
            Request::DeleteArea { path } => (path.disk.clone(), Wish::Delete { path }),
            Request::OpenArea(wish) => (wish.path.disk.clone(), Wish::Open(wish)),
            Request::LimitArea { path, rate } => (path.disk.clone(), Wish::Limit { path, rate }),
            _ => return Err("this is not asked of a disk".into()),
        };
        if matches!(wish, Wish::Create { .. }) {
            // Which disks there are is only told to those who may have something of them.
            self.rule(peer)?.check_disk(&disk)?;
        }
        let number = self.disks.number(&disk).ok_or_else(|| no_disk(&disk))?;
        let its = self.disks.all.get_mut(&number).ok_or_else(|| no_disk(&disk))?;
        its.errands.push(Errand { token: Some(token), peer, name, wish });
        self.suspend(token);
        self.attend_errands(number);
        Ok(())
    }

    /// Root, and those whose rule says so.
    fn check_disk_admin(&self, peer: Peer) -> Result<(), Refusal> {
        if peer.user == 0 || self.rule(peer).is_ok_and(|rule| rule.disk_admin) {
            return Ok(());
        }
        let text = "only root, and users whose rule says `disk_admin = true`, may add and remove disks: run with sudo";
        Err(Refusal::new(Cause::Forbidden, text))
    }

    fn add_disk(&mut self, token: u64, peer: Peer, wish: DiskWish) -> Result<(), Refusal> {
        self.check_disk_admin(peer)?;
        let DiskWish { name, path, size, function, directory } = wish;
        // A function is one disk, whatever it is called.
        let path = function.as_ref().map_or(path, FunctionWish::path);
        if function.is_some() && size.is_some() {
            return Err("a PCI function is as large as it is: leave out the size".into());
        }
        if function.is_some() && directory {
            return Err("a PCI function is no directory".into());
        }
        if AreaName::new(&name).is_err() {
            let what = "1 to 63 letters, digits, '-', '_' and '.', the first a letter or digit";
            return Err(format!("{name:?} is no name of a disk: {what}").into());
        }
        if !path.is_absolute() {
            return Err(format!("{}: name the file or device from the root on", path.display()).into());
        }
        let all = self.disks.all.values();
        if let Some(disk) = all.into_iter().find(|disk| disk.name == name || disk.path == path) {
            let (other, its) = (&disk.name, disk.path.display());
            let text = match &disk.state {
                DiskState::Failed(why) => {
                    format!("the disk {other} ({its}) is there, and can't be used ({why}): remove it first")
                }
                _ => format!("the disk {other} ({its}) is there already: choose another name, or remove it first"),
            };
            return Err(Refusal::new(Cause::Taken, text));
        }
        if self.disks.all.len() >= DISKS_MAX {
            return Err(Refusal::new(Cause::Full, format!("{DISKS_MAX} disks at most: remove one")));
        }
        self.disks.open((name, DiskRecord { path, function, directory }), (true, size), Some((token, peer)))?;
        self.suspend(token);
        Ok(())
    }

    /// Has a disk do what is asked of it next, if it has nothing to do.
    pub(super) fn attend_errands(&mut self, number: u32) {
        loop {
            let Some(disk) = self.disks.all.get_mut(&number) else { return };
            if disk.errands.under_way.is_some() || disk.state == DiskState::Opening {
                return;
            }
            let Some(errand) = disk.errands.pop() else { return };
            if let Err(why) = self.undertake(number, &errand) {
                self.conclude_errand(number, &errand, Err(why));
            }
        }
    }

    /// Gives an errand to the disk's thread, if it may be done.
    fn undertake(&mut self, number: u32, errand: &Errand) -> Result<(), Refusal> {
        self.check_usable(number, &errand.wish)?;
        if let Wish::Open(wish) = &errand.wish {
            return self.open_area(number, errand, wish);
        }
        let Plan { order, areas, bytes } = self.plan(number, errand)?;
        if matches!(order, Order::Remove) {
            self.end_disk_core(number);
        }
        let disk = self.disks.all.get_mut(&number).ok_or("the disk is gone")?;
        let is_removal = matches!(order, Order::Remove);
        let sent = disk.orders.as_ref().is_some_and(|orders| orders.try_send(order).is_ok());
        disk.errands.under_way = Some(UnderWay { errand: errand.clone(), areas, bytes });
        if !sent && is_removal {
            // Its thread has ended: what is left of it is its record.
            return Ok(self.disks.forget(number)?);
        }
        if !sent {
            disk.errands.under_way = None;
            return Err(format!("the disk {} has just failed: `qanat disk list` says why", disk.name).into());
        }
        Ok(())
    }

    /// Whether a disk is there for what is asked: one that has failed can only be removed.
    fn check_usable(&self, number: u32, wish: &Wish) -> Result<(), Refusal> {
        let disk = self.disks.all.get(&number).ok_or("the disk is gone")?;
        match (&disk.state, wish) {
            (DiskState::Failed(why), wish) if !matches!(wish, Wish::Remove) => {
                let name = &disk.name;
                Err(format!(
                    "the disk {name} can't be used ({why}): see to that, then `qanat disk remove {name}` and `qanat disk add`"
                )
                .into())
            }
            _ => Ok(()),
        }
    }

    fn plan(&mut self, number: u32, errand: &Errand) -> Result<Plan, Refusal> {
        let disk = self.disks.all.get(&number).ok_or("the disk is gone")?;
        let peer = errand.peer;
        match &errand.wish {
            Wish::Remove => match self.disk_handles(number) {
                0 => Ok(Plan { order: Order::Remove, areas: 0, bytes: 0 }),
                held => Err(format!("{held} handles of areas on the disk are open: end who has them first").into()),
            },
            Wish::Open(_) => Err("that changes nothing on a disk".into()),
            Wish::Release { id } => Ok(Plan::of(Change::Release { id: *id })),
            Wish::Create { path, bytes, fenced } => self.plan_creation(number, peer, (path, *fenced), *bytes),
            Wish::Grow { path, bytes } => {
                let area = owned(disk, peer, path)?;
                let (bytes, more) = (*bytes, rounded(*bytes)?.saturating_sub(area.reserved_bytes));
                let (name, is_own) = (area.name.clone(), area.owner.uid == peer.user);
                if is_own {
                    let rule = self.rule(peer)?;
                    rule.check_disk(&path.disk)?;
                    self.check_room(peer, &rule, 0, more)?;
                }
                Ok(Plan { bytes: more, ..Plan::of(Change::Grow { name, bytes }) })
            }
            Wish::Limit { path, rate } => {
                let area = owned(disk, peer, path)?;
                check_may_limit(area, path, *rate)?;
                let name = area.name.clone();
                Ok(Plan::of(Change::Limit { name, limits: limits_of(*rate) }))
            }
            Wish::Delete { path } => {
                let area = owned(disk, peer, path)?;
                let is_held = self.area_handles(number, area.id) > 0;
                Ok(Plan::of(Change::Delete { name: area.name.clone(), is_held }))
            }
        }
    }

    fn plan_creation(
        &mut self,
        number: u32,
        peer: Peer,
        (path, fenced): (&AreaPath, bool),
        bytes: u64,
    ) -> Result<Plan, Refusal> {
        let rule = self.rule(peer)?;
        rule.check_disk(&path.disk)?;
        let name = AreaName::new(&path.area).map_err(|error| error.to_string())?;
        let disk = self.disks.all.get(&number).ok_or("the disk is gone")?;
        let fence = fence_of(disk, peer, &rule, fenced)?;
        let taken = self.disks.all.get(&number).and_then(|disk| disk.by_name(&path.area));
        if let Some(area) = taken {
            let whose = if area.owner.uid == peer.user { "you have" } else { "another user has" };
            let text = format!("{whose} an area {path} already: choose another name");
            return Err(Refusal::new(Cause::Taken, text));
        }
        let reserved = rounded(bytes)?;
        self.check_room(peer, &rule, 1, reserved)?;
        let owner = Owner { uid: peer.user, gid: peer.group };
        Ok(Plan { areas: 1, bytes: reserved, ..Plan::of(Change::Create { name, owner, fence, bytes }) })
    }

    /// Whether a user may have so many more areas, and bytes.
    fn check_room(&mut self, peer: Peer, rule: &Rule, areas: u32, bytes: u64) -> Result<(), Refusal> {
        let has = self.area_usage(peer.account());
        if areas > 0 {
            let wanted = u64::from(has.areas) + u64::from(areas);
            rule.check_count("areas", wanted, u64::from(rule.areas), Cause::Full)?;
        }
        let most = rule.area_mib.saturating_mul(1 << 20);
        if bytes == 0 || has.bytes.saturating_add(bytes) <= most {
            return Ok(());
        }
        let text = format!(
            "rule \"{}\" allows {} MiB of areas, of which {} bytes are left, and {bytes} are asked for: ask for less, or delete some",
            rule.name,
            rule.area_mib,
            most.saturating_sub(has.bytes)
        );
        Err(Refusal::new(Cause::Full, text))
    }

    /// An errand is done, or not: who waits for it is told, and the log.
    pub(super) fn conclude_errand(&mut self, number: u32, errand: &Errand, outcome: Served) {
        let Errand { token, peer, name, wish } = errand;
        let disk = self.disks.all.get(&number).map_or("?", |disk| disk.name.as_str());
        let about = match wish {
            Wish::Create { path, bytes, .. } | Wish::Grow { path, bytes } => format!("{path}, {bytes} bytes"),
            Wish::Limit { path, rate } => format!("{path}, {rate}"),
            Wish::Delete { path } => path.to_string(),
            Wish::Open(wish) => wish.path.to_string(),
            Wish::Release { id } => format!("the space of area {id} on {disk}"),
            Wish::Remove => disk.to_owned(),
        };
        let said = Said { name, changes: true, vnic: None, about };
        self.conclude(*token, *peer, &said, outcome);
    }
}
