use super::*;
use proptest::prelude::*;

const LIMITS: ParseLimits = ParseLimits { head_bytes_max: 16 * 1024, target_bytes_max: 8 * 1024 };

fn status(text: impl AsRef<[u8]>) -> u16 {
    let mut storage = header_storage();
    match parse(text.as_ref(), &mut storage, &LIMITS) {
        Outcome::Complete(_) => 200,
        Outcome::Partial => 0,
        Outcome::Reject(rejection) => rejection.status,
    }
}

#[test]
fn well_formed() {
    let text =
        b"GET /a%20b?q HTTP/1.1\r\nHost: Example.org:80\r\nRange: bytes=0-1\r\nConnection: foo, CLOSE\r\n\r\nrest";
    let mut storage = header_storage();
    let Outcome::Complete(request) = parse(text, &mut storage, &LIMITS) else { panic!() };
    assert_eq!(request.method, Method::Get);
    assert_eq!(request.path_and_query, b"/a%20b?q");
    assert_eq!(request.host, b"Example.org:80");
    assert!(!request.keep_alive);
    assert_eq!(request.flags, flag::RANGE);
    assert_eq!(request.head_length, text.len() - 4);
    assert_eq!(request.single("range"), Some(&b"bytes=0-1"[..]));
}

#[test]
fn keep_alive_rules() {
    for (text, expected) in [
        ("GET / HTTP/1.1\r\nHost: a\r\n\r\n", true),
        ("GET / HTTP/1.0\r\n\r\n", false),
        ("GET / HTTP/1.0\r\nConnection: Keep-Alive\r\n\r\n", true),
        ("GET / HTTP/1.1\r\nHost: a\r\nConnection: keep-alive\r\nConnection: close\r\n\r\n", false),
    ] {
        let mut storage = header_storage();
        let Outcome::Complete(request) = parse(text.as_bytes(), &mut storage, &LIMITS) else { panic!("{text}") };
        assert_eq!(request.keep_alive, expected, "{text}");
    }
}

#[test]
fn absolute_form() {
    let text = b"GET http://other.example/x?y HTTP/1.1\r\nHost: a\r\n\r\n";
    let mut storage = header_storage();
    let Outcome::Complete(request) = parse(text, &mut storage, &LIMITS) else { panic!() };
    assert_eq!(request.host, b"other.example");
    assert_eq!(request.path_and_query, b"/x?y");
    assert_eq!(status("GET http://h HTTP/1.1\r\nHost: a\r\n\r\n"), 200);
    assert_eq!(status("GET http:///x HTTP/1.1\r\nHost: a\r\n\r\n"), 400);
    assert_eq!(status("GET ftp://h/ HTTP/1.1\r\nHost: a\r\n\r\n"), 400);
    assert_eq!(status("GET http://u@h/ HTTP/1.1\r\nHost: a\r\n\r\n"), 400);
}

