//! Questions and their answers, in words.

use super::*;
use crate::layout;
use crate::name::Name;
use crate::zone::parse::read_text;
use crate::zone::type_name;
use proptest::prelude::*;
use std::path::Path;
use std::sync::Arc;

pub(super) fn catalog(zones: &[(&str, &str)]) -> Catalog {
    Catalog::new(zones.iter().map(|(apex, text)| {
        let (zone, _) = read_text(&Name::absolute(apex).unwrap(), Path::new("zone"), text)
            .unwrap_or_else(|error| panic!("{:#?}", error.0));
        Arc::new(ZoneImage::compile(&zone, &mut |_| {}).unwrap())
    }))
}

const ZONE: &str = "$TTL 60
@ SOA ns host 1 2 3 4 30
@ NS ns
@ NS ns.sub
ns A 192.0.2.1
ns AAAA 2001:db8::1
www A 192.0.2.2
www A 192.0.2.3
alias CNAME www
chain CNAME alias
loop1 CNAME loop2
loop2 CNAME loop1
out CNAME www.example.org.
dangling CNAME nothing
mail MX 10 mail
a.empty TXT x
*.wild A 192.0.2.4
*.wild MX 5 ns
*.wildalias CNAME www
there.wild TXT y
sub NS ns.sub
sub NS ns.other
sub NS far.example.org.
ns.sub A 192.0.2.5
other NS ns.other
ns.other AAAA 2001:db8::5
old DNAME new
x.new A 192.0.2.6
big TXT \"0123456789012345678901234567890123456789012345678901234567890123456789012345678901234567890123456789\"
$GENERATE 1-40 many A 192.0.2.$
";

pub(super) fn query(name: &str, qtype: u16) -> Vec<u8> {
    let mut message = vec![0x12, 0x34, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0];
    message.extend_from_slice(Name::absolute(name).unwrap().wire());
    message.extend_from_slice(&qtype.to_be_bytes());
    message.extend_from_slice(&[0, 1]);
    message
}

pub(super) fn with_opt(mut message: Vec<u8>, payload: u16, dnssec: bool, options: &[u8]) -> Vec<u8> {
    message[11] += 1;
    message.extend_from_slice(&[0, 0, 41]);
    message.extend_from_slice(&payload.to_be_bytes());
    message.extend_from_slice(&[0, 0, if dnssec { 0x80 } else { 0 }, 0]);
    message.extend_from_slice(&(options.len() as u16).to_be_bytes());
    message.extend_from_slice(options);
    message
}

/// An alias leads to a name below itself: the nearest name above that has been met, which is no circle.
#[test]
fn an_alias_to_what_is_not_there_below_it() {
    let catalog = catalog(&[(
        "example.com",
        "$TTL 60\n@ SOA ns host 1 2 3 4 30\n@ NS ns\nns A 192.0.2.1\nalias CNAME www.alias\n",
    )]);
    let origin = Origin { transport: Transport::Tcp, peer: std::net::Ipv4Addr::LOCALHOST.into(), now_s: 0 };
    let mut out = [0; 1_400];
    let outcome = Responder::default().answer(&catalog, &query("alias.example.com", 1), &origin, &mut out);
    // NXDOMAIN is about the last name (RFC 6604 section 3), and has the SOA record.
    assert_eq!((outcome.rcode, out[7], out[9]), (3, 1, 1));
}

#[test]
fn a_missing_zone_is_a_server_failure() {
    let name = |text: &str| Name::absolute(text).unwrap();
    let responder = Responder::default();
    let code = |catalog: &Catalog, asked: &str, qtype: u16| {
        let mut out = [0; 1_400];
        responder.answer(catalog, &query(asked, qtype), &udp(), &mut out).rcode
    };
    let whole = catalog(&[("example", ZONE), ("Away.example", ZONE), ("other", ZONE)]);
    let catalog = whole.without(&name("away.Example")).with_missing([&name("never.test"), &name("other")]);
    for (asked, qtype, expected) in [
        ("www.AWAY.example", 1, rcode::SERVFAIL),
        ("away.example", 6, rcode::SERVFAIL),
        ("away.example", rtype::AXFR, rcode::SERVFAIL),
        ("away.example", rtype::DS, rcode::NXDOMAIN),
        ("www.away.example", rtype::DS, rcode::SERVFAIL),
        ("a.never.test", 1, rcode::SERVFAIL),
        ("never.test", rtype::DS, rcode::SERVFAIL),
        ("test", 1, rcode::REFUSED),
        ("www.example", 1, rcode::NOERROR),
        ("farAway.example", 1, rcode::NXDOMAIN),
        ("www.other", 1, rcode::NOERROR),
    ] {
        assert_eq!(code(&catalog, asked, qtype), expected, "{asked} {qtype}");
    }
    let back = catalog.with(whole.zone(&name("away.example")).cloned());
    assert_eq!(code(&back, "www.away.example", 1), rcode::NOERROR);
    assert_eq!(code(&back, "never.test", 1), rcode::SERVFAIL);
    // The only zone does not answer for the missing one, either.
    let only = Catalog::new(whole.zone(&name("example")).cloned()).with_missing([&name("www.example")]);
    assert_eq!(code(&only, "www.example", 1), rcode::SERVFAIL);
}

