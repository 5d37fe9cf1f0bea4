//! [`AreaFiles`]: a directory of files, one for each area, beside the file with the table.

use super::error::FenceError;
use rustix::fs::{FallocateFlags, Mode, OFlags, fallocate};
use rustix::io::Errno;
use std::fs::{self, DirBuilder, File};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::{DirBuilderExt, FileExt, MetadataExt};
use std::path::{Path, PathBuf};

/// The table of areas: a file as long as the areas may be together, of which only the beginning takes space.
pub const TABLE: &str = "areas.qanat";
/// Bytes of it that are written: superblocks and journals.
const TABLE_BYTES: u64 = 2 << 20;
/// How an area's file is called: its number, and this.
const ENDING: &str = ".area";
/// Files that are looked at when a directory is opened.
const FILES_MAX: usize = 4_096;
/// Zeroes written at once.
const ZEROES: [u8; 1 << 16] = [0; 1 << 16];
/// What a file system may need of its own for a file, beyond its bytes.
const SLACK_BYTES: u64 = 1 << 20;

/// The directory.
#[derive(Clone, Debug)]
pub struct AreaFiles {
    directory: PathBuf,
}

impl AreaFiles {
    /// The files in a directory, which is made if it is missing and may be. Nobody else may write to it: names there are believed.
    ///
    /// # Errors
    /// [`FenceError::Directory`], [`FenceError::File`].
    pub fn at(directory: &Path, may_make: bool) -> Result<AreaFiles, FenceError> {
        let failed = |error| FenceError::File { path: directory.to_owned(), error };
        if may_make && !directory.exists() {
            DirBuilder::new().mode(0o700).create(directory).map_err(failed)?;
        }
        let found = fs::symlink_metadata(directory).map_err(failed)?;
        let wrong = |what| Err(FenceError::Directory { path: directory.to_owned(), what });
        if !found.is_dir() {
            return wrong("it is no directory: name one, or use --file");
        }
        if found.uid() != rustix::process::geteuid().as_raw() || found.mode() & 0o022 != 0 {
            return wrong("others may write there: give it to root, with mode 0700");
        }
        Ok(AreaFiles { directory: directory.to_owned() })
    }

    /// The table's file.
    pub fn table(&self) -> PathBuf {
        self.directory.join(TABLE)
    }

    /// Makes the table's file, for areas of `bytes` together, in an empty directory.
    ///
    /// # Errors
    /// [`FenceError::Directory`] if anything is there already.
    pub fn make_table(&self, bytes: u64) -> Result<(), FenceError> {
        let path = self.table();
        let failed = |error| FenceError::File { path: path.clone(), error };
        if fs::read_dir(&self.directory).map_err(failed)?.next().is_some() {
            let what = "it is not empty: name an empty one, or leave --size out if it has areas already";
            return Err(FenceError::Directory { path: self.directory.clone(), what });
        }
        let flags = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::CLOEXEC;
        let made = rustix::fs::open(&path, flags, Mode::RUSR | Mode::WUSR).map(File::from);
        let made = made.map_err(|error| failed(error.into()))?;
        // The table itself must not lack room later.
        let room = fallocate(&made, FallocateFlags::empty(), 0, bytes.min(TABLE_BYTES)).map_err(io::Error::from);
        let sized = room.and_then(|()| made.set_len(bytes)).and_then(|()| made.sync_all());
        let outcome = sized.and_then(|()| self.flush());
        outcome.map_err(|error| {
            let _ = fs::remove_file(&path);
            failed(error)
        })
    }

    /// Has an area's file, with room for `bytes` in all, whether it is there already or not; durable when this returns.
    ///
    /// # Errors
    /// [`FenceError::File`]: the file system is full.
    pub fn reserve(&self, id: u64, bytes: u64) -> Result<(), FenceError> {
        let path = self.path(id);
        let reserve = || -> io::Result<()> {
            let file = open(&path, OFlags::RDWR | OFlags::CREATE)?;
            fallocate(&file, FallocateFlags::KEEP_SIZE, 0, bytes)?;
            file.sync_all()?;
            self.flush()
        };
        reserve().map_err(|error| FenceError::File { path: path.clone(), error })
    }

    /// Writes zeroes over `bytes` from `from` on, which become part of the file; durable when this returns.
    ///
    /// # Errors
    /// [`FenceError::File`].
    pub fn zero(&self, id: u64, from: u64, bytes: u64) -> Result<(), FenceError> {
        let path = self.path(id);
        let zero = || -> io::Result<()> {
            let file = open(&path, OFlags::RDWR)?;
            let end = from.saturating_add(bytes);
            let mut at = from;
            while at < end {
                let count = (end - at).min(ZEROES.len() as u64);
                file.write_all_at(ZEROES.get(..count as usize).unwrap_or_default(), at)?;
                at += count;
            }
            file.sync_all()
        };
        zero().map_err(|error| FenceError::File { path: path.clone(), error })
    }

