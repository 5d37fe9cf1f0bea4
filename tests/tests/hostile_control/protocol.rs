//! The control socket, abused.

use super::cards::{Control, rule, wish};
use super::running::descriptors;
use qanat_control::client::Session;
use qanat_control::filter::{Direction, Filter};
use qanat_control::protocol::{MESSAGE_BYTES_MAX, Request, VnicWish};
use qanat_control::refusal::Cause;
use qanat_tests::e2e::{Program, eventually, qanat, scenario};
use rustix::net::{
    AddressFamily, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketAddrUnix, SocketFlags,
    SocketType, connect, recv, sendmsg, socket_with,
};
use std::io::IoSlice;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};

fn raw(control: &Control) -> OwnedFd {
    let socket = socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None).expect("a socket");
    connect(&socket, &SocketAddrUnix::new(&control.socket).expect("an address")).expect("a connection");
    rustix::net::sockopt::set_socket_timeout(
        &socket,
        rustix::net::sockopt::Timeout::Recv,
        Some(Duration::from_secs(2)),
    )
    .expect("a time limit");
    socket
}

/// Sends bytes with descriptors, returns the answer's text; empty: cut off.
fn say(socket: &OwnedFd, bytes: &[u8], descriptors: usize) -> String {
    let file: OwnedFd = std::fs::File::open("/dev/null").expect("a file").into();
    let copies = vec![file.as_fd(); descriptors];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(64))];
    let mut beside = SendAncillaryBuffer::new(&mut space);
    if descriptors > 0 {
        assert!(beside.push(SendAncillaryMessage::ScmRights(&copies)));
    }
    if sendmsg(socket, &[IoSlice::new(bytes)], &mut beside, SendFlags::NOSIGNAL).is_err() {
        return String::new();
    }
    let mut answer = vec![0; 65_536];
    let (length, _) = recv(socket, &mut answer[..], RecvFlags::empty()).unwrap_or((0, 0));
    String::from_utf8_lossy(&answer[..length]).into_owned()
}

const STATUS: &[u8] = br#"{"version":3,"body":"status"}"#;

#[test]
fn nonsense_is_cut_off() {
    scenario(|| {
        let control = Control::generous();
        assert!(say(&raw(&control), STATUS, 0).contains("uptime_s"), "the positive control");
        let deep = [b"{\"version\":3,\"body\":".as_slice(), &vec![b'['; 20_000]].concat();
        let long = vec![b' '; MESSAGE_BYTES_MAX + 1];
        let padded = [STATUS, &vec![b' '; MESSAGE_BYTES_MAX]].concat();
        let nonsense: [(&str, &[u8], usize); 16] = [
            ("zeros", &[0; 64], 0),
            ("all ones", &[0xff; 64], 0),
            ("not UTF-8", b"{\"version\":3,\"body\":\"\xff\xfe\"}", 0),
            ("half a message", &STATUS[..STATUS.len() / 2], 0),
            ("two messages", &[STATUS, STATUS].concat(), 0),
            ("no version", b"{\"body\":\"status\"}", 0),
            ("version 0", b"{\"version\":0,\"body\":\"status\"}", 0),
            ("version 1", b"{\"version\":1,\"body\":\"status\"}", 0),
            ("version 4", b"{\"version\":4,\"body\":\"status\"}", 0),
            ("a version beyond numbers", b"{\"version\":99999999999999999999,\"body\":\"status\"}", 0),
            ("an unknown request", b"{\"version\":3,\"body\":\"format-disk\"}", 0),
            ("an unknown field", b"{\"version\":3,\"body\":{\"delete-vnic\":{\"vnic\":0,\"all\":true}}}", 0),
            ("a negative number", b"{\"version\":3,\"body\":{\"delete-vnic\":{\"vnic\":-1}}}", 0),
            ("very deep", &deep, 0),
            ("too long", &long, 0),
            ("a request with too long a tail", &padded, 0),
        ];
        for (name, bytes, descriptors) in nonsense {
            let socket = raw(&control);
            let answer = say(&socket, bytes, descriptors);
            assert!(answer.is_empty() || answer.contains("refused"), "{name}: {answer}");
            assert!(say(&socket, STATUS, 0).is_empty(), "{name}: whoever talks nonsense is cut off");
        }
        let before = descriptors(&control);
        let socket = raw(&control);
        say(&socket, STATUS, 60);
        assert!(say(&socket, STATUS, 0).is_empty(), "too many descriptors");
        drop(socket);
        for _ in 0..50 {
            assert!(say(&raw(&control), STATUS, 4).contains("takes no descriptors"), "some too many are refused");
        }
        eventually("descriptors sent along are closed", Duration::from_secs(5), || descriptors(&control) <= before);
        assert!(control.vnics().is_empty());
    });
}

