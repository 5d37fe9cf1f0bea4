//! `qanat dns status`, `reload` and `refresh`: asks a running server, and shows what it says.

use super::control::{Order, directory, is_ours};
use crate::columns::fitted;
use crate::say::sayln;
use clap::Args;
use serde_json::Value;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// A server is busy with its zones for so long at most.
const PATIENCE: Duration = Duration::from_secs(600);

/// Which server.
#[derive(Args)]
pub struct Where {
    /// The server's socket, as `--control` or `control = …` gave it (default: that of the only server of this user)
    #[arg(long, value_name = "PATH")]
    control: Option<PathBuf>,
    /// As JSON
    #[arg(long)]
    json: bool,
}

/// How zones stand: serial numbers, what is broken, and of zones from elsewhere when they were last looked after
#[derive(Args)]
#[command(after_help = "\
Examples:
  sudo qanat dns status                               all zones
  sudo qanat dns status example.com --json            one of them
Exit code 1 if a zone that is asked for is not served.")]
pub struct StatusArguments {
    /// Only this zone
    zone: Option<String>,
    #[command(flatten)]
    place: Where,
}

/// Read the configuration and the zones again: new ones are added, those that are gone removed. As SIGHUP, but with an answer
#[derive(Args)]
#[command(after_help = "\
Examples:
  sudo qanat dns reload                               everything
  sudo qanat dns reload example.com                   only this zone's file
Exit code 1 if a zone cannot be used; all others are, and of that one the older version stays.")]
pub struct ReloadArguments {
    /// Only this zone
    zone: Option<String>,
    #[command(flatten)]
    place: Where,
}

/// Ask the primary of a zone now whether it has a newer version
#[derive(Args)]
#[command(after_help = "\
Examples:
  sudo qanat dns refresh example.net
  sudo qanat dns status example.net                   what came of it")]
pub struct RefreshArguments {
    /// The zone
    zone: String,
    #[command(flatten)]
    place: Where,
}

/// Servers that listen, by their sockets.
fn servers() -> Vec<PathBuf> {
    if !is_ours(&directory()) {
        return Vec::new();
    }
    let entries = directory().read_dir().into_iter().flatten().flatten().map(|entry| entry.path());
    let mut found: Vec<PathBuf> = entries.filter(|path| path.extension().is_some_and(|end| end == "sock")).collect();
    found.retain(|path| UnixStream::connect(path).is_ok());
    found.sort();
    found
}

fn ask(place: &Where, order: &Order) -> Result<Value, String> {
    let path = match &place.control {
        Some(path) => path.clone(),
        None => match servers().as_slice() {
            [only] => only.clone(),
            [] => {
                return Err(format!(
                    "no `qanat dns` of this user is running (looked in {}); name its socket with --control",
                    directory().display()
                ));
            }
            several => {
                let several: Vec<String> = several.iter().map(|path| path.display().to_string()).collect();
                return Err(format!("several servers are running; choose one with --control: {}", several.join(" ")));
            }
        },
    };
    let reply = talk(&path, order).map_err(|error| format!("{}: {error}", path.display()))?;
    match reply.get("error").and_then(Value::as_str) {
        Some(error) => Err(error.to_owned()),
        None => Ok(reply),
    }
}

fn talk(path: &Path, order: &Order) -> Result<Value, String> {
    let text = |error: std::io::Error| error.to_string();
    let mut stream = UnixStream::connect(path).map_err(text)?;
    stream.set_read_timeout(Some(PATIENCE)).map_err(text)?;
    writeln!(stream, "{}", serde_json::to_string(order).map_err(|error| error.to_string())?).map_err(text)?;
    let mut line = String::new();
    BufReader::new(stream).read_line(&mut line).map_err(text)?;
    serde_json::from_str(&line).map_err(|error| format!("an answer that is none ({error}): is it another version?"))
}

/// Runs `qanat dns reload`.
pub fn reload(arguments: &ReloadArguments) -> Result<(), String> {
    changed(&arguments.place, &Order::Reload { zone: arguments.zone.clone() })
}

