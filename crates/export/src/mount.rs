//! The mount of an export: made by whoever may mount, for an application that may not.
//!
//! ```text
//!   prepare ── a descriptor of /dev/fuse, which goes to the application ── it answers there
//!      └────── a mount that is nowhere yet ── Claim::attach ── below ROOT ── detach or abort
//! ```
//! The application may answer lies. So the kernel takes the mount for read-only, runs nothing from it, and believes no devices and no rights
//! of other users there.

use crate::place::{ExportName, ROOT, mounted};
use crate::probe::{Health, SILENCE_MAX, probe};
use rustix::fs::{FlockOperation, Mode, OFlags, flock, open};
use rustix::io::Errno;
use rustix::mount::{
    FsMountFlags, FsOpenFlags, MountAttrFlags, MoveMountFlags, UnmountFlags, fsconfig_create, fsconfig_set_flag,
    fsconfig_set_string, fsmount, fsopen, move_mount, unmount,
};
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};

const DEVICE: &str = "/dev/fuse";
/// What the kernel is told about the mount, besides its descriptor. Reads of more than a page are as large as the kernel likes.
const OPTIONS: [(&str, &str); 5] =
    [("source", "qanat"), ("subtype", "qanat"), ("rootmode", "40000"), ("user_id", "0"), ("group_id", "0")];
/// `default_permissions`: the kernel judges who may read. `allow_other`: it does so for all users.
const FLAGS: [&str; 3] = ["default_permissions", "allow_other", "ro"];

/// Why there is no mount.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MountError {
    /// `/dev/fuse` can't be opened.
    #[error("{DEVICE}: {0}: an export takes the kernel's FUSE (`modprobe fuse`)")]
    Device(#[source] io::Error),
    /// The kernel refuses.
    #[error("mounting an export: {0}: it takes root's rights (CAP_SYS_ADMIN)")]
    Refused(#[source] io::Error),
    /// A directory can't be made or used.
    #[error("{}: {error}", path.display())]
    Place {
        /// Which.
        path: PathBuf,
        /// What the system says.
        error: io::Error,
    },
    /// There is an export of that name.
    #[error("{}: another service exports there: give another name (--export=NAME)", .0.display())]
    InUse(PathBuf),
}

/// A descriptor of `/dev/fuse` for an application to answer on, and its mount, which is nowhere yet.
///
/// # Errors
/// This process may not mount, or the kernel has no FUSE.
pub fn prepare() -> Result<(OwnedFd, OwnedFd), MountError> {
    let refused = |error: Errno| MountError::Refused(error.into());
    let device = open(DEVICE, OFlags::RDWR | OFlags::CLOEXEC, Mode::empty());
    let device = device.map_err(|error| MountError::Device(error.into()))?;
    let system = fsopen("fuse", FsOpenFlags::FSOPEN_CLOEXEC).map_err(refused)?;
    fsconfig_set_string(&system, "fd", device.as_raw_fd().to_string()).map_err(refused)?;
    for (key, value) in OPTIONS {
        fsconfig_set_string(&system, key, value).map_err(refused)?;
    }
    for flag in FLAGS {
        fsconfig_set_flag(&system, flag).map_err(refused)?;
    }
    fsconfig_create(&system).map_err(refused)?;
    let attributes = MountAttrFlags::MOUNT_ATTR_RDONLY
        | MountAttrFlags::MOUNT_ATTR_NOSUID
        | MountAttrFlags::MOUNT_ATTR_NODEV
        | MountAttrFlags::MOUNT_ATTR_NOEXEC;
    let mount = fsmount(&system, FsMountFlags::FSMOUNT_CLOEXEC, attributes).map_err(refused)?;
    Ok((device, mount))
}

/// The right to mount an export of a name. Whoever holds it has locked the directory below the mount, so no two have it.
#[derive(Debug)]
pub struct Claim {
    path: PathBuf,
    directory: OwnedFd,
    is_attached: bool,
    is_left: bool,
}

impl Claim {
    /// Makes the directory of an export. A mount there whose application is gone is taken away.
    ///
    /// # Errors
    /// Another has it, or it can't be made.
    pub fn new(name: &ExportName) -> Result<Claim, MountError> {
        let path = name.directory();
        let at = |path: &Path, error: io::Error| MountError::Place { path: path.to_owned(), error };
        let is_mounted = || mounted().map(|all| all.contains(&path)).map_err(|error| at(&path, error));
        if is_mounted()? {
            match probe(&path, SILENCE_MAX) {
                Health::Answers | Health::Silent => return Err(MountError::InUse(path)),
                Health::Dead => detach(&path).map_err(|error| at(&path, error))?,
            }
        }
        make(Path::new(ROOT)).map_err(|error| at(Path::new(ROOT), error))?;
        make(&path).map_err(|error| at(&path, error))?;
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let directory = open(&path, flags, Mode::empty()).map_err(|error| at(&path, error.into()))?;
        match flock(&directory, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {}
            Err(Errno::WOULDBLOCK) => return Err(MountError::InUse(path)),
            Err(error) => return Err(at(&path, error.into())),
        }
        // Another may have mounted before the lock was had.
        match is_mounted()? {
            true => Err(MountError::InUse(path)),
            false => Ok(Claim { path, directory, is_attached: false, is_left: false }),
        }
    }

    /// The export's directory.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Puts a mount there: from now on it can be read.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn attach(&mut self, mount: BorrowedFd<'_>) -> Result<(), MountError> {
        let flags = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH | MoveMountFlags::MOVE_MOUNT_T_EMPTY_PATH;
        let moved = move_mount(mount, "", &self.directory, "", flags);
        moved.map_err(|error| MountError::Refused(error.into()))?;
        self.is_attached = true;
        Ok(())
    }

    /// Leaves the mount where it is, as the death of this process would.
    pub fn leave(mut self) {
        self.is_attached = false;
        self.is_left = true;
    }

    /// Readers that wait get an error, and the mount goes.
    pub fn abort(&mut self) {
        if std::mem::take(&mut self.is_attached) {
            // It may have been unmounted by others.
            let _ = unmount(&self.path, UnmountFlags::FORCE | UnmountFlags::DETACH | UnmountFlags::NOFOLLOW);
        }
    }
}

impl Drop for Claim {
    /// The mount goes, and the directory.
    fn drop(&mut self) {
        if self.is_attached {
            // As above.
            let _ = detach(&self.path);
        }
        if !self.is_left {
            let _ = std::fs::remove_dir(&self.path);
        }
    }
}

/// Takes away the mount at a path. Files that are open there go on for their readers as long as the application answers.
///
/// # Errors
/// This process may not, or nothing is mounted there.
pub fn detach(path: &Path) -> io::Result<()> {
    Ok(unmount(path, UnmountFlags::DETACH | UnmountFlags::NOFOLLOW)?)
}

/// Makes a directory that everybody may enter, whatever this process' mask is.
fn make(path: &Path) -> io::Result<()> {
    let parent = path.parent().filter(|parent| !parent.exists());
    if let Some(parent) = parent {
        make(parent)?;
    }
    match std::fs::DirBuilder::new().mode(0o755).create(path) {
        Ok(()) => std::fs::set_permissions(path, PermissionsExt::from_mode(0o755)),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        Err(error) => Err(error),
    }
}
