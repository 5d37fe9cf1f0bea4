//! What the disks' threads tell, and what becomes of it.

use crate::clients::conversation::Said;
use crate::clients::peer::Peer;
use crate::daemon::Daemon;
use crate::disks::errands::{UnderWay, Wish};
use crate::disks::error::DiskError;
use crate::disks::records::DiskRecord;
use crate::disks::worker::{AreaEntry, News, Opened};
use crate::log::Event;
use crate::requests::served::{Served, done};
use qanat_control::protocol::{Answer, AreaStatus, DiskState};
use qanat_control::refusal::{Cause, Refusal};
use qanat_disk::StorageError;
use qanat_disk::area::AreaError;

/// Heard at one look. The rest is heard in the next turn.
const HEARD_MAX: usize = 256;

/// What a disk says of a change, to who asked for it.
fn refusal(disk: &str, error: &AreaError) -> Refusal {
    let (cause, remedy) = match error {
        AreaError::Exists { .. } => (Cause::Taken, ": choose another name"),
        AreaError::NoRoom { .. } | AreaError::Device { error: StorageError::NoRoom, .. } => {
            (Cause::Full, ": ask for less, delete areas, or use another disk")
        }
        AreaError::TableFull { .. } => (Cause::Full, ": delete some"),
        AreaError::Fragmented { .. } => (Cause::Full, ""),
        AreaError::NoArea { .. } => (Cause::Other, ": `qanat disk list` shows those there are"),
        AreaError::Device { .. } | AreaError::Failed { .. } => {
            (Cause::Other, "; whether the change is there shows when the disk is opened again")
        }
        _ => (Cause::Other, ""),
    };
    Refusal::new(cause, format!("{disk}: {error}{remedy}"))
}

impl Daemon {
    /// Opens the disks that were added, each in its own time: those that are functions, which need a core, or the others. What can't be
    /// opened is told of, and keeps nobody waiting.
    pub(crate) fn open_disks(&mut self, functions: bool) {
        let records = match self.disks.records.read() {
            Ok(records) => records,
            Err(error) => {
                let detail = format!("{}: {error}", self.disks.records.directory().display());
                return (self.log)(&Event::new("disk-open", "failed", detail));
            }
        };
        let is_function =
            |record: &std::io::Result<DiskRecord>| record.as_ref().is_ok_and(|record| record.function.is_some());
        for (name, record) in records.into_iter().filter(|(_, record)| is_function(record) == functions) {
            let why = match record.map(|record| self.disks.open((name.clone(), record), (false, None), None)) {
                Ok(Ok(_)) => continue,
                Ok(Err(error)) => error.to_string(),
                Err(error) => format!("its record can't be read: {error}"),
            };
            (self.log)(&Event::new("disk-open", "failed", format!("{name}: {why}")));
            self.disks.note_unknown(name, why);
        }
    }

    /// Hears what is new.
    pub(crate) fn attend_disks(&mut self) {
        let mut count = [0; 8];
        let _ = rustix::io::read(&*self.disks.bell, &mut count);
        for _ in 0..HEARD_MAX {
            let Ok((number, news)) = self.disks.news.try_recv() else { return };
            match news {
                News::Opened(Ok(opened)) => self.disk_opened(number, *opened),
                News::Opened(Err(error)) => self.disk_not_opened(number, &error),
                News::Area { id, entry, free_bytes } => {
                    self.area_changed(number, id, entry.map(|entry| *entry), free_bytes)
                }
                News::Handed(outcome) => self.descriptor_opened(number, outcome),
                News::Outgrown { id, bytes } => drop(self.area_outgrown(number, id, bytes)),
                News::Done(outcome) => self.change_done(number, outcome),
                News::Failed(error) => self.disk_failed(number, error.to_string()),
                News::Removed(outcome) => self.disk_removed(number, outcome),
            }
            self.attend_errands(number);
        }
        // There may be more.
        let _ = rustix::io::write(&*self.disks.bell, &1_u64.to_ne_bytes());
    }

    fn tell_of_disk(&self, event: &'static str, result: &'static str, number: u32, what: &str) {
        let name = self.disks.all.get(&number).map_or("?", |disk| disk.name.as_str());
        (self.log)(&Event::new(event, result, format!("{name}: {what}")));
    }

    /// Tells the client that asked for the disk what became of it.
    fn conclude_addition(&mut self, number: u32, awaited_by: Option<(u64, Peer)>, outcome: Served) {
        let Some((token, peer)) = awaited_by else { return };
        let about = self.disks.all.get(&number).map(|disk| format!("{} is {}", disk.name, disk.path.display()));
        let said = Said { name: "add-disk", changes: true, vnic: None, about: about.unwrap_or_default() };
        self.conclude(Some(token), peer, &said, outcome);
    }

