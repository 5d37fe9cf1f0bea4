//! Peers that break the rules, or keep them and ask for too much.

use super::bench::{Bench, LIMITS, block};
use crate::error::ErrorCode::{self, *};
use crate::frame::{flag, kind, write};
use crate::hpack::encode;
use crate::settings::PREFACE;

/// What a peer sends at each of its steps.
type Flood<'a> = Box<dyn Fn(u32) -> Vec<u8> + 'a>;

const WHOLE: u8 = flag::END_HEADERS | flag::END_STREAM;

/// Frames, as they are sent.
fn frames(frames: &[(u8, u8, u32, &[u8])]) -> Vec<u8> {
    let mut bytes = Vec::new();
    frames.iter().for_each(|(kind, flags, stream, content)| write(*kind, *flags, *stream, content, &mut bytes));
    bytes
}

/// The connection ends with this error, and everything is given back.
fn fails(bytes: &[u8], code: ErrorCode, what: &str) {
    for cut in [1, 1_448] {
        let mut bench = Bench::begun();
        bench.cut = cut;
        bench.get(1, "/open/5");
        bench.data(bytes);
        bench.run();
        assert_eq!(bench.goodbye.map(|(code, _)| code), Some(code as u32), "{what}");
        assert!(bench.told().is_closed, "{what}");
        assert_eq!(bench.layer.figures().carriers_failed, 1, "{what}");
        // Nothing is heard any more.
        bench.data(&[0xff; 100]);
        bench.end();
    }
}

/// The stream ends with this error, and others go on.
fn resets(bytes: &[u8], stream: u32, code: ErrorCode, what: &str) {
    for cut in [1, 1_448] {
        let mut bench = Bench::begun();
        bench.cut = cut;
        bench.data(bytes);
        bench.run();
        assert_eq!(bench.responses.get(&stream).and_then(|it| it.reset), Some(code as u32), "{what}");
        assert_eq!(bench.goodbye, None, "{what}");
        bench.get(99, "/bytes/5");
        bench.run();
        assert!(bench.responses[&99].is_ended, "{what}");
        bench.end();
    }
}

#[test]
fn a_connection_that_breaks_the_rules_ends() {
    let get = &block("/bytes/1", &[]);
    for (what, sent, code) in [
        ("a frame that is too long", &[(99, 0, 0, &[0; 16_385][..])][..], FrameSize),
        ("no block to go on with", &[(kind::CONTINUATION, 0, 3, &[])], Protocol),
        ("something within a block", &[(kind::HEADERS, 0, 3, get), (kind::PING, 0, 0, &[0; 8])], Protocol),
        ("another's block", &[(kind::HEADERS, 0, 3, get), (kind::CONTINUATION, 0, 5, &[])], Protocol),
        ("a block that is none", &[(kind::HEADERS, WHOLE, 3, &[0x80])], Compression),
        ("a stream of ours", &[(kind::HEADERS, WHOLE, 2, get)], Protocol),
        ("content of nothing", &[(kind::DATA, 0, 3, &[])], Protocol),
        ("the end of nothing", &[(kind::RST_STREAM, 0, 3, &[0; 4])], Protocol),
        ("a window of nothing", &[(kind::WINDOW_UPDATE, 0, 3, &[0, 0, 0, 1])], Protocol),
        (
            "a stream behind a later one",
            &[(kind::HEADERS, WHOLE, 9, get), (kind::HEADERS, WHOLE, 7, get)],
            StreamClosed,
        ),
        ("a priority of nothing, that is none", &[(kind::PRIORITY, 0, 3, &[0; 4])], FrameSize),
        ("push", &[(kind::SETTINGS, 0, 0, &[0, 2, 0, 0, 0, 2])], Protocol),
        ("a window that is too large", &[(kind::SETTINGS, 0, 0, &[0, 4, 0x80, 0, 0, 0])], FlowControl),
        ("frames that are too small", &[(kind::SETTINGS, 0, 0, &[0, 5, 0, 0, 0, 1])], Protocol),
        ("a window beyond all", &[(kind::WINDOW_UPDATE, 0, 0, &[0x7f, 0xff, 0xff, 0xff])], FlowControl),
        (
            "windows beyond all by settings",
            &[
                (kind::HEADERS, WHOLE, 3, &block("/prepared/99999999", &[])),
                (kind::WINDOW_UPDATE, 0, 3, &[0x7f, 0, 0, 0]),
                (kind::SETTINGS, 0, 0, &[0, 4, 0x7f, 0xff, 0xff, 0xff]),
            ],
            FlowControl,
        ),
    ] {
        fails(&frames(sent), code, what);
    }
}

