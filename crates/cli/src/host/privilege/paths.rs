//! Paths of what a service reads and writes.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

/// The directory in which a file is, or is to be.
pub fn directory_of(path: &Path) -> PathBuf {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent.to_owned(),
        Some(_) => ".".into(),
        None => path.to_owned(),
    }
}

/// A directory that is served, and the one that it is in, so that another can take its place while it is served.
pub fn served(root: &Path) -> Vec<PathBuf> {
    let real = std::fs::canonicalize(root).unwrap_or_else(|_| root.to_owned());
    let around = |path: &Path| path.parent().filter(|parent| parent.parent().is_some()).map(Path::to_owned);
    let absolute = std::path::absolute(root).unwrap_or_else(|_| root.to_owned());
    let mut all: Vec<PathBuf> = [around(&absolute), around(&real)].into_iter().flatten().collect();
    all.push(real);
    all
}

/// Whether the error is of rights.
pub fn is_refused(error: &std::io::Error) -> bool {
    error.kind() == ErrorKind::PermissionDenied
}
