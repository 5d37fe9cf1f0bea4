//! A card's stack and the services it is for: one, or several of one user's that share its listeners, each with rings,
//! transmit memory and credits of its own.
//!
//! A stack of one service leaves its events in the stack until there is room in the service's ring, and then does not read
//! its card: nobody else is concerned. Of a shared one each event is its owner's at once, and waits with it if it must; who
//! holds more than its share of the frames has nothing more received for its connections, which its peers then send again.

use crate::split::handshake::ServiceStatus;
use crate::split::net_core::accept::{AcceptPolicy, Owners, SEATS_MAX};
use crate::split::net_core::lending::Copies;
use crate::split::net_core::tenant::export::{Belongings, TenantExport, TenantImport};
use crate::split::net_core::tenant::{EVENTS_PER_TURN, EVENTS_WAITING_MAX, House, Offence, Tenant};
use qanat_nic::{Time, Vnic};
use qanat_stack::{ConnectionId, Event, Stack};
use serde::{Deserialize, Serialize};

/// Events given out before other cards' turn.
const EVENTS_OF_ALL_PER_TURN: usize = 4 * EVENTS_PER_TURN;

/// Rounds of giving out events before a connection is moved: more than a stack can hold at once.
const DISPATCHES_MAX: usize = 64;
/// As the message has it.
const NO_CONNECTION: ConnectionId = ConnectionId::new(u32::MAX, u32::MAX);

/// The stack and who it is for.
pub(crate) struct Tenancy {
    stack: Stack,
    seats: Vec<Option<Tenant>>,
    owners: Owners,
    /// It is, or has been, several services'.
    is_shared: bool,
}

/// What the next net core must know of it, beside the stack.
#[derive(Serialize)]
pub(crate) struct TenancyExport<'a> {
    is_shared: bool,
    owners: &'a Owners,
    seats: Vec<TenantExport<'a>>,
}

/// As it is read.
#[derive(Deserialize)]
pub(crate) struct TenancyImport {
    is_shared: bool,
    owners: Owners,
    seats: Vec<TenantImport>,
}

