//! [`RdbError`]: what is wrong with a dump, and where.

/// What is wrong with a dump, and where.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RdbError {
    /// The byte behind the last one that was read.
    pub offset: u64,
    /// The key that was read then.
    pub key: Option<Vec<u8>>,
    /// What is wrong.
    pub wrong: Wrong,
}

impl std::fmt::Display for RdbError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "byte {}", self.offset)?;
        if let Some(key) = &self.key {
            write!(f, ", key \"{}\"", key.escape_ascii())?;
        }
        write!(f, ": {}", self.wrong)
    }
}

impl std::error::Error for RdbError {}

/// What can be wrong.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Wrong {
    /// It can't be read.
    #[error("it can't be read: {0}")]
    Unreadable(std::io::ErrorKind),
    /// It ends too early.
    #[error("the dump ends here, in the middle of something")]
    Truncated,
    /// It does not begin with `REDIS` and four digits.
    #[error("this is no dump of Redis: it does not begin with REDIS and a version")]
    NoDump,
    /// A version that is not known.
    #[error("version {0} of the format is not known: 1 to {most} are", most = super::kind::VERSION_READ)]
    Version(u32),
    /// The checksum is another one.
    #[error("the checksum is {found:016x}, and that of the dump's bytes is {wanted:016x}: it is damaged")]
    Checksum {
        /// What is written.
        found: u64,
        /// What it would have to be.
        wanted: u64,
    },
    /// No length.
    #[error("this is no length")]
    Length,
    /// Too long.
    #[error("{bytes} bytes are too long: at most {most}")]
    TooLong {
        /// What is promised.
        bytes: u64,
        /// What may be.
        most: u64,
    },
    /// The value has too much.
    #[error("the value has more than may be kept for one key")]
    TooLarge,
    /// A compressed string that is none.
    #[error("a compressed string is damaged")]
    Compressed,
    /// A type of values that is not known.
    #[error("type {0} of values is not known")]
    Type(u8),
    /// A kind of value that can't be kept here.
    #[error("the key has a {kind} (type {number}), which is not kept here")]
    Unsupported {
        /// What it is.
        kind: &'static str,
        /// Its number.
        number: u8,
    },
    /// Packed elements that are none.
    #[error("a {0} is damaged")]
    Packed(&'static str),
    /// The same member or field twice.
    #[error("a member or field is there twice")]
    Duplicate,
    /// A collection without elements.
    #[error("a collection has no elements")]
    Empty,
    /// A score that is no number.
    #[error("a score is no number")]
    Score,
    /// A database that is not there.
    #[error("there is no database {0}: 0 to {last} are there", last = crate::keyspace::space::DATABASES - 1)]
    Database(u64),
}
