//! Every answer of ours beside NSD's and Knot's: for each name, type and DO bit of several zones the same flags, response
//! code and record sets; where servers differ, the RFC's words.
#![forbid(unsafe_code)]

use qanat_dns::answer::{Origin, Responder, Transport};
use qanat_dns::image::{Catalog, ZoneImage};
use qanat_dns::layout::{self, Field};
use qanat_dns::name::Name;
use qanat_dns::zone::parse::read_file;
use qanat_dns::zone::{rtype, type_name};
use qanat_tests::e2e::{Program, Running, Signed, eventually, scenario, workspace};
use qanat_tests::random::Random;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::net::UdpSocket;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

#[path = "dns_peers/generator.rs"]
mod generator;
#[path = "dns_peers/zone_files.rs"]
mod zone_files;

const NSD: &str = "127.0.0.1:5301";
const KNOT: &str = "127.0.0.1:5302";
/// Names of a generated zone, about.
const GENERATED_NAMES: usize = 120;
/// Types asked for, at every name.
const TYPES: [u16; 15] = [1, 2, 5, 6, 15, 16, 28, 33, 39, 43, 47, 48, 51, 65, 65_280];

/// An answer without what may differ: order, case of letters, compression.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
struct Answer {
    flags: String,
    answer: BTreeSet<String>,
    authority: BTreeSet<String>,
    additional: BTreeSet<String>,
}

fn u16_at(message: &[u8], at: usize) -> u16 {
    u16::from_be_bytes([message[at], message[at + 1]])
}

/// A name, decompressed and in small letters, and where it ends.
fn name_at(message: &[u8], start: usize) -> (String, usize) {
    let (mut at, mut end, mut wire) = (start, None, Vec::new());
    loop {
        match message[at] {
            0 => {
                wire.push(0);
                let name = Name::from_wire(&wire).expect("a name").to_lowercase();
                return (name.to_string(), end.unwrap_or(at + 1));
            }
            high @ 0xc0.. => {
                end = end.or(Some(at + 2));
                let to = usize::from(high & 0x3f) << 8 | usize::from(message[at + 1]);
                assert!(to < at, "pointers lead back");
                at = to;
            }
            length => {
                wire.extend_from_slice(&message[at..=at + usize::from(length)]);
                at += usize::from(length) + 1;
            }
        }
    }
}

fn parse(message: &[u8]) -> Answer {
    let mut answer = Answer::default();
    for (mask, name) in [(0x80, "QR"), (0x04, "AA"), (0x02, "TC"), (0x01, "RD")] {
        if message[2] & mask != 0 {
            answer.flags += name;
            answer.flags += " ";
        }
    }
    answer.flags += &format!("rcode {}", message[3] & 0xf);
    let mut at = 12;
    for _ in 0..u16_at(message, 4) {
        at = name_at(message, at).1 + 4;
    }
    for (section, count) in [u16_at(message, 6), u16_at(message, 8), u16_at(message, 10)].into_iter().enumerate() {
        for _ in 0..count {
            let (owner, after) = name_at(message, at);
            let rtype = u16_at(message, after);
            let ttl = u32::from_be_bytes(message[after + 4..after + 8].try_into().expect("four bytes"));
            let start = after + 10;
            let end = start + usize::from(u16_at(message, after + 8));
            let mut record = format!("{owner} {ttl} {}", type_name(rtype));
            let mut place = start;
            for field in layout::fields(rtype) {
                if *field == Field::Name {
                    let (name, after) = name_at(message, place);
                    record += &format!(" {name}");
                    place = after;
                } else {
                    let length = layout::length(*field, &message[place..end]).expect("whole data");
                    let hex: String = message[place..place + length].iter().map(|byte| format!("{byte:02x}")).collect();
                    record += &format!(" {hex}");
                    place += length;
                }
            }
            assert_eq!(place, end, "{record}");
            at = end;
            if rtype != rtype::OPT {
                [&mut answer.answer, &mut answer.authority, &mut answer.additional][section].insert(record);
            }
        }
    }
    assert_eq!(at, message.len(), "nothing after the last record");
    answer
}

