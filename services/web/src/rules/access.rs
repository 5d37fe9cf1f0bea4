//! Which paths are for users with a password (RFC 7617), and who is one.

use super::mapping::Pattern;
use super::password::{PasswordFileError, Passwords};
use super::text::RuleError;
use std::cmp::Reverse;
use std::collections::{HashMap, HashSet};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::Arc;

/// What files have at the ends of their names that are other files' content, compressed.
const COMPRESSED: [&[u8]; 2] = [b".br", b".gz"];

/// A path, or all that begin with it, that is for the users of a file of passwords.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct BasicAuth {
    pattern: Pattern,
    /// As a client is told it: which paths this is about.
    realm: String,
    file: PathBuf,
    /// What was read of it; `None`: it is read when the site is opened.
    passwords: Option<Arc<Passwords>>,
}

impl BasicAuth {
    /// Reads the file, so that it need not be read when the site is opened once more.
    ///
    /// # Errors
    /// It can't be read, or is none.
    pub fn read(&mut self) -> Result<(), PasswordFileError> {
        self.passwords = Some(Arc::new(Passwords::read(&self.file)?));
        Ok(())
    }

    /// The file of passwords.
    pub fn file(&self) -> &Path {
        &self.file
    }

    /// Whether it is for one file, and a directory has its name.
    pub(crate) fn is_directory(&self, root: &Path) -> bool {
        !self.pattern.is_prefix() && root.join(Path::new(OsStr::from_bytes(self.pattern.path()))).is_dir()
    }

    /// If the file's path is relative, it begins here.
    pub(super) fn begin_at(&mut self, directory: &Path) {
        self.file = directory.join(&self.file);
    }
}

impl FromStr for BasicAuth {
    type Err = RuleError;

    /// `PATH=FILE`, or `PATH*=FILE`.
    fn from_str(text: &str) -> Result<BasicAuth, RuleError> {
        const FORM: RuleError =
            RuleError::Form("PATH=FILE, as in /admin/*=/etc/qanat/admin.users; a path without * is a file's");
        let (pattern, file) = text.split_once('=').filter(|(_, file)| !file.is_empty()).ok_or(FORM)?;
        // A directory by itself is not what anybody means: its files would be open.
        let pattern = Pattern::parse(pattern).and_then(|it| if it.is_one_directory() { Err(FORM) } else { Ok(it) })?;
        let realm = pattern.shown();
        Ok(BasicAuth { pattern, realm, file: file.into(), passwords: None })
    }
}

/// One of a site's protection spaces (RFC 9110, 11.5).
#[derive(Debug)]
pub(crate) struct Space {
    pattern: Pattern,
    pub(crate) realm: String,
    pub(crate) passwords: Arc<Passwords>,
    /// Of each user, the password that was right, so that not every request costs what a guess is to cost.
    verified: HashMap<String, Vec<u8>>,
}

impl Space {
    /// Whether a path is among those that it is about.
    pub(crate) fn covers(&self, path: &[u8]) -> bool {
        self.pattern.covers(path)
    }

    /// Whether this was right before. How long it takes does not tell how much of it is right.
    pub(crate) fn knows(&self, user: &str, password: &[u8]) -> bool {
        self.verified.get(user).is_some_and(|right| {
            let differences = right.iter().zip(password).fold(0, |all, (one, other)| all | one ^ other);
            right.len() == password.len() && differences == 0
        })
    }

    /// This is right.
    pub(crate) fn remember(&mut self, user: &str, password: &[u8]) {
        self.verified.insert(user.to_owned(), password.to_owned());
    }
}

/// All protection spaces of a site.
#[derive(Debug, Default)]
pub(crate) struct Access {
    /// Those with the longest paths first.
    spaces: Vec<Space>,
}

impl Access {
    /// Reads the files of passwords that were not read yet.
    ///
    /// # Errors
    /// One can't be read, or is none.
    pub(crate) fn open(all: &[BasicAuth]) -> Result<Access, PasswordFileError> {
        let mut spaces = Vec::new();
        for BasicAuth { pattern, realm, file, passwords } in all {
            let passwords = match passwords {
                Some(passwords) => Arc::clone(passwords),
                None => Arc::new(Passwords::read(file)?),
            };
            let (pattern, realm) = (pattern.clone(), realm.clone());
            spaces.push(Space { pattern, realm, passwords, verified: HashMap::new() });
        }
        // One path by itself goes before all that begin with it.
        spaces.sort_by_key(|space| (Reverse(space.pattern.path().len()), space.pattern.is_prefix()));
        Ok(Access { spaces })
    }