impl Tenancy {
    pub(crate) fn export(&self) -> TenancyExport<'_> {
        let seats = self.tenants().map(Tenant::export).collect();
        TenancyExport { is_shared: self.is_shared, owners: &self.owners, seats }
    }

    pub(crate) fn stack(&self) -> &Stack {
        &self.stack
    }

    /// Who is where.
    pub(crate) fn seats(&self) -> impl Iterator<Item = Option<&Tenant>> {
        self.seats.iter().map(Option::as_ref)
    }

    /// Goes on with it, the services on seats that are `taken`; `None`: that can't be what a net core parted with.
    pub(crate) fn resume(
        stack: Stack,
        parted: TenancyImport,
        taken: &[bool],
        belongings: Vec<Belongings>,
        frames: u32,
        copies: &Copies,
    ) -> Option<Tenancy> {
        let TenancyImport { is_shared, owners, seats: parted } = parted;
        let count = taken.iter().filter(|taken| **taken).count();
        if parted.len() != count || belongings.len() != count || (count > 1 && !is_shared) {
            return None;
        }
        let mut both = parted.into_iter().zip(belongings);
        let seat = |taken: &bool| -> Option<Option<Tenant>> {
            if !taken {
                return Some(None);
            }
            let (parted, own) = both.next()?;
            Tenant::resume(parted, own, frames, copies).map(Some)
        };
        let seats = taken.iter().map(seat).collect::<Option<Vec<_>>>()?;
        Some(Tenancy { stack, seats, owners, is_shared })
    }

    pub(crate) fn new(stack: Stack, policy: AcceptPolicy) -> Tenancy {
        Tenancy { stack, seats: Vec::new(), owners: Owners::new(policy), is_shared: false }
    }

    /// Whether another may come.
    pub(crate) fn has_room(&self) -> bool {
        self.tenants().count() < SEATS_MAX
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.tenants().next().is_none()
    }

    pub(crate) fn tenants(&self) -> impl Iterator<Item = &Tenant> {
        self.seats.iter().flatten()
    }

    /// A service comes.
    pub(crate) fn enter(&mut self, tenant: Tenant) {
        let free = self.seats.iter().position(Option::is_none);
        let seat = free.unwrap_or(self.seats.len());
        if free.is_none() {
            self.seats.push(None);
        }
        if let Some(place) = self.seats.get_mut(seat) {
            *place = Some(tenant);
        }
        self.is_shared |= self.tenants().count() > 1;
        self.share_out();
    }

    /// Each may hold as many frames as the others.
    fn share_out(&mut self) {
        let count = self.tenants().count() as u32;
        self.seats.iter_mut().flatten().for_each(|tenant| tenant.share(count));
    }

    /// As if there were no credits, to see what they are good for.
    #[cfg(test)]
    pub(crate) fn without_credits(&mut self) {
        self.seats.iter_mut().flatten().for_each(|tenant| tenant.without_credits());
    }

    /// Frames a service holds.
    #[cfg(test)]
    pub(crate) fn lent_to(&self, seat: usize) -> u32 {
        self.seats.get(seat).and_then(Option::as_ref).map_or(0, Tenant::lent_count)
    }

    /// A service is gone: what it was lent comes home, its connections are reset, its share of listeners is the others'.
    fn leave(&mut self, seat: usize, now: Time) {
        let Some(tenant) = self.seats.get_mut(seat).and_then(Option::take) else { return };
        // With it the frames it was lent.
        drop(tenant);
        let (listeners, sockets) = self.owners.leave_all(seat);
        for listener in listeners {
            _ = self.stack.close_listener(listener);
        }
        for socket in sockets {
            _ = self.stack.close_udp(socket);
        }
        for connection in self.connections_of(seat) {
            self.owners.forget(connection);
            _ = self.stack.abort(now, connection);
        }
        if let Some(slow) = self.owners.slow.get_mut(seat) {
            *slow = false;
        }
        self.share_out();
    }

    fn connections_of(&self, seat: usize) -> Vec<ConnectionId> {
        self.stack.connections().filter(|connection| self.owners.is_of(*connection, seat)).collect()
    }

    /// One turn: commands, packets, events, output. Whether anything happened; why services were cut off goes to `offences`.
    pub(crate) fn turn(&mut self, now: Time, vnic: &mut dyn Vnic, offences: &mut Vec<Offence>) -> bool {
        let mut busy = false;
        for seat in 0..self.seats.len() {
            match self.commands(seat, now, vnic) {
                Ok(happened) => busy |= happened,
                Err(offence) => {
                    offences.push(offence);
                    self.leave(seat, now);
                }
            }
        }
        if self.stack.event_count() < EVENTS_WAITING_MAX {
            busy |= self.stack.receive(now, vnic) > 0;
        } else {
            self.seats.iter_mut().flatten().for_each(Tenant::note_held_back);
        }
        busy |= match self.is_shared {
            false => self.tell(now, vnic, offences),
            true => self.dispatch(now, vnic) | self.give_out(now, offences),
        };
        self.stack.transmit(now, vnic);
        busy
    }

    fn commands(&mut self, seat: usize, now: Time, vnic: &mut dyn Vnic) -> Result<bool, Offence> {
        let Some(tenant) = self.seats.get_mut(seat).and_then(Option::as_mut) else { return Ok(false) };
        let (stack, owners, is_shared) = (&mut self.stack, &mut self.owners, self.is_shared);
        let mut yielded = Vec::new();
        let happened =
            tenant.take_commands(&mut House { now, vnic, stack, owners, seat, is_shared, yielded: &mut yielded })?;
        for connection in yielded {
            self.move_connection(connection, seat, now, vnic);
        }
        Ok(happened)
    }

    /// A service gives a connection up: another has it, with what was received and not looked at, in order.
    fn move_connection(&mut self, connection: ConnectionId, seat: usize, now: Time, vnic: &mut dyn Vnic) {
        let others = self.owners.others(seat);
        if connection == NO_CONNECTION {
            if let Some(tenant) = self.seats.get_mut(seat).and_then(Option::as_mut) {
                tenant.tell_others(others);
            }
            return;
        }
        // What has happened so far was told to its old owner, or is among what that has not looked at.
        for _ in 0..DISPATCHES_MAX {
            if !self.is_shared || !self.dispatch(now, vnic) {
                break;
            }
        }
        let Some(old) = self.seats.get_mut(seat).and_then(Option::as_mut) else { return };
        let rest = old.reclaim(connection);
        if !self.owners.is_of(connection, seat) {
            // Its end crossed this on the way.
            return;
        }
        let Some(it) = self.stack.handover(connection) else { return };
        let chosen = self.owners.choose_other(it.local, it.peer, seat);
        self.pin(connection, chosen.map(|(_, seat)| seat), now);
        let Some((listener, new)) = chosen else { return };
        if let Some(tenant) = self.seats.get_mut(new).and_then(Option::as_mut) {
            tenant.adopt(connection, listener, &it, rest);
        }
    }

    /// Tells the only service of its events.
    fn tell(&mut self, now: Time, vnic: &mut dyn Vnic, offences: &mut Vec<Offence>) -> bool {
        let Some((seat, tenant)) = self.seats.iter_mut().enumerate().find_map(|(seat, t)| Some((seat, t.as_mut()?)))
        else {
            return false;
        };
        let (stack, owners) = (&mut self.stack, &mut self.owners);
        let told =
            tenant.tell(&mut House { now, vnic, stack, owners, seat, is_shared: false, yielded: &mut Vec::new() });
        told.unwrap_or_else(|offence| {
            offences.push(offence);
            self.leave(seat, now);
            true
        })
    }

    /// Gives each event of a shared stack to its owner.
    fn dispatch(&mut self, now: Time, vnic: &mut dyn Vnic) -> bool {
        let mut busy = false;
        for _ in 0..EVENTS_OF_ALL_PER_TURN {
            let Some(event) = self.stack.next_event() else { break };
            busy = true;
            let seat = match &event {
                Event::Accepted { connection, listener, peer } => {
                    let is_by_flow = self.owners.is_by_flow();
                    let local = is_by_flow.then(|| self.stack.connection_info(*connection)).flatten();
                    let seat = self.owners.choose(*listener, local.map(|(local, ..)| local), *peer);
                    self.pin(*connection, seat, now)
                }
                Event::Closed { connection, .. } => {
                    let seat = self.owners.of(*connection);
                    self.owners.forget(*connection);
                    seat
                }
                Event::Connected { connection }
                | Event::Data { connection, .. }
                | Event::Acked { connection, .. }
                | Event::Urgent { connection, .. }
                | Event::PeerClosed { connection } => self.owners.of(*connection),
                Event::Datagram { socket, peer, .. } => self.owners.choose_for_datagram(*socket, *peer),
                Event::AddressConflict { address, holder } => {
                    let (address, holder) = (*address, *holder);
                    (0..self.seats.len())
                        .for_each(|seat| self.hear(seat, Event::AddressConflict { address, holder }, now, vnic));
                    continue;
                }
                Event::Timer { .. } => continue,
                // A stack has no disks.
                Event::Read { .. } | Event::Written { .. } | Event::Flushed { .. } | Event::Zeroed { .. } => continue,
            };
            // Nobody's: of a service that has gone. Its frames go back with it.
            if let Some(seat) = seat {
                self.hear(seat, event, now, vnic);
            }
        }
        busy
    }

    /// A connection is a service's from now on; nobody's is reset.
    fn pin(&mut self, connection: ConnectionId, seat: Option<usize>, now: Time) -> Option<usize> {
        match seat {
            Some(seat) => {
                self.owners.give(connection, seat);
                let is_starved = self.seats.get(seat)?.as_ref()?.is_starved();
                _ = self.stack.starve(now, connection, is_starved);
            }
            None => _ = self.stack.abort(now, connection),
        }
        seat
    }

    fn hear(&mut self, seat: usize, event: Event, now: Time, vnic: &mut dyn Vnic) {
        let Some(tenant) = self.seats.get_mut(seat).and_then(Option::as_mut) else { return };
        let (stack, owners) = (&mut self.stack, &mut self.owners);
        tenant.hear(&mut House { now, vnic, stack, owners, seat, is_shared: true, yielded: &mut Vec::new() }, event);
    }

    /// Shows each service what it was given. For a service that holds too much nothing more is received.
    fn give_out(&mut self, now: Time, offences: &mut Vec<Offence>) -> bool {
        for seat in 0..self.seats.len() {
            let Some(tenant) = self.seats.get_mut(seat).and_then(Option::as_mut) else { continue };
            if let Err(offence) = tenant.has_heard() {
                offences.push(offence);
                self.leave(seat, now);
                continue;
            }
            let starves = tenant.starves();
            if let Some(slow) = self.owners.slow.get_mut(seat) {
                *slow = tenant.is_slow() || tenant.is_starved();
            }
            if let Some(starves) = starves {
                for connection in self.connections_of(seat) {
                    _ = self.stack.starve(now, connection, starves);
                }
            }
        }
        false
    }

    /// Silences the bells that rang according to `ready`, in order. Services that are gone leave.
    pub(crate) fn look_at_sockets(&mut self, ready: &mut impl Iterator<Item = bool>, now: Time) {
        for seat in 0..self.seats.len() {
            let Some(tenant) = self.seats.get_mut(seat).and_then(Option::as_mut) else { continue };
            if ready.next() == Some(true) && !tenant.look_at_socket() {
                self.leave(seat, now);
            }
        }
    }

    pub(crate) fn falls_asleep(&mut self) -> bool {
        self.seats.iter_mut().flatten().all(Tenant::falls_asleep)
    }

    pub(crate) fn wakes(&mut self) {
        self.seats.iter_mut().flatten().for_each(Tenant::wakes);
    }

    /// Whether events wait for room in a ring: nobody rings when there is some again.
    pub(crate) fn is_held_back(&self) -> bool {
        self.stack.event_count() > 0 || self.tenants().any(Tenant::is_held_back)
    }

    pub(crate) fn next_deadline(&self) -> Option<Time> {
        self.stack.next_deadline()
    }

    /// All services are gone, and what the stack holds goes.
    pub(crate) fn end(mut self, now: Time, vnic: &mut dyn Vnic) {
        for seat in 0..self.seats.len() {
            self.leave(seat, now);
        }
        let rest: Vec<ConnectionId> = self.stack.connections().collect();
        for connection in rest {
            _ = self.stack.abort(now, connection);
        }
        self.stack.transmit_last(now, vnic);
    }

    pub(crate) fn status(&mut self, vnic: &dyn Vnic) -> Vec<ServiceStatus> {
        let waiting = self.stack.event_count() as u64;
        let all = self.stack.usage().connections as u64;
        let (is_shared, owners) = (self.is_shared, &self.owners);
        let tenants = self.seats.iter_mut().enumerate().filter_map(|(seat, tenant)| Some((seat, tenant.as_mut()?)));
        let status = |(seat, tenant): (usize, &mut Tenant)| match is_shared {
            false => tenant.status(vnic, all, waiting),
            true => tenant.status(vnic, owners.load(seat).into(), 0),
        };
        tenants.map(status).collect()
    }

    /// Frames lent, and what the stack holds.
    #[cfg(feature = "harness")]
    pub(crate) fn usage(&self) -> (u32, qanat_stack::Usage) {
        (self.tenants().map(Tenant::lent_count).sum(), self.stack.usage())
    }

    /// As [`Tenant::expect_listen`], of the only one.
    #[cfg(feature = "harness")]
    pub(crate) fn expect_listen(
        &mut self,
        now: Time,
        vnic: &mut dyn Vnic,
        local: std::net::SocketAddr,
    ) -> Result<bool, Offence> {
        let (stack, owners) = (&mut self.stack, &mut self.owners);
        let tenant = self.seats.iter_mut().flatten().next().ok_or(Offence::Deaf)?;
        tenant.expect_listen(
            &mut House { now, vnic, stack, owners, seat: 0, is_shared: false, yielded: &mut Vec::new() },
            local,
        )
    }
}
