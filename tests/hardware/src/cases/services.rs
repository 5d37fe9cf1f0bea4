//! Services of the released program on a virtual function, as a user starts them, against the kernel's clients.

use super::card::{OURS, PORT, card, datagram_comes_back, stream_comes_back};
use super::house::House;
use crate::kernel::{device, eventually, write};
use crate::program::{Started, output_of, run};
use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
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
    drop(house);
    assert_eq!(functions(), "0");
}
