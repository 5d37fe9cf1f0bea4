//! What the daemon must know again after its end: written down before it answers, read when it starts.
//!
//! One small file for each VNIC and filter, replaced as a whole (written beside, then renamed), in a directory next to the
//! control socket; root's alone. Devices, programs and tables are not in it: they are the kernel's, and go on without us.

use crate::cards::assignment::Assignment;
use crate::clients::peer::{Identity, Peer};
use crate::fence::rows::VnicRow;
use crate::policy::Rule;
use qanat_control::filter::{Direction, Filter, Rate};
use qanat_control::protocol::{Provider, Steered, VnicWish};
use qanat_nic::link::{self, Link};
use rustix::fs::Mode;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::io;
use std::net::IpAddr;
use std::path::{Path, PathBuf};

/// The version of these files.
const VERSION: u32 = 2;
const FENCE: &str = "fence.json";
/// Where the VNICs' namespace is mounted.
const ENDS: &str = "ends";
/// Files read at most: more than a daemon writes.
const FILES_MAX: usize = 65_536;

/// A handle that was given out.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) struct HandleState {
    pub(crate) identity: Identity,
    pub(crate) peer: Peer,
}

/// What all VNICs share.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct FenceState {
    version: u32,
    /// Of the kernel's start: numbers of programs and sockets mean nothing after another.
    boot: String,
    /// Of the programs' text.
    pub(crate) fence: u64,
    /// Of the VNICs' namespace: its inode.
    pub(crate) namespace: u64,
}

/// An end of a device.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct LinkState {
    pub(crate) index: u32,
    pub(crate) name: String,
    pub(crate) mac: [u8; 6],
    pub(crate) mtu: u32,
}

impl LinkState {
    pub(crate) fn of(link: &Link) -> LinkState {
        LinkState { index: link.index, name: link.name.clone(), mac: link.mac.0, mtu: link.mtu }
    }

    /// Whether `link` is this one, and not another that got its name.
    pub(crate) fn is(&self, link: &Link) -> bool {
        (self.index, self.mac) == (link.index, link.mac.0)
    }

    /// As [`is`](LinkState::is), for the kernel's end, whose Ethernet address anybody who administers this machine may change.
    pub(crate) fn is_host(&self, link: &Link) -> bool {
        self.index == link.index && (self.mac == link.mac.0 || self.name == link.name)
    }
}

/// A VNIC.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct VnicState {
    pub(crate) slot: u32,
    pub(crate) wish: VnicWish,
    pub(crate) user: u32,
    /// The user whose limits it counts to. `None` by an older daemon: `user`.
    #[serde(default)]
    pub(crate) account: Option<u32>,
    pub(crate) process: i32,
    pub(crate) rule: Rule,
    /// The number its owner's ceiling has.
    pub(crate) owner: Option<u32>,
    pub(crate) host: LinkState,
    pub(crate) end: LinkState,
    pub(crate) gateways: Vec<IpAddr>,
    pub(crate) row: VnicRow,
    pub(crate) filters: [Vec<Steered>; 2],
    pub(crate) assigned: BTreeMap<u64, Assignment>,
    pub(crate) rates: [Rate; 2],
    pub(crate) queues: BTreeMap<u32, u64>,
    /// Numbers of the charges for the queues' memory; none of what an older daemon opened.
    #[serde(default)]
    pub(crate) sockets: BTreeMap<u32, u64>,
    pub(crate) handles: Vec<HandleState>,
}

impl VnicState {
    /// The kernel's end, if it is here.
    pub(crate) fn host_device(&self) -> Option<Link> {
        link::link_by_index(self.host.index).ok().filter(|link| self.host.is_host(link))
    }

    /// Whether it has queues of a NIC's: that is nobody's to delete.
    pub(crate) fn is_nics(&self) -> bool {
        matches!(self.wish.provider, Provider::Queue { .. } | Provider::Vf { .. })
    }

    /// Whether it is a TAP device.
    pub(crate) fn is_tap(&self) -> bool {
        self.wish.provider == Provider::Tap
    }
}

