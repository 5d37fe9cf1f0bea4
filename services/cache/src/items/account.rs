//! [`Account`]: memory of values that may be lent to the stack, which may keep it longer than the cache does.

use bytes::Bytes;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Bytes of memory that is counted wherever it is: in the cache, on its way to a client that does not take it, or half received.
/// The last who holds a value gives its memory back. Clones are the same account.
#[derive(Clone, Debug, Default)]
pub struct Account(Arc<AtomicU64>);

impl Account {
    /// How much there is.
    pub fn bytes(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    /// A value whose memory is counted until nobody holds it any more.
    pub fn lend(&self, value: Vec<u8>) -> Bytes {
        let value = value.into_boxed_slice();
        let charge = Charge::new(self, lent_cost(value.len()));
        Bytes::from_owner(Lent { value, _charge: charge })
    }

    /// Counts so many bytes until the charge is dropped.
    pub fn charge(&self, bytes: u64) -> Charge {
        Charge::new(self, bytes)
    }
}

/// Bytes that are counted for as long as this is there.
#[derive(Debug)]
pub struct Charge {
    account: Account,
    bytes: u64,
}

impl Charge {
    fn new(account: &Account, bytes: u64) -> Charge {
        account.0.fetch_add(bytes, Ordering::Relaxed);
        Charge { account: account.clone(), bytes }
    }

    /// So many from now on.
    pub fn set(&mut self, bytes: u64) {
        self.account.0.fetch_add(bytes, Ordering::Relaxed);
        self.account.0.fetch_sub(self.bytes, Ordering::Relaxed);
        self.bytes = bytes;
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        self.account.0.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

struct Lent {
    value: Box<[u8]>,
    _charge: Charge,
}

impl AsRef<[u8]> for Lent {
    fn as_ref(&self) -> &[u8] {
        &self.value
    }
}

/// What a lent value takes: its bytes, and who counts them.
pub fn lent_cost(length: usize) -> u64 {
    cost_of(length) + 80
}

/// What a block of memory takes of the allocator: it rounds up to 16 bytes, and has 8 of its own.
pub fn cost_of(length: usize) -> u64 {
    (length as u64 + 8).next_multiple_of(16).max(32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_counted_until_the_last_has_let_go() {
        let account = Account::default();
        let value = account.lend(vec![1; 100]);
        let part = value.slice(10..20);
        assert_eq!(account.bytes(), 112 + 80);
        drop(value);
        assert_eq!(account.bytes(), 112 + 80, "a part of it holds all of it");
        drop(part);
        assert_eq!(account.bytes(), 0);
        let mut charge = account.charge(50);
        charge.set(20);
        assert_eq!(account.bytes(), 20);
        drop(charge);
        assert_eq!(account.bytes(), 0);
    }
}
