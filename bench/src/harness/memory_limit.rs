//! [`MemoryLimit`]: a memory control group for a server, so that the page cache of what it reads has a bound, as a cache of its own has.
//! Groups of runs that were killed are removed by the next.

use super::HarnessError;
use std::fs;
use std::path::{Path, PathBuf};

/// Where the controller is: its files' names differ by version (`cgroup-v1/memory.rst`, `cgroup-v2.rst`).
const PLACES: [(&str, &str); 2] =
    [("/sys/fs/cgroup/memory", "memory.limit_in_bytes"), ("/sys/fs/cgroup", "memory.max")];
const PREFIX: &str = "qanat-bench-";

/// See the [module](self). Its processes have to be gone when it is dropped; else the next run removes it.
#[derive(Debug)]
pub struct MemoryLimit {
    path: PathBuf,
}

impl MemoryLimit {
    /// Puts these processes into a group that has `bytes`, of which anonymous memory and what they read are counted from now on.
    ///
    /// # Errors
    /// [`HarnessError::Missing`] if there is no such controller, with the remedy; else what the system says.
    pub fn new(processes: &[u32], bytes: u64) -> Result<MemoryLimit, HarnessError> {
        let missing = || {
            HarnessError::Missing(
                "the page cache can't be bounded, because there is no memory controller below /sys/fs/cgroup. \
                 Mount it: mount -t cgroup2 none /sys/fs/cgroup"
                    .to_owned(),
            )
        };
        let is_there = |(place, _): &&(&str, &str)| {
            let has = |file: &str| fs::read_to_string(Path::new(place).join(file)).unwrap_or_default();
            has("cgroup.controllers").contains("memory") || Path::new(place).join("memory.limit_in_bytes").exists()
        };
        let (place, limit) = PLACES.iter().find(is_there).ok_or_else(missing)?;
        remove_leftovers(Path::new(place));
        // Version 2 alone has it. Refused if it is delegated already.
        let _ = fs::write(Path::new(place).join("cgroup.subtree_control"), "+memory");
        let path = Path::new(place).join(format!("{PREFIX}{}", std::process::id()));
        let failed = |error| HarnessError::system(format!("bound memory by {}", path.display()), error);
        fs::create_dir_all(&path).map_err(failed)?;
        let group = MemoryLimit { path: path.clone() };
        fs::write(path.join(limit), bytes.to_string()).map_err(failed)?;
        for process in processes {
            fs::write(path.join("cgroup.procs"), process.to_string()).map_err(failed)?;
        }
        Ok(group)
    }
}

impl Drop for MemoryLimit {
    fn drop(&mut self) {
        let _ = fs::remove_dir(&self.path);
    }
}

fn remove_leftovers(place: &Path) {
    for entry in fs::read_dir(place).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let process = name.to_str().and_then(|name| name.strip_prefix(PREFIX)?.parse::<u32>().ok());
        if process.is_some_and(|process| !Path::new("/proc").join(process.to_string()).exists()) {
            // Refused while somebody is in it.
            let _ = fs::remove_dir(entry.path());
        }
    }
}
