//! SYN cookies (RFC 4987 §3.6): a SYN's state kept in the sequence number and the timestamp of the SYN-ACK.
//!
//! ```text
//!  ISS  = F(flow, 0) + IRS + (count << 24) + ((F(flow, IRS, count) + mss index) & 0xff_ffff)      count: minutes
//!  TSval, low 6 bits:  | ECN | SACK | window scale (4 bits; 15: none) |
//! ```
//!
//! `F` is a keyed hash of addresses and ports, given by the caller. It covers IRS, too: by the sum alone any later ACK of the same
//! connection would do once both sides have sent as much, and a connection that is over would begin again.

use crate::tcp::challenge::Challenges;
use crate::tcp::config::TcpConfig;
use crate::tcp::handshake::half_open::HalfOpen;
use crate::tcp::handshake::parameters::OpenParameters;
use crate::tcp::segment::{SegmentIn, timestamp};
use crate::tcp::sequence::SequenceNumber;
use qanat_nic::Time;
use qanat_wire::tcp::{Flags, Header};
use qanat_wire::tcp_options::{Options, Timestamps};

/// MSS values a cookie can keep: the most common ones, ascending.
const SEGMENTS: [u16; 8] = [216, 536, 1_200, 1_300, 1_360, 1_440, 1_460, 8_940];
const DATA_MASK: u32 = 0xff_ffff;
/// Cookies are believed for this many minutes after the one they were made in.
const AGE_MAX: u32 = 2;
const OPTION_BITS: u32 = 6;
const OPTION_MASK: u32 = (1 << OPTION_BITS) - 1;
const SCALE_NONE: u32 = 15;

/// The keyed hash of the flow, of a sequence number and of a count.
type Hash<'a> = &'a dyn Fn(u32, u32) -> u32;

fn count(now: Time) -> u32 {
    (now.as_millis() / 60_000) as u32
}

/// The cookie for a SYN with sequence number `peer_initial` and MSS option `peer_segment`.
pub fn encode(hash: Hash<'_>, peer_initial: SequenceNumber, peer_segment: u16, now: Time) -> SequenceNumber {
    let index = SEGMENTS.iter().rposition(|segment| *segment <= peer_segment).unwrap_or(0) as u32;
    let count = count(now);
    let data = hash(peer_initial.0, count.wrapping_add(1)).wrapping_add(index) & DATA_MASK;
    SequenceNumber(hash(0, 0).wrapping_add(peer_initial.0).wrapping_add(count << 24).wrapping_add(data))
}

/// The MSS kept in a cookie; `None`: not one of ours, or too old.
pub fn decode(hash: Hash<'_>, cookie: SequenceNumber, peer_initial: SequenceNumber, now: Time) -> Option<u16> {
    let rest = cookie.0.wrapping_sub(hash(0, 0)).wrapping_sub(peer_initial.0);
    let now = count(now);
    let age = now.wrapping_sub(rest >> 24) & 0xff;
    if age > AGE_MAX {
        return None;
    }
    let made = now.wrapping_sub(age);
    let index = (rest & DATA_MASK).wrapping_sub(hash(peer_initial.0, made.wrapping_add(1))) & DATA_MASK;
    SEGMENTS.get(index as usize).copied()
}

/// Our timestamp with a SYN's options in its low bits; never later than the clock.
pub fn encode_timestamp(now: u32, window_scale: Option<u8>, sack: bool, ecn: bool) -> u32 {
    let scale = window_scale.map_or(SCALE_NONE, |scale| u32::from(scale.min(14)));
    let options = scale | (u32::from(sack) << 4) | (u32::from(ecn) << 5);
    let value = (now & !OPTION_MASK) | options;
    if value > now { value.wrapping_sub(1 << OPTION_BITS) } else { value }
}

/// The options in an echoed timestamp: window scale, SACK, ECN.
pub fn decode_timestamp(echo: u32) -> (Option<u8>, bool, bool) {
    let scale = echo & 0xf;
    ((scale != SCALE_NONE).then_some(scale as u8), echo & 0x10 != 0, echo & 0x20 != 0)
}

/// The stateless SYN-ACK for `segment`. `open.initial_sequence` is not used; `open.timestamp_offset` must be the flow's
/// fixed one.
pub fn syn_ack(
    open: &OpenParameters,
    segment: &SegmentIn<'_>,
    hash: Hash<'_>,
    config: &TcpConfig,
    now: Time,
) -> Header {
    let options = segment.options;
    let peer_segment = options.mss.unwrap_or(crate::tcp::segment::MSS_DEFAULT);
    let timestamps = options.timestamps.filter(|_| config.timestamps);
    // Without timestamps there is nowhere to keep the other options: they are not offered.
    let scale = timestamps.and(options.window_scale).filter(|_| config.window_scaling);
    let sack = timestamps.is_some() && config.sack && options.sack_permitted;
    let ecn = timestamps.is_some() && config.ecn && segment.flags.contains(Flags::ECE | Flags::CWR);
    Header {
        source_port: open.local_port,
        destination_port: open.peer_port,
        sequence: encode(hash, segment.sequence, peer_segment, now),
        acknowledgment: segment.sequence + 1,
        flags: if ecn { Flags::SYN | Flags::ACK | Flags::ECE } else { Flags::SYN | Flags::ACK },
        window: config.initial_window(open.receive_window) as u16,
        urgent: 0,
        options: Options {
            mss: Some(open.maximum_segment),
            window_scale: scale.map(|_| config.window_scale(open.receive_window)),
            sack_permitted: sack,
            timestamps: timestamps.map(|timestamps| Timestamps {
                value: encode_timestamp(timestamp(now, open.timestamp_offset), scale, sack, ecn),
                echo: timestamps.value,
            }),
            ..Options::NONE
        },
    }
}