pub(super) fn udp() -> Origin {
    Origin { transport: Transport::Udp { payload_max: 1_400 }, peer: "192.0.2.99".parse().unwrap(), now_s: 1_000_000 }
}

/// A name at `at` of a message, decompressed; and where it ends.
fn name_at(message: &[u8], at: usize) -> (String, usize) {
    let (mut at, mut end, mut wire) = (at, None, Vec::new());
    for _ in 0..200 {
        match message[at] {
            0 => {
                wire.push(0);
                return (Name::from_wire(&wire).unwrap().to_string(), end.unwrap_or(at + 1));
            }
            high @ 0xc0.. => {
                end = end.or(Some(at + 2));
                at = usize::from(high & 0x3f) << 8 | usize::from(message[at + 1]);
            }
            length => {
                wire.extend_from_slice(&message[at..=at + usize::from(length)]);
                at += usize::from(length) + 1;
            }
        }
    }
    panic!("a loop of pointers");
}

/// Header flags, response code and sections, a line for each record.
pub(super) fn describe(message: &[u8]) -> Vec<String> {
    let count = |at: usize| u16::from_be_bytes([message[at], message[at + 1]]);
    let mut lines = vec![format!(
        "{}{}rcode {}",
        if message[2] & flags::AA != 0 { "aa " } else { "" },
        if message[2] & flags::TC != 0 { "tc " } else { "" },
        message[3] & 0xf
    )];
    assert!(message[2] & flags::QR != 0);
    let mut at = 12;
    for _ in 0..count(4) {
        at = name_at(message, at).1 + 4;
    }
    for (section, records) in [("an", count(6)), ("ns", count(8)), ("ar", count(10))] {
        for _ in 0..records {
            let (owner, after) = name_at(message, at);
            let rtype = count(after);
            let ttl = u32::from_be_bytes(message[after + 4..after + 8].try_into().unwrap());
            let length = usize::from(count(after + 8));
            let start = after + 10;
            let mut data = String::new();
            let mut place = start;
            for field in layout::fields(rtype) {
                if *field == layout::Field::Name {
                    let (name, end) = name_at(message, place);
                    data += &format!(" {name}");
                    place = end;
                } else {
                    let length = layout::length(*field, &message[place..start + length]).unwrap();
                    data += &format!(
                        " {}",
                        message[place..place + length].iter().map(|byte| format!("{byte:02x}")).collect::<String>()
                    );
                    place += length;
                }
            }
            assert_eq!(place, start + length, "the data's length is right");
            if rtype != rtype::OPT {
                lines.push(format!("{section} {owner} {ttl} {}{data}", type_name(rtype)));
            }
            at = start + length;
        }
    }
    assert_eq!(at, message.len(), "nothing after the last record");
    lines
}

fn ask(catalog: &Catalog, request: &[u8]) -> Vec<String> {
    let mut out = [0u8; 4_096];
    let outcome = Responder::default().answer(catalog, request, &udp(), &mut out);
    assert_eq!(outcome.fate, Fate::Answered);
    describe(&out[..outcome.length])
}

fn expect(name: &str, qtype: u16, expected: &[&str]) {
    let catalog = catalog(&[("example.com", ZONE)]);
    assert_eq!(ask(&catalog, &query(name, qtype)), expected, "{name} {}", type_name(qtype));
    // With other zones beside it, by the longer way.
    let several = self::catalog(&[("example.com", ZONE), ("example.net", ZONE), ("org", ZONE)]);
    assert_eq!(ask(&several, &query(name, qtype)), expected, "{name} {} of several", type_name(qtype));
}

