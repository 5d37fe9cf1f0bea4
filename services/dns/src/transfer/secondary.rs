//! A zone that comes from elsewhere: when to ask (SOA's refresh, retry and expire, RFC 1034 section 4.3.5; NOTIFY), whom,
//! and the transfer over our own TCP. Refreshes ask for differences straight away: a primary with nothing newer answers
//! with its SOA record, as it would to a question for that (RFC 1995, section 4).

use super::config::{Remote, ZoneTransfers};
use super::control::{Control, Standing};
use super::figures::TransferFigures;
use super::identifiers::Random;
use super::incoming::{Incoming, IncomingError, Progress};
use super::log::Log;
use super::notify::soa_question;
use super::timing::{TIMER_MIN_S, Timing};
use super::tokens::TIMER_SECONDARY;
use super::tsig::{Signer, TsigError, Verifier};
use super::worker::{Built, Job, Served, Worker};
use super::{clock, walk};
use crate::name::Name;
use crate::zone::rtype;
use qanat::{Bytes, Commands, ConnectOptions, ConnectionId, Context, Time, TimerId};
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

/// Between two requests to primaries that NOTIFY causes.
const SPACING: Duration = Duration::from_secs(1);
/// No byte for so long: the transfer is broken off.
const SILENCE_MAX: Duration = Duration::from_secs(20);
/// Before the next try while there is no zone yet, doubled to the longest.
const FIRST_RETRY: Duration = Duration::from_secs(2);
const FIRST_RETRY_MAX: Duration = Duration::from_secs(600);
/// Transfers at the same time at most: there are more zones than ports to fetch them from.
const TRANSFERS_MAX: usize = 64;
/// Before one that must wait for others looks again.
const TURN: Duration = Duration::from_millis(250);

/// Why a primary's answer to a request for a transfer is of no use.
#[derive(Debug, thiserror::Error)]
enum AnswerError {
    #[error("a message without a header")]
    NoHeader,
    #[error("an answer to another question")]
    OtherQuestion,
    #[error("{0}")]
    Signature(TsigError),
    #[error("refused: does the primary allow it (allow_transfer, acl)?")]
    Refused,
    #[error("the primary has no such zone, or not our key (NOTAUTH)")]
    NotAuthoritative,
    #[error("response code {0}")]
    Code(u8),
    #[error("a malformed message")]
    Malformed,
    #[error("{0}")]
    Incoming(IncomingError),
    #[error("the last message is not signed")]
    Unsigned,
}

struct Transfer {
    connection: ConnectionId,
    identifier: u16,
    buffer: Vec<u8>,
    incoming: Incoming,
    verifier: Option<Verifier>,
    progress_at: Time,
}

enum State {
    Idle,
    Transferring(Box<Transfer>),
    /// The zone is being made of what came, elsewhere.
    Building,
}

/// See the [module](self).
pub(super) struct Secondary {
    served: Arc<Served>,
    /// Its number among the secondaries, never given twice.
    number: u64,
    primaries: Vec<Remote>,
    /// The primary asked next.
    which: usize,
    had: Option<Timing>,
    /// The last time a primary answered.
    fresh_at: Option<Time>,
    /// How old the zone was at that time: it is older than 0 if it was kept over a restart.
    age: Duration,
    has_expired: bool,
    /// A NOTIFY came meanwhile.
    again: bool,
    /// Differences did not fit: ask for everything.
    whole: bool,
    failures: u32,
    /// When a primary was asked last.
    begun_at: Option<Time>,
    state: State,
    timer: Option<TimerId>,
    /// What is known of it beyond that, for others to read.
    standing: Standing,
}

/// What a secondary works with.
pub(super) struct Tools<'a> {
    pub(super) worker: &'a Worker,
    pub(super) random: &'a mut Random,
    pub(super) log: &'a mut Log,
    pub(super) now_s: u64,
    pub(super) control: &'a Control,
    pub(super) figures: &'a mut TransferFigures,
    /// All connections to primaries, and the number of the secondary that each belongs to.
    pub(super) connections: &'a mut HashMap<ConnectionId, u64>,
}

