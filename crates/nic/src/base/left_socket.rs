//! Sockets that a killed program has left in the file system. Whoever wants such a name removes them by [`remove_left_behind`], or binds
//! by [`bind_in_place`].

use std::io::{self, ErrorKind};
use std::os::unix::fs::FileTypeExt;
use std::os::unix::net::UnixStream;
use std::path::Path;

/// Whether there is a Unix socket at `path` that no program has any more, of whatever type. A file of another kind is none, and
/// neither is a link: the name may have been mistyped.
fn is_left_behind(path: &Path) -> bool {
    let is_socket = std::fs::symlink_metadata(path).is_ok_and(|file| file.file_type().is_socket());
    // Of a living socket of another type the kernel says so (EPROTOTYPE).
    is_socket && UnixStream::connect(path).is_err_and(|error| error.kind() == ErrorKind::ConnectionRefused)
}

/// Removes the Unix socket at `path` if no program has it any more. Returns whether it did.
///
/// # Errors
/// It can't be removed.
pub fn remove_left_behind(path: &Path) -> io::Result<bool> {
    if !is_left_behind(path) {
        return Ok(false);
    }
    match std::fs::remove_file(path) {
        // Another program was quicker.
        Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
        _ => Ok(true),
    }
}

/// Binds a Unix socket to `path` by `bind`, in place of one that no program has any more.
///
/// # Errors
/// What `bind` says, or why the old socket can't be removed.
pub fn bind_in_place<T>(path: &Path, mut bind: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    match bind() {
        Err(error) if error.kind() == ErrorKind::AddrInUse && remove_left_behind(path)? => bind(),
        outcome => outcome,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::net::{UnixDatagram, UnixListener};

    #[test]
    fn only_a_socket_that_nobody_has_was_left_behind() {
        let directory = std::env::temp_dir().join(format!("qanat-left-socket-{}", std::process::id()));
        std::fs::create_dir_all(&directory).unwrap();
        let place = |name: &str| directory.join(name);
        let (stream, datagram) =
            (UnixListener::bind(place("stream")).unwrap(), UnixDatagram::bind(place("datagram")).unwrap());
        std::fs::write(place("file"), "precious").unwrap();
        std::os::unix::fs::symlink(place("stream"), place("link")).unwrap();
        for living in ["stream", "datagram", "file", "link", "nothing", "."] {
            assert!(!is_left_behind(&place(living)), "{living}");
        }
        drop((stream, datagram));
        assert!(["stream", "datagram"].into_iter().all(|left| is_left_behind(&place(left))));
        assert!(!is_left_behind(&place("link")));
        let bind = |name: &str| bind_in_place(&place(name), || UnixListener::bind(place(name)));
        let taken = |outcome: io::Result<UnixListener>| outcome.map(drop).map_err(|error| error.kind());
        assert_eq!(taken(bind("file")), Err(ErrorKind::AddrInUse));
        let listener = bind("stream").expect("the name of one that was left behind");
        assert_eq!(taken(bind("stream")), Err(ErrorKind::AddrInUse), "{listener:?} lives");
        assert!(remove_left_behind(&place("datagram")).expect("a directory of our own"));
        assert!(!place("datagram").exists() && place("stream").exists() && place("file").exists());
        assert!(!remove_left_behind(&place("datagram")).expect("nothing to do"));
        std::fs::remove_dir_all(&directory).unwrap();
    }
}