    /// Whether two are about the same paths: nobody could tell which one holds.
    pub(crate) fn is_ambiguous(&self) -> bool {
        let mut seen = HashSet::new();
        !self.spaces.iter().all(|space| seen.insert(&space.pattern))
    }

    /// Passwords that were right in others stay so, of users who have the same ones here.
    pub(crate) fn keep_verified(&mut self, others: &Access) {
        for space in &mut self.spaces {
            for other in &others.spaces {
                let same = other.verified.iter().filter(|(user, _)| space.passwords.has_same(user, &other.passwords));
                space.verified.extend(same.map(|(user, password)| (user.clone(), password.clone())));
            }
        }
    }

    pub(crate) fn is_open(&self) -> bool {
        self.spaces.is_empty()
    }

    pub(crate) fn space(&self, index: usize) -> Option<&Space> {
        self.spaces.get(index)
    }

    pub(crate) fn space_mut(&mut self, index: usize) -> Option<&mut Space> {
        self.spaces.get_mut(index)
    }

    /// The spaces that a path is in, by their indices: of a file, and of its compressed forms, any of which may be served for it.
    pub(crate) fn find(&self, path: &[u8]) -> impl Iterator<Item = usize> {
        let plain = COMPRESSED.iter().find_map(|suffix| path.strip_suffix(*suffix)).unwrap_or(path);
        let space_of = |form: &[u8]| self.spaces.iter().position(|space| space.pattern.covers(form));
        let mut found = vec![space_of(plain)];
        for suffix in COMPRESSED {
            let space = space_of(&[plain, suffix].concat());
            if !found.contains(&space) {
                found.push(space);
            }
        }
        found.into_iter().flatten()
    }
}

#[cfg(test)]
mod tests {
    use super::super::password::RIGHT;
    use super::*;

    #[test]
    fn the_longest_path_says_who_may_and_a_compressed_file_is_where_its_content_is() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("users");
        std::fs::write(&file, format!("a:{}\n", RIGHT[0])).unwrap();
        let all = ["/*", "/admin/*", "/secret.txt", "/packed.gz"]
            .map(|path| format!("{path}={}", file.display()).parse().unwrap());
        let access = Access::open(&all[1..]).unwrap();
        let realms = |access: &Access, path: &str| -> Vec<String> {
            access.find(path.as_bytes()).filter_map(|at| Some(access.space(at)?.realm.clone())).collect()
        };
        let realm = |access: &Access, path: &str| realms(access, path).first().cloned();
        for (path, expected) in [
            ("admin", Some("/admin/")),
            ("admin/", Some("/admin/")),
            ("admin/x/y", Some("/admin/")),
            ("administration", None),
            ("secret.txt", Some("/secret.txt")),
            ("secret.txt.gz", Some("/secret.txt")),
            ("secret.txt.br", Some("/secret.txt")),
            ("packed", Some("/packed.gz")),
            ("secret.txt.bak", None),
            ("", None),
        ] {
            assert_eq!(realm(&access, path).as_deref(), expected, "{path}");
        }
        let access = Access::open(&all).unwrap();
        assert_eq!(
            (realm(&access, "admin/x").as_deref(), realm(&access, "x").as_deref()),
            (Some("/admin/"), Some("/"))
        );
        // Where forms of one file are for others, users are asked to be one of both.
        let all = ["/admin/*", "/admin/backup.gz"].map(|path| format!("{path}={}", file.display()).parse().unwrap());
        let access = Access::open(&all).unwrap();
        for path in ["admin/backup", "admin/backup.gz", "admin/backup.br"] {
            assert_eq!(realms(&access, path), ["/admin/", "/admin/backup.gz"], "{path}");
        }
        assert!(!access.is_ambiguous());
        let all = ["/aa/*", "/bb/*", "/aa/*"].map(|path| format!("{path}={}", file.display()).parse().unwrap());
        assert!(Access::open(&all).unwrap().is_ambiguous());
        for text in ["/a", "/a=", "a=x", "/=x", "/admin/=x", "/admin/*.html=x", "/admin/**=x"] {
            assert!(text.parse::<BasicAuth>().is_err(), "{text}");
        }
    }
}