const SOA: &str = "ns example.com. 30 SOA ns.example.com. host.example.com. 0000000100000002000000030000000400 00001e";

fn soa() -> String {
    SOA.replace("00 00001e", "0000001e")
}

#[test]
fn names_that_are_there() {
    expect(
        "www.example.com",
        1,
        &["aa rcode 0", "an www.example.com. 60 A c0000202", "an www.example.com. 60 A c0000203"],
    );
    expect("mail.example.com", 15, &["aa rcode 0", "an mail.example.com. 60 MX 000a mail.example.com."]);
    expect(
        "example.com",
        2,
        &[
            "aa rcode 0",
            "an example.com. 60 NS ns.sub.example.com.",
            "an example.com. 60 NS ns.example.com.",
            "ar ns.sub.example.com. 60 A c0000205",
            "ar ns.example.com. 60 A c0000201",
            "ar ns.example.com. 60 AAAA 20010db8000000000000000000000001",
        ],
    );
    expect("www.example.com", 28, &["aa rcode 0", &soa()]);
    expect(
        "www.example.com",
        255,
        &["aa rcode 0", "an www.example.com. 60 A c0000202", "an www.example.com. 60 A c0000203"],
    );
}

#[test]
fn names_that_are_not() {
    expect("nothing.example.com", 1, &["aa rcode 3", &soa()]);
    expect("a.b.c.d.e.f.example.com", 1, &["aa rcode 3", &soa()]);
    expect("empty.example.com", 1, &["aa rcode 0", &soa()]);
    expect("b.empty.example.com", 1, &["aa rcode 3", &soa()]);
    expect("example.edu", 1, &["rcode 5"]);
    expect("com", 1, &["rcode 5"]);
}

#[test]
fn aliases() {
    let www = ["an www.example.com. 60 A c0000202", "an www.example.com. 60 A c0000203"];
    expect("alias.example.com", 1, &["aa rcode 0", "an alias.example.com. 60 CNAME www.example.com.", www[0], www[1]]);
    expect("alias.example.com", 5, &["aa rcode 0", "an alias.example.com. 60 CNAME www.example.com."]);
    expect(
        "chain.example.com",
        28,
        &[
            "aa rcode 0",
            "an chain.example.com. 60 CNAME alias.example.com.",
            "an alias.example.com. 60 CNAME www.example.com.",
            &soa(),
        ],
    );
    expect(
        "loop1.example.com",
        1,
        &[
            "aa rcode 0",
            "an loop1.example.com. 60 CNAME loop2.example.com.",
            "an loop2.example.com. 60 CNAME loop1.example.com.",
        ],
    );
    expect(
        "dangling.example.com",
        1,
        &["aa rcode 3", "an dangling.example.com. 60 CNAME nothing.example.com.", &soa()],
    );
    expect(
        "a.b.old.example.com",
        1,
        &[
            "aa rcode 3",
            "an old.example.com. 60 DNAME new.example.com.",
            "an a.b.old.example.com. 60 CNAME a.b.new.example.com.",
            &soa(),
        ],
    );
    expect(
        "x.old.example.com",
        1,
        &[
            "aa rcode 0",
            "an old.example.com. 60 DNAME new.example.com.",
            "an x.old.example.com. 60 CNAME x.new.example.com.",
            "an x.new.example.com. 60 A c0000206",
        ],
    );
    expect("old.example.com", 39, &["aa rcode 0", "an old.example.com. 60 DNAME new.example.com."]);
    let long = format!("{}old.example.com", "a.".repeat(117));
    let two_zones = catalog(&[("example.com", "@ 60 SOA a. b. 1 2 3 4 5\nold DNAME much-longer\n")]);
    assert_eq!(
        ask(&two_zones, &query(&long, 1)),
        ["aa rcode 6", "an old.example.com. 60 DNAME much-longer.example.com."]
    );
}

