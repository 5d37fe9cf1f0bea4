//! The loader without I/O: which connection asks for what and when, and what became of it. Time is an argument; what
//! carries the bytes is a [`Transport`]: our own stack ([`native`](super::native)) or the kernel's
//! ([`kernel`](super::kernel)).
//!
//! ```text
//!  worker   Idle ──connect──▶ Connecting ──▶ Open ⇄ (request, answer)* ──last answer──▶ Ending ──peer closed──▶ Idle
//!                                 └────────── failed: Resting (bounded back-off) ◀────────┘
//! ```
//! A worker is one connection's place. With `close` the server closes first (it was asked to) and the loader follows, so
//! that TIME-WAIT, and its cost, is where it is in production: on the server.

use super::figures::{ErrorCounts, ErrorKind, Figures, LatencyHistogram, OpenLoop, Report};
use super::mix::Mix;
use super::response::{End, HeadCache, Outcome, Parser, ProtocolError, Step};
use super::schedule::Schedule;
use crate::machine::MachineSample;
use qanat::{Bytes, Time};
use std::collections::VecDeque;
use std::time::Duration;
use xxhash_rust::xxh64::Xxh64;

/// Handshakes under way at once: ten thousand connections must not overflow the server's backlog.
pub const CONNECTING_MAX: usize = 128;
/// Requests in flight on one connection.
pub const PIPELINE_MAX: usize = 256;
/// How often [`Engine::tick`] wants to be called.
pub const TICK: Duration = Duration::from_millis(1);
/// Ticks between looks at every worker for time-outs.
const SWEEP_TICKS: u32 = 50;
/// First and longest rest after a failed connection attempt.
const REST_MIN: Duration = Duration::from_millis(1);
const REST_MAX: Duration = Duration::from_millis(256);

/// What carries a worker's bytes. A worker has at most one connection.
pub trait Transport {
    /// Begins a connection for `worker`; [`Engine::connected`] or [`Engine::closed`] follows.
    ///
    /// # Errors
    /// What prevents even trying.
    fn connect(&mut self, worker: u32) -> Result<(), ErrorKind>;
    /// Sends a request.
    ///
    /// # Errors
    /// What prevents it: the connection is of no more use.
    fn send(&mut self, worker: u32, request: &Bytes) -> Result<(), ErrorKind>;
    /// Closes in order. The connection is no longer the worker's: nothing more is told about it.
    fn close(&mut self, worker: u32);
    /// Resets. As `close`.
    fn abort(&mut self, worker: u32);
}

/// How an engine loads.
#[derive(Clone, Debug)]
pub struct EngineOptions {
    /// Workers.
    pub connections: usize,
    /// Requests in flight per connection, 1…[`PIPELINE_MAX`].
    pub pipeline: usize,
    /// A new connection for every request.
    pub close: bool,
    /// Open loop at this rate; `None`: closed loop.
    pub rate_per_s: Option<f64>,
    /// Requests that may wait in an open loop.
    pub backlog_max: usize,
    /// Before the window.
    pub warm_up: Duration,
    /// The window.
    pub duration: Duration,
    /// For one answer, or one handshake.
    pub timeout: Duration,
    /// Compare every body with the first of its target.
    pub verify: bool,
    /// Requests are HEAD.
    pub head: bool,
    /// Process whose CPU time to report.
    pub watch_process: Option<u32>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    /// No connection.
    Idle,
    /// In handshake.
    Connecting,
    /// May send.
    Open,
    /// The last answer came; the peer's FIN hasn't.
    Ending,
    /// No connection before the time in `since`.
    Resting,
}

#[derive(Clone, Copy, Debug)]
struct Pending {
    start: Time,
    target: u16,
}

