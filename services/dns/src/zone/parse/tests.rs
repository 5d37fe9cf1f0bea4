//! Master files as people write them, and as they should not.

use super::*;
use crate::zone::type_name;

fn apex() -> Name {
    Name::absolute("example.com").unwrap()
}

fn read(text: &str) -> Zone {
    match read_text(&apex(), Path::new("zone"), text) {
        Ok((zone, _)) => zone,
        Err(error) => panic!("{:#?}", error.0),
    }
}

fn errors(text: &str) -> Vec<String> {
    let text = format!("@ 60 SOA a. b. 1 2 3 4 5\n{text}");
    let error = read_text(&apex(), Path::new("zone"), &text).expect_err("an error");
    error.0.iter().map(ToString::to_string).collect()
}

fn lines(zone: &Zone) -> Vec<String> {
    let shown = |data: &[u8]| data.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    zone.records()
        .map(|record| {
            format!(
                "{} {} {} {}",
                name::Presentation(record.owner),
                record.ttl,
                type_name(record.rtype),
                shown(record.data)
            )
        })
        .collect()
}

#[test]
fn directives_defaults_and_order() {
    let zone = read(
        "$TTL 1h\n@ IN SOA ns hostmaster ( 2024010101 ; serial\n 1h 15m 1w 5m )\n  NS ns\n\
         www 300 IN A 192.0.2.1\n    IN 301 A 192.0.2.1\n$ORIGIN sub\nA CNAME WWW.example.com.\n@ TXT \"a b\" c\\032d\n",
    );
    assert_eq!(zone.serial(), 2_024_010_101);
    let owners: Vec<String> = lines(&zone);
    assert_eq!(owners.len(), 5, "{owners:#?}");
    assert!(owners[0].starts_with("example.com. 3600 NS "));
    assert!(owners[1].starts_with("example.com. 3600 SOA "));
    assert_eq!(owners[2], "sub.example.com. 3600 TXT 0361206203632064");
    assert!(owners[3].starts_with("a.sub.example.com. 3600 CNAME 03575757"), "case of data stays: {}", owners[3]);
    assert_eq!(owners[4], "www.example.com. 300 A c0000201");
}

#[test]
fn types_with_and_without_names() {
    let zone = read(
        "$TTL 60\n@ SOA a. b. 1 2 3 4 5\n@ NS a.\na AAAA 2001:db8::1\nb MX 10 mail\nc SRV 1 2 443 host\n\
         d CAA 0 issue \"ca.example.net\"\ne TLSA 3 1 1 00ff\nf SVCB 1 . alpn=h2 port=8443\ng HTTPS 0 pool\n\
         h TYPE65280 \\# 3 abcdef\ni A \\# 4 c0000201\nj NAPTR 1 2 \"s\" \"SIP+D2U\" \"\" _sip._udp\nk AFSDB 1 db\n\
         l URI 1 2 \"https://x/\"\nm SSHFP 4 2 00ff\nn LOC 1 N 2 E 3m\no TYPE1 192.0.2.9\np DS 1 8 2 00ff\nq HINFO a b\n",
    );
    let lines = lines(&zone);
    let has = |line: &str| assert!(lines.iter().any(|own| own == line), "{line}: {lines:#?}");
    has("b.example.com. 60 MX 000a046d61696c076578616d706c6503636f6d00");
    has("h.example.com. 60 TYPE65280 abcdef");
    has("i.example.com. 60 A c0000201");
    has("k.example.com. 60 AFSDB 0001026462076578616d706c6503636f6d00");
    has("l.example.com. 60 URI 0001000268747470733a2f2f782f");
    has("o.example.com. 60 A c0000209");
    has("e.example.com. 60 TLSA 03010100ff");
    has("f.example.com. 60 SVCB 000100000100030268320003000220fb");
}

