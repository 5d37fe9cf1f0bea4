//! What a program file is, and whether a library can be loaded before its own.

use object::Endianness;
use object::elf;
use object::read::elf::{FileHeader, ProgramHeader};
use std::ffi::OsStr;
use std::fmt;
use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// Interpreters of interpreters looked at; as Linux allows.
const SCRIPTS_MAX: usize = 4;
/// Where a Go program says what it was built with.
const GO_SECTION: &[u8] = b".go.buildinfo";

/// Why the sockets of a program can't be ours.
#[derive(Debug)]
pub enum Refusal {
    /// There is no such program.
    Missing(PathBuf, io::Error),
    /// It may not be executed.
    Denied(PathBuf),
    /// It is neither a program nor a script.
    Nothing(PathBuf),
    /// It loads no libraries.
    Static(PathBuf),
    /// It calls the kernel directly.
    Go(PathBuf),
    /// It is of another kind of processor.
    Foreign(PathBuf),
    /// It gets another user's rights, so nothing may be loaded into it.
    SetUser(PathBuf),
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Refusal::Missing(path, error) => write!(f, "{}: {error}", path.display()),
            Refusal::Denied(path) => {
                write!(
                    f,
                    "{}: permission denied; `chmod +x` makes a program of a file, if its file system executes programs (not `noexec`)",
                    path.display()
                )
            }
            Refusal::Nothing(path) => write!(f, "{}: neither a program nor a script", path.display()),
            Refusal::Static(path) => write!(
                f,
                "{} is linked statically, so its system calls can't be answered by a library: use a dynamically linked build \
                 of it (a distribution's package is, as a rule), or start it without `qanat run`",
                path.display()
            ),
            Refusal::Go(path) => write!(
                f,
                "{} is a Go program, which calls the kernel without the C library: start it without `qanat run`, behind a \
                 proxy under it (`qanat run -- haproxy`) if it is to be reached by the virtual card",
                path.display()
            ),
            Refusal::Foreign(path) => write!(f, "{} is not a program for x86-64 Linux", path.display()),
            Refusal::SetUser(path) => write!(
                f,
                "{} is set-user-ID, so the loader loads nothing into it: start it as the user it becomes",
                path.display()
            ),
        }
    }
}

/// The file that a command names: a path, or a name to be found in `PATH`.
pub fn find(command: &OsStr) -> Result<PathBuf, Refusal> {
    let path = Path::new(command);
    if command.as_encoded_bytes().contains(&b'/') {
        return Ok(path.to_owned());
    }
    let is_program =
        |path: &PathBuf| fs::metadata(path).is_ok_and(|m| m.is_file() && m.permissions().mode() & 0o111 != 0);
    let directories = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(&directories).map(|directory| directory.join(path)).find(is_program);
    found
        .ok_or_else(|| Refusal::Missing(path.to_owned(), io::Error::other("no such program in PATH; is it installed?")))
}

/// Whether a library can be loaded before those of the program at `path`, or of the interpreter of a script.
pub fn check(path: &Path) -> Result<(), Refusal> {
    let mut path = path.to_owned();
    for _ in 0..SCRIPTS_MAX {
        let is_denied = |error: &io::Error| error.kind() == io::ErrorKind::PermissionDenied;
        let refused = |error: io::Error| match is_denied(&error) {
            true => Refusal::Denied(path.clone()),
            false => Refusal::Missing(path.clone(), error),
        };
        let metadata = fs::metadata(&path).map_err(refused)?;
        // The kernel decides at last; root may do what nobody may, but for this.
        if !metadata.is_file() || rustix::fs::access(&path, rustix::fs::Access::EXEC_OK).is_err() {
            return Err(Refusal::Denied(path));
        }
        let bytes = fs::read(&path).map_err(refused)?;
        let Some(script) = bytes.strip_prefix(b"#!") else { return check_program(&path, &bytes) };
        let line = script.split(|byte| *byte == b'\n').next().unwrap_or_default();
        let line = String::from_utf8_lossy(line);
        let mut words = line.split_whitespace();
        let interpreter = words.next().ok_or_else(|| Refusal::Nothing(path.clone()))?;
        let named = words.find(|word| !word.starts_with('-') && !word.contains('='));
        path = match named {
            Some(named) if interpreter.ends_with("/env") => find(OsStr::new(named))?,
            _ => PathBuf::from(interpreter),
        };
    }
    Err(Refusal::Nothing(path))
}

