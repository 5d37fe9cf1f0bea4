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
//!
//! The rooms, each of which uses those before it alone: `arch` (what is written for a processor), `sys`, `sockets`, `world`, `lifecycle`, `calls`.

mod arch;
mod calls;
mod lifecycle;
pub mod script;
mod sockets;
mod sys;
mod world;

#[global_allocator]
static ALLOCATOR: sys::arena::Routed = sys::arena::Routed;