/// What other servers make of these is compared in `tests/tests/dns_peers.rs`; HIP's bytes are RFC 8005's fields.
#[test]
fn types_that_domain_does_not_read() {
    let zone = read(
        "$TTL 60\n@ SOA a. b. 1 2 3 4 5\n@ NS a.\na HIP 2 200100107B1A74DF365639CC39F1D578 AQID rvs\n\
         b APL 1:192.168.32.0/21 !1:192.168.38.0/28 2:::/0\nc CSYNC 66 3 A NS AAAA CAA\nd SPF \"v=spf1\" -all\n",
    );
    let lines = lines(&zone);
    let has = |line: &str| assert!(lines.iter().any(|own| own == line), "{line}: {lines:#?}");
    has("a.example.com. 60 HIP 10020003200100107b1a74df365639cc39f1d578010203037276\
         73076578616d706c6503636f6d00");
    has("b.example.com. 60 APL 00011503c0a82000011c83c0a82600020000");
    has("c.example.com. 60 CSYNC 000000420003000460000008010140");
    has("d.example.com. 60 SPF 06763d73706631042d616c6c");
    let wrong = [
        ("a EUI48 00-00-5e-00-53", "6 bytes"),
        ("a EUI48 00-00-5e-00-53-2", "6 bytes"),
        ("a EUI64 00-00-5e-ef-10-00-00-2a-00", "8 bytes"),
        ("a NID 10 14:4fff:ff20", "four groups"),
        ("a NID 10 14:4fff:ff20:ee64f", "four groups"),
        ("a L32 10 10.1.2", "no IPv4 address"),
        ("a APL 1:192.0.2.0/33", "no prefix"),
        ("a APL 2:192.0.2.0/24", "no prefix"),
        ("a APL 1:192.0.2.0", "no prefix"),
        ("a CERT NOTHING 1 1 AQID", "no kind of certificate"),
        ("a CERT 1 1 NOTHING AQID", "no algorithm"),
        ("a DNSKEY 257 3 NOTHING AQID", "no algorithm"),
        ("a DNSKEY ZONE|NOTHING 3 8 AQID", "flags of a key"),
        ("a DNSKEY 257 3 8", "there is none"),
        ("a DS 1 8 NOTHING 00", "no kind of digest"),
        ("a DS 1 8 2", "digits are missing"),
        ("a RRSIG A 8 1 60 20301301000000 0 1 @ AQID", "no date"),
        ("a RRSIG A 8 1 60 20300229000000 0 1 @ AQID", "no date"),
        ("a NSEC3PARAM 1 0 0 abc", "odd number"),
        ("a IPSECKEY 10 1 2 gw AQID", "no IPv4 address"),
        ("a IPSECKEY 10 4 2 gw AQID", "no kind of gateway"),
        ("a AMTRELAY 10 2 0 .", "discovery bit"),
        ("a WKS 192.0.2.1 6 65536", "no service"),
        ("a NXT b SVCB TYPE128", "no type below 128"),
        ("a NSAP 4700", "begins with 0x"),
        ("a CERT 1 1 1 AQI", "base 64"),
        ("a DHCID *", "base 64"),
        ("a CSYNC 1 2 NOTHING", "no type"),
        ("a HIP 2 2 AQID", "odd number"),
        ("a SPF", "unexpected end"),
        ("a EUI48 00-00-5e-00-53-2a more", "more than this type has"),
    ];
    for (line, part) in wrong {
        let errors = errors(&format!("{line}\n"));
        assert!(errors.iter().any(|error| error.contains(part)), "{line}: {errors:?}");
    }
}