struct Worker {
    state: State,
    /// When the state began; of `Resting`, when it ends.
    since: Time,
    /// Start of the request a new connection is for (`close` mode).
    assigned: Option<Time>,
    /// Changes with every connection: stale entries of the free list are told by it.
    generation: u32,
    rest: Duration,
    pending: VecDeque<Pending>,
    parser: Parser,
    hash: Xxh64,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Phase {
    WarmUp,
    Window,
    Over,
}

/// See the [module](self).
pub struct Engine {
    options: EngineOptions,
    mix: Mix,
    workers: Vec<Worker>,
    /// Workers that need a connection, in order.
    unconnected: VecDeque<u32>,
    connecting: usize,
    open: usize,
    /// Open loop: (worker, generation), once per request it may send now.
    free: VecDeque<(u32, u32)>,
    schedule: Option<Schedule>,
    first_hash: Vec<Option<u64>>,
    /// By target: the answers to one request have one head.
    heads: Vec<HeadCache>,
    phase: Phase,
    phase_end: Time,
    window_start: Time,
    ticks: u32,
    requests_total: u64,
    requests: u64,
    received_bytes: u64,
    received_total: u64,
    response_time: LatencyHistogram,
    connect_time: LatencyHistogram,
    errors: ErrorCounts,
    connections_opened: u64,
    before: MachineSample,
    figures_last: (Time, u64, u64),
    report: Option<Report>,
}

impl Engine {
    /// An engine that asks for what `mix` draws. Limits in `options` are clamped to their ranges.
    pub fn new(mut options: EngineOptions, mix: Mix) -> Engine {
        options.pipeline = if options.close { 1 } else { options.pipeline.clamp(1, PIPELINE_MAX) };
        options.connections = options.connections.clamp(1, 1 << 20);
        let workers: Vec<Worker> = (0..options.connections)
            .map(|_| {
                let mut parser = Parser::new();
                parser.set_bodyless(options.head);
                Worker {
                    state: State::Idle,
                    since: Time::ZERO,
                    assigned: None,
                    generation: 0,
                    rest: REST_MIN,
                    pending: VecDeque::with_capacity(options.pipeline),
                    parser,
                    hash: Xxh64::new(0),
                }
            })
            .collect();
        Engine {
            unconnected: VecDeque::with_capacity(options.connections),
            free: VecDeque::with_capacity(options.connections * options.pipeline),
            first_hash: vec![None; mix.len()],
            heads: (0..mix.len()).map(|_| HeadCache::default()).collect(),
            options,
            mix,
            workers,
            connecting: 0,
            open: 0,
            schedule: None,
            phase: Phase::WarmUp,
            phase_end: Time::ZERO,
            window_start: Time::ZERO,
            ticks: 0,
            requests_total: 0,
            requests: 0,
            received_bytes: 0,
            received_total: 0,
            response_time: LatencyHistogram::new(),
            connect_time: LatencyHistogram::new(),
            errors: ErrorCounts::default(),
            connections_opened: 0,
            before: MachineSample::default(),
            figures_last: (Time::ZERO, 0, 0),
            report: None,
        }
    }

    /// Begins: warm-up, then the window.
    pub fn start(&mut self, now: Time, transport: &mut impl Transport) {
        self.phase = Phase::WarmUp;
        self.phase_end = now + self.options.warm_up;
        self.window_start = now;
        self.figures_last = (now, 0, 0);
        self.schedule = self.options.rate_per_s.and_then(|rate| Schedule::new(now, rate, self.options.backlog_max));
        for worker in 0..self.workers.len() as u32 {
            if self.opens_on_demand() {
                self.free.push_back((worker, 0));
            } else {
                self.unconnected.push_back(worker);
            }
        }
        self.connect_some(now, transport);
    }

    /// Open loop with a new connection per request: workers connect when a request comes due.
    fn opens_on_demand(&self) -> bool {
        self.options.close && self.options.rate_per_s.is_some()
    }

    /// When [`tick`](Engine::tick) has something to do before the next [`TICK`]: an arrival of the open loop.
    pub fn next_due(&self) -> Option<Time> {
        if self.phase == Phase::Over {
            return None;
        }
        self.schedule.as_ref().map(Schedule::next_due)
    }

    /// Whether the window is over.
    pub fn is_over(&self) -> bool {
        self.phase == Phase::Over
    }

    /// Whether the warm-up is over and the window isn't.
    pub fn is_within_window(&self) -> bool {
        self.phase == Phase::Window
    }

