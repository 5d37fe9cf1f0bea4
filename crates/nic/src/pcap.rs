//! Middleware that writes what passes to a capture file (pcap with nanosecond time stamps; Wireshark and tcpdump read it).
//!
//! A sender's own capture tools don't see AF_XDP frames: this does. Each packet is written when the stack gets it or
//! hands it over, frames of one packet joined.

use crate::base::time::Clock;
use crate::memory::Frame;
use crate::train::{Train, TransmitTrains};
use crate::vnic::{Capabilities, TransmitBuffer, TransmitOptions, Vnic};
use std::io::{self, BufWriter, Write};
use std::time::{SystemTime, UNIX_EPOCH};

const MAGIC_NANOSECONDS: u32 = 0xa1b2_3c4d;
const LINK_TYPE_ETHERNET: u32 = 1;
/// Longest packet recorded whole, bytes.
const SNAPSHOT_BYTES_MAX: usize = 262_144;
const BUFFER_BYTES: usize = 256 * 1024;

/// A [`Vnic`] that records both directions of another.
pub struct Pcap<V, C, W: Write> {
    inner: V,
    clock: C,
    /// Nanoseconds from 1970 to the clock's zero.
    epoch_nanos: u64,
    writer: BufWriter<W>,
    received: Vec<u8>,
    sent: Vec<u8>,
    error: Option<io::Error>,
    packets: u64,
}

impl<V: Vnic, C: Clock, W: Write> Pcap<V, C, W> {
    /// Starts a capture. Time stamps are `clock`'s, counted from now: give a virtual clock and the file is reproducible
    /// but for its start; see [`with_epoch`](Pcap::with_epoch).
    ///
    /// # Errors
    /// What writing the file header says.
    pub fn new(inner: V, clock: C, writer: W) -> io::Result<Self> {
        let wall = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let wall = u64::try_from(wall.as_nanos()).unwrap_or(0);
        let epoch_nanos = wall.saturating_sub(clock.now().as_nanos());
        Pcap::with_epoch(inner, clock, writer, epoch_nanos)
    }

    /// As `new`, with the clock's zero at `epoch_nanos` after 1970.
    ///
    /// # Errors
    /// What writing the file header says.
    pub fn with_epoch(inner: V, clock: C, writer: W, epoch_nanos: u64) -> io::Result<Self> {
        let mut writer = BufWriter::with_capacity(BUFFER_BYTES, writer);
        let mut header = Vec::with_capacity(24);
        header.extend(MAGIC_NANOSECONDS.to_le_bytes());
        header.extend([2, 0, 4, 0]); // version 2.4
        header.extend([0; 8]); // time zone, accuracy
        header.extend((SNAPSHOT_BYTES_MAX as u32).to_le_bytes());
        header.extend(LINK_TYPE_ETHERNET.to_le_bytes());
        writer.write_all(&header)?;
        Ok(Pcap { inner, clock, epoch_nanos, writer, received: Vec::new(), sent: Vec::new(), error: None, packets: 0 })
    }

    /// Packets recorded.
    pub fn packet_count(&self) -> u64 {
        self.packets
    }

    /// Writes out what is buffered.
    ///
    /// # Errors
    /// The first error of writing; recording ended there, traffic did not.
    pub fn sync(&mut self) -> io::Result<()> {
        match self.error.take() {
            Some(error) => Err(error),
            None => self.writer.flush(),
        }
    }

    /// The device below.
    pub fn inner(&self) -> &V {
        &self.inner
    }

    /// The device below.
    pub fn inner_mut(&mut self) -> &mut V {
        &mut self.inner
    }

    /// Records one frame's bytes; the packet is complete unless it `continues`.
    fn record(&mut self, bytes: &[u8], continues: bool, is_received: bool) {
        let joined = if is_received { &mut self.received } else { &mut self.sent };
        let direct = joined.is_empty() && !continues;
        if !direct {
            let room = SNAPSHOT_BYTES_MAX.saturating_sub(joined.len());
            joined.extend_from_slice(bytes.get(..room.min(bytes.len())).unwrap_or(bytes));
        }
        if continues || self.error.is_some() {
            return;
        }
        let packet: &[u8] = if direct { bytes } else { joined };
        let nanos = self.epoch_nanos.saturating_add(self.clock.now().as_nanos());
        let mut header = [0u8; 16];
        header[..4].copy_from_slice(&((nanos / 1_000_000_000) as u32).to_le_bytes());
        header[4..8].copy_from_slice(&((nanos % 1_000_000_000) as u32).to_le_bytes());
        header[8..12].copy_from_slice(&(packet.len() as u32).to_le_bytes());
        header[12..].copy_from_slice(&(packet.len() as u32).to_le_bytes());
        let written = self.writer.write_all(&header).and_then(|()| self.writer.write_all(packet));
        match written {
            Ok(()) => self.packets += 1,
            Err(error) => self.error = Some(error),
        }
        if is_received { &mut self.received } else { &mut self.sent }.clear();
    }
}

