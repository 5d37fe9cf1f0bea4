//! Whether a user who serves can use the files that are to be served: found out before anything is served, by the user itself.

use super::paths::{directory_of, is_refused};
use rustix::fs::{Access, access};
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Files of a directory that are looked at. Those beyond are refused, if they must be, one by one when they are asked for.
const FILES_MAX: usize = 100_000;
/// Directories below each other that are followed.
const DEPTH_MAX: usize = 64;
/// Files told of one by one.
const TOLD_MAX: usize = 5;

/// What is to be done with a file.
#[derive(Clone, Debug)]
pub enum Need {
    /// Read it, or list it.
    Read(PathBuf),
    /// Read all that is below; files whose names begin with a dot as well, or not.
    Tree(PathBuf, bool),
    /// Write to its end.
    Append(PathBuf),
    /// Put another in its place.
    Replace(PathBuf),
}

/// What can't be done, and where it fails.
struct Refused {
    /// The file that is needed.
    path: PathBuf,
    what: &'static str,
    /// What would let everybody do it.
    remedy: String,
    /// The owner of the file or directory that is in the way, unless that is root. The owner could serve it.
    owner: Option<u32>,
}

fn owner_of(path: &Path) -> Option<u32> {
    Some(fs::metadata(path).ok()?.uid()).filter(|owner| *owner != 0)
}

/// Looks at all of them. What isn't there is told by whoever opens it.
///
/// # Errors
/// Those that can't be used by the user, and for each the remedy.
pub fn check(needs: &[Need], user: u32, name: &str) -> Result<(), String> {
    let mut refused = Vec::new();
    for need in needs {
        match need {
            Need::Read(path) => refused.extend(read(path)),
            Need::Tree(root, with_hidden) => {
                refused.extend(read(root));
                let mut left = FILES_MAX;
                let whole = fs::canonicalize(root).unwrap_or_else(|_| root.clone());
                tree(&whole, root, *with_hidden, DEPTH_MAX, &mut left, &mut refused);
            }
            Need::Append(path) => refused.extend(append(path, user)),
            Need::Replace(path) => refused.extend(replace(path, user)),
        }
    }
    if refused.is_empty() {
        return Ok(());
    }
    let more = refused.len().saturating_sub(TOLD_MAX);
    let lines = refused.iter().take(TOLD_MAX).map(|Refused { path, what, remedy, owner }| {
        // A name is in a file that may be out of reach.
        let owner = owner.map_or_else(String::new, |owner| format!(" (it is user {owner}'s)"));
        let path = path.display();
        format!(
            "{path}: {name}, as whom this serves, may not {what}: {remedy}, or name another user with --user{owner}"
        )
    });
    let mut lines: Vec<String> = lines.collect();
    if more > 0 {
        lines.push(format!("… and {more} more"));
    }
    Err(lines.join("\n"))
}

/// The first directory on the way to `path` that may not be passed.
fn obstacle(path: &Path) -> Option<PathBuf> {
    let absolute = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let mut above: Vec<&Path> = absolute.ancestors().skip(1).collect();
    above.reverse();
    above.into_iter().find(|directory| access(*directory, Access::EXEC_OK).is_err()).map(Path::to_owned)
}

fn quoted(path: &Path) -> String {
    let text = path.display().to_string();
    let is_plain = text.chars().all(|letter| letter.is_alphanumeric() || "/._-+,@%=".contains(letter));
    if is_plain { text } else { format!("'{}'", text.replace('\'', "'\\''")) }
}

/// How everybody comes by what is in the way.
fn passing(directory: &Path) -> String {
    format!("`chmod a+x {}` lets everybody through", quoted(directory))
}

fn read(path: &Path) -> Option<Refused> {
    let error = File::open(path).and_then(|file| file.metadata()).and_then(|about| match about.is_dir() {
        true => fs::read_dir(path).map(drop).and_then(|()| Ok(access(path, Access::EXEC_OK)?)),
        false => Ok(()),
    });
    refusal(path, "read it", error.err()?)
}

fn refusal(path: &Path, what: &'static str, error: io::Error) -> Option<Refused> {
    if !is_refused(&error) {
        return None;
    }
    let in_the_way = obstacle(path);
    let owner = owner_of(in_the_way.as_deref().unwrap_or(path));
    let remedy = in_the_way.map_or_else(
        || {
            let right = if fs::metadata(path).is_ok_and(|about| about.is_dir()) { "a+rx" } else { "a+r" };
            format!("`chmod {right} {}` lets everybody read it", quoted(path))
        },
        |directory| passing(&directory),
    );
    Some(Refused { path: path.to_owned(), what, remedy, owner })
}

/// `root`: what is served, without links. `left`: files to look at.
fn tree(root: &Path, directory: &Path, with_hidden: bool, depth: usize, left: &mut usize, refused: &mut Vec<Refused>) {
    let Ok(entries) = fs::read_dir(directory) else { return };
    for entry in entries.flatten() {
        let is_hidden = entry.file_name().as_encoded_bytes().starts_with(b".") && entry.file_name() != ".well-known";
        if is_hidden && !with_hidden {
            continue;
        }
        if *left == 0 {
            return;
        }
        *left -= 1;
        let (path, Ok(kind)) = (entry.path(), entry.file_type()) else { continue };
        // What a link leads to is served as well, if that is below the root; sockets and their likes are not.
        let leads_inside = || fs::canonicalize(&path).is_ok_and(|target| target.starts_with(root));
        let is_served = kind.is_dir() || kind.is_file() || kind.is_symlink() && leads_inside();
        let needed = if kind.is_dir() { Access::READ_OK | Access::EXEC_OK } else { Access::READ_OK };
        match access(&path, needed) {
            Err(error) if is_served => refused.extend(refusal(&path, "read it", error.into())),
            // A link to a directory may lead in circles.
            Ok(()) if kind.is_dir() && depth > 0 => tree(root, &path, with_hidden, depth - 1, left, refused),
            _ => {}
        }
    }
}

/// It is the user's who is to write it.
fn owning(path: &Path, user: u32) -> String {
    format!("`chown {user} {}` makes it that user's", quoted(path))
}

fn append(path: &Path, user: u32) -> Option<Refused> {
    let error = OpenOptions::new().append(true).open(path).err().filter(is_refused)?;
    let remedy = obstacle(path).map_or_else(|| owning(path, user), |directory| passing(&directory));
    refusal(path, "write it", error).map(|refused| Refused { remedy, ..refused })
}

/// One is written beside it, and takes its name.
fn replace(path: &Path, user: u32) -> Option<Refused> {
    let directory = directory_of(path);
    let may_replace = access(&directory, Access::WRITE_OK | Access::EXEC_OK);
    if let Err(error) = may_replace {
        let remedy = obstacle(&directory).map_or_else(|| owning(&directory, user), |above| passing(&above));
        let refused = refusal(path, "write in its directory", error.into())?;
        return Some(Refused { remedy, ..refused });
    }
    // Its time of modification is changed, too.
    let error = OpenOptions::new().read(true).append(true).open(path).err().filter(is_refused)?;
    let refused = refusal(path, "write it", error)?;
    Some(Refused { remedy: owning(path, user), ..refused })
}
