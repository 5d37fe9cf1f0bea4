//! Peers that send what they should not.

use super::bench::{Bench, Files, echo};
use crate::key::RecordKey;
use crate::record::{CONTENT_BYTES_MAX, OVERHEAD_BYTES, RECORD_BYTES_MAX};
use proptest::prelude::*;
use rustls::version::{TLS12, TLS13};
use std::sync::Arc;

const HANDSHAKE: u8 = 22;
const DATA: u8 = 23;

/// A connection whose client's keys are ours, so that it can say anything.
fn forged() -> (Bench, RecordKey) {
    let files = Files::new(&["a.example.org"]);
    let loaded = files.settings().load(None).unwrap();
    let client = Arc::new(files.client(&[&TLS13]));
    let mut bench = Bench::new(&loaded, &client, echo());
    bench.say(b"x");
    assert_eq!(bench.read, b"x");
    let next = Bench::new(&loaded, &client, echo()).client;
    let client = std::mem::replace(&mut bench.client, next);
    let keys = client.dangerous_extract_secrets().expect("it is asked for");
    (bench, RecordKey::new(keys.tx).expect("of TLS 1.3"))
}

fn record(key: &mut RecordKey, number: u8, content: &[u8]) -> Vec<u8> {
    let mut record = vec![0; content.len() + OVERHEAD_BYTES];
    key.seal(number, Some(content), &mut record).unwrap();
    record
}

/// Whether it ended with an alert of ours, and all was given back.
fn is_cut_off(mut bench: Bench) -> bool {
    let is_closed = bench.told().is_closed;
    let sent = bench.sent();
    bench.end();
    is_closed && !sent.is_empty() && bench.layer.figures().connections_failed == 1
}

#[test]
fn records_that_may_not_come_end_the_connection_with_an_alert() {
    let wrong: [(&str, u8, Vec<u8>); 9] = [
        ("a handshake message of another kind", HANDSHAKE, vec![1, 0, 0, 0]),
        ("a key update that says nothing", HANDSHAKE, vec![24, 0, 0, 1, 2]),
        ("two key updates in a record", HANDSHAKE, [24, 0, 0, 1, 0].repeat(2)),
        ("no handshake message", HANDSHAKE, vec![]),
        ("a change of cipher specifications", 20, vec![1]),
        ("a type that there is not", 99, vec![1, 2, 3]),
        ("nothing but padding", 0, vec![0; 40]),
        ("an alert that is none", 21, vec![2]),
        ("more content than may be", DATA, vec![1; CONTENT_BYTES_MAX + 1]),
    ];
    for (what, number, content) in wrong {
        let (mut bench, mut key) = forged();
        let bytes = record(&mut key, number, &content);
        bench.data(&bytes);
        assert!(is_cut_off(bench), "{what}");
    }
}

#[test]
fn what_is_allowed_is_taken_and_floods_of_it_are_not() {
    // Padding, and a few records without content.
    let (mut bench, mut key) = forged();
    let mut padded = b"padded".to_vec();
    padded.push(DATA);
    padded.extend([0; 100]);
    // Padding is zeroes behind the type.
    let bytes = record(&mut key, 0, &padded);
    bench.data(&bytes);
    let empty = record(&mut key, DATA, b"");
    bench.data(&empty);
    assert!(!bench.told().is_closed);
    assert_eq!(bench.layer.figures().records_opened, 2);
    let flood: Vec<u8> = (0..40).flat_map(|_| record(&mut key, DATA, b"")).collect();
    bench.data(&flood);
    assert!(is_cut_off(bench), "records without content");

    // A key update in two records, then data under the new key would follow; a flood of updates can't be forged without the secrets.
    let (mut bench, mut key) = forged();
    for part in [&[24u8, 0, 0][..], &[1, 0]] {
        let bytes = record(&mut key, HANDSHAKE, part);
        bench.data(&bytes);
    }
    assert_eq!((bench.layer.figures().key_updates, bench.told().is_closed), (1, false));
    let bytes = record(&mut key, DATA, b"under the old key");
    bench.data(&bytes);
    assert!(is_cut_off(bench), "the old key is no use any more");

    // A message that is not ended before something else comes.
    let (mut bench, mut key) = forged();
    let bytes = [record(&mut key, HANDSHAKE, &[24]), record(&mut key, DATA, b"x")].concat();
    bench.data(&bytes);
    assert!(is_cut_off(bench), "data within a message");
}

