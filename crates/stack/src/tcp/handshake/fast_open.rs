//! TCP Fast Open (RFC 7413): data on the SYN, and what a connection that uses it does otherwise than others.
//!
//! ```text
//!  client                                                         server
//!  SynSent   ── SYN, cookie, data ─────────────▶ cookie right: a connection at once, unproved
//!            ◀── SYN-ACK of SYN and data ──────  (data may follow it before the ACK)
//!  Established ── ACK ─────────────────────────▶ proved
//! ```
//! The data on a SYN is not in the scoreboard: it counts as sent once its SYN-ACK has acknowledged it. What that has not goes
//! with the first segments, as if it were new (section 4.2.1).
//!
//! The SYN-ACK of an unproved connection is not in the scoreboard either: it is repeated by a deadline of its own, and nothing
//! else is until an ACK has come.

use crate::tcp::connection::{Connection, Handshake};
use crate::tcp::disposition::Disposition;
use crate::tcp::env::Env;
use crate::tcp::handshake::cookies::{Answer, CookieCache, Entry, Form};
use crate::tcp::handshake::fast_open_state::{Client, FastOpenFailure, FastOpenState};
use crate::tcp::handshake::half_open::HalfOpen;
use crate::tcp::handshake::parameters::OpenParameters;
use crate::tcp::recovery::scoreboard::Scoreboard;
use crate::tcp::segment::{Emitter, SegmentIn, SegmentPayload};
use crate::tcp::timers::RetransmitKind;
use qanat_api::{Chunk, Event};
use qanat_nic::Time;
use qanat_wire::ip::Ecn;
use qanat_wire::tcp::Flags;
use qanat_wire::tcp_options::{FastOpen, LENGTH_MAX};
use std::net::IpAddr;

impl Connection {
    /// Has the SYN carry a cookie and what data is given before it leaves, or ask for a cookie. `needs_none`: the server is
    /// known to take data without one (section 6.3.4's trusted network).
    pub fn open_fast(&mut self, (local, remote): (IpAddr, IpAddr), needs_none: bool, cookies: &CookieCache, now: Time) {
        let entry = cookies.find(local, remote);
        let cookie = if needs_none { None } else { cookies.cookie(local, remote, now) };
        let is_experimental = entry.is_some_and(|entry| entry.form == Form::Experimental);
        let request = Some(FastOpen::request(is_experimental))
            .filter(|_| !needs_none && entry.is_none_or(|entry| entry.cookie.is_none()));
        let mut room = 0;
        if cookie.is_some() || (needs_none && !cookies.is_pausing(local, remote, now)) {
            // As the server said once; options take up to forty bytes.
            let known = entry.map_or(u16::MAX, |entry| entry.segment).max(crate::tcp::segment::MSS_MIN);
            room = self.path_mtu.local_segment().min(known).saturating_sub(LENGTH_MAX as u16);
        }
        let client = Client { local, remote, option: cookie.or(request), has_asked: false, room, sent: 0 };
        let failure = if room == 0 { FastOpenFailure::NoCookie } else { FastOpenFailure::None };
        self.extras().fast_open =
            Some(Box::new(FastOpenState { client: Some(client), failure, ..FastOpenState::default() }));
    }

    /// Bytes that the SYN can take along.
    pub(crate) fn syn_room(&self) -> usize {
        let client = self.extras.as_deref().and_then(|extras| extras.fast_open.as_deref()?.client.as_ref());
        client.map_or(0, |client| client.room.into())
    }

    /// The option and the data of the first SYN: the latter's length.
    pub(in crate::tcp) fn first_syn(&mut self) -> (Option<FastOpen>, u32) {
        let queued = self.queue.byte_count();
        let Some(client) = self.fast_open_client() else { return (None, 0) };
        (client.option, queued.min(client.room.into()) as u32)
    }

    /// The first SYN has left, with `length` bytes of data.
    pub(in crate::tcp) fn first_syn_sent(&mut self, length: u32) {
        if let Some(client) = self.fast_open_client() {
            (client.sent, client.has_asked) = (length as u16, client.option.is_some() || length > 0);
        }
    }

    fn fast_open_client(&mut self) -> Option<&mut Client> {
        self.extras.as_deref_mut()?.fast_open.as_deref_mut()?.client.as_mut()
    }

    /// Bytes that the SYN carried, as far as an acknowledgement of it may acknowledge them.
    pub(in crate::tcp) fn syn_data_sent(&self) -> u32 {
        let client = self.extras.as_deref().and_then(|extras| extras.fast_open.as_deref()?.client.as_ref());
        client.map_or(0, |client| client.sent.into())
    }

