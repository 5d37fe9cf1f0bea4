//! Connections that are none of HTTP/2 pass as they are.

use super::bench::{Bench, LIMITS};
use crate::layer::Http2Limits;
use crate::settings::PREFACE;
use qanat_api::double::Sent;
use qanat_api::{Commands, Event};

#[test]
fn who_agreed_to_speak_http2_and_does_not_is_told_so() {
    let mut bench = Bench::new(LIMITS);
    bench.layer.promise(bench.id);
    bench.data(b"PRI * HTTP/1.1\r\n\r\n");
    bench.run();
    assert_eq!((bench.goodbye, bench.told().is_closed), (Some((1, 0)), true));
    assert!(bench.heads().is_empty());
    bench.end();
}

#[test]
fn a_preface_passes_where_http2_is_not_spoken() {
    let mut bench = Bench::new(Http2Limits { streams_max: 0, ..LIMITS });
    bench.is_silent = true;
    bench.data(PREFACE);
    assert_eq!(bench.heads(), [std::str::from_utf8(PREFACE).unwrap()]);
    bench.end();
}

#[test]
fn what_begins_otherwise_passes_whole() {
    let request = b"GET /bytes/5 HTTP/1.1\r\n\r\n".as_slice();
    let nearly = [&PREFACE[..20], b"x\r\n\r\n"].concat();
    for bytes in [request, &nearly, b"PRI\r\n\r\n", b"P"] {
        for cut in [1, 2, 5, 100] {
            let mut bench = Bench::new(LIMITS);
            bench.is_silent = true;
            bench.cut = cut;
            bench.data(bytes);
            bench.event(Event::PeerClosed { connection: bench.id });
            assert_eq!(bench.heads(), [std::str::from_utf8(bytes).unwrap()], "in chunks of {cut}");
            assert_eq!(bench.told().consumed, bytes.len(), "each byte is given back once");
            let whole = bench.whole.unwrap();
            assert_eq!(bench.layer.carrier_of(whole), None);
            bench.command(|commands| {
                commands.send(whole, b"answer".as_slice().into()).unwrap();
                commands.close(whole).unwrap();
            });
            assert!(matches!(&bench.told().sent[..], [Sent::Bytes(bytes)] if &bytes[..] == b"answer"));
            assert!(bench.told().is_closed);
            assert_eq!(bench.layer.figures().carriers, 0);
            bench.heard.get_mut(&whole).unwrap().given = 6;
            bench.event(Event::Acked { connection: bench.id, bytes: 6 });
            bench.end();
        }
    }
}