    /// Arrivals, time-outs, back-offs, the window's ends. Call at [`next_due`](Engine::next_due) and every [`TICK`].
    pub fn tick(&mut self, now: Time, transport: &mut impl Transport) {
        if self.phase != Phase::Over && now >= self.phase_end && !self.waits_for_the_first(now) {
            self.next_phase(now, transport);
        }
        if self.phase == Phase::Over {
            return;
        }
        self.dispatch(now, transport);
    }

    /// The slow part of a tick: call every [`TICK`].
    pub fn sweep(&mut self, now: Time, transport: &mut impl Transport) {
        self.ticks = self.ticks.wrapping_add(1);
        let timeouts = self.ticks.is_multiple_of(SWEEP_TICKS);
        if self.phase == Phase::Over || (!timeouts && self.errors.total() == 0) {
            return;
        }
        for index in 0..self.workers.len() as u32 {
            let Some(worker) = self.workers.get_mut(index as usize) else { continue };
            match worker.state {
                State::Resting if now >= worker.since => {
                    worker.state = State::Idle;
                    self.want_connection(index);
                }
                State::Connecting | State::Ending if timeouts && now.since(worker.since) > self.options.timeout => {
                    self.fail(index, ErrorKind::Timeout, now, transport, true);
                }
                State::Open
                    if timeouts
                        && worker.pending.front().is_some_and(|p| now.since(p.start) > self.options.timeout)
                        // In an open loop a request may have waited long before it was sent.
                        && now.since(worker.since) > self.options.timeout =>
                {
                    self.fail(index, ErrorKind::Timeout, now, transport, true);
                }
                _ => {}
            }
        }
        self.connect_some(now, transport);
    }

    /// A window without an answer and without an error says nothing of the server: a slow first answer, or a processor that was
    /// elsewhere, would be «not serving». Such a window goes on for as long as a request may take.
    fn waits_for_the_first(&self, now: Time) -> bool {
        let is_empty = self.requests == 0 && self.errors.total() == 0;
        self.phase == Phase::Window && is_empty && now < self.phase_end + self.options.timeout
    }

    fn next_phase(&mut self, now: Time, transport: &mut impl Transport) {
        match self.phase {
            Phase::WarmUp => {
                self.phase = Phase::Window;
                self.window_start = now;
                self.phase_end = now + self.options.duration;
                self.requests = 0;
                self.received_bytes = 0;
                self.response_time.clear();
                // Requests that waited in the warm-up's backlog are not the window's: the schedule begins anew.
                self.schedule =
                    self.options.rate_per_s.and_then(|rate| Schedule::new(now, rate, self.options.backlog_max));
                self.before = MachineSample::take(self.options.watch_process);
            }
            Phase::Window => {
                let after = MachineSample::take(self.options.watch_process);
                let mut report = self.make_report(now);
                report.set_machine(&self.before, &after);
                self.report = Some(report);
                self.phase = Phase::Over;
                for index in 0..self.workers.len() as u32 {
                    if self
                        .workers
                        .get(index as usize)
                        .is_some_and(|w| !matches!(w.state, State::Idle | State::Resting))
                    {
                        transport.abort(index);
                        self.forget_connection(index);
                    }
                }
            }
            Phase::Over => {}
        }
    }

    fn make_report(&self, now: Time) -> Report {
        let duration_s = now.since(self.window_start).as_secs_f64().max(1e-9);
        Report {
            connections: self.options.connections,
            close: self.options.close,
            pipeline: self.options.pipeline,
            duration_s,
            requests: self.requests,
            requests_per_s: self.requests as f64 / duration_s,
            received_bytes: self.received_bytes,
            gbit_per_s: self.received_bytes as f64 * 8e-9 / duration_s,
            response_time_us: self.response_time.summary(),
            connect_time_us: self.connect_time.summary(),
            errors: self.errors,
            errors_total: self.errors.total(),
            connections_opened: self.connections_opened,
            open_loop: self.schedule.as_ref().map(|schedule| {
                let counts = schedule.counts();
                OpenLoop {
                    rate_per_s: self.options.rate_per_s.unwrap_or_default(),
                    scheduled: counts.scheduled,
                    late: counts.late,
                    dropped: counts.dropped,
                    backlog_peak: counts.backlog_peak as u64,
                }
            }),
            ..Report::default()
        }
    }

