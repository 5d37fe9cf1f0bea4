//! A sink for telemetry: it adds up datagrams of the form `name:value`, and prints the sums every second.
//!
//! ```text
//!  cargo run --package qanat-examples --bin telemetry_sink
//!  echo requests:3 | nc -u -w 0 10.77.0.2 8125        # the sink prints `requests=3  refused=0`
//! ```
//! It shows how timers are set, and how a service protects itself from strangers: anyone can send a datagram, so the number and
//! length of names are bounded. Malformed datagrams are counted as refused and never answered.
#![forbid(unsafe_code)]

use qanat::{Commands, Context, Event, PROTOCOL_UDP, Service, StartError};
use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

const PORT: u16 = 8_125;
const EVERY: Duration = Duration::from_secs(1);
/// Names that are kept at most. Further names are counted as refused.
const NAMES_MAX: usize = 1_000;
const NAME_BYTES_MAX: usize = 64;

#[derive(Default)]
struct Sink {
    sums: BTreeMap<String, i64>,
    refused: u64,
}

impl Sink {
    /// Adds the value of a line to the sum of its name. Gives `None` if it is malformed or a name too many.
    fn add(&mut self, line: &str) -> Option<()> {
        let (name, value) = line.trim().split_once(':')?;
        let value: i64 = value.parse().ok()?;
        let is_known = self.sums.contains_key(name);
        if name.is_empty() || name.len() > NAME_BYTES_MAX || !is_known && self.sums.len() >= NAMES_MAX {
            return None;
        }
        let sum = self.sums.entry(name.to_owned()).or_default();
        *sum = sum.saturating_add(value);
        Some(())
    }

    fn tell(&self) {
        let sums: Vec<String> = self.sums.iter().map(|(name, sum)| format!("{name}={sum}")).collect();
        println!("{}  refused={}", sums.join(" "), self.refused);
    }
}

impl Service for Sink {
    fn start(&mut self, context: &mut Context<'_>) -> Result<(), StartError> {
        let local = SocketAddr::from((Ipv4Addr::UNSPECIFIED, PORT));
        context.bind_udp(local)?;
        context.set_timer(EVERY, 0)?;
        Ok(())
    }

    fn handle(&mut self, event: Event, context: &mut Context<'_>) {
        match event {
            // The frame goes back to the card when the chunk is dropped.
            Event::Datagram { chunk, .. } => {
                let added = std::str::from_utf8(chunk.bytes()).ok().and_then(|text| self.add(text));
                self.refused += u64::from(added.is_none());
            }
            Event::Timer { .. } => {
                self.tell();
                // A timer rings once, so it is set again.
                let _ = context.set_timer(EVERY, 0);
            }
            _ => {}
        }
    }
}

fn main() -> Result<(), String> {
    qanat_examples::serve(Sink::default(), &[(PROTOCOL_UDP, PORT)])
}