impl Secondary {
    pub(super) fn new(apex: Name, number: u64, rules: &ZoneTransfers) -> Secondary {
        Secondary {
            served: Arc::new(Served { apex, file: rules.file.clone() }),
            number,
            primaries: rules.primaries.clone(),
            which: 0,
            had: None,
            fresh_at: None,
            age: Duration::ZERO,
            has_expired: false,
            again: false,
            whole: false,
            failures: 0,
            begun_at: None,
            state: State::Idle,
            timer: None,
            standing: Standing::default(),
        }
    }

    /// Starts from a zone kept in a file, that old.
    pub(super) fn kept(&mut self, timing: Timing, age: Duration) {
        (self.had, self.age) = (Some(timing), age);
    }

    /// The server starts, or the zone is new to it.
    pub(super) fn start(&mut self, tools: &mut Tools<'_>, context: &mut Context<'_>) {
        self.fresh_at = self.had.map(|_| context.now());
        self.refresh(tools, context);
    }

    /// The zone's rules have changed.
    pub(super) fn change(&mut self, rules: &ZoneTransfers, tools: &mut Tools<'_>, context: &mut Context<'_>) {
        if self.served.file != rules.file {
            self.served = Arc::new(Served { apex: self.served.apex.clone(), file: rules.file.clone() });
        }
        if self.primaries != rules.primaries {
            self.primaries = rules.primaries.clone();
            self.which = 0;
            self.refresh(tools, context);
        }
    }

    /// The zone is none of this server's any more.
    pub(super) fn end(&mut self, tools: &mut Tools<'_>, context: &mut Context<'_>) {
        if let State::Transferring(transfer) = std::mem::replace(&mut self.state, State::Idle) {
            tools.connections.remove(&transfer.connection);
            // It may be gone already.
            let _ = context.abort(transfer.connection);
        }
        if let Some(timer) = self.timer.take() {
            context.cancel_timer(timer);
        }
        tools.control.forget(self.apex());
    }

    pub(super) fn apex(&self) -> &Name {
        &self.served.apex
    }

    /// Lets others see how it stands.
    pub(super) fn post(&mut self, tools: &mut Tools<'_>, context: &Context<'_>) {
        let now = context.now();
        let count = self.primaries.len().max(1);
        let standing = &mut self.standing;
        standing.state = match self.state {
            State::Idle => "waiting",
            State::Transferring(_) => "transferring",
            State::Building => "building",
        };
        standing.serial = self.had.map(|timing| timing.serial);
        standing.primary =
            self.primaries.get(self.which % count).map(|remote| remote.address.to_string()).unwrap_or_default();
        standing.expired = self.has_expired;
        standing.failures_in_a_row = self.failures;
        standing.checked_s = self.fresh_at.map(|at| tools.now_s.saturating_sub((now.since(at) + self.age).as_secs()));
        standing.expires_s = self.had.zip(standing.checked_s).map(|(timing, at)| at + timing.expire().as_secs());
        let standing = standing.clone();
        tools.control.post(self.apex(), standing);
    }

    fn set_timer(&mut self, after: Duration, log: &mut Log, context: &mut Context<'_>) {
        self.standing.next_s = Some(clock::wall_clock_s().saturating_add(after.as_secs()));
        if let Some(timer) = self.timer.take() {
            context.cancel_timer(timer);
        }
        match context.set_timer(after, TIMER_SECONDARY | self.number) {
            Ok(timer) => self.timer = Some(timer),
            Err(error) => {
                log.say(format!("{}: no timer is left ({error}): it is refreshed by NOTIFY only", self.apex()))
            }
        }
    }

