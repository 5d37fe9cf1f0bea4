//! A film is taken out.

use super::{OfflineError, Session};

impl Session {
    /// Removes a film for good; how many files it had.
    ///
    /// # Errors
    /// [`OfflineError`].
    pub fn remove_film(&mut self, film: &str) -> Result<usize, OfflineError> {
        let objects = self.objects_of(film);
        if objects.is_empty() {
            return Err(OfflineError::Missing(film.to_owned()));
        }
        self.remove(&objects)?;
        Ok(objects.len())
    }
}