    /// The report, once the window is over.
    pub fn take_report(&mut self) -> Option<Report> {
        self.report.take()
    }

    /// Ends the run now: the window so far is the report.
    pub fn finish_early(&mut self, now: Time, transport: &mut impl Transport) {
        while self.phase != Phase::Over {
            self.next_phase(now, transport);
        }
    }

    /// Live figures since the last call.
    pub fn figures(&mut self, now: Time) -> Figures {
        let (last, requests, bytes) = self.figures_last;
        let seconds = now.since(last).as_secs_f64().max(1e-9);
        self.figures_last = (now, self.requests_total, self.received_total);
        let latency = self.response_time.summary();
        Figures {
            requests_per_s: (self.requests_total - requests) as f64 / seconds,
            gbit_per_s: (self.received_total - bytes) as f64 * 8e-9 / seconds,
            open: self.open,
            requests: self.requests_total,
            errors: self.errors.total(),
            p50_us: latency.p50,
            p99_us: latency.p99,
        }
    }

    /// A worker's handshake is done.
    pub fn connected(&mut self, index: u32, now: Time, transport: &mut impl Transport) {
        let Some(worker) = self.workers.get_mut(index as usize) else { return };
        if worker.state != State::Connecting {
            return;
        }
        self.connect_time.record(now.since(worker.since));
        self.connections_opened += 1;
        self.connecting -= 1;
        self.open += 1;
        worker.rest = REST_MIN;
        let connect_start = worker.since;
        worker.state = State::Open;
        worker.since = now;
        if self.phase == Phase::Over {
            return;
        }
        if let Some(start) = worker.assigned.take() {
            self.request(index, start, transport);
            self.dispatch(now, transport); // arrivals that waited for the first connection
        } else if self.options.rate_per_s.is_some() {
            let generation = worker.generation;
            for _ in 0..self.options.pipeline {
                self.free.push_back((index, generation));
            }
            self.dispatch(now, transport);
        } else {
            let start = if self.options.close { connect_start } else { now };
            for _ in 0..self.options.pipeline {
                self.request(index, start, transport);
            }
        }
        self.connect_some(now, transport);
    }

    /// Bytes came on a worker's connection.
    pub fn data(&mut self, index: u32, bytes: &[u8], now: Time, transport: &mut impl Transport) {
        let Some(worker) = self.workers.get_mut(index as usize) else { return };
        self.received_bytes += bytes.len() as u64;
        self.received_total += bytes.len() as u64;
        if worker.state == State::Connecting || worker.state == State::Idle || bytes.is_empty() {
            return;
        }
        if worker.state == State::Ending || worker.pending.is_empty() {
            return self.broken(index, ProtocolError::Unsolicited, now, transport);
        }
        let mut input = bytes;
        loop {
            let Some(worker) = self.workers.get_mut(index as usize) else { return };
            let target = worker.pending.front().map_or(0, |pending| usize::from(pending.target));
            let Some(head) = self.heads.get_mut(target) else { return };
            match worker.parser.step_cached(&mut input, head) {
                Ok(Step::More) => return,
                Ok(Step::Body(body)) => {
                    if self.options.verify {
                        worker.hash.update(body);
                    }
                }
                Ok(Step::Complete(outcome)) => {
                    self.answered(index, outcome, now, transport);
                    let more = self.workers.get(index as usize).map(|w| (w.state, w.pending.is_empty()));
                    if input.is_empty() || self.phase == Phase::Over {
                        return;
                    }
                    if more != Some((State::Open, false)) {
                        return self.broken(index, ProtocolError::Unsolicited, now, transport);
                    }
                }
                Err(error) => return self.broken(index, error, now, transport),
            }
        }
    }