/// Runs `qanat dns refresh`.
pub fn refresh(arguments: &RefreshArguments) -> Result<(), String> {
    changed(&arguments.place, &Order::Refresh { zone: arguments.zone.clone() })
}

fn changed(place: &Where, order: &Order) -> Result<(), String> {
    let reply = ask(place, order)?;
    if place.json {
        sayln!("{reply}");
    } else {
        for line in reply.get("lines").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str) {
            sayln!("{}", fitted(line));
        }
    }
    match reply.get("broken").and_then(Value::as_bool) {
        Some(true) => Err("a zone cannot be used: `qanat dns check` says all that is wrong with its file".to_owned()),
        _ => Ok(()),
    }
}

/// Runs `qanat dns status`.
pub fn status(arguments: &StatusArguments) -> Result<(), String> {
    let reply = ask(&arguments.place, &Order::Status { zone: arguments.zone.clone() })?;
    let zones: Vec<&Value> = reply.get("zones").and_then(Value::as_array).into_iter().flatten().collect();
    if arguments.place.json {
        sayln!("{reply}");
    } else {
        let now_s = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
        zones.iter().for_each(|zone| show(zone, now_s));
    }
    let is_served = |zone: &&Value| zone.get("serial").is_some_and(|serial| !serial.is_null());
    match (&arguments.zone, zones.iter().all(is_served)) {
        (Some(zone), false) => Err(format!("{zone} is not served")),
        _ => Ok(()),
    }
}

fn text<'a>(value: &'a Value, field: &str) -> Option<&'a str> {
    value.get(field).and_then(Value::as_str)
}

fn number(value: &Value, field: &str) -> Option<u64> {
    value.get(field).and_then(Value::as_u64)
}

/// `90` as `1m30s`.
fn span(seconds: u64) -> String {
    match seconds {
        0..=119 => format!("{seconds}s"),
        120..=7_199 => format!("{}m", seconds / 60),
        7_200..=172_799 => format!("{}h", seconds / 3_600),
        _ => format!("{}d", seconds / 86_400),
    }
}

fn show(zone: &Value, now_s: u64) {
    let mut line = format!("{} {}", text(zone, "zone").unwrap_or("?"), text(zone, "state").unwrap_or("?"));
    if let Some((serial, records)) = number(zone, "serial").zip(number(zone, "records")) {
        line += &format!(", serial {serial}, {records} records");
    }
    if zone.get("catalog").and_then(Value::as_bool) == Some(true) {
        line += ", a catalog";
    }
    if let Some(catalog) = text(zone, "member_of") {
        line += &format!(", of the catalog {catalog}");
    }
    sayln!("{}", fitted(&line));
    for error in zone.get("errors").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str) {
        sayln!("{}", fitted(&format!("    {error}")));
    }
    let Some(transfers) = zone.get("transfers").filter(|transfers| !transfers.is_null()) else { return };
    let mut line = format!("    from {}", text(transfers, "primary").unwrap_or("?"));
    if let Some(checked) = number(transfers, "checked_s") {
        line += &format!(", heard from {} ago", span(now_s.saturating_sub(checked)));
    }
    match text(transfers, "state") {
        Some("waiting") => {
            if let Some(next) = number(transfers, "next_s") {
                line += &format!(", asked again in {}", span(next.saturating_sub(now_s)));
            }
        }
        Some(state) => line += &format!(", {state}"),
        None => {}
    }
    if let Some(expires) = number(transfers, "expires_s") {
        line += &format!(", expires in {}", span(expires.saturating_sub(now_s)));
    }
    sayln!("{}", fitted(&line));
    if let Some(error) = text(transfers, "error") {
        let failures = number(transfers, "failures_in_a_row").unwrap_or_default();
        sayln!("{}", fitted(&format!("    {failures} failed in a row, the last: {error}")));
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn spans() {
        for (seconds, expected) in [(0, "0s"), (119, "119s"), (120, "2m"), (7_200, "2h"), (604_800, "7d")] {
            assert_eq!(super::span(seconds), expected);
        }
    }
}
