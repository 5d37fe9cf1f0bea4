//! Clients on kernel sockets that ask a service all the time and compare each answer, byte by byte, with what it may be.

use super::machine::Machine;
use qanat_tests::random::Random;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

/// How long an answer is waited for before it counts as failed. No verdict: they ask again.
const PATIENCE: Duration = Duration::from_secs(2);
/// Between two questions, after an answer and after none.
const PAUSE: Duration = Duration::from_millis(10);
const PAUSE_FAILED: Duration = Duration::from_millis(40);
/// The longest answer of a service that is asked here.
const ANSWER_MAX: usize = 4 << 20;

/// What a service may answer with: every version there was. Faults add to it before they change anything.
#[derive(Debug, Default)]
pub struct Truth(Mutex<Versions>);

#[derive(Debug, Default)]
struct Versions {
    all: Vec<Vec<u8>>,
    /// The one that stays, by its place.
    last: usize,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Truth {
    pub fn of(first: &[u8]) -> Arc<Truth> {
        Arc::new(Truth(Mutex::new(Versions { all: vec![first.to_vec()], last: 0 })))
    }

    /// A version that may be seen for a while.
    pub fn add(&self, version: &[u8]) {
        lock(&self.0).all.push(version.to_vec());
    }

    /// The version that everybody must see in the end.
    pub fn publish(&self, version: &[u8]) {
        let mut versions = lock(&self.0);
        versions.last = versions.all.len();
        versions.all.push(version.to_vec());
    }

    /// Where the version is that everybody must see in the end.
    pub fn last(&self) -> usize {
        lock(&self.0).last
    }

    /// The oldest.
    pub fn first(&self) -> Vec<u8> {
        lock(&self.0).all.first().cloned().unwrap_or_default()
    }

    /// The place of the newest version that is this answer.
    fn place_of(&self, answer: &[u8]) -> Option<usize> {
        lock(&self.0).all.iter().rposition(|version| version == answer)
    }
}

/// Why there is no right answer.
#[derive(Debug)]
pub enum Trouble {
    /// None came, or one that says that it can't be had.
    Failed(String),
    /// It says something that is not so.
    Wrong(String),
}

impl From<io::Error> for Trouble {
    fn from(error: io::Error) -> Trouble {
        Trouble::Failed(error.to_string())
    }
}

fn failed(what: impl Into<String>) -> Trouble {
    Trouble::Failed(what.into())
}

fn wrong(what: impl Into<String>, bytes: &[u8]) -> Trouble {
    let shown = bytes.get(..bytes.len().min(200)).unwrap_or_default().escape_ascii();
    Trouble::Wrong(format!("{}: {} bytes: {shown}", what.into(), bytes.len()))
}

/// What is asked, and how.
#[derive(Clone, Debug)]
pub enum Question {
    /// HTTP; `true`: on one connection as long as that lasts.
    Page { path: &'static str, keeps: bool },
    /// The address of `www.example.test`; `true`: by TCP.
    Name { by_stream: bool },
    /// Bytes come back; `true`: by a connection that stays.
    Echo { by_stream: bool },
    /// A key of redis.
    Redis,
    /// A key of memcached.
    Memcached,
    /// A number of a durable store, which is larger each time.
    Count,
}

struct Shared {
    is_over: AtomicBool,
    right: AtomicU64,
    failed: AtomicU64,
    wrong: AtomicU64,
    /// Moved on by who wants to see an answer to a later question.
    epoch: AtomicU64,
    /// Of the latest question that was answered, plus one.
    answered: AtomicU64,
    /// The version that the latest answer was.
    version: AtomicUsize,
    last_failure: Mutex<String>,
    wrongs: Mutex<Vec<String>>,
}

pub struct Asker {
    shared: Arc<Shared>,
    what: Question,
    thread: Option<JoinHandle<()>>,
}

impl Asker {
    pub fn start(machine: &Arc<Machine>, address: SocketAddr, what: Question, truth: Arc<Truth>, seed: u64) -> Asker {
        let shared = Arc::new(Shared {
            is_over: AtomicBool::new(false),
            right: AtomicU64::new(0),
            failed: AtomicU64::new(0),
            wrong: AtomicU64::new(0),
            epoch: AtomicU64::new(0),
            answered: AtomicU64::new(0),
            version: AtomicUsize::new(0),
            last_failure: Mutex::default(),
            wrongs: Mutex::default(),
        });
        let mut client =
            Client { address, what: what.clone(), truth, stream: None, random: Random::new(seed), count: 0 };
        let (own, place) = (Arc::clone(&shared), Arc::clone(machine));
        let thread = std::thread::spawn(move || place.within(|| own.ask(&mut client)));
        Asker { shared, what, thread: Some(thread) }
    }

