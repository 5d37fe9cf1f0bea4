//! Requests over our TCP: each connection keeps so many on their way, and answers come in the order of the requests.

use super::options::ValueLoadOptions;
use super::tally::{Tally, not_filled};
use super::workload::{Request, Workload};
use crate::load::datagrams::pace::Pace;
use crate::load::datagrams::trips::{RoundTrips, TripFigures};
use crate::load::datagrams::window::{Mark, Phase, Window};
use crate::load::exchanges::Exchanges;
use crate::load::http::LoadError;
use qanat::{Commands, Context, Event, Runtime, Service, StartError, StopHandle, Time};
use std::collections::VecDeque;
use std::net::SocketAddr;
use std::time::Duration;

/// How long without any connection before giving up.
const PATIENCE: Duration = Duration::from_secs(5);

struct Exchange {
    /// What waits for its answer, the oldest first.
    waiting: VecDeque<(Mark, Request)>,
    /// Bytes of the oldest one's answer that have come.
    come: usize,
}

/// See the [module](self).
pub struct Stream {
    target: SocketAddr,
    connections: usize,
    pipeline: usize,
    is_open_loop: bool,
    workload: Workload,
    window: Window,
    exchanges: Exchanges<Exchange>,
    tally: Tally,
}

impl Stream {
    /// Nothing sent yet.
    pub fn new(options: &ValueLoadOptions, workload: Workload, now: Time) -> Stream {
        // A connection's answer may wait for a retransmission: not lost while the connection lives.
        let patient = Pace { timeout: options.pace.timeout.max(PATIENCE), ..options.pace.clone() };
        Stream {
            target: options.target,
            connections: options.connections,
            pipeline: (options.pace.window / options.connections.max(1)).max(1),
            is_open_loop: options.pace.rate_per_s.is_some(),
            workload,
            window: Window::new(&patient, now),
            exchanges: Exchanges::new(),
            tally: Tally::default(),
        }
    }

    /// Sends as many as may be on their way.
    fn send(&mut self, index: usize, context: &mut Context<'_>) {
        let now = context.now();
        let Some((connection, exchange)) = self.exchanges.get_mut(index) else { return };
        while exchange.waiting.len() < self.pipeline {
            let Some(mark) = self.window.next(now) else { return };
            let request = self.workload.draw();
            let Some(bytes) = self.workload.request(request) else { return };
            if context.send(*connection, bytes.clone()).is_err() {
                self.window.not_sent(mark);
                return;
            }
            exchange.waiting.push_back((mark, request));
        }
    }

    /// Compares what has come; `false`: it is not what had to come.
    fn receive(&mut self, index: usize, mut bytes: &[u8], now: Time) -> bool {
        let Some((_, exchange)) = self.exchanges.get_mut(index) else { return true };
        while !bytes.is_empty() {
            let Some((mark, request)) = exchange.waiting.front().copied() else { return false };
            let answer = self.workload.answer(request);
            let missing = answer.len() - exchange.come.min(answer.len());
            let (now_come, rest) = bytes.split_at(missing.min(bytes.len()));
            if !answer.has(exchange.come, now_come) {
                return false;
            }
            let is_whole = now_come.len() == missing;
            exchange.come += now_come.len();
            bytes = rest;
            if is_whole {
                self.window.back(mark, now);
                self.workload.answered(request);
                exchange.come = 0;
                exchange.waiting.pop_front();
            }
        }
        true
    }

    /// Runs it.
    ///
    /// # Errors
    /// [`LoadError::Start`] or [`LoadError::Runtime`] if no connection comes about.
    pub fn run(
        mut self,
        runtime: &mut Runtime,
        stop: &StopHandle,
        observe: &mut dyn FnMut(&TripFigures),
    ) -> Result<(RoundTrips, Tally), LoadError> {
        runtime.with_context(|context| self.start(context))?;
        let start = runtime.now();
        loop {
            runtime.turn(&mut self);
            let now: Time = runtime.now();
            match self.window.tick(now, self.workload.is_filled()) {
                Phase::Over => break,
                Phase::Begun if !self.workload.is_filled() => return Err(not_filled()),
                _ if stop.is_requested() => break,
                _ => {}
            }
            if self.is_open_loop {
                runtime.with_context(|context| {
                    for index in self.exchanges.slots() {
                        self.send(index, context);
                    }
                });
            }
            if let Some(figures) = self.window.observe(now) {
                observe(&figures);
            }
            if self.exchanges.is_empty() && (self.tally.closed > 0 || now.since(start) > PATIENCE) {
                return Err(LoadError::Runtime(format!("no connection to {}: is it serving?", self.target)));
            }
        }
        let report = self.window.report(runtime.now());
        runtime.with_context(|context| self.exchanges.abort_all(context));
        Ok((report, self.tally))
    }
}

impl Service for Stream {
    fn start(&mut self, context: &mut Context<'_>) -> Result<(), StartError> {
        Exchanges::<Exchange>::open(self.target, self.connections, context)
    }

    fn handle(&mut self, event: Event, context: &mut Context<'_>) {
        match event {
            Event::Connected { connection } => {
                let waiting = VecDeque::with_capacity(self.pipeline);
                self.exchanges.insert(connection, Exchange { waiting, come: 0 });
                self.send(connection.index(), context);
            }
            Event::Data { connection, chunk } => {
                let is_right = self.receive(connection.index(), chunk.bytes(), context.now());
                context.consume(connection, chunk);
                if is_right {
                    self.send(connection.index(), context);
                } else {
                    self.tally.wrong += 1;
                    // A connection that is gone already has ended as well.
                    let _ = context.abort(connection);
                    self.exchanges.remove(connection);
                }
            }
            Event::Closed { connection, .. } => {
                self.tally.closed += 1;
                self.exchanges.remove(connection);
            }
            _ => {}
        }
    }
}
