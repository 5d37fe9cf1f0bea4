//! A users' file on a disk of the machine.

use crate::engine::users::file::{FILE_BYTES_MAX, UsersFile};
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// See the module.
#[derive(Debug)]
struct OnDisk(PathBuf);

/// The file at a path.
pub fn open(path: &Path) -> Box<dyn UsersFile> {
    Box::new(OnDisk(path.to_owned()))
}

/// What a file has, if that is no more than a users' file may have.
///
/// # Errors
/// What opening and reading say; `FileTooLarge`: it has more than [`FILE_BYTES_MAX`] bytes.
pub fn read(path: &Path) -> io::Result<Vec<u8>> {
    let mut text = Vec::new();
    File::open(path)?.take(FILE_BYTES_MAX as u64 + 1).read_to_end(&mut text)?;
    if text.len() > FILE_BYTES_MAX {
        return Err(io::Error::from(io::ErrorKind::FileTooLarge));
    }
    Ok(text)
}

impl UsersFile for OnDisk {
    fn name(&self) -> String {
        self.0.display().to_string()
    }

    fn read(&self) -> io::Result<Vec<u8>> {
        read(&self.0)
    }

    /// It is written beside, made durable, and put in place.
    fn replace(&self, text: &[u8]) -> io::Result<()> {
        let directory = self.0.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let mut beside = self.0.clone().into_os_string();
        beside.push(".new");
        // What a crash has left there goes. A new file follows no symbolic link that somebody put there.
        match fs::remove_file(&beside) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        // Others may not read it, and a confined service can't say so later.
        let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&beside)?;
        file.write_all(text)?;
        file.sync_all()?;
        fs::rename(&beside, &self.0)?;
        File::open(directory)?.sync_all()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{MetadataExt, symlink};

    #[test]
    fn it_is_replaced_whatever_lies_beside() {
        let directory = tempfile::tempdir().expect("a directory");
        let [path, beside, victim] = ["users", "users.new", "victim"].map(|name| directory.path().join(name));
        fs::write(&victim, "theirs").expect("a file");
        symlink(&victim, &beside).expect("a link");
        open(&path).replace(b"user default on nopass ~* +@all\n").expect("it is written");
        assert_eq!(fs::read(&victim).expect("a file"), b"theirs");
        // As a crash leaves it.
        fs::write(&beside, "half").expect("a file");
        open(&path).replace(b"new").expect("it is written");
        assert_eq!(read(&path).expect("a file"), b"new");
        assert!(!beside.exists());
        assert_eq!(fs::metadata(&path).expect("a file").mode() & 0o777, 0o600);
    }

    #[test]
    fn a_file_without_an_end_is_not_read() {
        assert_eq!(read(Path::new("/dev/zero")).expect_err("an error").kind(), io::ErrorKind::FileTooLarge);
    }
}