    pub fn what(&self) -> &Question {
        &self.what
    }

    pub fn right(&self) -> u64 {
        self.shared.right.load(Ordering::SeqCst)
    }

    pub fn failed(&self) -> u64 {
        self.shared.failed.load(Ordering::SeqCst)
    }

    pub fn last_failure(&self) -> String {
        lock(&self.shared.last_failure).clone()
    }

    /// What was wrong, in words.
    pub fn wrongs(&self) -> Vec<String> {
        lock(&self.shared.wrongs).clone()
    }

    /// A mark for [`has_answered_since`](Asker::has_answered_since).
    pub fn mark(&self) -> u64 {
        self.shared.epoch.fetch_add(1, Ordering::SeqCst) + 1
    }

    /// Whether a question was answered that was asked after the mark, with this version or a later one.
    pub fn has_answered_since(&self, mark: u64, version: usize) -> bool {
        self.shared.answered.load(Ordering::SeqCst) > mark && self.shared.version.load(Ordering::SeqCst) >= version
    }
}

impl Drop for Asker {
    fn drop(&mut self) {
        self.shared.is_over.store(true, Ordering::SeqCst);
        self.thread.take().into_iter().for_each(|thread| _ = thread.join());
    }
}

impl Shared {
    fn ask(&self, client: &mut Client) {
        while !self.is_over.load(Ordering::SeqCst) {
            let epoch = self.epoch.load(Ordering::SeqCst);
            let pause = match client.ask() {
                Ok(version) => {
                    self.version.store(version, Ordering::SeqCst);
                    self.right.fetch_add(1, Ordering::SeqCst);
                    self.answered.fetch_max(epoch + 1, Ordering::SeqCst);
                    PAUSE
                }
                Err(trouble) => {
                    client.stream = None;
                    self.note(trouble);
                    PAUSE_FAILED
                }
            };
            std::thread::sleep(pause);
        }
    }

    fn note(&self, trouble: Trouble) {
        match trouble {
            Trouble::Failed(why) => {
                self.failed.fetch_add(1, Ordering::SeqCst);
                *lock(&self.last_failure) = why;
            }
            Trouble::Wrong(what) => {
                self.wrong.fetch_add(1, Ordering::SeqCst);
                let mut wrongs = lock(&self.wrongs);
                if wrongs.len() < 10 {
                    wrongs.push(what);
                }
            }
        }
    }
}

struct Client {
    address: SocketAddr,
    what: Question,
    truth: Arc<Truth>,
    stream: Option<TcpStream>,
    random: Random,
    /// The number that [`Question::Count`] was answered with last.
    count: u64,
}

fn connect(address: SocketAddr) -> io::Result<TcpStream> {
    let stream = TcpStream::connect_timeout(&address, PATIENCE)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    stream.set_nodelay(true)?;
    Ok(stream)
}

fn udp(address: SocketAddr) -> io::Result<UdpSocket> {
    let socket = UdpSocket::bind("0.0.0.0:0")?;
    socket.connect(address)?;
    socket.set_read_timeout(Some(PATIENCE))?;
    Ok(socket)
}

/// Reads until `is_whole` says how long the answer is and so many bytes are there; not one more is to come.
fn read_until(stream: &mut TcpStream, is_whole: impl Fn(&[u8]) -> Option<usize>) -> Result<Vec<u8>, Trouble> {
    let (mut bytes, mut buffer) = (Vec::new(), vec![0; 65_536]);
    loop {
        if let Some(length) = is_whole(&bytes).filter(|length| bytes.len() >= *length) {
            let is_more = bytes.len() > length;
            return if is_more {
                Err(wrong(format!("more than the {length} bytes of the answer"), &bytes))
            } else {
                Ok(bytes)
            };
        }
        if bytes.len() > ANSWER_MAX {
            return Err(wrong("an answer without an end", &bytes));
        }
        match stream.read(&mut buffer)? {
            0 => return Err(failed(format!("closed after {} bytes", bytes.len()))),
            count => bytes.extend_from_slice(buffer.get(..count).unwrap_or_default()),
        }
    }
}

fn find(bytes: &[u8], what: &[u8]) -> Option<usize> {
    bytes.windows(what.len()).position(|part| part == what)
}

impl Client {
    /// Which version the answer is.
    fn ask(&mut self) -> Result<usize, Trouble> {
        match self.what {
            Question::Page { path, keeps } => self.page(path, keeps),
            Question::Name { by_stream: true } => self.name_by_stream(),
            Question::Name { by_stream: false } => self.name(),
            Question::Echo { by_stream: true } => self.echo(),
            Question::Echo { by_stream: false } => self.echo_by_datagram(),
            Question::Redis => self.redis(),
            Question::Memcached => self.memcached(),
            Question::Count => self.count(),
        }
    }

