//! A new catalog for running services: given by any thread, taken by each between two requests.

use crate::image::Catalog;
use qanat::Doorbell;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// How often, and how many times, it is looked whether all services have left a catalog.
const LEAVING_INTERVAL: Duration = Duration::from_millis(5);
const LEAVING_LOOKS: u32 = 100;

struct Shared {
    catalog: Mutex<Arc<Catalog>>,
    doorbells: Mutex<Vec<Doorbell>>,
}

impl Shared {
    fn catalog(&self) -> Arc<Catalog> {
        Arc::clone(&self.catalog.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Gives catalogs. Clones give to the same readers.
#[derive(Clone)]
pub struct CatalogPublisher {
    shared: Arc<Shared>,
}

impl CatalogPublisher {
    /// Starts with `catalog`.
    pub fn new(catalog: Catalog) -> CatalogPublisher {
        let shared = Shared { catalog: Mutex::new(Arc::new(catalog)), doorbells: Mutex::default() };
        CatalogPublisher { shared: Arc::new(shared) }
    }

    /// A reader, for one service.
    ///
    /// # Errors
    /// Out of descriptors.
    pub fn reader(&self) -> io::Result<CatalogReader> {
        let doorbell = Doorbell::new()?;
        self.shared.doorbells.lock().unwrap_or_else(PoisonError::into_inner).push(doorbell.clone());
        Ok(CatalogReader { shared: Arc::clone(&self.shared), doorbell })
    }

    /// The catalog given last.
    pub fn latest(&self) -> Arc<Catalog> {
        self.shared.catalog()
    }

    /// Rings for all readers: there is something new beside the catalog.
    pub fn ring(&self) {
        for doorbell in self.shared.doorbells.lock().unwrap_or_else(PoisonError::into_inner).iter() {
            doorbell.ring();
        }
    }

    /// Replaces the catalog by what `change` makes of it: no change of another thread is lost. Waits a moment for the
    /// services to leave the former, so that it is freed here: a large one takes a while.
    pub fn update(&self, change: impl FnOnce(&Catalog) -> Catalog) {
        let former = {
            let mut catalog = self.shared.catalog.lock().unwrap_or_else(PoisonError::into_inner);
            let new = Arc::new(change(&catalog));
            std::mem::replace(&mut *catalog, new)
        };
        self.ring();
        for _ in 0..LEAVING_LOOKS {
            if Arc::strong_count(&former) == 1 {
                break;
            }
            std::thread::sleep(LEAVING_INTERVAL);
        }
    }
}

/// Takes catalogs.
pub struct CatalogReader {
    shared: Arc<Shared>,
    doorbell: Doorbell,
}

impl CatalogReader {
    /// The catalog given last.
    pub fn latest(&self) -> Arc<Catalog> {
        self.shared.catalog()
    }

    /// Readable when there is a new one: watch it with the runtime.
    pub fn doorbell_fd(&self) -> BorrowedFd<'_> {
        self.doorbell.as_fd()
    }

    /// The new one, if the doorbell rang.
    pub fn take_new(&self) -> Option<Arc<Catalog>> {
        self.doorbell.take();
        Some(self.latest())
    }
}
