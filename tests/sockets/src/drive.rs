//! Runs a subject to the end of its cases, starting it again behind each that hangs or crashes, and compares what it saw
//! with what was stored.

use crate::command_line::Options;
use serde_json::Value;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::{BufRead, BufReader};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};

/// A case and what it saw.
type Seen = Vec<(String, String)>;

/// One subject. Gives the last case begun without an end, if the subject did not come to its own.
fn once(options: &Options, control: &Path, from: Option<&str>, seen: &mut Seen) -> Result<Option<String>, String> {
    let own = std::env::current_exe().map_err(|error| format!("this program's path: {error}"))?;
    let mut words = options.prefix.clone();
    words.push(own.display().to_string());
    let (program, rest) = words.split_first().ok_or("no program")?;
    let mut command = Command::new(program);
    command.args(rest).arg("subject").arg("--control").arg(control);
    command.args(["--address", &options.address, "--peer", &options.peer]);
    if let Some(filter) = &options.filter {
        command.args(["--filter", filter]);
    }
    if let Some(limit) = options.limit_s {
        command.args(["--limit", &limit.to_string()]);
    }
    if let Some((part, all)) = options.part {
        command.args(["--part", &format!("{part}/{all}")]);
    }
    if let Some(hanging) = &options.hanging {
        command.arg("--hanging").arg(hanging);
    }
    if let Some(from) = from {
        command.args(["--from", from]);
    }
    let mut child =
        command.stdout(Stdio::piped()).stdin(Stdio::null()).spawn().map_err(|error| format!("{program}: {error}"))?;
    let output = child.stdout.take().ok_or("no output")?;
    let mut begun = None;
    for line in BufReader::new(output).lines() {
        let line = line.map_err(|error| error.to_string())?;
        let Ok(value) = serde_json::from_str::<Value>(&line) else { continue };
        if let Some(name) = value["begin"].as_str() {
            begun = Some(name.to_owned());
        }
        if let (Some(name), Some(outcome)) = (value["case"].as_str(), value["outcome"].as_str()) {
            seen.push((name.to_owned(), outcome.to_owned()));
        }
    }
    let status = child.wait().map_err(|error| error.to_string())?;
    if status.success() {
        return Ok(None);
    }
    let Some(name) = begun else { return Err(format!("{words:?} ended before the first case: {status}")) };
    if seen.last().is_none_or(|(last, _)| *last != name) {
        let how = status.signal().map_or_else(|| status.to_string(), |signal| format!("signal {signal}"));
        seen.push((name.clone(), format!("CRASH ({how})")));
    }
    Ok(Some(name))
}

fn whole(options: &Options, control: &Path) -> Result<Seen, String> {
    let mut seen = Seen::new();
    let mut from = None;
    while let Some(last) = once(options, control, from.as_deref(), &mut seen)? {
        if from.as_ref() == Some(&last) {
            return Err(format!("no progress behind {last}"));
        }
        from = Some(last);
    }
    Ok(seen)
}

/// A file of lines, each a case's name, a tabulator and its outcome.
fn stored(path: &Path) -> Result<BTreeMap<String, String>, String> {
    let text = std::fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))?;
    let pair = |line: &str| line.split_once('\t').map(|(name, outcome)| (name.to_owned(), outcome.to_owned()));
    Ok(text.lines().filter_map(pair).collect())
}

fn text(seen: &Seen) -> String {
    seen.iter().fold(String::new(), |mut text, (name, outcome)| {
        let _ = writeln!(text, "{name}\t{outcome}");
        text
    })
}

/// Runs all, `--times` over; without `--expected` prints the outcomes, else the differences.
///
/// # Errors
/// The subject can't be run.
pub fn run(options: &Options, control: &Path) -> Result<ExitCode, String> {
    let mut different = 0;
    for round in 1..=options.times.unwrap_or(1) {
        let seen = whole(options, control)?;
        let Some(path) = &options.expected else {
            print!("{}", text(&seen));
            continue;
        };
        if options.update && round == 1 {
            // In the order of names, as the test writes it.
            let mut seen = seen;
            seen.sort();
            std::fs::write(path, text(&seen)).map_err(|error| format!("{}: {error}", path.display()))?;
            println!("{}: {} cases", path.display(), seen.len());
            continue;
        }
        let expected = stored(path)?;
        let mut wrong = 0;
        for (name, outcome) in &seen {
            let wanted = expected.get(name).map_or("(a new case: --update)", String::as_str);
            if wanted != outcome {
                println!("{name}\n  expected  {wanted}\n  found     {outcome}");
                wrong += 1;
            }
        }
        println!("round {round}: {} cases, {wrong} different", seen.len());
        different += wrong;
    }
    Ok(ExitCode::from(u8::from(different > 0)))
}
