//! `libqanat_packetdrill.so`: the sockets of [`qanat_posix`] behind the interface that packetdrill's `--so_filename` loads, so
//! that packetdrill's scripts run on the user-level stack. `tools/packetdrill` runs them.
//!
//! A script has two threads. One runs the script: it hands packets in and out and lets time pass, by the functions in `wire`. The other
//! makes the calls that may block. They are in `calls` and have the C library's names, which are ours in a process that loads this
//! library before others. So it must be loaded that way, by `LD_PRELOAD`, which packetdrill's own use of `sendfile` and `close` needs
//! anyway, or with `RTLD_DEEPBIND`.

mod calls;
mod interface;
mod quiet;
mod wire;

pub use interface::{Interface, packetdrill_interface_init};
