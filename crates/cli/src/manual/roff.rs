//! A page for `man`.

use crate::version::VERSION;
use clap::Command;
use clap_mangen::Man;
use clap_mangen::roff::{Roff, roman};
use std::io;

/// How the names of such pages end.
pub const SUFFIX: &str = "1";

/// What `--help` says of a command.
pub fn page_of(command: &Command) -> io::Result<Vec<u8>> {
    let mut text = Vec::new();
    let man = Man::new(command.clone()).source(format!("qanat {VERSION}")).manual("Qanat");
    man.render_title(&mut text)?;
    man.render_name_section(&mut text)?;
    man.render_synopsis_section(&mut text)?;
    man.render_description_section(&mut text)?;
    man.render_options_section(&mut text)?;
    if command.has_subcommands() {
        man.render_subcommands_section(&mut text)?;
    }
    let mut rest = Roff::new();
    if let Some(examples) = command.get_after_help() {
        rest.control("SH", ["EXAMPLES"]);
        // Lines are as they were written: an example's words are in columns.
        rest.control("nf", []);
        let examples = examples.to_string();
        for line in examples.strip_prefix("Examples:\n").unwrap_or(&examples).lines() {
            rest.text([roman(line)]);
        }
        rest.control("fi", []);
    }
    rest.control("SH", ["SEE ALSO"]);
    rest.text([roman("qanat(1), qanatd(8)")]);
    rest.to_writer(&mut text)?;
    Ok(text)
}
