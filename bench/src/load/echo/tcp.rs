//! Messages over our TCP: each connection sends one, waits until all of it is back, and sends the next.

use super::EchoLoadOptions;
use crate::load::datagrams::pace::Pace;
use crate::load::datagrams::trips::{RoundTrips, TripFigures};
use crate::load::datagrams::window::{Mark, Phase, Window};
use crate::load::exchanges::Exchanges;
use crate::load::http::LoadError;
use qanat::{Bytes, Commands, Context, Event, Runtime, Service, StartError, StopHandle, Time};
use std::net::SocketAddr;
use std::time::Duration;

/// How long without any connection before giving up.
const PATIENCE: Duration = Duration::from_secs(5);

#[derive(Default)]
struct Exchange {
    mark: Option<Mark>,
    missing: usize,
}

struct Messages {
    target: SocketAddr,
    connections: usize,
    message: Bytes,
    window: Window,
    exchanges: Exchanges<Exchange>,
    closed: u64,
}

impl Messages {
    fn send(&mut self, index: usize, context: &mut Context<'_>) {
        let now = context.now();
        let Some((connection, exchange)) = self.exchanges.get_mut(index) else { return };
        if exchange.mark.is_some() {
            return;
        }
        let Some(mark) = self.window.next(now) else { return };
        match context.send(*connection, self.message.clone()) {
            Ok(()) => {
                exchange.mark = Some(mark);
                exchange.missing = self.message.len();
            }
            Err(_) => self.window.not_sent(mark),
        }
    }

    /// Open loop: what has come due goes to connections that are idle.
    fn send_due(&mut self, context: &mut Context<'_>) {
        for index in self.exchanges.slots() {
            self.send(index, context);
        }
    }
}

impl Service for Messages {
    fn start(&mut self, context: &mut Context<'_>) -> Result<(), StartError> {
        Exchanges::<Exchange>::open(self.target, self.connections, context)
    }

    fn handle(&mut self, event: Event, context: &mut Context<'_>) {
        match event {
            Event::Connected { connection } => {
                self.exchanges.insert(connection, Exchange::default());
                self.send(connection.index(), context);
            }
            Event::Data { connection, chunk } => {
                let (length, now) = (chunk.len(), context.now());
                context.consume(connection, chunk);
                let Some((_, exchange)) = self.exchanges.get_mut(connection.index()) else { return };
                exchange.missing = exchange.missing.saturating_sub(length);
                if exchange.missing == 0
                    && let Some(mark) = exchange.mark.take()
                {
                    self.window.back(mark, now);
                    self.send(connection.index(), context);
                }
            }
            Event::Closed { connection, .. } => {
                self.closed += 1;
                self.exchanges.remove(connection);
            }
            _ => {}
        }
    }
}

/// Sends messages over `options.pace.window` connections and times their echoes.
///
/// # Errors
/// [`LoadError::Start`] or [`LoadError::Runtime`] if no connection comes about.
pub fn run(
    runtime: &mut Runtime,
    options: &EchoLoadOptions,
    stop: &StopHandle,
    observe: &mut dyn FnMut(&TripFigures),
) -> Result<RoundTrips, LoadError> {
    options.check()?;
    // A connection's answer may wait for a retransmission: not lost while the connection lives.
    let patient = Pace { timeout: options.pace.timeout.max(PATIENCE), ..options.pace.clone() };
    let mut messages = Messages {
        target: options.target,
        connections: options.pace.window,
        message: Bytes::from(vec![0x5a; options.length]),
        window: Window::new(&patient, runtime.now()),
        exchanges: Exchanges::new(),
        closed: 0,
    };
    runtime.with_context(|context| messages.start(context))?;
    let start = runtime.now();
    loop {
        runtime.turn(&mut messages);
        let now: Time = runtime.now();
        if messages.window.tick(now, true) == Phase::Over || stop.is_requested() {
            break;
        }
        if options.pace.rate_per_s.is_some() {
            runtime.with_context(|context| messages.send_due(context));
        }
        if let Some(figures) = messages.window.observe(now) {
            observe(&figures);
        }
        if messages.exchanges.is_empty() && (messages.closed > 0 || now.since(start) > PATIENCE) {
            return Err(LoadError::Runtime(format!("no connection to {}: is the echo running there?", options.target)));
        }
    }
    let report = messages.window.report(runtime.now());
    runtime.with_context(|context| messages.exchanges.abort_all(context));
    Ok(report)
}
