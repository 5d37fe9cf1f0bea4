//! Sockets that a killed program has left in the file system. Their names may be taken over if nobody listens there any more.

use std::io::ErrorKind;
use std::os::unix::fs::FileTypeExt;
use std::os::unix::net::UnixStream;
use std::path::Path;

/// Whether there is a Unix socket at `path` that no program has any more, of whatever type. A file of another kind is none, and
/// neither is a link: the name may have been mistyped.
pub fn is_left_behind(path: &Path) -> bool {
    let is_socket = std::fs::symlink_metadata(path).is_ok_and(|file| file.file_type().is_socket());
    // Of a living socket of another type the kernel says so (EPROTOTYPE).
    is_socket && UnixStream::connect(path).is_err_and(|error| error.kind() == ErrorKind::ConnectionRefused)
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
        std::fs::remove_dir_all(&directory).unwrap();
    }
}