    /// The SYN-ACK has come, and the connection is established. This learns from it what became of the data on the SYN, and
    /// remembers the cookie and the segment size. Gives whether Fast Open was asked for at all.
    pub(in crate::tcp) fn finish_fast_open(
        &mut self,
        segment: &SegmentIn<'_>,
        has_retried: bool,
        env: &mut Env<'_>,
    ) -> bool {
        let Some(client) = self.fast_open_client().map(|client| client.clone()) else { return false };
        let data = segment.acknowledgment.distance_from(self.initial_send + 1);
        let sent = u32::from(client.sent);
        let cookie = segment.options.fast_open.filter(|cookie| client.has_asked && !cookie.cookie().is_empty());
        let is_refused = client.has_asked && !has_retried && cookie.is_none() && sent == 0;
        let was_experimental = client.option.is_some_and(|option| option.is_experimental());
        let form = match (is_refused, was_experimental) {
            (false, _) => Form::Standard,
            (true, false) => Form::Experimental,
            (true, true) => Form::StandardAgain,
        };
        let answer = match (cookie.is_none() && data < sent, has_retried) {
            (false, _) => Answer::Positive,
            (true, true) => Answer::Lost,
            (true, false) => Answer::Negative,
        };
        if cookie.is_some() {
            env.counters.fast_open_cookies_received += 1;
        }
        let segment_max = segment.options.mss.unwrap_or(crate::tcp::segment::MSS_DEFAULT);
        let (local, remote, lost_at) = (client.local, client.remote, env.now);
        let fresh = Entry { local, remote, cookie, segment: segment_max, form, losses: 0, lost_at, is_refused: false };
        if client.has_asked {
            // Of an ordinary handshake nothing is to be learnt.
            env.cookies.note(fresh, answer);
        }
        if data > 0 {
            self.board = Scoreboard::new(segment.acknowledgment);
            self.send_next = segment.acknowledgment;
            self.queue.release(data.into());
            self.statistics.bytes_acknowledged += u64::from(data);
            env.counters.bytes_acknowledged += u64::from(data);
            env.events.push_back(Event::Acked { connection: self.id, bytes: data });
        }
        if sent > 0 && data == sent {
            env.counters.fast_open_active += 1;
        } else if sent > 0 {
            env.counters.fast_open_active_failed += 1;
        }
        let extras = self.extras();
        if let Some(state) = extras.fast_open.as_deref_mut() {
            state.client = None;
            state.syn_data = sent > 0 && data == sent;
            if data < sent {
                state.failure =
                    if has_retried { FastOpenFailure::Retransmitted } else { FastOpenFailure::NotAcknowledged };
            }
        }
        client.has_asked
    }

    /// The attempt to connect ends without any answer: no response at all is the worst of negative ones (section 4.1.3.1).
    pub(in crate::tcp) fn fail_fast_open(&mut self, env: &mut Env<'_>) {
        let Some(client) = self.fast_open_client().filter(|client| client.sent > 0).map(|client| client.clone()) else {
            return;
        };
        let segment = env.cookies.find(client.local, client.remote).map_or(u16::MAX, |entry| entry.segment);
        let (local, remote, lost_at) = (client.local, client.remote, env.now);
        let fresh =
            Entry { local, remote, cookie: None, segment, form: Form::Standard, losses: 0, lost_at, is_refused: false };
        env.cookies.note(fresh, Answer::Lost);
    }

    /// Whether data on the SYN was acknowledged with it; why it was not.
    pub(in crate::tcp) fn fast_open_outcome(&self) -> (bool, FastOpenFailure) {
        let state = self.extras.as_deref().and_then(|extras| extras.fast_open.as_deref());
        state.map_or((false, FastOpenFailure::None), |state| (state.syn_data, state.failure))
    }

    /// A passive open whose SYN brought a right cookie: a connection before the handshake is over (section 4.2.2). Give
    /// that SYN to [`receive_syn_data`](Connection::receive_syn_data) next. `grant`: a cookie for the SYN-ACK.
    #[inline(always)] // one caller; large: built where it stays
    pub fn from_fast_open(
        open: &OpenParameters,
        mut half: HalfOpen,
        grant: Option<FastOpen>,
        segment: &SegmentIn<'_>,
        env: &mut Env<'_>,
    ) -> Connection {
        half.data = segment.payload_length as u16; // of one packet
        half.transmissions = 2;
        let mut connection = Connection::from_half_open(open, &half, segment, env);
        half.transmissions = 0;
        connection.statistics.delivered = 0;
        // A SYN's window is not scaled (RFC 7323 §2.2).
        connection.send_window.open(u32::from(segment.window), segment.sequence);
        connection.receive_window.extend(segment.payload_length);
        connection.is.handshake = Handshake::UnprovedWanted;
        connection.is.output_wanted = true;
        let state = FastOpenState { syn_ack: Some((half, grant)), ..FastOpenState::default() };
        connection.extras().fast_open = Some(Box::new(state));
        env.counters.fast_open_passive += 1;
        connection
    }

