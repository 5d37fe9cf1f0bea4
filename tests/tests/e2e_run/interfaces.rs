//! The card is one of the program's interfaces, in whatever way that asks for them.

use super::{OURS, PATIENCE, ends, run, run_with};
use qanat_tests::e2e::{Program, eventually, scenario};
use rustix::process::Signal;
use std::net::UdpSocket;
use std::time::Duration;

const SEEN: &str = "\
index True qanat-card
names ['lo', 'qanat0', 'qanat-card']
no other
getifaddrs qanat-card 0x11043 ('packet', True) None ('packet', True)
getifaddrs qanat-card 0x11043 10.77.0.2 255.255.255.0 10.77.0.255
getifaddrs qanat-card 0x11043 fd77::2 ffff:ffff:ffff:ffff:: None
the kernel's too True
flags True
address 10.77.0.2
broadcast 10.77.0.255
mask 255.255.255.0
mtu 1400
mac b'\\x01\\x00' True
index True
name b'qanat-card'
list of 2000 120 ['lo', 'qanat0', 'qanat-card']
list of 40 40 ['lo']
list of 0 120 []
send links 1 True
send addresses 2 True
send routes 2 True
sendto links 1 True
sendto addresses 2 True
sendto routes 2 True
sendmsg links 1 True
sendmsg addresses 2 True
sendmsg routes 2 True
write links 1 True
write addresses 2 True
write routes 2 True
of one family 1 1
waits
came by True
came by True";

#[test]
fn a_program_finds_the_card_among_its_interfaces() {
    scenario(|| {
        let directory = tempfile::tempdir().expect("a directory");
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/e2e_run/interfaces.py");
        let both = ["--mtu", "1400", "--address", "10.77.0.2/24", "--address", "fd77::2/64"];
        let mut program = run_with(directory.path(), &both, &["python3", script]).start();
        for (from, to) in [("0.0.0.0:0", "10.77.0.2:7000"), ("[::]:0", "[fd77::2]:7000")] {
            let socket = UdpSocket::bind(from).expect("a socket");
            socket.set_read_timeout(Some(Duration::from_millis(300))).expect("a limit");
            eventually("it is said back", PATIENCE, || {
                assert!(program.is_running(), "it waits for what is sent to it");
                socket.send_to(b"hello", to).is_ok() && socket.recv(&mut [0; 10]).is_ok_and(|count| count == 5)
            });
        }
        let outcome = program.wait(PATIENCE);
        assert_eq!(outcome.text().trim(), SEEN, "{}", outcome.stderr);
    });
}

/// Tools that list interfaces by netlink see it, and a program without the library doesn't.
#[test]
fn ip_lists_the_card() {
    scenario(|| {
        let directory = tempfile::tempdir().expect("a directory");
        let listed = |words: &[&str]| run(directory.path(), words).succeeds().text();
        let links = listed(&["ip", "-o", "link"]);
        assert!(links.contains("qanat-card: <BROADCAST,MULTICAST,UP,LOWER_UP> mtu 1500"), "{links}");
        let addresses = listed(&["ip", "-o", "address"]);
        assert!(addresses.contains("inet 10.77.0.2/24 brd 10.77.0.255 scope global qanat-card"), "{addresses}");
        let routes = listed(&["ip", "route"]);
        assert!(routes.contains("10.77.0.0/24 dev qanat-card proto kernel scope link src 10.77.0.2"), "{routes}");
        let bare = Program::new("ip").arguments(["-o", "link"]).succeeds().text();
        assert!(!bare.contains("qanat-card"), "{bare}");
    });
}

/// BIND listens at the addresses that its interfaces have.
#[test]
fn named_listens_at_the_card_and_answers() {
    scenario(|| {
        let directory = tempfile::tempdir().expect("a directory");
        let at = directory.path().display();
        let config = format!(
            "options {{ directory \"{at}\"; pid-file \"{at}/pid\"; session-keyfile \"{at}/key\"; listen-on {{ {OURS}; }};\n\
             listen-on-v6 {{ none; }}; recursion no; dnssec-validation no; }}; controls {{ }};\n\
             zone \"a.example\" {{ type primary; file \"{at}/zone\"; }};\n"
        );
        std::fs::write(directory.path().join("named.conf"), config).expect("a file");
        let long: String = (0..30).map(|number| format!(" \"{number:0100}\"")).collect();
        let zone = format!("$TTL 60\n@ SOA ns h 1 1 1 1 1\n@ NS ns\nns A 192.0.2.1\nwww A 192.0.2.7\nbig TXT{long}\n");
        std::fs::write(directory.path().join("zone"), zone).expect("a file");
        let file = format!("{at}/named.conf");
        let server = run(directory.path(), &["named", "-g", "-u", "root", "-c", &file]).start();
        let dig = |words: &[&str]| {
            let to = format!("@{OURS}");
            Program::new("dig").arguments([to.as_str(), "+tries=1", "+time=2", "+short"]).arguments(words).run().text()
        };
        eventually("it answers", PATIENCE, || dig(&["www.a.example"]).trim() == "192.0.2.7");
        assert_eq!(dig(&["+tcp", "www.a.example"]).trim(), "192.0.2.7");
        // Cut off, and asked for again by TCP.
        assert!(dig(&["big.a.example", "TXT"]).len() > 3_000);
        let said = ends(server, Signal::TERM, directory.path());
        assert!(said.contains("listening on IPv4 interface qanat-card, 10.77.0.2#53"), "{said}");
    });
}