    /// A NOTIFY came. Its sender's address may be forged, so however many come, a primary is asked once in [`SPACING`].
    pub(super) fn refresh(&mut self, tools: &mut Tools<'_>, context: &mut Context<'_>) {
        match self.state {
            State::Idle => match self.until_next(context.now()) {
                Duration::ZERO => self.begin(tools, context),
                wait => self.set_timer(wait, tools.log, context),
            },
            _ => self.again = true,
        }
    }

    /// How long a primary is not to be asked because of a NOTIFY.
    fn until_next(&self, now: Time) -> Duration {
        self.begun_at.map_or(Duration::ZERO, |begun| SPACING.saturating_sub(now.since(begun)))
    }

    fn begin(&mut self, tools: &mut Tools<'_>, context: &mut Context<'_>) {
        self.again = false;
        if tools.connections.len() >= TRANSFERS_MAX {
            self.set_timer(TURN, tools.log, context);
            return;
        }
        self.begun_at = Some(context.now());
        let Some(remote) = self.primaries.get(self.which % self.primaries.len().max(1)) else { return };
        let address = remote.address;
        match context.connect(address, ConnectOptions::default()) {
            Ok(connection) => {
                let had = self.had.filter(|_| !self.whole).map(|timing| timing.serial);
                tools.connections.insert(connection, self.number);
                self.state = State::Transferring(Box::new(Transfer {
                    connection,
                    identifier: tools.random.identifier(),
                    buffer: Vec::new(),
                    incoming: Incoming::new(self.apex(), had),
                    verifier: None,
                    progress_at: context.now(),
                }));
                self.set_timer(SILENCE_MAX, tools.log, context);
            }
            Err(error) => self.failed(&format!("connecting to {address}: {error}"), tools, context),
        }
    }

    /// The connection is there: ask.
    pub(super) fn connected(&mut self, tools: &mut Tools<'_>, context: &mut Context<'_>) {
        let key = self.primaries.get(self.which % self.primaries.len().max(1)).and_then(|remote| remote.key.clone());
        let had = self.had.filter(|_| !self.whole).map(|timing| timing.serial);
        let State::Transferring(transfer) = &mut self.state else { return };
        let qtype = if had.is_some() { rtype::IXFR } else { rtype::AXFR };
        let mut message = soa_question(transfer.identifier, [0, 0], &self.served.apex, qtype);
        if let Some(serial) = had {
            append_soa(&mut message, serial);
        }
        if let Some(key) = key {
            let mut signer = Signer::for_request(&key);
            signer.sign(&mut message, tools.now_s);
            transfer.verifier = Some(signer.into_verifier());
        }
        let mut bytes = (message.len() as u16).to_be_bytes().to_vec();
        bytes.extend_from_slice(&message);
        // A connection just made takes a request; one that is gone already will say so.
        let _ = context.send(transfer.connection, Bytes::from(bytes));
    }

    /// Bytes came.
    pub(super) fn data(&mut self, bytes: &[u8], tools: &mut Tools<'_>, context: &mut Context<'_>) {
        let State::Transferring(transfer) = &mut self.state else { return };
        transfer.progress_at = context.now();
        transfer.buffer.extend_from_slice(bytes);
        let outcome = transfer.messages(tools.now_s);
        match outcome {
            Ok(Progress::More) => {}
            Ok(Progress::Done) => self.arrived(tools, context),
            Err(error) => {
                if self.had.is_some() {
                    self.whole = true;
                }
                self.failed(&error.to_string(), tools, context);
            }
        }
    }

    fn arrived(&mut self, tools: &mut Tools<'_>, context: &mut Context<'_>) {
        let State::Transferring(transfer) = std::mem::replace(&mut self.state, State::Idle) else { return };
        // Whatever becomes of the connection's end.
        tools.connections.remove(&transfer.connection);
        let _ = context.close(transfer.connection);
        if transfer.incoming.is_current() {
            if self.failures > 0
                && let Some(timing) = self.had
            {
                tools.log.say(format!(
                    "{}: a primary answers again: serial {} is the newest",
                    self.apex(),
                    timing.serial
                ));
            }
            self.fresh(context.now());
            tools.worker.give(Job::Refresh { served: Arc::clone(&self.served) });
            self.wait(tools, context);
            return;
        }
        self.state = State::Building;
        if !tools.worker.give(Job::Build { served: Arc::clone(&self.served), incoming: transfer.incoming }) {
            self.state = State::Idle;
            self.failed("the thread that makes zones is gone", tools, context);
        }
    }

