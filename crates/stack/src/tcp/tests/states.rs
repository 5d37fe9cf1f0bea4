//! RFC 9293 §3.3.2, §3.5, §3.6: opening, closing, resetting.

use super::*;
use crate::tcp::tests::testing::{env, segment};
use qanat_wire::tcp::{Flags, SequenceNumber};

#[test]
fn half_close_lets_the_other_side_go_on() {
    let mut pair = pair(Faults::none(), 3).handshake();
    pair.hosts[1].closes_back = false;
    pair.hosts[0].close_when_sent = true;
    pair.turn(0);
    pair.run_for(Duration::from_millis(100));
    assert!(pair.hosts[1].peer_closed);
    assert_eq!((pair.hosts[0].state(), pair.hosts[1].state()), (State::FinWait2, State::CloseWait));
    let data = pattern(1, 100_000);
    pair.hosts[1].to_send.push_back(Bytes::from(data.clone()));
    pair.turn(1);
    pair.run_for(Duration::from_secs(2));
    assert_eq!(pair.hosts[0].received, data);
    pair.hosts[1].close_when_sent = true;
    pair.turn(1);
    pair.run_for(Duration::from_millis(100));
    assert_eq!(pair.hosts[1].closed, Some(CloseReason::Finished));
    assert!(pair.hosts[0].time_wait.is_some());
}

#[test]
fn simultaneous_open() {
    // RFC 9293 figure 7.
    for seed in 0..50 {
        let faults = Faults { loss: if seed == 0 { 0 } else { 100 }, ..Faults::none() };
        let mut pair = pair(faults, seed);
        for host in &mut pair.hosts {
            host.connect(1_000 * seed as u32, pair.now);
        }
        pair.turn(0);
        pair.turn(1);
        pair.run_until(Duration::from_secs(60), |pair| pair.hosts.iter().all(|host| host.connected));
        let opens: u64 = pair.hosts.iter().map(|host| host.counters.simultaneous_opens).sum();
        assert!(opens >= 1 && (seed > 0 || opens == 2));
        exchange(seed, pair, [5_000, 7_000], Duration::from_secs(600));
    }
}

#[test]
fn simultaneous_close() {
    // RFC 9293 figure 13.
    let mut pair = pair(Faults::none(), 4).handshake();
    for host in 0..2 {
        pair.hosts[host].close_when_sent = true;
        pair.turn(host);
    }
    assert_eq!(pair.hosts[0].state(), State::FinWait1);
    pair.run_until(Duration::from_millis(15), |pair| pair.hosts[0].state() == State::Closing);
    assert_eq!(pair.hosts[0].state(), State::Closing);
    pair.run_for(Duration::from_millis(100));
    assert!(pair.hosts.iter().all(|host| host.time_wait.is_some() && host.closed == Some(CloseReason::Finished)));
}

#[test]
fn refused_and_unanswered() {
    let mut pair = pair(Faults::none(), 5);
    pair.hosts[0].connect(7, pair.now);
    pair.turn(0);
    pair.run_for(Duration::from_millis(100));
    assert_eq!(pair.hosts[0].closed, Some(CloseReason::Refused));

    let mut pair = super::pair(Faults { loss: 1_000, ..Faults::none() }, 5);
    pair.log = Some(Vec::new());
    pair.start();
    pair.run_for(Duration::from_secs(180));
    assert_eq!(pair.hosts[0].closed, None, "RFC 9293 §3.8.3: at least three minutes");
    pair.run_for(Duration::from_secs(70));
    assert_eq!(pair.hosts[0].closed, Some(CloseReason::TimedOut));
    let log = pair.log.as_ref().unwrap();
    let times: Vec<u64> = log.iter().map(|(_, at, _)| at.as_millis() / 1_000).collect();
    assert_eq!(times, [1, 2, 4, 8, 16, 32, 64, 128], "SYN and seven retransmissions, doubling from one second");
    // RFC 3168 §6.1.1.1: ECN is given up when the SYN is lost again.
    assert!(log[0].2.header.flags.contains(Flags::ECE) && !log[2].2.header.flags.contains(Flags::ECE));
}

#[test]
fn a_fin_queued_while_connecting_is_sent_after_the_handshake() {
    let mut pair = pair(Faults::none(), 6);
    pair.start();
    pair.hosts[0].connection.as_mut().unwrap().send(Bytes::from_static(b"early"), &TcpConfig::default()).unwrap();
    pair.hosts[0].connection.as_mut().unwrap().shutdown().unwrap();
    pair.run_for(Duration::from_millis(200));
    assert_eq!(pair.hosts[1].received, b"early");
    assert_eq!(pair.hosts[1].closed, Some(CloseReason::Finished));
}

#[test]
fn abort_resets_the_peer() {
    let mut pair = pair(Faults::none(), 7).handshake();
    pair.hosts[0].to_send.push_back(Bytes::from(vec![1; 100_000]));
    pair.turn(0);
    let now = pair.now;
    let host = &mut pair.hosts[0];
    let disposition = host.connection.as_mut().unwrap().abort(&mut env!(host, now));
    assert!(matches!(disposition, Disposition::Keep) && host.connection.as_ref().unwrap().needs_output());
    assert!(host.connection.as_mut().unwrap().send(Bytes::new(), &TcpConfig::default()).is_err());
    pair.turn(0);
    assert_eq!(pair.hosts[0].closed, Some(CloseReason::Aborted));
    pair.run_for(Duration::from_millis(100));
    assert_eq!(pair.hosts[1].closed, Some(CloseReason::ResetByPeer));
    pair.check_conservation();
}

