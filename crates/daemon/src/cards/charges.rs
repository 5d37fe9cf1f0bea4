//! Frame memory by whom it is charged to, for as long as it is pinned: until the last descriptor of the socket it was
//! registered with is closed. That may be long after the VNIC is gone, and no daemon can close what a client holds; but
//! what it holds counts.

use crate::error::{DaemonError, explain, say};
use crate::fence::injectors::Injectors;
use crate::fence::tables::programs_maps;
use crate::state::{ChargeState, Kept, StateDirectory};
use aya::EbpfLoader;
use aya::maps::{Map, MapData, XskMap};
use aya::programs::{ProgramFd, Xdp};
use qanat_nic::af_xdp::{INJECTION_BYTES, Injection, load_program};
use qanat_nic::link::{Namespace, ask_program};
use std::collections::{BTreeMap, BTreeSet};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};

/// Rows of `held`: sockets handed out that are still open.
const HELD_MAX: u32 = 4_096;
/// Of one user.
const HELD_PER_USER_MAX: usize = 512;
/// The program's answer for a socket that somebody holds.
const XDP_PASS: u32 = 2;
/// The shortest frame a program is asked about.
const FRAME_BYTES: usize = 64;
static OBJECT: &[u8] = aya::include_bytes_aligned!(concat!(env!("OUT_DIR"), "/holder.o"));

/// What is charged, in its table.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Charge {
    /// Its row, which others get after it.
    pub(crate) row: u32,
    /// Its number, which nobody else gets.
    pub(crate) number: u64,
}

pub(crate) struct Charges {
    /// Their rows are charges' rows.
    pub(crate) injectors: Injectors,
    /// Rows in which an injector may still be.
    injecting: BTreeSet<u32>,
    held: XskMap<MapData>,
    holder: ProgramFd,
    entries: BTreeMap<u32, ChargeState>,
    /// Where the search for a free row starts.
    cursor: u32,
    /// The last charge's number.
    last: u64,
    /// Memory that net cores have made for services: user and bytes, by the lease's token. Net cores end with the daemon, so
    /// nobody takes these back.
    leases: BTreeMap<u64, (u32, u64)>,
}

impl Charges {
    /// Loads the program that tells what is held.
    pub(crate) fn load(injectors: Injectors) -> Result<Charges, DaemonError> {
        let what = "load the table of sockets";
        let mut object = EbpfLoader::new().load(OBJECT).map_err(|error| explain(what, &error))?;
        let missing = || "the table of sockets has no program: rebuild".to_owned();
        let program: &mut Xdp = object.program_mut("holder").ok_or_else(missing)?.try_into().map_err(|_| missing())?;
        load_program(program, Xdp::load).map_err(|error| explain(what, &error))?;
        let holder = program.fd().and_then(|fd| fd.try_clone().map_err(Into::into));
        let holder = holder.map_err(|error| explain(what, &error))?;
        let held = object.take_map("held").ok_or_else(missing)?;
        let held = XskMap::try_from(held).map_err(|error| explain(what, &error))?;
        let (entries, leases, injecting) = (BTreeMap::new(), BTreeMap::new(), BTreeSet::new());
        Ok(Charges { injectors, injecting, held, holder, entries, cursor: 0, last: 0, leases })
    }

    /// Takes back what an earlier daemon charged; `program`: the number of its program.
    pub(crate) fn take_back(program: u32, kept: &Kept, injectors: Injectors) -> Result<Charges, DaemonError> {
        let what = "take back the table of sockets";
        let (holder, mut maps) = programs_maps(program, "holder")?;
        let held = maps.remove("held").ok_or_else(|| format!("{what}: it is gone"))?;
        let held = XskMap::try_from(Map::XskMap(held)).map_err(|error| explain(what, &error))?;
        let charges = kept.charges.iter().filter(|charge| charge.row < HELD_MAX);
        let entries: BTreeMap<u32, ChargeState> = charges.map(|charge| (charge.row, *charge)).collect();
        let injecting = entries.values().filter(|charge| charge.batch != 0).map(|charge| charge.row).collect();
        let used = kept.vnics.iter().flat_map(|vnic| vnic.sockets.values().copied());
        let last = used.chain(kept.charges.iter().map(|charge| charge.number)).max().unwrap_or(0);
        Ok(Charges { injectors, injecting, held, holder, entries, cursor: 0, last, leases: BTreeMap::new() })
    }

