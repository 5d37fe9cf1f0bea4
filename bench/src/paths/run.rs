//! One measurement on a path made for it.

use super::case::{Kind, PathCase};
use super::ends::{Failure, OURS, PORT};
use super::ours::{DownloadClients, DownloadServer, Receiver, Sender};
use super::watch::{Watch, rates};
use super::{kernel, ours};
use qanat::StopHandle;
use qanat_delay::{Emulator, Lab, LabConfig};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::thread::ScopedJoinHandle;
use std::time::Duration;

/// What one run gave.
#[derive(Clone, Copy, Debug)]
pub(super) struct Measured {
    /// Mbit/s of everything.
    pub goodput: f64,
    /// Share of the first of two flows.
    pub share_percent: Option<f64>,
    /// Packets that the emulator lost for want of room or time, although it was not asked to.
    pub emulator_lost: u64,
}

/// The part of a run in which shares settle.
pub(super) const SETTLING: f64 = 0.4;
/// Between the beginnings of two flows side by side.
const HEAD_START: Duration = Duration::from_secs(1);
/// How long clients wait until our side listens. A refusal would end them.
const LISTENING: Duration = Duration::from_millis(200);

type Side<'scope> = ScopedJoinHandle<'scope, Result<(), Failure>>;

/// The two namespaces and who is in them.
struct Site<'a> {
    lab: &'a Lab,
    stop: &'a StopHandle,
    connections: usize,
}

fn kernel_address(side: usize, port: u16) -> SocketAddr {
    let address: Ipv4Addr = Lab::ADDRESSES[side];
    SocketAddr::new(IpAddr::V4(address), port)
}

/// A run of one peer.
pub(super) fn measure(
    kind: Kind,
    case: &PathCase,
    peer: usize,
    seed: u64,
    duration: Duration,
) -> Result<Measured, Failure> {
    let lab = Lab::create(LabConfig::default())?;
    let mut config = case.config(&lab, seed);
    if kind != Kind::Fairness && peer == 2 {
        // Bytes go from B to A: they meet the same dice as those of the others, which go from A to B.
        config.ports.swap(0, 1);
    }
    let emulator = Emulator::start(&config)?;
    let stop = StopHandle::new().map_err(Failure::Doorbell)?;
    let site = Site { lab: &lab, stop: &stop, connections: case.connections };
    let (goodput, share_percent) = match kind {
        Kind::Goodput => (site.goodput(peer, duration)?, None),
        Kind::Downloads => (site.downloads(peer, duration)?, None),
        Kind::Fairness => {
            let [first, second] = site.side_by_side(peer, seed, duration)?;
            (first + second, Some(first / (first + second) * 100.0))
        }
    };
    let figures = emulator.stop();
    let lost = |lane: &qanat_delay::LaneFigures| {
        lane.held_full + lane.oversize + lane.copy_failed + lane.receive_dropped + lane.transmit_lost
    };
    Ok(Measured { goodput, share_percent, emulator_lost: lost(&figures.forward) + lost(&figures.backward) })
}

