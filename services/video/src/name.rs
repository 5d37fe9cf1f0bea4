//! Names of films and of their files, and how an object of the area is called.
//!
//! ```text
//!  object's name:  film / file … 0 seconds          "big-buck/video_0.m4s\01764309600"
//! ```
//! The seconds since 1970, in decimal, say when it was added: what a client is told as `Last-Modified`.

use std::path::{Component, Path};

/// Bytes of a film's name, at most.
pub const FILM_BYTES_MAX: usize = 64;
/// Bytes of the path of a film's file below it, at most.
pub const FILE_BYTES_MAX: usize = 512;

/// Why something can't be called so.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum NameError {
    /// A film's name.
    #[error(
        "{0:?} can't be a film's name: 1 to {FILM_BYTES_MAX} letters, digits, dots, dashes and underscores, the first of which is no dot; give one by --name"
    )]
    Film(String),
    /// A file's.
    #[error(
        "{0:?}: files of a film have names of printable letters that don't begin with a dot, {FILE_BYTES_MAX} bytes with their folders at most; rename it"
    )]
    File(String),
}

/// Checks a film's name. It is a part of addresses.
///
/// # Errors
/// [`NameError::Film`].
pub fn check_film(name: &str) -> Result<(), NameError> {
    let is_good = |byte: u8| byte.is_ascii_alphanumeric() || b".-_".contains(&byte);
    let is_name = (1..=FILM_BYTES_MAX).contains(&name.len()) && !name.starts_with('.') && name.bytes().all(is_good);
    if is_name { Ok(()) } else { Err(NameError::Film(name.to_owned())) }
}

/// The name of a film that comes as a file or folder, with dashes for what a name can't have.
pub fn film_of(path: &Path) -> String {
    let stem = path.file_stem().map(|stem| stem.to_string_lossy().into_owned()).unwrap_or_default();
    let letters = stem.chars().map(|letter| match letter {
        letter if letter.is_ascii_alphanumeric() || "-_".contains(letter) => letter,
        _ => '-',
    });
    let name: String = letters.take(FILM_BYTES_MAX).collect();
    name.trim_matches('-').to_owned()
}

/// The path of a file below its film.
///
/// # Errors
/// [`NameError::File`].
pub fn file_of(path: &Path) -> Result<String, NameError> {
    let wrong = || NameError::File(path.display().to_string());
    let mut file = String::new();
    for component in path.components() {
        let Component::Normal(part) = component else { return Err(wrong()) };
        let part = part.to_str().filter(|part| !part.starts_with('.')).ok_or_else(wrong)?;
        if !part.chars().all(|letter| !letter.is_control()) {
            return Err(wrong());
        }
        if !file.is_empty() {
            file.push('/');
        }
        file.push_str(part);
    }
    if (1..=FILE_BYTES_MAX).contains(&file.len()) { Ok(file) } else { Err(wrong()) }
}

/// What an object is called.
pub fn of_object(film: &str, file: &str, added_s: u64) -> Vec<u8> {
    format!("{film}/{file}\0{added_s}").into_bytes()
}

/// The path of an object, and when it was added; `None`: no object of a film is called so.
pub fn parse(object: &[u8]) -> Option<(&str, u64)> {
    let (path, added_s) = std::str::from_utf8(object).ok()?.split_once('\0')?;
    let (film, file) = path.split_once('/')?;
    check_film(film).ok()?;
    (file_of(Path::new(file)).as_deref() == Ok(file)).then_some((path, added_s.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_made_is_parsed_and_nothing_else_is() {
        let name = of_object("film", "hd/video_0.m4s", 1_764_309_600);
        assert_eq!(parse(&name), Some(("film/hd/video_0.m4s", 1_764_309_600)));
        for wrong in [
            "film/x",
            "film\u{0}5",
            "/x\u{0}5",
            "film/\u{0}5",
            "film/../x\u{0}5",
            "film/.x\u{0}5",
            "film/a//b\u{0}5",
            "film/x\0five",
            ".film/x\u{0}5",
        ] {
            assert_eq!(parse(wrong.as_bytes()), None, "{wrong:?}");
        }
        assert_eq!(parse(&[0xff, b'/', b'x', 0, b'5']), None);
    }

    #[test]
    fn a_name_is_made_of_what_a_path_has() {
        assert_eq!(film_of(Path::new("/films/Big Buck (2008).mp4")), "Big-Buck--2008");
        assert!(check_film(&film_of(Path::new("a.b.mp4"))).is_ok());
        assert!(check_film(&film_of(Path::new("/"))).is_err());
        assert!(file_of(Path::new("../x")).is_err() && file_of(Path::new("a/b.m4s")).as_deref() == Ok("a/b.m4s"));
    }
}