#[test]
fn updates_without_end_are_cut_off() {
    let files = Files::new(&["a.example.org"]);
    let loaded = files.settings().load(None).unwrap();
    let mut bench = Bench::new(&loaded, &Arc::new(files.client(&[&TLS13])), echo());
    bench.say(b"x");
    let mut updates = 0;
    while !bench.told().is_closed {
        bench.client.refresh_traffic_keys().unwrap();
        updates += 1;
        assert!(updates < 100, "each costs us, and the peer little");
        let mut out = Vec::new();
        while bench.client.wants_write() {
            bench.client.write_tls(&mut out).unwrap();
        }
        bench.data(&out);
    }
    assert!(updates > 1);
    // Each was answered at most once, and the answers came to few bytes.
    assert!(is_cut_off(bench));
}

#[test]
fn lengths_that_may_not_be_are_refused_before_the_bytes_come() {
    let (mut bench, _) = forged();
    let [high, low] = (RECORD_BYTES_MAX as u16).to_be_bytes();
    bench.data(&[DATA, 3, 3, high, low]);
    assert!(is_cut_off(bench));
    let (mut bench, _) = forged();
    bench.data(&[DATA, 3, 3, 0, 3, 1, 2, 3]);
    assert!(is_cut_off(bench), "shorter than a tag");
}

#[test]
fn plain_http_gets_an_answer_and_garbage_an_alert() {
    let files = Files::new(&["a.example.org"]);
    let loaded = files.settings().load(None).unwrap();
    let client = Arc::new(files.client(&[&TLS13]));
    for cut in [1, 1_448] {
        let mut bench = Bench::new(&loaded, &client, echo());
        bench.cut = cut;
        bench.data(b"GET / HTTP/1.1\r\nHost: a.example\r\n\r\n");
        let answer = String::from_utf8(bench.sent()).unwrap();
        assert!(answer.starts_with("HTTP/1.1 400 ") && answer.contains("https://"), "{answer}");
        assert!(bench.told().is_closed);
        let figures = bench.layer.figures();
        assert_eq!((figures.plain_requests, figures.handshakes_failed), (1, 1));
        bench.end();
        let mut bench = Bench::new(&loaded, &client, echo());
        bench.cut = cut;
        bench.data(&[22, 3, 1, 0, 5, 1, 0, 0, 1, 9, 9, 9, 9]);
        let sent = bench.sent();
        assert!(sent.first() == Some(&21) && bench.told().is_closed, "an alert: {sent:?}");
        bench.end();
        assert_eq!(bench.layer.figures().handshakes_failed, 1);
    }
}

#[test]
fn a_client_hello_without_end_is_cut_off() {
    let files = Files::new(&["a.example.org"]);
    let loaded = files.settings().load(None).unwrap();
    let mut bench = Bench::new(&loaded, &Arc::new(files.client(&[&TLS13])), echo());
    // A message of 16 MiB, in records of 16 KiB.
    let mut message = vec![1, 0xff, 0xff, 0xff];
    message.resize(16_384, 0);
    let record = [&[22, 3, 1, 0x40, 0][..], &message].concat();
    let mut sent = 0;
    while !bench.told().is_closed {
        bench.data(&record);
        sent += record.len();
        assert!(sent < 200_000, "as much as is kept of a handshake");
    }
    bench.end();
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]
    /// Whatever comes, at whatever time: no panic, everything is given back, and what was not sent is not read.
    #[test]
    fn changed_bytes_never_pass(
        at in 0usize..4_000,
        change in 1u8..,
        cut in 1usize..2_000,
        is_tls12 in any::<bool>(),
    ) {
        let files = Files::new(&["a.example.org"]);
        let loaded = files.settings().load(None).unwrap();
        let version = if is_tls12 { &TLS12 } else { &TLS13 };
        let mut bench = Bench::new(&loaded, &Arc::new(files.client(&[version])), echo());
        bench.cut = cut;
        use std::io::Write;
        let text = [b'a'; 3_000];
        bench.client.writer().write_all(&text).unwrap();
        let mut passed = 0;
        for _ in 0..8 {
            let mut out = Vec::new();
            while bench.client.wants_write() {
                bench.client.write_tls(&mut out).unwrap();
            }
            if let Some(byte) = at.checked_sub(passed).and_then(|at| out.get_mut(at)) {
                *byte ^= change;
            }
            passed += out.len();
            bench.data(&out);
            let bytes = bench.sent();
            bench.client_takes(&bytes);
        }
        prop_assert!(text.starts_with(&bench.read));
        bench.end();
    }

    #[test]
    fn any_bytes_after_the_handshake_are_survived(bytes in proptest::collection::vec(any::<u8>(), 1..300), cut in 1usize..50) {
        let (mut bench, _) = forged();
        bench.cut = cut;
        bench.data(&bytes);
        bench.end();
    }
}
