//! Figures in Prometheus' text format (exposition format 0.0.4), on a loopback address and on the control socket.

use crate::cards::vnic::Vnic;
use crate::clients::peer::{Peer, Role};
use crate::daemon::Daemon;
use crate::requests::pages::PAGE_BYTES;
use qanat_control::filter::Direction;
use qanat_control::protocol::Place;
use rustix::io::Errno;
use std::fmt::Write as _;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// Readers served at once.
const SCRAPES_MAX: u32 = 4;
/// A reader that takes longer is left.
const PATIENCE: Duration = Duration::from_secs(2);
/// What is not older is told again.
const RECENT: Duration = Duration::from_millis(500);
/// Figures of each card: name, kind, help.
const FIGURES: [(&str, &str, &str); 3] = [
    ("qanat_vnic_memory_bytes", "gauge", "Frame memory registered."),
    ("qanat_vnic_frames_total", "counter", "Frames by what became of them."),
    ("qanat_vnic_bytes_total", "counter", "Bytes in them."),
];

const ROOT: Peer = Peer::new(0, 0, 0);

fn head(name: &str, kind: &str, help: &str) -> String {
    format!("# HELP {name} {help}\n# TYPE {name} {kind}\n")
}

impl Daemon {
    /// Everything there is to count.
    pub(crate) fn metrics_text(&mut self) -> String {
        let (mut text, mut from) = (String::new(), Some(Place::default()));
        while let Some(place) = from {
            let (part, next) = self.metrics_part(place);
            text += &part;
            from = next;
        }
        text
    }

    /// Some of it, from a place on, and where the next part begins. What is counted for each card is told card by card, one
    /// figure after the other, as the format wants it.
    pub(crate) fn metrics_part(&mut self, from: Place) -> (String, Option<Place>) {
        let mut text = String::new();
        if from == Place::default() {
            self.write_general(&mut text);
        }
        for figure in from.major..FIGURES.len() as u32 {
            let first = if figure == from.major { from.minor } else { 0 };
            let Some((name, kind, help)) = FIGURES.get(figure as usize) else { break };
            if first == 0 {
                text += &head(name, kind, help);
            }
            for vnic in self.visible(ROOT, first) {
                if text.len() >= PAGE_BYTES {
                    return (text, Some(Place { major: figure, minor: vnic.slot }));
                }
                self.write_figure(&mut text, name, vnic);
            }
        }
        (text, None)
    }

    fn write_general(&mut self, text: &mut String) {
        self.charges.settle_all(&self.state);
        let sessions = self.endpoints.values().filter(|endpoint| endpoint.role == Role::Session).count();
        *text += &head("qanat_vnics", "gauge", "VNICs there are.");
        // Writing to a String cannot fail.
        let _ = writeln!(text, "qanat_vnics {}", self.vnics.len());
        *text += &head("qanat_sessions", "gauge", "Connections to the control socket.");
        let _ = writeln!(text, "qanat_sessions {sessions}");
        *text += &head("qanat_filters", "gauge", "Rows of the table of filters in use.");
        let _ = writeln!(text, "qanat_filters {}", self.tables.filters_in_use());
        *text += &head("qanat_requests_total", "counter", "Control requests by outcome.");
        for (outcome, count) in ["served", "refused", "cut_off"].iter().zip(self.requests) {
            let _ = writeln!(text, "qanat_requests_total{{outcome=\"{outcome}\"}} {count}");
        }
        *text += &head("qanat_descriptors_total", "counter", "Messages with descriptors beside them, by outcome.");
        for (outcome, count) in ["accepted", "refused"].iter().zip(self.porters.counts) {
            let _ = writeln!(text, "qanat_descriptors_total{{outcome=\"{outcome}\"}} {count}");
        }
        *text += &head("qanat_porters_killed_total", "counter", "Porters that a descriptor kept waiting.");
        let _ = writeln!(text, "qanat_porters_killed_total {}", self.porters.counts[2]);
        let cores = self.net_cores.states();
        let cores = || cores.iter().filter(|core| core.removed_from.is_none());
        *text += &head("qanat_net_core_restarts_total", "counter", "Net cores that died and were started again.");
        for core in cores() {
            let _ =
                writeln!(text, "qanat_net_core_restarts_total{{processor=\"{}\"}} {}", core.processor, core.restarts);
        }
        *text += &head("qanat_net_core_cards_moved_total", "counter", "Cards that came from other net cores.");
        for core in cores() {
            let _ = writeln!(
                text,
                "qanat_net_core_cards_moved_total{{processor=\"{}\"}} {}",
                core.processor, core.cards_moved
            );
        }
        *text += &head("qanat_memory_charged_bytes", "gauge", "Frame memory pinned for a user, of deleted VNICs too.");
        for (user, bytes) in self.charges.by_user() {
            let _ = writeln!(text, "qanat_memory_charged_bytes{{uid=\"{user}\"}} {bytes}");
        }
    }

