//! The page that lists a directory without an index.

use crate::http::{date, target};
use rustix::fs::{AtFlags, Dir, FileType, statat};
use std::fmt::Write;
use std::fs::File;
use std::io;

/// Entries that are listed; the page says if there are more.
const ENTRIES_MAX: usize = 10_000;

/// An entry of a directory.
#[derive(Debug)]
struct Entry {
    name: Vec<u8>,
    is_directory: bool,
    /// Of a file: bytes, and when it was changed, seconds since 1970. A symbolic link's are not told.
    about: Option<(u64, u64)>,
}

/// Text as it is shown in HTML. What is no UTF-8 is shown as a question mark.
fn shown(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len());
    for character in String::from_utf8_lossy(bytes).chars() {
        match character {
            '&' => text.push_str("&amp;"),
            '<' => text.push_str("&lt;"),
            '>' => text.push_str("&gt;"),
            '"' => text.push_str("&quot;"),
            '\'' => text.push_str("&#39;"),
            // Neither the page nor a terminal that shows it is to be steered by a name.
            character if character.is_control() => text.push('\u{fffd}'),
            character => text.push(character),
        }
    }
    text
}

fn entries(directory: &File, hidden: bool) -> io::Result<(Vec<Entry>, bool)> {
    let mut all = Vec::new();
    for entry in Dir::read_from(directory)? {
        let entry = entry?;
        let name = entry.file_name().to_bytes();
        // As files are served.
        if name == b"." || name == b".." || name.starts_with(b".") && !hidden && name != b".well-known" {
            continue;
        }
        if all.len() == ENTRIES_MAX {
            return Ok((all, true));
        }
        // It may be gone by now.
        let Ok(status) = statat(directory, entry.file_name(), AtFlags::SYMLINK_NOFOLLOW) else { continue };
        let kind = FileType::from_raw_mode(status.st_mode);
        let is_directory = kind == FileType::Directory;
        if !is_directory && !matches!(kind, FileType::RegularFile | FileType::Symlink) {
            continue;
        }
        let numbers = || Some((u64::try_from(status.st_size).ok()?, u64::try_from(status.st_mtime).ok()?));
        let about = if kind == FileType::RegularFile { numbers() } else { None };
        all.push(Entry { name: name.to_vec(), is_directory, about });
    }
    Ok((all, false))
}

/// The page of a directory, which is served at `path` (relative, with its final slash; the root is empty).
///
/// # Errors
/// It can't be read.
pub fn page(directory: &File, path: &[u8], hidden: bool) -> io::Result<Vec<u8>> {
    let (mut all, are_more) = entries(directory, hidden)?;
    all.sort_by(|one, other| (!one.is_directory, &one.name).cmp(&(!other.is_directory, &other.name)));
    let title = format!("/{}", shown(path));
    let mut page = format!(
        "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\
         <meta name=\"viewport\" content=\"width=device-width\"><title>{title}</title>\
         <style>body{{font-family:sans-serif;margin:2em}}td,th{{text-align:left;padding:.2em 1em .2em 0}}\
         td+td{{white-space:nowrap}}</style></head>\n<body><h1>{title}</h1>\n\
         <table><tr><th>Name</th><th>Bytes</th><th>Changed</th></tr>\n"
    );
    if !path.is_empty() {
        page.push_str("<tr><td><a href=\"../\">../</a></td><td></td><td></td></tr>\n");
    }
    for Entry { name, is_directory, about } in &all {
        let slash = if *is_directory { "/" } else { "" };
        let address = target::encode(name);
        // Writing to a string can't fail.
        let _ = write!(page, "<tr><td><a href=\".{address}{slash}\">{}{slash}</a></td>", shown(name));
        let _ = match about {
            Some((bytes, changed)) => {
                let changed = date::format(*changed);
                writeln!(page, "<td>{bytes}</td><td>{}</td></tr>", String::from_utf8_lossy(&changed))
            }
            None => writeln!(page, "<td></td><td></td></tr>"),
        };
    }
    page.push_str("</table>");
    if are_more {
        let _ = write!(page, "<p>There are more than these {ENTRIES_MAX}.</p>");
    }
    page.push_str("</body></html>\n");
    Ok(page.into_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::ffi::OsStrExt;

    #[test]
    fn names_are_shown_and_lead_to_their_files() {
        let directory = tempfile::tempdir().unwrap();
        let at = |name: &[u8]| directory.path().join(std::ffi::OsStr::from_bytes(name));
        fs::create_dir(at(b"sub")).unwrap();
        fs::write(at(b"a b.txt"), "12345").unwrap();
        fs::write(at(b"<img src=x onerror=alert(1)>"), "").unwrap();
        fs::write(at(b"javascript:alert(1)"), "").unwrap();
        fs::write(at(b"\xff\n"), "").unwrap();
        fs::write(at(b".hidden"), "").unwrap();
        std::os::unix::fs::symlink("/etc/passwd", at(b"link")).unwrap();
        let opened = File::open(directory.path()).unwrap();
        let page = String::from_utf8(page(&opened, b"x/", false).unwrap()).unwrap();
        assert!(page.contains("<title>/x/</title>") && page.contains("<a href=\"../\">"), "{page}");
        assert!(page.contains("<a href=\"./a%20b.txt\">a b.txt</a></td><td>5</td>"), "{page}");
        assert!(page.contains("<a href=\"./sub/\">sub/</a></td><td></td>"), "{page}");
        assert!(page.contains("<a href=\"./%FF%0A\">\u{fffd}\u{fffd}</a>"), "{page}");
        assert!(page.contains("<a href=\"./javascript%3Aalert%281%29\">"), "{page}");
        assert!(page.contains("<a href=\"./link\">link</a></td><td></td>"), "{page}");
        assert!(!page.contains("<img") && !page.contains(".hidden"), "{page}");
        assert!(page.find("sub/") < page.find("a b.txt"), "directories first");
        let root = String::from_utf8(super::page(&opened, b"", true).unwrap()).unwrap();
        assert!(root.contains("<title>/</title>") && !root.contains("../") && root.contains(".hidden"), "{root}");
    }
}
