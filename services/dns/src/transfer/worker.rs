//! The thread that makes zones of what was transferred: it may take seconds, which a data path has not.

use super::incoming::Incoming;
use super::kept;
use super::secondary::Timing;
use super::versions::Versions;
use crate::image::ZoneImage;
use crate::name::Name;
use crate::service::CatalogPublisher;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};

/// What there is to do for the secondary of this number.
pub(super) enum Job {
    /// Make a zone, and have it served.
    Build { index: usize, incoming: Incoming },
    /// It was the newest: so is the file it is kept in.
    Refresh { index: usize },
    /// Serve it no more.
    Expire { index: usize },
}

/// The new version's times and whether it could be saved, or why there is none.
pub(super) type Built = Result<Done, String>;

/// A zone, and where it is kept.
pub(super) struct Served {
    pub(super) apex: Name,
    pub(super) file: Option<PathBuf>,
}

/// The thread's other end.
pub(super) struct Worker {
    jobs: Sender<Job>,
    results: Receiver<(usize, Built)>,
}

impl Worker {
    /// Starts it. It ends when this is dropped.
    ///
    /// # Errors
    /// No thread can be had.
    pub(super) fn start(
        zones: Vec<Served>,
        versions: Versions,
        publisher: CatalogPublisher,
    ) -> std::io::Result<Worker> {
        let (jobs, receiver) = channel();
        let (sender, results) = channel();
        std::thread::Builder::new()
            .name("qanat-dns-zones".to_owned())
            .spawn(move || work(&receiver, &sender, &zones, &versions, &publisher))?;
        Ok(Worker { jobs, results })
    }

    /// Gives it a job; false: it is gone.
    pub(super) fn give(&self, job: Job) -> bool {
        self.jobs.send(job).is_ok()
    }

    /// What it has done since.
    pub(super) fn results(&self) -> impl Iterator<Item = (usize, Built)> + '_ {
        self.results.try_iter()
    }
}

fn work(
    jobs: &Receiver<Job>,
    results: &Sender<(usize, Built)>,
    zones: &[Served],
    versions: &Versions,
    publisher: &CatalogPublisher,
) {
    for job in jobs {
        match job {
            Job::Build { index, incoming } => {
                let Some(served) = zones.get(index) else { continue };
                let (outcome, image) = match build(served, incoming, versions) {
                    Ok((done, image)) => (Ok(done), Some(image)),
                    Err(error) => (Err(error), None),
                };
                // Before the doorbell, which a new catalog rings, and the same one again too.
                if results.send((index, outcome)).is_err() {
                    return;
                }
                publisher.update(|catalog| match image {
                    Some(image) => catalog.with([image]),
                    None => catalog.clone(),
                });
            }
            Job::Refresh { index } => {
                if let Some(path) = zones.get(index).and_then(|served| served.file.as_ref()) {
                    // If not, it expires earlier after a restart; saving will tell why.
                    let _ = kept::refresh(path);
                }
            }
            Job::Expire { index } => {
                if let Some(Served { apex, .. }) = zones.get(index) {
                    publisher.update(|catalog| catalog.without(apex));
                    versions.remove(apex);
                }
            }
        }
    }
}

type Done = (Timing, Result<(), String>);

fn build(served: &Served, incoming: Incoming, versions: &Versions) -> Result<(Done, Arc<ZoneImage>), String> {
    let base = versions.newest(&served.apex);
    let zone = incoming.finish(base.as_deref().map(|version| &*version.zone)).map_err(|error| error.to_string())?;
    let timing = zone.soa().and_then(|soa| Timing::of(soa.data)).ok_or("a SOA record that is none")?;
    let image = ZoneImage::compile(&zone, &mut |_| {}).map_err(|error| error.to_string())?;
    let saving = served.file.as_ref().map_or(Ok(()), |path| {
        let remedy = "let this user write to its directory, or the zone is fetched anew after a restart";
        kept::save(path, &zone).map_err(|error| format!("saving it to {}: {error}; {remedy}", path.display()))
    });
    versions.put(Arc::new(zone));
    Ok(((timing, saving), Arc::new(image)))
}