    /// The program: attached somewhere, it keeps the table in being without this process.
    pub(crate) fn holder(&self) -> BorrowedFd<'_> {
        self.holder.as_fd()
    }

    /// Charges memory to `user` until the socket is closed, and as long as anybody has the injector's batch of this number (0: none).
    pub(crate) fn add(
        &mut self,
        state: &StateDirectory,
        user: u32,
        bytes: u64,
        socket: BorrowedFd<'_>,
        batch: u32,
    ) -> Result<Charge, DaemonError> {
        let own = self.entries.values().filter(|charge| charge.user == user).count();
        if own >= HELD_PER_USER_MAX {
            return Err(format!("user {user} holds {own} queues' sockets, of VNICs deleted or not: close some").into());
        }
        let is_free = |row: &u32| !self.entries.contains_key(row);
        let row = (self.cursor..HELD_MAX).chain(0..self.cursor).find(is_free);
        let row = row.ok_or("all sockets of this machine are taken: delete some VNICs")?;
        self.cursor = (row + 1) % HELD_MAX;
        self.last += 1;
        let charge = ChargeState { row, user, bytes, number: self.last, batch };
        state.write_charge(&charge).map_err(|error| say("note a charge", error))?;
        if let Err(error) = self.held.set(row, socket.as_raw_fd(), 0) {
            state.remove_charge(row);
            return Err(explain("charge a queue's memory", &error));
        }
        self.entries.insert(row, charge);
        if batch != 0 {
            self.injecting.insert(row);
        }
        Ok(Charge { row, number: self.last })
    }

    /// Forgets what is charged to `user` and nobody holds any more.
    pub(crate) fn settle(&mut self, state: &StateDirectory, user: u32) {
        let holder = self.holder.as_fd();
        let (injectors, injecting) = (&mut self.injectors, &mut self.injecting);
        self.entries.retain(|row, charge| {
            if charge.user != user || is_held(holder, *row) {
                return true;
            }
            // The table holds the batch, too.
            if injecting.remove(row) {
                injectors.revoke(*row);
            }
            if charge.batch != 0 && Injection::is_held(charge.batch) {
                charge.bytes = charge.bytes.min(INJECTION_BYTES);
                return true;
            }
            state.remove_charge(*row);
            false
        });
    }

    /// Takes the injector of a queue back, if it has one.
    pub(crate) fn revoke(&mut self, number: u64) {
        let charge = self.entries.values().find(|charge| charge.number == number);
        if let Some(row) = charge.map(|charge| charge.row)
            && self.injecting.remove(&row)
        {
            self.injectors.revoke(row);
        }
    }

    /// Whether a queue has an injector.
    pub(crate) fn injects(&self, number: u64) -> bool {
        self.injecting_row(number).is_some()
    }

    /// Has the injector of a queue, if it has one, send by this device of `ends`, or not at all.
    pub(crate) fn set_sending(&mut self, number: u64, index: Option<u32>, ends: &Namespace) {
        if let Some(row) = self.injecting_row(number) {
            self.injectors.set_sending(row, index, ends);
        }
    }

    fn injecting_row(&self, number: u64) -> Option<u32> {
        let charge = self.entries.values().find(|charge| charge.number == number)?;
        self.injecting.contains(&charge.row).then_some(charge.row)
    }

    /// Whether somebody holds the socket of this charge.
    pub(crate) fn is_held(&self, number: u64) -> bool {
        let charge = self.entries.values().find(|charge| charge.number == number);
        charge.is_some_and(|charge| is_held(self.holder.as_fd(), charge.row))
    }

    /// Bytes charged to `user`, as of the last [`settle`](Charges::settle).
    pub(crate) fn of(&self, user: u32) -> u64 {
        let queues = self.entries.values().map(|charge| (charge.user, charge.bytes));
        queues.chain(self.leases.values().copied()).filter(|(owner, _)| *owner == user).map(|(_, bytes)| bytes).sum()
    }

    /// Charges a service's memory to `user` until [`end_lease`](Charges::end_lease).
    pub(crate) fn lease(&mut self, token: u64, user: u32, bytes: u64) {
        self.leases.insert(token, (user, bytes));
    }

    /// The memory has been given back.
    pub(crate) fn end_lease(&mut self, token: u64) {
        self.leases.remove(&token);
    }

    /// As [`settle`](Charges::settle), for all users.
    pub(crate) fn settle_all(&mut self, state: &StateDirectory) {
        let users: Vec<u32> = self.by_user().into_keys().collect();
        users.into_iter().for_each(|user| self.settle(state, user));
    }

    /// Bytes by user.
    pub(crate) fn by_user(&self) -> BTreeMap<u32, u64> {
        let mut sums = BTreeMap::new();
        let queues = self.entries.values().map(|charge| (charge.user, charge.bytes));
        for (user, bytes) in queues.chain(self.leases.values().copied()) {
            *sums.entry(user).or_default() += bytes;
        }
        sums
    }
}

/// Asks the table. A kernel that does not answer frees nobody of a charge.
fn is_held(holder: BorrowedFd<'_>, row: u32) -> bool {
    let mut frame = [0; FRAME_BYTES];
    frame[..4].copy_from_slice(&row.to_ne_bytes());
    ask_program(holder, &frame).map_or(true, |verdict| verdict == XDP_PASS)
}
