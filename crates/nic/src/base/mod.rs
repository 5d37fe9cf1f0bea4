//! What drivers and middleware stand on, none of it about packets: time, randomness, `errno`, mapped memory, counters.

pub mod breakdown;
pub(crate) mod errno;
pub(crate) mod event_fd;
pub(crate) mod inherited;
pub(crate) mod left_socket;
pub(crate) mod memory_file;
pub(crate) mod null_call;
pub mod place;
pub(crate) mod prefetch;
pub(crate) mod random;
pub(crate) mod spin;
pub(crate) mod time;
