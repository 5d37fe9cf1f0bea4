//! A folder of segments and manifests becomes a film.

use super::{OfflineError, Session};
use crate::{manifest, name};
use qanat_store::{ObjectId, PIECE_BYTES, StoreError};
use std::fs::File;
use std::io::{Error, ErrorKind, Read};
use std::path::{Path, PathBuf};

/// Objects that are on their way to the disk at once: each becomes durable by a flush, which many share.
const AT_ONCE: usize = 64;
/// Folders below each other.
const DEPTH_MAX: usize = 16;

/// A file to add.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Source {
    /// Where it is.
    pub path: PathBuf,
    /// Its path below its film.
    pub file: String,
    /// Its length.
    pub bytes: u64,
}

/// The files of a folder, and of those below it, manifests last: who finds one finds all that it names. Names that begin with a dot are
/// left out.
///
/// # Errors
/// A file that can't be read, or named.
pub fn files_of(folder: &Path) -> Result<Vec<Source>, OfflineError> {
    let mut sources = Vec::new();
    let mut pending = vec![(folder.to_owned(), 0)];
    while let Some((directory, depth)) = pending.pop() {
        let failed = |error| OfflineError::File { path: directory.clone(), error };
        for entry in std::fs::read_dir(&directory).map_err(failed)? {
            let path = entry.map_err(failed)?.path();
            if path.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(b".")) {
                continue;
            }
            let metadata =
                std::fs::metadata(&path).map_err(|error| OfflineError::File { path: path.clone(), error })?;
            if metadata.is_dir() && depth < DEPTH_MAX {
                pending.push((path, depth + 1));
            } else if metadata.is_file() {
                let file = name::file_of(path.strip_prefix(folder).unwrap_or(&path))?;
                sources.push(Source { path, file, bytes: metadata.len() });
            }
        }
    }
    if sources.is_empty() {
        return Err(OfflineError::NoFiles(folder.to_owned()));
    }
    sources.sort_by_key(|source| (manifest::kind(&source.file).is_some(), source.file.clone()));
    Ok(sources)
}

impl Session {
    /// Adds a film of these files. If one can't be added, none is there. `tell` hears how many bytes were read, and says whether to go
    /// on.
    ///
    /// # Errors
    /// [`OfflineError`].
    pub fn add_film(
        &mut self,
        film: &str,
        sources: &[Source],
        added_s: u64,
        mut tell: impl FnMut(u64) -> bool,
    ) -> Result<(), OfflineError> {
        name::check_film(film)?;
        if !self.objects_of(film).is_empty() {
            return Err(OfflineError::Exists(film.to_owned()));
        }
        let mut under_way = Vec::new();
        let outcome = self.add_all(film, sources, added_s, &mut under_way, &mut tell);
        if let Err(error) = outcome {
            for object in under_way {
                self.give_up(object);
            }
            let there = self.objects_of(film);
            // The first error is the one to tell.
            let _ = self.remove(&there);
            return Err(error);
        }
        Ok(())
    }

    fn add_all(
        &mut self,
        film: &str,
        sources: &[Source],
        added_s: u64,
        under_way: &mut Vec<ObjectId>,
        tell: &mut impl FnMut(u64) -> bool,
    ) -> Result<(), OfflineError> {
        let mut told = 0;
        let mut is_at_manifests = false;
        for source in sources {
            if manifest::kind(&source.file).is_some() && !std::mem::replace(&mut is_at_manifests, true) {
                self.wait_for(under_way, 0)?;
            }
            self.wait_for(under_way, AT_ONCE)?;
            let object = self.create_waiting(&name::of_object(film, &source.file, added_s), source.bytes)?;
            under_way.push(object);
            let failed = |error| OfflineError::File { path: source.path.clone(), error };
            let mut file = File::open(&source.path).map_err(failed)?;
            let mut left = source.bytes;
            while left > 0 {
                let count = left.min(PIECE_BYTES);
                let mut block = self.block()?;
                block.append_with(count as usize, |bytes| file.read_exact(bytes)).map_err(failed)?;
                self.write(object, block)?;
                left -= count;
                told += count;
                if !tell(told) {
                    return Err(OfflineError::Stopped);
                }
            }
            if file.read(&mut [0]).map_err(failed)? > 0 {
                return Err(failed(Error::new(ErrorKind::InvalidData, "it grows while it is added")));
            }
        }
        self.wait_for(under_way, 0)?;
        Ok(())
    }

    /// Makes an object, once there is room for it in the table's log.
    fn create_waiting(&mut self, name: &[u8], bytes: u64) -> Result<ObjectId, StoreError> {
        loop {
            match self.create(name, bytes) {
                Err(StoreError::Busy { .. }) => self.wait()?,
                outcome => return outcome,
            }
        }
    }
}
