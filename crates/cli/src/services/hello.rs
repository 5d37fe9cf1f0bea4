//! `qanat hello`: the whole stack in one process: no root, no interface, a capture file to look at.

use crate::say::sayln;
use clap::Args;
use qanat::nic::{Clock, MemoryPlan, MonotonicClock, PairConfig, Pcap, pair};
use qanat::{
    Bytes, CloseReason, Commands, Config, ConnectOptions, Context, Event, ListenOptions, Runtime, Service, StartError,
    Time, entropy,
};
use std::fs::File;
use std::io::BufWriter;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

const CLIENT: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 77, 0, 1));
const SERVER: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 77, 0, 2));
const PORT: u16 = 80;
/// Loss-free memory between two stacks needs microseconds; this is for a machine that is very busy.
const PATIENCE: Duration = Duration::from_secs(10);

/// A client and a server on two stacks joined by a wire made of memory: no root needed
#[derive(Args)]
#[command(after_help = "\
Examples:
  qanat hello                       prints each step, writes hello.pcap
  tcpdump -r hello.pcap -nS         what was on the wire (or open it in Wireshark)")]
pub struct Arguments {
    /// Where to write the capture
    #[arg(long, value_name = "FILE", default_value = "hello.pcap")]
    capture: PathBuf,
    /// Steps as JSON, one a line
    #[arg(long)]
    json: bool,
}

/// Prints steps.
#[derive(Clone, Copy)]
struct Narrator {
    clock: MonotonicClock,
    start: Time,
    json: bool,
}

impl Narrator {
    fn say(&self, who: &str, what: &str) {
        let at_us = self.clock.now().since(self.start).as_nanos() as f64 / 1e3;
        if self.json {
            sayln!("{}", serde_json::json!({ "at_us": at_us, "who": who, "what": what }));
        } else {
            sayln!("{at_us:9.1} µs  {who:<7} {what}");
        }
    }
}

/// Answers each request with the same few bytes, and closes.
struct Server {
    narrator: Narrator,
}

impl Service for Server {
    fn start(&mut self, context: &mut Context<'_>) -> Result<(), StartError> {
        let local = SocketAddr::new(SERVER, PORT);
        context.listen(local, ListenOptions::default())?;
        self.narrator.say("server", &format!("listens on {local}"));
        Ok(())
    }

    fn handle(&mut self, event: Event, context: &mut Context<'_>) {
        match event {
            Event::Accepted { peer, .. } => self.narrator.say("server", &format!("accepted a connection from {peer}")),
            Event::Data { connection, chunk } => {
                self.narrator.say("server", &format!("got {} bytes, where the device put them", chunk.len()));
                context.consume(connection, chunk);
                let answer =
                    Bytes::from_static(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\nConnection: close\r\n\r\nIt flows.");
                self.narrator.say("server", &format!("lends {} bytes, and closes", answer.len()));
                // Refused only if the client is gone; then there is nobody to answer.
                let _ = context.send(connection, answer);
                let _ = context.close(connection);
            }
            Event::Acked { bytes, .. } => {
                self.narrator.say("server", &format!("got its {bytes} bytes back: they are acknowledged"));
            }
            Event::Closed { why, .. } => self.narrator.say("server", &format!("connection over: {why}")),
            _ => {}
        }
    }
}

/// Asks once.
struct Client {
    narrator: Narrator,
    answer: Vec<u8>,
    over: Option<CloseReason>,
}

impl Service for Client {
    fn start(&mut self, context: &mut Context<'_>) -> Result<(), StartError> {
        let peer = SocketAddr::new(SERVER, PORT);
        context.connect(peer, ConnectOptions::default())?;
        self.narrator.say("client", &format!("connects to {peer}"));
        Ok(())
    }

    fn handle(&mut self, event: Event, context: &mut Context<'_>) {
        match event {
            Event::Connected { connection } => {
                self.narrator.say("client", "connected");
                let _ = context.send(connection, Bytes::from_static(b"GET / HTTP/1.1\r\nHost: hello\r\n\r\n"));
                self.narrator.say("client", "sent a request");
            }
            Event::Data { connection, chunk } => {
                self.answer.extend_from_slice(chunk.bytes());
                self.narrator.say("client", &format!("got {} bytes", chunk.len()));
                context.consume(connection, chunk);
            }
            Event::PeerClosed { connection } => {
                self.narrator.say("client", "the server has sent everything; closes too");
                let _ = context.close(connection);
            }
            Event::Closed { why, .. } => {
                self.narrator.say("client", &format!("connection over: {why}"));
                self.over = Some(why);
            }
            _ => {}
        }
    }
}

/// Runs both until the connection is over.
pub fn run(arguments: &Arguments) -> Result<(), String> {
    let file = File::create(&arguments.capture)
        .map_err(|error| format!("{}: {error}; name a writable file with --capture", arguments.capture.display()))?;
    let clock = MonotonicClock::new();
    let narrator = Narrator { clock, start: clock.now(), json: arguments.json };
    let (client_port, server_port) = pair(PairConfig::default()).map_err(|error| format!("the wire: {error}"))?;
    let open =
        |port: qanat::nic::PairPort| port.open(MemoryPlan::default()).map_err(|error| format!("memory: {error}"));
    let captured = Pcap::new(open(client_port)?, clock, BufWriter::new(file))
        .map_err(|error| format!("{}: {error}", arguments.capture.display()))?;
    let seed = || entropy().map_err(|error| format!("no entropy: {error}"));
    let mut client_side = Runtime::new(Box::new(captured), Config::new(CLIENT, 24), seed()?);
    let mut server_side = Runtime::new(Box::new(open(server_port)?), Config::new(SERVER, 24), seed()?);
    let mut server = Server { narrator };
    let mut client = Client { narrator, answer: Vec::new(), over: None };

    server_side.start(&mut server).map_err(|error| error.to_string())?;
    client_side.start(&mut client).map_err(|error| error.to_string())?;
    while client.over.is_none() || server_side.stack().usage().connections > 0 {
        client_side.turn(&mut client);
        server_side.turn(&mut server);
        if clock.now().since(narrator.start) > PATIENCE {
            return Err(format!("no end after {PATIENCE:?}; {} shows how far it came", arguments.capture.display()));
        }
    }
    drop(client_side);
    let answer = String::from_utf8_lossy(&client.answer);
    let text = answer.split("\r\n\r\n").nth(1).unwrap_or_default();
    narrator.say("client", &format!("reads: {text}"));
    if !arguments.json {
        sayln!("The packets are in {}: tcpdump -nr {0}", arguments.capture.display());
    }
    if text == "It flows." { Ok(()) } else { Err("the answer did not arrive whole".to_owned()) }
}