    fn write_figure(&self, text: &mut String, name: &str, vnic: &Vnic) {
        let labels = labels(vnic.slot, &vnic.wish.name);
        if name == FIGURES[0].0 {
            let _ = writeln!(text, "{name}{{{labels}}} {}", vnic.open_queues(&self.charges).1);
            return;
        }
        for (direction, which) in [("transmit", Direction::Transmit), ("receive", Direction::Receive)] {
            for count in self.tables.counts(vnic.slot, which) {
                let value = if name == FIGURES[1].0 { count.frames } else { count.bytes };
                let _ = writeln!(
                    text,
                    "{name}{{{labels},direction=\"{direction}\",fate=\"{}\",dropped=\"{}\"}} {value}",
                    count.cause, count.dropped
                );
            }
        }
    }

    /// What was told just before, or what is so now: who asks for it is not known, and may ask all the time.
    fn recent_text(&mut self) -> Arc<str> {
        if let Some((since, text)) = &self.last_scrape
            && since.elapsed() < RECENT
        {
            return Arc::clone(text);
        }
        let text: Arc<str> = self.metrics_text().into();
        self.last_scrape = Some((Instant::now(), Arc::clone(&text)));
        text
    }

    /// Answers one reader, on a thread of its own: it may be slow.
    pub(crate) fn scrape(&mut self, token: u64) {
        let stream = match self.metrics.as_ref().map(std::net::TcpListener::accept) {
            Some(Ok((stream, _))) => stream,
            Some(Err(error)) => {
                return match Errno::from_io_error(&error) {
                    None | Some(Errno::AGAIN | Errno::INTR | Errno::CONNABORTED) => {}
                    Some(error) => self.pause(token, error),
                };
            }
            None => return,
        };
        if self.scrapes.fetch_add(1, Ordering::Relaxed) >= SCRAPES_MAX {
            self.scrapes.fetch_sub(1, Ordering::Relaxed);
            return;
        }
        let (text, scrapes) = (self.recent_text(), Arc::clone(&self.scrapes));
        std::thread::spawn(move || {
            // A reader that goes away is no error of ours.
            let _ = reply(stream, &text);
            scrapes.fetch_sub(1, Ordering::Relaxed);
        });
    }
}

fn reply(mut stream: TcpStream, text: &str) -> std::io::Result<()> {
    stream.set_nonblocking(false)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    // Whatever is asked, this is the answer.
    let mut request = [0; 1_024];
    let _ = stream.read(&mut request)?;
    let head = "HTTP/1.1 200 OK\r\nContent-Type: text/plain; version=0.0.4\r\nConnection: close\r\nContent-Length: ";
    stream.write_all(format!("{head}{}\r\n\r\n{text}", text.len()).as_bytes())
}

/// A name is any text: quoted as the format wants it.
fn labels(vnic: u32, name: &str) -> String {
    let name = name.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
    format!("vnic=\"{vnic}\",name=\"{name}\"")
}
