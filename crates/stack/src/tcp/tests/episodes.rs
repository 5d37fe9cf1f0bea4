//! Loss episodes: RACK, TLP, PRR, ECN, undo, NewReno, each in a round trip or two of virtual time.

use super::*;
use qanat_wire::ip::Ecn;
use qanat_wire::tcp::Flags;

const MSS: usize = 1_448;

/// Sends `count` segments from host 0, of which the link drops those (by order of first transmission) in `lost`.
fn lossy(config: TcpConfig, count: usize, lost: &'static [usize]) -> Pair {
    let mut pair = Pair::new(Host::new(config.clone(), 1_460), Host::new(config, 1_460), Faults::none(), 1).handshake();
    pair.run_for(Duration::from_millis(200));
    pair.log = Some(Vec::new());
    let mut index = 0;
    pair.drop = Some(Box::new(move |from, packet| {
        if from != 0 || packet.payload.is_empty() {
            return false;
        }
        let drop = lost.contains(&index);
        index += 1;
        drop
    }));
    pair.hosts[0].to_send.push_back(Bytes::from(pattern(1, count * MSS)));
    pair.turn(0);
    pair
}

fn finish(pair: &mut Pair, count: usize) -> Duration {
    let start = pair.now;
    assert!(pair.run_until(Duration::from_secs(60), |pair| pair.hosts[0].acked as usize == count * MSS));
    assert_eq!(pair.hosts[1].received, pattern(1, count * MSS));
    pair.now.since(start)
}

#[test]
fn one_loss_is_repaired_in_a_round_trip() {
    let mut pair = lossy(TcpConfig::default(), 10, &[2]);
    let took = finish(&mut pair, 10);
    assert!(took <= Duration::from_millis(50), "{took:?}");
    let counters = pair.hosts[0].counters;
    assert_eq!((counters.fast_recoveries, counters.timeouts, counters.segments_retransmitted), (1, 0, 1));
    let info = pair.connection(0).info();
    // Ten segments, grown by two acknowledged, and not by two SACKed before the loss was certain.
    assert_eq!(info.slow_start_threshold, Some((12.0 * 1_448.0 * 0.7) as u32), "RFC 9438 §4.6: β = 0.7");
    assert_eq!(info.phase, Phase::Open);
}

#[test]
fn many_losses_are_repaired_together() {
    let mut pair = lossy(TcpConfig::default(), 10, &[1, 3, 5, 7]);
    let took = finish(&mut pair, 10);
    assert!(took <= Duration::from_millis(120), "{took:?}");
    let counters = pair.hosts[0].counters;
    assert_eq!((counters.fast_recoveries, counters.timeouts, counters.segments_retransmitted), (1, 0, 4));
}

#[test]
fn a_lost_tail_is_probed() {
    // RFC 8985 §7: without TLP this would need an RTO (220 ms).
    let mut pair = lossy(TcpConfig::default(), 10, &[8, 9]);
    let took = finish(&mut pair, 10);
    assert!(took < Duration::from_millis(150), "{took:?}");
    let counters = pair.hosts[0].counters;
    assert_eq!((counters.tail_loss_probes, counters.timeouts), (1, 0));
}

#[test]
fn a_probe_that_repairs_reduces_the_window() {
    let mut pair = lossy(TcpConfig::default(), 10, &[9]);
    finish(&mut pair, 10);
    assert_eq!(pair.hosts[0].counters.tail_loss_probes, 1);
    // §7.4.2: known once something beyond the probe is acknowledged.
    pair.hosts[0].to_send.push_back(Bytes::from(vec![1; 100]));
    pair.turn(0);
    pair.run_for(Duration::from_millis(100));
    assert_eq!(pair.hosts[0].counters.tail_loss_probe_recoveries, 1);
    assert!(pair.connection(0).info().slow_start_threshold.is_some());
}

#[test]
fn a_lost_retransmission_is_found_without_a_timeout() {
    let mut pair = lossy(TcpConfig::default(), 40, &[2, 10]);
    finish(&mut pair, 40);
    let counters = pair.hosts[0].counters;
    assert_eq!(counters.timeouts, 0, "{counters:?}");
    assert_eq!(counters.lost_retransmissions, 1);
}

#[test]
fn new_reno_repairs_one_loss_per_round_trip_without_sack() {
    let config = TcpConfig { sack: false, congestion: CongestionAlgorithm::NewReno, ..TcpConfig::default() };
    let mut pair = lossy(config, 10, &[1, 4]);
    finish(&mut pair, 10);
    let counters = pair.hosts[0].counters;
    assert_eq!((counters.fast_recoveries, counters.timeouts, counters.segments_retransmitted), (1, 0, 2));
}

#[test]
fn everything_lost_needs_a_timeout_and_slow_start() {
    let mut pair = lossy(TcpConfig::default(), 10, &[0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10]);
    finish(&mut pair, 10);
    let counters = pair.hosts[0].counters;
    assert_eq!(counters.timeouts, 1, "{counters:?}");
    assert_eq!(counters.spurious_recoveries_undone, 0);
}