/// A filter that has a handle.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct FilterState {
    pub(crate) number: u64,
    pub(crate) direction: Direction,
    pub(crate) filters: Vec<Filter>,
    pub(crate) handles: Vec<HandleState>,
}

/// Memory that is charged to a user.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) struct ChargeState {
    pub(crate) row: u32,
    pub(crate) user: u32,
    pub(crate) bytes: u64,
    /// Rows are used again, this is not.
    #[serde(default)]
    pub(crate) number: u64,
    /// The number of the injector's batch that is charged with it; 0: none.
    #[serde(default)]
    pub(crate) batch: u32,
}

/// All of it.
pub(crate) struct Kept {
    pub(crate) fence: FenceState,
    pub(crate) vnics: Vec<VnicState>,
    pub(crate) filters: Vec<FilterState>,
    pub(crate) charges: Vec<ChargeState>,
}

/// The directory.
#[derive(Clone, Debug)]
pub(crate) struct StateDirectory {
    path: PathBuf,
}

impl StateDirectory {
    /// Of files that are read. What older ones do not say has a default; where that can't be, the range begins later.
    pub(crate) const VERSIONS: std::ops::RangeInclusive<u32> = 1..=VERSION;

    /// The one that belongs to a control socket: `control.sock` has `control.state`.
    pub(crate) fn of(socket: &Path) -> StateDirectory {
        StateDirectory { path: socket.with_extension("state") }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Where the VNICs' namespace is mounted.
    pub(crate) fn ends(&self) -> PathBuf {
        self.path.join(ENDS)
    }

    /// Makes it, empty but for what is shared.
    pub(crate) fn start(&self, fence: u64, namespace: u64) -> io::Result<()> {
        std::fs::create_dir_all(&self.path)?;
        rustix::fs::chmod(&self.path, Mode::RWXU)?;
        self.write(FENCE, &FenceState { version: VERSION, boot: boot(), fence, namespace })
    }

    pub(crate) fn write_vnic(&self, vnic: &VnicState) -> io::Result<()> {
        self.write(&format!("vnic-{}.json", vnic.slot), vnic)
    }

    pub(crate) fn remove_vnic(&self, slot: u32) {
        self.remove_file(&format!("vnic-{slot}.json"));
    }

    pub(crate) fn write_filter(&self, filter: &FilterState) -> io::Result<()> {
        self.write(&format!("filter-{}.json", filter.number), filter)
    }

    pub(crate) fn remove_filter(&self, number: u64) {
        self.remove_file(&format!("filter-{number}.json"));
    }

    pub(crate) fn write_charge(&self, charge: &ChargeState) -> io::Result<()> {
        self.write(&format!("charge-{}.json", charge.row), charge)
    }

    pub(crate) fn remove_charge(&self, row: u32) {
        self.remove_file(&format!("charge-{row}.json"));
    }

    /// The version of what a daemon left that this one can't read: of one much older, or newer.
    pub(crate) fn foreign_version(&self) -> Option<u32> {
        // Of any version.
        let fence: serde_json::Value = self.read_file(&self.path.join(FENCE))?;
        let is_now = fence.get("boot").and_then(|value| value.as_str()) == Some(boot().as_str());
        let version = fence.get("version")?.as_u64()?.try_into().ok()?;
        (is_now && !Self::VERSIONS.contains(&version)).then_some(version)
    }

    /// Names and interfaces of cards, as far as they can be made out in what any version left.
    pub(crate) fn foreign_cards(&self) -> Vec<(String, String)> {
        let files = std::fs::read_dir(&self.path).into_iter().flatten().flatten().take(FILES_MAX);
        let files = files.filter(|entry| entry.file_name().to_string_lossy().starts_with("vnic-"));
        let text = |card: &serde_json::Value, path: &str| card.pointer(path)?.as_str().map(str::to_owned);
        let read = |entry: std::fs::DirEntry| {
            let card: serde_json::Value = self.read_file(&entry.path())?;
            let unknown = || "?".to_owned();
            Some((text(&card, "/wish/name").unwrap_or_else(unknown), text(&card, "/host/name").unwrap_or_else(unknown)))
        };
        files.filter_map(read).collect()
    }

    /// What an earlier daemon of this machine's run left; `None`: nothing, or nothing that means anything now. A file that
    /// can't be understood is left out: what it was about is removed as something nobody knows.
    pub(crate) fn read(&self) -> Option<Kept> {
        let fence: FenceState = self.read_file(&self.path.join(FENCE))?;
        if !Self::VERSIONS.contains(&fence.version) || fence.boot != boot() {
            return None;
        }
        let mut kept = Kept { fence, vnics: Vec::new(), filters: Vec::new(), charges: Vec::new() };
        for entry in std::fs::read_dir(&self.path).ok()?.flatten().take(FILES_MAX) {
            let (path, name) = (entry.path(), entry.file_name());
            let name = name.to_string_lossy();
            if !name.ends_with(".json") {
                continue;
            } else if name.starts_with("vnic-") {
                kept.vnics.extend(self.read_file::<VnicState>(&path));
            } else if name.starts_with("filter-") {
                kept.filters.extend(self.read_file::<FilterState>(&path));
            } else if name.starts_with("charge-") {
                kept.charges.extend(self.read_file::<ChargeState>(&path));
            }
        }
        kept.vnics.sort_by_key(|vnic| vnic.slot);
        Some(kept)
    }

    /// Removes it and all that is in it.
    pub(crate) fn clear(&self) {
        // Not mounted, or not there: nothing to do.
        let _ = rustix::mount::unmount(self.ends(), rustix::mount::UnmountFlags::DETACH);
        let _ = std::fs::remove_dir_all(&self.path);
    }

    fn write(&self, name: &str, content: &impl Serialize) -> io::Result<()> {
        let text = serde_json::to_vec(content)?;
        let new = self.path.join(format!(".{name}.new"));
        // No fsync: it is of use as long as the kernel runs, and no longer.
        std::fs::write(&new, text)?;
        std::fs::rename(&new, self.path.join(name))
    }

    fn remove_file(&self, name: &str) {
        // One that was never written needs no removing.
        let _ = std::fs::remove_file(self.path.join(name));
    }

    fn read_file<T: DeserializeOwned>(&self, path: &Path) -> Option<T> {
        serde_json::from_slice(&std::fs::read(path).ok()?).ok()
    }
}

fn boot() -> String {
    std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default().trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        let directory = std::env::temp_dir().join(format!("qanat-state-{}", std::process::id()));
        let state = StateDirectory::of(&directory.join("control.sock"));
        assert!(state.read().is_none(), "nothing there");
        state.start(7, 9).unwrap();
        state.write_charge(&ChargeState { row: 4, user: 5, bytes: 6, number: 7, batch: 8 }).unwrap();
        // A daemon killed while it wrote, and somebody's nonsense.
        std::fs::write(state.path().join(".vnic-1.json.new"), "{\"slot\":").unwrap();
        std::fs::write(state.path().join("vnic-2.json"), "{\"slot\":").unwrap();
        let kept = state.read().unwrap();
        assert_eq!((kept.fence.fence, kept.fence.namespace), (7, 9));
        assert_eq!((kept.vnics.len(), kept.charges.len(), kept.charges[0].bytes, kept.charges[0].batch), (0, 1, 6, 8));
        state.remove_charge(4);
        assert!(state.read().unwrap().charges.is_empty() && state.foreign_version().is_none());
        // Of versions this one reads, and does not.
        let fence = state.path().join(FENCE);
        for (version, is_foreign) in [(0, true), (1, false), (VERSION, false), (VERSION + 1, true)] {
            let text = serde_json::json!({"version": version, "boot": boot(), "fence": 7, "namespace": 9, "more": 1});
            std::fs::write(&fence, text.to_string()).unwrap();
            assert_eq!(state.foreign_version(), is_foreign.then_some(version));
            assert_eq!(state.read().is_none(), is_foreign);
        }
        state.clear();
        assert!(!state.path().exists());
        let _ = std::fs::remove_dir(directory);
    }
}
