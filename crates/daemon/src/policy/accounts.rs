//! Whose limits a user number counts to.
//!
//! An account may be given ranges of further user numbers for its namespaces (`/etc/subuid`, subuid(5)): 65,536 of them as a
//! rule, and any of its processes can become any of them. If each had limits of its own, an account would have 65,537 times
//! what a rule allows. So what such a number has counts to the account that the range is of. Its *rights* are its own all the
//! same: a process in a container does not own what the container's maker owns.

use std::collections::HashMap;
use std::fs::Metadata;
use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Where the ranges are, unless a policy says otherwise.
pub const SUBORDINATE_USERS: &str = "/etc/subuid";
/// Names and numbers of accounts. Other sources are not asked here: that may take long, and this is asked at each connection.
const ACCOUNTS: &str = "/etc/passwd";
/// Bytes of one of these files that are read.
const FILE_BYTES_MAX: u64 = 4 << 20;
/// Ranges at most: each connection's number is looked for in all of them.
const RANGES_MAX: usize = 16_384;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Range {
    first: u32,
    last: u32,
    owner: u32,
}

/// Ranges of user numbers, by the account that has them.
#[derive(Debug)]
pub struct Subordinates {
    path: PathBuf,
    /// What the file was when it was read.
    stamp: Option<Stamp>,
    ranges: Vec<Range>,
}

type Stamp = (u64, u64, i64, i64);

fn stamp(file: &Metadata) -> Stamp {
    (file.ino(), file.size(), file.mtime(), file.mtime_nsec())
}

impl Subordinates {
    /// Those of a file, which is read when it is needed, and again when it has changed: accounts come while a daemon runs.
    pub fn of(path: &Path) -> Subordinates {
        Subordinates { path: path.to_owned(), stamp: None, ranges: Vec::new() }
    }

    /// The account that has this number for its namespaces; `None`: it is in no range.
    pub fn owner_of(&mut self, user: u32) -> Option<u32> {
        let now = std::fs::metadata(&self.path).ok().map(|file| stamp(&file));
        if now != self.stamp {
            let text = |path: &Path| read(path).unwrap_or_default();
            self.ranges = parse(&text(&self.path), &text(Path::new(ACCOUNTS)));
            self.stamp = now;
        }
        let range = self.ranges.iter().find(|range| (range.first..=range.last).contains(&user))?;
        // An account that has itself, too, counts to itself.
        (range.owner != user).then_some(range.owner)
    }
}

fn read(path: &Path) -> Option<String> {
    let mut text = Vec::new();
    std::fs::File::open(path).ok()?.take(FILE_BYTES_MAX).read_to_end(&mut text).ok()?;
    Some(String::from_utf8_lossy(&text).into_owned())
}

/// Lines that make no sense are left out, as programs that hand out ranges do.
fn parse(text: &str, accounts: &str) -> Vec<Range> {
    let account = |line: &'_ str| {
        let mut fields = line.split(':');
        let (name, number) = (fields.next()?, fields.nth(1)?);
        Some((name.to_owned(), number.parse::<u32>().ok()?))
    };
    let numbers: HashMap<String, u32> = accounts.lines().filter_map(account).collect();
    let range = |line: &str| {
        let mut fields = line.trim().split(':');
        let (name, first, count) = (fields.next()?, fields.next()?, fields.next()?);
        let (first, count): (u32, u32) = (first.parse().ok()?, count.parse().ok()?);
        let last = first.checked_add(count.checked_sub(1)?)?;
        // An account that is not in the file of accounts is known by its range: all of that is one.
        let owner = numbers.get(name).copied().or_else(|| name.parse().ok()).unwrap_or(first);
        Some(Range { first, last, owner })
    };
    text.lines().filter_map(range).take(RANGES_MAX).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_their_accounts() {
        let accounts = "root:x:0:0::/:/bin/sh\nalice:x:1000:1000::/:/bin/sh\n:::\nbad:x:many\n";
        let text = "alice:100000:65536\n1001:165536:10\n# none\n\nalice:x:1\nalice:300000:0\nalice:4294967295:2\n\
                    elsewhere:200000:5\nroot:400000:1\nalice:500000\n";
        let found = parse(text, accounts);
        let range = |first, last, owner| Range { first, last, owner };
        assert_eq!(
            found,
            [
                range(100_000, 165_535, 1_000),
                range(165_536, 165_545, 1_001),
                range(200_000, 200_004, 200_000),
                range(400_000, 400_000, 0)
            ]
        );
    }

    #[test]
    fn a_file_that_changes_is_read_again() {
        let path = std::env::temp_dir().join(format!("qanat-subuid-{}", std::process::id()));
        let _ = std::fs::remove_file(&path);
        let mut subordinates = Subordinates::of(&path);
        assert_eq!(subordinates.owner_of(100_000), None, "no file, no ranges");
        std::fs::write(&path, "1001:100000:65536\n").unwrap();
        for (user, owner) in [(99_999, None), (100_000, Some(1_001)), (165_535, Some(1_001)), (165_536, None)] {
            assert_eq!(subordinates.owner_of(user), owner, "{user}");
        }
        std::fs::write(&path, "1002:100000:65536\n1001:1001:1\n").unwrap();
        assert_eq!(subordinates.owner_of(100_000), Some(1_002));
        assert_eq!(subordinates.owner_of(1_001), None, "an account's own number");
        std::fs::remove_file(&path).unwrap();
        assert_eq!(subordinates.owner_of(100_000), None);
    }
}
