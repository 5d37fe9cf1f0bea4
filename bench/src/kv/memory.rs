//! `qanat bench kv --memory`: what a key takes of memory, in Redis and in `qanat kv`.

use super::MTU;
use super::servers::{Asked, Peer, Promise, Server, versions};
use crate::harness::HarnessError;
use crate::harness::alternate::{Run, Turns, summarize};
use crate::harness::bars::{self, Quantity};
use crate::harness::environment::Environment;
use crate::harness::options::BenchOptions;
use crate::harness::scratch::Scratch;
use crate::harness::statistics::Summary;
use crate::harness::svg::Chart;
use crate::harness::table::{Column, Row, Table};
use crate::harness::topology::Topology;
use crate::programs::measured::{CLIENT_CPU, SERVER_CPU};
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::ops::Range;
use std::time::Duration;

/// Requests that are sent before their answers are read.
const AT_ONCE: u64 = 500;
/// An answer takes no longer.
const PATIENCE: Duration = Duration::from_secs(20);
/// All answers to a load, `+OK` and `:10` of a new hash, have so many bytes.
const ANSWER_BYTES: usize = 5;

/// What keys have.
#[derive(Clone, Copy, Debug)]
struct Case {
    name: &'static str,
    /// Writes the request that makes a key.
    request: fn(&mut Vec<u8>, u64),
    keys: u64,
    quick_keys: u64,
}

const CASES: [Case; 2] = [
    Case { name: "strings: keys and values of 64 B", request: string, keys: 1_000_000, quick_keys: 200_000 },
    Case { name: "hashes of 10 fields of 8 B", request: hash, keys: 300_000, quick_keys: 60_000 },
];

fn word(request: &mut Vec<u8>, word: &str) {
    // Writing to a vector does not fail.
    let _ = write!(request, "${}\r\n{word}\r\n", word.len());
}

fn string(request: &mut Vec<u8>, number: u64) {
    request.extend_from_slice(b"*3\r\n$3\r\nSET\r\n");
    word(request, &format!("key:{number:060}"));
    word(request, &format!("{number:064}"));
}

fn hash(request: &mut Vec<u8>, number: u64) {
    request.extend_from_slice(b"*22\r\n$4\r\nHSET\r\n");
    word(request, &format!("key:{number:012}"));
    for field in 0..10 {
        word(request, &format!("field{field:03}"));
        word(request, &format!("v{:07}", number % 1_000_000));
    }
}

/// Makes the keys of these numbers. There are none of them.
fn load(address: SocketAddr, case: &Case, keys: Range<u64>) -> io::Result<()> {
    let mut stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    let mut requests = Vec::new();
    for first in keys.clone().step_by(AT_ONCE as usize) {
        requests.clear();
        let count = AT_ONCE.min(keys.end - first);
        (first..first + count).for_each(|number| (case.request)(&mut requests, number));
        stream.write_all(&requests)?;
        let mut answers = vec![0; count as usize * ANSWER_BYTES];
        stream.read_exact(&mut answers)?;
        if answers.contains(&b'-') {
            return Err(io::Error::other(String::from_utf8_lossy(&answers).into_owned()));
        }
    }
    Ok(())
}

/// Memory of a process that is in use, bytes.
fn resident_bytes(process: u32) -> Option<u64> {
    let text = std::fs::read_to_string(format!("/proc/{process}/statm")).ok()?;
    let pages: u64 = text.split_whitespace().nth(1)?.parse().ok()?;
    Some(pages * rustix::param::page_size() as u64)
}

/// Bytes a key.
fn measure(
    options: &BenchOptions,
    topology: &Topology,
    scratch: &Scratch,
    case: &Case,
    peer: Peer,
) -> Result<f64, HarnessError> {
    let keys = if options.quick { case.quick_keys } else { case.keys };
    let asked = (peer, Promise::Nothing, Asked::ByKernel);
    let server = Server::start(asked, &options.program, topology, scratch, SERVER_CPU)?;
    let (id, address) = (server.id(), server.address);
    // What every store has at work, whatever its keys, is there before.
    let loaded = topology.client().within(|| -> io::Result<(u64, u64)> {
        let resident = || resident_bytes(id).ok_or_else(|| io::Error::other("the process is gone"));
        load(address, case, 0..AT_ONCE)?;
        let before = resident()?;
        load(address, case, AT_ONCE..keys + AT_ONCE)?;
        Ok((before, resident()?))
    });
    let failed = |error| server.explain(HarnessError::system(format!("load {}", peer.name()), error));
    let (before, after) = loaded.and_then(|loaded| loaded).map_err(failed)?;
    Ok(after.saturating_sub(before) as f64 / keys as f64)
}

/// Measures; `progress` is told what is being done.
///
/// # Errors
/// As [`run`](super::run) of the other table.
pub fn run(options: &BenchOptions, progress: &mut dyn FnMut(&str)) -> Result<Table, HarnessError> {
    let cases = options.chosen(CASES.iter().collect(), |case| case.name.to_owned())?;
    let mut environment = Environment::here();
    environment.peers = versions(&mut environment.warnings)?;
    let peers = Peer::stores();
    let (topology, scratch) = (Topology::new(MTU)?, Scratch::create("kv-memory")?);
    let (mut rows, mut turns) = (Vec::new(), Turns::new((SERVER_CPU, CLIENT_CPU), options.repetitions(), progress));
    for case in cases {
        let one = |peer: &Peer| measure(options, &topology, &scratch, case, *peer);
        let runs = turns.play(case.name, &peers, |peer| peer.name(), one)?;
        rows.extend(case_rows(case.name, &peers, &runs));
    }
    Ok(Table {
        title: "Redis and qanat kv: memory a key, both without a file".to_owned(),
        command: options.repeat("sudo qanat bench kv --memory"),
        environment,
        columns: vec![
            Column::new("bytes_a_key", "resident bytes/key", 1).with_spread(),
            Column::new("ratio", "÷ Redis'", 2),
        ],
        rows,
        remarks: vec![
            "Resident memory of the process after all keys, less that after the first 500. Both without a log or file."
                .to_owned(),
        ],
    })
}

fn case_rows(case: &str, peers: &[Peer], runs: &[Vec<Run<f64>>]) -> Vec<Row> {
    let of = |number: usize| runs.get(number).and_then(|runs| summarize(runs, None, |bytes| Some(*bytes)));
    let row = |(number, peer): (usize, &Peer)| Row {
        case: case.to_owned(),
        peer: peer.name().to_owned(),
        values: vec![of(number), Summary::relative(of(number), of(0))],
        note: if *peer == Peer::Kv { "bar: at most Redis'".to_owned() } else { String::new() },
    };
    peers.iter().enumerate().map(row).collect()
}

/// Draws it.
pub fn chart(table: &Table) -> Chart {
    bars::chart(table, &[Quantity { title: "Resident bytes a key", column: "bytes_a_key", cases: "" }])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_what_the_answers_are_judged_by() {
        let text = |request: fn(&mut Vec<u8>, u64)| {
            let mut bytes = Vec::new();
            request(&mut bytes, 7);
            String::from_utf8(bytes).expect("text")
        };
        let key = format!("key:{:060}", 7);
        assert_eq!(text(string), format!("*3\r\n$3\r\nSET\r\n$64\r\n{key}\r\n$64\r\n{:064}\r\n", 7));
        assert_eq!(text(hash).matches("$8\r\n").count(), 20);
    }
}