/// RFC 4034 sections 2.2, 3.2 and 5.3, and what NSD and BIND take besides: `tests/tests/dns_peers/zone_files.rs` asks them.
#[test]
fn words_for_numbers() {
    let pairs = [
        ("DNSKEY 257 3 ECDSAP256SHA256 AQID", "DNSKEY 257 3 13 AQID"),
        ("DNSKEY ZONE|KSK DNSSEC ed25519 AQID", "DNSKEY 257 3 15 AQID"),
        ("CDNSKEY 0 3 DELETE AA==", "CDNSKEY 0 3 0 AA=="),
        ("DS 1 RSASHA1-NSEC3-SHA1 SHA-256 00ff", "DS 1 7 2 00ff"),
        ("CDS 1 ECC-GOST SHA384 00ff", "CDS 1 12 4 00ff"),
        ("DLV 1 PRIVATEOID 2 00ff", "DLV 1 254 2 00ff"),
        (
            "RRSIG NSEC3PARAM RSASHA512 1 1h 20300101000000 20000229235959 7 b AQID",
            "RRSIG TYPE51 10 1 3600 1893456000 951868799 7 b AQID",
        ),
        ("SIG A DSA 1 60 20300101000000 1 7 b AQID", "SIG A 3 1 60 1893456000 1 7 b AQID"),
        ("KEY NOCONF|HOST TLS RSAMD5", "KEY 16896 1 1"),
        ("CERT pgp 7 DH AQID", "CERT 3 7 2 AQID"),
        ("NSEC3PARAM SHA-1 0 5 -", "NSEC3PARAM 1 0 5 -"),
        (
            "NSEC3 SHA-1 0 5 aabb 2t7b4g4vsa5smi47k61mv5bv1a22bojr A",
            "NSEC3 1 0 5 AABB 2T7B4G4VSA5SMI47K61MV5BV1A22BOJR a",
        ),
        ("WKS 192.0.2.1 tcp smtp domain", "WKS 192.0.2.1 6 53 25"),
        ("DSYNC CDS NOTIFY 53 b", "TYPE66 \\# 20 003b0100350162076578616d706c6503636f6d00"),
        ("IPSECKEY 10 0 2 .", "IPSECKEY \\# 3 0a0002"),
        ("IPSECKEY 10 2 2 2001:db8::1 AQID", "IPSECKEY \\# 22 0a020220010db8000000000000000000000001010203"),
        ("AMTRELAY 10 1 1 192.0.2.1", "AMTRELAY \\# 6 0a81c0000201"),
        ("NXT b A MX", "NXT \\# 17 0162076578616d706c6503636f6d004001"),
        ("NSAP 0x47.0005.80", "NSAP \\# 4 47000580"),
        ("NSAP-PTR b", "TYPE23 b"),
    ];
    for (word, number) in pairs {
        let data = |text: &str| {
            let zone = read(&format!("$TTL 60\n@ SOA a. b. 1 2 3 4 5\nk {text}\n"));
            lines(&zone).pop().unwrap()
        };
        assert_eq!(data(word), data(number), "{word}");
    }
}

#[test]
fn where_no_ttl_is_written() {
    let ttls = |text: &str| -> Vec<String> {
        let zone = read(text);
        lines(&zone).iter().map(|line| line.split(' ').take(2).collect::<Vec<_>>().join(" ")).collect()
    };
    let soa = "@ SOA a. b. 1 2 3 4 5m\n";
    assert_eq!(ttls(&format!("{soa}a A 192.0.2.1\n")), ["example.com. 300", "a.example.com. 300"]);
    // The minimum holds until $TTL; a record's own is its own.
    let text = format!("b A 192.0.2.1\n{soa}a 77 A 192.0.2.1\nc A 192.0.2.1\n$TTL 9\nd A 192.0.2.1\n");
    let expected =
        ["example.com. 300", "a.example.com. 77", "b.example.com. 300", "c.example.com. 300", "d.example.com. 9"];
    assert_eq!(ttls(&text), expected);
    // RFC 1035 section 5.1: the last one's, if the SOA record has one.
    assert_eq!(ttls(&format!("@ 500 {}a A 192.0.2.1\n", &soa[2..])), ["example.com. 500", "a.example.com. 500"]);
    // RFC 2181 section 8.
    let (zone, problems) = read_text(&apex(), Path::new("zone"), &format!("{soa}a 2147483648 A 192.0.2.1\n")).unwrap();
    assert_eq!(lines(&zone).pop().unwrap(), "a.example.com. 0 A c0000201");
    assert!(problems.iter().any(|problem| problem.to_string().contains("zone:2: warning: the TTL 2147483648")));
    let error = read_text(&apex(), Path::new("zone"), "a A 192.0.2.1\n").unwrap_err();
    assert!(error.0.iter().any(|problem| problem.to_string().contains("zone:1: error: no TTL")), "{error:?}");
}