    /// The connection there is, or a new one.
    fn stream(&mut self) -> io::Result<TcpStream> {
        match self.stream.take() {
            Some(stream) => Ok(stream),
            None => connect(self.address),
        }
    }

    fn page(&mut self, path: &str, keeps: bool) -> Result<usize, Trouble> {
        let mut stream = self.stream()?;
        let close = if keeps { "" } else { "Connection: close\r\n" };
        stream.write_all(format!("GET {path} HTTP/1.1\r\nHost: test\r\n{close}\r\n").as_bytes())?;
        let length_of = |bytes: &[u8]| {
            let end = find(bytes, b"\r\n\r\n")? + 4;
            let head = String::from_utf8_lossy(bytes.get(..end)?).to_ascii_lowercase();
            let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")?.parse::<usize>().ok())?;
            Some(end + length)
        };
        let answer = read_until(&mut stream, length_of)?;
        let body = answer.get(find(&answer, b"\r\n\r\n").unwrap_or(0) + 4..).unwrap_or_default();
        if !answer.starts_with(b"HTTP/1.1 200 ") {
            let is_http = answer.starts_with(b"HTTP/1.1 ");
            let line = answer.split(|byte| *byte == b'\r').next().unwrap_or_default();
            return Err(if is_http { failed(String::from_utf8_lossy(line)) } else { wrong("no HTTP", &answer) });
        }
        let version = self.truth.place_of(body).ok_or_else(|| wrong("the page", body))?;
        self.stream = keeps.then_some(stream);
        Ok(version)
    }

    fn question(&mut self) -> Vec<u8> {
        let mut message = (self.random.draw() as u16).to_be_bytes().to_vec();
        message.extend_from_slice(
            b"\x00\x00\x00\x01\x00\x00\x00\x00\x00\x00\x03www\x07example\x04test\x00\x00\x01\x00\x01",
        );
        message
    }

    /// One record with an address that there was, to this question.
    fn check_name(&self, question: &[u8], answer: &[u8]) -> Result<usize, Trouble> {
        let (head, rest) = answer.split_at_checked(question.len()).ok_or_else(|| wrong("too short", answer))?;
        let is_same = head.get(..2) == question.get(..2) && head.get(12..) == question.get(12..);
        let is_answer = head.get(2).is_some_and(|byte| byte & 0xfa == 0x80);
        let code = head.get(3).map_or(0, |byte| byte & 15);
        if is_same && is_answer && matches!(code, 2 | 5) {
            return Err(failed(format!("response code {code}")));
        }
        let counts = head.get(4..8) == Some(&[0, 1, 0, 1]);
        let is_address = rest.get(..6) == Some(&[0xc0, 12, 0, 1, 0, 1]) && rest.get(10..12) == Some(&[0, 4]);
        let version = rest.get(12..16).and_then(|address| self.truth.place_of(address));
        let is_whole = is_same && is_answer && code == 0 && counts && is_address;
        version.filter(|_| is_whole).ok_or_else(|| wrong("the name", answer))
    }

    fn name(&mut self) -> Result<usize, Trouble> {
        let (question, mut buffer) = (self.question(), [0; 4_096]);
        let socket = udp(self.address)?;
        socket.send(&question)?;
        let length = socket.recv(&mut buffer)?;
        self.check_name(&question, buffer.get(..length).unwrap_or_default())
    }

    fn name_by_stream(&mut self) -> Result<usize, Trouble> {
        let question = self.question();
        let mut stream = connect(self.address)?;
        let length = u16::try_from(question.len()).map_err(|error| failed(error.to_string()))?;
        stream.write_all(&[&length.to_be_bytes(), question.as_slice()].concat())?;
        let length_of = |bytes: &[u8]| Some(2 + usize::from(u16::from_be_bytes(*bytes.first_chunk()?)));
        let answer = read_until(&mut stream, length_of)?;
        self.check_name(&question, answer.get(2..).unwrap_or_default())
    }

    /// So many bytes that no other question has.
    fn bytes(&mut self, length: u64) -> Vec<u8> {
        (0..length.div_ceil(8)).flat_map(|_| self.random.draw().to_le_bytes()).collect()
    }

