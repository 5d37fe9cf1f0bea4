//! The link to send over.

use super::udp::{self, Ends};
use super::{EchoFigures, EchoLoadOptions, EchoReport, tcp};
use crate::load::http::LoadError;
use qanat::nic::link::Namespace;
use qanat::nic::{MemoryPlan, PairConfig, Vnic, pair};
use qanat::wire::ethernet::MacAddress;
use qanat::{Attachment, Config, Runtime, SpinPolicy, StopHandle};
use qanat_echo::{EchoConfig, EchoService, LinkChoice, OpenLink, RawEcho, own_mac};
use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

/// Own address on a link that has none.
const OWN_ADDRESS: Ipv4Addr = Ipv4Addr::new(10, 77, 0, 1);
const PREFIX_LENGTH: u8 = 24;
const ACCEPT_INTERVAL: Duration = Duration::from_millis(100);

/// What echoes at the other end of a pair, which is this process too.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PairEcho {
    /// In the driver.
    Raw,
    /// Through the stack.
    Native,
    /// Through the stack, with copies.
    Copies,
}

/// How to reach the echo.
pub struct EchoLink {
    /// Which link.
    pub choice: LinkChoice,
    /// Own address; `None`: an unused one of a veth's prefix, 10.77.0.1 on other links.
    pub source: Option<Ipv4Addr>,
    /// The echo's Ethernet address; `None`: ask.
    pub peer: Option<MacAddress>,
    /// Where the interface is.
    pub namespace: Option<Namespace>,
    /// Descriptors of a memif ring, as a power of two.
    pub log2_ring_size: u8,
    /// Over TCP instead of UDP.
    pub tcp: bool,
    /// What echoes on a pair.
    pub pair: PairEcho,
    /// Processor of that echo.
    pub pair_cpu: Option<usize>,
}

fn memory() -> MemoryPlan {
    MemoryPlan { frame_size: 2_048, receive_frames: 4_096, transmit_frames: 4_096, prepared_frames: 0 }
}

impl EchoLink {
    /// A pair, with `echo` at its other end, on processor `cpu` if one is given.
    pub fn pair(echo: PairEcho, tcp: bool, cpu: Option<usize>) -> EchoLink {
        EchoLink {
            choice: LinkChoice::Pair,
            source: None,
            peer: None,
            namespace: None,
            log2_ring_size: 10,
            tcp,
            pair: echo,
            pair_cpu: cpu,
        }
    }

    /// Runs the load over this link.
    ///
    /// # Errors
    /// [`LoadError`], with the remedy.
    pub fn run(
        &self,
        options: &EchoLoadOptions,
        stop: &StopHandle,
        observe: &mut dyn FnMut(&EchoFigures),
    ) -> Result<EchoReport, LoadError> {
        options.check()?;
        match &self.choice {
            LinkChoice::Veth => self.over_veth(options, stop, observe),
            LinkChoice::Memif { socket, master } => {
                let mac = own_mac(false);
                let link = OpenLink::memif(socket.clone(), *master, mac, 1_500, self.log2_ring_size, memory());
                let link = link.map_err(LoadError::Option)?;
                let mut said = None;
                let device = loop {
                    if let Some(device) =
                        link.next(ACCEPT_INTERVAL, &mut |text| said = Some(text)).map_err(LoadError::Option)?
                    {
                        break device;
                    }
                    if stop.is_requested() {
                        return Err(LoadError::Option(said.unwrap_or_else(|| "nobody came".to_owned())));
                    }
                };
                let fate = device.link().clone();
                let vnic = device.open().map_err(|error| LoadError::Option(error.to_string()))?;
                let report = self.over(vnic, options, "memif", stop, observe);
                match fate.reason() {
                    Some(reason) if report.as_ref().map_or(true, |report| report.received == 0) => {
                        Err(LoadError::Option(format!("memif: {reason}")))
                    }
                    _ => report,
                }
            }
            LinkChoice::Pair => self.over_pair(options, stop, observe),
        }
    }

    fn over_veth(
        &self,
        options: &EchoLoadOptions,
        stop: &StopHandle,
        observe: &mut dyn FnMut(&EchoFigures),
    ) -> Result<EchoReport, LoadError> {
        let sources: Vec<IpAddr> = self.source.map(IpAddr::V4).into_iter().collect();
        let attachment = Attachment::towards(options.target.ip(), &sources, 1, self.namespace.as_ref())?;
        let vnic = attachment.open_queue(0, memory())?;
        if self.tcp {
            let mut runtime = runtime(vnic, attachment.config().clone(), options)?;
            return tcp::run(&mut runtime, options, "veth", stop, observe);
        }
        let source = attachment.addresses().into_iter().find_map(|address| match address {
            IpAddr::V4(v4) => Some(v4),
            IpAddr::V6(_) => None,
        });
        let gateway = attachment.config().gateways.first().copied();
        let next_hop = match (gateway, options.target.ip()) {
            (Some(IpAddr::V4(gateway)), _) => gateway,
            (_, IpAddr::V4(target)) => target,
            _ => return Err(LoadError::Option("IPv4 only".to_owned())),
        };
        let ends = Ends { source: source.unwrap_or(OWN_ADDRESS), peer: self.peer, next_hop };
        udp::run(vnic, options, ends, "veth", stop, observe)
    }

