//! [`Options`]: how a store is opened.

/// What is done if the area holds no store.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) enum Make {
    /// It is refused.
    #[default]
    Never,
    /// One is made if the area is empty: its first 64 KiB are zero.
    IfEmpty([u8; 16]),
    /// One is made, whatever is there.
    Always([u8; 16]),
}

/// How a store is opened. The default opens what is there, to read and write.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Options {
    pub(crate) make: Make,
    pub(crate) is_read_only: bool,
    pub(crate) pending_bytes_max: u64,
    pub(crate) record_bytes_max: usize,
    pub(crate) log_bytes: Option<u64>,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            make: Make::Never,
            is_read_only: false,
            pending_bytes_max: 16 << 20,
            record_bytes_max: 64 << 20,
            log_bytes: None,
        }
    }
}

impl Options {
    /// Makes a store if the area is empty, that is, if its first 64 KiB are zero. `identity` is 16 random bytes: what another store left
    /// in the area is told from this one's by them.
    #[must_use]
    pub fn make_if_empty(self, identity: [u8; 16]) -> Options {
        Options { make: Make::IfEmpty(identity), ..self }
    }

    /// Makes a store whatever is in the area now, which is lost. `identity` as in [`make_if_empty`](Self::make_if_empty).
    #[must_use]
    pub fn overwrite(self, identity: [u8; 16]) -> Options {
        Options { make: Make::Always(identity), ..self }
    }

    /// Nothing is written: what there is is read and checked, and changes are refused.
    #[must_use]
    pub fn read_only(self) -> Options {
        Options { is_read_only: true, make: Make::Never, ..self }
    }

    /// So many bytes may wait for the disk; what is beyond is refused until some of them are durable (16 MiB).
    #[must_use]
    pub fn pending_bytes_max(self, bytes: u64) -> Options {
        Options { pending_bytes_max: bytes, ..self }
    }

    /// No record is longer than this (64 MiB). A record that is longer than a frame is put together in memory when it is read.
    #[must_use]
    pub fn record_bytes_max(self, bytes: usize) -> Options {
        Options { record_bytes_max: bytes, ..self }
    }

    /// Bytes of the log of a store that is made, instead of all (a log, a queue) or of a sixteenth of the area (objects).
    #[must_use]
    pub fn log_bytes(self, bytes: u64) -> Options {
        Options { log_bytes: Some(bytes), ..self }
    }
}