/// RFC 2181 section 10.1, RFC 6672 section 2.4: NSD, BIND and Knot refuse these.
#[test]
fn ambiguous_zones_are_refused() {
    let cases = [
        ("a CNAME b\na CNAME c\n", "zone:2: error: a.example.com.: 2 CNAME records"),
        ("a A 192.0.2.1\na CNAME b\n", "zone:3: error: a.example.com.: a CNAME record beside A"),
        ("a CNAME b\na TXT x\n", "zone:2: error: a.example.com.: a CNAME record beside TXT"),
        ("a CNAME b\na DNAME c\n", "beside DNAME"),
        ("a CNAME b\na TYPE65280 \\# 0\n", "beside TYPE65280"),
        ("@ CNAME b\n", "zone:2: error: example.com.: a CNAME record beside SOA"),
        ("*.a CNAME b\n*.a A 192.0.2.1\n", "*.a.example.com.: a CNAME record beside A"),
        ("c NS d\nx.c CNAME b\nx.c A 192.0.2.1\n", "x.c.example.com.: a CNAME record beside A"),
        ("a DNAME b\na DNAME c\n", "zone:2: error: a.example.com.: 2 DNAME records"),
        ("a SOA a. b. 1 2 3 4 5\n", "zone:2: error: a.example.com.: a SOA record that is not"),
    ];
    for (text, expected) in cases {
        let found = errors(text);
        assert!(found.iter().any(|error| error.contains(expected)), "{text}: {found:#?}");
    }
    let fine = "a CNAME b\na CNAME b\na RRSIG CNAME 8 1 60 1 0 1 @ AQID\na NSEC b CNAME\na KEY 0 3 8 AQID\n\
                d DNAME e\nd A 192.0.2.1\n";
    read(&format!("$TTL 60\n@ SOA a. b. 1 2 3 4 5\n{fine}"));
    // What a primary sent is served, and told of.
    let mut copy = crate::zone::ZoneBuilder::copy(&apex());
    let name = |text: &str| Name::absolute(text).unwrap();
    let soa = [name("a").wire(), name("b").wire(), &[0; 20]].concat();
    copy.add(apex().wire(), 6, 60, &soa).unwrap();
    for target in ["b", "c"] {
        copy.add(name("a.example.com").wire(), 5, 60, name(target).wire()).unwrap();
    }
    let (_, problems) = copy.finish().unwrap();
    assert!(problems.len() == 1 && problems[0].is_warning, "{problems:?}");
}

#[test]
fn files_have_a_kind_and_a_number() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("main");
    let error = |text: &str| {
        std::fs::write(&path, format!("@ 1 SOA a. b. 7 2 3 4 5\n{text}")).unwrap();
        read_file(&apex(), &path, &mut |_| {}).unwrap_err().to_string()
    };
    assert!(error("$INCLUDE /dev/zero\n").contains("main:2: error: /dev/zero: it is a device"));
    assert!(error("$INCLUDE .\n").contains("a directory"));
    std::fs::File::create(directory.path().join("large")).unwrap().set_len(BYTES_MAX).unwrap();
    assert!(error("\n$INCLUDE large\n").contains("main:3: error: "), "no room beside the file that includes it");
    std::fs::write(directory.path().join("empty"), "").unwrap();
    assert!(error(&"$INCLUDE empty\n".repeat(FILES_MAX)).contains("more than 10000 files"));
    assert!(read_file(&apex(), Path::new("/dev/zero"), &mut |_| {}).unwrap_err().to_string().contains("a device"));
}

/// BIND: what stands in quotes after the type is all of the data, whatever it has in it.
#[test]
fn generated_data_in_quotes() {
    let zone = read(
        "$TTL 60\n@ SOA a. b. 1 2 3 4 5\n$GENERATE 1-1 a$ MX \"10 m$\"\n$GENERATE 1-1 b$ 9 IN TXT \"x $ y\"\n\
         $GENERATE 1-1 c$ TXT \"\\\"x $\\\"\"\n$GENERATE 1-1 d$ A \"192.0.2.$\"\n$GENERATE 1-1 e$ TXT \"x;$\" \"y z\"\n",
    );
    let expected = [
        "a1.example.com. 60 MX 000a026d31076578616d706c6503636f6d00",
        "b1.example.com. 9 TXT 017801310179",
        "c1.example.com. 60 TXT 03782031",
        "d1.example.com. 60 A c0000201",
        "e1.example.com. 60 TXT 03783b310379207a",
    ];
    let found = lines(&zone);
    for line in expected {
        assert!(found.iter().any(|own| own == line), "{line}: {found:#?}");
    }
}

