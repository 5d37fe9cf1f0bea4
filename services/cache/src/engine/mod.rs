//! What requests do to items, whatever protocol they come by.
//!
//! It knows neither network nor protocol, and its time is what it is told.

pub mod arithmetic;
pub mod counts;
pub mod fetching;
pub mod settings;
pub mod state;
pub mod storing;
pub mod users;
