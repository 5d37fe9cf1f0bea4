//! Requests come, and responses go, however they are cut and however the windows are.

use super::bench::{Bench, LIMITS, Offsets, block};
use crate::frame::{flag, kind};
use crate::layer::Http2Limits;
use qanat_api::{CloseReason, Commands, Event};

fn content(length: u64) -> Vec<u8> {
    (0..length).map(Offsets::byte).collect()
}

/// Asserts that a stream has all of a response of so many bytes.
fn has_all(bench: &Bench, stream: u32, length: u64) {
    let response = &bench.responses[&stream];
    assert!(response.fields.starts_with(":status=200;server=a;early=;"), "{stream}: {}", response.fields);
    assert!(response.is_ended && response.reset.is_none(), "{stream}");
    assert!(response.content == content(length), "{stream}: {} bytes", response.content.len());
}

#[test]
fn requests_are_answered_one_after_the_other_however_they_are_cut() {
    for cut in [1, 2, 3, 7, 9, 10, 24, 25, 100, 1_448, 2_048] {
        let mut bench = Bench::new(LIMITS);
        bench.cut = cut;
        bench.begin(&[]);
        for (stream, how) in [(1, "bytes"), (3, "prepared"), (5, "block"), (7, "pieces"), (9, "endless")] {
            bench.get(stream, &format!("/{how}/200"));
            bench.run();
            has_all(&bench, stream, 200);
        }
        assert_eq!(bench.heads().len(), 5, "in chunks of {cut}");
        assert!(bench.heads()[0].starts_with("GET /bytes/200 HTTP/1.1\r\nHost: a.example\r\n"));
        let figures = bench.layer.figures();
        assert_eq!((figures.carriers, figures.requests, figures.streams_reset, figures.carriers_failed), (1, 5, 0, 0));
        // What the service has of each is that the peer has all of it.
        assert_eq!(bench.heard.values().filter(|heard| heard.closed == Some(CloseReason::Finished)).count(), 5);
        bench.end();
    }
}

#[test]
fn many_at_once_take_turns() {
    let mut bench = Bench::begun();
    for stream in (1..200).step_by(2) {
        bench.get(stream, &format!("/prepared/{}", stream * 1_000));
    }
    bench.stack.window = Some(10_000);
    bench.run();
    for stream in (1..200).step_by(2) {
        has_all(&bench, stream, u64::from(stream) * 1_000);
    }
    bench.end();
}

#[test]
fn a_long_response_keeps_no_short_one_waiting() {
    let mut bench = Bench::begun();
    bench.stack.window = Some(0);
    bench.get(1, "/prepared/10000000");
    bench.get(3, "/bytes/10");
    for _ in 0..20 {
        bench.take_some(1);
    }
    has_all(&bench, 3, 10);
    assert!(!bench.responses[&1].is_ended);
    bench.run();
    has_all(&bench, 1, 10_000_000);
}

#[test]
fn a_stack_that_is_full_loses_nothing() {
    for pieces_max in [1, 2, 3] {
        let mut bench = Bench::begun();
        bench.stack.pieces_max = pieces_max;
        for (stream, how) in [(1, "pieces"), (3, "prepared"), (5, "bytes"), (7, "block")] {
            bench.get(stream, &format!("/{how}/250"));
            bench.frame(kind::PING, 0, 0, b"12345678");
        }
        bench.run();
        for stream in [1, 3, 5, 7] {
            has_all(&bench, stream, 250);
        }
        assert_eq!(bench.pings, 4);
        bench.end();
    }
}

#[test]
fn no_more_is_sent_than_the_windows_let() {
    let mut bench = Bench::new(LIMITS);
    bench.windows_are_kept_open = false;
    bench.begin(&[0, 4, 0, 0, 0, 5]);
    bench.get(1, "/prepared/100000");
    bench.run();
    assert_eq!(bench.responses[&1].content.len(), 5);
    // One byte more, by a stream's window and by all streams'.
    bench.frame(kind::WINDOW_UPDATE, 0, 1, &[0, 0, 0, 1]);
    bench.run();
    assert_eq!(bench.responses[&1].content.len(), 6);
    // A window that is made smaller can be less than nothing.
    bench.frame(kind::SETTINGS, 0, 0, &[0, 4, 0, 0, 0, 0]);
    bench.frame(kind::WINDOW_UPDATE, 0, 1, &[0, 0, 0, 4]);
    bench.run();
    assert_eq!(bench.responses[&1].content.len(), 6);
    bench.frame(kind::WINDOW_UPDATE, 0, 1, &[0, 1, 0x86, 0xa0]);
    bench.run();
    assert_eq!(bench.responses[&1].content.len(), 65_535, "the window of all streams");
    // Heads are sent all the same.
    bench.get(3, "/bytes/7");
    bench.run();
    assert!(!bench.responses[&3].fields.is_empty());
    bench.frame(kind::WINDOW_UPDATE, 0, 0, &[0, 1, 0, 0]);
    bench.frame(kind::WINDOW_UPDATE, 0, 3, &[0, 0, 0, 7]);
    bench.run();
    has_all(&bench, 1, 100_000);
    has_all(&bench, 3, 7);
    bench.end();
}

