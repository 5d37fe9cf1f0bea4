//! HTTP clients that know what they must get: every byte of every response is checked.

use qanat::{Bytes, Chunk, CloseReason, Commands, ConnectOptions, ConnectionId, Context, Event, Service, StartError};
use qanat_tests::random::Random;
use std::collections::{HashMap, VecDeque};
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;

/// A file on the server.
#[derive(Clone, Debug)]
pub struct Page {
    /// Its path, with the slash.
    pub path: String,
    /// Its bytes.
    pub bytes: Rc<[u8]>,
}

/// How a client uses its connections.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Manner {
    /// One request after the other on one connection.
    KeepAlive,
    /// So many requests at once on one connection.
    Pipelined(usize),
    /// A connection per request; the server closes.
    Close,
}

/// What an answer must be.
#[derive(Clone, Debug)]
enum Expect {
    /// 200 with the page.
    Whole(Page),
    /// 200 with the page's length and no body.
    Head(Page),
    /// 206 with these bytes.
    Range(Page, usize, usize),
    /// 206 with parts that together are these ranges.
    Parts(Page, Vec<(usize, usize)>),
    /// No body, this status.
    Bodiless(u16),
    /// An error page with this status.
    Error(u16),
}

#[derive(Clone, Debug)]
struct Request {
    text: String,
    expect: Expect,
}

impl Request {
    fn any(random: &mut Random, pages: &[Page], close: bool, rare: bool) -> Request {
        let page = pages[random.draw() as usize % pages.len()].clone();
        let length = page.bytes.len();
        let mut method = "GET";
        let mut path = page.path.clone();
        let mut fields = String::new();
        let expect = match random.between(0, 9) {
            0 => {
                method = "HEAD";
                Expect::Head(page)
            }
            1 | 2 if length > 0 => {
                let first = random.between(0, length as u64 - 1) as usize;
                let last = random.between(first as u64, length as u64 + 10) as usize;
                fields = format!("Range: bytes={first}-{last}\r\n");
                Expect::Range(page, first, (last + 1).min(length))
            }
            3 if length > 100 => {
                let part = length / 4;
                let ranges = vec![(part * 2, part * 2 + part / 2), (1, part / 2 + 1), (length - 3, length)];
                let text: Vec<String> = ranges.iter().map(|(first, end)| format!("{first}-{}", end - 1)).collect();
                fields = format!("Range: bytes={}\r\n", text.join(", "));
                Expect::Parts(page, ranges)
            }
            4 if length > 0 => {
                fields = format!("Range: bytes={}-\r\n", length + 1);
                Expect::Error(416)
            }
            5 => {
                fields = "If-None-Match: *\r\n".to_owned();
                Expect::Bodiless(304)
            }
            6 => {
                path = if rare { "/missing".to_owned() } else { "/.hidden".to_owned() };
                Expect::Error(404)
            }
            _ => Expect::Whole(page),
        };
        if close {
            fields.push_str("Connection: close\r\n");
        }
        if random.one_in(4) {
            fields.push_str(&format!("X-Filler: {}\r\n", "x".repeat(random.between(1, 700) as usize)));
        }
        Request { text: format!("{method} {path} HTTP/1.1\r\nHost: sim\r\n{fields}\r\n"), expect }
    }
}

struct Client {
    manner: Manner,
    todo: VecDeque<Request>,
    /// Sent and not answered.
    asked: VecDeque<Request>,
    connection: Option<ConnectionId>,
    connected: bool,
    buffer: Vec<u8>,
    piece_bytes_max: u64,
    hold: Option<Duration>,
    held: Vec<Chunk>,
    done: bool,
    random: Random,
}

/// Many clients, one service.
pub struct WebClients {
    server: SocketAddr,
    clients: Vec<Client>,
    by_connection: HashMap<ConnectionId, usize>,
    /// Answers checked.
    pub answers: u64,
    /// Bytes of bodies checked.
    pub body_bytes: u64,
}

const CONNECT_TOKEN: u64 = 1 << 32;

