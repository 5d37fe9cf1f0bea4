//! Loads libqanat_packetdrill.so as packetdrill does, and runs scripts written down here: packets and time by one thread, calls that
//! may block by another. A library serves one script, so each case is a process of its own.

use libc::{c_char, c_int, c_void};
use qanat_packetdrill::Interface;
use qanat_wire::checksum;
use qanat_wire::ip::{Ecn, Protocol};
use qanat_wire::ipv4;
use qanat_wire::tcp::{Flags, Header, Segment, SequenceNumber};
use qanat_wire::tcp_options::Options;
use std::mem::MaybeUninit;
use std::net::Ipv4Addr;
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

const OWN: Ipv4Addr = Ipv4Addr::new(192, 168, 0, 1);
const PEER: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 1);
const PORT: u16 = 8_080;
const PEER_PORT: u16 = 40_000;
const CASE: &str = "QANAT_DRILL_CASE";

type Init = unsafe extern "C" fn(*const c_char, *mut Interface);

/// The library, loaded.
struct Library {
    table: Interface,
}

// SAFETY: packetdrill calls its functions from two threads, too.
unsafe impl Sync for Library {}
// SAFETY: as above.
unsafe impl Send for Library {}

fn load() -> &'static Library {
    let directory = std::env::current_exe().expect("a name").parent().expect("a directory").to_owned();
    let file = directory.join("libqanat_packetdrill.so");
    let name = std::ffi::CString::new(file.to_str().expect("text")).expect("no NUL");
    let flags = libc::RTLD_NOW | libc::RTLD_LOCAL | libc::RTLD_DEEPBIND;
    let mut table = MaybeUninit::<Interface>::uninit();
    // SAFETY: NUL-terminated names; the symbol has that type; the table has room.
    let table = unsafe {
        let handle = libc::dlopen(name.as_ptr(), flags);
        assert!(!handle.is_null(), "{} can be loaded", file.display());
        let symbol = libc::dlsym(handle, c"packetdrill_interface_init".as_ptr());
        assert!(!symbol.is_null(), "it has packetdrill's function");
        std::mem::transmute::<*mut c_void, Init>(symbol)(c"local=192.168.0.1,mtu=1500".as_ptr(), table.as_mut_ptr());
        table.assume_init()
    };
    Box::leak(Box::new(Library { table }))
}

macro_rules! call {
    ($library:expr, $name:ident($($argument:expr),*)) => {
        // SAFETY: arguments as the call wants them.
        unsafe { ($library.table.$name)(std::ptr::null_mut(), $($argument),*) }
    };
}

/// A segment that left, and when, microseconds.
#[derive(Debug)]
struct Left {
    at_us: i64,
    flags: Flags,
    sequence: SequenceNumber,
    acknowledgment: SequenceNumber,
    payload: Vec<u8>,
}

impl Library {
    fn now_us(&self) -> i64 {
        let mut time = libc::timeval { tv_sec: 0, tv_usec: 0 };
        assert_eq!(call!(self, gettimeofday(&raw mut time, std::ptr::null_mut())), 0);
        time.tv_sec * 1_000_000 + time.tv_usec
    }

    fn sleep(&self, time_us: u32) {
        assert_eq!(call!(self, usleep(time_us)), 0);
    }

    fn send(&self, flags: Flags, sequence: u32, acknowledgment: u32, payload: &[u8]) {
        let options =
            if flags.contains(Flags::SYN) { Options { mss: Some(1_460), ..Options::NONE } } else { Options::NONE };
        let header = Header {
            source_port: PEER_PORT,
            destination_port: PORT,
            sequence: SequenceNumber(sequence),
            acknowledgment: SequenceNumber(acknowledgment),
            flags,
            window: 32_000,
            urgent: 0,
            options,
        };
        let length = header.header_length() + payload.len();
        let ip = ipv4::Header {
            source: PEER,
            destination: OWN,
            protocol: Protocol::TCP,
            payload_length: length,
            ttl: 64,
            identification: 0,
            dont_fragment: true,
            ecn: Ecn::NotCapable,
            dscp: 0,
        };
        let mut packet = vec![0; ipv4::HEADER_LENGTH + length];
        let at = ip.emit(&mut packet).expect("room");
        header.emit_with_checksum(&mut packet[at..], ip.pseudo_header_sum(), checksum::sum(payload)).expect("room");
        let at = packet.len() - payload.len();
        packet[at..].copy_from_slice(payload);
        assert_eq!(call!(self, netdev_send(packet.as_ptr().cast(), packet.len())), 0);
    }

