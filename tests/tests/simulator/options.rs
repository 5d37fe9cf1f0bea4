//! Options that mean harm, from a peer whose numbers are right: the stream goes on, its memory bounded.

use super::attacks::RawPeer;
use super::siege::{ACK, MILLISECOND};
use qanat_stack::tcp::TcpConfig;
use qanat_tests::random::Random;
use qanat_tests::sim::streams::FlowPlan;

/// Bytes of the server's stream.
const LENGTH: u64 = 30_000;
/// Segments are never smaller than this for the peer's sake, whatever size it asks for.
const SEGMENT_BYTES_MIN: u64 = 32;
const MEMORY_BYTES_MAX: usize = 256 * 1024;

/// Options at random: lengths of 0, 1 and beyond the header, kinds nobody knows, the known ones with the wrong length,
/// twice, or where they don't belong.
fn abusive(random: &mut Random) -> Vec<u8> {
    let mut options = Vec::new();
    while options.len() < 36 && !random.one_in(6) {
        let any = random.draw().to_be_bytes();
        let kind = random.pick(&[0, 1, 2, 3, 4, 5, 8, 19, 28, 29, 30, 34, 253, any[0]]);
        let length = random.pick(&[0, 1, 2, 3, 4, 10, 18, 34, 40, 255, any[1]]);
        options.extend([kind, length]);
        for _ in 2..usize::from(length).min(12) {
            options.push(random.draw() as u8);
        }
    }
    options.truncate(40);
    options.resize(options.len().next_multiple_of(4), random.pick(&[0, 1]));
    options
}

#[test]
fn abusive_options_under_way() {
    let mut random = Random::new(21);
    // Without timestamps: a segment whose own is missing would be dropped before its options mattered.
    let syn = [2, 4, 5, 0xb4, 1, 1, 4, 2];
    let mut peer = RawPeer::connect(FlowPlan::plain([0, LENGTH]), TcpConfig::default(), &syn);
    let start = peer.receive_next;
    let mut memory_peak = 0;
    for _ in 0..20_000 {
        let options = abusive(&mut random);
        let sequence = peer.send_next.wrapping_add(random.pick(&[0, 0, 1, 500]));
        peer.send(ACK, sequence, peer.receive_next, random.draw() as u16 | 1_024, &options, &[]);
        if random.one_in(16) {
            peer.step(MILLISECOND);
            memory_peak = memory_peak.max(peer.memory());
            peer.forget_segments();
        }
    }
    println!("at most {memory_peak} bytes; {:?}", peer.counters());
    assert!(memory_peak < MEMORY_BYTES_MAX, "{memory_peak} bytes for one connection");
    peer.finish(start, LENGTH, 1);
}

/// Whatever segment size the SYN asks for, the stream isn't cut into crumbs.
#[test]
fn crumbs() {
    for size in [0u16, 1, 8, 40, 63, 64, 65_535] {
        let [high, low] = size.to_be_bytes();
        let tcp = TcpConfig { timestamps: false, ..TcpConfig::default() };
        let mut peer = RawPeer::connect(FlowPlan::plain([0, LENGTH]), tcp, &[2, 4, high, low]);
        let start = peer.receive_next;
        let segments = peer.finish(start, LENGTH, 1);
        assert!(segments <= LENGTH / SEGMENT_BYTES_MIN + 1, "{segments} segments for an MSS of {size}");
    }
}

/// SYNs whose options can't be believed are answered, or dropped; those that mean nothing are not held against anybody.
#[test]
fn abusive_options_of_syns() {
    let mut random = Random::new(22);
    let mut connected = 0;
    for _ in 0..400 {
        let options = abusive(&mut random);
        if let Some(peer) = RawPeer::try_connect(FlowPlan::plain([0, 2_000]), TcpConfig::default(), &options) {
            connected += 1;
            assert!(peer.memory() < MEMORY_BYTES_MAX);
        }
    }
    println!("{connected} of 400 connected");
    assert!(connected > 100);
}
