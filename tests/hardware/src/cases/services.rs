//! Services of the released program on a virtual function, as a user starts them, against the kernel's clients.

use super::card::{OURS, PORT, card, datagram_comes_back, stream_comes_back};
use super::house::House;
use crate::kernel::{device, eventually, write};
use crate::program::{Started, output_of, run};
use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::time::Duration;

/// Bytes of the page that is served: some segments.
const PAGE: usize = 100_000;

fn attach() -> String {
    let (_, function) = card();
    format!("--interface vf:{function} --address 10.9.0.2/24 --also fd00:9::2/64 --dad off")
}

pub fn echo() {
    let mut service = Started::new(&format!("qanat echo {}", attach()));
    datagram_comes_back((OURS, PORT).into());
    stream_comes_back((OURS, PORT).into(), 1 << 18);
    service.is_running();
}

/// The page, if the server answers.
fn page(to: SocketAddr) -> Option<Vec<u8>> {
    let mut stream = TcpStream::connect_timeout(&to, Duration::from_secs(5)).ok()?;
    stream.set_read_timeout(Some(Duration::from_secs(20))).ok()?;
    stream.write_all(b"GET /page HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n").ok()?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).ok()?;
    let head = answer.windows(4).position(|four| four == b"\r\n\r\n")?;
    Some(answer.split_off(head + 4))
}

/// Asks again and again in a thread, until it has answers before and after `harm`.
fn under_load(to: SocketAddr, expected: &[u8], harm: impl FnOnce()) {
    let asks = |what: &str| {
        eventually(what, || page(to).filter(|found| found == expected));
    };
    asks("the page before");
    std::thread::scope(|scope| {
        let load = scope.spawn(|| {
            for _ in 0..3 {
                asks("the page meanwhile");
            }
        });
        harm();
        load.join().expect("it has the pages");
    });
    asks("the page after");
}

pub fn web() {
    let (interface, function) = card();
    fs::create_dir_all("/tmp/site").expect("a directory");
    let expected: Vec<u8> = (0..PAGE).map(|index| (index % 251) as u8).collect();
    fs::write("/tmp/site/page", &expected).expect("a file");
    let mut service = Started::new(&format!("qanat web /tmp/site {}", attach()));
    let to: SocketAddr = (OURS, 80).into();
    under_load(to, &expected, || {
        run(&format!("ip link set {interface} down"));
        run(&format!("ip link set {interface} up"));
        run(&format!("ip address replace fd00:9::1/64 dev {interface} nodad"));
    });
    under_load(to, &expected, || write(device(function).join("reset"), "1"));
    service.is_running();
}

pub fn refusals() {
    let (_, function) = card();
    let address = "--address 10.9.0.2/24";
    let refused = |words: &str| {
        let (is_done, text) = output_of(&format!("qanat echo {words}"));
        assert!(!is_done, "{words}: {text}");
        text
    };
    let told = refused(&format!("--interface vf:00:1f.0 {address}"));
    assert!(told.contains("vfio-pci"), "{told}");
    let told = refused(&format!("--interface vf:{function} {address} --placement split"));
    assert!(told.contains("linked placement"), "{told}");
    let _first = Started::new(&format!("qanat echo {}", attach()));
    datagram_comes_back((OURS, PORT).into());
    let told = refused(&format!("--interface vf:{function} --address 10.9.0.3/24"));
    assert!(told.contains("another process"), "{told}");
}