#[test]
fn wildcards() {
    expect("x.wild.example.com", 1, &["aa rcode 0", "an x.wild.example.com. 60 A c0000204"]);
    expect(
        "x.y.wild.example.com",
        15,
        &[
            "aa rcode 0",
            "an x.y.wild.example.com. 60 MX 0005 ns.example.com.",
            "ar ns.example.com. 60 A c0000201",
            "ar ns.example.com. 60 AAAA 20010db8000000000000000000000001",
        ],
    );
    expect("x.wild.example.com", 28, &["aa rcode 0", &soa()]);
    expect("*.wild.example.com", 1, &["aa rcode 0", "an *.wild.example.com. 60 A c0000204"]);
    expect("wild.example.com", 1, &["aa rcode 0", &soa()]);
    expect("there.wild.example.com", 1, &["aa rcode 0", &soa()]);
    expect("x.there.wild.example.com", 1, &["aa rcode 3", &soa()]);
    expect(
        "q.wildalias.example.com",
        1,
        &[
            "aa rcode 0",
            "an q.wildalias.example.com. 60 CNAME www.example.com.",
            "an www.example.com. 60 A c0000202",
            "an www.example.com. 60 A c0000203",
        ],
    );
}

#[test]
fn delegations() {
    let referral = [
        "rcode 0",
        "ns sub.example.com. 60 NS ns.sub.example.com.",
        "ns sub.example.com. 60 NS ns.other.example.com.",
        "ns sub.example.com. 60 NS far.example.org.",
        "ar ns.sub.example.com. 60 A c0000205",
        "ar ns.other.example.com. 60 AAAA 20010db8000000000000000000000005",
    ];
    let mut sorted = referral;
    sorted[1..4].sort_unstable();
    for (name, qtype) in
        [("sub.example.com", 1), ("x.y.sub.example.com", 28), ("ns.sub.example.com", 1), ("sub.example.com", 2)]
    {
        let catalog = catalog(&[("example.com", ZONE)]);
        let mut found = ask(&catalog, &query(name, qtype));
        found[1..4].sort_unstable();
        assert_eq!(found, sorted, "{name}");
    }
    expect("sub.example.com", 43, &["aa rcode 0", &soa()]);
    // With the child zone here too, it answers; DS stays the parent's.
    let both = catalog(&[("example.com", ZONE), ("sub.example.com", "$TTL 9\n@ SOA a. b. 1 2 3 4 5\nx A 192.0.2.9\n")]);
    assert_eq!(ask(&both, &query("x.sub.example.com", 1)), ["aa rcode 0", "an x.sub.example.com. 9 A c0000209"]);
    assert_eq!(ask(&both, &query("sub.example.com", 43)), ["aa rcode 0", &soa()]);
}

#[test]
fn case_is_kept_and_the_question_echoed() {
    let catalog = catalog(&[("example.com", ZONE)]);
    let mut out = [0u8; 1_400];
    let request = query("wWw.eXample.COM", 1);
    let outcome = Responder::default().answer(&catalog, &request, &udp(), &mut out);
    assert_eq!(out[..2], request[..2]);
    assert_eq!(out[12..outcome.question_end], request[12..]);
    assert_eq!(out[2] & flags::RD, flags::RD);
    assert_eq!(ask(&catalog, &query("X.WILD.example.com", 1))[1], "an X.WILD.example.com. 60 A c0000204");
}

#[test]
fn size_limits_and_edns() {
    let catalog = catalog(&[("example.com", ZONE)]);
    assert_eq!(ask(&catalog, &query("many.example.com", 1)), ["aa tc rcode 0"]);
    assert_eq!(ask(&catalog, &with_opt(query("many.example.com", 1), 600, false, &[])), ["aa tc rcode 0"]);
    assert_eq!(ask(&catalog, &with_opt(query("many.example.com", 1), 4_096, false, &[])).len(), 41);
    let mut tcp = udp();
    tcp.transport = Transport::Tcp;
    let mut out = [0u8; 65_535];
    let mut responder = Responder::default();
    let outcome = responder.answer(&catalog, &query("many.example.com", 1), &tcp, &mut out);
    assert_eq!(describe(&out[..outcome.length]).len(), 41);
    assert_eq!(out[11], 0, "no OPT in, none out");
    // Version 1: BADVERS, by the upper bits in OPT.
    let mut versioned = with_opt(query("www.example.com", 1), 1_232, true, &[]);
    let at = versioned.len() - 5;
    versioned[at] = 1;
    let outcome = responder.answer(&catalog, &versioned, &udp(), &mut out);
    assert_eq!((outcome.rcode, out[3] & 0xf, out[6..12].to_vec()), (16, 0, vec![0, 0, 0, 0, 0, 1]));
    assert_eq!(out[outcome.length - 11..outcome.length], [0, 0, 41, 4, 0xd0, 1, 0, 0x80, 0, 0, 0]);
    // NSID and padding.
    responder.settings.identity = b"me".to_vec();
    let both = with_opt(query("www.example.com", 1), 1_232, false, &[0, 3, 0, 0, 0, 12, 0, 0]);
    let outcome = responder.answer(&catalog, &both, &udp(), &mut out);
    assert_eq!(out[outcome.length - 6..outcome.length], [0, 3, 0, 2, b'm', b'e']);
    let outcome = responder.answer(&catalog, &both, &tcp, &mut out);
    assert_eq!(outcome.length, 468);
}

