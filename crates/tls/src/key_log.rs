//! [`KeyLogFile`]: the secrets of connections in a file, for who looks into packets with Wireshark. Whoever reads the file can read all that
//! was sent.

use crate::error::TlsError;
use rustls::KeyLog;
use std::fmt::Write as _;
use std::fs::{File, OpenOptions};
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

/// See the module.
#[derive(Debug)]
pub(crate) struct KeyLogFile(Mutex<File>);

impl KeyLogFile {
    /// Goes on at the end of a file, which only its owner may read.
    pub(crate) fn open(path: &Path) -> Result<KeyLogFile, TlsError> {
        OpenOptions::new()
            .append(true)
            .create(true)
            .mode(0o600)
            .open(path)
            .map(|file| KeyLogFile(Mutex::new(file)))
            .map_err(|error| TlsError::File { path: path.to_owned(), error })
    }
}

impl KeyLog for KeyLogFile {
    fn log(&self, label: &str, client_random: &[u8], secret: &[u8]) {
        let hexadecimal = |bytes: &[u8]| {
            bytes.iter().fold(String::new(), |mut text, byte| {
                let _ = write!(text, "{byte:02x}");
                text
            })
        };
        let line = format!("{label} {} {}\n", hexadecimal(client_random), hexadecimal(secret));
        // A line that can't be written is lost: who debugs sees that it is missing.
        let _ = self.0.lock().unwrap_or_else(PoisonError::into_inner).write_all(line.as_bytes());
    }
}