    fn disk_opened(&mut self, number: u32, mut opened: Opened) {
        if let Some(core) = opened.core.take()
            && let Err(error) = self.have_disk_core(number, core)
        {
            return self.disk_failed(number, error.to_string());
        }
        let areas = opened.areas.len();
        let (repairs, was_prepared) = (opened.repairs.clone(), opened.was_prepared);
        let completions = opened.completions.map_or_else(String::new, |completions| format!("; {completions}"));
        let Some(disk) = self.disks.all.get_mut(&number) else { return };
        disk.is_now(opened);
        let awaited_by = disk.awaited_by.take();
        for repair in repairs {
            let what = format!("superblock {} was {}, and has been written again", repair.copy, repair.was);
            self.tell_of_disk("disk-repair", "done", number, &what);
        }
        let prepared = if was_prepared { "prepared, " } else { "" };
        self.tell_of_disk("disk-open", "done", number, &format!("{prepared}{areas} areas{completions}"));
        self.conclude_addition(number, awaited_by, done());
    }

    fn disk_not_opened(&mut self, number: u32, error: &DiskError) {
        let Some(disk) = self.disks.all.get_mut(&number) else { return };
        let (mut why, awaited_by) = (error.to_string(), disk.awaited_by.take());
        if awaited_by.is_none() && error.may_pass() {
            why += "; it is tried again";
        } else {
            disk.orders = None;
        }
        disk.state = DiskState::Failed(why.clone());
        if awaited_by.is_none() {
            return self.tell_of_disk("disk-open", "failed", number, &why);
        }
        // It was never there: those who have asked for something on it are told, and then it is forgotten.
        self.attend_errands(number);
        self.conclude_addition(number, awaited_by, Err(why.into()));
        self.disks.all.remove(&number);
    }

    fn area_changed(&mut self, number: u32, id: u64, entry: Option<AreaEntry>, free_bytes: u64) {
        let Some(disk) = self.disks.all.get_mut(&number) else { return };
        disk.free_bytes = free_bytes;
        let Some(entry) = entry else {
            disk.areas.remove(&id);
            return;
        };
        let is_ready = entry.bytes == entry.reserved_bytes && !entry.is_doomed;
        let (name, fault, limits) = (entry.name.clone(), entry.fault.clone(), entry.limits);
        let before = disk.areas.insert(id, entry);
        let was_ready = before.as_ref().is_some_and(|area| area.bytes == area.reserved_bytes);
        let is_limited = before.is_some_and(|area| area.limits != limits);
        self.tell_tenants(number, id, is_ready && !was_ready, is_limited);
        if let Some(fault) = fault {
            self.tell_of_disk("area-zero", "failed", number, &format!("{name}: {fault}"));
        } else if is_ready && !was_ready {
            self.tell_of_disk("area-zero", "done", number, &format!("{name} is zeroed, and ready"));
        }
    }

    fn change_done(&mut self, number: u32, outcome: Result<u64, AreaError>) {
        let Some(disk) = self.disks.all.get_mut(&number) else { return };
        let Some(UnderWay { errand, .. }) = disk.errands.under_way.take() else { return };
        let name = disk.name.clone();
        let served = match outcome {
            Ok(id) => {
                let handles = self.area_handles(number, id);
                let disk = self.disks.all.get(&number);
                let gone = || AreaStatus { number: id, is_deleted: true, ..AreaStatus::default() };
                let status = disk.and_then(|disk| disk.areas.get(&id)).map_or_else(gone, |area| area.status(handles));
                Ok((Answer::Area(status), Vec::new()))
            }
            Err(error) => Err(refusal(&name, &error)),
        };
        if errand.token.is_some() || served.is_err() || !matches!(errand.wish, Wish::Release { .. }) {
            self.conclude_errand(number, &errand, served);
        }
    }

    pub(super) fn disk_failed(&mut self, number: u32, why: String) {
        self.tell_of_disk("disk-fail", "failed", number, &why);
        let Some(disk) = self.disks.all.get_mut(&number) else { return };
        disk.state = DiskState::Failed(why.clone());
        disk.orders = None;
        if let Some(UnderWay { errand, .. }) = disk.errands.under_way.take() {
            self.conclude_errand(number, &errand, Err(why.into()));
        }
    }

    fn disk_removed(&mut self, number: u32, outcome: std::io::Result<()>) {
        let Some(disk) = self.disks.all.get_mut(&number) else { return };
        (disk.orders, disk.file) = (None, None);
        let under_way = disk.errands.under_way.take();
        let directory = self.disks.records.directory().display();
        let why = outcome.err().map(|error| {
            format!("the daemon has let go of it, but can't forget it ({directory}: {error}): see to that, and remove it again")
        });
        let state = why.clone().unwrap_or_else(|| "it has been removed".to_owned());
        disk.state = DiskState::Failed(state);
        // Those behind the removal.
        self.attend_errands(number);
        if let Some(UnderWay { errand, .. }) = under_way {
            let served = why.clone().map_or_else(done, |why| Err(why.into()));
            self.conclude_errand(number, &errand, served);
        }
        if why.is_none() {
            self.disks.all.remove(&number);
        }
    }
}