#[test]
fn the_first_frame_is_of_settings() {
    for first in [
        (kind::PING, 0, 0, &[0; 8][..]),
        (kind::SETTINGS, flag::ACK, 0, &[]),
        (kind::HEADERS, WHOLE, 1, &block("/bytes/1", &[])),
    ] {
        let mut bench = Bench::new(LIMITS);
        bench.data(&[PREFACE, &frames(&[first])].concat());
        bench.run();
        assert_eq!(bench.goodbye, Some((Protocol as u32, 0)));
        bench.end();
    }
}

#[test]
fn a_stream_that_breaks_the_rules_is_reset_alone() {
    let get = &block("/bytes/1", &[])[..];
    let five = &block("/bytes/1", &[("content-length", "5")])[..];
    let open = (kind::HEADERS, flag::END_HEADERS, 3, get);
    let counted = (kind::HEADERS, flag::END_HEADERS, 3, five);
    let long = &block("/prepared/99999999", &[])[..];
    for (what, sent, code) in [
        ("a field that may not be", &[(kind::HEADERS, WHOLE, 3, &block("/", &[("Upper", "case")])[..])][..], Protocol),
        ("no path", &[(kind::HEADERS, WHOLE, 3, &block("", &[]))], Protocol),
        ("no content where some was promised", &[(kind::HEADERS, WHOLE, 3, five)], Protocol),
        ("less than was promised", &[counted, (kind::DATA, flag::END_STREAM, 3, b"1234")], Protocol),
        ("more than was promised", &[counted, (kind::DATA, 0, 3, b"123456")], Protocol),
        ("content behind the end", &[(kind::HEADERS, WHOLE, 3, long), (kind::DATA, 0, 3, b"1")], StreamClosed),
        ("a head behind the end", &[(kind::HEADERS, WHOLE, 3, long), (kind::HEADERS, WHOLE, 3, &[])], StreamClosed),
        ("trailers that end nothing", &[open, (kind::HEADERS, flag::END_HEADERS, 3, &[])], Protocol),
        ("trailers of a request's own", &[open, (kind::HEADERS, WHOLE, 3, get)], Protocol),
        ("no window", &[open, (kind::WINDOW_UPDATE, 0, 3, &[0; 4])], Protocol),
        ("a window beyond all", &[open, (kind::WINDOW_UPDATE, 0, 3, &[0x7f, 0xff, 0xff, 0xff])], FlowControl),
        ("a priority that is none", &[open, (kind::PRIORITY, 0, 3, &[0; 4])], FrameSize),
    ] {
        resets(&frames(sent), 3, code, what);
    }
}

#[test]
fn more_than_a_window_is_more_than_it_may_send() {
    let mut bench = Bench::begun();
    bench.is_silent = true;
    bench.frame(kind::HEADERS, flag::END_HEADERS, 1, &block("/x", &[]));
    for _ in 0..4 {
        bench.frame(kind::DATA, 0, 1, &[0; 16_384]);
    }
    bench.run();
    assert_eq!(bench.responses[&1].reset, Some(FlowControl as u32), "one byte more than a stream's window");
    assert_eq!(bench.goodbye, None, "the window of all is opened again");
    bench.end();
}

#[test]
fn heads_that_are_too_large_and_tunnels_are_answered() {
    let mut bench = Bench::begun();
    bench.frame(kind::HEADERS, WHOLE, 1, &block("/x", &[("long", &"y".repeat(5_000))]));
    let mut tunnel = Vec::new();
    encode(b":method", b"CONNECT", &mut tunnel);
    encode(b":authority", b"a.example:1", &mut tunnel);
    bench.frame(kind::HEADERS, flag::END_HEADERS, 3, &tunnel);
    bench.run();
    assert_eq!(bench.responses[&1].fields, ":status=431;content-length=0;");
    assert_eq!(bench.responses[&3].fields, ":status=501;content-length=0;");
    assert_eq!((bench.responses[&1].reset, bench.responses[&3].reset), (None, Some(0)));
    assert_eq!((bench.layer.figures().requests_answered, bench.heads().len()), (2, 0));
    bench.end();
}

#[test]
fn a_short_block_cannot_say_much() {
    // A field of 4,000 bytes is put into the table, and named as often as a frame has bytes.
    let mut bomb = block("/x", &[]);
    bomb.extend([0x40, 1, b'a', 0x7f, 0xa1, 0x1e]);
    bomb.extend([b'y'; 4_000]);
    bomb.resize(16_384, 0xbe);
    let mut bench = Bench::begun();
    bench.frame(kind::HEADERS, WHOLE, 1, &bomb);
    bench.run();
    assert_eq!(bench.responses[&1].fields, ":status=431;content-length=0;");
    bench.end();
}

