//! What a program that is about to be executed is: whether the loader will load this library before the program's own.

use std::fs::File;
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// Of a file, read: its headers.
const START: usize = 4_096;
/// Interpreters of interpreters looked at; as Linux allows.
const SCRIPTS_MAX: usize = 4;
const X86_64: u16 = 62;
/// Where the headers of segments are, how long each is, how many there are; what kind one is of.
const SEGMENTS: usize = 32;
const SEGMENT_LENGTH: usize = 54;
const SEGMENT_COUNT: usize = 56;
const INTERPRETER: u32 = 3;
/// Set-user-ID, set-group-ID.
const SET_ID: u32 = 0o6000;

/// The file that `execvp` would execute.
pub(crate) fn find(file: &Path) -> PathBuf {
    if file.as_os_str().as_bytes().contains(&b'/') {
        return file.to_owned();
    }
    let directories = std::env::var_os("PATH").unwrap_or_else(|| "/bin:/usr/bin".into());
    let paths = std::env::split_paths(&directories).map(|directory| directory.join(file));
    let is_program = |path: &PathBuf| path.metadata().is_ok_and(|m| m.is_file() && m.permissions().mode() & 0o111 != 0);
    paths.into_iter().find(is_program).unwrap_or_else(|| file.to_owned())
}

/// What is said of a program that this library is not loaded into, or is to no purpose.
pub(crate) const NOT_LOADED: &str = "its sockets are the kernel's: it is linked statically, a Go program, which calls the kernel \
                                     directly, or set-user-ID";

/// Whether the program at `path`, or the interpreter of a script, is linked dynamically, calls the kernel by the C library, and
/// keeps the rights of the process that executes it. `None`: there is no such file.
pub(crate) fn loads_libraries(path: &Path) -> Option<bool> {
    path.metadata().ok().filter(std::fs::Metadata::is_file)?;
    Some(is_dynamic(path))
}

fn is_dynamic(path: &Path) -> bool {
    let mut path = path.to_owned();
    for _ in 0..SCRIPTS_MAX {
        let Some((start, mode)) = read(&path) else { return false };
        let Some(script) = start.strip_prefix(b"#!") else {
            return has_interpreter(&start).unwrap_or(false) && !is_go(&start) && mode & SET_ID == 0;
        };
        let line = script.split(|byte| *byte == b'\n').next().unwrap_or_default();
        let words = line.split(|byte| *byte == b' ' || *byte == b'\t').find(|word| !word.is_empty());
        let Some(interpreter) = words else { return false };
        path = PathBuf::from(std::ffi::OsStr::from_bytes(interpreter));
    }
    false
}

fn read(path: &Path) -> Option<(Vec<u8>, u32)> {
    let file = File::open(path).ok()?;
    let mode = file.metadata().ok()?.permissions().mode();
    let mut start = Vec::with_capacity(START);
    file.take(START as u64).read_to_end(&mut start).ok()?;
    Some((start, mode))
}

/// Whether an ELF file for this processor names a loader.
fn has_interpreter(start: &[u8]) -> Option<bool> {
    let short = |at: usize| Some(u16::from_le_bytes(start.get(at..at + 2)?.try_into().ok()?));
    if start.get(..5)? != b"\x7fELF\x02" || short(18)? != X86_64 {
        return Some(false);
    }
    let table = u64::from_le_bytes(start.get(SEGMENTS..SEGMENTS + 8)?.try_into().ok()?) as usize;
    let (length, count) = (usize::from(short(SEGMENT_LENGTH)?), usize::from(short(SEGMENT_COUNT)?));
    let kinds = (0..count).map_while(|index| {
        let at = table.checked_add(index * length)?;
        Some(u32::from_le_bytes(start.get(at..at.checked_add(4)?)?.try_into().ok()?))
    });
    Some(kinds.into_iter().any(|kind| kind == INTERPRETER))
}

/// Whether an ELF file has the note by which Go's linker identifies what it has built: a name of four bytes, type 4, `Go`.
fn is_go(start: &[u8]) -> bool {
    start.windows(16).any(|note| note.starts_with(&[4, 0, 0, 0]) && note.ends_with(&[4, 0, 0, 0, b'G', b'o', 0, 0]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_are_told_apart() {
        assert_eq!(loads_libraries(&std::env::current_exe().unwrap()), Some(true));
        assert_eq!(loads_libraries(Path::new("/no/such/program")), None);
        assert_eq!(loads_libraries(Path::new("/etc/passwd")), Some(false));
        // A Debian's, which must do without libraries.
        assert_eq!(loads_libraries(Path::new("/sbin/ldconfig")), Some(false));
        let note = b"....\x04\0\0\0\x53\0\0\0\x04\0\0\0Go\0\0identifier";
        assert!(is_go(note) && !is_go(&note[..18]) && !is_go(b"\x04\0\0\0\x53\0\0\0\x03\0\0\0GNU\0"));
    }
}
