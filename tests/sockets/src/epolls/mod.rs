//! `epoll` by random sequences of calls, each from a seed: those of one thread say what came back, to be compared with what
//! Linux says; those of several threads hold what is told against rules that Linux keeps.
//!
//! ```text
//! socket-cases epolls --address V4 [--from SEED] [--seeds COUNT]     one line for each seed and kind
//! ```
//!
//! Connections come in at `--address`; the clients are of the same process, and the kernel's as the address is its own.

mod race;
mod scene;
mod sequence;

use scene::Entrance;

/// The command line: from which seed on, and how many.
pub fn run(words: &[String]) -> Result<(), String> {
    let (mut ip, mut from, mut count) = (None, 0, 1);
    for pair in words.chunks(2) {
        let [word, value] = pair else { return Err(format!("{} needs a value", pair[0])) };
        let wrong = || format!("{word}: {value}?");
        match word.as_str() {
            "--address" => ip = Some(value.parse().map_err(|_| wrong())?),
            "--from" => from = value.parse().map_err(|_| wrong())?,
            "--seeds" => count = value.parse().map_err(|_| wrong())?,
            _ => return Err(format!("unknown: {word}")),
        }
    }
    let entrance = Entrance::open(ip.ok_or("--address V4 is needed")?)?;
    for seed in from..from + count {
        println!("sequence\t{seed}\t{}", sequence::run(&entrance, seed));
        println!(
            "race\t{seed}\t{}",
            race::run(&entrance, seed).map_or_else(|error| error, |()| "as the rules".to_owned())
        );
    }
    Ok(())
}