#[test]
fn floods_end_the_connection_and_are_counted() {
    let get = block("/prepared/1000", &[]);
    let ping = frames(&[(kind::PING, 0, 0, &[0; 8])]);
    let floods: [(&str, Flood<'_>); 8] = [
        (
            "resets",
            Box::new(|n| frames(&[(kind::HEADERS, WHOLE, 2 * n + 1, &get), (kind::RST_STREAM, 0, 2 * n + 1, &[0; 4])])),
        ),
        (
            "resets that it has us make",
            Box::new(|n| {
                frames(&[(kind::HEADERS, WHOLE, 2 * n + 1, &get), (kind::WINDOW_UPDATE, 0, 2 * n + 1, &[0; 4])])
            }),
        ),
        ("pings", Box::new(|_| ping.clone())),
        ("settings", Box::new(|_| frames(&[(kind::SETTINGS, 0, 0, &[])]))),
        (
            "parts of a head",
            Box::new(|n| match n {
                0 => frames(&[(kind::HEADERS, 0, 1, &get)]),
                _ => frames(&[(kind::CONTINUATION, 0, 1, &[])]),
            }),
        ),
        ("priorities", Box::new(|_| frames(&[(kind::PRIORITY, 0, 1, &[0; 5])]).repeat(1_000))),
        (
            "empty content",
            Box::new(|n| match n {
                0 => frames(&[(kind::HEADERS, flag::END_HEADERS, 1, &get)]),
                _ => frames(&[(kind::DATA, 0, 1, &[])]).repeat(1_000),
            }),
        ),
        ("what nobody knows", Box::new(|_| frames(&[(99, 0, 0, &[0; 16_000])]))),
    ];
    for (what, frames) in floods {
        let mut bench = Bench::begun();
        bench.is_silent = true;
        for n in 0.. {
            if bench.layer.figures().floods > 0 {
                break;
            }
            assert!(n < 10_000, "{what}: no end");
            bench.data(&frames(n));
        }
        bench.run();
        assert_eq!(bench.goodbye.map(|(code, _)| code), Some(EnhanceYourCalm as u32), "{what}");
        assert!(bench.told().is_closed, "{what}");
        bench.end();
    }
}

#[test]
fn who_cancels_now_and_then_is_no_flood() {
    let mut bench = Bench::begun();
    for n in 0..1_000 {
        let stream = 2 * n + 1;
        bench.get(stream, "/prepared/100000");
        if n % 3 == 0 {
            bench.frame(kind::RST_STREAM, 0, stream, &[0, 0, 0, 8]);
        }
        bench.run();
    }
    assert_eq!((bench.goodbye, bench.layer.figures().streams_reset_by_peer), (None, 334));
    bench.end();
}

#[test]
fn there_are_no_more_streams_than_may_be() {
    let mut bench = Bench::begun();
    bench.is_silent = true;
    for n in 0..1_000 {
        bench.get(2 * n + 1, "/x");
    }
    bench.run();
    assert_eq!((bench.heads().len(), bench.layer.figures().requests_refused), (128, 872));
    assert_eq!(bench.responses[&257].reset, Some(RefusedStream as u32));
    assert_eq!(bench.goodbye, None);
    bench.end();
}

#[test]
fn requests_that_never_end_hold_little_and_nothing_of_others() {
    // A hundred with heads of a kilobyte, none of which goes on.
    let mut bench = Bench::begun();
    let head = block("/bytes/3", &[("long", &"y".repeat(900))]);
    for n in 0..100 {
        bench.frame(kind::HEADERS, flag::END_HEADERS, 2 * n + 1, &head);
    }
    assert_eq!(bench.layer.frames_in_use(), 0);
    // As much as of one head waits; the others are answered before their content comes.
    assert_eq!(bench.heads().len(), 96);
    bench.run();
    assert!(bench.responses[&199].is_ended);
    // When the connection is to end, so are those that wait.
    let whole = bench.whole.unwrap();
    bench.command(|commands| qanat_api::Commands::close(commands, whole).unwrap());
    bench.run();
    assert_eq!((bench.heads().len(), bench.responses.len()), (100, 100));
    assert!(bench.told().is_closed);
    bench.end();
}

#[test]
fn who_takes_nothing_cannot_have_more_and_more_waiting() {
    let mut bench = Bench::begun();
    for n in 0..1_000 {
        bench.get(2 * n + 1, "/prepared/10000000");
    }
    let waiting: u64 = bench.told().sent.iter().map(|sent| sent.length()).sum();
    assert!(waiting < 300_000, "{waiting}");
    bench.end();
}