    /// The zone was made, or not.
    pub(super) fn built(&mut self, outcome: Built, tools: &mut Tools<'_>, context: &mut Context<'_>) {
        self.state = State::Idle;
        match outcome {
            Ok(done) => {
                if let Err(error) = done.saving {
                    tools.log.say(format!("{}: {error}", self.apex()));
                }
                let from = self.primaries.get(self.which % self.primaries.len().max(1));
                let from = from.map(|remote| remote.address.to_string()).unwrap_or_default();
                tools.log.say(format!(
                    "{}: serial {} transferred from {from} ({}; {} records)",
                    self.apex(),
                    done.timing.serial,
                    if done.in_steps { "differences" } else { "the whole zone" },
                    done.records,
                ));
                self.standing.received += 1;
                self.had = Some(done.timing);
                self.whole = false;
                self.fresh(context.now());
                self.wait(tools, context);
            }
            Err(error) => {
                // Once more, all of it, unless that is what it was.
                let first = !self.whole && self.had.is_some();
                self.whole = true;
                if first {
                    tools.log.say(format!("{}: {error}; asking for the whole zone", self.apex()));
                    self.begin(tools, context);
                } else {
                    self.failed(&error.to_string(), tools, context);
                }
            }
        }
    }

    fn fresh(&mut self, now: Time) {
        (self.fresh_at, self.age) = (Some(now), Duration::ZERO);
        self.has_expired = false;
        self.failures = 0;
        self.standing.error = None;
    }

    fn wait(&mut self, tools: &mut Tools<'_>, context: &mut Context<'_>) {
        if self.again {
            self.again = false;
            self.refresh(tools, context);
            return;
        }
        let refresh_s = self.had.map_or(TIMER_MIN_S, |timing| timing.refresh_s);
        let next = Duration::from_secs(refresh_s.into()).min(self.left(context.now()));
        self.set_timer(next, tools.log, context);
    }

    /// The connection is gone.
    pub(super) fn closed(&mut self, why: &str, tools: &mut Tools<'_>, context: &mut Context<'_>) {
        if let State::Transferring(transfer) = &self.state {
            tools.connections.remove(&transfer.connection);
            self.state = State::Idle;
            self.failed(&format!("the connection ended: {why}"), tools, context);
        }
    }

    fn failed(&mut self, why: &str, tools: &mut Tools<'_>, context: &mut Context<'_>) {
        if let State::Transferring(transfer) = std::mem::replace(&mut self.state, State::Idle) {
            // It may be gone already.
            tools.connections.remove(&transfer.connection);
            let _ = context.abort(transfer.connection);
        }
        let count = self.primaries.len().max(1);
        if let Some(remote) = self.primaries.get(self.which % count) {
            tools.log.say(format!("{}: transfer from {}: {why}", self.apex(), remote.address));
            self.standing.error = Some(format!("{}: {why}", remote.address));
        }
        self.standing.failures += 1;
        tools.figures.failed += 1;
        self.which = (self.which + 1) % count;
        self.failures = self.failures.saturating_add(1);
        let retry = match self.had {
            Some(timing) => Duration::from_secs(timing.retry_s.into()),
            None => (FIRST_RETRY * (1 << self.failures.min(16).saturating_sub(1))).min(FIRST_RETRY_MAX),
        };
        // The other primaries are asked at once, before it is waited.
        let next = if (self.failures as usize).is_multiple_of(count) { retry } else { Duration::from_millis(10) };
        self.set_timer(next.min(self.left(context.now())), tools.log, context);
    }

