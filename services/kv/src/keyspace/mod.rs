//! The keyspace: sixteen databases of keys and values in memory. All that changes it is a [`change::Change`], which is written down before
//! anybody is answered; applied again, in order, the changes give the same keyspace.

pub mod change;
pub mod database;
pub mod dump;
pub mod events;
pub mod hash;
pub mod leb;
pub mod libraries;
pub mod list;
pub mod memory;
pub mod order;
pub mod packed;
pub mod ranked;
pub mod ready;
pub mod set;
pub mod shapes;
pub mod sorted;
pub mod space;
pub mod stream;
pub mod text;
pub mod touched;
pub mod usage;
pub mod value;
pub mod watch;