    fn echo(&mut self) -> Result<usize, Trouble> {
        let length = self.random.below(6_000) + 1;
        let sent = self.bytes(length);
        let mut stream = self.stream()?;
        stream.write_all(&sent)?;
        let back = read_until(&mut stream, |_| Some(sent.len()))?;
        if back != sent {
            return Err(wrong("the echo", &back));
        }
        self.stream = Some(stream);
        Ok(0)
    }

    fn echo_by_datagram(&mut self) -> Result<usize, Trouble> {
        let length = self.random.below(1_400) + 1;
        let (sent, mut buffer) = (self.bytes(length), [0; 4_096]);
        let socket = udp(self.address)?;
        socket.send(&sent)?;
        let count = socket.recv(&mut buffer)?;
        let back = buffer.get(..count).unwrap_or_default();
        if back == sent { Ok(0) } else { Err(wrong("the echoed datagram", back)) }
    }

    fn redis(&mut self) -> Result<usize, Trouble> {
        let value = self.truth.first();
        let mut stream = self.stream()?;
        let line_of = |bytes: &[u8]| find(bytes, b"\r\n").map(|end| end + 2);
        let answer_of = |bytes: &[u8]| {
            let end = line_of(bytes)?;
            let line = String::from_utf8_lossy(bytes.get(..end - 2)?).into_owned();
            let length = line.strip_prefix('$').and_then(|length| length.parse::<usize>().ok());
            Some(length.map_or(end, |length| end + length + 2))
        };
        stream.write_all(b"GET key\r\n")?;
        let answer = read_until(&mut stream, answer_of)?;
        if answer == b"$-1\r\n" {
            // It has begun anew.
            let head = format!("*3\r\n$3\r\nSET\r\n$3\r\nkey\r\n${}\r\n", value.len());
            stream.write_all(&[head.as_bytes(), &value, b"\r\n"].concat())?;
            let set = read_until(&mut stream, line_of)?;
            if set != b"+OK\r\n" && !set.starts_with(b"-") {
                return Err(wrong("to SET", &set));
            }
            self.stream = Some(stream);
            return Err(failed("there was no such key"));
        }
        if answer.starts_with(b"-") {
            return Err(failed(String::from_utf8_lossy(&answer)));
        }
        if answer != [format!("${}\r\n", value.len()).as_bytes(), &value, b"\r\n"].concat() {
            return Err(wrong("to GET", &answer));
        }
        self.stream = Some(stream);
        Ok(0)
    }

    fn memcached(&mut self) -> Result<usize, Trouble> {
        let value = self.truth.first();
        let mut stream = self.stream()?;
        stream.write_all(b"get key\r\n")?;
        let whole = [format!("VALUE key 0 {}\r\n", value.len()).as_bytes(), &value, b"\r\nEND\r\n"].concat();
        let length_of = |bytes: &[u8]| {
            let end = find(bytes, b"\r\n")? + 2;
            Some(if bytes.starts_with(b"VALUE") { whole.len() } else { end })
        };
        let answer = read_until(&mut stream, length_of)?;
        if answer == b"END\r\n" {
            stream.write_all(&[format!("set key 0 0 {}\r\n", value.len()).as_bytes(), &value, b"\r\n"].concat())?;
            let set = read_until(&mut stream, |bytes| find(bytes, b"\r\n").map(|end| end + 2))?;
            if set != b"STORED\r\n" && !set.starts_with(b"SERVER_ERROR") {
                return Err(wrong("to set", &set));
            }
            return Err(failed("there was no such key"));
        }
        if answer.starts_with(b"SERVER_ERROR") {
            return Err(failed(String::from_utf8_lossy(&answer)));
        }
        if answer != whole {
            return Err(wrong("to get", &answer));
        }
        self.stream = Some(stream);
        Ok(0)
    }

    /// What was answered is durable: no number comes twice, whatever ended the store. One that was not answered may have been counted.
    fn count(&mut self) -> Result<usize, Trouble> {
        let mut stream = self.stream()?;
        stream.write_all(b"INCR count\r\n")?;
        let answer = read_until(&mut stream, |bytes| find(bytes, b"\r\n").map(|end| end + 2))?;
        let line = String::from_utf8_lossy(&answer);
        if line.starts_with('-') {
            return Err(failed(line.trim_end()));
        }
        let number = line.trim_end().strip_prefix(':').and_then(|number| number.parse::<u64>().ok());
        let number = number.ok_or_else(|| wrong("to INCR", &answer))?;
        if number <= self.count {
            return Err(wrong(format!("{} was answered before", self.count), &answer));
        }
        self.count = number;
        self.stream = Some(stream);
        Ok(0)
    }
}
