//! The same over a kernel socket: one datagram a call, polling. Works against any echo, needs no root.

use super::packet::{MARK_LENGTH, parse_mark};
use super::window::Window;
use super::{EchoFigures, EchoLoadOptions, EchoReport};
use crate::load::http::LoadError;
use qanat::nic::{Clock, MonotonicClock};
use qanat::{StopHandle, WaitSet};
use std::io;
use std::net::{Ipv4Addr, UdpSocket};
use std::os::fd::AsFd;
use std::time::Duration;

/// Headers of a datagram over IPv4 and Ethernet: the frame's length less its payload.
const HEADERS: usize = 14 + 20 + 8;
const BATCH: usize = 64;
/// So often at least the clock is looked at.
const SLEEP_MAX: Duration = Duration::from_millis(20);

/// Sends datagrams over a kernel socket and times their echoes.
///
/// # Errors
/// [`LoadError::System`].
pub fn run(
    options: &EchoLoadOptions,
    stop: &StopHandle,
    observe: &mut dyn FnMut(&EchoFigures),
) -> Result<EchoReport, LoadError> {
    options.check()?;
    let failed = |error| LoadError::System { what: format!("send datagrams to {}", options.target), error };
    let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)).map_err(failed)?;
    socket.connect(options.target).map_err(failed)?;
    socket.set_nonblocking(true).map_err(failed)?;
    let mut payload = vec![0x5a; options.length - HEADERS];
    let mut answer = [0u8; 2_048];
    let clock = MonotonicClock::new();
    let mut window = Window::new(options, clock.now());
    let waits = WaitSet::new();
    loop {
        for _ in 0..BATCH {
            match socket.recv(&mut answer) {
                Ok(length) => match parse_mark(answer.get(..length).unwrap_or_default()) {
                    Some(mark) => window.back(mark, clock.now()),
                    None => window.foreign(),
                },
                // Nothing there, or an ICMP error of an echo that isn't there yet: what is lost is counted.
                Err(error) if is_passing(&error) => break,
                Err(error) => return Err(failed(error)),
            }
        }
        let now = clock.now();
        for _ in 0..BATCH {
            let Some(mark) = window.next(now) else { break };
            if let Some(place) = payload.get_mut(..MARK_LENGTH) {
                place[..4].copy_from_slice(&mark.slot.to_be_bytes());
                place[4..].copy_from_slice(&mark.uses.to_be_bytes());
            }
            match socket.send(&payload) {
                Ok(_) => {}
                Err(error) if is_passing(&error) => {
                    window.not_sent(mark);
                    break;
                }
                Err(error) => return Err(failed(error)),
            }
        }
        let now = clock.now();
        if !window.tick(now) || stop.is_requested() {
            return Ok(window.report(now, "kernel", options.target.to_string()));
        }
        if let Some(figures) = window.observe(now) {
            observe(&figures);
        }
        if options.sleeps {
            waits.wait(Some(socket.as_fd()), Some(SLEEP_MAX), |_| {}).map_err(failed)?;
        }
    }
}

fn is_passing(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted | io::ErrorKind::ConnectionRefused)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_echoes_and_losses() {
        let echo = UdpSocket::bind("127.0.0.1:0").unwrap();
        let mut options = EchoLoadOptions::new(echo.local_addr().unwrap());
        options.window = 4;
        options.duration = Duration::from_millis(300);
        options.warm_up = Duration::from_millis(20);
        options.timeout = Duration::from_millis(20);
        echo.set_read_timeout(Some(Duration::from_millis(500))).unwrap();
        let server = std::thread::spawn(move || {
            let mut bytes = [0; 2_048];
            let mut count = 0u64;
            while let Ok((length, peer)) = echo.recv_from(&mut bytes) {
                count += 1;
                // One in ten is lost.
                if !count.is_multiple_of(10) {
                    echo.send_to(&bytes[..length], peer).unwrap();
                }
            }
        });
        let report = run(&options, &StopHandle::new().unwrap(), &mut |_| {}).unwrap();
        server.join().unwrap();
        assert!(report.received > 10 && report.lost > 0, "{report}");
        assert!(report.to_string().contains("p99"));
    }
}
