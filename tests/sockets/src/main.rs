//! Several hundred small cases of the sockets API, for a program under test that knows nothing of what is beneath it: it
//! calls the C library and notes what comes back. Run bare it tells what Linux does; run with another stack preloaded it
//! tells where that differs.
//!
//! ```text
//! socket-cases peer    --control PATH                                       the other end: bare kernel sockets
//! socket-cases subject --control PATH --address V4,V6 --peer V4,V6 …        the cases, one line of JSON each
//! socket-cases drive   … [--expected FILE [--update]] [-- PREFIX…]          a subject, started again after a hang or crash
//! socket-cases epolls  --address V4 [--from SEED] [--seeds COUNT]           `epoll` by random sequences of calls
//! ```
//!
//! The subject tells the peer what to do over a Unix socket, which is the kernel's whatever is preloaded and is found by
//! its path from any network namespace.
#![deny(unsafe_code)]

mod address;
mod case;
mod cases;
mod drive;
mod epolls;
mod names;
mod pattern;
mod peer;
mod subject;
#[allow(unsafe_code)]
mod sys;

use case::World;
use std::path::PathBuf;
use std::process::ExitCode;

const USAGE: &str = "usage: socket-cases peer --control PATH
       socket-cases subject|drive --control PATH --address V4,V6 --peer V4,V6
                    [--filter WORD] [--from CASE] [--limit SECONDS] [--list]
                    [--part I/N] [--hanging FILE] [--expected FILE [--update]] [--times N] [-- PREFIX...]
       socket-cases epolls --address V4 [--from SEED] [--seeds COUNT]";

/// The command line.
#[derive(Debug, Default)]
pub struct Options {
    control: Option<PathBuf>,
    address: String,
    peer: String,
    /// Only cases whose name contains this.
    filter: Option<String>,
    /// Only what comes after this case.
    from: Option<String>,
    limit_s: Option<u64>,
    /// One of so many parts of all cases, so that several subjects can share them.
    part: Option<(usize, usize)>,
    /// A file that names, a line each, cases that hang: those are given up soon.
    hanging: Option<PathBuf>,
    list: bool,
    expected: Option<PathBuf>,
    update: bool,
    times: Option<u32>,
    prefix: Vec<String>,
}

fn parse(words: &mut impl Iterator<Item = String>) -> Result<Options, String> {
    let mut options = Options::default();
    while let Some(word) = words.next() {
        let mut value = || words.next().ok_or_else(|| format!("{word} needs a value"));
        match word.as_str() {
            "--control" => options.control = Some(value()?.into()),
            "--address" => options.address = value()?,
            "--peer" => options.peer = value()?,
            "--filter" => options.filter = Some(value()?),
            "--from" => options.from = Some(value()?),
            "--limit" => options.limit_s = Some(value()?.parse().map_err(|_| "--limit takes seconds")?),
            "--part" => {
                let text = value()?;
                let part = text.split_once('/').and_then(|(part, all)| Some((part.parse().ok()?, all.parse().ok()?)));
                options.part = Some(part.filter(|(part, all)| part < all).ok_or("--part takes I/N, from 0/N on")?);
            }
            "--hanging" => options.hanging = Some(value()?.into()),
            "--times" => options.times = Some(value()?.parse().map_err(|_| "--times takes a number")?),
            "--expected" => options.expected = Some(value()?.into()),
            "--update" => options.update = true,
            "--list" => options.list = true,
            // The form of a line of the subject's; it has no other.
            "--json" => {}
            "--" => options.prefix = words.by_ref().collect(),
            _ => return Err(format!("unknown: {word}")),
        }
    }
    Ok(options)
}

impl Options {
    fn world(&self) -> Result<World, String> {
        let (here4, here6) = self.address.split_once(',').ok_or("--address takes V4,V6")?;
        let (there4, there6) = self.peer.split_once(',').ok_or("--peer takes V4,V6")?;
        let wrong = |_| "that is no address".to_owned();
        Ok(World {
            here4: here4.parse().map_err(wrong)?,
            here6: here6.parse().map_err(wrong)?,
            there4: there4.parse().map_err(wrong)?,
            there6: there6.parse().map_err(wrong)?,
        })
    }
}

fn run() -> Result<ExitCode, String> {
    let mut words = std::env::args().skip(1);
    let role = words.next().ok_or(USAGE)?;
    if role == "epolls" {
        return epolls::run(&words.collect::<Vec<_>>()).map(|()| ExitCode::SUCCESS);
    }
    let options = parse(&mut words).map_err(|error| format!("{error}\n{USAGE}"))?;
    if options.list {
        cases::all().iter().for_each(|entry| println!("{}", entry.name));
        return Ok(ExitCode::SUCCESS);
    }
    let control = options.control.clone().ok_or("--control PATH is needed")?;
    match role.as_str() {
        "peer" => peer::serve(&control).map(|()| ExitCode::SUCCESS).map_err(|error| format!("{control:?}: {error}")),
        "subject" => {
            case::join(&control).map_err(|error| format!("{control:?}: {error}; is the peer running?"))?;
            subject::run(&options, options.world()?);
            Ok(ExitCode::SUCCESS)
        }
        "drive" => drive::run(&options, &control),
        _ => Err(USAGE.to_owned()),
    }
}

fn main() -> ExitCode {
    run().unwrap_or_else(|error| {
        eprintln!("socket-cases: {error}");
        ExitCode::from(2)
    })
}