#[test]
fn other_versions_are_told_the_remedy() {
    scenario(|| {
        let control = Control::generous();
        for (version, remedy) in
            [(1, "start the program anew"), (2, "start the program anew"), (4, "restart the daemon")]
        {
            let answer = say(&raw(&control), format!("{{\"version\":{version},\"body\":\"status\"}}").as_bytes(), 0);
            // In its own version, or it would understand nothing.
            let words = [
                format!("{{\"version\":{version},\"body\":{{\"refused\":\""),
                format!("daemon speaks version 3 of the control protocol, the program {version}"),
                remedy.to_owned(),
            ];
            assert!(words.iter().all(|word| answer.contains(word)), "{version}: {answer}");
        }
        // And our client by daemons of other versions, whatever they answer.
        for (version, remedy) in [(1, "restart the daemon"), (2, "restart the daemon"), (4, "start the program anew")] {
            let path = control.socket.with_file_name(format!("{version}.sock"));
            let flags = SocketFlags::CLOEXEC;
            let listener = socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None).expect("a socket");
            rustix::net::bind(&listener, &SocketAddrUnix::new(&path).expect("an address")).expect("bound");
            rustix::net::listen(&listener, 1).expect("listening");
            let session = Session::connect(&path).expect("a session");
            let theirs = rustix::net::accept(&listener).expect("a connection");
            let text = format!("{{\"version\":{version},\"body\":{{\"whatever\":[1,2]}}}}");
            rustix::net::send(&theirs, text.as_bytes(), SendFlags::empty()).expect("sent");
            let error = session.status().expect_err("no status").to_string();
            let words = [format!("daemon speaks version {version}"), "the program 3".to_owned(), remedy.to_owned()];
            assert!(words.iter().all(|word| error.contains(word)), "{version}: {error}");
        }
    });
}

/// Clients decide by the cause. A rule whose name reads like another refusal misleads nobody.
#[test]
fn refusals_have_causes_beside_their_texts() {
    scenario(|| {
        let control =
            Control::start(&rule("").replace("\"test\"", "\" is taken allows \"").replace("vnics = 64", "vnics = 2"));
        let session = control.session();
        let _held = session.create_vnic(wish(2, &[])).expect("a VNIC");
        let cause = |wish: VnicWish| session.create_vnic(wish).err().and_then(|error| error.refused());
        assert_eq!(cause(wish(2, &[])), Some(Cause::Taken));
        let elsewhere = VnicWish { addresses: vec![("10.99.0.2".parse().expect("an address"), 24)], ..wish(3, &[]) };
        assert_eq!(cause(elsewhere), Some(Cause::Forbidden));
        assert_eq!(cause(VnicWish { queues: 1_000, ..wish(3, &[]) }), Some(Cause::Forbidden));
        assert_eq!(cause(VnicWish { mtu: 1, ..wish(3, &[]) }), Some(Cause::Other));
        let _last = session.create_vnic(wish(3, &[])).expect("a VNIC");
        assert_eq!(cause(wish(4, &[])), Some(Cause::Full));
        let nobodys =
            socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None).expect("a socket");
        let error = session.reclaim(nobodys.as_fd()).expect_err("no handle");
        assert!(error.is_forgotten(), "{error}");
    });
}

// Attack: time and cost: all sessions of the daemon
#[test]
fn nobody_shuts_others_out() {
    scenario(|| {
        let control = Control::generous();
        let mut open = vec![control.session()];
        // Connections of one user end somewhere.
        for _ in 0..100 {
            if let Ok(session) = Session::connect(&control.socket) {
                open.push(session);
            }
        }
        let useful = open.iter().filter(|session| session.status().is_ok()).count();
        assert!((16..=32).contains(&useful), "{useful} connections of one user");
        drop(open);
        eventually("room again", Duration::from_secs(1), || {
            Session::connect(&control.socket).is_ok_and(|session| session.status().is_ok())
        });
        // A flood that reads no answer.
        let flooder = raw(&control);
        rustix::io::ioctl_fionbio(&flooder, true).expect("non-blocking");
        let mut sent = 0u32;
        let mut beside = SendAncillaryBuffer::default();
        let start = Instant::now();
        while start.elapsed() < Duration::from_millis(300) {
            sent += u32::from(sendmsg(&flooder, &[IoSlice::new(STATUS)], &mut beside, SendFlags::NOSIGNAL).is_ok());
        }
        let start = Instant::now();
        assert!(control.session().status().is_ok());
        println!("{sent} requests thrown in; an honest one took {:?}", start.elapsed());
        assert!(say(&flooder, STATUS, 0).len() < 65_536);
    });
}

