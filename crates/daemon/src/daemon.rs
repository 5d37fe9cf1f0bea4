//! What the daemon is made of.

use crate::cards::charges::Charges;
use crate::cards::uplink::Uplink;
use crate::cards::vnic::Vnic;
use crate::clients::fairness::Shares;
use crate::clients::orphan::Orphan;
use crate::clients::peer::Endpoint;
use crate::clients::porters::Porters;
use crate::clients::registrar::Registrar;
use crate::disks::disk::Disks;
use crate::error::{DaemonError, say};
use crate::fence::keepers::Keepers;
use crate::fence::tables::Tables;
use crate::log::Event;
use crate::net_cores::pool::NetCores;
use crate::policy::{InVain, Policy, Subordinates};
use crate::state::{LinkState, StateDirectory};
use qanat_control::filter::{Direction, Filter};
use qanat_nic::link::{LinkWatch, Namespace};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::TcpListener;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::AtomicU32;
use std::time::{Duration, Instant};

pub(crate) struct FilterObject {
    pub(crate) direction: Direction,
    pub(crate) filters: Vec<Filter>,
    /// Descriptors that hold it.
    pub(crate) handles: u32,
}

/// How [`Daemon::run`] ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// With everything it made.
    Down,
    /// Everything it made is left to the next daemon.
    Left,
}

/// How long a daemon that is to end when it is not used waits for somebody to use it.
pub const UNUSED_MAX: Duration = Duration::from_secs(5);

/// A user with a ceiling for all VNICs together.
pub(crate) struct Owner {
    pub(crate) number: u32,
    pub(crate) vnics: u32,
    /// Trains fit through the ceiling.
    pub(crate) takes_trains: bool,
}

/// The daemon.
pub struct Daemon {
    pub(crate) policy: Policy,
    pub(crate) subordinates: Subordinates,
    pub(crate) tables: Tables,
    pub(crate) charges: Charges,
    pub(crate) _keepers: Keepers,
    /// What the next daemon must know.
    pub(crate) state: StateDirectory,
    /// VNICs and filters of which it does not know the last yet.
    pub(crate) dirty: BTreeSet<u32>,
    pub(crate) dirty_filters: BTreeSet<u64>,
    /// Handles of an earlier daemon's that somebody still holds.
    pub(crate) orphans: Vec<Orphan>,
    /// Those of them that nobody holds any more.
    pub(crate) orphans_dead: Vec<Orphan>,
    pub(crate) last_look: Instant,
    /// Between two looks: longer where there are many sockets to be looked at.
    pub(crate) look_interval: Duration,
    pub(crate) next_filter: u64,
    pub(crate) link_watch: LinkWatch,
    /// Cards that have changed and are not looked at yet.
    pub(crate) unlooked: BTreeSet<u32>,
    /// TAP devices whose cards ended while they were elsewhere, and of which this daemon has no descriptor. They are deleted when they are
    /// back.
    pub(crate) strays: Vec<LinkState>,
    /// Of the VNICs' ends: nothing is in it but them.
    pub(crate) ends: Namespace,
    pub(crate) epoll: OwnedFd,
    pub(crate) endpoints: HashMap<u64, Endpoint>,
    pub(crate) next_token: u64,
    pub(crate) vnics: BTreeMap<u32, Vnic>,
    pub(crate) filters: HashMap<u64, FilterObject>,
    pub(crate) owners: HashMap<u32, Owner>,
    pub(crate) uplink: Option<Uplink>,
    pub(crate) net_cores: NetCores,
    pub(crate) disks: Disks,
    pub(crate) porters: Porters,
    pub(crate) registrar: Registrar,
    /// Names in the policy that nobody has: told already.
    pub(crate) in_vain: Vec<InVain>,
    pub(crate) shares: Shares,
    pub(crate) turn: u64,
    /// Listeners that are not listened to until then.
    pub(crate) paused: Vec<(Instant, u64)>,
    pub(crate) metrics: Option<TcpListener>,
    /// Where its page for browsers is, for root.
    pub(crate) dashboard: Option<String>,
    pub(crate) scrapes: Arc<AtomicU32>,
    /// What was told last.
    pub(crate) last_scrape: Option<(Instant, Arc<str>)>,
    pub(crate) started: Instant,
    /// Served, refused, cut off.
    pub(crate) requests: [u64; 3],
    pub(crate) buffer: Vec<u8>,
    pub(crate) stopping: Option<Ending>,
    /// Ends by itself when nobody has used it since then.
    pub(crate) unused_since: Option<Instant>,
    pub(crate) log: fn(&Event),
}

impl Daemon {
    /// The cards' namespace, for the program that this process becomes: a descriptor that it inherits, to be named by [`HEIR`](crate::HEIR).
    ///
    /// # Errors
    /// No descriptor is left.
    pub fn bequeath(&self) -> Result<OwnedFd, DaemonError> {
        rustix::io::dup(&self.ends).map_err(|error| say("keep the cards' namespace", error))
    }

    /// The tables: for tests.
    pub fn tables(&mut self) -> &mut Tables {
        &mut self.tables
    }

    /// There is a page for browsers: root is told where.
    pub fn has_dashboard(&mut self, url: String) {
        self.dashboard = Some(url);
    }

    /// It is to end by itself once nobody has had a card, or a connection to it, for [`UNUSED_MAX`].
    pub fn end_when_unused(&mut self) {
        self.unused_since = Some(Instant::now());
    }
}