impl WebClients {
    /// `count` clients with up to `requests_max` requests each. `rare`: also what makes the server's threads work.
    pub fn new(
        server: SocketAddr,
        pages: &[Page],
        random: &mut Random,
        count: usize,
        requests_max: u64,
        rare: bool,
    ) -> WebClients {
        let client = |random: &mut Random| {
            let manner = match random.between(0, 3) {
                0 => Manner::Close,
                1 => Manner::Pipelined(random.between(2, 12) as usize),
                _ => Manner::KeepAlive,
            };
            let requests = random.between(1, requests_max);
            let close = manner == Manner::Close;
            Client {
                manner,
                todo: (0..requests).map(|_| Request::any(random, pages, close, rare)).collect(),
                asked: VecDeque::new(),
                connection: None,
                connected: false,
                buffer: Vec::new(),
                piece_bytes_max: random.pick(&[20, 60, 4_000, 4_000]),
                hold: random.one_in(5).then(|| Duration::from_millis(random.between(1, 400))),
                held: Vec::new(),
                done: false,
                random: Random::new(random.draw()),
            }
        };
        let clients = (0..count).map(|_| client(random)).collect();
        WebClients { server, clients, by_connection: HashMap::new(), answers: 0, body_bytes: 0 }
    }

    /// What the clients that aren't done wait for.
    pub fn unfinished(&self) -> Vec<String> {
        let clients = self.clients.iter().enumerate().filter(|(_, client)| !client.done);
        clients
            .map(|(index, client)| {
                let (todo, buffered) = (client.todo.len(), client.buffer.len());
                format!("{index}: {:?}, {todo} to do, {buffered} bytes of {:?}", client.manner, client.asked.front())
            })
            .collect()
    }

    fn connect(&mut self, index: usize, context: &mut Context<'_>) {
        let connection = context.connect(self.server, ConnectOptions::default()).expect("a connection can be begun");
        let client = &mut self.clients[index];
        client.connection = Some(connection);
        client.connected = false;
        self.by_connection.insert(connection, index);
    }

    fn client(&mut self, connection: ConnectionId) -> &mut Client {
        let index = self.by_connection[&connection];
        &mut self.clients[index]
    }

    fn on_closed(&mut self, connection: ConnectionId, why: CloseReason, context: &mut Context<'_>) {
        let index = self.by_connection.remove(&connection).expect("a known connection");
        let client = &mut self.clients[index];
        client.connection = None;
        client.held.clear();
        if client.connected {
            assert_eq!(why, CloseReason::Finished, "client {index}");
            assert!(client.asked.is_empty(), "client {index}: closed with {} unanswered", client.asked.len());
        }
        if client.todo.is_empty() && client.asked.is_empty() {
            client.done = true;
        } else {
            self.connect(index, context);
        }
    }
}

impl Client {
    /// Sends what may be sent.
    fn ask(&mut self, context: &mut Context<'_>) {
        let Some(connection) = self.connection.filter(|_| self.connected) else { return };
        let at_once = if let Manner::Pipelined(count) = self.manner { count } else { 1 };
        while self.asked.len() < at_once
            && let Some(request) = self.todo.pop_front()
        {
            let mut rest = Bytes::from(request.text.clone().into_bytes());
            while !rest.is_empty() {
                let count =
                    self.random.between(self.piece_bytes_max / 2, self.piece_bytes_max).min(rest.len() as u64) as usize;
                context.send(connection, rest.split_to(count)).expect("a request can be sent");
            }
            self.asked.push_back(request);
        }
        if self.asked.is_empty() && self.todo.is_empty() && self.manner != Manner::Close {
            // It may have been closed before.
            let _ = context.close(connection);
        }
    }

    /// Checks answers as they become whole; how many there were, and bytes in their bodies.
    fn check(&mut self) -> (u64, u64) {
        let mut sum = (0, 0);
        loop {
            let mut fields = [httparse::EMPTY_HEADER; 32];
            let mut response = httparse::Response::new(&mut fields);
            let status = response.parse(&self.buffer).unwrap_or_else(|error| {
                panic!(
                    "no response ({error}): {:?}",
                    String::from_utf8_lossy(&self.buffer[..self.buffer.len().min(200)])
                )
            });
            let httparse::Status::Complete(head_length) = status else { return sum };
            let request = self.asked.front().expect("an answer without a request");
            let value = |name: &str| {
                let field = response.headers.iter().find(|field| field.name.eq_ignore_ascii_case(name));
                field.map(|field| std::str::from_utf8(field.value).expect("text").to_owned())
            };
            let code = response.code.expect("a status");
            let length: usize = value("content-length").map_or(0, |text| text.parse().expect("a length"));
            let bodiless = matches!(request.expect, Expect::Head(_) | Expect::Bodiless(_));
            let body_length = if bodiless { 0 } else { length };
            let Some(body) = self.buffer.get(head_length..head_length + body_length) else { return sum };
            assert!(value("date").is_some(), "no Date");
            check_answer(&request.expect, code, length, body, &value);
            self.buffer.drain(..head_length + body_length);
            self.asked.pop_front();
            sum = (sum.0 + 1, sum.1 + body_length as u64);
        }
    }
}