// Attack: privilege: every request beyond the rule
#[test]
fn requests_beyond_the_policy_name_the_rule() {
    scenario(|| {
        let control = Control::start(
            "[[rule]]\nname = \"small\"\nusers = [\"0\"]\nvnics = 2\nqueues = 2\naddresses = [\"10.77.0.0/28\"]\n\
             services = [\"tcp/80-89\"]\npeers = [\"10.0.0.0/8\"]\n",
        );
        let session = control.session();
        let refused = |what: &str, wish: VnicWish, word: &str| {
            let error = session.create_vnic(wish).err().unwrap_or_else(|| panic!("{what}: allowed")).to_string();
            assert!(error.contains(word), "{what}: {error}");
        };
        let addressed = |address: &str, length| VnicWish {
            addresses: vec![(address.parse().expect("an address"), length)],
            ..VnicWish::default()
        };
        refused("an address outside", wish(200, &[]), "rule \"small\"");
        refused("the kernel's address", wish(1, &[]), "taken");
        refused("no address", VnicWish::default(), "1 to 16 addresses");
        refused("an IPv6 address", addressed("fd77::2", 64), "rule \"small\"");
        refused("a prefix length there is not", addressed("10.77.0.2", 33), "prefix length");
        refused("a service outside", wish(2, &["tcp/22"]), "tcp/80-89");
        refused("a service half outside", wish(2, &["tcp/85-95"]), "tcp/80-89");
        refused("another protocol", wish(2, &["udp/80"]), "services");
        refused("everybody as peer", wish(2, &["tcp/80"]), "peers are 10.0.0.0/8");
        refused("three queues", VnicWish { queues: 3, ..wish(2, &[]) }, "allows 2 queues");
        refused("all queues", VnicWish { queues: u32::MAX, ..wish(2, &[]) }, "allows 2 queues");
        refused("a tiny MTU", VnicWish { mtu: 67, ..wish(2, &[]) }, "MTU 67");
        refused("a huge MTU", VnicWish { mtu: u32::MAX, ..wish(2, &[]) }, "MTU");
        refused("a name that draws on terminals", VnicWish { name: "\x1b[2J".to_owned(), ..wish(2, &[]) }, "name");
        refused("a long name", VnicWish { name: "x".repeat(65), ..wish(2, &[]) }, "name");
        let mut twice = wish(2, &[]);
        twice.addresses.push(twice.addresses[0]);
        refused("an address twice", twice, "is named twice");
        let first = session.create_vnic(wish(2, &[])).expect("what the rule allows");
        refused("another's address", wish(2, &[]), "taken");
        let filter = |service: &str, peer: &str| Filter {
            peer: peer.parse().expect("a prefix"),
            ..Filter::service(service.parse().expect("a service"))
        };
        assert!(first.add_filter(Direction::Transmit, filter("tcp/80", "10.9.0.0/16")).is_ok());
        assert!(first.add_filter(Direction::Transmit, filter("tcp/90", "10.9.0.0/16")).is_err());
        assert!(session.create_filter_of(Direction::Transmit, vec![filter("tcp/80", "any")]).is_err());
        let _second = session.create_vnic(wish(3, &[])).expect("a second");
        refused("a third", wish(4, &[]), "allows 2 VNICs");
        for vnic in [2, 99, u32::MAX] {
            assert!(session.ask(Request::DeleteVnic { vnic }).is_err(), "a number guessed");
        }
        drop(first);
        eventually("the first is gone", Duration::from_millis(200), || control.vnics().len() == 1);
        assert!(session.create_vnic(wish(4, &[])).is_ok(), "and makes room");
    });
}

// Attack: descriptors: a handle kept after its card was revoked
#[test]
fn a_revoked_handle_is_closed() {
    scenario(|| {
        let control = Control::start(&rule(""));
        let session = control.session();
        let vnic = session.create_vnic(wish(2, &[])).expect("a VNIC");
        let number = vnic.status().vnic;
        let second = session.open_vnic(number).expect("a second handle");
        drop(vnic);
        std::thread::sleep(Duration::from_millis(50));
        assert_eq!(control.vnics().len(), 1, "as long as one handle is open it stays");
        session.ask(Request::DeleteVnic { vnic: number }).expect("deleted");
        let filter = Filter::service("tcp".parse().expect("a service"));
        assert!(second.add_filter(Direction::Transmit, filter).is_err(), "a revoked handle does nothing");
        let again = session.create_vnic(wish(3, &[])).expect("a new one");
        assert_eq!(again.status().vnic, number, "the number is used again");
        assert!(second.add_filter(Direction::Transmit, filter).is_err(), "and the old handle is still none of it");
        let kept = session.create_vnic(VnicWish { persistent: true, ..wish(4, &[]) }).expect("a persistent one");
        drop(kept);
        std::thread::sleep(Duration::from_millis(50));
        assert_eq!(control.vnics().len(), 2, "a persistent card stays without handles");
    });
}

