//! `cjson`: values as JSON, and back.

pub mod library;
pub mod options;
pub mod reader;
pub mod settings;
pub mod writer;
