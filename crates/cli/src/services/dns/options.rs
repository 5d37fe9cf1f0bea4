//! Options of a server, with the file that they may name.

use super::reading::parse_name;
use crate::host::HostArguments;
use crate::host::export::ExportArguments;
use crate::log;
use clap::Args;
use qanat::entropy;
use qanat_dns::service::{FileConfig, IDENTITY_BYTES_MAX, ZoneFile, ZoneRules};
use std::net::SocketAddr;
use std::path::PathBuf;

/// Serving.
#[derive(Args, Clone)]
pub struct ServeArguments {
    /// A zone and its master file; may be repeated
    #[arg(long, value_name = "NAME=FILE", value_parser = parse_zone, required_unless_present = "config")]
    pub zone: Vec<ZoneFile>,
    /// Zones, limits, log and all else from a file (see below); what is given here comes on top
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Port (53)
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..))]
    port: Option<u16>,
    /// Name of this server, for NSID and id.server
    #[arg(long, value_name = "TEXT")]
    identity: Option<String>,
    /// Look names up as text copied out of the question instead of in place: to measure the difference
    #[arg(long)]
    pub text_index: bool,
    /// Figures in Prometheus' format, at this address of the kernel's
    #[arg(long, value_name = "ADDRESS:PORT")]
    metrics: Option<SocketAddr>,
    /// Where `qanat dns status`, `reload` and `refresh` find this server (default: a socket of this process's in the user's
    /// run-time directory)
    #[arg(long, value_name = "PATH")]
    control: Option<PathBuf>,
    /// Packets taken from the device at once, at most
    #[arg(long, value_name = "COUNT", default_value_t = 256, value_parser = clap::value_parser!(u16).range(1..=1_024))]
    pub batch: u16,
    /// Queues of the card, each answered by a thread of its own; limits of connections and rate are each queue's. Zones
    /// with a primary need one queue
    #[arg(long, value_name = "COUNT", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=64))]
    pub queues: u16,
    #[command(flatten)]
    pub export: ExportArguments,
    #[command(flatten)]
    pub place: HostArguments,
}

fn parse_zone(text: &str) -> Result<ZoneFile, String> {
    let (name, path) = text.split_once('=').ok_or("write it as NAME=FILE, as in example.com=./example.com.zone")?;
    Ok(ZoneFile { apex: parse_name(name)?, path: path.into() })
}

/// Sixteen unpredictable bytes.
pub fn random() -> Result<[u8; 16], String> {
    let bytes = entropy().map_err(|error| format!("no entropy: {error}"))?;
    Ok(bytes.first_chunk().copied().unwrap_or_default())
}

impl ServeArguments {
    /// What the file and the options say together.
    pub fn file_config(&self) -> Result<FileConfig, String> {
        let mut config = match &self.config {
            Some(path) => FileConfig::read(path, random()?).map_err(|error| error.to_string())?,
            None => FileConfig::with_cookies(random()?),
        };
        self.zone.iter().for_each(|zone| config.zones.add_file(zone));
        if config.zones.is_empty() {
            return Err("no zones: give one with --zone NAME=FILE, or in the file".to_owned());
        }
        config.dns.port = self.port.unwrap_or(config.dns.port);
        if let Some(identity) = &self.identity {
            if identity.len() > IDENTITY_BYTES_MAX {
                return Err(format!("--identity has {} bytes: at most {IDENTITY_BYTES_MAX}", identity.len()));
            }
            config.dns.settings.identity = identity.clone().into_bytes();
        }
        config.metrics = self.metrics.or(config.metrics);
        config.control = self.control.clone().or(config.control);
        Ok(config)
    }

    /// The zones of the configuration as it is now. All else takes effect when a server starts: `fixed` is how it was then.
    pub fn rules(&self, fixed: &str) -> Result<ZoneRules, String> {
        let config = self.file_config()?;
        if config.fixed != fixed {
            log::warning!(
                "reload",
                "what the file says beside zones, keys and templates has changed: restart the server for that"
            );
        }
        if self.queues > 1 && config.zones.may_fetch() {
            return Err(ONE_QUEUE.to_owned());
        }
        Ok(config.zones)
    }
}

/// What is said of several queues.
pub const ONE_QUEUE: &str = "a zone that has a primary needs one queue: what the primary answers may come by any, and each is a \
                         stack of its own; leave out --queues, or have such zones served by another qanat dns";
