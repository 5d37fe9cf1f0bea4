//! `libqanat-native`: the native API for C, and for languages that call C. `docs/native.md` is its page, `include/qanat-native.h` its header,
//! which a test makes of this crate.
//!
//! ```text
//!  C, Python, Go ── qanat_next ──▶ [calls] ── Native ── Runtime::run_until ── stack, net core or kernel
//!       ▲              commands ──▶   │          │
//!       └── struct qanat_event[] ◀────┘     Inbox: events of a turn, and the memory that they lend
//! ```
//! A program has a loop of its own: it asks for the next events, handles each, and asks again. What it commands meanwhile leaves with
//! the next turn. So nothing of the program's runs inside the library, and it is the same in each language.
//!
//! * Handles are numbers. One whose object is gone is refused, never mistaken for another's.
//! * Memory that the library lends is told by such a number, too. The program gives it back by it.
//! * The layout of what is exchanged is fixed ([`event`], [`address`]), and a test has its sizes. Functions are added, and not changed: each has
//!   the version of the library that it came with.
//!
//! `unsafe` code is in [`calls`] and [`lent`], where pointers of the program's become values, and in `harness`, which is such a program.

pub mod address;
pub mod calls;
pub mod event;
#[cfg(feature = "harness")]
pub mod harness;
mod inbox;
pub mod lent;
mod memory;
mod native;
mod options;
mod place;
pub mod status;

pub use native::Native;
