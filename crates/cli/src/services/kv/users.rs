//! Who may use the store: a password, or users, from files. They are read while there are rights, so they need not be readable by whoever
//! goes on.

use qanat_kv::{Digest, FILE_BYTES_MAX, User, read_users_file, users_of};
use std::io::ErrorKind;
use std::path::Path;

/// See the module.
#[derive(Default)]
pub struct Guard {
    /// Of who says no name.
    pub password: Option<Digest>,
    /// All users; none: everybody may do everything.
    pub users: Vec<User>,
}

fn text(path: &Path) -> Result<Vec<u8>, String> {
    read_users_file(path).map_err(|error| match error.kind() {
        ErrorKind::FileTooLarge => format!("{}: longer than {} MiB", path.display(), FILE_BYTES_MAX >> 20),
        _ => format!("{}: {error}", path.display()),
    })
}

impl Guard {
    /// From the file of a password, and from that of users.
    pub fn read((password, users): (Option<&Path>, Option<&Path>)) -> Result<Guard, String> {
        let mut guard = Guard::default();
        if let Some(path) = password {
            let text = text(path)?;
            let line = text.split(|byte| *byte == b'\n').next().unwrap_or_default();
            let line = line.strip_suffix(b"\r").unwrap_or(line);
            if line.is_empty() {
                return Err(format!("{}: its first line is to be the password, and is empty", path.display()));
            }
            guard.password = Some(Digest::of(line));
        }
        if let Some(path) = users {
            let name = path.display().to_string();
            guard.users = users_of(&name, &text(path)?).map_err(|error| error.to_string())?;
        }
        Ok(guard)
    }
}
