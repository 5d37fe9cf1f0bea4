//! The name server: questions of any kind, to zones that are whole; and zones of any kind.

use qanat_dns::answer::{Fate, Origin, Responder, Transport};
use qanat_dns::image::{Catalog, ZoneImage};
use qanat_dns::message::rcode;
use qanat_dns::name::Name;
use qanat_dns::zone::parse::read_text;
use std::path::Path;
use std::sync::Arc;

const ZONE: &str = "$TTL 60\n@ SOA ns host 1 2 3 4 30\n@ NS ns\nns A 192.0.2.1\nwww A 192.0.2.2\nalias CNAME www\n\
                    loop CNAME loop\n*.wild MX 1 ns\na.empty TXT x\nsub NS ns.sub\nns.sub AAAA ::1\nold DNAME new\n\
                    x.new A 192.0.2.3\nback DNAME x.back\n*.more CNAME a.more\n$GENERATE 1-99 many A 192.0.2.$\n";
/// The most a datagram's answer may have here.
const PAYLOAD_MAX: usize = 1_232;

fn image(apex: &str, text: &str) -> Option<Arc<ZoneImage>> {
    let (zone, _) = read_text(&Name::absolute(apex).ok()?, Path::new("zone"), text).ok()?;
    ZoneImage::compile(&zone, &mut |_| {}).ok().map(Arc::new)
}

fn origin(tcp: bool) -> Origin {
    let transport = if tcp { Transport::Tcp } else { Transport::Udp { payload_max: PAYLOAD_MAX } };
    Origin { transport, peer: std::net::IpAddr::from([192, 0, 2, 9]), now_s: 1_000_000 }
}

/// Where the name at `start` ends; its pointers must lead back.
fn skip_name(message: &[u8], start: usize) -> usize {
    let (mut at, mut end) = (start, None);
    loop {
        match message[at] {
            0 => return end.unwrap_or(at + 1),
            high @ 0xc0.. => {
                end = end.or(Some(at + 2));
                let to = usize::from(high & 0x3f) << 8 | usize::from(message[at + 1]);
                assert!(to < at, "a pointer that does not lead back");
                at = to;
            }
            length => {
                assert!(length < 64);
                at += usize::from(length) + 1;
            }
        }
    }
}

/// An answer must be one that its reader understands to the last byte.
fn read(message: &[u8]) {
    let count = |at: usize| usize::from(u16::from_be_bytes([message[at], message[at + 1]]));
    assert!(message[2] & 0x80 != 0);
    let mut at = 12;
    for _ in 0..count(4) {
        at = skip_name(message, at) + 4;
    }
    for _ in 0..count(6) + count(8) + count(10) {
        at = skip_name(message, at);
        at += 10 + count(at + 8);
    }
    assert_eq!(at, message.len());
}

/// Any bytes as a request.
pub fn dns_question(data: &[u8]) {
    thread_local!(static CATALOGS: [Catalog; 2] = {
        let one = image("example.com", ZONE).expect("a zone");
        let root = image(".", "@ 60 SOA a. b. 1 2 3 4 5\n*.org A 192.0.2.1\ncom NS a.com\n").expect("a zone");
        [Catalog::new([one.clone()]), Catalog::new([one, root])]
    });
    let Some((choice, request)) = data.split_first() else { return };
    CATALOGS.with(|catalogs| {
        let tcp = choice & 1 != 0;
        let mut out = vec![0; if tcp { 65_535 } else { PAYLOAD_MAX.max(request.len()) }];
        let catalog = &catalogs[usize::from(choice >> 1 & 1)];
        let outcome = Responder::default().answer(catalog, request, &origin(tcp), &mut out);
        assert!(outcome.length <= out.len());
        if outcome.fate == Fate::Answered {
            assert!(tcp || outcome.length <= PAYLOAD_MAX.max(request.len()));
            assert_eq!(out[..2], request[..2], "the same id");
            read(&out[..outcome.length]);
        } else {
            assert_eq!(outcome.length, 0);
        }
    });
}

/// Any text as a master file; every name of a zone that is whole can be asked for.
pub fn dns_zone(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let upper = text.to_ascii_uppercase();
    let long_number = upper.split(|character: char| !character.is_ascii_digit()).any(|digits| digits.len() > 3);
    // Other files are not ours to read here; and a million records take their time.
    if upper.contains("$INCLUDE") || upper.contains("$GENERATE") && long_number {
        return;
    }
    let apex = Name::absolute("example.com").expect("a name");
    let Ok((zone, _)) = read_text(&apex, Path::new("zone"), &text) else { return };
    let _ = qanat_dns::zone::check::check(&zone);
    let Ok(image) = ZoneImage::compile(&zone, &mut |_| {}) else { return };
    assert_eq!(image.record_count(), zone.record_count());
    let catalog = Catalog::new([Arc::new(image)]);
    let mut out = vec![0; 65_535];
    for set in zone.sets() {
        for qtype in [set.rtype(), 1, 255] {
            let mut request = vec![0, 1, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0];
            request.extend_from_slice(set.owner());
            request.extend_from_slice(&qtype.to_be_bytes());
            request.extend_from_slice(&[0, 1]);
            let outcome = Responder::default().answer(&catalog, &request, &origin(true), &mut out);
            if outcome.fate == Fate::Answered {
                read(&out[..outcome.length]);
                assert_ne!(outcome.rcode, rcode::REFUSED, "a name of the zone");
            }
        }
    }
}
