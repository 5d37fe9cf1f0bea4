//! Zone files as NSD, BIND and Knot read them: what each loads, what each refuses, and what it makes of it.

use qanat_dns::name::{Name, Presentation};
use qanat_dns::zone::parse::{read_file, read_text};
use qanat_dns::zone::{Zone, type_name};
use qanat_tests::e2e::{Program, scenario};
use std::fs;
use std::path::{Path, PathBuf};

const APEX: &str = "example.com";
const HEAD: &str = "$TTL 60\n@ SOA ns host 1 3600 600 86400 300\n@ NS ns\nns A 192.0.2.1\n";
const KEY: &str = "l02Woi0iS8Aa25FQkUd9RMzZHJpBoRQwAQEX1SxZJA4=";
const DIGEST: &str = "0011223344556677889900112233445566778899001122334455667788990011";
const RRSIG: &str = "20300101000000 20200101000000 1 example.com. AAAA";

/// Data that we load, and who else does: N, B and K for NSD, BIND and Knot.
const LOADED: [(&str, &str); 61] = [
    ("DNSKEY 257 3 RSAMD5 {KEY}", "NBK"),
    ("DNSKEY 257 3 DH {KEY}", "NBK"),
    ("DNSKEY 257 3 DSA {KEY}", "NBK"),
    ("DNSKEY 257 3 ECC {KEY}", "N"),
    ("DNSKEY 257 3 RSASHA1 {KEY}", "NBK"),
    ("DNSKEY 257 3 DSA-NSEC3-SHA1 {KEY}", "NK"),
    ("DNSKEY 257 3 NSEC3DSA {KEY}", "B"),
    ("DNSKEY 257 3 RSASHA1-NSEC3-SHA1 {KEY}", "NK"),
    ("DNSKEY 257 3 NSEC3RSASHA1 {KEY}", "B"),
    ("DNSKEY 257 3 RSASHA256 {KEY}", "NBK"),
    ("DNSKEY 257 3 RSASHA512 {KEY}", "NBK"),
    ("DNSKEY 257 3 ECC-GOST {KEY}", "NK"),
    ("DNSKEY 257 3 ECCGOST {KEY}", "B"),
    ("DNSKEY 257 3 ECDSAP256SHA256 {KEY}", "NBK"),
    ("DNSKEY 257 3 ecdsap384sha384 {KEY}", "NBK"),
    ("DNSKEY 257 3 ED25519 {KEY}", "NBK"),
    ("DNSKEY 257 3 ED448 {KEY}", "NBK"),
    ("DNSKEY 257 3 INDIRECT {KEY}", "NBK"),
    ("DNSKEY 257 3 PRIVATEDNS {KEY}", "NBK"),
    ("DNSKEY 257 3 PRIVATEOID {KEY}", "NBK"),
    ("DNSKEY ZONE|KSK 3 13 {KEY}", "B"),
    ("DNSKEY 256 DNSSEC 13 {KEY}", "B"),
    ("KEY 256 TLS 13 {KEY}", "B"),
    ("KEY 49408 3 13", "B"),
    ("CDNSKEY 257 3 ED25519 {KEY}", "NBK"),
    ("DS 1 ECDSAP256SHA256 2 {DIGEST}", "NBK"),
    ("DS 1 13 SHA-256 {DIGEST}", "B"),
    ("DS 1 13 SHA256 {DIGEST}", "B"),
    ("CDS 1 ED25519 2 {DIGEST}", "NBK"),
    ("DLV 1 ED25519 2 {DIGEST}", "NB"),
    ("TA 1 ED25519 2 {DIGEST}", "B"),
    ("RRSIG A ED25519 3 60 {RRSIG}", "NBK"),
    ("RRSIG A ECDSAP256SHA256 3 1h {RRSIG}", "N"),
    ("RRSIG a 13 3 60 1900000000 1700000000 1 example.com. AAAA", "BK"),
    ("SIG A RSAMD5 3 60 {RRSIG}", "NB"),
    ("NXT a.example.com. A MX", "NB"),
    ("NSEC3PARAM SHA-1 0 0 -", "B"),
    ("CERT ACPKIX 0 0 AAAA", "NBK"),
    ("CERT PGP 0 ED25519 AAAA", "NBK"),
    ("WKS 192.0.2.1 tcp smtp 80 http", "NB"),
    ("WKS 192.0.2.1 UDP domain", "NB"),
    ("WKS 192.0.2.1 17 65535", "NB"),
    ("WKS 192.0.2.1 6", "B"),
    ("IPSECKEY 10 0 0 .", "NK"),
    ("IPSECKEY 10 0 2 .", "NK"),
    ("IPSECKEY 10 1 0 192.0.2.38", "NK"),
    ("IPSECKEY 10 2 2 2001:db8::1 AwEAAag=", "NBK"),
    ("IPSECKEY 10 3 2 gw.example.com. AwEAAag=", "NBK"),
    ("AMTRELAY 10 0 1 192.0.2.1", "B"),
    ("AMTRELAY 10 1 2 2001:db8::1", "B"),
    ("AMTRELAY 10 0 0 .", "B"),
    ("NSAP 0x47.0005.80.005a00.0000.0001.e133.ffffff000161.00", "NB"),
    ("NSAP-PTR foo", "B"),
    ("GPOS -32.6882 116.8652 10.0", "B"),
    ("EID 00ff", "B"),
    ("NIMLOC 00ff", "B"),
    ("SINK 1 2 3 AAAA", "B"),
    ("RKEY 0 3 8 AAAA", "B"),
    ("WALLET x", "B"),
    ("CLASS1 TXT x", "NB"),
    ("CLASS1 TYPE1 \\# 4 c0000201", "NB"),
];