fn check_program(path: &Path, bytes: &[u8]) -> Result<(), Refusal> {
    let mode = fs::metadata(path).map_or(0, |metadata| metadata.permissions().mode());
    if mode & 0o6000 != 0 && !rustix::process::geteuid().is_root() {
        return Err(Refusal::SetUser(path.to_owned()));
    }
    if !bytes.starts_with(&elf::ELFMAG) {
        return Err(Refusal::Nothing(path.to_owned()));
    }
    let foreign = || Refusal::Foreign(path.to_owned());
    let header = elf::FileHeader64::<Endianness>::parse(bytes).map_err(|_| foreign())?;
    let endian = header.endian().map_err(|_| foreign())?;
    if header.e_machine(endian) != elf::EM_X86_64 {
        return Err(foreign());
    }
    let segments = header.program_headers(endian, bytes).map_err(|_| foreign())?;
    if !segments.iter().any(|segment| segment.p_type(endian) == elf::PT_INTERP) {
        return Err(Refusal::Static(path.to_owned()));
    }
    let sections = header.sections(endian, bytes).map_err(|_| foreign())?;
    if sections.section_by_name(endian, GO_SECTION).is_some() { Err(Refusal::Go(path.to_owned())) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(bytes: &[u8]) -> (tempfile::TempDir, PathBuf) {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("program");
        fs::write(&path, bytes).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        (directory, path)
    }

    #[test]
    fn programs_are_told_apart() {
        let own = std::env::current_exe().unwrap();
        check(&own).unwrap();
        check(&find(OsStr::new("sh")).unwrap()).unwrap();
        assert!(matches!(find(OsStr::new("no such program")), Err(Refusal::Missing(..))));
        let refused = |bytes: &[u8]| {
            let (_directory, path) = written(bytes);
            check(&path).unwrap_err()
        };
        assert!(matches!(refused(b"hello"), Refusal::Nothing(_)));
        let (_directory, plain) = written(b"#!/bin/sh\n");
        fs::set_permissions(&plain, fs::Permissions::from_mode(0o644)).unwrap();
        assert!(matches!(check(&plain), Err(Refusal::Denied(_))));
        assert!(matches!(refused(b"#!/no/such/interpreter\n"), Refusal::Missing(..)));
        assert!(matches!(refused(b"\x7fELF"), Refusal::Foreign(_)));
        let (_directory, script) = written(b"#!/usr/bin/env -S A=1 sh\necho\n");
        check(&script).unwrap();
        let (_directory, itself) = written(b"#!");
        assert!(matches!(check(&itself), Err(Refusal::Nothing(_))));
        // This program again: with a section of Go's, by another's name of as many letters; then without the segment that names
        // its loader.
        let mut bytes = fs::read(&own).unwrap();
        let mut go = bytes.clone();
        let other = b".eh_frame_hdr";
        let places: Vec<usize> = (0..go.len() - other.len()).filter(|at| go[*at..].starts_with(other)).collect();
        assert!(!places.is_empty());
        for at in places {
            go[at..at + other.len()].copy_from_slice(GO_SECTION);
        }
        assert!(matches!(refused(&go), Refusal::Go(_)));
        let first = u64::from_le_bytes(bytes[32..40].try_into().unwrap()) as usize;
        let count = usize::from(u16::from_le_bytes(bytes[56..58].try_into().unwrap()));
        for segment in 0..count {
            let at = first + segment * 56;
            if bytes[at..at + 4] == 3u32.to_le_bytes() {
                bytes[at..at + 4].copy_from_slice(&0u32.to_le_bytes());
            }
        }
        assert!(matches!(refused(&bytes), Refusal::Static(_)));
        bytes[18] = 0xb7;
        assert!(matches!(refused(&bytes), Refusal::Foreign(_)));
    }
}