impl Site<'_> {
    /// Streams from namespace A to B, or from B to our stack in A.
    fn goodput(&self, peer: usize, duration: Duration) -> Result<f64, Failure> {
        let watch = &Watch::default();
        let (there, count) = (kernel_address(1, PORT), self.connections);
        let listener = &kernel::listen(self.lab, 1, there)?;
        std::thread::scope(|scope| {
            let receiver = || scope.spawn(|| kernel::accept(listener, watch, kernel::receive));
            let (kernels, ours) = match peer {
                0 => {
                    let receiver = receiver();
                    (vec![receiver, scope.spawn(move || kernel::send(self.lab, 0, there, count, watch))], None)
                }
                1 => {
                    let sender = move || ours::run(self.lab, Sender::new(there, count), self.stop);
                    (vec![receiver()], Some(scope.spawn(sender)))
                }
                _ => {
                    let ours = scope.spawn(move || ours::run(self.lab, Receiver { watch }, self.stop));
                    std::thread::sleep(LISTENING);
                    let here = SocketAddr::new(IpAddr::V4(OURS), PORT);
                    (vec![scope.spawn(move || kernel::send(self.lab, 1, here, count, watch))], Some(ours))
                }
            };
            self.conclude(&[watch], kernels, ours, || rates(&[watch], duration).iter().sum())
        })
    }

    /// Downloads from namespace A to B, or from B to our stack in A.
    fn downloads(&self, peer: usize, duration: Duration) -> Result<f64, Failure> {
        let watch = &Watch::default();
        let (here, count) = (SocketAddr::new(IpAddr::V4(OURS), PORT), self.connections);
        let (side, there) = if peer == 2 { (1, kernel_address(1, PORT)) } else { (0, kernel_address(0, PORT)) };
        let listener = &kernel::listen(self.lab, side, there)?;
        std::thread::scope(|scope| {
            let server = || scope.spawn(|| kernel::accept(listener, watch, kernel::serve_download));
            let clients = |to| scope.spawn(move || kernel::download(self.lab, 1, to, count, watch));
            let (kernels, ours) = match peer {
                0 => (vec![server(), clients(there)], None),
                1 => {
                    let ours = scope.spawn(|| ours::run(self.lab, DownloadServer::new(), self.stop));
                    std::thread::sleep(LISTENING);
                    (vec![clients(here)], Some(ours))
                }
                _ => {
                    let ours = DownloadClients::new(there, count, watch);
                    (vec![server()], Some(scope.spawn(move || ours::run(self.lab, ours, self.stop))))
                }
            };
            self.conclude(&[watch], kernels, ours, || rates(&[watch], duration).iter().sum())
        })
    }

    /// Two flows from A to B, the first of them ours if `peer` is 1.
    fn side_by_side(&self, peer: usize, seed: u64, duration: Duration) -> Result<[f64; 2], Failure> {
        let watches = &[Watch::default(), Watch::default()];
        let ends = [kernel_address(1, PORT), kernel_address(1, PORT + 1)];
        let listeners = &[kernel::listen(self.lab, 1, ends[0])?, kernel::listen(self.lab, 1, ends[1])?];
        std::thread::scope(|scope| {
            let receiver =
                |flow: usize| scope.spawn(move || kernel::accept(&listeners[flow], &watches[flow], kernel::receive));
            let mut kernels = vec![receiver(0), receiver(1)];
            let mut ours = None;
            let leader = (seed % 2) as usize;
            for flow in [leader, 1 - leader] {
                let (to, watch) = (ends[flow], &watches[flow]);
                if flow == 0 && peer == 1 {
                    ours = Some(scope.spawn(move || ours::run(self.lab, Sender::new(to, 1), self.stop)));
                } else {
                    kernels.push(scope.spawn(move || kernel::send(self.lab, 0, to, 1, watch)));
                }
                if flow == leader {
                    // It has its head start from its first byte on.
                    watch.has_begun();
                    std::thread::sleep(HEAD_START);
                }
            }
            let [first, second] = watches;
            self.conclude(&[first, second], kernels, ours, || {
                std::thread::sleep(duration.mul_f64(SETTLING));
                let rates = rates(&[first, second], duration.mul_f64(1.0 - SETTLING));
                [rates[0], rates[1]]
            })
        })
    }

    /// Measures once all watches have seen something, then ends everybody: the kernel's sides first, so that none waits
    /// for an answer of ours. A failure of a side counts only if nothing came: ends are abrupt.
    fn conclude<T>(
        &self,
        watches: &[&Watch],
        kernels: Vec<Side<'_>>,
        ours: Option<Side<'_>>,
        measure: impl FnOnce() -> T,
    ) -> Result<T, Failure> {
        let begun = watches.iter().all(|watch| watch.has_begun());
        let result = begun.then(measure);
        watches.iter().for_each(|watch| watch.end());
        let join = |side: Side<'_>| side.join().unwrap_or(Err(Failure::SideDied)).err();
        let mut failures: Vec<Failure> = kernels.into_iter().filter_map(join).collect();
        self.stop.request();
        failures.extend(ours.and_then(join));
        result.ok_or(Failure::NothingArrived(failures))
    }
}
