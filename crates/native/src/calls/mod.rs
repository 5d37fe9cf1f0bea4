//! The functions of `libqanat-native`. The header has what is said of each here.
//!
//! What all of them ask of a program: a pointer that is not null is to what its type says, a text ends with a zero byte, and a `qanat`
//! is of `qanat_start` and has not been ended. A null pointer is refused wherever one can't be meant, a number that means nothing as well. A
//! `qanat` is used by the thread that started it, and not from within another call: both are refused too.

#![expect(clippy::missing_safety_doc, reason = "what a caller promises is the same everywhere: the module says it")]

mod areas;
mod connections;
mod datagrams;
mod guard;
mod memory;
mod options;
mod run;
mod texts;

pub use areas::*;
pub use connections::*;
pub use datagrams::*;
pub use guard::Qanat;
pub use memory::*;
pub use options::*;
pub use run::*;
pub use texts::*;
