//! [`Settings`]: what `cjson` can be told.

/// What becomes of numbers that JSON has no words for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Invalid {
    /// They are refused.
    Refused,
    /// They are written as C does.
    Written,
    /// They are nothing.
    Null,
}

/// See the module. Their first values are those of Redis.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// An array with too many holes is an object, instead of an error.
    pub converts_sparse: bool,
    /// An array may have so many times more places than elements; 0: any number.
    pub sparse_ratio: i64,
    /// So many places are never too many.
    pub sparse_safe: i64,
    /// Tables in tables that are written.
    pub encode_depth: i64,
    /// Arrays and objects in each other that are read.
    pub decode_depth: i64,
    /// Digits of a number that is written.
    pub digits: i64,
    /// It is told again, and means nothing.
    pub keeps_buffer: bool,
    /// Numbers that are written.
    pub encode_invalid: Invalid,
    /// Whether they are read.
    pub decodes_invalid: bool,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            converts_sparse: false,
            sparse_ratio: 2,
            sparse_safe: 10,
            encode_depth: 1_000,
            decode_depth: 1_000,
            digits: 14,
            keeps_buffer: true,
            encode_invalid: Invalid::Refused,
            decodes_invalid: true,
        }
    }
}
