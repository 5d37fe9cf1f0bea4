//! What a service may do to the memory it is given: attacks by a program that has none of our code
//! (`tests/hostile/split.py`), on a net core, then on one that hands over the same memory without its seals. There each
//! attack works; here none does.

use crate::attacker::{card_is_good, scene};
use crate::support::server;
use qanat::Commands;
use qanat_abi::{LAYOUT_HASH, Rings, VERSION};
use qanat_control::protocol::{receive, send};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, accept, bind, listen, socket_with};
use serde_json::{Value, json};
use std::net::SocketAddr;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// Runs attacks against a net core: whether they all worked, and what was said.
fn attack(path: &Path, card: &str, attacks: &[&str]) -> (bool, String) {
    let program = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/hostile/split.py");
    let Output { status, stdout, stderr } = Command::new("python3")
        .arg(program)
        .arg(path)
        .args([VERSION.to_string(), format!("{LAYOUT_HASH:016x}"), card.to_owned()])
        .args(attacks)
        .output()
        .expect("python3");
    let said = format!("{}{}", String::from_utf8_lossy(&stdout), String::from_utf8_lossy(&stderr));
    let prevented = status.code() == Some(3) || status.signal() == Some(11) || status.signal() == Some(7);
    assert!(said.contains("attached") && (status.success() || prevented), "{attacks:?}: {status}, {said}");
    (status.success(), said)
}

/// On received frames, and on memory's size.
const PREVENTED: [&str; 17] = [
    "write:received",
    "reopen:received",
    "pwrite:received",
    "punch:received",
    "truncate:received",
    "grow:received",
    "truncate:control",
    "truncate:small",
    "truncate:large",
    "grow:small",
    "write:copies",
    "reopen:copies",
    "punch:copies",
    "unseal:copies",
    "unseal:received",
    "unseal:control",
    "unseal:small",
];

/// What it is free to do with what is its own: the same code works there.
const ALLOWED: [&str; 6] =
    ["write:small", "write:large", "write:control", "pwrite:small", "reopen:large", "punch:small"];

#[test]
fn memory_is_what_it_is_given_as_and_without_seals_it_is_not() {
    let (core, mut peer, mut neighbour) = scene();
    let card = server(0).to_string();
    for name in PREVENTED {
        let (worked, said) = attack(&core.path, &card, &[name]);
        assert!(!worked, "{name}: {said}");
        neighbour.is_well();
    }
    let (worked, said) = attack(&core.path, &card, &ALLOWED);
    assert!(worked, "the control: {said}");
    neighbour.is_well();
    card_is_good(&core, &mut peer);
    neighbour.end();
    for name in PREVENTED {
        let (worked, said) = attack_unprotected(name);
        assert!(worked, "without protection it works: {name}: {said}");
    }
}

/// A memory file that nothing seals.
fn unsealed(length: u64) -> OwnedFd {
    let file = rustix::fs::memfd_create("unsealed", rustix::fs::MemfdFlags::ALLOW_SEALING).expect("a memory file");
    rustix::fs::ftruncate(&file, length).expect("a length");
    file
}

/// Against a net core that gives what it should, but not as it should.
fn attack_unprotected(name: &str) -> (bool, String) {
    let path = PathBuf::from(format!("@qanat-careless-{}-{}", std::process::id(), name.replace(':', "-")));
    let socket = socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None).expect("a socket");
    let abstract_name = path.to_str().and_then(|text| text.strip_prefix('@')).expect("a name");
    bind(&socket, &SocketAddrUnix::new_abstract_name(abstract_name.as_bytes()).expect("a name")).expect("binding");
    listen(&socket, 1).expect("listening");
    let careless = std::thread::spawn(move || {
        let service = accept(&socket).expect("a service");
        let mut buffer = vec![0; 16_384];
        let (_, _) = receive::<Value>(service.as_fd(), &mut buffer).expect("a wish");
        let files = [20_480, 1 << 20, 1 << 20, 1 << 20, 1 << 20].map(unsealed);
        send(service.as_fd(), json!({ "Attached": {} }), &files.each_ref().map(AsFd::as_fd)).expect("an answer");
        // Until it has ended.
        receive::<Value>(service.as_fd(), &mut buffer).is_ok()
    });
    let outcome = attack(&path, "any", &[name]);
    careless.join().expect("the careless one");
    outcome
}

// Attack: side channels: a neighbour's packets and the headers looked for in a service's memory
#[test]
fn neither_headers_nor_a_neighbours_packets_are_in_any_memory_it_has() {
    let (core, mut peer, mut neighbour) = scene();
    let card = server(0).to_string();
    let mut attacker = crate::attacker::Attacker::new(&core.path, 0);
    // The control: what is sent to it is found.
    attacker.say(qanat_abi::Command::BindUdp { request: 1, local: SocketAddr::new(server(0), 7) });
    let mut client = crate::support::Client::new(0, 0);
    peer.with_context(|context| qanat::Service::start(&mut client, context)).expect("a start");
    client.send_datagram(&mut peer, b"words for the attacker");
    let mut heard = None;
    while heard.is_none() {
        peer.turn(&mut client);
        attacker.ring();
        heard = attacker.hear().filter(|event| matches!(event, qanat_abi::Event::Datagram { .. }));
        client.send_datagram(&mut peer, b"words for the attacker");
    }
    let contains = |file: &OwnedFd, what: &[u8]| {
        let file = std::fs::File::from(file.try_clone().expect("a descriptor"));
        let mut bytes = vec![0; file.metadata().expect("a length").len() as usize];
        std::os::unix::fs::FileExt::read_exact_at(&file, &mut bytes, 0).expect("its memory");
        bytes.windows(what.len()).any(|window| window == what)
    };
    let found = |what: &[u8]| attacker.files.iter().any(|file| contains(file, what));
    assert!(found(b"words for the attacker"));
    // What it sends has headers that are nowhere in its memory: our Ethernet address as the source, the peer's before it.
    let mac: Vec<u8> = serde_json::from_value(attacker.attached["mac"].clone()).expect("an address");
    let sent_header = [&[2, 0, 0, 0, 0, 1][..], &mac].concat();
    let received_header = [&mac[..], &[2, 0, 0, 0, 0, 1]].concat();
    neighbour.says(b"words for the neighbour");
    assert!(found(&received_header), "the control: that of what it receives is");
    assert!(!found(&sent_header) && !found(b"words for the neighbour"));
    assert_eq!(attacker.files.len(), 5);
    drop(attacker);
    // By the other program, which maps it.
    let (worked, said) = attack(&core.path, &card, &["find:received:words for the attacker:1"]);
    assert!(worked, "the control: what the card received before is there for the same user's next service: {said}");
    let (worked, said) = attack(&core.path, &card, &["find:received:words for the neighbour:0.1"]);
    assert!(!worked, "{said}");
    peer.with_context(|context| context.close_udp(client.socket())).expect("a socket");
    card_is_good(&core, &mut peer);
    neighbour.end();
}

/// Rings are made whole: a layout of another size is refused by who opens it.
// Attack: descriptors: control memory that a net core could cut short
#[test]
fn control_memory_that_is_cut_short_is_refused_by_a_service_too() {
    assert!(Rings::open(unsealed(1 << 20).as_fd()).is_err());
}
