//! The file that says the rules of all hosts, and which hosts there are, with theirs (TOML).
//!
//! ```toml
//! [rules]
//! headers = ["X-Frame-Options: DENY"]
//!
//! [[host]]
//! names = ["blog.example"]
//! directory = "blog"
//! rules.fallback = "/index.html"
//! ```

use super::site::{Rules, Site};
use serde::Deserialize;
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

/// Bytes of a file at most.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// What a file says.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ConfigFile {
    /// Rules of all hosts.
    pub rules: Rules,
    /// Hosts with a directory of their own, and perhaps with rules of their own.
    pub hosts: Vec<Site>,
}

/// Why a file says nothing.
#[derive(Debug, thiserror::Error)]
pub enum ConfigFileError {
    /// It can't be read.
    #[error("{}: {error}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// What the system said.
        error: io::Error,
    },
    /// It is too long.
    #[error("{}: a file of rules has at most {FILE_BYTES_MAX} bytes", path.display())]
    Long {
        /// The file.
        path: PathBuf,
    },
    /// It is no such file.
    #[error("{}: {error}", path.display())]
    Text {
        /// The file.
        path: PathBuf,
        /// Where, and what is wrong.
        error: toml::de::Error,
    },
    /// A host has no names, or one that is none.
    #[error("{}: `{name}` is no host's name: a host has names without ports, such as blog.example", path.display())]
    Name {
        /// The file.
        path: PathBuf,
        /// The name; empty: there is none.
        name: String,
    },
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Text {
    #[serde(default)]
    rules: Rules,
    #[serde(default, rename = "host")]
    hosts: Vec<Host>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Host {
    names: Vec<String>,
    directory: PathBuf,
    #[serde(default)]
    rules: Rules,
}

fn is_name(name: &str) -> bool {
    !name.is_empty()
        && name.len() <= 253
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-._".contains(&byte))
}

impl ConfigFile {
    /// Reads a file. Its relative paths begin where it is.
    ///
    /// # Errors
    /// It can't be read, or is none: where, and what is wrong.
    pub fn read(path: &Path) -> Result<ConfigFile, ConfigFileError> {
        let mut text = String::new();
        let file = File::open(path).and_then(|file| file.take(FILE_BYTES_MAX + 1).read_to_string(&mut text));
        file.map_err(|error| ConfigFileError::Read { path: path.to_owned(), error })?;
        if text.len() as u64 > FILE_BYTES_MAX {
            return Err(ConfigFileError::Long { path: path.to_owned() });
        }
        let Text { mut rules, hosts } =
            toml::from_str(&text).map_err(|error| ConfigFileError::Text { path: path.to_owned(), error })?;
        let directory = path.parent().unwrap_or(Path::new(""));
        rules.begin_at(directory);
        let hosts = hosts.into_iter().map(|Host { names, directory: root, mut rules }| {
            let wrong = if names.is_empty() { Some("") } else { None };
            if let Some(name) = wrong.or_else(|| names.iter().map(String::as_str).find(|name| !is_name(name))) {
                return Err(ConfigFileError::Name { path: path.to_owned(), name: name.to_owned() });
            }
            rules.begin_at(directory);
            Ok(Site { hosts: names, root: directory.join(root), rules })
        });
        Ok(ConfigFile { hosts: hosts.collect::<Result<_, _>>()?, rules })
    }
}

impl Rules {
    /// Relative paths of files begin at this directory.
    fn begin_at(&mut self, directory: &Path) {
        for auth in self.basic_auth.iter_mut().flatten() {
            auth.begin_at(directory);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn a_file_says_what_options_say() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("site.toml");
        let text = r#"
            [rules]
            headers = ["X-A: b"]
            redirects = ["/a=/b", "308:/c/*=/d/*"]
            rewrites = ["/v1/*=/*"]
            fallback = "/index.html"
            error-pages = ["404=/404.html"]
            listing = true
            compress = true
            cache-control = "no-cache"
            allow-origin = "*"
            basic-auth = ["/admin/*=users"]

            [[host]]
            names = ["blog.example", "www.blog.example"]
            directory = "blog"
            rules.cache-control = "no-store"
        "#;
        fs::write(&path, text).unwrap();
        let ConfigFile { rules, hosts } = ConfigFile::read(&path).unwrap();
        assert_eq!((rules.listing, rules.redirects.as_ref().unwrap().len()), (Some(true), 2));
        assert_eq!(hosts[0].root, directory.path().join("blog"));
        let expected = format!("/admin/*={}", directory.path().join("users").display());
        assert_eq!(rules.basic_auth.as_deref(), Some(&[expected.parse().unwrap()][..]));
        let of_host = hosts[0].rules.clone().or(&rules);
        assert_eq!(of_host, Rules { cache_control: Some("no-store".to_owned()), ..rules });
        for (text, why) in [
            ("[rules]\nheaders = [\"Date: now\"]", "`Date: now`: the server writes Date itself"),
            ("[rules]\nfallbak = \"/x\"", "unknown field `fallbak`"),
            ("[[host]]\nnames = [\"a:80\"]\ndirectory = \"x\"", "`a:80` is no host's name"),
            ("[[host]]\nnames = []\ndirectory = \"x\"", "`` is no host's name"),
            ("[rules]\nlisting = 1", "invalid type"),
            ("x", "TOML parse error at line 1"),
        ] {
            fs::write(&path, text).unwrap();
            let error = ConfigFile::read(&path).unwrap_err().to_string();
            assert!(error.contains(why) && error.contains("site.toml"), "{text}: {error}");
        }
        fs::write(&path, "#".repeat(1 << 20 | 1)).unwrap();
        assert!(matches!(ConfigFile::read(&path), Err(ConfigFileError::Long { .. })));
    }
}