#[test]
fn close_discards_until_the_answer_is_out_then_resets() {
    let mut pair = pair(Faults::none(), 8).handshake();
    let now = pair.now;
    let host = &mut pair.hosts[0];
    let _ = host.connection.as_mut().unwrap().close(&mut env!(host, now));
    pair.turn(0);
    // The peer sends before it has seen the FIN: taken and dropped.
    pair.hosts[1].closes_back = false;
    pair.hosts[1].to_send.push_back(Bytes::from_static(b"crossing"));
    pair.turn(1);
    pair.run_for(Duration::from_millis(100));
    assert_eq!(pair.hosts[0].state(), State::FinWait2);
    assert_eq!(pair.hosts[0].counters.data_after_close, 1);
    assert!(pair.hosts[0].received.is_empty());
    // RFC 9293 §3.10.4: data after CLOSE: "TCP SHOULD send a RST to show that data was lost".
    pair.hosts[1].to_send.push_back(Bytes::from_static(b"too late"));
    pair.turn(1);
    pair.run_for(Duration::from_millis(100));
    assert_eq!(pair.hosts[0].closed, Some(CloseReason::Aborted));
    assert_eq!(pair.hosts[1].closed, Some(CloseReason::ResetByPeer));
    pair.check_conservation();
}

#[test]
fn fin_wait_2_of_a_closed_connection_ends() {
    let mut pair = pair(Faults::none(), 9).handshake();
    pair.hosts[1].closes_back = false;
    let now = pair.now;
    let host = &mut pair.hosts[0];
    let _ = host.connection.as_mut().unwrap().close(&mut env!(host, now));
    pair.turn(0);
    pair.run_for(Duration::from_secs(59));
    assert_eq!(pair.hosts[0].state(), State::FinWait2);
    pair.run_for(Duration::from_secs(2));
    assert_eq!(pair.hosts[0].closed, Some(CloseReason::Finished));
}

#[test]
fn time_wait_answers_and_is_reused() {
    let mut pair = pair(Faults::none(), 10).handshake();
    pair.log = Some(Vec::new());
    pair.hosts[0].close_when_sent = true;
    pair.turn(0);
    pair.run_for(Duration::from_millis(100));
    let mut wait = pair.hosts[0].time_wait.take().unwrap();
    let log = pair.log.take().unwrap();
    let fin = log.iter().find(|(from, _, packet)| *from == 1 && packet.header.flags.contains(Flags::FIN)).unwrap();
    let fin = fin.2.clone();
    let now = pair.now;
    let host = &mut pair.hosts[0];
    let judge = |wait: &mut TimeWait, packet: &testing::Packet, host: &mut Host| {
        let options = packet.header.options;
        let view = SegmentIn {
            sequence: packet.header.sequence,
            acknowledgment: packet.header.acknowledgment,
            flags: packet.header.flags,
            window: packet.header.window,
            urgent: 0,
            options: &options,
            payload_length: 0,
            ecn: Default::default(),
        };
        wait.input(&view, &mut env!(host, now))
    };
    assert!(matches!(judge(&mut wait, &fin, host), TimeWaitVerdict::Acknowledge(_)), "the FIN again");
    let mut reset = fin.clone();
    reset.header.flags = Flags::RST;
    assert_eq!(judge(&mut wait, &reset, host), TimeWaitVerdict::Ignore, "RFC 1337");
    let mut syn = fin.clone();
    syn.header.flags = Flags::SYN;
    syn.header.sequence = wait.receive_next - 1_000;
    syn.header.options.timestamps.as_mut().unwrap().value -= 1;
    assert!(matches!(judge(&mut wait, &syn, host), TimeWaitVerdict::Acknowledge(_)), "an old duplicate SYN");
    syn.header.options.timestamps.as_mut().unwrap().value += 2;
    assert_eq!(judge(&mut wait, &syn, host), TimeWaitVerdict::Reuse, "RFC 6191: a later timestamp");
    syn.header.options.timestamps = None;
    syn.header.sequence = wait.receive_next + 1;
    assert_eq!(judge(&mut wait, &syn, host), TimeWaitVerdict::Reuse, "a later sequence number");
}

#[test]
fn resets_answer_what_has_no_connection() {
    let options = Options::NONE;
    let packet = segment(SequenceNumber(5), SequenceNumber(9), Flags::SYN, b"");
    let mut view = SegmentIn {
        sequence: packet.header.sequence,
        acknowledgment: packet.header.acknowledgment,
        flags: Flags::SYN,
        window: 0,
        urgent: 0,
        options: &options,
        payload_length: 0,
        ecn: Default::default(),
    };
    let reset = reset_for(&view).unwrap();
    assert_eq!((reset.acknowledgment, reset.flags), (SequenceNumber(6), Flags::RST | Flags::ACK));
    view.flags = Flags::ACK;
    assert_eq!(reset_for(&view).unwrap().sequence, SequenceNumber(9));
    view.flags = Flags::RST;
    assert_eq!(reset_for(&view), None);
}
