//! Files of users and hashes of their passwords, as `htpasswd -B` and `openssl passwd -6` make them: `NAME:HASH` in each line.

use sha_crypt::password_hash::PasswordVerifier;
use sha_crypt::{PasswordHashRef, ShaCrypt};
use std::collections::HashMap;
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

/// Bytes of a file at most.
const FILE_BYTES_MAX: u64 = 1 << 20;
/// What a hash may cost: the exponent of bcrypt, and rounds of SHA-crypt. More than this is seconds for each guess of anybody.
const COST_MAX: (u32, u32) = (14, 1_000_000);

/// Why there are no passwords.
#[derive(Debug, thiserror::Error)]
pub enum PasswordFileError {
    /// It can't be read.
    #[error("{}: {error}. Let the user that serves read it (see --user).", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// What the system said.
        error: io::Error,
    },
    /// A line is none.
    #[error("{} line {line}: {why}", path.display())]
    Line {
        /// The file.
        path: PathBuf,
        /// Its number, from 1.
        line: usize,
        /// What is wrong, and the remedy.
        why: &'static str,
    },
    /// There is nobody in it.
    #[error("{}: there are no users in it; `htpasswd -B -c {} NAME` makes one", path.display(), path.display())]
    Empty {
        /// The file.
        path: PathBuf,
    },
}

#[derive(Clone, PartialEq, Eq, Debug)]
enum Hash {
    /// `$2b$`, `$2y$`, `$2a$`.
    Bcrypt(String),
    /// `$5$` and `$6$`.
    ShaCrypt(String),
}

impl Hash {
    fn parse(text: &str) -> Result<Hash, &'static str> {
        const REMEDY: &str =
            "this hash is none that is understood: make it by `htpasswd -B` (bcrypt) or `openssl passwd -6` (SHA-512)";
        const COSTLY: &str = "this hash costs too much time: at most $2y$14$ (htpasswd -B -C 14), or rounds=1000000";
        let mut parts = text.split('$');
        let (Some(""), Some(scheme)) = (parts.next(), parts.next()) else { return Err(REMEDY) };
        match scheme {
            "2a" | "2b" | "2y" => {
                let parts: bcrypt::HashParts = text.parse().map_err(|_| REMEDY)?;
                if parts.get_cost() > COST_MAX.0 { Err(COSTLY) } else { Ok(Hash::Bcrypt(text.to_owned())) }
            }
            "5" | "6" => {
                let rest: Vec<&str> = parts.collect();
                let (rounds, salt, sum) = match rest.as_slice() {
                    [salt, sum] => (None, salt, sum),
                    [rounds, salt, sum] => (Some(rounds.strip_prefix("rounds=").ok_or(REMEDY)?), salt, sum),
                    _ => return Err(REMEDY),
                };
                let is_sum = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'.' || byte == b'/';
                let length = if scheme == "5" { 43 } else { 86 };
                if sum.len() != length || !sum.bytes().all(is_sum) || salt.len() > 16 {
                    return Err(REMEDY);
                }
                match rounds.map(|rounds| rounds.parse::<u32>()) {
                    Some(Ok(rounds)) if rounds > COST_MAX.1 => Err(COSTLY),
                    Some(Ok(1_000..)) | None => Ok(Hash::ShaCrypt(text.to_owned())),
                    Some(_) => Err(REMEDY),
                }
            }
            _ => Err(REMEDY),
        }
    }

    fn is_of(&self, password: &[u8]) -> bool {
        match self {
            Hash::Bcrypt(hash) => bcrypt::verify(password, hash).unwrap_or(false),
            Hash::ShaCrypt(hash) => {
                PasswordHashRef::new(hash).is_ok_and(|hash| ShaCrypt::default().verify_password(password, hash).is_ok())
            }
        }
    }
}

/// Users and the hashes of their passwords.
#[derive(PartialEq, Eq, Debug)]
pub struct Passwords {
    users: HashMap<String, Hash>,
    /// One of them, for names that nobody has.
    anyone: Hash,
}

