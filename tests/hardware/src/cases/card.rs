//! A virtual function of a network card: our stack on it, against the kernel's on the physical function.

use crate::kernel::{bind, device, driver, eventually, virtual_function, write};
use crate::program::run;
use qanat::{Config, Runtime, RuntimeOptions, StopHandle, entropy};
use qanat_echo::{EchoConfig, EchoService};
use qanat_nic::igbvf::{IgbVf, IgbVfConfig, IgbVfError};
use qanat_nic::vfio::PciAddress;
use qanat_nic::{Vnic, VnicStatistics};
use std::fs;
use std::io::{ErrorKind, Read, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream, UdpSocket};
use std::sync::OnceLock;
use std::thread::JoinHandle;
use std::time::Duration;

pub const OURS: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 9, 0, 2));
const OURS6: IpAddr = IpAddr::V6(Ipv6Addr::new(0xfd00, 9, 0, 0, 0, 0, 0, 2));
pub const PORT: u16 = 7;
/// How long the kernel's sockets wait at once.
const WAIT: Duration = Duration::from_secs(2);

/// The kernel's interface of the physical function, and the virtual function, which vfio-pci has.
pub fn card() -> (String, PciAddress) {
    static CARD: OnceLock<(String, PciAddress)> = OnceLock::new();
    CARD.get_or_init(|| {
        let (interface, parent) = eventually("the card", || {
            fs::read_dir("/sys/class/net").ok()?.flatten().find_map(|entry| {
                let target = fs::read_link(entry.path().join("device")).ok()?;
                let address: PciAddress = target.file_name()?.to_string_lossy().parse().ok()?;
                let name = entry.file_name().to_string_lossy().into_owned();
                (driver(address).as_deref() == Some("igb")).then_some((name, address))
            })
        });
        write(device(parent).join("sriov_drivers_autoprobe"), "0");
        write(device(parent).join("sriov_numvfs"), "1");
        let function = virtual_function(parent, 0);
        bind(function, "vfio-pci");
        run(&format!("ip link set {interface} up"));
        run(&format!("ip address add 10.9.0.1/24 dev {interface}"));
        run(&format!("ip address add fd00:9::1/64 dev {interface} nodad"));
        (interface, function)
    })
    .clone()
}

/// A stack with an echo on the virtual function, in a thread of its own.
struct Server {
    stop: StopHandle,
    thread: Option<JoinHandle<VnicStatistics>>,
}

impl Server {
    fn start(function: PciAddress) -> Server {
        let stop = StopHandle::new().expect("a descriptor");
        let asked = stop.clone();
        let thread = std::thread::spawn(move || {
            let wanted = IgbVfConfig { addresses: vec![OURS, OURS6], ..IgbVfConfig::new(function) };
            let card = IgbVf::open(&wanted).unwrap_or_else(|error| panic!("{error}"));
            let mut config = Config::new(OURS, 24);
            config.addresses.push((OURS6, 64));
            let mut runtime = Runtime::new(Box::new(card), config, entropy().expect("entropy"));
            let mut echo = EchoService::new(EchoConfig::default());
            let outcome = runtime.run(&mut echo, &asked, RuntimeOptions::default(), &mut |_, _| {});
            outcome.unwrap_or_else(|error| panic!("{error}"));
            runtime.vnic().statistics()
        });
        Server { stop, thread: Some(thread) }
    }

    fn end(mut self) -> VnicStatistics {
        self.stop.request();
        let thread = self.thread.take().expect("it runs");
        thread.join().expect("the server does not panic")
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop.request();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// A datagram there and back, as often as it takes.
pub fn datagram_comes_back(to: SocketAddr) {
    let any = if to.is_ipv4() { "0.0.0.0:0" } else { "[::]:0" };
    let socket = UdpSocket::bind(any).expect("a socket");
    socket.set_read_timeout(Some(WAIT)).expect("a time-out");
    let mut bytes = [0; 2_000];
    eventually("a datagram comes back", || {
        // While the interface is down the kernel says that there is no way.
        socket.send_to(b"hello", to).ok()?;
        match socket.recv_from(&mut bytes) {
            Ok((length, from)) => (&bytes[..length] == b"hello" && from == to).then_some(()),
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::ConnectionRefused) => None,
            Err(error) => panic!("{error}"),
        }
    });
}

/// A stream of so many bytes there and back.
pub fn stream_comes_back(to: SocketAddr, length: usize) {
    let mut stream = TcpStream::connect_timeout(&to, Duration::from_secs(20)).expect("a connection");
    let mut other = stream.try_clone().expect("a descriptor");
    let sent: Vec<u8> = (0..length).map(|index| (index * 7 + index / 251) as u8).collect();
    let to_send = sent.clone();
    let sender = std::thread::spawn(move || {
        other.write_all(&to_send).expect("it takes all");
        other.shutdown(std::net::Shutdown::Write).expect("it is open");
    });
    let mut received = Vec::new();
    stream.set_read_timeout(Some(Duration::from_secs(30))).expect("a time-out");
    stream.read_to_end(&mut received).expect("all comes back");
    sender.join().expect("all is sent");
    assert!(received == sent, "{} of {length} bytes, or others, came back", received.len());
}

pub fn echoes() {
    let (_, function) = card();
    let server = Server::start(function);
    for address in [OURS, OURS6] {
        datagram_comes_back((address, PORT).into());
        stream_comes_back((address, PORT).into(), 1 << 20);
    }
    run("busybox ping -c 3 -W 5 10.9.0.2");
    let statistics = server.end();
    assert!(statistics.receive_frames > 1_000 && statistics.transmit_frames > 500, "{statistics:?}");
    assert_eq!((statistics.receive_invalid, statistics.transmit_invalid), (0, 0));
}

pub fn the_hosts_address_is_taken() {
    let (interface, function) = card();
    run(&format!("ip link set {interface} vf 0 mac 02:aa:bb:cc:dd:01"));
    let card = IgbVf::open(&IgbVfConfig::new(function)).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(card.capabilities().mac.0, [2, 0xaa, 0xbb, 0xcc, 0xdd, 1]);
    eventually("the link is up", || card.is_up().then_some(()));
}

pub fn begins_anew_after_a_reset() {
    let (_, function) = card();
    let server = Server::start(function);
    datagram_comes_back((OURS, PORT).into());
    for _ in 0..2 {
        write(device(function).join("reset"), "1");
        datagram_comes_back((OURS, PORT).into());
    }
    drop(server);
}

pub fn goes_on_after_the_host_was_down() {
    let (interface, function) = card();
    let server = Server::start(function);
    datagram_comes_back((OURS, PORT).into());
    for _ in 0..2 {
        run(&format!("ip link set {interface} down"));
        run(&format!("ip link set {interface} up"));
        datagram_comes_back((OURS, PORT).into());
    }
    stream_comes_back((OURS, PORT).into(), 1 << 18);
    drop(server);
    // Without the host's driver a card can't be had, and the error says what to do.
    run(&format!("ip link set {interface} down"));
    let config = IgbVfConfig { patience: Duration::from_secs(1), ..IgbVfConfig::new(function) };
    let error = IgbVf::open(&config).expect_err("the host is down");
    assert!(matches!(error, IgbVfError::NoAnswer { .. }) && error.to_string().contains("ip link set"), "{error}");
    run(&format!("ip link set {interface} up"));
    run(&format!("ip address replace fd00:9::1/64 dev {interface} nodad"));
    drop(IgbVf::open(&IgbVfConfig::new(function)).unwrap_or_else(|error| panic!("{error}")));
}
