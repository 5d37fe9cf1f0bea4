//! The tables of `epoll` against Linux' own: the same random calls and changes are made to both, and every answer is compared,
//! events in the order in which they are told. `QANAT_SEED=N` does one seed again, `QANAT_SEEDS=N` tries more of them.

use super::{Change, Epoll};
use crate::sockets::socket::{Kind, Socket, Stream};
use crate::sockets::table::Sockets;
use libc::{c_int, epoll_event};
use qanat::ConnectionId;
use rustix::io::Errno;
use std::net::{Ipv4Addr, SocketAddr};

const SEEDS: u64 = 4_000;
const STEPS: u32 = 120;
/// Descriptors, from this number on.
const FIRST: c_int = 200;
const NUMBERS: usize = 5;
const INSTANCES: usize = 2;

/// Random numbers.
struct Random(qanat_nic::Random);

impl Random {
    fn next(&mut self) -> u64 {
        self.0.next()
    }

    fn below(&mut self, limit: usize) -> usize {
        self.0.below(limit as u64) as usize
    }

    /// True once in so many times.
    fn once_in(&mut self, times: usize) -> bool {
        self.below(times) == 0
    }
}

/// An open file: a socket of the library's, and, on Linux, one end of a pair.
struct File {
    socket: u32,
    peer: c_int,
    descriptors: usize,
    has_ended: bool,
}

/// Both sides.
struct Pair {
    sockets: Sockets,
    instances: [c_int; INSTANCES],
    files: Vec<File>,
    /// Which file a number stands for.
    numbers: [Option<usize>; NUMBERS],
}

type Answer = Result<Vec<(u32, u64)>, Errno>;

fn linux(status: c_int) -> Result<c_int, Errno> {
    if status < 0 { Err(crate::sys::libc_next::errno()) } else { Ok(status) }
}

fn must(status: c_int) -> c_int {
    linux(status).expect("Linux does it")
}

fn number_of(slot: usize) -> c_int {
    FIRST + slot as c_int
}

impl Pair {
    fn new() -> Pair {
        let mut sockets = Sockets::default();
        sockets.epolls.extend((0..INSTANCES).map(|_| Some(Epoll::new(None))));
        // SAFETY: the call takes no pointers.
        let instances = [(); INSTANCES].map(|()| must(unsafe { libc::epoll_create1(0) }));
        Pair { sockets, instances, files: Vec::new(), numbers: [None; NUMBERS] }
    }

