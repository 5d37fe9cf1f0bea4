//! `qanat load http`: its options, shared by the [native](super::native) and the [kernel](super::kernel) client.

use super::duration;
use super::engine::{Engine, EngineOptions, PIPELINE_MAX};
use super::figures::Report;
use super::mix::{self, Mix, RequestShape, Target, TargetError, Url};
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;
use thiserror::Error;

/// Most connections kept busy at once.
pub const CONNECTIONS_MAX: usize = 1 << 20;

/// What a user may ask of `qanat load http`. Defaults: one connection kept alive, closed loop, ten seconds.
#[derive(Clone, Debug)]
pub struct HttpLoadOptions {
    /// One or more URLs of one server, asked for equally often; with [`mix`](Self::mix) one base URL.
    pub urls: Vec<String>,
    /// A named mix (`yahoo`: `BASE/<bytes>.bin`), or the path of a file with lines of `WEIGHT PATH`.
    pub mix: Option<String>,
    /// Connections kept busy.
    pub connections: usize,
    /// A new connection for every request.
    pub close: bool,
    /// Open loop: requests a second, due at even intervals. `None`: closed loop.
    pub rate_per_s: Option<f64>,
    /// Requests that may wait in an open loop before they are dropped.
    pub backlog_max: usize,
    /// Requests in flight on each connection.
    pub pipeline: usize,
    /// How long to count.
    pub duration: Duration,
    /// How long to load before counting.
    pub warm_up: Duration,
    /// For one answer or handshake.
    pub timeout: Duration,
    /// Compare every body with the first of its URL.
    pub verify: bool,
    /// Ask by HEAD.
    pub head: bool,
    /// Host field instead of the URL's.
    pub host: Option<String>,
    /// More fields, each `Name: value`.
    pub fields: Vec<String>,
    /// Local addresses to connect from, in turn (more of them: more ports). Empty: whatever the stack picks.
    pub sources: Vec<IpAddr>,
    /// A process whose CPU time to report, for example the server's.
    pub watch_process: Option<u32>,
    /// Decides the order in which a mix is drawn.
    pub seed: u64,
}

impl Default for HttpLoadOptions {
    fn default() -> Self {
        HttpLoadOptions {
            urls: Vec::new(),
            mix: None,
            connections: 1,
            close: false,
            rate_per_s: None,
            backlog_max: 100_000,
            pipeline: 1,
            duration: Duration::from_secs(10),
            warm_up: Duration::from_millis(500),
            timeout: Duration::from_secs(5),
            verify: false,
            head: false,
            host: None,
            fields: Vec::new(),
            sources: Vec::new(),
            watch_process: None,
            seed: 0x5157_414e_4154,
        }
    }
}

