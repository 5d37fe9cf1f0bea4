//! Items in memory: found by key, ordered by use, within a bound.
//!
//! * [`item`]: an item. [`index`]: by key. [`order`]: by use. [`account`]: memory that is lent to the stack.
//! * [`store`]: all of them together.

pub mod account;
pub mod index;
pub mod item;
pub mod order;
pub mod store;
