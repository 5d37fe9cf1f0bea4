//! A zone: its record sets, sorted, from a master file or from records that came otherwise.
//!
//! ```text
//!   master file ─ lexer ─ entries ─ parse ($ORIGIN, $TTL, $INCLUDE, $GENERATE; data by `domain`) ─┐
//!   records of a transfer ────────────────────────────────────────────────────── ZoneBuilder::add ┴─ finish ─▶ Zone
//! ```

mod ambiguity;
mod builder;
pub mod check;
mod data;
mod error;
mod fields;
mod generate;
mod lexer;
mod location;
pub mod members;
mod mnemonics;
pub mod parse;
mod problem;
mod records;
pub mod rtype;
mod scanner;
pub mod text;
mod time;

pub use builder::ZoneBuilder;
pub use error::RecordError;
pub use members::CatalogError;
pub use mnemonics::Words;
pub use problem::{Place, Problem, ZoneError};
pub use records::{RecordView, SetView, Zone};
pub use rtype::type_name;