fn query(name: &[u8], qtype: u16, dnssec: bool) -> Vec<u8> {
    let mut message = vec![0x12, 0x34, 0, 0, 0, 1, 0, 0, 0, 0, 0, 1];
    message.extend_from_slice(name);
    message.extend_from_slice(&qtype.to_be_bytes());
    message.extend_from_slice(&[0, 1, 0, 0, 41, 0x10, 0, 0, 0, if dnssec { 0x80 } else { 0 }, 0, 0, 0]);
    message
}

struct Peer {
    name: &'static str,
    socket: UdpSocket,
}

impl Peer {
    fn new(name: &'static str, address: &str) -> Peer {
        let socket = UdpSocket::bind("127.0.0.1:0").expect("a socket");
        socket.connect(address).expect("an address");
        socket.set_read_timeout(Some(Duration::from_secs(2))).expect("a timeout");
        Peer { name, socket }
    }

    fn ask(&self, request: &[u8]) -> Option<Answer> {
        let mut bytes = [0; 65_535];
        self.socket.send(request).ok()?;
        let length = self.socket.recv(&mut bytes).ok()?;
        Some(parse(&bytes[..length]))
    }

    /// All at once; identifiers tell the answers apart.
    fn ask_all(&self, requests: &[Vec<u8>]) -> Vec<Option<Answer>> {
        let mut answers = vec![None; requests.len()];
        for (identifier, request) in requests.iter().enumerate() {
            let mut request = request.clone();
            request[..2].copy_from_slice(&(identifier as u16).to_be_bytes());
            self.socket.send(&request).expect("a question sent");
        }
        let mut bytes = [0; 65_535];
        for _ in requests {
            let Ok(length) = self.socket.recv(&mut bytes) else { break };
            if let Some(answer) = answers.get_mut(usize::from(u16_at(&bytes, 0))) {
                *answer = Some(parse(&bytes[..length]));
            }
        }
        answers
    }
}

/// The three servers with the same zones.
struct Bench {
    responder: Responder,
    catalog: Catalog,
    peers: Vec<Peer>,
    _running: Vec<Running>,
}

impl Bench {
    fn new(directory: &Path, zones: &[(&str, PathBuf)]) -> Bench {
        let images = zones.iter().map(|(apex, path)| {
            let apex = Name::absolute(apex).expect("a name");
            let (zone, _) = read_file(&apex, path, &mut |_| {}).unwrap_or_else(|error| panic!("{:#?}", error.0));
            Arc::new(ZoneImage::compile(&zone, &mut |_| {}).expect("an image"))
        });
        let settings = qanat_dns::answer::Settings { udp_payload_max: 4_096, ..Default::default() };
        let (responder, catalog) = (Responder { settings }, Catalog::new(images));
        let at = directory.display();
        let mut nsd = format!(
            "server:\n ip-address: 127.0.0.1@5301\n username: \"\"\n chroot: \"\"\n zonesdir: {at}\n pidfile: {at}/nsd.pid\n \
             xfrdfile: {at}/xfrd\n zonelistfile: {at}/zonelist\n xfrdir: {at}\n server-count: 1\n rrl-ratelimit: 0\n \
             minimal-responses: yes\n refuse-any: no\n ipv4-edns-size: 4096\nremote-control:\n control-enable: no\n"
        );
        let mut knot = format!(
            "server:\n  rundir: {at}\n  listen: 127.0.0.1@5302\n  udp-max-payload: 4096\n  automatic-acl: off\n\
             log:\n  - target: stderr\n    any: warning\ndatabase:\n  storage: {at}/knot\ntemplate:\n  - id: default\n    \
             semantic-checks: off\n    zonefile-sync: -1\n    journal-content: none\nzone:\n"
        );
        for (apex, path) in zones {
            nsd += &format!("zone:\n name: {apex}\n zonefile: {}\n", path.display());
            knot += &format!("  - domain: {apex}\n    file: {}\n", path.display());
        }
        fs::write(directory.join("nsd.conf"), nsd).expect("a file");
        fs::write(directory.join("knot.conf"), knot).expect("a file");
        let start = |program: &str, arguments: &[&str], config: &str| {
            Program::new(program).arguments(arguments).arguments([directory.join(config)]).start()
        };
        let running = vec![start("nsd", &["-d", "-c"], "nsd.conf"), start("knotd", &["-c"], "knot.conf")];
        let peers = vec![Peer::new("NSD", NSD), Peer::new("Knot", KNOT)];
        for peer in &peers {
            for (apex, _) in zones {
                let apex = Name::absolute(apex).expect("a name");
                eventually(&format!("{} with {apex}", peer.name), Duration::from_secs(20), || {
                    peer.ask(&query(apex.wire(), 6, false)).is_some_and(|answer| answer.answer.len() == 1)
                });
            }
        }
        Bench { responder, catalog, peers, _running: running }
    }