#[test]
fn cookies_come_back() {
    let catalog = catalog(&[("example.com", ZONE)]);
    let mut responder = Responder::default();
    responder.settings.cookies = Some(CookieSecrets::new([1; 16], []));
    let mut out = [0u8; 1_400];
    let ask = |responder: &Responder, cookie: &[u8], out: &mut [u8]| {
        let mut option = vec![0, 10, 0, cookie.len() as u8];
        option.extend_from_slice(cookie);
        responder.answer(&catalog, &with_opt(query("www.example.com", 1), 1_232, false, &option), &udp(), out)
    };
    let outcome = ask(&responder, &[7; 8], &mut out);
    assert!(!outcome.cookie_valid);
    let full = out[outcome.length - 24..outcome.length].to_vec();
    assert_eq!(full[..8], [7; 8]);
    assert!(ask(&responder, &full, &mut out).cookie_valid);
    assert_eq!(ask(&responder, &[7; 9], &mut out).rcode, rcode::FORMERR);
}

#[test]
fn about_the_server() {
    let mut responder = Responder::default();
    let mut out = [0u8; 1_400];
    let mut request = query("VERSION.bind", 16);
    let end = request.len();
    request[end - 1] = 3;
    assert_eq!(responder.answer(&Catalog::default(), &request, &udp(), &mut out).rcode, rcode::REFUSED);
    responder.settings.version = b"qanat".to_vec();
    let outcome = responder.answer(&Catalog::default(), &request, &udp(), &mut out);
    assert_eq!(describe(&out[..outcome.length]), ["aa rcode 0", "an VERSION.bind. 0 TXT 0571616e6174"]);
}

#[test]
fn what_is_no_question() {
    let catalog = catalog(&[("example.com", ZONE)]);
    let responder = Responder::default();
    let mut out = [0u8; 1_400];
    let mut code = |change: &dyn Fn(&mut Vec<u8>)| {
        let mut request = query("www.example.com", 1);
        change(&mut request);
        let outcome = responder.answer(&catalog, &request, &udp(), &mut out);
        (outcome.fate, outcome.rcode, outcome.length)
    };
    let (answered, silence) = (Fate::Answered, Fate::Silence);
    assert_eq!(code(&|request| request[2] |= 0x80), (silence, 0, 0));
    assert_eq!(code(&|request| request.truncate(11)), (silence, 0, 0));
    assert_eq!(code(&|request| request.truncate(12)), (answered, 1, 12));
    assert_eq!(code(&|request| request.truncate(30)), (answered, 1, 12));
    assert_eq!(code(&|request| request[2] = 2 << 3), (answered, 4, 12));
    assert_eq!(code(&|request| request[2] = 4 << 3).0, Fate::Notify);
    assert_eq!(code(&|request| request[5] = 0), (answered, 1, 12));
    assert_eq!(code(&|request| request[4] = 0xff), (answered, 1, 12));
    assert_eq!(code(&|request| request[7] = 1), (answered, 1, 12));
    assert_eq!(code(&|request| request[9] = 1), (answered, 1, 33));
    assert_eq!(code(&|request| request[10] = 0xff), (answered, 1, 33));
    assert_eq!(code(&|request| request[12] = 0xc0), (answered, 1, 12));
    assert_eq!(code(&|request| request[12] = 64), (answered, 1, 12));
    let end = query("www.example.com", 1).len();
    assert_eq!(code(&|request| request[end - 1] = 4), (answered, 5, end));
    assert_eq!(code(&|request| request[end - 3] = 252).0, Fate::Transfer);
    assert_eq!(code(&|request| request[end - 3] = 41), (answered, 1, end));
}