// Attack: time and cost: the table of filters filled
#[test]
fn nobody_fills_the_table_of_filters() {
    scenario(|| {
        let control = Control::generous();
        let session = control.session();
        let vnics: Vec<_> = (2..6).map(|last| session.create_vnic(wish(last, &[])).expect("a VNIC")).collect();
        let mut added = 0;
        let mut refusal = String::new();
        'all: for vnic in &vnics {
            for port in 1..=1_024u16 {
                let filter = Filter::service(format!("tcp/{port}").parse().expect("a service"));
                if let Err(error) = vnic.add_filter(Direction::Transmit, filter) {
                    refusal = error.to_string();
                    break 'all;
                }
                added += 1;
            }
        }
        assert_eq!(added, 2_048, "{refusal}");
        assert!(refusal.contains("2048 filters"), "{refusal}");
        drop(vnics);
        eventually("all are gone", Duration::from_secs(2), || control.vnics().is_empty());
        assert!(session.create_vnic(wish(2, &["tcp"])).is_ok(), "and their rows are free");
    });
}

// Attack: privilege: a session by one who is not of the group
#[test]
fn strangers_cannot_even_ask_and_children_inherit_nothing() {
    scenario(|| {
        let control = Control::generous();
        let session = control.session();
        let vnic = session.create_vnic(wish(2, &[])).expect("a VNIC");
        let _queue = vnic.open_queue(0, super::cards::PLAN).expect("a queue");
        let filter =
            session.create_filter_of(Direction::Transmit, vec![Filter::service("tcp".parse().expect("a service"))]);
        let _filter = filter.expect("a filter");
        let listing = Program::new("ls").arguments(["-l", "/proc/self/fd"]).succeeds().text();
        let inherited: Vec<&str> =
            listing.lines().filter(|line| line.contains("socket:") || line.contains("memfd")).collect();
        assert!(inherited.is_empty(), "a child has {inherited:?}");
        let path = control.socket.display().to_string();
        let attempt = |group: &str| {
            let text = std::fs::read(qanat()).expect("the command");
            let directory = control.socket.parent().expect("a directory");
            let command = directory.join("qanat");
            std::fs::write(&command, text).expect("a copy");
            let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
            std::fs::set_permissions(&command, mode).expect("its mode");
            Program::new("setpriv")
                .arguments(["--reuid=65533", group, "--clear-groups"])
                .arguments([command.as_os_str(), "limits".as_ref(), "--socket".as_ref(), path.as_ref()])
                .run()
        };
        let stranger = attempt("--regid=65533");
        assert!(stranger.code == Some(1) && stranger.stderr.contains("group"), "{stranger:?}");
        assert_eq!(attempt("--regid=65534").code, Some(0), "a member of the group may");
    });
}

#[test]
fn figures_are_told_in_the_usual_format() {
    scenario(|| {
        let control = Control::start(&format!("metrics = \"127.0.0.1:9464\"\n{}", rule("")));
        let mut named = wish(2, &[]);
        named.name = "a \"quoted\\ name".to_owned();
        let _vnic = control.session().create_vnic(named).expect("a VNIC");
        let text =
            Program::new("curl").arguments(["-sS", "-m", "5", "http://127.0.0.1:9464/metrics"]).succeeds().text();
        assert!(text.contains("# TYPE qanat_vnics gauge\nqanat_vnics 1\n"), "{text}");
        assert!(text.contains("name=\"a \\\"quoted\\\\ name\""), "{text}");
        for line in text.lines().filter(|line| !line.starts_with('#')) {
            let (name, value) = line.rsplit_once(' ').expect("a name and a value");
            assert!(name.starts_with("qanat_") && value.parse::<f64>().is_ok(), "{line}");
        }
        // Readers that say nothing hold up nobody.
        let silent: Vec<_> = (0..20).map(|_| std::net::TcpStream::connect("127.0.0.1:9464")).collect();
        assert!(control.session().status().is_ok());
        drop(silent);
    });
}