    fn ours(&self, request: &[u8]) -> Answer {
        let origin = Origin {
            transport: Transport::Udp { payload_max: 4_096 },
            peer: "127.0.0.1".parse().expect("an address"),
            now_s: 0,
        };
        let mut out = vec![0; 4_096];
        let outcome = self.responder.answer(&self.catalog, request, &origin, &mut out);
        parse(&out[..outcome.length])
    }

    /// Names worth asking for: all there are, above, below and beside them.
    fn names(&self, path: &Path, apex: &str) -> BTreeSet<Vec<u8>> {
        let apex = Name::absolute(apex).expect("a name");
        let (zone, _) = read_file(&apex, path, &mut |_| {}).expect("a zone");
        let mut names = BTreeSet::new();
        let mut add = |first: &[u8], rest: &[u8]| {
            let whole = [first, rest].concat();
            names.extend(Name::from_wire(&whole).map(|name| name.wire().to_vec()));
        };
        for record in zone.records() {
            // Hashed names are asked for in a test of their own.
            if zone.has(record.owner, rtype::NSEC3) {
                continue;
            }
            let mut owner = record.owner;
            while owner.len() >= apex.wire().len() {
                for first in [&b""[..], b"\x01*", b"\x09something", b"\x01\0", b"\x01a\x01b", b"\x01x", b"\x03www"] {
                    add(first, owner);
                }
                match qanat_dns::name::parent(owner) {
                    Some(parent) => owner = parent,
                    None => break,
                }
            }
        }
        let long = [1u8, b'a'].repeat(100);
        add(&long, &[b"\x05dname", apex.wire()].concat());
        add(&long, &[b"\x09dnamelong", apex.wire()].concat());
        add(&long, apex.wire());
        names
    }

    /// Asks everything; gives how many questions, and every disagreement that is not explained.
    fn compare(&self, zones: &[(&str, PathBuf)]) -> (usize, Vec<String>, BTreeMap<&'static str, usize>) {
        let (mut asked, mut wrong, mut explained) = (0, Vec::new(), BTreeMap::new());
        for (apex, path) in zones {
            let tree = Tree::new(path, apex);
            for name in self.names(path, apex) {
                let kinds: Vec<(u16, bool)> =
                    TYPES.iter().flat_map(|qtype| [(*qtype, false), (*qtype, true)]).collect();
                let requests: Vec<Vec<u8>> =
                    kinds.iter().map(|(qtype, dnssec)| query(&name, *qtype, *dnssec)).collect();
                let ours: Vec<Answer> = requests.iter().map(|request| reduced(self.ours(request))).collect();
                for peer in &self.peers {
                    for ((ours, theirs), (qtype, dnssec)) in ours.iter().zip(peer.ask_all(&requests)).zip(&kinds) {
                        asked += 1;
                        let Some(theirs) = theirs.map(reduced) else {
                            wrong.push(format!("{} is silent", peer.name));
                            continue;
                        };
                        if *ours == theirs {
                            continue;
                        }
                        let shown = Name::from_wire(&name).expect("a name");
                        match explanation(&tree, peer.name, (&shown.to_string(), *qtype), ours, &theirs) {
                            Some(reason) => *explained.entry(reason).or_default() += 1,
                            None => wrong.push(format!(
                                "{shown} {} DO={dnssec} {}: {}",
                                type_name(*qtype),
                                peer.name,
                                difference(ours, &theirs)
                            )),
                        }
                    }
                }
            }
        }
        (asked, wrong, explained)
    }
}