    fn open(&mut self, slot: usize) {
        let mut ends = [0; 2];
        // SAFETY: room for two numbers; the others take no pointers.
        unsafe {
            must(libc::socketpair(libc::AF_UNIX, libc::SOCK_STREAM | libc::SOCK_NONBLOCK, 0, ends.as_mut_ptr()));
            must(libc::dup2(ends[0], number_of(slot)));
            must(libc::close(ends[0]));
        }
        let stream = Stream::new(ConnectionId::new(0, 0), false);
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, 1));
        let socket = self.sockets.insert(Socket::new(libc::AF_INET, address, Kind::Stream(stream)));
        self.numbers[slot] = Some(self.files.len());
        self.files.push(File { socket, peer: ends[1], descriptors: 1, has_ended: false });
    }

    fn copy(&mut self, from: usize, slot: usize) {
        let Some(file) = self.numbers[from] else { return };
        // SAFETY: the call takes no pointers.
        must(unsafe { libc::dup2(number_of(from), number_of(slot)) });
        self.numbers[slot] = Some(file);
        self.files[file].descriptors += 1;
    }

    fn close(&mut self, slot: usize) {
        let Some(file) = self.numbers[slot].take() else { return };
        let file = &mut self.files[file];
        file.descriptors -= 1;
        if file.descriptors == 0 {
            let socket = self.sockets.remove(file.socket).expect("it is there");
            self.sockets.unwatch_all(&socket);
        }
        // SAFETY: the call takes no pointers.
        must(unsafe { libc::close(number_of(slot)) });
    }

    fn control(&mut self, instance: usize, operation: c_int, slot: usize, events: u32, data: u64) -> (Answer, Answer) {
        let mut event = epoll_event { events, u64: data };
        let (epoll, fd) = (self.instances[instance], number_of(slot));
        // SAFETY: the pointer is to a valid event.
        let wanted = linux(unsafe { libc::epoll_ctl(epoll, operation, fd, &raw mut event) });
        let file = self.numbers[slot].map(|file| self.files[file].socket).ok_or(Errno::BADF);
        let found = file.and_then(|socket| self.sockets.control(instance as u32, operation, (socket, fd), Some(event)));
        (wanted.map(|_| Vec::new()), found.map(|_| Vec::new()))
    }

    /// The peer says something.
    fn say(&mut self, file: usize) {
        let File { socket, peer, has_ended, .. } = self.files[file];
        if has_ended {
            return;
        }
        // SAFETY: the pointer is to one readable byte.
        must(unsafe { libc::send(peer, c"x".as_ptr().cast(), 1, 0) } as c_int);
        self.sockets.stream_mut(socket).expect("a stream").unread += 1;
        self.sockets.notify(socket, Change::IN);
    }

    /// The peer says that nothing follows.
    fn end(&mut self, file: usize) {
        let File { socket, peer, .. } = self.files[file];
        self.files[file].has_ended = true;
        // SAFETY: the call takes no pointers.
        must(unsafe { libc::shutdown(peer, libc::SHUT_WR) });
        self.sockets.stream_mut(socket).expect("a stream").peer_closed = true;
        self.sockets.notify(socket, Change::ANY);
    }

    /// All is read.
    fn read(&mut self, slot: usize) {
        let Some(file) = self.numbers[slot] else { return };
        let mut bytes = [0u8; 256];
        // SAFETY: the pointer is to as many writable bytes as the length says.
        while unsafe { libc::recv(number_of(slot), bytes.as_mut_ptr().cast(), bytes.len(), 0) } > 0 {}
        self.sockets.stream_mut(self.files[file].socket).expect("a stream").unread = 0;
    }

    fn wait(&mut self, instance: usize, most: usize) -> (Answer, Answer) {
        let mut events = vec![epoll_event { events: 0, u64: 0 }; most];
        let list = |events: &[epoll_event]| events.iter().map(|event| (event.events, event.u64)).collect::<Vec<_>>();
        // SAFETY: the pointer is to as many writable events as the length says.
        let status = unsafe { libc::epoll_wait(self.instances[instance], events.as_mut_ptr(), most as c_int, 0) };
        let wanted = linux(status).map(|count| list(&events[..count as usize]));
        let (count, _) = self.sockets.tell(instance as u32, &mut events);
        (wanted, Ok(list(&events[..count])))
    }

    /// Does something; what it was, and both sides' answers.
    fn step(&mut self, random: &mut Random) -> (String, Answer, Answer) {
        let (slot, other, instance) = (random.below(NUMBERS), random.below(NUMBERS), random.below(INSTANCES));
        let open: Vec<usize> = (0..self.files.len()).filter(|file| self.files[*file].descriptors > 0).collect();
        let file = if open.is_empty() { None } else { Some(open[random.below(open.len())]) };
        let done = |what: String| (what, Ok(Vec::new()), Ok(Vec::new()));
        match (random.below(20), self.numbers[slot], file) {
            (0..=1, None, _) => {
                self.open(slot);
                done(format!("open {slot}"))
            }
            (2, None, _) if other != slot => {
                self.copy(other, slot);
                done(format!("copy {other} to {slot}"))
            }
            (2..=3, Some(_), _) => {
                self.close(slot);
                done(format!("close {slot}"))
            }
            (4..=6, _, Some(file)) => {
                self.say(file);
                done(format!("file {file} has bytes"))
            }
            (7, _, Some(file)) if random.once_in(4) => {
                self.end(file);
                done(format!("file {file} ends"))
            }
            (8..=9, _, _) => {
                self.read(slot);
                done(format!("read {slot}"))
            }
            (10..=15, _, _) => {
                let operation = [libc::EPOLL_CTL_ADD, libc::EPOLL_CTL_ADD, libc::EPOLL_CTL_MOD, libc::EPOLL_CTL_DEL]
                    [random.below(4)];
                let mut events = 0;
                for (flag, times) in [
                    (libc::EPOLLIN, 2),
                    (libc::EPOLLOUT, 4),
                    (libc::EPOLLRDHUP, 4),
                    (libc::EPOLLET, 3),
                    (libc::EPOLLONESHOT, 4),
                    (libc::EPOLLEXCLUSIVE, 12),
                ] {
                    if random.once_in(times) {
                        events |= flag as u32;
                    }
                }
                let data = random.next();
                let (wanted, found) = self.control(instance, operation, slot, events, data);
                (format!("epoll_ctl {instance}, {operation}, {slot}, {events:#x}, {data:#x}"), wanted, found)
            }
            _ => {
                let most = 1 + random.below(NUMBERS + 1);
                let (wanted, found) = self.wait(instance, most);
                (format!("epoll_wait {instance}, at most {most}"), wanted, found)
            }
        }
    }
}

impl Drop for Pair {
    fn drop(&mut self) {
        (0..NUMBERS).for_each(|slot| self.close(slot));
        for fd in self.files.iter().map(|file| file.peer).chain(self.instances) {
            // SAFETY: this test's own.
            unsafe { libc::close(fd) };
        }
    }
}

fn try_seed(seed: u64) -> Result<usize, String> {
    let mut random = Random(qanat_nic::Random::new(seed));
    let mut pair = Pair::new();
    let mut said = Vec::new();
    let mut told = 0;
    for _ in 0..STEPS {
        let (what, wanted, found) = pair.step(&mut random);
        told += wanted.as_ref().map_or(0, Vec::len);
        if wanted != found {
            let before = said.join("\n  ");
            return Err(format!("QANAT_SEED={seed}:\n  {before}\n  {what}\nLinux {wanted:x?}\nhere  {found:x?}"));
        }
        said.push(format!("{what}: {wanted:x?}"));
    }
    Ok(told)
}

#[test]
fn the_tables_answer_as_linux_does() {
    // SAFETY: the call takes no pointers. From here on this thread's descriptors are its own, so their numbers are free.
    must(unsafe { libc::unshare(libc::CLONE_FILES) });
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    let seeds = number("QANAT_SEED").map_or(0..number("QANAT_SEEDS").unwrap_or(SEEDS), |seed| seed..seed + 1);
    let mut told = 0;
    let count = seeds.end - seeds.start;
    for seed in seeds {
        told += try_seed(seed).unwrap_or_else(|difference| panic!("{difference}"));
    }
    assert!(told as u64 > count, "only {told} events were told in {count} seeds: nothing was compared");
}