/// Zones, who loads them, and whether we do. `{}` is the head; otherwise all of the zone is given.
const ZONES: [(&str, &str, bool); 27] = [
    ("@ SOA ns host 1 3600 600 86400 300\n@ NS ns\nns 77 A 192.0.2.1\nb A 192.0.2.2\n", "NBK", true),
    ("@ NS ns\nns A 192.0.2.1\n@ SOA ns host 1 3600 600 86400 300\n", "NK", true),
    ("@ SOA ns host 1 3600 600 86400 300\n@ NS ns\n$TTL 9\nns A 192.0.2.1\n", "NBK", true),
    ("{}k 2147483648 A 192.0.2.1\n", "NBK", true),
    ("{}k CNAME a\nk CNAME b\n", "", false),
    ("{}k CNAME a\nk CNAME a\n", "NBK", true),
    ("{}k CNAME a\nk A 192.0.2.1\n", "", false),
    ("{}k A 192.0.2.1\nk CNAME a\n", "", false),
    ("{}@ CNAME a\n", "", false),
    ("{}k CNAME a\nk DNAME b\n", "", false),
    ("{}k CNAME a\nk NS ns\n", "", false),
    ("{}k CNAME a\nk TYPE65280 \\# 0\n", "", false),
    ("{}*.k CNAME a\n*.k A 192.0.2.3\n", "", false),
    ("{}c NS ns.c\nns.c A 192.0.2.1\nx.c CNAME a\nx.c A 192.0.2.3\n", "", false),
    ("{}k CNAME a\nk RRSIG CNAME 13 3 60 {RRSIG}\n", "NBK", true),
    ("{}k CNAME a\nk NSEC l CNAME NSEC RRSIG\n", "NBK", true),
    ("{}k CNAME a\nk KEY 256 3 13 {KEY}\n", "B", true),
    ("{}k DNAME a\nk DNAME b\n", "", false),
    ("{}k DNAME a\nk A 192.0.2.1\n", "NBK", true),
    ("{}k SOA ns host 2 3600 600 86400 300\n", "K", false),
    ("{}$INCLUDE /dev/null\n", "NBK", false),
    ("{}$GENERATE 1-3 h$ MX \"10 m$\"\n", "B", true),
    ("{}$GENERATE 1-3 h$ TXT \"a $ b\"\n", "B", true),
    ("{}$GENERATE 1-3 h$ 60 IN TXT \"\\\"q $\\\"\"\n", "B", true),
    ("{}$GENERATE 1-3 h$ A \"192.0.2.$\"\n", "B", true),
    ("{}k A 192.0.2.1\nk CH TXT x\n", "", false),
    ("{}k A 192.0.2\n", "", false),
];

fn filled(text: &str) -> String {
    let words = [("{}", HEAD), ("{KEY}", KEY), ("{DIGEST}", DIGEST), ("{RRSIG}", RRSIG)];
    words.iter().fold(text.to_owned(), |text, (word, value)| text.replace(word, value))
}