#[test]
fn generate_and_include() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("main");
    std::fs::write(
        &path,
        "$TTL 60\n@ SOA a. b. 7 2 3 4 5\n$INCLUDE more inner\nlast A 192.0.2.1\n$GENERATE 1-3 h$ A 192.0.2.$\n",
    )
    .unwrap();
    std::fs::write(directory.path().join("more"), "x A 192.0.2.2\n$ORIGIN other\n").unwrap();
    let mut reports = 0;
    let (zone, problems) = read_file(&apex(), &path, &mut |_| reports += 1).unwrap();
    assert!(problems.is_empty() && reports > 0);
    let owners: Vec<String> = zone.records().map(|record| name::Presentation(record.owner).to_string()).collect();
    assert_eq!(
        owners,
        [
            "example.com.",
            "h1.example.com.",
            "h2.example.com.",
            "h3.example.com.",
            "x.inner.example.com.",
            "last.example.com."
        ]
    );
    assert_eq!(guess_apex(&path), None);
    std::fs::write(&path, "$ORIGIN Example.com.\n@ SOA a. b. 7 2 3 4 5\n").unwrap();
    assert_eq!(guess_apex(&path), Some(apex()));
    std::fs::write(&path, "@ 1 SOA a. b. 7 2 3 4 5\n$INCLUDE main\n").unwrap();
    let error = read_file(&apex(), &path, &mut |_| {}).unwrap_err().to_string();
    assert!(error.contains("included more than"), "{error}");
}

#[test]
fn errors_have_place_and_remedy() {
    let cases = [
        ("a A 192.0.2.256\n", "zone:2: error: A: "),
        ("a A\n", "zone:2: error: A: "),
        ("a A 192.0.2.1 x\n", "zone:2: error: A: `x` is more"),
        ("\n\na FOO x\n", "zone:4: error: `FOO` is no type"),
        ("a CH TXT x\n", "class CH: only IN"),
        ("a..b A 192.0.2.1\n", "an empty label"),
        ("a TYPE65280 \\# 2 ab\n", "1 bytes where 2 are announced"),
        ("a NS \\# 2 c00c\n", "no data of type NS"),
        ("$TTL x\n", "`x` is no TTL"),
        ("$FOO x\n", "is no directive"),
        ("$GENERATE 1-2 a$ A 192.0.2.${\n", "without `}`"),
        ("a ( A 192.0.2.1\n", "never closed"),
        ("@ SOA a. b. 2 2 3 4 5\n", "2 SOA records"),
        ("a OPT \\# 0\n", "OPT is no type of data"),
        ("$INCLUDE nothing-there\n", "nothing-there: "),
    ];
    for (text, expected) in cases {
        let found = errors(text);
        assert!(found.iter().any(|error| error.contains(expected)), "{text}: {found:#?}");
    }
    let many = errors(&"x\n".repeat(500));
    assert!(many.len() <= 101, "{}", many.len());
    let none = read_text(&apex(), Path::new("zone"), "a 60 A 192.0.2.1\n").unwrap_err().to_string();
    assert!(none.contains("no SOA record at example.com."), "{none}");
    let missing = read_file(&apex(), Path::new("/nowhere/zone"), &mut |_| {}).unwrap_err().to_string();
    assert!(missing.contains("/nowhere/zone: error: ") && !missing.contains("more"), "{missing}");
}

#[test]
fn times() {
    for (text, seconds) in
        [("0", 0), ("3600", 3_600), ("1h30m", 5_400), ("1W2D", 777_600), ("2147483647", 2_147_483_647)]
    {
        assert_eq!(time::parse(text), Some(seconds), "{text}");
    }
    for wrong in ["", "h", "1x", "2147483648", "99999999999999999999", "-1"] {
        assert_eq!(time::parse(wrong), None, "{wrong}");
    }
}
