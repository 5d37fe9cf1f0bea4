//! Lists of disks and areas, and their figures.

use crate::clients::peer::Peer;
use crate::daemon::Daemon;
use crate::disks::disk::Disk;
use crate::policy::Rule;
use crate::requests::pages::PAGE_BYTES;
use qanat_control::prometheus::Kind::{self, Counter, Gauge};
use qanat_control::prometheus::{Exposition, Label};
use qanat_control::protocol::{DiskPlace, DiskState, DiskStatus};

/// Figures of each area: name, kind, help.
pub(crate) const AREA_FIGURES: [(&str, Kind, &str); 3] = [
    ("qanat_area_bytes", Gauge, "Bytes reserved for an area."),
    ("qanat_area_ready_bytes", Gauge, "Of these, bytes that are zeroed and can be used."),
    ("qanat_area_handles", Gauge, "Handles of it that are open."),
];

impl Daemon {
    /// How many handles an area has.
    pub(super) fn area_handles(&self, disk: u32, area: u64) -> u32 {
        let tenants = self.disks.all.get(&disk).into_iter().flat_map(|disk| disk.tenants.values());
        tenants.filter(|tenant| tenant.area == area).count() as u32
    }

    /// How many handles the areas of a disk have.
    pub(super) fn disk_handles(&self, disk: u32) -> usize {
        self.disks.all.get(&disk).map_or(0, |disk| disk.tenants.len())
    }

    /// Names of disks on which areas may be made.
    pub(crate) fn names_of_disks(&self, rule: &Rule) -> Vec<String> {
        let names = self.disks.all.values().map(|disk| &disk.name);
        names.filter(|name| rule.allows_disk(name)).cloned().collect()
    }

    /// The disks that somebody may know of, from a place on, with the areas that are theirs, and where the next part begins.
    pub(crate) fn disks_part(&self, peer: Peer, from: DiskPlace) -> (Vec<DiskStatus>, Option<DiskPlace>) {
        let rule = self.policy.rule_of(peer.standing);
        let is_own = |user: u32| peer.user == 0 || user == peer.user;
        let is_visible = |disk: &Disk| {
            let allowed = peer.user == 0 || rule.is_some_and(|rule| rule.allows_disk(&disk.name) || rule.disk_admin);
            allowed || disk.areas.values().any(|area| is_own(area.owner.uid))
        };
        let (mut parts, mut room) = (Vec::new(), PAGE_BYTES);
        for (number, disk) in self.disks.all.range(from.disk..).filter(|(_, disk)| is_visible(disk)) {
            let first = if *number == from.disk { from.area } else { 0 };
            let mut status = disk.status();
            for area in disk.areas.range(first..).map(|(_, area)| area).filter(|area| is_own(area.owner.uid)) {
                if room == 0 {
                    parts.push(status);
                    return (parts, Some(DiskPlace { disk: *number, area: area.id }));
                }
                let part = area.status(self.area_handles(*number, area.id));
                // What can't be written is refused when it is sent.
                room = room.saturating_sub(serde_json::to_vec(&part).map_or(usize::MAX, |text| text.len()));
                status.areas.push(part);
            }
            parts.push(status);
        }
        (parts, None)
    }

    /// The disks' own figures.
    pub(crate) fn write_disk_figures(&self, text: &mut Exposition) {
        let disks = || self.disks.all.values();
        let ready = disks().map(|disk| (&disk.name, u32::from(disk.state == DiskState::Ready)));
        text.family("qanat_disk_ready", Gauge, "Whether a disk can be used.").by("disk", ready);
        let bytes = disks().map(|disk| (&disk.name, disk.bytes));
        text.family("qanat_disk_bytes", Gauge, "Bytes on a disk.").by("disk", bytes);
        let free = disks().map(|disk| (&disk.name, disk.free_bytes));
        text.family("qanat_disk_free_bytes", Gauge, "Bytes that no area has.").by("disk", free);
        let offences = disks().map(|disk| (&disk.name, disk.offences));
        text.family("qanat_disk_offences_total", Counter, "Users of areas that were cut off for what they did.")
            .by("disk", offences);
        let areas = disks().map(|disk| (&disk.name, disk.areas.len()));
        text.family("qanat_disk_areas", Gauge, "Areas on a disk, deleted ones that somebody holds included.")
            .by("disk", areas);
    }

    /// One figure of all areas, from the one of that position on: the position of the next if there is no more room.
    pub(crate) fn write_area_figures(&self, text: &mut Exposition, figure: usize, first: usize) -> Option<usize> {
        let (name, kind, help) = AREA_FIGURES.get(figure).copied()?;
        if first == 0 {
            text.family(name, kind, help);
        }
        let all = self.disks.all.values().flat_map(|disk| disk.areas.values().map(move |area| (disk, area)));
        for (position, (disk, area)) in all.enumerate().skip(first) {
            if position > first && text.bytes() >= PAGE_BYTES {
                return Some(position);
            }
            // Deleted areas that somebody holds have names that others may have by now.
            let labels: [Label<'_>; 4] =
                [("disk", &disk.name), ("area", &area.name), ("number", &area.id), ("uid", &area.owner.uid)];
            let value = match figure {
                0 => area.reserved_bytes,
                1 => area.bytes,
                _ => u64::from(self.area_handles(disk.number, area.id)),
            };
            text.continued(name).labelled(&labels, value);
        }
        None
    }
}