    /// The peer sends no more.
    pub fn peer_closed(&mut self, index: u32, now: Time, transport: &mut impl Transport) {
        let Some(worker) = self.workers.get_mut(index as usize) else { return };
        match worker.state {
            State::Ending => self.end_in_order(index, now, transport),
            State::Open => {
                let end = worker.parser.end();
                if let (End::Complete(outcome), false) = (end, worker.pending.is_empty()) {
                    self.answered(index, outcome, now, transport);
                }
                let Some(worker) = self.workers.get_mut(index as usize) else { return };
                match (end, worker.pending.is_empty()) {
                    (End::Short, _) => self.fail(index, ErrorKind::ShortBody, now, transport, true),
                    (_, false) => self.fail(index, ErrorKind::Reset, now, transport, true),
                    // An idle connection the server had enough of: its right, not an error.
                    (_, true) => self.end_in_order(index, now, transport),
                }
            }
            State::Connecting => self.fail(index, ErrorKind::Reset, now, transport, true),
            State::Idle | State::Resting => {}
        }
    }

    /// A worker's connection is gone, or could not be made, for the reason given (`None`: in order).
    pub fn closed(&mut self, index: u32, why: Option<ErrorKind>, now: Time, transport: &mut impl Transport) {
        let Some(worker) = self.workers.get_mut(index as usize) else { return };
        match (worker.state, why) {
            (State::Idle | State::Resting, _) => {}
            (State::Connecting, why) => self.fail(index, why.unwrap_or(ErrorKind::Reset), now, transport, false),
            (State::Open, why) if !worker.pending.is_empty() => {
                self.fail(index, why.unwrap_or(ErrorKind::Reset), now, transport, false);
            }
            (State::Open | State::Ending, _) => {
                // Every answer was complete: whether the server ends with FIN or RST is no loss.
                self.forget_connection(index);
                self.after_connection(index, now, transport);
            }
        }
    }

    fn end_in_order(&mut self, index: u32, now: Time, transport: &mut impl Transport) {
        transport.close(index);
        self.forget_connection(index);
        self.after_connection(index, now, transport);
    }

    /// The worker is without a connection: what next?
    fn after_connection(&mut self, index: u32, now: Time, transport: &mut impl Transport) {
        self.want_connection(index);
        if self.opens_on_demand() {
            self.dispatch(now, transport);
        }
        self.connect_some(now, transport);
    }

    fn want_connection(&mut self, index: u32) {
        if self.phase == Phase::Over {
            return;
        }
        if self.opens_on_demand() {
            let generation = self.workers.get(index as usize).map_or(0, |worker| worker.generation);
            self.free.push_back((index, generation));
        } else {
            self.unconnected.push_back(index);
        }
    }

    /// Handshakes that may be under way: one until the first has succeeded, because a stack that doesn't know its
    /// neighbour's Ethernet address yet keeps only a few packets for it and would send the others a second later.
    fn connecting_max(&self) -> usize {
        if self.connections_opened == 0 { 1 } else { CONNECTING_MAX }
    }

    fn connect_some(&mut self, now: Time, transport: &mut impl Transport) {
        while self.connecting < self.connecting_max() && self.phase != Phase::Over {
            let Some(index) = self.unconnected.pop_front() else { return };
            self.connect(index, now, transport);
        }
    }

    fn connect(&mut self, index: u32, now: Time, transport: &mut impl Transport) {
        let Some(worker) = self.workers.get_mut(index as usize) else { return };
        worker.state = State::Connecting;
        worker.since = now;
        worker.generation = worker.generation.wrapping_add(1);
        worker.parser.reset();
        worker.parser.set_bodyless(self.options.head);
        if self.options.verify {
            worker.hash.reset(0);
        }
        self.connecting += 1;
        if let Err(kind) = transport.connect(index) {
            self.fail(index, kind, now, transport, false);
        }
    }

