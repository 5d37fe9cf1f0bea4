//! Where exports are: one directory for each service below [`ROOT`].

use std::path::{Path, PathBuf};
use std::str::FromStr;

/// The directory that has all exports.
pub const ROOT: &str = "/run/qanat/export";
/// The type of our mounts, as `/proc/self/mountinfo` has it.
const TYPE: &str = "fuse.qanat";
/// Letters of a name at most.
const LETTERS_MAX: usize = 64;

/// What an export is called: it is a directory's name, and can't lead anywhere else.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ExportName(String);

/// It can't be the name of an export.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error(
    "an export's name has 1 to {LETTERS_MAX} of a-z, A-Z, 0-9, `-`, `_` and `.`, and begins with a letter or digit"
)]
pub struct ExportNameError;

impl FromStr for ExportName {
    type Err = ExportNameError;

    fn from_str(text: &str) -> Result<ExportName, ExportNameError> {
        let is_letter = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
        let begins = text.bytes().next().is_some_and(|byte| byte.is_ascii_alphanumeric());
        match begins && text.len() <= LETTERS_MAX && text.bytes().all(is_letter) {
            true => Ok(ExportName(text.to_owned())),
            false => Err(ExportNameError),
        }
    }
}

impl ExportName {
    /// As it was given.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The export's directory.
    pub fn directory(&self) -> PathBuf {
        Path::new(ROOT).join(&self.0)
    }
}

/// Directories of exports that are mounted, whether or not somebody answers there. Nothing is asked of the mounts.
///
/// # Errors
/// The kernel does not tell its mounts.
pub fn mounted() -> std::io::Result<Vec<PathBuf>> {
    Ok(listed(&std::fs::read_to_string("/proc/self/mountinfo")?))
}

/// The mounts of ours in a text of the kernel's: `36 35 98:0 /root /mount/point options - type source options`. Others may have mounted
/// anything anywhere, so only directories that could be an export's count.
fn listed(text: &str) -> Vec<PathBuf> {
    let of_line = |line: &str| {
        let (place, kind) = line.split_once(" - ")?;
        let path = place.split(' ').nth(4)?;
        let name: ExportName = path.strip_prefix(ROOT)?.strip_prefix('/')?.parse().ok()?;
        (kind.split(' ').next() == Some(TYPE)).then(|| name.directory())
    };
    text.lines().filter_map(of_line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_do_not_lead_elsewhere() {
        for good in ["kv", "web-1", "a.b_c", "0", &"x".repeat(64)] {
            assert_eq!(good.parse::<ExportName>().map(|name| name.directory()), Ok(Path::new(ROOT).join(good)));
        }
        for wrong in ["", ".", "..", "../x", "a/b", "/", "-x", ".x", "a b", "a\n", "é", &"x".repeat(65)] {
            assert_eq!(wrong.parse::<ExportName>(), Err(ExportNameError), "{wrong:?}");
        }
    }

    #[test]
    fn only_our_mounts_are_listed() {
        let text = "\
            22 1 8:1 / / rw,relatime shared:1 - ext4 /dev/root rw\n\
            90 22 0:50 / /run/qanat/export/kv ro,nosuid - fuse.qanat qanat ro,user_id=0\n\
            91 22 0:51 / /run/qanat/export/other rw - fuse.sshfs x rw\n\
            92 22 0:52 / /run/qanat/export/a\\040b ro - fuse.qanat qanat ro\n\
            93 22 0:53 / /home/x/run/qanat/export/kv ro - fuse.qanat qanat ro\n\
            94 22 0:54 / /run/qanat/export/../../etc ro - fuse.qanat qanat ro\n\
            95 22 0:55 / /run/qanat/exports ro - fuse.qanat qanat ro\nnonsense\n";
        assert_eq!(listed(text), [Path::new("/run/qanat/export/kv")]);
    }

    #[test]
    fn the_kernel_tells_its_mounts() {
        assert!(mounted().is_ok());
    }
}