/// The names of a zone, and those between them without records.
struct Tree {
    owners: BTreeSet<String>,
    all: BTreeSet<String>,
    /// CNAME records.
    aliases: BTreeMap<String, String>,
}

impl Tree {
    fn new(path: &Path, apex: &str) -> Tree {
        let (zone, _) = read_file(&Name::absolute(apex).expect("a name"), path, &mut |_| {}).expect("a zone");
        let mut tree = Tree { owners: BTreeSet::new(), all: BTreeSet::new(), aliases: BTreeMap::new() };
        for record in zone.records() {
            let Some(owner) = Name::from_wire(record.owner).map(|name| name.to_string()) else { continue };
            if let Some(target) = Name::from_wire(record.data).filter(|_| record.rtype == rtype::CNAME) {
                tree.aliases.insert(owner.clone(), target.to_lowercase().to_string());
            }
            tree.owners.insert(owner);
            let mut at = Some(record.owner);
            while let Some(name) = at {
                tree.all.extend(Name::from_wire(name).map(|name| name.to_string()));
                at = qanat_dns::name::parent(name);
            }
        }
        tree
    }

    /// The wildcard that stands in for `name`, were it there.
    fn wildcard(&self, name: &str) -> String {
        let nearest = name.match_indices('.').map(|(at, _)| &name[at + 1..]).find(|above| self.all.contains(*above));
        format!("*.{}", nearest.unwrap_or_default())
    }

    /// Whether CNAME records, wildcards among them, lead from `name` to a name met before.
    fn goes_round(&self, name: &str) -> bool {
        let (mut at, mut met) = (name.to_owned(), BTreeSet::new());
        while met.insert(at.clone()) {
            let owner = if self.all.contains(&at) { at } else { self.wildcard(&at) };
            match self.aliases.get(&owner) {
                Some(target) => at = target.clone(),
                None => return false,
            }
        }
        true
    }

    /// Whether a wildcard that only has names below stands in for `name`.
    fn has_empty_wildcard(&self, name: &str) -> bool {
        let wildcard = self.wildcard(name);
        self.all.contains(&wildcard) && !self.owners.contains(&wildcard)
    }
}

/// Where the CNAME records of an answer lead from `name`; `None`: in a circle, or on and on.
fn end_of_chain(name: &str, answer: &Answer) -> Option<String> {
    let aliases: BTreeMap<&str, &str> = answer
        .answer
        .iter()
        .filter_map(|record| {
            let (left, target) = record.split_once(" CNAME ")?;
            Some((left.split_once(' ')?.0, target))
        })
        .collect();
    if aliases.len() >= 16 {
        return None;
    }
    let mut at = name.to_lowercase();
    for _ in 0..=aliases.len() {
        match aliases.get(at.as_str()) {
            Some(target) => at = (*target).to_owned(),
            None => return Some(at),
        }
    }
    None
}

/// What only one of two answers has.
fn difference(ours: &Answer, theirs: &Answer) -> String {
    let mut text = String::new();
    if ours.flags != theirs.flags {
        text += &format!("[{} | {}]", ours.flags, theirs.flags);
    }
    let sections = [
        ("answer", &ours.answer, &theirs.answer),
        ("authority", &ours.authority, &theirs.authority),
        ("additional", &ours.additional, &theirs.additional),
    ];
    for (section, ours, theirs) in sections {
        ours.difference(theirs).for_each(|record| text += &format!("\n    {section} only ours: {record}"));
        theirs.difference(ours).for_each(|record| text += &format!("\n    {section} only theirs: {record}"));
    }
    text
}

/// The additional section matters for referrals only (glue); signatures in it are anyone's choice, as is whatever a server
/// adds to complete answers (RFC 1034 section 4.3.2 step 6 "may be useful"; we are minimal).
fn reduced(mut answer: Answer) -> Answer {
    let referral = !answer.flags.contains("AA") && answer.authority.iter().any(|record| record.contains(" NS "));
    answer.additional.retain(|record| referral && !record.contains(" RRSIG "));
    answer
}