fn check_answer(expect: &Expect, code: u16, length: usize, body: &[u8], value: &dyn Fn(&str) -> Option<String>) {
    match expect {
        Expect::Whole(page) => {
            assert_eq!((code, length), (200, page.bytes.len()), "{}", page.path);
            assert_same(body, &page.bytes, page);
        }
        Expect::Head(page) => assert_eq!((code, length), (200, page.bytes.len()), "HEAD {}", page.path),
        Expect::Range(page, first, end) => {
            let wanted = format!("bytes {first}-{}/{}", end - 1, page.bytes.len());
            assert_eq!((code, value("content-range")), (206, Some(wanted)));
            assert_same(body, &page.bytes[*first..*end], page);
        }
        Expect::Parts(page, ranges) => {
            assert_eq!(code, 206);
            let kind = value("content-type").expect("a type");
            let boundary = kind.split("boundary=").nth(1).expect("a boundary");
            check_parts(page, ranges, body, boundary);
        }
        Expect::Bodiless(wanted) | Expect::Error(wanted) => assert_eq!(code, *wanted),
    }
}

fn assert_same(got: &[u8], wanted: &[u8], page: &Page) {
    if got != wanted {
        let at = got.iter().zip(wanted).position(|(a, b)| a != b);
        panic!("{}: {} bytes for {}, first difference at {at:?}", page.path, got.len(), wanted.len());
    }
}

fn check_parts(page: &Page, ranges: &[(usize, usize)], body: &[u8], boundary: &str) {
    let mut rest = body;
    for (first, end) in ranges {
        let head = format!("\r\n--{boundary}\r\n");
        // The line end before the first boundary may be left out.
        rest = rest.strip_prefix(head.as_bytes()).or_else(|| rest.strip_prefix(&head.as_bytes()[2..])).expect("a part");
        let fields_end = rest.windows(4).position(|window| window == b"\r\n\r\n").expect("a part's fields") + 4;
        let fields = String::from_utf8_lossy(&rest[..fields_end]);
        let wanted = format!("Content-Range: bytes {first}-{}/{}\r\n", end - 1, page.bytes.len());
        assert!(fields.contains(&wanted), "{wanted:?} is not in {fields:?}");
        let part;
        (part, rest) = rest[fields_end..].split_at(end - first);
        assert_same(part, &page.bytes[*first..*end], page);
    }
    assert_eq!(rest, format!("\r\n--{boundary}--\r\n").as_bytes());
}

impl Service for WebClients {
    fn start(&mut self, context: &mut Context<'_>) -> Result<(), StartError> {
        for index in 0..self.clients.len() {
            context.set_timer(Duration::from_millis(index as u64 * 3), CONNECT_TOKEN + index as u64).expect("a timer");
        }
        Ok(())
    }

    fn handle(&mut self, event: Event, context: &mut Context<'_>) {
        match event {
            Event::Connected { connection } => {
                let client = self.client(connection);
                client.connected = true;
                client.ask(context);
            }
            Event::Data { connection, chunk } => {
                let Some(&index) = self.by_connection.get(&connection) else { return };
                let client = &mut self.clients[index];
                client.buffer.extend_from_slice(chunk.bytes());
                match client.hold {
                    None => context.consume(connection, chunk),
                    Some(time) => {
                        if client.held.is_empty() {
                            context.set_timer(time, index as u64).expect("a timer");
                        }
                        client.held.push(chunk);
                    }
                }
                let (answers, body_bytes) = client.check();
                if client.manner != Manner::Close {
                    client.ask(context);
                }
                self.answers += answers;
                self.body_bytes += body_bytes;
            }
            Event::PeerClosed { connection } => {
                let client = self.client(connection);
                let (asked, buffered) = (client.asked.len(), client.buffer.len());
                assert_eq!((asked, buffered), (0, 0), "the server closed with unanswered requests or half an answer");
                let _ = context.close(connection);
            }
            Event::Closed { connection, why } => self.on_closed(connection, why, context),
            Event::Timer { token, .. } if token >= CONNECT_TOKEN => {
                self.connect((token - CONNECT_TOKEN) as usize, context);
            }
            Event::Timer { token, .. } => {
                let client = &mut self.clients[token as usize];
                for chunk in std::mem::take(&mut client.held) {
                    if let Some(connection) = client.connection {
                        context.consume(connection, chunk);
                    }
                }
            }
            _ => {}
        }
    }

    fn is_finished(&self) -> bool {
        self.clients.iter().all(|client| client.done)
    }
}