/// RFC 2181 section 5: a record set is in an answer once, whatever goes round.
#[test]
fn a_dname_is_said_once() {
    let zone =
        |records: &str| catalog(&[("example.com", &format!("$TTL 60\n@ SOA ns host 1 2 3 4 30\n@ NS x.\n{records}"))]);
    let mut tcp = udp();
    tcp.transport = Transport::Tcp;
    let ask = |catalog: &Catalog, name: &str, qtype: u16| {
        let mut out = vec![0u8; 65_535];
        let outcome = Responder::default().answer(catalog, &query(name, qtype), &tcp, &mut out);
        describe(&out[..outcome.length])
    };
    let twice = zone("d DNAME e\nx.e CNAME y.d\nz.e CNAME d\ny.e A 192.0.2.1\n");
    let dname = "an d.example.com. 60 DNAME e.example.com.";
    let made = |from: &str, to: &str| format!("an {from}.example.com. 60 CNAME {to}.example.com.");
    assert_eq!(
        ask(&twice, "x.d.example.com", 1),
        [
            "aa rcode 0",
            dname,
            &made("x.d", "x.e"),
            &made("x.e", "y.d"),
            &made("y.d", "y.e"),
            "an y.e.example.com. 60 A c0000201"
        ]
    );
    // Asked for itself, it is there already.
    assert_eq!(
        ask(&twice, "z.d.example.com", rtype::DNAME),
        ["aa rcode 0", dname, &made("z.d", "z.e"), &made("z.e", "d")]
    );
    let round = zone("a DNAME b\nb DNAME a\n");
    assert_eq!(
        ask(&round, "X.a.example.com", 1),
        [
            "aa rcode 0",
            "an a.example.com. 60 DNAME b.example.com.",
            "an X.a.example.com. 60 CNAME X.b.example.com.",
            "an b.example.com. 60 DNAME a.example.com.",
            "an X.b.example.com. 60 CNAME X.a.example.com.",
        ]
    );
    let itself = catalog(&[("email", "$TTL 60\n@ SOA ns host 1 2 3 4 30\n@ NS x.\n@ DNAME @\n")]);
    assert_eq!(
        ask(&itself, "a.email", 1),
        ["aa rcode 0", "an email. 60 DNAME email.", "an a.email. 60 CNAME a.email."]
    );
    // One that leads below itself makes ever longer names: as many as are followed.
    let deeper = ask(&zone("a DNAME b.a\n"), "x.a.example.com", 1);
    assert_eq!(deeper.iter().filter(|line| line.contains("DNAME")).count(), 1, "{deeper:#?}");
    let distinct: std::collections::BTreeSet<&String> = deeper.iter().collect();
    assert_eq!(distinct.len(), deeper.len(), "{deeper:#?}");
}

/// RFC 1035 section 3.3, RFC 2782: addresses of what NS, MX and SRV name, its own among them; each once, and only if there is
/// room.
#[test]
fn addresses_of_what_is_named() {
    let many: String = (0..40).map(|host| format!("full MX 1 h{host}\nh{host} A 192.0.2.{host}\n")).collect();
    let zone = catalog(&[(
        "example.com",
        &format!(
            "$TTL 60\n@ SOA ns host 1 2 3 4 30\n@ NS @\n@ A 192.0.2.1\n@ AAAA ::1\nmail MX 10 MAIL\nmail MX 20 far.org.\n\
             mail A 192.0.2.2\n_s SRV 1 1 1 _s\n_s SRV 1 1 2 _s\n_s A 192.0.2.3\nsub NS sub\nsub A 192.0.2.4\nto CNAME mail\n\
             none MX 0 .\n{many}"
        ),
    )]);
    let additional = |name: &str, qtype: u16| -> Vec<String> {
        let lines = ask(&zone, &query(name, qtype));
        assert!(lines[0].ends_with("rcode 0") && !lines[0].contains("tc"), "{lines:?}");
        lines.into_iter().filter(|line| line.starts_with("ar ")).collect()
    };
    let (a, aaaa) = ("ar example.com. 60 A c0000201", "ar example.com. 60 AAAA 00000000000000000000000000000001");
    assert_eq!(additional("example.com", rtype::NS), [a, aaaa]);
    assert_eq!(additional("mail.example.com", rtype::MX), ["ar mail.example.com. 60 A c0000202"]);
    assert_eq!(additional("to.example.com", rtype::MX), ["ar mail.example.com. 60 A c0000202"]);
    assert_eq!(additional("_s.example.com", 33), ["ar _s.example.com. 60 A c0000203"]);
    assert_eq!(additional("x.sub.example.com", 1), ["ar sub.example.com. 60 A c0000204"]);
    assert_eq!(additional("none.example.com", rtype::MX), Vec::<String>::new());
    let mut out = vec![0u8; 65_535];
    let tcp = Origin { transport: Transport::Tcp, ..udp() };
    let outcome = Responder::default().answer(&zone, &query("full.example.com", rtype::MX), &tcp, &mut out);
    let count = describe(&out[..outcome.length]).iter().filter(|line| line.starts_with("ar ")).count();
    assert_eq!(count, 16, "work is bounded");
}