#[test]
fn a_delay_spike_is_undone() {
    // Eifel (RFC 4015): the originals arrive late, the retransmission was needless.
    let mut pair = pair(Faults::none(), 1).handshake();
    pair.run_for(Duration::from_millis(200));
    pair.faults[0].delay = Duration::from_millis(900);
    pair.hosts[0].to_send.push_back(Bytes::from(pattern(1, 10 * MSS)));
    pair.turn(0);
    pair.faults[0].delay = Duration::from_millis(10);
    // The retransmissions must not overtake the originals' ACKs.
    pair.drop = Some(Box::new(|from, packet| from == 0 && !packet.payload.is_empty()));
    pair.run_for(Duration::from_millis(890));
    pair.drop = None;
    finish(&mut pair, 10);
    let counters = pair.hosts[0].counters;
    assert!(counters.timeouts >= 1);
    assert_eq!(counters.spurious_recoveries_undone, 1, "{counters:?}");
    assert!(pair.connection(0).info().congestion_window >= 14_480);
}

#[test]
fn reordering_is_learnt() {
    let faults = Faults { reorder: 300, jitter: Duration::from_millis(4), ..Faults::none() };
    let mut pair = pair(faults, 2).handshake();
    pair.hosts[0].to_send.push_back(Bytes::from(pattern(1, 2_000 * MSS)));
    pair.turn(0);
    finish(&mut pair, 2_000);
    let info = pair.connection(0).info();
    assert!(info.reordering_seen);
    assert!(info.segments_retransmitted < 100, "RFC 8985 §6.2: few needless ones: {info:?}");
}

#[test]
fn congestion_marks_reduce_without_loss() {
    let mut pair = pair(Faults::none(), 3).handshake();
    assert!(pair.connection(0).info().ecn && pair.connection(1).info().ecn);
    pair.log = Some(Vec::new());
    pair.faults[0].mark = 1_000;
    pair.hosts[0].to_send.push_back(Bytes::from(pattern(1, 10 * MSS)));
    pair.turn(0);
    pair.run_for(Duration::from_millis(15));
    pair.faults[0].mark = 0;
    pair.hosts[0].to_send.push_back(Bytes::from(vec![2; 20 * MSS]));
    pair.turn(0);
    pair.run_for(Duration::from_secs(1));
    let counters = pair.hosts[0].counters;
    assert_eq!((counters.ecn_reductions, counters.segments_retransmitted), (1, 0), "once per window");
    let log = pair.log.as_ref().unwrap();
    let data = |packet: &&testing::Packet| !packet.payload.is_empty();
    let sent: Vec<&testing::Packet> =
        log.iter().filter(|(from, _, _)| *from == 0).map(|(_, _, p)| p).filter(data).collect();
    assert!(sent.iter().all(|packet| packet.ecn == Ecn::Capable0));
    assert_eq!(sent.iter().filter(|packet| packet.header.flags.contains(Flags::CWR)).count(), 1);
    let echoes = log.iter().filter(|(from, _, p)| *from == 1 && p.header.flags.contains(Flags::ECE)).count();
    assert!(echoes >= 1);
    let last = log.iter().rfind(|(from, _, _)| *from == 1).unwrap();
    assert!(!last.2.header.flags.contains(Flags::ECE), "CWR ended the echo");
}

#[test]
fn duplicates_are_reported_by_d_sack() {
    let faults = Faults { duplicate: 1_000, ..Faults::none() };
    let mut pair = pair(faults, 4).handshake();
    pair.hosts[0].to_send.push_back(Bytes::from(pattern(1, 5 * MSS)));
    pair.turn(0);
    finish(&mut pair, 5);
    assert!(pair.hosts[1].counters.duplicate_sacks_sent >= 1);
    assert!(pair.hosts[0].counters.duplicate_sacks_received >= 1);
    assert_eq!(pair.hosts[0].counters.segments_retransmitted, 0);
}

#[test]
fn pacing_spreads_a_window() {
    let config = TcpConfig { pacing: true, ..TcpConfig::default() };
    let mut pair = Pair::new(Host::new(config, 1_460), host(), Faults::none(), 5).handshake();
    pair.run_for(Duration::from_millis(100));
    pair.log = Some(Vec::new());
    pair.hosts[0].to_send.push_back(Bytes::from(pattern(1, 10 * MSS)));
    pair.turn(0);
    finish(&mut pair, 10);
    let log = pair.log.as_ref().unwrap();
    let times: Vec<Time> = log.iter().filter(|(from, _, p)| *from == 0 && !p.payload.is_empty()).map(|l| l.1).collect();
    let spread = times.last().unwrap().since(times[0]);
    assert!(spread >= Duration::from_millis(6), "2 · cwnd per SRTT: {spread:?}");
}

#[test]
fn a_full_device_is_waited_for() {
    let mut pair = pair(Faults::none(), 6).handshake();
    pair.hosts[0].room = 2;
    pair.hosts[0].to_send.push_back(Bytes::from(pattern(1, 8 * MSS)));
    pair.turn(0);
    assert!(pair.connection(0).needs_output());
    assert_eq!(pair.connection(0).info().outstanding as usize, 2 * MSS);
    for _ in 0..3 {
        pair.turn(0);
    }
    assert_eq!(pair.connection(0).info().outstanding as usize, 8 * MSS);
    finish(&mut pair, 8);
}