impl Passwords {
    /// Reads a file.
    ///
    /// # Errors
    /// It can't be read, or is none: the line, and the remedy.
    pub fn read(path: &Path) -> Result<Passwords, PasswordFileError> {
        let mut text = String::new();
        let file = File::open(path).and_then(|file| file.take(FILE_BYTES_MAX + 1).read_to_string(&mut text));
        file.map_err(|error| PasswordFileError::Read { path: path.to_owned(), error })?;
        if text.len() as u64 > FILE_BYTES_MAX {
            let why = "a file of passwords has at most 1 MiB";
            return Err(PasswordFileError::Line { path: path.to_owned(), line: text.lines().count(), why });
        }
        let mut users = HashMap::new();
        for (index, line) in text.lines().map(str::trim).enumerate() {
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let wrong = |why| PasswordFileError::Line { path: path.to_owned(), line: index + 1, why };
            let (name, hash) = line.split_once(':').ok_or_else(|| wrong("write it as NAME:HASH"))?;
            users.insert(name.to_owned(), Hash::parse(hash).map_err(wrong)?);
        }
        let anyone = users.values().next().cloned();
        let anyone = anyone.ok_or_else(|| PasswordFileError::Empty { path: path.to_owned() })?;
        Ok(Passwords { users, anyone })
    }

    /// Whether a user has the same password as in other ones.
    pub(crate) fn has_same(&self, user: &str, other: &Passwords) -> bool {
        self.users.get(user).is_some_and(|hash| other.users.get(user) == Some(hash))
    }

    /// Whether this is the user's password. It takes milliseconds, as long for a name that nobody has.
    pub(crate) fn is_right(&self, user: &str, password: &[u8]) -> bool {
        let known = self.users.get(user);
        let is_right = known.unwrap_or(&self.anyone).is_of(password);
        is_right && known.is_some()
    }
}

/// Hashes of the password `right`.
#[cfg(test)]
pub(crate) const RIGHT: [&str; 5] = [
    "$6$saltsalt$gzY3OAolfMFSB9Ld7iMdOQlViFqO3IOPeU0zkHsD.58tcMxRAFD0Qjfi2sjus3i.8aqWarEvFPREqzp18Jm291",
    "$5$saltsalt$1aZ4x5UIV44zvNqrzDnvxkgrN1oqaxnEleT36Cwe2L9",
    "$5$rounds=2000$saltsalt$Bw1NY2ws6Duzdu7OEjFPZzppvoNFKONtg73eOmkgcZ9",
    "$2b$04$abcdefghijklmnopqrstuuFmEfrkTQnczNzw475xE2VhDrK1uwJiC",
    "$6$rounds=2000$saltsalt$pIMXjwJFgTam6pM3yCqN/9Pte9YqhykbEIBcmpjbhKFejnVHp5XxciDrX8odS2jQxLtj9ho0BrqVWR54ocRaY/",
];

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn hashes_of_crypt_are_understood() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("users");
        let lines: String = RIGHT.iter().enumerate().map(|(index, hash)| format!("user{index}:{hash}\n")).collect();
        fs::write(&path, format!("# users\n\n{lines}")).unwrap();
        let passwords = Passwords::read(&path).unwrap();
        for index in 0..RIGHT.len() {
            let user = format!("user{index}");
            assert!(passwords.is_right(&user, b"right"), "{user}");
            assert!(!passwords.is_right(&user, b"wrong") && !passwords.is_right(&user, b""), "{user}");
        }
        assert!(!passwords.is_right("nobody", b"right"));
    }

    #[test]
    fn what_is_no_hash_is_refused_with_its_line() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("users");
        for (text, why) in [
            ("a:b\n", "line 1: this hash is none"),
            ("\na\n", "line 2: write it as NAME:HASH"),
            ("a:$apr1$salt$hash\n", "htpasswd -B"),
            ("a:{SHA}hash\n", "htpasswd -B"),
            ("a:$2y$15$abcdefghijklmnopqrstuuFmEfrkTQnczNzw475xE2VhDrK1uwJiC\n", "costs too much"),
            (
                "a:$6$rounds=1000001$saltsalt$pIMXjwJFgTam6pM3yCqN/9Pte9YqhykbEIBcmpjbhKFejnVHp5XxciDrX8odS2jQxLtj9ho0BrqVWR54ocRaY/",
                "costs",
            ),
            ("a:$6$salt$short\n", "this hash is none"),
            ("a:$6$$$$$$\n", "this hash is none"),
            ("a:$2b$04$\u{e4}bcdefghijklmnopqrstuuFmEfrkTQnczNzw475xE2VhDrK1uwJiC\n", "this hash is none"),
            ("# nobody\n", "there are no users"),
        ] {
            fs::write(&path, text).unwrap();
            let error = Passwords::read(&path).unwrap_err().to_string();
            assert!(error.contains(why), "{text}: {error}");
        }
        let error = Passwords::read(&directory.path().join("none")).unwrap_err().to_string();
        assert!(error.contains("none: No such file"), "{error}");
    }
}