/// The half-open connection that the ACK `segment` proves there was; `None`: no valid cookie. Give it to
/// `Connection::from_half_open` with `open.initial_sequence` = [`HalfOpen::initial`].
pub fn half_open_from_ack(
    open: &OpenParameters,
    segment: &SegmentIn<'_>,
    hash: Hash<'_>,
    config: &TcpConfig,
    now: Time,
) -> Option<HalfOpen> {
    if !segment.flags.contains(Flags::ACK) || segment.flags.intersects(Flags::SYN | Flags::RST) {
        return None;
    }
    let initial = segment.acknowledgment - 1;
    let peer_initial = segment.sequence - 1;
    let peer_segment = decode(hash, initial, peer_initial, now)?;
    let timestamps = segment.options.timestamps.filter(|_| config.timestamps);
    let (scale, sack, ecn) = timestamps.map_or((None, false, false), |timestamps| decode_timestamp(timestamps.echo));
    Some(HalfOpen {
        peer_initial,
        initial,
        timestamp_recent: timestamps.map_or(0, |timestamps| timestamps.value),
        timestamp_offset: open.timestamp_offset,
        peer_segment,
        local_segment: open.maximum_segment,
        receive_window: open.receive_window,
        ports: (open.local_port, open.peer_port),
        send_scale: scale.unwrap_or(0).min(14),
        receive_scale: if scale.is_some() { config.window_scale(open.receive_window) } else { 0 },
        scaling: scale.is_some(),
        sack,
        timestamps: timestamps.is_some(),
        ecn,
        data: 0,
        // The time of the SYN-ACK is not known: no RTT sample.
        transmissions: 2,
        sent_at: now,
        deadline: now,
        challenges: Challenges::default(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hash(initial: u32, count: u32) -> u32 {
        (count ^ initial.rotate_left(16)).wrapping_mul(0x9e37_79b9) ^ 0x1234_5678
    }

    // Attack: identity and names: a connection that is over begun again by its last acknowledgement, taken for a SYN cookie's
    #[test]
    fn a_later_acknowledgement_is_no_cookie() {
        let irs = SequenceNumber(77);
        let now = Time::from_millis(600_000);
        let cookie = encode(&hash, irs, 1_460, now);
        for bytes in [1u32, 2, 1_000, 100_001] {
            assert_eq!(decode(&hash, cookie + bytes, irs + bytes, now), None, "{bytes} sent by both sides");
        }
    }

    #[test]
    fn keeps_the_segment_size_for_two_minutes() {
        let irs = SequenceNumber(77);
        for (minute, mss) in [(0, 1_460), (1, 536), (255, 8_960), (256, 100), (70_000, 1_459)] {
            let now = Time::from_millis(minute * 60_000 + 59_999);
            let cookie = encode(&hash, irs, mss, now);
            let kept = decode(&hash, cookie, irs, now).unwrap();
            assert!(kept <= mss.max(216));
            let later = Time::from_millis((minute + 2) * 60_000);
            assert_eq!(decode(&hash, cookie, irs, later), Some(kept));
            assert_eq!(decode(&hash, cookie, irs, Time::from_millis((minute + 3) * 60_000)), None);
        }
    }

    #[test]
    fn guesses_fail() {
        let irs = SequenceNumber(77);
        let now = Time::from_millis(600_000);
        let cookie = encode(&hash, irs, 1_460, now);
        let accepted =
            (1..100_000u32).filter(|guess| decode(&hash, cookie + guess * 7_919, irs, now).is_some()).count();
        assert!(accepted < 5, "8 of 2^24 values are valid: {accepted}");
        assert_eq!(decode(&hash, cookie, irs + 1_000_000, now), None);
    }

    #[test]
    fn timestamps_carry_options_and_never_run_ahead() {
        for now in [0u32, 63, 64, 1_000_000, u32::MAX] {
            for (scale, sack, ecn) in [(None, false, false), (Some(14), true, true), (Some(7), true, false)] {
                let value = encode_timestamp(now, scale, sack, ecn);
                assert_eq!(decode_timestamp(value), (scale, sack, ecn));
                assert!(now.wrapping_sub(value) < 128, "{now} {value}");
            }
        }
    }
}
