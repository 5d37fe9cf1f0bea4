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
mod command_line;
mod drive;
mod epolls;
mod names;
mod pattern;
mod peer;
mod subject;
mod suite;
#[allow(unsafe_code)]
mod sys;

use command_line::parse;
use std::process::ExitCode;

const USAGE: &str = "usage: socket-cases peer --control PATH
       socket-cases subject|drive --control PATH --address V4,V6 --peer V4,V6
                    [--filter WORD] [--from CASE] [--limit SECONDS] [--list]
                    [--part I/N] [--hanging FILE] [--expected FILE [--update]] [--times N] [-- PREFIX...]
       socket-cases epolls --address V4 [--from SEED] [--seeds COUNT]";

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
