//! [`Shapes`]: up to which sizes collections are small to those who ask by `OBJECT ENCODING`, and the settings of Redis that say so.

/// A setting: its name, its name before 7.0 if it had another one, its value at first, and the values that it takes.
type Setting = (&'static str, Option<&'static str>, i64, std::ops::RangeInclusive<i64>);

/// All of them. Those of lists are kept and shown, and change nothing.
const SETTINGS: [Setting; 10] = [
    ("hash-max-listpack-entries", Some("hash-max-ziplist-entries"), 512, 0..=i64::MAX),
    ("hash-max-listpack-value", Some("hash-max-ziplist-value"), 64, 0..=i64::MAX),
    ("set-max-intset-entries", None, 512, 0..=i64::MAX),
    ("zset-max-listpack-entries", Some("zset-max-ziplist-entries"), 128, 0..=i64::MAX),
    ("zset-max-listpack-value", Some("zset-max-ziplist-value"), 64, 0..=i64::MAX),
    ("list-max-listpack-size", Some("list-max-ziplist-size"), -2, i32::MIN as i64..=i32::MAX as i64),
    ("list-compress-depth", None, 0, 0..=i32::MAX as i64),
    ("stream-node-max-bytes", None, 4096, 0..=i64::MAX),
    ("stream-node-max-entries", None, 100, 0..=i64::MAX),
    ("hll-sparse-max-bytes", None, 3000, 0..=i64::MAX),
];

/// How large a collection may be, and one of its elements.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Small {
    /// Elements.
    pub entries: usize,
    /// Bytes of an element.
    pub bytes: usize,
}

/// Why a setting can't have a value, as Redis words it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum ShapeError {
    /// It is no number.
    #[error("argument couldn't be parsed into an integer")]
    NotInteger,
    /// It is too small or too large.
    #[error("argument must be between {least} and {most} inclusive")]
    Range {
        /// The least one that it can have.
        least: i64,
        /// The greatest one.
        most: i64,
    },
}

/// See the module. A collection that was large once stays so.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Shapes([i64; SETTINGS.len()]);

impl Default for Shapes {
    fn default() -> Shapes {
        Shapes(SETTINGS.map(|(_, _, value, _)| value))
    }
}

impl Shapes {
    fn size(&self, index: usize) -> usize {
        let value = self.0.get(index).copied().unwrap_or(0);
        usize::try_from(value).unwrap_or(0)
    }

    /// Of a hash that is a `listpack`.
    pub fn hash(&self) -> Small {
        Small { entries: self.size(0), bytes: self.size(1) }
    }

    /// Of a set that is an `intset`: how many integers.
    pub fn set(&self) -> usize {
        self.size(2)
    }

    /// Of a sorted set that is a `listpack`.
    pub fn sorted(&self) -> Small {
        Small { entries: self.size(3), bytes: self.size(4) }
    }

    /// Entries of a stream that lie together in Redis. Trimming with `~` ends where a piece does.
    pub fn stream_entries(&self) -> usize {
        self.size(8)
    }

    /// Bytes of a HyperLogLog whose registers are runs, at most.
    pub fn sparse_bytes(&self) -> usize {
        self.size(9)
    }

    /// What `CONFIG GET` shows, by both names.
    pub fn list(&self) -> impl Iterator<Item = (&'static str, String)> + use<> {
        let shown = SETTINGS.into_iter().zip(self.0);
        shown.flat_map(|((name, old, ..), value)| {
            [Some(name), old].into_iter().flatten().map(move |name| (name, value.to_string()))
        })
    }

    /// Sets one; whether there is one of that name.
    ///
    /// # Errors
    /// What is wrong with the value.
    pub fn set_by_name(&mut self, name: &str, value: Option<i64>) -> Result<bool, ShapeError> {
        let mut settings = SETTINGS.into_iter().zip(&mut self.0);
        let Some(((.., range), place)) = settings.find(|((one, other, ..), _)| *one == name || *other == Some(name))
        else {
            return Ok(false);
        };
        let value = value.ok_or(ShapeError::NotInteger)?;
        if !range.contains(&value) {
            return Err(ShapeError::Range { least: *range.start(), most: *range.end() });
        }
        *place = value;
        Ok(true)
    }
}
