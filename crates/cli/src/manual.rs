//! `qanat manual`: a page of the manual for each command, of what `--help` says.

use crate::say::done;
use crate::version::VERSION;
use clap::{Args, Command};
use clap_mangen::Man;
use clap_mangen::roff::{Roff, roman};
use serde_json::json;
use std::io;
use std::path::{Path, PathBuf};

/// Write a page of the manual for each command
#[derive(Args)]
#[command(after_help = "\
Examples:
  qanat manual --to /tmp/manual                 qanat-web.1, qanat-load-http.1 and the others
  man /tmp/manual/qanat-web.1
`make install` writes them where `man qanat-web` finds them. qanat(1) and qanatd(8) are written by hand.")]
pub struct Arguments {
    /// Directory where they are written; it is made if it is not there
    #[arg(long, value_name = "DIRECTORY")]
    to: PathBuf,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// Writes them. `program`: this program's commands and options.
pub fn run(arguments: &Arguments, program: Command) -> Result<(), String> {
    let program = program.disable_help_subcommand(true);
    let to = &arguments.to;
    std::fs::create_dir_all(to).map_err(|error| format!("{}: {error}", to.display()))?;
    let mut pages = Vec::new();
    below(&built(program), to, &mut pages)?;
    let text = format!("{}: {} pages", to.display(), pages.len());
    done(arguments.json, &json!({ "directory": to, "pages": pages }), &text);
    Ok(())
}

/// With the whole name of each command in it.
fn built(mut program: Command) -> Command {
    program.build();
    program
}

/// Writes a page for each command below one. What processes of ours start is nobody's to type.
fn below(command: &Command, to: &Path, pages: &mut Vec<PathBuf>) -> Result<(), String> {
    for command in command.get_subcommands().filter(|command| !command.is_hide_set()) {
        let name = command.get_display_name().unwrap_or_else(|| command.get_name());
        let page = to.join(format!("{name}.1"));
        let text = page_of(command).map_err(|error| error.to_string())?;
        std::fs::write(&page, text).map_err(|error| format!("{}: {error}", page.display()))?;
        pages.push(page);
        below(command, to, pages)?;
    }
    Ok(())
}

fn page_of(command: &Command) -> io::Result<Vec<u8>> {
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