/// Whether `peer` loads the zone at `path`; and the zone as it writes it, if it does that.
fn load(peer: char, path: &Path) -> Result<Option<String>, String> {
    let path = path.to_str().expect("a path");
    let outcome = match peer {
        'N' => Program::new("nsd-checkzone").arguments(["-p", APEX, path]).run(),
        'B' => {
            Program::new("named-checkzone").arguments(["-k", "ignore", "-i", "none", "-D", "-o", "-", APEX, path]).run()
        }
        _ => Program::new("kzonecheck").arguments(["-d", "off", "-o", APEX, path]).run(),
    };
    if outcome.code != Some(0) {
        return Err(outcome.text() + &outcome.stderr);
    }
    let is_zone = |line: &&str| !line.starts_with("zone ") && *line != "OK";
    let dump: String = outcome.text().lines().filter(is_zone).map(|line| line.to_owned() + "\n").collect();
    Ok(Some(dump).filter(|dump| !dump.is_empty() && peer != 'K'))
}

fn lines(zone: &Zone) -> Vec<String> {
    let shown = |data: &[u8]| data.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    zone.records()
        .map(|record| {
            // The letters of names in data are as each likes them.
            let data = shown(&record.data.to_ascii_lowercase());
            format!("{} {} {data}", Presentation(record.owner), type_name(record.rtype))
        })
        .collect()
}

fn apex() -> Name {
    Name::absolute(APEX).expect("a name")
}

/// What a peer writes is, read by us, what we read.
fn same(peer: char, dump: &str, ours: &Zone) {
    let (theirs, _) = read_text(&apex(), Path::new("dump"), dump)
        .unwrap_or_else(|error| panic!("{peer}'s zone: {:#?}\n{dump}", error.0));
    let (ours, theirs) = (lines(ours), lines(&theirs));
    let only = |one: &[String], other: &[String]| -> Vec<String> {
        one.iter().filter(|line| !other.contains(line)).cloned().collect()
    };
    assert!(ours == theirs, "{peer}: only ours: {:#?} only theirs: {:#?}", only(&ours, &theirs), only(&theirs, &ours));
}

fn write(directory: &Path, name: &str, text: &str) -> PathBuf {
    let path = directory.join(name);
    fs::write(&path, text).expect("a file");
    path
}

/// Each word that NSD or BIND takes for a number stands for the same number here.
#[test]
fn words_are_the_numbers_they_are_elsewhere() {
    scenario(|| {
        let directory = tempfile::tempdir().expect("a directory");
        for peer in ['N', 'B', 'K'] {
            let mut text = HEAD.to_owned();
            for (index, (data, who)) in LOADED.iter().enumerate() {
                let line = format!("k{index} {}\n", filled(data));
                if who.contains(peer) {
                    text += &line;
                    continue;
                }
                let alone = write(directory.path(), "alone.zone", &format!("{HEAD}{line}"));
                assert!(load(peer, &alone).is_err(), "{peer} loads `{line}`: say so");
            }
            let path = write(directory.path(), "words.zone", &text);
            let (ours, _) = read_file(&apex(), &path, &mut |_| {}).unwrap_or_else(|error| panic!("{:#?}", error.0));
            match load(peer, &path) {
                Ok(Some(dump)) => same(peer, &dump, &ours),
                Ok(None) => assert_eq!(peer, 'K', "it writes no zone"),
                Err(error) => panic!("{peer}: {error}"),
            }
        }
    });
}

#[test]
fn zones_are_refused_where_peers_refuse_them() {
    scenario(|| {
        let directory = tempfile::tempdir().expect("a directory");
        for (text, who, is_ours) in ZONES {
            let path = write(directory.path(), "one.zone", &filled(text));
            let ours = read_file(&apex(), &path, &mut |_| {});
            assert_eq!(ours.is_ok(), is_ours, "{text}: {ours:?}");
            for peer in ['N', 'B', 'K'] {
                match load(peer, &path) {
                    Ok(dump) => {
                        assert!(who.contains(peer), "{peer} loads {text}: say so");
                        if let (Some(dump), Ok((ours, _))) = (dump, &ours) {
                            same(peer, &dump, ours);
                        }
                    }
                    Err(error) => assert!(!who.contains(peer), "{peer} refuses {text}: {error}"),
                }
            }
        }
    });
}
