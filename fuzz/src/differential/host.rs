//! What both implementations of TCP are driven by: a server with an application on it.

use qanat_nic::Time;

/// The host's address.
pub(super) const HOST: [u8; 4] = [10, 0, 0, 2];
/// The peer's address.
pub(super) const PEER: [u8; 4] = [10, 0, 0, 1];
/// The port that the host listens on.
pub(super) const PORT: u16 = 80;

/// Bytes of the hosts' receive windows.
pub(super) fn receive_window(flags: u8) -> u32 {
    [16_384, 2_000, 60_000, 5_000][usize::from(flags >> 4 & 3)]
}

/// How a connection ended, as the application sees it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum End {
    /// Both have closed.
    Finished,
    /// The peer has reset it.
    Reset,
    /// The application has.
    Aborted,
}

/// A server's TCP with an application on it.
pub(super) trait Host {
    /// Ethernet addresses: its own, the peer's.
    fn macs(&self) -> [[u8; 6]; 2];
    /// Takes `frames` and lets it do what is due; what it sends.
    fn exchange(&mut self, now: Time, frames: &[Vec<u8>]) -> Vec<Vec<u8>>;
    /// The application reads all there is, and gives it back.
    fn read(&mut self, now: Time);
    fn write(&mut self, now: Time, bytes: &[u8]);
    fn shutdown(&mut self, now: Time);
    fn abort(&mut self, now: Time);
    /// Bytes read.
    fn delivered(&self) -> &[u8];
    /// Whether the application knows that no more will come.
    fn peer_closed(&self) -> bool;
    fn end(&self) -> Option<End>;
}