/// Why a load can't be run.
#[derive(Debug, Error)]
pub enum LoadError {
    /// A URL, field or mix.
    #[error(transparent)]
    Target(#[from] TargetError),
    /// Another option; says which and what it may be.
    #[error("{0}")]
    Option(String),
    /// The mix file can't be read.
    #[error("mix {path:?}: {error}; give 'yahoo' or a file with lines of: WEIGHT /path")]
    MixFile {
        /// Its path.
        path: String,
        /// Why.
        error: std::io::Error,
    },
    /// The system refused something; says what and what to do.
    #[error("{what}: {error}")]
    System {
        /// What was tried, and the remedy if there is one.
        what: String,
        /// Why not.
        error: std::io::Error,
    },
    /// No device to load from.
    #[error(transparent)]
    Attach(#[from] qanat::AttachError),
    /// The load can't start on its stack.
    #[error(transparent)]
    Start(#[from] qanat::StartError),
    /// The runtime.
    #[error("{0}")]
    Runtime(String),
}

/// A load checked and ready to run on either client.
pub struct HttpPlan {
    pub(crate) engine: Engine,
    /// The server.
    pub peer: SocketAddr,
    /// What is asked for, for people.
    pub label: String,
    /// See [`HttpLoadOptions::sources`].
    pub sources: Vec<IpAddr>,
    /// Connections that may be open or closing at once.
    pub connections: usize,
    /// The loader polls as fast as it can anyway: an open loop's arrivals need it.
    pub open_loop: bool,
}

impl HttpPlan {
    /// Checks everything and resolves the server's name.
    ///
    /// # Errors
    /// [`LoadError`] names the option and what it may be.
    pub fn new(options: &HttpLoadOptions) -> Result<HttpPlan, LoadError> {
        check(options)?;
        let (targets, label) = targets(options)?;
        let first = targets.first().ok_or_else(|| LoadError::Option("no URL given".to_owned()))?;
        let peer = first.url.resolve()?;
        if let Some(source) = options.sources.iter().find(|source| source.is_ipv4() != peer.is_ipv4()) {
            return Err(LoadError::Option(format!("source {source} and server {peer} are of different families")));
        }
        let shape = RequestShape {
            host: options.host.clone(),
            close: options.close,
            head: options.head,
            fields: options.fields.clone(),
        };
        let mix = Mix::new(&targets, &shape, options.seed)?;
        let engine = Engine::new(
            EngineOptions {
                connections: options.connections,
                pipeline: options.pipeline,
                close: options.close,
                rate_per_s: options.rate_per_s,
                backlog_max: options.backlog_max,
                warm_up: options.warm_up,
                duration: options.duration,
                timeout: options.timeout,
                verify: options.verify,
                head: options.head,
                watch_process: options.watch_process,
            },
            mix,
        );
        Ok(HttpPlan {
            engine,
            peer,
            label,
            sources: options.sources.clone(),
            connections: options.connections,
            open_loop: options.rate_per_s.is_some(),
        })
    }

    /// Adds to the engine's report what only the client knows.
    pub(crate) fn complete(&self, mut report: Report, client: &str) -> Report {
        report.client = client.to_owned();
        report.url = self.label.clone();
        report.peer = self.peer.to_string();
        report
    }
}

fn check(options: &HttpLoadOptions) -> Result<(), LoadError> {
    let fail = |message: String| Err(LoadError::Option(message));
    if options.connections == 0 || options.connections > CONNECTIONS_MAX {
        return fail(format!("{} connections: give from 1 to {CONNECTIONS_MAX}", options.connections));
    }
    if options.pipeline == 0 || options.pipeline > PIPELINE_MAX {
        return fail(format!("pipeline depth {}: give from 1 to {PIPELINE_MAX}", options.pipeline));
    }
    if options.close && options.pipeline > 1 {
        return fail("--close and --pipeline exclude each other: a closing connection carries one request".to_owned());
    }
    if options.rate_per_s.is_some_and(|rate| !(rate.is_finite() && rate > 0.0 && rate <= 1e8)) {
        return fail("rate: give requests per second, above 0 and at most 100,000,000".to_owned());
    }
    if !duration::LENGTHS.contains(&options.duration) {
        return fail("duration: give at least 1ms and at most 7 days".to_owned());
    }
    if options.timeout.is_zero() {
        return fail("timeout: give above 0".to_owned());
    }
    Ok(())
}

fn targets(options: &HttpLoadOptions) -> Result<(Vec<Target>, String), LoadError> {
    let urls: Vec<Url> = options.urls.iter().map(|url| Url::parse(url)).collect::<Result<_, _>>()?;
    let Some(base) = urls.first() else {
        return Err(LoadError::Option("no URL given; for example http://10.77.0.2/".to_owned()));
    };
    let label = options.urls.join(" ");
    let Some(mix) = &options.mix else {
        if let Some(other) = urls.iter().find(|url| (&url.host, url.port) != (&base.host, base.port)) {
            return Err(LoadError::Option(format!(
                "{} and {}: one run loads one server; start a second one for the other",
                base.authority, other.authority
            )));
        }
        return Ok((urls.into_iter().map(|url| Target { url, weight: 1 }).collect(), label));
    };
    if urls.len() > 1 {
        return Err(LoadError::Option("with a mix give one base URL".to_owned()));
    }
    let targets = if mix == "yahoo" {
        mix::named(mix, base)?
    } else {
        let text = std::fs::read_to_string(mix).map_err(|error| LoadError::MixFile { path: mix.clone(), error })?;
        mix::parse_file(&text, base)?
    };
    Ok((targets, format!("{label} (mix {mix})")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_checked() {
        let good = HttpLoadOptions { urls: vec!["http://127.0.0.1:1/".to_owned()], ..HttpLoadOptions::default() };
        assert!(HttpPlan::new(&good).is_ok());
        let bad: [fn(&mut HttpLoadOptions); 10] = [
            |o| o.urls.clear(),
            |o| o.urls.push("http://127.0.0.2:1/".to_owned()),
            |o| o.connections = 0,
            |o| o.pipeline = 100_000,
            |o| (o.close, o.pipeline) = (true, 2),
            |o| o.rate_per_s = Some(f64::NAN),
            |o| o.duration = Duration::ZERO,
            |o| o.mix = Some("/no/such/file".to_owned()),
            |o| o.fields.push("no colon".to_owned()),
            |o| o.sources.push("::1".parse().unwrap()),
        ];
        for (number, spoil) in bad.iter().enumerate() {
            let mut options = good.clone();
            spoil(&mut options);
            let error = HttpPlan::new(&options).err().unwrap_or_else(|| panic!("{number} was accepted"));
            assert!(!error.to_string().is_empty());
        }
    }
}
