//! What somebody else has already: an address, a port, an interface. Each is an error that names who has it and what to do.

use super::links::PATIENCE;
use qanat_nic::link::Namespace;
use qanat_tests::e2e::{Client, Outcome, Pages, Program, Server, eventually, qanat, scenario};
use std::net::{TcpListener, UdpSocket};
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::net::UnixDatagram;

const HOLDER: &str = "02:00:00:00:99:01";

fn ip(words: &str) {
    Program::new("ip").arguments(words.split(' ')).succeeds();
}

/// `near`, whose other end is in a namespace that has 10.99.0.1, at [`HOLDER`].
fn neighbour() -> Namespace {
    let far = Namespace::anonymous().expect("a namespace");
    ip("link add near type veth peer name far");
    let path = format!("/proc/{}/fd/{}", std::process::id(), far.as_fd().as_raw_fd());
    ip(&format!("link set far address {HOLDER} netns {path}"));
    ip("link set near up");
    far.within(|| {
        ip("link set far up");
        ip("address add 10.99.0.1/24 dev far");
    })
    .expect("entering the namespace");
    far
}

/// It ends by itself, unsuccessfully, and says all of this.
fn is_refused(words: &[&str], said: &[&str]) {
    // Without a daemon.
    let program = Program::new(qanat()).arguments(words).environment("QANAT_SOCKET", "/nowhere/control.sock");
    ends_with(program.start().wait(PATIENCE), words, said);
}

fn ends_with(outcome: Outcome, words: &[&str], said: &[&str]) {
    assert!(outcome.code.is_none_or(|code| code != 0), "{words:?}: {outcome:?}");
    for part in said {
        assert!(outcome.stderr.contains(part), "{words:?} does not say «{part}»: {outcome:?}");
    }
}

fn zone(pages: &Pages) -> String {
    pages.write("example.zone", "$TTL 60\n@ SOA ns hostmaster 1 60 60 600 60\n@ NS ns\nns A 192.0.2.1\n");
    format!("example.test={}", pages.file("example.zone").display())
}

#[test]
fn an_address_that_a_neighbour_has() {
    scenario(|| {
        let _far = neighbour();
        let pages = Pages::new().with("index.html", "here");
        let zone = zone(&pages);
        let server = "import socket, time; s = socket.create_server(('10.99.0.1', 7000)); time.sleep(1000)";
        let taken = ["--interface", "near", "--address", "10.99.0.1/24"];
        let said = ["10.99.0.1", HOLDER, "--address"];
        is_refused(&[&["web", pages.argument()][..], &taken].concat(), &said);
        is_refused(&[&["web", pages.argument(), "--placement", "split"][..], &taken].concat(), &said);
        is_refused(&[&["dns", "--zone", &zone][..], &taken].concat(), &said);
        is_refused(&[&["echo"][..], &taken].concat(), &said);
        // A program that was told so is ended, whatever it does.
        is_refused(&[&["run"][..], &taken, &["--", "python3", "-c", server]].concat(), &[HOLDER, "--address"]);
        // The next address is free.
        let free = [pages.argument(), "--interface", "near", "--address", "10.99.0.2/24"];
        let _server = Server::start(&free);
    });
}

#[test]
fn what_no_host_can_have() {
    scenario(|| {
        let _far = neighbour();
        let pages = Pages::new().with("index.html", "here");
        let places = [&["--interface", "near"][..], &["--direct"], &["--direct", "--device", "tap"]];
        let services = [&["web", pages.argument()][..], &["echo"], &["web", pages.argument(), "--placement", "split"]];
        for (wrong, said) in [
            ("--address 10.99.0.0/24", "the network's own address in 10.99.0.0/24: no card can have it"),
            ("--address 10.99.0.255/24", "the broadcast address of 10.99.0.0/24"),
            ("--address 10.99.0.7/24 --also 127.0.0.3/8", "a loopback address"),
            ("--address 10.99.0.7/0", "all addresses"),
            ("--address 10.99.0.7/24 --gateway 10.98.0.1", "on the link of no own address"),
            ("--address 10.99.0.7/24 --gateway 10.99.0.7", "is an own address"),
        ] {
            let words: Vec<&str> = wrong.split(' ').collect();
            for place in places {
                for service in services {
                    is_refused(&[service, place, &words].concat(), &[said]);
                }
            }
        }
    });
}

/// A file that is named where a socket is to be stays, and so does another program's socket.
#[test]
fn a_file_where_a_socket_is_to_be() {
    scenario(|| {
        let pages = Pages::new().with("precious", "all I have");
        let file = pages.file("precious").display().to_string();
        let others = pages.file("others.sock");
        let _others = UnixDatagram::bind(&others).expect("a socket");
        let living = others.display().to_string();
        for place in [&file, &living] {
            is_refused(&["echo", "--link", &format!("memif:{place}")], &[place]);
            is_refused(&["net", "--socket", place], &[place]);
            is_refused(&["up", "--socket", place], &[place]);
        }
        assert_eq!(std::fs::read_to_string(&file).expect("the file"), "all I have");
        let sender = UnixDatagram::unbound().expect("a socket");
        sender.send_to(b"x", &others).expect("the other program is still to be reached there");
    });
}

