//! Zones nobody thought of: master files made of a seed, full of wildcards, aliases, chains, loops, delegations and empty
//! names between them.

use qanat_tests::random::Random;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

/// Few labels, so that names meet: one is below, beside or the target of another.
const LABELS: [&str; 14] =
    ["a", "b", "c", "d", "e", "Mix", "x1", "ns", "www", "_tcp", "deep", "z-9", "*", "longer-label"];
/// What a name may have beside others; `@` stands for any name.
const DATA: [&str; 14] = [
    "A 192.0.2.1",
    "A 192.0.2.77",
    "AAAA 2001:db8::7",
    "TXT \"some\" \"Text\"",
    "MX 10 @",
    "SRV 1 2 443 @",
    "HTTPS 1 . alpn=h2 ipv4hint=192.0.2.9",
    "SVCB 2 @ port=8443",
    "CAA 0 issue \"ca.example\"",
    "TLSA 3 1 1 00112233445566778899AABBCCDDEEFF00112233445566778899AABBCCDDEEFF",
    "TYPE65280 \\# 4 01020304",
    "NAPTR 1 2 \"s\" \"SIP+D2U\" \"\" @",
    "PTR @",
    "HINFO \"cpu\" \"os\"",
];

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Data,
    Alias,
    /// DNAME.
    Branch,
    Delegation,
}

/// One to four labels, relative to the zone. An asterisk stands first, as a wildcard, or rarely further on.
fn name(random: &mut Random) -> String {
    let count = 1 + random.below(4);
    let mut labels: Vec<&str> = (0..count).map(|_| random.pick(&LABELS)).collect();
    for label in labels.iter_mut().skip(1) {
        if *label == "*" && random.below(8) > 0 {
            *label = "e";
        }
    }
    labels.join(".")
}

/// Every name above `name`, itself first.
fn upwards(name: &str) -> impl Iterator<Item = &str> {
    std::iter::successors(Some(name), |name| name.split_once('.').map(|(_, above)| above))
}

fn names(random: &mut Random, count: usize) -> BTreeMap<String, Kind> {
    let mut all = BTreeMap::new();
    while all.len() < count {
        let name = name(random);
        let kind = match random.below(20) {
            0..=9 => Kind::Data,
            10..=14 => Kind::Alias,
            15 | 16 => Kind::Branch,
            _ => Kind::Delegation,
        };
        // A DNAME or NS record at a wildcard is undefined (RFC 4592, sections 4.2 and 4.4).
        let kind = if name.contains('*') && kind != Kind::Alias { Kind::Data } else { kind };
        // Case makes no other name.
        all.entry(name).or_insert(kind);
    }
    // Nothing is below a DNAME record or a delegation (glue comes later).
    let closed: BTreeSet<String> = all
        .iter()
        .filter(|(_, kind)| matches!(kind, Kind::Branch | Kind::Delegation))
        .map(|(name, _)| name.clone())
        .collect();
    all.retain(|name, _| !upwards(name).skip(1).any(|above| closed.contains(above)));
    all
}

/// Somewhere to point to: mostly a name there is, or near one.
fn target(random: &mut Random, all: &[&str]) -> String {
    let known = random.pick(all);
    match random.below(12) {
        0..=5 => known.to_owned(),
        6 | 7 => format!("{}.{known}", random.pick(&LABELS)),
        8 => known.split_once('.').map_or(known, |(_, above)| above).to_owned(),
        9 => name(random),
        10 => "www.elsewhere.example.".to_owned(),
        _ => known.to_ascii_uppercase(),
    }
}

/// A master file of about `count` names.
pub fn zone(random: &mut Random, count: usize) -> String {
    let kinds = names(random, count);
    let all: Vec<&str> = kinds.keys().map(String::as_str).collect();
    let mut text = "$TTL 3600\n@ SOA apexns host 7 7200 3600 1209600 300\n@ NS apexns\n@ NS away.elsewhere.example.\n\
                    @ MX 5 a\napexns A 192.0.2.99\n"
        .to_owned();
    let cuts: Vec<&str> =
        kinds.iter().filter(|(_, kind)| **kind == Kind::Delegation).map(|(name, _)| name.as_str()).collect();
    // Each set has one time to live.
    for (name, kind) in &kinds {
        let owner = if random.below(4) == 0 { name.to_ascii_uppercase() } else { name.clone() };
        match kind {
            Kind::Alias => {
                let _ = writeln!(text, "{owner} 300 CNAME {}", target(random, &all));
            }
            Kind::Branch => {
                let _ = writeln!(text, "{owner} DNAME {}", target(random, &all));
                if random.below(3) == 0 {
                    let _ = writeln!(text, "{owner} TXT \"beside\"");
                }
            }
            Kind::Data => {
                for _ in 0..=random.below(4) {
                    let data = random.pick(&DATA).replace('@', &target(random, &all));
                    let _ = writeln!(text, "{owner} {data}");
                }
            }
            Kind::Delegation => delegation(random, &owner, &cuts, &mut text),
        }
    }
    text
}

fn delegation(random: &mut Random, owner: &str, cuts: &[&str], text: &mut String) {
    for number in 0..=random.below(3) {
        let server = match random.below(5) {
            0 | 1 => format!("g{number}.{owner}"),
            // Its glue is another delegation's.
            2 => format!("g{number}.{}", random.pick(cuts)),
            3 => "apexns".to_owned(),
            _ => "ns.elsewhere.example.".to_owned(),
        };
        let _ = writeln!(text, "{owner} NS {server}");
        // Else it is missing.
        if server.starts_with('g') && random.below(4) > 0 {
            let _ = writeln!(text, "{server} A 192.0.2.{}", 100 + number);
            if random.below(2) == 0 {
                let _ = writeln!(text, "{server} AAAA 2001:db8::{number}");
            }
        }
    }
    if random.below(3) == 0 {
        let _ = writeln!(text, "{owner} DS 12345 13 2 {}", "0123456789ABCDEF".repeat(4));
    }
}