/// RFC 6891 section 6.1.1: who sends OPT gets it back, in errors too.
#[test]
fn errors_have_opt() {
    let catalog = catalog(&[("example.com", ZONE)]);
    let responder = Responder::default();
    let mut out = [0u8; 1_400];
    let good = with_opt(query("www.example.com", 1), 1_232, true, &[]);
    let mut check = |expected: u8, opt: bool, change: &dyn Fn(&mut Vec<u8>)| {
        let mut request = good.clone();
        change(&mut request);
        let outcome = responder.answer(&catalog, &request, &udp(), &mut out);
        assert_eq!((outcome.fate, outcome.rcode), (Fate::Answered, expected));
        let answer = &out[..outcome.length];
        describe(answer);
        assert_eq!(answer[11], u8::from(opt), "{answer:02x?}");
        if opt {
            assert_eq!(answer[answer.len() - 11..], [0, 0, 41, 4, 0xd0, 0, 0, 0x80, 0, 0, 0]);
        }
    };
    check(rcode::NOTIMP, true, &|request| request[2] = 2 << 3);
    // UPDATE has other sections, with records before OPT.
    check(rcode::NOTIMP, true, &|request| {
        request[2] = 5 << 3;
        request[9] = 1;
        let opt = request.split_off(request.len() - 11);
        request.extend_from_slice(&[0xc0, 12, 0, 1, 0, 255, 0, 0, 0, 0, 0, 0]);
        request.extend_from_slice(&opt);
    });
    check(rcode::REFUSED, true, &|request| request[17] = b'z');
    check(rcode::FORMERR, true, &|request| {
        // Two questions; and a name that cannot be.
        request[5] = 2;
        request.splice(12..12, *b"\0\0\x01\0\x01");
    });
    check(rcode::FORMERR, true, &|request| {
        request[11] = 2;
        request.extend_from_slice(&[0, 0, 41, 4, 0xd0, 0, 0, 0, 0, 0, 0]);
    });
    check(rcode::FORMERR, true, &|request| {
        let length = request.len();
        request[length - 1] = 5;
        request.extend_from_slice(&[0, 10, 0, 1, 7]);
    });
    check(rcode::FORMERR, false, &|request| request.truncate(40));
    check(rcode::FORMERR, false, &|request| request[5] = 9);
}

#[test]
fn a_cookie_may_be_asked_for_alone() {
    let catalog = catalog(&[("example.com", ZONE)]);
    let mut responder = Responder::default();
    let mut out = [0u8; 1_400];
    let option: &[u8] = &[0, 10, 0, 8, 7, 7, 7, 7, 7, 7, 7, 7];
    let bare = with_opt(vec![0x12, 0x34, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0], 1_232, false, option);
    let outcome = responder.answer(&catalog, &bare, &udp(), &mut out);
    assert_eq!((outcome.rcode, out[11]), (rcode::FORMERR, 1), "cookies are off");
    responder.settings.cookies = Some(CookieSecrets::new([1; 16], []));
    // RFC 7873 section 5.4.
    let outcome = responder.answer(&catalog, &bare, &udp(), &mut out);
    assert_eq!((outcome.rcode, &out[2..12]), (rcode::NOERROR, &[0x80, 0, 0, 0, 0, 0, 0, 0, 0, 1][..]));
    assert_eq!(describe(&out[..outcome.length]), ["rcode 0"]);
    let cookie = out[outcome.length - 24..outcome.length].to_vec();
    assert_eq!(cookie[..8], [7; 8]);
    let whole = [&[0, 10, 0, 24][..], &cookie].concat();
    let again = with_opt(vec![0x12, 0x34, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0], 1_232, false, &whole);
    assert!(responder.answer(&catalog, &again, &udp(), &mut out).cookie_valid);
    let none = with_opt(vec![0x12, 0x34, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0], 1_232, false, &[]);
    assert_eq!(responder.answer(&catalog, &none, &udp(), &mut out).rcode, rcode::FORMERR);
}

