//! The link to send over, and who is at its other end.

use super::native::Ends;
use crate::load::http::LoadError;
use qanat::{Attachment, Config, StopHandle};
use qanat_echo::{LinkChoice, OpenLink, own_mac};
use qanat_nic::link::Namespace;
use qanat_nic::{MemoryPlan, PairConfig, PairPort, Vnic, pair};
use qanat_wire::ethernet::MacAddress;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::Duration;

/// Own address on a link that has none.
const OWN_ADDRESS: Ipv4Addr = Ipv4Addr::new(10, 77, 0, 1);
/// Prefix length there.
pub const PREFIX_LENGTH: u8 = 24;
const ACCEPT_INTERVAL: Duration = Duration::from_millis(100);

/// Frames of either end.
pub fn memory() -> MemoryPlan {
    MemoryPlan { frame_size: 2_048, receive_frames: 4_096, transmit_frames: 4_096, prepared_frames: 0 }
}

/// The near end of a link.
pub struct Near {
    /// Addresses and routes, for a client with a stack.
    pub config: Config,
    /// Addresses, for one without.
    pub ends: Ends,
    /// The link's kind, for a report.
    pub kind: &'static str,
}

/// Loads over a link, whichever it is.
pub trait Client {
    /// What it yields.
    type Report;

    /// Runs over `vnic`.
    ///
    /// # Errors
    /// [`LoadError`].
    fn over<V: Vnic + 'static>(self, vnic: V, near: Near) -> Result<Self::Report, LoadError>;

    /// Whether nothing came back.
    fn is_empty(report: &Self::Report) -> bool;
}

/// What serves at the far end of a pair, on a thread of its own, until told to stop.
pub type FarEnd = Box<dyn FnOnce(PairPort, StopHandle) -> Result<(), LoadError> + Send>;

/// How to reach the server.
pub struct Link {
    /// Which link.
    pub choice: LinkChoice,
    /// Own address; `None`: an unused one of a veth's prefix, 10.77.0.1 on other links.
    pub source: Option<Ipv4Addr>,
    /// The server's Ethernet address; `None`: ask.
    pub peer: Option<MacAddress>,
    /// Where the interface is.
    pub namespace: Option<Namespace>,
    /// Descriptors of a memif ring, as a power of two.
    pub log2_ring_size: u8,
}

/// A link that was asked for and can not be had.
fn option(error: impl std::fmt::Display) -> LoadError {
    LoadError::Option(error.to_string())
}

impl Link {
    /// Memory between two threads.
    pub fn pair() -> Link {
        Link { choice: LinkChoice::Pair, source: None, peer: None, namespace: None, log2_ring_size: 10 }
    }

    /// Runs `client` over this link towards `target`; `far` serves if it is a pair.
    ///
    /// # Errors
    /// [`LoadError`], with the remedy.
    pub fn run<C: Client>(
        &self,
        target: SocketAddr,
        client: C,
        far: FarEnd,
        stop: &StopHandle,
    ) -> Result<C::Report, LoadError> {
        match &self.choice {
            LinkChoice::Veth => self.over_veth(target, client),
            LinkChoice::Memif { socket, master } => {
                let mac = own_mac(false);
                let link = OpenLink::memif(socket.clone(), *master, mac, 1_500, self.log2_ring_size, memory());
                self.over_memif(&link.map_err(option)?, target, client, stop)
            }
            LinkChoice::Pair => self.over_pair(target, client, far),
        }
    }

    fn over_memif<C: Client>(
        &self,
        link: &OpenLink,
        target: SocketAddr,
        client: C,
        stop: &StopHandle,
    ) -> Result<C::Report, LoadError> {
        let mut said = None;
        let device = loop {
            if let Some(device) = link.next(ACCEPT_INTERVAL, &mut |text| said = Some(text)).map_err(option)? {
                break device;
            }
            if stop.is_requested() {
                return Err(LoadError::Option(said.unwrap_or_else(|| "nobody came".to_owned())));
            }
        };
        let fate = device.link().clone();
        let vnic = device.open().map_err(option)?;
        let report = client.over(vnic, self.near(target, "memif")?);
        match fate.reason() {
            Some(reason) if report.as_ref().map_or(true, C::is_empty) => {
                Err(LoadError::Option(format!("memif: {reason}")))
            }
            _ => report,
        }
    }

    fn over_veth<C: Client>(&self, target: SocketAddr, client: C) -> Result<C::Report, LoadError> {
        let sources: Vec<IpAddr> = self.source.map(IpAddr::V4).into_iter().collect();
        let attachment = Attachment::towards(target.ip(), &sources, 1, self.namespace.as_ref())?;
        let vnic = attachment.open_queue(0, memory())?;
        let source = attachment.addresses().into_iter().find_map(|address| match address {
            IpAddr::V4(v4) => Some(v4),
            IpAddr::V6(_) => None,
        });
        let gateway = attachment.config().gateways.first().copied();
        let next_hop = match (gateway, target.ip()) {
            (Some(IpAddr::V4(gateway)), _) => gateway,
            (_, IpAddr::V4(target)) => target,
            _ => return Err(LoadError::Option("IPv4 only".to_owned())),
        };
        let ends = Ends { source: source.unwrap_or(OWN_ADDRESS), peer: self.peer, next_hop };
        client.over(vnic, Near { config: attachment.config().clone(), ends, kind: "veth" })
    }

    /// The near end of a link without a kernel.
    fn near(&self, target: SocketAddr, kind: &'static str) -> Result<Near, LoadError> {
        let IpAddr::V4(next_hop) = target.ip() else {
            return Err(LoadError::Option("IPv4 only".to_owned()));
        };
        let source = self.source.unwrap_or(OWN_ADDRESS);
        let config = Config::new(IpAddr::V4(source), PREFIX_LENGTH);
        Ok(Near { config, ends: Ends { source, peer: self.peer, next_hop }, kind })
    }

    /// Both ends in this process, a thread each.
    fn over_pair<C: Client>(&self, target: SocketAddr, client: C, serve: FarEnd) -> Result<C::Report, LoadError> {
        let failed = |error| LoadError::System { what: "make a pair".to_owned(), error };
        let near = self.near(target, "pair")?;
        let (own, far) = pair(PairConfig::default()).map_err(failed)?;
        let end = StopHandle::new().map_err(failed)?;
        let handle = end.clone();
        let server = std::thread::spawn(move || serve(far, handle));
        let vnic = own.open(memory()).map_err(failed)?;
        let report = client.over(vnic, near);
        end.request();
        match server.join() {
            Ok(Ok(())) => report,
            Ok(Err(error)) => Err(error),
            Err(_) => Err(LoadError::Runtime("the server's thread panicked".to_owned())),
        }
    }
}
