//! Figures in Prometheus' text format (exposition format 0.0.4), on a loopback address and on the control socket.

use crate::cards::vnic::Vnic;
use crate::clients::peer::{Peer, Role};
use crate::daemon::Daemon;
use crate::disks::listing::AREA_FIGURES;
use crate::requests::pages::PAGE_BYTES;
use qanat_control::filter::Direction;
use qanat_control::prometheus::Kind::{self, Counter, Gauge};
use qanat_control::prometheus::{Exposition, Label};
use qanat_control::protocol::Place;
use rustix::io::Errno;
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
const FIGURES: [(&str, Kind, &str); 3] = [
    ("qanat_vnic_memory_bytes", Gauge, "Frame memory registered."),
    ("qanat_vnic_frames_total", Counter, "Frames by what became of them."),
    ("qanat_vnic_bytes_total", Counter, "Bytes in them."),
];

const ROOT: Peer = Peer::new(0, 0, 0);

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
        let mut text = Exposition::default();
        if from == Place::default() {
            self.write_general(&mut text);
        }
        for figure in from.major..FIGURES.len() as u32 {
            let first = if figure == from.major { from.minor } else { 0 };
            let Some((name, kind, help)) = FIGURES.get(figure as usize).copied() else { break };
            if first == 0 {
                text.family(name, kind, help);
            }
            for vnic in self.visible(ROOT, first) {
                if text.bytes() >= PAGE_BYTES {
                    return (text.into_text(), Some(Place { major: figure, minor: vnic.slot }));
                }
                self.write_figure(&mut text, name, vnic);
            }
        }
        let cards = FIGURES.len() as u32;
        for figure in from.major.saturating_sub(cards)..AREA_FIGURES.len() as u32 {
            let major = cards + figure;
            let first = if major == from.major { from.minor } else { 0 };
            if first == 0 && text.bytes() >= PAGE_BYTES {
                return (text.into_text(), Some(Place { major, minor: 0 }));
            }
            if let Some(next) = self.write_area_figures(&mut text, figure as usize, first as usize) {
                return (text.into_text(), Some(Place { major, minor: next as u32 }));
            }
        }
        (text.into_text(), None)
    }

    fn write_general(&mut self, text: &mut Exposition) {
        self.charges.settle_all(&self.state);
        let sessions = self.endpoints.values().filter(|endpoint| endpoint.role == Role::Session).count();
        text.family("qanat_vnics", Gauge, "VNICs there are.").value(self.vnics.len());
        text.family("qanat_sessions", Gauge, "Connections to the control socket.").value(sessions);
        let filters = self.tables.filters_in_use();
        text.family("qanat_filters", Gauge, "Rows of the table of filters in use.").value(filters);
        let requests = ["served", "refused", "cut_off"].into_iter().zip(self.requests);
        text.family("qanat_requests_total", Counter, "Control requests by outcome.").by("outcome", requests);
        let descriptors = ["accepted", "refused"].into_iter().zip(self.porters.counts);
        let help = "Messages with descriptors beside them, by outcome.";
        text.family("qanat_descriptors_total", Counter, help).by("outcome", descriptors);
        let help = "Porters that a descriptor kept waiting.";
        text.family("qanat_porters_killed_total", Counter, help).value(self.porters.counts[2]);
        let cores = self.net_cores.states();
        let cores = || cores.iter().filter(|core| core.removed_from.is_none());
        let restarts = cores().map(|core| (core.processor, core.restarts));
        let help = "Net cores that died and were started again.";
        text.family("qanat_net_core_restarts_total", Counter, help).by("processor", restarts);
        let moved = cores().map(|core| (core.processor, core.cards_moved));
        let help = "Cards that came from other net cores.";
        text.family("qanat_net_core_cards_moved_total", Counter, help).by("processor", moved);
        self.write_disk_figures(text);
        self.ask_disk_cores();
        let help = "Frame memory pinned for a user, of deleted VNICs too.";
        text.family("qanat_memory_charged_bytes", Gauge, help).by("uid", self.charges.by_user());
    }

    fn write_figure(&self, text: &mut Exposition, name: &str, vnic: &Vnic) {
        let mut family = text.continued(name);
        let own_name = &vnic.wish.name;
        if name == FIGURES[0].0 {
            let bytes = vnic.open_queues(&self.charges).1;
            return family.labelled(&[("vnic", &vnic.slot), ("name", own_name)], bytes);
        }
        for (direction, which) in [("transmit", Direction::Transmit), ("receive", Direction::Receive)] {
            for count in self.tables.counts(vnic.slot, which) {
                let value = if name == FIGURES[1].0 { count.frames } else { count.bytes };
                let labels: [Label<'_>; 5] = [
                    ("vnic", &vnic.slot),
                    ("name", own_name),
                    ("direction", &direction),
                    ("fate", &count.cause),
                    ("dropped", &count.dropped),
                ];
                family.labelled(&labels, value);
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