    fn receive(&self) -> Option<Left> {
        let mut packet = [0u8; 4_096];
        let (mut length, mut at_us) = (packet.len(), 0);
        let status = call!(self, netdev_receive(packet.as_mut_ptr().cast(), &raw mut length, &raw mut at_us));
        assert_eq!(status, 0, "never an error: packetdrill would ask again");
        if length == 0 {
            return None;
        }
        let ip = ipv4::Packet::parse(&packet[..length]).expect("an IPv4 packet");
        assert_eq!((ip.source(), ip.destination()), (OWN, PEER));
        let sum = checksum::combine(ip.pseudo_header_sum(), checksum::sum(ip.payload()));
        assert!(checksum::is_valid(sum), "its checksum is right");
        let segment = Segment::parse(ip.payload()).expect("a TCP segment");
        Some(Left {
            at_us,
            flags: segment.flags(),
            sequence: segment.sequence(),
            acknowledgment: segment.acknowledgment(),
            payload: ip.payload()[segment.header_length()..].to_vec(),
        })
    }

    /// Has a second thread make a call that may block, and waits until it does, or is over: as packetdrill, by its state in
    /// `/proc`.
    fn block(&'static self, call: impl FnOnce(&Library) -> isize + Send + 'static) -> Blocked {
        let (thread, is_over) = (Arc::new(AtomicI32::new(0)), Arc::new(AtomicBool::new(false)));
        let outcome = Arc::new(Mutex::new(None));
        let inside = (Arc::clone(&thread), Arc::clone(&is_over), Arc::clone(&outcome));
        let handle = std::thread::spawn(move || {
            let (thread, is_over, outcome) = inside;
            // SAFETY: the call takes no pointers.
            thread.store(unsafe { libc::gettid() }, Ordering::SeqCst);
            let value = call(self);
            let errno = std::io::Error::last_os_error().raw_os_error().unwrap_or(0);
            *outcome.lock().unwrap_or_else(PoisonError::into_inner) = Some((value, errno, self.now_us()));
            is_over.store(true, Ordering::SeqCst);
        });
        loop {
            std::thread::yield_now();
            let state = std::fs::read_to_string(format!("/proc/self/task/{}/stat", thread.load(Ordering::SeqCst)));
            let sleeps = state.is_ok_and(|text| text.rsplit(") ").next().is_some_and(|rest| rest.starts_with('S')));
            if is_over.load(Ordering::SeqCst) || thread.load(Ordering::SeqCst) != 0 && sleeps {
                return Blocked { handle, is_over, outcome };
            }
        }
    }

    fn listen(&self) -> c_int {
        let fd = call!(self, socket(libc::AF_INET, libc::SOCK_STREAM, 0));
        assert!(fd >= 0);
        let address = libc::sockaddr_in {
            sin_family: libc::AF_INET as u16,
            sin_port: PORT.to_be(),
            sin_addr: libc::in_addr { s_addr: OWN.to_bits().to_be() },
            sin_zero: [0; 8],
        };
        assert_eq!(call!(self, bind(fd, (&raw const address).cast(), 16)), 0);
        assert_eq!(call!(self, listen(fd, 5)), 0);
        fd
    }

    /// A connection; gives its descriptor and the first sequence number of ours.
    fn connection(&self) -> (c_int, u32) {
        let listener = self.listen();
        self.send(Flags::SYN, 0, 0, &[]);
        let answer = self.receive().expect("an answer");
        assert_eq!(answer.flags, Flags::SYN | Flags::ACK);
        assert_eq!(answer.acknowledgment, SequenceNumber(1));
        let first = answer.sequence.0.wrapping_add(1);
        self.send(Flags::ACK, 1, first, &[]);
        let fd = call!(self, accept(listener, std::ptr::null_mut(), std::ptr::null_mut()));
        assert!(fd > listener);
        (fd, first)
    }
}

