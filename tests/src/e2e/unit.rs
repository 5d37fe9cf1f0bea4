//! The daemon under the packaged unit's restrictions, without systemd: `tests/hostile/unit.py` reads the unit's file.

use super::patience::eventually;
use super::program::{Program, Running, qanat, workspace};
use super::scenario::is_root;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::time::Duration;
use tempfile::TempDir;

/// The unit's run-time directory, and what keeps its descriptors while the daemon is not there.
#[derive(Debug)]
pub struct Unit {
    directory: TempDir,
    store: Option<Running>,
}

fn runner() -> Program {
    Program::new("python3")
        .arguments([workspace().join("tests/hostile/unit.py")])
        .environment("PYTHONDONTWRITEBYTECODE", "1")
}

fn file() -> PathBuf {
    workspace().join("packaging/qanatd.service")
}

/// Whether a unit's restrictions can be had here; says so, past libtest's capture, if not.
fn is_possible() -> bool {
    static POSSIBLE: OnceLock<bool> = OnceLock::new();
    *POSSIBLE.get_or_init(|| {
        let directory = tempfile::tempdir_in("/run").expect("a directory in /run");
        let place = [file().as_os_str(), directory.path().as_os_str()].map(ToOwned::to_owned);
        let tried =
            runner().arguments(["run"]).arguments(place).arguments(["--", "/bin/true"]).patience(Duration::from_secs(60)).run();
        if tried.code != Some(0) {
            let text = format!(
                "\nNOT UNDER THE UNIT: the restrictions of packaging/qanatd.service can't be had here; the daemon runs without.\n{}\n",
                tried.stderr
            );
            let _ = std::io::stderr().write_all(text.as_bytes());
            assert!(std::env::var_os("QANAT_REQUIRE_ROOT").is_none(), "QANAT_REQUIRE_ROOT is set{text}");
        }
        tried.code == Some(0)
    })
}

impl Unit {
    /// An empty directory, which anybody may look into, and no restrictions, as if root had started the daemon by hand.
    ///
    /// # Panics
    /// It can't be made.
    pub fn bare() -> Unit {
        let place = if is_root() { PathBuf::from("/run") } else { std::env::temp_dir() };
        let directory = tempfile::Builder::new().prefix("qanat-").tempdir_in(place).expect("a directory");
        let open = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        std::fs::set_permissions(directory.path(), open).expect("its mode");
        Unit { directory, store: None }
    }

    /// The same as [`bare`](Unit::bare), with the restrictions.
    ///
    /// # Panics
    /// The directory can't be made, or the program that keeps descriptors does not start.
    pub fn new() -> Unit {
        let mut unit = Unit::bare();
        if is_possible() {
            unit.store = Some(runner().arguments(["store".as_ref(), unit.store_path().as_os_str()]).piped().start());
            let asked = unit.directory.path().join("store.ask");
            eventually("what keeps descriptors listens", Duration::from_secs(20), || asked.exists());
        }
        unit
    }

    fn store_path(&self) -> PathBuf {
        self.directory.path().join("store")
    }

    /// Where the daemon may write.
    pub fn directory(&self) -> &Path {
        self.directory.path()
    }

    /// The `qanat` command, as the unit would start it.
    pub fn program(&self) -> Program {
        self.program_at(&qanat())
    }

    /// The same as [`program`](Unit::program) for a copy of the command.
    pub fn program_at(&self, command: &Path) -> Program {
        match self.store {
            Some(_) => {
                let place = [file(), self.directory.path().to_owned(), self.store_path()];
                runner().arguments(["run"]).arguments(place).arguments(["--"]).arguments([command])
            }
            None => Program::new(command),
        }
    }
}

impl Default for Unit {
    fn default() -> Unit {
        Unit::new()
    }
}