/// Whether two answers differ in nothing but NSEC and NSEC3 records and their signatures.
fn only_proofs(ours: &Answer, theirs: &Answer) -> bool {
    ours.flags == theirs.flags
        && ours.answer == theirs.answer
        && ours.additional == theirs.additional
        && ours
            .authority
            .symmetric_difference(&theirs.authority)
            .all(|record| [" NSEC ", " NSEC3 ", " RRSIG 002f", " RRSIG 0032"].iter().any(|part| record.contains(part)))
}

/// Disagreements that are to be, by the RFC's words; in each the third server is with us, or there is no word.
fn explanation(
    tree: &Tree,
    peer: &str,
    (name, qtype): (&str, u16),
    ours: &Answer,
    theirs: &Answer,
) -> Option<&'static str> {
    let has = |section: &BTreeSet<String>, part: &str| section.iter().any(|record| record.contains(part));
    let Some(end) = end_of_chain(name, ours).filter(|end| !tree.goes_round(end)) else {
        return Some("loops: no RFC says how often a server goes round; at most 16 times here");
    };
    if peer == "Knot" && ours.flags.ends_with("rcode 6") {
        return Some("RFC 6672 section 3.2 step 3C: \"set RCODE to YXDOMAIN and exit\"; Knot adds records");
    }
    if peer == "NSD" && ours.answer.iter().filter(|record| record.contains(" CNAME ")).count() > 1 {
        return Some("RFC 6672 section 3.2 step 3C: \"go back to step 1\", at the same DNAME record too");
    }
    if peer == "Knot" && name.ends_with(".wildns.corners.test.") {
        return Some("RFC 4592 section 4.2: NS at a wildcard is undefined; we and NSD take it as data");
    }
    if peer == "NSD" && has(&ours.answer, " DNAME ") && only_proofs(ours, theirs) {
        return Some(
            "RFC 4035 section 3.1.3: proofs are for the name after a DNAME; NSD proves something about another",
        );
    }
    if peer == "Knot" && only_proofs(ours, theirs) && ours.authority.is_superset(&theirs.authority) {
        if qtype == rtype::NSEC && has(&ours.answer, " NSEC ") {
            return Some(
                "RFC 4035 section 3.1.3.3: the proof goes into the authority section; Knot leaves out what it answered",
            );
        }
        if tree.has_empty_wildcard(&end) {
            return Some("RFC 4035 section 3.1.3.4: proof for a wildcard without records too; Knot leaves it out");
        }
        let chained = has(&ours.answer, " DNAME ") || has(&ours.answer, " CNAME ");
        if chained && (name.starts_with("*.") || has(&ours.answer, " CNAME *.")) {
            return Some(
                "RFC 4035 section 3.1.3.3: proof that no nearer name is there; Knot takes a name with * for the wildcard",
            );
        }
    }
    if peer == "NSD"
        && end.starts_with("*.")
        && only_proofs(ours, theirs)
        && theirs.authority.is_superset(&ours.authority)
    {
        return Some("RFC 5155 section 7.2.3: the record of the name itself is the proof; NSD adds another");
    }
    if peer == "NSD"
        && tree.all.contains(&tree.wildcard(&end))
        && has(&ours.authority, " NSEC3 ")
        && only_proofs(ours, theirs)
        && ours.authority.is_superset(&theirs.authority)
    {
        return Some(
            "RFC 5155 section 7.2.5: \"MUST include\" the closest encloser's record too; NSD leaves it out now and then",
        );
    }
    if peer == "NSD" && name.ends_with(".wildns.corners.test.") && only_proofs(ours, theirs) {
        return Some("RFC 4592 section 4.2: NS at a wildcard is undefined; NSD proves less");
    }
    if peer == "Knot" && qtype == rtype::NSEC && has(&ours.answer, " CNAME ") {
        return Some("RFC 4592 section 3.3: a wildcard stands in for every type; Knot leaves out NSEC");
    }
    None
}

fn corners(directory: &Path) -> Vec<(&'static str, PathBuf)> {
    let corners = directory.join("corners.zone");
    fs::copy(workspace().join("tests/data/dns/corners.zone"), &corners).expect("the zone");
    vec![("corners.test", corners)]
}

