//! The policy: who may have what, by names and numbers of users.

mod accounts;
mod error;
mod file;
mod names;
mod processors;
mod rule;

pub use accounts::{SUBORDINATE_USERS, Subordinates};
pub use error::PolicyError;
pub(crate) use file::DEFAULT_GROUP;
pub use file::{Grant, NicPolicy, Policy, Standing, UplinkPolicy, VfPolicy, usual_disk_records};
pub use names::{InVain, Names, group_number, has_account};
pub(crate) use processors::NET_CORES_MAX;
pub use processors::{DiskPolicy, NetPolicy, parse_processors};
pub use rule::Rule;
