//! What echoes at the far end of a pair, and how the client is put on a link.

use super::packet::Marked;
use super::{EchoLoadOptions, EchoReport, tcp};
use crate::load::datagrams::link::{Client, FarEnd, Link, Near, PREFIX_LENGTH, memory};
use crate::load::datagrams::native;
use crate::load::datagrams::trips::TripFigures;
use crate::load::http::LoadError;
use qanat::{Config, Runtime, SpinPolicy, StopHandle};
use qanat_echo::{EchoConfig, EchoService, RawEcho};
use qanat_nic::Vnic;
use std::net::SocketAddr;

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

impl PairEcho {
    /// The far end: echoes at `target`, on processor `cpu` if one is given.
    pub fn far_end(self, target: SocketAddr, cpu: Option<usize>) -> FarEnd {
        let failed = |error: &dyn std::fmt::Display| LoadError::Runtime(error.to_string());
        Box::new(move |port, stop| {
            if let Some(cpu) = cpu {
                crate::harness::cpu::pin(cpu).map_err(|error| failed(&error))?;
            }
            let vnic = port.open(memory()).map_err(|error| failed(&error))?;
            if self == PairEcho::Raw {
                let mut raw = RawEcho::new(vnic);
                let outcome = raw.run(&stop, SpinPolicy::Always, &|_| true, &mut |_| {});
                return outcome.map_err(|error| failed(&error));
            }
            let config = EchoConfig { port: target.port(), copies: self == PairEcho::Copies, ..EchoConfig::default() };
            let mut service = EchoService::new(config);
            let seed = qanat::entropy().map_err(|error| failed(&error))?;
            let mut runtime = Runtime::new(Box::new(vnic), Config::new(target.ip(), PREFIX_LENGTH), seed);
            let options = qanat::RuntimeOptions { spin: SpinPolicy::Always, ..qanat::RuntimeOptions::default() };
            runtime.run(&mut service, &stop, options, &mut |_, _| {}).map_err(|error| failed(&error))
        })
    }
}

/// How to reach the echo.
pub struct EchoLink {
    /// The link.
    pub link: Link,
    /// Over TCP instead of UDP.
    pub tcp: bool,
    /// What echoes on a pair.
    pub pair: PairEcho,
    /// Processor of that echo.
    pub pair_cpu: Option<usize>,
}

impl EchoLink {
    /// A pair, with `echo` at its other end, on processor `cpu` if one is given.
    pub fn pair(echo: PairEcho, tcp: bool, cpu: Option<usize>) -> EchoLink {
        EchoLink { link: Link::pair(), tcp, pair: echo, pair_cpu: cpu }
    }

    /// Runs the load over this link.
    ///
    /// # Errors
    /// [`LoadError`], with the remedy.
    pub fn run(
        &self,
        options: &EchoLoadOptions,
        stop: &StopHandle,
        observe: &mut dyn FnMut(&TripFigures),
    ) -> Result<EchoReport, LoadError> {
        options.check()?;
        let far = self.pair.far_end(options.target, self.pair_cpu);
        self.link.run(options.target, EchoClient { options, tcp: self.tcp, stop, observe }, far, stop)
    }
}

struct EchoClient<'a> {
    options: &'a EchoLoadOptions,
    tcp: bool,
    stop: &'a StopHandle,
    observe: &'a mut dyn FnMut(&TripFigures),
}

impl Client for EchoClient<'_> {
    type Report = EchoReport;

    fn over<V: Vnic + 'static>(self, vnic: V, near: Near) -> Result<EchoReport, LoadError> {
        let options = self.options;
        let trips = if self.tcp {
            let mut runtime = runtime(vnic, near.config, options)?;
            tcp::run(&mut runtime, options, self.stop, self.observe)?
        } else {
            let SocketAddr::V4(target) = options.target else {
                return Err(LoadError::Option("IPv4 only".to_owned()));
            };
            let mut traffic = Marked::new(options.length);
            native::run(vnic, &mut traffic, (target, near.ends), &options.pace, self.stop, self.observe)?
        };
        Ok(EchoReport::new(options, near.kind, trips))
    }

    fn is_empty(report: &EchoReport) -> bool {
        report.trips.received == 0
    }
}

fn runtime<V: Vnic + 'static>(vnic: V, mut config: Config, options: &EchoLoadOptions) -> Result<Runtime, LoadError> {
    config.connections_max = options.pace.window + 64;
    let seed = qanat::entropy()
        .map_err(|error| LoadError::System { what: "ask the kernel for random bytes".to_owned(), error })?;
    Ok(Runtime::new(Box::new(vnic), config, seed))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn every_echo_of_a_pair() {
        let mut options = EchoLoadOptions::new("10.77.0.2:7".parse().unwrap());
        options.pace.duration = Duration::from_millis(200);
        options.pace.warm_up = Duration::from_millis(50);
        options.pace.window = 8;
        // Two polling threads on a machine that may be busy: slow is not lost.
        options.pace.timeout = Duration::from_secs(5);
        let stop = StopHandle::new().unwrap();
        for (pair, tcp) in
            [(PairEcho::Raw, false), (PairEcho::Native, false), (PairEcho::Copies, false), (PairEcho::Native, true)]
        {
            let link = EchoLink::pair(pair, tcp, None);
            let report = link.run(&options, &stop, &mut |_| {}).unwrap();
            assert!(report.trips.received > 8, "{pair:?}, tcp {tcp}: {report}");
            assert_eq!(report.trips.lost, 0, "{pair:?}, tcp {tcp}: {report}");
        }
        options.pace.rate_per_s = Some(5_000.0);
        let link = EchoLink::pair(PairEcho::Native, false, None);
        let report = link.run(&options, &stop, &mut |_| {}).unwrap();
        assert!((1..=1_100).contains(&report.trips.received), "{report}");
    }
}
