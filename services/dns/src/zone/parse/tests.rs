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
    assert!(missing.contains("/nowhere/zone: error: "), "{missing}");
}

#[test]
fn times() {
    for (text, seconds) in
        [("0", 0), ("3600", 3_600), ("1h30m", 5_400), ("1W2D", 777_600), ("2147483647", 2_147_483_647)]
    {
        assert_eq!(time(text), Some(seconds), "{text}");
    }
    for wrong in ["", "h", "1x", "2147483648", "99999999999999999999", "-1"] {
        assert_eq!(time(wrong), None, "{wrong}");
    }
}