    /// A descriptor of an area's file, for direct I/O. The file has `bytes` then, and room for `reserved`, whatever its last holder did.
    ///
    /// # Errors
    /// [`FenceError::File`].
    pub fn open(&self, id: u64, (bytes, reserved): (u64, u64), read_only: bool) -> Result<OwnedFd, FenceError> {
        let path = self.path(id);
        let access = if read_only { OFlags::RDONLY } else { OFlags::RDWR };
        let opened = || -> io::Result<OwnedFd> {
            let file = open(&path, OFlags::RDWR)?;
            if file.metadata()?.len() < bytes {
                file.set_len(bytes)?;
            }
            fallocate(&file, FallocateFlags::KEEP_SIZE, 0, reserved)?;
            Ok(open(&path, access | OFlags::DIRECT)?.into())
        };
        opened().map_err(|error| FenceError::File { path: path.clone(), error })
    }

    /// Whether anybody has an area's file open. A file system that can't say is believed to have said no: the kernel keeps the file's space
    /// from others as long as it is open, whether it has a name or not.
    ///
    /// # Errors
    /// [`FenceError::File`].
    pub fn is_held(&self, id: u64) -> Result<bool, FenceError> {
        let path = self.path(id);
        let file = match open(&path, OFlags::RDWR) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
            Err(error) => return Err(FenceError::File { path, error }),
        };
        // SAFETY: no memory is named. The lease ends with the descriptor.
        let leased = unsafe { libc::fcntl(file.as_raw_fd(), libc::F_SETLEASE, libc::F_WRLCK) };
        Ok(leased < 0 && io::Error::last_os_error().raw_os_error() == Some(libc::EAGAIN))
    }

    /// Takes back what an area's holder has of the file system beyond the area: how many bytes. The area's own are left.
    ///
    /// # Errors
    /// [`FenceError::File`].
    pub fn cut(&self, id: u64, (bytes, reserved): (u64, u64)) -> Result<u64, FenceError> {
        let path = self.path(id);
        let cut = || -> io::Result<u64> {
            let file = open(&path, OFlags::RDWR)?;
            let found = file.metadata()?;
            let taken = found.blocks().saturating_mul(512);
            let beyond = taken.saturating_sub(reserved.saturating_add(SLACK_BYTES));
            if beyond == 0 && found.len() <= reserved {
                return Ok(0);
            }
            let length = found.len();
            file.set_len(length.min(bytes))?;
            // Room that was reserved beyond the end goes with it.
            fallocate(&file, FallocateFlags::KEEP_SIZE, 0, reserved)?;
            Ok(beyond.max(length.saturating_sub(reserved)))
        };
        match cut() {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(0),
            outcome => outcome.map_err(|error| FenceError::File { path: path.clone(), error }),
        }
    }

    /// Removes an area's file; durable when this returns.
    ///
    /// # Errors
    /// [`FenceError::File`].
    pub fn remove(&self, id: u64) -> Result<(), FenceError> {
        let path = self.path(id);
        match fs::remove_file(&path).and_then(|()| self.flush()) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            outcome => outcome.map_err(|error| FenceError::File { path: path.clone(), error }),
        }
    }

    /// The areas that have files.
    ///
    /// # Errors
    /// [`FenceError::File`].
    pub fn all(&self) -> Result<Vec<u64>, FenceError> {
        let entries = fs::read_dir(&self.directory);
        let entries = entries.map_err(|error| FenceError::File { path: self.directory.clone(), error })?;
        let number = |entry: fs::DirEntry| entry.file_name().to_str()?.strip_suffix(ENDING)?.parse().ok();
        Ok(entries.flatten().take(FILES_MAX).filter_map(number).collect())
    }

    fn path(&self, id: u64) -> PathBuf {
        self.directory.join(format!("{id}{ENDING}"))
    }

    fn flush(&self) -> io::Result<()> {
        File::open(&self.directory)?.sync_all()
    }
}

fn open(path: &Path, flags: OFlags) -> io::Result<File> {
    let flags = flags | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    match rustix::fs::open(path, flags, Mode::RUSR | Mode::WUSR) {
        Ok(file) => Ok(File::from(file)),
        Err(Errno::LOOP) => Err(io::Error::other("it is a link, which is nothing of ours")),
        Err(error) => Err(error.into()),
    }
}