    /// The data of a SYN that is believed; its SYN-ACK acknowledges them.
    pub fn receive_syn_data(
        &mut self,
        segment: &SegmentIn<'_>,
        payload: Option<Chunk>,
        env: &mut Env<'_>,
    ) -> Disposition {
        let flags = segment.flags.without(Flags::SYN);
        let data = SegmentIn { sequence: segment.sequence + 1, flags, ..*segment };
        if data.sequence_length() == 0 {
            return Disposition::Keep;
        }
        let is_passive = self.is.handshake.is_unproved();
        if let Some(state) = self.extras().fast_open.as_deref_mut() {
            state.syn_data |= is_passive;
        }
        self.receive(&data, payload, env)
    }

    /// Whether no ACK has shown yet that the peer receives at its address.
    pub fn is_unproved(&self) -> bool {
        self.is.handshake.is_unproved()
    }

    /// Looks at a segment for an unproved connection. Gives `None` if it must be treated as any other segment.
    #[cold]
    pub(in crate::tcp) fn input_unproved(&mut self, segment: &SegmentIn<'_>, env: &mut Env<'_>) -> Option<Disposition> {
        let flags = segment.flags;
        if flags.contains(Flags::SYN)
            && !flags.intersects(Flags::ACK | Flags::RST)
            && segment.sequence == self.receive_window.initial()
        {
            self.is.handshake.want_syn(true);
            self.is.output_wanted = true;
            return Some(Disposition::Keep);
        }
        let is_next = segment.sequence.at_or_before(self.receive_window.edge())
            && segment.sequence.after(self.receive_window.initial());
        if flags.intersects(Flags::SYN | Flags::RST) || !flags.contains(Flags::ACK) || !is_next {
            return None;
        }
        let first = self.initial_send + 1;
        if segment.acknowledgment.before(first) || segment.acknowledgment.after(self.send_next) {
            return Some(Disposition::Reset);
        }
        self.is.handshake = Handshake::Nothing;
        self.statistics.delivered += 1;
        self.timers.stop();
        self.is.output_wanted = true;
        let state = self.extras().fast_open.as_deref_mut().and_then(|state| state.syn_ack.take());
        if let Some((half, _)) = state
            && half.transmissions == 1
        {
            self.rtt.sample(env.now.since(half.sent_at), env.now);
        }
        // As of any passive open: the first window beyond the SYN's counts (§3.10.7.4).
        self.send_window.trust_after(self.receive_window.initial());
        None
    }

    /// Sends an unproved connection's SYN-ACK, if it is due. `false`: the device is full.
    #[cold]
    pub(in crate::tcp) fn output_fast_syn_ack(&mut self, env: &mut Env<'_>, emitter: &mut dyn Emitter) -> bool {
        if !self.is.handshake.wants_syn() {
            return true;
        }
        if emitter.room() == 0 {
            return false;
        }
        let Some((mut half, grant)) = self.extras().fast_open.as_deref().and_then(|state| state.syn_ack) else {
            return true;
        };
        let mut header = half.syn_ack(env);
        header.options.fast_open = grant;
        if !emitter.emit(&header, SegmentPayload::None, Ecn::NotCapable) {
            return false;
        }
        self.is.handshake.want_syn(false);
        self.acks.on_syn_ack_sent(self.receive_window.next());
        self.timers.cancel_delayed_ack();
        self.timers.set(RetransmitKind::Timeout, half.deadline);
        if let Some(state) = self.extras().fast_open.as_deref_mut() {
            // Said once, as the option is of a SYN that was not lost.
            state.syn_ack = Some((half, None));
        }
        true
    }

    /// Whether the SYN-ACK, whose deadline has passed, may be repeated.
    pub(in crate::tcp) fn repeats_fast_syn_ack(&mut self, env: &Env<'_>) -> bool {
        let state = self.extras.as_deref().and_then(|extras| extras.fast_open.as_deref()?.syn_ack);
        // As Linux: once more than that of a half-open connection.
        state.is_some_and(|(half, _)| half.transmissions <= env.config.syn_ack_retransmissions_max + 1)
    }
}
