//! The thread that makes zones of what was transferred: it may take seconds, which a data path has not.

use super::control::Control;
use super::incoming::{Incoming, IncomingError};
use super::kept;
use super::timing::Timing;
use super::versions::Versions;
use crate::image::{CompileError, ZoneImage};
use crate::name::Name;
use crate::publish::CatalogPublisher;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};

/// What there is to do for a secondary.
pub(super) enum Job {
    /// Make a zone, and have it served.
    Build { served: Arc<Served>, incoming: Incoming },
    /// It was the newest: so is the file it is kept in.
    Refresh { served: Arc<Served> },
    /// Serve it no more.
    Expire { served: Arc<Served> },
}

/// Why no zone was made of a transfer.
#[derive(Debug, thiserror::Error)]
pub(super) enum BuildError {
    #[error("{0}")]
    Incoming(IncomingError),
    #[error("a SOA record that is none")]
    NoSoa,
    #[error("{0}")]
    Compile(CompileError),
}

/// Why a zone that is served was not saved.
#[derive(Debug, thiserror::Error)]
#[error(
    "saving it to {}: {error}; let this user write to its directory, or the zone is fetched anew after a restart",
    path.display()
)]
pub(super) struct SaveError {
    path: PathBuf,
    error: io::Error,
}

/// What was made of a transfer, or why nothing.
pub(super) type Built = Result<Done, BuildError>;

/// A zone, and where it is kept.
pub(super) struct Served {
    pub(super) apex: Name,
    pub(super) file: Option<PathBuf>,
}

/// Told of each zone that has come, on the thread that makes zones.
pub type Arrival = Arc<dyn Fn(&Name) + Send + Sync>;

/// What the thread works with.
pub(super) struct Workshop {
    pub(super) versions: Versions,
    pub(super) publisher: CatalogPublisher,
    pub(super) control: Control,
    pub(super) arrival: Option<Arrival>,
}

/// The thread's other end.
pub(super) struct Worker {
    jobs: Sender<Job>,
    results: Receiver<(Name, Built)>,
}

impl Worker {
    /// Starts it. It ends when this is dropped.
    ///
    /// # Errors
    /// No thread can be had.
    pub(super) fn start(workshop: Workshop) -> io::Result<Worker> {
        let (jobs, receiver) = channel();
        let (sender, results) = channel();
        std::thread::Builder::new()
            .name("qanat-dns-zones".to_owned())
            .spawn(move || work(&receiver, &sender, &workshop))?;
        Ok(Worker { jobs, results })
    }

    /// Gives it a job; false: it is gone.
    pub(super) fn give(&self, job: Job) -> bool {
        self.jobs.send(job).is_ok()
    }

    /// What it has done since.
    pub(super) fn results(&self) -> impl Iterator<Item = (Name, Built)> + '_ {
        self.results.try_iter()
    }
}

fn work(jobs: &Receiver<Job>, results: &Sender<(Name, Built)>, workshop: &Workshop) {
    let Workshop { versions, publisher, control, arrival } = workshop;
    for job in jobs {
        match job {
            Job::Build { served, incoming } => {
                let (outcome, image) = match build(&served, incoming, versions) {
                    Ok((done, image)) => (Ok(done), Some(image)),
                    Err(error) => (Err(error), None),
                };
                // Before the doorbell, which a new catalog rings, and the same one again too.
                if results.send((served.apex.clone(), outcome)).is_err() {
                    return;
                }
                let has_come = image.is_some();
                // Under the lock that removing a zone takes as well: one that is no longer wanted does not come back.
                publisher.update(|catalog| match image {
                    Some(image) if control.is_secondary(&served.apex) => catalog.with([image]),
                    _ => catalog.clone(),
                });
                if !control.is_secondary(&served.apex) {
                    versions.remove(&served.apex);
                } else if let Some(arrival) = arrival.as_ref().filter(|_| has_come) {
                    arrival(&served.apex);
                }
            }
            Job::Refresh { served } => {
                if let Some(path) = &served.file {
                    // If not, it expires earlier after a restart; saving will tell why.
                    let _ = kept::refresh(path);
                }
            }
            Job::Expire { served } => {
                if control.is_secondary(&served.apex) {
                    publisher.update(|catalog| catalog.without(&served.apex));
                    versions.remove(&served.apex);
                }
            }
        }
    }
}

/// A version that is served now.
pub(super) struct Done {
    pub(super) timing: Timing,
    /// Whether it could be saved.
    pub(super) saving: Result<(), SaveError>,
    pub(super) records: usize,
    /// It came as differences.
    pub(super) in_steps: bool,
}

fn build(served: &Served, incoming: Incoming, versions: &Versions) -> Result<(Done, Arc<ZoneImage>), BuildError> {
    let base = versions.newest(&served.apex);
    let in_steps = incoming.has_steps();
    let zone = incoming.finish(base.as_deref().map(|version| &*version.zone)).map_err(BuildError::Incoming)?;
    let timing = zone.soa().and_then(|soa| Timing::of(soa.data)).ok_or(BuildError::NoSoa)?;
    let image = ZoneImage::compile(&zone, &mut |_| {}).map_err(BuildError::Compile)?;
    let saving = served
        .file
        .as_ref()
        .map_or(Ok(()), |path| kept::save(path, &zone).map_err(|error| SaveError { path: path.clone(), error }));
    let records = zone.record_count();
    versions.put(Arc::new(zone));
    Ok((Done { timing, saving, records, in_steps }, Arc::new(image)))
}
