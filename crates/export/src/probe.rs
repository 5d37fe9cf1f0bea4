//! Whether somebody answers behind a mount. Asking may hang, so a thread of its own asks.

use rustix::fs::statfs;
use rustix::io::Errno;
use std::path::Path;
use std::sync::mpsc::{RecvTimeoutError, sync_channel};
use std::time::Duration;

/// How long an application may be silent before its mount is taken away: then readers that wait get an error.
pub const SILENCE_MAX: Duration = Duration::from_secs(5);

/// What was found behind a mount.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Health {
    /// Somebody answers.
    Answers,
    /// The application is gone.
    Dead,
    /// The application is there, perhaps stopped, and does not answer.
    Silent,
}

/// Asks what is mounted at a path, and waits so long for an answer. If there is none, a thread is left that ends when the mount does.
pub fn probe(path: &Path, patience: Duration) -> Health {
    let (tell, told) = sync_channel(1);
    let path = path.to_owned();
    let asking = std::thread::Builder::new().name("qanat-probe".to_owned()).spawn(move || {
        // Who has stopped waiting needs no answer.
        let _ = tell.send(statfs(&path).map(drop));
    });
    if asking.is_err() {
        return Health::Silent;
    }
    match told.recv_timeout(patience) {
        Ok(Ok(())) => Health::Answers,
        // A mount that refuses this user is alive.
        Ok(Err(Errno::ACCESS | Errno::PERM)) => Health::Answers,
        Ok(Err(_)) | Err(RecvTimeoutError::Disconnected) => Health::Dead,
        Err(RecvTimeoutError::Timeout) => Health::Silent,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_there_answers_and_what_is_not_is_dead() {
        assert_eq!(probe(Path::new("/"), SILENCE_MAX), Health::Answers);
        assert_eq!(probe(Path::new("/nowhere/at/all"), SILENCE_MAX), Health::Dead);
    }
}