struct Blocked {
    handle: JoinHandle<()>,
    is_over: Arc<AtomicBool>,
    outcome: Arc<Mutex<Option<(isize, i32, i64)>>>,
}

impl Blocked {
    fn is_over(&self) -> bool {
        self.is_over.load(Ordering::SeqCst)
    }

    /// What the call gave, `errno`, and when it was over.
    fn end(self) -> (isize, i32, i64) {
        self.handle.join().expect("it ends");
        self.outcome.lock().unwrap_or_else(PoisonError::into_inner).take().expect("an outcome")
    }
}

fn a_blocking_accept_ends_with_the_handshake() {
    let library = load();
    let listener = library.listen();
    let accept = library
        .block(move |library| call!(library, accept(listener, std::ptr::null_mut(), std::ptr::null_mut())) as isize);
    assert!(!accept.is_over());
    library.send(Flags::SYN, 0, 0, &[]);
    let answer = library.receive().expect("an answer");
    library.sleep(300_000);
    assert!(!accept.is_over(), "half a handshake is none");
    let sent_us = library.now_us();
    library.send(Flags::ACK, 1, answer.sequence.0.wrapping_add(1), &[]);
    library.sleep(1_000_000);
    let (fd, _, at_us) = accept.end();
    assert!(fd as c_int > listener);
    assert!((sent_us..sent_us + 100).contains(&at_us), "time stood still until the call was back: {}", at_us - sent_us);
}

fn data_goes_both_ways() {
    let library = load();
    let (fd, first) = library.connection();
    library.send(Flags::ACK | Flags::PSH, 1, first, b"question");
    let mut buffer = [0u8; 100];
    assert_eq!(call!(library, read(fd, buffer.as_mut_ptr().cast(), buffer.len())), 8);
    assert_eq!(&buffer[..8], b"question");
    assert_eq!(call!(library, write(fd, b"answer".as_ptr().cast(), 6)), 6);
    let acknowledged = library.receive().expect("an acknowledgement");
    assert_eq!(acknowledged.acknowledgment, SequenceNumber(9));
    let answer = if acknowledged.payload.is_empty() { library.receive().expect("the answer") } else { acknowledged };
    assert_eq!((answer.payload.as_slice(), answer.sequence), (b"answer".as_slice(), SequenceNumber(first)));
    library.send(Flags::ACK | Flags::FIN, 9, first.wrapping_add(6), &[]);
    assert_eq!(call!(library, read(fd, buffer.as_mut_ptr().cast(), buffer.len())), 0);
    assert_eq!(call!(library, close(fd)), 0);
    let farewells: Vec<Left> = std::iter::from_fn(|| library.receive()).take(2).collect();
    assert!(farewells.iter().any(|left| left.flags.contains(Flags::FIN)), "{farewells:?}");
}

fn what_is_lost_is_sent_again_as_time_goes_by() {
    let library = load();
    let (fd, first) = library.connection();
    assert_eq!(call!(library, write(fd, b"answer".as_ptr().cast(), 6)), 6);
    let started = std::time::Instant::now();
    let times: Vec<i64> = (0..6)
        .map(|_| {
            let left = library.receive().expect("the answer, again and again");
            assert_eq!((left.payload.as_slice(), left.sequence), (b"answer".as_slice(), SequenceNumber(first)));
            left.at_us
        })
        .collect();
    let waits: Vec<i64> = times.windows(2).map(|pair| pair[1] - pair[0]).collect();
    assert!(waits[1..].windows(2).all(|pair| (pair[0] * 19 / 10..pair[0] * 21 / 10).contains(&pair[1])), "{waits:?}");
    let virtual_us = (times[5] - times[0]) as u128;
    assert!(virtual_us > 2_000_000, "{waits:?}");
    assert!(started.elapsed().as_micros() < virtual_us, "and nobody has waited so long");
}

