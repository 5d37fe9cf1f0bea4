//! `qanat load` as a child: the client whose TCP is ours.

use super::measured::{CLIENT_CPU, Measured};
use crate::harness::HarnessError;
use crate::harness::process::{Spec, start};
use crate::harness::topology::Topology;
use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

/// How long it may take beyond its time.
const PATIENCE: Duration = Duration::from_secs(30);

/// Loads the server at an address, whose process is named as well, from the client's end of the link. `words` are what `qanat load` is given,
/// `{}` being the server's address.
///
/// # Errors
/// The load can't be started, fails, or prints no report.
pub(crate) fn load(
    program: &Path,
    topology: &Topology,
    words: &str,
    (address, process): (SocketAddr, u32),
    (warm_up, duration): (Duration, Duration),
) -> Result<Measured, HarnessError> {
    let target = match address.port() {
        80 => address.ip().to_string(),
        _ => address.to_string(),
    };
    let mut arguments: Vec<String> = vec!["load".to_owned()];
    arguments.extend(words.replace("{}", &target).split(' ').map(str::to_owned));
    arguments.extend(["-d".to_owned(), format!("{}ms", duration.as_millis())]);
    arguments.extend(["--warm-up".to_owned(), format!("{}ms", warm_up.as_millis()), "--json".to_owned()]);
    arguments.extend(["--watch-process".to_owned(), process.to_string()]);
    let sources = topology.client_addresses(1);
    arguments.extend(sources.iter().flat_map(|source| ["--source".to_owned(), source.to_string()]));
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let client = Spec::new("the load generator", program, &arguments).placed(topology.client(), CLIENT_CPU);
    let output = start(&client)?.output(duration + warm_up + PATIENCE)?;
    Measured::read(&output).ok_or_else(|| HarnessError::Child(format!("the load printed no report, but: {output:?}")))
}