#[test]
fn content_of_requests_is_counted_and_dropped() {
    let mut bench = Bench::begun();
    let posts = [("content-length", "100000")];
    bench.frame(kind::HEADERS, flag::END_HEADERS, 1, &block("/bytes/3", &posts));
    assert!(bench.heads().is_empty(), "it waits for its content");
    // More than a window: who has more to say is answered before.
    for _ in 0..4 {
        bench.frame(kind::DATA, 0, 1, &[0; 16_384 - 1]);
    }
    bench.frame(kind::DATA, 0, 1, &[0; 3]);
    bench.run();
    let response = &bench.responses[&1];
    assert_eq!((response.content.as_slice(), response.is_ended, response.reset), (&content(3)[..], true, Some(0)));
    // What was on its way is no fault.
    bench.frame(kind::DATA, flag::END_STREAM, 1, &[0; 100]);
    bench.frame(kind::HEADERS, flag::END_HEADERS, 3, &block("/bytes/4", &[("content-length", "5")]));
    bench.frame(kind::DATA, flag::PADDED, 3, b"\x02ab\0\0");
    bench.frame(kind::DATA, 0, 3, b"cde");
    bench.frame(kind::HEADERS, flag::END_HEADERS | flag::END_STREAM, 3, &[]);
    bench.run();
    has_all(&bench, 3, 4);
    assert_eq!(bench.goodbye, None);
    bench.end();
}

#[test]
fn heads_that_are_longer_than_a_frame_are_cut_on_both_sides() {
    let mut bench = Bench::new(Http2Limits { head_bytes_max: 60_000, ..LIMITS });
    bench.begin(&[]);
    let long = "y".repeat(40_000);
    let block = block("/wide/5", &[("long", &long)]);
    let parts: Vec<&[u8]> = block.chunks(15_000).collect();
    bench.frame(kind::HEADERS, flag::END_STREAM, 1, parts[0]);
    bench.frame(kind::CONTINUATION, 0, 1, parts[1]);
    bench.frame(kind::CONTINUATION, flag::END_HEADERS, 1, parts[2]);
    bench.run();
    assert!(bench.heads()[0].contains(&long));
    assert!(bench.responses[&1].fields.len() > 20_000);
    assert_eq!(bench.responses[&1].content, content(5));
    bench.end();
}

#[test]
fn a_connection_goes_away_with_its_last_stream() {
    let mut bench = Bench::begun();
    bench.stack.window = Some(0);
    bench.get(1, "/prepared/1000000");
    let whole = bench.whole.unwrap();
    bench.command(|commands| commands.close(whole).unwrap());
    bench.get(3, "/bytes/1");
    bench.take_some(100_000);
    assert_eq!(bench.goodbye, Some((0, 1)));
    assert!(!bench.told().is_closed);
    bench.run();
    has_all(&bench, 1, 1_000_000);
    assert_eq!(bench.responses[&3].reset, Some(7), "refused: it may be asked for again elsewhere");
    assert!(bench.told().is_closed);
    bench.end();

    let mut bench = Bench::new(Http2Limits { requests_max: 2, ..LIMITS });
    bench.begin(&[]);
    bench.get(1, "/bytes/1");
    bench.get(3, "/bytes/1");
    bench.run();
    assert_eq!((bench.goodbye, bench.told().is_closed), (Some((0, 3)), true));
    bench.end();
}

#[test]
fn a_peer_that_sends_no_more_gets_what_it_asked_for() {
    let mut bench = Bench::begun();
    bench.stack.window = Some(0);
    bench.get(1, "/prepared/500000");
    bench.frame(kind::HEADERS, flag::END_HEADERS, 3, &block("/bytes/3", &[]));
    bench.event(Event::PeerClosed { connection: bench.id });
    bench.windows_are_kept_open = false;
    bench.run();
    assert_eq!(bench.responses[&1].content.len(), 65_535);
    assert_eq!(bench.heads().len(), 1, "what was not whole never will be");
    bench.end();
}

#[test]
fn a_service_can_abort_refuse_and_break_its_word() {
    let mut bench = Bench::begun();
    bench.get(1, "/abort/9");
    bench.get(3, "/short/9");
    bench.get(5, "/open/0");
    bench.run();
    assert_eq!(bench.responses[&1].reset, Some(2));
    assert_eq!(bench.responses[&3].reset, Some(2), "it closed before it gave what it had promised");
    assert!(bench.responses[&5].is_ended);
    bench.is_silent = true;
    bench.get(7, "/x");
    let stream = *bench.heard.iter().find(|(_, heard)| heard.head.contains("/x")).unwrap().0;
    assert_eq!(bench.layer.carrier_of(stream), bench.whole);
    bench.command(|commands| commands.refuse(stream).unwrap());
    bench.run();
    assert_eq!(bench.responses[&7].reset, Some(7));
    assert_eq!(bench.goodbye, None);
    bench.end();
}

#[test]
fn a_stream_that_the_peer_resets_is_gone_at_once() {
    let mut bench = Bench::begun();
    bench.stack.window = Some(0);
    bench.get(1, "/prepared/10000000");
    bench.get(3, "/prepared/100");
    bench.frame(kind::RST_STREAM, 0, 1, &[0, 0, 0, 8]);
    assert_eq!(bench.heard.values().filter(|heard| heard.closed == Some(CloseReason::ResetByPeer)).count(), 1);
    bench.run();
    has_all(&bench, 3, 100);
    assert_eq!(bench.layer.figures().streams_reset_by_peer, 1);
    // What comes for it later is no fault.
    bench.frame(kind::WINDOW_UPDATE, 0, 1, &[0, 0, 0, 8]);
    bench.frame(kind::RST_STREAM, 0, 1, &[0, 0, 0, 8]);
    bench.run();
    assert_eq!(bench.goodbye, None);
    bench.end();
}