fn a_call_s_time_limit_is_the_script_s() {
    let library = load();
    let (fd, _) = library.connection();
    let limit = libc::timeval { tv_sec: 7, tv_usec: 0 };
    let length = size_of::<libc::timeval>() as u32;
    let value = (&raw const limit).cast();
    assert_eq!(call!(library, setsockopt(fd, libc::SOL_SOCKET, libc::SO_RCVTIMEO, value, length)), 0);
    let start_us = library.now_us();
    let read = library.block(move |library| {
        let mut byte = 0u8;
        call!(library, read(fd, (&raw mut byte).cast(), 1))
    });
    library.sleep(6_000_000);
    assert!(!read.is_over());
    library.sleep(2_000_000);
    let (value, errno, at_us) = read.end();
    assert_eq!((value, errno), (-1, libc::EAGAIN));
    assert!((7_000_000..7_010_000).contains(&(at_us - start_us)), "{}", at_us - start_us);
    let start_us = library.now_us();
    let mut set = libc::pollfd { fd, events: libc::POLLIN, revents: 0 };
    // The script's own thread: nobody else would have time pass.
    assert_eq!(call!(library, poll(&raw mut set, 1, 5_000)), 0);
    assert!((5_000_000..5_010_000).contains(&(library.now_us() - start_us)));
}

fn an_instance_of_epoll_wakes_who_waits() {
    let library = load();
    let (fd, first) = library.connection();
    let epoll = call!(library, epoll_create(1));
    let mut event = libc::epoll_event { events: libc::EPOLLIN as u32, u64: 7 };
    assert_eq!(call!(library, epoll_ctl(epoll, libc::EPOLL_CTL_ADD, fd, &raw mut event)), 0);
    let wait = library.block(move |library| {
        let mut event = libc::epoll_event { events: 0, u64: 0 };
        let count = call!(library, epoll_wait(epoll, &raw mut event, 1, -1)) as isize;
        let (events, data) = (event.events, event.u64);
        assert_eq!((events, data), (libc::EPOLLIN as u32, 7));
        count
    });
    library.sleep(1_000_000);
    assert!(!wait.is_over());
    library.send(Flags::ACK, 1, first, b"x");
    assert_eq!(wait.end().0, 1);
}

fn a_long_packet_is_acknowledged_as_one_segment() {
    let library = load();
    let (fd, first) = library.connection();
    let text = [7u8; 10_000];
    library.send(Flags::ACK | Flags::PSH, 1, first, &text);
    let acknowledged = library.receive().expect("an acknowledgement");
    assert_eq!(acknowledged.acknowledgment, SequenceNumber(10_001), "of all of it, though it takes several frames");
    let mut buffer = [0u8; 20_000];
    assert_eq!(call!(library, read(fd, buffer.as_mut_ptr().cast(), buffer.len())), 10_000);
    assert_eq!(buffer[..10_000], text);
}

fn where_nothing_happens_nothing_leaves() {
    let library = load();
    assert!(library.receive().is_none(), "without a stack");
    let before_us = library.now_us();
    library.sleep(1_000_000);
    assert!(library.now_us() - before_us >= 1_000_000, "time passes without one, too");
    library.listen();
    assert!(library.receive().is_none(), "with one that has nothing to do");
}

fn main() {
    let cases: [(&str, fn()); 7] = [
        ("a_blocking_accept_ends_with_the_handshake", a_blocking_accept_ends_with_the_handshake),
        ("data_goes_both_ways", data_goes_both_ways),
        ("what_is_lost_is_sent_again_as_time_goes_by", what_is_lost_is_sent_again_as_time_goes_by),
        ("a_call_s_time_limit_is_the_script_s", a_call_s_time_limit_is_the_script_s),
        ("an_instance_of_epoll_wakes_who_waits", an_instance_of_epoll_wakes_who_waits),
        ("a_long_packet_is_acknowledged_as_one_segment", a_long_packet_is_acknowledged_as_one_segment),
        ("where_nothing_happens_nothing_leaves", where_nothing_happens_nothing_leaves),
    ];
    if let Ok(wanted) = std::env::var(CASE) {
        let case = cases.iter().find(|(name, _)| *name == wanted).expect("a case");
        return case.1();
    }
    let itself = std::env::current_exe().expect("a name");
    let mut failed = 0;
    for (name, _) in cases {
        let done = Command::new(&itself).env(CASE, name).output().expect("it can be started");
        println!("test {name} ... {}", if done.status.success() { "ok" } else { "FAILED" });
        if !done.status.success() {
            failed += 1;
            print!("{}{}", String::from_utf8_lossy(&done.stdout), String::from_utf8_lossy(&done.stderr));
        }
    }
    assert_eq!(failed, 0, "so many cases failed");
}
