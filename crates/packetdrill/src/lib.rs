//! `libqanat_packetdrill.so`: the sockets of [`qanat_posix`] behind the interface that packetdrill's `--so_filename` loads, so
//! that packetdrill's scripts run on the user-level stack. `tools/packetdrill` runs them.
//!
//! Of a script's two threads one runs the script (it hands packets in and out, and has time pass), the other makes the calls that
//! may block. The functions for the former are in `wire`. Those for the latter, in `calls`, are the C library's names, which in a
//! process that has this library loaded before others are ours. It must be so loaded (`LD_PRELOAD`, which packetdrill's own use of
//! `sendfile` and `close` needs anyway, or `RTLD_DEEPBIND`).

mod calls;
mod interface;
mod quiet;
mod wire;

pub use interface::{Interface, packetdrill_interface_init};