#[test]
fn smuggling_is_refused() {
    for (text, expected) in [
        ("GET / HTTP/1.1\r\n\r\n", 400),
        ("GET / HTTP/1.1\r\nHost: a\r\nHost: a\r\n\r\n", 400),
        ("GET / HTTP/1.1\r\nHost: a b\r\n\r\n", 400),
        ("GET / HTTP/1.1\r\nHost: a/b\r\n\r\n", 400),
        ("GET / HTTP/1.1\r\nHost : a\r\n\r\n", 400),
        ("GET / HTTP/1.1\r\nHost: a\r\n folded\r\n\r\n", 400),
        ("GET / HTTP/1.1\r\n Host: a\r\n\r\n", 400),
        ("GET / HTTP/1.1\r\nHost: a\r\nX: a\rb\r\n\r\n", 400),
        ("GET / HTTP/1.1\r\nHost: a\r\nX: a\0b\r\n\r\n", 400),
        ("GET /\0 HTTP/1.1\r\nHost: a\r\n\r\n", 400),
        ("GET / HTTP/1.1\nHost: a\n\n", 400),
        ("GET / HTTP/1.1\r\nHost: a\n\r\n", 400),
        ("GET / HTTP/1.1\r\nHost: a\r\n\n", 400),
        ("GET / HTTP/1.1\r\rHost: a\r\n\r\n", 400),
        ("GET  / HTTP/1.1\r\nHost: a\r\n\r\n", 400),
        ("GET / x HTTP/1.1\r\nHost: a\r\n\r\n", 400),
        ("GET /\r\n\r\n", 400),
        ("GET x HTTP/1.1\r\nHost: a\r\n\r\n", 400),
        ("GET * HTTP/1.1\r\nHost: a\r\n\r\n", 400),
        ("OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n", 200),
        ("GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n", 200),
        ("GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\nContent-Length: 0\r\n\r\n", 400),
        ("GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 0, 0\r\n\r\n", 400),
        ("GET / HTTP/1.1\r\nHost: a\r\nContent-Length: +1\r\n\r\n", 400),
        ("GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 99999999999999999999\r\n\r\n", 400),
        ("GET / HTTP/1.1\r\nHost: a\r\nContent-Length: \r\n\r\n", 400),
        ("GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello", 413),
        ("GET / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n", 413),
        ("GET / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: xchunked\r\n\r\n", 501),
        ("GET / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n", 501),
        ("GET / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nContent-Length: 0\r\n\r\n", 400),
        ("GET / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n", 400),
        ("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello", 405),
        ("GET / HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\n\r\n", 200),
        ("GET / HTTP/1.1\r\nHost: a\r\nExpect: magic\r\n\r\n", 417),
        ("GET / HTTP/2.0\r\nHost: a\r\n\r\n", 505),
        ("GET / HTTP/1.9\r\nHost: a\r\n\r\n", 505),
        ("GET / HTTX/1.1\r\nHost: a\r\n\r\n", 400),
        ("GET / http/1.1\r\nHost: a\r\n\r\n", 400),
        ("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 505),
        ("\x16\x03\x01\x02\x00\x01", 400),
        ("GET /\u{e4} HTTP/1.1\r\nHost: a\r\n\r\n", 400),
    ] {
        assert_eq!(status(text), expected, "{text:?}");
    }
}

#[test]
fn sizes() {
    let long = "a".repeat(9000);
    assert_eq!(status(format!("GET /{long} HTTP/1.1\r\nHost: a\r\n\r\n")), 414);
    assert_eq!(status(format!("GET /{long}")), 414);
    assert_eq!(status(format!("GET / HTTP/1.1\r\nHost: a\r\nX: {long}{long}\r\n\r\n")), 431);
    assert_eq!(status(format!("GET / HTTP/1.1\r\nHost: a\r\nX: {long}{long}")), 431);
    let many = "X: y\r\n".repeat(FIELDS_MAX + 1);
    assert_eq!(status(format!("GET / HTTP/1.1\r\n{many}\r\n")), 431);
}

#[test]
fn ends() {
    assert_eq!(head_end(b"GET / HTTP/1.1\r\nHost: a\r\n\r\nx", 0), Some(27));
    assert_eq!(head_end(b"GET / HTTP/1.1\r\nHost: a\r\n\r", 0), None);
    assert_eq!(head_end(b"a\n\nb", 0), Some(3));
    assert_eq!(head_end(b"", 5), None);
}

proptest! {
    #[test]
    fn never_panics(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
        status(&bytes);
        head_end(&bytes, bytes.len() / 2);
    }

    #[test]
    fn never_panics_on_nearly_http(parts in proptest::collection::vec(prop_oneof![
        Just("GET "), Just("/"), Just(" HTTP/1.1"), Just("\r\n"), Just("\n"), Just("\r"), Just("Host: a"), Just(" "),
        Just("Content-Length: 1"), Just("Transfer-Encoding: chunked"), Just(":"), Just("\0"), Just("http://"), Just("a"),
    ], 0..30)) {
        status(parts.concat());
    }

    /// However a head is split, its end is found when, and only when, it is there.
    #[test]
    fn gathers_as_whole(cut_a in 0usize..60, cut_b in 0usize..60) {
        let whole = b"GET /index.html HTTP/1.1\r\nHost: example\r\nX-Long: y\r\n\r\n";
        let mut cuts = [cut_a.min(whole.len()), cut_b.min(whole.len())];
        cuts.sort_unstable();
        let mut gathered = Vec::new();
        for part in [&whole[..cuts[0]], &whole[cuts[0]..cuts[1]], &whole[cuts[1]..]] {
            let from = gathered.len();
            gathered.extend_from_slice(part);
            let end = head_end(&gathered, from);
            prop_assert_eq!(end.is_some(), gathered.len() == whole.len() && (!part.is_empty() || from < whole.len()));
            if end.is_some() { break; }
        }
        prop_assert_eq!(status(&gathered), 200);
    }
}
