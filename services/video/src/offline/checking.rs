//! Whether all of the films can be read, and is what was written, and whether their manifests name what is there.

use super::{OfflineError, Session};
use crate::{manifest, name};
use qanat_store::StoreError;
use serde::Serialize;
use std::collections::BTreeSet;

/// Findings that are kept; beyond them they are counted.
const FINDINGS_MAX: usize = 100;

/// What was found.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize)]
pub struct Report {
    /// Objects that were read.
    pub files: usize,
    /// Bytes of these.
    pub bytes: u64,
    /// What is wrong, each with its film and file; at most a hundred.
    pub findings: Vec<String>,
    /// How much is wrong.
    pub wrong: usize,
}

impl Report {
    fn find(&mut self, path: &str, what: impl std::fmt::Display) {
        self.wrong += 1;
        if self.findings.len() < FINDINGS_MAX {
            self.findings.push(format!("{path}: {what}"));
        }
    }
}

impl Session {
    /// Reads everything. `tell` hears how many bytes were read, and how many there are.
    ///
    /// # Errors
    /// The store can't be read at all.
    pub fn check(&mut self, mut tell: impl FnMut(u64, u64)) -> Result<Report, OfflineError> {
        let objects: Vec<(Vec<u8>, u64)> =
            self.objects.iter().map(|(object, info)| (object.to_vec(), info.bytes)).collect();
        let paths: BTreeSet<&str> = objects.iter().filter_map(|(object, _)| Some(name::parse(object)?.0)).collect();
        let all: u64 = objects.iter().map(|(_, bytes)| bytes).sum();
        let mut report = Report::default();
        for (object, bytes) in &objects {
            let shown = String::from_utf8_lossy(object).into_owned();
            let path = name::parse(object).map(|(path, _)| path.to_owned());
            let Some(path) = path else {
                report.find(&shown, "no file of a film is called so");
                continue;
            };
            let kind = manifest::kind(&path).filter(|_| *bytes <= manifest::BYTES_MAX);
            let mut text = Vec::new();
            let mut broken: Option<StoreError> = None;
            self.read(object, |_, piece| {
                match piece {
                    Ok(block) => {
                        report.bytes += block.len() as u64;
                        if kind.is_some() {
                            text.extend_from_slice(block.bytes());
                        }
                    }
                    Err(error) => {
                        report.find(&path, &error);
                        broken = Some(error);
                    }
                }
                tell(report.bytes, all);
                true
            })?;
            report.files += 1;
            if let (Some(kind), None) = (kind, broken) {
                let film = path.split('/').next().unwrap_or_default();
                let file = path.get(film.len() + 1..).unwrap_or_default();
                for named in manifest::names(file, kind, &String::from_utf8_lossy(&text)) {
                    if !paths.contains(format!("{film}/{named}").as_str()) {
                        report.find(&path, format_args!("it names {named}, which is not there"));
                    }
                }
            }
        }
        Ok(report)
    }
}
