//! Fragments that never become datagrams, by IPv4 and IPv6: what they hold is bounded, and honest fragments still meet.

use super::raw::{CLIENT, SERVER, SERVER_MAC, inject, packet};
use super::siege::{LIVE, anyone, under_attack, v6};
use qanat_tests::random::Random;
use qanat_tests::sim::Device;
use std::net::{Ipv4Addr, Ipv6Addr};

/// Fragments in a millisecond.
const PER_MILLISECOND: u64 = 200;
const UDP: u8 = 17;

/// A fragment to make.
#[derive(Clone, Copy)]
struct Fragment<'a> {
    identification: u32,
    /// In units of 8 bytes.
    offset: u16,
    more: bool,
    payload: &'a [u8],
}

fn fragment_v4(source: Ipv4Addr, protocol: u8, fragment: &Fragment<'_>) -> Vec<u8> {
    let mut bytes = packet(source, SERVER, protocol, fragment.payload);
    bytes[18..20].copy_from_slice(&(fragment.identification as u16).to_be_bytes());
    let field = fragment.offset & 0x1fff | u16::from(fragment.more) << 13;
    bytes[20..22].copy_from_slice(&field.to_be_bytes());
    bytes[24..26].fill(0);
    let sum = qanat_wire::checksum::finish(qanat_wire::checksum::sum(&bytes[14..34]));
    bytes[24..26].copy_from_slice(&sum.to_be_bytes());
    bytes
}

fn fragment_v6(source: Ipv6Addr, protocol: u8, fragment: &Fragment<'_>) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(62 + fragment.payload.len());
    bytes.extend(SERVER_MAC);
    bytes.extend([2, 0, 0, 0, 0, 1, 0x86, 0xdd, 0x60, 0, 0, 0]);
    bytes.extend((8 + fragment.payload.len() as u16).to_be_bytes());
    bytes.extend([44, 64]);
    bytes.extend(source.octets());
    bytes.extend(v6(SERVER).octets());
    bytes.extend([protocol, 0]);
    bytes.extend((fragment.offset << 3 | u16::from(fragment.more)).to_be_bytes());
    bytes.extend(fragment.identification.to_be_bytes());
    bytes.extend(fragment.payload);
    bytes
}

fn anyone_v6(random: &mut Random) -> Ipv6Addr {
    Ipv6Addr::from(u128::from(random.draw()) | 0x2001_0db8 << 96)
}

/// Something that must not help anybody: the smallest pieces, overlaps of every kind, ends beyond 64 KiB, pieces after the
/// end, datagrams without an end or without a beginning.
fn bomb<'a>(random: &mut Random, payload: &'a [u8]) -> Fragment<'a> {
    let identification = if random.one_in(3) { random.draw() as u32 } else { random.pick(&[1, 2]) };
    let length = random.pick(&[8, 16, 24, 1_000, 1_400, payload.len() as u64]) as usize;
    let (near, anywhere) = (random.draw() as u16 % 200, random.draw() as u16 & 0x1fff);
    let offset = random.pick(&[0, 0, 1, near, 8_191, anywhere]);
    let more = !random.one_in(5);
    // The last piece alone may be of any length.
    let length = if more { length & !7 } else { length - random.between(0, 7) as usize };
    Fragment { identification, offset, more, payload: &payload[..length] }
}

/// A ping in two pieces, from the client.
fn inject_ping(device: &mut Device, number: u64) {
    let mut echo = vec![8, 0, 0, 0, 0, 9];
    echo.extend((number as u16).to_be_bytes());
    echo.extend([0x33; 56]);
    let sum = qanat_wire::checksum::finish(qanat_wire::checksum::sum(&echo));
    echo[2..4].copy_from_slice(&sum.to_be_bytes());
    let identification = 0x8000 | number as u32;
    for (offset, more, part) in [(4, false, &echo[32..]), (0, true, &echo[..32])] {
        inject(device, &fragment_v4(CLIENT, 1, &Fragment { identification, offset, more, payload: part }));
    }
}

/// Bombs from everywhere, from a few and from one source; among them an honest ping in pieces now and then.
fn besiege_with_bombs(mut send: impl FnMut(&mut Random, &mut Device, &Fragment<'_>)) {
    let payload: Vec<u8> = (0..1_440).map(|index| index as u8).collect();
    let (mut bombs, mut pings) = (0, 0);
    let aftermath = under_attack(LIVE, |random, device, milliseconds| {
        for _ in 0..PER_MILLISECOND {
            bombs += 1;
            let fragment = bomb(random, &payload);
            send(random, device, &fragment);
        }
        if milliseconds % 10 == 5 {
            pings += 1;
            inject_ping(device, pings);
        }
    });
    let counters = aftermath.server.stack.counters();
    println!("{bombs} fragments, {pings} pings in pieces; {counters:?}");
    // The rest begin and end at once: whole packets.
    assert!(counters.ip_fragments > bombs / 10 * 9 && counters.ip_reassembly_dropped > bombs / 8, "{counters:?}");
    assert!(counters.icmp_echo_answered >= pings, "{} of {pings} honest pings answered", counters.icmp_echo_answered);
}

#[test]
fn fragments_by_ipv4() {
    besiege_with_bombs(|random, device, fragment| {
        let source = match random.between(0, 2) {
            0 => anyone(random).0,
            1 => Ipv4Addr::new(192, 0, 2, random.between(1, 20) as u8),
            _ => Ipv4Addr::new(192, 0, 2, 1),
        };
        inject(device, &fragment_v4(source, random.pick(&[UDP, 6, 1]), fragment));
    });
}

#[test]
fn fragments_by_ipv6() {
    besiege_with_bombs(|random, device, fragment| {
        let source = match random.between(0, 2) {
            0 => anyone_v6(random),
            1 => Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, random.between(1, 20) as u16),
            _ => Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1),
        };
        inject(device, &fragment_v6(source, random.pick(&[UDP, 6, 58]), fragment));
    });
}
