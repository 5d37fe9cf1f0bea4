//! `libqanat.so`: the sockets API for unmodified programs, over the user-level stack. Loaded before a program's other libraries
//! (`qanat run -- PROGRAM`), its functions take the place of the C library's.
//!
//! ```text
//!  program ── bind, recv, epoll_wait, … ──▶ is it a socket of the VNIC's address? ── no ──▶ C library ──▶ kernel
//!                                                    │ yes
//!                     World: stack, VNIC, sockets, in memory shared by the program's processes, under one lock
//!                                                    │
//!                          driven by one of the threads that wait; by the keeper, a process of its own, if none does
//! ```
//! * Every descriptor is a real one of the kernel's: a socket of ours stands in the kernel's table as one that is bound to
//!   nothing. A socket becomes ours when it is bound, or connected, to where the VNIC leads; until then, and else, it is the
//!   kernel's.
//! * A child of `fork` sees the same sockets, as on Linux. A program that ends, or is killed, has its connections closed by
//!   the keeper.

mod address;
mod arena;
mod attach;
mod away;
mod bells;
mod calls;
mod class;
#[cfg(feature = "breakdown")]
mod counted;
mod deputy;
mod descriptor;
mod door;
mod ending;
mod epoll;
mod explain;
mod fallback;
mod helper;
mod identity;
mod join;
mod keeper;
mod lead;
mod local;
mod lock;
mod lowering;
mod meeting;
mod memory_limits;
mod mourner;
mod numbers;
mod obituary;
mod offspring;
mod page;
mod peers;
mod process;
mod pump;
mod raw;
mod real;
mod report;
mod roll;
mod room;
mod runs;
pub mod script;
mod socket;
mod sockets;
mod start;
mod summons;
#[allow(dead_code, reason = "the command prints the rest of it")]
mod support;
mod sysctl;
mod target;
mod transit;
mod wait;
mod watchdog;
mod wire;
mod word;
mod world;

#[global_allocator]
static ALLOCATOR: arena::Routed = arena::Routed;