#[test]
fn tc_in_a_query_says_nothing() {
    let catalog = catalog(&[("example.com", ZONE)]);
    for mut request in [query("www.example.com", 1), with_opt(query("www.example.com", 1), 1_232, false, &[])] {
        let expected = ask(&catalog, &request);
        request[2] |= flags::TC;
        assert_eq!(ask(&catalog, &request), expected);
    }
}

fn hostile_catalogs() -> Vec<Catalog> {
    vec![
        catalog(&[("example.com", ZONE)]),
        catalog(&[("example.com", ZONE), (".", "@ 60 SOA a. b. 1 2 3 4 5\n* A 192.0.2.1\n")]),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    /// Whatever comes, an answer stays in its bounds and can be read.
    #[test]
    fn arbitrary_bytes_do_no_harm(
        bytes in proptest::collection::vec(any::<u8>(), 0..300),
        valid_start in any::<bool>(),
        room in 512usize..1_400,
        tcp in any::<bool>(),
    ) {
        thread_local!(static CATALOGS: Vec<Catalog> = hostile_catalogs());
        CATALOGS.with(|catalogs| {
            for catalog in catalogs {
                let mut request = bytes.clone();
                if valid_start {
                    let start = query("a.b.old.example.com", u16::from(request.first().copied().unwrap_or(1)));
                    request.splice(0..0, start);
                    request[11] = 1;
                }
                let mut origin = udp();
                origin.transport = if tcp { Transport::Tcp } else { Transport::Udp { payload_max: 1_232 } };
                let mut out = vec![0; room.max(request.len())];
                let outcome = Responder::default().answer(catalog, &request, &origin, &mut out);
                assert!(outcome.length <= out.len());
                if outcome.fate == Fate::Answered {
                    assert!(tcp || outcome.length <= 1_232.max(request.len()));
                    describe(&out[..outcome.length]);
                }
            }
        });
    }
}

/// What lies ready for a datagram is what the long way says, and hostile requests are for the long way: names of all lengths, in
/// letters of both cases, requests cut off, longer than they say, and with any byte changed.
#[test]
fn what_lies_ready_is_what_the_long_way_says() {
    let apex = "example.com";
    let long = "a".repeat(60);
    let names =
        ["", "b.", "ns.", "www.", "mail.", "fourteenbytes.", "sub.", "ns.sub.", "old.", "big.", "many.", "x.new."];
    let names: Vec<String> =
        names.iter().map(|name| format!("{name}{apex}")).chain([format!("{long}.{apex}")]).collect();
    let zone = catalog(&[(apex, &format!("{ZONE}b A 192.0.2.7\nfourteenbytes A 192.0.2.8\n{long} A 192.0.2.9\n"))]);
    let image = zone.only().unwrap();
    let responder = Responder::default();
    let origin =
        Origin { transport: Transport::Udp { payload_max: edns::PAYLOAD_MIN }, peer: [10, 0, 0, 1].into(), now_s: 0 };
    let mut found = 0;
    let mut check = |request: &[u8]| {
        let Some(ready) = find_ready(image, request, edns::PAYLOAD_MIN).and_then(Ready::of) else { return };
        found += 1;
        let mut answer = [request, ready.records].concat();
        let front = ready.header(answer[..8].try_into().unwrap());
        answer[..8].copy_from_slice(&front);
        let mut out = vec![0; 1_024];
        out[..request.len()].copy_from_slice(request);
        let outcome = responder.answer_any(&zone, &mut out, request.len(), &origin);
        assert_eq!((outcome.fate, &out[..outcome.length]), (Fate::Answered, answer.as_slice()), "{request:02x?}");
    };
    for name in &names {
        for qtype in [0, 1, 2, 5, 6, 15, 16, 28, 255] {
            let request = query(name, qtype);
            check(&request);
            check(&request.to_ascii_uppercase());
            check(&[request.as_slice(), &[0]].concat());
            for at in 0..request.len() {
                check(&request[..at]);
                for change in [1, 2, 0x20, 0x80, 0xff] {
                    let mut changed = request.clone();
                    changed[at] ^= change;
                    check(&changed);
                }
            }
        }
    }
    assert!(found > 300, "{found}");
}