fn check(directory: &Path, zones: &[(&'static str, PathBuf)]) {
    let bench = Bench::new(directory, zones);
    let (asked, wrong, explained) = bench.compare(zones);
    println!("{asked} questions, {} disagreements, explained: {explained:#?}", wrong.len());
    // One example of each kind is enough.
    let mut shown = BTreeSet::new();
    for disagreement in &wrong {
        let kind = disagreement.split_once(": ").map_or("", |(_, kind)| kind);
        if shown.len() < 40 && shown.insert(kind) {
            println!("{disagreement}");
        }
    }
    assert!(wrong.is_empty(), "{} of {asked} answers differ", wrong.len());
}

#[test]
fn unsigned_zones() {
    scenario(|| {
        let directory = tempfile::tempdir().expect("a directory");
        let zones = corners(directory.path());
        check(directory.path(), &zones);
    });
}

#[test]
fn zones_signed_with_nsec() {
    scenario(|| {
        let directory = tempfile::tempdir().expect("a directory");
        let zones = corners(directory.path());
        let signed = Signed::new(directory.path(), "corners.test", &zones[0].1, &[]).zone;
        check(directory.path(), &[("corners.test", signed)]);
    });
}

#[test]
fn zones_signed_with_nsec3() {
    scenario(|| {
        let directory = tempfile::tempdir().expect("a directory");
        let zones = corners(directory.path());
        let signed = Signed::new(directory.path(), "corners.test", &zones[0].1, &["-n", "-t", "2", "-s", "aabb"]).zone;
        check(directory.path(), &[("corners.test", signed)]);
    });
}

#[test]
fn zones_signed_with_opt_out() {
    scenario(|| {
        let directory = tempfile::tempdir().expect("a directory");
        let zones = corners(directory.path());
        let signed = Signed::new(directory.path(), "corners.test", &zones[0].1, &["-n", "-p"]).zone;
        check(directory.path(), &[("corners.test", signed)]);
    });
}

/// Records of every type are read as others read them.
#[test]
fn presentation_formats() {
    scenario(|| {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("types.zone");
        fs::copy(workspace().join("tests/data/dns/types.zone"), &path).expect("the zone");
        let apex = Name::absolute("types.test").expect("a name");
        let bench = Bench::new(directory.path(), &[("types.test", path.clone())]);
        let (zone, _) = read_file(&apex, &path, &mut |_| {}).expect("a zone");
        for record in zone.records() {
            let request = query(record.owner, record.rtype, false);
            let ours = reduced(bench.ours(&request));
            assert_eq!(ours.answer.len(), 1, "{} {ours:?}", type_name(record.rtype));
            for peer in &bench.peers {
                let theirs = peer.ask(&request).map(reduced).expect("an answer");
                assert!(ours == theirs, "{} {}: {}", type_name(record.rtype), peer.name, difference(&ours, &theirs));
            }
        }
    });
}

/// Zones made of a seed, unsigned and signed in each way. `QANAT_SEED=n` makes others: what differs then is to be explained, or
/// mended, before it is a test.
#[test]
fn generated_zones() {
    let seed = std::env::var("QANAT_SEED").map_or(1, |text| text.parse().expect("a number"));
    println!("QANAT_SEED={seed}");
    scenario(|| {
        let directory = tempfile::tempdir().expect("a directory");
        let ways: [(&str, Option<&[&str]>); 5] = [
            ("plain.test", None),
            ("other.test", None),
            ("nsec.test", Some(&[])),
            ("nsec3.test", Some(&["-n", "-t", "2", "-s", "aabb"])),
            ("optout.test", Some(&["-n", "-p"])),
        ];
        let mut random = Random::new(seed);
        let zones = ways.map(|(apex, options)| {
            let path = directory.path().join(apex);
            fs::write(&path, generator::zone(&mut random, GENERATED_NAMES)).expect("a file");
            let signed = options.map(|options| Signed::new(directory.path(), apex, &path, options).zone);
            (apex, signed.unwrap_or(path))
        });
        check(directory.path(), &zones);
    });
}