    /// Sends the next request on an open connection. Its latency counts from `start`.
    fn request(&mut self, index: u32, start: Time, transport: &mut impl Transport) {
        let target = self.mix.draw();
        let Some(request) = self.mix.request(target) else { return };
        let Some(worker) = self.workers.get_mut(index as usize) else { return };
        if worker.state != State::Open {
            return;
        }
        worker.pending.push_back(Pending { start, target });
        // A refusal is followed by `closed`, which finds the request pending and counts it once.
        let _ = transport.send(index, request);
    }

    /// Gives requests that are due to workers that are free.
    fn dispatch(&mut self, now: Time, transport: &mut impl Transport) {
        let on_demand = self.opens_on_demand();
        let Some(schedule) = self.schedule.as_mut() else { return };
        schedule.advance(now);
        if on_demand && self.connections_opened == 0 && self.connecting > 0 {
            return;
        }
        while let Some((index, generation)) = self.free.pop_front() {
            let Some(worker) = self.workers.get_mut(index as usize) else { continue };
            let usable = if on_demand { State::Idle } else { State::Open };
            if worker.generation != generation || worker.state != usable {
                continue; // an entry of an earlier connection
            }
            let Some(start) = self.schedule.as_mut().and_then(|schedule| schedule.take(now)) else {
                self.free.push_front((index, generation));
                return;
            };
            if on_demand {
                worker.assigned = Some(start);
                self.connect(index, now, transport);
                if self.connections_opened == 0 {
                    return;
                }
            } else {
                worker.since = now;
                self.request(index, start, transport);
            }
        }
    }

    fn answered(&mut self, index: u32, outcome: Outcome, now: Time, transport: &mut impl Transport) {
        let Some(worker) = self.workers.get_mut(index as usize) else { return };
        let Some(pending) = worker.pending.pop_front() else { return };
        self.requests += 1;
        self.requests_total += 1;
        self.response_time.record(now.since(pending.start));
        if !(200..300).contains(&outcome.status) {
            self.errors.add(ErrorKind::Status);
        } else if self.options.verify {
            let digest = worker.hash.digest();
            match self.first_hash.get_mut(usize::from(pending.target)) {
                Some(Some(first)) if *first != digest => self.errors.add(ErrorKind::Body),
                Some(first @ None) => *first = Some(digest),
                _ => {}
            }
        }
        if self.options.verify {
            worker.hash.reset(0);
        }
        if self.options.close || !outcome.keep_alive {
            if !worker.pending.is_empty() {
                // Pipelined requests behind an answer that says close (RFC 9112 §9.3.2): never to be answered.
                return self.fail(index, ErrorKind::Reset, now, transport, true);
            }
            worker.state = State::Ending;
            worker.since = now;
            return;
        }
        if self.phase == Phase::Over {
            return;
        }
        if self.options.rate_per_s.is_some() {
            let generation = worker.generation;
            self.free.push_back((index, generation));
            self.dispatch(now, transport);
        } else {
            worker.since = now;
            self.request(index, now, transport);
        }
    }

    fn broken(&mut self, index: u32, _error: ProtocolError, now: Time, transport: &mut impl Transport) {
        self.fail(index, ErrorKind::Protocol, now, transport, true);
    }

    /// Counts an error, drops the worker's connection and lets it rest a little.
    fn fail(&mut self, index: u32, kind: ErrorKind, now: Time, transport: &mut impl Transport, abort: bool) {
        self.errors.add(kind);
        if abort {
            transport.abort(index);
        }
        self.forget_connection(index);
        let Some(worker) = self.workers.get_mut(index as usize) else { return };
        worker.assigned = None;
        worker.state = State::Resting;
        worker.since = now + worker.rest;
        worker.rest = (worker.rest * 2).min(REST_MAX);
    }

    fn forget_connection(&mut self, index: u32) {
        let Some(worker) = self.workers.get_mut(index as usize) else { return };
        match worker.state {
            State::Connecting => self.connecting -= 1,
            State::Open | State::Ending => self.open -= 1,
            State::Idle | State::Resting => {}
        }
        worker.state = State::Idle;
        worker.pending.clear();
        worker.generation = worker.generation.wrapping_add(1);
    }
}

#[cfg(test)]
#[path = "engine_tests.rs"]
mod tests;
