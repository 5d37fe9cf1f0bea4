//! Echo in the driver itself: addresses swapped in place, the buffer sent back. Checksums stay right, since the same
//! bytes are summed in another order. ARP requests are answered, whatever the address, so that clients find us.

use crate::figures::Figures;
use qanat::{SpinPolicy, StopHandle, WaitSet};
use qanat_nic::breakdown::{self, Phase};
use qanat_nic::{Frame, TransmitBuffer, TransmitOptions, Vnic};
use qanat_wire::arp;
use qanat_wire::ethernet::{EtherType, HEADER_LENGTH, MacAddress};
use std::io;
use std::time::{Duration, Instant};

/// Frames taken at once.
const BATCH: usize = 64;
/// Idle turns before an adaptive echo sleeps: some ten microseconds.
const IDLE_TURNS_MAX: u32 = 256;
/// How often signals and observers get their turn.
const OBSERVE_INTERVAL: Duration = Duration::from_secs(1);
const SLEEP_MAX: Duration = Duration::from_millis(50);
/// Busy turns between two looks at the clock.
const BUSY_TURNS: u32 = 1_024;

/// Swaps `length` bytes at `first` and `second`.
#[inline(always)]
fn swap<const LENGTH: usize>(bytes: &mut [u8], first: usize, second: usize) -> Option<()> {
    let head: [u8; LENGTH] = bytes.get(first..first + LENGTH)?.try_into().ok()?;
    let tail: [u8; LENGTH] = bytes.get(second..second + LENGTH)?.try_into().ok()?;
    bytes.get_mut(first..first + LENGTH)?.copy_from_slice(&tail);
    bytes.get_mut(second..second + LENGTH)?.copy_from_slice(&head);
    Some(())
}

/// Makes an answer of a packet: Ethernet, IP and port numbers swapped. `None`: not one to send back.
#[inline]
pub fn turn_around(bytes: &mut [u8], own: MacAddress) -> Option<()> {
    let ethertype = u16::from_be_bytes([*bytes.get(12)?, *bytes.get(13)?]);
    match ethertype {
        0x0800 => {
            let header_length = usize::from(*bytes.get(14)? & 0xf) * 4;
            let protocol = *bytes.get(23)?;
            swap::<4>(bytes, 26, 30)?;
            if matches!(protocol, 6 | 17) {
                let ports = HEADER_LENGTH + header_length;
                swap::<2>(bytes, ports, ports + 2)?;
            }
        }
        0x86dd => {
            let protocol = *bytes.get(20)?;
            swap::<16>(bytes, 22, 38)?;
            if matches!(protocol, 6 | 17) {
                swap::<2>(bytes, 54, 56)?;
            }
        }
        _ => return answer_arp(bytes, own),
    }
    swap::<6>(bytes, 0, 6)
}

/// The reply to an ARP request, in its place.
#[cold]
fn answer_arp(bytes: &mut [u8], own: MacAddress) -> Option<()> {
    if u16::from_be_bytes([*bytes.get(12)?, *bytes.get(13)?]) != EtherType::ARP.0 {
        return None;
    }
    let request = arp::Header::parse(&arp::Packet::parse(bytes.get(HEADER_LENGTH..)?).ok()?);
    if request.operation != arp::Operation::REQUEST {
        return None;
    }
    request.reply(own).emit(bytes.get_mut(HEADER_LENGTH..)?).ok()?;
    bytes.get_mut(..6)?.copy_from_slice(&request.sender_hardware.0);
    bytes.get_mut(6..12)?.copy_from_slice(&own.0);
    Some(())
}

/// The echo over one queue.
pub struct RawEcho<V: Vnic> {
    vnic: V,
    own: MacAddress,
    frames: Vec<Frame>,
    figures: Figures,
}

impl<V: Vnic> RawEcho<V> {
    /// Over `vnic`.
    pub fn new(vnic: V) -> RawEcho<V> {
        let own = vnic.capabilities().mac;
        RawEcho { vnic, own, frames: Vec::with_capacity(BATCH), figures: Figures::default() }
    }

    /// What it has done.
    pub fn figures(&self) -> Figures {
        self.figures
    }

    /// The device.
    pub fn vnic(&self) -> &V {
        &self.vnic
    }

    /// Sends back what has come; whether anything had.
    #[inline]
    pub fn turn(&mut self) -> bool {
        breakdown::turn_begins();
        let count = self.vnic.receive(&mut self.frames, BATCH);
        breakdown::turn_ends(count > 0);
        if count == 0 {
            return false;
        }
        let _swapping = breakdown::span(Phase::Service);
        for mut frame in self.frames.drain(..) {
            // Packets in several frames are not echoed: a floor needs none.
            if frame.continues() || turn_around(frame.bytes_mut(), self.own).is_none() {
                self.figures.dropped += 1;
                continue;
            }
            let length = frame.len() as u64;
            match self.vnic.transmit(TransmitBuffer::Owned(frame), TransmitOptions::default()) {
                Ok(()) => {
                    self.figures.echoed += 1;
                    self.figures.bytes += length;
                }
                Err(_) => self.figures.dropped += 1,
            }
        }
        self.vnic.flush();
        true
    }

