//! Files that a server is told to read: regular ones of a size that was thought of. A device never ends, and a pipe may
//! never begin.

use rustix::fs::{Mode, OFlags};
use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

/// The whole of the file at `path`, if it is a regular one of at most `bytes_max` bytes.
///
/// # Errors
/// What the file system says, or what kind of file it is, or how large.
pub fn read(path: &Path, bytes_max: u64) -> io::Result<Vec<u8>> {
    let refused = |text: String| Err(io::Error::new(io::ErrorKind::InvalidInput, text));
    // Opening must not wait for a pipe's other end, nor make a terminal ours.
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
    let file = File::from(rustix::fs::open(path, flags, Mode::empty())?);
    let metadata = file.metadata()?;
    if !metadata.is_file() {
        let kind = if metadata.is_dir() { "a directory" } else { "a device, pipe or socket" };
        return refused(format!("it is {kind}, no regular file"));
    }
    if metadata.len() > bytes_max {
        return refused(format!("it has {} bytes, more than {bytes_max}", metadata.len()));
    }
    let mut bytes = Vec::new();
    bytes.try_reserve_exact(usize::try_from(metadata.len()).unwrap_or(usize::MAX).saturating_add(1))?;
    // It may grow meanwhile, and a file of /proc has no size.
    file.take(bytes_max.saturating_add(1)).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > bytes_max {
        return refused(format!("it has more than {bytes_max} bytes"));
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn only_regular_files_of_a_size() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("file");
        fs::write(&path, "0123456789").unwrap();
        assert_eq!(read(&path, 10).unwrap(), b"0123456789");
        assert!(read(&path, 9).unwrap_err().to_string().contains("10 bytes, more than 9"));
        // A file of /proc says that it is empty.
        assert!(read(Path::new("/proc/self/mountinfo"), 5).unwrap_err().to_string().contains("more than 5"));
        let pipe = directory.path().join("pipe");
        rustix::fs::mknodat(rustix::fs::CWD, &pipe, rustix::fs::FileType::Fifo, Mode::RUSR, 0).unwrap();
        for (odd, kind) in
            [(pipe.as_path(), "pipe"), (Path::new("/dev/zero"), "device"), (directory.path(), "directory")]
        {
            let error = read(odd, 10).unwrap_err().to_string();
            assert!(error.contains(kind) && error.contains("no regular file"), "{error}");
        }
        assert_eq!(read(&directory.path().join("none"), 10).unwrap_err().kind(), io::ErrorKind::NotFound);
    }
}
