//! The same over a kernel socket: one datagram a call, polling. Works against any server, needs no root.

use super::pace::Pace;
use super::traffic::{Incoming, Traffic};
use super::trips::{RoundTrips, TripFigures};
use super::window::{Phase, Window};
use crate::load::http::LoadError;
use qanat::{StopHandle, WaitSet};
use qanat_nic::{Clock, MonotonicClock};
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::os::fd::AsFd;
use std::time::Duration;

const BATCH: usize = 64;
/// Largest datagram.
const PAYLOAD_MAX: usize = 65_535;
/// So often at least the clock is looked at.
const SLEEP_MAX: Duration = Duration::from_millis(20);

/// Sends datagrams to `target` over a kernel socket and times their answers.
///
/// # Errors
/// [`LoadError::System`].
pub fn run(
    traffic: &mut impl Traffic,
    target: SocketAddr,
    pace: &Pace,
    stop: &StopHandle,
    observe: &mut dyn FnMut(&TripFigures),
) -> Result<RoundTrips, LoadError> {
    pace.check()?;
    let failed = |error| LoadError::System { what: format!("send datagrams to {target}"), error };
    let any = match target {
        SocketAddr::V4(_) => IpAddr::V4(Ipv4Addr::UNSPECIFIED),
        SocketAddr::V6(_) => IpAddr::V6(Ipv6Addr::UNSPECIFIED),
    };
    let socket = UdpSocket::bind((any, 0)).map_err(failed)?;
    socket.connect(target).map_err(failed)?;
    socket.set_nonblocking(true).map_err(failed)?;
    let (mut payload, mut answer) = (vec![0u8; PAYLOAD_MAX], vec![0u8; PAYLOAD_MAX]);
    let clock = MonotonicClock::new();
    let mut window = Window::new(pace, clock.now());
    let waits = WaitSet::new();
    loop {
        for _ in 0..BATCH {
            match socket.recv(&mut answer) {
                Ok(length) => match traffic.read(answer.get(..length).unwrap_or_default()) {
                    Incoming::Answer(mark) => window.back(mark, clock.now()),
                    Incoming::Foreign => window.foreign(),
                    Incoming::Wrong => {}
                },
                // Nothing there, or an ICMP error of a server that isn't there yet: what is lost is counted.
                Err(error) if is_passing(&error) => break,
                Err(error) => return Err(failed(error)),
            }
        }
        let now = clock.now();
        for _ in 0..BATCH {
            let Some(mark) = window.next(now) else { break };
            let length = traffic.prepare(mark);
            let Some(payload) = payload.get_mut(..length) else { break };
            traffic.write(mark, payload);
            match socket.send(payload) {
                Ok(_) => {}
                Err(error) if is_passing(&error) => {
                    window.not_sent(mark);
                    break;
                }
                Err(error) => return Err(failed(error)),
            }
        }
        let now = clock.now();
        let phase = window.tick(now, traffic.is_ready());
        if phase == Phase::Over || stop.is_requested() {
            return Ok(window.report(now));
        }
        if phase == Phase::Begun {
            traffic.begin();
        }
        if let Some(figures) = window.observe(now) {
            observe(&figures);
        }
        if pace.sleeps {
            waits.wait(Some(socket.as_fd()), Some(SLEEP_MAX), |_| {}).map_err(failed)?;
        }
    }
}

fn is_passing(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted | io::ErrorKind::ConnectionRefused)
}
