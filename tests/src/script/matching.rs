//! Script numbers against numbers on the wire: sequence numbers relative to the stack's ISN, timestamps relative to its
//! clock; and the comparison of a segment with what a script expects.

use super::packet::{Packet, show};
use super::syntax::{Icmp, Opt, Segment};
use std::collections::HashMap;
use std::net::SocketAddr;

const SYN: u8 = 2;
const PSH: u8 = 8;
const ACK: u8 = 16;

/// What is known of the numbers a stack chose.
#[derive(Debug)]
pub struct Translation {
    /// The stack's side. The port of an active open is learnt from its SYN.
    pub local: SocketAddr,
    /// The script's side.
    pub remote: SocketAddr,
    initial: Option<u32>,
    /// A SYN came in: the next SYN of the stack may have a new ISN.
    renew: bool,
    /// Script timestamp to the stack's.
    stamps: HashMap<u32, u32>,
    stamp_offset: Option<u32>,
    stamp_latest: u32,
}

impl Translation {
    /// Nothing known yet.
    pub fn new(local: SocketAddr, remote: SocketAddr) -> Translation {
        Translation {
            local,
            remote,
            initial: None,
            renew: false,
            stamps: HashMap::new(),
            stamp_offset: None,
            stamp_latest: 0,
        }
    }

    fn absolute(&self, relative: u32) -> u32 {
        relative.wrapping_add(self.initial.unwrap_or(0))
    }

    fn relative(&self, absolute: u32) -> u32 {
        absolute.wrapping_sub(self.initial.unwrap_or(0))
    }

    /// The segment to inject.
    pub fn inbound(&mut self, segment: &Segment) -> Packet {
        if segment.flags & SYN != 0 {
            self.renew = true;
        }
        let translate = |option: &Opt| match option {
            Opt::Sack(blocks) => {
                Opt::Sack(blocks.iter().map(|&(start, end)| (self.absolute(start), self.absolute(end))).collect())
            }
            Opt::Timestamps(value, None) => Opt::Timestamps(*value, Some(self.stamp_latest)),
            Opt::Timestamps(value, Some(echo)) => {
                let known = self.stamps.get(echo).copied();
                let known = known.or(self.stamp_offset.filter(|_| *echo != 0).map(|offset| echo.wrapping_add(offset)));
                Opt::Timestamps(*value, Some(known.unwrap_or(*echo)))
            }
            other => other.clone(),
        };
        Packet {
            source: self.remote,
            destination: self.local,
            ecn: segment.ecn.unwrap_or(0),
            flags: segment.flags,
            sequence: segment.sequence,
            acknowledgment: segment.acknowledgment.map_or(0, |ack| self.absolute(ack)),
            window: segment.window.unwrap_or(0),
            urgent: segment.urgent,
            options: segment.options.iter().flatten().map(translate).collect(),
            payload: (0..segment.length).map(|index| byte_at(segment.sequence.wrapping_add(index))).collect(),
        }
    }

    /// The ICMP error to inject.
    pub fn icmp(&self, icmp: &Icmp) -> Vec<u8> {
        super::packet::icmp_error(icmp, self.remote.ip(), self.local, self.remote, self.absolute(icmp.sequence))
    }

    /// Compares what the stack sent with what was expected, and learns from it.
    ///
    /// # Errors
    /// The fields that differ.
    pub fn outbound(
        &mut self,
        expected: &Segment,
        actual: &Packet,
        check_push: bool,
        stamp_tolerance: u32,
    ) -> Result<(), String> {
        if actual.flags & (SYN | ACK) == SYN {
            self.local = actual.source;
        }
        if (actual.source, actual.destination) != (self.local, self.remote) {
            return Err(format!("ports or addresses: {} to {}", actual.source, actual.destination));
        }
        if actual.flags & expected.flags & SYN != 0 && (self.initial.is_none() || self.renew) {
            self.initial = Some(actual.sequence.wrapping_sub(expected.sequence));
            self.renew = false;
        }
        let ignored = if check_push { 0 } else { PSH };
        let mut wrong = Vec::new();
        if (expected.flags ^ actual.flags) & !ignored != 0 {
            wrong.push("flags");
        }
        let sequence = self.relative(actual.sequence);
        if sequence != expected.sequence {
            wrong.push("sequence");
        }
        if actual.payload.len() != expected.length as usize {
            wrong.push("length");
        }
        if expected.acknowledgment.is_some_and(|ack| ack != actual.acknowledgment) {
            wrong.push("acknowledgment");
        }
        if expected.window.is_some_and(|window| window != actual.window) {
            wrong.push("window");
        }
        if expected.ecn.is_some_and(|ecn| ecn != actual.ecn) {
            wrong.push("ECN");
        }
        if actual.payload.iter().enumerate().any(|(at, byte)| *byte != byte_at(sequence.wrapping_add(at as u32))) {
            wrong.push("payload bytes");
        }
        if let Some(options) = &expected.options
            && !self.options_match(options, &actual.options, stamp_tolerance)
        {
            wrong.push("options");
        }
        for option in &actual.options {
            if let Opt::Timestamps(Some(value), _) = option {
                self.stamp_latest = *value;
            }
        }
        if wrong.is_empty() { Ok(()) } else { Err(wrong.join(", ")) }
    }

    /// Same set of options, in any order: padding and order are the sender's choice.
    fn options_match(&mut self, expected: &[Opt], actual: &[Opt], tolerance: u32) -> bool {
        let real = |option: &&Opt| !matches!(option, Opt::NoOperation | Opt::End);
        let expected: Vec<&Opt> = expected.iter().filter(real).collect();
        let actual: Vec<&Opt> = actual.iter().filter(real).collect();
        expected.len() == actual.len()
            && expected.iter().all(|want| actual.iter().any(|got| self.option_matches(want, got, tolerance)))
    }

    fn option_matches(&mut self, expected: &Opt, actual: &Opt, tolerance: u32) -> bool {
        match (expected, actual) {
            (Opt::Mss(want), Opt::Mss(got)) => want.is_none() || want == got,
            (Opt::WindowScale(want), Opt::WindowScale(got)) => want.is_none() || want == got,
            (Opt::Timestamps(value, echo), Opt::Timestamps(Some(got), Some(got_echo))) => {
                echo.is_none_or(|echo| echo == *got_echo) && value.is_none_or(|want| self.stamp(want, *got, tolerance))
            }
            (want, got) => want == got,
        }
    }

    fn stamp(&mut self, want: u32, got: u32, tolerance: u32) -> bool {
        let offset = *self.stamp_offset.get_or_insert(got.wrapping_sub(want));
        self.stamps.insert(want, got);
        let off = got.wrapping_sub(want.wrapping_add(offset)) as i32;
        off.unsigned_abs() <= tolerance
    }

    /// A segment of the stack as a script would write it.
    pub fn show(&self, packet: &Packet) -> String {
        let options: Vec<Opt> = packet.options.iter().filter(|option| **option != Opt::NoOperation).cloned().collect();
        let sequence = self.relative(packet.sequence);
        let ack = (packet.flags & ACK != 0).then_some(packet.acknowledgment);
        let ecn = ["", "[ect1] ", "[ect0] ", "[ce] "][usize::from(packet.ecn & 3)];
        ecn.to_owned() + &show(packet.flags, sequence, packet.payload.len(), ack, Some(packet.window), &options)
    }
}

/// The byte at a place of either stream: reassembly and retransmission are checked by content.
pub fn byte_at(sequence: u32) -> u8 {
    (sequence.wrapping_mul(31) >> 2) as u8 ^ (sequence >> 11) as u8
}
