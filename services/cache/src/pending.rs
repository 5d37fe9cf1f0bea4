//! [`Next`]: what a client's bytes mean after a request: the next one, a value that is coming, or answers for which there was no room.

use crate::binary::header::Request;
use crate::engine::storing::Store;
use crate::items::account::Charge;
use crate::items::item::Value;

/// What a connection goes on with.
#[derive(Debug)]
pub enum Next {
    /// The next request.
    Request,
    /// A value follows.
    Value(Incoming),
    /// So many bytes follow that nobody wants.
    Swallow(u64),
    /// Keys are left, for whose answers there was no room.
    Get(Keys),
    /// All items are told.
    List(Listing),
    /// It is closed when it has what it was owed.
    End,
}

/// A value that is coming, and where it goes.
#[derive(Debug)]
pub struct Incoming {
    pub key: Vec<u8>,
    pub value: Value,
    /// Bytes of the value that have not come.
    pub left: usize,
    /// What has come of the end of its line, in text.
    pub end: Vec<u8>,
    pub store: Store,
    pub then: Then,
    /// Its memory, if it does not come in one go.
    pub charge: Option<Charge>,
}

/// Who is told what came of it.
#[derive(Debug)]
pub enum Then {
    /// A client of text.
    Text { is_quiet: bool },
    /// One of the meta commands.
    Meta(MetaSet),
    /// One of the binary protocol.
    Binary(Request),
}

/// What a client of `ms` is told when the value is stored.
#[derive(Debug)]
pub struct MetaSet {
    pub is_quiet: bool,
    pub is_binary: bool,
    /// `O`, `k` and `c`, in their order.
    pub tokens: Vec<Vec<u8>>,
}

impl Incoming {
    /// A value of this length.
    pub fn new(key: &[u8], length: usize, store: Store, then: Then) -> Incoming {
        let value = Value::with_capacity(key, length);
        Incoming { key: key.to_vec(), value, left: length, end: Vec::new(), store, then, charge: None }
    }
}

/// Keys of a line that have no answers yet.
#[derive(Debug)]
pub struct Keys {
    /// Blanks and keys.
    pub line: Vec<u8>,
    /// Where to go on.
    pub at: usize,
    pub how: How,
}

/// How items are fetched and told.
#[derive(Clone, Copy, Debug)]
pub struct How {
    pub tells_cas: bool,
    /// When items that are fetched end from now on.
    pub expires_s: Option<u32>,
}

/// A walk through all items. Those that come or go meanwhile are told or not.
#[derive(Debug)]
pub struct Listing {
    pub kind: Kind,
    /// The next place.
    pub at: usize,
}

/// What is told of each item.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// What is known of it.
    Meta,
    /// The command that fetches it.
    Commands,
}