/// A network that a service has without the daemon is not given to a card.
#[test]
fn a_network_that_a_service_has() {
    scenario(|| {
        let directory = tempfile::tempdir().expect("a directory");
        let socket = directory.path().join("control.sock");
        let pages = Pages::new().with("index.html", "here");
        let _server = Server::start(&[pages.argument(), "--direct"]);
        let fetches = || {
            let outcome = Program::new("curl").arguments(["-sm", "2", "http://10.77.0.2/"]).run();
            outcome.stdout == b"here"
        };
        eventually("it serves", PATIENCE, fetches);
        let run = |words: &[&str]| {
            let program = Program::new(qanat()).arguments(["run"]).arguments(words.iter().copied());
            program.environment("QANAT_SOCKET", &socket).run()
        };
        let outcome = run(&["--address", "10.77.0.2/24", "--", "true"]);
        assert_eq!(outcome.code, Some(125), "{}", outcome.stderr);
        assert!(outcome.stderr.contains("10.77.0.1/24 is on qanat0 already"), "{}", outcome.stderr);
        // Who names none goes on with the kernel's sockets, and is told.
        let outcome = run(&["--", "python3", "-c", "import socket; socket.create_server(('', 7000))"]);
        assert!(outcome.stderr.contains("10.77.0.1/24 is on qanat0 already"), "{}", outcome.stderr);
        assert!(fetches(), "the service is where it was");
    });
}

#[test]
fn an_address_that_the_kernel_has_elsewhere() {
    scenario(|| {
        let _far = neighbour();
        ip("link add other type veth peer name others");
        ip("link set other up");
        ip("address add 10.99.0.9/24 dev other");
        let pages = Pages::new().with("index.html", "here");
        for words in [
            &["web", pages.argument(), "--interface", "near", "--address", "10.99.0.9/24"][..],
            &["web", pages.argument(), "--direct", "--address", "10.99.0.9/24"],
            &["run", "--interface", "near", "--address", "10.99.0.9/24", "--", "true"],
        ] {
            is_refused(words, &["10.99.0.9", "other"]);
        }
    });
}

#[test]
fn a_port_that_the_kernel_serves() {
    scenario(|| {
        let _far = neighbour();
        ip("address add 10.99.0.2/24 dev near");
        let pages = Pages::new().with("index.html", "here");
        let zone = zone(&pages);
        let kernel_server = TcpListener::bind("0.0.0.0:80").expect("a listener");
        let name_server = UdpSocket::bind("10.99.0.2:53").expect("a socket");
        let shared = ["--interface", "near", "--address", "10.99.0.2/24"];
        let web = [&[pages.argument()][..], &shared].concat();
        is_refused(&[&["web"][..], &web].concat(), &["TCP port 80 of 10.99.0.2", "sport = :80", "--port"]);
        let dns = [&["dns", "--zone", &zone][..], &shared].concat();
        is_refused(&dns, &["UDP port 53 of 10.99.0.2", "--port"]);
        // Both remedies.
        drop(Server::start(&[&web[..], &["--port", "81"]].concat()));
        drop(kernel_server);
        drop(Server::start(&web));
        drop(name_server);
    });
}

#[test]
fn an_interface_that_another_service_has() {
    scenario(|| {
        let _far = neighbour();
        let pages = Pages::new().with("index.html", "here");
        let first = [pages.argument(), "--interface", "near", "--address", "10.99.0.2/24"];
        let first = Server::start(&first);
        let words = ["echo", "--interface", "near", "--address", "10.99.0.3/24"];
        is_refused(&words, &["near is used by process", &first.id().to_string(), "qanat up --uplink near"]);
    });
}

/// An uplink by the command line, without a policy: root's cards can be on its wire. With one that lets nobody, it is refused.
#[test]
fn an_uplink_is_of_use_or_refused() {
    scenario(|| {
        let far = neighbour();
        ip("address add 10.99.0.2/24 dev near");
        // A veth device that another one's XDP program sends to takes that only with this.
        far.within(|| Program::new("ethtool").arguments(["-K", "far", "gro", "on"]).succeeds()).expect("entering");
        let pages = Pages::new().with("index.html", "here");
        let socket = pages.file(".daemon/control.sock");
        let up = |more: &[&str]| {
            let words = Program::new(qanat()).arguments(["up", "--uplink", "near"]).arguments(more);
            words.environment("QANAT_SOCKET", &socket)
        };
        pages.write(".daemon/policy.toml", "[[rule]]\nname = \"all\"\nusers = [\"root\"]\naddresses = [\"any\"]\n");
        let policy = pages.file(".daemon/policy.toml");
        let words = ["--config", policy.to_str().expect("a path")];
        ends_with(up(&words).start().wait(PATIENCE), &words, &["uplink = true", "near"]);
        let _daemon = up(&[]).start();
        eventually("the daemon's socket", PATIENCE, || socket.exists());
        let web = |address: &str| {
            let words = Program::new(qanat()).arguments(["web", pages.argument(), "--address", address]);
            words.environment("QANAT_SOCKET", &socket).start()
        };
        let _server = web("10.99.0.7/24");
        let is_answered = || {
            let address = "10.99.0.7:80".parse().expect("an address");
            Client::connect(address)
                .and_then(|mut client| client.get("/index.html"))
                .is_ok_and(|got| got.body == b"here")
        };
        eventually("an answer on the wire", PATIENCE, || far.within(is_answered).expect("entering the namespace"));
        // The kernel's own.
        ends_with(web("10.99.0.2/24").wait(PATIENCE), &["10.99.0.2"], &["--shared --address 10.99.0.2/24"]);
    });
}
