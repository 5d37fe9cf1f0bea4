//! [`PinDirectory`]: where tables have names for a moment, by which a loader finds them.

use crate::error::DaemonError;
use rustix::mount::{FsMountFlags, FsOpenFlags, MountAttrFlags, fsconfig_create, fsmount, fsopen};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};

/// A directory of a BPF file system. It goes with this, and so do the names in it.
pub(super) struct PinDirectory {
    path: PathBuf,
    /// A file system of its own, which is mounted nowhere and ends with its descriptor.
    own: Option<OwnedFd>,
}

impl PinDirectory {
    /// In the BPF file system that is mounted. If there is none, as in many containers, in one of its own.
    ///
    /// # Errors
    /// Neither is to be had.
    pub(super) fn create() -> Result<PinDirectory, DaemonError> {
        let path = Path::new("/sys/fs/bpf").join(format!("qanat-upgrade-{}", std::process::id()));
        let Err(mounted) = std::fs::create_dir_all(&path) else { return Ok(PinDirectory { path, own: None }) };
        let make = || {
            let context = fsopen("bpf", FsOpenFlags::FSOPEN_CLOEXEC)?;
            fsconfig_create(context.as_fd())?;
            fsmount(context.as_fd(), FsMountFlags::FSMOUNT_CLOEXEC, MountAttrFlags::empty())
        };
        let own = make().map_err(|own| {
            let path = path.display();
            format!("no BPF file system: {path}: {mounted}; one of its own: {own}: `mount -t bpf bpf /sys/fs/bpf`")
        })?;
        Ok(PinDirectory { path: PathBuf::from(format!("/proc/self/fd/{}", own.as_raw_fd())), own: Some(own) })
    }

    /// The path of a name in it.
    pub(super) fn path_of(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }
}

impl Drop for PinDirectory {
    fn drop(&mut self) {
        if self.own.is_none() {
            let _ = std::fs::remove_dir_all(&self.path);
        }
    }
}