/// A daemon, whose are a disk and some functions: made, handed out, taken back, removed.
pub fn of_the_daemon() {
    let (interface, _) = card();
    let parent = fs::canonicalize(format!("/sys/class/net/{interface}/device")).expect("a function");
    let functions = || fs::read_to_string(parent.join("sriov_numvfs")).expect("a number").trim().to_owned();
    let house = House::with(&format!("[[vf]]\ninterface = \"{interface}\"\nfunctions = 2\n"));
    assert_eq!(functions(), "2");
    super::daemons_disk::of_a_namespace(&house);
    super::daemons_disk::serves_areas(&house);
    let echo = |last: u8| house.words(&format!("echo --interface vf:{interface} --address 10.9.0.{last}/24"));
    let address = |last: u8| SocketAddr::from(([10, 9, 0, last], PORT));
    let first = Started::new(&echo(2));
    datagram_comes_back(address(2));
    stream_comes_back(address(2), 1 << 16);
    let listed = run(&format!("ip link show dev {interface}"));
    assert!(listed.contains("spoof checking on"), "{listed}");
    let second = Started::new(&echo(3));
    datagram_comes_back(address(3));
    let (is_done, told) = output_of(&echo(4));
    assert!(!is_done && told.contains("taken"), "{told}");
    drop(first);
    // What the first one had is the next one's, once the kernel has let go of it.
    eventually("a function is free", || {
        let mut next = Started::new(&echo(5));
        let begun = std::time::Instant::now();
        while begun.elapsed() < Duration::from_secs(8) {
            std::thread::sleep(Duration::from_millis(100));
            if next.has_ended() {
                return None;
            }
        }
        datagram_comes_back(address(5));
        Some(())
    });
    drop(second);
    // A daemon that is killed leaves what it made. It is told how that is removed; or the next one has it.
    house.kill();
    let (_, told) = output_of("qanat doctor --socket /tmp/nobody");
    assert!(told.contains("vfio-pci has its 2 virtual functions") && told.contains("sriov_numvfs"), "{told}");
    assert_eq!(functions(), "2");
    let house = House::ruled(
        &format!("[[vf]]\ninterface = \"{interface}\"\nfunctions = 2\nvlan = {VLAN}\n"),
        "transmit = { bits_per_s = 20_000_000 }\n",
    );
    let told = output_of(&format!("qanat doctor --socket {}", super::house::SOCKET)).1;
    assert!(!told.contains("virtual functions"), "{told}");
    super::daemons_disk::is_there_again(&house);
    in_a_vlan(&house, &interface);
    drop(house);
    assert_eq!(functions(), "0");
    let told = output_of("qanat doctor --socket /tmp/nobody").1;
    assert!(!told.contains("virtual functions"), "{told}");
}

/// The VLAN that the daemon puts functions in.
const VLAN: u32 = 7;

/// A function in a VLAN, with a rate: who is in the VLAN reaches it, and who is not doesn't.
fn in_a_vlan(house: &House, interface: &str) {
    run(&format!("ip link add link {interface} name inside type vlan id {VLAN}"));
    run("ip link set inside up");
    run("ip address add 10.10.0.1/24 dev inside");
    let echo = |last: u8| {
        house.words(&format!("echo --interface vf:{interface} --address 10.9.0.{last}/24 --also 10.10.0.{last}/24"))
    };
    let service = Started::new(&echo(2));
    datagram_comes_back(([10, 10, 0, 2], PORT).into());
    stream_comes_back(([10, 10, 0, 2], PORT).into(), 1 << 14);
    let listed = run(&format!("ip link show dev {interface}"));
    assert!(listed.contains(&format!("vlan {VLAN}")) && listed.contains("tx rate 20 (Mbps)"), "{listed}");
    let outside = UdpSocket::bind("10.9.0.1:0").expect("a socket");
    outside.set_read_timeout(Some(Duration::from_millis(500))).expect("a time-out");
    // Nobody answers for the address outside of the VLAN: the kernel may say so at once.
    for _ in 0..3 {
        let _ = outside.send_to(b"hello", SocketAddr::from(([10, 9, 0, 2], PORT)));
        assert!(outside.recv_from(&mut [0; 64]).is_err(), "who is outside of the VLAN is answered");
    }
    // A rate of its own, within the rule's.
    run(&format!("qanat rate set 0 --bits 10M --socket {}", super::house::SOCKET));
    let listed = run(&format!("ip link show dev {interface}"));
    assert!(listed.contains("tx rate 10 (Mbps)"), "{listed}");
    datagram_comes_back(([10, 10, 0, 2], PORT).into());
    drop(service);
    run("ip link delete inside");
}
