//! `qanat load udp` and `qanat load tcp`: what is sent comes back, and every round trip is timed.
//!
//! * [`packet`]: a payload that carries its mark
//! * [`tcp`]: over our TCP
//! * [`link`]: who echoes on a pair; the client put on a link

pub mod link;
pub mod packet;
pub mod tcp;

use super::datagrams;
use super::datagrams::pace::Pace;
use super::datagrams::trips::{RoundTrips, TripFigures};
use super::http::LoadError;
use packet::Marked;
use qanat::StopHandle;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::net::SocketAddr;

/// Smallest frame: addresses, headers, our mark. (64 bytes on a wire are 60 and the check sequence.)
pub const FRAME_LENGTH_MIN: usize = 60;
/// Largest frame at an MTU of 1500.
pub const FRAME_LENGTH_MAX: usize = 1_514;

/// What to do.
#[derive(Clone, Debug)]
pub struct EchoLoadOptions {
    /// The address that echoes.
    pub target: SocketAddr,
    /// Bytes of each frame, Ethernet header included (UDP), or of each message (TCP).
    pub length: usize,
    /// How fast. Its window is a number of packets (UDP) or of connections (TCP).
    pub pace: Pace,
}

impl EchoLoadOptions {
    /// One 64-byte packet after the other to `target`, for three seconds.
    pub fn new(target: SocketAddr) -> EchoLoadOptions {
        EchoLoadOptions { target, length: 64, pace: Pace::default() }
    }

    /// Refuses what can't be done.
    ///
    /// # Errors
    /// [`LoadError::Option`], with what may be.
    pub fn check(&self) -> Result<(), LoadError> {
        let wrong = |message: String| Err(LoadError::Option(message));
        if !(FRAME_LENGTH_MIN..=FRAME_LENGTH_MAX).contains(&self.length) {
            return wrong(format!("--size {}: from {FRAME_LENGTH_MIN} to {FRAME_LENGTH_MAX} bytes", self.length));
        }
        if self.target.is_ipv6() {
            return wrong(format!("{}: this load generator speaks IPv4", self.target));
        }
        self.pace.check()
    }
}

/// The result. Counts are those of the window after the warm-up.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct EchoReport {
    /// How it was sent: `veth`, `memif`, `pair`, `kernel`.
    pub client: String,
    /// The address that echoed.
    pub target: String,
    /// Bytes of a frame, or of a message.
    pub length: usize,
    /// Packets that came back, per second.
    pub packets_per_s: f64,
    /// Bytes back per second, Gbit/s.
    pub gbit_per_s: f64,
    /// The rest.
    #[serde(flatten)]
    pub trips: RoundTrips,
}

impl EchoReport {
    fn new(options: &EchoLoadOptions, client: &str, trips: RoundTrips) -> EchoReport {
        EchoReport {
            client: client.to_owned(),
            target: options.target.to_string(),
            length: options.length,
            packets_per_s: trips.per_s(),
            gbit_per_s: trips.per_s() * options.length as f64 * 8e-9,
            trips,
        }
    }
}

impl fmt::Display for EchoReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "{} → {}: {} bytes, {} at once, {:.2} s",
            self.client, self.target, self.length, self.trips.window, self.trips.duration_s
        )?;
        writeln!(f, "  packets     {:.0}/s  {:.3} Gbit/s", self.packets_per_s, self.gbit_per_s)?;
        self.trips.fmt(f)
    }
}

/// Sends datagrams over a kernel socket and times their echoes.
///
/// # Errors
/// [`LoadError`].
pub fn over_kernel(
    options: &EchoLoadOptions,
    stop: &StopHandle,
    observe: &mut dyn FnMut(&TripFigures),
) -> Result<EchoReport, LoadError> {
    options.check()?;
    let trips = datagrams::kernel::run(&mut Marked::new(options.length), options.target, &options.pace, stop, observe)?;
    Ok(EchoReport::new(options, "kernel", trips))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::UdpSocket;
    use std::time::Duration;

    #[test]
    fn counts_echoes_and_losses() {
        let echo = UdpSocket::bind("127.0.0.1:0").unwrap();
        let mut options = EchoLoadOptions::new(echo.local_addr().unwrap());
        options.pace.window = 4;
        options.pace.duration = Duration::from_millis(300);
        options.pace.warm_up = Duration::from_millis(20);
        options.pace.timeout = Duration::from_millis(20);
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
        let report = over_kernel(&options, &StopHandle::new().unwrap(), &mut |_| {}).unwrap();
        server.join().unwrap();
        assert!(report.trips.received > 10 && report.trips.lost > 0, "{report}");
        assert!(report.to_string().contains("p99"));
        let json = serde_json::to_string(&report).unwrap();
        let read: EchoReport = serde_json::from_str(&json).unwrap();
        assert_eq!((read.length, read.trips.sent), (64, report.trips.sent));
    }
}