    /// Until the zone expires; without one, for ever.
    fn left(&self, now: Time) -> Duration {
        let times = self.had.zip(self.fresh_at);
        times.map_or(Duration::MAX, |(timing, fresh_at)| timing.expire().saturating_sub(now.since(fresh_at) + self.age))
    }

    /// The timer expired.
    pub(super) fn timer(&mut self, tools: &mut Tools<'_>, context: &mut Context<'_>) {
        self.timer = None;
        let now = context.now();
        match &self.state {
            State::Idle => {
                self.expire(tools, now);
                self.begin(tools, context);
            }
            State::Transferring(transfer) if now.since(transfer.progress_at) >= SILENCE_MAX => {
                self.failed("nothing came for 20 s", tools, context);
            }
            State::Transferring(_) => self.set_timer(SILENCE_MAX, tools.log, context),
            State::Building => {}
        }
    }

    /// A zone no primary has spoken of for its SOA record's expire time is not served any more.
    fn expire(&mut self, tools: &mut Tools<'_>, now: Time) {
        let Some(timing) = self.had else { return };
        if self.has_expired || !self.left(now).is_zero() {
            return;
        }
        self.has_expired = true;
        self.had = None;
        tools.figures.expired += 1;
        tools.log.say(format!(
            "{}: expired: no primary answered for {} s; serial {} is served no more",
            self.apex(),
            timing.expire_s,
            timing.serial
        ));
        tools.worker.give(Job::Expire { served: Arc::clone(&self.served) });
    }
}

impl Transfer {
    /// Takes the whole messages of the buffer.
    fn messages(&mut self, now_s: u64) -> Result<Progress, AnswerError> {
        let mut at = 0;
        let mut progress = Progress::More;
        while let Some(length) = self.buffer.get(at..at + 2).and_then(|bytes| bytes.first_chunk().copied()) {
            let end = at + 2 + usize::from(u16::from_be_bytes(length));
            let Some(message) = self.buffer.get(at + 2..end) else { break };
            let mut message = message.to_vec();
            at = end;
            progress = self.message(&mut message, now_s)?;
            if progress == Progress::Done {
                break;
            }
        }
        self.buffer.drain(..at.min(self.buffer.len()));
        Ok(progress)
    }

    fn message(&mut self, message: &mut Vec<u8>, now_s: u64) -> Result<Progress, AnswerError> {
        let header = message.first_chunk::<{ walk::HEADER_LENGTH }>().ok_or(AnswerError::NoHeader)?;
        let [high, low, flags, code, ..] = *header;
        if u16::from_be_bytes([high, low]) != self.identifier || flags & 0x80 == 0 {
            return Err(AnswerError::OtherQuestion);
        }
        let signed = match &mut self.verifier {
            Some(verifier) => verifier.verify(message, now_s).map_err(AnswerError::Signature)?,
            None => true,
        };
        match code & 0xf {
            0 => {}
            5 => return Err(AnswerError::Refused),
            9 => return Err(AnswerError::NotAuthoritative),
            code => return Err(AnswerError::Code(code)),
        }
        let records = walk::answers(message).map_err(|_| AnswerError::Malformed)?;
        let progress = self.incoming.take(records).map_err(AnswerError::Incoming)?;
        if progress == Progress::Done && !signed {
            return Err(AnswerError::Unsigned);
        }
        Ok(progress)
    }
}

/// Adds the SOA record of the version had to an IXFR request: only its serial number counts.
fn append_soa(message: &mut Vec<u8>, serial: u32) {
    if let Some(count) = message.get_mut(9) {
        *count = 1;
    }
    // Owner: the question's name. Names in it: the root.
    message.extend_from_slice(&[0xc0, 12, 0, 6, 0, 1, 0, 0, 0, 0, 0, 22, 0, 0]);
    message.extend_from_slice(&serial.to_be_bytes());
    message.extend_from_slice(&[0; 16]);
}
