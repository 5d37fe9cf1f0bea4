//! What commands say on standard output. A reader that has gone (`qanat status | head -1`) is no error: the command ends as if
//! it had said everything. Any other failure to write (a full disk) is told, and the command fails.

use std::fmt::Arguments;
use std::io::{self, ErrorKind, Write};

/// As `println!`, which would panic when nobody reads any more.
macro_rules! sayln {
    ($($arguments:tt)*) => { $crate::say::write(format_args!("{}\n", format_args!($($arguments)*))) };
}

/// As `print!`, which would panic when nobody reads any more.
macro_rules! say {
    ($($arguments:tt)*) => { $crate::say::write(format_args!($($arguments)*)) };
}

pub(crate) use {say, sayln};

/// Writes to standard output, or ends the process.
pub(crate) fn write(text: Arguments<'_>) {
    match io::stdout().lock().write_fmt(text) {
        Ok(()) => {}
        Err(error) if error.kind() == ErrorKind::BrokenPipe => std::process::exit(0),
        Err(error) => {
            crate::log::error!("failed", "write to standard output: {error}");
            std::process::exit(crate::exit::FAILED.into())
        }
    }
}

/// Says what a command has done: for people, or for programs.
pub(crate) fn done(json: bool, fields: &serde_json::Value, text: &str) {
    match json || crate::log::is_json() {
        true => sayln!("{fields}"),
        false if crate::log::tells(crate::log::Level::Info) => sayln!("{text}"),
        false => {}
    }
}
