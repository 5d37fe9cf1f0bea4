//! What every VNIC needs, taken back from an earlier daemon or made.

use crate::cards::charges::Charges;
use crate::cards::tap;
use crate::error::{DaemonError, say};
use crate::fence::digest::digest;
use crate::fence::injectors::Injectors;
use crate::fence::tables::{self, OWN_QUEUE, TAP_GATE, Tables};
use crate::state::{Kept, StateDirectory, VnicState};
use crate::takeover::manager;
use qanat_nic::link::{self, Namespace};
use std::io;
use std::os::fd::{AsFd, AsRawFd};

/// Interface number of loopback in every namespace.
pub(super) const LOOPBACK: u32 = 1;

/// What every VNIC needs.
pub(crate) struct Ground {
    pub(crate) tables: Tables,
    pub(crate) ends: Namespace,
    pub(crate) charges: Charges,
    /// What an earlier daemon wrote down.
    pub(crate) kept: Option<Kept>,
    /// The programs are new, and to be attached in place of its.
    pub(crate) is_new: bool,
    /// In words, if something does not go well that is no reason not to start.
    pub(crate) remark: String,
}

/// Takes an earlier daemon's ground back, or breaks new one.
///
/// # Errors
/// What is missing, and the remedy.
pub(crate) fn ground(state: &StateDirectory) -> Result<Ground, DaemonError> {
    let given = manager::given_back();
    let Some(kept) = state.read() else {
        let cards = state.foreign_cards().len();
        if let Some(version) = state.foreign_version()
            && cards > 0
        {
            return Err(format!(
                "{}: {cards} cards of a daemon whose notes are of version {version}; this one reads {} to {}. They go on: \
                 start that version again, or end them with `qanat down`",
                state.path().display(),
                StateDirectory::VERSIONS.start(),
                StateDirectory::VERSIONS.end(),
            ).into());
        }
        state.clear();
        return break_ground(state, String::new());
    };
    let is_upgrade = kept.fence.fence != digest(tables::OBJECT);
    match take_back(state, kept, given, is_upgrade) {
        Ok(ground) => Ok(ground),
        Err(why) if is_upgrade => Err(format!(
            "cards of another version are in use, which this one can't take back ({why}): end them with `qanat down`"
        )
        .into()),
        Err(why) => {
            // Its cards go with the last of their clients, and till then serve them.
            let is_loss = state.read().is_some_and(|kept| !kept.vnics.is_empty());
            state.clear();
            let remark = format!("nothing is taken back from an earlier daemon: {why}");
            break_ground(state, if is_loss { remark } else { String::new() })
        }
    }
}

fn break_ground(state: &StateDirectory, mut remark: String) -> Result<Ground, DaemonError> {
    let tables = Tables::load()?;
    let ends = Namespace::anonymous().map_err(|error| say("make a network namespace", error))?;
    let silence = || -> io::Result<()> {
        qanat_nic::veth::silence_kernel();
        Ok(())
    };
    ends.within(silence).and_then(|done| done).map_err(|error| say("enter a namespace", error))?;
    let charges = Charges::load(Injectors::start(&ends))?;
    let ground = Ground { tables, ends, charges, kept: None, is_new: false, remark: String::new() };
    if let Err(error) = ground.keep(state) {
        let before = if remark.is_empty() { "" } else { "; " };
        remark = format!("{remark}{before}cards would not survive a crash of this daemon: {error}");
    }
    Ok(Ground { remark, ..ground })
}

fn take_back(
    state: &StateDirectory,
    kept: Kept,
    given: Vec<Namespace>,
    is_upgrade: bool,
) -> Result<Ground, DaemonError> {
    let mut held = Namespace::open(state.ends()).into_iter().chain(given);
    let ends = held
        .find(|ends| inode(ends).is_ok_and(|inode| inode == kept.fence.namespace))
        .ok_or("the cards' namespace is gone")?;
    let programs = attached(&kept, &ends).ok_or("no card of it is left")?;
    let slots = || kept.vnics.iter().map(|vnic| vnic.slot).filter(|slot| *slot < tables::VNICS_MAX);
    // New programs over the old tables, even if they are the same: those no device has at the moment are gone.
    let (tables, is_new) = match Tables::upgrade(&programs, slots()) {
        Ok(tables) => (tables, true),
        // The old ones serve as well, if they are there.
        Err(why) if !is_upgrade => {
            let both = |error: DaemonError| format!("{error}; nor can new programs be loaded: {why}");
            (Tables::take_back(&programs, slots()).map_err(both)?, false)
        }
        Err(why) => return Err(why),
    };
    let holder = ends.within(|| link::link_by_index(LOOPBACK)).and_then(|link| link).ok().and_then(|l| l.xdp_program);
    let charges = match holder {
        Some(holder) => Charges::take_back(holder, &kept, Injectors::start(&ends))?,
        None => Charges::load(Injectors::start(&ends))?,
    };
    let ground = Ground { tables, ends, charges, kept: Some(kept), is_new, remark: String::new() };
    ground.keep(state)?;
    Ok(ground)
}

/// Programs of cards that are left, number and name. What devices say is right even if an earlier daemon was killed while it
/// replaced them.
fn attached(kept: &Kept, ends: &Namespace) -> Option<Vec<(u32, &'static str)>> {
    let of_vnic = |vnic: &VnicState| {
        let host = vnic.host_device()?;
        if vnic.is_tap() {
            return Some(vec![(tap::gate_of(host.index)?, TAP_GATE)]);
        }
        let host = host.xdp_program?;
        if vnic.is_nics() {
            return tables::is_called(host, OWN_QUEUE).then(|| vec![(host, OWN_QUEUE)]);
        }
        let index = vnic.end.index;
        let end = ends.within(|| link::link_by_index(index)).and_then(|link| link).ok()?;
        Some(vec![(host, "gate"), (end.xdp_program?, "deliver")])
    };
    kept.vnics.iter().find_map(of_vnic)
}

fn inode(namespace: &Namespace) -> Result<u64, DaemonError> {
    rustix::fs::fstat(namespace.as_fd()).map(|status| status.st_ino).map_err(|error| say("look at a namespace", error))
}

impl Ground {
    /// Makes it outlive this process: the namespace by a mount, and by loopback in it the table of sockets.
    pub(crate) fn keep(&self, state: &StateDirectory) -> Result<(), DaemonError> {
        let written = state.start(digest(tables::OBJECT), inode(&self.ends)?);
        written.map_err(|error| format!("{}: {error}", state.path().display()))?;
        if self.kept.is_some() {
            return Ok(());
        }
        let attach = || {
            // The others are kept by the devices they are attached to.
            link::set_generic_xdp(LOOPBACK, self.charges.holder())
        };
        self.ends.within(attach).and_then(|done| done).map_err(|error| say("keep the table of sockets", error))?;
        let stored = manager::keep(&self.ends)
            .map_err(|error| say("give the cards' namespace to the service manager", error))?;
        let path = state.ends();
        let mount = || -> io::Result<()> {
            std::fs::write(&path, "")?;
            let source = format!("/proc/self/fd/{}", self.ends.as_fd().as_raw_fd());
            rustix::mount::mount_bind(source, &path)?;
            Ok(())
        };
        // One of the two is enough.
        match mount() {
            Err(error) if !stored => Err(format!("mount the cards' namespace at {}: {error}", path.display()).into()),
            _ => Ok(()),
        }
    }
}
