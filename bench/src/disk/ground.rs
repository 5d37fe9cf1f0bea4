//! [`Ground`]: the file or device that a measurement reads and overwrites.

use crate::harness::HarnessError;
use crate::harness::environment::Environment;
use crate::harness::options::BenchOptions;
use crate::harness::scratch::Scratch;
use qanat_disk::{DiskFile, DiskOptions};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Bytes of the file, if none is named.
const FILE_BYTES: u64 = 1 << 30;

/// The file or device that is read and overwritten. A file of the bench's own goes with it.
pub(crate) struct Ground {
    pub(crate) path: PathBuf,
    pub(super) bytes: u64,
    scratch: Option<Scratch>,
}

impl Ground {
    /// `overwrites`: some points do.
    pub(crate) fn new(
        options: &BenchOptions,
        overwrites: bool,
        progress: &mut dyn FnMut(&str),
    ) -> Result<Ground, HarnessError> {
        if let Some(path) = &options.on {
            if overwrites && !options.overwrite {
                return Err(HarnessError::Option(format!(
                    "what is in {} would be overwritten: say --overwrite, or choose reads only (--filter reads)",
                    path.display()
                )));
            }
            let file = DiskFile::open(path, DiskOptions::default())
                .map_err(|error| HarnessError::Option(error.to_string()))?;
            return Ok(Ground { path: path.clone(), bytes: file.geometry().bytes(), scratch: None });
        }
        let scratch = Scratch::create("disk")?;
        let path = scratch.path().join("disk.img");
        progress("writing a file of 1 GiB");
        fill(&path).map_err(|error| HarnessError::system(format!("write {}", path.display()), error))?;
        Ok(Ground { path, bytes: FILE_BYTES, scratch: Some(scratch) })
    }

    /// On what it is measured, once the machine is quiet.
    pub(crate) fn environment(&self, options: &BenchOptions, progress: &mut dyn FnMut(&str)) -> Environment {
        let mut environment = Environment::here();
        progress("waiting for a quiet machine");
        environment.wait_for_quiet(Duration::from_secs(if options.quick { 2 } else { 20 }));
        let mib = self.bytes >> 20;
        environment.link = match self.scratch {
            None => format!("{}, {mib} MiB, past the page cache", self.path.display()),
            Some(_) => format!("a file of {mib} MiB in {}, past the page cache", std::env::temp_dir().display()),
        };
        environment.pinning = "none: one thread each, wherever the kernel has it".to_owned();
        environment
    }
}

/// Every block is written: reading holes would be no reading.
fn fill(path: &Path) -> std::io::Result<()> {
    let mut file = std::fs::File::create(path)?;
    let piece = vec![0x5a; 1 << 20];
    for _ in 0..FILE_BYTES >> 20 {
        file.write_all(&piece)?;
    }
    file.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_there_is_overwritten_only_if_that_is_said() {
        let on = Some(PathBuf::from("/nonexistent/fast.img"));
        let why = |overwrites, overwrite| {
            let options = BenchOptions { on: on.clone(), overwrite, ..BenchOptions::new(PathBuf::new()) };
            Ground::new(&options, overwrites, &mut |_| {}).err().map(|error| error.to_string()).unwrap_or_default()
        };
        assert!(why(true, false).contains("would be overwritten: say --overwrite"), "{}", why(true, false));
        for (overwrites, overwrite) in [(false, false), (true, true)] {
            assert!(why(overwrites, overwrite).contains("No such file"), "{}", why(overwrites, overwrite));
        }
    }
}
