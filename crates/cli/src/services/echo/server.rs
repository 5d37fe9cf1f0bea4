//! The echo, as the host knows it.

use crate::host::Application;
use crate::host::application::{Announcement, Figures as HostFigures, Period, Place, Rates, Requirements, StackPlace};
use crate::live::grouped;
use qanat::{PROTOCOL_TCP, PROTOCOL_UDP};
use qanat_echo::{EchoConfig, EchoService, Figures};
use qanat_nic::af_xdp::PortRange;
use qanat_nic::breakdown;
use serde_json::{Map, Value, json};

/// Frames of its queue, each way.
pub const FRAMES: u32 = 4_096;

/// The service in any placement.
pub struct Echo {
    pub config: EchoConfig,
    /// What it echoes, in words.
    pub what: &'static str,
}

impl Echo {
    /// It listens at `address`, over `link`.
    pub fn announce(&self, address: &str, link: &str) -> Announcement {
        let what = self.what;
        Announcement {
            json: json!({ "event": "echoing", "what": what, "address": address, "link": link }),
            lines: vec![format!("Echoing {what} at {address} over {link}  (Ctrl-C stops)")],
        }
    }

    /// Where it is reached.
    pub fn address(&self, place: &Place) -> String {
        let address = place.addresses.first().map_or_else(String::new, |address| address.to_string());
        format!("{address}:{}", self.config.port)
    }
}

impl Application for Echo {
    type Service = EchoService;
    type Figures = Figures;

    const NAME: &'static str = "echo";

    fn requirements(&self) -> Requirements {
        let port = self.config.port;
        let ports = [PROTOCOL_UDP, PROTOCOL_TCP].map(|protocol| PortRange { protocol, first: port, last: port });
        Requirements { frames: FRAMES, ..Requirements::new(ports.to_vec()) }
    }

    fn service(&self, _place: &Place) -> Result<EchoService, String> {
        Ok(EchoService::new(self.config))
    }

    fn announcement(&self, place: &Place) -> Announcement {
        let link = if place.stack == StackPlace::NetCore { "a net core's veth" } else { &place.driver };
        self.announce(&self.address(place), link)
    }

    fn figures(service: &mut EchoService) -> Figures {
        service.figures()
    }

    fn rates(period: &Period<'_, Figures>) -> Rates {
        let packets_per_s = period.rate(|figures| figures.echoed);
        let gbit_per_s = period.rate(|figures| figures.bytes) * 8e-9;
        let figures = period.now;
        Rates {
            json: json!({ "packets_per_s": packets_per_s, "gbit_per_s": gbit_per_s }),
            text: format!(
                "{} packets/s  {gbit_per_s:.2} Gbit/s  {} echoed  {} dropped  {} connections",
                grouped(packets_per_s as u64),
                grouped(figures.echoed),
                grouped(figures.dropped),
                figures.connections,
            ),
            is_busy: packets_per_s > 0.0,
        }
    }

    fn json(figures: &Figures) -> Value {
        json!(figures)
    }

    fn summary(all: &Figures, _each: &[Figures]) -> Vec<String> {
        let (echoed, bytes, dropped) = (grouped(all.echoed), grouped(all.bytes), grouped(all.dropped));
        vec![format!("Echoed {echoed} packets, {bytes} bytes, dropped {dropped}.")]
    }

    fn last_json(_all: &Figures) -> Vec<(&'static str, Value)> {
        let counted = breakdown::report().map(|counted| {
            let phases = counted.phases_ns.iter().map(|(phase, ns)| (phase.name().to_owned(), (*ns).into()));
            let phases = Map::from_iter(phases);
            json!({ "turns": counted.turns, "own_cost_ns": counted.own_cost_ns, "phases_ns": phases })
        });
        counted.map(|counted| ("breakdown", counted)).into_iter().collect()
    }
}

impl HostFigures for Figures {
    fn add(&mut self, other: &Figures) {
        self.echoed += other.echoed;
        self.bytes += other.bytes;
        self.dropped += other.dropped;
        self.connections += other.connections;
    }

    fn end(&mut self) {
        self.connections = 0;
    }
}