    /// Echoes until `stop` is requested, or `goes_on` says no. `observe` is called every second.
    ///
    /// # Errors
    /// What waiting says.
    pub fn run(
        &mut self,
        stop: &StopHandle,
        spin: SpinPolicy,
        goes_on: &dyn Fn(&V) -> bool,
        observe: &mut dyn FnMut(&Figures),
    ) -> io::Result<()> {
        let waits = WaitSet::new();
        let mut observed = Instant::now();
        let (mut idle, mut busy) = (0u32, 0u32);
        loop {
            if self.turn() {
                idle = 0;
                busy += 1;
                if busy < BUSY_TURNS {
                    continue;
                }
            }
            busy = 0;
            idle = idle.wrapping_add(1);
            let sleepy = match spin {
                SpinPolicy::Always => false,
                SpinPolicy::Never => idle > 0,
                SpinPolicy::Adaptive => idle > IDLE_TURNS_MAX,
            };
            // What didn't fit a ring is sent, and frames come home, in idle turns too.
            self.vnic.flush();
            if sleepy && let Some(doorbell) = self.vnic.doorbell() {
                waits.wait(Some(doorbell), Some(SLEEP_MAX), |_| {})?;
                idle = 0;
            } else if !idle.is_multiple_of(IDLE_TURNS_MAX) && idle != 1 {
                std::hint::spin_loop();
                continue;
            }
            if stop.is_requested() || !goes_on(&self.vnic) {
                return Ok(());
            }
            if observed.elapsed() >= OBSERVE_INTERVAL {
                observe(&self.figures);
                observed = Instant::now();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use qanat_nic::{MemoryPlan, PairConfig, pair};

    fn datagram() -> Vec<u8> {
        let mut bytes = vec![0u8; 60];
        bytes[..14].copy_from_slice(&[2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 8, 0]);
        bytes[14] = 0x45;
        bytes[23] = 17;
        bytes[26..38].copy_from_slice(&[10, 0, 0, 1, 10, 0, 0, 2, 0x30, 0x39, 0, 7]);
        bytes
    }

    #[test]
    fn twice_is_the_same() {
        let own = MacAddress([2, 0, 0, 0, 0, 2]);
        let mut bytes = datagram();
        turn_around(&mut bytes, own).unwrap();
        assert_eq!(bytes[..12], [2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2]);
        assert_eq!(bytes[26..38], [10, 0, 0, 2, 10, 0, 0, 1, 0, 7, 0x30, 0x39]);
        turn_around(&mut bytes, own).unwrap();
        assert_eq!(bytes, datagram());
    }

    #[test]
    fn nothing_short_or_strange_is_sent_back() {
        let own = MacAddress([2, 0, 0, 0, 0, 2]);
        for length in 0..38 {
            assert!(turn_around(&mut datagram()[..length].to_vec(), own).is_none(), "{length}");
        }
        let mut lldp = datagram();
        lldp[12] = 0x88;
        assert!(turn_around(&mut lldp, own).is_none());
        let mut options = datagram();
        options[14] = 0x4f; // ports beyond the frame
        assert!(turn_around(&mut options, own).is_none());
    }

    #[test]
    fn echoes_over_a_device_and_answers_arp() {
        let (one, other) = pair(PairConfig::default()).unwrap();
        let mut client = one.open(MemoryPlan::default()).unwrap();
        let mut echo = RawEcho::new(other.open(MemoryPlan::default()).unwrap());
        let mut request = vec![0u8; 60];
        request[..6].fill(0xff);
        request[6..12].copy_from_slice(&client.capabilities().mac.0);
        request[12..14].copy_from_slice(&[8, 6]);
        let header = arp::Header {
            operation: arp::Operation::REQUEST,
            sender_hardware: client.capabilities().mac,
            sender_protocol: [10, 0, 0, 1].into(),
            target_hardware: MacAddress::default(),
            target_protocol: [10, 0, 0, 2].into(),
        };
        header.emit(&mut request[14..]).unwrap();
        for bytes in [request, datagram(), vec![7; 60]] {
            let mut frame = client.transmit_pool().allocate(0).unwrap();
            frame.append(bytes.len()).unwrap().copy_from_slice(&bytes);
            client.transmit(TransmitBuffer::Owned(frame), TransmitOptions::default()).unwrap();
        }
        client.flush();
        assert!(echo.turn());
        assert_eq!((echo.figures().echoed, echo.figures().dropped), (2, 1));
        let mut frames = Vec::new();
        assert_eq!(client.receive(&mut frames, 8), 2);
        let reply = arp::Header::parse(&arp::Packet::parse(&frames[0].bytes()[14..]).unwrap());
        assert_eq!((reply.operation, reply.sender_hardware), (arp::Operation::REPLY, echo.vnic().capabilities().mac));
        drop(frames);
        assert_eq!(echo.vnic().receive_pool().in_use_count(), 0);
    }
}
