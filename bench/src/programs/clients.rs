//! Clients on the kernel's sockets, as users have them: wrk, redis-benchmark, and one of our own. It is for memcached, for which
//! Debian has none that counts, and for Redis, whose own client takes more of a processor than the server does.

use super::measured::{CLIENT_CPU, Measured};
use crate::harness::HarnessError;
use crate::harness::process::{Spec, start};
use crate::harness::topology::Topology;
use crate::harness::{cpu, installed};
use crate::load::figures::{Latency, LatencyHistogram};
use crate::machine::{CpuTimes, MachineSample};
use qanat_nic::Random;
use rustix::event::epoll;
use std::collections::VecDeque;
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

/// An ordinary client.
#[derive(Clone, Copy, Debug)]
pub enum KernelClient {
    /// `wrk` with one thread and so many connections, for this path.
    Wrk { connections: u32, path: &'static str },
    /// `redis-benchmark` with one key, whose value has so many bytes. `test`: `get` or `set`.
    RedisBenchmark { test: &'static str, connections: u32, value_bytes: u32 },
    /// 99.8 % reads under 20-byte keys (the USR load, if values have 2 bytes).
    Values { protocol: Protocol, connections: u32, pipeline: usize, value_bytes: usize },
}

/// What [`KernelClient::Values`] speaks.
#[derive(Clone, Copy, Debug)]
pub enum Protocol {
    /// memcached's text protocol.
    Memcached,
    /// RESP, of Redis.
    Redis,
}

/// How long a client may take beyond its time.
const PATIENCE: Duration = Duration::from_secs(30);
/// The same for wrk with a script, whose answers may come from a disk.
const SCRIPTED_PATIENCE: Duration = Duration::from_secs(60);
/// Requests of redis-benchmark that tell how many there are in a second.
const TRIAL_REQUESTS: u32 = 20_000;
/// Keys of [`KernelClient::Values`].
const KEYS: u32 = 10_000;
/// Decides the order of the keys.
const SEED: u64 = 1;
/// One of so many requests writes.
const WRITES: u64 = 500;

impl KernelClient {
    /// The program that has to be installed, and Debian's package.
    pub fn needs(self) -> Option<(&'static str, &'static str)> {
        match self {
            KernelClient::Wrk { .. } => Some(("/usr/bin/wrk", "wrk")),
            KernelClient::RedisBenchmark { .. } => Some(("/usr/bin/redis-benchmark", "redis-tools")),
            KernelClient::Values { .. } => None,
        }
    }

    /// Loads a server from the client's end of the link, on processor `cpu`.
    ///
    /// # Errors
    /// The client can't be started, fails, or says nothing that can be read.
    pub fn measure(
        self,
        topology: &Topology,
        server: SocketAddr,
        cpu: usize,
        (warm_up, duration): (Duration, Duration),
    ) -> Result<Measured, HarnessError> {
        let (address, port) = (server.ip().to_string(), server.port().to_string());
        let run = |program: &str, words: &[&str], patience: Duration| {
            let spec = Spec::new(program, program, words).placed(topology.client(), cpu);
            start(&spec)?.output(patience + PATIENCE)
        };
        let unreadable = |output: &str| HarnessError::Child(format!("the client printed no figures, but: {output:?}"));
        match self {
            KernelClient::Wrk { connections, path } => {
                let (url, connections) = (format!("http://{server}{path}"), connections.to_string());
                let wrk = |time: Duration| {
                    // It takes whole seconds.
                    let seconds = time.as_secs().max(1).to_string();
                    run("/usr/bin/wrk", &["-t", "1", "-c", &connections, "-d", &seconds, "--latency", &url], time)
                };
                wrk(warm_up)?;
                let before = MachineSample::take(None);
                let output = wrk(duration)?;
                let cpus = between(&before);
                wrk_figures(&output).map(|figures| figures.with(cpus)).ok_or_else(|| unreadable(&output))
            }
            KernelClient::RedisBenchmark { test, connections, value_bytes } => {
                // Fewer if each waits for the one before it.
                let trials = if connections == 1 { TRIAL_REQUESTS / 10 } else { TRIAL_REQUESTS };
                let (connections, bytes) = (connections.to_string(), value_bytes.to_string());
                let benchmark = |test: &str, count: u32| {
                    let words = [
                        "-h",
                        &address,
                        "-p",
                        &port,
                        "-c",
                        &connections,
                        "-d",
                        &bytes,
                        "-n",
                        &count.to_string(),
                        "-t",
                        test,
                        "--csv",
                    ];
                    run("/usr/bin/redis-benchmark", &words, duration)
                };
                benchmark("set", trials)?;
                let trial = benchmark(test, trials)?;
                let trial = redis_figures(&trial, trials).ok_or_else(|| unreadable(&trial))?;
                let count = (trial.per_s * duration.as_secs_f64()) as u32 + 1;
                let before = MachineSample::take(None);
                let output = benchmark(test, count)?;
                let cpus = between(&before);
                redis_figures(&output, count).map(|figures| figures.with(cpus)).ok_or_else(|| unreadable(&output))
            }
            KernelClient::Values { protocol, connections, pipeline, value_bytes } => {
                let work = move || {
                    cpu::pin(cpu).map_err(std::io::Error::other)?;
                    Values::connect(server, (protocol, value_bytes), connections, pipeline)?.run(warm_up, duration)
                };
                let client = std::thread::scope(|scope| {
                    // A thread of its own: it is pinned, and in the client's namespace.
                    let namespace = topology.client().clone();
                    scope.spawn(move || namespace.within(work)).join()
                });
                let failed = |error| HarnessError::system("load a store of values", error);
                client
                    .unwrap_or_else(|_| Err(std::io::Error::other("the client panicked")))
                    .map_err(failed)?
                    .map_err(failed)
            }
        }
    }
}

/// Runs wrk on the client's processor, by a script that says what each request asks for, and returns what it printed.
///
/// # Errors
/// It can't be started, or fails.
pub(crate) fn wrk_by_script(
    topology: &Topology,
    connections: u32,
    (script, url): (&str, &str),
    duration: Duration,
) -> Result<String, HarnessError> {
    // It takes whole seconds.
    let (connections, seconds) = (connections.to_string(), duration.as_secs().max(1).to_string());
    let words = ["-t", "1", "-c", &connections, "-d", &seconds, "--latency", "-s", script, url];
    let wrk = installed::find("wrk", "wrk")?;
    start(&Spec::new("wrk", &wrk, &words).placed(topology.client(), CLIENT_CPU))?.output(duration + SCRIPTED_PATIENCE)
}

/// What each processor has done since.
pub(crate) fn between(before: &MachineSample) -> Vec<CpuTimes> {
    let after = MachineSample::take(None);
    after.cpus.iter().zip(&before.cpus).map(|(after, before)| after.since(before)).collect()
}

/// `1.25ms`, `310.00us` or `1.02s` in µs.
fn time_us(text: &str) -> Option<f64> {
    let units = [("us", 1.0), ("ms", 1e3), ("s", 1e6), ("m", 6e7)];
    units.iter().find_map(|(unit, us)| Some(text.strip_suffix(unit)?.parse::<f64>().ok()? * us))
}

/// What wrk said.
pub(crate) fn wrk_figures(output: &str) -> Option<Measured> {
    let after = |start: &str| output.lines().find_map(|line| line.trim().strip_prefix(start)).map(str::trim);
    let per_s: f64 = after("Requests/sec:")?.parse().ok()?;
    let done = output.lines().find(|line| line.contains(" requests in "))?;
    let mut words = done.split_ascii_whitespace();
    let count: f64 = words.next()?.parse().ok()?;
    // connect, read, write and time-out errors, and answers that aren't 2xx or 3xx.
    let numbers =
        |line: &str| line.split(|c: char| !c.is_ascii_digit()).filter_map(|word| word.parse::<u64>().ok()).sum::<u64>();
    let bad = after("Socket errors:").map_or(0, numbers)
        + after("Non-2xx or 3xx responses:").and_then(|count| count.parse().ok()).unwrap_or(0);
    let latency = Latency { p50: time_us(after("50%")?)?, p99: time_us(after("99%")?)?, ..Latency::default() };
    Some(Measured { per_s, count, duration_s: count / per_s, latency, bad, cpus: Vec::new() })
}

/// What h2load said. It tells no percentiles.
pub(crate) fn h2load_figures(output: &str) -> Option<Measured> {
    let after = |start: &str| output.lines().find_map(|line| line.strip_prefix(start));
    // `finished in 5.00s, 143224.60 req/s, 161.24MB/s`
    let per_s: f64 = after("finished in ")?.split(", ").nth(1)?.strip_suffix(" req/s")?.parse().ok()?;
    // `requests: 716123 total, …, 716123 succeeded, 0 failed, 0 errored, 0 timeout`
    let requests = after("requests: ")?;
    let number = |what: &str| -> Option<u64> {
        requests.split(", ").find_map(|part| part.strip_suffix(what))?.trim().parse().ok()
    };
    let count = number(" succeeded")? as f64;
    let bad = number(" failed")? + number(" errored")? + number(" timeout")?;
    Some(Measured { per_s, count, duration_s: count / per_s, latency: Latency::default(), bad, cpus: Vec::new() })
}

fn redis_figures(output: &str, requests: u32) -> Option<Measured> {
    let line = output.lines().find(|line| line.starts_with("\"GET") || line.starts_with("\"SET"))?;
    let fields: Vec<f64> = line.split(',').filter_map(|field| field.trim_matches('"').parse().ok()).collect();
    // rps, then average, least, p50, p95, p99 and most, in ms.
    let [per_s, _, _, p50_ms, _, p99_ms, _] = fields.as_slice() else { return None };
    let latency = Latency { p50: p50_ms * 1e3, p99: p99_ms * 1e3, ..Latency::default() };
    let count = f64::from(requests);
    // It ends by itself when the server answers with an error.
    Some(Measured { per_s: *per_s, count, duration_s: count / per_s, latency, bad: 0, cpus: Vec::new() })
}

/// A connection of [`Values`].
struct Connection {
    stream: TcpStream,
    input: Vec<u8>,
    output: Vec<u8>,
    /// When each request on its way was sent, and what its answer has to be.
    asked: VecDeque<(Instant, Vec<u8>)>,
}

/// Many connections in one thread.
struct Values {
    connections: Vec<Connection>,
    epoll: std::os::fd::OwnedFd,
    protocol: Protocol,
    value_bytes: usize,
    pipeline: usize,
    /// Decides the keys.
    random: Random,
    requests: u64,
    answers: u64,
    wrong: u64,
    latency: LatencyHistogram,
}

fn key(number: u32) -> String {
    format!("key-of-the-load-{:04}", number % KEYS)
}

/// No two values whose numbers are near are alike.
fn value(number: u32, bytes: usize) -> Vec<u8> {
    [b'a' + (number % 26) as u8, b'a' + (number / 26 % 26) as u8].into_iter().cycle().take(bytes).collect()
}

impl Protocol {
    /// A request that stores, and its answer.
    fn store(self, number: u32, bytes: usize) -> (Vec<u8>, Vec<u8>) {
        let (key, value) = (key(number), value(number, bytes));
        let (start, answer) = match self {
            Protocol::Memcached => (format!("set {key} 0 0 {bytes}\r\n"), &b"STORED\r\n"[..]),
            Protocol::Redis => (format!("*3\r\n$3\r\nSET\r\n$20\r\n{key}\r\n${bytes}\r\n"), &b"+OK\r\n"[..]),
        };
        ([start.as_bytes(), &value, b"\r\n"].concat(), answer.to_vec())
    }

    /// A request that reads, and its answer.
    fn read(self, number: u32, bytes: usize) -> (Vec<u8>, Vec<u8>) {
        let (key, value) = (key(number), value(number, bytes));
        let (request, start, end) = match self {
            Protocol::Memcached => {
                (format!("get {key}\r\n"), format!("VALUE {key} 0 {bytes}\r\n"), &b"\r\nEND\r\n"[..])
            }
            Protocol::Redis => (format!("*2\r\n$3\r\nGET\r\n$20\r\n{key}\r\n"), format!("${bytes}\r\n"), &b"\r\n"[..]),
        };
        (request.into_bytes(), [start.as_bytes(), &value, end].concat())
    }
}

impl Values {
    /// Connects, and stores every key.
    fn connect(
        server: SocketAddr,
        (protocol, value_bytes): (Protocol, usize),
        connections: u32,
        pipeline: usize,
    ) -> std::io::Result<Values> {
        let mut first = TcpStream::connect(server)?;
        for number in 0..KEYS {
            let (request, expected) = protocol.store(number, value_bytes);
            first.write_all(&request)?;
            let mut answer = vec![0; expected.len()];
            first.read_exact(&mut answer)?;
            if answer != expected {
                return Err(std::io::Error::other("a value was not stored"));
            }
        }
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let mut all = Vec::new();
        for number in 0..connections {
            let stream = TcpStream::connect(server)?;
            stream.set_nodelay(true)?;
            stream.set_nonblocking(true)?;
            epoll::add(&epoll, &stream, epoll::EventData::new_u64(u64::from(number)), epoll::EventFlags::IN)?;
            all.push(Connection { stream, input: Vec::new(), output: Vec::new(), asked: VecDeque::new() });
        }
        let (random, latency) = (Random::new(SEED), LatencyHistogram::new());
        let connections = all;
        Ok(Values {
            connections,
            epoll,
            protocol,
            value_bytes,
            pipeline,
            random,
            requests: 0,
            answers: 0,
            wrong: 0,
            latency,
        })
    }

    /// Sends until `pipeline` requests are on their way.
    fn ask(&mut self, index: usize) -> std::io::Result<()> {
        while self.connections.get(index).is_some_and(|connection| connection.asked.len() < self.pipeline) {
            let (number, is_write) = (self.random.below(KEYS.into()) as u32, self.requests % WRITES == WRITES - 1);
            self.requests += 1;
            let Some(connection) = self.connections.get_mut(index) else { break };
            let make = if is_write { Protocol::store } else { Protocol::read };
            let (request, answer) = make(self.protocol, number, self.value_bytes);
            connection.output.extend(request);
            connection.asked.push_back((Instant::now(), answer));
        }
        let Some(connection) = self.connections.get_mut(index) else { return Ok(()) };
        // So few bytes that the kernel always has room for them.
        let bytes = std::mem::take(&mut connection.output);
        connection.stream.write_all(&bytes)
    }

    /// Reads what is there, and compares it.
    fn hear(&mut self, index: usize) -> std::io::Result<()> {
        let Some(connection) = self.connections.get_mut(index) else { return Ok(()) };
        let mut buffer = [0; 16_384];
        match connection.stream.read(&mut buffer) {
            Ok(0) => return Err(std::io::Error::other("the server closed a connection")),
            Ok(length) => connection.input.extend(buffer.get(..length).unwrap_or_default()),
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
            Err(error) => return Err(error),
        }
        let now = Instant::now();
        let mut taken = 0;
        while let Some((since, expected)) = connection.asked.front() {
            let Some(answer) = connection.input.get(taken..taken + expected.len()) else { break };
            self.wrong += u64::from(answer != expected.as_slice());
            self.latency.record(now - *since);
            self.answers += 1;
            taken += expected.len();
            connection.asked.pop_front();
        }
        connection.input.drain(..taken);
        Ok(())
    }

    fn turn(&mut self) -> std::io::Result<()> {
        let mut events = Vec::with_capacity(64);
        let patience = rustix::event::Timespec { tv_sec: 5, tv_nsec: 0 };
        epoll::wait(&self.epoll, rustix::buffer::spare_capacity(&mut events), Some(&patience))?;
        if events.is_empty() {
            return Err(std::io::Error::other("no answer for five seconds"));
        }
        for event in &events {
            let index = event.data.u64() as usize;
            self.hear(index)?;
            self.ask(index)?;
        }
        Ok(())
    }

    fn run(mut self, warm_up: Duration, duration: Duration) -> std::io::Result<Measured> {
        for index in 0..self.connections.len() {
            self.ask(index)?;
        }
        let begun = Instant::now();
        while begun.elapsed() < warm_up {
            self.turn()?;
        }
        self.latency.clear();
        (self.answers, self.wrong) = (0, 0);
        let (before, begun) = (MachineSample::take(None), Instant::now());
        while begun.elapsed() < duration {
            self.turn()?;
        }
        let (took, cpus) = (begun.elapsed().as_secs_f64(), between(&before));
        let count = self.answers as f64;
        let latency = self.latency.summary();
        Ok(Measured { per_s: count / took, count, duration_s: took, latency, bad: self.wrong, cpus })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_clients_print_is_read() {
        let wrk = "Running 1s test @ http://10.99.7.3:80/1k\n  Thread Stats   Avg      Stdev     Max   +/- Stdev\n  Latency Distribution\n\
                   \x20    50%  310.00us\n     75%    1.10ms\n     90%    1.20ms\n     99%    1.25ms\n  \
                   150000 requests in 1.00s, 180.00MB read\n  Socket errors: connect 0, read 2, write 0, timeout 1\n  \
                   Non-2xx or 3xx responses: 4\nRequests/sec: 150000.50\nTransfer/sec:    180.00MB\n";
        let figures = wrk_figures(wrk).unwrap();
        assert_eq!((figures.per_s, figures.count, figures.bad), (150_000.5, 150_000.0, 7));
        assert_eq!((figures.latency.p50, figures.latency.p99), (310.0, 1_250.0));
        let redis = "\"test\",\"rps\",\"avg_latency_ms\",\"min_latency_ms\",\"p50_latency_ms\",\"p95_latency_ms\",\"p99_latency_ms\",\"max_latency_ms\"\n\
                     \"GET\",\"123456.79\",\"0.200\",\"0.080\",\"0.191\",\"0.303\",\"0.407\",\"1.207\"\n";
        let figures = redis_figures(redis, 1_000).unwrap();
        assert_eq!((figures.per_s, figures.latency.p50, figures.latency.p99), (123_456.79, 191.0, 407.0));
        let h2load = "starting benchmark...\nfinished in 5.00s, 143224.60 req/s, 161.24MB/s\nrequests: 716123 total, 716251 started, \
                      716123 done, 716120 succeeded, 3 failed, 0 errored, 0 timeout\nstatus codes: 716120 2xx, 0 3xx, 3 4xx, 0 5xx\n";
        let figures = h2load_figures(h2load).unwrap();
        assert_eq!((figures.per_s, figures.count, figures.bad), (143_224.6, 716_120.0, 3));
        assert!(wrk_figures("unable to connect").is_none() && redis_figures("Could not connect", 1).is_none());
    }

    #[test]
    fn values_belong_to_their_keys() {
        assert_eq!((key(3).len(), key(3), key(KEYS + 3)), (20, key(3), key(3)));
        assert_ne!(value(1, 2), value(27, 2));
        assert_eq!(value(27, 3), b"bbb");
    }

    #[test]
    fn requests_and_answers_are_what_each_server_says() {
        let text = |(request, answer): (Vec<u8>, Vec<u8>)| {
            (String::from_utf8(request).unwrap(), String::from_utf8(answer).unwrap())
        };
        let wanted = |request: &str, answer: &str| (request.to_owned(), answer.to_owned());
        let key = "key-of-the-load-0001";
        let stored = wanted(&format!("set {key} 0 0 2\r\nba\r\n"), "STORED\r\n");
        assert_eq!(text(Protocol::Memcached.store(1, 2)), stored);
        let read = wanted(&format!("get {key}\r\n"), &format!("VALUE {key} 0 2\r\nba\r\nEND\r\n"));
        assert_eq!(text(Protocol::Memcached.read(1, 2)), read);
        let stored = wanted(&format!("*3\r\n$3\r\nSET\r\n$20\r\n{key}\r\n$3\r\nbab\r\n"), "+OK\r\n");
        assert_eq!(text(Protocol::Redis.store(1, 3)), stored);
        let read = wanted(&format!("*2\r\n$3\r\nGET\r\n$20\r\n{key}\r\n"), "$3\r\nbab\r\n");
        assert_eq!(text(Protocol::Redis.read(1, 3)), read);
    }
}