impl<V: Vnic, C: Clock, W: Write> Vnic for Pcap<V, C, W> {
    fn capabilities(&self) -> Capabilities {
        self.inner.capabilities()
    }

    fn receive(&mut self, frames: &mut Vec<Frame>, frames_max: usize) -> usize {
        let first = frames.len();
        let count = self.inner.receive(frames, frames_max);
        for frame in frames.iter().skip(first) {
            self.record(frame.bytes(), frame.continues(), true);
        }
        count
    }

    fn transmit_room(&mut self) -> usize {
        self.inner.transmit_room()
    }

    fn batch_room(&mut self) -> usize {
        self.inner.batch_room()
    }

    fn transmit(&mut self, buffer: TransmitBuffer, options: TransmitOptions) -> Result<(), TransmitBuffer> {
        // Recorded before the device gets it (afterwards it may be gone), so only if it will certainly take it.
        if self.inner.transmit_room() == 0 {
            return Err(buffer);
        }
        self.record(buffer.frame().bytes(), options.continues, false);
        self.inner.transmit(buffer, options)
    }

    fn trains(&mut self) -> Option<&mut dyn TransmitTrains> {
        if self.inner.trains().is_some() { Some(self) } else { None }
    }

    fn flush(&mut self) {
        self.inner.flush();
    }

    crate::vnic::leave_to_inner!(inner);
}

/// A train is recorded as the one packet that it is, with a checksum that is still to be filled in.
impl<V: Vnic, C: Clock, W: Write> TransmitTrains for Pcap<V, C, W> {
    fn transmit_train(&mut self, train: &Train<'_>) {
        self.record(train.headers, true, false);
        for (index, piece) in train.payload.iter().enumerate() {
            self.record(piece, index + 1 < train.payload.len(), false);
        }
        if let Some(trains) = self.inner.trains() {
            trains.transmit_train(train);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ManualClock, MemoryPlan, PairConfig, Time, pair};

    #[test]
    fn both_directions_are_recorded_with_joined_frames() {
        let plan = MemoryPlan { receive_frames: 8, transmit_frames: 8, ..MemoryPlan::default() };
        let (a, b) = pair(PairConfig { mtu: 4000, transmit_buffers_max: 3, ..PairConfig::default() }).unwrap();
        let clock = ManualClock::new();
        let mut file = Vec::new();
        let mut a = Pcap::with_epoch(a.open(plan).unwrap(), clock.clone(), &mut file, 5_000_000_000).unwrap();
        let mut b = b.open(plan).unwrap();
        clock.advance_to(Time::from_nanos(7));
        for (bytes, continues) in [([1u8; 3], true), ([2; 3], false)] {
            let mut frame = a.transmit_pool().allocate(0).unwrap();
            frame.append(3).unwrap().copy_from_slice(&bytes);
            a.transmit(TransmitBuffer::Owned(frame), TransmitOptions { continues, checksum: None }).unwrap();
        }
        let mut frame = b.transmit_pool().allocate(0).unwrap();
        frame.append(1).unwrap().fill(9);
        b.transmit(TransmitBuffer::Owned(frame), TransmitOptions::default()).unwrap();
        b.flush();
        assert_eq!(a.receive(&mut Vec::new(), 4), 1);
        assert_eq!(a.packet_count(), 2);
        a.sync().unwrap();
        drop(a);
        assert_eq!(file[..4], MAGIC_NANOSECONDS.to_le_bytes());
        assert_eq!(file[24..40], [5, 0, 0, 0, 7, 0, 0, 0, 6, 0, 0, 0, 6, 0, 0, 0]);
        assert_eq!(file[40..46], [1, 1, 1, 2, 2, 2]);
        assert_eq!(file[54..], [1, 0, 0, 0, 1, 0, 0, 0, 9]);
    }
}
