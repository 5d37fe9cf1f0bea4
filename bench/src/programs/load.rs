//! [`Load`]: what loads a server: a client on the kernel's sockets, or `qanat load`, whose TCP is ours.

use super::clients::KernelClient;
use super::measured::{CLIENT_CPU, Measured};
use crate::harness::HarnessError;
use crate::harness::process::{Spec, start};
use crate::harness::topology::Topology;
use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

/// How long `qanat load` may take beyond its time.
const PATIENCE: Duration = Duration::from_secs(30);

/// What loads a server.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Load {
    /// What `qanat load` is given, `{}` being the server's address.
    Ours(&'static str),
    /// A client on the kernel's sockets.
    Kernel(KernelClient),
}

impl Load {
    /// Looks whether the client is installed.
    ///
    /// # Errors
    /// It is not: says how to get it.
    pub(crate) fn look(self) -> Result<(), HarnessError> {
        match self {
            Load::Kernel(client) => match client.needs() {
                Some((path, package)) if !Path::new(path).exists() => {
                    Err(HarnessError::Missing(format!("{path} is not installed: apt-get install {package}")))
                }
                _ => Ok(()),
            },
            Load::Ours(_) => Ok(()),
        }
    }

    /// Loads a server, whose process is named as well, from the client's end of the link. `program` is this program.
    ///
    /// # Errors
    /// The client can't be started, fails, or says nothing that can be read.
    pub(crate) fn measure(
        self,
        program: &Path,
        topology: &Topology,
        (address, process): (SocketAddr, u32),
        times: (Duration, Duration),
    ) -> Result<Measured, HarnessError> {
        match self {
            Load::Ours(words) => ours(program, topology, words, (address, process), times),
            Load::Kernel(client) => client.measure(topology, address, CLIENT_CPU, times),
        }
    }
}

fn ours(
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