    fn over<V: Vnic + 'static>(
        &self,
        vnic: V,
        options: &EchoLoadOptions,
        client: &str,
        stop: &StopHandle,
        observe: &mut dyn FnMut(&EchoFigures),
    ) -> Result<EchoReport, LoadError> {
        let source = self.source.unwrap_or(OWN_ADDRESS);
        if self.tcp {
            let mut runtime = runtime(vnic, Config::new(IpAddr::V4(source), PREFIX_LENGTH), options)?;
            return tcp::run(&mut runtime, options, client, stop, observe);
        }
        let IpAddr::V4(next_hop) = options.target.ip() else {
            return Err(LoadError::Option("IPv4 only".to_owned()));
        };
        udp::run(vnic, options, Ends { source, peer: self.peer, next_hop }, client, stop, observe)
    }

    /// Both ends in this process, a thread each.
    fn over_pair(
        &self,
        options: &EchoLoadOptions,
        stop: &StopHandle,
        observe: &mut dyn FnMut(&EchoFigures),
    ) -> Result<EchoReport, LoadError> {
        let failed = |error| LoadError::System { what: "make a pair".to_owned(), error };
        let (near, far) = pair(PairConfig::default()).map_err(failed)?;
        let end = StopHandle::new().map_err(failed)?;
        let (handle, target, echo, cpu) = (end.clone(), options.target, self.pair, self.pair_cpu);
        let server = std::thread::spawn(move || -> Result<(), String> {
            if let Some(cpu) = cpu {
                crate::harness::cpu::pin(cpu).map_err(|error| error.to_string())?;
            }
            let vnic = far.open(memory()).map_err(|error| error.to_string())?;
            if echo == PairEcho::Raw {
                let mut raw = RawEcho::new(vnic);
                let outcome = raw.run(&handle, SpinPolicy::Always, &|_| true, &mut |_| {});
                return outcome.map_err(|error| error.to_string());
            }
            let config = EchoConfig { port: target.port(), copies: echo == PairEcho::Copies, ..EchoConfig::default() };
            let mut service = EchoService::new(config);
            let seed = qanat::entropy().map_err(|error| error.to_string())?;
            let mut runtime = Runtime::new(Box::new(vnic), Config::new(target.ip(), PREFIX_LENGTH), seed);
            let options = qanat::RuntimeOptions { spin: SpinPolicy::Always, ..qanat::RuntimeOptions::default() };
            runtime.run(&mut service, &handle, options, &mut |_, _| {}).map_err(|error| error.to_string())
        });
        let vnic = near.open(memory()).map_err(failed)?;
        let report = self.over(vnic, options, "pair", stop, observe);
        end.request();
        match server.join() {
            Ok(Ok(())) => report,
            Ok(Err(message)) => Err(LoadError::Runtime(message)),
            Err(_) => Err(LoadError::Runtime("the echo's thread panicked".to_owned())),
        }
    }
}

fn runtime<V: Vnic + 'static>(vnic: V, config: Config, options: &EchoLoadOptions) -> Result<Runtime, LoadError> {
    let mut config = config;
    config.connections_max = options.window + 64;
    let seed = qanat::entropy()
        .map_err(|error| LoadError::System { what: "ask the kernel for random bytes".to_owned(), error })?;
    Ok(Runtime::new(Box::new(vnic), config, seed))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_echo_of_a_pair() {
        let mut options = EchoLoadOptions::new("10.77.0.2:7".parse().unwrap());
        options.duration = Duration::from_millis(200);
        options.warm_up = Duration::from_millis(50);
        options.window = 8;
        // Two polling threads on a machine that may be busy: slow is not lost.
        options.timeout = Duration::from_secs(5);
        let stop = StopHandle::new().unwrap();
        for (pair, tcp) in
            [(PairEcho::Raw, false), (PairEcho::Native, false), (PairEcho::Copies, false), (PairEcho::Native, true)]
        {
            let link = EchoLink::pair(pair, tcp, None);
            let report = link.run(&options, &stop, &mut |_| {}).unwrap();
            assert!(report.received > 8, "{pair:?}, tcp {tcp}: {report}");
            assert_eq!(report.lost, 0, "{pair:?}, tcp {tcp}: {report}");
        }
        options.rate_per_s = Some(5_000.0);
        let link = EchoLink::pair(PairEcho::Native, false, None);
        let report = link.run(&options, &stop, &mut |_| {}).unwrap();
        assert!((1..=1_100).contains(&report.received), "{report}");
    }
}
